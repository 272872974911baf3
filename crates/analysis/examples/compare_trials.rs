//! How often `llmprof compare` is wrong: trials resampled from recorded rounds, with slowdowns injected.
//!
//! ```text
//! cargo run --release -p llmprof-analysis --example compare_trials -- ROUNDS.csv [TRIALS]
//! ```
//!
//! A line of the file is a run: `round,side,disturbed_share,tpot_ns…` with one time per pass. Both sides of every round are the same
//! program, so the truth is known: B takes 1 + slowdown times what was recorded. A trial draws rounds with replacement, compares them as
//! `llmprof compare --run … --run …` does, and counts the verdict and the gate `tpot<+2%`.

use std::collections::BTreeMap;

use llmprof_analysis::compare::{
    Comparison, Disturbance, DisturbanceCause, Gate, GateState, Options, RunFacts, Verdict,
};

const SLOWDOWNS: [f64; 4] = [0.0, 0.01, 0.03, 0.10];
const ROUNDS: [usize; 3] = [6, 12, 48];

fn main() {
    let mut args = std::env::args().skip(1);
    let file = args.next().expect("the file of recorded rounds");
    let trials: usize = args
        .next()
        .map_or(200, |text| text.parse().expect("a number of trials"));
    let text = std::fs::read_to_string(&file).expect("the file of recorded rounds can be read");
    let pairs = read(&text);
    let gate: Gate = "tpot<+2%".parse().expect("a gate");
    print(&format!(
        "{} recorded rounds, {trials} trials each",
        pairs.len()
    ));
    print("rounds  slowdown  faster  slower  same  cannot tell  gate failed  passed  inconclusive");
    let mut random = Random(2026);
    for rounds in ROUNDS {
        for slowdown in SLOWDOWNS {
            let mut verdicts: BTreeMap<&str, usize> = BTreeMap::new();
            let mut gates: BTreeMap<u8, usize> = BTreeMap::new();
            for _ in 0..trials {
                let (mut a, mut b) = (Vec::new(), Vec::new());
                for _ in 0..rounds {
                    let pair = &pairs[random.below(pairs.len())];
                    a.push(pair[0].clone());
                    b.push(slowed(&pair[1], 1.0 + slowdown));
                }
                let options = Options {
                    interleaved: true,
                    ..Options::default()
                };
                let comparison = Comparison::of(&a, &b, options).expect("both sides have runs");
                let found = comparison.metric("tpot").expect("rounds have TPOT");
                *verdicts.entry(found.verdict.name()).or_default() += 1;
                let state = match gate.judge(&comparison, &b).state {
                    GateState::Failed => 0,
                    GateState::Passed => 1,
                    GateState::Inconclusive => 2,
                };
                *gates.entry(state).or_default() += 1;
            }
            let share = |count: Option<&usize>| {
                format!(
                    "{:.1} %",
                    *count.unwrap_or(&0) as f64 * 100.0 / trials as f64
                )
            };
            let verdict = |verdict: Verdict| share(verdicts.get(verdict.name()));
            print(&format!(
                "{rounds:>6}  {:>6.0} %  {:>6}  {:>6}  {:>5}  {:>10}  {:>11}  {:>6}  {:>12}",
                slowdown * 100.0,
                verdict(Verdict::Faster),
                verdict(Verdict::Slower),
                verdict(Verdict::Same),
                verdict(Verdict::CannotTell),
                share(gates.get(&0)),
                share(gates.get(&1)),
                share(gates.get(&2)),
            ));
        }
    }
}

#[expect(clippy::print_stdout, reason = "the output of an example")]
fn print(line: &str) {
    println!("{line}");
}

fn read(text: &str) -> Vec<[RunFacts; 2]> {
    let mut rounds: BTreeMap<usize, [Option<RunFacts>; 2]> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with("round")) {
        let mut cells = line.split(',');
        let mut next = || {
            cells
                .next()
                .expect("a line has a round, a side and a share")
        };
        let round: usize = next().parse().expect("a round is a number");
        let side = usize::from(next() == "B");
        let share: f64 = next().parse().expect("a share is a number");
        let times: Vec<f64> = cells
            .map(|cell| cell.parse().expect("a time is a number"))
            .collect();
        let facts = RunFacts {
            passes: BTreeMap::from([("tpot".to_owned(), times)]),
            measured_in: "plain".to_owned(),
            disturbances: vec![Disturbance {
                cause: DisturbanceCause::ProcessorsShared,
                share,
            }],
            ..RunFacts::default()
        };
        rounds.entry(round).or_default()[side] = Some(facts);
    }
    rounds
        .into_values()
        .filter_map(|[a, b]| Some([a?, b?]))
        .collect()
}

fn slowed(run: &RunFacts, factor: f64) -> RunFacts {
    let mut run = run.clone();
    for values in run.passes.values_mut() {
        for value in values {
            *value *= factor;
        }
    }
    run
}

/// A linear congruential generator: the same trials every time.
struct Random(u64);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % count
    }
}
