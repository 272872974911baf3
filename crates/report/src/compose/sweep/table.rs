//! The jobs of a sweep side by side: what each measured, in one table.

use llmprof_analysis::Analysis;
use llmprof_analysis::roofline::Utilization;
use llmprof_analysis::stats::Summary;
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
    pub ttft_ns: Option<f64>,
    pub tpot_ns: Option<f64>,
    pub tokens_per_s: Option<f64>,
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
    pub fn of(analysis: &Analysis) -> Self {
        let mean = |summary: &Option<Summary>| summary.as_ref().map(|summary| summary.mean);
        Self {
            ttft_ns: mean(&analysis.latency.ttft_ns),
            tpot_ns: mean(&analysis.latency.tpot_ns),
            tokens_per_s: mean(&analysis.latency.tokens_per_s),
            prefill: PhaseFigures::of(analysis, RunPhase::Prefill),
            decode: PhaseFigures::of(analysis, RunPhase::Decode),
        }
    }
}

impl PhaseFigures {
    fn of(analysis: &Analysis, phase: RunPhase) -> Self {
        let Some(found) = analysis.phase(phase) else {
            return Self::default();
        };
        let used = found
            .plain_utilization
            .as_ref()
            .or(found.utilization.as_ref());
        let use_of = |choose: fn(&Utilization) -> Option<f64>| used.and_then(choose);
        let telemetry = analysis.telemetry.iter().flat_map(|seen| &seen.phases);
        Self {
            is_found: true,
            class: found.class.class.map(|class| class.to_string()),
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

/// The table for people. Without any figures it says how the jobs ended; columns that no job has are left out.
/// Numbers of jobs link to their reports.
pub fn table(rows: &[SweepRow]) -> Table {
    type Value = fn(&SweepFigures) -> Option<String>;
    let columns: [(&str, Value); 8] = [
        ("TTFT", |of| of.ttft_ns.map(time)),
        ("TPOT", |of| of.tpot_ns.map(time)),
        ("TOKENS/S", |of| of.tokens_per_s.map(format_significant)),
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
    headers.push("PATH");
    let mut table = Table::new(&headers, 3).with_words(&[PREFILL, DECODE, "PATH"]);
    for (index, row) in rows.iter().enumerate() {
        let label = row.number.to_string();
        let number = match row.report_link.clone() {
            Some(href) => Cell::Link { label, href },
            None => Cell::from(label),
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
        cells.push(row.dir.clone().into());
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
    let rate = |row: &SweepRow| row.figures.as_ref()?.tokens_per_s;
    let first = rows.first().and_then(rate).filter(|rate| *rate > 0.0)?;
    (rows.len() > 1).then(|| rows.iter().map(|row| Some(rate(row)? / first)).collect())
}

/// Overrides that every one of several jobs has: they tell nothing apart.
pub(super) fn common(rows: &[SweepRow]) -> Vec<String> {
    let [first, others @ ..] = rows else {
        return Vec::new();
    };
    let everywhere = |line: &&String| others.iter().all(|row| row.overrides.contains(line));
    let found = first.overrides.iter().filter(everywhere);
    found.filter(|_| !others.is_empty()).cloned().collect()
}

fn differing(row: &SweepRow, common: &[String]) -> String {
    let own = row.overrides.iter().filter(|line| !common.contains(line));
    own.map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// What should not be trusted of the figures: a line for each kind of warning, in the words of the first job that has it.
pub fn warnings(rows: &[SweepRow]) -> Vec<String> {
    let mut found: Vec<(&Issue, Vec<usize>)> = Vec::new();
    for row in rows {
        for issue in row
            .issues
            .iter()
            .filter(|issue| issue.severity > Severity::Info)
        {
            match found.iter_mut().find(|(known, _)| known.code == issue.code) {
                Some((_, jobs)) if jobs.last() == Some(&row.number) => {}
                Some((_, jobs)) => jobs.push(row.number),
                None => found.push((issue, vec![row.number])),
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
    found.into_iter().map(line).collect()
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
            of(|figures| figures.ttft_ns),
            of(|figures| figures.tpot_ns),
            of(|figures| figures.tokens_per_s),
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

fn time(ns: f64) -> String {
    Nanos(ns.round() as i64).to_string()
}

fn percent(share: f64) -> String {
    Percent(share).to_string()
}
