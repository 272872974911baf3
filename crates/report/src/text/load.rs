//! What a load showed of a server.

use llmprof_traffic::served::{
    Finding, FindingKind, LatencyPart, NoFindings, NotSplit, PartSource, QueueLimit,
};
use llmprof_units::Percent;

/// A part of a request's latency.
pub fn part(part: LatencyPart) -> &'static str {
    match part {
        LatencyPart::Client => "client",
        LatencyPart::Connection => "connection",
        LatencyPart::Queueing => "queueing",
        LatencyPart::Prefill => "prefill",
        LatencyPart::Network => "network and API server",
        LatencyPart::UntilFirstToken => "queueing, prefill and network",
        LatencyPart::Decode => "decode",
        LatencyPart::OthersPrefill => "waiting for other requests' prefill",
        LatencyPart::Stalls => "stalls",
    }
}

/// How a part is known.
pub fn source(source: PartSource) -> &'static str {
    match source {
        PartSource::ClientTimestamps => "client timestamps",
        PartSource::ServerTimings => "the server's timings",
        PartSource::TraceSteps => "steps of the trace",
        PartSource::ServerTimingsAndTraceSteps => "the server's timings, steps of the trace",
        PartSource::ServerHistograms => "the server's histograms (means of the window)",
        PartSource::Remainder => "what the histograms leave",
        PartSource::OthersFirstTokens => "gaps in which another request's first token came",
        PartSource::LongGaps => "gaps beyond 5 times the typical one",
        PartSource::LongGapsAndPreemptions => {
            "gaps beyond 5 times the typical one; the server preempted requests"
        }
    }
}

/// What is not split, and why.
pub fn not_split(why: NotSplit) -> String {
    match why {
        NotSplit::HistogramsOnly => {
            "Queueing and prefill of single requests: the server has histograms only.".to_owned()
        }
        NotSplit::OtherRequests {
            queue_ms,
            prefill_ms,
            until_first_token_ms,
        } => format!(
            "Queueing and prefill: the server's means ({queue_ms:.1} + {prefill_ms:.1} ms) are not those of these requests ({until_first_token_ms:.1} ms)."
        ),
        NotSplit::NothingKnown => {
            "Queueing, prefill and network: the server has no figures for these requests alone."
                .to_owned()
        }
    }
}

/// Why nothing is concluded.
pub fn no_findings(why: NoFindings) -> &'static str {
    match why {
        NoFindings::ClientTooSlow => {
            "No conclusion about the server: the client did not keep up, so its latencies are not the server's."
        }
        NoFindings::NoCompleteStream => {
            "No conclusion about the server: no request streamed to its end."
        }
    }
}

/// A finding's title: what was seen, with numbers.
pub fn finding(finding: &Finding) -> String {
    match finding.kind {
        FindingKind::ServerQueueing {
            queue_ms,
            e2e_ms,
            running_max,
            waiting_max,
            kv_usage_max,
            ..
        } => {
            let mut seen = format!("Requests queue {queue_ms:.1} of {e2e_ms:.1} ms");
            for (name, value) in [("running", running_max), ("waiting", waiting_max)] {
                if let Some(value) = value {
                    seen += &format!(", at most {value:.0} {name}");
                }
            }
            if let Some(kv) = kv_usage_max {
                seen += &format!(", KV cache at most {:.0} % full", 100.0 * kv);
            }
            seen
        }
        FindingKind::PrefillInterruptsDecode { wait_ms, decode_ms } => {
            format!("Decode waits {wait_ms:.1} of {decode_ms:.1} ms for other requests' prefill")
        }
        FindingKind::Preemption { requests, .. } => format!(
            "The server preempted {requests:.0} requests: it dropped their KV cache and computed it again"
        ),
        FindingKind::PrefixCacheMisses { shared, hits, .. } => format!(
            "Prompts share {} of their tokens; the prefix cache had {}",
            Percent(shared),
            Percent(hits)
        ),
        FindingKind::WithoutCudaGraphs {
            eager_steps,
            decode_steps,
            eager_batch: [least, most],
            graph_batch_max,
            idle_share,
            ..
        } => {
            let batches = if least == most {
                format!("batch {least}")
            } else {
                format!("batches {least} to {most}")
            };
            let largest = graph_batch_max.map_or(String::new(), |batch| {
                format!("; the largest batch with a graph is {batch}")
            });
            format!(
                "{eager_steps} of {decode_steps} decode steps run without a CUDA Graph ({batches}{largest}): GPU idle {} of them",
                Percent(idle_share)
            )
        }
        FindingKind::OutsideOfTheEngine { outside_ms } => {
            format!("{outside_ms:.1} ms before the first token are neither queueing nor prefill")
        }
    }
}

