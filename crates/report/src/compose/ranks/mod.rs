//! Ranks: parts of each, collectives, the slowest, and a timeline with a lane for each.

pub mod csv;
pub mod sentences;

use std::collections::HashMap;

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::run::RunRecord;
use llmprof_units::{Nanos, Percent};

use self::sentences as text;
use super::job;
use super::timeline::EVENTS_MAX;
use crate::analyzed::{Analysis, LanePiece, RankPart, RankRow, RanksAnalysis, rank_lanes};
use crate::document::{Align, Cell, Column, Document, Drawing, Table};
use crate::view::{Timeline, TimelineEvent};

pub(super) fn add(document: &mut Document, analysis: &Analysis, record: &RunRecord) {
    let Some(ranks) = &analysis.ranks else {
        return;
    };
    let drawn = timeline(record, ranks);
    document
        .issues
        .extend(drawn.as_ref().and_then(|(_, issue)| issue.clone()));
    let section = document.section("ranks", if ranks.are_devices { "GPUs" } else { "Ranks" });
    section.list(text::slowest(ranks));
    if let Some(job) = &ranks.job {
        job::add(section, job);
    }
    section.table(parts(ranks));
    section.paragraph(text::columns(ranks));
    if let Some((timeline, _)) = drawn {
        section.chart("timeline_of_ranks", Drawing::Timeline(timeline));
    }
    if !ranks.collectives.is_empty() {
        section.table(collectives(ranks));
        section.paragraph(text::collectives());
    }
    section.paragraph(text::basis(ranks));
}

/// Ranks that Markdown and a terminal list; HTML, CSV and JSON have all.
const ROWS_IN_TEXT: usize = 64;

fn number(time: Nanos) -> Cell {
    Cell::Number {
        value: time.0 as f64,
        text: time.to_string(),
    }
}

fn parts(ranks: &RanksAnalysis) -> Table {
    let mut headers = vec!["Rank", "Compute", "Transfer, exposed", "Waiting, exposed"];
    let has_unmatched = ranks.ranks.iter().any(|row| row.exposed_unmatched_ns.0 > 0);
    if has_unmatched {
        headers.push("Other communication, exposed");
    }
    headers.extend([
        "Copies",
        "Idle",
        "Busy",
        "Communication, hidden",
        "Others waited for it",
    ]);
    if ranks.are_devices {
        headers[0] = "GPU";
    } else {
        headers.push("Clock offset");
        headers.push("Clock drift");
    }
    let column = |(index, header): (usize, &&str)| Column {
        header: (*header).to_owned(),
        align: if index == 0 {
            Align::Left
        } else {
            Align::Right
        },
    };
    let mut table = Table::sortable("ranks", headers.iter().enumerate().map(column).collect());
    table.rows_in_text = ROWS_IN_TEXT;
    for row in &ranks.ranks {
        let mut cells = vec![
            Cell::Number {
                value: f64::from(row.rank),
                text: row.rank.to_string(),
            },
            number(row.compute_ns),
            number(row.exposed_transfer_ns),
            number(row.exposed_waiting_ns),
        ];
        if has_unmatched {
            cells.push(number(row.exposed_unmatched_ns));
        }
        let busy = row.busy_ns.0 as f64 / ranks.span_ns.0.max(1) as f64;
        cells.extend([
            number(row.copies_ns),
            number(row.idle_ns),
            Cell::Number {
                value: busy,
                text: Percent(busy).to_string(),
            },
            number(hidden(row)),
            number(row.caused_waiting_ns),
        ]);
        if !ranks.are_devices {
            let offset = row.clock.offset_ns;
            cells.push(Cell::Number {
                value: offset.0 as f64,
                text: text::offset(offset),
            });
            let drift = row.clock.drift_ppm;
            cells.push(Cell::Number {
                value: drift,
                text: text::drift(drift),
            });
        }
        table.push(Some(format!("rank-{}", row.rank)), cells);
    }
    table
}

