//! Programs that are not one loop of steps.

use super::*;
use crate::budget::{credit::STEPS_STOPPED_AFTER_NS, slices::DETACH_STUCK_AFTER_NS};

const QUIET: Moment = Moment {
    changes: 0,
    is_quiet: true,
};

/// A budget that knows a step of 20 ms and has credit for a slice, and the current time.
fn armed_budget() -> (Budget, i64) {
    let budget = Budget::new(20_000, false).unwrap();
    let mut now = 1_000_000 * MS;
    begin(&budget, now);
    while !matches!(budget.state.lock().unwrap().phase, BudgetPhase::Armed(_)) {
        budget.range_begins(b"step", now, QUIET);
        budget.range_ends(b"step", (now, now + 20 * MS), Some(false));
        now += 20 * MS;
    }
    (budget, now)
}

/// Labels of `llmprof_harness.step` carry different numbers in every step.
#[test]
fn steps_whose_labels_count_tokens_are_steps_of_one_name() {
    let budget = Budget::new(20_000, false).unwrap();
    let mut now = 1_000_000 * MS;
    begin(&budget, now);
    for cached in 512.. {
        let label = format!("llmprof.step decode batch=8 new=1 cached={cached}");
        if budget.range_begins(label.as_bytes(), now, QUIET) {
            break;
        }
        budget.range_ends(label.as_bytes(), (now, now + 20 * MS), Some(false));
        now += 20 * MS;
        assert!(cached < 1512, "no slice begins with a step");
    }
}

/// Threads with overlapping steps of 20 ms; all wait while recording is switched, which takes 5 ms. Returns the share of
/// time spent on switching and recording.
fn simulate_threads(threads: usize) -> f64 {
    let budget = Budget::new(20_000, false).unwrap();
    let start = sys::now_ns();
    begin(&budget, start);
    let mut switches = Switches::default();
    let (mut now, mut on, mut recorded) = (start, false, recorded_launches(0.0));
    let mut begun = vec![None; threads];
    // A thread does something every millisecond, one after the other.
    for turn in 0_usize.. {
        if now - start > 20_000 * MS {
            break;
        }
        now += MS / threads as i64;
        let (thread, phase) = (
            turn % threads,
            (turn / threads + 20 / threads * (turn % threads)) % 20,
        );
        let mut to = None;
        if phase == 19
            && let Some((since, changes)) = begun[thread].take()
        {
            let whole = (changes == switches.count).then_some(on);
            to = budget
                .range_ends(b"step", (since, now), whole)
                .then_some(false);
        } else if phase == 0 {
            let moment = Moment {
                changes: switches.count,
                is_quiet: !on,
            };
            to = budget.range_begins(b"step", now, moment).then_some(true);
        }
        if on && phase < 19 {
            recorded.launches += 50.0;
            now += 50 * 2500 / threads as i64;
        }
        if turn % 40 == 0 {
            let mut nothing = recorded_launches(0.0);
            let counted = if on { &mut nothing } else { &mut recorded };
            to = budget.tick((now, now), counted, switches, true).or(to);
        }
        if let Some(to) = to.filter(|&to| to != on) {
            on = to;
            now += 5 * MS;
            switches.count += 1;
            switches.time += 5 * MS;
        }
        if phase == 0 {
            begun[thread] = Some((now, switches.count));
        }
    }
    assert!(switches.count >= 10, "{switches:?}");
    let launched = budget.state.lock().unwrap().slices.count as f64;
    let recording = launched * 20.0 * 50.0 * 2500.0;
    (switches.time as f64 + recording) / (now - start) as f64
}

#[test]
fn steps_of_many_threads_earn_no_more_than_the_time_they_take() {
    for threads in [1, 2, 4, 10] {
        let share = simulate_threads(threads);
        assert!(share <= 0.021, "{share} by {threads}");
    }
}

#[test]
fn a_step_inside_a_step_of_its_name_earns_once() {
    let budget = Budget::new(20_000, false).unwrap();
    for step in 0..5 {
        let begin = step * 20 * MS;
        budget.range_ends(b"block", (begin + 5 * MS, begin + 10 * MS), Some(false));
        budget.range_ends(b"block", (begin, begin + 20 * MS), Some(false));
    }
    // The first of them was not known to be a step.
    let state = budget.state.lock().unwrap();
    assert!(
        state.credit.amount <= 0.02 * 80e6,
        "{}",
        state.credit.amount
    );
}

