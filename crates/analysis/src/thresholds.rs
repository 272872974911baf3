//! Every number that decides what is said of a trace, with its unit in the name and its reason above.

// Bottleneck classes. W is the wall time of a phase, B its busy time. A part that takes half of the time outweighs all others
// together: no other class could explain more.

/// Part of the time below its clock from which on a device is throttled.
pub(crate) const THROTTLED_MIN_SHARE: f64 = 0.2;
/// Part of W from which on a phase is communication-bound.
pub(crate) const COMMUNICATION_BOUND_MIN_SHARE: f64 = 0.5;
/// Part of W from which on a phase is host-bound.
pub(crate) const HOST_BOUND_MIN_SHARE: f64 = 0.5;
/// Part of B from which on a phase is copy-bound.
pub(crate) const COPY_BOUND_MIN_SHARE: f64 = 0.5;
/// Part of B from which on a phase is latency-bound.
pub(crate) const LATENCY_BOUND_MIN_SHARE: f64 = 0.5;
/// Part of B that a limit must explain.
pub(crate) const LIMIT_NEAR_MIN_SHARE: f64 = 0.4;
/// Ratio of compute and memory time up to which a phase is balanced.
pub(crate) const BALANCED_MAX_RATIO: f64 = 1.25;

// Idle time

/// The longest that launching takes: the call on the host, the start on the device after it, and the time between two queued
/// events, each. In recorded traces calls take 4 to 40 µs; an idle device starts 1 to 3 µs (NVIDIA) or 4 to 25 µs (MI300X) after
/// the call; queued kernels are up to 3 µs apart, and 14 µs behind a HIP graph. What takes longer has another cause.
pub(crate) const LAUNCH_MAX_NS: i64 = 50_000;
/// An operator of eager PyTorch keeps the host for 16 to 25 µs before its launch (1,006 launches in a decode step of 16 to 25 ms
/// on an H200), and for a few times that while it is profiled. A gap before one launch that is longer than this is for something else.
pub(crate) const LONG_GAP_MIN_NS: i64 = 1_000_000;
/// Idle time for each kernel, on average, that cheaper launches could shorten: ten times what an operator of eager PyTorch takes. In
/// programs with more the host does something else.
pub(crate) const LAUNCHING_IDLE_MAX_NS: i64 = 200_000;
/// The shortest time between two ops on the CPU that is for something else than calling the next one, ns: an operator of eager PyTorch keeps
/// the host for 16 to 25 µs before its work, with Python functions recorded for a few times that.
pub(crate) const HOST_GAP_MIN_NS: i64 = 200_000;
/// Part of the idle time from which on one operator of the host is named as what the device waits for: in ResNet training that
/// searches for convolutions (`fixtures/foreign`, train_resnet18) the longest of five covers 0.42.
pub(crate) const HOST_WORK_MIN_SHARE: f64 = 0.25;
/// A few events may lead to the wrong call, where ids of calls are used again.
pub(crate) const EARLY_EVENTS_MIN_PART: usize = 100;

/// Part of the device events of all phases that may lack their launch call for causes to be looked for: work of another process or
/// from before the recording is less than that in every recording of `fixtures`, and lost calls come by the thousand.
pub(crate) const WITHOUT_CALL_MAX_SHARE: f64 = 0.1;
/// Device events for each launch call, from which on the work of the phases was recorded: most calls launch one kernel, and those that
/// are captured into a graph run with the graph.
pub(crate) const WORK_OF_LAUNCHES_MIN_SHARE: f64 = 0.5;

/// Roofline time ÷ time of GEMMs above which they are as fast as libraries make them: clocks under load are below those of a datasheet,
/// and the large BF16 products of the H200 recordings in `fixtures` reach 0.6 to 0.8.
pub(crate) const TUNED_GEMMS_MIN_FRACTION: f64 = 0.7;

/// Part of the time that ranks wait for one of them from which on it is named: less is no reason to look for what it did.
pub(crate) const RANK_WAITING_MIN_SHARE: f64 = 0.001;

/// Part of the exposed communication of a rank above which it is mostly waiting: balancing the ranks saves more than overlap.
pub(crate) const MOSTLY_WAITING_MIN_SHARE: f64 = 0.5;

/// Part of the wall time from which on a range is named that is open while nothing runs: less is not what a reader looks for first.
pub(crate) const OPEN_RANGE_MIN_SHARE: f64 = 0.1;

// Steps and phases

/// One part in so many of the device's span is named. Of the public traces with labelled steps (`fixtures/public`) four have 7 to 50 % of
/// their span outside the steps and the others nothing: 2 % is well below what a reader misses.
pub(crate) const OUTSIDE_NOTICED_PART: i64 = 50;
/// The operator that the host was longest in between phases is named where it takes one part in so many of the idle time.
pub(crate) const HOST_OPERATOR_NAMED_PART: i64 = 10;
/// Ranges that run at once for a larger part of their time are not steps: requests of a server, or work of several threads.
pub(crate) const RANGE_OVERLAP_MAX_SHARE: f64 = 0.1;
/// Names of ranges that run at once of which the report states how long they run; others follow from the table of ranges.
pub(crate) const CONCURRENT_RANGES_NAMED_MAX: usize = 4;
/// Phases explain at least this part of the device time from the first of them on: what explains less is not what the trace is about.
pub(crate) const PHASES_COVERED_MIN_SHARE: f64 = 0.5;
/// Part of the ranges with work that begin with an idle device and end with their work done, from which on a program waits for the device
/// in each: the first one, which loads code, or one whose result nobody reads, may be an exception.
pub(crate) const RANGES_AWAITED_MIN_SHARE: f64 = 0.9;
/// Ranges inside of ranges are looked at to this depth: programs nest a run, a request and its steps.
pub(crate) const RANGE_DEPTH_MAX: usize = 8;
/// Part of all device time that ranges hold at least to be phases: a warm-up before them may take several times what they do.
pub(crate) const RANGES_MIN_TIME_SHARE: f64 = 0.1;
/// Part of the time of its ranges that a device must work for to set their pace. Devices that lag behind their host in public traces
/// (`fixtures/public`, MI300X and H100) work for more than 0.9 of it.
pub(crate) const DEVICE_PACE_MIN_SHARE: f64 = 0.5;
/// Compilations and compiled calls are phases where compilations take at least this part of the time from the first of both to the last.
pub(crate) const COMPILATION_MIN_SHARE: f64 = 0.05;
/// A device belongs to the process that launched at least this part of its time: others may copy a tensor there.
pub(crate) const DEVICE_OWNER_MIN_SHARE: f64 = 0.99;
/// Ranges of more names than this are parts of something, not its phases.
pub(crate) const RANGE_NAMES_MAX: usize = 32;
/// A first step that is longer than this many usual ones holds the start of the program too.
pub(crate) const FIRST_STEP_MAX_RATIO: f64 = 1.5;
/// More than one launch of a hundred: a few fail, or launch a graph without kernels.
pub(crate) const CUT_LAUNCHES_MIN_PART: u64 = 100;
/// A last range in which nothing is recorded for longer than this, and for more than one part in so many of it, was cut: a program
/// that ends leaves its last range within a millisecond of its last call.
pub(crate) const CUT_SILENCE_MIN_NS: i64 = 1_000_000;
pub(crate) const CUT_SILENCE_MIN_PART: i64 = 10;
/// How many ranges of a step are looked back over for one of another stream.
pub(crate) const ENGINE_STREAMS_MAX: usize = 64;
/// With fewer whole steps than this a phase may be something else than it looks like.
pub(crate) const SAMPLED_STEPS_MIN: u64 = 4;

