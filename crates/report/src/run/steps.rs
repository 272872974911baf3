//! Steps by the pattern of launches, as a section of the report.

use llmprof_analysis::Analysis;
use llmprof_analysis::phases::PhaseSource;
use llmprof_analysis::steps::{StepPattern, StepPatterns};
use llmprof_units::Percent;

use super::page::percentiles;
use super::words::time;
use crate::view::{Histogram, Part, Unit};
use crate::{Document, Table};

/// The title of the section.
pub(super) const TITLE: &str = "Steps";
/// Patterns that a page draws.
const DRAWN: usize = 3;
/// Steps that a page draws.
const FEWEST_DRAWN: u64 = 4;

/// The steps that patterns of launches show, where no range does.
pub(super) fn of(analysis: &Analysis) -> Option<&StepPatterns> {
    analysis.timeline.as_ref()?.steps.as_ref()
}

/// Whether phases are made of the same steps, so that their own tables would say it twice.
pub(super) fn replace_phases(analysis: &Analysis) -> bool {
    let inferred = analysis
        .timeline
        .as_ref()
        .is_some_and(|timeline| timeline.phase_source == PhaseSource::Inferred);
    inferred && of(analysis).is_some()
}

/// Adds the section where there are steps.
pub(super) fn section(document: &mut Document, analysis: &Analysis) {
    if let Some(steps) = of(analysis) {
        document.heading(TITLE);
        fill(document, steps);
    }
}

/// The section of a page.
pub(super) fn parts(steps: &StepPatterns) -> Vec<Part> {
    let mut document = Document::new(TITLE);
    fill(&mut document, steps);
    let often = |pattern: &&StepPattern| pattern.steps >= FEWEST_DRAWN;
    let drawn = steps
        .patterns
        .iter()
        .filter(often)
        .take(DRAWN)
        .map(histogram);
    std::iter::once(Part::Document(document))
        .chain(drawn)
        .collect()
}

fn fill(document: &mut Document, steps: &StepPatterns) {
    let unlike = match steps.unlike {
        0 => String::new(),
        1 => " One stretch between steps is like no other (a single prefill, a warm-up) and is left out.".to_owned(),
        count => format!(
            " {count} stretches between steps are like no other (a single prefill, a warm-up) and are left out."
        ),
    };
    document.paragraph(format!(
        "By the pattern of launches: no range says what a step is, but the same sequence of kernels returns, in the equal ones \
         without a change. Wall is from the first kernel of a step to that of the next, with the deviation of single steps; idle \
         is the part of it in which no device worked, in the median step.{unlike}"
    ));
    document.table(table(steps));
}

fn table(steps: &StepPatterns) -> Table {
    let patterns = &steps.patterns;
    let several = patterns
        .iter()
        .any(|pattern| pattern.launched_by != patterns[0].launched_by);
    let mut headers = vec![
        "Pattern",
        "Steps",
        "Equal",
        "Launches",
        "Wall, p50",
        "p90",
        "Deviation",
        "Kernel time",
        "Device idle",
    ];
    headers.extend(several.then_some("Launched by"));
    let mut table = Table::new(&headers, 1);
    for pattern in patterns {
        let work = &pattern.kernel_time_ns;
        let mut cells = vec![
            pattern.name.clone(),
            pattern.steps.to_string(),
            pattern.equal.to_string(),
            pattern.launches.to_string(),
            time(pattern.wall_ns.p50),
            time(pattern.wall_ns.p90),
            time(pattern.wall_deviation_ns),
            spread(work.mean, work.deviation),
            Percent(pattern.idle_share).to_string(),
        ];
        cells.extend(several.then(|| pattern.launched_by.clone()));
        table.row(cells);
    }
    table
}

fn spread(mean: f64, deviation: Option<f64>) -> String {
    match deviation {
        Some(deviation) => format!("{} ± {}", time(mean), time(deviation)),
        None => time(mean),
    }
}

fn histogram(pattern: &StepPattern) -> Part {
    let walls: Vec<f64> = pattern.step_ns.iter().map(|&wall| wall as f64).collect();
    Part::Histogram(Histogram::of(
        format!("Steps of {}", pattern.name),
        Unit::Nanoseconds,
        &walls,
        percentiles(&pattern.wall_ns),
    ))
}
