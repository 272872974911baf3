//! Two sides beside each other as a document.

pub mod sentences;

use llmprof_analysis::Analysis;
use llmprof_analysis::compare::{
    Comparison, Explanation, GateOutcome, MetricComparison, NamedWork, PartComparison,
    PhaseComparison, PhaseFacts, RunFacts, WorkChange,
};
use llmprof_record::run::RunRecord;
use llmprof_units::{Nanos, Percent};

use self::sentences as words;
use super::concluded_findings;
use crate::document::{Align, Cell, Column, Document, Drawing, Section, Table, key};
use crate::kernel_label;
use crate::text::time;
use crate::view::{Histogram, PairedBar, PairedBars, Unit, ValueMark};

/// Rows of a text; the page has all.
const ROWS_IN_TEXT: usize = 12;

/// What a comparison needs of a run, with its first finding as its report states it.
pub fn facts_of(label: &str, path: &str, record: &RunRecord, analysis: &Analysis) -> RunFacts {
    let first = concluded_findings(analysis).next();
    RunFacts {
        first_finding: first.map(crate::text::finding),
        ..RunFacts::from_analysis(label, path, record, analysis)
    }
}

/// What is not alike, the result, metrics, reasons, phases.
pub fn compared(
    comparison: &Comparison,
    (a, b): (&[RunFacts], &[RunFacts]),
    gates: &[GateOutcome],
) -> Document {
    let mut document = Document::new(words::title(comparison));
    document.caveats = caveats(comparison);
    document.summary = summary(comparison, gates);
    let section = document.section("metrics", "Metrics");
    if !comparison.metrics.is_empty() {
        section.table(metrics(comparison));
    }
    section.list(words::notes(comparison).map(str::to_owned).collect());
    if let Some(rounds) = &comparison.rounds {
        section.paragraph(words::rounds(rounds));
        let disturbed = rounds.disturbed.iter().map(|round| {
            let causes = round.causes.iter();
            let causes: Vec<String> = causes
                .map(|one| format!("{} ({})", words::cause(one.cause), Percent(one.share)))
                .collect();
            format!("Round {}: {}", round.round + 1, causes.join(", "))
        });
        section.list(disturbed.collect());
    }
    for explained in &comparison.explanations {
        let section = document.section(
            &format!("why_{}", explained.metric),
            format!("Why {} differs", words::metric(&explained.metric)),
        );
        why(section, explained);
    }
    for phase in &comparison.phases {
        self::phase(&mut document, comparison, phase, (a, b));
    }
    document
}

/// Everything that differs beside what is measured, a line each, and what is not judged for it.
fn caveats(comparison: &Comparison) -> Vec<String> {
    let mut lines: Vec<String> = comparison
        .differences
        .iter()
        .map(words::difference)
        .collect();
    lines.extend(words::excluded(comparison));
    lines
}

/// Gates and results; metrics that cannot be compared are caveats.
fn summary(comparison: &Comparison, gates: &[GateOutcome]) -> Vec<String> {
    let mut lines: Vec<String> = gates.iter().map(words::gate).collect();
    if comparison.is_same_recording {
        lines.push(words::same_recording());
    }
    let judged = comparison.metrics.iter();
    let judged = judged.filter(|metric| metric.excluded_for.is_none());
    lines.extend(judged.map(|metric| words::line(metric, comparison)));
    // Traces have no metric that is measured without a profiler: their phases are the result.
    if comparison.metrics.is_empty() {
        lines.extend(comparison.phases.iter().map(words::phase_line));
    }
    lines.extend(words::first_finding(comparison));
    lines
}

/// The runs of both sides, each with its side, its name, and its report where a page can link to it.
pub fn add_runs<'s>(
    document: &mut Document,
    runs: impl IntoIterator<Item = (&'s str, String, Option<String>)>,
) {
    let mut table = Table::new(&["Side", "Run"], 2);
    for (side, label, report) in runs {
        let cell = match report {
            Some(href) => Cell::Link { label, href },
            None => Cell::from(label),
        };
        table.row([Cell::from(side), cell]);
    }
    document.section("runs", "Runs").table(table);
}

/// What is not alike, the summary and the metrics alone, of a document of [`compared`].
pub fn brief(whole: &Document, comparison: &Comparison) -> Document {
    let mut document = Document::new(whole.title.clone());
    document.caveats.clone_from(&whole.caveats);
    document.summary.clone_from(&whole.summary);
    document.table(metrics(comparison));
    document
}

pub fn metrics(comparison: &Comparison) -> Table {
    let headers = ["Metric", "Verdict", "A", "B", "Change", "95 % CI", "From"];
    let mut table = Table::new(&headers, 2).with_words(&["From"]);
    for metric in &comparison.metrics {
        table.keyed(format!("metric-{}", metric.metric), metric_cells(metric));
    }
    table
}