// First use

/// A first interval is first use if it takes this many times as long as the later ones…
pub(crate) const FIRST_USE_MIN_RATIO: f64 = 1.5;
/// …for its work, and its device time is not shorter by this factor.
pub(crate) const SAME_WORK_MAX_RATIO: f64 = 1.5;
/// Waits from here on…
pub(crate) const ATTENTION_WAIT_MIN_NS: i64 = 5_000_000;
/// …and above this many times the usual one are not usual.
pub(crate) const ATTENTION_WAIT_MIN_RATIO: i64 = 20;

// Repetitions

/// A distance is regular where it is within this part of the median: experts that come and go change the length of a layer.
pub(crate) const PERIOD_NEAR_MAX_SHARE: f64 = 0.25;
/// The part of an anchor's distances that are regular. In no order about 0.17 are: of an exponential distribution that lies
/// within a quarter of its median.
pub(crate) const PIECES_REGULAR_MIN_SHARE: f64 = 0.5;
/// The part of pieces, from the first to the last that repeats, that repeat; others are single prefills, or noise.
pub(crate) const PIECES_REPEATED_MIN_SHARE: f64 = 0.8;
/// The part of the kernel time that a level must cover, and that a sequence must have to be looked at.
pub(crate) const REPETITION_MIN_TIME_SHARE: f64 = 0.1;
/// Repetitions without telling names below which chance may have made them.
pub(crate) const REPETITIONS_MIN: usize = 4;
/// Kernels that repetitions must have together, for the same reason; and fewer are no step where something longer repeats.
pub(crate) const REPETITION_KERNELS_MIN: u64 = 32;
/// Attention kernels of one layer: self- and cross-attention, each with a kernel that merges its parts. More are layers.
pub(crate) const LAYER_ATTENTION_KERNELS_MAX: u32 = 4;
/// The part of their runs of launches that alike pieces share: experts of a mixture that come and go leave more, and a
/// prefill and a decode step of one model have less than half in common.
pub(crate) const PIECES_ALIKE_MIN_SHARE: f64 = 0.75;
/// The part of all kernels that is a pattern beside another, wherever its steps are.
pub(crate) const SECOND_PATTERN_MIN_TIME_SHARE: f64 = 0.25;
/// Units before phases are made of them.
pub(crate) const REPETITION_WINDOWS_MIN: usize = 3;
/// Pieces of fewer launches are alike only where they are equal: they have too few pairs for a share of them.
pub(crate) const SHARED_RUNS_MIN_LAUNCHES: usize = 8;
/// Pieces of so many launches are compared by fours: all pairs of some dozen kernels may come in any of them.
pub(crate) const FOURS_MIN_LAUNCHES: usize = 64;
/// Launches at the end of a piece that must be the usual ones where an edge may have cut it.
pub(crate) const TAIL_LAUNCHES: usize = 4;
/// Kinds of pieces at one distance; more are no pattern. Bounds the time of comparison.
pub(crate) const PIECE_KINDS_MAX: usize = 16;
/// Anchors of each distance that are looked at closely, those that cover most. Bounds the time.
pub(crate) const ANCHORS_TRIED_MAX: usize = 3;
/// Places of a step where an interval may begin that are tried. Bounds the time.
pub(crate) const EDGE_PLACES_MAX: usize = 64;
/// Launches before and after a start of a step, or a kernel whose name marks one, among which the start is looked for. Bounds the time.
pub(crate) const LAUNCHES_NEAR_START_MAX: usize = 16;
/// Repetitions whose gaps vote for a start. Bounds the time.
pub(crate) const STARTS_COMPARED_MAX: usize = 64;
/// How often the rest of a sequence is searched for another pattern. Bounds the time.
pub(crate) const REPETITION_ROUNDS_MAX: usize = 4;
/// Launches at each edge of a slice whose median delay shows how far the host is ahead.
pub(crate) const SLICE_EDGE_LAUNCHES: usize = 9;

// Steps of training, decode by graphs

/// Steps of optimizers in one iteration that take turns: those of a GAN, whose critic steps several times, of an actor and a critic.
pub(crate) const OPTIMIZER_TURNS_MAX: usize = 8;
/// Linear operators of one input that one GEMM computes: query, key and value.
pub(crate) const MERGED_LINEARS_MAX: u64 = 3;
/// Kernels of a graph that decodes a token, where no range says so.
pub(crate) const DECODE_GRAPH_NODES_MIN: usize = 20;
/// Launches of such a graph that make a phase of decode.
pub(crate) const DECODE_GRAPH_LAUNCHES_MIN: usize = 3;
/// The least and the largest of six values have the median between them with a probability of 1 − 2 · 2⁻⁶ = 97 %, of five with
/// 94 %: with fewer than six of either a ratio of medians has no interval of 95 %.
pub(crate) const MEDIAN_RATIO_MIN_INTERVALS: usize = 6;
/// Callers of a library's function among which a function of the program is looked for. Bounds the time of deep recursions.
pub(crate) const HOST_CALLERS_MAX: usize = 64;

