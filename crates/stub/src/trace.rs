use std::{io, path::Path, time::Duration};

use serde_json::{Value, json};

use crate::{Called, ServedRequest};

/// Leaves a trace as PyTorch's profiler writes it: for each request the step of its prefill, and a step for each further token.
pub(super) fn write_trace(
    folder: &Path,
    served: &[ServedRequest],
    stop: &Called,
    repeated: &str,
) -> io::Result<()> {
    let origin = served
        .first()
        .map_or(stop.at_unix_ns, |first| first.arrived_unix_ns);
    let mut events = Vec::new();
    let mut step = |label: String, start: Duration, length: Duration| {
        let micros = |time: Duration| time.as_nanos() as f64 / 1e3;
        events.push(json!({
            "ph": "X", "cat": "user_annotation", "name": label, "pid": 1, "tid": 1,
            "ts": micros(start), "dur": micros(length),
        }));
    };
    if !repeated.is_empty() {
        step(repeated.to_owned(), Duration::ZERO, Duration::ZERO);
    }
    for one in served {
        let arrived = (one.arrived_unix_ns - origin).0.max(0);
        let turn = Duration::from_nanos(arrived as u64) + one.queue;
        let label = format!("execute_context_1({})_generation_0(0)", one.prompt_tokens);
        step(label, turn, one.prefill);
        let further = one.tokens.saturating_sub(1) as u32;
        for index in 0..further {
            let length = one.decode / further;
            let start = turn + one.prefill + length * index;
            step(
                "execute_context_0(0)_generation_1(1)".to_owned(),
                start,
                length,
            );
        }
    }
    let trace: Value = json!({
        "schemaVersion": 1,
        "deviceProperties": [],
        "baseTimeNanoseconds": origin.0,
        "traceEvents": events,
    });
    std::fs::write(folder.join("rank0.pt.trace.json"), trace.to_string())
}