fn metric_cells(metric: &MetricComparison) -> [Cell; 7] {
    let value = |value: Option<f64>| {
        value.map_or(Cell::Missing, |value| {
            Cell::number(value, words::value(metric.unit, value))
        })
    };
    let compared = metric.excluded_for.is_none();
    let change = metric.ratio.filter(|_| compared);
    let interval = words::interval(metric);
    [
        words::metric(metric.metric).into(),
        words::verdict(metric.verdict).into(),
        value(metric.a),
        value(metric.b),
        change.map_or(Cell::Missing, |ratio| {
            Cell::number(ratio, words::change(ratio))
        }),
        if interval.is_empty() {
            Cell::Missing
        } else {
            interval.into()
        },
        words::basis(metric).into(),
    ]
}

/// Parts that sum to a difference, with the sum as the last row.
fn why(section: &mut Section, explained: &Explanation) {
    let work = if explained.on_device {
        "Kernel"
    } else {
        "Operator"
    };
    let headers = [
        "Part",
        "A",
        "B",
        "Difference",
        "Points",
        work,
        "Launched by",
    ];
    let mut table = Table::new(&headers, 1).with_words(&[work, "Launched by"]);
    for part in &explained.parts {
        let change = part.change.as_ref();
        let place = change.and_then(|change| change.place.as_deref());
        table.row([
            change.map_or_else(
                || words::part_name(part, explained).into(),
                |change| change.category.as_str().into(),
            ),
            time(part.a_ns).into(),
            time(part.b_ns).into(),
            signed(part.delta_ns).into(),
            format!("{:+.2}", part.points).into(),
            change.map_or(Cell::from(""), both_sides),
            place.unwrap_or_default().into(),
        ]);
    }
    table.row([
        Cell::from("Sum of the changes"),
        time(explained.a_ns).into(),
        time(explained.b_ns).into(),
        signed(explained.delta_ns).into(),
        format!("{:+.2}", explained.points()).into(),
        "".into(),
        "".into(),
    ]);
    section.table(table.without_empty_columns());
    let basis = if explained.on_device {
        "Kernel times are those of the profiled pass; GPU idle is the rest of the metric."
    } else {
        "Operator times are those of the profiled pass, scaled to the metric."
    };
    let per = words::per(explained);
    section.paragraph(format!("Times are {per}. {basis} Points are percent of A."));
}

fn signed(ns: f64) -> String {
    let sign = if ns > 0.0 { "+" } else { "" };
    format!("{sign}{}", Nanos(ns.round() as i64))
}

fn phase(
    document: &mut Document,
    comparison: &Comparison,
    phase: &PhaseComparison,
    sides: (&[RunFacts], &[RunFacts]),
) {
    let name = key(&phase.phase);
    let section = document.section(&format!("phase_{name}"), format!("Phase {}", phase.phase));
    if let Some(what) = &phase.excluded_for {
        section.paragraph(words::other_phase_work(what));
    }
    section.chart(
        format!("compare_{name}"),
        Drawing::PairedBars(bars(comparison, phase)),
    );
    section.paragraph(format!(
        "Profiled pass, {}: {} → {}.{}",
        words::per(&phase.explanation),
        time(phase.a_wall_ns),
        time(phase.b_wall_ns),
        match (phase.a_plain_ns, phase.b_plain_ns) {
            (Some(a), Some(b)) => format!(" Without the profiler: {} → {}.", time(a), time(b)),
            _ => String::new(),
        }
    ));
    section.table(parts("Part", &phase.parts, words::waterfall_part));
    if !phase.idle_causes.is_empty() {
        section.heading("Idle time by cause");
        section.table(parts("Cause", &phase.idle_causes, words::waterfall_part));
    }
    let what = if phase.on_device {
        "Kernels"
    } else {
        "Operators"
    };
    section.heading(format!("{what}: what replaced what"));
    section.table(kernels(phase, what));
    if phase.on_device && !phase.operators.is_empty() {
        section.heading("Operators of the model");
        let mut table = parts("Operator", &phase.operators, |name| name);
        table.rows_in_text = ROWS_IN_TEXT;
        section.table(table);
    }
    steps(section, comparison, phase, sides);
}

fn bars(comparison: &Comparison, phase: &PhaseComparison) -> PairedBars {
    let mut rows = vec![PairedBar {
        label: "wall time (profiled)".to_owned(),
        values: [phase.a_wall_ns, phase.b_wall_ns],
    }];
    rows.extend(phase.parts.iter().map(|part| PairedBar {
        label: words::waterfall_part(&part.name).to_owned(),
        values: [part.a_ns.unwrap_or(0.0), part.b_ns.unwrap_or(0.0)],
    }));
    rows.retain(|row| row.values != [0.0, 0.0]);
    PairedBars {
        title: format!(
            "Where the time of {} went, {}",
            phase.phase,
            words::per(&phase.explanation)
        ),
        unit: Unit::Nanoseconds,
        sides: [comparison.a.label.clone(), comparison.b.label.clone()],
        rows,
    }
}

