//! What torch.compile did: compilations, and the calls of what was compiled.

use llmprof_record::trace::{HostKind, Trace};

use super::{PhaseSource, Phases};
use crate::program::named_rows;
use crate::thresholds::COMPILATION_MIN_SHARE;

/// What TorchDynamo calls the compilation of one function.
const COMPILATIONS: [&str; 2] = ["dynamo", "entire_frame_compile"];
/// A call of a compiled function: `Torch-Compiled Region: 0/0`.
const COMPILED_CALL: &str = "Torch-Compiled Region";

/// Compilations and compiled calls of the thread that compiles; nothing where compilation takes hardly any time.
pub(super) fn calls(trace: &Trace) -> Option<Phases> {
    let hosts = &trace.hosts;
    let is_call = |name: &str| COMPILATIONS.contains(&name) || name.starts_with(COMPILED_CALL);
    let rows = named_rows(trace, &hosts.name, is_call);
    let rows: Vec<usize> = rows
        .filter(|&row| hosts.kind[row] == HostKind::OPERATOR)
        .collect();
    let compiles = |row: usize| COMPILATIONS.contains(&trace.text(hosts.name[row]));
    let thread = rows
        .iter()
        .find(|&&row| compiles(row))
        .map(|&row| hosts.thread[row])?;
    let mut phases = Phases::empty(PhaseSource::Annotation);
    let (mut first, mut reached, mut compiling) = (None, i64::MIN, 0_i64);
    // Rows of a thread come by start, and what is around others before them.
    for row in rows.into_iter().filter(|&row| hosts.thread[row] == thread) {
        let start = hosts.start[row];
        let end = start.saturating_add(hosts.duration[row]);
        if start < reached {
            continue;
        }
        first.get_or_insert(start);
        reached = end;
        if compiles(row) {
            compiling = compiling.saturating_add(hosts.duration[row]);
            phases.push("torch.compile compiles", start, end);
        } else {
            phases.push("compiled call", start, end);
        }
    }
    let span = reached.saturating_sub(first?);
    (compiling as f64 >= COMPILATION_MIN_SHARE * span as f64).then_some(phases)
}

#[cfg(test)]
mod tests {
    use llmprof_record::trace::{Host, TraceBuilder};

    use super::*;

    fn phases_of(compiling: i64) -> Option<Vec<(String, i64)>> {
        let mut builder = TraceBuilder::default();
        let thread = builder.thread(1, 1);
        for (name, start, duration) in [
            ("dynamo", 0, compiling),
            ("entire_frame_compile", 1, compiling - 2),
            ("Torch-Compiled Region: 0/0", 1000, 500),
            ("Torch-Compiled Region: 0/0", 1500, 400),
        ] {
            let name = builder.intern(name);
            builder.hosts.push(Host {
                start,
                duration,
                name,
                thread,
                kind: HostKind::OPERATOR,
                ..Host::default()
            });
        }
        let phases = calls(&builder.finish())?;
        let windows = phases.windows.iter();
        let named =
            windows.map(|window| (phases.names[window.name].clone(), window.end - window.start));
        Some(named.collect())
    }

    #[test]
    fn compilation_and_compiled_calls_are_phases() {
        let call = || "compiled call".to_owned();
        assert_eq!(
            phases_of(900),
            Some(vec![
                ("torch.compile compiles".to_owned(), 900),
                (call(), 500),
                (call(), 400)
            ])
        );
        assert_eq!(phases_of(20), None);
    }
}
