//! What queueing theory and arithmetic say, against the simulation.

use llmprof_simulate::{
    FrontEnd, PrefixContent, RequestLoad, Settings, SimulatedLoad, SimulatedRequest, simulate_load,
};
use llmprof_theory::Step;
use llmprof_traffic::{arrivals::Arrivals, lengths::Lengths};
use llmprof_units::Nanos;

const ONE: Settings = Settings {
    max_num_batched_tokens: 4096,
    max_num_seqs: 1,
    block_size: 16,
    kv_blocks: 10_000,
    sequence_blocks: 0,
    chunked_prefill: true,
    prefix_caching: false,
    reserve_full_prompt: true,
    reserve_answer: false,
    async_scheduling: false,
    wait_steps: 0,
    wait_tokens: 0,
};

fn request(at_ms: i64, prompt: u64, output: u64) -> SimulatedRequest {
    SimulatedRequest {
        at: Nanos(at_ms * 1_000_000),
        prompt,
        output,
        content: PrefixContent::Unique,
    }
}

fn load(requests: Vec<SimulatedRequest>) -> RequestLoad {
    RequestLoad {
        requests,
        concurrency: None,
        front_end: FrontEnd::default(),
    }
}

/// Mean wait of M/D/1 (Pollaczek–Khinchine with no variance of the service): ρ S / 2(1 − ρ).
#[test]
fn one_request_at_a_time_is_an_md1_queue() {
    for (rate, output) in [(5.0, 1), (7.0, 4), (9.0, 10)] {
        let load = RequestLoad::from_lengths(
            &Arrivals::Poisson { rate },
            &Lengths::Fixed { tokens: 10 },
            &Lengths::Fixed { tokens: output },
            0,
            400_000,
            11,
        );
        // Whatever the output, the service takes 100 ms in all.
        let step = Nanos(100_000_000 / output as i64);
        let outcome = simulate_load(&load, &ONE, &|_: &Step| step).unwrap();
        let waits = outcome
            .finished
            .iter()
            .map(|f| (f.last_token - f.at).seconds() - 0.1);
        let mean = waits.sum::<f64>() / outcome.finished.len() as f64;
        let load = rate * 0.1;
        let expected = load * 0.1 / (2.0 * (1.0 - load));
        assert!(
            (mean / expected - 1.0).abs() < 0.06,
            "{rate}: {mean} {expected}"
        );
    }
}

/// Steps of 10 ms + 1 ms a token. Tokens of a step at most 8, sequences 2.
///
/// | step | from | to | batch |
/// |---|---|---|---|
/// | 1 | 0 | 18 | A 8 of 12 |
/// | 2 | 18 | 36 | A 4 of 12 (first token at 36), B 4 of 6 |
/// | 3 | 36 | 49 | A decodes (2 of 2, ends), B 2 of 6 (first token at 49) |
/// | 4 | 49 | 63 | B decodes, C 3 of 3 (first token at 63) |
/// | 5 | 63 | 75 | B decodes (ends, 3 of 3), C decodes (ends, 2 of 2) |
#[test]
fn three_requests_by_hand() {
    let settings = Settings {
        max_num_batched_tokens: 8,
        max_num_seqs: 2,
        block_size: 4,
        kv_blocks: 100,
        ..ONE
    };
    let asked = load(vec![request(0, 12, 2), request(5, 6, 3), request(20, 3, 2)]);
    let time = |step: &Step| Nanos((10 + step.new_tokens() as i64) * 1_000_000);
    let outcome = simulate_load(&asked, &settings, &time).unwrap();
    let times: Vec<(usize, i64, i64)> = outcome
        .finished
        .iter()
        .map(|f| {
            (
                f.index,
                f.first_token.0 / 1_000_000,
                f.last_token.0 / 1_000_000,
            )
        })
        .collect();
    assert_eq!(times, [(0, 36, 49), (1, 49, 75), (2, 63, 75)]);
    assert_eq!(
        (outcome.steps, outcome.computed_tokens),
        (5, 8 + 8 + 3 + 4 + 2)
    );
    let gaps = outcome.gaps.mean_gaps();
    assert_eq!(gaps, [(12e6, 2), (13e6, 1), (14e6, 1)]);
    let summary = SimulatedLoad::of_outcomes(
        &[outcome],
        settings.kv_blocks,
        &["itl:p99<13ms".parse().unwrap()],
    );
    assert_eq!(summary.figures.itl_ms.unwrap().max, 14.0);
    // Only C has no gap of 13 ms.
    assert!((summary.figures.goodput.unwrap() * 0.075 - 1.0).abs() < 1e-9);
}

