//! What would make a server faster, or why nothing is concluded.

use llmprof_traffic::served::{
    Finding, FindingKind, LatencyPart, MeanParts, NoFindings, QueueLimit,
};
use llmprof_units::Nanos;

use crate::{
    self_check::SelfCheck,
    server::families::{Gauges, ServerWindow},
};

/// A part below this share of its whole is not worth a knob.
const WORTH: f64 = 0.1;
/// A KV cache this full decides how many requests run.
const KV_FULL: f64 = 0.9;

/// What rules look at.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The client.
    pub self_check: &'a SelfCheck,
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
pub fn findings(evidence: Evidence<'_>) -> Result<Vec<Finding>, NoFindings> {
    if !evidence.self_check.kept_up {
        return Err(NoFindings::ClientTooSlow);
    }
    let Some(mean) = evidence.mean.filter(|mean| mean.e2e_ms > 0.0) else {
        return Err(NoFindings::NoCompleteStream);
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

fn worthy(mean: &MeanParts, part: LatencyPart) -> Option<f64> {
    Some(mean.ms(part)).filter(|ms| *ms > 0.0 && *ms >= WORTH * mean.e2e_ms)
}

fn most(gauges: &[(Nanos, Gauges)], value: impl Fn(&Gauges) -> Option<f64>) -> Option<f64> {
    gauges.iter().filter_map(|(_, g)| value(g)).reduce(f64::max)
}

fn queueing(evidence: &Evidence<'_>, mean: &MeanParts) -> Option<Finding> {
    let queue_ms = worthy(mean, LatencyPart::Queueing)?;
    let kv_usage_max = most(evidence.gauges, |g| g.kv_usage);
    Some(Finding {
        kind: FindingKind::ServerQueueing {
            queue_ms,
            e2e_ms: mean.e2e_ms,
            running_max: most(evidence.gauges, |g| g.running),
            waiting_max: most(evidence.gauges, |g| g.waiting),
            kv_usage_max,
            limit: match kv_usage_max {
                Some(kv) if kv >= KV_FULL => QueueLimit::KvCache,
                Some(_) => QueueLimit::Scheduler,
                None => QueueLimit::Unknown,
            },
        },
        share_of_latency: queue_ms / mean.e2e_ms,
    })
}

fn others_prefill(mean: &MeanParts) -> Option<Finding> {
    let wait_ms = worthy(mean, LatencyPart::OthersPrefill)?;
    Some(Finding {
        kind: FindingKind::PrefillInterruptsDecode {
            wait_ms,
            decode_ms: mean.ms(LatencyPart::Decode) + wait_ms,
        },
        share_of_latency: wait_ms / mean.e2e_ms,
    })
}

fn preemption(evidence: &Evidence<'_>, mean: &MeanParts) -> Option<Finding> {
    let requests = evidence.window?.preemptions.filter(|count| *count > 0.0)?;
    let stall_ms = mean.ms(LatencyPart::Stalls);
    Some(Finding {
        kind: FindingKind::Preemption { requests, stall_ms },
        share_of_latency: stall_ms / mean.e2e_ms,
    })
}

fn prefix_cache(evidence: &Evidence<'_>, mean: &MeanParts) -> Option<Finding> {
    let hits = evidence.window?.prefix_cache_hit_rate.unwrap_or(0.0);
    let shared = evidence.shared_prefix;
    let missed = shared - hits;
    if shared < 0.2 || missed < shared / 2.0 {
        return None;
    }
    let gain_ms = worthy(mean, LatencyPart::Prefill)? * missed;
    Some(Finding {
        kind: FindingKind::PrefixCacheMisses {
            shared,
            hits,
            gain_ms,
        },
        share_of_latency: gain_ms / mean.e2e_ms,
    })
}

fn network(mean: &MeanParts) -> Option<Finding> {
    let outside_ms = worthy(mean, LatencyPart::Network)?;
    Some(Finding {
        kind: FindingKind::OutsideOfTheEngine { outside_ms },
        share_of_latency: outside_ms / mean.e2e_ms,
    })
}

#[cfg(test)]
mod tests {
    use llmprof_traffic::served::{MeanPart, PartSource};

    use super::*;

    fn mean(parts: &[(LatencyPart, f64)]) -> MeanParts {
        MeanParts {
            requests: 10,
            e2e_ms: parts.iter().map(|(_, ms)| ms).sum(),
            parts: parts
                .iter()
                .map(|(part, mean_ms)| MeanPart {
                    part: *part,
                    mean_ms: *mean_ms,
                    p99_ms: None,
                    source: PartSource::ClientTimestamps,
                })
                .collect(),
            not_split: Vec::new(),
        }
    }

    fn found(mean: &MeanParts, kv: f64, kept_up: bool) -> Result<Vec<FindingKind>, NoFindings> {
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
            mean: Some(mean),
            window: None,
            gauges: &[(Nanos(0), gauges)],
            shared_prefix: 0.0,
        })?;
        Ok(found.into_iter().map(|f| f.kind).collect())
    }

    #[test]
    fn the_largest_part_comes_first_and_the_kv_cache_decides_the_limit() {
        let mean = mean(&[
            (LatencyPart::Queueing, 30.0),
            (LatencyPart::Prefill, 20.0),
            (LatencyPart::Decode, 100.0),
            (LatencyPart::OthersPrefill, 50.0),
        ]);
        let limit = |kv: f64| {
            let found = found(&mean, kv, true).unwrap();
            assert_eq!(
                found[0],
                FindingKind::PrefillInterruptsDecode {
                    wait_ms: 50.0,
                    decode_ms: 150.0
                }
            );
            match found[1] {
                FindingKind::ServerQueueing { limit, .. } => limit,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(limit(0.3), QueueLimit::Scheduler);
        assert_eq!(limit(0.97), QueueLimit::KvCache);
    }

    #[test]
    fn a_late_client_concludes_nothing() {
        let queueing = mean(&[(LatencyPart::Queueing, 30.0)]);
        assert_eq!(found(&queueing, 0.5, false), Err(NoFindings::ClientTooSlow));
        assert_eq!(
            found(&mean(&[]), 0.5, true),
            Err(NoFindings::NoCompleteStream)
        );
        let decode = mean(&[(LatencyPart::Decode, 30.0)]);
        assert_eq!(found(&decode, 0.5, true), Ok(Vec::new()));
    }
}
