//! The report of a load.

mod dcgm;
mod latency;
mod parts;
mod server;

use llmprof_analysis::serving::{Finding, Sweep};
use llmprof_load::slo::fails_too_often;
use llmprof_record::serving::ServerFamily;
use llmprof_report::{
    Document, FindingItem, Section,
    text::{bench, load},
};

pub(super) use self::latency::result;
use super::{outcome::Outcome, session::Measured};

/// The whole report.
pub(super) fn document(outcome: &Outcome, measured: &Measured, sweep: Option<&Sweep>) -> Document {
    let engine = outcome.server.as_ref().map(|server| server.server);
    let mut document = Document {
        title: format!("{} at {}", outcome.model, outcome.endpoint),
        subtitle: outcome.load.clone(),
        summary: summary(outcome, sweep),
        findings: (1..)
            .zip(&outcome.findings)
            .map(|(number, finding)| item(number, finding, engine))
            .collect(),
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
            outcome.profiled_parts.as_ref(),
        );
    }
    server::over_time(document.section("over_time", "Over time"), measured);
    if let Some(found) = &outcome.server {
        server::add(document.section("server", "Server"), found, outcome);
    }
    for (url, scrapes) in &measured.others {
        dcgm::add(&mut document, url, &scrapes.dcgm);
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
        lines.push(bench::swept(
            sweep.best_rate,
            sweep.first_failing_rate,
            &slos,
        ));
    }
    lines.push(bench::latencies(
        summary.ttft_ms,
        summary.tpot_ms,
        summary.e2e_ms,
    ));
    lines.push(bench::throughput(
        summary.request_throughput,
        summary.output_throughput,
        summary.completed,
        summary.failed,
        summary.duration_s,
    ));
    lines.extend(summary.server_stopped_s.map(bench::server_stopped));
    let failed =
        fails_too_often(summary).then_some((summary.failed, summary.completed + summary.failed));
    let objectives = outcome.slos.iter();
    lines
        .extend(objectives.map(|slo| bench::objective(&slo.slo, slo.is_met, slo.value_ms, failed)));
    lines
}

/// Why a report has no findings.
fn without_findings(outcome: &Outcome) -> Option<String> {
    if let Some(why) = outcome.no_findings {
        return Some(load::no_findings(why).to_owned());
    }
    let is_empty = outcome.findings.is_empty();
    is_empty.then(|| bench::NOTHING_REMOVABLE.to_owned())
}

fn item(number: usize, finding: &Finding, engine: Option<ServerFamily>) -> FindingItem {
    FindingItem {
        key: format!("finding-{number}"),
        title: load::finding(finding),
        gain: Some(format!("Upper bound: {}.", load::upper_bound(finding))),
        knob: Some(format!("Try: {}.", load::knob(finding, engine))),
        ..FindingItem::default()
    }
}

fn client(section: &mut Section, outcome: &Outcome) {
    let check = &outcome.self_check;
    let counted_by: Vec<(String, u64)> = outcome
        .summary
        .token_basis
        .iter()
        .map(|(name, count)| (name.clone(), *count))
        .collect();
    section.list(bench::client(
        check.kept_up,
        check.schedule_lag_ms,
        check.worker_cpu_share,
        check.event_loop_delay_ms,
        &counted_by,
    ));
}
