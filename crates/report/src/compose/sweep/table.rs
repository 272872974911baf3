//! The jobs of a sweep side by side: what each measured, in one table.

use llmprof_analysis::Analysis;
use llmprof_analysis::roofline::Utilization;
use llmprof_analysis::stats::RepeatSummary;
use llmprof_record::issue::{Issue, Severity};
use llmprof_record::run::RunPhase;
use llmprof_units::{Nanos, Percent, format_significant};

use super::sentences;
use crate::{Cell, Table, csv_field, text::issue_line};

const PREFILL: &str = "PREFILL BOTTLENECK";
const DECODE: &str = "DECODE BOTTLENECK";

/// One job of a sweep.
pub struct SweepRow {
    pub number: usize,
    pub overrides: Vec<String>,
    pub state: String,
    pub dir: String,
    /// Its report, as a page of the sweep links to it.
    pub report_link: Option<String>,
    pub complete: bool,
    pub figures: Option<SweepFigures>,
    /// What should not be trusted.
    pub issues: Vec<Issue>,
}

/// What a job measured. What it did not measure is absent.
pub struct SweepFigures {
    pub(super) ttft_ns: Option<RepeatSummary>,
    pub(super) tpot_ns: Option<RepeatSummary>,
    pub(super) tokens_per_s: Option<RepeatSummary>,
    prefill: PhaseFigures,
    decode: PhaseFigures,
}

#[derive(Default)]
struct PhaseFigures {
    is_found: bool,
    class: Option<String>,
    mfu: Option<f64>,
    mbu: Option<f64>,
    joules_per_token: Option<f64>,
}

impl SweepFigures {
    /// The figures of a run.
    pub fn from_analysis(analysis: &Analysis) -> Self {
        Self {
            ttft_ns: analysis.latency.ttft_ns,
            tpot_ns: analysis.latency.tpot_ns,
            tokens_per_s: analysis.latency.tokens_per_s,
            prefill: PhaseFigures::from_analysis(analysis, RunPhase::Prefill),
            decode: PhaseFigures::from_analysis(analysis, RunPhase::Decode),
        }
    }
}

impl PhaseFigures {
    fn from_analysis(analysis: &Analysis, phase: RunPhase) -> Self {
        let Some(phase_analysis) = analysis.phase(phase) else {
            return Self::default();
        };
        let used = phase_analysis
            .plain_utilization
            .as_ref()
            .or(phase_analysis.utilization.as_ref());
        let use_of = |choose: fn(&Utilization) -> Option<f64>| used.and_then(choose);
        let telemetry = analysis.telemetry.iter().flat_map(|seen| &seen.phases);
        Self {
            is_found: true,
            class: phase_analysis.class.class.map(|class| class.to_string()),
            mfu: use_of(|used| used.mfu),
            mbu: use_of(|used| used.mbu),
            joules_per_token: telemetry
                .filter(|seen| seen.phase == phase)
                .find_map(|seen| Some(seen.joules_per_token()?.0)),
        }
    }
}

impl PhaseFigures {
    fn bottleneck(&self) -> Option<String> {
        let none = || sentences::NO_BOTTLENECK.to_owned();
        self.class.clone().or_else(|| self.is_found.then(none))
    }
}

/// What one job measured of a kind.
type Measured = fn(&SweepFigures) -> Option<RepeatSummary>;

/// The job with the largest or the smallest mean of several.
struct Best<'r> {
    row: &'r SweepRow,
    mean: f64,
    /// Jobs whose intervals overlap with its own: they may be as good.
    rivals: Vec<usize>,
    /// Whether each job has an interval: one pass gives none.
    has_intervals: bool,
}

fn best_of(rows: &[SweepRow], value: Measured, is_more_better: bool) -> Option<Best<'_>> {
    let known: Vec<(&SweepRow, RepeatSummary)> = rows
        .iter()
        .filter_map(|row| Some((row, row.figures.as_ref().and_then(value)?)))
        .collect();
    let sign = if is_more_better { -1.0 } else { 1.0 };
    let (row, best) = known
        .iter()
        .min_by(|(_, a), (_, b)| (sign * a.mean).total_cmp(&(sign * b.mean)))?;
    let half = |summary: &RepeatSummary| summary.ci95_half_width.unwrap_or(0.0);
    let rivals = known
        .iter()
        .filter(|(other, _)| other.number != row.number)
        .filter(|(_, other)| (other.mean - best.mean).abs() <= half(best) + half(other));
    (known.len() > 1).then(|| Best {
        row,
        mean: best.mean,
        rivals: rivals.map(|(other, _)| other.number).collect(),
        has_intervals: known.iter().all(|(_, one)| one.ci95_half_width.is_some()),
    })
}

