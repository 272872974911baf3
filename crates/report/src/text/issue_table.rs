//! The sentences of issues by code, with places for their values. A table: one row per code, or several of which the first that fits is taken.

use llmprof_record::issue::MORE_SLICES;

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
    Row::new("analysis.training", "backward or optimizer ops were recorded: this is training, and terms of inference (TTFT, TPOT, prefill, decode) do not apply"),
    Row::new("invariant.other_model", "the trace looks tokens up in a table of {trace}, the model has one of {model}: this is another model, so there are no roofline times, no MFU and no MBU")
        .hint("name the model that ran: model=NAME or --config config.json"),
    Row::new("invariant.other_layers", "the trace calls attention {trace} times per forward pass, the model has {model} layers: this is another model, so there are no roofline times, no MFU and no MBU")
        .hint("name the model that ran, with its number of layers: model.config.num_hidden_layers=N"),
    Row::new("invariant.other_shape", "{key}={said}, but operator shapes in the trace show {shown}; the analysis uses {shown}"),
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
    Row::new("ncu.said", "{file}: ncu printed: {text}"),
    Row::new("nsys.said", "Nsight Systems printed: {text}"),
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
    Row::new("cupti.not_again", "slices of process {process} missing: {why}"),
    Row::new("cupti.refused", "process {process} not recorded: {why}"),
    Row::new("cupti.dropped", "CUDA records dropped: {why}"),
    Row::new("cupti.broken_off", "CUDA recording incomplete: {why}"),
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
    Row::new("counters.unavailable", "CPU counters unavailable ({counters}): {reason}"),
    Row::new("telemetry.no_gpu", "GPU telemetry unavailable: {reason}")
        .hint("{variable} names a libnvidia-ml.so.1 outside the loader's path"),
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
];
