//! Findings about a served load: what would make the server faster, or why nothing can be concluded.

use llmprof_record::serving::{EngineStep, Gauges, ServerFamily, ServerWindow};
use llmprof_units::Nanos;

use super::SelfCheck;
use super::conclusion::{QueueLimit, ServingConclusion};
use super::mean_parts::{LatencyPart, MeanParts};
use crate::findings::{Abstention, Conclusion, Confidence, Derivation, Finding, Gain, GainOf};
use crate::row_order::sort_descending_f64;
use crate::thresholds::{KV_CACHE_FULL_MIN_SHARE, REQUEST_PART_MIN_SHARE};

/// The facts of a load that the rules read.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadEvidence<'a> {
    /// The server, whose options a report may name.
    pub(super) server: Option<ServerFamily>,
    pub(super) self_check: &'a SelfCheck,
    pub(super) mean: Option<&'a MeanParts>,
    /// What the server says of the window.
    pub(super) window: Option<&'a ServerWindow>,
    pub(super) gauges: &'a [(Nanos, Gauges)],
    /// Engine steps of the server's trace.
    pub(super) steps: &'a [EngineStep],
    /// Tokens of prompts that all have in common, as a share.
    pub(super) shared_prefix: f64,
}

/// Findings, the one with the largest gain first; a single one that abstains if nothing can be concluded.
pub(super) fn find_bottlenecks(evidence: LoadEvidence<'_>) -> Vec<Finding> {
    if !evidence.self_check.kept_up {
        return vec![abstaining_finding(Abstention::ClientTooSlow)];
    }
    let Some(mean) = evidence.mean.filter(|mean| mean.e2e_ms > 0.0) else {
        return vec![abstaining_finding(Abstention::NoCompleteStream)];
    };
    let mut conclusions = Vec::new();
    conclusions.extend(find_queueing(&evidence, mean));
    conclusions.extend(find_others_prefill(mean));
    conclusions.extend(find_preemption(&evidence, mean));
    conclusions.extend(find_prefix_misses(&evidence, mean));
    conclusions.extend(find_missing_graphs(evidence.steps, mean));
    conclusions.extend(find_network(mean));
    sort_descending_f64(&mut conclusions, ServingConclusion::saving_ms);
    let finding = |conclusion| finding_of(conclusion, evidence.server, mean.e2e_ms);
    conclusions.into_iter().map(finding).collect()
}

fn abstaining_finding(why: Abstention) -> Finding {
    Finding {
        code: "serving".to_owned(),
        phase: None,
        label: None,
        conclusion: None,
        evidence: Vec::new(),
        gain: None,
        confidence: Confidence::Abstains,
        abstains: Some(why),
        is_contended: false,
    }
}

/// The finding of a conclusion. Its gain is one of the mean request and a bound: a server may do other work in the time.
fn finding_of(conclusion: ServingConclusion, server: Option<ServerFamily>, e2e_ms: f64) -> Finding {
    let nanos = |ms: f64| Nanos((ms * 1e6).round() as i64);
    let (wall, saved) = (nanos(e2e_ms), nanos(conclusion.saving_ms()));
    let gain = (saved > Nanos(0) && saved < wall).then(|| Gain {
        of: GainOf::Latency,
        factor: wall.0 as f64 / (wall - saved).0 as f64,
        phase_factor: None,
        saved_ns: Some(saved),
        derivation: Derivation::WithoutPart {
            wall_ns: wall,
            part_ns: saved,
        },
        is_bound: true,
    });
    Finding {
        gain,
        confidence: Confidence::Medium,
        ..Finding::of_run(Conclusion::Serving { server, conclusion })
    }
}

fn large_part_ms(mean: &MeanParts, part: LatencyPart) -> Option<f64> {
    Some(mean.ms(part)).filter(|ms| *ms > 0.0 && *ms >= REQUEST_PART_MIN_SHARE * mean.e2e_ms)
}

fn largest_gauge(
    gauges: &[(Nanos, Gauges)],
    value: impl Fn(&Gauges) -> Option<f64>,
) -> Option<f64> {
    gauges.iter().filter_map(|(_, g)| value(g)).reduce(f64::max)
}

fn find_queueing(evidence: &LoadEvidence<'_>, mean: &MeanParts) -> Option<ServingConclusion> {
    let queue_ms = large_part_ms(mean, LatencyPart::Queueing)?;
    let kv_usage_max = largest_gauge(evidence.gauges, |g| g.kv_usage);
    Some(ServingConclusion::ServerQueueing {
        queue_ms,
        e2e_ms: mean.e2e_ms,
        running_max: largest_gauge(evidence.gauges, |g| g.running),
        waiting_max: largest_gauge(evidence.gauges, |g| g.waiting),
        kv_usage_max,
        limit: match kv_usage_max {
            Some(kv) if kv >= KV_CACHE_FULL_MIN_SHARE => QueueLimit::KvCache,
            Some(_) => QueueLimit::Scheduler,
            None => QueueLimit::Unknown,
        },
    })
}

