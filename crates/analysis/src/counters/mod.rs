//! Hardware counters of single launches, joined with a timeline where there is one.
//!
//! [`quantities`] reads them from whichever page they are on, [`class`] says what limits a kernel, [`readings`] what that
//! suggests. Durations are the timeline's where there is one: under the profiler caches are cold and clocks differ.

pub(crate) mod against_model;
mod class;
pub(crate) mod derived;
mod device;
mod quantities;
mod readings;

use llmprof_record::counters::{
    Counters, LevelTraffic, Pipe, PipeRate, ProfiledLaunch, RooflinePoint, Rule, RuleKind,
};
use llmprof_record::kernel_name::{Category, classify};
use llmprof_theory::device::{Device, Engine};
use llmprof_units::{Bytes, DType, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::against_model::AgainstModel;
pub use self::class::{ClassRule, KernelBottleneck, Use};
pub use self::derived::{DerivedKernels, DerivedRow};
pub use self::device::infer_device;
use self::quantities::LaunchCounters;
pub use self::quantities::{Fill, MemoryAccess, Stall, percentages};
pub use self::readings::KernelFinding;
use crate::trace::TraceAnalysis;

/// The launches that the counter profiler measured.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct CountersAnalysis {
    /// One row a launch, in the order of the report.
    pub launches: Vec<CountedLaunch>,
    /// How many of them have a kernel on the timeline; absent without a timeline.
    pub joined: Option<usize>,
    /// The margins that classes were decided by.
    #[serde(default)]
    pub rule: ClassRule,
    /// The device whose peaks rates are compared with, named or inferred; absent where the counters' own are.
    #[serde(default)]
    pub device: Option<String>,
    /// Beside what the model needs, where profiled launches stand for decode steps of a model that theory counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub against_model: Vec<AgainstModel>,
}

/// One launch that the counter profiler measured.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct CountedLaunch {
    /// The report it is from and its number there.
    #[serde(default)]
    pub report: String,
    /// Number of the launch in the report.
    #[serde(default)]
    pub id: u64,
    /// The kernel, under the name by which all tools meet.
    pub kernel: String,
    /// Number of blocks in x, y and z; absent where not recorded.
    pub grid: Option<[u32; 3]>,
    /// Number of threads of a block in x, y and z; absent where not recorded.
    pub block: Option<[u32; 3]>,
    /// Operators of the model that launch it, the most often first; `*` is the number of the layer. Empty without module ranges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operators: Vec<String>,
    /// As the counter profiler measured it, with cold caches.
    pub duration_ns: Option<Nanos>,
    /// Mean of the launches it stands for on the timeline; of all with its name where they cannot be separated.
    pub timeline_mean_ns: Option<f64>,
    /// Launches it stands for, and their time.
    #[serde(default)]
    pub launches: Option<u64>,
    /// Time of all launches that it stands for.
    #[serde(default)]
    pub total_ns: Option<Nanos>,
    /// Use of the device's parts in percent of their peak, by [`percentages`].
    pub percentages: Vec<(String, Option<f64>)>,
    /// Bytes that main memory moved.
    pub dram_bytes: Option<Bytes>,
    /// Rate and traffic of the tensor cores.
    pub tensor: Option<CounterPoint>,
    /// Rate and traffic of FP32 multiply-adds.
    pub fp32: Option<CounterPoint>,
    /// What limits the kernel, by `rule`.
    #[serde(default = "no_class")]
    pub class: KernelBottleneck,
    /// What the class was decided by.
    #[serde(default)]
    pub used: Use,
    /// Work of each pipe that did any.
    #[serde(default)]
    pub pipes: Vec<PipeRate>,
    /// Traffic of each level of memory.
    #[serde(default)]
    pub levels: Vec<LevelTraffic>,
    /// Use of the tensor cores in percent of their peak.
    #[serde(default)]
    pub tensor_use_pct: Option<f64>,
    /// Resources that keep more blocks from an SM.
    #[serde(default)]
    pub occupancy_limiters: Vec<String>,
    /// Why warps waited, the longest first.
    #[serde(default)]
    pub stalls: Vec<Stall>,
    /// How the launch fills the SMs.
    #[serde(default)]
    pub fill: Fill,
    /// How well global and shared memory are accessed.
    #[serde(default)]
    pub access: MemoryAccess,
    /// Conclusions from the counters of this launch.
    #[serde(default)]
    pub findings: Vec<KernelFinding>,
    /// The tool's advice that it expects the largest speed-up of the kernel of; absent where it expects none.
    pub advice: Option<Advice>,
    /// Warnings of the tool, then everything that it advises: the largest speedup of the whole kernel first, then those of a part
    /// of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Advice>,
}