/// Two sequences of 8 blocks in a cache of 12: the later one gives way, and computes its tokens again when the first is done.
#[test]
fn a_preemption_by_hand() {
    let settings = Settings {
        max_num_batched_tokens: 64,
        max_num_seqs: 4,
        block_size: 2,
        kv_blocks: 12,
        ..ONE
    };
    let asked = load(vec![request(0, 8, 9), request(0, 8, 9)]);
    let outcome = simulate_load(&asked, &settings, &|_: &Step| Nanos(1_000_000)).unwrap();
    // Step 1 computes both prompts: 8 blocks. Steps 2 and 3 add a token each: a block each at step 2, 10 blocks. Step 4: 12. Step 6
    // needs 2 more with none free: B leaves with 5 tokens (12 of them computed), A goes on alone until step 9.
    let a = outcome.finished[0];
    assert_eq!((a.index, a.last_token.0 / 1_000_000), (0, 9));
    // B computes 8 + 5 tokens again in step 10, which gives its 6th token, and ends three steps later.
    let b = outcome.finished[1];
    assert_eq!((b.index, b.last_token.0 / 1_000_000), (1, 13));
    assert_eq!((b.preemptions, outcome.preemptions), (1, 1));
    assert_eq!(outcome.discarded_tokens, 12);
    assert_eq!(b.longest_gap, Some(Nanos(5_000_000)));
    assert_eq!(outcome.computed_tokens, 2 * 16 + 12);
}

#[test]
fn a_shared_prefix_is_computed_once() {
    let settings = Settings {
        prefix_caching: true,
        max_num_seqs: 4,
        ..ONE
    };
    let shared = |at| SimulatedRequest {
        content: PrefixContent::Shared(100),
        ..request(at, 130, 2)
    };
    let asked = load(vec![shared(0), shared(1_000), shared(2_000)]);
    let outcome = simulate_load(&asked, &settings, &|_: &Step| Nanos(1_000_000)).unwrap();
    // Six whole blocks of 16 lie in 100 tokens.
    assert_eq!(outcome.cached_tokens, 2 * 96);
    assert_eq!(outcome.computed_tokens, 3 * 131 - 2 * 96);
    let without = Settings {
        prefix_caching: false,
        ..settings
    };
    let outcome = simulate_load(&asked, &without, &|_: &Step| Nanos(1_000_000)).unwrap();
    assert_eq!(outcome.cached_tokens, 0);
}

#[test]
fn what_never_fits_is_refused_and_nothing_waits_for_it() {
    let settings = Settings {
        kv_blocks: 4,
        ..ONE
    };
    let asked = load(vec![
        request(0, 65, 1),
        request(0, 64, 2),
        request(0, 60, 4),
    ]);
    let outcome = simulate_load(&asked, &settings, &|_: &Step| Nanos(1)).unwrap();
    assert_eq!(outcome.refused, [0, 1]);
    assert_eq!(outcome.finished.len(), 1);
    let closed = RequestLoad {
        concurrency: Some(2),
        ..asked
    };
    let outcome = simulate_load(&closed, &settings, &|_: &Step| Nanos(1)).unwrap();
    assert_eq!((outcome.refused.len(), outcome.finished.len()), (2, 1));
    let none = simulate_load(&load(Vec::new()), &settings, &|_: &Step| Nanos(1)).unwrap();
    assert_eq!(none.steps, 0);
    let few = Settings {
        max_num_batched_tokens: 8,
        max_num_seqs: 9,
        ..ONE
    };
    assert!(simulate_load(&load(Vec::new()), &few, &|_: &Step| Nanos(1)).is_err());
}

#[test]
fn a_closed_loop_keeps_its_requests_in_flight() {
    let asked = RequestLoad::from_lengths(
        &Arrivals::Closed { concurrency: 8 },
        &Lengths::Fixed { tokens: 16 },
        &Lengths::Fixed { tokens: 11 },
        0,
        800,
        1,
    );
    let settings = Settings {
        max_num_seqs: 8,
        ..ONE
    };
    let outcome = simulate_load(&asked, &settings, &|_: &Step| Nanos(1_000_000)).unwrap();
    // 100 rounds of 11 steps: nobody waits, all begin and end together.
    assert_eq!(outcome.steps, 1100);
    let summary = SimulatedLoad::of_outcomes(&[outcome], settings.kv_blocks, &[]);
    assert_eq!(summary.running.mean, 8.0);
    assert_eq!(summary.figures.ttft_ms.unwrap().max, 1.0);
    assert_eq!(summary.figures.tpot_ms.unwrap().mean, 1.0);
}

/// TTFT in ms by request.
fn ttfts(load: &RequestLoad, settings: &Settings) -> Vec<i64> {
    let mut outcome = simulate_load(load, settings, &|_: &Step| Nanos(10_000_000))
        .expect("an engine that starts");
    outcome.finished.sort_by_key(|finished| finished.index);
    let ms = |nanos: Nanos| nanos.0 / 1_000_000;
    let all = outcome.finished.iter();
    all.map(|f| ms(f.first_token - f.at)).collect()
}

