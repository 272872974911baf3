//! The page of a plan.

use llmprof_units::{Count, Percent, format_significant};

pub(super) const TITLE: &str = "Planned from predictions, not measured";
pub(super) const PARETO: &str = "TPOT p99 of engines that meet the objectives";

/// What an order by GPUs rests on.
pub(super) const NO_PRICES: &str = "Without --prices, a GPU of each kind counts as one: the order is by number of GPUs, not by cost.";

/// Below the axis of the chart.
pub(super) fn pareto_key(has_prices: bool) -> &'static str {
    if has_prices { "cost per hour" } else { "GPUs" }
}

/// The cheapest engines that meet the objectives.
pub(super) fn best(engine: &str, replicas: u64, gpus: u64, cost_per_hour: Option<f64>) -> String {
    let cost = cost_per_hour.map_or_else(String::new, |cost| {
        format!(", {} an hour", format_significant(cost))
    });
    format!(
        "{} of {engine}: {}{cost}.",
        Count(replicas, "replica"),
        Count(gpus, "GPU")
    )
}

/// Engines of each kind, where prefill and decode are apart.
pub(super) fn split(prefill: u64, decode: u64) -> String {
    format!("{prefill} for prefill and {decode} for decode")
}

pub(super) fn none_met(engine: &str, replicas: u64) -> String {
    format!(
        "No engine that was simulated meets the objectives. Nearest: {} of {engine}.",
        Count(replicas, "replica")
    )
}

/// No engine passes the bounds.
pub(super) fn nothing(considered: usize) -> String {
    format!(
        "No engine can meet the objectives: bounds rule out all {considered} that were considered."
    )
}

pub(super) fn limits(max_num_batched_tokens: u64, max_num_seqs: u64, kv_blocks: u64) -> String {
    format!(
        "Each with --max-num-batched-tokens {max_num_batched_tokens} --max-num-seqs {max_num_seqs}, {kv_blocks} KV blocks."
    )
}

/// A reason in a table.
pub(super) fn reason(key: &str) -> &'static str {
    match key {
        "memory" => "memory",
        "kv" => "KV cache",
        "ttft" => "TTFT",
        "tpot" => "TPOT",
        "e2e" => "end-to-end latency",
        "gpus" => "number of GPUs",
        _ => "no prediction",
    }
}

/// What the best engines have least room in.
pub(super) fn limited(key: &str, share: Option<f64>) -> String {
    let share = share.map_or_else(String::new, |share| {
        format!("; its objectives are at {} of their limits", Percent(share))
    });
    format!("Limited by {}{share}.", reason(key))
}

pub(super) fn highest_rate(met: f64, missed: Option<f64>) -> String {
    match missed {
        Some(missed) => format!(
            "It meets the objectives up to {} requests/s; at {} it does not.",
            format_significant(met),
            format_significant(missed)
        ),
        None => format!(
            "It meets the objectives at {} requests/s, the highest rate that was tried.",
            format_significant(met)
        ),
    }
}

pub(super) fn not_settled(requests: usize) -> String {
    format!(
        "The 99th percentiles still change after {requests} requests of one engine: --requests-max allows more."
    )
}

/// The cheapest engines without narrower formats, which change what a model answers.
pub(super) fn own_formats(engine: &str, replicas: u64, gpus: u64) -> String {
    format!(
        "Narrower formats may change answers. In the model's own: {} of {engine}, {}.",
        Count(replicas, "replica"),
        Count(gpus, "GPU")
    )
}

pub(super) fn listed(listed: usize, simulated: usize, has_prices: bool) -> String {
    let order = if has_prices { "cost" } else { "GPUs" };
    format!("The best {listed} of {simulated} simulated: objectives met first, then by {order}.")
}

/// Engines that fail for one reason.
pub(super) fn failed(key: &str, engines: usize, considered: usize) -> String {
    let what = match key {
        "memory" => "weights and activations leave no memory for a KV cache",
        "kv" => "the KV cache is too small",
        "ttft" => "TTFT is too long",
        "tpot" => "TPOT is too long",
        "e2e" => "end-to-end latency is too long",
        "gpus" => "the load needs more GPUs than --max-gpus allows",
        _ => "there is no prediction for the device in these formats",
    };
    format!("{engines} of {considered} engines: {what}.")
}

pub(super) fn not_simulated(engines: usize) -> String {
    format!(
        "{} not simulated: others are cheaper by the bounds.",
        Count(engines as u64, "engine")
    )
}

pub(super) fn basis(profile: &str, devices: &[String]) -> String {
    format!(
        "Step times are predicted with the efficiency profile `{profile}` on {}; one replica is simulated and gets every n-th request of n replicas. Network, tokenization and client time are not included.",
        devices.join(", ")
    )
}
/// Step times that benches of a server shifted.
pub(super) fn shifted(benches: usize, server: &str, prefill: f64, decode: f64) -> String {
    format!(
        "Step times are shifted by {} of {server}: × {prefill:.2} for prompts, × {decode:.2} for decoding. Other devices, layouts and formats take the same factors.",
        Count(benches as u64, "bench")
    )
}

/// Median and worst error of a latency.
pub(super) struct LatencyError {
    pub(super) name: &'static str,
    pub(super) median: f64,
    pub(super) worst: f64,
}

/// The error that a shift leaves, where benches were left out in turn to find it.
pub(super) fn left_over(left_out: &[LatencyError], before: &[LatencyError]) -> String {
    let listed = |errors: &[LatencyError]| {
        let each = errors.iter().map(|error| {
            let [median, worst] = [error.median, error.worst].map(Percent);
            format!("{} {median} in the median and {worst} at worst", error.name)
        });
        each.collect::<Vec<_>>().join(", ")
    };
    let before = listed(before);
    if left_out.is_empty() {
        return format!(
            "Error without the shift: {before}. One bench says nothing about the error that is left: add one of another load."
        );
    }
    format!(
        "Error left over, each bench predicted by the others: {}. Without the shift: {before}.",
        listed(left_out)
    )
}
