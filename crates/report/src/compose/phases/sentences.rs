//! Phases: wall time, bottleneck, utilization.

use llmprof_record::kernel_name::Category;
use llmprof_units::stats::percentile;
use llmprof_units::{Count, Nanos, Percent};

use crate::analyzed::{Analysis, ClassReason, PhaseAnalysis};
use crate::text::{bottleneck, findings, program::shortened, slices};

/// From this part on most of a time is spoken of.
pub(crate) const MAIN_PART_MIN_SHARE: f64 = 0.5;
/// Steps of a host that vary by this factor are named, from so many of them on.
const VARYING_MIN_FACTOR: f64 = 3.0;
const VARYING_MIN_STEPS: u64 = 4;
/// From this part of the GPU time on a category is what the time goes to.
const ONE_CATEGORY_MIN_SHARE: f64 = 0.9;

/// `decode 1.41 s: host-bound · GPU idle 73.0 % · at 14.8 % of roofline · MFU 0.4 % · MBU 9.1 %`.
///
/// `steps` is how many a phase of one interval has, where that is known.
pub fn line(phase: &PhaseAnalysis, steps: Option<u64>) -> String {
    let waterfall = &phase.waterfall;
    let judged = phase.judged_wall();
    let share = |part: Nanos| Percent(part.0 as f64 / judged.0.max(1) as f64);
    let wall = phase.whole_wall();
    let mut parts = Vec::from_iter(class_part(phase));
    if let Some(missing) = missing_kernels(phase) {
        parts.push(format!("{missing} missing: idle time unknown"));
    } else if phase.judged_idle().0 > 0 {
        let idle = share(phase.judged_idle());
        match &phase.traced {
            Some(traced) if traced.device.is_some() => {
                let range = idle_range(phase);
                let range = range.map(|(name, share)| format!(" ({share} in range `{name}`)"));
                parts.push(format!("GPU idle {idle}{}", range.unwrap_or_default()));
            }
            // Of a host that a profiler recorded, a little time between ops says nothing but what ranges are open in it.
            Some(traced) if !traced.by_identity => {
                let range = idle_range(phase);
                if range.is_some() || idle.0 > MAIN_PART_MIN_SHARE {
                    let range = range.map(|(name, share)| format!(" ({share} in range `{name}`)"));
                    parts.push(format!(
                        "no op runs for {idle} of the time{}",
                        range.unwrap_or_default()
                    ));
                }
            }
            _ => parts.push(format!("idle between ops {idle}")),
        }
    }
    parts.extend(varies(phase));
    // Of a phase of an unknown kind nothing is known to be needed.
    if let Some(roofline) = waterfall.roofline_ns.filter(|roofline| roofline.0 > 0) {
        // The parts are those of the captured pass.
        let of = if phase.plain_wall_ns.is_some() && judged == waterfall.wall_ns {
            " (profiled pass)"
        } else {
            ""
        };
        let at = at_most(phase).unwrap_or("at ");
        parts.push(format!("{at}{} of roofline{of}", share(roofline)));
    }
    let used = phase
        .plain_utilization
        .as_ref()
        .or(phase.utilization.as_ref());
    if let Some(used) = used {
        for (name, value) in [("MFU", used.mfu), ("MBU", used.mbu)] {
            let without = if name == "MBU" && used.without_kv_cache {
                " without KV cache"
            } else {
                ""
            };
            let most = at_most(phase).filter(|_| name == "MBU").unwrap_or("");
            parts.extend(value.map(|value| format!("{name} {most}{}{without}", Percent(value))));
        }
    }
    let sampled = phase.traced.as_ref().and_then(|traced| {
        let intervals = traced.instances.iter().filter(|one| !one.left_out);
        Some(slices::part(traced.recorded.as_ref()?, intervals.count()))
    });
    parts.extend(sampled.as_ref().map(|part| format!("sampled {part}")));
    // The part of a sample is given in steps; its plain wall time is no time that was recorded.
    let recorded = phase
        .unrecorded_wall()
        .filter(|_| sampled.is_none())
        .map_or(wall, |recorded| recorded.min(wall));
    let steps = steps.filter(|_| sampled.is_none());
    let time = times(phase).unwrap_or_else(|| with_steps(wall, recorded, steps));
    let name = shortened(phase.name());
    if parts.is_empty() {
        return format!("{name} {time}");
    }
    format!("{name} {time}: {}", parts.join(" · "))
}