fn parts(header: &str, rows: &[PartComparison], name: impl Fn(&str) -> &str) -> Table {
    let mut table = Table::new(&[header, "A", "B", "Difference"], 1);
    let cell = |value: Option<f64>| value.map_or(Cell::Missing, |ns| Cell::number(ns, time(ns)));
    let is_on_a_side = |part: &&PartComparison| {
        let sides = [part.a_ns, part.b_ns].into_iter().flatten();
        sides.into_iter().any(|ns| ns != 0.0)
    };
    for part in rows.iter().filter(is_on_a_side) {
        table.row([
            name(&part.name).into(),
            cell(part.a_ns),
            cell(part.b_ns),
            Cell::number(part.delta_ns, signed(part.delta_ns)),
        ]);
    }
    table
}

fn kernels(phase: &PhaseComparison, what: &str) -> Table {
    let columns = Column::all([
        ("Difference", Align::Right),
        ("Time A", Align::Right),
        ("Time B", Align::Right),
        ("Calls A", Align::Right),
        ("Calls B", Align::Right),
        ("Change", Align::Left),
        ("A", Align::Left),
        ("B", Align::Left),
        ("Category", Align::Left),
        ("Launched by", Align::Left),
    ]);
    let mut table = Table::sortable(&what.to_lowercase(), columns);
    for change in &phase.kernels {
        table.row(kernel_cells(change));
    }
    table.rows_in_text = ROWS_IN_TEXT;
    table
}

/// What ran on both sides, or what replaced what.
fn both_sides(change: &WorkChange) -> Cell {
    let (a, b) = (side(&change.a), side(&change.b));
    match (&a, &b) {
        (Cell::Missing, _) | (_, Cell::Missing) => Cell::Name {
            label: words::one_sided(change.kind, a.text(), b.text()),
            full: [&change.a, &change.b]
                .map(|names| all_names(names))
                .concat(),
        },
        _ if a == b => a,
        _ => Cell::Name {
            label: format!("{} → {}", a.text(), b.text()),
            full: format!("{}\n→\n{}", all_names(&change.a), all_names(&change.b)),
        },
    }
}

fn all_names(names: &[NamedWork]) -> String {
    let all: Vec<&str> = names.iter().map(|row| row.name.as_str()).collect();
    all.join("\n")
}

/// The work of one side: the first name, and how many more there are.
fn side(names: &[NamedWork]) -> Cell {
    let [first, rest @ ..] = names else {
        return Cell::Missing;
    };
    let more = if rest.is_empty() {
        String::new()
    } else {
        format!(" + {}", rest.len())
    };
    Cell::Name {
        label: format!("{}{more}", kernel_label(&first.name)),
        full: all_names(names),
    }
}

fn kernel_cells(change: &WorkChange) -> [Cell; 10] {
    let calls = |names: &[NamedWork]| {
        let count: f64 = names.iter().map(|row| row.calls).sum();
        Cell::number(count, llmprof_units::format_significant(count))
    };
    [
        Cell::number(change.delta_ns, signed(change.delta_ns)),
        Cell::number(change.a_ns, time(change.a_ns)),
        Cell::number(change.b_ns, time(change.b_ns)),
        calls(&change.a),
        calls(&change.b),
        words::change_kind(change.kind).into(),
        side(&change.a),
        side(&change.b),
        change.category.as_str().into(),
        change.place.as_deref().map_or(Cell::Missing, Cell::from),
    ]
}

/// How long single steps took on both sides.
fn steps(
    section: &mut Section,
    comparison: &Comparison,
    phase: &PhaseComparison,
    (a, b): (&[RunFacts], &[RunFacts]),
) {
    let named = |runs: &[RunFacts]| -> Vec<f64> {
        let of = |run: &RunFacts| {
            let like = |facts: &&PhaseFacts| facts.name == phase.phase;
            let facts = run.phases.iter().find(like);
            facts.map(|facts| facts.step_ns.clone()).unwrap_or_default()
        };
        runs.iter().flat_map(of).collect()
    };
    let sides = [
        (&comparison.a.label, named(a), phase.steps_a),
        (&comparison.b.label, named(b), phase.steps_b),
    ];
    for (number, (label, values, spread)) in sides.into_iter().enumerate() {
        let Some(spread) = spread.filter(|_| values.len() > 1) else {
            continue;
        };
        let marks = [("p50", spread.p50), ("p99", spread.p99)];
        let marks = marks.map(|(label, value)| ValueMark {
            label: label.to_owned(),
            value,
        });
        section.chart(
            format!("steps_{}_{}", key(&phase.phase), ["a", "b"][number]),
            Drawing::Histogram(Histogram::from_values(
                format!(
                    "{} of {}, {label}",
                    words::single(&phase.explanation),
                    phase.phase
                ),
                Unit::Nanoseconds,
                &values,
                marks.into(),
            )),
        );
    }
}
