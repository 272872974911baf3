//! Kernels by their counters: what limits each, why, and what to try.

use llmprof_analysis::counters::{ClassRule, KernelBottleneck, KernelFinding};
use llmprof_record::counters::{Level, Pipe};
use llmprof_record::kernel_name::Category;
use llmprof_theory::Kind;
use llmprof_units::{
    Bytes, BytesPerSecond, Count, FlopsPerSecond, Nanos, Percent, format_significant,
};

use crate::analyzed::{Advice, CountedLaunch, CountersAnalysis, DerivedKernels, DerivedRow};
use crate::compose::kernels::sentences::hundredths;

/// A percentage that a counter states.
fn pct(percent: f64) -> Percent {
    Percent(percent / 100.0)
}

/// What was profiled, on which device; `more` counts sources beside the first.
pub fn title(first: &str, more: usize, device: Option<&str>) -> String {
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let device = device.map_or_else(String::new, |device| format!(" on {device}"));
    format!("Kernels of {first}{more}{device}")
}

/// What ncu is going to profile.
pub fn planned_launches(
    launches: usize,
    kernels: usize,
    covered: f64,
    total: Nanos,
    seconds: usize,
) -> String {
    format!(
        "{launches} launches of {kernels} kernels stand for {} of {total} GPU time; about {seconds} s",
        Percent(covered)
    )
}

/// The listed kernels take less of the timeline than was asked for.
pub fn below_coverage(covered: f64, wanted: f64) -> String {
    format!(
        "the listed kernels take {} of the GPU time of the whole timeline, less than --coverage {}: start-up and first uses count here, and \
         `kernels top` leaves them out",
        Percent(covered),
        Percent(wanted)
    )
}

/// What was profiled. `planned`, of a plan by a timeline: the share of GPU time, and launches that are not on it.
pub fn profiled_launches(
    launches: usize,
    planned: Option<(f64, usize)>,
    [absent, listed]: [usize; 2],
) -> String {
    let mut line = format!("{launches} launches profiled");
    if let Some((share, unexpected)) = planned {
        line += &format!(", which stand for {} of GPU time", Percent(share));
        if unexpected > 0 {
            line += &format!("; {unexpected} are not on the timeline");
        }
    }
    if absent > 0 {
        line += &format!("; {absent} of {listed} listed kernels were not profiled");
    }
    line
}

/// `memory-bound: 12 (40.0 % of time)`.
pub fn class_line(of: KernelBottleneck, count: usize, share: f64) -> String {
    format!("{}: {count} ({:.1} % of time)", class(of), 100.0 * share)
}

/// A class as a person says it.
pub fn class(class: KernelBottleneck) -> &'static str {
    match class {
        KernelBottleneck::ComputeBound => "compute-bound",
        KernelBottleneck::MemoryBound => "memory-bound (DRAM)",
        KernelBottleneck::L2Bound => "L2-bound",
        KernelBottleneck::L1Bound => "L1-bound",
        KernelBottleneck::LatencyBound => "latency-bound",
        KernelBottleneck::UnderfilledGrid => "under-filled grid",
        KernelBottleneck::Balanced => "balanced",
        KernelBottleneck::Unknown => "unknown",
    }
}

/// A percentage as a header.
pub fn metric(name: &str) -> &str {
    match name {
        "sm_throughput_pct" => "SM throughput",
        "dram_throughput_pct" => "DRAM throughput",
        "l2_throughput_pct" => "L2 throughput",
        "mem_throughput_pct" => "Memory throughput",
        "l1tex_throughput_pct" => "L1 throughput",
        "tensor_pipe_pct" => "Tensor pipe",
        "mem_busy_pct" => "Memory busy",
        "max_bandwidth_pct" => "Max bandwidth",
        "l1tex_hit_rate_pct" => "L1 hits",
        "l2_hit_rate_pct" => "L2 hits",
        "achieved_occupancy_pct" => "Achieved occupancy",
        "theoretical_occupancy_pct" => "Theoretical occupancy",
        "dram_bytes" => "DRAM traffic",
        "dram_rate" => "DRAM bandwidth",
        other => other,
    }
}

