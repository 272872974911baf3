//! What a request says about Nsight Systems and Nsight Compute.

use std::path::PathBuf;

use llmprof_units::Share;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

use super::{ModelPlace, Plan, RuntimeType, Word};
use crate::command_line;

/// Parts of a program that a tool records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub enum CaptureRange {
    /// All of it, warm-up included.
    #[serde(rename = "none")]
    None,
    /// The batch between `cudaProfilerStart` and `cudaProfilerStop`, which the worker calls.
    #[default]
    #[serde(rename = "cudaProfilerApi")]
    CudaProfilerApi,
    /// The first NVTX range that `nvtx_capture` names.
    #[serde(rename = "nvtx")]
    Nvtx,
    /// Between presses of a key; refused, since nobody sits at a run.
    #[serde(rename = "hotkey")]
    Hotkey,
}

/// How the timeline is recorded.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NsysPlan {
    /// Absent is where there is a CUDA program and the tool; decided before the run starts.
    pub enable: Option<bool>,
    /// The program; looked for where it is absent.
    pub path: Option<PathBuf>,
    /// What is traced, separated by commas: `cuda,nvtx`.
    pub trace: String,
    /// CPU sampling: `none`, `process-tree` or `system-wide`.
    pub sample: String,
    /// Whether only the range that `nvtx_capture` names is recorded.
    pub gating_nvtx: bool,
    /// What starts and ends the capture.
    pub capture_range: CaptureRange,
    /// What follows a range: `stop`, `stop-shutdown`, `repeat:N`; the tool's default where absent.
    pub capture_range_end: Option<String>,
    /// The NVTX range that is recorded: `decode`, `decode@*`.
    pub nvtx_capture: Option<String>,
    /// `node` records each kernel of a CUDA graph, `graph` each graph.
    pub cuda_graph_trace: String,
    /// More options, as they are: a list, or a text that is split as a shell would.
    #[serde(deserialize_with = "read_words")]
    pub args: Vec<Word>,
}

impl Default for NsysPlan {
    fn default() -> Self {
        Self {
            enable: Some(false),
            path: None,
            trace: "cuda,nvtx".to_owned(),
            sample: "none".to_owned(),
            gating_nvtx: false,
            capture_range: CaptureRange::default(),
            capture_range_end: None,
            nvtx_capture: None,
            cuda_graph_trace: "node".to_owned(),
            args: Vec::new(),
        }
    }
}

/// How much is collected of each launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Throughputs, occupancy and launch configuration of each launch.
    Basic,
    /// With FLOPs, bytes of every memory level and stalls.
    #[default]
    Roofline,
    /// Every metric that Nsight Compute has.
    Full,
}

/// Margins of the rule that says what limits a kernel, percent of peak; `docs/kernels.md` has the rule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClassifyPlan {
    /// A unit below this limits nothing.
    pub low_pct: f64,
    /// SM throughput from which a kernel is compute-bound whatever its instructions are.
    pub high_pct: f64,
    /// Units closer than this are used alike.
    pub margin_pct: f64,
}

impl Default for ClassifyPlan {
    fn default() -> Self {
        Self {
            low_pct: 35.0,
            high_pct: 60.0,
            margin_pct: 5.0,
        }
    }
}

impl ClassifyPlan {
    /// Whether all are percentages, and low is not above high.
    pub fn is_valid(&self) -> bool {
        let all = [self.low_pct, self.high_pct, self.margin_pct];
        let is_percent = |value: f64| (0.0..=100.0).contains(&value);
        all.into_iter().all(is_percent) && self.low_pct <= self.high_pct
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NcuPlan {
    /// Absent is where there is a CUDA program and the tool; decided before the run starts.
    pub enable: Option<bool>,
    /// The program; looked for where it is absent.
    pub path: Option<PathBuf>,
    /// How many metrics are collected of each launch.
    pub tier: Tier,
    /// The share of device time that profiled launches stand for.
    pub coverage: Share,
    /// The NVTX range whose kernels are covered; all where absent.
    pub range: Option<String>,
    /// Decode steps of the profiled batch.
    pub steps: u64,
    /// Metrics beside those of the tier: a list, or a text with commas.
    #[serde(deserialize_with = "read_names")]
    pub metrics: Vec<String>,
    /// Sections beside those of the tier.
    pub sections: Vec<String>,
    /// Whether the tool itself looks only at launches inside `range`; else kernels are chosen by name.
    pub gating_nvtx: bool,
    /// Replay mode of Nsight Compute.
    pub replay_mode: String,
    /// `base` locks clocks, `none` leaves them.
    pub clock_control: String,
    /// `all` flushes caches before each pass, `none` leaves them.
    pub cache_control: String,
    /// Margins by which kernels are classified.
    pub classify: ClassifyPlan,
    /// The user's notes on kernels, `kernel-info.yaml`.
    pub kernel_info: Option<PathBuf>,
    /// More options, as they are: a list, or a text that is split as a shell would.
    #[serde(deserialize_with = "read_words")]
    pub args: Vec<Word>,
}

impl Default for NcuPlan {
    fn default() -> Self {
        Self {
            enable: Some(false),
            path: None,
            tier: Tier::default(),
            coverage: "95%".parse().expect("95% is a share"),
            range: Some("decode".to_owned()),
            steps: 2,
            metrics: Vec::new(),
            sections: Vec::new(),
            gating_nvtx: true,
            replay_mode: "kernel".to_owned(),
            clock_control: "none".to_owned(),
            cache_control: "all".to_owned(),
            classify: ClassifyPlan::default(),
            kernel_info: None,
            args: Vec::new(),
        }
    }
}

impl NsysPlan {
    pub fn is_enabled(&self) -> bool {
        self.enable == Some(true)
    }
}

impl NcuPlan {
    pub fn is_enabled(&self) -> bool {
        self.enable == Some(true)
    }
}

/// A list of names, or a text with commas between them.
fn read_names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Names(Vec<String>),
        Text(String),
        Nothing(()),
    }
    Ok(match Given::deserialize(deserializer)? {
        Given::Names(names) => names,
        Given::Text(text) => text
            .split([',', ' ', '\n'])
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect(),
        Given::Nothing(()) => Vec::new(),
    })
}

