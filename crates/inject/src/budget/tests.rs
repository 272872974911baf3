//! Programs that are simulated: is the share kept, and used?

use super::credit::SLICE_COST_PRIOR_NS;
use super::*;

mod odd;

const MS: i64 = 1_000_000;

/// Nothing has happened before `start`.
fn begin(budget: &Budget, start: i64) {
    let mut state = budget.state.lock().unwrap();
    (state.credit.last, state.credit.used) = (start, start);
}

/// This many launches were recorded.
fn recorded_launches(launches: f64) -> Recorded {
    Recorded {
        launches,
        of_graphs: 0.0,
        kernels: Kernels::default(),
    }
}

/// Name of the kernel at a position of a step: an embedding kernel first, then layers of 12 kernels.
fn name(place: u64) -> u32 {
    if place == 0 {
        1
    } else {
        10 + (place % 12) as u32
    }
}

/// A program whose every step makes `launches` launches and takes `step`, plus `cost` per launch when recorded.
/// Returns the share of time that recording cost, the steps recorded whole and the steps in all.
fn simulate(ppm: u32, step: i64, launches: u64, cost: i64, ranges: bool) -> (f64, u64, u64) {
    simulate_switching(ppm, (step, launches, cost), ranges, Switching::default())
}

/// Time to switch recording on and off, to detach CUPTI one step later, and the slowdown after that which is not counted.
#[derive(Clone, Copy)]
struct Switching {
    starting: i64,
    stopping: i64,
    leaving: i64,
    hidden: i64,
}

impl Default for Switching {
    fn default() -> Self {
        Self {
            starting: MS / 10,
            stopping: MS / 10,
            leaving: 0,
            hidden: 0,
        }
    }
}

/// The same with these switching times.
fn simulate_switching(
    ppm: u32,
    (step, launches, cost): (i64, u64, i64),
    ranges: bool,
    switching: Switching,
) -> (f64, u64, u64) {
    let Switching {
        starting,
        stopping,
        leaving,
        hidden,
    } = switching;
    let budget = Budget::new(ppm, leaving > 0).unwrap();
    let start = sys::now_ns();
    begin(&budget, start);
    let (mut now, mut on, mut paid) = (start, false, 0);
    let mut switches = Switches::default();
    let (mut whole, mut steps, mut detaches) = (0, 0, 0);
    let mut pending = recorded_launches(0.0);
    let switch =
        |on: &mut bool, to: bool, switches: &mut Switches, now: &mut i64, paid: &mut i64| {
            assert_ne!(*on, to);
            *on = to;
            let took = if to { starting } else { stopping };
            switches.count += 1;
            switches.time += took;
            switches.is_open_ended = !to && leaving > 0;
            *now += took;
            *paid += took;
        };
    while now - start < 20_000 * MS {
        let moment = Moment {
            changes: switches.count + detaches,
            is_quiet: !on && !switches.is_open_ended,
        };
        if ranges && budget.range_begins(b"decode_step", now, moment) {
            switch(&mut on, true, &mut switches, &mut now, &mut paid);
        }
        let began = (now, on);
        let mut mixed = false;
        // Our thread ticks during the step.
        for quarter in 0..4 {
            now += step / 4;
            if on {
                let extra = cost * launches as i64 / 4;
                now += extra;
                paid += extra;
                pending.launches += launches as f64 / 4.0;
                for place in quarter * launches / 4..(quarter + 1) * launches / 4 {
                    let start = now + place as i64;
                    pending
                        .kernels
                        .add_kernel((start, start + 1), name(place), (0, 1, 7));
                }
            }
            let mut nothing = recorded_launches(0.0);
            let counted = if on { &mut nothing } else { &mut pending };
            if let Some(to) = budget.tick((now, now), counted, switches, true) {
                switch(&mut on, to, &mut switches, &mut now, &mut paid);
                mixed = true;
            }
        }
        if switches.is_open_ended && !on && !mixed {
            switches.is_open_ended = false;
            switches.time += leaving;
            detaches += 1;
            now += leaving + hidden;
            paid += leaving + hidden;
            mixed = true;
        }
        steps += 1;
        whole += u64::from(began.1 && !mixed);
        if ranges {
            let recorded = (!mixed).then_some(began.1);
            if budget.range_ends(b"decode_step", (began.0, now), recorded) {
                switch(&mut on, false, &mut switches, &mut now, &mut paid);
            }
        }
    }
    (paid as f64 / (now - start) as f64, whole, steps)
}

#[test]
fn the_share_is_kept_and_used() {
    for ranges in [true, false] {
        for (step, launches, cost) in [
            (20 * MS, 1000, 2500),
            (2 * MS, 4, 2500),
            (60 * MS, 3000, 500),
        ] {
            let (share, whole, steps) = simulate(20_000, step, launches, cost, ranges);
            assert!(
                share <= 0.0205,
                "{share} at {step} {launches} {cost} {ranges}"
            );
            assert!(whole > 3 && whole < steps, "{whole} of {steps}");
        }
    }
}