// Sizes

/// Devices times intervals that are analyzed one by one, each a row of about 600 bytes in `analysis.json`: at most one for so many
/// device events, which take more than that in any profile. A device that works in an interval has events in it.
pub(crate) const EVENTS_PER_DEVICE_INTERVAL_MIN: usize = 8;
/// Devices times intervals that are analyzed in any case: 8 GPUs for 250 steps.
pub(crate) const DEVICE_INTERVALS_MIN: usize = 2_000;
/// Devices that are analyzed one by one.
pub(crate) const DEVICES_MAX: usize = 64;

/// A rank is late by its own work where it worked longer before a collective than the median of the others by this many standard
/// deviations of them: of 10,000 ranks with normal noise the largest is at 3.9.
pub(crate) const STRAGGLER_DEVIATIONS_MIN: f64 = 6.0;
/// The same for few ranks, whose deviation says little: longer by this share.
pub(crate) const STRAGGLER_EXCESS_MIN_SHARE: f64 = 0.05;
/// A rank is a straggler in a step where its peers waited for its own work for this share of a step.
pub(crate) const STRAGGLER_STEP_MIN_SHARE: f64 = 0.01;
/// A straggler or a slow link is stable where it is one in this share of the steps.
pub(crate) const STRAGGLER_STEPS_MIN_SHARE: f64 = 0.5;
/// What a straggler did differently explains at least this share of its delay.
pub(crate) const STRAGGLER_DIFFERENCE_MIN_SHARE: f64 = 0.1;
/// A link is slow where transfers take this many times those of the median group of the same kind, size and message,
pub(crate) const SLOW_LINK_MIN_RATIO: f64 = 1.25;
/// and exceed them by this many standard deviations of all such groups,
pub(crate) const SLOW_LINK_DEVIATIONS_MIN: f64 = 6.0;
/// of which there must be this many: two groups do not say which of them is slow.
pub(crate) const SLOW_LINK_GROUPS_MIN: usize = 4;
/// Clocks that NTP or PTP keeps drift by less.
pub(crate) const CLOCK_DRIFT_MIN_PPM: f64 = 5.0;

/// A rank that computes this much longer than the mean rank in most steps is one to look at: less is usual between GPUs of one kind.
pub(crate) const COMPUTES_LONGER_MIN: f64 = 0.05;

// Causes: kernels of CUDA graphs, which have no shapes

/// Shorter kernels than this take as long whatever they move: launches, one wave of blocks (PyTorch's concatenations and index kernels on
/// an H200 take 2 to 8 µs on activations of a decode step, `fixtures/faults`).
pub(crate) const BANDWIDTH_BOUND_MIN_NS: i64 = 10_000;
/// Part of the device's bandwidth that a copy of that length reaches at least: concatenations and gathers of whole weights and caches
/// reach 0.8 to 0.95 on an H200 (`fixtures/faults/streamed`, `practiced`), those of odd strides half of that.
pub(crate) const COPY_BANDWIDTH_MIN_SHARE: f64 = 0.5;

// Causes: passes that compute again what earlier ones did

/// Rows of the first pass ÷ rows that each later one has more: batches of other inputs differ by larger parts of their size.
pub(crate) const GROWN_MIN_RATIO: i64 = 6;
/// Passes that grow by the same number of rows: two increments are equal by chance for few batches.
pub(crate) const GROWN_MIN_PASSES: usize = 3;

// Causes: what only a read of the host needs

/// Elements of the tensors of operators that go with the read after them: one row of a batch of 1 in the smallest models has more.
pub(crate) const READ_TENSOR_MAX_ELEMENTS: i64 = 512;

// Causes: work beyond the model

/// Part of the device time of a phase that one operator which moves or gathers tensors takes, from which on it is named: rotary
/// embeddings of eager transformers in `fixtures/faults` take up to 0.17 with `aten::cat`.
pub(crate) const BEYOND_MODEL_MIN_SHARE: f64 = 0.18;
/// Tokens of a pass from which on a tensor with as many rows is taken for one of tokens: fewer may be the size of anything.
pub(crate) const TOKEN_PRODUCT_MIN_ROWS: i64 = 64;

// Findings

/// Part of a phase below which nothing is a finding: timers and repeated runs differ by as much.
pub(crate) const FINDING_MIN_SHARE: f64 = 0.05;
/// Part of a phase that a device is throttled for, from which on it is named.
pub(crate) const THROTTLED_NOTICED_MIN_SHARE: f64 = 0.05;
/// Operators below this share of roofline have other problems than bytes.
pub(crate) const BYTES_LIMIT_MIN_FRACTION: f64 = 0.4;
/// A phase in which the device is busy for a smaller part of the time is no work of the device: to remove its idle time would
/// promise the impossible.
pub(crate) const DEVICE_USED_MIN_SHARE: f64 = 0.02;
/// A direction of copies is named from this part of the longest one on.
pub(crate) const COPY_DIRECTION_MIN_SHARE: f64 = 0.1;
/// A peak that is this many times the one that GEMMs are judged by is that of other units.
pub(crate) const OTHER_UNIT_PEAK_MIN_RATIO: f64 = 1.5;
/// Share of a phase that GEMMs must take, where it is not compute-bound.
pub(crate) const GEMMS_OF_PHASE_MIN_SHARE: f64 = 0.5;
/// GEMMs below this share of roofline have other problems than their format.
pub(crate) const GEMM_FORMAT_MIN_FRACTION: f64 = 0.2;

// Comparison with theory

