//! The files of a measured run, all from one analysis.

use llmprof_analysis::run::{MeasuredRun, PassKind, RunAnalysis, RunPhase};
use llmprof_record::{issue::Issue, plan::Plan, store::RunDir};
use llmprof_report::{
    chart,
    render::{html, markdown},
    run::{self, Extras},
    view::{Event, Part, Series, Timeline},
};
use llmprof_units::Nanos;
use serde_json::{Value, json};

use crate::{failure::Failure, output::csv_field, subject::Subject};

/// Writes every file; the answer is the conclusion, for the terminal.
pub(crate) fn write(
    plan: &Plan,
    subject: &Subject,
    measured: &MeasuredRun,
    analysis: &RunAnalysis,
    telemetry: Vec<Series>,
    store: &mut RunDir,
) -> Result<Vec<String>, Failure> {
    for issue in &analysis.issues {
        if !store.manifest().issues.contains(issue) {
            store.add_issue(issue.clone())?;
        }
    }
    let issues: Vec<Issue> = store.manifest().issues.clone();
    if plan.output.json {
        store.write("metrics.json", text(&metrics(subject, analysis))?)?;
        store.write("analysis.json", text(analysis)?)?;
    }
    store.write("operators.csv", operators_csv(analysis))?;
    store.write("ops.csv", ops_csv(measured))?;
    let extras = Extras {
        timeline: timeline(measured),
        telemetry,
        gaps_ns: gaps(measured),
    };
    let page = run::view(analysis, &issues, subject.device.as_ref(), extras);
    for section in &page.sections {
        for part in &section.parts {
            let (name, plot) = match part {
                Part::Waterfall(waterfall) => (
                    format!("waterfall_{}", waterfall.phase),
                    chart::waterfall(waterfall),
                ),
                Part::Roofline(roofline) => ("roofline".to_owned(), chart::roofline(roofline)),
                Part::Timeline(timeline) => ("timeline".to_owned(), chart::timeline(timeline)),
                Part::Histogram(histogram) => {
                    ("token_gaps".to_owned(), chart::histogram(histogram))
                }
                Part::Series(series) => (
                    format!(
                        "telemetry_{}",
                        series.title.to_lowercase().replace(' ', "_")
                    ),
                    chart::series(series),
                ),
                _ => continue,
            };
            store.write(&format!("plots/{name}.svg"), plot.file())?;
        }
    }
    store.write("report.html", html::report(&page))?;
    if plan.output.markdown {
        store.write(
            "report.md",
            markdown::document(&run::document(analysis, &issues)),
        )?;
        store.write(
            "operators.md",
            markdown::document(&run::operators(analysis)),
        )?;
        store.write(
            "stakeholder_summary.md",
            markdown::document(&run::stakeholder(analysis)),
        )?;
    }
    Ok(run::conclusion(analysis))
}

/// The numbers, with the names that `metrics.json` has always had where their meaning holds.
fn metrics(subject: &Subject, analysis: &RunAnalysis) -> Value {
    let latency = &analysis.latency;
    let millis = |summary: &Option<llmprof_analysis::run::Summary>| {
        summary.as_ref().map(|summary| {
            json!({
                "mean": summary.mean / 1e6,
                "std": summary.deviation.map(|deviation| deviation / 1e6),
                "ci95_half_width": summary.ci95_half_width.map(|half| half / 1e6),
                "count": summary.count,
            })
        })
    };
    let used = |phase: RunPhase, choose: fn(&llmprof_analysis::run::Utilization) -> Option<f64>| {
        let phase = analysis.phase(phase)?;
        phase
            .plain_utilization
            .as_ref()
            .or(phase.utilization.as_ref())
            .and_then(choose)
    };
    json!({
        "aggregates": {
            "prefill_ms": millis(&latency.prefill_ns),
            "decode_ms": millis(&latency.decode_ns),
            "ttft_ms": millis(&latency.ttft_ns),
            "tpot_ms": millis(&latency.tpot_ns),
            "tokens_per_s": latency.tokens_per_s,
            "decode_tokens_per_s": latency.decode_tokens_per_s,
            "itl_ns": latency.itl_ns,
        },
        "mfu_per_stage": {
            "prefill": used(RunPhase::Prefill, |used| used.mfu),
            "decode": used(RunPhase::Decode, |used| used.mfu),
        },
        "mbu_per_stage": {
            "prefill": used(RunPhase::Prefill, |used| used.mbu),
            "decode": used(RunPhase::Decode, |used| used.mbu),
        },
        "phases": analysis.phases.iter().map(|phase| json!({
            "phase": phase.phase,
            "class": phase.class.class,
            "waterfall": phase.waterfall,
        })).collect::<Vec<_>>(),
        "model": { "name": subject.name, "family": subject.model.family, "parameters": subject.model.parameters() },
        "device": analysis.device,
        "requests": latency.requests,
    })
}