/// That the steps of a host vary, which no class of bottleneck says.
fn varies(phase: &PhaseAnalysis) -> Option<String> {
    let traced = phase.traced.as_ref().filter(|one| one.device.is_none())?;
    let steps = traced.steps.as_ref()?;
    let factor = steps.max / steps.min;
    let is_told = steps.count >= VARYING_MIN_STEPS && factor >= VARYING_MIN_FACTOR;
    is_told.then(|| format!("the longest takes {factor:.1}× as long as the shortest"))
}

/// `314 kernels`, where the trace holds their launches alone.
fn missing_kernels(phase: &PhaseAnalysis) -> Option<Count<'static>> {
    let missing = phase.traced.as_ref()?.missing_kernels;
    (missing > 0).then_some(Count(missing, "kernel"))
}

/// The range that is open longest while nothing runs, and its part of the time.
pub(crate) fn idle_range(phase: &PhaseAnalysis) -> Option<(String, Percent)> {
    let range = phase.traced.as_ref()?.idle_ranges.first()?;
    let share = Percent(phase.waterfall.share(range.time_ns));
    Some((shortened(&range.name), share))
}

/// The class, or what most GPU time went to where no limit is known to compare with; nothing of a host that was recorded alone.
fn class_part(phase: &PhaseAnalysis) -> Option<String> {
    let traced = phase.traced.as_ref();
    let is_host_alone = traced.is_some_and(|one| one.device.is_none() && !one.by_identity);
    match (phase.class.class, &phase.class.why) {
        (None, ClassReason::HostAlone { uses_device: true }) => {
            Some("the GPU was not recorded".to_owned())
        }
        (None, ClassReason::HostAlone { .. }) => None,
        (None, ClassReason::NoPhases) if is_host_alone => None,
        (None, ClassReason::NoLimits | ClassReason::NoPhases) => {
            let largest = largest_category(phase);
            Some(largest.map_or_else(|| class(phase), LargestCategory::phrase))
        }
        _ => Some(class(phase)),
    }
}

/// The category of kernels with most of the GPU time.
pub(crate) struct LargestCategory {
    pub name: String,
    pub share: Percent,
    /// Whether that is more than half.
    pub is_most: bool,
}

impl LargestCategory {
    fn phrase(self) -> String {
        let Self { name, share, .. } = self;
        if self.is_most {
            format!("mostly {name} ({share} of GPU time)")
        } else {
            format!("largest part of GPU time: {name} ({share})")
        }
    }
}

/// What a phase that keeps its GPU busy is busy with.
pub(crate) fn largest_category(phase: &PhaseAnalysis) -> Option<LargestCategory> {
    let is_busy = phase.judged_idle().0 < phase.judged_wall().0 / 2;
    let waterfall = &phase.waterfall;
    let all = waterfall.busy_ns.0.saturating_add(waterfall.overlap_ns.0);
    let categories = phase.traced.as_ref()?.categories.iter();
    let mut parts: Vec<(String, i64)> = categories
        .map(|row| (row.category.to_string(), row.time_ns.0))
        .collect();
    parts.push(("copies and memsets".to_owned(), waterfall.copies_ns.0));
    parts.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    let (name, time) = parts.into_iter().next()?;
    let share = Percent((time as f64 / all.max(1) as f64).min(1.0));
    let is_told = is_busy && time > 0 && name != Category::Other.to_string();
    is_told.then_some(LargestCategory {
        name,
        share,
        is_most: time > all / 2,
    })
}