pub fn level(level: Level) -> &'static str {
    match level {
        Level::Dram => "DRAM",
        Level::L2 => "L2",
        Level::L1 => "L1",
    }
}

pub fn pipe(pipe: Pipe) -> &'static str {
    match pipe {
        Pipe::Tensor => "tensor",
        Pipe::Fp64 => "FP64",
        Pipe::Fp32 => "FP32",
        Pipe::Fp16 => "FP16",
    }
}

/// A pipe and its format, where the pipe does not say it: `tensor bf16`, `FP32`.
pub fn pipe_of(one: Pipe, format: &str) -> String {
    let name = pipe(one);
    if name.eq_ignore_ascii_case(format) {
        name.to_owned()
    } else {
        format!("{name} {format}")
    }
}

/// The class of one launch; of one that waits, for what.
pub fn class_of(row: &CountedLaunch) -> String {
    match row.limiting_stall() {
        Some(stall) if row.class == KernelBottleneck::LatencyBound => {
            format!("latency-bound ({})", stall.reason)
        }
        _ => class(row.class).to_owned(),
    }
}

/// The rule, with its margins.
pub fn rule(analysis: &CountersAnalysis) -> String {
    let ClassRule {
        low_pct,
        high_pct,
        margin_pct,
    } = analysis.rule;
    let peaks = match &analysis.device {
        Some(device) => format!("FLOP rates are divided by the datasheet peaks of {device}"),
        None => "FLOP rates are divided by the peaks that the counters state".to_owned(),
    };
    format!(
        "A kernel is bound by the unit with the highest throughput. Memory counts from {low_pct} % of peak, compute from {low_pct} % of \
         a FLOP peak or {high_pct} % SM throughput: SMs that are less busy may compute addresses or wait. A kernel that reaches neither is \
         latency-bound. Compute and memory within {margin_pct} points of each other are balanced. Fewer blocks than SMs and no unit at \
         {high_pct} % is an under-filled grid. {peaks}. The margins are `pipeline.ncu.classify`."
    )
}

/// What a page without counters rests on.
pub fn derived_rule(derived: &DerivedKernels) -> String {
    let ClassRule {
        low_pct,
        margin_pct,
        ..
    } = derived.rule;
    format!(
        "There are no counters: all of this is derived from the FLOPs and the minimum DRAM traffic of the model and the times of the \
         timeline, and compared with the datasheet peaks of {}. A kernel is bound by compute or DRAM, whichever is used more, where that is \
         at least {low_pct} % of peak; below, it is latency-bound; within {margin_pct} points both are balanced. DRAM use is a lower \
         bound, and caches, stalls, occupancy and grids are not known.",
        derived.device
    )
}

/// What a derived class was decided by.
pub fn derived_evidence(row: &DerivedRow) -> Vec<String> {
    let each = row.total_ns.0 as f64 / row.calls.max(1) as f64;
    let mut percentages = Vec::new();
    percentages.extend(
        row.flops_pct
            .map(|percent| format!("FLOP rate {}", pct(percent))),
    );
    percentages.push(format!("DRAM at least {}", pct(row.dram_pct)));
    let intensity = row
        .intensity()
        .map(|value| format!(" ({} FLOP/B)", hundredths(value)));
    vec![
        format!(
            "{} in {} on the timeline, {} each.",
            row.total_ns,
            Count(row.calls, "call"),
            Nanos(each.round() as i64)
        ),
        format!("Of peak: {}.", percentages.join(", ")),
        format!(
            "By the model: {} and {} of minimum DRAM traffic{}, {}.",
            row.flops,
            row.min_dram_bytes,
            intensity.unwrap_or_default(),
            FlopsPerSecond(row.flops_per_s())
        ),
    ]
}

