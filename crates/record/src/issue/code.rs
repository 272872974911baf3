//! Names of issues. The report words every one of them; a `match` there without an arm for a new code does not compile.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! issue_codes {
    ($($variant:ident = $name:literal,)*) => {
        /// A stable, dotted name that a machine may match: `kineto.truncated`, `telemetry.no_gpu`.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum IssueCode {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
            /// A code of another program's worker, or of another version: it carries its own sentence.
            Foreign(Box<str>),
        }

        impl IssueCode {
            /// Every code that the report words.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Foreign(name) => name,
                }
            }
        }

        impl From<&str> for IssueCode {
            fn from(name: &str) -> Self {
                match name {
                    $($name => Self::$variant,)*
                    other => Self::Foreign(other.into()),
                }
            }
        }
    };
}

issue_codes! {
    AnalysisAutotuning = "analysis.autotuning",
    AnalysisBeforeLaunch = "analysis.before_launch",
    AnalysisConcurrentRanges = "analysis.concurrent_ranges",
    AnalysisCutRange = "analysis.cut_range",
    AnalysisCutSteps = "analysis.cut_steps",
    AnalysisDevicesFolded = "analysis.devices_folded",
    AnalysisEventsMissing = "analysis.events_missing",
    AnalysisEventsTwice = "analysis.events_twice",
    AnalysisFirstStepLong = "analysis.first_step_long",
    AnalysisGemmsAboveRoofline = "analysis.gemms_above_roofline",
    AnalysisGraphCapture = "analysis.graph_capture",
    AnalysisKernelsFolded = "analysis.kernels_folded",
    AnalysisLabelsDropped = "analysis.labels_dropped",
    AnalysisNoDeviceEvents = "analysis.no_device_events",
    AnalysisNoLaunches = "analysis.no_launches",
    AnalysisOperatorsFolded = "analysis.operators_folded",
    AnalysisSaturated = "analysis.saturated",
    AnalysisStepsOfProcesses = "analysis.steps_of_processes",
    AnalysisTooManyNames = "analysis.too_many_names",
    BenchClientLate = "bench.client_late",
    BenchFailed = "bench.failed",
    BenchNoMetrics = "bench.no_metrics",
    BenchNoTelemetry = "bench.no_telemetry",
    BenchNotProfiled = "bench.not_profiled",
    BenchNotRecorded = "bench.not_recorded",
    BenchNotRunOnTheRealThing = "bench.not_run_on_the_real_thing",
    BenchOverloaded = "bench.overloaded",
    BenchPageUnread = "bench.page_unread",
    BenchProfiled = "bench.profiled",
    BenchScrapesFailed = "bench.scrapes_failed",
    BenchTokenizerFailed = "bench.tokenizer_failed",
    BenchServerLeft = "bench.server_left",
    BenchServerRestarted = "bench.server_restarted",
    BenchServerStopped = "bench.server_stopped",
    BenchSteps = "bench.steps",
    BenchSweepClientLate = "bench.sweep_client_late",
    BenchTokensTogether = "bench.tokens_together",
    BenchTokensUnknown = "bench.tokens_unknown",
    BenchTrace = "bench.trace",
    BenchUsageWrong = "bench.usage_wrong",
    CountersUnavailable = "counters.unavailable",
    CublasLogNoTimes = "cublas_log.no_times",
    CublasLogSlowed = "cublas_log.slowed",
    CublasLogUnread = "cublas_log.unread",
    CublasLogUnusable = "cublas_log.unusable",
    CuptiBrokenOff = "cupti.broken_off",
    CuptiDropped = "cupti.dropped",
    CuptiFirstBatch = "cupti.first_batch",
    CuptiKept = "cupti.kept",
    CuptiKeptForGraphs = "cupti.kept_for_graphs",
    CuptiNotAgain = "cupti.not_again",
    CuptiRefused = "cupti.refused",
    CuptiSlices = "cupti.slices",
    CuptiUnavailable = "cupti.unavailable",
    DatasetSamplesSkipped = "dataset.samples_skipped",
    DirectInferencePromptsCut = "direct_inference.prompts_cut",
    DirectInferenceTornLine = "direct_inference.torn_line",
    EngineDropped = "engine.dropped",
    EngineTruncated = "engine.truncated",
    EngineUnknownOperator = "engine.unknown_operator",
    GemmsAbovePeak = "gemms.above_peak",
    GemmsNotJoined = "gemms.not_joined",
    GemmsPartlyJoined = "gemms.partly_joined",
    GpuTelemetryBadRow = "gpu_telemetry.bad_row",
    GpuTelemetryNoTimes = "gpu_telemetry.no_times",
    GpuTelemetryOneMoment = "gpu_telemetry.one_moment",
    GraphsNoOrigin = "graphs.no_origin",
    GroundingImageUnreadable = "grounding.image_unreadable",
    GroundingLabelsNotDrawn = "grounding.labels_not_drawn",
    GroundingMalformed = "grounding.malformed",
    GroundingOutOfRange = "grounding.out_of_range",
    HardwareAmbiguous = "hardware.ambiguous",
    HardwareByFigures = "hardware.by_figures",
    HardwareDiffers = "hardware.differs",
    HardwareDisturbed = "hardware.disturbed",
    HardwareNotDescribed = "hardware.not_described",
    HardwareUndescribed = "hardware.undescribed",
    HardwareUnknown = "hardware.unknown",
    HostStacksNotBuilt = "host_stacks.not_built",
    HostStacksNotPermitted = "host_stacks.not_permitted",
    HostStacksNotRead = "host_stacks.not_read",
    HostStacksUnsupported = "host_stacks.unsupported",
    InvariantAbovePeak = "invariant.above_peak",
    InvariantFewerGemms = "invariant.fewer_gemms",
    InvariantOtherExperts = "invariant.other_experts",
    InvariantOtherFormat = "invariant.other_format",
    InvariantOtherGemm = "invariant.other_gemm",
    InvariantOtherLabel = "invariant.other_label",
    InvariantOtherLayers = "invariant.other_layers",
    InvariantOtherModel = "invariant.other_model",
    InvariantOtherRows = "invariant.other_rows",
    InvariantOtherShape = "invariant.other_shape",
    InvariantTraining = "invariant.training",
    ImportLeftOut = "import.left_out",
    KinetoBadField = "kineto.bad_field",
    KinetoDevicesRenumbered = "kineto.devices_renumbered",
    KinetoDevicesUnreadable = "kineto.devices_unreadable",
    KinetoMalformed = "kineto.malformed",
    KinetoNegativeDuration = "kineto.negative_duration",
    KinetoNoDuration = "kineto.no_duration",
    KinetoNoName = "kineto.no_name",
    KinetoNoTime = "kineto.no_time",
    KinetoNotUtf8 = "kineto.not_utf8",
    KinetoRepaired = "kineto.repaired",
    KinetoTruncated = "kineto.truncated",
    KinetoUnpaired = "kineto.unpaired",
    KinetoUnreadPhase = "kineto.unread_phase",
    LatencyCaptured = "latency.captured",
    LatencyNoTokens = "latency.no_tokens",
    LatencyNoWarmUp = "latency.no_warm_up",
    LatencyUnorderedTokens = "latency.unordered_tokens",
    MemoryDoesNotFit = "memory.does_not_fit",
    ModelSourceMissing = "model.source_missing",
    ModelUncounted = "model.uncounted",
    NativePromptsCut = "native.prompts_cut",
    NcclWarned = "nccl.warned",
    NcclInspectorDropped = "nccl_inspector.dropped",
    NcclInspectorTruncated = "nccl_inspector.truncated",
    NcuBadLaunch = "ncu.bad_launch",
    NcuBadSpeedup = "ncu.bad_speedup",
    NcuBadUnits = "ncu.bad_units",
    NcuBadValue = "ncu.bad_value",
    NcuCovered = "ncu.covered",
    NcuCutReport = "ncu.cut_report",
    NcuCutRow = "ncu.cut_row",
    NcuIdReused = "ncu.id_reused",
    NcuLessCovered = "ncu.less_covered",
    NcuMeansOfLaunches = "ncu.means_of_launches",
    NcuMetricReplaced = "ncu.metric_replaced",
    NcuNameless = "ncu.nameless",
    NcuNoMetric = "ncu.no_metric",
    NcuNoRows = "ncu.no_rows",
    NcuNoSection = "ncu.no_section",
    NcuNoSet = "ncu.no_set",
    NcuNotKernels = "ncu.not_kernels",
    NcuNotUtf8 = "ncu.not_utf8",
    NcuNotationAssumed = "ncu.notation_assumed",
    NcuNothingToPlan = "ncu.nothing_to_plan",
    NcuOtherFile = "ncu.other_file",
    NcuSaid = "ncu.said",
    NcuSetReplaced = "ncu.set_replaced",
    NcuTooManyAttributes = "ncu.too_many_attributes",
    NcuTwoNotations = "ncu.two_notations",
    NcuTwoValues = "ncu.two_values",
    NcuUnexpected = "ncu.unexpected",
    NsightEnvironmentKept = "nsight.environment_kept",
    NsightFailed = "nsight.failed",
    NsightNoKernels = "nsight.no_kernels",
    NsightNoTool = "nsight.no_tool",
    NsightNotScrubbed = "nsight.not_scrubbed",
    NsysDamagedTable = "nsys.damaged_table",
    NsysDevicesRenumbered = "nsys.devices_renumbered",
    NsysEndsBeforeStart = "nsys.ends_before_start",
    NsysGraphsWhole = "nsys.graphs_whole",
    NsysGraphsWithoutTime = "nsys.graphs_without_time",
    NsysMissingColumn = "nsys.missing_column",
    NsysNotRead = "nsys.not_read",
    NsysOpenRange = "nsys.open_range",
    NsysSaid = "nsys.said",
    NsysTooManyRows = "nsys.too_many_rows",
    NsysUnknownNvtx = "nsys.unknown_nvtx",
    NsysUnusableRow = "nsys.unusable_row",
    NsysStatsBadRow = "nsys_stats.bad_row",
    NsysStatsCutRow = "nsys_stats.cut_row",
    NsysStatsNotUtf8 = "nsys_stats.not_utf8",
    PowerLimitKept = "power.limit_kept",
    PowerLimitRefused = "power.limit_refused",
    PowerLimitSet = "power.limit_set",
    RanksApart = "ranks.apart",
    RanksMismatched = "ranks.mismatched",
    RanksMissing = "ranks.missing",
    RanksModelDivided = "ranks.model_divided",
    RanksNotAligned = "ranks.not_aligned",
    RanksOtherJob = "ranks.other_job",
    RanksUnread = "ranks.unread",
    RanksWaiting = "ranks.waiting",
    RecordCuptiStays = "record.cupti_stays",
    RecordDropped = "record.dropped",
    RecordMaxSize = "record.max_size",
    RecordNeverOn = "record.never_on",
    RecordNoCuda = "record.no_cuda",
    RecordRecorderKilled = "record.recorder_killed",
    RecordRefused = "record.refused",
    ReportTimelineCut = "report.timeline_cut",
    RocprofEndsBeforeStart = "rocprof.ends_before_start",
    RocprofNotRun = "rocprof.not_run",
    RocprofUnread = "rocprof.unread",
    RunBrokenOff = "run.broken_off",
    RunFewSteps = "run.few_steps",
    RunFewerExperts = "run.fewer_experts",
    RunHostOnly = "run.host_only",
    RunIssuesDropped = "run.issues_dropped",
    RunMissingOperators = "run.missing_operators",
    RunMissingPeak = "run.missing_peak",
    RunNoCapture = "run.no_capture",
    RunNoContext = "run.no_context",
    RunNoDevice = "run.no_device",
    RunNoModel = "run.no_model",
    RunNoWork = "run.no_work",
    RunOneOfRanks = "run.one_of_ranks",
    RunOtherSteps = "run.other_steps",
    RunOutsidePhases = "run.outside_phases",
    RunPartialPhase = "run.partial_phase",
    RunPlainPassSlower = "run.plain_pass_slower",
    RunProcessorsShared = "run.processors_shared",
    RunProcessorsStolen = "run.processors_stolen",
    RunProcessorsThrottled = "run.processors_throttled",
    RunSeveralDevices = "run.several_devices",
    RunSlowedByCapture = "run.slowed_by_capture",
    RunUnknownWorkload = "run.unknown_workload",
    RunUnmatchedOperators = "run.unmatched_operators",
    RunUnnamedStacks = "run.unnamed_stacks",
    RunUnnamedSteps = "run.unnamed_steps",
    RunUnrecordedPhase = "run.unrecorded_phase",
    SlicesFew = "slices.few",
    SlicesNone = "slices.none",
    SlicesNotKept = "slices.not_kept",
    SourcePackingDamaged = "source.packing_damaged",
    TelemetryAmdNotRun = "telemetry.amd_not_run",
    TelemetryEnergyDenied = "telemetry.energy_denied",
    TelemetryGpuColumns = "telemetry.gpu_columns",
    TelemetryGpuEnergyDerived = "telemetry.gpu_energy_derived",
    TelemetryGpuEnergyReset = "telemetry.gpu_energy_reset",
    TelemetryGpuMissing = "telemetry.gpu_missing",
    TelemetryGpuUnreadable = "telemetry.gpu_unreadable",
    TelemetryMissedSamples = "telemetry.missed_samples",
    TelemetryNoEnergy = "telemetry.no_energy",
    TelemetryNoFrequency = "telemetry.no_frequency",
    TelemetryNoGpu = "telemetry.no_gpu",
    TelemetryNoMeminfo = "telemetry.no_meminfo",
    TelemetryNoStat = "telemetry.no_stat",
    TelemetryNominalFrequency = "telemetry.nominal_frequency",
    TorchMemoryActions = "torch_memory.actions",
    TorchMemoryBelowZero = "torch_memory.below_zero",
    TorchMemoryEvents = "torch_memory.events",
    TorchMemoryNoTimes = "torch_memory.no_times",
    TorchMemorySegments = "torch_memory.segments",
    TorchMemoryTrailingBytes = "torch_memory.trailing_bytes",
    TorchProfilerFirstBatch = "torch_profiler.first_batch",
    TorchStatsMissing = "torch_stats.missing",
    TorchStatsNoHistory = "torch_stats.no_history",
    TorchStatsOutOfMemory = "torch_stats.out_of_memory",
    TorchStatsRetries = "torch_stats.retries",
    TraceInputsUnreadable = "trace.inputs_unreadable",
    TrtexecAboveRoofline = "trtexec.above_roofline",
    TrtexecOtherLayers = "trtexec.other_layers",
    VisionImagesDiffer = "vision.images_differ",
    WaterfallBelowRoofline = "waterfall.below_roofline",
    WaterfallOperatorsBelowRoofline = "waterfall.operators_below_roofline",
    WaterfallUnattributed = "waterfall.unattributed",
    WireCut = "wire.cut",
    WireDamaged = "wire.damaged",
    WireDropped = "wire.dropped",
    WireEndsBeforeStart = "wire.ends_before_start",
    WireNotEnded = "wire.not_ended",
    WireNotScrubbed = "wire.not_scrubbed",
    WireOpenRange = "wire.open_range",
    WirePastEdge = "wire.past_edge",
    WireTooManyIds = "wire.too_many_ids",
    WireUnknownRecords = "wire.unknown_records",
    WireUnmatchedRange = "wire.unmatched_range",
    WireUnnamed = "wire.unnamed",
    WireUnreadable = "wire.unreadable",
    WorkloadBeyondContext = "workload.beyond_context",
    XplaneDamaged = "xplane.damaged",
    XplaneUnusableEvent = "xplane.unusable_event",
}

impl IssueCode {
    /// Whether importers raise it for a file whose end is missing. Profilers write device events last, so these are lost first.
    pub fn is_cut_file(&self) -> bool {
        matches!(self, Self::KinetoTruncated | Self::SourcePackingDamaged)
    }
}

impl fmt::Display for IssueCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for IssueCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Any text: workers of others and later versions have codes of their own.
impl JsonSchema for IssueCode {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "IssueCode".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

impl<'de> Deserialize<'de> for IssueCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Ok(Self::from(&*name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_reads_as_it_is_written_and_an_unknown_one_is_kept() {
        for code in IssueCode::ALL {
            let json = serde_json::to_string(code).unwrap();
            assert_eq!(json, format!("\"{code}\""));
            assert_eq!(&serde_json::from_str::<IssueCode>(&json).unwrap(), code);
        }
        let foreign: IssueCode = serde_json::from_str("\"worker.other\"").unwrap();
        assert_eq!(foreign, IssueCode::Foreign("worker.other".into()));
        assert_eq!(foreign.as_str(), "worker.other");
    }
}
