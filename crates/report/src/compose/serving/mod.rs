//! The report of a served load.

mod dcgm;
mod latency;
mod parts;
mod requests_csv;
pub mod sentences;
mod server;

use llmprof_analysis::serving::ServingAnalysis;
use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::serving::ServedLoad;
use llmprof_traffic::{figures::LoadSummary, slo::fails_too_often, sweep::Sweep};

pub use self::latency::result_tables;
pub use self::requests_csv::{requests_csv, steps_csv};
use super::{Report, findings};
use crate::{Document, Section, text};

impl Report<'_> {
    /// The report of a run that loaded a server.
    pub(super) fn served_load(&self, served: &ServedLoad, serving: &ServingAnalysis) -> Document {
        let mut document = Document {
            title: format!("{} at {}", self.analysis.model, served.asked.endpoint),
            subtitle: served.asked.to_string(),
            summary: summary(serving, self.issues),
            findings: findings::items(self.analysis),
            issues: self.issues.to_vec(),
            ..Document::default()
        };
        if document.findings.is_empty() {
            let abstention = self.analysis.findings.iter();
            let abstention = abstention.filter_map(|finding| finding.abstains.as_ref());
            let why = abstention.map(text::abstention).next();
            let why = why.unwrap_or_else(|| {
                let is_overload = |issue: &Issue| issue.code == IssueCode::BenchOverloaded;
                if self.issues.iter().any(is_overload) {
                    return sentences::QUEUE_GREW.to_owned();
                }
                let undivided = serving.parts.as_ref();
                let undivided =
                    undivided.and_then(|mean| Some((mean.undivided_wait_ms()?, mean.e2e_ms)));
                match undivided {
                    Some((ms, whole)) => sentences::undivided_wait(ms, whole),
                    None => sentences::NOTHING_REMOVABLE.to_owned(),
                }
            });
            document.section("no_findings", "Findings").paragraph(why);
        }
        if let Some(sweep) = &serving.sweep {
            let section = document.section("sweep", "Latency and throughput by rate");
            latency::curve(section, sweep);
        }
        let section = document.section("latency", "Latency");
        latency::add(section, &serving.summary, &served.load);
        if let Some(mean) = &serving.parts {
            let section = document.section("request_time", "Where a request's time went");
            parts::add(section, mean, serving.profiled_parts.as_ref());
        }
        let section = document.section("over_time", "Over time");
        server::over_time(section, served, self.record.samples.as_ref());
        if let Some(server) = &serving.server {
            let section = document.section("server", "Server");
            server::add(section, server, &serving.summary);
        }
        for exporter in &served.exporters {
            dcgm::add(&mut document, &exporter.url, &exporter.gpus);
        }
        if let Some(steps) = &serving.steps {
            server::steps(document.section("engine_steps", "Engine steps"), steps);
        }
        client(document.section("client", "Client"), serving);
        document
    }
}

/// The result, then whether objectives were met.
fn summary(serving: &ServingAnalysis, issues: &[Issue]) -> Vec<String> {
    let (summary, figures) = (&serving.summary, &serving.summary.figures);
    let mut lines = Vec::new();
    if let Some(sweep) = &serving.sweep {
        let slos: Vec<&str> = serving.slos.iter().map(|slo| slo.slo.as_str()).collect();
        let is_late = |issue: &Issue| issue.code == IssueCode::BenchSweepClientLate;
        lines.push(sentences::swept(
            sweep,
            &slos.join(" and "),
            issues.iter().any(is_late),
        ));
    }
    lines.push(sentences::latencies(
        figures.ttft_ms,
        figures.tpot_ms,
        figures.e2e_ms,
    ));
    lines.push(sentences::throughput(
        figures.request_throughput,
        figures.output_throughput,
        figures.completed,
        figures.failed,
        figures.duration_s,
    ));
    lines.extend(summary.server_stopped_s.map(sentences::server_stopped));
    // An interrupted load meets no objective.
    let is_whole = |sweep: &Sweep<LoadSummary>| !sweep.points.is_empty();
    if !serving.sweep.as_ref().is_none_or(is_whole) {
        return lines;
    }
    let context = sentences::ObjectiveContext {
        failed: fails_too_often(figures)
            .then_some((figures.failed, figures.completed + figures.failed)),
        is_client_late: !serving.self_check.kept_up,
    };
    let slos = serving.slos.iter();
    lines.extend(slos.map(|slo| sentences::objective(slo, &context)));
    lines
}

fn client(section: &mut Section, serving: &ServingAnalysis) {
    let check = &serving.self_check;
    let counted_by = serving.summary.token_basis.iter();
    let counted_by: Vec<(String, u64)> = counted_by
        .map(|(name, count)| (name.clone(), *count))
        .collect();
    section.list(sentences::client(
        check.kept_up,
        check.schedule_lag_ms,
        check.worker_cpu_share,
        check.event_loop_delay_ms,
        &counted_by,
    ));
}
