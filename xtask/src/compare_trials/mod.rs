//! How often `llmprof compare` is wrong: trials resampled from recorded rounds, with slowdowns injected.
//!
//! ```text
//! cargo run --release -p xtask -- compare-trials ROUNDS.csv [TRIALS]
//! ```
//!
//! A line of the file is a run: `round,side,disturbed_share,tpot_ns…` with one time per pass. Both sides of every round are the same
//! program, so the truth is known: B takes 1 + slowdown times what was recorded. A trial draws rounds with replacement, compares them as
//! `llmprof compare --run … --run …` does, and counts the verdict and the gate `tpot<+2%`.

mod trials;

use trials::{ROUNDS, SLOWDOWNS, TrialRandom, count, read};

pub(crate) fn run_task(words: &[&str]) -> Result<(), Box<dyn std::error::Error>> {
    let (file, trials) = match words {
        [file] => (file, 200),
        [file, trials] => (file, trials.parse()?),
        _ => return Err("compare-trials takes ROUNDS.csv [TRIALS]".into()),
    };
    let pairs = read(&std::fs::read_to_string(file)?);
    println!("{} recorded rounds, {trials} trials each", pairs.len());
    println!(
        "rounds  slowdown  faster  slower  same  cannot tell  gate failed  passed  inconclusive"
    );
    let mut random = TrialRandom::default();
    for rounds in ROUNDS {
        for slowdown in SLOWDOWNS {
            let [
                faster,
                slower,
                same,
                cannot_tell,
                failed,
                passed,
                inconclusive,
            ] = count(&pairs, rounds, slowdown, trials, &mut random).shares();
            println!(
                "{rounds:>6}  {:>6.0} %  {faster:>6}  {slower:>6}  {same:>5}  {cannot_tell:>10}  {failed:>11}  {passed:>6}  {inconclusive:>12}",
                slowdown * 100.0,
            );
        }
    }
    Ok(())
}
