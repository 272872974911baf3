//! The page of a simulated server.

use llmprof_traffic::figures::LoadFigures;
use llmprof_units::{Count, Nanos, Percent, format_significant};

use crate::text::time;

pub(super) const TITLE: &str = "Simulated, not measured";

pub(super) const NOT_IN_LATENCIES: &str = "Latencies end when the engine emits the token. Network and tokenization count as far as --request-delay and --token-delay state them; client time does not.";

/// A load, sent or simulated, by when its requests are due.
pub fn load_line(when: &str, [prompt, output]: [f64; 2]) -> String {
    format!("{when}, {prompt:.0} prompt and {output:.0} output tokens on average")
}

/// How many replicas are enough.
pub(super) fn replicas(fewest: Option<u64>, gpus: u64, tried: u64, objectives: &str) -> String {
    match fewest {
        Some(1) => format!("1 replica ({}) meets {objectives}.", Count(gpus, "GPU")),
        Some(count) => format!(
            "{} ({}) meet {objectives}; fewer do not.",
            Count(count, "replica"),
            Count(gpus, "GPU")
        ),
        None => format!("Not even {tried} replicas meet {objectives}."),
    }
}

/// `alike` of the `others` give the same latencies.
pub(super) fn best_settings(
    max_num_batched_tokens: u64,
    max_num_seqs: u64,
    alike: usize,
    others: usize,
) -> String {
    if alike == others {
        return format!(
            "All {} settings give the same latencies at this load.",
            others + 1
        );
    }
    let as_good = match alike {
        0 => String::new(),
        _ => format!(" ({} as good)", Count(alike as u64, "other")),
    };
    format!(
        "Best settings: --max-num-batched-tokens {max_num_batched_tokens} --max-num-seqs {max_num_seqs}{as_good}."
    )
}

pub(super) fn settings_basis(listed: usize, tried: usize, has_objectives: bool) -> String {
    let first = if has_objectives {
        "objectives met, goodput"
    } else {
        "requests/s"
    };
    format!(
        "The best {listed} of {tried} settings, by {first}, TTFT p99 and TPOT; latencies in ms."
    )
}

pub(super) fn throughput(load: &LoadFigures) -> String {
    let goodput = load.goodput.map_or_else(String::new, |goodput| {
        format!(", goodput {} requests/s", format_significant(goodput))
    });
    let tokens = load.output_throughput.map_or_else(String::new, |rate| {
        format!(", {} output tokens/s", format_significant(rate))
    });
    format!(
        "{} requests/s{tokens}{goodput}; {} completed in {} s.",
        format_significant(load.request_throughput),
        load.completed,
        format_significant(load.duration_s)
    )
}

/// A statistic that depends on how many requests are simulated.
pub(super) fn moved(statistic: &str, half_ms: f64, all_ms: f64) -> String {
    format!(
        "{} {}, {} with half as many",
        statistic
            .replace(':', " ")
            .to_uppercase()
            .replace(" P", " p"),
        time(all_ms * 1e6),
        time(half_ms * 1e6)
    )
}

/// Latencies that are not those of a longer load.
pub(super) fn unsettled(requests: u64, moved: &[String]) -> String {
    format!(
        "{requests} requests are too few for a steady state: {}. Simulate more with -n.",
        moved.join("; ")
    )
}

/// A queue that grows has no steady state.
pub(super) fn overloaded(asked_per_s: f64, served_per_s: f64, moved: &[String]) -> String {
    format!(
        "Overload: {} requests/s arrive and {} are served, so latencies grow with the length of the load: {}. Lower --rate or raise \
         --replicas.",
        format_significant(asked_per_s),
        format_significant(served_per_s),
        moved.join("; ")
    )
}

pub(super) fn refused(requests: u64) -> String {
    format!(
        "{} refused: prompt and output exceed the KV cache or, without chunked prefill, a step.",
        match requests {
            1 => "1 request is".to_owned(),
            requests => format!("{requests} requests are"),
        }
    )
}

/// Means and most of a number over steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Over {
    pub(super) mean: f64,
    pub(super) max: f64,
}

pub(super) fn steps(
    steps: u64,
    replicas: u64,
    busy_share: f64,
    running: Over,
    waiting: Over,
) -> String {
    format!(
        "{} on {}, busy {} of the time; mean {} running sequences (max {}), {} waiting requests (max {}).",
        Count(steps, "step"),
        Count(replicas, "replica"),
        Percent(busy_share),
        format_significant(running.mean),
        format_significant(running.max),
        format_significant(waiting.mean),
        format_significant(waiting.max)
    )
}

pub(super) fn kv_cache(
    usage: Over,
    preemptions: u64,
    discarded_tokens: u64,
    cached_tokens: u64,
    prompt_tokens: u64,
) -> String {
    format!(
        "KV cache usage: mean {}, max {}; {} ({discarded_tokens} tokens recomputed); prefix cache hits: {cached_tokens} of {prompt_tokens} prompt \
         tokens.",
        Percent(usage.mean),
        Percent(usage.max),
        Count(preemptions, "preemption")
    )
}

/// Where predicted step times come from.
pub(super) fn predicted(
    model: &str,
    device: &str,
    gpus: u64,
    efficiencies: &str,
    overhead: Nanos,
) -> String {
    let overhead = if overhead > Nanos(0) {
        format!(", plus {overhead} of engine overhead per step")
    } else {
        String::new()
    };
    let ranks = if gpus > 1 {
        format!("{gpus} × ")
    } else {
        String::new()
    };
    format!(
        "Step times: predicted for {model} on {ranks}{device} with the efficiency profile `{efficiencies}`{overhead}."
    )
}

/// A fit of step times: median and 90th percentile of its error, then what a step, a token, a sequence and a token of context take.
#[derive(Clone, Copy, Debug)]
pub(super) struct CalibrationFit {
    pub(super) steps: u64,
    pub(super) median_error: f64,
    pub(super) p90_error: f64,
    pub(super) step: Nanos,
    pub(super) token: Nanos,
    pub(super) sequence: Nanos,
    pub(super) context_token: Nanos,
}

/// Where fitted step times come from.
pub(super) fn fitted(trace: &str, fit: &CalibrationFit) -> String {
    format!(
        "Step times: fitted to {} of {trace}; held-out steps are off by {} (median), {} (p90). Per step {} + {} per token + {} per sequence + {} \
         per token of context.",
        Count(fit.steps, "engine step"),
        Percent(fit.median_error),
        Percent(fit.p90_error),
        fit.step,
        fit.token,
        fit.sequence,
        fit.context_token
    )
}

pub(super) fn engine(
    max_num_batched_tokens: u64,
    max_num_seqs: u64,
    (kv_blocks, sequence_blocks): (u64, u64),
    block_size: u64,
    chunked_prefill: bool,
    prefix_caching: bool,
) -> String {
    let on = |is_on: bool| if is_on { "on" } else { "off" };
    let held = match sequence_blocks {
        0 => String::new(),
        blocks => format!(" ({blocks} held by each sequence whatever its length)"),
    };
    format!(
        "Engine: max_num_batched_tokens {max_num_batched_tokens}, max_num_seqs {max_num_seqs}, {kv_blocks} KV blocks of {block_size} tokens{held}, chunked \
         prefill {}, prefix caching {}.",
        on(chunked_prefill),
        on(prefix_caching)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!(
            replicas(Some(1), 1, 8, "TTFT p99 1 s"),
            "1 replica (1 GPU) meets TTFT p99 1 s."
        );
        assert!(refused(1).starts_with("1 request is refused"));
        assert!(refused(3).starts_with("3 requests are refused"));
    }
}