/// Work ÷ peak may exceed a measured time by this ratio: a clock counts whole nanoseconds, and peaks have three digits.
pub(crate) const ROOFLINE_TOLERANCE_RATIO: f64 = 1.005;
/// Bytes of a weight from which on a format is plain: 16 bits.
pub(crate) const PLAIN_WEIGHT_MIN_BYTES: f64 = 1.9;
/// Names do not tell every GEMM, and some are fused with attention: a quarter may be missing.
pub(crate) const GEMMS_NAMED_MIN_SHARE: f64 = 0.75;
/// Clocks of one device differ by less, as drivers round them; those of an MI350X and an MI355X by 9 %.
pub(crate) const DEVICE_CLOCK_MAX_OFF_SHARE: f64 = 0.01;
/// Memory that a driver reports ÷ that of a data sheet, whose gigabytes are 10⁹ or 2³⁰ bytes: 1.065 of an H200's 141 GB
/// (`fixtures/h200`) and of a V100's 32 GB, 1.074 of an MI300X's 192 GB (`ranks_dlrm`, `sglang_mi300` of `fixtures/public`). ECC keeps
/// 1/16 of GDDR memory (nvidia-smi(1), ECC Mode).
pub(crate) const DEVICE_MEMORY_MIN_RATIO: f64 = 15.0 / 16.0;
pub(crate) const DEVICE_MEMORY_MAX_RATIO: f64 = (1_u64 << 30) as f64 / 1e9 + 0.005;
/// The part of the launches of a window, by which a cuBLAS log is aligned with a timeline, that may contradict it.
pub(crate) const ALIGNMENT_WRONG_MAX_SHARE: f64 = 0.1;
/// The part of GEMM kernels below which a log is said not to fit: the log of a process has every GEMM of its timeline, and layers
/// of another program look alike.
pub(crate) const GEMMS_JOINED_MIN_SHARE: f64 = 0.8;
/// Rates above this part of the peak are impossible: the pairs are wrong.
pub(crate) const RATE_OF_PEAK_MAX_RATIO: f64 = 1.1;

// Passes and the machine

/// Standard deviations of later passes by which the first one may differ from them by chance.
pub(crate) const FIRST_PASS_DEVIATIONS_MAX: f64 = 3.0;
/// A captured pass that took this many times as long as plain ones is another pass than they are.
pub(crate) const OTHER_PASS_MIN_RATIO: f64 = 1.5;
/// Recording makes nothing faster: plain passes that took longer than this share allows were disturbed.
pub(crate) const DISTURBED_PLAIN_MAX_RATIO: f64 = 0.9;
/// Seconds of waiting in each second, of all threads together, from which on it is worth saying. Threads of one operator
/// wait for the slowest of them, so that a tenth may be a tenth of the wall time however many there are.
pub(crate) const CPU_WAITING_MIN_RATE: f64 = 0.1;
/// Seconds of processor time below which nothing is reported: the kernel counts hundredths of a second on each processor.
pub(crate) const CPU_COUNTED_MIN_S: f64 = 0.05;
/// Share of the processors below which those that are free count for none.
pub(crate) const CPU_FREE_MIN_SHARE: f64 = 0.05;
/// Share of the processors that a hypervisor takes from which on it is worth saying.
pub(crate) const CPU_STOLEN_MIN_SHARE: f64 = 0.05;

// Ranks

/// The least part of the waiting for a rank that one difference must explain.
pub(crate) const RANK_DIFFERENCE_MIN_SHARE: f64 = 0.05;
/// Two lists agree if this part of the kinds beside each other is the same.
pub(crate) const RANK_LISTS_AGREE_MIN_SHARE: f64 = 0.98;
/// Pairs of collectives without sequence numbers that show how two lists lie beside each other: the ends of fewer differ by much the
/// same wherever they are laid.
pub(crate) const ORDER_PAIRS_MIN: usize = 3;
/// Times the spread of the ends with which a second way to lay two lists beside each other is no rival: steps of one length, moved by a
/// whole step, agree nearly as well (in the DLRM job of `fixtures/public` other shifts have 100 times the spread and more).
pub(crate) const RIVAL_SPREAD_MIN_RATIO: i64 = 2;
/// The least spread of ends that is told apart, ns: CUPTI converts times of a device to those of the host to about 1 µs.
pub(crate) const CLOCK_SPREAD_MIN_NS: i64 = 1_000;
/// A drift must move the clock by this many standard errors, so that chance makes none in a job of thousands of ranks.
pub(crate) const DRIFT_ERRORS_MIN: f64 = 8.0;
/// The least drift over the recording, ns: CUPTI converts times of a device to those of the host to about 1 µs.
pub(crate) const DRIFT_MIN_NS: f64 = 1_000.0;
/// Oscillators are within 100 ppm of each other; ten times as much is another mistake.
pub(crate) const CLOCK_DRIFT_MAX_SHARE: f64 = 1e-3;

// Counters

/// SM throughput, percent of peak, below which SMs count as little used: below half of what a tuned kernel reaches.
pub(crate) const SM_LOW_PERCENT: f64 = 40.0;
/// DRAM throughput, percent of peak, from which on memory counts as busy.
pub(crate) const DRAM_HIGH_PERCENT: f64 = 40.0;
/// L2 hits, percent, below which most accesses go to DRAM.
pub(crate) const L2_HITS_LOW_PERCENT: f64 = 50.0;
/// Use of tensor cores, percent of peak, below which a GEMM leaves them idle.
pub(crate) const TENSOR_LOW_PERCENT: f64 = 30.0;
/// Warps, percent of those that fit, below which there are too few to hide waits for memory.
pub(crate) const OCCUPANCY_LOW_PERCENT: f64 = 50.0;
/// Part of all waiting of warps from which on one stall is named.
pub(crate) const STALL_HIGH_SHARE: f64 = 0.3;
/// Counted and stated bandwidths of one memory differ by less: the clock of a page is rounded to four digits, that of a datasheet
/// to two.
pub(crate) const COUNTED_BANDWIDTH_TOLERANCE_SHARE: f64 = 0.03;

// Comparison of runs

