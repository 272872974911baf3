//! The facts of a trace that show what ran.

use llmprof_record::kernel_name::{Category, KernelClass, Library, classify};
use llmprof_record::trace::{HostKind, StrId, Trace};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Parallelism, ProgramKind, Proof};
use crate::engine_label::{EngineLabel, LabelEngine};
use crate::labels::{is_annotation, own_name, phase_of_name};
use crate::phases::engine::labelled_steps;
use crate::timeline::launches::is_api;
use crate::timeline::nesting::module_name;

/// What PyTorch's autograd engine calls the evaluation of one backward function.
pub(crate) const BACKWARD_PREFIX: &str = "autograd::engine::evaluate_function: ";
/// Name of the node that sums up the gradients of a parameter.
const ACCUMULATED_GRADIENTS: &str = "torch::autograd::AccumulateGrad";
/// `torch.optim` marks each step: `Optimizer.step#Adam.step`.
pub(crate) const OPTIMIZER_STEP: &str = "Optimizer.step#";
/// How many threads of backward ops a proof names.
const THREADS_LISTED_MAX: usize = 3;
/// How many optimizers proofs name, in order of first use.
const OPTIMIZERS_LISTED_MAX: usize = 3;
/// How many classes of modules a proof names.
const MODULES_LISTED_MAX: usize = 3;

/// Parts of the names of kernels that change weights.
const OPTIMIZER_KERNELS: [&str; 2] = ["AdamFunctor", "FusedAdam"];
/// Part of the names of kernels that compute gradients of weights, where a library of deep learning has them.
const WEIGHT_GRADIENT: &str = "wgrad";
/// What the names of such kernels have in them where they do not name their library: cuDNN's `sm80_xmma_wgrad_implicit_gemm_…`.
const WEIGHT_GRADIENT_FORMS: [&str; 2] = ["xmma", "gemm"];
/// Parts of the names of other kernels that only gradients have. `dgrad` is not one of them: transposed convolutions of an
/// inference run as the data gradient of a convolution.
const GRADIENT_KERNELS: [&str; 4] = ["flash_bwd", "fmha_bwd", "FmhaBwd", "bwd_dkdv"];
/// The same, where a library of deep learning has them or the rest of the name is of its operators: solvers and reconstructions have
/// backward substitutions and projections.
const BACKWARD_KERNELS: [&str; 2] = ["_backward", "layer_norm_grad"];

/// Whether a name shows a library whose kernels with `backward` in their names compute gradients. The kernels of CUB and rocPRIM have
/// functions of any program as template arguments.
fn is_of_learning_library(class: KernelClass) -> bool {
    !matches!(
        class.library,
        Library::Unknown | Library::Cub | Library::RocPrim
    )
}

/// Whether a kernel computes gradients of weights, or changes weights.
fn is_weight_kernel(name: &str) -> bool {
    let has = |part: &str| name.contains(part);
    OPTIMIZER_KERNELS.iter().any(|part| has(part))
        || name.contains(WEIGHT_GRADIENT)
            && (WEIGHT_GRADIENT_FORMS.iter().any(|part| has(part))
                || is_of_learning_library(classify(name)))
}

/// Whether a kernel computes gradients of anything.
fn is_gradient_kernel(name: &str) -> bool {
    let has = |part: &str| name.contains(part);
    let is_learned = || {
        let class = classify(name);
        let is_of_model = matches!(
            class.category,
            Category::Attention | Category::Norm | Category::Softmax | Category::Embedding
        );
        is_of_model || is_of_learning_library(class)
    };
    GRADIENT_KERNELS.iter().any(|part| has(part))
        || BACKWARD_KERNELS.iter().any(|part| has(part)) && is_learned()
}

/// Whether an operator computes gradients: autograd's own names, and those of its functions (`AddmmBackward0`).
pub(crate) fn is_backward_op(name: &str) -> bool {
    if name.starts_with(BACKWARD_PREFIX) || name == ACCUMULATED_GRADIENTS {
        return true;
    }
    let stem = name.split([',', ' ']).next().unwrap_or(name);
    let stem = stem.trim_end_matches(|c: char| c.is_ascii_digit());
    stem.ends_with("Backward") && !stem.contains("::")
}