/// A list of words, or a text with spaces between them.
fn read_words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Word>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Words(Vec<Word>),
        Text(String),
        Nothing(()),
    }
    Ok(match Given::deserialize(deserializer)? {
        Given::Words(words) => words,
        Given::Text(text) => command_line::split_words(&text)
            .map_err(|why| de::Error::custom(format!("`{text}`: {why}")))?
            .into_iter()
            .map(Word)
            .collect(),
        Given::Nothing(()) => Vec::new(),
    })
}

/// Whether cuBLAS and cuBLASLt write down the GEMMs that they run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CublasLogPlan {
    /// Whether the log is written.
    pub enable: bool,
}

const REPLAY_MODES: [&str; 4] = ["kernel", "application", "range", "app-range"];

/// Options of older guides that the tools do not have, with what to say instead.
const REFUSED: [(&str, &str); 4] = [
    (
        "--capture-range-end=nvtx",
        "pipeline.nsys.capture_range_end=stop",
    ),
    (
        "--kernels",
        "pipeline.ncu chooses kernels by itself; --kernel-name regex:… is the tool's option",
    ),
    ("--report", "`nsys stats` has that; llmprof runs it"),
    ("--sqlite", "llmprof exports the SQLite file"),
];

/// Whether a run of this plan starts a program on a GPU that the tools can profile.
pub fn has_cuda_program(plan: &Plan) -> bool {
    plan.device != ModelPlace::Cpu && plan.runtime.kind == RuntimeType::Pytorch
}

