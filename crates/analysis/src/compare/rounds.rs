//! Rounds of runs that took turns, and which of them count.
//!
//! The rule is fixed before anything runs: a round is disturbed where in one of its runs other programs, a hypervisor or a quota kept
//! [`DISTURBED_SHARE`] of the processors from the worker, a GPU was throttled for that share of the time, or its clock was that far off the
//! median of the same side's rounds. Disturbed rounds are left out, unless that would leave fewer than half: then the machine is what it is, all rounds count, and the report says so.

use crate::thresholds::DISTURBED_SHARE;
use llmprof_units::stats::median;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::facts::{Disturbance, DisturbanceCause, RunFacts};

/// Whether something took enough from a run to change its times.
pub(super) fn is_disturbed(run: &RunFacts) -> bool {
    let mut causes = run.disturbances.iter();
    causes.any(|cause| cause.share >= DISTURBED_SHARE)
}

/// One round of interleaved runs and what disturbed it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct DisturbedRound {
    /// Number of the round, from 0.
    pub round: usize,
    /// Disturbances of either side's run in this round.
    pub causes: Vec<Disturbance>,
}

/// The rounds of runs that took turns, and which of them are compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Rounds {
    /// Number of rounds that both sides ran.
    pub count: usize,
    /// Rounds in which something else took part of the machine.
    pub disturbed: Vec<DisturbedRound>,
    /// Whether disturbed rounds count nevertheless, since most are.
    pub keeps_disturbed: bool,
}

impl Rounds {
    /// `a` and `b` are the runs of both sides by round.
    pub fn from_runs(a: &[RunFacts], b: &[RunFacts]) -> Self {
        let count = a.len().min(b.len());
        let usual = [usual_clock(a), usual_clock(b)];
        let disturbed: Vec<DisturbedRound> = (0..count)
            .filter_map(|round| {
                let runs = [&a[round], &b[round]];
                let clocks = runs.into_iter().zip(usual).filter_map(|(run, usual)| {
                    Some(Disturbance {
                        cause: DisturbanceCause::ClockDeviates,
                        share: (run.sm_clock_mhz? / usual? - 1.0).abs(),
                    })
                });
                let causes = runs.into_iter().flat_map(|run| run.disturbances.clone());
                let causes: Vec<Disturbance> = causes
                    .chain(clocks)
                    .filter(|cause| cause.share >= DISTURBED_SHARE)
                    .collect();
                (!causes.is_empty()).then_some(DisturbedRound { round, causes })
            })
            .collect();
        Self {
            count,
            keeps_disturbed: disturbed.len() * 2 > count,
            disturbed,
        }
    }

    pub fn is_counted(&self, round: usize) -> bool {
        self.keeps_disturbed || self.disturbed.iter().all(|other| other.round != round)
    }

    pub fn count_compared(&self) -> usize {
        (0..self.count)
            .filter(|round| self.is_counted(*round))
            .count()
    }
}

/// The median clock of a side.
fn usual_clock(runs: &[RunFacts]) -> Option<f64> {
    let mut clocks: Vec<f64> = runs.iter().filter_map(|run| run.sm_clock_mhz).collect();
    median(&mut clocks).filter(|clock| clock.is_finite() && *clock > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(share: f64) -> RunFacts {
        RunFacts {
            disturbances: vec![Disturbance {
                cause: DisturbanceCause::ProcessorsShared,
                share,
            }],
            ..RunFacts::default()
        }
    }

    /// 1980, 1980, 1500: the third is 24 % below the median. The other side always runs at 1200, which disturbs nothing.
    #[test]
    fn a_clock_off_its_sides_median_disturbs() {
        let at = |clock: f64| RunFacts {
            sm_clock_mhz: Some(clock),
            ..RunFacts::default()
        };
        let a = [at(1980.0), at(1980.0), at(1500.0)];
        let b = [at(1200.0), at(1200.0), at(1200.0)];
        let rounds = Rounds::from_runs(&a, &b);
        let disturbed: Vec<usize> = rounds.disturbed.iter().map(|one| one.round).collect();
        assert_eq!(disturbed, [2]);
        assert_eq!(
            rounds.disturbed[0].causes[0].cause,
            DisturbanceCause::ClockDeviates
        );
    }

    #[test]
    fn disturbed_rounds_are_left_out_unless_most_are() {
        let quiet = [run(0.0), run(0.02), run(0.0), run(0.01)];
        let one = [run(0.0), run(0.5), run(0.0), run(0.0)];
        let rounds = Rounds::from_runs(&quiet, &one);
        assert!(!rounds.keeps_disturbed && !rounds.is_counted(1) && rounds.is_counted(0));
        assert_eq!(rounds.count_compared(), 3);
        let most = [run(0.2), run(0.5), run(0.3), run(0.0)];
        let rounds = Rounds::from_runs(&quiet, &most);
        assert!(rounds.keeps_disturbed && rounds.is_counted(1));
        assert_eq!((rounds.count_compared(), rounds.disturbed.len()), (4, 3));
    }
}
