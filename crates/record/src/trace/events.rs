//! The tables of a trace: what each kind of event keeps.
//!
//! Times are integer nanoseconds on the clock of the trace ([`Trace::clock_origin_ns`](super::Trace)); an event covers
//! `start..start + duration`. An id of 0 says "none" for correlation, external, graph and graph node ids, since no
//! tool gives 0 to a real one.

use super::ids::{InputsId, StrId, ThreadId};
use super::table::{codes, table};

codes! {
    /// What kind of host activity a row of [`Hosts`] is. The order is the nesting of rows with equal times: an outer kind comes first.
    HostKind {
        /// A slice that the tool gave a category we do not know.
        OTHER = 0 "other",
        /// A Python function or `nn.Module` call.
        PYTHON = 1 "python_function",
        /// An operator of the framework (`aten::mm`).
        OPERATOR = 2 "cpu_op",
        /// A call of the CUDA runtime API.
        RUNTIME = 3 "cuda_runtime",
        /// A call of the CUDA driver API.
        DRIVER = 4 "cuda_driver",
        /// A call of the operating system that nsys traced.
        SYSTEM = 5 "os_runtime",
        /// Work of the profiler itself.
        OVERHEAD = 6 "overhead",
    }
}

table! {
    /// Host activity: operators, Python functions, API calls, profiler overhead.
    /// Sorted by thread, then start, then the longer first, so that an outer slice precedes what it holds.
    Hosts as "hosts",
    Host {
        /// Start on the clock of the trace, ns.
        start: i64,
        /// How long it took, ns; never negative.
        duration: i64,
        name: StrId,
        /// The thread it ran on.
        thread: ThreadId,
        /// The kind of activity, such as an operator or an API call.
        kind: HostKind,
        /// For an API call, the id that its device events carry too; 0 where it has none.
        correlation: u32,
        /// The profiler's id of the operator, or for an API call the id of the operator that made it; 0 where unknown.
        external: u64,
        /// Shapes, dtypes, strides and values of an operator's inputs.
        inputs: InputsId,
        /// For a Python function, the profiler's id of the call; 0 for other kinds.
        python_id: u32,
        /// For a Python function, the `python_id` of its caller; 0 at the top.
        python_parent: u32,
    }
}

table! {
    /// Kernels on a device. Sorted by device, then start.
    Kernels as "kernels",
    Kernel {
        /// Start on the clock of the trace, ns.
        start: i64,
        /// How long it ran, ns; never negative.
        duration: i64,
        /// The name as the tool wrote it: demangled where it did so.
        name: StrId,
        /// The linker's (mangled) name where the tool has it, else [`StrId::EMPTY`].
        mangled: StrId,
        device: u32,
        context: u32,
        /// The stream within the context.
        stream: u32,
        /// The id that the launching API call carries too; several kernels share one when a graph was launched. 0 where unknown.
        correlation: u32,
        /// The id of the operator that launched it; 0 where unknown.
        external: u64,
        /// The launched graph; 0 outside of graphs.
        graph: u32,
        /// The node of the graph it came from; 0 outside of graphs.
        graph_node: u64,
        /// Number of blocks in the grid (x, y, z).
        grid: [u32; 3],
        /// Number of threads in a block (x, y, z).
        block: [u32; 3],
        registers: u32,
        /// Shared memory a block that was fixed at compile time, bytes. A tool that gives the sum alone puts it here.
        static_shared: u32,
        /// Shared memory a block that was asked for at launch, bytes.
        dynamic_shared: u32,
        /// The tool's estimate of the occupancy, percent; NaN where it gave none.
        occupancy: f32,
    }
}

codes! {
    /// From where to where a [`Copy`] goes.
    CopyKind {
        UNKNOWN = 0 "unknown",
        HOST_TO_DEVICE = 1 "HtoD",
        DEVICE_TO_HOST = 2 "DtoH",
        DEVICE_TO_DEVICE = 3 "DtoD",
        HOST_TO_HOST = 4 "HtoH",
        PEER_TO_PEER = 5 "PtoP",
        /// To or from a CUDA array.
        ARRAY = 6 "array",
    }
}

codes! {
    /// The kind of memory at one end of a copy or memset.
    MemoryKind {
        UNKNOWN = 0 "unknown",
        /// Host memory that may be paged out.
        PAGEABLE = 1 "pageable",
        PINNED = 2 "pinned",
        DEVICE = 3 "device",
        ARRAY = 4 "array",
        MANAGED = 5 "managed",
    }
}

