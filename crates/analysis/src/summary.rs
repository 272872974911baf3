//! An analysis in ten lines.

use llmprof_units::Nanos;

use crate::analysis::Analysis;
use crate::phases::PhaseSource;

/// Where the time went, in about ten lines for a terminal.
pub fn summary_lines(analysis: &Analysis) -> Vec<String> {
    let totals = &analysis.totals;
    let time = |ns: i64| Nanos(ns).to_string();
    let percent = |part: i64, whole: i64| {
        if whole > 0 {
            format!("{:.1} %", 100.0 * part as f64 / whole as f64)
        } else {
            "–".to_owned()
        }
    };
    let mut lines = vec![
        format!(
            "{} events in {}: {} host slices, {} kernels, {} copies, {} memsets",
            totals.events,
            time(totals.span_ns),
            totals.host_slices,
            totals.kernels,
            totals.copies,
            totals.memsets
        ),
        format!(
            "device time {} (kernels {}), busy {} of {} from first to last event ({})",
            time(totals.device_time_ns),
            time(totals.kernel_time_ns),
            time(totals.busy_ns),
            time(totals.device_span_ns),
            percent(totals.busy_ns, totals.device_span_ns)
        ),
    ];
    for device in &analysis.devices {
        let idle = &device.total.idle;
        lines.push(format!(
            "device {}: idle {}: host busy {}, host in a sync call {}, launch to start {}, between queued {}, unknown {}",
            device.device,
            time(device.total.idle_ns),
            time(idle.host_busy_ns),
            time(idle.host_sync_ns),
            time(idle.launch_latency_ns),
            time(idle.queued_gap_ns),
            time(idle.unknown_ns)
        ));
    }
    let how = match (analysis.phase_source, analysis.phase_confidence) {
        (PhaseSource::Annotation, _) => "from annotations".to_owned(),
        (PhaseSource::Inferred, Some(confidence)) => {
            format!("inferred from repeating kernels, confidence {confidence:.2}")
        }
        (PhaseSource::Inferred, None) => "inferred from repeating kernels".to_owned(),
        (PhaseSource::Whole, _) => "none found: the whole trace is one".to_owned(),
    };
    let phases: Vec<String> = analysis
        .phases
        .iter()
        .map(|phase| {
            let busy = phase.devices.iter().fold(0_i64, |sum, device| {
                sum.saturating_add(device.total.busy_ns)
            });
            format!(
                "{} ×{} {} (busy {}, {} kernels)",
                phase.name,
                phase.instances,
                time(phase.span_ns),
                percent(busy, phase.span_ns),
                phase.kernels
            )
        })
        .collect();
    lines.push(format!("phases ({how}): {}", phases.join(", ")));
    lines.push(format!(
        "operators hold {} of device time{}",
        percent(totals.attributed_ns, totals.device_time_ns),
        match analysis.unattributed.first() {
            Some(row) => format!("; of the rest, {1} events: {0}", row.reason, row.events),
            None => String::new(),
        }
    ));
    for operator in analysis.operators.iter().take(2) {
        lines.push(format!(
            "operator {}: {} calls, device {} ({})",
            operator.name,
            operator.times.calls,
            time(operator.times.device_self_ns),
            percent(operator.times.device_self_ns, totals.device_time_ns)
        ));
    }
    for kernel in analysis.kernels.iter().take(3) {
        lines.push(format!(
            "kernel {}: {} calls, {} ({:.1} %, {} of {})",
            shortened(&kernel.name),
            kernel.calls,
            time(kernel.total_ns),
            kernel.share_pct,
            kernel.category,
            kernel.library
        ));
    }
    lines
}

/// A name cut to a length that leaves room for figures.
fn shortened(name: &str) -> String {
    const LONGEST: usize = 60;
    if name.chars().count() <= LONGEST {
        return name.to_owned();
    }
    let mut short: String = name.chars().take(LONGEST - 1).collect();
    short.push('…');
    short
}
