//! Commands for developers: grading of predictions, refits and benchmarks.
//!
//!     cargo run -p xtask -- grade [cells | md | svg | pairs | captured | blind | spreads | table]
//!     cargo run -p xtask -- refit SAMPLES.json|CURVES.json [OUT.json]
//!     cargo run --release -p xtask -- silicon [rows | table | fit]
//!     cargo run --release -p xtask -- compare-trials ROUNDS.csv [TRIALS]
//!     cargo run --release -p xtask -- make-ranks DIR RANKS STEPS OPERATORS
//!     cargo run --release -p xtask -- bench analyze | engine | grid | load | ranks | replay | simulate | steps
//!
//! `grade` prints predicted beside measured GPU times of the models in `fixtures/h200/kernels/`; `md` prints its tables, `svg` its
//! picture, `table` the file `crates/predict/data/errors.json`. `refit` prints what kernel curves of `llmprof hardware measure --gpu`
//! would predict. `silicon` and `compare-trials` grade simulations and comparisons; each module says how.

#![expect(clippy::print_stdout, reason = "it prints what it finds")]

mod bench;
mod compare_trials;
mod make_ranks;
mod refit;
mod silicon;

use std::error::Error;

use llmprof_predict::EfficiencyProfile;
use xtask::{
    Grade, Pair, blind_grades, captured_grades, design_pairs, grades, known_errors, pairs, ratios,
    spreads, summarize,
};

/// Models that were chosen before they were predicted: with a family, and by common keys.
fn print_blind(profile: &EfficiencyProfile) -> Result<(), Box<dyn Error>> {
    let all = blind_grades(profile)?;
    let with = |common: bool| {
        all.iter()
            .filter(move |grade| grade.by_common_keys == common)
    };
    print_head("blind models");
    print_line("of known families", &with(false).collect::<Vec<_>>());
    print_line("by common keys", &with(true).collect::<Vec<_>>());
    for list in ["first", "second", "third", "fourth"] {
        for (what, common) in [("of known families", false), ("by common keys", true)] {
            let rows: Vec<_> = with(common)
                .filter(|grade| grade.list.as_deref() == Some(list))
                .collect();
            print_line(&format!("{list} list, {what}"), &rows);
        }
    }
    let mut names: Vec<&str> = all.iter().map(|grade| grade.model.as_str()).collect();
    names.dedup();
    for name in names {
        let rows: Vec<_> = all.iter().filter(|one| one.model == name).collect();
        print_line(name, &rows);
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["grade"] => print_grades(None),
        ["grade", what, ..] => print_grades(Some(what)),
        ["refit", file] => refit::refit(file, None),
        ["refit", file, out] => refit::refit(file, Some(out)),
        ["silicon", ref rest @ ..] => silicon::run_task(rest),
        ["compare-trials", ref rest @ ..] => compare_trials::run_task(rest),
        ["make-ranks", ref rest @ ..] => make_ranks::run_task(rest),
        ["bench", ref rest @ ..] => bench::run_task(rest),
        _ => Err(
            "unknown task; known: grade, refit, silicon, compare-trials, make-ranks, bench".into(),
        ),
    }
}

