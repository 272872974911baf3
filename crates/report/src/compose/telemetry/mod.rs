//! What CPU, memory and GPUs did during the run.

pub mod sentences;

use llmprof_record::samples::Samples;
use llmprof_units::{Percent, format_significant};

use self::sentences as text;
use super::DEVICES_MAX;
use crate::analyzed::{Analysis, GpuPhase, HostTelemetry};
use crate::text::{dash, devices};
use crate::view::Series;
use crate::{Document, Drawing, Table, document::key};

/// Adds the section where anything was sampled.
pub(super) fn add(document: &mut Document, analysis: &Analysis, curves: &[Series]) {
    let telemetry = analysis.telemetry.as_ref();
    if telemetry.is_none() && curves.is_empty() {
        return;
    }
    let section = document.section("telemetry", "Telemetry");
    for series in curves {
        let name = match series.key.as_str() {
            "" => key(&series.title),
            name => name.to_owned(),
        };
        section.chart(format!("telemetry_{name}"), Drawing::Series(series.clone()));
    }
    if let Some(telemetry) = telemetry {
        section.paragraph(text::basis(telemetry));
        section.table(phases(telemetry));
        section.list(text::facts(analysis, telemetry));
    }
}

/// Samples of GPUs that nothing else was recorded with: their curves, and a row per GPU.
pub(super) fn add_alone(document: &mut Document, samples: &Samples, curves: &[Series]) {
    let section = document.section("telemetry", "Telemetry");
    // One moment is no curve.
    if samples.gpus.iter().any(|gpu| gpu.rows.len() > 1) {
        for series in curves {
            let name = format!("telemetry_{}", series.key);
            section.chart(name, Drawing::Series(series.clone()));
        }
    }
    let mut table = Table::new(
        &[
            "GPU",
            "Samples",
            "Span",
            "Utilization",
            "Power, mean",
            "Power, max",
            "Energy",
            "SM clock",
            "Memory clock",
            "Temperature, max",
            "Memory used, max",
            "Throttled",
        ],
        1,
    );
    for gpu in samples.gpus.iter().take(DEVICES_MAX) {
        table.row(text::gpu_cells(gpu));
    }
    section.table(table);
    let more = samples.gpus.len().saturating_sub(DEVICES_MAX);
    if more > 0 {
        section.paragraph(devices::more(more, "samples.json"));
    }
}

/// A row per phase. Columns that nothing was measured for are left out.
fn phases(telemetry: &HostTelemetry) -> Table {
    let has_energy = telemetry.phases.iter().any(|phase| phase.energy.is_some());
    let has_gpus = telemetry.phases.iter().any(|phase| !phase.gpus.is_empty());
    let mut headers = vec![
        "Phase",
        "Time, all passes",
        "CPU busy",
        "Worker cores",
        "CPU clock",
    ];
    if has_energy {
        headers.extend(["Energy", "Power (energy ÷ time)", "Energy per output token"]);
    }
    if has_gpus {
        headers.extend([
            "GPU utilization",
            "GPU power, sampled",
            "SM clock",
            "GPU temperature",
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
            let energy = phase.energy.as_ref();
            cells.extend([
                energy.map_or_else(dash, |energy| energy.joules.to_string()),
                phase.power().map_or_else(dash, |power| power.to_string()),
                phase
                    .joules_per_token()
                    .map_or_else(dash, |energy| energy.to_string()),
            ]);
        }
        if has_gpus {
            let each = |cell: &dyn Fn(&GpuPhase) -> Option<String>| {
                let cells = phase.gpus.iter().map(|gpu| cell(gpu).unwrap_or_else(dash));
                cells.collect::<Vec<_>>().join(", ")
            };
            cells.extend([
                each(&|gpu| Some(Percent(gpu.utilization_percent? / 100.0).to_string())),
                each(&|gpu| Some(format!("{} W", format_significant(gpu.power_w?)))),
                each(&|gpu| Some(format!("{} MHz", format_significant(gpu.sm_clock_mhz?)))),
                each(&|gpu| Some(format!("{} °C", format_significant(gpu.temperature_c?)))),
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
