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

pub(super) struct Row {
    /// A key and the value that it must have; an empty key where any will do.
    pub(super) when: (&'static str, &'static str),
    pub(super) text: &'static str,
    pub(super) hint: Option<&'static str>,
}

impl Row {
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
pub(super) fn rows_of(code: &IssueCode) -> &'static [Row] {
    match code {
        IssueCode::AnalysisAutotuning => const { &[Row::new("XLA's autotuner ran {kernels:kernel} ({time_ns:ns}) to choose among candidates: compilation, in no step")] },
        IssueCode::AnalysisCutRange => const { &[Row::new("nothing was recorded in the last {silence_ns:ns} of `{phase}` ({range_ns:ns}): the file was cut or the recording ended while it ran, so that it ends with the last event and has no bottleneck and no gains")
        .hint("stop the profiler after the range ends, and export the trace again")] },
        IssueCode::AnalysisCutSteps => const { &[Row::new("{without} of {launches} launches of `{phase}` have no kernel in the trace: these steps were recorded in part, and have no idle time, no step time, no roofline time, no MFU and no MBU")
        .hint("synchronize with the device before the profiler stops; record fewer steps where its buffer is full")] },
        IssueCode::AnalysisEventsTwice => const { &[Row::new("device events are in the file more than once (of {of} events): counts, sums and overlap are too large")
        .hint("merge traces of different processes only; export the trace again")] },
        IssueCode::AnalysisGemmsAboveRoofline => const { &[Row::new("GEMM shapes ran faster than their roofline: they multiply in another format than their inputs have, or the device is another one; they have no % of roofline")] },
        IssueCode::AnalysisGraphCapture => const { &[Row::new("this is a trace of the capture of graphs, which executes nothing: its times say nothing about a step")
        .hint("import it beside the timeline of a run, whose graph kernels it then leads back to modules")] },
        IssueCode::AnalysisEventsMissing => const { &[Row::new("the end of the file is missing: GPU idle time is an upper bound, since kernels that are not in it count as idle time")] },
        IssueCode::AnalysisStepsOfProcesses => const { &[Row::new("the processes of this trace run different steps at the same time, so that no step is one of all of them: the trace is one phase")
        .hint("import the trace of one process")] },
        IssueCode::AnalysisLabelsDropped => const { &[Row::new("labels of engine steps are not used: from the first of them on, only {share:percent} of the device time was launched in labelled ranges")] },
        IssueCode::AnalysisNoLaunches => const { &[Row::new("the trace does not say when kernels were launched: each counts for the range in which it began, which is too late where the GPU runs behind the host")
        .hint("record launches: torch.profiler with ProfilerActivity.CPU and CUDA, nsys with -t cuda")] },
        IssueCode::AnalysisFirstStepLong => const { &[Row::new("the recording up to the end of the first `Optimizer.step` took {first_ns:ns}, a usual step {usual_ns:ns}: it may hold the start of the program, and is in no step")] },
        IssueCode::AnalysisDevicesFolded => const { &[Row::new("{count:device} with fewer events have no phases of their own; the {devices} with most have")] },
        IssueCode::InvariantOtherModel => const { &[Row::new("the embedding table of the trace is {trace}, that of the model {model}: this is another model, so there are no roofline times, no MFU and no MBU")
        .hint("name the model that ran: model=NAME or --config config.json")] },
        IssueCode::InvariantOtherLayers => const { &[Row::new("the trace calls attention {trace} times per forward pass, the model has {model} layers with attention: this is another model, or a pass that was recorded in part, so there are no roofline times, no MFU and no MBU")
        .hint("name the model that ran, with its number of layers: model.config.num_hidden_layers=N")] },
        IssueCode::InvariantOtherGemm => const { &[Row::new("the largest GEMM of the trace has N={n} and K={k}, which no linear operator of the model has: this is another model or a part of it, so there are no roofline times, no MFU and no MBU")
        .hint("name the model that ran: model=NAME or --config config.json")] },
        IssueCode::InvariantOtherExperts => const { &[Row::new("the trace has kernels of experts (`{kernel}`), the model has no experts: this is another model, so there are no roofline times, no MFU and no MBU")
        .hint("name the model that ran: model=NAME or --config config.json")] },
        IssueCode::InvariantOtherRows => const { &[Row::new("{phase}: the label or the workload states {stated:new token} a step, but GEMMs of the trace have M={shown}: no roofline times, no MFU and no MBU")
        .hint("check runtime.batch_size and workload.prompt_tokens, or the label")] },
        IssueCode::InvariantOtherLabel => const { &[Row::new("{key}={said}, but the labels of the engine's steps state {shown:sequence}; the analysis uses the labels")] },
        IssueCode::RunUnknownWorkload => const { &[Row::new("no roofline times, no MFU and no MBU of {phases}: neither the trace nor the command line says what the model was asked")
        .hint("state it: {keys}")] },
        IssueCode::RunNoContext => const { &[Row::new("{phase}: the labels of the engine's steps have no context lengths: attention has no roofline time, and MBU is without the KV cache")
        .hint("vLLM's and SGLang's detailed labels have them")] },
        IssueCode::InvariantFewerGemms => const { &[Row::new("{phase}: {found:GEMM kernel} where the model's operators need at least {needed}: a part of the step was recorded, another model ran, or one kernel does many GEMMs; no roofline times, no MFU and no MBU")] },
        IssueCode::InvariantOtherFormat => const { &[Row::new("most GEMM time is in kernels of 8 or fewer bits (`{kernel}`), but the model's weights have 16 or more: a quantized checkpoint ran, so there are no roofline times, no MFU and no MBU")
        .hint("name the checkpoint that ran: --config config.json with its quantization_config, or workload.weights=fp8")] },
        IssueCode::RunOneOfRanks => const { &[Row::new("the trace is of one of several ranks, and no shapes show which part of the model it runs: no roofline times, no MFU and no MBU")] },
        IssueCode::RunFewerExperts => const { &[Row::new("{phase}: in {faster} of {layers} calls the expert kernels took less time than the {expected} experts of uniform routing need at peak bandwidth: at most {at_most} were read in the mean; roofline times and MBU are upper bounds")] },
        IssueCode::InvariantOtherShape => const { &[Row::new("{key}={said}, but operator shapes in the trace show {shown}; the analysis uses {shown}")] },
        IssueCode::NcclWarned => const { &[Row::new("NCCL printed: {text}")] },
        IssueCode::NcclInspectorTruncated => const { &[Row::new("the file ends inside a record, or one is not JSON, at byte {byte}; the records before it are read")] },
        IssueCode::NcclInspectorDropped => const { &[Row::new("operations overwritten in the ring of NCCL Inspector before they were written").hint("a larger NCCL_INSPECTOR_DUMP_COLL_RING_SIZE")] },
        IssueCode::GraphsNoOrigin => const { &[Row::new("kernels launched by CUDA/HIP graphs cannot be attributed to ops: no graph capture is recorded")
        .hint("import the engine's capture trace beside this one: llmprof import trace.json.gz capture.json.gz; or name the model: model=NAME")] },
        IssueCode::RanksApart => const { &[Row::new("the ranks were not recorded at the same time, so their times cannot be compared").hint("profile the same steps on every rank")] },
        IssueCode::RanksOtherJob => const { &[Row::new("the timelines name different world sizes: they are of different jobs").hint("import the ranks of one job together")] },
        IssueCode::RanksModelDivided => const { &[Row::new("the model is divided among ranks, and nothing says how: there are no roofline times, no MFU and no MBU of it")] },
        IssueCode::RanksMissing => const { &[Row::new("{have} of {world_size} ranks are here: a slower rank may be among the others")] },
        IssueCode::RanksWaiting => const { &[Row::new("rank {rank}: {waiting} of {exposed} exposed communication is waiting for slower ranks; overlapping it with compute gains nothing, balancing the ranks does")] },
        IssueCode::RanksUnread => const { &[Row::new("ranks that could not be read are left out: {files}").hint("import again with the same folder: ranks that were read are kept")] },
        IssueCode::RanksNotAligned => const { &[Row::new("rank {rank} shares no collective with the others: its clock is taken as it is")] },
        IssueCode::RanksMismatched => const { &[Row::new("collectives that seemed to be one on several ranks were not running at the same time, and are left out of skew and waiting")] },
        IssueCode::TraceInputsUnreadable => const { &[Row::new("operator input lists whose shapes could not be read")] },
        IssueCode::KinetoDevicesUnreadable => const { &[Row::new("`deviceProperties` cannot be read: {error}")] },
        IssueCode::KinetoTruncated => const { &[Row::new("the file ends inside an event or before the event list is closed, at byte {byte}")
        .hint("copy the file again, or wait until the profiler has finished writing it")] },
        IssueCode::KinetoMalformed => const { &[Row::new("events that are not valid JSON skipped; the first at byte {byte}")] },
        IssueCode::KinetoRepaired => const { &[Row::new("strings with unescaped quotes read up to the matching quote; the first at byte {byte}")] },
        IssueCode::KinetoNotUtf8 => const { &[Row::new("names that are not UTF-8 contain replacement characters; the first at byte {byte}")] },
        IssueCode::KinetoDevicesRenumbered => const { &[Row::new("the file has several ranks with devices of the same number; the {devices} devices are numbered in the order of ranks")] },
        IssueCode::XplaneDamaged => const { &[Row::new("messages of the file are damaged or cut; what comes before the damage is read")] },
        IssueCode::XplaneUnusableEvent => const { &[Row::new("events without a name or a valid time skipped")] },
        IssueCode::KinetoNoTime => const { &[Row::new("events without a valid time (`ts`) skipped; the first at byte {byte}")] },
        IssueCode::KinetoNoDuration => const { &[Row::new("slices without a valid duration (`dur`) count as 0 ns; the first at byte {byte}")] },
        IssueCode::KinetoNegativeDuration => const { &[Row::new("slices with a negative duration count as 0 ns; the first at byte {byte}")] },
        IssueCode::KinetoNoName => const { &[Row::new("events without a name; the first at byte {byte}")] },
        IssueCode::KinetoBadField => const { &[Row::new("fields of the wrong type or out of range ignored; the first at byte {byte}")] },
        IssueCode::KinetoUnpaired => const { &[Row::new("begin and end events without their counterpart skipped; the first at byte {byte}")] },
        IssueCode::KinetoUnreadPhase => const { &[Row::new("events of unsupported kinds (counters, async, objects) skipped; the first at byte {byte}")] },
        IssueCode::EngineDropped => const { &[Row::new("the recorder was full: the time of dropped operator calls appears as idle")] },
        IssueCode::EngineTruncated => const { &[Row::new("the file ends before its last operator calls")] },
        IssueCode::EngineUnknownOperator => const { &[Row::new("operator calls name an operator that the file does not list")] },
        IssueCode::SourcePackingDamaged => const { &[Row::new("the {packing} stream is truncated after {bytes:unpacked byte} ({error}); the rest is dropped")
        .hint("copy the file again from where it was written")] },
        IssueCode::NcuOtherFile => const { &[Row::new("{file} is not an Nsight Compute page; skipped")] },
        IssueCode::NcuCutReport => const { &[Row::new("{file} ends inside a block at byte {byte}; the launches before it are read").hint("ncu was ended before it wrote the report; profile fewer launches")] },
        IssueCode::NcuTooManyAttributes => const { &[Row::new("{file}: launches × device attributes exceed {limit} values, the limit for a file of its size; launches after that have none")] },
        IssueCode::NcuNotKernels => const { &[Row::new("{file}: results of ranges and graphs as a whole are not read; only kernels are")] },
        IssueCode::NcuNoSet => const { &[Row::new("Nsight Compute has no set {set}; it is left out").hint("ncu --list-sets")] },
        IssueCode::NcuSetReplaced => const { &[Row::new("the set {set} is named {by} in this Nsight Compute")] },
        IssueCode::NcuNoSection => const { &[Row::new("Nsight Compute has no section {section}; it is left out").hint("ncu --list-sections")] },
        IssueCode::NcuNoMetric => const { &[Row::new("Nsight Compute has no metric {metric} on this chip; it is left out").hint("ncu --query-metrics")] },
        IssueCode::NcuMetricReplaced => const { &[Row::new("{metric} is {by} on this chip")] },
        IssueCode::NcuNothingToPlan => const { &[Row::new("no kernel of the timeline is inside a range `{range}`; no counters were collected").hint("pipeline.ncu.range=null covers all kernels")] },
        IssueCode::NcuUnexpected => const { &[Row::new("profiled launches that the timeline does not have: the program launched other kernels under ncu").hint("a model that chooses kernels by timing differs from run to run")] },
        IssueCode::NcuCovered => const { &[Row::new("Nsight Compute profiled {launches} launches, which stand for {share} of the device time asked for, in {seconds} s")] },
        IssueCode::NcuLessCovered => const { &[Row::new("profiled launches stand for {share} of device time, {wanted} were asked for").hint("pipeline.ncu.steps=1, or a later ncu")] },
        IssueCode::NsightNoTool => const { &[Row::new("{why}")] },
        IssueCode::NsightFailed => const { &[Row::new("{tool} failed: {what}")] },
        IssueCode::NsightNoKernels => const { &[Row::new("{tool} recorded no kernel").hint("the recorded range held no CUDA work")] },
        IssueCode::NsightEnvironmentKept => const { &[
            Row::new("{report} keeps the command line of the worker; {withheld:variable} that look like credentials were withheld from it, and their values overwritten where they stand in it. The CSV files hold none of it")
        .when("tool", "ncu")
        .hint("delete it before you pass the run on: reports are made again without it"),
            Row::new("{report} keeps the environment and command line of the worker and the processes of the machine; {withheld:variable} that look like credentials were withheld from it, and their values overwritten where they stand in it. run.sqlite and the CSV files hold none of it")
        .hint("delete it before you pass the run on: reports are made again without it"),
            Row::new("reports of Nsight (.nsys-rep, .sqlite, .ncu-rep) hold the environment and command line of the worker; look at them before you pass them on"),
        ] },
        IssueCode::NsightNotScrubbed => const { &[Row::new("the environment, command line and processes could not be taken out of {report}: {why}")
        .hint("look at it before you pass it on")] },
        IssueCode::WireNotScrubbed => const { &[Row::new("what looks like a credential could not be taken out of {file}: {why}")
        .hint("look at it before you pass it on")] },
        IssueCode::NcuSaid => const { &[Row::new("{file}: ncu printed: {text}")] },
        IssueCode::NsysSaid => const { &[Row::new("Nsight Systems printed: {text}")] },
        IssueCode::AnalysisSaturated => const { &[Row::new("a sum of times, bytes or operations exceeds 64 bits: numbers of the input are damaged, and totals are not to be trusted")] },
        IssueCode::RecordMaxSize => const { &[Row::new("recording stopped when its files reached their size limit (`record --max-size`, or a quarter of the free disk); what came later is not recorded")] },
        IssueCode::TorchMemorySegments => const { &[Row::new("{count:segment} without sizes or blocks excluded from all sums")] },
        IssueCode::TorchMemoryEvents => const { &[Row::new("{count:event} without action, address or size excluded from the history")] },
        IssueCode::TorchMemoryActions => const { &[Row::new("{count:event} with an unknown action excluded from the history")] },
        IssueCode::TorchMemoryNoTimes => const { &[Row::new("{count:event} without a time: the history counts events instead of nanoseconds")] },
        IssueCode::TorchMemoryBelowZero => const { &[Row::new("allocated memory would be negative at {count:point} of the history: it does not belong to these segments, or events are missing")] },
        IssueCode::TorchMemoryTrailingBytes => const { &[Row::new("{count:byte} after the end of the pickle ignored")] },
        IssueCode::WireDropped => const { &[Row::new("records dropped: {why}")] },
        IssueCode::WireDamaged => const { &[Row::new("the file of process {process} is damaged at byte {byte}; the rest is dropped")] },
        IssueCode::WireCut => const { &[Row::new("the file of process {process} is truncated inside a record at byte {byte}")] },
        IssueCode::WireNotEnded => const { &[Row::new("process {process} was killed, exited without cleanup, or is still running: everything after its last flush is missing")] },
        IssueCode::WireOpenRange => const { &[Row::new("ranges that were not closed end with their process")] },
        IssueCode::WireUnmatchedRange => const { &[Row::new("range ends without a range start")] },
        IssueCode::WireUnnamed => const { &[Row::new("kernels whose name was dropped")] },
        IssueCode::WireTooManyIds => const { &[Row::new("events whose correlation, context or graph id is out of range")] },
        IssueCode::WireUnknownRecords => const { &[Row::new("records of a kind that this version does not know")] },
        IssueCode::WireEndsBeforeStart => const { &[Row::new("events that end before they start count as 0 ns")] },
        IssueCode::WirePastEdge => const { &[Row::new("kernels of CUDA Graphs still running when recording stopped excluded: their times may be wrong")] },
        IssueCode::WireUnreadable => const { &[Row::new("one process is missing: {error}")] },
        IssueCode::CuptiKept | IssueCode::CuptiKeptForGraphs => const { &[Row::new("CUPTI stayed attached to process {process} while nothing was recorded, which slows launches: {why}")] },
        IssueCode::CuptiNotAgain => const { &[
            Row::new(NOT_AGAIN).when("status", "39").hint(OTHER_PROFILER),
            Row::new(NOT_AGAIN).when("status", "35").hint(RESTRICTED),
            Row::new(NOT_AGAIN).when("status", "40").hint(RESTRICTED),
            Row::new(NOT_AGAIN).when("status", "0").hint(OTHER_CUPTI),
            Row::new(NOT_AGAIN),
        ] },
        IssueCode::CuptiRefused => const { &[
            Row::new(REFUSED).when("status", "39").hint(OTHER_PROFILER),
            Row::new(REFUSED).when("status", "35").hint(RESTRICTED),
            Row::new(REFUSED).when("status", "40").hint(RESTRICTED),
            Row::new(REFUSED).when("status", "0").hint(OTHER_CUPTI),
            Row::new(REFUSED),
        ] },
        IssueCode::CuptiDropped => const { &[Row::new("CUDA records dropped: {why}")] },
        IssueCode::CuptiBrokenOff => const { &[
            Row::new("CUDA recording incomplete: {why}").when("folder", "cupti")
        .hint("`llmprof import` reads the partial recording in {folder}"),
            Row::new("CUDA recording incomplete: {why}"),
        ] },
        IssueCode::CuptiUnavailable => const { &[
            Row::new("CUDA not recorded: {why}").when("missing", "library")
        .hint("`cargo build --release` builds it beside the binary, the wheel of llmprof-harness installs it; or set LLMPROF_INJECT to its path"),
            Row::new("CUDA not recorded: {why}"),
        ] },
        IssueCode::CuptiFirstBatch => const { &[Row::new("CUDA recorded in the first of {batches:batch} only")] },
        IssueCode::CuptiSlices => const { &[Row::new("CUDA sampled in slices to stay within pipeline.cupti.overhead: phases consist of the steps that were recorded whole")] },
        IssueCode::SlicesNone => const { &[
            Row::new("no slice recorded: the program ended before the overhead budget allowed one, or outside the time or the range that recording was limited to").when("bounded", "true")
        .hint(MORE_SLICES),
            Row::new("no slice recorded: the program ended before the overhead budget allowed one")
        .hint(MORE_SLICES),
        ] },
        IssueCode::SlicesNotKept => const { &[Row::new("overhead budget exceeded: CUDA Graphs take up to 2 % longer while CUPTI is attached, and it cannot detach")
        .hint("with CUDA Graphs, use a budget of 2% or more")] },
        IssueCode::RecordCuptiStays => const { &[Row::new("CUPTI stays attached between slices and slows launches; the budget covers only what recording adds to that")
        .hint("without --no-detach (in a run: pipeline.cupti.detach=true) CUPTI detaches between slices")] },
        IssueCode::RecordDropped => const { &[Row::new("process {process} dropped records: {why}")] },
        IssueCode::RecordNeverOn => const { &[
            Row::new("nothing recorded: no range `{range}` was open while the command used CUDA")
        .hint("ranges have the names that the program gives them, such as `decode_step`"),
            Row::new("nothing recorded: the window of --after and --for did not overlap the time the command used CUDA").when("bound", "for")
        .hint("both count from the start of the command: `--after 60s --for 10s` records ten seconds, one minute in"),
            Row::new("nothing recorded: the command stopped using CUDA before --after had passed")
        .hint("--after counts from the start of the command"),
        ] },
        IssueCode::RecordRefused => const { &[
            Row::new("nothing recorded of process {process}: {why}"),
            Row::new("nothing recorded: {why}"),
        ] },
        IssueCode::RecordRecorderKilled => const { &[Row::new("llmprof was killed while it recorded, and the command was ended with it: the timeline ends where the processes last wrote")] },
        IssueCode::HostStacksNotBuilt => const { &[Row::new("Python stacks not sampled: this llmprof was built without them; threads and their system calls were")
        .hint("build it with the feature `host-stacks`, which is on by default")] },
        IssueCode::HostStacksNotPermitted => const { &[Row::new("host threads of process {process} not sampled: {why}")
        .hint("run llmprof as the user of that process; in a container add --cap-add SYS_PTRACE; or set kernel.yama.ptrace_scope to 0 or 1")] },
        IssueCode::HostStacksUnsupported => const { &[Row::new("Python stacks of process {process} not sampled: {why}; its threads and their system calls were")
        .hint("CPython 3.11 or newer with a GIL is supported")] },
        IssueCode::HostStacksNotRead => const { &[Row::new("samples of process {process} without Python stacks: {why}")] },
        IssueCode::RecordNoCuda => const { &[Row::new("nothing recorded: no process of the command initialized CUDA")
        .hint("a set-user-ID program, or one that clears its environment, does not load the library")] },
        IssueCode::RunBrokenOff => const { &[
            Row::new("the run failed ({why}); results are from {passes:plain pass} before that"),
            Row::new("the run was interrupted; results are from {passes:plain pass} before that"),
        ] },
        IssueCode::TorchProfilerFirstBatch => const { &[Row::new("torch.profiler recorded the first of {batches:batch} only")] },
        IssueCode::NativePromptsCut => const { &[Row::new("{prompts:prompt} cut to {tokens:token}, the shortest of their batch: prompts of a batch have equal length")
        .hint("runtime.batch_size=1 keeps prompts whole")] },
        IssueCode::DatasetSamplesSkipped => const { &[Row::new("samples skipped; the first, {first}: {why}")
        .hint("predictions/skipped.jsonl lists them; mend the files and run again in a new directory")] },
        IssueCode::VisionImagesDiffer => const { &[Row::new("requests whose images became other sizes than the first request's: the vision phase is counted for the first")
        .hint("dataset.subset_filelist with pages of one size gives one workload")] },
        IssueCode::DirectInferenceTornLine => const { &[Row::new("the last prediction of a killed run was incomplete ({bytes:byte}) and ran again")] },
        IssueCode::DirectInferencePromptsCut => const { &[Row::new("prompts cut to workload.prompt_tokens ({tokens:token} in all)")
        .hint("raise workload.prompt_tokens")] },
        IssueCode::GroundingMalformed => const { &[Row::new("grounding tags that cannot be read; the first in sample {first}: {what}")] },
        IssueCode::GroundingOutOfRange => const { &[Row::new("boxes with coordinates outside 0 to 999, drawn where they meet the page; the first in sample {first}")] },
        IssueCode::GroundingLabelsNotDrawn => const { &[Row::new("labels beyond ASCII appear as box numbers in the images; info.json and the gallery have their text")] },
        IssueCode::GroundingImageUnreadable => const { &[Row::new("images whose boxes were not drawn; the first, {first}: {why}")] },
        IssueCode::CountersUnavailable => const { &[Row::new("CPU counters unavailable ({counters}): {reason}")] },
        IssueCode::TelemetryNoGpu => const { &[Row::new("GPU telemetry unavailable: {reason}")
        .hint("{variable} names a libnvidia-ml.so.1 outside the loader's path")] },
        IssueCode::TelemetryAmdNotRun => const { &[Row::new("telemetry by AMD SMI was written from its documentation and not run on the hardware; power is the growth of the energy counter")] },
        IssueCode::TelemetryGpuMissing => const { &[Row::new("GPU {gpu} does not exist: the driver reports {gpus:GPU}, numbered from 0")
        .hint("pipeline.telemetry.devices uses the numbers of nvidia-smi, whatever CUDA_VISIBLE_DEVICES is")] },
        IssueCode::TelemetryGpuUnreadable => const { &[Row::new("GPU {gpu} not sampled: {error}")] },
        IssueCode::TelemetryGpuColumns => const { &[Row::new("GPU {gpu} ({name}) does not report: {columns}")] },
        IssueCode::TelemetryGpuEnergyReset => const { &[Row::new("the energy counter of GPU {gpu} ({name}) was reset; energy after that is integrated from power")] },
        IssueCode::TelemetryGpuEnergyDerived => const { &[Row::new("GPU {gpu} ({name}) has no energy counter: energy is integrated from power, which drivers average over up to a second")] },
        IssueCode::TelemetryNoStat => const { &[Row::new("CPU utilization unknown: {reason}")] },
        IssueCode::TelemetryNoMeminfo => const { &[Row::new("available memory unknown: {reason}")] },
        IssueCode::TelemetryNoFrequency => const { &[Row::new("CPU frequency unknown: neither cpufreq nor /proc/cpuinfo reports it")] },
        IssueCode::TelemetryNominalFrequency => const { &[Row::new("CPU frequency is the nominal one of /proc/cpuinfo, constant in a virtual machine: throttling is invisible")] },
        IssueCode::TelemetryMissedSamples => const { &[Row::new("machine too busy for {count:sample} of {of}; rates there cover longer intervals")
        .hint("lower pipeline.telemetry.hz")] },
        IssueCode::TelemetryEnergyDenied => const { &[Row::new("CPU energy unknown: {file} is readable by root only")
        .hint("sudo chmod -R a+r /sys/class/powercap/intel-rapl/")] },
        IssueCode::TelemetryNoEnergy => const { &[Row::new("CPU energy unknown: no energy counter in {folder}")
        .hint("virtual machines and containers usually have none")] },
        IssueCode::HardwareUnknown => const { &[
            Row::new("no device specification, so no roofline times")
        .hint("measure this machine with `llmprof hardware measure`, or name a device of `llmprof hardware list` with hardware.spec=NAME"),
            Row::new("no roofline times: no device file for `{name}`")
        .hint("--device NAME names another device"),
        ] },
        IssueCode::HardwareUndescribed => const { &[Row::new("GPU {gpu} is a {name}: {error}")] },
        IssueCode::HardwareDisturbed => const { &[Row::new("CPU peaks were measured while other programs took {share:percent} as much CPU time as the calibration, and are too low; roofline times are too long, MFU and MBU too high")
        .hint("`llmprof hardware measure` on an idle machine calibrates again")] },
        IssueCode::ModelSourceMissing => const { &[Row::new("`{key}` names {path}, which does not exist")
        .hint("`llmprof externals init` brings what third_party/externals.yaml declares")] },
        IssueCode::MemoryDoesNotFit => const { &[Row::new("model {model} does not fit {device}: {needs} of {capacity_bytes:bytes}")
        .hint("a smaller batch or context, workload.weights=fp8 or awq, or a device with more memory")] },
        IssueCode::WorkloadBeyondContext => const { &[Row::new("requests have up to {positions:position}, the model supports {most} (`{key}`)")
        .hint("lower workload.prompt_tokens or infer.max_new_tokens if the generated text matters")] },
        IssueCode::AnalysisBeforeLaunch => const { &[Row::new("device events started before their launch call, the worst by {ahead_ns:ns} (at {start_ns} ns): host and device clocks disagree, and launch latency and idle causes are off by as much")] },
        IssueCode::AnalysisNoDeviceEvents => const { &[Row::new("the trace has no kernels, copies or memsets: no GPU figures")
        .hint("record with device activities enabled")] },
        IssueCode::AnalysisKernelsFolded => const { &[Row::new("kernels after the {rows} with the longest time are summed in one row")] },
        IssueCode::AnalysisOperatorsFolded => const { &[Row::new("operators after the {rows} with the longest time are summed in one row")] },
        IssueCode::AnalysisTooManyNames => const { &[Row::new("kernels not classified: their names come after the first {names}")] },
        IssueCode::SlicesFew => const { &[Row::new("too few slices or whole steps recorded to estimate the whole run")
        .hint(MORE_SLICES)] },
        IssueCode::RunProcessorsShared => const { &[
            Row::new("latencies are longer than on a quiet machine: other programs kept {others:number} of {cpus:CPU} busy during the plain passes, and runnable threads of the worker waited {waiting:number} s per second for a CPU (CPUs contended {contended_share:percent} of the time)")
        .hint("run again when nothing else runs; `top` shows what does"),
            Row::new("latencies may be longer than on a quiet machine: other programs kept {others:number} of {cpus:CPU} busy during the plain passes, and no CPU was free {contended_share:percent} of the time")
        .hint("run again when nothing else runs; `top` shows what does"),
        ] },
        IssueCode::RunProcessorsThrottled => const { &[Row::new("latencies are those of the CPU quota, not of the machine: it withheld {throttled:number} of {cpus:CPU} during the plain passes; the worker used {worker:number}")
        .hint("raise the container's CPU limit (cpu.max, --cpus, limits.cpu), or give the worker no more threads than it allows")] },
        IssueCode::RunProcessorsStolen => const { &[Row::new("latencies are longer than on dedicated CPUs: the hypervisor gave {stolen:number} of {cpus:CPU} to other machines during the plain passes")
        .hint("run again later, or on a machine with dedicated CPUs")] },
        IssueCode::RunIssuesDropped => const { &[Row::new("{count:more issue} of the run are not listed")] },
        IssueCode::RunMissingPeak => const { &[Row::new("{phase} has no roofline time: `{device}` has no {engine} peak for {dtype} (it has: {known})")
        .hint("add the peak to the device file, or compute in a dtype that has one")] },
        IssueCode::LatencyCaptured => const { &[Row::new("latencies include profiling overhead: no pass ran without a profiler")] },
        IssueCode::LatencyNoWarmUp => const { &[Row::new("the first measured pass includes first-use cost: there was no warm-up")
        .hint("runtime.warmup=1")] },
        IssueCode::LatencyNoTokens => const { &[Row::new("request `{request}` of pass {pass} excluded from statistics: it has no tokens")] },
        IssueCode::LatencyUnorderedTokens => const { &[Row::new("request `{request}` of pass {pass} excluded from statistics: tokens before its start or out of order")] },
        IssueCode::WaterfallBelowRoofline => const { &[Row::new("{phase}: matched operators took {matched_ns:ns}, {below_ns:ns} less than their roofline time: the peaks in the device file are too low, or bytes came from a cache")
        .hint("measure the device, or name one whose file has the bandwidths of its caches")] },
        IssueCode::WaterfallOperatorsBelowRoofline => const { &[Row::new("{phase}: {count} of {of:operator call} were faster than their roofline time, the worst {worst_ratio:times}")
        .hint("less ran than the workload states, bytes came from a cache, or the device was measured on a busy machine: `llmprof hardware measure` measures it again")] },
        IssueCode::WaterfallUnattributed => const { &[Row::new("{phase}: {share:percent} of the time of kernels or ops is unattributed")] },
        IssueCode::RunSlowedByCapture => const { &[Row::new("{phase} took {ratio:times} as long in the profiled pass: shares of time and speedups are of that pass")
        .hint("run again on a quiet machine")] },
        IssueCode::RunPlainPassSlower => const { &[Row::new("{phase} took {ratio:times} as long in the profiled pass as in the plain passes: something else slowed the plain passes, and latencies are too long")
        .hint("run again on a quiet machine, with more warm-up or passes")] },
        IssueCode::RunOtherSteps => const { &[Row::new("decode: launch patterns show {shown:step}, the workload states {steps}; the analysis uses {shown}")] },
        IssueCode::InvariantAbovePeak => const { &[Row::new("{phase}: roofline, MFU and MBU left out: {figure} would be {share:percent}, since the work of the model and workload does not fit in the {wall_ns:ns} recorded")
        .hint("check the model, runtime.batch_size, workload.prompt_tokens, infer.max_new_tokens and the device")] },
        IssueCode::RunUnmatchedOperators => const { &[Row::new("{phase}: operator calls not matched to the model, first `{path}`: {reason:unmatched}")] },
        IssueCode::RunMissingOperators => const { &[
            Row::new("{phase}: operators of the model have no event of their own (fused into others, or not recorded), first `{path}`").when("fused", "true"),
            Row::new("{phase}: operators of the model did not run, first `{path}`"),
        ] },
        IssueCode::InvariantTraining => const { &[Row::new("the trace shows training, and the work of `{model}` is counted for inference: no roofline times, no MFU and no MBU, and nothing says that this model ran")
        .hint("leave the model out")] },
        IssueCode::HardwareDiffers => const { &[Row::new("the trace names `{recorded}`, and `{device}` was given: roofline times, MFU and MBU are those of a device that did not run it")
        .hint("leave the device out, and the one that the trace names is used")] },
        IssueCode::HardwareByFigures => const { &[Row::new("the trace names no device; {units} SMs or CUs and {memory_bytes:bytes} of memory are those of `{device}`")] },
        IssueCode::HardwareAmbiguous => const { &[Row::new("no roofline times: the trace names no device, and {units} SMs or CUs and {memory_bytes:bytes} of memory are those of {devices}")
        .hint("name one: --device NAME")] },
        IssueCode::HardwareNotDescribed => const { &[Row::new("no roofline times: the trace names no device, and no device file has {units} SMs or CUs and {memory_bytes:bytes} of memory")
        .hint("name one, or a file of your own: --device NAME|FILE.yaml")] },
        IssueCode::PowerLimitSet => const { &[Row::new("GPU {gpu}: power limit {limit_w:watts} while the run lasted, {before_w:watts} before and after it")] },
        IssueCode::PowerLimitRefused => const { &[Row::new("GPU {gpu}: the power limit of {limit_w:watts} was not set: {reason}")
        .hint("run as root or with CAP_SYS_ADMIN, or hardware.power_limit_w=null")] },
        IssueCode::PowerLimitKept => const { &[Row::new("GPU {gpu}: the power limit stayed at {limit_w:watts}, it was {before_w:watts}: {reason}")
        .hint("`nvidia-smi -i GPU -pl WATTS` restores it")] },
        IssueCode::RunNoCapture => const { &[Row::new("no waterfall: no pass recorded operators")] },
        IssueCode::RunUnnamedStacks => const { &[Row::new("the trace has no ranges `encode`, `prefill` and `decode`, which separate the two stacks of this model: no roofline")
        .hint("put ranges of these names around them; runtime=pytorch does")] },
        IssueCode::RunUnnamedSteps => const { &[
            Row::new("the trace does not name its steps: taken for decode steps").when("taken_for", "decode")
        .hint("infer.max_new_tokens=1 if they are prefills"),
            Row::new("the trace does not name its steps: taken for {taken_for}")
        .hint("infer.max_new_tokens=2 or more if they are decode steps"),
        ] },
        IssueCode::RunPartialPhase => const { &[Row::new("{phase}: ranges recorded in part are left out")] },
        IssueCode::RunFewSteps => const { &[
            Row::new("{phase} was sampled in {steps} of {of_steps:step} only; others may differ")
        .hint(MORE_SLICES),
            Row::new("{phase} was sampled in {steps:whole step} only; others may differ")
        .hint(MORE_SLICES),
        ] },
        IssueCode::RunUnrecordedPhase => const { &[
            Row::new("no figures for {phase}: slices hold {share:percent} of it, but no whole step or range")
        .hint(MORE_SLICES),
            Row::new("no figures for {phase}: it lies between slices")
        .hint(MORE_SLICES),
        ] },
        IssueCode::ModelUncounted => const { &[
            Row::new("no roofline times, MFU or MBU, and operators are classified by name: model type `{model_type}` is not supported"),
            Row::new("no roofline times, MFU or MBU, and operators are classified by name: {error}"),
            Row::new("no roofline times, MFU or MBU, and operators are classified by name: the config has no `model_type`"),
        ] },
        IssueCode::RunHostOnly => const { &[Row::new("the trace has no device events: phases consist of host ops")
        .hint("record with device activities enabled where there is a device")] },
        IssueCode::RunOutsidePhases => const { &[Row::new("operator calls are in no phase")] },
        IssueCode::RunNoDevice => const { &[Row::new("no roofline times, MFU or MBU: no device named")
        .hint("name one with `--device` or `hardware.spec`, or measure this machine with `llmprof hardware measure`")] },
        IssueCode::RunNoModel => const { &[Row::new("no MFU, MBU or roofline times of operators, and work is classified by name: no model named")
        .hint("`llmprof import FILE model=NAME` names it; where neither labels nor shapes show the work, state it too: workload.prompt_tokens=N infer.max_new_tokens=T, and runtime.batch_size=B unless it is 1")] },
        IssueCode::RunSeveralDevices => const { &[Row::new("no roofline times: the trace has {devices:device} and does not say how the model is divided among them")
        .hint("import the trace of one device")] },
        IssueCode::RunNoWork => const { &[Row::new("no waterfall: the trace has neither device events nor host ops")
        .hint("record with ops or device activities enabled")] },
        IssueCode::ReportTimelineCut => const { &[Row::new("the timeline omits the {left_out} innermost of {of:event}")
        .hint("`llmprof export RUN --to chrome` has all of them")] },
        IssueCode::NsysStatsCutRow => const { &[Row::new("rows cut or damaged, skipped; the first at line {line} ({cells:cell}, header {columns})")] },
        IssueCode::NsysStatsBadRow => const { &[
            Row::new("rows with unreadable values skipped; the first at line {line}, column `{column}`: {cell}"),
            Row::new("rows without the column `{column}` skipped; the first at line {line}"),
            Row::new("rows with values out of range skipped; the first at line {line}"),
        ] },
        IssueCode::NsysStatsNotUtf8 => const { &[Row::new("rows with text that is not UTF-8; the first at line {line}")] },
        IssueCode::NcuNotUtf8 => const { &[Row::new("{place}: rows with text that is not UTF-8; the first at line {line}")] },
        IssueCode::NcuBadLaunch => const { &[Row::new("{place}: rows skipped, whose launch cannot be read; the first at line {line}, column `{column}`")] },
        IssueCode::NcuIdReused => const { &[Row::new("{place}: launch ids used again by another kernel; the first at line {line}, launch {launch}")] },
        IssueCode::NcuTwoValues => const { &[Row::new("{place}: metrics with a second, different value; the first at line {line}")] },
        IssueCode::NcuNoRows => const { &[Row::new("{place}: the page ends after its header")] },
        IssueCode::NcuBadUnits => const { &[Row::new("{place}: values unknown: the row of units is missing or cut (line {line})")] },
        IssueCode::NcuCutRow => const { &[Row::new("{place}: rows cut or damaged, skipped; the first at line {line} ({cells:cell})")] },
        IssueCode::NcuBadValue => const { &[Row::new("{place}: values that are not numbers; the first at line {line}, metric `{metric}`: `{cell}`")] },
        IssueCode::NcuNameless => const { &[Row::new("{place}: rows without a metric name skipped; the first at line {line}")] },
        IssueCode::NcuTwoNotations => const { &[Row::new("{place}: numbers are written in two ways ({points:cell} with a decimal point, {commas:cell} with a decimal comma): those of the rarer are wrong")
        .hint("export the page with one locale: LC_ALL=C ncu --csv …")] },
        IssueCode::NcuNotationAssumed => const { &[Row::new("{place}: whether a comma or point stands before decimals or between thousands is open in all of {numbers} numbers; a decimal point is assumed")
        .hint("export the page with a known locale: LC_ALL=C ncu --csv …")] },
        IssueCode::NcuMeansOfLaunches => const { &[Row::new("{place}: a summary per kernel: {kernels:kernel} with the mean values of {launches:launch}; single launches are not in it")] },
        IssueCode::NcuBadSpeedup => const { &[Row::new("{place}: estimated speedups that cannot be read; the first at line {line}: `{cell}`")] },
        IssueCode::NsysUnusableRow => const { &[Row::new("table {table}: rows without a usable value skipped; the first is row {row}, column {column}")] },
        IssueCode::NsysMissingColumn => const { &[Row::new("table {table} skipped: it has no column {column}")] },
        IssueCode::NsysTooManyRows => const { &[Row::new("table {table} has more rows than a file of its size can hold; reading stopped after row {row}")] },
        IssueCode::NsysDamagedTable => const { &[Row::new("table {table} is truncated after row {row}: {error}")] },
        IssueCode::NsysDevicesRenumbered => const { &[Row::new("processes number their GPUs differently; events carry the machine's GPU numbers")] },
        IssueCode::NsysNotRead => const { &[Row::new("table {table}: events of a kind that is not imported")] },
        IssueCode::NsysOpenRange => const { &[Row::new("table {table}: ranges that were not closed end with the capture")] },
        IssueCode::NsysUnknownNvtx => const { &[Row::new("table {table}: events of an unknown type skipped")] },
        IssueCode::NsysGraphsWhole => const { &[Row::new("CUDA Graphs were recorded as one event each, without their kernels")
        .hint("`nsys profile --cuda-graph-trace=node` records the kernels")] },
        IssueCode::NsysGraphsWithoutTime => const { &[Row::new("CUDA Graphs missing: the driver could not take their times")] },
        IssueCode::NsysEndsBeforeStart => const { &[Row::new("table {table}: events that end before they start count as 0 ns")] },
        IssueCode::GpuTelemetryBadRow => const { &[Row::new("lines that are not samples skipped; the first is line {line}")] },
        IssueCode::GpuTelemetryNoTimes => const { &[Row::new("`nvidia-smi dmon` printed no times: samples are shown one second apart, its default")
        .hint("nvidia-smi dmon -o DT prints them")] },
        IssueCode::GpuTelemetryOneMoment => const { &[Row::new("`nvidia-smi -q` is one moment: nothing is known of the time around it")
        .hint("nvidia-smi dmon -o DT, or pipeline.telemetry, samples over time")] },
        IssueCode::TorchStatsMissing => const { &[Row::new("{count:statistic} missing, shown as 0")] },
        IssueCode::TorchStatsNoHistory => const { &[Row::new("statistics have no blocks and no times: peaks may belong to different moments, and the largest free block is unknown")
        .hint("torch.cuda.memory._dump_snapshot() has both")] },
        IssueCode::TorchStatsOutOfMemory => const { &[Row::new("{count:allocation} failed for lack of memory")] },
        IssueCode::TorchStatsRetries => const { &[Row::new("{count:allocation} succeeded only after cached memory was returned to the device: the memory is close to full")] },
        IssueCode::CublasLogUnread => const { &[Row::new("{count:GEMM call} without a readable shape excluded")] },
        IssueCode::CublasLogNoTimes => const { &[Row::new("the log has shapes and no times: calls return before the device is done")
        .hint("a trace of the same run (torch.profiler, nsys) has the times")] },
        IssueCode::CublasLogSlowed => const { &[Row::new("cuBLAS wrote its logs while the timeline was recorded: host times of the timeline include that")] },
        IssueCode::CublasLogUnusable => const { &[Row::new("the log {file} cannot be used: {why}")] },
        IssueCode::GemmsNotJoined => const { &[
            Row::new("the {calls:GEMM call} of the cuBLAS log and the {kernels:GEMM kernel} of the timeline do not fit in launch order ({joined} agree): no GEMM has a time")
        .when("in_graphs", "0")
        .hint(ONE_PROCESS),
            Row::new("the {calls:GEMM call} of the cuBLAS log and the {kernels:GEMM kernel} of the timeline do not fit in launch order ({joined} agree; {in_graphs} more are in graphs, which the log has once, at capture): no GEMM has a time")
        .hint(ONE_PROCESS),
        ] },
        IssueCode::GemmsAbovePeak => const { &[Row::new("{kernel}: its shape by launch order gives {rate} TFLOP/s, above the peak of the device: the cuBLAS log is not of this timeline, and no GEMM has a time")
        .hint(ONE_PROCESS)] },
        IssueCode::GemmsPartlyJoined => const { &[
            Row::new("{joined} of {kernels:GEMM kernel} have a shape from the cuBLAS log ({share} of their time)")
        .when("in_graphs", "0"),
            Row::new("{joined} of {kernels:GEMM kernel} have a shape from the cuBLAS log ({share} of their time); {in_graphs} more are in graphs, which the log has once, at capture"),
        ] },
        IssueCode::RocprofNotRun => const { &[Row::new("the importer for rocprofv3 was written from its documentation and not run on the hardware")] },
        IssueCode::RocprofEndsBeforeStart => const { &[Row::new("{count:event} that end before they start count as 0 ns")] },
        IssueCode::RocprofUnread => const { &[Row::new("{count:row} cut or without times, skipped")] },
        IssueCode::TrtexecOtherLayers => const { &[Row::new("{count:layer} of the profile are not in the layer information")
        .hint("give the profile and the layer information of one engine")] },
        IssueCode::TrtexecAboveRoofline => const { &[Row::new("layers of type {kind} took less than their roofline time: another device, or bytes from caches")] },
        IssueCode::BenchClientLate => const { &[
            Row::new("the client was late (p99 {late_p99_ns:ns}) though its busiest worker used {cpu_share:percent} of a core: the hypervisor took {steal_share:percent} of this machine's CPU time (steal), latencies are partly the client's, and nothing is concluded about the server").when("waits_for_cpu", "true")
        .hint("run the client on a machine whose CPUs are not shared"),
            Row::new("the client was late (p99 {late_p99_ns:ns}) though its busiest worker used {cpu_share:percent} of a core: this machine is contended, latencies are partly the client's, and nothing is concluded about the server").when("waits_for_cpu", "true")
        .hint("run again when nothing else runs, or on a machine or cores apart from the server"),
            Row::new("the client was late (p99 {late_p99_ns:ns}, busiest worker {cpu_share:percent} of a core): latencies are partly its own, and nothing is concluded about the server")
        .hint(CLIENT_APART),
            Row::new("the client's busiest worker used {cpu_share:percent} of a core: latencies are partly its own, and nothing is concluded about the server")
        .hint(CLIENT_APART),
        ] },
        IssueCode::BenchSweepClientLate => const { &[Row::new("the client did not keep up at the lowest rate that failed the objectives: the server may meet them at higher rates")
        .hint(CLIENT_APART)] },
        IssueCode::BenchFailed => const { &[Row::new("{count} of {requests:request} failed ({kind}) and are in no latency; the first: {first}")] },
        IssueCode::BenchTokensUnknown => const { &[Row::new("{count:request} without a token count, since the server sends no usage: TPOT, ITL and token rates leave them out")
        .hint(TOKENIZER)] },
        IssueCode::BenchUsageWrong => const { &[Row::new("{count:request} with a usage that contradicts itself ({first}): their tokens are not counted")
        .hint(TOKENIZER)] },
        IssueCode::BenchTokensTogether => const { &[Row::new("{share:percent} of the tokens arrived together with others: ITL divides a gap among its tokens; arrival_gap_ms does not")] },
        IssueCode::BenchNotRunOnTheRealThing => const { &[Row::new("runtime for {server}: never run against a real server; only its config and documented formats are tested")] },
        IssueCode::BenchNotRecorded => const { &[Row::new("the server's GPUs are not recorded: {why}")] },
        IssueCode::BenchServerLeft => const { &[Row::new("the server could not be ended: {why}")] },
        IssueCode::BenchProfiled => const { &[
            Row::new("the server's profiler ran, or wrote its trace, for {for_ns:ns} from {from_ns:ns} on: no request had ended before, and all latencies are longer than without it").when("all", "true")
        .hint("start the profile later (--profile-after), or send more requests; vLLM writes its trace sooner with --profiler-config.torch_profiler_with_stack=false"),
            Row::new("the server's profiler ran, or wrote its trace, for {for_ns:ns} from {from_ns:ns} on: {count:request} that ended after its start are in no latency; throughput includes the pause")
        .hint("vLLM writes its trace sooner with --profiler-config.torch_profiler_with_stack=false"),
        ] },
        IssueCode::BenchTrace => const { &[Row::new("the server's trace was not analyzed: {why}")] },
        IssueCode::BenchNoTelemetry => const { &[Row::new("CPUs and GPUs of this machine were not sampled: {why}")] },
        IssueCode::BenchSteps => const { &[Row::new("engine steps of the server's trace cannot be joined with requests: {why}")] },
        IssueCode::BenchNoMetrics => const { &[Row::new("the server's metrics cannot be scraped: {why}")
        .hint("queueing and prefill stay one part; start the server with metrics, or use --no-metrics")] },
        IssueCode::BenchPageUnread => const { &[Row::new("{url} cannot be scraped: {why}")] },
        IssueCode::BenchScrapesFailed => const { &[Row::new("{count:scrape} of the server's metrics failed")] },
        IssueCode::BenchTokenizerFailed => const { &[Row::new("tokens are not counted from there on: {why}")
        .hint("--tokenizer with the tokenizer.json of the served model")] },
        IssueCode::BenchOverloaded => const { &[Row::new("the queue grew: {asked_per_s:number} requests/s were asked for, {sent_per_s:number} sent and {served_per_s:number} served. Requests waited {first_ns:ns} for their first token at the start and {last_ns:ns} at the end: latencies show how long the load ran")
        .hint("a lower --rate, or --sweep for the highest rate that meets an objective")] },
        IssueCode::BenchServerStopped => const { &[Row::new("the server stopped answering at {at_ns:ns}: {count} of {requests:request} failed then or later; steady state ends there")] },
        IssueCode::BenchServerRestarted => const { &[Row::new("counters of the server fell: it was started again during the load")] },
        IssueCode::BenchNotProfiled => const { &[
            Row::new("the server was not profiled: {least} requests never ran at once").when("reason", "never_full")
        .hint("lower --profile-when-running, or send more requests"),
            Row::new("the server was not profiled: the load was over before --profile-after").when("reason", "load_ended")
        .hint("lower --profile-after, or send more requests"),
            Row::new("the server was not profiled: interrupted before its trace was written").when("reason", "interrupted")
        .hint("wait for the trace: a server may take minutes to write it; --profile-for takes a shorter time"),
            Row::new("the server was not profiled: no new trace in {folder}").when("reason", "no_trace")
        .hint("--profile-dir must be the folder that the server writes traces to"),
            Row::new("the server was not profiled: {why}").when("server", "SGLang")
        .hint("SGLang writes traces where SGLANG_TORCH_PROFILER_DIR or output_dir says"),
            Row::new("the server was not profiled: {why}")
        .hint("vLLM has the endpoint only where it was started with --profiler-config.profiler=torch --profiler-config.torch_profiler_dir=DIR"),
        ] },
        IssueCode::Foreign(_) => &[],
    }
}