/// What rules of several kernels share.
pub fn without_numbers(text: &str) -> String {
    let kept = text.chars().filter(|letter| !letter.is_ascii_digit());
    kept.collect()
}

/// A rule of Nsight Compute with the speedup it estimates: the share of the time that it would save, of the kernel or (local) of a
/// part of it.
pub fn rule_of_ncu(advice: &Advice) -> String {
    let warning = if advice.is_warning { "warning of " } else { "" };
    format!(
        "{warning}Nsight Compute, {}: {}",
        rule_name(advice),
        advice.text.replace('\n', " ")
    )
}

/// Rules whose text an earlier kernel has.
pub fn rules_as_for(kernel: usize, rules: &[&Advice]) -> String {
    let names: Vec<String> = rules.iter().map(|rule| rule_name(rule)).collect();
    format!(
        "Nsight Compute, as for kernel {kernel}: {}",
        names.join(", ")
    )
}

fn rule_name(advice: &Advice) -> String {
    let kind = if advice.of_whole_kernel {
        "est. speedup"
    } else {
        "est. local speedup"
    };
    let speedup = advice.speedup_pct;
    let speedup = speedup.map(|percent| format!(" ({kind} {})", Percent(percent / 100.0)));
    format!("{}{}", advice.rule, speedup.unwrap_or_default())
}

/// How many kernels, and how much of their time, has each class.
pub fn classes(analysis: &CountersAnalysis) -> Vec<(KernelBottleneck, usize, f64)> {
    let total: f64 = analysis.launches.iter().map(CountedLaunch::weight_ns).sum();
    KernelBottleneck::ALL
        .into_iter()
        .filter_map(|class| {
            let own: Vec<&CountedLaunch> = analysis
                .launches
                .iter()
                .filter(|row| row.class == class)
                .collect();
            let time: f64 = own.iter().map(|row| row.weight_ns()).sum();
            let share = if total > 0.0 { time / total } else { 0.0 };
            (!own.is_empty()).then_some((class, own.len(), share))
        })
        .collect()
}

/// Operators that are named.
const OPERATORS_MAX: usize = 4;

/// Where in the model a kernel runs.
pub fn operators(all: &[String]) -> Option<String> {
    let more = all.len().saturating_sub(OPERATORS_MAX);
    let named = all.iter().take(OPERATORS_MAX).cloned();
    let named: Vec<String> = named
        .chain((more > 0).then(|| format!("{more} more")))
        .collect();
    (!named.is_empty()).then(|| format!("In the model: {}.", named.join(", ")))
}

/// What the class was decided by and what stands beside it, a line each.
pub fn evidence(row: &CountedLaunch) -> Vec<String> {
    let mut lines = vec![time(row)];
    let used = &row.used;
    let tensor = row.percentage("tensor_pipe_pct");
    let percentages = [
        ("SM", used.sm_pct),
        ("tensor pipe", tensor.filter(|percent| *percent > 0.0)),
        ("FLOP rate", used.flops_pct),
        ("DRAM", used.dram_pct),
        ("L2", used.l2_pct),
        ("L1", used.l1_pct),
    ];
    let percentages: Vec<String> = percentages
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name} {}", pct(value?))))
        .collect();
    if !percentages.is_empty() {
        lines.push(format!("Of peak: {}.", percentages.join(", ")));
    }
    lines.extend(traffic(row));
    lines.extend(work(row));
    lines.extend(occupancy(row));
    lines.extend(waiting(row));
    lines.extend(access(row));
    lines
}

