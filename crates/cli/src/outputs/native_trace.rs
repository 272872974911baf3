//! A captured pass of the native engine as a trace, for other tools.

use llmprof_analysis::run::{MeasuredRun, PassKind};
use llmprof_record::trace::{Host, HostKind, Range, RangeKind, Trace, TraceBuilder};

/// Operators as host slices of one thread, phases and what the engine did between operators as ranges.
pub(super) fn trace(measured: &MeasuredRun) -> Trace {
    let mut builder = TraceBuilder::default();
    builder
        .metadata
        .insert("tool".to_owned(), "llmprof's engine".to_owned());
    let thread = builder.thread(1, 1);
    let names: Vec<_> = measured
        .operators
        .iter()
        .map(|operator| builder.intern(&operator.path))
        .collect();
    let passes = measured.passes.iter();
    for pass in passes.filter(|pass| pass.kind == PassKind::Captured) {
        for event in &pass.operators {
            let Some(&name) = names.get(event.operator as usize) else {
                continue;
            };
            builder.hosts.push(Host {
                start: event.start_ns,
                duration: event.end_ns.saturating_sub(event.start_ns).max(0),
                name,
                thread,
                kind: HostKind::OPERATOR,
                ..Host::default()
            });
        }
        let phases = pass
            .phases
            .iter()
            .map(|span| (span.phase.name(), span.start_ns, span.end_ns));
        let host = pass
            .host
            .iter()
            .map(|work| (work.name.as_str(), work.start_ns, work.end_ns));
        for (name, start, end) in phases.chain(host) {
            let name = builder.intern(name);
            builder.ranges.push(Range {
                start,
                duration: end.saturating_sub(start).max(0),
                name,
                thread,
                kind: RangeKind::ANNOTATION,
                ..Range::default()
            });
        }
    }
    builder.events_read = (builder.hosts.len() + builder.ranges.len()) as u64;
    builder.finish()
}