/// Part of a run from which on a disturbance is one: of the processors that others took, of the time that a GPU was throttled, of its
/// clock.
pub const DISTURBED_SHARE: f64 = 0.10;
/// Changes below this share of all changes are summed.
pub(crate) const CHANGE_MIN_SHARE: f64 = 0.01;
/// Changes below this share of the metric, 0.05 points, are summed too: as parts of their own they would explain nothing.
pub(crate) const CHANGE_OF_METRIC_MIN_SHARE: f64 = 0.0005;
/// Profiling overhead that differs by more than this factor is named.
pub(crate) const OVERHEAD_MAX_RATIO: f64 = 1.1;
/// Passes whose sequences, or tokens of a prompt, differ by more than this factor do other work.
pub(crate) const SAME_PASS_MAX_RATIO: f64 = 1.02;
/// A longer context costs a decode step less than proportionally, and two recordings of one program rarely cover the same steps.
pub(crate) const SAME_CONTEXT_MAX_RATIO: f64 = 1.1;

// Loads

/// The 99th percentile of how late requests may start.
pub(crate) const CLIENT_LAG_MAX_MS: f64 = 5.0;
/// Share of the median time to the first token beyond which such a delay matters.
pub(crate) const CLIENT_LAG_MAX_SHARE: f64 = 0.05;
/// Part of a core that a worker of the client may use before it delays requests.
pub(crate) const CLIENT_CPU_MAX_SHARE: f64 = 0.9;
/// A worker that uses less of a core than this is not what is slow.
pub(crate) const CLIENT_CPU_IDLE_MAX_SHARE: f64 = 0.5;
/// Share of stolen CPU time that is named beside a late client; a quiet virtual machine has a few tenths of a percent.
pub(crate) const CLIENT_STOLEN_MIN_SHARE: f64 = 0.01;
/// The 99th percentile of how late ticks of an event loop may come.
pub(crate) const EVENT_LOOP_DELAY_MAX_MS: f64 = 10.0;
/// The last third of the requests waits this many times as long for its first token as the first third: latencies of a server
/// that keeps up vary, but do not grow with the time.
pub(crate) const TTFT_GROWTH_MIN_RATIO: f64 = 2.0;
/// Part of the requests that is not done when the last one is due.
pub(crate) const OUTSTANDING_MIN_SHARE: f64 = 0.5;
/// A part of a request below this share of its time is not named as what to change.
pub(crate) const REQUEST_PART_MIN_SHARE: f64 = 0.1;
/// A KV cache this full decides how many requests run.
pub(crate) const KV_CACHE_FULL_MIN_SHARE: f64 = 0.9;
/// A gap this many times the typical one, with nobody else's prefill in it, is a stall.
pub(crate) const STALL_MIN_RATIO: f64 = 5.0;

// Causes: what is named

/// Part of a phase that the removal of a cause must save: host-bound phases vary by more from run to run than less than this.
pub(crate) const CAUSE_GAIN_MIN_SHARE: f64 = 0.05;
/// The same of a cause that only some programs have: its evidence is enough at a smaller gain, and most faults cost more.
pub(crate) const SPECIAL_CAUSE_GAIN_MIN_SHARE: f64 = 0.02;
/// A cause that adds less than this part of its own gain to another's is about the same time.
pub(crate) const SAME_TIME_MAX_SHARE: f64 = 0.5;
/// Causes, those that save most first, that are compared with each other for that: each pair takes a replay.
pub(crate) const COMPARED_CAUSES_MAX: usize = 8;
/// Pairs of an operator and the one it calls whose median time shows what recording an event costs.
pub(crate) const EVENT_COST_PAIRS_MIN: usize = 50;
/// A gain that is stated as one value is right within this part of it…
pub(crate) const GAIN_VALUE_ERROR_MAX_SHARE: f64 = 0.25;
/// …or this part of the phase, whichever is larger; with a wider error it is stated as a range.
pub(crate) const GAIN_VALUE_ERROR_MAX_PHASE_SHARE: f64 = 0.07;
/// What removing a cause saved, measured, ÷ the least time that replays give: below this for 7 % of 98 gains in the nine folders of
/// `fixtures/faults` that are older than `harbor`. Fitted to eight of these folders (0.83 to 0.90, and 1.30 to 1.38 for the next one), ranges
/// hold 83 of the 104 measured savings of the folders left out.
pub(crate) const GAIN_LOW_RATIO: f64 = 0.86;
/// The same ÷ the most time that replays give: above this for 7 % of those gains.
pub(crate) const GAIN_HIGH_RATIO: f64 = 1.35;

// Causes: windows that are replayed

/// A phase of twice as many windows or more is judged by so many: their mean is within 1 % where single steps scatter by 5 %.
pub(crate) const REPLAYED_WINDOWS_MAX: usize = 32;
/// Host events of those windows, so that no phase takes more than some tenths of a second.
pub(crate) const REPLAYED_EVENTS_MAX: usize = 200_000;
/// Windows that are replayed however many events they have.
pub(crate) const REPLAYED_WINDOWS_MIN: usize = 8;
/// Windows in a row that are replayed together: a program may prepare a step during the one before.
pub(crate) const REPLAYED_RUN_WINDOWS_MIN: usize = 4;
/// Places in a phase that such rows are taken from: steps change while a context grows.
pub(crate) const REPLAYED_RUNS_MAX: usize = 8;

// Causes: host time