fn print_grades(what: Option<&str>) -> Result<(), Box<dyn Error>> {
    let profile = EfficiencyProfile::embedded("hf_eager")?;
    match what {
        Some("blind") => return print_blind(&profile),
        Some("spreads") => return print_spreads(),
        Some("table") => {
            println!("{}", serde_json::to_string_pretty(&known_errors()?)?);
            return Ok(());
        }
        _ => {}
    }
    let all = grades(&profile)?;
    if what == Some("cells") {
        for grade in &all {
            println!(
                "{:18} {:11} {:8} batch {:2} prompt {:4}: measured {:>10.1} us, predicted {:>10.1} us, {:+6.1} %, kernels {} of {}",
                grade.model,
                grade.split.name(),
                grade.phase.name(),
                grade.batch,
                grade.prompt,
                grade.measured_ns.micros(),
                grade.predicted_ns.micros(),
                grade.error() * 100.0,
                grade.predicted_kernels,
                grade.measured_kernels
            );
        }
    }
    match what {
        Some("pairs") => return from_runs(&profile),
        Some("captured") => return print_captured(),
        Some("md") => {
            print_markdown(&all);
            return Ok(());
        }
        Some("svg") => {
            println!("{}", draw_scatter(&all));
            return Ok(());
        }
        _ => {}
    }
    let print = |title: &str, rows: Vec<&Grade>| {
        if let Some(summary) = summarize(&rows) {
            println!(
                "{title:32} {:4} times: median {:5.1} %, p90 {:5.1} %, worst {:+6.1} %, bias {:+5.1} %, in interval {:5.1} %, half-width {:4.1} %, 5-95 % of measured/predicted {:.3} to {:.3}",
                summary.times,
                summary.median * 100.0,
                summary.p90 * 100.0,
                summary.worst * 100.0,
                summary.bias * 100.0,
                summary.coverage * 100.0,
                summary.half_width * 100.0,
                summary.low,
                summary.high
            );
        }
    };
    for split in ["calibration", "grading"] {
        let of = |phase: &str| {
            all.iter()
                .filter(|grade| grade.split.name() == split && !grade.by_common_keys)
                .filter(|grade| phase.is_empty() || grade.phase.name() == phase)
                .collect::<Vec<_>>()
        };
        print(split, of(""));
        for phase in ["prefill", "decode"] {
            print(&format!("{split} {phase}"), of(phase));
        }
    }
    print(
        "by common keys",
        all.iter().filter(|grade| grade.by_common_keys).collect(),
    );
    let mut families: Vec<_> = all.iter().map(|grade| grade.family.clone()).collect();
    families.sort();
    families.dedup();
    for family in families {
        for phase in ["prefill", "decode"] {
            let rows = all
                .iter()
                .filter(|grade| grade.family == family && grade.phase.name() == phase)
                .collect();
            print(&format!("{family} {phase}"), rows);
        }
    }
    for batch in [1, 2, 4, 8, 16, 32] {
        print(
            &format!("batch {batch}"),
            all.iter()
                .filter(|grade| grade.batch == batch && grade.split.name() == "grading")
                .collect(),
        );
    }
    Ok(())
}

/// What the profiles' `spreads` should be.
fn print_spreads() -> Result<(), Box<dyn Error>> {
    for name in EfficiencyProfile::names() {
        for (key, key_ratios) in ratios(&EfficiencyProfile::embedded(name)?)? {
            println!(
                "{name} {key}: {} times, {:?}",
                key_ratios.len(),
                spreads(&key_ratios.iter().collect::<Vec<_>>())
            );
        }
    }
    Ok(())
}

/// Decode steps captured as CUDA graphs or compiled.
fn print_captured() -> Result<(), Box<dyn Error>> {
    println!(
        "| profile | models | | times | median | p90 | worst | in interval | half-width | 5th to 95th percentile |\n|---|---|---|---|---|---|---|---|---|---|"
    );
    for name in ["hf_graph", "torch_compile"] {
        let captured = captured_grades(&EfficiencyProfile::embedded(name)?)?;
        let is_gpu = |phase: &str| {
            let of = captured
                .gpu
                .iter()
                .filter(|grade| grade.phase.name() == phase);
            of.collect::<Vec<_>>()
        };
        for (what, all) in [
            ("prefill, GPU time", is_gpu("prefill")),
            ("decode step, GPU time", is_gpu("decode")),
            ("TPOT", captured.tpot.iter().collect()),
            ("decode step and TPOT", {
                let mut both = is_gpu("decode");
                both.extend(&captured.tpot);
                both
            }),
        ] {
            for split in ["calibration", "grading"] {
                let rows: Vec<&Grade> = all
                    .iter()
                    .filter(|grade| grade.split.name() == split && !grade.by_common_keys)
                    .copied()
                    .collect();
                if let Some(summary) = summarize(&rows) {
                    println!(
                        "| `{name}` | {split} | {what} | {} | {:.1} % | {:.1} % | {:+.1} % | {:.0} % | {:.1} % | {:.3} to {:.3} |",
                        summary.times,
                        summary.median * 100.0,
                        summary.p90 * 100.0,
                        summary.worst * 100.0,
                        summary.coverage * 100.0,
                        summary.half_width * 100.0,
                        summary.low,
                        summary.high
                    );
                }
            }
            if std::env::args().nth(3).as_deref() == Some("cells") {
                for grade in all {
                    println!(
                        "{name} {what} {} {} {}x{} {:.1} us {:+.1} % kernels {} of {}",
                        grade.model,
                        grade.split.name(),
                        grade.batch,
                        grade.prompt,
                        grade.measured_ns.micros(),
                        grade.error() * 100.0,
                        grade.predicted_kernels,
                        grade.measured_kernels
                    );
                }
            }
        }
    }
    Ok(())
}