/// Steps that are longer than a slice would be are recorded whole, without a range that shows them.
#[test]
fn slices_hold_whole_steps_by_the_pattern_of_kernels() {
    let (share, whole, _) = simulate(50_000, 160 * MS, 2000, 7000, false);
    assert!(share <= 0.0515, "{share}");
    // 2.2 steps cost 31 ms, times the factor of 1.5: a slice about every second, each with a whole step.
    assert!(whole >= 14, "{whole}");
}

#[test]
fn the_share_is_kept_where_cupti_detaches_and_attaches_again() {
    for (starting, leaving) in [(15 * MS, 5 * MS), (5 * MS, 15 * MS), (MS, MS)] {
        for ranges in [true, false] {
            let switching = Switching {
                starting,
                leaving,
                ..Switching::default()
            };
            let step = (15 * MS, 1000, 7000);
            let (share, whole, steps) = simulate_switching(20_000, step, ranges, switching);
            assert!(share <= 0.0205, "{share} at {starting} {leaving} {ranges}");
            // Without steps, and before enough slices were measured, the assumed cost is higher than the real one.
            assert!(share >= 0.01, "{share} at {starting} {leaving} {ranges}");
            assert!(whole > 8 && whole < steps, "{whole} of {steps}");
        }
    }
}

/// Switching costs 20 ms and a step 2.5: a budget of 400 ms allows 17 slices of one step, or fewer slices with more steps.
#[test]
fn a_slice_holds_several_steps_where_switching_is_dear() {
    let switching = Switching {
        starting: 15 * MS,
        leaving: 5 * MS,
        ..Switching::default()
    };
    let step = (15 * MS, 1000, 2500);
    let (share, whole, _) = simulate_switching(20_000, step, true, switching);
    assert!(share <= 0.0205 && whole >= 35, "{share} {whole}");
    // As on an H200, where launches were expensive as well.
    let switching = Switching {
        starting: 12 * MS,
        leaving: 2 * MS,
        ..switching
    };
    let step = (15 * MS, 1000, 7000);
    let (share, whole, _) = simulate_switching(50_000, step, true, switching);
    assert!(share <= 0.0515 && whole >= 55, "{share} {whole}");
}

#[test]
fn recording_costs_as_much_as_switching() {
    let steps_at = |cost: f64, switching: f64, mean: i64| {
        let budget = Budget::new(20_000, true).unwrap();
        let mut state = budget.state.lock().unwrap();
        for step in 0..4 {
            state.learn_range(b"step", (step * mean, (step + 1) * mean), Some(false));
        }
        (state.slices.switching, state.launch.cost) = (switching, cost);
        (state.launch.steps, state.launch.launches) = (10, 10_000.0);
        state.steps_of_slice()
    };
    let steps = |switching, mean| steps_at(2500.0, switching, mean);
    assert_eq!(steps(20e6, 15 * MS), 8);
    // Expensive launches make slices rarer, not shorter.
    assert_eq!(steps_at(7000.0, 20e6, 15 * MS), 6);
    assert_eq!(steps(0.1e6, 15 * MS), 1);
    // No longer than a quarter of a second, nor shorter than 10 ms.
    assert_eq!((steps(20e6, 100 * MS), steps(20e6, 240 * MS)), (2, 1));
    assert_eq!(steps(0.1e6, MS), 10);
}

/// CUDA Graphs are slower while CUPTI stays attached: the budget pays for that too, and something is left for slices.
#[test]
fn what_graphs_cost_between_slices_is_paid() {
    let earned = |ppm| {
        let budget = Budget::new(ppm, true).unwrap();
        begin(&budget, 0);
        let switches = Switches {
            stays_for_graphs: true,
            ..Switches::default()
        };
        budget.tick(
            (10 * MS, 10 * MS),
            &mut recorded_launches(0.0),
            switches,
            false,
        );
        let state = budget.state.lock().unwrap();
        // CUPTI need not come back for a slice.
        assert_eq!(state.credit.expected, SLICE_COST_PRIOR_NS);
        (state.credit.amount / 1e3).round() as i64
    };
    assert_eq!(
        (earned(50_000), earned(20_000), earned(10_000)),
        (320, 20, 10)
    );
}

/// Steps of 1 ms every 21 ms.
#[test]
fn a_slice_of_short_steps_far_apart_ends() {
    let budget = Budget::new(20_000, true).unwrap();
    let mut now = 0;
    for _ in 0..4 {
        budget.range_ends(b"step", (now, now + MS), Some(false));
        now += 21 * MS;
    }
    let mut state = budget.state.lock().unwrap();
    state.phase = BudgetPhase::Steps(now, 1000);
    drop(state);
    let mut steps = 1;
    while !budget.range_ends(b"step", (now, now + MS), Some(true)) {
        now += 21 * MS;
        steps += 1;
    }
    assert_eq!(steps, 13);
}

