//! False alarms and misses of `llmprof compare`, as the documentation states them.

#[path = "../../../xtask/src/compare_trials/trials.rs"]
mod trials;

use trials::{ROUNDS, SLOWDOWNS, TrialRandom, count, read};

const DOCUMENT: &str = include_str!("../../../docs/compare.md");

/// Trials per row of the documentation.
const TRIALS: usize = 400;

/// The cells of the table, without those that say which row it is: faster, slower, cannot tell; failed, passed, inconclusive.
fn documented(rounds: usize, slowdown: f64) -> Vec<String> {
    let start = format!("| {rounds} | {:.0} % |", slowdown * 100.0);
    let row = DOCUMENT.lines().find_map(|line| line.strip_prefix(&start));
    let row = row.unwrap_or_else(|| panic!("there is no row {start}"));
    let cells = row.trim_end_matches('|').split('|');
    cells.map(|cell| cell.trim().to_owned()).collect()
}

/// The first row is counted here; the others take minutes and are those that the example prints.
#[test]
fn the_documented_shares_are_those_of_the_recorded_rounds() {
    let recorded = include_str!("../../../fixtures/cpu/compare_rounds.csv");
    let pairs = read(recorded);
    assert!(pairs.len() >= 400, "{}", pairs.len());
    assert!(DOCUMENT.contains(&format!("{} rounds of two equal runs", pairs.len())));
    assert!(DOCUMENT.contains(&format!("{TRIALS} trials per row")));
    let counted = count(
        &pairs,
        ROUNDS[0],
        SLOWDOWNS[0],
        TRIALS,
        &mut TrialRandom::default(),
    );
    let [
        faster,
        slower,
        same,
        cannot_tell,
        failed,
        passed,
        inconclusive,
    ] = counted.shares();
    assert_eq!(same, "0.0 %", "the table has no column for it");
    let found = [faster, slower, cannot_tell, failed, passed, inconclusive];
    assert_eq!(documented(ROUNDS[0], SLOWDOWNS[0]), found);
}

/// What is said of the table below it.
#[test]
fn the_summary_is_that_of_the_table() {
    let text: Vec<&str> = DOCUMENT.split_whitespace().collect();
    let text = text.join(" ");
    let share = |cell: &str| -> f64 { cell.trim_end_matches(" %").parse().expect("a share") };
    let column = |slowdown: f64, of: &dyn Fn(&[f64]) -> f64| -> Vec<f64> {
        let rows = ROUNDS.iter().map(|rounds| {
            let cells = documented(*rounds, slowdown);
            let cells: Vec<f64> = cells.iter().map(|cell| share(cell)).collect();
            of(&cells)
        });
        rows.collect()
    };
    let range = |values: &[f64]| {
        let (low, high) = (
            values.iter().copied().fold(f64::INFINITY, f64::min),
            values.iter().copied().fold(0.0, f64::max),
        );
        (low, high)
    };
    let (low, high) = range(&column(0.0, &|cells| cells[0] + cells[1]));
    assert!(
        text.contains(&format!(
            "in {low:.1} to {high:.1} % of trials (a 95 % interval"
        )),
        "{low} {high}"
    );
    let (low, high) = range(&column(0.0, &|cells| cells[3]));
    assert!(
        text.contains(&format!("fails in {low:.0} to {high:.1} %")),
        "{low} {high}"
    );
    let (low, high) = range(&column(0.01, &|cells| cells[3]));
    assert!(
        text.contains(&format!("with 1 %, in {low:.1} to {high:.1} %")),
        "{low} {high}"
    );
    let (low, high) = range(&column(0.03, &|cells| cells[4]));
    assert!(
        text.contains(&format!(
            "a slowdown of 3 % in {low:.1} to {high:.1} % of trials and never one of 10 %"
        )),
        "{low} {high}"
    );
    assert_eq!(range(&column(0.10, &|cells| cells[4])), (0.0, 0.0));
}
