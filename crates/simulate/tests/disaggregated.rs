//! Prefill and decode apart, against schedules worked out by hand.

use llmprof_simulate::{
    FrontEnd, PrefixContent, RequestLoad, SimulatedRequest,
    disaggregated::{Workers, simulate_split},
};
use llmprof_theory::Step;
use llmprof_units::Nanos;

const MS: i64 = 1_000_000;

fn load(requests: &[(i64, u64, u64)], concurrency: Option<usize>) -> RequestLoad {
    let requests = requests
        .iter()
        .map(|(at, prompt, output)| SimulatedRequest {
            at: Nanos(at * MS),
            prompt: *prompt,
            output: *output,
            content: PrefixContent::Unique,
        });
    RequestLoad {
        requests: requests.collect(),
        concurrency,
        front_end: FrontEnd::default(),
    }
}

/// First and last token in ms, by request: a millisecond a prompt token, ten for a decode step and one for each of its sequences.
fn times(load: &RequestLoad, workers: Workers) -> Vec<(i64, i64)> {
    let prefill = |step: &Step| Nanos(step.prefill.new_tokens() as i64 * MS);
    let decode = |step: &Step| {
        let sequences = step.decode.sequences();
        assert!(step.decode.cached_tokens() >= Some(sequences));
        Nanos((10 + sequences as i64) * MS)
    };
    let mut outcome = simulate_split(load, workers, &prefill, &decode);
    outcome.finished.sort_by_key(|finished| finished.index);
    let all = outcome.finished.iter();
    all.map(|f| ((f.first_token - f.at).0 / MS, f.last_token.0 / MS))
        .collect()
}

const ONE: Workers = Workers {
    prefill: 1,
    decode: 1,
    prefill_sequences: 1,
    decode_sequences: 8,
    transfer: Nanos(0),
};

#[test]
fn prompts_wait_for_prompts_alone() {
    let asked = load(&[(0, 20, 3), (0, 20, 3), (0, 20, 1)], None);
    // Decode steps of the first run from 20 to 31 and 42 ms; the second joins at 42 ms: 11 ms each for one sequence.
    assert_eq!(times(&asked, ONE), [(20, 42), (40, 64), (60, 60)]);
    let both = Workers {
        prefill_sequences: 2,
        ..ONE
    };
    // The first one finds an idle worker; the others share the step from 20 to 60 ms.
    assert_eq!(times(&asked, both), [(20, 42), (60, 82), (60, 60)]);
    let two = Workers {
        prefill: 2,
        decode: 2,
        transfer: Nanos(5 * MS),
        ..ONE
    };
    assert_eq!(times(&asked, two), [(20, 47), (20, 47), (40, 40)]);
}

#[test]
fn a_full_decode_worker_keeps_sequences_waiting() {
    let asked = load(&[(0, 10, 2), (0, 10, 2)], None);
    let narrow = Workers {
        prefill: 2,
        decode_sequences: 1,
        ..ONE
    };
    assert_eq!(times(&asked, narrow), [(10, 21), (10, 32)]);
    // A closed loop of one: the second is sent at 21 ms.
    let closed = load(&[(0, 10, 2), (0, 10, 2)], Some(1));
    assert_eq!(times(&closed, ONE), [(10, 21), (10, 42)]);
}