/// Where a launch stands under a roofline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct CounterPoint {
    /// Rate of floating-point operations, per second.
    pub flops_per_s: f64,
    /// Bytes per second of main memory.
    pub bytes_per_s: f64,
    /// Operations per byte of DRAM traffic; absent where no byte crossed DRAM.
    pub intensity: Option<f64>,
}

/// What the profiler of counters advises.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[schemars(rename = "KernelAdvice")]
pub struct Advice {
    /// Name of the profiler's rule, as `SOLBottleneck`.
    pub rule: String,
    /// The profiler's advice in its own words.
    pub text: String,
    /// The part of the time that would go, percent, as the tool estimates it.
    pub speedup_pct: Option<f64>,
    /// Whether that is of the time of the kernel, and not of a part of it.
    #[serde(default)]
    pub of_whole_kernel: bool,
    /// A reason not to trust what was measured, and no advice.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_warning: bool,
}

impl From<RooflinePoint> for CounterPoint {
    fn from(point: RooflinePoint) -> Self {
        Self {
            flops_per_s: point.rate.0,
            bytes_per_s: point.traffic.0,
            intensity: point.intensity(),
        }
    }
}

impl CountersAnalysis {
    /// Rows of all launches, joined to their kernels on `timeline`. Without `device`, rates are compared with the peaks of the device
    /// that the counters show.
    pub fn from_counters(
        counters: &Counters,
        timeline: Option<&TraceAnalysis>,
        device: Option<&Device>,
        rule: ClassRule,
    ) -> Self {
        let inferred = match device {
            Some(_) => None,
            None => infer_device(counters),
        };
        let device = device.or(inferred.as_ref());
        let launches: Vec<CountedLaunch> = counters
            .launches
            .iter()
            .map(|launch| {
                CountedLaunch::from_launch(
                    LaunchCounters { counters, launch },
                    timeline,
                    device,
                    rule,
                )
            })
            .collect();
        let joined = timeline.map(|_| {
            launches
                .iter()
                .filter(|row| row.timeline_mean_ns.is_some())
                .count()
        });
        Self {
            launches,
            joined,
            rule,
            device: device.map(|device| device.name.clone()),
            against_model: Vec::new(),
        }
    }
}

fn no_class() -> KernelBottleneck {
    KernelBottleneck::Unknown
}

impl CountedLaunch {
    fn from_launch(
        read: LaunchCounters<'_>,
        timeline: Option<&TraceAnalysis>,
        device: Option<&Device>,
        rule: ClassRule,
    ) -> Self {
        let LaunchCounters { counters, launch } = read;
        let stands_for = launch.stands_for;
        let mut pipes = counters.pipes(launch);
        let lacks_peak = pipes
            .iter()
            .any(|rate| rate.flops_per_s.0 > 0.0 && pipe_use(rate, device).is_none());
        let flops_pct = pipes
            .iter()
            .filter_map(|rate| pipe_use(rate, device))
            .fold(None, |most, value| Some(larger_of(most, value)))
            .filter(|_| !lacks_peak);
        let tensor_use_pct = pipes
            .iter()
            .filter(|rate| rate.pipe == Pipe::Tensor)
            .filter_map(|rate| pipe_use(rate, device))
            .fold(None, |most, value| Some(larger_of(most, value)));
        pipes.retain(|rate| rate.flops_per_s.0 > 0.0);
        let mut row = Self {
            report: launch.report.clone(),
            id: launch.id,
            kernel: launch.canonical.clone(),
            grid: launch.grid,
            block: launch.block,
            operators: Vec::new(),
            duration_ns: counters.duration(launch),
            timeline_mean_ns: match stands_for {
                Some(whole) => Some(whole.total_ns.0 as f64 / whole.launches.max(1) as f64),
                None => timeline.and_then(|timeline| timeline_mean(timeline, launch)),
            },
            launches: stands_for.map(|whole| whole.launches),
            total_ns: stands_for.map(|whole| whole.total_ns),
            percentages: read.percentages(),
            dram_bytes: counters.dram_bytes(launch),
            tensor: counters.tensor_point(launch).map(CounterPoint::from),
            fp32: counters.fp32_point(launch).map(CounterPoint::from),
            class: KernelBottleneck::Unknown,
            used: Use::default(),
            pipes,
            levels: counters.levels(launch),
            tensor_use_pct: tensor_use_pct.or_else(|| {
                let cycles = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed";
                read.number(cycles)
            }),
            occupancy_limiters: read.occupancy_limiters(),
            stalls: read.stalls(),
            fill: read.fill(),
            access: read.access(),
            findings: Vec::new(),
            advice: best_advice(launch),
            rules: all_advice(launch),
        };
        row.used = Use {
            sm_pct: row.percentage("sm_throughput_pct"),
            flops_pct,
            lacks_peak,
            dram_pct: row.percentage("dram_throughput_pct"),
            l2_pct: row.percentage("l2_throughput_pct"),
            // The percentage of active cycles, which is all that the details page has, says nothing of a launch that uses few SMs.
            l1_pct: read
                .number("l1tex__throughput.avg.pct_of_peak_sustained_elapsed")
                .filter(|percent| *percent <= 100.0),
        };
        row.class = rule.classify_kernel(&row.used, &row.fill);
        row.findings = readings::conclude_launch(&row, row.category(), rule);
        row
    }