fn hidden(row: &RankRow) -> Nanos {
    row.communication_ns - row.exposed_communication()
}

fn collectives(ranks: &RanksAnalysis) -> Table {
    let noun = text::noun(ranks);
    let last = format!("Last {noun}");
    let mut table = Table::sortable(
        "collectives",
        Column::all([
            ("Collective", Align::Left),
            ("Ranks", Align::Right),
            ("Message", Align::Right),
            ("Calls", Align::Right),
            ("Skew", Align::Right),
            ("Skew, most", Align::Right),
            ("Transfer", Align::Right),
            ("Bus bandwidth", Align::Right),
            (&last, Align::Left),
        ]),
    );
    table.rows_in_text = 20;
    for row in &ranks.collectives {
        let bytes = row.bytes.map_or(Cell::Missing, |bytes| Cell::Number {
            value: bytes.0 as f64,
            text: bytes.to_string(),
        });
        let rate = row
            .bus_bytes_per_s
            .map_or(Cell::Missing, |rate| Cell::Number {
                value: rate.0,
                text: rate.to_string(),
            });
        let whole = |count: u64| Cell::Number {
            value: count as f64,
            text: count.to_string(),
        };
        table.push(
            None,
            vec![
                Cell::Text(row.kind.name().to_owned()),
                whole(row.group_size),
                bytes,
                whole(row.calls),
                number(row.skew_median_ns),
                number(row.skew_max_ns),
                number(row.transfer_median_ns),
                rate,
                Cell::Text(text::last(row)),
            ],
        );
    }
    table
}

/// A lane for each rank, on the clock of the first; parts take the place of phases. Nothing where nothing ran.
fn timeline(record: &RunRecord, ranks: &RanksAnalysis) -> Option<(Timeline, Option<Issue>)> {
    let lanes = rank_lanes(record)?;
    let noun = text::noun(ranks);
    let texts = lanes
        .lanes
        .iter()
        .map(|lane| format!("{noun} {}", lane.rank))
        .collect();
    let phases = [
        RankPart::Compute,
        RankPart::Transfer,
        RankPart::Waiting,
        RankPart::Unmatched,
        RankPart::Copies,
    ];
    let mut timeline = Timeline::new(
        texts,
        Vec::new(),
        phases
            .iter()
            .map(|part| text::part(*part).to_owned())
            .collect(),
    );
    let all: usize = lanes.lanes.iter().map(|lane| lane.pieces.len()).sum();
    let mut pieces: Vec<(usize, LanePiece<'_>)> = Vec::with_capacity(all);
    for (number, lane) in lanes.lanes.iter().enumerate() {
        pieces.extend(lane.pieces.iter().map(|piece| (number, *piece)));
    }
    if pieces.is_empty() {
        return None;
    }
    if pieces.len() > EVENTS_MAX {
        // The longest are what can be seen.
        pieces.sort_by_key(|(_, piece)| std::cmp::Reverse(piece.end_ns - piece.start_ns));
        pieces.truncate(EVENTS_MAX);
    }
    let mut numbers: HashMap<String, u32> = HashMap::new();
    for (lane, piece) in &pieces {
        let name = text::piece(piece, noun);
        let next = timeline.names.len() as u32;
        let number = *numbers.entry(name).or_insert_with_key(|name| {
            timeline.names.push(name.clone());
            next
        });
        let phase = phases.iter().position(|part| *part == piece.part);
        timeline.push(TimelineEvent {
            lane: *lane as u32,
            start_ns: piece.start_ns,
            duration_ns: piece.end_ns - piece.start_ns,
            name: number,
            phase: phase.map_or(u32::MAX, |phase| phase as u32),
        });
    }
    let left_out = all - pieces.len();
    let issue = (left_out > 0).then(|| {
        let issue = Issue::info(IssueCode::ReportTimelineCut).with("left_out", left_out);
        issue.with("of", all)
    });
    Some((timeline, issue))
}