/// `training step: GPU time forward 30.1 %, backward 59.9 %, optimizer 4.0 %, communication 6.0 %.`
pub fn training(phase: &PhaseAnalysis) -> Option<String> {
    let parts = phase.traced.as_ref()?.training?;
    let all = [
        ("forward", parts.forward_ns),
        ("backward", parts.backward_ns),
        ("optimizer", parts.optimizer_ns),
        ("communication", parts.communication_ns),
        ("other", parts.other_ns),
        ("launch not recorded", parts.unattributed_ns),
    ];
    let sum = all.iter().map(|(_, time)| time.0 as f64).sum::<f64>();
    // Without a backward pass the parts say nothing.
    if parts.backward_ns.0 == 0 {
        return None;
    }
    let shown = all.iter().filter(|(_, time)| time.0 > 0);
    let shown: Vec<String> = shown
        .map(|(name, time)| format!("{name} {}", Percent(time.0 as f64 / sum)))
        .collect();
    Some(format!(
        "{}: GPU time by launch: {}.",
        phase.name(),
        shown.join(", ")
    ))
}

/// Prefix of % of roofline and MBU where expert kernels were too fast to have read all expected experts.
pub fn at_most(phase: &PhaseAnalysis) -> Option<&'static str> {
    phase.experts_at_most.map(|_| "at most ")
}

/// `10 × 841 ms` of several intervals: their mean, as findings state it; where they differ, the median, the shortest and the longest. Those
/// that are left out as warm-up are not counted.
fn times(phase: &PhaseAnalysis) -> Option<String> {
    let traced = phase.traced.as_ref()?;
    if traced.recorded.is_some() || phase.plain_wall_ns.is_some() {
        return None;
    }
    let intervals = traced.instances.iter().filter(|one| !one.left_out);
    let mut walls: Vec<Nanos> = intervals.map(|one| one.wall_ns).collect();
    walls.sort_unstable();
    let (first, last) = (*walls.first()?, *walls.last()?);
    let lengths: Vec<f64> = walls.iter().map(|wall| wall.0 as f64).collect();
    let middle = Nanos(percentile(&lengths, 0.5).round() as i64);
    match walls.len() {
        1 => None,
        2 => Some(format!("2 × ({first}, {last})")),
        count if last.0.saturating_sub(first.0) <= middle.0 / 10 => {
            let mean = lengths.iter().sum::<f64>() / count as f64;
            Some(format!("{count} × {}", Nanos(mean.round() as i64)))
        }
        count => Some(format!("{count} ×, median {middle} ({first} to {last})")),
    }
}

/// The time of all batches, and the part of it that shares are of: a profiler may have recorded the first batch only.
fn of_which(wall: Nanos, recorded: Nanos) -> String {
    if wall.0 - recorded.0 > wall.0 / 1000 {
        format!("{wall}, of which {recorded} recorded")
    } else {
        wall.to_string()
    }
}

/// The same with the mean step, where all of it was recorded: `83.79 ms (6 × 13.97 ms)`.
fn with_steps(wall: Nanos, recorded: Nanos, steps: Option<u64>) -> String {
    let time = of_which(wall, recorded);
    match steps {
        Some(steps @ 2..) if time == wall.to_string() => {
            let step = Nanos((wall.0 as f64 / steps as f64).round() as i64);
            format!("{time} ({steps} × {step})")
        }
        _ => time,
    }
}

pub fn class(phase: &PhaseAnalysis) -> String {
    match phase.class.class {
        Some(class) => class.to_string(),
        None if phase.class.is_unknown() => "bottleneck unknown".to_owned(),
        None => "no dominant bottleneck".to_owned(),
    }
}

/// The class of a phase with its reason.
pub fn why(phase: &PhaseAnalysis) -> String {
    let reason = bottleneck::reason(phase.class.class, &phase.class.why);
    // Where one category takes nearly all of the time, no range is needed to name it.
    let largest = largest_category(phase)
        .filter(|_| phase.class.why == ClassReason::NoPhases)
        .filter(|largest| largest.share.0 >= ONE_CATEGORY_MIN_SHARE);
    let class = largest.map_or_else(|| class(phase), LargestCategory::phrase);
    format!("{}: {class}: {reason}.", phase.name())
}