fn time(row: &CountedLaunch) -> String {
    let nanos = |value: f64| Nanos(value.round() as i64);
    let own = row
        .duration_ns
        .map(|time| format!("{time} under Nsight Compute"));
    match (row.launches, row.timeline_mean_ns) {
        (Some(launches), Some(mean)) => format!(
            "{} in {} on the timeline, {} each; {}.",
            nanos(row.weight_ns()),
            Count(launches, "launch"),
            nanos(mean),
            own.unwrap_or_default()
        ),
        (None, Some(mean)) => format!(
            "{} each on the timeline; {}.",
            nanos(mean),
            own.unwrap_or_default()
        ),
        _ => format!("{}.", own.unwrap_or_else(|| "No duration".to_owned())),
    }
}

fn traffic(row: &CountedLaunch) -> Option<String> {
    let mut parts: Vec<String> = row
        .levels
        .iter()
        .map(|one| {
            let (name, rate) = (level(one.level), BytesPerSecond(one.bytes_per_s.0));
            // Rates are those under Nsight Compute, like the duration.
            let moved = row
                .duration_ns
                .map(|time| one.bytes_per_s.0 * time.seconds());
            let moved = moved.map(|bytes| Bytes(bytes.round() as u64));
            let counted = row.dram_bytes.filter(|_| one.level == Level::Dram);
            match counted.map(|bytes| Bytes(bytes.0)).or(moved) {
                Some(bytes) => format!("{name} {bytes} at {rate}"),
                None => format!("{name} {rate}"),
            }
        })
        .collect();
    for (name, key) in [
        ("L1 hits", "l1tex_hit_rate_pct"),
        ("L2 hits", "l2_hit_rate_pct"),
    ] {
        let hits = row.percentage(key);
        parts.extend(hits.map(|hits| format!("{name} {}", pct(hits))));
    }
    (!parts.is_empty()).then(|| format!("Traffic: {}.", parts.join(", ")))
}

fn work(row: &CountedLaunch) -> Option<String> {
    let parts: Vec<String> = row
        .pipes
        .iter()
        .map(|one| {
            let intensity: Vec<String> = row
                .levels
                .iter()
                .filter(|traffic| traffic.level != Level::L1 && traffic.bytes_per_s.0 > 0.0)
                .map(|traffic| {
                    let intensity = one.flops_per_s.0 / traffic.bytes_per_s.0;
                    format!(
                        "{} FLOP/B of {}",
                        hundredths(intensity),
                        level(traffic.level)
                    )
                })
                .collect();
            format!(
                "{} {} ({})",
                pipe_of(one.pipe, &one.format),
                FlopsPerSecond(one.flops_per_s.0),
                intensity.join(", ")
            )
        })
        .collect();
    (!parts.is_empty()).then(|| format!("Work: {}.", parts.join(", ")))
}

fn occupancy(row: &CountedLaunch) -> Option<String> {
    let achieved = row.percentage("achieved_occupancy_pct")?;
    let mut text = format!("Occupancy {}", pct(achieved));
    if let Some(theoretical) = row.percentage("theoretical_occupancy_pct") {
        text += &format!(" of {} possible", pct(theoretical));
        let limiters = row.occupancy_limiters.join(" and ").replace('_', " ");
        if !limiters.is_empty() && theoretical < 99.5 {
            text += &format!(", limited by {limiters}");
        }
    }
    let fill = &row.fill;
    if let (Some(blocks), Some(sms)) = (fill.blocks, fill.sms) {
        text += &format!("; {} on {}", Count(blocks, "block"), Count(sms, "SM"));
    }
    if let Some(waves) = fill.waves {
        text += &format!(", {} waves", hundredths(waves));
    }
    if let Some(tail) = fill.tail_share.filter(|tail| *tail >= 0.05) {
        text += &format!(", the last wave leaves {} idle", Percent(tail));
    }
    Some(text + ".")
}

fn waiting(row: &CountedLaunch) -> Option<String> {
    let stalls = row.stalls.iter().filter(|stall| stall.reason != "selected");
    let parts: Vec<String> = stalls
        .take(3)
        .map(|stall| format!("{} {}", stall.reason, Percent(stall.share)))
        .collect();
    (!parts.is_empty()).then(|| format!("Warp stalls: {}.", parts.join(", ")))
}

