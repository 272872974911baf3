//! What would make a server faster, with evidence and a bound, or why nothing is concluded.

use llmprof_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::{
    parts::{MeanParts, Parts},
    self_check::SelfCheck,
    server::families::{Gauges, ServerWindow},
};

/// A part below this share of its whole is not worth a knob.
const WORTH: f64 = 0.1;
/// A KV cache this full decides how many requests run.
const KV_FULL: f64 = 0.9;

/// A conclusion about the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// A stable name.
    pub code: String,
    /// What was seen, with numbers.
    pub evidence: String,
    /// What to change.
    pub knob: String,
    /// What a change gains at most, with numbers.
    pub upper_bound: String,
    /// The same as a share of the mean latency: what findings are ordered by.
    pub share_of_latency: f64,
}

/// What rules look at.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The client.
    pub self_check: &'a SelfCheck,
    /// Each request.
    pub parts: &'a [Parts],
    /// The mean request.
    pub mean: Option<&'a MeanParts>,
    /// What the server says of the window.
    pub window: Option<&'a ServerWindow>,
    /// Gauges over time.
    pub gauges: &'a [(Nanos, Gauges)],
    /// Tokens of prompts that all have in common, as a share.
    pub shared_prefix: f64,
}

/// Conclusions, the one with most to gain first; the error is why there are none.
pub fn findings(evidence: Evidence<'_>) -> Result<Vec<Finding>, String> {
    if !evidence.self_check.kept_up {
        return Err("the client did not keep up, so its latencies are not the server's".to_owned());
    }
    let Some(mean) = evidence.mean.filter(|mean| mean.e2e_ms > 0.0) else {
        return Err("no request streamed to its end".to_owned());
    };
    let mut found = Vec::new();
    found.extend(queueing(&evidence, mean));
    found.extend(others_prefill(mean));
    found.extend(preemption(&evidence, mean));
    found.extend(prefix_cache(&evidence, mean));
    found.extend(network(mean));
    found.sort_by(|a, b| b.share_of_latency.total_cmp(&a.share_of_latency));
    Ok(found)
}

fn part(mean: &MeanParts, name: &str) -> Option<f64> {
    let found = mean.parts.iter().find(|part| part.name == name)?;
    (found.mean_ms >= WORTH * mean.e2e_ms).then_some(found.mean_ms)
}

fn most(gauges: &[(Nanos, Gauges)], value: impl Fn(&Gauges) -> Option<f64>) -> Option<f64> {
    gauges.iter().filter_map(|(_, g)| value(g)).reduce(f64::max)
}

fn queueing(evidence: &Evidence<'_>, mean: &MeanParts) -> Option<Finding> {
    let queue = part(mean, "queueing")?;
    let kv = most(evidence.gauges, |g| g.kv_usage);
    let running = most(evidence.gauges, |g| g.running);
    let waiting = most(evidence.gauges, |g| g.waiting);
    let seen = |name: &str, value: Option<f64>| {
        value.map_or(String::new(), |value| {
            format!(", {name} at most {value:.0}")
        })
    };
    let (cause, knob) = match kv {
        Some(kv) if kv >= KV_FULL => (
            format!(", KV cache {:.0} % full", 100.0 * kv),
            "the KV cache decides how many requests run: give it more memory (gpu_memory_utilization), store it in fp8 (kv_cache_dtype), or serve shorter contexts",
        ),
        Some(kv) => (
            format!(", KV cache {:.0} % full at most", 100.0 * kv),
            "room in the KV cache is left: raise max_num_seqs (max_num_batched_tokens for long prompts), else add replicas",
        ),
        None => (
            String::new(),
            "raise max_num_seqs while the KV cache has room, else add replicas",
        ),
    };
    Some(Finding {
        code: "server_queueing".to_owned(),
        evidence: format!(
            "requests queue {queue:.1} ms of {:.1} ms{}{}{cause}",
            mean.e2e_ms,
            seen("running", running),
            seen("waiting", waiting)
        ),
        knob: knob.to_owned(),
        upper_bound: format!("mean TTFT lower by {queue:.1} ms"),
        share_of_latency: queue / mean.e2e_ms,
    })
}

fn others_prefill(mean: &MeanParts) -> Option<Finding> {
    let wait = part(mean, "waiting for other requests' prefill")?;
    let decode = mean.parts.iter().find(|part| part.name == "decode");
    let decode = decode.map_or(0.0, |part| part.mean_ms) + wait;
    Some(Finding {
        code: "prefill_interrupts_decode".to_owned(),
        evidence: format!(
            "decode waits {wait:.1} ms of {decode:.1} ms for other requests' prefill: gaps in which another first token came are that much longer"
        ),
        knob: "enable chunked prefill, or lower max_num_batched_tokens so that a chunk takes less; prefill on other GPUs removes it".to_owned(),
        upper_bound: format!("mean TPOT lower by {:.0} %", 100.0 * wait / decode),
        share_of_latency: wait / mean.e2e_ms,
    })
}