/// Steps come back after a while in which the time itself has earned, also that of the first step.
#[test]
fn the_time_of_a_step_earns_once() {
    let (budget, mut now) = armed_budget();
    begin(&budget, now);
    budget.state.lock().unwrap().credit.amount = 0.0;
    let off = Switches::default();
    now += STEPS_STOPPED_AFTER_NS;
    budget.tick((now, now), &mut recorded_launches(0.0), off, false);
    assert_eq!(budget.state.lock().unwrap().credit.amount, 0.0);
    now += 20 * MS;
    budget.tick((now, now), &mut recorded_launches(0.0), off, false);
    budget.range_ends(b"step", (now - 20 * MS, now), Some(false));
    assert_eq!(budget.state.lock().unwrap().credit.amount, 0.02 * 20e6);
}

#[test]
fn a_step_that_another_thread_began_before_the_slice_does_not_end_it() {
    let (budget, now) = armed_budget();
    assert!(budget.range_begins(b"step", now, QUIET));
    assert!(!budget.range_ends(b"step", (now - 10 * MS, now + 10 * MS), None));
    assert!(budget.range_ends(b"step", (now, now + 20 * MS), Some(true)));
    assert_eq!(budget.state.lock().unwrap().launch.steps, 1);
}

#[test]
fn a_step_that_does_not_end_is_none() {
    let (budget, mut now) = armed_budget();
    assert!(budget.range_begins(b"step", now, QUIET));
    let on = Switches {
        is_on: true,
        ..Switches::default()
    };
    now += 4 * STEP_WAIT_MAX_NS - 1;
    assert_eq!(
        budget.tick((now, now), &mut recorded_launches(0.0), on, true),
        None
    );
    assert_eq!(budget.next_change(), Some(now + 1));
    now += 1;
    assert_eq!(
        budget.tick((now, now), &mut recorded_launches(0.0), on, true),
        Some(false)
    );
    assert!(!budget.state.lock().unwrap().step.is_known());
    // Until the step recurs.
    budget.range_ends(b"step", (now, now + 20 * MS), Some(false));
    assert!(budget.state.lock().unwrap().step.is_step(b"step"));
}

/// If no step begins, a timed slice is recorded, counted from when recording is on.
#[test]
fn a_slice_does_not_wait_for_steps_for_ever() {
    let (budget, mut now) = armed_budget();
    let (mut nothing, off) = (recorded_launches(0.0), Switches::default());
    let mut tick = |now| budget.tick((now, now), &mut nothing, off, true);
    assert_eq!(tick(now), None);
    now += STEP_WAIT_MAX_NS;
    assert_eq!(tick(now), Some(true));
    // The device was busy.
    now += 300 * MS;
    budget.is_on(now);
    assert_eq!(
        budget.next_change(),
        Some(now + length::SLICE_LENGTH_MIN_NS)
    );
    assert_eq!(tick(now + length::SLICE_LENGTH_MIN_NS - 1), None);
    assert_eq!(tick(now + length::SLICE_LENGTH_MIN_NS), Some(false));
    // Nothing to be put off.
    budget.is_on(now);
    assert_eq!(budget.state.lock().unwrap().phase, BudgetPhase::Off);
}

/// Our thread is late: no slice begins until it has accounted for the last one.
#[test]
fn a_slice_waits_until_the_last_one_is_counted() {
    let (budget, mut now) = armed_budget();
    let mut slices = 0;
    let mut steps = |now: &mut i64| {
        for _ in 0..10 {
            slices += usize::from(budget.range_begins(b"step", *now, QUIET));
            budget.range_ends(b"step", (*now, *now + 20 * MS), None);
            *now += 20 * MS;
        }
        slices
    };
    assert_eq!(steps(&mut now), 1);
    // What it held is cheap enough for the next one at once, when all of it was counted.
    let switches = Switches {
        time: MS / 10,
        ..Switches::default()
    };
    budget.tick((now, now), &mut recorded_launches(10.0), switches, true);
    assert_eq!(steps(&mut now), 1);
    budget.tick((now, now), &mut recorded_launches(0.0), switches, true);
    assert_eq!(steps(&mut now), 2);
}

