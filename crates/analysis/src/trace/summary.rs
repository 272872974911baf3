//! An analysis in ten lines.

use llmprof_units::{Count, Nanos};

use crate::phases::PhaseSource;
use crate::trace::TraceAnalysis;

/// Where the time went, in about ten lines for a terminal.
pub fn summary_lines(analysis: &TraceAnalysis) -> Vec<String> {
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
    // What lies between slices was not seen: it is neither busy nor idle.
    // Devices work at once: together they have as much time as there are of them.
    let devices = i64::try_from(analysis.devices.len().max(1)).unwrap_or(i64::MAX);
    let of_devices = |ns: i64| ns.saturating_mul(devices);
    let (whole, which) = if analysis.scaled.is_some() {
        let idle = analysis.devices.iter().map(|device| device.total.idle_ns.0);
        let seen = idle.fold(totals.busy_ns.0, i64::saturating_add);
        (seen, "that were recorded in slices".to_owned())
    } else {
        let each = match devices {
            1 => String::new(),
            several => format!(" on {several} devices"),
        };
        let whole = of_devices(totals.device_span_ns.0);
        (whole, format!("from first to last event{each}"))
    };
    let mut lines = vec![
        format!(
            "{} in {}: {}, {}, {}, {}{}",
            Count(totals.events, "event"),
            time(totals.span_ns.0),
            Count(totals.host_slices, "host slice"),
            Count(totals.kernels, "kernel"),
            Count(totals.copies, "copy"),
            Count(totals.memsets, "memset"),
            others(analysis)
        ),
        format!(
            "device time {} (kernels {}), busy {} of {} {which} ({})",
            time(totals.device_time_ns.0),
            time(totals.kernel_time_ns.0),
            time(totals.busy_ns.0),
            time(whole),
            percent(totals.busy_ns.0, whole)
        ),
    ];
    for device in &analysis.devices {
        let idle = &device.total.idle;
        lines.push(format!(
            "device {}: idle {}: host busy {}, host in a sync call {}, launch to start {}, between queued {}, unknown {}",
            device.device,
            time(device.total.idle_ns.0),
            time(idle.host_busy_ns.0),
            time(idle.host_sync_ns.0),
            time(idle.launch_latency_ns.0),
            time(idle.queued_gap_ns.0),
            time(idle.unknown_ns.0)
        ));
    }
    let phases: Vec<String> = analysis
        .phases
        .iter()
        .map(|phase| {
            let busy = phase.devices.iter().fold(0_i64, |sum, device| {
                sum.saturating_add(device.total.busy_ns.0)
            });
            format!(
                "{} ×{} {} (busy {}, {})",
                phase.name,
                phase.instances,
                time(phase.span_ns.0),
                percent(busy, of_devices(phase.span_ns.0)),
                Count(phase.kernels, "kernel")
            )
        })
        .collect();
    lines.push(format!(
        "phases ({}): {}",
        how_found(analysis),
        phases.join(", ")
    ));
    lines.push(if analysis.operators.is_empty() {
        "no operators of a framework were recorded".to_owned()
    } else {
        let rest = analysis.unattributed.first().map(|row| {
            let events = Count(row.events, "event");
            format!("; of the rest, {events}: {}", row.reason)
        });
        format!(
            "operators of the framework launched {} of device time{}",
            percent(totals.attributed_ns.0, totals.device_time_ns.0),
            rest.unwrap_or_default()
        )
    });
    for operator in analysis.operators.iter().take(2) {
        lines.push(format!(
            "operator {}: {}, device {} ({})",
            operator.name,
            Count(operator.times.calls, "call"),
            time(operator.times.device_self_ns.0),
            percent(operator.times.device_self_ns.0, totals.device_time_ns.0)
        ));
    }
    for kernel in analysis.kernels.iter().take(3) {
        lines.push(format!(
            "kernel {}: {}, {} ({:.1} %, {} of {})",
            shortened(&kernel.name),
            Count(kernel.calls, "call"),
            time(kernel.total_ns.0),
            kernel.share_pct,
            kernel.category,
            kernel.library
        ));
    }
    lines
}

/// What a trace without device events says: the host's part.
fn of_host(analysis: &TraceAnalysis) -> Vec<String> {
    let totals = &analysis.totals;
    let phases = analysis.phases.iter();
    let phases: Vec<String> = phases
        .map(|phase| {
            let span = phase.span_ns;
            format!("{} ×{} {span}", phase.name, phase.instances)
        })
        .collect();
    let mut lines = vec![
        format!(
            "{} in {}: {}{}, none of a device",
            Count(totals.events, "event"),
            totals.span_ns,
            Count(totals.host_slices, "host slice"),
            others(analysis)
        ),
        format!("phases ({}): {}", how_found(analysis), phases.join(", ")),
    ];
    // Without device time they are in the order of the host's.
    lines.extend(analysis.operators.iter().take(3).map(|operator| {
        format!(
            "operator {}: {}, host {} without those it calls",
            operator.name,
            Count(operator.times.calls, "call"),
            operator.times.host_self_ns
        )
    }));
    lines
}

/// Events that have no name of their own in the line, so that it adds up: ranges, samples of memory.
fn others(analysis: &TraceAnalysis) -> String {
    let totals = &analysis.totals;
    let told = totals.host_slices + totals.kernels + totals.copies + totals.memsets;
    match totals.events.saturating_sub(told) {
        0 => String::new(),
        others => format!(", {}", Count(others, "other")),
    }
}

/// How phases were told apart.
fn how_found(analysis: &TraceAnalysis) -> String {
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
