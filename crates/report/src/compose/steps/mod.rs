//! Steps, and sequences of launches that repeat: how long steps took: over the run and as a histogram.

pub mod sentences;

use llmprof_units::{Nanos, Percent};

use self::sentences as text;
use super::phases::phase_cell;
use crate::analyzed::{
    Analysis, PhaseAnalysis, PhaseSource, StepPattern, StepPatterns, ValueDistribution,
};
use crate::document::{Cell, Document, Drawing, Section, Table, key};
use crate::text::{dash, time};
use crate::view::{Histogram, StepLatency, StepLine, Unit, ValueMark};

/// Patterns that are drawn.
const DRAWN_PATTERNS_MAX: usize = 3;
/// Fewer steps are not drawn.
const DRAWN_STEPS_MIN: u64 = 4;

pub(super) fn add(document: &mut Document, analysis: &Analysis) {
    let patterns = text::step_patterns(analysis).filter(|_| text::by_pattern(analysis));
    let of_phases: Vec<&PhaseAnalysis> = analysis
        .phases
        .iter()
        .filter(|phase| phase.traced.as_ref().is_some_and(|t| t.steps.is_some()))
        .filter(|_| !text::by_pattern(analysis))
        .collect();
    if patterns.is_none() && of_phases.is_empty() {
        return;
    }
    let title = if of_phases.is_empty() {
        "Repetitions"
    } else {
        "Steps"
    };
    let section = document.section("steps", title);
    if !of_phases.is_empty() {
        let source = analysis
            .timeline
            .as_ref()
            .map(|timeline| timeline.phase_source);
        section.paragraph(text::source(source.unwrap_or(PhaseSource::Annotation)));
        section.table(by_phase(&of_phases));
        for phase in of_phases {
            draw_phase(section, phase);
        }
    }
    if let Some(patterns) = patterns {
        section.paragraph(text::basis(patterns));
        section.table(by_pattern(patterns));
        let often = |pattern: &&StepPattern| pattern.steps >= DRAWN_STEPS_MIN;
        for pattern in patterns
            .patterns
            .iter()
            .filter(often)
            .take(DRAWN_PATTERNS_MAX)
        {
            draw(
                section,
                &pattern.name,
                "repetition",
                &pattern.step_ns,
                &pattern.wall_ns,
            );
        }
    }
}

fn draw_phase(section: &mut Section, phase: &PhaseAnalysis) {
    let Some(traced) = &phase.traced else { return };
    if let Some(steps) = traced.steps.as_ref().filter(|s| s.count >= DRAWN_STEPS_MIN) {
        draw(section, phase.name(), "step", &traced.step_ns, steps);
    }
}

fn draw(
    section: &mut Section,
    name: &str,
    noun: &'static str,
    step_ns: &[Nanos],
    spread: &ValueDistribution,
) {
    let walls: Vec<f64> = step_ns.iter().map(|wall| wall.0 as f64).collect();
    section.chart(
        format!("step_latency_of_{}", key(name)),
        Drawing::StepLatency(StepLatency {
            title: format!("Latency of each {noun}: {name}"),
            noun,
            lines: vec![StepLine {
                label: noun.to_owned(),
                values_ns: walls.clone(),
            }],
            marks: percentiles(spread),
        }),
    );
    section.chart(
        format!("steps_of_{}", key(name)),
        Drawing::Histogram(Histogram::from_values(
            format!("Distribution of {noun}s: {name}"),
            Unit::Nanoseconds,
            &walls,
            percentiles(spread),
        )),
    );
}

pub(super) fn percentiles(values: &ValueDistribution) -> Vec<ValueMark> {
    let all = [(50, values.p50), (90, values.p90), (99, values.p99)];
    let told = all.into_iter();
    told.filter(|&(percent, _)| text::percentile(values, percent).is_some())
        .map(|(percent, value)| ValueMark {
            label: format!("p{percent}"),
            value,
        })
        .collect()
}

fn by_phase(phases: &[&PhaseAnalysis]) -> Table {
    let mut table = Table::new(&["Phase", "Steps", "Mean", "p50", "p90", "p99", "Max"], 1);
    for phase in phases {
        let Some(steps) = phase.traced.as_ref().and_then(|t| t.steps.as_ref()) else {
            continue;
        };
        let percentile =
            |percent| text::percentile(steps, percent).map_or(Cell::Missing, Cell::from);
        table.row([
            phase_cell(phase),
            steps.count.to_string().into(),
            time(steps.mean).into(),
            percentile(50),
            percentile(90),
            percentile(99),
            time(steps.max).into(),
        ]);
    }
    // A few steps have no percentiles.
    table.without_empty_columns()
}

fn by_pattern(steps: &StepPatterns) -> Table {
    let patterns: Vec<&StepPattern> = steps
        .patterns
        .iter()
        .filter(|one| text::is_told(one))
        .collect();
    let several = patterns
        .iter()
        .any(|pattern| pattern.launched_by != patterns[0].launched_by);
    let mut headers = vec![
        "Pattern",
        "Repetitions",
        "Equal",
        "Launches",
        "Wall time, p50",
        "p90",
        "Std. dev.",
        "Kernel time",
        "GPU idle",
    ];
    headers.extend(several.then_some("Launched by"));
    let mut table = Table::new(&headers, 1).with_words(&["Launched by"]);
    for pattern in patterns {
        let work = &pattern.kernel_time_ns;
        let spread = match work.deviation {
            Some(deviation) => format!("{} ± {}", time(work.mean), time(deviation)),
            None => time(work.mean),
        };
        let mut cells = vec![
            pattern.name.clone(),
            pattern.steps.to_string(),
            pattern.equal.to_string(),
            pattern.launches.to_string(),
            time(pattern.wall_ns.p50),
            text::percentile(&pattern.wall_ns, 90).unwrap_or_else(dash),
            time(pattern.wall_deviation_ns),
            spread,
            Percent(pattern.idle_share).to_string(),
        ];
        cells.extend(several.then(|| pattern.launched_by.clone()));
        table.row(cells);
    }
    table
}
