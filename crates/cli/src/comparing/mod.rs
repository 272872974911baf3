//! `llmprof compare`: runs beside each other, measured apart or in turns, with thresholds for CI.

pub(crate) mod baseline;
mod gates;
mod sides;
mod turns;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use llmprof_analysis::compare::{CompareOptions, Comparison, GateOutcome, RunFacts};
use llmprof_assets::project;
use llmprof_record::{command_line, store::claim_folder};
use llmprof_report::{
    Document,
    compose::compare as compose,
    plots,
    render::{html, markdown},
};
use llmprof_units::Share;
use llmprof_view::agent::{Caller, compare_answer};
use schemars::JsonSchema;
use serde::Serialize;

use self::gates::JudgedGates;
pub(crate) use self::turns::is_round;
use crate::args_agents::CompareFormat;
use crate::args_compare::{CompareArgs, Inconclusive};
use crate::args_view::ShowArgs;
use crate::{app, failure::Failure, output::Output, outputs, page_link::page_link, viewing};

/// Difference that does not matter where nobody says what does.
const RESOLUTION: &str = "2%";

/// Exit code of an interrupted comparison.
const INTERRUPTED: u8 = 130;

/// One comparison with all that is said of it.
struct Compared {
    comparison: Comparison,
    judged: JudgedGates,
    document: Document,
}

