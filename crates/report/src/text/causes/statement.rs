//! What was done, with its place.

use llmprof_units::{Count, DType};

use crate::analyzed::{Cause, CauseKind, CausePlace, PhaseGain};

/// Host code beside launches is stated from this part of the phase on.
const CODE_MIN_SHARE: f64 = 0.1;

pub(crate) fn statement(cause: &Cause) -> String {
    let mut phases: Vec<&str> = cause.gains.iter().map(PhaseGain::phase_name).collect();
    phases.dedup();
    let what = what(cause);
    match phases.as_slice() {
        [] => what,
        phases => format!("{}: {what}", phases.join(", ")),
    }
}

/// `10 times`, of one step or of the phase.
fn often(cause: &Cause) -> String {
    let unit = match cause.gains.first() {
        Some(gain) if gain.steps > 1 => format!("a {}", gain.unit_name()),
        Some(_) => "in the pass".to_owned(),
        None => "in each pass".to_owned(),
    };
    // Not the same in every step: so many in all steps.
    let is_even = (cause.count - cause.count.round()).abs() < 0.05 && cause.count >= 0.95;
    if let Some(gain) = cause.gains.first().filter(|gain| gain.steps > 1)
        && !is_even
        && cause.count < 10.0
    {
        let times = (cause.count * gain.steps as f64).round();
        let (steps, unit) = (gain.steps, gain.unit_name());
        return format!("{times}× in {steps} {unit}s (times are means of a {unit})");
    }
    format!("{:.0}× {unit}", cause.count)
}

/// ` in aten::item, module Layer_3, model.py(12): forward`.
fn place_text(place: &CausePlace) -> String {
    let mut parts = Vec::new();
    parts.extend(
        place
            .operator
            .as_ref()
            .map(|operator| format!("`{operator}`")),
    );
    parts.extend(
        place
            .module
            .as_ref()
            .map(|module| format!("module {module}")),
    );
    parts.extend(place.line.clone());
    if parts.is_empty() {
        return String::new();
    }
    format!(" in {}", parts.join(", "))
}

/// ` (mul, tanh, add)`.
fn listed_operators(operators: &[String]) -> String {
    const NAMED_MAX: usize = 6;
    let names = operators.iter().take(NAMED_MAX);
    let names: Vec<&str> = names
        .map(|name| name.strip_prefix("aten::").unwrap_or(name))
        .collect();
    match names.as_slice() {
        [] => String::new(),
        names if operators.len() > NAMED_MAX => format!(" ({}, …)", names.join(", ")),
        names => format!(" ({})", names.join(", ")),
    }
}