/// Labels of engines, the first of them. llmprof's own labels state a step of a model, not of an engine.
pub(super) fn engine_labels(trace: &Trace) -> Option<(ProgramKind, Proof)> {
    let steps = labelled_steps(trace);
    let step = steps.first()?;
    // The batch may be that of a label around it, in the format of another engine.
    let own = EngineLabel::parse(trace.text(step.name))?;
    let (kind, engine) = match own.engine {
        LabelEngine::Vllm => (ProgramKind::Serving, "vLLM"),
        LabelEngine::Sglang => (ProgramKind::Serving, "SGLang"),
        LabelEngine::TensorRtLlm => (ProgramKind::Serving, "TensorRT-LLM"),
        LabelEngine::Llmprof => (ProgramKind::LlmInference, "llmprof"),
        LabelEngine::ProfilerStep => return None,
    };
    let label = Proof::EngineLabels {
        engine: engine.to_owned(),
        label: trace.text(step.name).to_owned(),
    };
    Some((kind, label))
}

/// Backward ops, optimizer steps and kernels that only training has. Backward ops alone prove gradients, not training: forces, attacks and guidance
/// differentiate by inputs. Training adds the gradients of parameters up, steps an optimizer, or runs kernels that only it has.
pub(super) fn gradient_proofs(trace: &Trace) -> Option<(ProgramKind, Vec<Proof>)> {
    let mut proofs: Vec<Proof> = backward_ops(trace).into_iter().collect();
    let optimizers = optimizer_proofs(trace);
    let mut kernel = None;
    if optimizers.is_empty() && !adds_up_gradients(trace) {
        kernel = training_kernel(trace, proofs.is_empty());
        if kernel.is_none() {
            return (!proofs.is_empty()).then_some((ProgramKind::Other, proofs));
        }
    }
    proofs.extend(optimizers);
    if proofs.is_empty() {
        proofs.extend(kernel);
    }
    proofs.extend(parallelism_proofs(trace));
    proofs.extend(pipeline_proof(trace));
    Some((ProgramKind::Training, proofs))
}

/// Whether each backward pass adds up the gradients of several tensors, as operators or as ranges of `emit_nvtx`. One for each call of
/// the function that a pass begins with may be that of an input, as in attacks on a model.
fn adds_up_gradients(trace: &Trace) -> bool {
    let in_table = |names: &[StrId]| {
        let is_sum = |name: &str| name.starts_with(ACCUMULATED_GRADIENTS);
        let is_begin = |name: &str| is_backward_op(name) && !name.contains(ACCUMULATED_GRADIENTS);
        let function = |row: usize| trace.text(names[row]).split(',').next();
        let Some(first) = named_rows(trace, names, is_begin).next() else {
            return named_rows(trace, names, is_sum).next().is_some();
        };
        let passes =
            named_rows(trace, names, is_begin).filter(|&row| function(row) == function(first));
        named_rows(trace, names, is_sum).count() > passes.count()
    };
    in_table(&trace.hosts.name) || in_table(&trace.ranges.name)
}

/// What PyTorch's wrappers call their ranges. FSDP wraps what DDP could: where both are there, each is named.
fn parallelism_proofs(trace: &Trace) -> Vec<Proof> {
    const SCHEMES: [(&str, Parallelism); 3] = [
        ("FullyShardedDataParallel.", Parallelism::FullySharded),
        ("FSDP::", Parallelism::FullySharded),
        ("DistributedDataParallel.", Parallelism::DataParallel),
    ];
    let mut proofs: Vec<Proof> = Vec::new();
    for (begin, scheme) in SCHEMES {
        let is_known = |proof: &Proof| matches!(proof, Proof::Parallel { scheme: known, .. } if *known == scheme);
        if let Some(name) = first_annotation(trace, |name| name.starts_with(begin))
            && !proofs.iter().any(is_known)
        {
            proofs.push(Proof::Parallel {
                scheme,
                range: trace.text(name).to_owned(),
            });
        }
    }
    proofs
}