/// After CUPTI has detached, steps are slower for a while, by as much again as was counted.
#[test]
fn what_nobody_counts_is_noticed_where_there_are_steps() {
    let switching = Switching {
        starting: 12 * MS,
        leaving: 3 * MS,
        hidden: 15 * MS,
        ..Switching::default()
    };
    let (share, whole, _) = simulate_switching(20_000, (25 * MS, 1000, 2500), true, switching);
    assert!(share <= 0.0205, "{share}");
    assert!(share >= 0.015 && whole > 5, "{share} {whole}");
}

#[test]
fn some_of_what_nobody_counts_is_assumed_without_steps() {
    let switching = Switching {
        starting: 12 * MS,
        leaving: 3 * MS,
        hidden: 12 * MS,
        ..Switching::default()
    };
    let (share, whole, _) = simulate_switching(20_000, (25 * MS, 1000, 7000), false, switching);
    assert!(share <= 0.0205, "{share}");
    assert!(share >= 0.012 && whole > 5, "{share} {whole}");
}

/// Of two H200 hosts, one took 7 µs per recorded launch and the other 12; launches were 16 and 24 µs apart.
#[test]
fn dear_launches_are_assumed_without_steps() {
    for (step, cost) in [(16 * MS, 6_500), (24 * MS, 11_500)] {
        for (starting, leaving) in [(12 * MS, 2 * MS), (17 * MS, 3 * MS)] {
            let switching = Switching {
                starting,
                leaving,
                ..Switching::default()
            };
            let step = (step, 1000, cost);
            let (share, whole, _) = simulate_switching(20_000, step, false, switching);
            assert!((0.01..=0.0205).contains(&share), "{share} at {step:?}");
            assert!(whole > 5, "{whole}");
        }
    }
}

#[test]
fn a_launch_that_costs_more_than_assumed_is_noticed() {
    let (share, ..) = simulate(20_000, 20 * MS, 1000, 9_000, true);
    assert!(share <= 0.025, "{share}");
}

#[test]
fn the_cost_of_a_launch_is_measured_on_a_host_that_drifts() {
    let budget = Budget::new(20_000, false).unwrap();
    for _ in 0..3 {
        budget.range_ends(b"step", (0, 15 * MS), None);
    }
    for round in 0..20 {
        // The host halves its speed midway, and every seventh step is three times as long.
        let speed = if round < 10 { 1 } else { 2 };
        for step in 0..6 {
            let spike = if (round * 6 + step) % 7 == 3 { 3 } else { 1 };
            let recorded = step == 3;
            let length = 15 * MS * speed * spike + if recorded { 2 * MS } else { 0 };
            budget.range_ends(b"step", (0, length), Some(recorded));
        }
        let mut state = budget.state.lock().unwrap();
        state.launch.steps += 1;
        state.launch.launches += 1000.0;
    }
    let (cost, samples) = budget.launch_cost();
    assert_eq!(samples, 20);
    assert!(
        (1900..2600).contains(&cost),
        "{cost} ns where 2000 were added"
    );
}

#[test]
fn a_larger_share_records_more() {
    let (_, few, _) = simulate(10_000, 20 * MS, 1000, 2500, true);
    let (_, many, _) = simulate(50_000, 20 * MS, 1000, 2500, true);
    assert!(many > 3 * few, "{few} {many}");
}

#[test]
fn a_slice_that_began_after_its_end_is_ended() {
    let budget = Budget::new(20_000, false).unwrap();
    let stray = Switches {
        is_on: true,
        ..Switches::default()
    };
    let now = (sys::now_ns(), 0);
    assert_eq!(
        budget.tick(now, &mut recorded_launches(0.0), stray, true),
        Some(false)
    );
}

#[test]
fn a_process_that_rests_earns_nothing() {
    let budget = Budget::new(20_000, false).unwrap();
    let start = sys::now_ns();
    begin(&budget, start);
    let off = Switches::default();
    let mut used = start;
    // It works for a tenth of the time, and the first slice is worth 150 ms of work.
    let mut slices = Vec::new();
    for step in 1..=200 {
        used += MS;
        let now = start + step * 10 * MS;
        if budget
            .tick((now, used), &mut recorded_launches(0.0), off, true)
            .is_some()
        {
            slices.push(step);
            break;
        }
    }
    assert_eq!(slices, [150]);
}

#[test]
fn nothing_is_switched_while_recording_is_not_wanted() {
    let budget = Budget::new(20_000, false).unwrap();
    let start = sys::now_ns();
    begin(&budget, start);
    for second in 0..100 {
        let now = start + second * 1000 * MS;
        let off = Switches::default();
        assert_eq!(
            budget.tick((now, now), &mut recorded_launches(0.0), off, false),
            None
        );
    }
    // What was earned meanwhile is worth one slice.
    let now = start + 200_000 * MS;
    let off = Switches::default();
    assert_eq!(
        budget.tick((now, now), &mut recorded_launches(0.0), off, true),
        Some(true)
    );
    let state = budget.state.lock().unwrap();
    assert!(state.credit.amount <= state.credit.expected);
}
