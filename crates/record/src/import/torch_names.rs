//! What PyTorch calls what it records, whichever profiler writes it down.

use crate::trace::{Host, HostKind, Range, RangeKind, RawInputs, TraceBuilder};

/// Backends of torch.distributed, as they begin the names of annotations: `nccl:all_reduce`.
const BACKENDS: [&str; 6] = ["nccl:", "gloo:", "ucc:", "mpi:", "xccl:", "hccl:"];

/// How PyTorch's own annotations begin. Some profilers write them among the operators.
const ANNOTATIONS: [&str; 4] = [
    "ProfilerStep#",
    "enumerate(DataLoader)#",
    "Optimizer.step#",
    "Optimizer.zero_grad#",
];

/// Whether a backend of torch.distributed made this annotation.
pub(super) fn is_collective(name: &str) -> bool {
    BACKENDS.iter().any(|backend| name.starts_with(backend))
}

/// Whether a name belongs to an annotation of PyTorch, not to an operator.
pub(super) fn is_annotation(name: &str) -> bool {
    is_collective(name) || ANNOTATIONS.iter().any(|begin| name.starts_with(begin))
}

/// What `torch.autograd.profiler.emit_nvtx` writes into the name of a range:
/// `aten::mm, seq = 12, op_id = 34, sizes = [[2, 3], [3, 4]]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EmittedRange<'a> {
    name: &'a str,
    /// Shapes of the inputs as a list of lists; empty where they were not recorded.
    sizes: &'a str,
}

/// Splits the name of such a range; `None` of any other.
fn parse_emitted(text: &str) -> Option<EmittedRange<'_>> {
    let end = [", seq = ", ", op_id = "]
        .iter()
        .filter_map(|key| {
            let at = text.find(key)?;
            let value = &text[at + key.len()..];
            value
                .starts_with(|c: char| c.is_ascii_digit())
                .then_some(at)
        })
        .min()?;
    let sizes = text[end..]
        .split_once(", sizes = ")
        .map_or("", |(_, rest)| {
            rest.split_once("]], ")
                .map_or(rest, |(sizes, _)| &rest[..sizes.len() + 2])
        });
    (end > 0).then(|| EmittedRange {
        name: &text[..end],
        sizes,
    })
}

/// Adds a range that a program pushed (NVTX, ROCTx). One of `emit_nvtx` is the operator, or annotation, that it stands for, without the
/// numbers in its name: otherwise no two calls of an operator would have the same name.
pub(super) fn add_pushed_range(builder: &mut TraceBuilder, range: Range) {
    let text = builder.strings.get(range.name);
    let Some(emitted) = parse_emitted(text).filter(|_| range.kind == RangeKind::NVTX) else {
        builder.ranges.push(range);
        return;
    };
    let (name, sizes) = (emitted.name.to_owned(), emitted.sizes.to_owned());
    let name_id = builder.intern(&name);
    if is_annotation(&name) {
        builder.ranges.push(Range {
            name: name_id,
            kind: RangeKind::ANNOTATION,
            ..range
        });
        return;
    }
    let inputs = builder.inputs(RawInputs {
        dims: sizes.as_bytes(),
        ..RawInputs::default()
    });
    builder.hosts.push(Host {
        start: range.start,
        duration: range.duration,
        name: name_id,
        thread: range.thread,
        kind: HostKind::OPERATOR,
        inputs,
        ..Host::default()
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_emit_nvtx_are_split() {
        let parts = |text| parse_emitted(text).map(|range| (range.name, range.sizes));
        assert_eq!(parts("aten::to, op_id = 317177"), Some(("aten::to", "")));
        assert_eq!(
            parts(
                "aten::mm, seq = 12, op_id = 3, sizes = [[2, 3], [3, 4]], input_op_ids = [(1,0)]"
            ),
            Some(("aten::mm", "[[2, 3], [3, 4]]"))
        );
        assert_eq!(
            parts("autograd::engine::evaluate_function: MmBackward0, seq = 5"),
            Some(("autograd::engine::evaluate_function: MmBackward0", ""))
        );
        assert_eq!(parts("decode"), None);
        assert_eq!(parts("step, seq = long"), None);
        assert_eq!(parts(", seq = 1"), None);
    }

    #[test]
    fn an_emitted_range_becomes_its_operator() {
        let mut builder = TraceBuilder::default();
        for text in [
            "aten::mm, seq = 1, op_id = 2, sizes = [[2, 3], [3, 4]]",
            "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__, op_id = 3",
            "decode",
        ] {
            let name = builder.intern(text);
            add_pushed_range(
                &mut builder,
                Range {
                    name,
                    kind: RangeKind::NVTX,
                    duration: 5,
                    ..Range::default()
                },
            );
        }
        let trace = builder.finish();
        assert_eq!(trace.hosts.len(), 1);
        assert_eq!(trace.text(trace.hosts.name[0]), "aten::mm");
        assert_eq!(trace.hosts.kind[0], HostKind::OPERATOR);
        let tensors: Vec<_> = trace
            .inputs
            .arguments(trace.hosts.inputs[0])
            .flat_map(|argument| {
                argument
                    .tensors()
                    .map(|t| t.dims.to_vec())
                    .collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(tensors, [[2, 3], [3, 4]]);
        let mut ranges: Vec<_> = trace
            .ranges
            .rows()
            .map(|range| (trace.text(range.name), range.kind))
            .collect();
        ranges.sort_unstable();
        assert_eq!(
            ranges,
            [
                ("decode", RangeKind::NVTX),
                (
                    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                    RangeKind::ANNOTATION
                ),
            ]
        );
    }
}