/// What is wrong with the stages.
pub(super) fn mistakes(plan: &Plan, wrong: &mut impl FnMut(&'static str, String, Option<&str>)) {
    let (nsys, ncu) = (&plan.pipeline.nsys, &plan.pipeline.ncu);
    let has_cuda = has_cuda_program(plan);
    let stages = [
        ("pipeline.nsys.enable", nsys.is_enabled()),
        ("pipeline.ncu.enable", ncu.is_enabled()),
        (
            "pipeline.cublas_log.enable",
            plan.pipeline.cublas_log.enable,
        ),
    ];
    for (key, enable) in stages {
        if enable && !has_cuda {
            let hint = Some("runtime=pytorch device=cuda:0");
            wrong(key, "there is no CUDA program to profile".to_owned(), hint);
        }
    }
    if plan.pipeline.cublas_log.enable && !nsys.is_enabled() {
        let message = "the logs are written in the pass of Nsight Systems".to_owned();
        let hint = Some("pipeline.nsys.enable=true");
        wrong("pipeline.cublas_log.enable", message, hint);
    }
    if ncu.is_enabled() && plan.pipeline.cupti.overhead.is_some() {
        let message =
            "launches are chosen from a whole timeline, and slices are parts of one".to_owned();
        let hint = Some("pipeline.cupti.overhead=null");
        wrong("pipeline.cupti.overhead", message, hint);
    }
    if ncu.is_enabled() && nsys.is_enabled() && nsys.capture_range != CaptureRange::CudaProfilerApi
    {
        let message =
            "launches are counted from cudaProfilerStart, so the timeline must begin there"
                .to_owned();
        let hint = Some("pipeline.nsys.capture_range=cudaProfilerApi");
        wrong("pipeline.nsys.capture_range", message, hint);
    }
    if nsys.capture_range == CaptureRange::Hotkey {
        let message = "nobody presses a key in a run".to_owned();
        let hint = Some("pipeline.nsys.capture_range=cudaProfilerApi");
        wrong("pipeline.nsys.capture_range", message, hint);
    }
    if ncu.is_enabled() && nsys.is_enabled() && nsys.gating_nvtx && nsys.nvtx_capture.is_some() {
        let message =
            "launches are counted from cudaProfilerStart, and a timeline of one range leaves out those before it"
                .to_owned();
        let hint = Some("pipeline.nsys.gating_nvtx=false pipeline.ncu.range=decode");
        wrong("pipeline.nsys.gating_nvtx", message, hint);
    }
    if nsys.capture_range == CaptureRange::Nvtx && nsys.nvtx_capture.is_none() {
        let message = "capture_range=nvtx needs the name of the range".to_owned();
        wrong(
            "pipeline.nsys.nvtx_capture",
            message,
            Some("pipeline.nsys.nvtx_capture=decode"),
        );
    }
    if nsys.capture_range_end.as_deref() == Some("nvtx") {
        let message = "nsys has no such end of a range".to_owned();
        wrong(
            "pipeline.nsys.capture_range_end",
            message,
            Some("stop, stop-shutdown, repeat:N"),
        );
    }
    of_counters(ncu, wrong);
    for (key, args) in [
        ("pipeline.nsys.args", &nsys.args),
        ("pipeline.ncu.args", &ncu.args),
    ] {
        for (option, instead) in REFUSED {
            if has_option(args, option) {
                wrong(key, format!("the tool has no `{option}`"), Some(instead));
            }
        }
    }
}

/// Whether `--option`, `--option=value`, or the two words of the latter are among the words.
fn has_option(words: &[Word], option: &str) -> bool {
    let as_two = option.split_once('=');
    words.iter().enumerate().any(|(at, Word(word))| {
        let next = words.get(at + 1).map(|Word(next)| next.as_str());
        word == option
            || word.starts_with(&format!("{option}="))
            || as_two.is_some_and(|(name, value)| word == name && next == Some(value))
    })
}

/// What is wrong with the stage of Nsight Compute alone.
fn of_counters(ncu: &NcuPlan, wrong: &mut impl FnMut(&'static str, String, Option<&str>)) {
    if !REPLAY_MODES.contains(&ncu.replay_mode.as_str()) {
        let message = format!("`{}` is not a replay mode", ncu.replay_mode);
        wrong(
            "pipeline.ncu.replay_mode",
            message,
            Some("pipeline.ncu.replay_mode=kernel"),
        );
    }
    // The program is started again for each pass, and a worker is spoken to once.
    if ncu.is_enabled() && ncu.replay_mode.starts_with("app") {
        let message = format!(
            "`{}` replay starts the worker again for each pass, which a run cannot follow",
            ncu.replay_mode
        );
        let hint = Some("pipeline.ncu.replay_mode=kernel");
        wrong("pipeline.ncu.replay_mode", message, hint);
    }
    if !ncu.classify.is_valid() {
        let message = "margins are percentages, low_pct at most high_pct".to_owned();
        let hint = Some("pipeline.ncu.classify={low_pct: 35, high_pct: 60, margin_pct: 5}");
        wrong("pipeline.ncu.classify", message, hint);
    }
    if ncu.steps == 0 {
        let message = "at least one decode step must be profiled".to_owned();
        wrong("pipeline.ncu.steps", message, Some("pipeline.ncu.steps=2"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_a_list_or_a_text() {
        let read = |text: &str| -> Vec<String> {
            let plan: NsysPlan = serde_json::from_str(text).unwrap();
            plan.args.into_iter().map(|Word(word)| word).collect()
        };
        assert_eq!(
            read(r#"{"args": "--gpu-metrics-devices=0  --nvtx-capture 'a b' \"\""}"#),
            ["--gpu-metrics-devices=0", "--nvtx-capture", "a b", ""]
        );
        assert_eq!(read(r#"{"args": ["-y", 3]}"#), ["-y", "3"]);
        assert!(read(r#"{"args": null}"#).is_empty());
        let open = serde_json::from_str::<NsysPlan>(r#"{"args": "--x 'a b"}"#);
        assert!(open.unwrap_err().to_string().contains("' is not closed"));
        assert!(read("{}").is_empty());
    }

    #[test]
    fn an_option_is_known_in_each_of_its_spellings() {
        let words = |text: &str| {
            let words = command_line::split_words(text).unwrap();
            words.into_iter().map(Word).collect::<Vec<_>>()
        };
        let end = "--capture-range-end=nvtx";
        assert!(has_option(&words("--x --capture-range-end=nvtx"), end));
        assert!(has_option(&words("--capture-range-end nvtx"), end));
        assert!(!has_option(&words("--capture-range-end stop nvtx"), end));
        assert!(has_option(&words("--kernels=gemm"), "--kernels"));
        assert!(has_option(&words("--kernels gemm"), "--kernels"));
        assert!(!has_option(&words("--kernel-name gemm"), "--kernels"));
    }
}
