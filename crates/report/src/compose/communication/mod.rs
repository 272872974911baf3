//! Communicators, collectives and unfinished work, as communication libraries write them.

pub mod sentences;

use llmprof_record::communication::{CollectiveCalls, Communication};

use self::sentences as text;
use crate::document::{Align, Cell, Column, Document, Table};

/// Rows in a text; a page has all.
const ROWS_IN_TEXT: usize = 20;

pub(super) fn add(document: &mut Document, communication: &Communication) {
    let section = document.section("communication", "Communication library");
    section.list(text::summary(communication));
    if !communication.communicators.is_empty() {
        let mut table = Table::new(
            &[
                "Communicator",
                "Ranks read",
                "Ranks",
                "Nodes",
                "Channels",
                "NVLS channels",
                "P2P channels",
                "Init",
            ],
            2,
        );
        for group in &communication.communicators {
            let known = |count: Option<u64>| count.map_or(Cell::Missing, whole);
            table.push(
                None,
                vec![
                    Cell::Text(group.id.clone()),
                    Cell::Text(text::seen(group)),
                    whole(group.ranks),
                    known(group.nodes),
                    known(group.channels),
                    known(group.nvls_channels),
                    known(group.p2p_channels),
                    group
                        .init_ns
                        .map_or(Cell::Missing, |time| Cell::Text(time.to_string())),
                ],
            );
        }
        section.table(table);
    }
    if !communication.collectives.is_empty() {
        let columns = Column::all([
            ("Collective", Align::Left),
            ("Algorithm", Align::Left),
            ("Protocol", Align::Left),
            ("Ranks", Align::Right),
            ("Message", Align::Right),
            ("Calls", Align::Right),
            ("Time", Align::Right),
            ("Bus bandwidth", Align::Right),
        ]);
        let mut table = Table::sortable("collectives", columns);
        table.rows_in_text = ROWS_IN_TEXT;
        for row in &communication.collectives {
            table.push(None, cells(row));
        }
        section.table(table);
    }
    if !communication.progress.is_empty() {
        let mut table = Table::new(
            &[
                "Rank",
                "Group",
                "Last enqueued",
                "Last started",
                "Last completed",
            ],
            2,
        );
        for row in &communication.progress {
            let number = |number: i64| {
                if number < 0 {
                    Cell::Missing
                } else {
                    Cell::Text(number.to_string())
                }
            };
            let rank = row
                .rank
                .map_or(Cell::Missing, |rank| Cell::Text(rank.to_string()));
            let group = Cell::Text(row.group.clone());
            table.push(
                None,
                vec![
                    rank,
                    group,
                    number(row.enqueued),
                    number(row.started),
                    number(row.completed),
                ],
            );
        }
        section.table(table);
    }
}

fn whole(count: u64) -> Cell {
    Cell::Number {
        value: count as f64,
        text: count.to_string(),
    }
}

fn cells(row: &CollectiveCalls) -> Vec<Cell> {
    let named = |name: &Option<String>| name.clone().map_or(Cell::Missing, Cell::Text);
    let number = |value: f64, text: String| Cell::Number { value, text };
    vec![
        Cell::Text(row.collective.clone()),
        named(&row.algorithm),
        named(&row.protocol),
        if row.ranks == 0 {
            Cell::Missing
        } else {
            whole(row.ranks)
        },
        row.bytes.map_or(Cell::Missing, |bytes| {
            number(bytes.0 as f64, bytes.to_string())
        }),
        whole(row.calls),
        row.median_ns.map_or(Cell::Missing, |time| {
            number(time.0 as f64, time.to_string())
        }),
        row.bus_bytes_per_s
            .map_or(Cell::Missing, |rate| number(rate.0, rate.to_string())),
    ]
}