fn find_others_prefill(mean: &MeanParts) -> Option<ServingConclusion> {
    let wait_ms = large_part_ms(mean, LatencyPart::OthersPrefill)?;
    Some(ServingConclusion::PrefillInterruptsDecode {
        wait_ms,
        decode_ms: mean.ms(LatencyPart::Decode) + wait_ms,
    })
}

fn find_preemption(evidence: &LoadEvidence<'_>, mean: &MeanParts) -> Option<ServingConclusion> {
    let requests = evidence.window?.preemptions.filter(|count| *count > 0.0)?;
    let stall_ms = mean.ms(LatencyPart::Stalls);
    Some(ServingConclusion::Preemption { requests, stall_ms })
}

fn find_prefix_misses(evidence: &LoadEvidence<'_>, mean: &MeanParts) -> Option<ServingConclusion> {
    let hits = evidence.window?.prefix_cache_hit_rate.unwrap_or(0.0);
    let shared = evidence.shared_prefix;
    let missed = shared - hits;
    if shared < 0.2 || missed < shared / 2.0 {
        return None;
    }
    let gain_ms = large_part_ms(mean, LatencyPart::Prefill)? * missed;
    Some(ServingConclusion::PrefixCacheMisses {
        shared,
        hits,
        gain_ms,
    })
}

/// A CUDA Graph removes at most the time in which the GPU waits for launches: its idle time in steps that replay none.
fn find_missing_graphs(steps: &[EngineStep], mean: &MeanParts) -> Option<ServingConclusion> {
    let decode = || {
        steps
            .iter()
            .filter(|step| step.prefill.sequences == 0 && step.decode.sequences > 0)
    };
    let eager = || decode().filter(|step| step.is_eager == Some(true));
    let time = |step: &EngineStep| step.end_unix_ns - step.start_unix_ns;
    let idle = |step: &EngineStep| (time(step) - step.busy_ns.unwrap_or(Nanos(0))).max(Nanos(0));
    let batch = |step: &EngineStep| step.decode.sequences;
    let eager_batch = [eager().map(batch).min()?, eager().map(batch).max()?];
    let all_ns = decode().map(time).sum::<Nanos>().0 as f64;
    let eager_ns = eager().map(time).sum::<Nanos>().0 as f64;
    let idle_ns = eager().map(idle).sum::<Nanos>().0 as f64;
    if eager_ns <= 0.0 {
        return None;
    }
    let gain_ms = mean.ms(LatencyPart::Decode) * idle_ns / all_ns;
    (gain_ms >= REQUEST_PART_MIN_SHARE * mean.e2e_ms).then(|| {
        ServingConclusion::WithoutCudaGraphs {
            eager_steps: eager().count() as u64,
            decode_steps: decode().count() as u64,
            eager_batch,
            graph_batch_max: decode()
                .filter(|step| step.is_eager == Some(false))
                .map(batch)
                .max(),
            idle_share: idle_ns / eager_ns,
            gain_ms,
        }
    })
}

