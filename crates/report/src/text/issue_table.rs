//! The sentences of issues by code, with places for their values. A table: one row per code, or several of which the first that fits is taken.

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
    pub(super) code: &'static str,
    /// A key and the value that it must have; an empty key where any will do.
    pub(super) when: (&'static str, &'static str),
    pub(super) text: &'static str,
    pub(super) hint: Option<&'static str>,
}

impl Row {
    const fn new(code: &'static str, text: &'static str) -> Self {
        Self {
            code,
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
pub(super) const ROWS: &[Row] = &[
    Row::new("analysis.autotuning", "XLA's autotuner ran {kernels:kernel} ({time_ns:ns}) to choose among candidates: compilation, in no step"),
    Row::new("analysis.cut_steps", "{without} of {launches} launches of `{phase}` have no kernel in the trace: these steps were recorded in part, and have no step time, no roofline time, no MFU and no MBU")
        .hint("synchronize with the device before the profiler stops; record fewer steps where its buffer is full"),
    Row::new("analysis.events_twice", "device events are in the file more than once (of {of} events): counts, sums and overlap are too large")
        .hint("merge traces of different processes only; export the trace again"),
    Row::new("analysis.gemms_above_roofline", "GEMM shapes ran faster than their roofline: they multiply in another format than their inputs have, or the device is another one; they have no % of roofline"),
    Row::new("analysis.graph_capture", "this is a trace of the capture of graphs, which executes nothing: its times say nothing about a step")
        .hint("import it beside the timeline of a run, whose graph kernels it then leads back to modules"),
    Row::new("analysis.events_missing", "the end of the file is missing: GPU idle time is an upper bound, since kernels that are not in it count as idle time"),
    Row::new("analysis.steps_of_processes", "the processes of this trace run different steps at the same time, so that no step is one of all of them: the trace is one phase")
        .hint("import the trace of one process"),
    Row::new("analysis.labels_dropped", "labels of engine steps are not used: from the first of them on, only {share:percent} of the device time was launched in labelled ranges"),
    Row::new("analysis.no_launches", "the trace does not say when kernels were launched: each counts for the range in which it began, which is too late where the GPU runs behind the host")
        .hint("record launches: torch.profiler with ProfilerActivity.CPU and CUDA, nsys with -t cuda"),
    Row::new("analysis.training", "backward or optimizer ops were recorded: this is training, and terms of inference (TTFT, TPOT, prefill, decode) do not apply"),
    Row::new("invariant.other_model", "the embedding table of the trace is {trace}, that of the model {model}: this is another model, so there are no roofline times, no MFU and no MBU")
        .hint("name the model that ran: model=NAME or --config config.json"),
    Row::new("invariant.other_layers", "the trace calls attention {trace} times per forward pass, the model has {model} layers: this is another model, so there are no roofline times, no MFU and no MBU")
        .hint("name the model that ran, with its number of layers: model.config.num_hidden_layers=N"),
    Row::new("invariant.other_gemm", "the largest GEMM of the trace has N={n} and K={k}, which no linear operator of the model has: this is another model or a part of it, so there are no roofline times, no MFU and no MBU")
        .hint("name the model that ran: model=NAME or --config config.json"),
    Row::new("invariant.other_experts", "the trace has kernels of experts (`{kernel}`), the model has no experts: this is another model, so there are no roofline times, no MFU and no MBU")
        .hint("name the model that ran: model=NAME or --config config.json"),
    Row::new("invariant.other_rows", "{phase}: the label or the workload states {stated:new token} a step, but GEMMs of the trace have M={shown}: no roofline times, no MFU and no MBU")
        .hint("check runtime.batch_size and workload.prompt_tokens, or the label"),
    Row::new("invariant.other_label", "{key}={said}, but the labels of the engine's steps state {shown:sequence}; the analysis uses the labels"),
    Row::new("run.unknown_workload", "no roofline times, no MFU and no MBU of {phases}: neither the trace nor the command line says what the model was asked")
        .hint("state it: {keys}"),
    Row::new("run.no_context", "{phase}: the labels of the engine's steps have no context lengths: attention has no roofline time, and MBU is without the KV cache")
        .hint("vLLM's and SGLang's detailed labels have them"),
    Row::new("invariant.fewer_gemms", "{phase}: {found:GEMM kernel} where the model's operators need at least {needed}: a part of the step was recorded, another model ran, or one kernel does many GEMMs; no roofline times, no MFU and no MBU"),
    Row::new("invariant.other_format", "most GEMM time is in kernels of 8 or fewer bits (`{kernel}`), but the model's weights have 16 or more: a quantized checkpoint ran, so there are no roofline times, no MFU and no MBU")
        .hint("name the checkpoint that ran: --config config.json with its quantization_config, or workload.weights=fp8"),
    Row::new("run.one_of_ranks", "the trace is of one of several ranks, and no shapes show which part of the model it runs: no roofline times, no MFU and no MBU"),
    Row::new("run.fewer_experts", "{phase}: in {faster} of {layers} calls the expert kernels took less time than the {expected} experts of uniform routing need at peak bandwidth: at most {at_most} were read in the mean; roofline times and MBU are upper bounds"),
    Row::new("invariant.other_shape", "{key}={said}, but operator shapes in the trace show {shown}; the analysis uses {shown}"),
    Row::new("nccl.warned", "NCCL printed: {text}"),
    Row::new("nccl_inspector.truncated", "the file ends inside a record, or one is not JSON, at byte {byte}; the records before it are read"),
    Row::new("nccl_inspector.dropped", "operations overwritten in the ring of NCCL Inspector before they were written").hint("a larger NCCL_INSPECTOR_DUMP_COLL_RING_SIZE"),
    Row::new("graphs.no_origin", "kernels launched by CUDA/HIP graphs cannot be attributed to ops: no graph capture is recorded")
        .hint("import the engine's capture trace beside this one: llmprof import trace.json.gz capture.json.gz; or name the model: model=NAME"),
    Row::new("ranks.apart", "the ranks were not recorded at the same time, so their times cannot be compared").hint("profile the same steps on every rank"),
    Row::new("ranks.other_job", "the timelines name different world sizes: they are of different jobs").hint("import the ranks of one job together"),
    Row::new("ranks.model_divided", "the model is divided among ranks, and nothing says how: there are no roofline times, no MFU and no MBU of it"),
    Row::new("ranks.missing", "{have} of {world_size} ranks are here: a slower rank may be among the others"),
    Row::new("ranks.waiting", "rank {rank}: {waiting} of {exposed} exposed communication is waiting for slower ranks; overlapping it with compute gains nothing, balancing the ranks does"),
    Row::new("ranks.not_aligned", "rank {rank} shares no collective with the others: its clock is taken as it is"),
    Row::new("ranks.mismatched", "collectives that seemed to be one on several ranks were not running at the same time, and are left out of skew and waiting"),
    Row::new("trace.inputs_unreadable", "operator input lists whose shapes could not be read"),
    Row::new("kineto.devices_unreadable", "`deviceProperties` cannot be read: {error}"),
    Row::new("kineto.truncated", "the file ends inside an event or before the event list is closed, at byte {byte}")
        .hint("copy the file again, or wait until the profiler has finished writing it"),
    Row::new("kineto.malformed", "events that are not valid JSON skipped; the first at byte {byte}"),
    Row::new("kineto.repaired", "strings with unescaped quotes read up to the matching quote; the first at byte {byte}"),
    Row::new("kineto.not_utf8", "names that are not UTF-8 contain replacement characters; the first at byte {byte}"),
    Row::new("kineto.no_time", "events without a valid time (`ts`) skipped; the first at byte {byte}"),
    Row::new("kineto.no_duration", "slices without a valid duration (`dur`) count as 0 ns; the first at byte {byte}"),
    Row::new("kineto.negative_duration", "slices with a negative duration count as 0 ns; the first at byte {byte}"),
    Row::new("kineto.no_name", "events without a name; the first at byte {byte}"),
    Row::new("kineto.bad_field", "fields of the wrong type or out of range ignored; the first at byte {byte}"),
    Row::new("kineto.unpaired", "begin and end events without their counterpart skipped; the first at byte {byte}"),
    Row::new("kineto.unread_phase", "events of unsupported kinds (counters, async, objects) skipped; the first at byte {byte}"),
    Row::new("engine.dropped", "the recorder was full: the time of dropped operator calls appears as idle"),
    Row::new("engine.truncated", "the file ends before its last operator calls"),
    Row::new("engine.unknown_operator", "operator calls name an operator that the file does not list"),
    Row::new("source.packing_damaged", "the {packing} stream is truncated after {bytes:unpacked byte} ({error}); the rest is dropped")
        .hint("copy the file again from where it was written"),
    Row::new("ncu.other_file", "{file} is not an Nsight Compute page; skipped"),
    Row::new("ncu.cut_report", "{file} ends inside a block at byte {byte}; the launches before it are read").hint("ncu was ended before it wrote the report; profile fewer launches"),
    Row::new("ncu.too_many_attributes", "{file}: launches × device attributes exceed {limit} values, the limit for a file of its size; launches after that have none"),
    Row::new("ncu.not_kernels", "{file}: results of ranges and graphs as a whole are not read; only kernels are"),
    Row::new("ncu.no_set", "Nsight Compute has no set {set}; it is left out").hint("ncu --list-sets"),
    Row::new("ncu.set_replaced", "the set {set} is named {by} in this Nsight Compute"),
    Row::new("ncu.no_section", "Nsight Compute has no section {section}; it is left out").hint("ncu --list-sections"),
    Row::new("ncu.no_metric", "Nsight Compute has no metric {metric} on this chip; it is left out").hint("ncu --query-metrics"),
    Row::new("ncu.metric_replaced", "{metric} is {by} on this chip"),
    Row::new("ncu.nothing_to_plan", "no kernel of the timeline is inside a range `{range}`; no counters were collected").hint("pipeline.ncu.range=null covers all kernels"),
    Row::new("ncu.unexpected", "profiled launches that the timeline does not have: the program launched other kernels under ncu").hint("a model that chooses kernels by timing differs from run to run"),
    Row::new("ncu.covered", "Nsight Compute profiled {launches} launches, which stand for {share} of the device time asked for, in {seconds} s"),
    Row::new("ncu.less_covered", "profiled launches stand for {share} of device time, {wanted} were asked for").hint("pipeline.ncu.steps=1, or a later ncu"),
    Row::new("nsight.no_tool", "{why}"),
    Row::new("nsight.failed", "{tool} failed: {what}"),
    Row::new("nsight.no_kernels", "{tool} recorded no kernel").hint("the recorded range held no CUDA work"),
    Row::new("nsight.environment_kept", "{report} keeps the command line of the worker; {withheld:variable} that look like credentials were withheld from it, and their values overwritten where they stand in it. The CSV files hold none of it")
        .when("tool", "ncu")
        .hint("delete it before you pass the run on: reports are made again without it"),
    Row::new("nsight.environment_kept", "{report} keeps the environment and command line of the worker and the processes of the machine; {withheld:variable} that look like credentials were withheld from it, and their values overwritten where they stand in it. run.sqlite and the CSV files hold none of it")
        .hint("delete it before you pass the run on: reports are made again without it"),
    Row::new("nsight.environment_kept", "reports of Nsight (.nsys-rep, .sqlite, .ncu-rep) hold the environment and command line of the worker; look at them before you pass them on"),
    Row::new("nsight.not_scrubbed", "the environment, command line and processes could not be taken out of {report}: {why}")
        .hint("look at it before you pass it on"),
    Row::new("wire.not_scrubbed", "what looks like a credential could not be taken out of {file}: {why}")
        .hint("look at it before you pass it on"),
    Row::new("ncu.said", "{file}: ncu printed: {text}"),
    Row::new("nsys.said", "Nsight Systems printed: {text}"),
    Row::new("analysis.saturated", "a sum of times, bytes or operations exceeds 64 bits: numbers of the input are damaged, and totals are not to be trusted"),
    Row::new("record.max_size", "recording stopped when its files reached their size limit (`record --max-size`, or a quarter of the free disk); what came later is not recorded"),
    Row::new("torch_memory.segments", "{count:segment} without sizes or blocks excluded from all sums"),
    Row::new("torch_memory.events", "{count:event} without action, address or size excluded from the history"),
    Row::new("torch_memory.actions", "{count:event} with an unknown action excluded from the history"),
    Row::new("torch_memory.no_times", "{count:event} without a time: the history counts events instead of nanoseconds"),
    Row::new("torch_memory.below_zero", "allocated memory would be negative at {count:point} of the history: it does not belong to these segments, or events are missing"),
    Row::new("torch_memory.trailing_bytes", "{count:byte} after the end of the pickle ignored"),
    Row::new("wire.dropped", "records dropped: {why}"),
    Row::new("wire.damaged", "the file of process {process} is damaged at byte {byte}; the rest is dropped"),
    Row::new("wire.cut", "the file of process {process} is truncated inside a record at byte {byte}"),
    Row::new("wire.not_ended", "process {process} was killed, exited without cleanup, or is still running: everything after its last flush is missing"),
    Row::new("wire.open_range", "ranges that were not closed end with their process"),
    Row::new("wire.unmatched_range", "range ends without a range start"),
    Row::new("wire.unnamed", "kernels whose name was dropped"),
    Row::new("wire.too_many_ids", "events whose correlation, context or graph id is out of range"),
    Row::new("wire.unknown_records", "records of a kind that this version does not know"),
    Row::new("wire.ends_before_start", "events that end before they start count as 0 ns"),
    Row::new("wire.past_edge", "kernels of CUDA Graphs still running when recording stopped excluded: their times may be wrong"),
    Row::new("wire.unreadable", "one process is missing: {error}"),
    Row::new("cupti.kept", "CUPTI stayed attached to process {process} while nothing was recorded, which slows launches: {why}"),
    Row::new("cupti.kept_for_graphs", "CUPTI stayed attached to process {process} while nothing was recorded, which slows launches: {why}"),
    Row::new("cupti.not_again", NOT_AGAIN).when("status", "39").hint(OTHER_PROFILER),
    Row::new("cupti.not_again", NOT_AGAIN).when("status", "35").hint(RESTRICTED),
    Row::new("cupti.not_again", NOT_AGAIN).when("status", "40").hint(RESTRICTED),
    Row::new("cupti.not_again", NOT_AGAIN).when("status", "0").hint(OTHER_CUPTI),
    Row::new("cupti.not_again", NOT_AGAIN),
    Row::new("cupti.refused", REFUSED).when("status", "39").hint(OTHER_PROFILER),
    Row::new("cupti.refused", REFUSED).when("status", "35").hint(RESTRICTED),
    Row::new("cupti.refused", REFUSED).when("status", "40").hint(RESTRICTED),
    Row::new("cupti.refused", REFUSED).when("status", "0").hint(OTHER_CUPTI),
    Row::new("cupti.refused", REFUSED),
    Row::new("cupti.dropped", "CUDA records dropped: {why}"),
    Row::new("cupti.broken_off", "CUDA recording incomplete: {why}").when("folder", "cupti")
        .hint("`llmprof import` reads the partial recording in {folder}"),
    Row::new("cupti.broken_off", "CUDA recording incomplete: {why}"),
    Row::new("cupti.unavailable", "CUDA not recorded: {why}").when("missing", "library")
        .hint("`cargo build --release` builds it beside the binary, `pip install llmprof` installs it; or set LLMPROF_INJECT to its path"),
    Row::new("cupti.unavailable", "CUDA not recorded: {why}"),
    Row::new("cupti.first_batch", "CUDA recorded in the first of {batches:batch} only"),
    Row::new("cupti.slices", "CUDA sampled in slices to stay within pipeline.cupti.overhead: phases consist of the steps that were recorded whole"),
    Row::new("slices.none", "no slice recorded: the program ended before the overhead budget allowed one, or outside the time or the range that recording was limited to").when("bounded", "true")
        .hint(MORE_SLICES),
    Row::new("slices.none", "no slice recorded: the program ended before the overhead budget allowed one")
        .hint(MORE_SLICES),
    Row::new("slices.not_kept", "overhead budget exceeded: CUDA Graphs take up to 2 % longer while CUPTI is attached, and it cannot detach")
        .hint("with CUDA Graphs, use a budget of 2% or more"),
    Row::new("record.cupti_stays", "CUPTI stays attached between slices and slows launches; the budget covers only what recording adds to that")
        .hint("without --no-detach (in a run: pipeline.cupti.detach=true) CUPTI detaches between slices"),
    Row::new("record.dropped", "process {process} dropped records: {why}"),
    Row::new("record.never_on", "nothing recorded: no range `{range}` was open while the command used CUDA")
        .hint("ranges have the names that the program gives them, such as `decode_step`"),
    Row::new("record.never_on", "nothing recorded: the window of --after and --for did not overlap the time the command used CUDA").when("bound", "for")
        .hint("both count from the start of the command: `--after 60s --for 10s` records ten seconds, one minute in"),
    Row::new("record.never_on", "nothing recorded: the command stopped using CUDA before --after had passed")
        .hint("--after counts from the start of the command"),
    Row::new("record.refused", "nothing recorded of process {process}: {why}"),
    Row::new("record.refused", "nothing recorded: {why}"),
    Row::new("record.no_cuda", "nothing recorded: no process of the command initialized CUDA")
        .hint("a set-user-ID program, or one that clears its environment, does not load the library"),
    Row::new("run.broken_off", "the run failed ({why}); results are from {passes:plain pass} before that"),
    Row::new("run.broken_off", "the run was interrupted; results are from {passes:plain pass} before that"),
    Row::new("torch_profiler.first_batch", "torch.profiler recorded the first of {batches:batch} only"),
    Row::new("native.prompts_cut", "{prompts:prompt} cut to {tokens:token}, the shortest of their batch: prompts of a batch have equal length")
        .hint("runtime.batch_size=1 keeps prompts whole"),
    Row::new("dataset.samples_skipped", "samples skipped; the first, {first}: {why}")
        .hint("predictions/skipped.jsonl lists them; a resumed run tries them again"),
    Row::new("vision.images_differ", "requests whose images became other sizes than the first request's: the vision phase is counted for the first")
        .hint("dataset.subset_filelist with pages of one size gives one workload"),
    Row::new("direct_inference.torn_line", "the last prediction of a killed run was incomplete ({bytes:byte}) and ran again"),
    Row::new("direct_inference.prompts_cut", "prompts cut to workload.prompt_tokens ({tokens:token} in all)")
        .hint("raise workload.prompt_tokens"),
    Row::new("grounding.malformed", "grounding tags that cannot be read; the first in sample {first}: {what}"),
    Row::new("grounding.out_of_range", "boxes with coordinates outside 0 to 999, drawn where they meet the page; the first in sample {first}"),
    Row::new("grounding.labels_not_drawn", "labels beyond ASCII appear as box numbers in the images; info.json and the gallery have their text"),
    Row::new("grounding.image_unreadable", "images whose boxes were not drawn; the first, {first}: {why}"),
    Row::new("counters.unavailable", "CPU counters unavailable ({counters}): {reason}"),
    Row::new("telemetry.no_gpu", "GPU telemetry unavailable: {reason}")
        .hint("{variable} names a libnvidia-ml.so.1 outside the loader's path"),
    Row::new("telemetry.amd_not_run", "telemetry by AMD SMI was written from its documentation and not run on the hardware; power is the growth of the energy counter"),
    Row::new("telemetry.gpu_missing", "GPU {gpu} does not exist: the driver reports {gpus:GPU}, numbered from 0")
        .hint("pipeline.telemetry.devices uses the numbers of nvidia-smi, whatever CUDA_VISIBLE_DEVICES is"),
    Row::new("telemetry.gpu_unreadable", "GPU {gpu} not sampled: {error}"),
    Row::new("telemetry.gpu_columns", "GPU {gpu} ({name}) does not report: {columns}"),
    Row::new("telemetry.gpu_energy_reset", "the energy counter of GPU {gpu} ({name}) was reset; energy after that is integrated from power"),
    Row::new("telemetry.gpu_energy_derived", "GPU {gpu} ({name}) has no energy counter: energy is integrated from power, which drivers average over up to a second"),
    Row::new("telemetry.no_stat", "CPU utilization unknown: {reason}"),
    Row::new("telemetry.no_meminfo", "available memory unknown: {reason}"),
    Row::new("telemetry.no_frequency", "CPU frequency unknown: neither cpufreq nor /proc/cpuinfo reports it"),
    Row::new("telemetry.nominal_frequency", "CPU frequency is the nominal one of /proc/cpuinfo, constant in a virtual machine: throttling is invisible"),
    Row::new("telemetry.missed_samples", "machine too busy for {count:sample} of {of}; rates there cover longer intervals")
        .hint("lower pipeline.telemetry.hz"),
    Row::new("telemetry.energy_denied", "CPU energy unknown: {file} is readable by root only")
        .hint("sudo chmod -R a+r /sys/class/powercap/intel-rapl/"),
    Row::new("telemetry.no_energy", "CPU energy unknown: no energy counter in {folder}")
        .hint("virtual machines and containers usually have none"),
    Row::new("hardware.unknown", "no device specification, so no roofline times")
        .hint("measure this machine with `llmprof hardware measure`, or name a device of `llmprof hardware list` with hardware.spec=NAME"),
    Row::new("hardware.undescribed", "GPU {gpu} is a {name}: {error}"),
    Row::new("hardware.disturbed", "CPU peaks were measured while other programs took {share:percent} as much CPU time as the calibration, and are too low; roofline times are too long, MFU and MBU too high")
        .hint("run again on an idle machine: the next run calibrates again"),
    Row::new("model.source_missing", "`{key}` names {path}, which does not exist")
        .hint("`llmprof externals init` brings what third_party/externals.yaml declares"),
    Row::new("memory.does_not_fit", "model {model} does not fit {device}: {needs} of {capacity_bytes:bytes}")
        .hint("a smaller batch or context, workload.weights=fp8 or awq, or a device with more memory"),
    Row::new("workload.beyond_context", "requests have up to {positions:position}, the model supports {most} (`{key}`)")
        .hint("lower workload.prompt_tokens or infer.max_new_tokens if the generated text matters"),
    Row::new("analysis.before_launch", "device events started before their launch call, the worst by {ahead_ns:ns} (at {start_ns} ns): host and device clocks disagree, and launch latency and idle causes are off by as much"),
    Row::new("analysis.no_device_events", "the trace has no kernels, copies or memsets: no GPU figures")
        .hint("record with CUDA activities enabled"),
    Row::new("analysis.kernels_folded", "kernels after the {rows} with the longest time are summed in one row"),
    Row::new("analysis.operators_folded", "operators after the {rows} with the longest time are summed in one row"),
    Row::new("analysis.too_many_names", "kernels not classified: their names come after the first {names}"),
    Row::new("slices.few", "too few slices or whole steps recorded to estimate the whole run")
        .hint(MORE_SLICES),
    Row::new("run.processors_shared", "latencies are longer than on a quiet machine: other programs kept {others:number} of {cpus:CPU} busy during the plain passes, and runnable threads of the worker waited {waiting:number} s per second for a CPU (CPUs contended {contended_share:percent} of the time)")
        .hint("run again when nothing else runs; `top` shows what does"),
    Row::new("run.processors_shared", "latencies may be longer than on a quiet machine: other programs kept {others:number} of {cpus:CPU} busy during the plain passes, and no CPU was free {contended_share:percent} of the time")
        .hint("run again when nothing else runs; `top` shows what does"),
    Row::new("run.processors_throttled", "latencies are those of the CPU quota, not of the machine: it withheld {throttled:number} of {cpus:CPU} during the plain passes; the worker used {worker:number}")
        .hint("raise the container's CPU limit (cpu.max, --cpus, limits.cpu), or give the worker no more threads than it allows"),
    Row::new("run.processors_stolen", "latencies are longer than on dedicated CPUs: the hypervisor gave {stolen:number} of {cpus:CPU} to other machines during the plain passes")
        .hint("run again later, or on a machine with dedicated CPUs"),
    Row::new("run.missing_peak", "{phase} has no roofline time: `{device}` has no {engine} peak for {dtype} (it has: {known})")
        .hint("add the peak to the device file, or compute in a dtype that has one"),
    Row::new("latency.captured", "latencies include profiling overhead: no pass ran without a profiler"),
    Row::new("latency.no_warm_up", "the first measured pass includes first-use cost: there was no warm-up")
        .hint("runtime.warmup=1"),
    Row::new("latency.no_tokens", "request `{request}` of pass {pass} excluded from statistics: it has no tokens"),
    Row::new("latency.unordered_tokens", "request `{request}` of pass {pass} excluded from statistics: tokens before its start or out of order"),
    Row::new("waterfall.below_roofline", "{phase}: matched operators took {matched_ns:ns}, {below_ns:ns} less than their roofline time: the peaks in the device file are too low, or bytes came from a cache")
        .hint("measure the device, or name one whose file has the bandwidths of its caches"),
    Row::new("waterfall.operators_below_roofline", "{phase}: {count} of {of:operator call} were faster than their roofline time, the worst {worst_ratio:times}")
        .hint("less ran than the workload states, bytes came from a cache, or the device was measured on a busy machine: `llmprof hardware measure` measures it again"),
    Row::new("waterfall.unattributed", "{phase}: {share:percent} of the time is unattributed"),
    Row::new("run.slowed_by_capture", "{phase} took {ratio:times} as long in the profiled pass: shares of time and speedups are of that pass")
        .hint("run again on a quiet machine"),
    Row::new("run.plain_pass_slower", "{phase} took {ratio:times} as long in the profiled pass as in the plain passes: something else slowed the plain passes, and latencies are too long")
        .hint("run again on a quiet machine, with more warm-up or passes"),
    Row::new("run.other_steps", "decode: launch patterns show {shown:step}, the workload states {steps}; the analysis uses {shown}"),
    Row::new("invariant.above_peak", "{phase}: roofline, MFU and MBU left out: {figure} would be {share:percent}, since the work of the model and workload does not fit in the {wall_ns:ns} recorded")
        .hint("check the model, runtime.batch_size, workload.prompt_tokens, infer.max_new_tokens and the device"),
    Row::new("run.unmatched_operators", "{phase}: operator calls not matched to the model, first `{path}`: {reason:unmatched}"),
    Row::new("run.missing_operators", "{phase}: operators of the model have no event of their own (fused into others, or not recorded), first `{path}`").when("fused", "true"),
    Row::new("run.missing_operators", "{phase}: operators of the model did not run, first `{path}`"),
    Row::new("hardware.by_figures", "the trace names no device; {units} SMs or CUs and {memory_bytes:bytes} of memory are those of `{device}`"),
    Row::new("hardware.ambiguous", "no roofline times: the trace names no device, and {units} SMs or CUs and {memory_bytes:bytes} of memory are those of {devices}")
        .hint("name one: --device NAME"),
    Row::new("hardware.not_described", "no roofline times: the trace names no device, and no device file has {units} SMs or CUs and {memory_bytes:bytes} of memory")
        .hint("name one, or a file of your own: --device NAME|FILE.yaml"),
    Row::new("hardware.unknown", "no roofline times: no device file for `{name}`")
        .hint("--device NAME names another device"),
    Row::new("power.limit_set", "GPU {gpu}: power limit {limit_w:watts} while the run lasted, {before_w:watts} before and after it"),
    Row::new("power.limit_refused", "GPU {gpu}: the power limit of {limit_w:watts} was not set: {reason}")
        .hint("run as root or with CAP_SYS_ADMIN, or hardware.power_limit_w=null"),
    Row::new("power.limit_kept", "GPU {gpu}: the power limit stayed at {limit_w:watts}, it was {before_w:watts}: {reason}")
        .hint("`nvidia-smi -i GPU -pl WATTS` restores it"),
    Row::new("run.no_capture", "no waterfall: no pass recorded operators"),
    Row::new("run.unnamed_stacks", "the trace has no ranges `encode`, `prefill` and `decode`, which separate the two stacks of this model: no roofline")
        .hint("put ranges of these names around them; runtime=pytorch does"),
    Row::new("run.unnamed_steps", "the trace does not name its steps: taken for decode steps").when("taken_for", "decode")
        .hint("infer.max_new_tokens=1 if they are prefills"),
    Row::new("run.unnamed_steps", "the trace does not name its steps: taken for {taken_for}")
        .hint("infer.max_new_tokens=2 or more if they are decode steps"),
    Row::new("run.partial_phase", "{phase}: ranges recorded in part are left out"),
    Row::new("run.few_steps", "{phase} was sampled in {steps} of {of_steps:step} only; others may differ")
        .hint(MORE_SLICES),
    Row::new("run.few_steps", "{phase} was sampled in {steps:whole step} only; others may differ")
        .hint(MORE_SLICES),
    Row::new("run.unrecorded_phase", "no figures for {phase}: slices hold {share:percent} of it, but no whole step or range")
        .hint(MORE_SLICES),
    Row::new("run.unrecorded_phase", "no figures for {phase}: it lies between slices")
        .hint(MORE_SLICES),
    Row::new("model.uncounted", "no roofline times, MFU or MBU, and operators are classified by name: model type `{model_type}` is not supported"),
    Row::new("model.uncounted", "no roofline times, MFU or MBU, and operators are classified by name: {error}"),
    Row::new("model.uncounted", "no roofline times, MFU or MBU, and operators are classified by name: the config has no `model_type`"),
    Row::new("run.host_only", "the trace has no device events: phases consist of host ops")
        .hint("record with device activities enabled where there is a device"),
    Row::new("run.outside_phases", "operator calls are in no phase"),
    Row::new("run.no_device", "no roofline times, MFU or MBU: no device named")
        .hint("name one with `--device` or `hardware.spec`, or measure this machine with `llmprof hardware measure`"),
    Row::new("run.no_model", "no MFU, MBU or roofline times of operators, and work is classified by name: no model named")
        .hint("`llmprof import FILE model=NAME` names it; where neither labels nor shapes show the work, state it too: workload.prompt_tokens=N infer.max_new_tokens=T, and runtime.batch_size=B unless it is 1"),
    Row::new("run.several_devices", "no roofline times: the trace has {devices:device} and does not say how the model is divided among them")
        .hint("import the trace of one device"),
    Row::new("run.no_work", "no waterfall: the trace has neither device events nor host ops")
        .hint("record with ops or device activities enabled"),
    Row::new("report.timeline_cut", "the timeline omits the {left_out} innermost of {of:event}")
        .hint("`llmprof export RUN --to chrome` has all of them"),
    Row::new("nsys_stats.cut_row", "rows cut or damaged, skipped; the first at line {line} ({cells:cell}, header {columns})"),
    Row::new("nsys_stats.bad_row", "rows with unreadable values skipped; the first at line {line}, column `{column}`: {cell}"),
    Row::new("nsys_stats.bad_row", "rows without the column `{column}` skipped; the first at line {line}"),
    Row::new("nsys_stats.bad_row", "rows with values out of range skipped; the first at line {line}"),
    Row::new("nsys_stats.not_utf8", "rows with text that is not UTF-8; the first at line {line}"),
    Row::new("ncu.not_utf8", "{place}: rows with text that is not UTF-8; the first at line {line}"),
    Row::new("ncu.bad_launch", "{place}: rows skipped, whose launch cannot be read; the first at line {line}, column `{column}`"),
    Row::new("ncu.id_reused", "{place}: launch ids used again by another kernel; the first at line {line}, launch {launch}"),
    Row::new("ncu.two_values", "{place}: metrics with a second, different value; the first at line {line}"),
    Row::new("ncu.no_rows", "{place}: the page ends after its header"),
    Row::new("ncu.bad_units", "{place}: values unknown: the row of units is missing or cut (line {line})"),
    Row::new("ncu.cut_row", "{place}: rows cut or damaged, skipped; the first at line {line} ({cells:cell})"),
    Row::new("ncu.bad_value", "{place}: values that are not numbers; the first at line {line}, metric `{metric}`: `{cell}`"),
    Row::new("ncu.nameless", "{place}: rows without a metric name skipped; the first at line {line}"),
    Row::new("ncu.two_notations", "{place}: numbers are written in two ways ({points:cell} with a decimal point, {commas:cell} with a decimal comma): those of the rarer are wrong")
        .hint("export the page with one locale: LC_ALL=C ncu --csv …"),
    Row::new("ncu.notation_assumed", "{place}: whether a comma or point stands before decimals or between thousands is open in all of {numbers} numbers; a decimal point is assumed")
        .hint("export the page with a known locale: LC_ALL=C ncu --csv …"),
    Row::new("ncu.means_of_launches", "{place}: a summary per kernel: {kernels:kernel} with the mean values of {launches:launch}; single launches are not in it"),
    Row::new("ncu.bad_speedup", "{place}: estimated speedups that cannot be read; the first at line {line}: `{cell}`"),
    Row::new("nsys.unusable_row", "table {table}: rows without a usable value skipped; the first is row {row}, column {column}"),
    Row::new("nsys.missing_column", "table {table} skipped: it has no column {column}"),
    Row::new("nsys.too_many_rows", "table {table} has more rows than a file of its size can hold; reading stopped after row {row}"),
    Row::new("nsys.damaged_table", "table {table} is truncated after row {row}: {error}"),
    Row::new("nsys.devices_renumbered", "processes number their GPUs differently; events carry the machine's GPU numbers"),
    Row::new("nsys.not_read", "table {table}: events of a kind that is not imported"),
    Row::new("nsys.open_range", "table {table}: ranges that were not closed end with the capture"),
    Row::new("nsys.unknown_nvtx", "table {table}: events of an unknown type skipped"),
    Row::new("nsys.graphs_whole", "CUDA Graphs were recorded as one event each, without their kernels")
        .hint("`nsys profile --cuda-graph-trace=node` records the kernels"),
    Row::new("nsys.graphs_without_time", "CUDA Graphs missing: the driver could not take their times"),
    Row::new("nsys.ends_before_start", "table {table}: events that end before they start count as 0 ns"),
    Row::new("gpu_telemetry.bad_row", "lines that are not samples skipped; the first is line {line}"),
    Row::new("gpu_telemetry.no_times", "`nvidia-smi dmon` printed no times: samples are shown one second apart, its default")
        .hint("nvidia-smi dmon -o DT prints them"),
    Row::new("gpu_telemetry.one_moment", "`nvidia-smi -q` is one moment: nothing is known of the time around it")
        .hint("nvidia-smi dmon -o DT, or pipeline.telemetry, samples over time"),
    Row::new("torch_stats.missing", "{count:statistic} missing, shown as 0"),
    Row::new("torch_stats.no_history", "statistics have no blocks and no times: peaks may belong to different moments, and the largest free block is unknown")
        .hint("torch.cuda.memory._dump_snapshot() has both"),
    Row::new("torch_stats.out_of_memory", "{count:allocation} failed for lack of memory"),
    Row::new("torch_stats.retries", "{count:allocation} succeeded only after cached memory was returned to the device: the memory is close to full"),
    Row::new("cublas_log.unread", "{count:GEMM call} without a readable shape excluded"),
    Row::new("cublas_log.no_times", "the log has shapes and no times: calls return before the device is done")
        .hint("a trace of the same run (torch.profiler, nsys) has the times"),
    Row::new("cublas_log.slowed", "cuBLAS wrote its logs while the timeline was recorded: host times of the timeline include that"),
    Row::new("cublas_log.unusable", "the log {file} cannot be used: {why}"),
    Row::new("gemms.not_joined", "the {calls:GEMM call} of the cuBLAS log and the {kernels:GEMM kernel} of the timeline do not fit in launch order ({joined} agree): no GEMM has a time")
        .when("in_graphs", "0")
        .hint(ONE_PROCESS),
    Row::new("gemms.not_joined", "the {calls:GEMM call} of the cuBLAS log and the {kernels:GEMM kernel} of the timeline do not fit in launch order ({joined} agree; {in_graphs} more are in graphs, which the log has once, at capture): no GEMM has a time")
        .hint(ONE_PROCESS),
    Row::new("gemms.above_peak", "{kernel}: its shape by launch order gives {rate} TFLOP/s, above the peak of the device: the cuBLAS log is not of this timeline, and no GEMM has a time")
        .hint(ONE_PROCESS),
    Row::new("gemms.partly_joined", "{joined} of {kernels:GEMM kernel} have a shape from the cuBLAS log ({share} of their time)")
        .when("in_graphs", "0"),
    Row::new("gemms.partly_joined", "{joined} of {kernels:GEMM kernel} have a shape from the cuBLAS log ({share} of their time); {in_graphs} more are in graphs, which the log has once, at capture"),
    Row::new("rocprof.not_run", "the importer for rocprofv3 was written from its documentation and not run on the hardware"),
    Row::new("rocprof.ends_before_start", "{count:event} that end before they start count as 0 ns"),
    Row::new("rocprof.unread", "{count:row} cut or without times, skipped"),
    Row::new("trtexec.other_layers", "{count:layer} of the profile are not in the layer information")
        .hint("give the profile and the layer information of one engine"),
    Row::new("trtexec.above_roofline", "layers of type {kind} took less than their roofline time: another device, or bytes from caches"),
    Row::new("bench.client_late", "the client was late (p99 {late_p99_ns:ns}) though its busiest worker used {cpu_share:percent} of a core: this machine is contended, latencies are partly the client's, and nothing is concluded about the server").when("waits_for_cpu", "true")
        .hint("run again when nothing else runs, or on a machine or cores apart from the server"),
    Row::new("bench.client_late", "the client was late (p99 {late_p99_ns:ns}, busiest worker {cpu_share:percent} of a core): latencies are partly its own, and nothing is concluded about the server")
        .hint(CLIENT_APART),
    Row::new("bench.client_late", "the client's busiest worker used {cpu_share:percent} of a core: latencies are partly its own, and nothing is concluded about the server")
        .hint(CLIENT_APART),
    Row::new("bench.sweep_client_late", "the client did not keep up at the lowest rate that failed the objectives: the server may meet them at higher rates")
        .hint(CLIENT_APART),
    Row::new("bench.failed", "{count} of {requests:request} failed ({kind}) and are in no latency; the first: {first}"),
    Row::new("bench.tokens_unknown", "{count:request} without a token count, since the server sends no usage: TPOT, ITL and token rates leave them out")
        .hint(TOKENIZER),
    Row::new("bench.usage_wrong", "{count:request} with a usage that contradicts itself ({first}): their tokens are not counted")
        .hint(TOKENIZER),
    Row::new("bench.tokens_together", "{share:percent} of the tokens arrived together with others: ITL divides a gap among its tokens; arrival_gap_ms does not"),
    Row::new("bench.not_run_on_the_real_thing", "runtime for {server}: never run against a real server; only its config and documented formats are tested"),
    Row::new("bench.not_recorded", "the server's GPUs are not recorded: {why}"),
    Row::new("bench.server_left", "the server could not be ended: {why}"),
    Row::new("bench.profiled", "the server's profiler ran, or wrote its trace, for {for_ns:ns} from {from_ns:ns} on: no request had ended before, and all latencies are longer than without it").when("all", "true")
        .hint("start the profile later (--profile-after), or send more requests; vLLM writes its trace sooner with --profiler-config.torch_profiler_with_stack=false"),
    Row::new("bench.profiled", "the server's profiler ran, or wrote its trace, for {for_ns:ns} from {from_ns:ns} on: {count:request} that ended after its start are in no latency; throughput includes the pause")
        .hint("vLLM writes its trace sooner with --profiler-config.torch_profiler_with_stack=false"),
    Row::new("bench.trace", "the server's trace was not analyzed: {why}"),
    Row::new("bench.no_telemetry", "CPUs and GPUs of this machine were not sampled: {why}"),
    Row::new("bench.steps", "engine steps of the server's trace cannot be joined with requests: {why}"),
    Row::new("bench.no_metrics", "the server's metrics cannot be scraped: {why}")
        .hint("queueing and prefill stay one part; start the server with metrics, or use --no-metrics"),
    Row::new("bench.page_unread", "{url} cannot be scraped: {why}"),
    Row::new("bench.scrapes_failed", "{count:scrape} of the server's metrics failed"),
    Row::new("bench.server_restarted", "counters of the server fell: it was started again during the load"),
    Row::new("bench.not_profiled", "the server was not profiled: {least} requests never ran at once").when("reason", "never_full")
        .hint("lower --profile-when-running, or send more requests"),
    Row::new("bench.not_profiled", "the server was not profiled: the load was over before --profile-after").when("reason", "load_ended")
        .hint("lower --profile-after, or send more requests"),
    Row::new("bench.not_profiled", "the server was not profiled: interrupted before its trace was written").when("reason", "interrupted")
        .hint("wait for the trace: a server may take minutes to write it; --profile-for takes a shorter time"),
    Row::new("bench.not_profiled", "the server was not profiled: no new trace in {folder}").when("reason", "no_trace")
        .hint("--profile-dir must be the folder that the server writes traces to"),
    Row::new("bench.not_profiled", "the server was not profiled: {why}").when("server", "SGLang")
        .hint("SGLang writes traces where SGLANG_TORCH_PROFILER_DIR or output_dir says"),
    Row::new("bench.not_profiled", "the server was not profiled: {why}")
        .hint("vLLM has the endpoint only where it was started with --profiler-config.profiler=torch --profiler-config.torch_profiler_dir=DIR"),
];