pub(crate) fn compare(args: &CompareArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    let cwd = app::host()?.cwd;
    let options = CompareOptions {
        resolution: args.resolution.fraction(),
        interleaved: !args.run.is_empty(),
    };
    let (sides, dir, was_interrupted) = if args.run.is_empty() {
        (given(args, &cwd)?, args.output.clone(), false)
    } else {
        let dir = args.output.clone().unwrap_or_else(|| turns_dir(&cwd));
        let taken = turns::take(args, options, &dir)?;
        let interrupted = taken.was_interrupted;
        (vec![taken.a, taken.b], Some(dir), interrupted)
    };
    if let (Some(name), Some(last)) = (&args.save_baseline, sides.last()) {
        let file = baseline::save(&project::find_project(&cwd), name, last)?;
        Output::stderr().line(&format!("baseline: {}", file.display()))?;
    }
    let Some((first, others)) = sides.split_first() else {
        return Ok(ExitCode::SUCCESS);
    };
    let compared: Vec<Compared> = others
        .iter()
        .filter_map(|other| one(first, other, args, options))
        .collect();
    if compared.is_empty() {
        return if was_interrupted {
            Ok(ExitCode::from(INTERRUPTED))
        } else if args.save_baseline.is_some() {
            Ok(ExitCode::SUCCESS)
        } else {
            Err(Failure::new("there is nothing to compare with")
                .hint("llmprof compare A B, or --baseline NAME".to_owned()))
        };
    }
    let report = match &dir {
        Some(dir) => Some(write(&compared, dir)?),
        None => None,
    };
    print(&compared, args, report.as_deref(), output)?;
    let runs = shown_runs(&compared);
    let judged: Vec<JudgedGates> = compared.into_iter().map(|one| one.judged).collect();
    gates::warn(&judged, args.inconclusive);
    if let Some(file) = &args.junit {
        gates::junit(file, &judged, args.inconclusive)?;
    }
    if was_interrupted {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    if args.show.view {
        viewing::show_runs(&runs, output)?;
    }
    Ok(gates::exit_code(&judged, args.inconclusive))
}

/// The first run of each side that is still there: of a baseline only its figures are kept.
fn shown_runs(compared: &[Compared]) -> Vec<PathBuf> {
    let first = compared.first().map(|one| &one.comparison.a);
    let sides = first
        .into_iter()
        .chain(compared.iter().map(|one| &one.comparison.b));
    let runs =
        sides.filter_map(|side| side.runs.iter().map(PathBuf::from).find(|run| run.exists()));
    runs.collect()
}

/// Runs two requests in turns, for another command; the comparison and its directory.
pub(crate) fn in_turns(
    sides: &[Vec<String>; 2],
    rounds: u64,
    time: std::time::Duration,
) -> Result<(Comparison, PathBuf), Failure> {
    let resolution: Share = RESOLUTION.parse().expect("a share");
    let args = CompareArgs {
        sides: Vec::new(),
        run: sides
            .iter()
            .map(|words| command_line::join_words(words))
            .collect(),
        rounds,
        time,
        resolution,
        gate: Vec::new(),
        inconclusive: Inconclusive::Pass,
        baseline: None,
        save_baseline: None,
        junit: None,
        github: false,
        output: None,
        json: true,
        format: None,
        show: ShowArgs::default(),
    };
    let options = CompareOptions {
        resolution: resolution.fraction(),
        interleaved: true,
    };
    let dir = turns_dir(&app::host()?.cwd);
    let taken = turns::take(&args, options, &dir)?;
    let compared = one(&taken.a, &taken.b, &args, options)
        .ok_or_else(|| Failure::new("the runs were interrupted before both sides had run"))?;
    let compared = [compared];
    write(&compared, &dir)?;
    let [compared] = compared;
    Ok((compared.comparison, dir))
}

/// A comparison with its sentences, for an agent.
pub(crate) struct ComparedRuns {
    pub(crate) comparison: Comparison,
    pub(crate) result: Vec<String>,
    /// What is not alike beside what is measured.
    pub(crate) not_alike: Vec<String>,
}

/// Compares two sides that exist.
pub(crate) fn compare_runs(a: &Path, b: &Path) -> Result<ComparedRuns, Failure> {
    let (a, b) = (sides::read(a)?, sides::read(b)?);
    let resolution: Share = RESOLUTION.parse().expect("a share");
    let options = CompareOptions {
        resolution: resolution.fraction(),
        interleaved: false,
    };
    let comparison = Comparison::between(&a, &b, options);
    let comparison = comparison.ok_or_else(|| Failure::new("there is nothing to compare with"))?;
    let document = compose::compared(&comparison, (&a, &b), &[]);
    Ok(ComparedRuns {
        comparison,
        result: document.summary,
        not_alike: document.caveats,
    })
}

/// Sides that exist: a baseline first, where one is named.
fn given(args: &CompareArgs, cwd: &Path) -> Result<Vec<Vec<RunFacts>>, Failure> {
    let mut sides = Vec::new();
    if let Some(name) = &args.baseline {
        sides.push(baseline::load(&project::find_project(cwd), name)?);
    }
    for path in &args.sides {
        sides.push(sides::read(path)?);
    }
    let needed = if args.save_baseline.is_some() { 1 } else { 2 };
    if sides.len() < needed {
        return Err(Failure::new("a comparison has two sides")
            .hint("llmprof compare A B; llmprof compare RUN --baseline NAME; llmprof compare --run '…' --run '…'".to_owned()));
    }
    Ok(sides)
}

fn turns_dir(cwd: &Path) -> PathBuf {
    let now = jiff::Zoned::now()
        .strftime("%Y-%m-%d_%H-%M-%S-%6f")
        .to_string();
    cwd.join("runs").join("compare").join(now)
}

fn one(
    first: &[RunFacts],
    other: &[RunFacts],
    args: &CompareArgs,
    options: CompareOptions,
) -> Option<Compared> {
    let comparison = Comparison::between(first, other, options)?;
    let outcomes: Vec<_> = args
        .gate
        .iter()
        .map(|gate| gate.judge(&comparison, (first, other)))
        .collect();
    let document = compose::compared(&comparison, (first, other), &outcomes);
    let judged = JudgedGates {
        title: document.title.clone(),
        lines: [&document.caveats[..], &document.summary].concat(),
        outcomes,
    };
    Some(Compared {
        comparison,
        judged,
        document,
    })
}

/// Two sides of runs beside each other. `compare A B C` has several comparisons.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum CompareFile<'a> {
    One(ComparedSides<'a>),
    Several {
        /// The first side beside each of the others.
        comparisons: Vec<ComparedSides<'a>>,
    },
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct ComparedSides<'a> {
    #[serde(flatten)]
    comparison: &'a Comparison,
    /// Outcome of each `--gate`.
    gates: &'a [GateOutcome],
}

fn as_json(compared: &[Compared]) -> CompareFile<'_> {
    match compared {
        [one] => CompareFile::One(one.into()),
        several => CompareFile::Several {
            comparisons: several.iter().map(ComparedSides::from).collect(),
        },
    }
}