fn find_network(mean: &MeanParts) -> Option<ServingConclusion> {
    let outside_ms = large_part_ms(mean, LatencyPart::Network)?;
    Some(ServingConclusion::OutsideOfTheEngine { outside_ms })
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::serving::mean_parts::{MeanPart, PartSource};
    use llmprof_record::serving::EnginePart;

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

    fn conclusion(finding: &Finding) -> ServingConclusion {
        match finding.conclusion {
            Some(Conclusion::Serving { conclusion, .. }) => conclusion,
            ref other => panic!("{other:?}"),
        }
    }

    fn findings_of(mean: &MeanParts, kv: f64, kept_up: bool) -> Vec<Finding> {
        let check = SelfCheck {
            kept_up,
            ..SelfCheck::default()
        };
        let gauges = Gauges {
            running: Some(4.0),
            waiting: Some(9.0),
            kv_usage: Some(kv),
        };
        find_bottlenecks(LoadEvidence {
            server: None,
            self_check: &check,
            mean: Some(mean),
            window: None,
            gauges: &[(Nanos(0), gauges)],
            steps: &[],
            shared_prefix: 0.0,
        })
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
            let findings = findings_of(&mean, kv, true);
            assert_eq!(
                conclusion(&findings[0]),
                ServingConclusion::PrefillInterruptsDecode {
                    wait_ms: 50.0,
                    decode_ms: 150.0
                }
            );
            match conclusion(&findings[1]) {
                ServingConclusion::ServerQueueing { limit, .. } => limit,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(limit(0.3), QueueLimit::Scheduler);
        assert_eq!(limit(0.97), QueueLimit::KvCache);
    }

    #[test]
    fn a_late_client_concludes_nothing() {
        let queueing = mean(&[(LatencyPart::Queueing, 30.0)]);
        let late = findings_of(&queueing, 0.5, false);
        assert_eq!(late[0].abstains, Some(Abstention::ClientTooSlow));
        let empty = findings_of(&mean(&[]), 0.5, true);
        assert_eq!(empty[0].abstains, Some(Abstention::NoCompleteStream));
        assert_eq!((late.len(), empty.len()), (1, 1));
        let decode = mean(&[(LatencyPart::Decode, 30.0)]);
        assert_eq!(findings_of(&decode, 0.5, true), []);
    }

    /// The conclusions about a load whose client kept up.
    fn conclusions_of(
        mean: &MeanParts,
        window: &ServerWindow,
        steps: &[EngineStep],
        shared_prefix: f64,
    ) -> Vec<ServingConclusion> {
        let check = SelfCheck {
            kept_up: true,
            ..SelfCheck::default()
        };
        let findings = find_bottlenecks(LoadEvidence {
            server: None,
            self_check: &check,
            mean: Some(mean),
            window: Some(window),
            gauges: &[],
            steps,
            shared_prefix,
        });
        findings.iter().map(conclusion).collect()
    }

    #[test]
    fn preemptions_are_found_by_the_servers_count() {
        let stalled = mean(&[(LatencyPart::Stalls, 40.0), (LatencyPart::Decode, 60.0)]);
        let window = |preemptions| ServerWindow {
            preemptions,
            ..ServerWindow::default()
        };
        let conclusions = conclusions_of(&stalled, &window(Some(3.0)), &[], 0.0);
        let expected = ServingConclusion::Preemption {
            requests: 3.0,
            stall_ms: 40.0,
        };
        assert_eq!(conclusions, [expected]);
        // Stalls alone may be anything.
        assert_eq!(conclusions_of(&stalled, &window(Some(0.0)), &[], 0.0), []);
        assert_eq!(conclusions_of(&stalled, &window(None), &[], 0.0), []);
    }

    #[test]
    fn a_prefix_cache_is_missed_where_prompts_share_and_prefill_costs() {
        let prefill = mean(&[(LatencyPart::Prefill, 50.0), (LatencyPart::Decode, 50.0)]);
        let window = |prefix_cache_hit_rate| ServerWindow {
            prefix_cache_hit_rate,
            ..ServerWindow::default()
        };
        let conclusions = conclusions_of(&prefill, &window(Some(0.1)), &[], 0.6);
        let ServingConclusion::PrefixCacheMisses { gain_ms, .. } = conclusions[0] else {
            panic!("{conclusions:?}");
        };
        assert!((gain_ms - 25.0).abs() < 1e-9, "{gain_ms}");
        // The cache works, nothing is shared, or prefill is cheap.
        assert_eq!(conclusions_of(&prefill, &window(Some(0.55)), &[], 0.6), []);
        assert_eq!(conclusions_of(&prefill, &window(Some(0.0)), &[], 0.1), []);
        let cheap = mean(&[(LatencyPart::Prefill, 5.0), (LatencyPart::Decode, 95.0)]);
        assert_eq!(conclusions_of(&cheap, &window(Some(0.0)), &[], 0.6), []);
    }

    #[test]
    fn time_outside_of_the_engine_is_found_from_a_tenth_of_the_latency() {
        let outside = |ms: f64| {
            let mean = mean(&[
                (LatencyPart::Network, ms),
                (LatencyPart::Decode, 100.0 - ms),
            ]);
            conclusions_of(&mean, &ServerWindow::default(), &[], 0.0)
        };
        let expected = ServingConclusion::OutsideOfTheEngine { outside_ms: 20.0 };
        assert_eq!(outside(20.0), [expected]);
        assert_eq!(outside(9.0), []);
    }

    #[test]
    fn decode_steps_without_a_cuda_graph_are_found_with_their_batches() {
        let step = |prefill: u64, decode: u64, busy: i64, is_eager| EngineStep {
            start_unix_ns: Nanos(0),
            end_unix_ns: Nanos(100),
            prefill: EnginePart {
                sequences: prefill,
                ..EnginePart::default()
            },
            decode: EnginePart {
                sequences: decode,
                ..EnginePart::default()
            },
            busy_ns: Some(Nanos(busy)),
            is_eager,
            roofline_ns: None,
        };
        let decode = mean(&[(LatencyPart::Decode, 80.0), (LatencyPart::Prefill, 20.0)]);
        let steps = [
            step(0, 8, 90, Some(false)),
            step(0, 12, 30, Some(true)),
            step(0, 9, 50, Some(true)),
            step(0, 4, 90, Some(false)),
            // Prefill is eager in any server.
            step(1, 8, 10, Some(true)),
        ];
        let conclusions = conclusions_of(&decode, &ServerWindow::default(), &steps, 0.0);
        // The GPU idles 70 + 50 of 400 ns of decode.
        let expected = ServingConclusion::WithoutCudaGraphs {
            eager_steps: 2,
            decode_steps: 4,
            eager_batch: [9, 12],
            graph_batch_max: Some(8),
            idle_share: 0.6,
            gain_ms: 24.0,
        };
        assert_eq!(conclusions, [expected]);
        // A busy GPU gains nothing by graphs, and a trace without kernels says nothing.
        let busy = [step(0, 12, 95, Some(true)), step(0, 8, 90, Some(false))];
        assert_eq!(
            conclusions_of(&decode, &ServerWindow::default(), &busy, 0.0),
            []
        );
        let unknown = [step(0, 12, 0, None)];
        assert_eq!(
            conclusions_of(&decode, &ServerWindow::default(), &unknown, 0.0),
            []
        );
    }
}
