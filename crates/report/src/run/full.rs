use llmprof_analysis::matching::OperatorGroup;
use llmprof_analysis::stats::{Distribution, Summary};
use llmprof_analysis::{Analysis, PhaseAnalysis};
use llmprof_record::issue::Issue;
use llmprof_units::{Count, Nanos, Percent, significant};

use super::words::{asked, conclusion, figure, finding_line, first_use, time, with_interval};
use super::{kernels, limits, slices, steps, telemetry, traced};
use crate::{Block, Document, Table};

/// The whole report: conclusion, issues, waterfall, steps, phases, latency, findings, operators, assumptions.
pub fn document(analysis: &Analysis, issues: &[Issue]) -> Document {
    let mut document = Document::new(format!("{} on {}", analysis.model, device(analysis)));
    if let Some(asked) = asked(analysis) {
        let (first, rest) = asked.split_at(1);
        let family = analysis.family.as_ref();
        let family = family.map(|family| format!("; family {family}"));
        document.paragraph(format!(
            "{}{rest}{}.",
            first.to_uppercase(),
            family.unwrap_or_default()
        ));
    }
    document.heading("Conclusion");
    document.list(conclusion(analysis));
    if !issues.is_empty() {
        document.heading("Issues");
        let mut worst_first: Vec<&Issue> = issues.iter().collect();
        worst_first.sort_by_key(|issue| std::cmp::Reverse(issue.severity));
        document.list(worst_first.into_iter().map(Issue::with_advice).collect());
    }
    if analysis.phases.is_empty() {
        return rest(document, analysis);
    }
    document.heading("Where the time went");
    document.paragraph(parts_of_the_wall(analysis));
    document.table(waterfalls(analysis, has_floors(analysis)));
    if let Some(first) = first_use(analysis) {
        document.paragraph(first);
    }
    traced::section(&mut document, analysis);
    steps::section(&mut document, analysis);
    slices::section(&mut document, analysis);
    document.heading("Phases");
    document.table(phases(analysis));
    document.list(analysis.phases.iter().map(why).collect());
    if analysis
        .phases
        .iter()
        .any(|phase| phase.capture_ratio.is_some())
    {
        let slowed = if analysis.phases.iter().any(|phase| phase.device().is_some()) {
            "ranges and records slow the host down, and the host"
        } else {
            "recording takes time, and the machine"
        };
        document.paragraph(format!(
            "What capture costs is the captured wall time over the plain one: {slowed} itself varies from pass to pass."
        ));
    }
    rest(document, analysis)
}

/// What the parts of a waterfall are.
pub(super) fn parts_of_the_wall(analysis: &Analysis) -> String {
    let idle = match &analysis.timeline {
        None => "Idle is the engine's own work between operators.",
        Some(_) => "Idle is time without work, by cause below.",
    };
    let sum = if has_floors(analysis) {
        "floor + (matched − floor)"
    } else {
        "matched"
    };
    let matched = match analysis.family {
        None => {
            "Matched is work that by its name computes something; extra is what by its name moves, fills, arranges or picks values, \
             of which a model may need some."
        }
        Some(_) if has_floors(analysis) => {
            "Floor is the least time that the device needs for the operators that ran, matched − floor what they took beyond it."
        }
        Some(_) => "Matched is the time of the model's operators.",
    };
    format!(
        "Per phase of wall time W = {sum} + extra + copies + unattributed + idle − overlap, from the captured pass. {matched} \
         {idle}"
    )
}

/// What a run says beside its waterfall.
fn rest(mut document: Document, analysis: &Analysis) -> Document {
    if analysis.latency.measured_in.is_some() || analysis.timeline.is_none() {
        document.heading("Latency");
        document.paragraph(format!(
            "Passes without capture: {}; warm-up passes, which are left out: {}; ± is half the 95 % interval of the mean.",
            analysis.latency.repeats, analysis.latency.warm_up_passes
        ));
        document.table(latency(analysis));
    }
    findings(&mut document, analysis);
    if analysis
        .phases
        .iter()
        .any(|phase| !phase.by_kind.is_empty())
    {
        document.heading("Operators");
        document.paragraph("From the captured pass; shares are of its wall time.");
    }
    for phase in &analysis.phases {
        if !phase.by_kind.is_empty() {
            document.push(Block::Heading(2, format!("{} by kind", phase.name())));
            document.table(groups(&phase.by_kind));
        }
    }
    kernels::section(&mut document, analysis);
    limits::section(&mut document, analysis);
    telemetry::section(&mut document, analysis);
    document.heading("Assumptions");
    document.list(analysis.assumptions.clone());
    document
}