/// The head of the column of wall times without a profiler. Of a sample they are not those of the whole phase.
pub fn plain_wall(analysis: &Analysis) -> &'static str {
    if analysis.phases.iter().any(is_sampled) {
        "Wall time, plain, of the sampled steps"
    } else {
        "Wall time, plain"
    }
}

fn is_sampled(phase: &PhaseAnalysis) -> bool {
    let recorded = phase.traced.as_ref().and_then(|traced| traced.recorded);
    recorded.is_some() && phase.capture_ratio.is_some()
}

/// What the column of profiling overhead means; nothing where no phase has a plain pass beside the captured one.
pub fn overhead(analysis: &Analysis) -> Option<String> {
    let mut phases = analysis.phases.iter();
    phases.find(|phase| phase.capture_ratio.is_some())?;
    Some(
        if analysis.latency.measured_in.is_some() && analysis.phases.iter().any(is_sampled) {
            "Profiling overhead is the mean recorded step ÷ the mean step of the plain passes. The profiled wall time is that of the \
         recorded steps, the plain wall time that of as many plain steps."
            .to_owned()
        } else if analysis.latency.measured_in.is_some() {
            "Profiling overhead is the wall time of the profiled pass ÷ that of the plain passes. Both vary from pass to pass."
            .to_owned()
        } else {
            "Profiling overhead is the median step inside slices ÷ the median step between slices. The profiled wall time is that of the \
         recorded steps, the plain wall time the same ÷ profiling overhead."
            .to_owned()
        },
    )
}

/// Where the bytes of a step can stay.
pub fn residence(phase: &PhaseAnalysis) -> Option<String> {
    let residence = phase.residence.as_ref()?;
    let capacity = residence
        .capacity_bytes
        .map(|capacity| format!(" ({capacity})"))
        .unwrap_or_default();
    Some(format!(
        "{}: minimum traffic per step {} (weights, KV cache, inputs and outputs), from {}{capacity}.",
        phase.name(),
        residence.bytes_per_step,
        match residence.name.as_str() {
            "main" => "DRAM".to_owned(),
            name => findings::cache(name),
        },
    ))
}

/// What the columns of the roofline table mean.
pub fn roofline_basis(analysis: &Analysis) -> String {
    let mut phases = analysis.phases.iter();
    let is_plain = phases.any(|phase| phase.unrecorded_wall().is_some());
    format!(
        "Arithmetic intensity is FLOPs ÷ minimum DRAM traffic; below the ridge point memory limits, above it compute. Roofline time \
         is Σ over operators of max(FLOPs ÷ peak, bytes ÷ bandwidth); with perfect overlap across operators it is max(Σ FLOPs ÷ \
         peak, Σ bytes ÷ bandwidth). Shares are of the wall time of the {}.",
        match (is_plain, analysis.latency.measured_in) {
            (true, Some(_)) => "plain passes",
            (true, None) => "same steps between slices",
            (false, _) => "profiled pass",
        }
    )
}

#[cfg(test)]
mod tests {
    use super::{Nanos, of_which, with_steps};

    #[test]
    fn shares_of_a_part_name_the_part() {
        let of = |wall, recorded| of_which(Nanos(wall), Nanos(recorded));
        assert_eq!(of(1_000_000_000, 999_999_999), "1 s");
        assert_eq!(
            of(1_153_000_000, 107_100_000),
            "1.153 s, of which 107.1 ms recorded"
        );
    }

    #[test]
    fn a_phase_of_one_interval_has_its_mean_step() {
        let of = |recorded, steps| with_steps(Nanos(102_000_000), Nanos(recorded), steps);
        assert_eq!(of(102_000_000, Some(6)), "102 ms (6 × 17 ms)");
        assert_eq!(of(102_000_000, Some(1)), "102 ms");
        assert_eq!(of(102_000_000, None), "102 ms");
        assert_eq!(of(50_000_000, Some(6)), "102 ms, of which 50 ms recorded");
    }
}
