//! A served load from its facts to its analysis.

use llmprof_record::run::RunRecord;
use llmprof_record::serving::{Gauges, ServedLoad};

use super::analysis::{ServerUse, ServingAnalysis, SloOutcome};
use super::findings::{LoadEvidence, find_bottlenecks};
use super::gpus::{GpuUse, steal_share};
use super::overload::overload_issue;
use super::parts;
use super::self_check::SelfCheck;
use super::steps::summarize_steps;
use super::summary::{load_issues, summarize_load};
use crate::analysis::Analysis;

/// The analysis of a run that loaded a server.
pub(crate) fn analyze_load(record: &RunRecord, served: &ServedLoad) -> Analysis {
    let (load, asked) = (&served.load, &served.asked);
    let summary = summarize_load(load, &asked.slos);
    let self_check = SelfCheck::from_load(load);
    let each = parts::split_requests(&load.requests, load.started_unix_ns, &served.steps);
    let server = served.server.as_ref();
    let window = server.map(|server| &server.window);
    let mean = parts::mean_parts(&each, load, window);
    let gauges = server.map_or(&[][..], |server| &server.gauges);
    let findings = find_bottlenecks(LoadEvidence {
        server: server.map(|server| server.family),
        self_check: &self_check,
        mean: mean.as_ref(),
        window,
        gauges,
        steps: &served.steps,
        shared_prefix: asked.shared_prefix_share,
    });
    let largest_gauge = |value: fn(&Gauges) -> Option<f64>| {
        let values = gauges.iter().filter_map(|(_, gauges)| value(gauges));
        values.reduce(f64::max)
    };
    let samples = record.samples.as_ref();
    let mut issues = record.issues.clone();
    let steal = samples.and_then(|samples| steal_share(samples, load));
    issues.extend(load_issues(load, &summary, steal, &asked.slos));
    issues.extend(overload_issue(load, asked.arrivals.mean_rate()));
    let slos = asked
        .slos
        .iter()
        .map(|slo| SloOutcome::new(slo, &summary.figures));
    Analysis {
        schema_version: Analysis::SCHEMA_VERSION,
        model: record.name.clone(),
        findings,
        issues,
        serving: Some(Box::new(ServingAnalysis {
            slos: slos.collect(),
            self_check,
            parts: mean,
            profiled_parts: parts::mean_profiled_parts(&each, load),
            server: server.map(|server| ServerUse {
                family: server.family.name().to_owned(),
                window: server.window.clone(),
                kv_usage_max: largest_gauge(|g| g.kv_usage),
                running_max: largest_gauge(|g| g.running),
                waiting_max: largest_gauge(|g| g.waiting),
            }),
            steps: summarize_steps(&served.steps),
            gpus: samples.map_or_else(Vec::new, |samples| GpuUse::from_samples(samples, load)),
            sweep: served.sweep.clone(),
            summary,
        })),
        ..Analysis::default()
    }
}