/// A pause is at least this long: the Python code between two forward passes of transformers takes up to 0.15 ms…
pub(crate) const PAUSE_MIN_NS: i64 = 200_000;
/// Without operators a pause also holds those that launch nothing, twice as long between passes of transformers (`fixtures/faults`, with
/// the operators taken out).
pub(crate) const PAUSE_BETWEEN_CALLS_MIN_NS: i64 = 400_000;
/// …and this many times the usual gap between operators or calls.
pub(crate) const PAUSE_MIN_GAPS: i64 = 10;
/// Shorter pauses are one cause where they recur at one place, from this length on…
pub(crate) const RECURRING_PAUSE_MIN_NS: i64 = 80_000;
/// …and this many times the usual gap: code between modules of transformers takes up to 10 usual gaps…
pub(crate) const RECURRING_PAUSE_MIN_GAPS: i64 = 12;
/// …this often in a step: once or twice is the code of the loop.
pub(crate) const RECURRING_PAUSES_MIN: usize = 4;
/// A pause in which a thread may have lost its CPU: time slices of the Linux scheduler are 3 ms and more; shorter pauses have other
/// reasons too.
pub(crate) const CPU_SLICE_MIN_NS: i64 = 1_000_000;
/// Places in the program at which such pauses lie. At fewer a pause is a property of the place.
pub(crate) const CPU_PAUSE_PLACES_MIN: usize = 3;
/// Part of the time of all such pauses that one place may hold.
pub(crate) const CPU_PAUSE_PLACE_MAX_SHARE: f64 = 0.7;
/// An operator without device work that takes this long computes; views and allocations take a few µs.
pub(crate) const CPU_OPERATOR_MIN_NS: i64 = 50_000;
/// Self time of an operator or call that is out of the ordinary: loading modules, compiling, searching algorithms…
pub(crate) const SLOW_CALL_MIN_NS: i64 = 1_000_000;
/// …if it is this many times the median of its name too.
pub(crate) const SLOW_CALL_MIN_RATIO: i64 = 10;
/// Code after a call belongs to it where it usually takes this many times the usual gap.
pub(crate) const CODE_OF_CALL_MIN_GAPS: i64 = 3;
/// Host time without interruption that is launching. What takes longer loads, compiles or computes, and a graph captures none of it.
pub(crate) const LAUNCHING_SEGMENT_MAX_NS: i64 = 200_000;
/// Gaps up to this many times the usual one count as the Python code around an operator that is removed.
pub(crate) const OPERATOR_GAP_MAX_RATIO: i64 = 3;
/// Nodes of a step below which gradients are left on by a few operators alone.
pub(crate) const AUTOGRAD_NODES_MIN: usize = 10;
/// Calls of an operator with a node, and as many without one, whose medians show what a node costs.
pub(crate) const AUTOGRAD_COMPARED_CALLS_MIN: usize = 5;
/// Reads with no more operators between them belong together; a layer has more.
pub(crate) const READ_BURST_MAX_OPERATORS: usize = 12;
/// Stack samples of an interval that show a place.
pub(crate) const STACK_SAMPLES_MIN: usize = 3;
/// The part of the program's launches that ranges of requests hold: what is between them is no step.
pub(crate) const REQUESTS_LAUNCHED_MIN_SHARE: f64 = 0.9;
/// Passes over the model in each range of a request. A range with one pass is a step, and what comes after it is the program's loop.
pub(crate) const REQUEST_PASSES_MIN: usize = 2;

// Causes: copies

/// A copy between host and device of no more bytes costs what waiting for it costs (`synchronization`): 64 KiB take about 1 µs over PCIe 5.
pub(crate) const SMALL_COPY_MAX_BYTES: u64 = 64 * 1024;
/// An operator of the host after a copy that takes this long computes on what was copied; less are views and bookkeeping.
pub(crate) const OPERATOR_AFTER_COPY_MIN_NS: i64 = 20_000;
/// Small copies to the device in a step from which on they are more than its inputs.
pub(crate) const NOT_INPUTS_MIN_COPIES: u64 = 8;
/// A copy over a link of so many bytes or more spends its time on them: at the 25 GB/s of PCIe 4 ×16 one takes 40 µs, its launch about 5 µs.
pub(crate) const LARGE_COPY_MIN_BYTES: u64 = 1 << 20;
/// Share of a link's bandwidth that copies at link speed reach: pinned copies reach 0.8 to 0.86 of PCIe 5 ×16 (H200: 52 to 55 of 64 GB/s), and
/// what is left to them is no more than a quarter.
pub(crate) const LINK_SPEED_MIN_SHARE: f64 = 0.75;
/// Copies and fills of fewer bytes within a device stage inputs of graphs.
pub(crate) const DEVICE_COPY_MIN_BYTES: u64 = 4 << 20;

// Causes: what kernels could take

/// No GEMM is taken to run closer to its roofline than this: cuBLAS reaches 0.65–0.75 of the dense peak of an H200.
pub(crate) const GEMM_EFFICIENCY_MAX: f64 = 0.75;
/// The shortest that a kernel is taken to run.
pub(crate) const KERNEL_MIN_NS: i64 = 2_000;
/// Tensors by whose operators the bandwidth is measured: smaller ones may stay in a cache.
pub(crate) const BANDWIDTH_TENSOR_MIN_BYTES: u64 = 8 << 20;
/// Operators of that size whose median is a bandwidth.
pub(crate) const BANDWIDTH_OPERATORS_MIN: usize = 4;
/// GEMMs of fewer rows are limited by reading weights.
pub(crate) const COMPUTE_BOUND_MIN_ROWS: i64 = 256;
/// Unaligned GEMMs are slow where they reach less than this part of what the aligned ones of the trace do.
pub(crate) const UNALIGNED_GEMM_MAX_SHARE: f64 = 0.6;
/// Part of all GEMM operations that GEMMs in a wide format hold, from which on the whole model is in that format.
pub(crate) const WIDE_MODEL_MIN_SHARE: f64 = 0.9;
/// Elements of a tensor in FP64 that cost something; scalars do not.
pub(crate) const WIDE_TENSOR_MIN_ELEMENTS: i64 = 1024;
/// Kernels of a run that can be fused: a single one has nothing to be fused with.
pub(crate) const FUSED_RUN_MIN_KERNELS: usize = 2;
/// Runs of kernels are alike that have this part of their kernels' names in common: the first layer lacks the sum of the one before.
pub(crate) const FUSED_RUNS_ALIKE_MIN_SHARE: f64 = 0.6;
/// Multiprocessors of the device for each thread block of a kernel that leaves most of them idle; attention of healthy decode steps
/// has four (H200).
pub(crate) const SMALL_GRID_BLOCK_MIN_MULTIPROCESSORS: u64 = 8;
/// Shorter kernels have too little work to spread over the device.
pub(crate) const SMALL_GRID_KERNEL_MIN_NS: i64 = 100_000;
/// A kernel that a time slice of another process interrupts takes at least this many times as long as others of its name and grid.
pub(crate) const INTERRUPTED_KERNEL_MIN_RATIO: i64 = 8;