fn access(row: &CountedLaunch) -> Option<String> {
    let mut parts = Vec::new();
    let access = &row.access;
    let loads = access.sectors_per_load;
    parts.extend(loads.map(|sectors| {
        format!(
            "{} {} per load",
            format_significant(sectors),
            if sectors == 1.0 { "sector" } else { "sectors" }
        )
    }));
    let stores = access.sectors_per_store;
    parts.extend(stores.map(|sectors| format!("{} per store", format_significant(sectors))));
    let conflicts = access.bank_conflict_share.filter(|share| *share > 0.0);
    parts.extend(conflicts.map(|share| format!("{} bank conflicts", Percent(share))));
    (!parts.is_empty()).then(|| format!("Access: {}.", parts.join(", ")))
}

/// A finding, and what to try.
pub fn finding(row: &CountedLaunch, finding: &KernelFinding) -> String {
    match finding {
        KernelFinding::StreamsDram {
            sm_pct,
            dram_pct,
            l2_hit_pct,
        } => format!(
            "SM throughput {} with DRAM at {} and L2 hits at {}: the kernel streams data that it uses once. Try: {}",
            pct(*sm_pct),
            pct(*dram_pct),
            pct(*l2_hit_pct),
            advice(
                KernelBottleneck::MemoryBound,
                CountedWork::of_category(row.category())
            )
        ),
        KernelFinding::LowTensorUse { tensor_pct } => format!(
            "Tensor cores at {} of peak on a GEMM. {}",
            pct(*tensor_pct),
            low_tensor_use(row.class)
        ),
        KernelFinding::MemoryStalls {
            stall_pct,
            reason,
            occupancy_pct,
        } => format!(
            "Warps wait for memory ({reason}, {} of stalls) at {} occupancy: too few warps to hide it. Try: {}",
            pct(*stall_pct),
            pct(*occupancy_pct),
            more_warps(row)
        ),
    }
}

/// Why the tensor cores of a GEMM idle, by what limits it.
fn low_tensor_use(class: KernelBottleneck) -> &'static str {
    match class {
        KernelBottleneck::MemoryBound => {
            "It waits for DRAM. Try: more tokens per read (larger batch) or fewer weight bytes (quantized weights)."
        }
        KernelBottleneck::L2Bound | KernelBottleneck::L1Bound => {
            "A cache limits it. Try: larger tiles, or the algorithm that cuBLAS chooses for sizes that are multiples of 64."
        }
        KernelBottleneck::UnderfilledGrid => {
            "It has fewer blocks than the device has SMs. Try: larger batches or split-K."
        }
        _ => {
            "Check M, N, K (batch, head size, multiples of 8), the dtype (bf16, fp16, fp8) and the algorithm in the cuBLAS log."
        }
    }
}

/// What keeps more warps from an SM.
fn more_warps(row: &CountedLaunch) -> &'static str {
    let few_blocks = row.class == KernelBottleneck::UnderfilledGrid;
    let theoretical = row.percentage("theoretical_occupancy_pct");
    // Blocks that would fit are not there.
    let is_free = theoretical
        .zip(row.percentage("achieved_occupancy_pct"))
        .is_some_and(|(possible, achieved)| achieved < 0.5 * possible);
    let limiters: Vec<&str> = row.occupancy_limiters.iter().map(String::as_str).collect();
    match limiters.as_slice() {
        _ if few_blocks || is_free => "a larger grid (batch, split-K or split-KV), or fusion.",
        ["registers"] => "fewer registers per thread, or fusion.",
        ["shared_memory"] => "less shared memory per block, or fusion.",
        ["registers", "shared_memory"] => {
            "fewer registers per thread and less shared memory per block, or fusion."
        }
        _ => "larger grids, fewer registers or less shared memory per block, or fusion.",
    }
}

