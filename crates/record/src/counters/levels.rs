//! Work by pipe and traffic by memory level of one launch, with the peaks that the counters state.
//!
//! The counters and their peaks are those of Nsight Compute's own hierarchical roofline charts.

use std::collections::BTreeMap;

use llmprof_units::{BytesPerSecond, FlopsPerSecond, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Counters, ProfiledLaunch, Value};

/// Units that do floating-point work.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Pipe {
    Tensor,
    Fp64,
    Fp32,
    Fp16,
}

/// The rate of one pipe, with the format it multiplies.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct PipeRate {
    /// The pipe of the SM that does the operations.
    pub pipe: Pipe,
    /// Format of the factors as the counter names it: `bf16`, `fp32`.
    pub format: String,
    /// Measured rate, in floating-point operations per second.
    pub flops_per_s: FlopsPerSecond,
    /// What the chip could do at the clock of the measurement, where the counters say so.
    pub peak_flops_per_s: Option<FlopsPerSecond>,
}

/// A level of the memory hierarchy.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "CacheLevel")]
pub enum Level {
    Dram,
    L2,
    L1,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct LevelTraffic {
    /// The memory level that the traffic crosses.
    pub level: Level,
    /// Measured traffic, in bytes per second.
    pub bytes_per_s: BytesPerSecond,
    /// At the clock of the measurement, where the counters say so.
    pub peak_bytes_per_s: Option<BytesPerSecond>,
}

/// Counter of traffic and counter of cycles of each level, the most exact first.
const LEVELS: [(Level, &str, &str); 4] = [
    (Level::Dram, "dram__bytes", "dram__cycles_elapsed"),
    (
        Level::L2,
        "derived__lts__lts2xbar_bytes",
        "lts__cycles_elapsed",
    ),
    (
        Level::L1,
        "derived__l1tex__lsu_writeback_bytes_mem_lgds",
        "l1tex__cycles_elapsed",
    ),
    (
        Level::L1,
        "derived__l1tex__lsu_writeback_bytes_mem_lg",
        "l1tex__cycles_elapsed",
    ),
];

/// Words of instructions with the operations of each.
type Instructions = [(&'static str, f64); 3];

/// Pipe, format, and the words of its instructions with the operations of each: a fused multiply-add is two, and half
/// precision works on pairs.
const INSTRUCTIONS: [(Pipe, &str, Instructions); 3] = [
    (
        Pipe::Fp64,
        "fp64",
        [("dadd", 1.0), ("dmul", 1.0), ("dfma", 2.0)],
    ),
    (
        Pipe::Fp32,
        "fp32",
        [("fadd", 1.0), ("fmul", 1.0), ("ffma", 2.0)],
    ),
    (
        Pipe::Fp16,
        "fp16",
        [("hadd", 2.0), ("hmul", 2.0), ("hfma", 4.0)],
    ),
];

impl Counters {
    /// Traffic of each level that has counters. DRAM is known from bytes and time too.
    pub fn levels(&self, launch: &ProfiledLaunch) -> Vec<LevelTraffic> {
        let mut levels: Vec<LevelTraffic> = Vec::new();
        for (level, bytes, cycles) in LEVELS {
            if levels.iter().any(|one| one.level == level) {
                continue;
            }
            let number = |name: String| self.number(launch, &name);
            let mut rate = number(format!("{bytes}.sum.per_second"));
            if level == Level::Dram {
                let seconds = self.duration(launch).map(Nanos::seconds);
                let moved = self.dram_bytes(launch).zip(seconds);
                let moved = moved.filter(|(_, seconds)| *seconds > 0.0);
                rate = moved
                    .map(|(bytes, seconds)| bytes.0 as f64 / seconds)
                    .or(rate)
                    .or_else(|| {
                        let section = "Memory Workload Analysis";
                        self.number_in(launch, section, "Memory Throughput", "byte/s")
                    });
            }
            let peak = number(format!("{bytes}.sum.peak_sustained"))
                .zip(number(format!("{cycles}.avg.per_second")))
                .map(|(per_cycle, frequency)| BytesPerSecond(per_cycle * frequency))
                .or_else(|| (level == Level::Dram).then(|| self.stated_bandwidth(launch))?);
            levels.extend(rate.map(|rate| LevelTraffic {
                level,
                bytes_per_s: BytesPerSecond(rate),
                peak_bytes_per_s: peak,
            }));
        }
        levels
    }

    /// The bandwidth that the rows of a roofline chart state.
    fn stated_bandwidth(&self, launch: &ProfiledLaunch) -> Option<BytesPerSecond> {
        let per_cycle = self.in_chart(launch, "Theoretical DRAM Bytes Accessible")?;
        let frequency = self.in_chart(launch, "DRAM Frequency")?;
        Some(BytesPerSecond(per_cycle * frequency))
    }

    fn in_chart(&self, launch: &ProfiledLaunch, name: &str) -> Option<f64> {
        self.find(launch, |metric| {
            metric.label == "Single Precision Roofline" && metric.name == name
        })
    }

    /// Rates of all pipes that have counters, those that did nothing included.
    pub fn pipes(&self, launch: &ProfiledLaunch) -> Vec<PipeRate> {
        let mut rates = self.tensor_rates(launch);
        for (pipe, format, words) in INSTRUCTIONS {
            rates.extend(self.vector_rate(launch, pipe, format, words));
        }
        if !rates.iter().any(|rate| rate.pipe == Pipe::Fp32) {
            rates.extend(self.fp32_point(launch).map(|point| {
                PipeRate {
                    pipe: Pipe::Fp32,
                    format: "fp32".to_owned(),
                    flops_per_s: point.rate,
                    peak_flops_per_s: self
                        .in_chart(launch, "Theoretical Predicated-On FFMA Operations")
                        .zip(self.in_chart(launch, "SM Frequency"))
                        .map(|(per_cycle, frequency)| FlopsPerSecond(per_cycle * frequency)),
                }
            }));
        }
        rates
    }

    /// Instructions of one kind are counted for each cycle of a sub-core's clock.
    fn vector_rate(
        &self,
        launch: &ProfiledLaunch,
        pipe: Pipe,
        format: &str,
        words: Instructions,
    ) -> Option<PipeRate> {
        let clock = self.number(launch, "smsp__cycles_elapsed.avg.per_second")?;
        let mut operations = 0.0;
        for (word, of_each) in words {
            let name =
                format!("smsp__sass_thread_inst_executed_op_{word}_pred_on.sum.per_cycle_elapsed");
            operations += of_each * self.number(launch, &name)?;
        }
        let fused = words[2];
        let peak = format!(
            "sm__sass_thread_inst_executed_op_{}_pred_on.sum.peak_sustained",
            fused.0
        );
        let sm_clock = self.number(launch, "sm__cycles_elapsed.avg.per_second");
        Some(PipeRate {
            pipe,
            format: format.to_owned(),
            flops_per_s: FlopsPerSecond(operations * clock),
            peak_flops_per_s: self
                .number(launch, &peak)
                .zip(sm_clock)
                .map(|(per_cycle, clock)| FlopsPerSecond(per_cycle * fused.1 * clock)),
        })
    }

    /// Dense operations on the tensor pipes by format of the factors (`bf16`), from the counters
    /// `sm__ops_path_tensor_src_<factors>[_dst_<sums>]….<suffix>`.
    ///
    /// These count over all instructions. The `…_tensor_op_<instruction>_src_…` counters beside them are the same operations
    /// again, and count for formats that have no other (FP8 on B300). `sparsity_on` counts zeros that were skipped, and Blackwell
    /// has each counter a second time as `realtime`: of the counters of one kind of product, the one that counts dense operations
    /// alone is taken.
    pub(super) fn tensor_counts(&self, launch: &ProfiledLaunch, suffix: &str) -> Vec<(&str, f64)> {
        let mut products: BTreeMap<Product<'_>, (Rank, f64)> = BTreeMap::new();
        for reading in &launch.readings {
            let (Some(metric), Value::Number(value)) =
                (self.describe(reading.metric), &reading.value)
            else {
                continue;
            };
            let counter = metric.name.strip_prefix("sm__ops_path_tensor_");
            let Some((counter, _)) = counter
                .and_then(|counter| counter.split_once('.'))
                .filter(|(_, rest)| *rest == suffix)
            else {
                continue;
            };
            let (counter, is_again) = strip_ending(counter, "_realtime");
            let (counter, is_dense) = strip_ending(counter, "_sparsity_off");
            let Some((instruction, formats)) = counter.split_once("src_") else {
                continue;
            };
            if formats.ends_with("_sparsity_on") {
                continue;
            }
            let factors = formats.split("_dst_").next().unwrap_or(formats);
            let rank = (!is_again, is_dense);
            let key = (factors, instruction, formats);
            let best = products.entry(key).or_insert((rank, *value));
            if rank > best.0 {
                *best = (rank, *value);
            }
        }
        let mut counts: Vec<(&str, f64)> = Vec::new();
        let of_all: Vec<&str> = products
            .keys()
            .filter(|(_, instruction, _)| instruction.is_empty())
            .map(|&(factors, _, _)| factors)
            .collect();
        for ((factors, instruction, _), (_, count)) in products {
            if !instruction.is_empty() && of_all.contains(&factors) {
                continue;
            }
            match counts.last_mut().filter(|(last, _)| *last == factors) {
                Some((_, sum)) => *sum += count,
                None => counts.push((factors, count)),
            }
        }
        counts
    }

    /// One rate for each format of factors.
    fn tensor_rates(&self, launch: &ProfiledLaunch) -> Vec<PipeRate> {
        let seconds = self.duration(launch).map_or(0.0, Nanos::seconds);
        let sm_clock = self.number(launch, "sm__cycles_elapsed.avg.per_second");
        let mut counts = self.tensor_counts(launch, "sum");
        let mut factor = (seconds > 0.0).then(|| 1.0 / seconds);
        if counts.is_empty() || factor.is_none() {
            counts = self.tensor_counts(launch, "sum.per_cycle_elapsed");
            factor = sm_clock;
        }
        let Some(factor) = factor else {
            return Vec::new();
        };
        let rate = |(format, count): (&str, f64)| PipeRate {
            pipe: Pipe::Tensor,
            format: format.to_owned(),
            flops_per_s: FlopsPerSecond(count * factor),
            peak_flops_per_s: self
                .tensor_peak(launch, format)
                .zip(sm_clock)
                .map(|(per_cycle, clock)| FlopsPerSecond(per_cycle * clock)),
        };
        counts.into_iter().map(rate).collect()
    }

    /// The dense peak of a format: the largest of those without sparsity, since some count one accumulator only. A peak whose
    /// name says nothing of sparsity counts 2:4 sparse products, twice the dense ones.
    fn tensor_peak(&self, launch: &ProfiledLaunch, format: &str) -> Option<f64> {
        let largest = |is_one: &dyn Fn(&str) -> bool| {
            let peaks = launch.readings.iter().filter_map(|reading| {
                let name = &self.describe(reading.metric)?.name;
                match reading.value {
                    Value::Number(value)
                        if name.ends_with(".sum.peak_sustained") && is_one(name) =>
                    {
                        Some(value)
                    }
                    _ => None,
                }
            });
            peaks.max_by(f64::total_cmp)
        };
        let of_format = format!("_src_{format}");
        let dense = largest(&|name| {
            name.starts_with("sm__ops_path_tensor")
                && name.contains(&of_format)
                && name.contains("sparsity_off")
        });
        let any = format!("sm__ops_path_tensor_src_{format}");
        dense.or_else(|| {
            let peak = largest(&|name| name.starts_with(&any) && !name.contains("sparsity"));
            peak.map(|peak| peak / 2.0)
        })
    }
}

/// A kind of product: format of the factors, instruction (none for all of them), formats of factors and sums.
type Product<'a> = (&'a str, &'a str, &'a str);

/// How well a counter counts: not a second time, dense operations alone.
type Rank = (bool, bool);

/// What stands before an ending, and whether it was there.
fn strip_ending<'a>(name: &'a str, ending: &str) -> (&'a str, bool) {
    match name.strip_suffix(ending) {
        Some(name) => (name, true),
        None => (name, false),
    }
}