/// The name of the first range, or operator of older versions of Kineto, that `is_told` accepts.
fn first_annotation(trace: &Trace, is_told: impl Fn(&str) -> bool + Copy) -> Option<StrId> {
    let (hosts, ranges) = (&trace.hosts, &trace.ranges);
    let in_ranges = named_rows(trace, &ranges.name, is_told)
        .filter(|&row| is_annotation(ranges.kind[row]))
        .map(|row| ranges.name[row]);
    let in_hosts = named_rows(trace, &hosts.name, is_told)
        .filter(|&row| hosts.kind[row] == HostKind::OPERATOR)
        .map(|row| hosts.name[row]);
    in_ranges.chain(in_hosts).next()
}

/// `torch.distributed.pipelining` marks each micro-batch: `Forward 0`, `Backward 0`. Both are there for at least two of them.
fn pipeline_proof(trace: &Trace) -> Option<Proof> {
    let ranges = &trace.ranges;
    let numbers = |begin: &'static str| -> FxHashSet<u32> {
        let number = move |name: &str| name.strip_prefix(begin)?.parse().ok();
        let rows = named_rows(trace, &ranges.name, move |name| number(name).is_some());
        let own = rows.filter(|&row| is_annotation(ranges.kind[row]));
        own.filter_map(|row| number(trace.text(ranges.name[row])))
            .collect()
    };
    let (forward, backward) = (numbers("Forward "), numbers("Backward "));
    let both = forward.intersection(&backward).count() as u64;
    let first = forward.intersection(&backward).min()?;
    (both >= 2).then(|| Proof::Pipeline {
        micro_batches: both,
        range: format!("Forward {first}"),
    })
}

/// Rows of names that `is_told` accepts; each distinct name is looked at once.
pub(crate) fn named_rows<'t>(
    trace: &'t Trace,
    names: &'t [StrId],
    is_told: impl Fn(&str) -> bool + 't,
) -> impl Iterator<Item = usize> + 't {
    let mut known: FxHashMap<StrId, bool> = FxHashMap::default();
    (0..names.len()).filter(move |&row| {
        let name = names[row];
        *known
            .entry(name)
            .or_insert_with(|| is_told(trace.text(name)))
    })
}

/// Whether a name is one that only programs have which use a GPU: a call of its runtime, a collective of NCCL, an operator of its
/// libraries. Passes of a compiler name devices that the program need not have, and recurrent layers ask on every device whether
/// cuDNN is there.
fn is_of_device(name: &str) -> bool {
    const RUNTIMES: [&str; 4] = ["cuda", "hip", "nccl:", "rccl:"];
    const LIBRARIES: [&str; 4] = ["cudnn", "miopen", "cuda", "nccl"];
    let is_operator = name.starts_with("aten::") && name != "aten::cudnn_is_acceptable";
    RUNTIMES.iter().any(|begin| name.starts_with(begin))
        || is_operator && LIBRARIES.iter().any(|part| name.contains(part))
        || name.contains("FusedAdam")
}

/// Whether the host calls a device, recorded or not.
pub(crate) fn uses_device(trace: &Trace) -> bool {
    let (hosts, ranges) = (&trace.hosts, &trace.ranges);
    let is_call = |kind: HostKind| kind == HostKind::OPERATOR || is_api(kind);
    let mut calls = named_rows(trace, &hosts.name, is_of_device);
    let mut marks = named_rows(trace, &ranges.name, is_of_device);
    calls.any(|row| is_call(hosts.kind[row])) || marks.any(|row| is_annotation(ranges.kind[row]))
}

fn backward_ops(trace: &Trace) -> Option<Proof> {
    let (hosts, ranges) = (&trace.hosts, &trace.ranges);
    // `emit_nvtx` writes operators as ranges.
    let in_hosts = named_rows(trace, &hosts.name, is_backward_op)
        .filter(|&row| hosts.kind[row] == HostKind::OPERATOR)
        .map(|row| (hosts.name[row], hosts.thread[row]));
    let in_ranges = named_rows(trace, &ranges.name, is_backward_op)
        .filter(|&row| is_annotation(ranges.kind[row]))
        .map(|row| (ranges.name[row], ranges.thread[row]));
    let mut first = None;
    let mut threads: Vec<String> = Vec::new();
    let mut seen = FxHashSet::default();
    for (name, thread) in in_hosts.chain(in_ranges) {
        first.get_or_insert(name);
        let row = thread.0 as usize;
        if seen.insert(thread) && row < trace.threads.len() {
            // Threads of several processes may have one number.
            add_distinct(
                &mut threads,
                &trace.threads.thread[row].to_string(),
                THREADS_LISTED_MAX,
            );
        }
    }
    let op = trace.text(first?);
    let op = op.strip_prefix(BACKWARD_PREFIX).unwrap_or(op);
    let op = op.split(", ").next().unwrap_or(op);
    Some(Proof::BackwardOps {
        op: op.to_owned(),
        threads,
    })
}