/// Steps of 10 ms from 0 on; the second request is sent at 12 ms.
#[test]
fn a_request_waits_for_a_step_that_is_not_yet_put_together() {
    let settings = Settings {
        max_num_seqs: 4,
        ..ONE
    };
    let ahead = Settings {
        async_scheduling: true,
        ..settings
    };
    let mut asked = load(vec![request(0, 16, 20), request(12, 16, 1)]);
    // The step from 20 to 30 ms has it; put together in advance, that from 30 to 40 ms.
    assert_eq!(ttfts(&asked, &settings), [10, 18]);
    assert_eq!(ttfts(&asked, &ahead), [10, 28]);
    // It reaches the engine at 23 ms. The first one finds an idle engine whatever is put together when.
    asked.front_end.delay = Nanos(11_000_000);
    assert_eq!(ttfts(&asked, &settings), [21, 29]);
    assert_eq!(ttfts(&asked, &ahead), [21, 39]);
    // In a closed loop, the next request leaves when the one before ends.
    let closed = RequestLoad {
        concurrency: Some(1),
        ..asked
    };
    assert_eq!(ttfts(&closed, &ahead), [21, 21]);
}

/// Three prompts of 16 tokens sent at once, 2 ms a token: they leave the tokenizer after 32, 64 and 96 ms, and reach the engine 1 ms later.
#[test]
fn prompts_pass_the_tokenizer_one_after_another() {
    let settings = Settings {
        max_num_seqs: 4,
        ..ONE
    };
    let mut asked = load(vec![request(0, 16, 1); 3]);
    asked.front_end = FrontEnd {
        delay: Nanos(1_000_000),
        token: Nanos(2_000_000),
    };
    assert_eq!(ttfts(&asked, &settings), [43, 75, 107]);
    // In a closed loop of two, the third is sent when the first ends, at 43 ms: the tokenizer is free at 64, and done with it at 96 ms.
    let closed = RequestLoad {
        concurrency: Some(2),
        ..asked
    };
    assert_eq!(ttfts(&closed, &settings), [43, 75, 64]);
}

/// Sequences of one block each and four more whatever their length: two at a time of eleven blocks, and none of four.
#[test]
fn states_of_sequences_take_blocks() {
    let settings = Settings {
        max_num_seqs: 8,
        kv_blocks: 11,
        sequence_blocks: 4,
        ..ONE
    };
    let asked = load(vec![request(0, 8, 3); 4]);
    // Prompts of 10 ms and two decode steps: the third and fourth begin after 30 ms.
    assert_eq!(ttfts(&asked, &settings), [10, 10, 40, 40]);
    let outcome = simulate_load(&asked, &settings, &|_: &Step| Nanos(10_000_000)).unwrap();
    assert_eq!(outcome.most_blocks, 10);
    let refused = Settings {
        kv_blocks: 4,
        ..settings
    };
    let outcome = simulate_load(&asked, &refused, &|_: &Step| Nanos(10_000_000)).unwrap();
    assert_eq!(outcome.refused, [0, 1, 2, 3]);
}

#[test]
fn prompts_are_held_back_for_others_to_run_with() {
    let settings = Settings {
        max_num_seqs: 8,
        wait_steps: 3,
        wait_tokens: 40,
        ..ONE
    };
    // Alone with a decoding sequence: 17 tokens until three steps have passed.
    let asked = load(vec![request(0, 16, 30), request(5, 16, 1)]);
    assert_eq!(ttfts(&asked, &settings), [10, 45]);
    // A third one makes them 49 tokens; nobody waits on an idle engine.
    let asked = load(vec![
        request(0, 16, 30),
        request(5, 16, 1),
        request(15, 32, 1),
    ]);
    assert_eq!(ttfts(&asked, &settings), [10, 25, 15]);
}

#[test]
fn reserved_answers_are_never_preempted() {
    let settings = Settings {
        max_num_seqs: 4,
        kv_blocks: 8,
        ..ONE
    };
    // Two prompts of two blocks fit beside each other, two whole answers of six do not.
    let asked = load(vec![request(0, 32, 60), request(0, 32, 60)]);
    let run = |settings: &Settings| simulate_load(&asked, settings, &|_: &Step| Nanos(1)).unwrap();
    assert!(run(&settings).preemptions > 0);
    let reserved = Settings {
        reserve_answer: true,
        ..settings
    };
    let outcome = run(&reserved);
    assert_eq!((outcome.preemptions, outcome.discarded_tokens), (0, 0));
    assert_eq!(outcome.steps, 120);
    // What is never preempted is never computed again: only the prompt has to fit a step.
    let whole = Settings {
        chunked_prefill: false,
        max_num_batched_tokens: 32,
        ..reserved
    };
    assert!(run(&whole).refused.is_empty());
    let refused = Settings {
        reserve_answer: false,
        ..whole
    };
    assert_eq!(run(&refused).refused.len(), 2);
}