/// A line of a table in docs/prediction.md.
fn print_line(title: &str, rows: &[&Grade]) {
    if let Some(summary) = summarize(rows) {
        println!(
            "| {title} | {} | {:.1} % | {:.1} % | {:+.1} % | {:.0} % | {:.1} % |",
            summary.times,
            summary.median * 100.0,
            summary.p90 * 100.0,
            summary.worst * 100.0,
            summary.coverage * 100.0,
            summary.half_width * 100.0
        );
    }
}

fn print_head(what: &str) {
    println!("\n| {what} | times | median | p90 | worst | in interval | half-width |");
    println!("|---|---|---|---|---|---|---|");
}

fn print_markdown(all: &[Grade]) {
    let held_out = |grade: &&Grade| grade.split.name() == "grading" && !grade.by_common_keys;
    let graded: Vec<_> = all.iter().filter(held_out).collect();
    print_head("models");
    print_line("**grading**, 24 models of known families", &graded);
    for phase in ["prefill", "decode"] {
        let rows: Vec<_> = graded
            .iter()
            .copied()
            .filter(|g| g.phase.name() == phase)
            .collect();
        print_line(&format!("grading, {phase}"), &rows);
    }
    let fitted: Vec<_> = all
        .iter()
        .filter(|g| g.split.name() == "calibration" && !g.by_common_keys)
        .collect();
    print_line("calibration (fitted)", &fitted);
    let common: Vec<_> = all.iter().filter(|g| g.by_common_keys).collect();
    print_line("by common keys", &common);
    print_head("family, grading models only");
    let mut families: Vec<_> = graded.iter().map(|grade| grade.family.as_str()).collect();
    families.sort_unstable();
    families.dedup();
    for family in families {
        for phase in ["prefill", "decode"] {
            let rows: Vec<_> = graded
                .iter()
                .copied()
                .filter(|grade| grade.family == family && grade.phase.name() == phase)
                .collect();
            print_line(&format!("`{family}`, {phase}"), &rows);
        }
    }
    print_head("batch, grading models only");
    for batch in [1, 2, 4, 8, 16, 32] {
        let rows: Vec<_> = graded
            .iter()
            .copied()
            .filter(|grade| grade.batch == batch)
            .collect();
        print_line(&batch.to_string(), &rows);
    }
    print_head("type read by common keys");
    let mut types: Vec<_> = common.iter().map(|grade| grade.family.as_str()).collect();
    types.sort_unstable();
    types.dedup();
    for kind in types {
        let rows: Vec<_> = common
            .iter()
            .copied()
            .filter(|grade| grade.family == kind)
            .collect();
        print_line(&format!("`{kind}`"), &rows);
    }
}

