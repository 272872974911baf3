//! A whole job: ranks to look at, stragglers, slow links, steps of all ranks, process groups.

pub(crate) mod sentences;

use self::sentences as text;
use crate::analyzed::{GroupSet, JobAnalysis};
use crate::document::{Align, Cell, Column, Drawing, Section, Table};
use crate::view::{HeatMap, Unit};

/// Rows and columns of the heat map; more ranks or steps share one, which shows the highest of them.
const HEAT_ROWS_MAX: usize = 40;
const HEAT_COLUMNS_MAX: usize = 24;
/// Own time of the longest rank over the median from which a map of one step shows more than noise.
const ONE_STEP_RATIO_MIN: f64 = 1.05;

pub(super) fn add(section: &mut Section, job: &JobAnalysis) {
    section.list(text::conclusions(job));
    if !job.look_at.is_empty() {
        section.table(look_at(job));
    }
    if let Some(map) = heat_map(job) {
        section.chart("ranks_by_step", Drawing::HeatMap(map));
        section.paragraph(text::heat_map(job));
    }
    if job.groups.len() > 1 {
        section.table(groups(&job.groups));
    }
}

fn look_at(job: &JobAnalysis) -> Table {
    let columns = Column::all([("Rank to look at", Align::Left), ("Why", Align::Left)]);
    let mut table = Table::sortable("ranks", columns);
    for rank in &job.look_at {
        let reasons = rank.reasons.iter().map(|reason| text::reason(job, reason));
        table.push(
            None,
            vec![
                Cell::Number {
                    value: f64::from(rank.rank),
                    text: rank.rank.to_string(),
                },
                Cell::Text(reasons.collect::<Vec<_>>().join("; ")),
            ],
        );
    }
    table
}

fn groups(sets: &[GroupSet]) -> Table {
    let columns = Column::all([
        ("Process groups", Align::Left),
        ("Ranks each", Align::Right),
        ("Groups", Align::Right),
        ("Stride", Align::Right),
        ("Send", Align::Left),
        ("Calls", Align::Right),
        ("Time of a rank", Align::Right),
    ]);
    let mut table = Table::sortable("process groups", columns);
    let whole = |count: u64| Cell::Number {
        value: count as f64,
        text: count.to_string(),
    };
    for set in sets {
        let kinds: Vec<&str> = set.kinds.iter().map(|kind| kind.name()).collect();
        table.push(
            None,
            vec![
                Cell::Text(text::group(set)),
                whole(set.size),
                whole(set.groups),
                set.stride.map_or(Cell::Missing, whole),
                Cell::Text(kinds.join(", ")),
                whole(set.calls),
                Cell::Number {
                    value: set.time_ns.0 as f64,
                    text: set.time_ns.to_string(),
                },
            ],
        );
    }
    table
}

/// Own times over the median of their step; nothing of a single step in which ranks are alike.
fn heat_map(job: &JobAnalysis) -> Option<HeatMap> {
    let times = &job.step_times;
    let (ranks, steps) = (times.ranks.len(), job.steps.len());
    if ranks < 2 || steps == 0 {
        return None;
    }
    let rows = blocks(ranks, HEAT_ROWS_MAX);
    let columns = blocks(steps, HEAT_COLUMNS_MAX);
    let ratio = |rank: usize, step: usize| {
        let own = *times.own_ns.get(rank)?.get(step)?;
        let usual = job.steps[step].median_own_ns.0;
        (own >= 0 && usual > 0).then(|| own as f64 / usual as f64)
    };
    let is_uneven = || {
        let ratios = (0..ranks).filter_map(|rank| ratio(rank, 0));
        ratios
            .reduce(f64::max)
            .is_some_and(|most| most >= ONE_STEP_RATIO_MIN)
    };
    if steps == 1 && !is_uneven() {
        return None;
    }
    let cell = |rows: &(usize, usize), columns: &(usize, usize)| {
        let all =
            (rows.0..rows.1).flat_map(|rank| (columns.0..columns.1).map(move |step| (rank, step)));
        all.filter_map(|(rank, step)| ratio(rank, step))
            .reduce(f64::max)
    };
    let step = |index: usize| job.steps[index].number.unwrap_or(index as u64);
    let span = |first: u64, last: u64| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}–{last}")
        }
    };
    Some(HeatMap {
        title: text::HEAT_MAP_TITLE.to_owned(),
        unit: Unit::Fraction,
        keys: ["step".to_owned(), "rank".to_owned()],
        columns: columns
            .iter()
            .map(|&(from, to)| span(step(from), step(to - 1)))
            .collect(),
        cells: rows
            .iter()
            .map(|rows| columns.iter().map(|columns| cell(rows, columns)).collect())
            .collect(),
        rows: rows
            .iter()
            .map(|&(from, to)| span(u64::from(times.ranks[from]), u64::from(times.ranks[to - 1])))
            .collect(),
    })
}

/// Ranges of equal length that cover `count` in at most `most`.
fn blocks(count: usize, most: usize) -> Vec<(usize, usize)> {
    let length = count.div_ceil(most).max(1);
    (0..count)
        .step_by(length)
        .map(|from| (from, (from + length).min(count)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::blocks;

    #[test]
    fn blocks_cover_all() {
        assert_eq!(blocks(3, 40), [(0, 1), (1, 2), (2, 3)]);
        let many = blocks(1_024, 40);
        assert!(many.len() <= 40);
        assert_eq!(many.first().map(|block| block.0), Some(0));
        assert_eq!(many.last().map(|block| block.1), Some(1_024));
        assert!(many.windows(2).all(|pair| pair[0].1 == pair[1].0));
    }
}