/// What work a kernel does, as far as advice differs by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedWork {
    Gemm,
    Attention,
    Other,
}

impl CountedWork {
    pub fn of_category(category: Category) -> Self {
        match category {
            Category::Gemm | Category::Gemv => Self::Gemm,
            Category::Attention => Self::Attention,
            _ => Self::Other,
        }
    }

    pub fn of_kind(kind: Kind) -> Self {
        match kind {
            Kind::Linear | Kind::Experts | Kind::Route => Self::Gemm,
            Kind::Attention | Kind::DeltaRule => Self::Attention,
            _ => Self::Other,
        }
    }
}

/// A unit used less than this leaves room to keep it busier: doing less work is not all that helps.
const NEAR_LIMIT_PCT: f64 = 80.0;
/// Occupancy below which warps may be too few to hide latency.
const LOW_OCCUPANCY_PCT: f64 = 50.0;
/// Idle time of the last wave from which on it is named.
const TAIL_SHARE_MIN: f64 = 0.1;

/// What to try for a launch: what its counters show beside its class, where no unit is near its limit.
pub fn launch_advice(row: &CountedLaunch) -> String {
    let of_class = advice(row.class, CountedWork::of_category(row.category()));
    let used = &row.used;
    let units = [
        used.sm_pct,
        used.flops_pct,
        used.dram_pct,
        used.l2_pct,
        used.l1_pct,
    ];
    let busiest = units.into_iter().flatten().reduce(f64::max);
    let Some(busiest) = busiest.filter(|busiest| *busiest < NEAR_LIMIT_PCT) else {
        return of_class.to_owned();
    };
    let mut reasons = Vec::new();
    let occupancy = row.percentage("achieved_occupancy_pct");
    if let Some(occupancy) = occupancy.filter(|percent| *percent < LOW_OCCUPANCY_PCT) {
        reasons.push(format!(
            "At {} occupancy few warps hide latency: {}",
            pct(occupancy),
            more_warps(row)
        ));
    }
    let tail = row.fill.tail_share;
    if let Some(tail) = tail.filter(|tail| *tail >= TAIL_SHARE_MIN) {
        reasons.push(format!(
            "The last wave leaves {} idle: another tile size, or split-K.",
            Percent(tail)
        ));
    }
    let is_known_by_class = matches!(
        row.class,
        KernelBottleneck::LatencyBound
            | KernelBottleneck::UnderfilledGrid
            | KernelBottleneck::Unknown
    );
    if is_known_by_class || (reasons.is_empty() && row.class != KernelBottleneck::Balanced) {
        return of_class.to_owned();
    }
    let class = if row.class == KernelBottleneck::Balanced {
        advice(KernelBottleneck::LatencyBound, CountedWork::Other)
    } else {
        of_class
    };
    if reasons.is_empty() {
        return class.to_owned();
    }
    // What to try comes first: the class may be of the busiest unit, which is then not near its limit.
    format!(
        "{} {class} The busiest unit is at {} of its peak.",
        reasons.join(" "),
        pct(busiest)
    )
}