/// The result: which jobs are best, and that some did not end well.
pub fn summary(rows: &[SweepRow]) -> Vec<String> {
    let common = common(rows);
    let job = |row: &SweepRow| sentences::job(row.number, &differing(row, &common));
    let mut lines = Vec::new();
    let mut add = |name: &str, best: Option<Best<'_>>, line: &dyn Fn(&Best<'_>) -> String| {
        if let Some(best) = best {
            lines.push(match (best.has_intervals, best.rivals.is_empty()) {
                (false, _) => sentences::no_intervals(name),
                (true, true) => line(&best),
                (true, false) => sentences::no_winner(name, best.row.number, &best.rivals),
            });
        }
    };
    add(
        "Most tokens/s",
        best_of(rows, |of| of.tokens_per_s, true),
        &|best| {
            let of_first = speeds(rows).and_then(|speeds| {
                let place = rows.iter().position(|one| one.number == best.row.number)?;
                speeds[place].filter(|_| place > 0)
            });
            sentences::most_tokens(&job(best.row), best.mean, of_first)
        },
    );
    let latencies: [(&str, &str, Measured); 2] = [
        ("TPOT", "Lowest TPOT", |of| of.tpot_ns),
        ("TTFT", "Lowest TTFT", |of| of.ttft_ns),
    ];
    for (metric, name, value) in latencies {
        add(name, best_of(rows, value, false), &|best| {
            sentences::lowest(metric, &job(best.row), &time(best.mean))
        });
    }
    let incomplete = rows.iter().filter(|row| !row.complete).count();
    if incomplete > 0 {
        lines.push(sentences::incomplete(incomplete, rows.len()));
    }
    lines
}

/// The table for a terminal, where directories are typed. Without any figures it says how the jobs ended; columns that no job has are
/// left out.
pub fn table(rows: &[SweepRow]) -> Table {
    table_for(rows, false)
}

/// The table for a page, where jobs link to their reports.
pub(super) fn page_table(rows: &[SweepRow]) -> Table {
    table_for(rows, true)
}

fn table_for(rows: &[SweepRow], is_page: bool) -> Table {
    type Value = fn(&SweepFigures) -> Option<String>;
    let columns: [(&str, Value); 8] = [
        ("TTFT", |of| of.ttft_ns.map(|ns| with_half(ns, time))),
        ("TPOT", |of| of.tpot_ns.map(|ns| with_half(ns, time))),
        ("TOKENS/S", |of| {
            of.tokens_per_s
                .map(|rate| with_half(rate, format_significant))
        }),
        (PREFILL, |of| of.prefill.bottleneck()),
        ("PREFILL MFU", |of| of.prefill.mfu.map(percent)),
        (DECODE, |of| of.decode.bottleneck()),
        ("DECODE MBU", |of| of.decode.mbu.map(percent)),
        ("J/TOKEN", |of| {
            of.decode.joules_per_token.map(format_significant)
        }),
    ];
    let has = |cell: Value| {
        rows.iter()
            .any(|row| row.figures.as_ref().and_then(cell).is_some())
    };
    let shown: Vec<(&str, Value)> = columns.into_iter().filter(|(_, cell)| has(*cell)).collect();
    let speeds = speeds(rows);
    let common = common(rows);
    let mut headers = vec!["JOB", "OVERRIDES", "STATE"];
    headers.extend(shown.iter().map(|(name, _)| *name));
    if speeds.is_some() {
        headers.push(sentences::AGAINST_FIRST);
    }
    if !is_page {
        headers.push("PATH");
    }
    let mut table = Table::new(&headers, 3).with_words(&[PREFILL, DECODE, "PATH"]);
    for (index, row) in rows.iter().enumerate() {
        let number = match row.report_link.clone().filter(|_| is_page) {
            Some(href) => Cell::Link {
                label: format!("job {}", row.number),
                href,
            },
            None => Cell::from(row.number.to_string()),
        };
        let mut cells = vec![
            number,
            differing(row, &common).into(),
            row.state.clone().into(),
        ];
        for (_, cell) in &shown {
            let text = row.figures.as_ref().and_then(cell);
            cells.push(text.unwrap_or_else(|| "–".to_owned()).into());
        }
        if let Some(speeds) = &speeds {
            let speed = speeds[index].map(|speed| format!("{speed:.2}×"));
            cells.push(speed.unwrap_or_else(|| "–".to_owned()).into());
        }
        if !is_page {
            cells.push(row.dir.clone().into());
        }
        table.row(cells);
    }
    table
}

/// Whether a job measured energy.
pub(super) fn has_energy(rows: &[SweepRow]) -> bool {
    let figures = rows.iter().filter_map(|row| row.figures.as_ref());
    figures
        .into_iter()
        .any(|figures| figures.decode.joules_per_token.is_some())
}

/// Tokens per second of each job as a multiple of the first one's; none where the first or all others have none.
fn speeds(rows: &[SweepRow]) -> Option<Vec<Option<f64>>> {
    let rate = |row: &SweepRow| Some(row.figures.as_ref()?.tokens_per_s?.mean);
    let first = rows.first().and_then(rate).filter(|rate| *rate > 0.0)?;
    (rows.len() > 1).then(|| rows.iter().map(|row| Some(rate(row)? / first)).collect())
}