/// When operators that compute gradients began, in order.
pub(crate) fn backward_starts(trace: &Trace) -> Vec<i64> {
    let hosts = &trace.hosts;
    let rows = named_rows(trace, &hosts.name, is_backward_op);
    let own = rows.filter(|&row| hosts.kind[row] == HostKind::OPERATOR);
    let mut starts: Vec<i64> = own.map(|row| hosts.start[row]).collect();
    starts.sort_unstable();
    starts
}

/// Optimizers by name, in order of first use.
fn optimizer_proofs(trace: &Trace) -> Vec<Proof> {
    let mut names: Vec<StrId> = Vec::new();
    while let Some(name) = first_annotation(trace, |text| {
        text.starts_with(OPTIMIZER_STEP) && names.iter().all(|known| trace.text(*known) != text)
    }) {
        names.push(name);
        if names.len() == OPTIMIZERS_LISTED_MAX {
            break;
        }
    }
    let named = names.into_iter().map(|name| Proof::Optimizer {
        name: trace.text(name).to_owned(),
    });
    named.collect()
}

/// A kernel of gradients of weights; where no operators were recorded, of any gradients.
fn training_kernel(trace: &Trace, is_alone: bool) -> Option<Proof> {
    let is_told = |name: &str| is_weight_kernel(name) || is_alone && is_gradient_kernel(name);
    let row = named_rows(trace, &trace.kernels.name, is_told).next()?;
    Some(Proof::TrainingKernel {
        name: trace.text(trace.kernels.name[row]).to_owned(),
    })
}

/// Parts of the names of attention kernels that read a KV cache. `splitkv` is not one of them: FlashAttention divides the keys of any
/// small batch.
const CACHED_ATTENTION: [&str; 5] = [
    "paged_attention",
    "PagedKV",
    "BatchDecode",
    "masked_multihead_attention",
    "mmha",
];

/// Whether the work of a trace can be that of a language model: it looks up embeddings, attends, or keeps a recurrent state. A softmax
/// counts where nothing convolves: classifiers of images end in one. Ranges alone contradict nothing.
fn can_be_language_model(trace: &Trace) -> bool {
    let is_operator = |row: &usize| trace.hosts.kind[*row] == HostKind::OPERATOR;
    let runs = |of_kernel: fn(Category) -> bool, of_op: fn(&str) -> bool| {
        let is_told = move |name: &str| of_kernel(classify(name).category);
        let mut kernels = named_rows(trace, &trace.kernels.name, is_told);
        let mut ops = named_rows(trace, &trace.hosts.name, of_op).filter(is_operator);
        kernels.next().is_some() || ops.next().is_some()
    };
    let is_of_tokens = |category| {
        matches!(
            category,
            Category::Attention
                | Category::Embedding
                | Category::Rope
                | Category::Cache
                | Category::Sampling
                | Category::Recurrence
        )
    };
    let is_token_op = |name: &str| {
        let name = name.to_ascii_lowercase();
        name.contains("attention") || name.contains("attn") || name.contains("embedding")
    };
    let runs_nothing = !runs(|_| true, |_| true);
    runs_nothing
        || runs(is_of_tokens, is_token_op)
        || runs(
            |category| category == Category::Softmax,
            |name| name.contains("softmax"),
        ) && !runs(
            |category| category == Category::Conv,
            |name| name.contains("conv"),
        )
}

