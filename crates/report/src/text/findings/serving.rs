//! What a load showed of a server.

use llmprof_analysis::serving::{QueueLimit, ServingConclusion};
use llmprof_record::serving::ServerFamily;
use llmprof_units::Percent;

/// A finding's title: what was seen, with numbers.
pub(crate) fn title(conclusion: &ServingConclusion) -> String {
    match *conclusion {
        ServingConclusion::ServerQueueing {
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
        ServingConclusion::PrefillInterruptsDecode { wait_ms, decode_ms } => {
            format!("Decode waits {wait_ms:.1} of {decode_ms:.1} ms for other requests' prefill")
        }
        ServingConclusion::Preemption { requests, .. } => format!(
            "The server preempted {requests:.0} requests: it dropped their KV cache and computed it again"
        ),
        ServingConclusion::PrefixCacheMisses { shared, hits, .. } => format!(
            "Prompts share {} of their tokens; the prefix cache had {}",
            Percent(shared),
            Percent(hits)
        ),
        ServingConclusion::WithoutCudaGraphs {
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
        ServingConclusion::OutsideOfTheEngine { outside_ms } => {
            format!("{outside_ms:.1} ms before the first token are neither queueing nor prefill")
        }
    }
}

/// What to change; options are named only of an engine that is known to serve.
pub(crate) fn change(conclusion: &ServingConclusion, server: Option<ServerFamily>) -> String {
    match *conclusion {
        ServingConclusion::ServerQueueing { limit, .. } => {
            let run_more = format!(
                "let more requests run at once{}",
                options(server, RUNNING_REQUESTS)
            );
            match limit {
                QueueLimit::KvCache => format!(
                    "the KV cache limits how many requests run: give it more memory{}, store it in fp8{}, or serve shorter contexts",
                    options(server, KV_MEMORY),
                    options(server, KV_DTYPE)
                ),
                QueueLimit::Scheduler => {
                    format!("the KV cache has room: {run_more}, else add replicas")
                }
                QueueLimit::Unknown => {
                    format!("{run_more} while the KV cache has room, else add replicas")
                }
            }
        }
        ServingConclusion::PrefillInterruptsDecode { .. } => format!(
            "prefill in chunks, or in shorter ones{}; prefill on other GPUs removes the wait",
            options(server, CHUNKED_PREFILL)
        ),
        ServingConclusion::Preemption { .. } => format!(
            "give the KV cache more memory{}, store it in fp8{}, or let fewer requests run at once{}",
            options(server, KV_MEMORY),
            options(server, KV_DTYPE),
            options(server, RUNNING_REQUESTS)
        ),
        ServingConclusion::PrefixCacheMisses { .. } => format!(
            "enable prefix caching{}, or give the KV cache room to keep prefixes",
            options(server, PREFIX_CACHING)
        ),
        ServingConclusion::WithoutCudaGraphs {
            graph_batch_max: None,
            ..
        } => format!(
            "let the server capture CUDA Graphs{}",
            options(server, CUDA_GRAPHS)
        ),
        ServingConclusion::WithoutCudaGraphs { .. } => format!(
            "capture CUDA Graphs of these batch sizes{}",
            options(server, GRAPH_SIZES)
        ),
        ServingConclusion::OutsideOfTheEngine { .. } => format!(
            "look at the API server: tokenizer, its processes{}, proxies, TLS",
            options(server, API_PROCESSES)
        ),
    }
}

/// Options of vLLM, SGLang and TensorRT-LLM for one purpose, by the documentation of `vllm serve`, `sglang.launch_server` and
/// `trtllm-serve`; empty where an engine has none.
type Options = [&'static str; 3];

const RUNNING_REQUESTS: Options = [
    "--max-num-seqs; --max-num-batched-tokens for long prompts",
    "--max-running-requests",
    "--max_batch_size; --max_num_tokens for long prompts",
];
const KV_MEMORY: Options = [
    "--gpu-memory-utilization",
    "--mem-fraction-static",
    "--kv_cache_free_gpu_memory_fraction",
];
const KV_DTYPE: Options = [
    "--kv-cache-dtype fp8",
    "--kv-cache-dtype fp8_e4m3",
    "kv_cache_config.dtype",
];
const CHUNKED_PREFILL: Options = [
    "--enable-chunked-prefill, a lower --max-num-batched-tokens",
    "a lower --chunked-prefill-size",
    "enable_chunked_prefill, a lower --max_num_tokens",
];
const PREFIX_CACHING: Options = [
    "--enable-prefix-caching",
    "leave out --disable-radix-cache",
    "kv_cache_config.enable_block_reuse",
];
const CUDA_GRAPHS: Options = [
    "leave out --enforce-eager",
    "leave out --disable-cuda-graph",
    "cuda_graph_config",
];
const GRAPH_SIZES: Options = [
    "cudagraph_capture_sizes",
    "--cuda-graph-max-bs",
    "cuda_graph_config",
];
const API_PROCESSES: Options = ["--api-server-count", "--tokenizer-worker-num", ""];

fn options(server: Option<ServerFamily>, [vllm, sglang, tensorrt_llm]: Options) -> String {
    let option = match server {
        Some(ServerFamily::Vllm) => vllm,
        Some(ServerFamily::Sglang) => sglang,
        Some(ServerFamily::TensorRtLlm) => tensorrt_llm,
        _ => "",
    };
    if option.is_empty() {
        String::new()
    } else {
        format!(" ({option})")
    }
}

/// What a change gains at most.
pub(crate) fn upper_bound(conclusion: &ServingConclusion) -> String {
    match *conclusion {
        ServingConclusion::ServerQueueing { queue_ms: ms, .. }
        | ServingConclusion::PrefixCacheMisses { gain_ms: ms, .. }
        | ServingConclusion::OutsideOfTheEngine { outside_ms: ms } => {
            format!("mean TTFT lower by {ms:.1} ms")
        }
        ServingConclusion::PrefillInterruptsDecode { wait_ms, decode_ms } => {
            format!("mean TPOT lower by {:.0} %", 100.0 * wait_ms / decode_ms)
        }
        ServingConclusion::WithoutCudaGraphs { gain_ms, .. } => {
            format!("mean latency lower by {gain_ms:.1} ms")
        }
        ServingConclusion::Preemption { stall_ms, .. } => {
            format!("mean latency lower by {stall_ms:.1} ms, if all stalls are preemptions")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_says_what_limits_the_queue_and_what_to_change() {
        let queueing = |limit, kv_usage_max| ServingConclusion::ServerQueueing {
            queue_ms: 30.0,
            e2e_ms: 200.0,
            running_max: Some(4.0),
            waiting_max: None,
            kv_usage_max,
            limit,
        };
        let full = queueing(QueueLimit::KvCache, Some(0.97));
        assert_eq!(
            title(&full),
            "Requests queue 30.0 of 200.0 ms, at most 4 running, KV cache at most 97 % full"
        );
        let scheduler = queueing(QueueLimit::Scheduler, Some(0.2));
        let vllm = Some(ServerFamily::Vllm);
        assert!(change(&full, vllm).contains("(--gpu-memory-utilization)"));
        assert!(change(&scheduler, vllm).contains("--max-num-seqs"));
        assert_eq!(
            change(&scheduler, Some(ServerFamily::Sglang)),
            "the KV cache has room: let more requests run at once (--max-running-requests), else add replicas"
        );
        assert_eq!(upper_bound(&full), "mean TTFT lower by 30.0 ms");
    }

    #[test]
    fn steps_without_graphs_are_told_by_batch_and_with_the_option_that_captures_them() {
        let eager = |eager_batch, graph_batch_max| ServingConclusion::WithoutCudaGraphs {
            eager_steps: 2,
            decode_steps: 4,
            eager_batch,
            graph_batch_max,
            idle_share: 0.6,
            gain_ms: 24.0,
        };
        let some = eager([9, 12], Some(8));
        assert_eq!(
            title(&some),
            "2 of 4 decode steps run without a CUDA Graph (batches 9 to 12; the largest batch with a graph is 8): GPU idle 60.0 % of them"
        );
        assert!(change(&some, Some(ServerFamily::Vllm)).contains("(cudagraph_capture_sizes)"));
        let none = eager([4, 4], None);
        assert!(title(&none).contains("(batch 4): GPU idle"));
        assert!(change(&none, Some(ServerFamily::Vllm)).contains("--enforce-eager"));
        assert_eq!(upper_bound(&none), "mean latency lower by 24.0 ms");
    }

    /// A loop over transformers was told to raise max_num_seqs and to leave out --enforce-eager.
    #[test]
    fn options_are_named_of_known_engines_only() {
        let limits = [
            QueueLimit::KvCache,
            QueueLimit::Scheduler,
            QueueLimit::Unknown,
        ];
        let mut kinds: Vec<ServingConclusion> = limits
            .map(|limit| ServingConclusion::ServerQueueing {
                queue_ms: 30.0,
                e2e_ms: 200.0,
                running_max: None,
                waiting_max: None,
                kv_usage_max: None,
                limit,
            })
            .into();
        for graph_batch_max in [None, Some(8)] {
            kinds.push(ServingConclusion::WithoutCudaGraphs {
                eager_steps: 2,
                decode_steps: 4,
                eager_batch: [1, 2],
                graph_batch_max,
                idle_share: 0.6,
                gain_ms: 24.0,
            });
        }
        kinds.extend([
            ServingConclusion::PrefillInterruptsDecode {
                wait_ms: 1.0,
                decode_ms: 2.0,
            },
            ServingConclusion::Preemption {
                requests: 1.0,
                stall_ms: 2.0,
            },
            ServingConclusion::PrefixCacheMisses {
                shared: 0.5,
                hits: 0.0,
                gain_ms: 2.0,
            },
            ServingConclusion::OutsideOfTheEngine { outside_ms: 2.0 },
        ]);
        for kind in kinds {
            let unknown = change(&kind, None);
            assert!(
                !unknown.contains(['_', '(']) && !unknown.contains("--"),
                "{unknown}"
            );
            let vllm = change(&kind, Some(ServerFamily::Vllm));
            assert!(vllm.contains("--") || vllm.contains('_'), "{vllm}");
            for other in ["SGLang", "TensorRT", "vLLM"] {
                assert!(!vllm.contains(other), "{vllm}");
            }
        }
    }
}