/// A slice ends just after our thread has asked the gate: its cost is not known yet.
#[test]
fn a_slice_that_the_gate_still_has_on_is_not_counted() {
    let (budget, now) = armed_budget();
    budget.range_begins(b"step", now, QUIET);
    budget.range_ends(b"step", (now, now + 20 * MS), Some(true));
    let mut switches = Switches {
        time: MS,
        is_on: true,
        ..Switches::default()
    };
    budget.tick((now, now), &mut recorded_launches(0.0), switches, true);
    assert!(budget.state.lock().unwrap().slices.owes);
    switches.is_on = false;
    budget.tick((now, now), &mut recorded_launches(0.0), switches, true);
    assert!(!budget.state.lock().unwrap().slices.owes);
}

#[test]
fn slices_that_recorded_nothing_cost_nothing() {
    let (budget, mut now) = armed_budget();
    let before = budget.state.lock().unwrap().credit.expected;
    let mut slices = 0;
    for _ in 0..20 {
        slices += usize::from(budget.range_begins(b"step", now, QUIET));
        budget.range_ends(b"step", (now, now + 20 * MS), Some(false));
        now += 20 * MS;
        let off = Switches::default();
        assert_eq!(
            budget.tick((now, now), &mut recorded_launches(0.0), off, false),
            None
        );
    }
    assert!(slices > 3);
    let state = budget.state.lock().unwrap();
    assert_eq!((state.credit.expected, state.launch.steps), (before, 0));
}

/// Steps stop, and a timed slice comes before the next slice of steps: the cost of both is compared with the time of both.
#[test]
fn a_slice_of_time_between_slices_of_steps_counts_as_well() {
    let (budget, now) = armed_budget();
    let spend = |to: i64| {
        let switches = Switches {
            time: to,
            ..Switches::default()
        };
        budget.tick((now, now), &mut recorded_launches(0.0), switches, true);
    };
    budget.range_begins(b"step", now, QUIET);
    budget.range_ends(b"step", (now, now + 20 * MS), Some(true));
    spend(4 * MS);
    budget.state.lock().unwrap().begin_timed(now);
    budget.state.lock().unwrap().phase = BudgetPhase::Off;
    spend(7 * MS);
    assert_eq!(budget.state.lock().unwrap().cycles.counted, 7e6);
}

/// Launches are slow until CUPTI has detached: no slice begins before that, even with enough credit.
#[test]
fn a_slice_is_counted_before_the_next_one() {
    let (budget, mut now) = armed_budget();
    budget.range_begins(b"step", now, QUIET);
    budget.range_ends(b"step", (now, now + 20 * MS), Some(true));
    let mut switches = Switches {
        time: MS,
        is_open_ended: true,
        ..Switches::default()
    };
    let mut steps = |switches| {
        for _ in 0..100 {
            now += 20 * MS;
            budget.range_ends(b"step", (now, now + 20 * MS), Some(false));
            budget.tick((now, now), &mut recorded_launches(0.0), switches, true);
        }
        let state = budget.state.lock().unwrap();
        (state.phase, state.slices.count)
    };
    assert_eq!(steps(switches), (BudgetPhase::Off, 0));
    switches.is_open_ended = false;
    let (phase, slices) = steps(switches);
    assert!(matches!(phase, BudgetPhase::Armed(_)), "{phase:?}");
    assert_eq!(slices, 1);
}

#[test]
fn a_cupti_that_does_not_detach_does_not_end_recording() {
    let (budget, mut now) = armed_budget();
    budget.range_begins(b"step", now, QUIET);
    budget.range_ends(b"step", (now, now + 20 * MS), Some(true));
    let switches = Switches {
        is_open_ended: true,
        ..Switches::default()
    };
    let began = now;
    while budget.state.lock().unwrap().phase == BudgetPhase::Off {
        now += 20 * MS;
        budget.range_ends(b"step", (now, now + 20 * MS), Some(false));
        budget.tick((now, now), &mut recorded_launches(0.0), switches, true);
        assert!(now - began < 2 * DETACH_STUCK_AFTER_NS);
    }
    assert!(now - began >= DETACH_STUCK_AFTER_NS);
}

#[test]
fn steps_that_became_short_end_their_slice() {
    let (budget, mut now) = armed_budget();
    assert!(budget.range_begins(b"step", now, QUIET));
    let short = STEP_MIN_NS / 2;
    let ended = (0..50).any(|_| {
        now += short;
        budget.range_ends(b"step", (now - short, now), Some(true))
    });
    assert!(ended);
}

