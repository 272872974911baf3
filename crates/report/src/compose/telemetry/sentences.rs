//! What CPU, memory and GPUs did during the run.

use llmprof_record::samples::{GpuSample, GpuSeries};
use llmprof_units::{Bytes, Count, Hertz, Nanos, Percent, Watts, format_significant};

use crate::analyzed::{Analysis, HostTelemetry, PhaseTelemetry, ProcessorUse};
use crate::text::dash;

/// What the table's figures are of.
pub fn basis(telemetry: &HostTelemetry) -> String {
    format!(
        "{}, one every {}; sampling took {} of CPU time. Means over the plain passes.",
        Count(telemetry.samples, "sample"),
        telemetry.period_ns,
        telemetry.cost_ns
    )
}

/// The span of the samples of a GPU.
fn span(gpu: &GpuSeries) -> Option<(Nanos, Nanos)> {
    let (first, last) = (gpu.rows.first()?, gpu.rows.last()?);
    Some((first.time_ns, last.time_ns))
}

/// The mean of the samples, as in the tables of curves: times of `nvidia-smi dmon` may be assumed.
fn mean(gpu: &GpuSeries, value: fn(&GpuSample) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = gpu.rows.iter().filter_map(value).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn most(gpu: &GpuSeries, value: fn(&GpuSample) -> Option<f64>) -> Option<f64> {
    gpu.rows.iter().filter_map(value).reduce(f64::max)
}

fn name(gpu: &GpuSeries) -> String {
    match gpu.name.as_str() {
        "" => format!("GPU {}", gpu.index),
        name => format!("GPU {} ({name})", gpu.index),
    }
}

const POWER: fn(&GpuSample) -> Option<f64> = |row| Some(row.power_w.or(row.power_instant_w)?.0);

/// The samples of one GPU in a sentence.
pub fn gpu(gpu: &GpuSeries) -> String {
    let mut parts = Vec::new();
    if let Some(busy) = mean(gpu, |row| row.gpu_percent) {
        parts.push(format!("busy {}", Percent(busy / 100.0)));
    }
    if let Some(power) = mean(gpu, POWER) {
        parts.push(Watts(power).to_string());
    }
    if let Some(clock) = mean(gpu, |row| Some(row.sm_clock_hz?.0)) {
        parts.push(format!("SM clock {}", Hertz(clock)));
    }
    if let Some(used) = most(gpu, |row| Some(row.memory_used_bytes?.0 as f64)) {
        parts.push(format!("max memory used {}", Bytes(used as u64)));
    }
    let samples = Count(gpu.rows.len() as u64, "sample");
    format!("{}, {samples}: {}.", name(gpu), parts.join(", "))
}

/// The same as the cells of a row.
pub fn gpu_cells(gpu: &GpuSeries) -> Vec<String> {
    let (start, end) = span(gpu).unwrap_or_default();
    let shown = |value: Option<String>| value.unwrap_or_else(dash);
    let throttled = gpu.throttled_between(start, end).map(|held| {
        let reasons: Vec<String> = held.reasons.iter().map(|(r, _)| r.to_string()).collect();
        if reasons.is_empty() {
            Percent(held.share).to_string()
        } else {
            format!("{} ({})", Percent(held.share), reasons.join(", "))
        }
    });
    let energy = gpu.energy_between(start, end).filter(|_| end > start);
    vec![
        name(gpu),
        gpu.rows.len().to_string(),
        (end - start).to_string(),
        shown(mean(gpu, |row| row.gpu_percent).map(|busy| Percent(busy / 100.0).to_string())),
        shown(mean(gpu, POWER).map(|power| Watts(power).to_string())),
        shown(most(gpu, POWER).map(|power| Watts(power).to_string())),
        shown(energy.map(|energy| format!("{} ({})", energy.joules, energy.basis))),
        shown(mean(gpu, |row| Some(row.sm_clock_hz?.0)).map(|hz| Hertz(hz).to_string())),
        shown(mean(gpu, |row| Some(row.memory_clock_hz?.0)).map(|hz| Hertz(hz).to_string())),
        shown(most(gpu, |row| row.temperature_c).map(|c| format!("{} °C", format_significant(c)))),
        shown(
            most(gpu, |row| Some(row.memory_used_bytes?.0 as f64))
                .map(|used| Bytes(used as u64).to_string()),
        ),
        shown(throttled),
    ]
}

/// What the table does not say.
pub fn facts(analysis: &Analysis, telemetry: &HostTelemetry) -> Vec<String> {
    let mut facts = Vec::new();
    if let Some(peak) = telemetry.peak_worker_rss_bytes {
        facts.push(format!("Peak resident memory of the worker: {peak}."));
    }
    facts.extend(telemetry.processors.as_ref().map(processors));
    let energy = telemetry
        .phases
        .iter()
        .find_map(|phase| phase.energy.as_ref());
    facts.push(match energy {
        Some(energy) => format!(
            "Energy covers {} ({}).",
            energy.covers.join(", "),
            energy.basis
        ),
        None => "This machine has no readable energy counter.".to_owned(),
    });
    let passes = analysis.latency.repeats.max(1) as i64;
    let short = telemetry
        .phases
        .iter()
        .filter(|phase| phase.energy.is_some() && phase.time_ns.0 / passes < telemetry.period_ns.0);
    let short: Vec<String> = short.map(|phase| phase.phase.to_string()).collect();
    if !short.is_empty() {
        facts.push(format!(
            "{} took less than one sampling period: energy and power there are interpolated between two samples.",
            short.join(", ")
        ));
    }
    let without = |phase: &PhaseTelemetry| {
        let mut gpus = phase.gpus.iter();
        gpus.any(|gpu| gpu.utilization_percent.is_none())
    };
    if telemetry.phases.iter().any(without) {
        facts.push(
            "NVML averages GPU utilization over up to a second: phases shorter than that have no such figure."
                .to_owned(),
        );
    }
    if let Some(counters) = &telemetry.counters {
        let count =
            |value: Option<u64>| value.map_or_else(dash, |value| format_significant(value as f64));
        facts.push(format!(
            "CPU counters of the profiled pass: {} cycles, {} instructions ({} per cycle), {} last-level cache references, {} misses.",
            count(counters.cycles),
            count(counters.instructions),
            counters.instructions_per_cycle().map_or_else(dash, format_significant),
            count(counters.cache_references),
            count(counters.cache_misses),
        ));
    }
    facts
}

/// Who used the CPUs that the worker may use; the parts add up as they are printed.
fn processors(usage: &ProcessorUse) -> String {
    let printed = |value: f64| (value * 100.0).round() / 100.0;
    let [busy, worker, stolen] = [usage.busy, usage.worker, usage.stolen].map(printed);
    // Rounded by itself it could miss the sum by one in the last place.
    let others = (busy - worker - stolen).max(0.0);
    let mut text = format!(
        "Of {} CPU{} the worker may use, {busy:.2} were busy: {worker:.2} with the worker, {others:.2} with other programs",
        usage.processors,
        if usage.processors == 1.0 { "" } else { "s" },
    );
    // Less would be shown as nothing.
    if stolen > 0.0 {
        text += &format!(", {stolen:.2} stolen by the hypervisor");
    }
    if let Some(waiting) = usage.waiting {
        text += &format!("; its threads waited {waiting:.2} s per second for a CPU");
    }
    text + "."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_add_up() {
        let mut usage = ProcessorUse {
            processors: 2.0,
            busy: 2.0,
            worker: 0.82,
            stolen: 0.09,
            waiting: Some(1.04),
            ..ProcessorUse::default()
        };
        assert_eq!(
            processors(&usage),
            "Of 2 CPUs the worker may use, 2.00 were busy: 0.82 with the worker, 1.09 with other programs, 0.09 stolen by the \
             hypervisor; its threads waited 1.04 s per second for a CPU."
        );
        // By themselves they would be 1.91, 1.90 and 0.02.
        let (busy, worker) = (1.914, 1.899);
        let rounded = ProcessorUse {
            busy,
            worker,
            stolen: 0.0,
            ..usage
        };
        assert!(
            processors(&rounded)
                .contains("1.91 were busy: 1.90 with the worker, 0.01 with other programs"),
            "{}",
            processors(&rounded)
        );
        (usage.processors, usage.stolen, usage.waiting) = (1.0, 0.0, None);
        assert!(processors(&usage).starts_with("Of 1 CPU the"));
        assert!(processors(&usage).ends_with("1.18 with other programs."));
    }
}