table! {
    /// Copies by the device's engines or kernels. Sorted by device, then start.
    Copies as "copies",
    Copy {
        /// Start on the clock of the trace, ns.
        start: i64,
        /// How long it took, ns; never negative.
        duration: i64,
        /// The tool's name of it (`Memcpy HtoD (Pageable -> Device)`).
        name: StrId,
        /// Direction of the copy, such as host to device.
        kind: CopyKind,
        /// Kind of the memory that was read.
        source: MemoryKind,
        /// Kind of the memory that was written.
        target: MemoryKind,
        /// The device that did it.
        device: u32,
        context: u32,
        /// The stream within the context.
        stream: u32,
        /// The id that the API call carries too; 0 where unknown.
        correlation: u32,
        /// The id of the operator that asked for it; 0 where unknown.
        external: u64,
        /// The launched graph; 0 outside of graphs.
        graph: u32,
        /// The node of the graph it came from; 0 outside of graphs.
        graph_node: u64,
        bytes: u64,
    }
}

table! {
    /// Memory fills on a device. Sorted by device, then start.
    Memsets as "memsets",
    Memset {
        /// Start on the clock of the trace, ns.
        start: i64,
        /// How long it took, ns; never negative.
        duration: i64,
        /// The tool's name of it (`Memset (Device)`).
        name: StrId,
        /// Kind of the memory that was filled.
        target: MemoryKind,
        device: u32,
        context: u32,
        /// The stream within the context.
        stream: u32,
        /// The id that the API call carries too; 0 where unknown.
        correlation: u32,
        /// The id of the operator that asked for it; 0 where unknown.
        external: u64,
        /// The launched graph; 0 outside of graphs.
        graph: u32,
        /// The node of the graph it came from; 0 outside of graphs.
        graph_node: u64,
        bytes: u64,
    }
}

codes! {
    /// Where a row of [`Ranges`] comes from.
    RangeKind {
        OTHER = 0 "other",
        /// `record_function` and its kind, on a host thread.
        ANNOTATION = 1 "user_annotation",
        /// An NVTX push/pop range, on a host thread.
        NVTX = 2 "nvtx",
        /// An NVTX start/end range, which need not nest and may end on another thread.
        NVTX_START_END = 3 "nvtx_start_end",
        /// An annotation as the profiler projected it on a stream.
        DEVICE_ANNOTATION = 4 "gpu_user_annotation",
        /// A moment with a name: an NVTX mark or an instant event. Its duration is 0.
        MARK = 5 "mark",
        /// The window in which the profiler recorded.
        CAPTURE = 6 "capture",
    }
}

table! {
    /// Named ranges that people or frameworks put into the timeline.
    /// Sorted by thread, then start, then the longer first.
    Ranges as "ranges",
    Range {
        /// Start on the clock of the trace, ns.
        start: i64,
        /// How long it took, ns; never negative.
        duration: i64,
        name: StrId,
        /// The NVTX domain; [`StrId::EMPTY`] for the default domain and for other kinds.
        domain: StrId,
        /// The host thread; for a range on a device, [`ThreadId::NONE`].
        thread: ThreadId,
        /// The mechanism that made the range, such as NVTX.
        kind: RangeKind,
        /// The device, for a range on a device.
        device: u32,
        /// The stream, for a range on a device.
        stream: u32,
        /// The profiler's id of the annotation, by which device events may refer to it; 0 where it has none.
        external: u64,
    }
}

codes! {
    /// Whose memory a row of [`MemoryEvents`] concerns.
    MemoryPlace {
        UNKNOWN = 0 "unknown",
        HOST = 1 "host",
        DEVICE = 2 "device",
    }
}

table! {
    /// Allocations and frees by the framework's allocator. Sorted by time.
    MemoryEvents as "memory",
    MemoryEvent {
        /// Time on the clock of the trace, ns.
        time: i64,
        /// Bytes taken, negative when given back.
        bytes: i64,
        address: u64,
        /// Bytes that tensors hold after it.
        allocated: u64,
        /// Bytes that the allocator holds after it.
        reserved: u64,
        thread: ThreadId,
        /// The host's memory or a device's.
        place: MemoryPlace,
        /// The device's number; 0 for the host.
        device: u32,
    }
}