/// `operators.md`: every operator by its place in the model.
pub fn operators(analysis: &Analysis) -> Document {
    let mut document = Document::new(format!("{}: operators", analysis.model));
    for phase in &analysis.phases {
        document.heading(phase.name());
        if !phase.by_path.is_empty() {
            document.table(groups(&phase.by_path));
        }
        if !phase.unmatched.is_empty() {
            document.paragraph(match analysis.family {
                Some(_) => "What ran and belongs to no operator of the model:",
                None => "What ran beside work that by its name computes something:",
            });
            document.table(traced::unmatched(&phase.unmatched));
        }
        if !phase.missing.is_empty() {
            document.paragraph("Operators of the model with no event of their own:");
            let missing = phase.missing.iter();
            document.list(
                missing
                    .map(|missing| format!("`{}`, {}", missing.path, Count(missing.calls, "call")))
                    .collect(),
            );
        }
    }
    kernels::framework(&mut document, analysis);
    document
}

pub(super) fn device(analysis: &Analysis) -> &str {
    analysis
        .device
        .as_deref()
        .unwrap_or("an undescribed device")
}

/// Whether some phase has a floor.
fn has_floors(analysis: &Analysis) -> bool {
    let mut phases = analysis.phases.iter();
    phases.any(|phase| phase.waterfall.floor_ns.is_some())
}

fn waterfalls(analysis: &Analysis, has_floors: bool) -> Table {
    let mut headers = vec!["Phase", "Wall"];
    if has_floors {
        headers.extend(["Floor", "Matched − floor"]);
    } else {
        headers.push("Matched");
    }
    headers.extend(["Extra", "Copies", "Unattributed", "Idle", "Overlap"]);
    let mut table = Table::new(&headers, 1);
    for phase in &analysis.phases {
        let waterfall = &phase.waterfall;
        let share = |part: Nanos| {
            let share = part.0 as f64 / waterfall.wall_ns.0.max(1) as f64;
            if part.0 == 0 {
                "0".to_owned()
            } else {
                format!("{part} ({})", Percent(share))
            }
        };
        let mut cells = vec![phase.name().to_owned(), waterfall.wall_ns.to_string()];
        cells.extend(has_floors.then(|| waterfall.floor_ns.map_or_else(dash, share)));
        cells.push(share(
            waterfall.inefficiency_ns.unwrap_or(waterfall.matched_ns),
        ));
        cells.extend(
            [
                waterfall.extra_ns,
                waterfall.copies_ns,
                waterfall.unattributed_ns,
                waterfall.idle_ns,
                waterfall.overlap_ns,
            ]
            .map(share),
        );
        table.row(cells);
    }
    table
}

fn phases(analysis: &Analysis) -> Table {
    let mut table = Table::new(
        &[
            "Phase",
            "Class",
            "Wall, plain",
            "Wall, captured",
            "Capture costs",
            "MFU",
            "MBU",
        ],
        2,
    );
    for phase in &analysis.phases {
        let percent =
            |value: Option<f64>| value.map_or_else(dash, |value| Percent(value).to_string());
        let used = phase
            .plain_utilization
            .as_ref()
            .or(phase.utilization.as_ref());
        table.row([
            phase.name().to_owned(),
            class(phase),
            phase
                .plain_wall()
                .map_or_else(dash, |wall| wall.to_string()),
            phase.waterfall.wall_ns.to_string(),
            phase.capture_ratio.map_or_else(dash, |ratio| {
                format!("{:+.1} %", (ratio - 1.0) * 100.0).replace('-', "−")
            }),
            percent(used.and_then(|used| used.mfu)),
            percent(used.and_then(|used| used.mbu)),
        ]);
    }
    table
}

