//! The report of a load: every sentence and chart of it.

mod latency;
mod parts;
mod server;

use llmprof_load::{served::Finding, statistics::Distribution, sweep::Sweep};
use llmprof_report::{Document, FindingItem, Section, text::load};
use llmprof_units::{Percent, significant};

use super::{outcome::Outcome, session::Measured};

/// The whole report.
pub(super) fn document(outcome: &Outcome, measured: &Measured, sweep: Option<&Sweep>) -> Document {
    let mut document = Document {
        title: format!("{} at {}", outcome.model, outcome.endpoint),
        subtitle: outcome.load.clone(),
        summary: summary(outcome, sweep),
        findings: (1..).zip(&outcome.findings).map(item).collect(),
        issues: outcome.issues.clone(),
        ..Document::default()
    };
    if let Some(why) = without_findings(outcome) {
        document.section("no_findings", "Findings").paragraph(why);
    }
    if let Some(sweep) = sweep {
        let section = document.section("sweep", "Latency and throughput by rate");
        latency::curve(section, sweep);
    }
    latency::add(
        document.section("latency", "Latency"),
        &outcome.summary,
        measured,
    );
    if let Some(mean) = &outcome.parts {
        parts::add(
            document.section("request_time", "Where a request's time went"),
            mean,
        );
    }
    server::over_time(document.section("over_time", "Over time"), measured);
    if let Some(found) = &outcome.server {
        server::add(document.section("server", "Server"), found, outcome);
    }
    if let Some(steps) = &outcome.steps {
        server::steps(document.section("engine_steps", "Engine steps"), steps);
    }
    client(document.section("client", "Client"), outcome);
    document
}

/// The result, then whether objectives were met.
fn summary(outcome: &Outcome, sweep: Option<&Sweep>) -> Vec<String> {
    let summary = &outcome.summary;
    let mut lines = Vec::new();
    if let Some(sweep) = sweep {
        let slos: Vec<&str> = outcome.slos.iter().map(|slo| slo.slo.as_str()).collect();
        let slos = slos.join(" and ");
        lines.push(match (sweep.best_rate, sweep.first_failing_rate) {
            (Some(best), Some(failing)) => format!(
                "{} requests/s meet {slos}; {} do not.",
                significant(best),
                significant(failing)
            ),
            (Some(best), None) => format!(
                "{} requests/s, the highest rate tried, meet {slos}.",
                significant(best)
            ),
            (None, _) => format!("No rate that was tried meets {slos}."),
        });
    }
    let mut latencies = Vec::new();
    for (name, found) in [
        ("TTFT", &summary.ttft_ms),
        ("TPOT", &summary.tpot_ms),
        ("latency", &summary.e2e_ms),
    ] {
        if let Some(found) = found {
            latencies.push(format!(
                "{name} {} ms (p99 {})",
                significant(found.p50),
                significant(found.p99)
            ));
        }
    }
    if latencies.is_empty() {
        lines.push("No request has a result.".to_owned());
    } else {
        lines.push(format!("{}.", latencies.join(", ")));
    }
    let tokens = summary.output_throughput.map_or(String::new(), |rate| {
        format!(", {} output tokens/s", significant(rate))
    });
    let failed = if summary.failed > 0 {
        format!(", {} failed", summary.failed)
    } else {
        String::new()
    };
    lines.push(format!(
        "{} requests/s{tokens}; {} completed{failed} in {} s.",
        significant(summary.request_throughput),
        summary.completed,
        significant(summary.duration_s)
    ));
    for slo in &outcome.slos {
        let value = slo.value_ms.map_or("not known".to_owned(), |value| {
            format!("{} ms", significant(value))
        });
        let verdict = if slo.is_met { "met" } else { "not met" };
        lines.push(format!("{}: {verdict} ({value}).", slo.slo));
    }
    lines
}

/// Why a report has no findings.
fn without_findings(outcome: &Outcome) -> Option<String> {
    if let Some(why) = outcome.no_findings {
        return Some(load::no_findings(why).to_owned());
    }
    outcome.findings.is_empty().then(|| {
        "No part of the latency that a setting of the server would remove takes a tenth of it."
            .to_owned()
    })
}

fn item((number, finding): (usize, &Finding)) -> FindingItem {
    FindingItem {
        key: format!("finding-{number}"),
        title: load::finding(finding),
        gain: Some(format!("Upper bound: {}.", load::upper_bound(finding))),
        knob: Some(format!("Try: {}.", load::knob(finding))),
        ..FindingItem::default()
    }
}

fn client(section: &mut Section, outcome: &Outcome) {
    let check = &outcome.self_check;
    let of = |found: &Option<Distribution>| {
        found.map_or("–".to_owned(), |d| {
            format!("{:.3} ms (p99 {:.3})", d.p50, d.p99)
        })
    };
    section.list(vec![
        if check.kept_up {
            "The client kept up."
        } else {
            "The client did not keep up."
        }
        .to_owned(),
        format!("Schedule lag: {}.", of(&check.schedule_lag_ms)),
        format!(
            "Busiest worker: {} of a core.",
            Percent(check.worker_cpu_share)
        ),
        format!(
            "Event loop delay: {} (up to 1 ms is the timer's own).",
            of(&check.event_loop_delay_ms)
        ),
        format!(
            "Tokens counted by: {}.",
            outcome
                .summary
                .token_basis
                .iter()
                .map(|(name, count)| format!("{name} ({count} requests)"))
                .collect::<Vec<_>>()
                .join(", ")
        ),
    ]);
}
