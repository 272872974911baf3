//! Copies and memsets of each phase, by direction.

use llmprof_units::Percent;

use crate::analyzed::Analysis;
use crate::document::{Cell, Document, Table, key};
use crate::text::copies as text;

/// Adds the section where a phase has copies.
pub(super) fn add(document: &mut Document, analysis: &Analysis) {
    let phases = analysis.phases.iter();
    let copies = phases.flat_map(|phase| {
        let copies = phase.traced.iter().flat_map(|traced| &traced.copies);
        copies
            .enumerate()
            .map(move |(index, one)| (phase, index, one))
    });
    let mut table = Table::new(
        &[
            "Phase",
            "Direction",
            "Copies",
            "Bytes",
            "Time",
            "Rate",
            "Peak",
            "Share of peak",
            "Pageable memory",
        ],
        2,
    );
    for (phase, index, one) in copies {
        let anchor = (index == 0).then(|| format!("copies-{}", key(phase.name())));
        let (rate, limit) = (one.rate(), one.limit.as_ref());
        let share = rate
            .zip(limit)
            .map(|(rate, limit)| Percent(rate.0 / limit.bytes_per_s.0.max(1.0)));
        let pageable = one.pageable_ns.0 as f64 / one.time_ns.0.max(1) as f64;
        let known = |text: Option<String>| text.map_or(Cell::Missing, Cell::from);
        let cells = vec![
            super::phases::phase_cell(phase),
            Cell::from(text::direction(one.direction).to_owned()),
            Cell::from(one.copies.to_string()),
            known((one.bytes.0 > 0).then(|| one.bytes.to_string())),
            Cell::from(one.time_ns.to_string()),
            known(rate.map(|rate| rate.to_string())),
            known(
                limit
                    .filter(|_| rate.is_some())
                    .map(|limit| format!("{}, {}", limit.bytes_per_s, limit.name)),
            ),
            known(share.map(|share| share.to_string())),
            known((one.pageable_ns.0 > 0).then(|| format!("{} of the time", Percent(pageable)))),
        ];
        table.push(anchor, cells);
    }
    if table.rows.is_empty() {
        return;
    }
    let section = document.section("copies", "Copies");
    section.paragraph(text::BASIS);
    section.table(table.without_empty_columns());
}
