//! What the names of ranges say about the phases of a program.

use llmprof_record::trace::{RangeKind, Trace};

/// The name of a step of decode.
pub(crate) const STEP: &str = "decode_step";

/// What PyTorch's profiler calls its steps, before their number.
pub(crate) const PROFILER_STEP: &str = "ProfilerStep";

/// Names of what an encoder does beside a decoder. Inside of a path they are modules of any model.
const ENCODER: [&str; 2] = ["encode", "encoder"];

/// Names of annotations, and the phases that they stand for. Names match exactly: `## decoder fp8 None ##` is no decode, and
/// `capture_32_DECODE` captures a graph.
const PHASE_NAMES: &[(&str, &str)] = &[
    ("warmup", "warmup"),
    ("warm_up", "warmup"),
    ("warm-up", "warmup"),
    (STEP, STEP),
    ("prefill", "prefill"),
    ("decode", "decode"),
    ("vision", "vision"),
    ("image_encoder", "vision"),
    ("encode", "encoder"),
    ("encoder", "encoder"),
    ("load", "load"),
    ("load_model", "load"),
    ("model_load", "load"),
];

/// The phase of a name, which may carry a number: `Prefill[0]`, `decode_step_3`, `LLM@decode`.
pub(crate) fn phase_of_name(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let name = text.rsplit(['@', '/', '.']).next().unwrap_or(&text);
    let name = name
        .trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '[' | ']' | '(' | ')'))
        .trim_end_matches(['#', ' ', ':', '-', '_']);
    let found = PHASE_NAMES.iter().find(|(known, _)| *known == name);
    let found = found.filter(|_| !ENCODER.contains(&name) || text == name);
    found.map(|(_, phase)| (*phase).to_owned())
}

/// Start and end of the ranges that stand for `phase`, in order of time.
pub(crate) fn ranges_of(trace: &Trace, phase: &str) -> Vec<(i64, i64)> {
    let ranges = &trace.ranges;
    let mut cache = rustc_hash::FxHashMap::default();
    let mut found: Vec<(i64, i64)> = (0..ranges.len())
        .filter(|&row| {
            is_annotation(ranges.kind[row])
                && *cache.entry(ranges.name[row]).or_insert_with(|| {
                    phase_of_name(trace.text(ranges.name[row])).as_deref() == Some(phase)
                })
        })
        .map(|row| {
            let start = ranges.start[row];
            (start, start.saturating_add(ranges.duration[row]))
        })
        .collect();
    found.sort_unstable();
    found
}

/// Whether a range is one that a program put on a host's thread.
pub(crate) fn is_annotation(kind: RangeKind) -> bool {
    matches!(
        kind,
        RangeKind::ANNOTATION | RangeKind::NVTX | RangeKind::NVTX_START_END
    )
}

/// The name of an annotation without the number that counts its repetitions (`ProfilerStep#12`).
///
/// Ranges that libraries put around their own work are no phases of the program.
pub(crate) fn own_name(text: &str) -> Option<String> {
    const LIBRARIES: [&str; 19] = [
        "aten::",
        "autograd::",
        "torch::",
        "Optimizer.",
        "enumerate(DataLoader)",
        "DistributedDataParallel.",
        "FullyShardedDataParallel.",
        "FSDP::",
        "Torch-Compiled Region",
        "TorchDynamo",
        "PyTorch Profiler",
        "c10",
        "cub::",
        "nccl",
        "Xla",
        "## Call CompiledFxGraph",
        "gloo:",
        "xccl:",
        "ucc:",
    ];
    // XLA writes its own as `Thunk:#hlo_op=while.5,…#`.
    if text.contains(":#")
        || is_dynamo_data(text)
        || LIBRARIES.iter().any(|library| text.starts_with(library))
    {
        return None;
    }
    // Capture of a graph, which executes nothing: `capture_8192_PIECEWISE`.
    let captured = text.strip_prefix("capture_");
    if captured.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
        return None;
    }
    let name = text.trim_end_matches(|c: char| c.is_ascii_digit());
    let name = if name.len() < text.len() {
        name.trim_end_matches(['#', ' ', ':', '-', '_'])
    } else {
        name
    };
    (!name.is_empty()).then(|| name.to_owned())
}

/// The words that a range's name begins with, up to one with a digit: `request` of `request 3f9a (512 tokens)`.
pub(crate) fn name_stem(text: &str) -> Option<String> {
    const SEPARATORS: [char; 9] = [' ', '_', '-', ':', '/', '=', '(', '[', '#'];
    let name = own_name(text)?;
    let mut end = 0;
    for word in name.split_inclusive(SEPARATORS) {
        if word.contains(|c: char| c.is_ascii_digit()) {
            break;
        }
        end += word.len();
    }
    let stem = name[..end].trim_end_matches(SEPARATORS);
    (!stem.is_empty()).then(|| stem.to_owned())
}

