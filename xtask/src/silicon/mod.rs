//! Errors on public serving measurements: `cargo run --release -p xtask -- silicon [rows | table | fit]`.
//!
//! Every row is a closed loop: a fixed number of requests in flight, prompts and answers of about one length. It is simulated as such, and its means are compared
//! (`fixtures/silicon/README.md` says why). What clients see beside the engine's own time is fitted (`fit.rs`): each design is graded with numbers of all others.
//! Beside each error stands that of aiconfigurator's own estimate of the same rows. With `rows`, every row is printed as CSV with TTFT and TPOT behind it; with `fit`,
//! the numbers are found again.

#![allow(
    dead_code,
    reason = "tests of llmprof-simulate use more of these modules"
)]

mod apart;
mod calibration;
mod coverage;
mod fit;
mod fitted;
mod launch;
mod rows;
mod served;
mod trials;

use std::{collections::BTreeMap, error::Error};

use llmprof_predict::EfficiencyProfile;
use llmprof_theory::{Model, device::Catalog};
use llmprof_traffic::statistics::percentile;

use coverage::{Groups, cross_validated, of_other_designs};
use fitted::{FittedNumbers, read_profiles};
use launch::LaunchSettings;
use rows::{RowSource, ServedRow, ServedTimes, read_models, read_rows};
use served::{GradedServer, predict_served};

/// TTFT and TPOT, |simulated ÷ measured − 1| and that of the estimate.
#[derive(Clone, Copy)]
struct Errors {
    own: ServedTimes,
    theirs: Option<ServedTimes>,
    is_alike: bool,
}

/// The groups that a row is counted in.
fn row_groups(row: &ServedRow) -> Vec<String> {
    let (device, model) = (row.device, row.model);
    let alone = if row.parallel.rank_count() == 1 {
        "one GPU"
    } else {
        "several GPUs"
    };
    let source = match row.source {
        RowSource::Dashboard => "dashboards",
        RowSource::Sweep => "sweeps",
    };
    vec![
        device.to_owned(),
        format!("{device}, {alone}"),
        format!("{device}, {source}"),
        format!("{device}, {source}, {alone}"),
        format!("{device}, {source}, {model}, {}", row.backend),
        format!("{device}, {source}, engine {}", row.backend),
    ]
}

/// A quantile of one error over rows, in percent.
fn format_quantile(rows: &[Errors], p: f64, error: &dyn Fn(&Errors) -> Option<f64>) -> String {
    let mut values: Vec<f64> = rows.iter().filter_map(error).collect();
    values.sort_unstable_by(f64::total_cmp);
    if values.is_empty() {
        return "–".to_owned();
    }
    format!("{:.1} %", percentile(&values, p) * 100.0)
}

/// Median errors of ours and of aiconfigurator on rows that it has an estimate for, as cells of a table.
fn side_by_side(rows: &[Errors]) -> String {
    format!(
        "{} | {} / {} | {} / {}",
        rows.iter().filter(|row| row.theirs.is_some()).count(),
        format_quantile(rows, 0.5, &|row| row.theirs.map(|_| row.own.tpot)),
        format_quantile(rows, 0.5, &|row| Some(row.theirs?.tpot)),
        format_quantile(rows, 0.5, &|row| row.theirs.map(|_| row.own.ttft)),
        format_quantile(rows, 0.5, &|row| Some(row.theirs?.ttft)),
    )
}

/// Errors of all rows; then, of those that aiconfigurator has an estimate for in the same formats, ours and its own; then of all that it has one for.
fn print_errors(errors: &BTreeMap<String, Vec<Errors>>) {
    println!(
        "| rows | | TPOT median | p90 | TTFT median | p90 | same formats | TPOT, ours / aiconfigurator | TTFT, ours / aiconfigurator | all estimates | TPOT | TTFT |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
    );
    for (group, rows) in errors {
        let alike: Vec<Errors> = rows.iter().filter(|row| row.is_alike).copied().collect();
        let (tpot, ttft) = (
            |errors: &Errors| Some(errors.own.tpot),
            |errors: &Errors| Some(errors.own.ttft),
        );
        println!(
            "| {group} | {} | {} | {} | {} | {} | {} | {} |",
            rows.len(),
            format_quantile(rows, 0.5, &tpot),
            format_quantile(rows, 0.9, &tpot),
            format_quantile(rows, 0.5, &ttft),
            format_quantile(rows, 0.9, &ttft),
            side_by_side(&alike),
            side_by_side(rows),
        );
    }
}

/// Rows of equal settings that were measured more than once: how far apart their TPOT lies.
fn print_repeated(rows: &[ServedRow]) {
    let mut settings: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.device == "h200") {
        let tpots = settings.entry(row.stated_settings()).or_default();
        if tpots
            .iter()
            .all(|known| (known / row.measured.tpot - 1.0).abs() > 1e-3)
        {
            tpots.push(row.measured.tpot);
        }
    }
    let mut spreads: Vec<f64> = settings
        .values()
        .filter(|tpots| tpots.len() > 1)
        .map(|tpots| {
            let most = tpots.iter().copied().fold(0.0, f64::max);
            let least = tpots.iter().copied().fold(f64::INFINITY, f64::min);
            most / least - 1.0
        })
        .collect();
    spreads.sort_unstable_by(f64::total_cmp);
    if !spreads.is_empty() {
        println!(
            "settings that H200 rows state more than once with different TPOT: {}, apart by {:.1} % in the median, {:.1} % at p90",
            spreads.len(),
            percentile(&spreads, 0.5) * 100.0,
            percentile(&spreads, 0.9) * 100.0
        );
    }
}