// Causes: shapes of the model

/// Smaller matrices than this in either dimension are not taken for weights.
pub(crate) const WEIGHT_DIM_MIN: i64 = 256;
/// Tensors this many times larger than the largest activation of a step are not activations.
pub(crate) const NOT_ACTIVATION_MIN_RATIO: i64 = 4;
/// Tokens of a tensor that is a KV cache: a decode step has no other tensors with so many.
pub(crate) const CACHED_TOKENS_MIN: i64 = 16;
/// Positions of a KV cache ÷ tokens in it, from which on attention over all of them is named.
pub(crate) const UNUSED_SPAN_MIN_RATIO: i64 = 2;
/// What attention over a short cache takes (H200, fixtures/faults/varied: 17 µs for 512 positions).
pub(crate) const SHORT_CACHE_ATTENTION_NS: i64 = 15_000;
/// The part of the bandwidth that attention over the tokens alone would reach at least.
pub(crate) const CACHE_BANDWIDTH_MIN_SHARE: f64 = 0.3;
/// Operators between a score GEMM and its softmax, and between that and the second GEMM: scaling, masks, casts, dropout.
pub(crate) const ATTENTION_OPERATORS_BETWEEN_MAX: usize = 14;
/// Queries of attention with a mask. Shorter prompts have nothing to gain: the kernel takes as long as its launch.
pub(crate) const MASKED_QUERIES_MIN: i64 = 256;
/// Adapters are at least this much narrower than what they adapt; low-rank projections of a model itself are wider.
pub(crate) const ADAPTER_NARROWER_MIN_RATIO: i64 = 8;
/// Operators after the second GEMM of an adapter that belong to it: scale, sum and a cast.
pub(crate) const ADAPTER_OPERATORS_AFTER_MAX: usize = 3;
/// Pairs of thin GEMMs in a phase: a model with adapters has them in each layer.
pub(crate) const ADAPTER_PAIRS_MIN: usize = 4;
/// Experts of a layer that a loop computes.
pub(crate) const LOOP_EXPERTS_MIN: usize = 4;
/// GEMMs of one expert: gate, up and down.
pub(crate) const EXPERT_GEMMS_MAX: usize = 3;
/// Operators of one expert; a layer has more.
pub(crate) const EXPERT_OPERATORS_MAX: usize = 32;
/// Passes of more tokens than this fill a device.
pub(crate) const CHUNK_MAX_TOKENS: i64 = 2048;
/// Passes of fewer tokens that do not grow check guesses of a smaller model.
pub(crate) const PADDED_PROMPT_MIN_TOKENS: i64 = 32;
/// Operators after a sort that work on its result: sums, masks, putting values back.
pub(crate) const SORT_OPERATORS_AFTER_MAX: usize = 24;
/// Operators before a sort that may compute what is ranked.
pub(crate) const SORT_OPERATORS_BEFORE_MAX: usize = 3;

// Causes: what repeats

/// Operators of one iteration of a loop. Layers of a model may have as few: they have wide GEMMs.
pub(crate) const LOOP_BODY_OPERATORS_MAX: usize = 32;
/// Iterations of a loop over pieces of a tensor.
pub(crate) const LOOP_ITERATIONS_MIN: usize = 8;
/// Operators of all iterations: fewer are not worth a change.
pub(crate) const LOOP_OPERATORS_MIN: usize = 48;
/// Kernels of a loop over pieces are short; longer ones have a tensor's worth of work of their own.
pub(crate) const LOOP_KERNEL_MAX_NS: i64 = 8_000;
/// Kernels that the computation of a table launches: one or two are not worth keeping it.
pub(crate) const TABLE_LAUNCHES_MIN: usize = 3;
/// Equal computations of a table in one pass: a model may have a table for each of a few kinds of layers.
pub(crate) const TABLE_RUNS_MIN: usize = 4;
/// Operators between a choice that depends on what tokens contain and a table that may depend on it too.
pub(crate) const TABLE_AFTER_CHOICE_MAX_OPERATORS: usize = 8;
/// Rows of a GEMM that each decode step repeats ÷ rows of the new tokens: speculative decoding checks up to 16 tokens of a sequence
/// at once.
pub(crate) const REPEATED_ROWS_MIN_RATIO: i64 = 32;
/// Steps that must repeat work over many rows where no prompt pass is recorded.
pub(crate) const REPEATED_WORK_MIN_STEPS: u64 = 3;
/// GEMMs of a pass that no lookup of tokens marks.
pub(crate) const COMBINED_PASS_GEMMS_MIN: usize = 8;
/// Longer passes are not looked for: the search takes GEMMs × lengths.
pub(crate) const COMBINED_PASS_GEMMS_MAX: usize = 512;
/// Equal passes that make a repetition: two groups of two.
pub(crate) const COMBINED_PASSES_MIN: usize = 4;
/// Groups of passes with combined results that show that each step has one.
pub(crate) const COMBINED_GROUPS_MIN: usize = 2;
/// Steps that are launched as several equal graphs, from which on the graphs are parts of a step.
pub(crate) const STEPS_IN_PARTS_MIN: usize = 3;
/// Part of their kernels that the graphs of one step have in common: they differ by the few kernels that join their results.
pub(crate) const STEP_GRAPHS_ALIKE_MIN_SHARE: f64 = 0.95;

// Replay

/// A device with less than this share of the kernel time takes no turn.
pub(crate) const TURN_MIN_SHARE: f64 = 0.1;

/// Devices compute in turn if at most this share of their time overlaps that of another device.
pub(crate) const TURNS_OVERLAP_MAX_SHARE: f64 = 0.05;

/// Code between ops that takes more usual gaps than this is more than calling the next one.
pub(crate) const CODE_MIN_USUAL_GAPS: i64 = 10;

