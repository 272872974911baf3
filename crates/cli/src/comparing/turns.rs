//! Both sides run in turns: A B, B A, A B, …, until the interval is narrow enough or time is up.
//!
//! What drifts over minutes (clocks, heat, other programs) meets both sides alike, and the order within a round changes so that what
//! the first run does to the second does too. The first round of each side is profiled as its config says, for the reasons; later
//! rounds only measure.

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use llmprof_analysis::compare::{CompareOptions, Comparison, Gate, RunFacts, Unevaluated, Verdict};
use llmprof_record::{
    command_line,
    store::{RunStatus, claim_folder, write_atomically},
};
use llmprof_units::Count;

use super::sides;
use crate::args_compare::CompareArgs;
use crate::{
    failure::Failure,
    jobs::{self, FinishedJobs},
    output::Output,
    profiles::request::path_override,
    progress::Show,
};

/// What later rounds leave out. A project whose config is its own may have none of these keys: `++` adds them.
const MEASURE_ONLY: [&str; 7] = [
    "++pipeline.static_analysis.enable=false",
    "++pipeline.cupti.enable=false",
    "++pipeline.torch_profiler.enable=false",
    "++pipeline.nsys.enable=false",
    "++pipeline.ncu.enable=false",
    "++pipeline.cublas_log.enable=false",
    "++output.markdown=false",
];

/// Requests of both sides, in the folder of a comparison. Runs below a folder with it are rounds.
const SIDES_FILE: &str = "sides.txt";

pub(super) struct TakenTurns {
    pub(super) a: Vec<RunFacts>,
    pub(super) b: Vec<RunFacts>,
    pub(super) was_interrupted: bool,
}

/// Runs two sides. A mistake in either request is found before anything starts.
pub(super) fn take(
    args: &CompareArgs,
    options: CompareOptions,
    dir: &Path,
) -> Result<TakenTurns, Failure> {
    let [first, second] = args.run.as_slice() else {
        return Err(Failure::new("--run is given once per side: twice").hint(
            "llmprof compare --run 'runtime.threads=1' --run 'runtime.threads=2'".to_owned(),
        ));
    };
    let sides = [words(first)?, words(second)?];
    for (number, overrides) in sides.iter().enumerate() {
        jobs::check(overrides).map_err(|failure| {
            // The place in the failure says the rest.
            Failure::new(format!("--run {}: {}", number + 1, failure.in_a_line()))
        })?;
    }
    claim_folder(dir).map_err(|error| Failure::directory(&error, "-o DIR"))?;
    let requests = format!("A: {first}\nB: {second}\n");
    write_atomically(&dir.join(SIDES_FILE), requests.as_bytes())?;
    if !args.is_data() {
        Output::stderr().line(&llmprof_report::compose::compare::sentences::rule())?;
    }
    let started = Instant::now();
    let mut taken = TakenTurns {
        a: Vec::new(),
        b: Vec::new(),
        was_interrupted: false,
    };
    let labels = [
        label("A", &sides[0], &sides[1]),
        label("B", &sides[1], &sides[0]),
    ];
    for round in 0.. {
        let enough = round as u64 >= args.rounds;
        if enough && (is_decided(&taken, options) || started.elapsed() >= args.time) {
            break;
        }
        // A round that began is finished: half a round is no pair.
        if round > 1 && started.elapsed() >= args.time {
            break;
        }
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        let mut pair: [Option<RunFacts>; 2] = [None, None];
        for side in order {
            let folder = run_dir(dir, side, round);
            let finished = one(&sides[side], &folder, round > 0)?;
            if finished.status == RunStatus::Interrupted {
                taken.was_interrupted = true;
                return Ok(taken);
            }
            if finished.status != RunStatus::Complete {
                let why = finished.error.unwrap_or_else(|| "it failed".to_owned());
                return Err(
                    Failure::new(format!("round {}, {}: {why}", round + 1, labels[side]))
                        .hint(format!("its directory is {}", folder.display())),
                );
            }
            let facts = sides::read(&folder)?.into_iter().next();
            let mut facts = facts.ok_or_else(|| Failure::new("a run left nothing"))?;
            facts.label.clone_from(&labels[side]);
            pair[side] = Some(facts);
        }
        let [a, b] = pair;
        taken.a.extend(a);
        taken.b.extend(b);
        if !args.is_data() {
            tell(&taken, options)?;
        }
        if round == 0 && cannot_be_judged(&taken, &args.gate, options) {
            // More rounds of other work are no more comparable, and measure no other metrics.
            break;
        }
    }
    Ok(taken)
}

