//! The same scheduler written the plain way, sequence by sequence and block by block, beside the fast one.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::VecDeque;

use llmprof_simulate::{
    FrontEnd, PrefixContent, RequestLoad, Settings, SimulatedLoad, SimulatedRequest, simulate_load,
};
use llmprof_theory::{Part, Sequences, Step};
use llmprof_units::Nanos;
use proptest::prelude::*;

struct Plain {
    index: usize,
    prompt: u64,
    output: u64,
    generated: u64,
    computed: u64,
    blocks: u64,
    first: Option<i64>,
    is_decoding: bool,
}

/// First token and last token of each request, and preemptions. No prefix cache.
fn plainly(
    load: &RequestLoad,
    s: &Settings,
    time: &dyn Fn(&Step) -> i64,
) -> (Vec<(i64, i64)>, u64) {
    let mut done = vec![(0, 0); load.requests.len()];
    let (mut waiting, mut running) = (VecDeque::<Plain>::new(), Vec::<Plain>::new());
    let (mut now, mut next, mut free, mut preemptions) = (0_i64, 0, s.kv_blocks, 0);
    loop {
        while next < load.requests.len() && load.requests[next].at.0 <= now {
            let r = &load.requests[next];
            waiting.push_back(Plain {
                index: next,
                prompt: r.prompt,
                output: r.output,
                generated: 0,
                computed: 0,
                blocks: 0,
                first: None,
                is_decoding: false,
            });
            next += 1;
        }
        if waiting.is_empty() && running.is_empty() {
            match load.requests.get(next) {
                Some(r) => now = r.at.0,
                None => return (done, preemptions),
            }
            continue;
        }
        let mut budget = s.max_num_batched_tokens;
        let mut scheduled: Vec<u64> = Vec::new();
        let (mut place, mut was_preempted) = (0, false);
        'running: while place < running.len() && budget > 0 {
            let new = (running[place].prompt + running[place].generated - running[place].computed)
                .min(budget);
            loop {
                let r = &running[place];
                let needed = (r.computed + new).div_ceil(s.block_size) - r.blocks;
                if needed <= free {
                    free -= needed;
                    running[place].blocks += needed;
                    break;
                }
                let mut victim = running.pop().unwrap();
                preemptions += 1;
                was_preempted = true;
                free += victim.blocks + s.sequence_blocks;
                (victim.blocks, victim.computed, victim.is_decoding) = (0, 0, false);
                waiting.push_front(victim);
                if running.len() == place {
                    break 'running;
                }
            }
            scheduled.push(new);
            budget -= new;
            place += 1;
        }
        while !was_preempted && budget > 0 && (running.len() as u64) < s.max_num_seqs {
            let Some(r) = waiting.front() else { break };
            let tokens = r.prompt + r.generated;
            if !s.chunked_prefill && tokens > budget {
                break;
            }
            let new = tokens.min(budget);
            let needed = new.div_ceil(s.block_size);
            let whole = tokens.div_ceil(s.block_size);
            let required = if s.reserve_full_prompt { whole } else { needed };
            if required + s.sequence_blocks > free {
                break;
            }
            let mut r = waiting.pop_front().unwrap();
            free -= needed + s.sequence_blocks;
            r.blocks = needed;
            running.push(r);
            scheduled.push(new);
            budget -= new;
        }
        let (decode, prefill) = running
            .iter()
            .zip(&scheduled)
            .partition::<Vec<_>, _>(|(r, _)| r.is_decoding);
        let part = |some: Vec<(&Plain, &u64)>| {
            let sequences = some.into_iter().map(|(r, new)| Sequences {
                count: 1,
                new: *new,
                cached: r.computed,
            });
            Part::Groups(sequences.collect())
        };
        now += time(&Step {
            prefill: part(prefill),
            decode: part(decode),
            logits: None,
        });
        let mut kept = Vec::new();
        for (place, mut r) in running.into_iter().enumerate() {
            r.computed += scheduled.get(place).copied().unwrap_or(0);
            if r.computed == r.prompt + r.generated && place < scheduled.len() {
                r.generated += 1;
                r.is_decoding = true;
                r.first.get_or_insert(now);
                if r.generated == r.output {
                    free += r.blocks + s.sequence_blocks;
                    done[r.index] = (r.first.unwrap(), now);
                    continue;
                }
            }
            kept.push(r);
        }
        running = kept;
    }
}