/// Overrides that every one of several jobs has: they tell nothing apart.
pub(super) fn common(rows: &[SweepRow]) -> Vec<String> {
    let [first, others @ ..] = rows else {
        return Vec::new();
    };
    let everywhere = |line: &&String| others.iter().all(|row| row.overrides.contains(line));
    let shared = first.overrides.iter().filter(everywhere);
    shared.filter(|_| !others.is_empty()).cloned().collect()
}

fn differing(row: &SweepRow, common: &[String]) -> String {
    let own = row.overrides.iter().filter(|line| !common.contains(line));
    own.map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// What should not be trusted of the figures: a line for each kind of warning, in the words of the first job that has it.
pub fn warnings(rows: &[SweepRow]) -> Vec<String> {
    let mut warnings: Vec<(&Issue, Vec<usize>)> = Vec::new();
    for row in rows {
        for issue in row
            .issues
            .iter()
            .filter(|issue| issue.severity > Severity::Info)
        {
            match warnings
                .iter_mut()
                .find(|(known, _)| known.code == issue.code)
            {
                Some((_, jobs)) if jobs.last() == Some(&row.number) => {}
                Some((_, jobs)) => jobs.push(row.number),
                None => warnings.push((issue, vec![row.number])),
            }
        }
    }
    let line = |(issue, jobs): (&Issue, Vec<usize>)| {
        let others: Vec<String> = jobs[1..].iter().map(ToString::to_string).collect();
        let also = match others.len() {
            0 => String::new(),
            1 => format!("; job {} too", others[0]),
            _ => format!("; jobs {} too", others.join(", ")),
        };
        format!("job {}: {}{also}", jobs[0], issue_line(issue))
    };
    warnings.into_iter().map(line).collect()
}

/// `comparison.csv`: the same in plain units.
pub fn csv(rows: &[SweepRow]) -> String {
    let mut text = "job,overrides,state,ttft_ns,tpot_ns,tokens_per_s,prefill_class,prefill_mfu,prefill_mbu,decode_class,decode_mfu,decode_mbu,decode_joules_per_token,path\n".to_owned();
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    for row in rows {
        let figures = row.figures.as_ref();
        let of = |choose: fn(&SweepFigures) -> Option<f64>| number(figures.and_then(choose));
        let class = |choose: fn(&SweepFigures) -> &PhaseFigures| {
            figures
                .and_then(|figures| choose(figures).class.clone())
                .unwrap_or_default()
        };
        let cells = [
            row.number.to_string(),
            csv_field(&row.overrides.join(" ")),
            csv_field(&row.state),
            of(|figures| Some(figures.ttft_ns?.mean)),
            of(|figures| Some(figures.tpot_ns?.mean)),
            of(|figures| Some(figures.tokens_per_s?.mean)),
            class(|figures| &figures.prefill),
            of(|figures| figures.prefill.mfu),
            of(|figures| figures.prefill.mbu),
            class(|figures| &figures.decode),
            of(|figures| figures.decode.mfu),
            of(|figures| figures.decode.mbu),
            of(|figures| figures.decode.joules_per_token),
            csv_field(&row.dir),
        ];
        text += &cells.join(",");
        text.push('\n');
    }
    text
}

/// `12.3 ms ± 0.4 ms`: with half the 95 % interval of the mean, where several passes give one.
fn with_half(summary: RepeatSummary, format: fn(f64) -> String) -> String {
    let mean = format(summary.mean);
    match summary.ci95_half_width {
        Some(half) => format!("{mean} ± {}", format(half)),
        None => mean,
    }
}

fn time(ns: f64) -> String {
    Nanos(ns.round() as i64).to_string()
}

fn percent(share: f64) -> String {
    Percent(share).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: usize, rates: &[f64]) -> SweepRow {
        SweepRow {
            number,
            overrides: vec![format!("runtime.batch_size={number}")],
            state: "complete".to_owned(),
            dir: number.to_string(),
            report_link: None,
            complete: true,
            figures: Some(SweepFigures {
                ttft_ns: None,
                tpot_ns: None,
                tokens_per_s: RepeatSummary::from_values(rates),
                prefill: PhaseFigures::default(),
                decode: PhaseFigures::default(),
            }),
            issues: Vec::new(),
        }
    }

    /// Passes of 504, 5423 and 367 tokens/s made a job the winner of one with 275.
    #[test]
    fn noise_has_no_winner() {
        let steady = row(0, &[275.0, 276.0, 274.0]);
        let noisy = row(1, &[504.0, 5423.0, 367.0]);
        assert_eq!(
            summary(&[steady, noisy]),
            [
                "Most tokens/s: cannot tell from noise; the 95 % interval of job 1 overlaps that of job 0."
            ]
        );
        let [slow, fast] = [
            row(0, &[275.0, 276.0, 274.0]),
            row(1, &[504.0, 505.0, 503.0]),
        ];
        let line = &summary(&[slow, fast])[0];
        assert!(line.starts_with("Most tokens/s: job 1"), "{line}");
        // One pass has no interval.
        let line = &summary(&[row(0, &[275.0]), row(1, &[504.0])])[0];
        assert!(line.contains("since one pass has no interval"), "{line}");
    }
}