codes! {
    /// What a row of [`Syncs`] waits for.
    SyncKind {
        UNKNOWN = 0 "unknown",
        /// An event, from the host.
        EVENT = 1 "event_sync",
        /// An event, inside a stream.
        STREAM_WAIT = 2 "stream_wait",
        STREAM = 3 "stream_sync",
        /// The host waits for a whole context or device.
        CONTEXT = 4 "context_sync",
    }
}

table! {
    /// Synchronizations that the tool recorded as activities of their own. Sorted by device, then start.
    Syncs as "syncs",
    Sync {
        /// Start on the clock of the trace, ns.
        start: i64,
        /// How long it took, ns; never negative.
        duration: i64,
        /// The tool's name of it.
        name: StrId,
        /// What the host or stream waits for.
        kind: SyncKind,
        device: u32,
        context: u32,
        /// The stream that waits, or is waited for; `u32::MAX` where the whole context is.
        stream: u32,
        /// The id that the API call carries too; 0 where unknown.
        correlation: u32,
        /// The id of the operator that asked for it; 0 where unknown.
        external: u64,
    }
}

table! {
    /// Nodes of CUDA graphs that device events came from, with where they were captured. Sorted by node.
    GraphNodes as "graph_nodes",
    GraphNode {
        /// The node, as device events name it.
        node: u64,
        /// The graph that it belongs to.
        graph: u32,
        /// When it was captured or made, ns.
        time: i64,
        /// The thread that did so.
        thread: ThreadId,
        /// The ranges that were open on that thread, outermost first, joined by `/`; [`StrId::EMPTY`] where none was.
        ranges: StrId,
    }
}

table! {
    /// What operator calls computed, where the recorder knows it: llmprof's own engine does. A row belongs to the row of
    /// [`Hosts`] with the same `external`. Sorted by `external`.
    OperatorCalls as "operator_calls",
    OperatorCall {
        /// The id of the call in [`Hosts`].
        external: u64,
        /// The kind of operator as theory names it: `linear`.
        kind: StrId,
        /// The format that is multiplied: `bf16`.
        dtype: StrId,
        /// Independent problems of the same size.
        groups: u64,
        m: u64,
        /// Columns of the result (N).
        n: u64,
        k: u64,
        /// For experts: how many distinct ones the tokens reached. 0 for other operators.
        experts: u32,
    }
}

table! {
    /// Collectives and point-to-point transfers between ranks, as the framework describes them: on the host where they were
    /// asked for, and on the device where the kernel carries the facts too. Sorted by thread, then start.
    Collectives as "collectives",
    Collective {
        /// When the event that carries the facts began, ns.
        start: i64,
        /// How long it took, ns; never negative.
        duration: i64,
        /// The host thread; [`ThreadId::NONE`] for a kernel.
        thread: ThreadId,
        /// For a kernel, its correlation id; 0 on the host.
        correlation: u32,
        /// The framework's name: `allreduce`, `nccl:all_to_all`.
        name: StrId,
        /// The process group; [`StrId::EMPTY`] where not recorded.
        process_group: StrId,
        /// The ranks of the group as the tool wrote them, long lists shortened: `[0, 1, 2, 3]`.
        group_ranks: StrId,
        /// Ranks in the group; 0 where unknown.
        group_size: u32,
        /// The number of the collective in its group; negative where not recorded.
        sequence: i64,
        /// Elements that one rank gives; negative where unknown.
        in_elements: i64,
        /// Elements that one rank gets; negative where unknown.
        out_elements: i64,
        /// The dtype as the tool wrote it (`BFloat16`, `float`).
        dtype: StrId,
    }
}

table! {
    /// Operators that ran with gradients enabled. PyTorch numbers the nodes of autograd's graph: an operator that makes one is
    /// followed by a higher number. Sorted by `external`.
    AutogradSequences as "autograd_sequences",
    AutogradSequence {
        /// The id of the operator in [`Hosts`].
        external: u64,
        /// The number of the next node when the operator began.
        sequence: u64,
    }
}

table! {
    /// Kernels that calls launch, where the tool says so at the call: HIP does. It is all that a capture of a graph shows of
    /// them. Sorted by correlation.
    LaunchedKernels as "launched_kernels",
    LaunchedKernel {
        /// The id of the call in [`Hosts`].
        correlation: u32,
        /// The kernel's name as the tool wrote it.
        kernel: StrId,
    }
}