/// Whether a run below `root` is one round of a comparison below it: the comparison says what came of them all.
pub(crate) fn is_round(run: &Path, root: &Path) -> bool {
    let comparison = run.parent().and_then(Path::parent);
    comparison.is_some_and(|folder| {
        folder != root && folder.starts_with(root) && folder.join(SIDES_FILE).is_file()
    })
}

fn run_dir(dir: &Path, side: usize, round: usize) -> PathBuf {
    dir.join(["a", "b"][side]).join(format!("{round:03}"))
}

fn one(overrides: &[String], folder: &Path, measure_only: bool) -> Result<FinishedJobs, Failure> {
    let mut all = overrides.to_vec();
    if measure_only {
        all.extend(MEASURE_ONLY.iter().map(|&line| line.to_owned()));
    }
    all.push(path_override("hydra.run.dir", folder));
    jobs::run_once(&all, Show::Lines)
}

/// Whether a gate is of a metric that is not measured, or a gate, without gates every metric, is of other work on the two sides.
fn cannot_be_judged(taken: &TakenTurns, gates: &[Gate], options: CompareOptions) -> bool {
    let Some(comparison) = Comparison::between(&taken.a, &taken.b, options) else {
        return false;
    };
    let is_lost = |gate: &Gate| {
        let outcome = gate.judge(&comparison, (&taken.a, &taken.b));
        matches!(
            outcome.reason,
            Some(Unevaluated::OtherWork(_) | Unevaluated::NotMeasured)
        )
    };
    if gates.is_empty() {
        let mut metrics = comparison.metrics.iter();
        metrics.all(|metric| metric.excluded_for.is_some())
    } else {
        gates.iter().any(is_lost)
    }
}

/// Whether the headline's interval lies within the resolution of its ratio.
fn is_decided(taken: &TakenTurns, options: CompareOptions) -> bool {
    let Some(comparison) = Comparison::between(&taken.a, &taken.b, options) else {
        return false;
    };
    let Some(headline) = comparison.headline() else {
        return true;
    };
    match (headline.ci_low, headline.ci_high) {
        (Some(low), Some(high)) => (high / low).ln() <= 2.0 * (1.0 + options.resolution).ln(),
        _ => headline.verdict == Verdict::NotComparable,
    }
}

fn tell(taken: &TakenTurns, options: CompareOptions) -> Result<(), Failure> {
    let Some(comparison) = Comparison::between(&taken.a, &taken.b, options) else {
        return Ok(());
    };
    if let Some(headline) = comparison.headline() {
        let line = llmprof_report::compose::compare::sentences::line(headline, &comparison);
        let rounds = Count(taken.a.len() as u64, "round");
        Output::stderr().line(&format!("{rounds}: {line}"))?;
    }
    Ok(())
}

/// The side by the overrides that the other does not have.
fn label(name: &str, own: &[String], other: &[String]) -> String {
    let differing = own.iter().filter(|line| !other.contains(line));
    let differing: Vec<&str> = differing.map(String::as_str).collect();
    if differing.is_empty() {
        name.to_owned()
    } else {
        format!("{name} ({})", differing.join(" "))
    }
}

fn words(text: &str) -> Result<Vec<String>, Failure> {
    command_line::split_words(text).map_err(|why| Failure::new(format!("`{text}`: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_are_named_by_what_differs() {
        let of = |text: &str| words(text).unwrap();
        let (a, b) = (
            of("model=x device=cpu"),
            of("model=x device=cpu runtime.threads=2"),
        );
        assert_eq!(label("A", &a, &b), "A");
        assert_eq!(label("B", &b, &a), "B (runtime.threads=2)");
    }
}