/// A phase whose replay is off by more has no gains: Lumos reports 3.3 % for its own replay of recorded iterations.
pub(crate) const REPLAY_ERROR_MAX_SHARE: f64 = 0.03;
/// Part of a host segment that is the program's own, however much recording costs.
pub(crate) const OWN_TIME_MIN_SHARE: f64 = 0.15;
/// Work that begins later than launch and stream explain is delayed by something else. Launch latencies scatter by a few µs.
pub(crate) const WORK_DELAY_MIN_NS: i64 = 5_000;
/// Work that follows an event of another stream begins this soon after it: 1 to 11 µs on an H200.
pub(crate) const EVENT_FOLLOWS_MAX_NS: i64 = 25_000;
/// A call that returns this long before its work ends did not wait for it: clocks of host and device agree to about a µs.
pub(crate) const CLOCK_SKEW_MAX_NS: i64 = 2_000;
/// Launches before a wait among which the work that it waits for is looked for: more than a queue holds.
pub(crate) const QUEUED_LAUNCHES_MAX: usize = 4096;
/// The driver gives each process that shares a device a time slice of about 2 ms; nothing else keeps a ready kernel waiting for as long as
/// this (none of 160 traces of fixtures/faults with one process does for 0.2 ms).
pub(crate) const GPU_SLICE_MIN_NS: i64 = 500_000;
/// Time slices that show another process: fewer pauses of queued work are chance.
pub(crate) const GPU_SLICES_MIN: usize = 3;
/// Part of the pauses of queued work whose lengths are near their median where a driver's time slices are behind them.
pub(crate) const GPU_SLICES_ALIKE_MIN_SHARE: f64 = 0.8;

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    /// Bounds that must not cross: a phase cannot be two things at once, and a first step that is left out is longer than one that is
    /// compared.
    #[test]
    fn thresholds_agree_with_each_other() {
        const {
            assert!(HOST_BOUND_MIN_SHARE + COMMUNICATION_BOUND_MIN_SHARE >= 1.0);
            assert!(LIMIT_NEAR_MIN_SHARE < LATENCY_BOUND_MIN_SHARE);
            assert!(LAUNCH_MAX_NS < LAUNCHING_IDLE_MAX_NS);
            assert!(LAUNCHING_IDLE_MAX_NS < LONG_GAP_MIN_NS);
            assert!(LAUNCH_MAX_NS < LONG_GAP_MIN_NS && LONG_GAP_MIN_NS < ATTENTION_WAIT_MIN_NS);
            assert!(RANGE_OVERLAP_MAX_SHARE < PHASES_COVERED_MIN_SHARE);
            assert!(REPETITION_WINDOWS_MIN <= REPETITIONS_MIN);
            assert!(DEVICES_MAX <= DEVICE_INTERVALS_MIN);
            assert!(GEMM_FORMAT_MIN_FRACTION < BYTES_LIMIT_MIN_FRACTION);
            assert!(DEVICE_USED_MIN_SHARE < FINDING_MIN_SHARE);
            assert!(CLIENT_CPU_IDLE_MAX_SHARE < CLIENT_CPU_MAX_SHARE);
            assert!(DEVICE_MEMORY_MIN_RATIO < 1.0 && DEVICE_MEMORY_MAX_RATIO > 1.0);
        }
    }

    /// Whether a line declares a bound. Those of how much is listed decide nothing.
    fn is_threshold(line: &str) -> bool {
        let Some((_, declared)) = line.split_once("const ") else {
            return false;
        };
        let Some((name, kind)) = declared.split_once(": ") else {
            return false;
        };
        let is_bound = name.split('_').any(|word| matches!(word, "MIN" | "MAX"));
        let is_number = ["i64", "u64", "i32", "u32", "usize", "f64"]
            .iter()
            .any(|number| {
                kind.strip_prefix(number)
                    .is_some_and(|rest| rest.starts_with(" ="))
            });
        let is_listed = name.contains("_LISTED_");
        is_number && is_bound && !is_listed
    }

    /// Rust sources under a folder or file of `src`, but for tests.
    fn sources(path: PathBuf) -> Vec<PathBuf> {
        let tests = [
            "tests.rs",
            "sketch.rs",
            "planted_programs.rs",
            "healthy_programs.rs",
        ];
        if path.is_dir() {
            let inside = std::fs::read_dir(&path).unwrap();
            return inside
                .flat_map(|entry| sources(entry.unwrap().path()))
                .collect();
        }
        let is_test = tests.iter().any(|name| path.ends_with(name));
        if is_test { Vec::new() } else { vec![path] }
    }

    /// The first threshold that a file declares outside of its tests.
    fn first_threshold(path: &Path) -> Option<String> {
        let text = std::fs::read_to_string(path).unwrap();
        let product = text.split("#[cfg(test)]\nmod tests").next()?;
        let mut lines = product.lines();
        let line = lines.find(|line| is_threshold(line));
        line.map(ToOwned::to_owned)
    }

    /// What decides stands here, and nowhere else. Causes and the replay keep the measured quantities of their models.
    #[test]
    fn no_threshold_is_declared_elsewhere() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let models = ["causes", "replay"].map(|name| root.join(name));
        let mut looked_at = 0;
        for path in sources(root.clone()) {
            let is_model = models.iter().any(|folder| path.starts_with(folder));
            if path != root.join("thresholds.rs") && !is_model {
                let is_share = |line: &str| line.contains("const ") && line.contains(": f64 =");
                let text = std::fs::read_to_string(&path).unwrap();
                assert_eq!(
                    text.lines().find(|line| is_share(line)),
                    None,
                    "{}",
                    path.display()
                );
            }
            looked_at += 1;
        }
        assert!(looked_at > 200, "{looked_at}");
        let moved = [
            "causes",
            "replay",
            "findings",
            "analyze",
            "phases",
            "program",
            "steps",
            "host_stacks",
            "host_stacks.rs",
        ];
        for path in moved.into_iter().flat_map(|name| sources(root.join(name))) {
            assert_eq!(first_threshold(&path), None, "{}", path.display());
        }
    }
}
