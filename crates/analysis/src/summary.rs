//! An analysis in ten lines.

use llmprof_units::{Count, Nanos};

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
    if totals.kernels + totals.copies + totals.memsets == 0 {
        return of_host(analysis);
    }
    let mut lines = vec![
        format!(
            "{} in {}: {}, {}, {}, {}{}",
            Count(totals.events, "event"),
            time(totals.span_ns),
            Count(totals.host_slices, "host slice"),
            Count(totals.kernels, "kernel"),
            Count(totals.copies, "copy"),
            Count(totals.memsets, "memset"),
            others(analysis)
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
    let phases: Vec<String> = analysis
        .phases
        .iter()
        .map(|phase| {
            let busy = phase.devices.iter().fold(0_i64, |sum, device| {
                sum.saturating_add(device.total.busy_ns)
            });
            format!(
                "{} ×{} {} (busy {}, {})",
                phase.name,
                phase.instances,
                time(phase.span_ns),
                percent(busy, phase.span_ns),
                Count(phase.kernels, "kernel")
            )
        })
        .collect();
    lines.push(format!(
        "phases ({}): {}",
        how_found(analysis),
        phases.join(", ")
    ));
    lines.push(format!(
        "operators hold {} of device time{}",
        percent(totals.attributed_ns, totals.device_time_ns),
        match analysis.unattributed.first() {
            Some(row) => format!(
                "; of the rest, {}: {}",
                Count(row.events, "event"),
                row.reason
            ),
            None => String::new(),
        }
    ));
    for operator in analysis.operators.iter().take(2) {
        lines.push(format!(
            "operator {}: {}, device {} ({})",
            operator.name,
            Count(operator.times.calls, "call"),
            time(operator.times.device_self_ns),
            percent(operator.times.device_self_ns, totals.device_time_ns)
        ));
    }
    for kernel in analysis.kernels.iter().take(3) {
        lines.push(format!(
            "kernel {}: {}, {} ({:.1} %, {} of {})",
            shortened(&kernel.name),
            Count(kernel.calls, "call"),
            time(kernel.total_ns),
            kernel.share_pct,
            kernel.category,
            kernel.library
        ));
    }
    lines
}

/// What a trace without device events says: the host's part.
fn of_host(analysis: &Analysis) -> Vec<String> {
    let totals = &analysis.totals;
    let phases = analysis.phases.iter();
    let phases: Vec<String> = phases
        .map(|phase| {
            let span = Nanos(phase.span_ns);
            format!("{} ×{} {span}", phase.name, phase.instances)
        })
        .collect();
    let mut lines = vec![
        format!(
            "{} in {}: {}{}, none of a device",
            Count(totals.events, "event"),
            Nanos(totals.span_ns),
            Count(totals.host_slices, "host slice"),
            others(analysis)
        ),
        format!("phases ({}): {}", how_found(analysis), phases.join(", ")),
    ];
    let mut longest: Vec<_> = analysis.operators.iter().collect();
    longest.sort_by_key(|operator| std::cmp::Reverse(operator.times.host_self_ns));
    lines.extend(longest.iter().take(3).map(|operator| {
        format!(
            "operator {}: {}, host {} without those it calls",
            operator.name,
            Count(operator.times.calls, "call"),
            Nanos(operator.times.host_self_ns)
        )
    }));
    lines
}

/// Events that have no name of their own in the line, so that it adds up: ranges, samples of memory.
fn others(analysis: &Analysis) -> String {
    let totals = &analysis.totals;
    let told = totals.host_slices + totals.kernels + totals.copies + totals.memsets;
    match totals.events.saturating_sub(told) {
        0 => String::new(),
        others => format!(", {}", Count(others, "other")),
    }
}

/// How phases were told apart.
fn how_found(analysis: &Analysis) -> String {
    match (analysis.phase_source, analysis.phase_confidence) {
        (PhaseSource::Annotation, _) => "from annotations".to_owned(),
        (PhaseSource::Inferred, Some(confidence)) => {
            format!("inferred from repeating kernels, confidence {confidence:.2}")
        }
        (PhaseSource::Inferred, None) => "inferred from repeating kernels".to_owned(),
        (PhaseSource::Whole, _) => "none found: the whole trace is one".to_owned(),
    }
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
