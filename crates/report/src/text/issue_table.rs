//! The sentences of issues by code, with places for their values. A table: one row per code, or several of which the first that fits is taken.

use llmprof_record::issue::IssueCode;

/// What gives more slices of a sampled recording.
pub const MORE_SLICES: &str = "run longer: more infer.max_new_tokens; or allow more overhead: pipeline.cupti.overhead, --overhead; or set no \
                               budget to record everything";
const NOT_AGAIN: &str = "slices of process {process} missing: {why}";
const REFUSED: &str = "process {process} not recorded: {why}";
/// `CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED`.
const OTHER_PROFILER: &str =
    "end the other profiler, such as torch.profiler or nsys, in that process";
/// `CUPTI_ERROR_INSUFFICIENT_PRIVILEGES` and its virtualized kin.
const RESTRICTED: &str =
    "the driver allows profiling to administrators only (NVreg_RestrictProfilingToAdminUsers)";
/// No CUPTI could be loaded.
const OTHER_CUPTI: &str = "name a libcupti of CUDA 12 or 13 with LLMPROF_CUPTI";

/// For a client that is late.
const CLIENT_APART: &str =
    "use --workers, a machine or cores apart from the server, or a lower rate";
/// For logs that do not fit a timeline.
const ONE_PROCESS: &str = "give the cuBLAS log and the timeline of one process";
const TOKENIZER: &str = "give the model's tokenizer: --tokenizer DIR";

pub(super) struct IssueRow {
    /// A key and the value that it must have; an empty key where any will do.
    pub(super) when: (&'static str, &'static str),
    pub(super) text: &'static str,
    pub(super) hint: Option<&'static str>,
}

impl IssueRow {
    const fn new(text: &'static str) -> Self {
        Self {
            when: ("", ""),
            text,
            hint: None,
        }
    }

    const fn when(self, key: &'static str, value: &'static str) -> Self {
        Self {
            when: (key, value),
            ..self
        }
    }

    const fn hint(self, hint: &'static str) -> Self {
        Self {
            hint: Some(hint),
            ..self
        }
    }
}

