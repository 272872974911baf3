//! What to change.

use llmprof_record::kernel_name::{Category, classify};

use super::statement::is_compiler;
use crate::analyzed::{Cause, CauseKind, CausePlace};

/// What gives a kernel of a few thread blocks more of them.
fn spread_kernel(kernel: &str) -> &'static str {
    match classify(kernel).category {
        Category::Gemm | Category::Gemv => {
            "use a GEMM that splits K over the multiprocessors (split-K, stream-K), or a larger batch"
        }
        Category::Attention => {
            "use attention that splits the positions (flash decoding, no mask tensor), or compute several sequences in one call"
        }
        Category::Scan => {
            "scan along the last dimension, or use a scan that divides a row among thread blocks"
        }
        _ => {
            "use a kernel that divides its work among more thread blocks, or compute several inputs in one call"
        }
    }
}

/// What classes of transformers begin with, as in `LlamaAttention_3`; `Attention_3` may be anybody's.
const FAMILIES: &[&str] = &[
    "Bert", "Bloom", "CLIP", "Deepseek", "Falcon", "GPT2", "GPTNeo", "Gemma", "Gpt", "Llama",
    "Mistral", "Mixtral", "OPT", "Olmo", "Phi", "Qwen", "Roberta", "T5", "ViT", "Whisper",
];

/// Whether code of transformers runs at a place, by its file or its module.
fn is_of_transformers(place: &CausePlace) -> bool {
    let is_file = |line: &String| line.contains("transformers/models/");
    let is_module = |module: &String| FAMILIES.iter().any(|family| module.starts_with(family));
    place.line.as_ref().is_some_and(is_file) || place.module.as_ref().is_some_and(is_module)
}

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
            "wait for a copy right before its data is used (double buffering); where it is the same tensor each time, keep it on the GPU"
        }
        CauseKind::HostCopies {
            is_input: true,
            is_pageable: true,
            ..
        } => {
            "copy the next input from pinned memory with non_blocking=True on another stream while this one computes (prefetch)"
        }
        CauseKind::HostCopies { is_input: true, .. } => {
            "copy the next input on another stream while this one computes (prefetch)"
        }
        CauseKind::HostCopies {
            to_device: true,
            is_pageable: true,
            ..
        } => {
            "copy from pinned memory with non_blocking=True; where it is the same tensor each time, keep it on the GPU"
        }
        CauseKind::HostCopies {
            to_device: true,
            gains_by_joining: true,
            ..
        } => "join the copies into one; where it is the same tensor each time, keep it on the GPU",
        CauseKind::HostCopies {
            to_device: true, ..
        } => {
            "copy on another stream while the GPU computes; where it is the same tensor each time, keep it on the GPU"
        }
        CauseKind::HostCopies {
            is_pageable: true, ..
        } => "copy less, or into pinned memory with non_blocking=True",
        CauseKind::HostCopies {
            gains_by_joining: true,
            ..
        } => "copy less, or once per step with non_blocking=True",
        CauseKind::HostCopies { .. } => {
            "copy less, or with non_blocking=True while the GPU computes"
        }
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
        CauseKind::HostCode {
            are_between_requests: true,
            ..
        } => {
            "send requests before the one before is answered; `llmprof record` samples host stacks and shows whether the program waits or computes"
        }
        CauseKind::HostCode {
            fits_beside_gpu: true,
            ..
        } if cause.place.line.is_some() => {
            "move this code out of the step, or run it while the GPU works"
        }
        CauseKind::HostCode { .. } if cause.place.line.is_some() => {
            "do less in this code, or move it out of the step: the GPU works too little to hide it"
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
            "compute the final weights once at load (remove_weight_norm, merged adapters, flatten_parameters), or use a GEMM that takes the stored format"
        }
        CauseKind::GatheredWeights { .. } => {
            "multiply the rows of each expert together (grouped GEMM), which reads weights in place"
        }
        CauseKind::UnfusedAttention {
            is_fallback: true, ..
        } => {
            "use inputs that a fused kernel takes (16-bit, no dense mask): flash or cuDNN attention"
        }
        CauseKind::UnfusedAttention { .. } if is_of_transformers(&cause.place) => {
            "attn_implementation=\"sdpa\" or flash attention"
        }
        CauseKind::UnfusedAttention { .. } => {
            "F.scaled_dot_product_attention (a bias of the scores as attn_mask), or flash attention"
        }
        CauseKind::MaskedAttention { .. } => "pass is_causal=True and no mask",
        CauseKind::RepeatedWork { .. } => {
            "compute it once and keep the result (encoder_outputs, keys and values of cross-attention)"
        }
        CauseKind::Recomputed { .. } => {
            "keep what earlier steps computed: keys and values (use_cache=True, past_key_values), states of an encoder"
        }
        CauseKind::TokenProducts { .. } => {
            "send tokens by indexing (index_select, scatter_add) instead of multiplying by masks"
        }
        CauseKind::WorkBeyondModel { .. } => {
            "where the result is the same each time or needed in part, compute it once, or on fewer elements; read the tensor where it is"
        }
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
        CauseKind::GpuShared { .. } => {
            "move the other process to another GPU (`nvidia-smi` lists it), or give both a part of this one (MIG, MPS)"
        }
        CauseKind::SmallGrids { kernel, .. } => spread_kernel(kernel),
        CauseKind::SmallBatches { .. } => "compute all sequences of a step in one pass",
        CauseKind::WideOperators { .. } => "compute in fp32 or the model's format",
        CauseKind::AllExperts { .. } => "route tokens to their experts (grouped GEMM)",
        CauseKind::ExpertLoop { .. } if is_of_transformers(&cause.place) => {
            "compute all experts with one grouped GEMM (experts_implementation=\"grouped_mm\")"
        }
        CauseKind::ExpertLoop { .. } => "compute all experts with one grouped GEMM",
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
        CauseKind::DevicesInTurn { .. } => {
            "several batches at once, each on another GPU (pipeline), or each layer divided among the GPUs (tensor parallelism)"
        }
        CauseKind::LaunchBound { .. } => {
            "CUDA Graphs, or torch.compile with mode=\"reduce-overhead\""
        }
    };
    format!("Try: {change}.")
}

