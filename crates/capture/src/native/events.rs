//! Writes what the engine recorded as the file that `record` imports.

use std::io::{self, Write};

use llmprof_engine::{OperatorInfo, Recorder};
use llmprof_record::import::engine::{self, EngineHeader, NamedRange};

use crate::runner::protocol::{HostSpan, PhaseSpan};

/// Writes the calls of one batch with its phases and what the engine did between operators.
pub(super) fn write_events(
    output: &mut impl Write,
    operators: &[OperatorInfo],
    recorder: &Recorder,
    phases: &[PhaseSpan],
    host: &[HostSpan],
) -> io::Result<()> {
    let range = |name: &str, start: i64, end: i64| NamedRange {
        name: name.to_owned(),
        start_ns: start.unsigned_abs(),
        end_ns: end.unsigned_abs(),
    };
    let phases = phases
        .iter()
        .map(|span| range(&span.phase, span.start_ns.0, span.end_ns.0));
    let host = host
        .iter()
        .map(|span| range(&span.name, span.start_ns.0, span.end_ns.0));
    let header = EngineHeader {
        operators: operators
            .iter()
            .map(|operator| engine::OperatorInfo {
                path: operator.path.to_string(),
                kind: operator.kind.name().to_owned(),
                dtype: operator.dtype.name().to_owned(),
            })
            .collect(),
        ranges: phases.chain(host).collect(),
        dropped: recorder.dropped(),
    };
    let calls = recorder.events().iter().map(|event| {
        (
            [
                event.operator,
                event.touched,
                event.groups,
                event.m,
                event.n,
                event.k,
            ],
            [event.start_ns, event.end_ns],
        )
    });
    engine::write(output, &header, calls)
}
