//! What the machine did meanwhile, as a section of the report.

use llmprof_analysis::Analysis;
use llmprof_analysis::telemetry::{HostTelemetry, PhaseTelemetry, ProcessorUse};
use llmprof_units::{Count, Percent, significant};

use crate::{Document, Table};

/// Adds the section where anything was sampled.
pub(super) fn section(document: &mut Document, analysis: &Analysis) {
    let Some(telemetry) = &analysis.telemetry else {
        return;
    };
    document.heading("Telemetry");
    document.paragraph(format!(
        "{}, one every {}; taking them cost {} of processor time. Means over the passes without capture.",
        Count(telemetry.samples, "sample"), telemetry.period_ns, telemetry.cost_ns
    ));
    document.table(phases(telemetry));
    let mut facts = Vec::new();
    if let Some(peak) = telemetry.peak_worker_rss_bytes {
        facts.push(format!("The process that ran the model held up to {peak}."));
    }
    facts.extend(telemetry.processors.as_ref().map(processors));
    let energy = telemetry
        .phases
        .iter()
        .find_map(|phase| phase.energy.as_ref());
    match energy {
        Some(energy) => facts.push(format!(
            "Energy is that of {} ({}).",
            energy.covers.join(", "),
            energy.basis
        )),
        None => facts.push("Energy was not measured on this machine.".to_owned()),
    }
    let passes = analysis.latency.repeats.max(1) as i64;
    let short = telemetry
        .phases
        .iter()
        .filter(|phase| phase.energy.is_some() && phase.time_ns.0 / passes < telemetry.period_ns.0);
    let short: Vec<String> = short.map(|phase| phase.phase.to_string()).collect();
    if !short.is_empty() {
        facts.push(format!(
            "{} took less than the time between samples: energy and power there are read off the line between two of them.",
            short.join(", ")
        ));
    }
    let untold = |phase: &PhaseTelemetry| {
        let mut gpus = phase.gpus.iter();
        gpus.any(|gpu| gpu.utilization_percent.is_none())
    };
    if telemetry.phases.iter().any(untold) {
        facts.push(
            "How busy GPUs are is told for up to the last second: stretches of less than a second have no such figure."
                .to_owned(),
        );
    }
    if let Some(counters) = &telemetry.counters {
        let count = |value: Option<u64>| value.map_or_else(dash, |value| significant(value as f64));
        facts.push(format!(
            "In the captured pass the processor counted {} cycles, {} instructions ({} a cycle), {} accesses to the last level \
             of cache and {} misses of it.",
            count(counters.cycles),
            count(counters.instructions),
            counters.instructions_per_cycle().map_or_else(dash, significant),
            count(counters.cache_references),
            count(counters.cache_misses),
        ));
    }
    document.list(facts);
}

/// A row per phase, and one per GPU below it. Columns that nothing was measured for are left out.
fn phases(telemetry: &HostTelemetry) -> Table {
    let has_energy = telemetry.phases.iter().any(|phase| phase.energy.is_some());
    let has_gpus = telemetry.phases.iter().any(|phase| !phase.gpus.is_empty());
    let mut headers = vec![
        "Phase",
        "Time, all passes",
        "Processors busy",
        "Cores of the worker",
        "Clock",
    ];
    if has_energy {
        headers.extend(["Energy", "Power", "Energy per token"]);
    }
    if has_gpus {
        headers.extend([
            "GPUs busy",
            "GPU power",
            "GPU clock",
            "Hottest",
            "Throttled",
        ]);
    }
    let mut table = Table::new(&headers, 1);
    for phase in &telemetry.phases {
        let mut cells = vec![
            phase.phase.to_string(),
            phase.time_ns.to_string(),
            phase
                .cpu_percent
                .map_or_else(dash, |percent| Percent(percent / 100.0).to_string()),
            phase
                .worker_cores
                .map_or_else(dash, |cores| format!("{cores:.2}")),
            phase
                .frequency_hz
                .map_or_else(dash, |clock| clock.to_string()),
        ];
        if has_energy {
            cells.extend([
                phase
                    .energy
                    .as_ref()
                    .map_or_else(dash, |energy| energy.joules.to_string()),
                phase.power().map_or_else(dash, |power| power.to_string()),
                phase
                    .joules_per_token()
                    .map_or_else(dash, |energy| energy.to_string()),
            ]);
        }
        if has_gpus {
            let each = |cell: &dyn Fn(&llmprof_analysis::telemetry::GpuPhase) -> Option<String>| {
                let cells = phase.gpus.iter().map(|gpu| cell(gpu).unwrap_or_else(dash));
                cells.collect::<Vec<_>>().join(", ")
            };
            cells.extend([
                each(&|gpu| Some(Percent(gpu.utilization_percent? / 100.0).to_string())),
                each(&|gpu| Some(format!("{} W", significant(gpu.power_w?)))),
                each(&|gpu| Some(format!("{} MHz", significant(gpu.sm_clock_mhz?)))),
                each(&|gpu| Some(format!("{} °C", significant(gpu.temperature_c?)))),
                each(&|gpu| {
                    let share = Percent(gpu.throttled_share?).to_string();
                    Some(if gpu.throttle_reasons.is_empty() {
                        share
                    } else {
                        format!("{share} ({})", gpu.throttle_reasons.join(", "))
                    })
                }),
            ]);
        }
        table.row(cells);
    }
    table
}

fn dash() -> String {
    "–".to_owned()
}

/// Who used the processors that the worker may use; the parts add up as they are printed.
fn processors(found: &ProcessorUse) -> String {
    let printed = |value: f64| (value * 100.0).round() / 100.0;
    let [busy, worker, stolen] = [found.busy, found.worker, found.stolen].map(printed);
    // Rounded by itself it could miss the sum by one in the last place.
    let others = (busy - worker - stolen).max(0.0);
    let mut text = format!(
        "Of {} processor{} that it may use, {busy:.2} were busy: {worker:.2} with it, {others:.2} with other programs",
        found.processors,
        if found.processors == 1.0 { "" } else { "s" },
    );
    // Less would be shown as nothing.
    if stolen > 0.0 {
        text += &format!(", {stolen:.2} taken by the hypervisor");
    }
    if let Some(waiting) = found.waiting {
        text += &format!("; its threads waited for one {waiting:.2} s of every second");
    }
    text + "."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_add_up() {
        let mut found = ProcessorUse {
            processors: 2.0,
            busy: 2.0,
            worker: 0.82,
            stolen: 0.09,
            waiting: Some(1.04),
            ..ProcessorUse::default()
        };
        assert_eq!(
            processors(&found),
            "Of 2 processors that it may use, 2.00 were busy: 0.82 with it, 1.09 with other programs, 0.09 taken by the \
             hypervisor; its threads waited for one 1.04 s of every second."
        );
        // By themselves they would be 1.91, 1.90 and 0.02.
        let (busy, worker) = (1.914, 1.899);
        let rounded = ProcessorUse {
            busy,
            worker,
            stolen: 0.0,
            ..found
        };
        assert!(
            processors(&rounded).contains("1.91 were busy: 1.90 with it, 0.01 with other programs"),
            "{}",
            processors(&rounded)
        );
        (found.processors, found.stolen, found.waiting) = (1.0, 0.0, None);
        assert!(processors(&found).starts_with("Of 1 processor that"));
        assert!(processors(&found).ends_with("1.18 with other programs."));
    }
}