/// What to try for a class.
pub fn advice(class: KernelBottleneck, work: CountedWork) -> &'static str {
    match (class, work) {
        (KernelBottleneck::ComputeBound, _) => "Fewer FLOPs or a faster format (fp8, int8).",
        (KernelBottleneck::MemoryBound, CountedWork::Gemm) => {
            "Fewer weight bytes (quantized weights) or more tokens per read (larger batch)."
        }
        (KernelBottleneck::MemoryBound, CountedWork::Attention) => {
            "Fewer KV bytes: fewer KV heads, a quantized or paged KV cache."
        }
        (KernelBottleneck::MemoryBound, CountedWork::Other) => {
            "Fuse it with the kernel that produces or consumes its data."
        }
        (KernelBottleneck::L2Bound | KernelBottleneck::L1Bound, _) => {
            "Wider, contiguous accesses and reuse in registers or shared memory; a vectorized kernel where the layout allows it."
        }
        (KernelBottleneck::LatencyBound, _) => {
            "More parallelism: larger batches, more warps per SM, more independent loads per thread, or fusion."
        }
        (KernelBottleneck::UnderfilledGrid, _) => {
            "More blocks: larger batches, split-K or split-KV, or fusion with adjacent kernels; a CUDA Graph hides its launch."
        }
        (KernelBottleneck::Balanced, _) => {
            "Compute and memory are used alike; only doing less of both helps."
        }
        (KernelBottleneck::Unknown, _) => {
            "Collect SpeedOfLight and MemoryWorkloadAnalysis to classify it, and name the device: --device NAME."
        }
    }
}

/// What the profiled launches stand for.
pub fn covered(analysis: &CountersAnalysis) -> Option<String> {
    let launches: u64 = analysis
        .launches
        .iter()
        .filter_map(|row| row.launches)
        .sum();
    let time: i64 = analysis
        .launches
        .iter()
        .filter_map(|row| Some(row.total_ns?.0))
        .sum();
    (launches > 0).then(|| {
        format!(
            "{} profiled launches stand for {launches} launches and {} on the timeline.",
            analysis.launches.len(),
            Nanos(time)
        )
    })
}

/// A metric of the histograms.
pub fn histogram(name: &str) -> String {
    format!("Launches by {}", metric(name))
}

pub const ROOFLINE: &str = "Each kernel stands once for every memory level, at the FLOPs per byte that the level moved. Derived ceilings \
                            are the counters' own at the clock of the launch, here at the highest; the others are the datasheet's. \
                            Kernels without floating-point work, and those on a pipe whose peak is not known, are not drawn.";

pub const NORMALIZED: &str = "The same as parts of the peak of each kernel's pipe and of the bandwidth of each memory level: left of 1 the memory \
                              level is used more than the pipe, right of it less.";

/// The device whose peaks FLOP rates are compared with.
pub fn device(analysis: &CountersAnalysis) -> String {
    let lacking = analysis.launches.iter().filter(|row| row.used.lacks_peak);
    match (&analysis.device, lacking.count()) {
        (Some(name), _) => format!("FLOP rates are of the datasheet peaks of {name}."),
        (None, 0) => "FLOP rates are of the peaks that the counters state.".to_owned(),
        (None, lacking) => format!(
            "The device is not known, and the counters state no peak for a pipe of {}: these have no FLOP rate and, below {} of other units, no class.",
            Count(lacking as u64, "kernel"),
            pct(analysis.rule.high_pct)
        ),
    }
}

pub const REPORT: &str = "The kernels with the most time. Times are the timeline's where there is one; counters are Nsight Compute's, \
                          which flushes caches before each pass.";

/// How many of the kernels a user's notes describe.
pub fn noted(noted: usize, kernels: usize) -> String {
    format!(
        "`kernel-info.yaml` describes {noted} of {}.",
        Count(kernels as u64, "kernel")
    )
}

/// The shapes of a user's note.
pub fn data_shape(shapes: &[String]) -> Option<String> {
    (!shapes.is_empty()).then(|| format!("Shapes: {}.", shapes.join("; ")))
}

/// What a dry run says of notes that a run would keep.
pub fn notes_to_keep(file: &str, kernels: usize) -> String {
    let kernels = Count(kernels as u64, "kernel");
    format!("notes on {kernels} from {file} go into the kernel report (ncu/kernel-info.yaml)")
}

pub const AGAINST_MODEL: &str = "One decode step: DRAM bytes and FLOPs of the profiled kernels, weighted by the launches that they stand for, \
                                 beside the weights, keys and values and the FLOPs of the model. A ratio above 1 is waste or an error of \
                                 the model; caches are flushed before each pass.";