impl<'a> From<&'a Compared> for ComparedSides<'a> {
    fn from(one: &'a Compared) -> Self {
        Self {
            comparison: &one.comparison,
            gates: &one.judged.outcomes,
        }
    }
}

/// Writes the files of a comparison; the answer is the page. No link inside the folder is followed.
fn write(compared: &[Compared], dir: &Path) -> Result<PathBuf, Failure> {
    let folder = claim_folder(dir).map_err(|error| Failure::directory(&error, "-o DIR"))?;
    let place = |file: &str, contents: &str| {
        let written = folder.replace(file, contents.as_bytes());
        written.map_err(|error| Failure::cannot_write(&dir.join(file), &error))
    };
    let page = |number: usize| match number {
        0 => "compare".to_owned(),
        _ => format!("compare_{}", number + 1),
    };
    for (number, one) in compared.iter().enumerate() {
        let name = page(number);
        let mut document = one.document.clone();
        compose::add_runs(&mut document, linked_runs(&one.comparison, dir));
        place(&format!("{name}.html"), &html::report(&document))?;
        place(&format!("{name}.md"), &markdown::document(&document))?;
        for (plot, svg) in plots(&one.document) {
            place(&format!("plots/{name}_{plot}.svg"), &svg.file())?;
        }
    }
    place("compare.json", &outputs::text(&as_json(compared))?)?;
    Ok(dir.join("compare.html"))
}

/// The runs of both sides, with links to their reports from a page in `dir`.
fn linked_runs(comparison: &Comparison, dir: &Path) -> Vec<(&'static str, String, Option<String>)> {
    let sides = [("A", &comparison.a), ("B", &comparison.b)].into_iter();
    let runs = sides.flat_map(|(side, facts)| facts.runs.iter().map(move |run| (side, run)));
    let linked = runs.map(|(side, run)| {
        let report = page_link(dir, &Path::new(run).join("report.html"));
        (side, sides::in_one_line(run), report)
    });
    linked.collect()
}

fn print(
    compared: &[Compared],
    args: &CompareArgs,
    report: Option<&Path>,
    output: &mut Output,
) -> Result<(), Failure> {
    let in_actions = std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true");
    let format = args.chosen_format();
    if format == CompareFormat::Github || args.github || in_actions {
        let judged: Vec<&JudgedGates> = compared.iter().map(|one| &one.judged).collect();
        // JSON keeps standard output for itself.
        let mut stderr = Output::stderr();
        let to = if args.is_data() {
            &mut stderr
        } else {
            &mut *output
        };
        gates::annotate(&judged, args.inconclusive, to)?;
        for one in compared {
            gates::step_summary(&markdown::document(&compose::brief(
                &one.document,
                &one.comparison,
            )))?;
        }
    }
    if format == CompareFormat::Json {
        return output.json(&as_json(compared));
    }
    if format == CompareFormat::Agent {
        return print_for_agents(compared, args, output);
    }
    for (number, one) in compared.iter().enumerate() {
        if number > 0 {
            output.line("")?;
        }
        output.headline(&one.document.title)?;
        for line in one.document.caveats.iter().chain(&one.document.summary) {
            output.prose(line)?;
        }
        if !one.comparison.metrics.is_empty() {
            output.table(&compose::metrics(&one.comparison))?;
        }
        for text in llmprof_report::compose::compare::sentences::notes(&one.comparison) {
            Output::stderr().prose(&format!("note: {text}"))?;
        }
    }
    if let Some(page) = report {
        output.line(&format!("report: {}", page.display()))?;
    }
    Ok(())
}

/// An answer for each comparison.
fn print_for_agents(
    compared: &[Compared],
    args: &CompareArgs,
    output: &mut Output,
) -> Result<(), Failure> {
    let given = args.sides.iter();
    let given: Vec<String> = given.map(|side| side.display().to_string()).collect();
    for (number, one) in compared.iter().enumerate() {
        let first = given.first().filter(|_| args.baseline.is_none());
        let runs = first.zip(given.get(number + 1));
        let answer = compare_answer(
            &one.comparison,
            &one.document.summary,
            &one.document.caveats,
            &Caller::Shell,
            runs.map(|(a, b)| (a.as_str(), b.as_str())),
        );
        output.line(&answer.text())?;
    }
    Ok(())
}