fn preemption(evidence: &Evidence<'_>, mean: &MeanParts) -> Option<Finding> {
    let count = evidence.window?.preemptions.filter(|count| *count > 0.0)?;
    let stall = mean
        .parts
        .iter()
        .find(|part| part.name == "preemption and stalls")
        .map_or(0.0, |part| part.mean_ms);
    Some(Finding {
        code: "preemption".to_owned(),
        evidence: format!(
            "the server preempted {count:.0} requests: their KV cache was dropped and computed again"
        ),
        knob: "give the KV cache more memory, store it in fp8, or lower max_num_seqs".to_owned(),
        upper_bound: format!("mean latency lower by {stall:.1} ms, where stalls are preemptions"),
        share_of_latency: stall / mean.e2e_ms,
    })
}

fn prefix_cache(evidence: &Evidence<'_>, mean: &MeanParts) -> Option<Finding> {
    let hits = evidence.window?.prefix_cache_hit_rate.unwrap_or(0.0);
    let missed = evidence.shared_prefix - hits;
    if evidence.shared_prefix < 0.2 || missed < evidence.shared_prefix / 2.0 {
        return None;
    }
    let prefill = part(mean, "prefill")?;
    Some(Finding {
        code: "prefix_cache_misses".to_owned(),
        evidence: format!(
            "prompts share {:.0} % of their tokens, the prefix cache has {:.0} % of them",
            100.0 * evidence.shared_prefix,
            100.0 * hits
        ),
        knob: "enable prefix caching (enable_prefix_caching), or give the KV cache room to keep prefixes".to_owned(),
        upper_bound: format!("mean TTFT lower by {:.1} ms", prefill * missed),
        share_of_latency: prefill * missed / mean.e2e_ms,
    })
}

fn network(mean: &MeanParts) -> Option<Finding> {
    let outside = part(mean, "network and API server")?;
    Some(Finding {
        code: "outside_of_the_engine".to_owned(),
        evidence: format!(
            "{outside:.1} ms before the first token are neither queueing nor prefill"
        ),
        knob: "look at the API server: tokenizer, its processes (api_server_count), proxies, TLS"
            .to_owned(),
        upper_bound: format!("mean TTFT lower by {outside:.1} ms"),
        share_of_latency: outside / mean.e2e_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::MeanPart;

    fn mean(parts: &[(&str, f64)]) -> MeanParts {
        MeanParts {
            requests: 10,
            e2e_ms: parts.iter().map(|(_, ms)| ms).sum(),
            parts: parts
                .iter()
                .map(|(name, mean_ms)| MeanPart {
                    name: (*name).to_owned(),
                    mean_ms: *mean_ms,
                    p99_ms: None,
                    source: String::new(),
                })
                .collect(),
            not_split: Vec::new(),
        }
    }

    fn codes(mean: &MeanParts, kv: f64, kept_up: bool) -> Result<Vec<String>, String> {
        let check = SelfCheck {
            kept_up,
            ..SelfCheck::default()
        };
        let gauges = Gauges {
            running: Some(4.0),
            waiting: Some(9.0),
            kv_usage: Some(kv),
        };
        let found = findings(Evidence {
            self_check: &check,
            parts: &[],
            mean: Some(mean),
            window: None,
            gauges: &[(Nanos(0), gauges)],
            shared_prefix: 0.0,
        })?;
        Ok(found.into_iter().map(|f| f.code + " " + &f.knob).collect())
    }

    #[test]
    fn the_largest_part_comes_first_and_the_kv_cache_decides_the_knob() {
        let mean = mean(&[
            ("queueing", 30.0),
            ("prefill", 20.0),
            ("decode", 100.0),
            ("waiting for other requests' prefill", 50.0),
        ]);
        let found = codes(&mean, 0.3, true).unwrap();
        assert!(found[0].starts_with("prefill_interrupts_decode"));
        assert!(found[1].contains("raise max_num_seqs"), "{found:?}");
        assert!(codes(&mean, 0.97, true).unwrap()[1].contains("gpu_memory_utilization"));
    }

    #[test]
    fn a_late_client_concludes_nothing() {
        assert!(codes(&mean(&[("queueing", 30.0)]), 0.5, false).is_err());
        assert!(codes(&mean(&[]), 0.5, true).is_err());
        assert_eq!(
            codes(&mean(&[("decode", 30.0)]), 0.5, true).unwrap().len(),
            0
        );
    }
}