#[cfg(test)]
mod tests {
    use llmprof_units::{Bytes, Nanos};

    use super::*;

    fn advise(kind: CauseKind, place: CausePlace) -> String {
        change(&Cause {
            kind,
            count: 1.0,
            place,
            gains: Vec::new(),
            same_time_as: Vec::new(),
        })
    }

    fn small_grid(kernel: &str) -> String {
        let kind = CauseKind::SmallGrids {
            kernel: kernel.to_owned(),
            blocks: 15,
            multiprocessors: 132,
            kernels_ns: Nanos(1),
        };
        advise(kind, CausePlace::default())
    }

    #[test]
    fn advice_for_small_grids_follows_the_kernel() {
        let gemm = small_grid("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTT");
        assert!(
            gemm.contains("split-K") && !gemm.contains("attention"),
            "{gemm}"
        );
        let attention = small_grid("flash_fwd_kernel");
        assert!(attention.contains("flash decoding"), "{attention}");
        let scan = small_grid("at::native::tensor_kernel_scan_outer_dim<float>");
        assert!(
            scan.contains("scan") && !scan.contains("attention"),
            "{scan}"
        );
        let other = small_grid("solve_rows");
        assert!(
            !other.contains("attention") && !other.contains("GEMM"),
            "{other}"
        );
    }

    #[test]
    fn options_of_transformers_are_advised_where_it_runs() {
        let attention = |module: Option<&str>, line: Option<&str>| {
            let kind = CauseKind::UnfusedAttention {
                shape: "[1, 4, 384, 384]".to_owned(),
                is_fallback: false,
                kernels_ns: Nanos(1),
            };
            let place = CausePlace {
                operator: None,
                module: module.map(str::to_owned),
                line: line.map(str::to_owned),
            };
            advise(kind, place).contains("attn_implementation")
        };
        assert!(attention(Some("LlamaAttention_3"), None));
        let line = "transformers/models/gpt2/modeling_gpt2.py(40): eager_attention_forward";
        assert!(attention(None, Some(line)));
        assert!(!attention(
            Some("Attention_3"),
            Some("timm/layers/attention.py(12): forward")
        ));
        assert!(!attention(None, None));
    }

    #[test]
    fn fresh_inputs_are_prefetched_and_not_kept() {
        let copies = |is_input| {
            let kind = CauseKind::HostCopies {
                to_device: true,
                bytes: Bytes(30_000_000),
                is_pageable: false,
                is_serialized: false,
                is_input,
                gains_by_joining: false,
                copied_ns: Nanos(1_364_000),
                computed_on_host: None,
            };
            advise(kind, CausePlace::default())
        };
        let input = copies(true);
        assert!(
            input.contains("prefetch") && !input.contains("keep"),
            "{input}"
        );
        assert!(copies(false).contains("same tensor"));
    }
}