fn what(cause: &Cause) -> String {
    let (often, at) = (often(cause), place_text(&cause.place));
    match &cause.kind {
        CauseKind::Synchronization {
            call,
            waited_ns,
            is_copied_back,
        } => {
            let back = if *is_copied_back {
                "; the host computes on what it reads and copies the result back"
            } else {
                ""
            };
            let waited = if waited_ns.0 > 0 {
                format!(", {waited_ns} of waiting")
            } else {
                String::new()
            };
            format!("the host waits for the GPU: {call} {often}{at}{waited}{back}")
        }
        CauseKind::HostCalls { call, time_ns } => {
            format!("the host calls {call} {often}, {time_ns} with the code around it")
        }
        CauseKind::HostCopies { .. } => copies(cause, &often, &at),
        CauseKind::DeviceCopies { bytes, copied_ns } => {
            format!("{bytes} are cloned on the GPU {often}{at}, {copied_ns} of copying")
        }
        CauseKind::HostCode { .. } => host_code(cause, &often, &at),
        CauseKind::Autograd { node_ns } => {
            const ANOMALY_MIN_NS: i64 = 50_000;
            let anomaly = if node_ns.0 >= ANOMALY_MIN_NS {
                ", as with anomaly detection"
            } else {
                ""
            };
            format!(
                "gradients are enabled and no backward pass runs: autograd makes {often} a node, {node_ns} on the host each{anomaly}"
            )
        }
        CauseKind::UnmergedAdapters { rank, kernels_ns } => format!(
            "low-rank adapters (rank {rank}) are computed beside their projections, {often}, {kernels_ns} of kernels"
        ),
        CauseKind::RepeatedTables {
            operators,
            last,
            time_ns,
        } => format!(
            "the same {operators} operators from `aten::arange` to `{last}` run again with the same shapes, {often}, {time_ns}"
        ),
        CauseKind::DispatchMode { time_ns } => format!(
            "a dispatch mode or a tensor subclass handles each operator in Python, {often}, {time_ns}"
        ),
        CauseKind::HostOperators {
            time_ns,
            on_cpu,
            others,
        } => {
            let operator = cause.place.operator.as_deref().unwrap_or("an operator");
            let how = if is_compiler(operator) {
                "compiles again"
            } else if *on_cpu && *others > 0 {
                "and other operators compute on the CPU"
            } else if *on_cpu {
                "computes on the CPU"
            } else {
                "takes far longer on the host than its usual calls"
            };
            format!("`{operator}` {how}, {often}, {time_ns}")
        }
        CauseKind::PinnedMemory { time_ns } => format!(
            "host memory is page-locked and released while the program runs, {often}{at}, {time_ns}"
        ),
        CauseKind::GraphCaptures { time_ns } => {
            format!(
                "CUDA graphs are captured and instantiated between launches, {often}, {time_ns}"
            )
        }
        CauseKind::Allocation { time_ns } => format!(
            "memory is taken from the driver and given back (cudaMalloc, cudaFree) {often}, {time_ns}"
        ),
        CauseKind::BlockingLaunches => {
            format!("every kernel launch waits for its kernel (CUDA_LAUNCH_BLOCKING), {often}")
        }
        CauseKind::GemmFormat {
            dtype,
            faster,
            is_of_model,
            kernels_ns,
        } => gemm_format(*dtype, *faster, *is_of_model, &format!("{kernels_ns}"), &at),
        CauseKind::UnalignedGemms { shape, kernels_ns } => format!(
            "GEMMs have a dimension that is not a multiple of 8 and use slow kernels: {shape}, {often}{at}, {kernels_ns} of kernels"
        ),
        CauseKind::WeightCasts {
            from,
            to,
            shape,
            kernels_ns,
        } => {
            let how = if from.is_empty() {
                "copied or converted inside of a CUDA graph".to_owned()
            } else if from == to {
                format!("processed again ({})", dtype_name(from))
            } else {
                format!("converted from {} to {}", dtype_name(from), dtype_name(to))
            };
            format!(
                "weights are {how} in every pass: {shape}, {often}{at}, {kernels_ns} of kernels"
            )
        }
        CauseKind::GatheredWeights { shape, kernels_ns } => format!(
            "weights of experts {shape} are copied for each row before they are multiplied, {often}{at}, {kernels_ns} of kernels"
        ),
        CauseKind::UnfusedAttention {
            shape,
            is_fallback,
            kernels_ns,
        } => {
            let how = if *is_fallback {
                "scaled_dot_product_attention falls back to unfused math"
            } else {
                "attention is unfused (eager)"
            };
            format!(
                "{how}: scores and softmax as tensors of {shape}, {often}{at}, {kernels_ns} of kernels"
            )
        }
        CauseKind::MaskedAttention { shape, kernels_ns } => format!(
            "attention takes its causal mask as a tensor of {shape} and computes the masked half too: {often}, {kernels_ns} of kernels"
        ),
        CauseKind::RepeatedWork {
            rows,
            gemms,
            kernels_ns,
        } => format!(
            "every step computes {gemms} GEMMs over {rows} rows again, as in the prompt pass: {kernels_ns} of kernels{at}"
        ),
        CauseKind::Recomputed { tokens, new_tokens } => format!(
            "each step computes {} positions, of which {} are new: the rest was computed by the steps before it",
            *tokens, *new_tokens
        ),
        CauseKind::UnusedLogits { rows, needed } => format!(
            "logits of all {} tokens are computed; {} are sampled from{at}",
            *rows, *needed
        ),
        CauseKind::UnusedSpan {
            positions,
            tokens,
            kernels_ns,
        } => format!(
            "attention reads all {positions} positions of the KV cache; {tokens} hold tokens: {often}, {kernels_ns} of kernels"
        ),
        CauseKind::OperatorLoop {
            iterations,
            operators,
            time_ns,
        } => format!(
            "a loop runs the same {operators} operators {iterations} times on small tensors{at}, {time_ns} on the host"
        ),
        CauseKind::RepeatedPasses {
            passes,
            sequences,
            tokens,
        } => format!(
            "{passes} forward passes follow each other that could be one, each of {sequences} × {tokens} tokens{at}"
        ),
        CauseKind::LayoutConversions { kernels_ns } => format!(
            "tensors are converted between NCHW and NHWC around convolutions {often}{at}, {kernels_ns} of kernels"
        ),
        CauseKind::Dropout { kernels_ns } => format!(
            "dropout runs {often}{at}, {kernels_ns} of kernels: the model is in training mode"
        ),
        CauseKind::KvCopies {
            operator,
            shape,
            kernels_ns,
        } => format!(
            "the KV cache is copied by `{operator}` {often}: {shape}, {kernels_ns} of kernels"
        ),
        CauseKind::WorkBeyondModel { shape, kernels_ns } => {
            let operator = cause.place.operator.as_deref().unwrap_or("an operator");
            format!(
                "`{operator}` moves, orders or gathers tensors of {shape}, {often}{}, {kernels_ns} of kernels",
                place_text(&CausePlace {
                    operator: None,
                    ..cause.place.clone()
                })
            )
        }
        CauseKind::TokenProducts { shape, kernels_ns } => {
            let operator = cause.place.operator.as_deref().unwrap_or("an operator");
            format!(
                "`{operator}` multiplies tensors that both have a row for each token, as one-hot masks do: {shape}, {often}{at}, {kernels_ns} of kernels"
            )
        }
        CauseKind::VocabularySort { shape, kernels_ns } => format!(
            "tokens are ranked over the whole vocabulary: {shape}, {often}{at}, {kernels_ns} of kernels"
        ),
        CauseKind::OtherWork {
            streams,
            kernels_ns,
            longest,
        } => {
            let streams = if *streams == 1 {
                "another stream".to_owned()
            } else {
                format!("{streams} other streams")
            };
            let longest = longest.as_ref().map(|name| format!(" (`{}`)", short(name)));
            format!(
                "another thread runs kernels on {streams} at the same time: {often}, {kernels_ns}{}",
                longest.unwrap_or_default()
            )
        }
        CauseKind::GpuShared { slice_ns, time_ns } => format!(
            "another process uses the GPU: kernels are queued and nothing runs for {slice_ns}, {often}, {time_ns} in all"
        ),
        CauseKind::SmallGrids {
            kernel,
            blocks,
            multiprocessors,
            kernels_ns,
        } => format!(
            "`{}` runs alone with {} on {multiprocessors} multiprocessors, {often}{at}, {kernels_ns} of kernels",
            short(kernel),
            Count(*blocks, "thread block")
        ),
        CauseKind::SmallBatches {
            passes,
            rows,
            sequences,
            kernels_ns,
        } => format!(
            "each step is {passes} passes, each over {rows} of its {sequences} sequences, and each pass reads all weights: {kernels_ns} of kernels after the first pass"
        ),
        CauseKind::WideOperators { dtype, kernels_ns } => {
            format!("operators compute in {dtype}: {often}{at}, {kernels_ns} of kernels")
        }
        CauseKind::AllExperts {
            experts,
            chosen,
            kernels_ns,
        } => format!(
            "all {experts} experts compute every token; the router chooses {chosen}: {kernels_ns} of kernels{at}"
        ),
        CauseKind::ExpertLoop { experts, time_ns } => format!(
            "a loop computes {experts} experts one after another, {often}, {time_ns} on the host{at}"
        ),
        CauseKind::Fills {
            largest: Some(largest),
            kernels_ns,
        } => format!(
            "new tensors are filled with a value, {often}{at}, the largest with {largest}: {kernels_ns} of kernels"
        ),
        CauseKind::Fills {
            largest: None,
            kernels_ns,
        } => format!(
            "new tensors are filled before they are written (torch.use_deterministic_algorithms) {often}, {kernels_ns} of kernels"
        ),
        CauseKind::SmallChunks { passes, tokens } => {
            format!("the prompt is computed in {passes} passes of {tokens} tokens per sequence")
        }
        CauseKind::CpuContention { time_ns } => format!(
            "the host pauses at unrelated places: {time_ns}, {often}, as where other programs take its CPU"
        ),
        CauseKind::Communication {
            kernels_ns,
            longest,
        } => format!(
            "communication is exposed: {often}, {kernels_ns} of kernels (`{}`)",
            short(longest)
        ),
        CauseKind::UnfusedElementwise {
            kernels,
            others,
            kernels_ns,
            run_operators,
        } => {
            let others = match others {
                0 => String::new(),
                count => format!(", {count} copies and reductions among them"),
            };
            format!(
                "{kernels} elementwise kernels run one after another{}{others}, {kernels_ns}; each run could be one kernel",
                listed_operators(run_operators)
            )
        }
        CauseKind::DevicesInTurn { devices, busy_ns } => format!(
            "{devices} GPUs run in turn: hardly ever do two of them compute at the same time, {busy_ns} in all"
        ),
        CauseKind::LaunchBound {
            launches,
            busy_ns,
            code_ns,
        } => {
            let now = cause.gains.first().map_or(0, |gain| gain.now_ns.0);
            let code = if code_ns.0 as f64 > CODE_MIN_SHARE * now as f64 {
                format!(
                    "; {code_ns} of the host's time are code without recorded ops, not launches"
                )
            } else {
                String::new()
            };
            format!(
                "launch-bound: the GPU works {busy_ns} and waits for {}{code}",
                Count(*launches, "launch")
            )
        }
    }
}