/// Ranges of prefill, or of single steps of decode, around work that a language model does. A lone `decode` may be that of an image or
/// a video: it counts where attention reads a KV cache, or where attention runs, nothing convolves and the program has no other range.
pub(super) fn generation_ranges(trace: &Trace) -> Option<Proof> {
    let ranges = &trace.ranges;
    let mut names: Vec<String> = Vec::new();
    let mut phases: Vec<String> = Vec::new();
    let mut has_others = false;
    let mut seen = FxHashSet::default();
    for row in 0..ranges.len() {
        if !is_annotation(ranges.kind[row]) || !seen.insert(ranges.name[row]) {
            continue;
        }
        let text = trace.text(ranges.name[row]);
        let phase = phase_of_name(text);
        let is_part_of_path = text.contains(['.', '/', '@']);
        has_others |= is_part_of_path || phase.is_none() && own_name(text).is_some();
        if let Some(phase) = phase.filter(|phase| phase == "prefill" || phase.starts_with("decode"))
            && !phases.contains(&phase)
        {
            phases.push(phase);
            names.push(text.to_owned());
        }
    }
    let is_alone = phases.iter().all(|phase| phase == "decode");
    let is_cached = |name: &str| CACHED_ATTENTION.iter().any(|part| name.contains(part));
    let is_attention = |name: &str| classify(name).category == Category::Attention;
    let is_convolution = |name: &str| classify(name).category == Category::Conv;
    let runs = |is_told: &dyn Fn(&str) -> bool| {
        let mut rows = named_rows(trace, &trace.kernels.name, is_told);
        rows.next().is_some()
    };
    let is_proof = !names.is_empty()
        && (runs(&is_cached)
            || is_alone && !has_others && runs(&is_attention) && !runs(&is_convolution)
            || !is_alone && can_be_language_model(trace));
    is_proof.then_some(Proof::Ranges { names })
}

/// The modules of a trace by class: `LlamaForCausalLM` of `nn.Module: LlamaForCausalLM_0`, and last parts of module paths.
pub(super) struct Modules {
    outermost: Vec<String>,
    language_models: Vec<String>,
}

impl Modules {
    pub(super) fn of_trace(trace: &Trace) -> Self {
        let hosts = &trace.hosts;
        let mut outermost: Vec<String> = Vec::new();
        let mut language_models: Vec<String> = Vec::new();
        let mut until = i64::MIN;
        let mut thread = None;
        for row in 0..hosts.len() {
            if hosts.kind[row] != HostKind::PYTHON {
                continue;
            }
            let Some(name) = module_name(trace.text(hosts.name[row])) else {
                continue;
            };
            let class = module_class(name);
            if is_language_model(class) {
                add_distinct(&mut language_models, class, MODULES_LISTED_MAX);
            }
            if thread != Some(hosts.thread[row]) {
                (thread, until) = (Some(hosts.thread[row]), i64::MIN);
            }
            if hosts.start[row] >= until {
                until = hosts.start[row].saturating_add(hosts.duration[row]);
                add_distinct(&mut outermost, class, MODULES_LISTED_MAX);
            }
        }
        let ranges = &trace.ranges;
        let is_head = |name: &str| name == "lm_head" || name.ends_with(".lm_head");
        let is_attention = |name: &str| name.ends_with(".self_attn");
        let first = |is_told: fn(&str) -> bool| {
            let row = named_rows(trace, &ranges.name, is_told).next()?;
            Some(trace.text(ranges.name[row]).to_owned())
        };
        if let (Some(head), Some(attention)) = (first(is_head), first(is_attention)) {
            language_models.extend([attention, head]);
        }
        Self {
            outermost,
            language_models,
        }
    }

    pub(super) fn language_model(&self) -> Option<Proof> {
        let names = self.language_models.clone();
        (!names.is_empty()).then_some(Proof::Modules { names })
    }

    pub(super) fn outermost_modules(&self) -> Option<Proof> {
        let names = self.outermost.clone();
        (!names.is_empty()).then_some(Proof::Modules { names })
    }
}

fn add_distinct(names: &mut Vec<String>, name: &str, most: usize) {
    if names.len() < most && !names.iter().any(|known| known == name) {
        names.push(name.to_owned());
    }
}

/// The class of a module: Kineto numbers its instances.
pub(crate) fn module_class(name: &str) -> &str {
    match name.rsplit_once('_') {
        Some((class, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => class,
        _ => name,
    }
}

/// Classes of `transformers`, vLLM and SGLang that end in the choice of a token.
fn is_language_model(class: &str) -> bool {
    class.ends_with("ForCausalLM") || class.ends_with("LMHeadModel")
}