#[rustfmt::skip]
pub(super) fn rows_of(code: &IssueCode) -> &'static [IssueRow] {
    match code {
        IssueCode::AnalysisAutotuning => const { &[IssueRow::new("XLA's autotuner ran {kernels:kernel} ({time_ns:ns}) to choose among candidates: compilation, in no step")] },
        IssueCode::AnalysisConcurrentRanges => const { &[IssueRow::new("{count} ranges `{range}` run on the GPU beside other ranges, a median of {span_ns:ns} each from the first start to the last end of their kernels: no time belongs to one range, so that the trace is one phase")] },
        IssueCode::AnalysisCutRange => const { &[IssueRow::new("nothing was recorded in the last {silence_ns:ns} of `{phase}` ({range_ns:ns}), and nothing shows that the recording went on: it is judged up to the last event, and has no bottleneck and no gains")
        .hint("stop the profiler after the range ends, and export the trace again")] },
        IssueCode::AnalysisCutSteps => const { &[IssueRow::new("{without} of {launches} launches of `{phase}` have no kernel in the trace: these steps were recorded in part, and have no idle time, no step time, no roofline time, no MFU and no MBU")
        .hint("synchronize with the device before the profiler stops; record fewer steps where its buffer is full"),
            IssueRow::new("{without} of {launches} launches have no kernel in the trace: it was recorded in part, and has no idle time, no step time, no roofline time, no MFU and no MBU")
        .hint("record the kernels of graphs (nsys: --cuda-graph-trace=node); synchronize with the device before the profiler stops")] },
        IssueCode::AnalysisEventsTwice => const { &[IssueRow::new("device events are in the file more than once (of {of} events): counts, sums and overlap are too large")
        .hint("merge traces of different processes only; export the trace again")] },
        IssueCode::AnalysisGemmsAboveRoofline => const { &[IssueRow::new("GEMM shapes ran faster than their roofline: they multiply in another format than their inputs have, or the device is another one; they have no % of roofline")] },
        IssueCode::AnalysisGraphCapture => const { &[IssueRow::new("this is a trace of the capture of graphs, which executes nothing: its times say nothing about a step")
        .hint("import it beside the timeline of a run, whose graph kernels it then leads back to modules")] },
        IssueCode::AnalysisEventsMissing => const { &[IssueRow::new("the end of the file is missing: GPU idle time is an upper bound, since kernels that are not in it count as idle time")] },
        IssueCode::AnalysisStepsOfProcesses => const { &[IssueRow::new("the processes of this trace run different steps at the same time, so that no step is one of all of them: the trace is one phase")
        .hint("import the trace of one process")] },
        IssueCode::AnalysisLabelsDropped => const { &[IssueRow::new("labels of engine steps are not used: from the first of them on, only {share:percent} of the device time was launched in labelled ranges")] },
        IssueCode::AnalysisNoLaunches => const { &[IssueRow::new("the trace does not say when kernels were launched: each counts for the range in which it began, which is too late where the GPU runs behind the host")
        .hint("record launches: torch.profiler with ProfilerActivity.CPU and CUDA, nsys with -t cuda")] },
        IssueCode::AnalysisFirstStepLong => const { &[IssueRow::new("the recording up to the end of the first `Optimizer.step` took {first_ns:ns}, a usual step {usual_ns:ns}: it may hold the start of the program and what an optimizer makes once (its state), and is in no step")] },
        IssueCode::AnalysisDevicesFolded => const { &[IssueRow::new("{count:device} with fewer events have no phases of their own; the {devices} with most have")] },
        IssueCode::InvariantOtherModel => const { &[IssueRow::new("the embedding table of the trace is {trace}, that of the model {model}: this is another model, so there are no roofline times, no MFU and no MBU")
        .hint("name the model that ran: model=NAME or --config config.json")] },
        IssueCode::InvariantOtherLayers => const { &[IssueRow::new("the trace calls attention {trace} times per forward pass, the model has {model} layers with attention: this is another model, or a pass that was recorded in part, so there are no roofline times, no MFU and no MBU")
        .hint("name the model that ran, with its number of layers: model.config.num_hidden_layers=N")] },
        IssueCode::InvariantOtherGemm => const { &[IssueRow::new("the largest GEMM of the trace has N={n} and K={k}, which no linear operator of the model has: this is another model or a part of it, so there are no roofline times, no MFU and no MBU")
        .hint("name the model that ran: model=NAME or --config config.json")] },
        IssueCode::InvariantOtherExperts => const { &[IssueRow::new("the trace has kernels of experts (`{kernel}`), the model has no experts: this is another model, so there are no roofline times, no MFU and no MBU")
        .hint("name the model that ran: model=NAME or --config config.json")] },
        IssueCode::InvariantOtherRows => const { &[IssueRow::new("{phase}: the label or the workload states {stated:new token} a step, but GEMMs of the trace have M={shown}: no roofline times, no MFU and no MBU")
        .hint("check runtime.batch_size and workload.prompt_tokens, or the label")] },
        IssueCode::InvariantOtherLabel => const { &[IssueRow::new("{key}={said}, but the labels of the engine's steps state {shown:sequence}; the analysis uses the labels")] },
        IssueCode::RunUnknownWorkload => const { &[IssueRow::new("no roofline times, no MFU and no MBU of {phases}: neither the trace nor the command line says what the model was asked")
        .hint("state it: {keys}")] },
        IssueCode::RunNoContext => const { &[IssueRow::new("{phase}: the labels of the engine's steps have no context lengths: attention has no roofline time, and MBU is without the KV cache")
        .hint("vLLM's and SGLang's detailed labels have them")] },
        IssueCode::InvariantFewerGemms => const { &[IssueRow::new("{phase}: {found:GEMM kernel} where the model's operators need at least {needed}: a part of the step was recorded, another model ran, or one kernel does many GEMMs; no roofline times, no MFU and no MBU")] },
        IssueCode::InvariantOtherFormat => const { &[IssueRow::new("most GEMM time is in kernels of 8 or fewer bits (`{kernel}`), but the model's weights have 16 or more: a quantized checkpoint ran, so there are no roofline times, no MFU and no MBU")
        .hint("name the checkpoint that ran: --config config.json with its quantization_config, or workload.weights=fp8")] },
        IssueCode::RunOneOfRanks => const { &[IssueRow::new("the trace is of one of several ranks, and no shapes show which part of the model it runs: no roofline times, no MFU and no MBU")] },
        IssueCode::RunFewerExperts => const { &[IssueRow::new("{phase}: in {faster} of {layers} calls the expert kernels took less time than the {expected} experts of uniform routing need at peak bandwidth: at most {at_most} were read in the mean; roofline times and MBU are upper bounds")] },
        IssueCode::InvariantOtherShape => const { &[IssueRow::new("{key}={said}, but operator shapes in the trace show {shown}; the analysis uses {shown}")] },
        IssueCode::NcclWarned => const { &[IssueRow::new("NCCL printed: {text}")] },
        IssueCode::NcclInspectorTruncated => const { &[IssueRow::new("the file ends inside a record, or one is not JSON, at byte {byte}; the records before it are read")] },
        IssueCode::NcclInspectorDropped => const { &[IssueRow::new("operations overwritten in the ring of NCCL Inspector before they were written").hint("a larger NCCL_INSPECTOR_DUMP_COLL_RING_SIZE")] },
        IssueCode::GraphsNoOrigin => const { &[IssueRow::new("kernels launched by CUDA/HIP graphs cannot be attributed to ops: no graph capture is recorded")
        .hint("import the engine's capture trace beside this one: llmprof import trace.json.gz capture.json.gz; or name the model: model=NAME")] },
        IssueCode::RanksApart => const { &[IssueRow::new("the ranks were not recorded at the same time, so their times cannot be compared").hint("profile the same steps on every rank")] },
        IssueCode::RanksOtherJob => const { &[IssueRow::new("the timelines name different world sizes: they are of different jobs").hint("import the ranks of one job together")] },
        IssueCode::RanksModelDivided => const { &[IssueRow::new("the model is divided among ranks, and nothing says how: there are no roofline times, no MFU and no MBU of it")] },
        IssueCode::RanksMissing => const { &[IssueRow::new("{have} of {world_size} ranks are here: a slower rank may be among the others")] },
        IssueCode::RanksWaiting => const { &[IssueRow::new("rank {rank}: {waiting} of {exposed} exposed communication is waiting for slower ranks; overlapping it with compute gains nothing, balancing the ranks does")] },
        IssueCode::ImportLeftOut => const { &[
            IssueRow::new("left out: {why}"),
            IssueRow::new("files of an unrecognized format are left out: {files}"),
        ] },
        IssueCode::RanksUnread => const { &[IssueRow::new("ranks that could not be read are left out: {files}").hint("import again with the same folder: ranks that were read are kept")] },
        IssueCode::RanksNotAligned => const { &[IssueRow::new("no collective of rank {rank} is known to be one of the others: its clock is taken as it is")] },
        IssueCode::RanksMismatched => const { &[IssueRow::new("collectives that seemed to be one on several ranks were not running at the same time, and are left out of skew and waiting")] },
        IssueCode::TraceInputsUnreadable => const { &[IssueRow::new("operator input lists whose shapes could not be read")] },
        IssueCode::KinetoDevicesUnreadable => const { &[IssueRow::new("`deviceProperties` cannot be read: {error}")] },
        IssueCode::KinetoTruncated => const { &[IssueRow::new("the file ends inside an event or before the event list is closed, at byte {byte}")
        .hint("copy the file again, or wait until the profiler has finished writing it")] },
        IssueCode::KinetoMalformed => const { &[IssueRow::new("events that are not valid JSON skipped; the first at byte {byte}")] },
        IssueCode::KinetoRepaired => const { &[IssueRow::new("strings with unescaped quotes read up to the matching quote; the first at byte {byte}")] },
        IssueCode::KinetoNotUtf8 => const { &[IssueRow::new("names that are not UTF-8 contain replacement characters; the first at byte {byte}")] },
        IssueCode::KinetoDevicesRenumbered => const { &[IssueRow::new("the file has several ranks with devices of the same number; the {devices} devices are numbered in the order of ranks")] },
        IssueCode::XplaneDamaged => const { &[IssueRow::new("messages of the file are damaged or cut; what comes before the damage is read")] },
        IssueCode::XplaneUnusableEvent => const { &[IssueRow::new("events without a name or a valid time skipped")] },
        IssueCode::KinetoNoTime => const { &[IssueRow::new("events without a valid time (`ts`) skipped; the first at byte {byte}")] },
        IssueCode::KinetoNoDuration => const { &[IssueRow::new("slices without a valid duration (`dur`) count as 0 ns; the first at byte {byte}")] },
        IssueCode::KinetoNegativeDuration => const { &[IssueRow::new("slices with a negative duration count as 0 ns; the first at byte {byte}")] },
        IssueCode::KinetoNoName => const { &[IssueRow::new("events without a name; the first at byte {byte}")] },
        IssueCode::KinetoBadField => const { &[IssueRow::new("fields of the wrong type or out of range ignored; the first at byte {byte}")] },
        IssueCode::KinetoUnpaired => const { &[IssueRow::new("begin and end events without their counterpart skipped; the first at byte {byte}")] },
        IssueCode::KinetoUnreadPhase => const { &[IssueRow::new("events of unsupported kinds (counters, async, objects) skipped; the first at byte {byte}")] },
        IssueCode::EngineDropped => const { &[IssueRow::new("the recorder was full: the time of dropped operator calls appears as idle")] },
        IssueCode::EngineTruncated => const { &[IssueRow::new("the file ends before its last operator calls")] },
        IssueCode::EngineUnknownOperator => const { &[IssueRow::new("operator calls name an operator that the file does not list")] },
        IssueCode::SourcePackingDamaged => const { &[IssueRow::new("the {packing} stream is truncated after {bytes:unpacked byte} ({error}); the rest is dropped")
        .hint("copy the file again from where it was written")] },
        IssueCode::NcuOtherFile => const { &[IssueRow::new("{file} is not an Nsight Compute page; skipped")] },
        IssueCode::NcuCutReport => const { &[IssueRow::new("{file} ends inside a block at byte {byte}; the launches before it are read").hint("ncu was ended before it wrote the report; profile fewer launches")] },
        IssueCode::NcuTooManyAttributes => const { &[IssueRow::new("{file}: launches × device attributes exceed {limit} values, the limit for a file of its size; launches after that have none")] },
        IssueCode::NcuNotKernels => const { &[IssueRow::new("{file}: results of ranges and graphs as a whole are not read; only kernels are")] },
        IssueCode::NcuNoSet => const { &[IssueRow::new("Nsight Compute has no set {set}; it is left out").hint("ncu --list-sets")] },
        IssueCode::NcuSetReplaced => const { &[IssueRow::new("the set {set} is named {by} in this Nsight Compute")] },
        IssueCode::NcuNoSection => const { &[IssueRow::new("Nsight Compute has no section {section}; it is left out").hint("ncu --list-sections")] },
        IssueCode::NcuNoMetric => const { &[IssueRow::new("Nsight Compute has no metric {metric} on this chip; it is left out").hint("ncu --query-metrics")] },
        IssueCode::NcuMetricReplaced => const { &[IssueRow::new("{metric} is {by} on this chip")] },
        IssueCode::NcuNothingToPlan => const { &[IssueRow::new("no kernel of the timeline is inside a range `{range}`; no counters were collected").hint("pipeline.ncu.range=null covers all kernels")] },
        IssueCode::NcuUnexpected => const { &[IssueRow::new("profiled launches that the timeline does not have: the program launched other kernels under ncu").hint("a model that chooses kernels by timing differs from run to run")] },
        IssueCode::NcuCovered => const { &[IssueRow::new("Nsight Compute profiled {launches} launches, which stand for {share} of the device time asked for, in {seconds} s")] },
        IssueCode::NcuLessCovered => const { &[IssueRow::new("profiled launches stand for {share} of device time, {wanted} were asked for").hint("pipeline.ncu.steps=1, or a later ncu")] },
        IssueCode::NsightNoTool => const { &[IssueRow::new("{why}")] },
        IssueCode::NsightFailed => const { &[IssueRow::new("{tool} failed: {what}")] },
        IssueCode::NsightNoKernels => const { &[IssueRow::new("{tool} recorded no kernel").hint("the recorded range held no CUDA work")] },
        IssueCode::NsightEnvironmentKept => const { &[
            IssueRow::new("{report} keeps the command line of the worker; {withheld:variable} that look like credentials were withheld from it, and their values overwritten where they stand in it. The CSV files hold none of it")
        .when("tool", "ncu")
        .hint("delete it before you pass the run on: reports are made again without it"),
            IssueRow::new("{report} keeps the environment and command line of the worker and the processes of the machine; {withheld:variable} that look like credentials were withheld from it, and their values overwritten where they stand in it. run.sqlite and the CSV files hold none of it")
        .hint("delete it before you pass the run on: reports are made again without it"),
            IssueRow::new("reports of Nsight (.nsys-rep, .sqlite, .ncu-rep) hold the environment and command line of the worker; look at them before you pass them on"),
        ] },
        IssueCode::NsightNotScrubbed => const { &[IssueRow::new("the environment, command line and processes could not be taken out of {report}: {why}")
        .hint("look at it before you pass it on")] },
        IssueCode::WireNotScrubbed => const { &[IssueRow::new("what looks like a credential could not be taken out of {file}: {why}")
        .hint("look at it before you pass it on")] },
        IssueCode::NcuSaid => const { &[IssueRow::new("{file}: ncu printed: {text}")] },
        IssueCode::NsysSaid => const { &[IssueRow::new("Nsight Systems printed: {text}")] },
        IssueCode::AnalysisSaturated => const { &[IssueRow::new("a sum of times, bytes or operations exceeds 64 bits: numbers of the input are damaged, and totals are not to be trusted")] },
        IssueCode::RecordMaxSize => const { &[IssueRow::new("recording stopped when its files reached their size limit (`record --max-size`, or a quarter of the free disk); what came later is not recorded")] },
        IssueCode::TorchMemorySegments => const { &[IssueRow::new("{count:segment} without sizes or blocks excluded from all sums")] },
        IssueCode::TorchMemoryEvents => const { &[IssueRow::new("{count:event} without action, address or size excluded from the history")] },
        IssueCode::TorchMemoryActions => const { &[IssueRow::new("{count:event} with an unknown action excluded from the history")] },
        IssueCode::TorchMemoryNoTimes => const { &[IssueRow::new("{count:event} without a time: the history counts events instead of nanoseconds")] },
        IssueCode::TorchMemoryBelowZero => const { &[IssueRow::new("allocated memory would be negative at {count:point} of the history: it does not belong to these segments, or events are missing")] },
        IssueCode::TorchMemoryTrailingBytes => const { &[IssueRow::new("{count:byte} after the end of the pickle ignored")] },
        IssueCode::WireDropped => const { &[IssueRow::new("records dropped: {why}")] },
        IssueCode::WireDamaged => const { &[IssueRow::new("the file of process {process} is damaged at byte {byte}; the rest is dropped")] },
        IssueCode::WireCut => const { &[IssueRow::new("the file of process {process} is truncated inside a record at byte {byte}")] },
        IssueCode::WireNotEnded => const { &[IssueRow::new("process {process} was killed, exited without cleanup, or is still running: everything after its last flush is missing")] },
        IssueCode::WireOpenRange => const { &[IssueRow::new("ranges that were not closed end with their process")] },
        IssueCode::WireUnmatchedRange => const { &[IssueRow::new("range ends without a range start")] },
        IssueCode::WireUnnamed => const { &[IssueRow::new("kernels whose name was dropped")] },
        IssueCode::WireTooManyIds => const { &[IssueRow::new("events whose correlation, context or graph id is out of range")] },
        IssueCode::WireUnknownRecords => const { &[IssueRow::new("records of a kind that this version does not know")] },
        IssueCode::WireEndsBeforeStart => const { &[IssueRow::new("events that end before they start count as 0 ns")] },
        IssueCode::WirePastEdge => const { &[IssueRow::new("kernels of CUDA Graphs still running when recording stopped excluded: their times may be wrong")] },
        IssueCode::WireUnreadable => const { &[IssueRow::new("one process is missing: {error}")] },
        IssueCode::CuptiKept | IssueCode::CuptiKeptForGraphs => const { &[IssueRow::new("CUPTI stayed attached to process {process} while nothing was recorded, which slows launches: {why}")] },
        IssueCode::CuptiNotAgain => const { &[
            IssueRow::new(NOT_AGAIN).when("status", "39").hint(OTHER_PROFILER),
            IssueRow::new(NOT_AGAIN).when("status", "35").hint(RESTRICTED),
            IssueRow::new(NOT_AGAIN).when("status", "40").hint(RESTRICTED),
            IssueRow::new(NOT_AGAIN).when("status", "0").hint(OTHER_CUPTI),
            IssueRow::new(NOT_AGAIN),
        ] },
        IssueCode::CuptiRefused => const { &[
            IssueRow::new(REFUSED).when("status", "39").hint(OTHER_PROFILER),
            IssueRow::new(REFUSED).when("status", "35").hint(RESTRICTED),
            IssueRow::new(REFUSED).when("status", "40").hint(RESTRICTED),
            IssueRow::new(REFUSED).when("status", "0").hint(OTHER_CUPTI),
            IssueRow::new(REFUSED),
        ] },
        IssueCode::CuptiDropped => const { &[IssueRow::new("CUDA records dropped: {why}")] },
        IssueCode::CuptiBrokenOff => const { &[
            IssueRow::new("CUDA recording incomplete: {why}").when("folder", "cupti")
        .hint("`llmprof import` reads the partial recording in {folder}"),
            IssueRow::new("CUDA recording incomplete: {why}"),
        ] },
        IssueCode::CuptiUnavailable => const { &[
            IssueRow::new("CUDA not recorded: {why}").when("missing", "library")
        .hint("`cargo build --release` builds it beside the binary, the wheel of llmprof-harness installs it; or set LLMPROF_INJECT to its path"),
            IssueRow::new("CUDA not recorded: {why}"),
        ] },
        IssueCode::CuptiFirstBatch => const { &[IssueRow::new("CUDA recorded in the first of {batches:batch} only")] },
        IssueCode::CuptiSlices => const { &[IssueRow::new("CUDA sampled in slices to stay within pipeline.cupti.overhead: phases consist of the steps that were recorded whole")] },
        IssueCode::SlicesNone => const { &[
            IssueRow::new("no slice recorded: the program ended before the overhead budget allowed one, or outside the time or the range that recording was limited to").when("bounded", "true")
        .hint(MORE_SLICES),
            IssueRow::new("no slice recorded: the program ended before the overhead budget allowed one")
        .hint(MORE_SLICES),
        ] },
        IssueCode::SlicesNotKept => const { &[IssueRow::new("overhead budget exceeded: CUDA Graphs take up to 2 % longer while CUPTI is attached, and it cannot detach")
        .hint("with CUDA Graphs, use a budget of 2% or more")] },
        IssueCode::RecordCuptiStays => const { &[IssueRow::new("CUPTI stays attached between slices and slows launches; the budget covers only what recording adds to that")
        .hint("without --no-detach (in a run: pipeline.cupti.detach=true) CUPTI detaches between slices")] },
        IssueCode::RecordDropped => const { &[IssueRow::new("process {process} dropped records: {why}")] },
        IssueCode::RecordNeverOn => const { &[
            IssueRow::new("nothing recorded: no range `{range}` was open while the command used CUDA")
        .hint("ranges have the names that the program gives them, such as `decode_step`"),
            IssueRow::new("nothing recorded: the window of --after and --for did not overlap the time the command used CUDA").when("bound", "for")
        .hint("both count from the start of the command: `--after 60s --for 10s` records ten seconds, one minute in"),
            IssueRow::new("nothing recorded: the command stopped using CUDA before --after had passed")
        .hint("--after counts from the start of the command"),
        ] },
        IssueCode::RecordRefused => const { &[
            IssueRow::new("nothing recorded of process {process}: {why}"),
            IssueRow::new("nothing recorded: {why}"),
        ] },
        IssueCode::RecordRecorderKilled => const { &[IssueRow::new("llmprof was killed while it recorded, and the command was ended with it: the timeline ends where the processes last wrote")] },
        IssueCode::HostStacksNotBuilt => const { &[IssueRow::new("Python stacks not sampled: this llmprof was built without them; threads and their system calls were")
        .hint("build it with the feature `host-stacks`, which is on by default")] },
        IssueCode::HostStacksNotPermitted => const { &[IssueRow::new("host threads of process {process} not sampled: {why}")
        .hint("run llmprof as the user of that process; in a container add --cap-add SYS_PTRACE; or set kernel.yama.ptrace_scope to 0 or 1")] },
        IssueCode::HostStacksUnsupported => const { &[IssueRow::new("Python stacks of process {process} not sampled: {why}; its threads and their system calls were")
        .hint("CPython 3.11 or newer with a GIL is supported")] },
        IssueCode::HostStacksNotRead => const { &[IssueRow::new("samples of process {process} without Python stacks: {why}")] },
        IssueCode::RecordNoCuda => const { &[IssueRow::new("nothing recorded: no process of the command initialized CUDA")
        .hint("a set-user-ID program, or one that clears its environment, does not load the library")] },
        IssueCode::RunBrokenOff => const { &[
            IssueRow::new("the run failed ({why}); results are from {passes:plain pass} before that"),
            IssueRow::new("the run was interrupted; results are from {passes:plain pass} before that"),
        ] },
        IssueCode::TorchProfilerFirstBatch => const { &[IssueRow::new("torch.profiler recorded the first of {batches:batch} only")] },
        IssueCode::NativePromptsCut => const { &[IssueRow::new("{prompts:prompt} cut to {tokens:token}, the shortest of their batch: prompts of a batch have equal length")
        .hint("runtime.batch_size=1 keeps prompts whole")] },
        IssueCode::DatasetSamplesSkipped => const { &[IssueRow::new("samples skipped; the first, {first}: {why}")
        .hint("predictions/skipped.jsonl lists them; mend the files and run again in a new directory")] },
        IssueCode::VisionImagesDiffer => const { &[IssueRow::new("requests whose images became other sizes than the first request's: the vision phase is counted for the first")
        .hint("dataset.subset_filelist with pages of one size gives one workload")] },
        IssueCode::DirectInferenceTornLine => const { &[IssueRow::new("the last prediction of a killed run was incomplete ({bytes:byte}) and ran again")] },
        IssueCode::DirectInferencePromptsCut => const { &[IssueRow::new("prompts cut to workload.prompt_tokens ({tokens:token} in all)")
        .hint("raise workload.prompt_tokens")] },
        IssueCode::GroundingMalformed => const { &[IssueRow::new("grounding tags that cannot be read; the first in sample {first}: {what}")] },
        IssueCode::GroundingOutOfRange => const { &[IssueRow::new("boxes with coordinates outside 0 to 999, drawn where they meet the page; the first in sample {first}")] },
        IssueCode::GroundingLabelsNotDrawn => const { &[IssueRow::new("labels beyond ASCII appear as box numbers in the images; info.json and the gallery have their text")] },
        IssueCode::GroundingImageUnreadable => const { &[IssueRow::new("images whose boxes were not drawn; the first, {first}: {why}")] },
        IssueCode::CountersUnavailable => const { &[IssueRow::new("CPU counters unavailable ({counters}): {reason}")] },
        IssueCode::TelemetryNoGpu => const { &[IssueRow::new("GPU telemetry unavailable: {reason}")
        .hint("{variable} names a libnvidia-ml.so.1 outside the loader's path")] },
        IssueCode::TelemetryAmdNotRun => const { &[IssueRow::new("telemetry by AMD SMI was written from its documentation and not run on the hardware; power is the growth of the energy counter")] },
        IssueCode::TelemetryGpuMissing => const { &[IssueRow::new("GPU {gpu} does not exist: the driver reports {gpus:GPU}, numbered from 0")
        .hint("pipeline.telemetry.devices uses the numbers of nvidia-smi, whatever CUDA_VISIBLE_DEVICES is")] },
        IssueCode::TelemetryGpuUnreadable => const { &[IssueRow::new("GPU {gpu} not sampled: {error}")] },
        IssueCode::TelemetryGpuColumns => const { &[IssueRow::new("GPU {gpu} ({name}) does not report: {columns}")] },
        IssueCode::TelemetryGpuEnergyReset => const { &[IssueRow::new("the energy counter of GPU {gpu} ({name}) was reset; energy after that is integrated from power")] },
        IssueCode::TelemetryGpuEnergyDerived => const { &[IssueRow::new("GPU {gpu} ({name}) has no energy counter: energy is integrated from power, which drivers average over up to a second")] },
        IssueCode::TelemetryNoStat => const { &[IssueRow::new("CPU utilization unknown: {reason}")] },
        IssueCode::TelemetryNoMeminfo => const { &[IssueRow::new("available memory unknown: {reason}")] },
        IssueCode::TelemetryNoFrequency => const { &[IssueRow::new("CPU frequency unknown: neither cpufreq nor /proc/cpuinfo reports it")] },
        IssueCode::TelemetryNominalFrequency => const { &[IssueRow::new("CPU frequency is the nominal one of /proc/cpuinfo, constant in a virtual machine: throttling is invisible")] },
        IssueCode::TelemetryMissedSamples => const { &[IssueRow::new("machine too busy for {count:sample} of {of}; rates there cover longer intervals")
        .hint("lower pipeline.telemetry.hz")] },
        IssueCode::TelemetryEnergyDenied => const { &[IssueRow::new("CPU energy unknown: {file} is readable by root only")
        .hint("sudo chmod -R a+r /sys/class/powercap/intel-rapl/")] },
        IssueCode::TelemetryNoEnergy => const { &[IssueRow::new("CPU energy unknown: no energy counter in {folder}")
        .hint("virtual machines and containers usually have none")] },
        IssueCode::HardwareUnknown => const { &[
            IssueRow::new("no device specification, so no roofline times")
        .hint("measure this machine with `llmprof hardware measure`, or name a device of `llmprof hardware list` with hardware.spec=NAME"),
            IssueRow::new("no roofline times: no device file for `{name}`")
        .hint("--device NAME names another device"),
        ] },
        IssueCode::HardwareUndescribed => const { &[IssueRow::new("GPU {gpu} is a {name}: {error}")] },
        IssueCode::HardwareDisturbed => const { &[IssueRow::new("CPU peaks were measured while other programs took {share:percent} as much CPU time as the calibration, and are too low; roofline times are too long, MFU and MBU too high")
        .hint("`llmprof hardware measure` on an idle machine calibrates again")] },
        IssueCode::ModelSourceMissing => const { &[IssueRow::new("`{key}` names {path}, which does not exist")
        .hint("`llmprof externals init` brings what third_party/externals.yaml declares")] },
        IssueCode::MemoryDoesNotFit => const { &[IssueRow::new("model {model} does not fit {device}: {needs} of {capacity_bytes:bytes}")
        .hint("a smaller batch or context, workload.weights=fp8 or awq, or a device with more memory")] },
        IssueCode::WorkloadBeyondContext => const { &[IssueRow::new("requests have up to {positions:position}, the model supports {most} (`{key}`)")
        .hint("lower workload.prompt_tokens or infer.max_new_tokens if the generated text matters")] },
        IssueCode::AnalysisBeforeLaunch => const { &[IssueRow::new("device events started before their launch call, the worst by {ahead_ns:ns} (at {start_ns} ns): host and device clocks disagree, and launch latency and idle causes are off by as much")] },
        IssueCode::AnalysisNoDeviceEvents => const { &[IssueRow::new("the trace has no kernels, copies or memsets: no GPU figures")
        .hint("record with device activities enabled")] },
        IssueCode::AnalysisKernelsFolded => const { &[IssueRow::new("kernels after the {rows} with the longest time are summed in one row")] },
        IssueCode::AnalysisOperatorsFolded => const { &[IssueRow::new("operators after the {rows} with the longest time are summed in one row")] },
        IssueCode::AnalysisTooManyNames => const { &[IssueRow::new("kernels not classified: their names come after the first {names}")] },
        IssueCode::SlicesFew => const { &[IssueRow::new("too few slices or whole steps recorded to estimate the whole run")
        .hint(MORE_SLICES)] },
        IssueCode::RunProcessorsShared => const { &[
            IssueRow::new("latencies are longer than on a quiet machine: other programs kept {others:number} of {cpus:CPU} busy during the plain passes, and runnable threads of the worker waited {waiting:number} s per second for a CPU (CPUs contended {contended_share:percent} of the time)")
        .hint("run again when nothing else runs; `top` shows what does"),
            IssueRow::new("latencies may be longer than on a quiet machine: other programs kept {others:number} of {cpus:CPU} busy during the plain passes, and no CPU was free {contended_share:percent} of the time")
        .hint("run again when nothing else runs; `top` shows what does"),
        ] },
        IssueCode::RunProcessorsThrottled => const { &[IssueRow::new("latencies are those of the CPU quota, not of the machine: it withheld {throttled:number} of {cpus:CPU} during the plain passes; the worker used {worker:number}")
        .hint("raise the container's CPU limit (cpu.max, --cpus, limits.cpu), or give the worker no more threads than it allows")] },
        IssueCode::RunProcessorsStolen => const { &[IssueRow::new("latencies are longer than on dedicated CPUs: the hypervisor gave {stolen:number} of {cpus:CPU} to other machines during the plain passes")
        .hint("run again later, or on a machine with dedicated CPUs")] },
        IssueCode::RunIssuesDropped => const { &[IssueRow::new("{count:more issue} of the run are not listed")] },
        IssueCode::RunMissingPeak => const { &[IssueRow::new("{phase} has no roofline time: `{device}` has no {engine} peak for {dtype} (it has: {known})")
        .hint("add the peak to the device file, or compute in a dtype that has one")] },
        IssueCode::LatencyCaptured => const { &[IssueRow::new("latencies include profiling overhead: no pass ran without a profiler")] },
        IssueCode::LatencyNoWarmUp => const { &[IssueRow::new("the first measured pass includes first-use cost: there was no warm-up")
        .hint("runtime.warmup=1")] },
        IssueCode::LatencyNoTokens => const { &[IssueRow::new("request `{request}` of pass {pass} excluded from statistics: it has no tokens")] },
        IssueCode::LatencyUnorderedTokens => const { &[IssueRow::new("request `{request}` of pass {pass} excluded from statistics: tokens before its start or out of order")] },
        IssueCode::WaterfallBelowRoofline => const { &[IssueRow::new("{phase}: matched operators took {matched_ns:ns}, {below_ns:ns} less than their roofline time: the peaks in the device file are too low, or bytes came from a cache")
        .hint("measure the device, or name one whose file has the bandwidths of its caches")] },
        IssueCode::WaterfallOperatorsBelowRoofline => const { &[IssueRow::new("{phase}: {count} of {of:operator call} were faster than their roofline time, the worst {worst_ratio:times}")
        .hint("less ran than the workload states, bytes came from a cache, or the device was measured on a busy machine: `llmprof hardware measure` measures it again")] },
        IssueCode::WaterfallUnattributed => const { &[IssueRow::new("{phase}: {share:percent} of the time of kernels or ops is unattributed")] },
        IssueCode::RunSlowedByCapture => const { &[IssueRow::new("{phase} took {ratio:times} as long in the profiled pass: shares of time and speedups are of that pass")
        .hint("run again on a quiet machine")] },
        IssueCode::RunPlainPassSlower => const { &[IssueRow::new("{phase} took {ratio:times} as long in the profiled pass as in the plain passes: something else slowed the plain passes, and latencies are too long")
        .hint("run again on a quiet machine, with more warm-up or passes")] },
        IssueCode::RunOtherSteps => const { &[IssueRow::new("decode: launch patterns show {shown:step}, the workload states {steps}; the analysis uses {shown}")] },
        IssueCode::InvariantAbovePeak => const { &[IssueRow::new("{phase}: roofline, MFU and MBU left out: {figure} would be {share:percent}, since the work of the model and workload does not fit in the {wall_ns:ns} recorded")
        .hint("check the model, runtime.batch_size, workload.prompt_tokens, infer.max_new_tokens and the device")] },
        IssueCode::RunUnmatchedOperators => const { &[IssueRow::new("{phase}: operator calls not matched to the model, first `{path}`: {reason:unmatched}")] },
        IssueCode::RunMissingOperators => const { &[
            IssueRow::new("{phase}: operators of the model have no event of their own (fused into others, or not recorded), first `{path}`").when("fused", "true"),
            IssueRow::new("{phase}: operators of the model did not run, first `{path}`"),
        ] },
        IssueCode::InvariantTraining => const { &[IssueRow::new("the trace shows training, and the work of `{model}` is counted for inference: no roofline times, no MFU and no MBU, and nothing says that this model ran")
        .hint("leave the model out")] },
        IssueCode::HardwareDiffers => const { &[IssueRow::new("the trace names `{recorded}`, and `{device}` was given: roofline times, MFU and MBU are those of a device that did not run it")
        .hint("leave the device out, and the one that the trace names is used")] },
        IssueCode::HardwareByFigures => const { &[IssueRow::new("the trace names no device; {units} SMs or CUs and {memory_bytes:bytes} of memory are those of `{device}`")] },
        IssueCode::HardwareAmbiguous => const { &[IssueRow::new("no roofline times: the trace names no device, and {units} SMs or CUs and {memory_bytes:bytes} of memory are those of {devices}")
        .hint("name one: --device NAME")] },
        IssueCode::HardwareNotDescribed => const { &[IssueRow::new("no roofline times: the trace names no device, and no device file has {units} SMs or CUs and {memory_bytes:bytes} of memory")
        .hint("name one, or a file of your own: --device NAME|FILE.yaml")] },
        IssueCode::PowerLimitSet => const { &[IssueRow::new("GPU {gpu}: power limit {limit_w:watts} while the run lasted, {before_w:watts} before and after it")] },
        IssueCode::PowerLimitRefused => const { &[IssueRow::new("GPU {gpu}: the power limit of {limit_w:watts} was not set: {reason}")
        .hint("run as root or with CAP_SYS_ADMIN, or hardware.power_limit_w=null")] },
        IssueCode::PowerLimitKept => const { &[IssueRow::new("GPU {gpu}: the power limit stayed at {limit_w:watts}, it was {before_w:watts}: {reason}")
        .hint("`nvidia-smi -i GPU -pl WATTS` restores it")] },
        IssueCode::RunNoCapture => const { &[IssueRow::new("no waterfall: no pass recorded operators")] },
        IssueCode::RunUnnamedStacks => const { &[IssueRow::new("the trace has no ranges `encode`, `prefill` and `decode`, which separate the two stacks of this model: no roofline")
        .hint("put ranges of these names around them; runtime=pytorch does")] },
        IssueCode::RunUnnamedSteps => const { &[
            IssueRow::new("the trace does not name its steps: taken for decode steps").when("taken_for", "decode")
        .hint("infer.max_new_tokens=1 if they are prefills"),
            IssueRow::new("the trace does not name its steps: taken for {taken_for}")
        .hint("infer.max_new_tokens=2 or more if they are decode steps"),
        ] },
        IssueCode::RunPartialPhase => const { &[IssueRow::new("{phase}: ranges recorded in part are left out")] },
        IssueCode::RunFewSteps => const { &[
            IssueRow::new("{phase} was sampled in {steps} of {of_steps:step} only; others may differ")
        .hint(MORE_SLICES),
            IssueRow::new("{phase} was sampled in {steps:whole step} only; others may differ")
        .hint(MORE_SLICES),
        ] },
        IssueCode::RunUnrecordedPhase => const { &[
            IssueRow::new("no figures for {phase}: slices hold {share:percent} of it, but no whole step or range")
        .hint(MORE_SLICES),
            IssueRow::new("no figures for {phase}: it lies between slices")
        .hint(MORE_SLICES),
        ] },
        IssueCode::ModelUncounted => const { &[
            IssueRow::new("no roofline times, MFU or MBU, and operators are classified by name: model type `{model_type}` is not supported"),
            IssueRow::new("no roofline times, MFU or MBU, and operators are classified by name: {error}"),
            IssueRow::new("no roofline times, MFU or MBU, and operators are classified by name: the config has no `model_type`"),
        ] },
        IssueCode::RunHostOnly => const { &[IssueRow::new("the trace has no device events: phases consist of host ops")
        .hint("record with device activities enabled where there is a device")] },
        IssueCode::RunOutsidePhases => const { &[IssueRow::new("operator calls are in no phase")] },
        IssueCode::RunNoDevice => const { &[IssueRow::new("no roofline times, MFU or MBU: no device named")
        .hint("name one with `--device` or `hardware.spec`, or measure this machine with `llmprof hardware measure`")] },
        IssueCode::RunNoModel => const { &[IssueRow::new("no MFU, MBU or roofline times of operators, and work is classified by name: no model named")
        .hint("`llmprof import FILE model=NAME` names it; where neither labels nor shapes show the work, state it too: workload.prompt_tokens=N infer.max_new_tokens=T, and runtime.batch_size=B unless it is 1")] },
        IssueCode::RunSeveralDevices => const { &[IssueRow::new("no roofline times: the trace has {devices:device} and does not say how the model is divided among them")
        .hint("import the trace of one device")] },
        IssueCode::RunNoWork => const { &[IssueRow::new("no waterfall: the trace has neither device events nor host ops")
        .hint("record with ops or device activities enabled")] },
        IssueCode::ReportTimelineCut => const { &[IssueRow::new("the timeline omits the {left_out} innermost of {of:event}")
        .hint("`llmprof export RUN --to chrome` has all of them")] },
        IssueCode::NsysStatsCutRow => const { &[IssueRow::new("rows cut or damaged, skipped; the first at line {line} ({cells:cell}, header {columns})")] },
        IssueCode::NsysStatsBadRow => const { &[
            IssueRow::new("rows with unreadable values skipped; the first at line {line}, column `{column}`: {cell}"),
            IssueRow::new("rows without the column `{column}` skipped; the first at line {line}"),
            IssueRow::new("rows with values out of range skipped; the first at line {line}"),
        ] },
        IssueCode::NsysStatsNotUtf8 => const { &[IssueRow::new("rows with text that is not UTF-8; the first at line {line}")] },
        IssueCode::NcuNotUtf8 => const { &[IssueRow::new("{place}: rows with text that is not UTF-8; the first at line {line}")] },
        IssueCode::NcuBadLaunch => const { &[IssueRow::new("{place}: rows skipped, whose launch cannot be read; the first at line {line}, column `{column}`")] },
        IssueCode::NcuIdReused => const { &[IssueRow::new("{place}: launch ids used again by another kernel; the first at line {line}, launch {launch}")] },
        IssueCode::NcuTwoValues => const { &[IssueRow::new("{place}: metrics with a second, different value; the first at line {line}")] },
        IssueCode::NcuNoRows => const { &[IssueRow::new("{place}: the page ends after its header")] },
        IssueCode::NcuBadUnits => const { &[IssueRow::new("{place}: values unknown: the row of units is missing or cut (line {line})")] },
        IssueCode::NcuCutRow => const { &[IssueRow::new("{place}: rows cut or damaged, skipped; the first at line {line} ({cells:cell})")] },
        IssueCode::NcuBadValue => const { &[IssueRow::new("{place}: values that are not numbers; the first at line {line}, metric `{metric}`: `{cell}`")] },
        IssueCode::NcuNameless => const { &[IssueRow::new("{place}: rows without a metric name skipped; the first at line {line}")] },
        IssueCode::NcuTwoNotations => const { &[IssueRow::new("{place}: numbers are written in two ways ({points:cell} with a decimal point, {commas:cell} with a decimal comma): those of the rarer are wrong")
        .hint("export the page with one locale: LC_ALL=C ncu --csv …")] },
        IssueCode::NcuNotationAssumed => const { &[IssueRow::new("{place}: whether a comma or point stands before decimals or between thousands is open in all of {numbers} numbers; a decimal point is assumed")
        .hint("export the page with a known locale: LC_ALL=C ncu --csv …")] },
        IssueCode::NcuMeansOfLaunches => const { &[IssueRow::new("{place}: a summary per kernel: {kernels:kernel} with the mean values of {launches:launch}; single launches are not in it")] },
        IssueCode::NcuBadSpeedup => const { &[IssueRow::new("{place}: estimated speedups that cannot be read; the first at line {line}: `{cell}`")] },
        IssueCode::NsysUnusableRow => const { &[IssueRow::new("table {table}: rows without a usable value skipped; the first is row {row}, column {column}")] },
        IssueCode::NsysMissingColumn => const { &[IssueRow::new("table {table} skipped: it has no column {column}")] },
        IssueCode::NsysTooManyRows => const { &[IssueRow::new("table {table} has more rows than a file of its size can hold; reading stopped after row {row}")] },
        IssueCode::NsysDamagedTable => const { &[IssueRow::new("table {table} is truncated after row {row}: {error}")] },
        IssueCode::NsysDevicesRenumbered => const { &[IssueRow::new("processes number their GPUs differently; events carry the machine's GPU numbers")] },
        IssueCode::NsysNotRead => const { &[IssueRow::new("table {table}: events of a kind that is not imported")] },
        IssueCode::NsysOpenRange => const { &[IssueRow::new("table {table}: ranges that were not closed end with the capture")] },
        IssueCode::NsysUnknownNvtx => const { &[IssueRow::new("table {table}: events of an unknown type skipped")] },
        IssueCode::NsysGraphsWhole => const { &[IssueRow::new("CUDA Graphs were recorded as one event each, without their kernels")
        .hint("`nsys profile --cuda-graph-trace=node` records the kernels")] },
        IssueCode::NsysGraphsWithoutTime => const { &[IssueRow::new("CUDA Graphs missing: the driver could not take their times")] },
        IssueCode::NsysEndsBeforeStart => const { &[IssueRow::new("table {table}: events that end before they start count as 0 ns")] },
        IssueCode::GpuTelemetryBadRow => const { &[IssueRow::new("lines that are not samples skipped; the first is line {line}")] },
        IssueCode::GpuTelemetryNoTimes => const { &[IssueRow::new("`nvidia-smi dmon` printed no times: samples are shown one second apart, its default")
        .hint("nvidia-smi dmon -o DT prints them")] },
        IssueCode::GpuTelemetryOneMoment => const { &[IssueRow::new("`nvidia-smi -q` is one moment: nothing is known of the time around it")
        .hint("nvidia-smi dmon -o DT, or pipeline.telemetry, samples over time")] },
        IssueCode::TorchStatsMissing => const { &[IssueRow::new("{count:statistic} missing, shown as 0")] },
        IssueCode::TorchStatsNoHistory => const { &[IssueRow::new("statistics have no blocks and no times: peaks may belong to different moments, and the largest free block is unknown")
        .hint("torch.cuda.memory._dump_snapshot() has both")] },
        IssueCode::TorchStatsOutOfMemory => const { &[IssueRow::new("{count:allocation} failed for lack of memory")] },
        IssueCode::TorchStatsRetries => const { &[IssueRow::new("{count:allocation} succeeded only after cached memory was returned to the device: the memory is close to full")] },
        IssueCode::CublasLogUnread => const { &[IssueRow::new("{count:GEMM call} without a readable shape excluded")] },
        IssueCode::CublasLogNoTimes => const { &[IssueRow::new("the log has shapes and no times: calls return before the device is done")
        .hint("a trace of the same run (torch.profiler, nsys) has the times")] },
        IssueCode::CublasLogSlowed => const { &[IssueRow::new("cuBLAS wrote its logs while the timeline was recorded: host times of the timeline include that")] },
        IssueCode::CublasLogUnusable => const { &[IssueRow::new("the log {file} cannot be used: {why}")] },
        IssueCode::GemmsNotJoined => const { &[
            IssueRow::new("the {calls:GEMM call} of the cuBLAS log and the {kernels:GEMM kernel} of the timeline do not fit in launch order ({joined} agree): no GEMM has a time")
        .when("in_graphs", "0")
        .hint(ONE_PROCESS),
            IssueRow::new("the {calls:GEMM call} of the cuBLAS log and the {kernels:GEMM kernel} of the timeline do not fit in launch order ({joined} agree; {in_graphs} more are in graphs, which the log has once, at capture): no GEMM has a time")
        .hint(ONE_PROCESS),
        ] },
        IssueCode::GemmsAbovePeak => const { &[IssueRow::new("{kernel}: its shape by launch order gives {rate} TFLOP/s, above the peak of the device: the cuBLAS log is not of this timeline, and no GEMM has a time")
        .hint(ONE_PROCESS)] },
        IssueCode::GemmsPartlyJoined => const { &[
            IssueRow::new("{joined} of {kernels:GEMM kernel} have a shape from the cuBLAS log ({share} of their time)")
        .when("in_graphs", "0"),
            IssueRow::new("{joined} of {kernels:GEMM kernel} have a shape from the cuBLAS log ({share} of their time); {in_graphs} more are in graphs, which the log has once, at capture"),
        ] },
        IssueCode::RocprofNotRun => const { &[IssueRow::new("the importer for rocprofv3 was written from its documentation and not run on the hardware")] },
        IssueCode::RocprofEndsBeforeStart => const { &[IssueRow::new("{count:event} that end before they start count as 0 ns")] },
        IssueCode::RocprofUnread => const { &[IssueRow::new("{count:row} cut or without times, skipped")] },
        IssueCode::TrtexecOtherLayers => const { &[IssueRow::new("{count:layer} of the profile are not in the layer information")
        .hint("give the profile and the layer information of one engine")] },
        IssueCode::TrtexecAboveRoofline => const { &[IssueRow::new("layers of type {kind} took less than their roofline time: another device, or bytes from caches")] },
        IssueCode::BenchClientLate => const { &[
            IssueRow::new("the client was late (p99 {late_p99_ns:ns}, busiest worker {cpu_share:percent} of a core): latencies are partly its own. Those of the server are shorter, so objectives that are met are met by the server too").when("meets_objectives", "true")
        .hint(CLIENT_APART),
            IssueRow::new("the client's busiest worker used {cpu_share:percent} of a core: latencies are partly its own. Those of the server are shorter, so objectives that are met are met by the server too").when("meets_objectives", "true")
        .hint(CLIENT_APART),
            IssueRow::new("the client was late (p99 {late_p99_ns:ns}) though its busiest worker used {cpu_share:percent} of a core: the hypervisor took {steal_share:percent} of this machine's CPU time (steal), latencies are partly the client's: TTFT, TPOT and end-to-end times are upper bounds of the server's, and an objective that is not met is not known").when("waits_for_cpu", "true")
        .hint("run the client on a machine whose CPUs are not shared"),
            IssueRow::new("the client was late (p99 {late_p99_ns:ns}) though its busiest worker used {cpu_share:percent} of a core: this machine is contended, latencies are partly the client's: TTFT, TPOT and end-to-end times are upper bounds of the server's, and an objective that is not met is not known").when("waits_for_cpu", "true")
        .hint("run again when nothing else runs, or on a machine or cores apart from the server"),
            IssueRow::new("the client was late (p99 {late_p99_ns:ns}, busiest worker {cpu_share:percent} of a core): latencies are partly its own: TTFT, TPOT and end-to-end times are upper bounds of the server's, and an objective that is not met is not known")
        .hint(CLIENT_APART),
            IssueRow::new("the client's busiest worker used {cpu_share:percent} of a core: latencies are partly its own: TTFT, TPOT and end-to-end times are upper bounds of the server's, and an objective that is not met is not known")
        .hint(CLIENT_APART),
        ] },
        IssueCode::BenchSweepClientLate => const { &[IssueRow::new("the client did not keep up at the lowest rate that failed the objectives: the server may meet them at higher rates")
        .hint(CLIENT_APART)] },
        IssueCode::BenchFailed => const { &[IssueRow::new("{count} of {requests:request} failed ({kind}) and are in no latency; the first: {first}")] },
        IssueCode::BenchTokensUnknown => const { &[IssueRow::new("{count:request} without a token count, since the server sends no usage: TPOT, ITL and token rates leave them out")
        .hint(TOKENIZER)] },
        IssueCode::BenchUsageWrong => const { &[IssueRow::new("{count:request} with a usage that contradicts itself ({first}): their tokens are not counted")
        .hint(TOKENIZER)] },
        IssueCode::BenchTokensTogether => const { &[IssueRow::new("{share:percent} of the tokens arrived together with others: ITL divides a gap among its tokens; arrival_gap_ms does not")] },
        IssueCode::BenchNotRunOnTheRealThing => const { &[IssueRow::new("runtime for {server}: never run against a real server; only its config and documented formats are tested")] },
        IssueCode::BenchNotRecorded => const { &[IssueRow::new("the server's GPUs are not recorded: {why}")] },
        IssueCode::BenchServerLeft => const { &[IssueRow::new("the server could not be ended: {why}")] },
        IssueCode::BenchProfiled => const { &[
            IssueRow::new("the server's profiler ran, or wrote its trace, for {for_ns:ns} from {from_ns:ns} on: no request had ended before, and all latencies are longer than without it").when("all", "true")
        .hint("start the profile later (--profile-after), or send more requests; vLLM writes its trace sooner with --profiler-config.torch_profiler_with_stack=false"),
            IssueRow::new("the server's profiler ran, or wrote its trace, for {for_ns:ns} from {from_ns:ns} on: {count:request} that ended after its start are in no latency; throughput includes the pause")
        .hint("vLLM writes its trace sooner with --profiler-config.torch_profiler_with_stack=false"),
        ] },
        IssueCode::BenchTrace => const { &[IssueRow::new("the server's trace was not analyzed: {why}")] },
        IssueCode::BenchNoTelemetry => const { &[IssueRow::new("CPUs and GPUs of this machine were not sampled: {why}")] },
        IssueCode::BenchSteps => const { &[IssueRow::new("engine steps of the server's trace cannot be joined with requests: {why}")] },
        IssueCode::BenchNoMetrics => const { &[IssueRow::new("the server's metrics cannot be scraped: {why}")
        .hint("queueing and prefill stay one part; start the server with metrics, or use --no-metrics")] },
        IssueCode::BenchPageUnread => const { &[IssueRow::new("{url} cannot be scraped: {why}")] },
        IssueCode::BenchScrapesFailed => const { &[IssueRow::new("{count:scrape} of the server's metrics failed")] },
        IssueCode::BenchTokenizerFailed => const { &[IssueRow::new("tokens are not counted from there on: {why}")
        .hint("--tokenizer with the tokenizer.json of the served model")] },
        IssueCode::BenchOverloaded => const { &[IssueRow::new("the queue grew: {asked_per_s:number} requests/s were asked for, {sent_per_s:number} sent and {served_per_s:number} served. Requests waited {first_ns:ns} for their first token at the start and {last_ns:ns} at the end: latencies show how long the load ran")
        .hint("a lower --rate, or --sweep for the highest rate that meets an objective")] },
        IssueCode::BenchServerStopped => const { &[IssueRow::new("the server stopped answering at {at_ns:ns}: {count} of {requests:request} failed then or later; steady state ends there")] },
        IssueCode::BenchServerRestarted => const { &[IssueRow::new("counters of the server fell: it was started again during the load")] },
        IssueCode::BenchNotProfiled => const { &[
            IssueRow::new("the server was not profiled: {least} requests never ran at once").when("reason", "never_full")
        .hint("lower --profile-when-running, or send more requests"),
            IssueRow::new("the server was not profiled: the load was over before --profile-after").when("reason", "load_ended")
        .hint("lower --profile-after, or send more requests"),
            IssueRow::new("the server was not profiled: interrupted before its trace was written").when("reason", "interrupted")
        .hint("wait for the trace: a server may take minutes to write it; --profile-for takes a shorter time"),
            IssueRow::new("the server was not profiled: no new trace in {folder}").when("reason", "no_trace")
        .hint("--profile-dir must be the folder that the server writes traces to"),
            IssueRow::new("the server was not profiled: {why}").when("server", "SGLang")
        .hint("SGLang writes traces where SGLANG_TORCH_PROFILER_DIR or output_dir says"),
            IssueRow::new("the server was not profiled: {why}")
        .hint("vLLM has the endpoint only where it was started with --profiler-config.profiler=torch --profiler-config.torch_profiler_dir=DIR"),
        ] },
        IssueCode::Foreign(_) => &[],
    }
}
