//! What to change.

use super::statement::is_compiler;
use crate::analyzed::{Cause, CauseKind};

pub(crate) fn change(cause: &Cause) -> String {
    let change = match &cause.kind {
        CauseKind::Synchronization {
            is_copied_back: true,
            ..
        } => "compute it on the GPU, once per step if all layers need it",
        CauseKind::Synchronization { .. } => match cause.place.operator.as_deref() {
            Some("aten::nonzero" | "aten::masked_select" | "aten::unique" | "aten::index") => {
                "use fixed shapes (torch.where, masks) instead of selecting by condition"
            }
            Some("aten::item" | "aten::is_nonzero" | "aten::_local_scalar_dense") => {
                "keep the value on the GPU, or read it once after the step"
            }
            _ => "delete the call, or synchronize once per step",
        },
        CauseKind::HostCopies {
            computed_on_host: Some(_),
            ..
        } => "compute it on the GPU and copy the result only",
        CauseKind::HostCopies {
            is_serialized: true,
            ..
        } => {
            "wait for a copy right before its data is used (double buffering), or keep the tensor on the GPU"
        }
        CauseKind::HostCopies {
            to_device: true,
            is_pageable: true,
            ..
        } => "keep the tensor on the GPU, or copy from pinned memory with non_blocking=True",
        CauseKind::HostCopies {
            to_device: true, ..
        } => "keep the tensor on the GPU, or join the copies into one",
        CauseKind::HostCopies {
            is_pageable: true, ..
        } => "copy less, or into pinned memory with non_blocking=True",
        CauseKind::HostCopies { .. } => "copy less, or once per step with non_blocking=True",
        CauseKind::HostCalls { .. } => "move the call out of the step, or call it less often",
        CauseKind::DeviceCopies { .. } => "use the tensor itself where nothing writes to it",
        CauseKind::HostCode {
            collecting_share: Some(_),
            ..
        } => "call gc.freeze() after start-up and collect between steps",
        CauseKind::HostCode {
            gil_holder,
            has_switch_interval,
            ..
        } if gil_holder.is_some() || *has_switch_interval => {
            "move that thread's work to another process"
        }
        CauseKind::HostCode {
            copied: Some(_), ..
        } => "compute it on the GPU and copy the result only",
        CauseKind::HostCode { .. } if cause.place.line.is_some() => {
            "move this code out of the step, or run it while the GPU works"
        }
        CauseKind::HostCode { .. } => {
            "move this code out of the step; `llmprof record` samples host stacks and names the line"
        }
        CauseKind::Autograd { .. } => {
            "generate under torch.inference_mode(), with torch.autograd.set_detect_anomaly off"
        }
        CauseKind::UnmergedAdapters { .. } => {
            "merge the adapter into the weights once (PEFT: `merge_and_unload`), unless several are used at the same time"
        }
        CauseKind::RepeatedTables { .. } => {
            "compute what depends on positions alone once in a pass and hand it to all layers"
        }
        CauseKind::DispatchMode { .. } => {
            "leave the mode on for one pass at most (FLOP counters, debugging and logging modes), or compile the model"
        }
        CauseKind::HostOperators { .. }
            if cause.place.operator.as_deref().is_some_and(is_compiler) =>
        {
            "keep shapes fixed or mark them dynamic (torch.compile(dynamic=True)), so that nothing is compiled again"
        }
        CauseKind::HostOperators {
            on_cpu: true,
            others: 1..,
            ..
        } => "keep such values in Python numbers, or in one tensor for the whole batch",
        CauseKind::HostOperators { on_cpu: true, .. } => {
            "run the operator on the GPU, or outside of the step"
        }
        CauseKind::HostOperators { .. } => {
            "warm up before measuring; avoid shapes that make libraries compile or search again"
        }
        CauseKind::PinnedMemory { .. } => "pin host memory once and use it again",
        CauseKind::GraphCaptures { .. } => {
            "capture a graph once per shape, keep it, and copy new inputs into its tensors"
        }
        CauseKind::UnusedSpan { .. } => {
            "attend to the filled positions: graphs for a few lengths, or attention that takes the length of each sequence"
        }
        CauseKind::OperatorLoop { .. } => "compute the loop with one operator on the whole tensor",
        CauseKind::RepeatedPasses { .. } => {
            "compute all sequences in one batch; drop passes whose result is not used"
        }
        CauseKind::LayoutConversions { .. } => {
            "keep weights and inputs in the layout of the kernels: .to(memory_format=torch.channels_last)"
        }
        CauseKind::Dropout { .. } => "call model.eval() before generating",
        CauseKind::Allocation { .. } => {
            "let the caching allocator keep memory: no torch.cuda.empty_cache() in the loop, expandable segments"
        }
        CauseKind::BlockingLaunches => "unset CUDA_LAUNCH_BLOCKING",
        CauseKind::GemmFormat {
            faster,
            is_of_model,
            ..
        } => {
            return if *is_of_model {
                format!(
                    "Try: load the weights in {faster} (`dtype=`), without upcasts around GEMMs."
                )
            } else {
                "Try: torch.set_float32_matmul_precision('high'), or 16-bit weights.".to_owned()
            };
        }
        CauseKind::UnalignedGemms { .. } => {
            "pad the dimension to a multiple of 64 with zeros, which changes no result"
        }
        CauseKind::WeightCasts { .. } => {
            "compute the final weights once at load (remove_weight_norm, merged adapters), or use a GEMM that takes the stored format"
        }
        CauseKind::GatheredWeights { .. } => {
            "multiply the rows of each expert together (grouped GEMM), which reads weights in place"
        }
        CauseKind::UnfusedAttention {
            is_fallback: true, ..
        } => {
            "use inputs that a fused kernel takes (16-bit, no dense mask): flash or cuDNN attention"
        }
        CauseKind::UnfusedAttention { .. } => "attn_implementation=\"sdpa\" or flash attention",
        CauseKind::MaskedAttention { .. } => "pass is_causal=True and no mask",
        CauseKind::RepeatedWork { .. } => {
            "compute it once and keep the result (encoder_outputs, keys and values of cross-attention)"
        }
        CauseKind::Recomputed { .. } => "use the KV cache (use_cache=True, past_key_values)",
        CauseKind::UnusedLogits { .. } => {
            "compute logits of the last token only (logits_to_keep=1)"
        }
        CauseKind::KvCopies { operator, .. } if operator == "aten::cat" => {
            "write into a cache of fixed size (StaticCache, paged KV cache)"
        }
        CauseKind::KvCopies { .. } => {
            "do not copy the cache; use attention that takes grouped heads (enable_gqa)"
        }
        CauseKind::VocabularySort { .. } => {
            "rank only where a request asks for it; sample without sorting (Gumbel maximum)"
        }
        CauseKind::OtherWork { .. } => {
            "stop that work, move it to another GPU, or run it between steps"
        }
        CauseKind::WideOperators { .. } => "compute in fp32 or the model's format",
        CauseKind::AllExperts { .. } => "route tokens to their experts (grouped GEMM)",
        CauseKind::ExpertLoop { .. } => {
            "compute all experts with one grouped GEMM (experts_implementation=\"grouped_mm\")"
        }
        CauseKind::Fills {
            largest: Some(_), ..
        } => "allocate once, only what is used, and without filling it (torch.empty)",
        CauseKind::Fills { .. } => {
            "torch.utils.deterministic.fill_uninitialized_memory = False, or no deterministic algorithms"
        }
        CauseKind::SmallChunks { .. } => {
            "compute the prompt in one pass, or in chunks that fill the GPU"
        }
        CauseKind::CpuContention { .. } => {
            "keep CPU cores free for the process; `llmprof record` shows whether its threads wait for one"
        }
        CauseKind::Communication { .. } => {
            "overlap communication with compute; fewer, larger collectives"
        }
        CauseKind::UnfusedElementwise { .. } => "torch.compile, or fused kernels",
        CauseKind::LaunchBound { .. } => {
            "CUDA Graphs, or torch.compile with mode=\"reduce-overhead\""
        }
    };
    format!("Try: {change}.")
}
