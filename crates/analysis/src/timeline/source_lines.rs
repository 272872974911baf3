//! Which Python function the host was in while a device waited for its next launch.
//!
//! A gap before an event is host-bound up to the call that launched it. What the thread of that call did in this time is its
//! innermost Python frame that is the program's: frames of torch itself and built-in functions count for the function that
//! called them. Kineto names a frame by file, first line and function.

use llmprof_record::trace::{HostKind, StrId, ThreadId, Trace};
use llmprof_units::Nanos;
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::row_order::sort_descending_named;
use crate::timeline::device_events::DeviceEvents;
use crate::timeline::intervals::add_saturating;
use crate::timeline::launches::EventCalls;
use crate::timeline::nesting::module_name;

/// Device time lost while the host was in one function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct SourceRow {
    /// As the profiler writes it: `model.py(120): forward`.
    pub function: String,
    /// Host-bound idle time of all devices while the host was in it.
    pub idle_ns: Nanos,
    /// Gaps that it had a part in.
    pub gaps: u64,
}

/// Maximum number of Python functions in the list.
const SOURCE_ROWS_MAX: usize = 1000;

/// Host-bound idle time by function, the longest first; empty where no Python frames are recorded.
pub(crate) fn source_lines(
    trace: &Trace,
    events: &DeviceEvents,
    calls: &EventCalls,
) -> Vec<SourceRow> {
    if !trace.hosts.kind.contains(&HostKind::PYTHON) {
        return Vec::new();
    }
    let frames = innermost_functions(trace);
    let mut sums: FxHashMap<StrId, (i64, u64)> = FxHashMap::default();
    let mut first = 0;
    for device in events.devices() {
        let mut end = device.first().map_or(0, |event| event.start);
        for (index, event) in device.iter().enumerate() {
            if event.start > end
                && let Some(call) = calls.call(first + index)
            {
                let row = call as usize;
                let until = event.start.min(trace.hosts.start[row]);
                let on = frames.get(&trace.hosts.thread[row]);
                for (name, time) in times_inside(on.map_or(&[], Vec::as_slice), end, until) {
                    let (sum, gaps) = sums.entry(name).or_default();
                    add_saturating(sum, time);
                    *gaps += 1;
                }
            }
            end = end.max(event.end);
        }
        first += device.len();
    }
    let mut rows: Vec<SourceRow> = sums
        .into_iter()
        .map(|(name, (idle, gaps))| SourceRow {
            function: trace.text(name).to_owned(),
            idle_ns: Nanos(idle),
            gaps,
        })
        .collect();
    sort_descending_named(&mut rows, |row| (row.idle_ns.0, &row.function));
    rows.truncate(SOURCE_ROWS_MAX);
    rows
}

/// An interval in which one function was the innermost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FunctionInterval {
    start: i64,
    end: i64,
    name: StrId,
}

/// How long each function was the innermost within an interval.
pub(crate) fn times_inside(frames: &[FunctionInterval], from: i64, to: i64) -> Vec<(StrId, i64)> {
    let mut times: Vec<(StrId, i64)> = Vec::new();
    let first = frames.partition_point(|frame| frame.end <= from);
    for frame in frames[first..].iter().take_while(|frame| frame.start < to) {
        let time = frame.end.min(to).saturating_sub(frame.start.max(from));
        match times.iter_mut().find(|(name, _)| *name == frame.name) {
            Some((_, sum)) => add_saturating(sum, time),
            None if time > 0 => times.push((frame.name, time)),
            None => {}
        }
    }
    times
}