fn loads() -> impl Strategy<Value = RequestLoad> {
    let request = (0_i64..4000, 1_u64..60, 1_u64..40);
    proptest::collection::vec(request, 1..40).prop_map(|gaps| {
        let mut at = 0;
        let requests = gaps.into_iter().map(|(gap, prompt, output)| {
            at += gap;
            SimulatedRequest {
                at: Nanos(at),
                prompt,
                output,
                content: PrefixContent::Unique,
            }
        });
        RequestLoad {
            requests: requests.collect(),
            concurrency: None,
            front_end: FrontEnd::default(),
        }
    })
}

fn all_settings() -> impl Strategy<Value = Settings> {
    (
        1_u64..8,
        0_u64..60,
        1_u64..9,
        100_u64..160,
        0_u64..3,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(
            |(
                max_num_seqs,
                more,
                block_size,
                tokens,
                sequence_blocks,
                chunked_prefill,
                reserve_full_prompt,
            )| {
                Settings {
                    max_num_seqs,
                    max_num_batched_tokens: if chunked_prefill {
                        max_num_seqs + more
                    } else {
                        100 + more
                    },
                    block_size,
                    kv_blocks: tokens.div_ceil(block_size) + sequence_blocks,
                    sequence_blocks,
                    chunked_prefill,
                    reserve_full_prompt,
                    prefix_caching: false,
                    ..Settings::default()
                }
            },
        )
}

fn time(step: &Step) -> i64 {
    let prompts = step.prefill.sequence_groups();
    let cached: u64 = prompts
        .iter()
        .map(|prompt| prompt.new * prompt.cached)
        .sum();
    (100 + 7 * step.prefill.new_tokens()
        + 3 * step.decode.sequences()
        + step.decode.cached_tokens().unwrap() / 5
        + cached / 9) as i64
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn both_schedulers_agree_to_the_nanosecond(load in loads(), settings in all_settings()) {
        let (expected, preemptions) = plainly(&load, &settings, &time);
        let outcome = simulate_load(&load, &settings, &|step: &Step| Nanos(time(step))).unwrap();
        prop_assert_eq!(outcome.finished.len(), load.requests.len());
        prop_assert_eq!(outcome.preemptions, preemptions);
        for f in &outcome.finished {
            prop_assert_eq!((f.first_token.0, f.last_token.0), expected[f.index], "request {}", f.index);
        }
    }

    #[test]
    fn tokens_are_conserved_and_littles_law_holds(
        load in loads(),
        settings in all_settings(),
        prefix_caching in any::<bool>(),
        shared in 0_u64..50,
    ) {
        let mut load = load;
        for request in load.requests.iter_mut().step_by(2) {
            request.content = PrefixContent::Shared(shared);
        }
        let settings = Settings { prefix_caching, ..settings };
        let outcome = simulate_load(&load, &settings, &|step: &Step| Nanos(time(step))).unwrap();
        let needed: u64 = load.requests.iter().map(|r| r.prompt + r.output - 1).sum();
        prop_assert_eq!(outcome.computed_tokens + outcome.cached_tokens, needed + outcome.discarded_tokens);
        // Every token but the first of a request has a gap before it.
        let expected = load.requests.iter().map(|r| r.output - 1).sum::<u64>();
        prop_assert_eq!(outcome.gaps.gap_count(), expected);
        // Σ of the gaps of a request is the time from its first to its last token.
        let apart = outcome.gaps.total_time().0;
        let spans: i64 = outcome.finished.iter().map(|f| (f.last_token - f.first_token).0).sum();
        prop_assert_eq!(apart, spans);
        for f in &outcome.finished {
            prop_assert!(f.first_token > f.at && f.last_token >= f.first_token);
            prop_assert_eq!(f.longest_gap.is_some(), f.output > 1);
            if let Some(longest) = f.longest_gap {
                prop_assert!(longest.0 * (f.output as i64 - 1) >= (f.last_token - f.first_token).0);
            }
        }
        // Little: requests in the system, integrated step by step, are their latencies.
        let latencies: f64 = outcome.finished.iter().map(|f| (f.last_token - f.at).0 as f64).sum();
        let counted = outcome.running_time + outcome.waiting_time;
        prop_assert!((counted - latencies).abs() <= 1e-9 * latencies, "{counted} {latencies}");
        let summary = SimulatedLoad::of_outcomes(&[outcome], settings.kv_blocks, &[]);
        prop_assert!(summary.kv_usage.max <= 1.0);
        // A mean lies below its maximum, which counts requests that came while a step ran.
        for level in [summary.running, summary.waiting] {
            prop_assert!(level.mean <= level.max + 1e-9, "{level:?}");
        }
    }
}
