//! Trials of `llmprof compare` resampled from recorded rounds whose truth is known.

use std::collections::BTreeMap;

use llmprof_analysis::compare::{
    CompareOptions, Comparison, Disturbance, DisturbanceCause, Gate, GateState, RunFacts, Verdict,
};

pub(crate) const SLOWDOWNS: [f64; 4] = [0.0, 0.01, 0.03, 0.10];
pub(crate) const ROUNDS: [usize; 3] = [6, 12, 48];

/// How often each verdict and each state of the gate came out.
pub(crate) struct VerdictCounts {
    trials: usize,
    counts: [usize; 7],
}

impl VerdictCounts {
    /// As the documentation has them: faster, slower, same, cannot tell; the gate failed, passed, inconclusive.
    pub(crate) fn shares(&self) -> [String; 7] {
        let share = |count: usize| count as f64 * 100.0 / self.trials as f64;
        self.counts.map(|count| format!("{:.1} %", share(count)))
    }
}

/// Compares rounds that are drawn with replacement, side B slowed down, `trials` times.
pub(crate) fn count(
    pairs: &[[RunFacts; 2]],
    rounds: usize,
    slowdown: f64,
    trials: usize,
    random: &mut TrialRandom,
) -> VerdictCounts {
    let gate: Gate = "tpot<+2%".parse().expect("a gate");
    let mut counts = [0; 7];
    for _ in 0..trials {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let pair = &pairs[random.below(pairs.len())];
            a.push(pair[0].clone());
            b.push(slowed(&pair[1], 1.0 + slowdown));
        }
        let options = CompareOptions {
            interleaved: true,
            ..CompareOptions::default()
        };
        let comparison = Comparison::between(&a, &b, options).expect("both sides have runs");
        let tpot = comparison.metric("tpot").expect("rounds have TPOT");
        let verdicts = [
            Verdict::Faster,
            Verdict::Slower,
            Verdict::Same,
            Verdict::CannotTell,
        ];
        let verdict = verdicts.iter().position(|one| *one == tpot.verdict);
        counts[verdict.expect("TPOT is a speed and comparable")] += 1;
        counts[match gate.judge(&comparison, (&a, &b)).state {
            GateState::Failed => 4,
            GateState::Passed => 5,
            GateState::Inconclusive | GateState::NotEvaluated => 6,
        }] += 1;
    }
    VerdictCounts { trials, counts }
}

/// Rounds of a file whose lines are runs: `round,side,disturbed_share,tpot_ns…`.
pub(crate) fn read(text: &str) -> Vec<[RunFacts; 2]> {
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
pub(crate) struct TrialRandom(u64);

impl Default for TrialRandom {
    fn default() -> Self {
        Self(2026)
    }
}

impl TrialRandom {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % count
    }
}