    /// `name` is one of [`percentages`].
    pub fn percentage(&self, name: &str) -> Option<f64> {
        let named = self.percentages.iter().find(|(one, _)| one == name);
        named.and_then(|(_, value)| *value)
    }

    /// What warps waited for most.
    pub fn limiting_stall(&self) -> Option<&Stall> {
        self.stalls.iter().find(|stall| stall.reason != "selected")
    }

    pub fn category(&self) -> Category {
        classify(&self.kernel).category
    }

    /// Time by which the launch is weighed: the timeline's, of all launches it stands for, or its own.
    pub fn weight_ns(&self) -> f64 {
        let own = || {
            self.timeline_mean_ns
                .or_else(|| self.duration_ns.map(|time| time.0 as f64))
        };
        self.total_ns
            .map(|total| total.0 as f64)
            .or_else(own)
            .unwrap_or(0.0)
    }
}

fn larger_of(most: Option<f64>, value: f64) -> f64 {
    most.map_or(value, |most| most.max(value))
}

/// Percent of the peak of a pipe: the device's datasheet where it is known, else what the counters state.
fn pipe_use(rate: &PipeRate, device: Option<&Device>) -> Option<f64> {
    let stated = device.and_then(|device| {
        let engine = match rate.pipe {
            Pipe::Tensor => Engine::Tensor,
            _ => Engine::Vector,
        };
        let peak = device
            .dense_peak(dtype_of_format(&rate.format)?, engine)
            .ok()?;
        Some(peak.dense_flops_per_s)
    });
    let peak = stated.or(rate.peak_flops_per_s)?;
    (peak.0 > 0.0).then(|| 100.0 * rate.flops_per_s.0 / peak.0)
}

/// A format as counters name it.
fn dtype_of_format(format: &str) -> Option<DType> {
    Some(match format {
        "bf16" => DType::Bf16,
        "fp16" => DType::F16,
        "fp32" => DType::F32,
        "tf32" => DType::Tf32,
        "fp64" => DType::F64,
        "int8" => DType::I8,
        "fp8" => DType::F8E4m3,
        _ => return None,
    })
}

fn timeline_mean(timeline: &TraceAnalysis, launch: &ProfiledLaunch) -> Option<f64> {
    let mut kernels = timeline.kernels.iter();
    kernels
        .find(|kernel| kernel.canonical == launch.canonical)
        .map(|kernel| kernel.mean_ns)
}

/// The rule that the tool expects the largest speedup of the whole kernel of: a part of a kernel may become much faster
/// and the kernel hardly.
fn best_advice(launch: &ProfiledLaunch) -> Option<Advice> {
    let expected = |rule: &&Rule| {
        let speedup = rule.speedup.filter(|speedup| speedup.of_whole_kernel);
        speedup.map(|speedup| speedup.percent)
    };
    let rules = launch.rules.iter().filter(|rule| expected(rule).is_some());
    let best = rules.max_by(|a, b| {
        let [a, b] = [a, b].map(|rule| expected(rule).unwrap_or(0.0));
        a.total_cmp(&b)
    })?;
    Some(Advice {
        rule: best.name.clone(),
        text: best.description.clone(),
        speedup_pct: expected(&best),
        of_whole_kernel: true,
        is_warning: false,
    })
}