pub(crate) fn run_task(words: &[&str]) -> Result<(), Box<dyn Error>> {
    match words {
        ["fit"] => print_fit(),
        ["rows"] => grade_rows(true),
        ["table"] | [] => grade_rows(false),
        _ => Err("silicon takes one of: rows, table, fit".into()),
    }
}

fn print_fit() -> Result<(), Box<dyn Error>> {
    let fitted = fit::fit_all(&read_rows()?, &read_models()?, &read_profiles()?)?;
    println!("{}", serde_json::to_string_pretty(&fitted)?);
    Ok(())
}

fn grade_rows(prints_rows: bool) -> Result<(), Box<dyn Error>> {
    let (rows, models, profiles) = (read_rows()?, read_models()?, read_profiles()?);
    let fitted = FittedNumbers::read_fitted()?;
    let catalog = Catalog::embedded();
    let mut errors: BTreeMap<String, Vec<Errors>> = BTreeMap::new();
    let mut left_out: BTreeMap<String, usize> = BTreeMap::new();
    let mut ratios = [Groups::default(), Groups::default()];
    for row in &rows {
        let device = catalog.by_name(row.device)?;
        let predicted = match models.get(row.model) {
            None => Err("no design of the model here".into()),
            Some(model) => {
                let numbers = fitted.grading_numbers(row.model)?;
                let server = GradedServer {
                    model,
                    device: &device,
                    profile: &numbers.put_into(&profiles[row.backend]),
                    client: numbers.client_of(row)?,
                };
                predict_served(row, &server)
            }
        };
        let times = match predicted {
            Ok(times) => times,
            Err(error) => {
                let why = format!("{}: {error}", row.device);
                *left_out.entry(why).or_default() += 1;
                continue;
            }
        };
        let both = [
            row.measured.ttft / times.ttft,
            row.measured.tpot / times.tpot,
        ];
        for (groups, ratio) in ratios.iter_mut().zip(both) {
            groups.entry(trials::group_of(row)).or_default().push(ratio);
        }
        if prints_rows {
            println!("{},{:.5},{:.5}", row.line, times.ttft, times.tpot);
        }
        let off = |times: ServedTimes| ServedTimes {
            ttft: (times.ttft / row.measured.ttft - 1.0).abs(),
            tpot: (times.tpot / row.measured.tpot - 1.0).abs(),
        };
        for group in row_groups(row) {
            errors.entry(group).or_default().push(Errors {
                own: off(times),
                theirs: row.estimated.map(off),
                // Of dashboards, a KV cache of 8 bits is what a script states; aiconfigurator took one of 16.
                is_alike: row.is_alike
                    && !(row.source == RowSource::Dashboard
                        && LaunchSettings::of_row(row).eight_bit_cache),
            });
        }
    }
    count_apart(&models, &profiles, &mut errors, &mut left_out)?;
    print_errors(&errors);
    for (why, count) in left_out {
        println!("left out: {count} rows, {why}");
    }
    print_repeated(&rows);
    print_intervals(&ratios);
    Ok(())
}

/// The intervals of the profiles, and how many rows of H200s those of all other designs hold.
fn print_intervals(ratios: &[Groups; 2]) {
    for (name, groups) in ["TTFT", "TPOT"].iter().zip(ratios) {
        let (all, [share, half]) = (
            of_other_designs(groups, None),
            cross_validated(groups, "h200"),
        );
        println!(
            "{name}, measured ÷ predicted: {:.2} to {:.2} over all designs and devices; {:.1} % of rows on H200s within that of all other designs, half width {:.0} % in the median",
            all.low,
            all.high,
            share * 100.0,
            half * 100.0
        );
    }
}

/// Rows that prefill and decode on different GPUs.
fn count_apart(
    models: &BTreeMap<&'static str, Model>,
    profiles: &BTreeMap<&str, EfficiencyProfile>,
    errors: &mut BTreeMap<String, Vec<Errors>>,
    left_out: &mut BTreeMap<String, usize>,
) -> Result<(), Box<dyn Error>> {
    let device = Catalog::embedded().by_name("h200")?;
    let fitted = FittedNumbers::read_fitted()?;
    for row in &apart::read_rows()? {
        let model = models.get(row.model).ok_or("no design of the model here")?;
        let numbers = fitted.grading_numbers(row.model)?;
        let server = GradedServer {
            model,
            device: &device,
            profile: &numbers.put_into(&profiles[row.backend]),
            client: numbers.client_numbers(RowSource::Dashboard, row.backend)?,
        };
        let Some(times) = apart::predict_served(row, &server)? else {
            let why = "h200: prefill and decode apart, workers not stated";
            *left_out.entry(why.to_owned()).or_default() += 1;
            continue;
        };
        let off = Errors {
            own: ServedTimes {
                ttft: (times.ttft / row.measured.ttft - 1.0).abs(),
                tpot: (times.tpot / row.measured.tpot - 1.0).abs(),
            },
            theirs: None,
            is_alike: false,
        };
        let all = "h200, prefill and decode apart";
        for group in [all.to_owned(), format!("{all}, {}", row.backend)] {
            errors.entry(group).or_default().push(off);
        }
    }
    Ok(())
}
