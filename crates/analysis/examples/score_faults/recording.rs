//! A trace of torch.profiler as `llmprof record` would have recorded the program: calls of the CUDA API that launch, copy, wait, take memory
//! or load code, what they caused, and ranges; no operators, shapes or Python functions. Before it lies the start of a process: memory is
//! taken, code is loaded, and the same work runs without ranges.

use llmprof_record::trace::{
    Copy, Host, HostKind, InputsId, Kernel, Memset, Range, RangeKind, StrId, ThreadId, Trace,
    TraceBuilder,
};

/// Parts of the names of calls that the injected library records; see its `calls.rs`.
const RECORDED: [&str; 14] = [
    "Launch",
    "Memcpy",
    "Memset",
    "Synchronize",
    "Malloc",
    "MemAlloc",
    "Free",
    "HostAlloc",
    "HostRegister",
    "ModuleLoad",
    "LibraryLoad",
    "GraphInstantiate",
    "GraphUpload",
    "StreamEndCapture",
];
/// How often the work of a trace runs before it.
const WARM_UP_RUNS: u32 = 2;
/// Time of the start of a process, ns.
const START_NS: i64 = 2_000_000_000;
/// Between runs, ns: a loop over batches.
const PAUSE_NS: i64 = 150_000;

pub(crate) fn as_recording(trace: &Trace) -> Trace {
    let mut builder = TraceBuilder::default();
    let (first, last) = bounds(trace);
    let length = last - first + PAUSE_NS;
    let most = trace.hosts.correlation.iter().copied().max().unwrap_or(0);
    let origin = START_NS - first;
    let main = trace.hosts.thread.first().copied();
    if let Some(thread) = main {
        push_start(&mut builder, own_thread(trace, thread));
    }
    for run in 0..=WARM_UP_RUNS {
        push_run(
            &mut builder,
            trace,
            &Run {
                shift: origin + i64::from(run) * length,
                correlations: run * (most + 1),
                has_ranges: run == WARM_UP_RUNS,
            },
        );
    }
    builder.devices.clone_from(&trace.devices);
    builder.finish()
}

struct Run {
    shift: i64,
    correlations: u32,
    has_ranges: bool,
}

fn bounds(trace: &Trace) -> (i64, i64) {
    let hosts = trace.hosts.start.iter().zip(trace.hosts.duration.iter());
    let kernels = trace
        .kernels
        .start
        .iter()
        .zip(trace.kernels.duration.iter());
    let times = hosts.chain(kernels);
    times.fold((i64::MAX, i64::MIN), |(first, last), (start, duration)| {
        (first.min(*start), last.max(start + duration))
    })
}

fn own_thread(trace: &Trace, thread: ThreadId) -> (i64, i64) {
    let row = thread.0 as usize;
    (trace.threads.process[row], trace.threads.thread[row])
}

fn push_start(builder: &mut TraceBuilder, (process, thread): (i64, i64)) {
    let thread = builder.thread(process, thread);
    for call in 0..40 {
        let name = ["cudaMalloc", "cuModuleLoadData", "cuLibraryLoadData"][call % 3];
        let host = Host {
            start: call as i64 * 40_000_000,
            duration: 9_000_000,
            name: builder.intern(name),
            thread,
            kind: if call % 3 == 0 {
                HostKind::RUNTIME
            } else {
                HostKind::DRIVER
            },
            ..Host::default()
        };
        builder.hosts.push(host);
    }
}

fn push_run(builder: &mut TraceBuilder, trace: &Trace, run: &Run) {
    let correlated = |id: u32| if id == 0 { 0 } else { id + run.correlations };
    for host in trace.hosts.rows() {
        let name = trace.text(host.name);
        let is_call = matches!(host.kind, HostKind::RUNTIME | HostKind::DRIVER);
        if !is_call || !RECORDED.iter().any(|part| name.contains(part)) {
            continue;
        }
        let (process, thread) = own_thread(trace, host.thread);
        let host = Host {
            start: host.start + run.shift,
            name: builder.intern(name),
            thread: builder.thread(process, thread),
            correlation: correlated(host.correlation),
            external: 0,
            inputs: InputsId::default(),
            ..host
        };
        builder.hosts.push(host);
    }
    for kernel in trace.kernels.rows() {
        let kernel = Kernel {
            start: kernel.start + run.shift,
            name: builder.intern(trace.text(kernel.name)),
            mangled: StrId::EMPTY,
            correlation: correlated(kernel.correlation),
            external: 0,
            ..kernel
        };
        builder.kernels.push(kernel);
    }
    for copy in trace.copies.rows() {
        let copy = Copy {
            start: copy.start + run.shift,
            name: builder.intern(trace.text(copy.name)),
            correlation: correlated(copy.correlation),
            external: 0,
            ..copy
        };
        builder.copies.push(copy);
    }
    for memset in trace.memsets.rows() {
        let memset = Memset {
            start: memset.start + run.shift,
            name: builder.intern(trace.text(memset.name)),
            correlation: correlated(memset.correlation),
            external: 0,
            ..memset
        };
        builder.memsets.push(memset);
    }
    for range in trace.ranges.rows() {
        let name = trace.text(range.name);
        let is_own = matches!(range.kind, RangeKind::ANNOTATION | RangeKind::NVTX);
        if !run.has_ranges || !is_own || name.starts_with("ProfilerStep") {
            continue;
        }
        let (process, thread) = own_thread(trace, range.thread);
        let range = Range {
            start: range.start + run.shift,
            duration: range.duration,
            name: builder.intern(name),
            thread: builder.thread(process, thread),
            kind: RangeKind::NVTX,
            ..Range::default()
        };
        builder.ranges.push(range);
    }
}