/// For each thread, the innermost functions of the program over time, without overlap.
pub(crate) fn innermost_functions(trace: &Trace) -> FxHashMap<ThreadId, Vec<FunctionInterval>> {
    let hosts = &trace.hosts;
    let mut is_own: FxHashMap<StrId, bool> = FxHashMap::default();
    let mut threads: FxHashMap<ThreadId, Vec<FunctionInterval>> = FxHashMap::default();
    let mut open: Vec<(i64, StrId)> = Vec::new();
    let mut cursor = i64::MIN;
    let mut thread = ThreadId::NONE;
    for row in 0..hosts.len() {
        if hosts.kind[row] != HostKind::PYTHON {
            continue;
        }
        if hosts.thread[row] != thread {
            close_ended(
                &mut open,
                &mut cursor,
                i64::MAX,
                threads.entry(thread).or_default(),
            );
            open.clear();
            cursor = i64::MIN;
            thread = hosts.thread[row];
        }
        let name = hosts.name[row];
        if !*is_own
            .entry(name)
            .or_insert_with(|| is_program_frame(trace.text(name)))
        {
            continue;
        }
        let start = hosts.start[row];
        let list = threads.entry(thread).or_default();
        close_ended(&mut open, &mut cursor, start, list);
        if let Some(&(_, around)) = open.last() {
            push_interval(list, cursor, start, around);
        }
        cursor = start;
        open.push((start.saturating_add(hosts.duration[row]), name));
    }
    close_ended(
        &mut open,
        &mut cursor,
        i64::MAX,
        threads.entry(thread).or_default(),
    );
    threads
}

/// Ends the frames that are over at some moment.
fn close_ended(
    open: &mut Vec<(i64, StrId)>,
    cursor: &mut i64,
    until: i64,
    list: &mut Vec<FunctionInterval>,
) {
    while let Some((end, name)) = open.pop_if(|(end, _)| *end <= until) {
        push_interval(list, *cursor, end, name);
        *cursor = (*cursor).max(end);
    }
}

fn push_interval(list: &mut Vec<FunctionInterval>, start: i64, end: i64, name: StrId) {
    if end > start {
        list.push(FunctionInterval { start, end, name });
    }
}

/// Whether a frame is of the program and its libraries, not of torch, a built-in or a module's call.
pub(crate) fn is_program_frame(name: &str) -> bool {
    let is_torch = |name: &str| name.starts_with("torch/") || name.contains("/torch/");
    !name.starts_with('<')
        && module_name(name).is_none()
        && !is_torch(name)
        && name.contains(".py(")
}

#[cfg(test)]
mod tests {
    use llmprof_record::trace::{Host, Kernel, TraceBuilder};

    use super::*;
    use crate::timeline::launches::Launches;

    #[test]
    fn gaps_belong_to_the_innermost_function_of_the_program() {
        let mut builder = TraceBuilder::default();
        let thread = builder.thread(1, 1);
        let host = |builder: &mut TraceBuilder, name: &str, kind, start, end, correlation| {
            let name = builder.intern(name);
            builder.hosts.push(Host {
                start,
                duration: end - start,
                name,
                thread,
                kind,
                correlation,
                ..Host::default()
            });
        };
        host(
            &mut builder,
            "serve.py(10): loop",
            HostKind::PYTHON,
            0,
            1000,
            0,
        );
        host(
            &mut builder,
            "serve.py(50): schedule",
            HostKind::PYTHON,
            100,
            300,
            0,
        );
        host(
            &mut builder,
            "torch/nn/modules/module.py(1): _call_impl",
            HostKind::PYTHON,
            150,
            250,
            0,
        );
        host(
            &mut builder,
            "<built-in function len>",
            HostKind::PYTHON,
            310,
            350,
            0,
        );
        host(
            &mut builder,
            "cudaLaunchKernel",
            HostKind::RUNTIME,
            20,
            30,
            1,
        );
        host(
            &mut builder,
            "cudaLaunchKernel",
            HostKind::RUNTIME,
            400,
            410,
            2,
        );
        let kernel = builder.intern("k");
        for (start, end, correlation) in [(50, 120, 1), (420, 500, 2)] {
            builder.kernels.push(Kernel {
                start,
                duration: end - start,
                name: kernel,
                correlation,
                ..Kernel::default()
            });
        }
        let trace = builder.finish();
        let events = DeviceEvents::from_trace(&trace);
        let calls = EventCalls::from_launches(&events, &Launches::from_trace(&trace));
        let rows = source_lines(&trace, &events, &calls);
        // The gap is 120 to 420, host-bound until the launch at 400: 180 ns in `schedule`, 100 in `loop`.
        let times: Vec<(&str, i64)> = rows
            .iter()
            .map(|row| (row.function.as_str(), row.idle_ns.0))
            .collect();
        assert_eq!(
            times,
            [("serve.py(50): schedule", 180), ("serve.py(10): loop", 100)]
        );
    }
}