pub(super) fn class(phase: &PhaseAnalysis) -> String {
    phase
        .class
        .class
        .map_or_else(|| "no class".to_owned(), |class| class.to_string())
}

/// The class of a phase with its reason.
fn why(phase: &PhaseAnalysis) -> String {
    let verb = phase.class.class.map_or("has", |_| "is");
    let (name, class) = (phase.name(), class(phase));
    format!("{name} {verb} {class}: {}.", phase.class.why)
}

fn latency(analysis: &Analysis) -> Table {
    let latency = &analysis.latency;
    let mut table = Table::new(&["Quantity", "Mean", "Deviation", "p50", "p90", "p99"], 1);
    let mut add = |name: &str, summary: Option<&Summary>, spread: Option<&Distribution>| {
        let Some(summary) = summary else { return };
        let percentile = |choose: fn(&Distribution) -> f64| {
            spread.map_or_else(dash, |spread| time(choose(spread)))
        };
        table.row([
            name.to_owned(),
            with_interval(summary),
            summary.deviation.map_or_else(dash, time),
            percentile(|spread| spread.p50),
            percentile(|spread| spread.p90),
            percentile(|spread| spread.p99),
        ]);
    };
    add(
        "TTFT",
        latency.ttft_ns.as_ref(),
        latency.ttft_spread_ns.as_ref(),
    );
    add(
        "TPOT (percentiles: gaps between tokens)",
        latency.tpot_ns.as_ref(),
        latency.itl_ns.as_ref(),
    );
    add("prefill", latency.prefill_ns.as_ref(), None);
    add("decode", latency.decode_ns.as_ref(), None);
    add("request", latency.end_to_end_ns.as_ref(), None);
    for (name, rate) in [
        ("tokens/s", &latency.tokens_per_s),
        ("decode tokens/s", &latency.decode_tokens_per_s),
    ] {
        if let Some(rate) = rate {
            let half = rate
                .ci95_half_width
                .map(|half| format!(" ± {}", significant(half)))
                .unwrap_or_default();
            table.row([
                name.to_owned(),
                format!("{}{half}", significant(rate.mean)),
                rate.deviation.map_or_else(dash, significant),
            ]);
        }
    }
    table
}

fn findings(document: &mut Document, analysis: &Analysis) {
    document.heading("Findings");
    for finding in &analysis.findings {
        document.paragraph(finding_line(finding));
        let mut evidence: Vec<String> = finding
            .evidence
            .iter()
            .map(|evidence| {
                let value = figure(evidence);
                format!("{}: {value} ({})", evidence.what, evidence.basis)
            })
            .collect();
        if let Some(gain) = &finding.gain {
            evidence.push(format!("how: {}", gain.derivation));
        }
        if let Some(why) = &finding.abstains {
            evidence.push(format!("abstains: {why}"));
        }
        document.list(evidence);
    }
}

pub(super) fn groups(groups: &[OperatorGroup]) -> Table {
    let mut table = Table::new(
        &[
            "Operator",
            "Calls",
            "Time",
            "Share",
            "FLOP/s",
            "B/s",
            "FLOP/B",
            "Floor",
            "Of the roof",
            "Bound by",
        ],
        1,
    );
    for group in groups {
        table.row([
            group.name.clone(),
            group.calls.to_string(),
            group.measured_ns.to_string(),
            Percent(group.share).to_string(),
            group
                .achieved_flops_per_s
                .map_or_else(dash, |rate| rate.to_string()),
            group
                .achieved_bytes_per_s
                .map_or_else(dash, |rate| rate.to_string()),
            group.intensity.map_or_else(dash, significant),
            group.floor_ns.map_or_else(dash, |floor| floor.to_string()),
            group
                .fraction_of_roof
                .map_or_else(dash, |fraction| Percent(fraction).to_string()),
            group.binds.map_or_else(dash, |binds| binds.to_string()),
        ]);
    }
    table
}

pub(super) fn dash() -> String {
    "–".to_owned()
}
