//! How often `llmprof compare` is wrong: trials resampled from recorded rounds, with slowdowns injected.
//!
//! ```text
//! cargo run --release -p llmprof-analysis --example compare_trials -- ROUNDS.csv [TRIALS]
//! ```
//!
//! A line of the file is a run: `round,side,disturbed_share,tpot_ns…` with one time per pass. Both sides of every round are the same
//! program, so the truth is known: B takes 1 + slowdown times what was recorded. A trial draws rounds with replacement, compares them as
//! `llmprof compare --run … --run …` does, and counts the verdict and the gate `tpot<+2%`.

mod trials;

use trials::{ROUNDS, Random, SLOWDOWNS, count, read};

fn main() {
    let mut args = std::env::args().skip(1);
    let file = args.next().expect("the file of recorded rounds");
    let trials: usize = args
        .next()
        .map_or(200, |text| text.parse().expect("a number of trials"));
    let text = std::fs::read_to_string(&file).expect("the file of recorded rounds can be read");
    let pairs = read(&text);
    print(&format!(
        "{} recorded rounds, {trials} trials each",
        pairs.len()
    ));
    print("rounds  slowdown  faster  slower  same  cannot tell  gate failed  passed  inconclusive");
    let mut random = Random::default();
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
            print(&format!(
                "{rounds:>6}  {:>6.0} %  {faster:>6}  {slower:>6}  {same:>5}  {cannot_tell:>10}  {failed:>11}  {passed:>6}  {inconclusive:>12}",
                slowdown * 100.0,
            ));
        }
    }
}

#[expect(clippy::print_stdout, reason = "the output of an example")]
fn print(line: &str) {
    println!("{line}");
}