/// What to change.
pub fn knob(finding: &Finding) -> &'static str {
    match finding.kind {
        FindingKind::ServerQueueing { limit, .. } => match limit {
            QueueLimit::KvCache => {
                "the KV cache limits how many requests run: give it more memory (gpu_memory_utilization), store it in fp8 (kv_cache_dtype), or serve shorter contexts"
            }
            QueueLimit::Scheduler => {
                "the KV cache has room: raise max_num_seqs (max_num_batched_tokens for long prompts), else add replicas"
            }
            QueueLimit::Unknown => {
                "raise max_num_seqs while the KV cache has room, else add replicas"
            }
        },
        FindingKind::PrefillInterruptsDecode { .. } => {
            "enable chunked prefill, or lower max_num_batched_tokens for shorter chunks; prefill on other GPUs removes the wait"
        }
        FindingKind::Preemption { .. } => {
            "give the KV cache more memory, store it in fp8, or lower max_num_seqs"
        }
        FindingKind::PrefixCacheMisses { .. } => {
            "enable prefix caching (enable_prefix_caching), or give the KV cache room to keep prefixes"
        }
        FindingKind::WithoutCudaGraphs {
            graph_batch_max: None,
            ..
        } => {
            "let the server capture CUDA Graphs: leave out --enforce-eager (vLLM) or --disable-cuda-graph (SGLang)"
        }
        FindingKind::WithoutCudaGraphs { .. } => {
            "capture CUDA Graphs of these batch sizes: cudagraph_capture_sizes (vLLM), --cuda-graph-max-bs (SGLang), cuda_graph_config (TensorRT-LLM)"
        }
        FindingKind::OutsideOfTheEngine { .. } => {
            "look at the API server: tokenizer, its processes (api_server_count), proxies, TLS"
        }
    }
}

/// What a change gains at most.
pub fn upper_bound(finding: &Finding) -> String {
    match finding.kind {
        FindingKind::ServerQueueing { queue_ms: ms, .. }
        | FindingKind::PrefixCacheMisses { gain_ms: ms, .. }
        | FindingKind::OutsideOfTheEngine { outside_ms: ms } => {
            format!("mean TTFT lower by {ms:.1} ms")
        }
        FindingKind::PrefillInterruptsDecode { wait_ms, decode_ms } => {
            format!("mean TPOT lower by {:.0} %", 100.0 * wait_ms / decode_ms)
        }
        FindingKind::WithoutCudaGraphs { gain_ms, .. } => {
            format!("mean latency lower by {gain_ms:.1} ms")
        }
        FindingKind::Preemption { stall_ms, .. } => {
            format!("mean latency lower by {stall_ms:.1} ms, if all stalls are preemptions")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_says_what_limits_the_queue_and_what_to_change() {
        let queueing = |limit, kv_usage_max| Finding {
            kind: FindingKind::ServerQueueing {
                queue_ms: 30.0,
                e2e_ms: 200.0,
                running_max: Some(4.0),
                waiting_max: None,
                kv_usage_max,
                limit,
            },
            share_of_latency: 0.15,
        };
        let full = queueing(QueueLimit::KvCache, Some(0.97));
        assert_eq!(
            finding(&full),
            "Requests queue 30.0 of 200.0 ms, at most 4 running, KV cache at most 97 % full"
        );
        assert!(knob(&full).contains("gpu_memory_utilization"));
        assert!(knob(&queueing(QueueLimit::Scheduler, Some(0.2))).contains("max_num_seqs"));
        assert_eq!(upper_bound(&full), "mean TTFT lower by 30.0 ms");
    }

    #[test]
    fn steps_without_graphs_are_told_by_batch_and_with_the_option_that_captures_them() {
        let eager = |eager_batch, graph_batch_max| Finding {
            kind: FindingKind::WithoutCudaGraphs {
                eager_steps: 2,
                decode_steps: 4,
                eager_batch,
                graph_batch_max,
                idle_share: 0.6,
                gain_ms: 24.0,
            },
            share_of_latency: 0.24,
        };
        let some = eager([9, 12], Some(8));
        assert_eq!(
            finding(&some),
            "2 of 4 decode steps run without a CUDA Graph (batches 9 to 12; the largest batch with a graph is 8): GPU idle 60.0 % of them"
        );
        assert!(knob(&some).contains("cudagraph_capture_sizes"));
        let none = eager([4, 4], None);
        assert!(finding(&none).contains("(batch 4): GPU idle"));
        assert!(knob(&none).contains("--enforce-eager"));
        assert_eq!(upper_bound(&none), "mean latency lower by 24.0 ms");
    }
}