fn copies(cause: &Cause, often: &str, at: &str) -> String {
    let CauseKind::HostCopies {
        to_device,
        bytes,
        is_pageable,
        is_serialized,
        is_input: _,
        gains_by_joining: _,
        copied_ns,
        computed_on_host,
    } = &cause.kind
    else {
        return String::new();
    };
    let direction = if *to_device {
        "to the GPU"
    } else {
        "to the host"
    };
    let memory = if *is_pageable {
        " (pageable memory)"
    } else if *is_serialized {
        " on a stream of its own, but not while kernels run"
    } else {
        ""
    };
    let computed = computed_on_host
        .as_ref()
        .map(|(operator, time)| format!("; `{operator}` then computes on the CPU for {time}"));
    format!(
        "{bytes} are copied {direction} {often}{memory}{at}, {copied_ns} of copying{}",
        computed.unwrap_or_default()
    )
}

fn host_code(cause: &Cause, often: &str, at: &str) -> String {
    let CauseKind::HostCode {
        time_ns,
        longest_ns,
        after,
        before,
        copied,
        collecting_share,
        gil_holder,
        has_switch_interval,
        has_ops,
        is_seen_once,
        fits_beside_gpu: _,
        are_between_requests,
    } = &cause.kind
    else {
        return String::new();
    };
    let between = match (after, before) {
        (Some(after), Some(before)) => format!(", between `{after}` and `{before}`"),
        (Some(after), None) => format!(", after `{after}`"),
        (None, Some(before)) => format!(", before `{before}`"),
        (None, None) => String::new(),
    };
    let what = if let Some(share) = collecting_share.filter(|share| *share > 0.5) {
        format!(
            "Python's garbage collector runs ({:.0} % of the sampled pauses)",
            100.0 * share
        )
    } else if let Some(holder) = gil_holder {
        format!("the program waits for the GIL, held by {holder}")
    } else if *has_switch_interval {
        "pauses of 5 ms, Python's switch interval: another Python thread holds the GIL".to_owned()
    } else if let Some(bytes) = copied {
        format!("host code works on {bytes} copied from the GPU")
    } else if *are_between_requests {
        "between requests the host launches nothing (it may wait for the next one)".to_owned()
    } else if !has_ops {
        "the host launches nothing (ops were not recorded, so it may be the framework)".to_owned()
    } else if at.is_empty() {
        "host code without recorded ops (Python, garbage collection, input or output, sleeping)"
            .to_owned()
    } else {
        "host code without recorded ops".to_owned()
    };
    if *is_seen_once && cause.gains.is_empty() {
        return format!("{what}{at}: once, {longest_ns}{between}");
    }
    let longest = if between.is_empty() {
        String::new()
    } else {
        format!(" (longest {longest_ns}{between})")
    };
    format!("{what}{at}: {often}, {time_ns}{longest}")
}

/// Names that torch.compile and Triton give to compiling.
pub(super) fn is_compiler(operator: &str) -> bool {
    let names = ["dynamo", "inductor", "compile", "triton", "jit", "fx_graph"];
    let operator = operator.to_lowercase();
    names.iter().any(|name| operator.contains(name))
}

fn gemm_format(dtype: DType, faster: DType, is_of_model: bool, time: &str, at: &str) -> String {
    let reason = if is_of_model {
        format!("the model is in {faster}")
    } else {
        "tensor cores are not used (TF32 is off)".to_owned()
    };
    format!("GEMMs run in {dtype}, {reason}: {time} of kernels{at}")
}

/// Kernel names without their template arguments.
fn short(name: &str) -> &str {
    let name = name.strip_prefix("void ").unwrap_or(name);
    let end = name.find(['<', '(']).filter(|end| *end > 0);
    &name[..end.unwrap_or(name.len())]
}

/// A dtype as torch's profiler writes it, in the words of torch.
fn dtype_name(name: &str) -> &str {
    match name {
        "c10::BFloat16" => "bf16",
        "c10::Half" => "fp16",
        "float" => "fp32",
        "double" => "fp64",
        "signed char" => "int8",
        "unsigned char" => "uint8",
        other => other,
    }
}