fn all_advice(launch: &ProfiledLaunch) -> Vec<Advice> {
    let is_told = |rule: &&Rule| matches!(rule.kind, RuleKind::Optimization | RuleKind::Warning);
    let mut rules: Vec<&Rule> = launch.rules.iter().filter(is_told).collect();
    let rank = |rule: &Rule| {
        let speedup = rule.speedup;
        let is_whole = speedup.is_some_and(|speedup| speedup.of_whole_kernel);
        let percent = speedup.map_or(-1.0, |speedup| speedup.percent);
        ((rule.kind == RuleKind::Warning, is_whole), percent)
    };
    rules.sort_by(|a, b| {
        let ((a_first, a), (b_first, b)) = (rank(a), rank(b));
        b_first.cmp(&a_first).then(b.total_cmp(&a))
    });
    let advice = rules.into_iter().map(|rule| Advice {
        rule: rule.name.clone(),
        text: rule.description.clone(),
        speedup_pct: rule.speedup.map(|speedup| speedup.percent),
        of_whole_kernel: rule.speedup.is_some_and(|speedup| speedup.of_whole_kernel),
        is_warning: rule.kind == RuleKind::Warning,
    });
    advice.collect()
}

#[cfg(test)]
mod tests {
    use llmprof_record::counters::EstimatedSpeedup;

    use super::*;

    /// Nsight Compute expects 99.9 % of a part of a kernel that has a single block: of the kernel it is the grid that matters.
    #[test]
    fn advice_is_for_the_whole_kernel() {
        let rule = |name: &str, speedup: Option<(bool, f64)>| Rule {
            section: String::new(),
            name: name.to_owned(),
            kind: RuleKind::Optimization,
            description: String::new(),
            speedup: speedup.map(|(of_whole_kernel, percent)| EstimatedSpeedup {
                of_whole_kernel,
                percent,
            }),
        };
        let advised = |rules: Vec<Rule>| {
            let found_rules = rules.len();
            let launch = ProfiledLaunch {
                rules,
                ..ProfiledLaunch::default()
            };
            let counters = Counters {
                launches: vec![launch],
                ..Counters::default()
            };
            let analysis =
                CountersAnalysis::from_counters(&counters, None, None, ClassRule::default());
            assert_eq!(analysis.joined, None);
            let rules = &analysis.launches[0].rules;
            assert_eq!(rules.len(), found_rules, "all of them");
            let speedups: Vec<Option<f64>> = rules.iter().map(|rule| rule.speedup_pct).collect();
            if found_rules == 4 {
                let expected = [Some(99.2), Some(73.5), Some(99.9), None];
                assert_eq!(speedups, expected, "those of the whole kernel first");
                let of_whole = rules.iter().map(|rule| rule.of_whole_kernel);
                assert!(of_whole.eq([true, true, false, false]));
            }
            analysis.launches[0]
                .advice
                .as_ref()
                .map(|advice| advice.rule.clone())
        };
        let rules = vec![
            rule("SOLBottleneck", None),
            rule("HighPipeUtilization", Some((false, 99.9))),
            rule("AchievedOccupancy", Some((true, 73.5))),
            rule("LaunchConfiguration", Some((true, 99.2))),
        ];
        assert_eq!(advised(rules).as_deref(), Some("LaunchConfiguration"));
        assert_eq!(advised(vec![rule("SOLBottleneck", None)]), None);
    }

    #[test]
    fn warnings_come_first_and_facts_are_left_out() {
        let rule = |name: &str, kind: RuleKind| Rule {
            section: String::new(),
            name: name.to_owned(),
            kind,
            description: String::new(),
            speedup: None,
        };
        let launch = ProfiledLaunch {
            rules: vec![
                rule("CPIStall", RuleKind::Optimization),
                rule("IssueSlotUtilization", RuleKind::Information),
                rule("SharedMemoryConflicts", RuleKind::Warning),
            ],
            ..ProfiledLaunch::default()
        };
        let advice = all_advice(&launch);
        let told: Vec<_> = advice
            .iter()
            .map(|rule| (rule.rule.as_str(), rule.is_warning))
            .collect();
        assert_eq!(told, [("SharedMemoryConflicts", true), ("CPIStall", false)]);
    }
}