/// Whether a range is what torch.compile notes about a part of a compilation, which took other time: `dynamo_data: compile_id=0/0`.
fn is_dynamo_data(text: &str) -> bool {
    text.split_once("_data: ")
        .is_some_and(|(_, values)| values.contains("compile_id="))
}

/// Whether a range of torch.distributed is the collective itself, which the CPU runs. Those of backends for devices (`nccl:all_reduce`)
/// are the calls that enqueue one.
pub(crate) fn runs_on_host(name: &str) -> bool {
    ["gloo:", "mpi:"].iter().any(|by| name.starts_with(by))
}

/// Whether an operator hands a collective to its backend, or waits for it.
pub(crate) fn is_collective_call(name: &str) -> bool {
    ["c10d::", "_c10d_functional::", "record_param_comms"]
        .iter()
        .any(|begin| name.starts_with(begin))
}

/// The compiled function that XLA runs in a range: `jit_step` of `XlaModule:#hlo_module=jit_step,program_id=14#`, and of
/// `jit_step(14)` in its trace viewer.
pub(crate) fn xla_module(text: &str) -> Option<String> {
    if let Some((module, program)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let is_compiled = ["jit_", "pjit_", "pmap_"]
            .map(|by| module.starts_with(by))
            .contains(&true);
        let is_number = !program.is_empty() && program.bytes().all(|byte| byte.is_ascii_digit());
        return (is_compiled && is_number).then(|| module.to_owned());
    }
    let values = text.strip_prefix("XlaModule:#")?.trim_end_matches('#');
    let module = values
        .split(',')
        .find_map(|value| value.strip_prefix("hlo_module="))?;
    // The autotuner runs each fusion as a module of its own.
    (!module.is_empty() && !module.contains("_fusion")).then(|| module.to_owned())
}

/// The name of a step of PyTorch's profiler: `ProfilerStep#12`.
pub(crate) fn profiler_step(text: &str) -> Option<String> {
    let number = text.strip_prefix(PROFILER_STEP)?.strip_prefix('#')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| PROFILER_STEP.to_owned())
}

/// Whether a range holds what a program does before its work: loading and warming up.
pub(crate) fn is_preparation(name: &str) -> bool {
    matches!(phase_of_name(name).as_deref(), Some("warmup" | "load"))
}

/// Whether a range is named for a part of a model: a path of modules (`model.layers.3.mlp`), a layer, a block.
pub(crate) fn is_part_of_model(name: &str) -> bool {
    const PARTS: [&str; 5] = ["layer", "block", "attn", "attention", "mlp"];
    let is_path = name.contains('.') && !name.contains(char::is_whitespace);
    let name = name.to_ascii_lowercase();
    is_path || PARTS.iter().any(|part| name.contains(part))
}

pub(crate) fn is_phase(name: &str) -> bool {
    PHASE_NAMES.iter().any(|(_, phase)| *phase == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_phases_are_recognized() {
        let phase = |name| phase_of_name(name);
        assert_eq!(phase("Prefill[0]").as_deref(), Some("prefill"));
        assert_eq!(phase("decode_step_3").as_deref(), Some("decode_step"));
        assert_eq!(phase("upload"), None);
        assert_eq!(own_name("gc_data: compile_id=0/0"), None);
        assert_eq!(own_name("load_data: x").as_deref(), Some("load_data: x"));
        assert_eq!(phase("encode").as_deref(), Some("encoder"));
        assert_eq!(phase("encoder").as_deref(), Some("encoder"));
        assert_eq!(phase("vision_tower.encoder"), None);
        assert_eq!(
            name_stem("request a3-9 (512 tokens)").as_deref(),
            Some("request")
        );
        assert_eq!(name_stem("3f9a"), None);
        assert_eq!(own_name("ProfilerStep#12").as_deref(), Some("ProfilerStep"));
        assert_eq!(own_name("## forward ##").as_deref(), Some("## forward ##"));
        assert_eq!(
            own_name("Thunk:#hlo_op=while.5,unique_hlo_op_id=60129542153#"),
            None
        );
        let module = "XlaModule:#prefix=jit(step),hlo_module=jit_step,program_id=14#";
        assert_eq!(xla_module(module).as_deref(), Some("jit_step"));
        assert_eq!(xla_module("jit_step(1234)").as_deref(), Some("jit_step"));
        assert_eq!(xla_module("forward(1234)"), None);
        assert_eq!(xla_module("XlaModule:#hlo_module=#"), None);
        assert_eq!(xla_module("XlaModule:#hlo_module=gemm_fusion_dot.9#"), None);
    }
}