/// Predicted against measured time, both logarithmic from 0.5 ms to 500 ms.
fn draw_scatter(all: &[Grade]) -> String {
    use std::fmt::Write as _;
    let (low, high, side) = (-0.5f64, 2.9f64, 480.0);
    let at = |ms: f64| (ms.log10() - low) / (high - low) * side;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-50 -20 {0} {0}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect x=\"-50\" y=\"-20\" width=\"{0}\" height=\"{0}\" fill=\"white\"/>\n\
         <rect width=\"{side}\" height=\"{side}\" fill=\"none\" stroke=\"#999\"/>\n\
         <path d=\"M0 {side} L{side} 0\" stroke=\"#999\" stroke-dasharray=\"4\"/>\n",
        side + 90.0
    );
    for ms in [1.0, 10.0, 100.0] {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{ms} ms</text><text x=\"-6\" y=\"{:.1}\" text-anchor=\"end\">{ms} ms</text>",
            at(ms),
            side + 16.0,
            side - at(ms) + 4.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">measured GPU time</text><text x=\"8\" y=\"14\">predicted; grading models, H200: \
         <tspan fill=\"#1f77b4\">prefill</tspan> <tspan fill=\"#d62728\">decode step</tspan> <tspan fill=\"#7f7f7f\">by common keys</tspan></text>",
        side / 2.0,
        side + 34.0
    );
    for grade in all.iter().filter(|grade| grade.split.name() == "grading") {
        let colour = match (grade.by_common_keys, grade.phase.name()) {
            (true, _) => "#7f7f7f",
            (false, "prefill") => "#1f77b4",
            _ => "#d62728",
        };
        let _ = writeln!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\" fill=\"{colour}\" fill-opacity=\"0.6\"/>",
            at(grade.measured_ns.millis()),
            side - at(grade.predicted_ns.millis())
        );
    }
    svg + "</svg>"
}

/// Cells predicted from other cells of the same model.
fn from_runs(profile: &EfficiencyProfile) -> Result<(), Box<dyn Error>> {
    let all = pairs(profile)?;
    type Filter = fn(&Pair) -> bool;
    let groups: [(&str, Filter); 7] = [
        ("calibration", |pair| {
            pair.calibration && !pair.by_common_keys
        }),
        ("grading", |pair| !pair.calibration && !pair.by_common_keys),
        ("grading, prefill", |pair| {
            !pair.calibration && !pair.by_common_keys && !pair.decode
        }),
        ("grading, decode", |pair| {
            !pair.calibration && !pair.by_common_keys && pair.decode
        }),
        ("grading, batches within a factor of 4", |pair| {
            !pair.calibration
                && !pair.by_common_keys
                && pair.from[0].max(pair.to[0]) <= 4 * pair.from[0].min(pair.to[0])
        }),
        ("by common keys", |pair| pair.by_common_keys),
        ("Falcon-7B", |pair| pair.model == "falcon_7b"),
    ];
    println!(
        "| pairs of runs | times | median | p90 | without the run | p90 | in interval | 5th to 95th percentile |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (name, is_in) in groups {
        print_pairs(
            name,
            &all.iter().filter(|pair| is_in(pair)).collect::<Vec<_>>(),
        );
    }
    let designs = design_pairs(profile)?;
    print_pairs(
        "another design of the family",
        &designs.iter().collect::<Vec<_>>(),
    );
    Ok(())
}

fn print_pairs(name: &str, some: &[&Pair]) {
    let sorted = |of: fn(&Pair) -> f64| {
        let mut values: Vec<f64> = some.iter().map(|pair| of(pair)).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let at = |values: &[f64], share: f64| values[((values.len() - 1) as f64 * share) as usize];
    let with = sorted(|pair| pair.error.abs());
    let without = sorted(|pair| pair.plain_error.abs());
    let ratios = sorted(|pair| 1.0 / (1.0 + pair.error));
    let covered = some.iter().filter(|pair| pair.covered).count() as f64 / some.len() as f64;
    println!(
        "| {name} | {} | {:.1} % | {:.1} % | {:.1} % | {:.1} % | {:.0} % | {:.3} to {:.3} |",
        some.len(),
        at(&with, 0.5) * 100.0,
        at(&with, 0.9) * 100.0,
        at(&without, 0.5) * 100.0,
        at(&without, 0.9) * 100.0,
        covered * 100.0,
        at(&ratios, 0.05),
        at(&ratios, 0.95)
    );
}