fn operators_csv(analysis: &RunAnalysis) -> String {
    let mut text = "phase,operator,kind,dtype,calls,time_ns,share,flops,compulsory_bytes,floor_ns,flops_per_s,bytes_per_s,intensity,fraction_of_roof\n".to_owned();
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    for phase in &analysis.phases {
        for group in &phase.by_path {
            let cells = [
                phase.phase.to_string(),
                csv_field(&group.name),
                group.kind.to_string(),
                group.dtype.to_string(),
                group.calls.to_string(),
                group.measured_ns.0.to_string(),
                group.share.to_string(),
                group.flops.0.to_string(),
                group.compulsory_bytes.0.to_string(),
                group
                    .floor_ns
                    .map(|floor| floor.0.to_string())
                    .unwrap_or_default(),
                number(group.achieved_flops_per_s.map(|rate| rate.0)),
                number(group.achieved_bytes_per_s.map(|rate| rate.0)),
                number(group.intensity),
                number(group.fraction_of_roof),
            ];
            text += &cells.join(",");
            text.push('\n');
        }
    }
    text
}

/// Every call of the captured pass: name, start and duration, shape.
fn ops_csv(measured: &MeasuredRun) -> String {
    let mut text = "name,kind,start_ns,duration_ns,groups,m,n,k,dtype\n".to_owned();
    for pass in measured
        .passes
        .iter()
        .filter(|pass| pass.kind == PassKind::Captured)
    {
        for event in &pass.operators {
            let Some(operator) = measured.operators.get(event.operator as usize) else {
                continue;
            };
            let shape = event.shape;
            text += &format!(
                "{},{},{},{},{},{},{},{},{}\n",
                csv_field(&operator.path),
                operator.kind,
                event.start_ns,
                event.end_ns - event.start_ns,
                shape.groups,
                shape.m,
                shape.n,
                shape.k,
                operator.dtype
            );
        }
    }
    text
}

fn gaps(measured: &MeasuredRun) -> Vec<f64> {
    let plain = measured
        .passes
        .iter()
        .filter(|pass| pass.kind == PassKind::Plain);
    let requests = plain.flat_map(|pass| &pass.requests);
    requests
        .flat_map(|request| {
            request
                .token_ns
                .windows(2)
                .map(|pair| (pair[1] - pair[0]) as f64)
        })
        .collect()
}

fn timeline(measured: &MeasuredRun) -> Option<Timeline> {
    let pass = measured
        .passes
        .iter()
        .find(|pass| pass.kind == PassKind::Captured)?;
    let names = measured
        .operators
        .iter()
        .map(|operator| operator.path.clone())
        .collect();
    let phases: Vec<String> = pass
        .phases
        .iter()
        .map(|span| span.phase.to_string())
        .collect();
    let mut timeline = Timeline::new(vec!["operators".to_owned()], names, phases);
    for event in &pass.operators {
        let phase = pass
            .phases
            .iter()
            .position(|span| (span.start_ns..span.end_ns).contains(&event.start_ns))
            .unwrap_or(usize::MAX);
        timeline.push(Event {
            lane: 0,
            start_ns: Nanos(event.start_ns),
            duration_ns: Nanos(event.end_ns - event.start_ns),
            name: event.operator,
            phase: u32::try_from(phase).unwrap_or(u32::MAX),
        });
    }
    Some(timeline)
}

fn text<T: serde::Serialize>(value: &T) -> Result<String, Failure> {
    serde_json::to_string_pretty(value)
        .map(|text| text + "\n")
        .map_err(|error| Failure::new(format!("cannot write JSON: {error}")))
}