#[test]
fn a_cost_that_few_steps_have_shown_is_assumed() {
    let budget = Budget::new(20_000, false).unwrap();
    for step in 0..100 {
        let recorded = step % 10 == 9;
        let length = 20 * MS + if recorded { 2 * MS } else { 0 };
        budget.range_ends(b"step", (0, length), Some(recorded));
        let mut state = budget.state.lock().unwrap();
        state.launch.steps += u64::from(recorded);
        state.launch.launches += 1000.0 * f64::from(u8::from(recorded));
        drop(state);
        let (cost, samples) = budget.launch_cost();
        assert_eq!(
            samples == 0,
            cost == LAUNCH_COST_PRIOR_NS as u64,
            "{cost} {samples}"
        );
    }
    assert_eq!(budget.launch_cost(), (2000, 9));
}

#[test]
fn launches_of_another_step_are_not_those_of_this_one() {
    let budget = Budget::new(20_000, false).unwrap();
    let mut now = 0;
    // Ten launches and 2.5 µs each; later a thousand.
    for (name, step, launches) in [(b"small", MS, 10), (b"large", 20 * MS, 1000)] {
        for round in 0..200 {
            let recorded = round % 4 == 3;
            let length = step + if recorded { launches * 2500 } else { 0 };
            budget.range_ends(name, (now, now + length), Some(recorded));
            now += length;
            if recorded && budget.state.lock().unwrap().step.is_step(name) {
                let mut state = budget.state.lock().unwrap();
                state.launch.steps += 1;
                state.launch.launches += launches as f64;
            }
        }
        let (cost, samples) = budget.launch_cost();
        assert!(samples >= 5 && (2300..2700).contains(&cost), "{cost}");
    }
}

/// Programs that do anything at any time on three threads, with a gate that may not open and a CUPTI that may not detach.
#[test]
fn whatever_a_program_does_no_more_is_earned_than_its_time() {
    let mut seed = 1_u64;
    let mut random = move |below: i64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((seed >> 33) as i64) % below
    };
    let mut slices = 0;
    for _ in 0..100 {
        let budget = Budget::new(10_000 + random(300_000) as u32, random(2) == 0).unwrap();
        let start = 1_000_000 * MS;
        begin(&budget, start);
        let (mut now, mut on, mut paid) = (start, false, 0.0);
        let mut switches = Switches::default();
        let mut threads = [const { Vec::new() }; 3];
        for _ in 0..3000 {
            now += random(8 * MS);
            let mut to = None;
            let open = &mut threads[random(3) as usize];
            match random(6) {
                0 | 1 if open.len() < 3 => {
                    let name = ["step", "layer", "request"][random(3) as usize].as_bytes();
                    let moment = Moment {
                        changes: switches.count,
                        is_quiet: !on,
                    };
                    to = budget.range_begins(name, now, moment).then_some(true);
                    open.push((name, now));
                }
                2 | 3 => {
                    if let Some((name, since)) = open.pop() {
                        let recorded = [None, Some(on)][random(2) as usize];
                        to = budget
                            .range_ends(name, (since, now), recorded)
                            .then_some(false);
                    }
                }
                4 => {
                    let launches = random(500) as f64 * random(2) as f64;
                    let (cost, switched) = {
                        let state = budget.state.lock().unwrap();
                        let steps = state.slices.kind == Slice::OfSteps;
                        let factor = if steps {
                            state.cycles.cost_factor()
                        } else {
                            1.0
                        };
                        (
                            state.launch.cost * factor,
                            (switches.time - state.slices.switched) as f64 * factor,
                        )
                    };
                    paid += launches * cost + switched;
                    switches.is_on = on;
                    switches.is_open_ended = !on && random(3) == 0;
                    to = budget.tick(
                        (now, now),
                        &mut recorded_launches(launches),
                        switches,
                        random(4) > 0,
                    );
                }
                _ => {}
            }
            // It may be refused.
            if let Some(to) = to.filter(|&to| to != on && random(5) > 0) {
                on = to;
                slices += u64::from(on);
                switches.count += 1;
                switches.time += random(3 * MS);
            }
            let state = budget.state.lock().unwrap();
            let earned = state.credit.amount + paid;
            let most = state.credit.share * (now - start) as f64;
            assert!(earned <= most + 1.0, "{earned} of {most}");
            assert!(
                state.credit.amount <= state.credit.expected && state.credit.expected.is_finite()
            );
        }
    }
    assert!(slices > 1000, "{slices}");
}
