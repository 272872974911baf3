//! The grading harness of serving engines on a part of the public rows; `xtask silicon` grades all of them.

#![allow(dead_code, reason = "xtask uses more of these modules")]

#[path = "../../../xtask/src/silicon/calibration.rs"]
mod calibration;
#[path = "../../../xtask/src/silicon/coverage.rs"]
mod coverage;
#[path = "../../../xtask/src/silicon/fit.rs"]
mod fit;
#[path = "../../../xtask/src/silicon/fitted.rs"]
mod fitted;
#[path = "../../../xtask/src/silicon/launch.rs"]
mod launch;
#[path = "../../../xtask/src/silicon/rows.rs"]
mod rows;
#[path = "../../../xtask/src/silicon/served.rs"]
mod served;
#[path = "../../../xtask/src/silicon/trials.rs"]
mod trials;

use std::collections::BTreeSet;

use calibration::fitted_to;
use fit::NumberFit;
use fitted::{FittedNumbers, read_profiles};
use rows::{RowSource, ServedRow, design_of};
use trials::Trials;

/// Every so manieth row on an H200 is graded here.
const STRIDE: usize = 13;
/// Every so manieth row that numbers were fitted to is looked at again here.
const FIT_STRIDE: usize = 40;
/// Most that the median errors may be.
const TTFT: f64 = 0.25;
const TPOT: f64 = 0.12;

#[test]
fn designs_that_were_left_out_are_predicted_as_stated() {
    let (models, profiles) = (rows::read_models().unwrap(), read_profiles().unwrap());
    let (fitted, rows) = (
        FittedNumbers::read_fitted().unwrap(),
        rows::read_rows().unwrap(),
    );
    let mut trials = Trials::new(&models, &profiles);
    let graded: Vec<&ServedRow> = rows
        .iter()
        .filter(|row| row.device == "h200" && trials.can_simulate(row))
        .step_by(STRIDE)
        .collect();
    let mut ratios = [Vec::new(), Vec::new()];
    for row in &graded {
        let ratios_by_group =
            trials.group_ratios(&[*row], fitted.grading_numbers(row.model).unwrap());
        for (ratios, groups) in ratios.iter_mut().zip(ratios_by_group.unwrap()) {
            ratios.extend(groups.into_values().flatten());
        }
    }
    assert!(graded.len() > 50);
    let error = |ratios: &[f64]| {
        let errors: Vec<f64> = ratios.iter().map(|one| (1.0 / one - 1.0).abs()).collect();
        coverage::median_of(&errors)
    };
    let [ttft, tpot] = [error(&ratios[0]), error(&ratios[1])];
    // All rows: as docs/simulate.md says.
    assert!(ttft < TTFT && tpot < TPOT, "TTFT {ttft:.3}, TPOT {tpot:.3}");
    for (ratios, spread) in ratios.iter().zip(fitted.spreads) {
        let share = coverage::share_inside(ratios, spread);
        assert!((0.80..0.98).contains(&share), "{share:.3} in the interval");
    }
}

#[test]
fn nothing_is_fitted_to_rows_of_the_design_that_is_graded() {
    let (models, profiles) = (rows::read_models().unwrap(), read_profiles().unwrap());
    let (fitted, rows) = (
        FittedNumbers::read_fitted().unwrap(),
        rows::read_rows().unwrap(),
    );
    let trials = Trials::new(&models, &profiles);
    let usable: Vec<&ServedRow> = rows.iter().filter(|row| trials.can_simulate(row)).collect();
    let designs: BTreeSet<&str> = models.keys().map(|model| design_of(model)).collect();
    let with_numbers: BTreeSet<&str> = fitted.without.keys().map(String::as_str).collect();
    assert_eq!(designs, with_numbers);
    let all = fitted_to(&usable, None).len();
    for left_out in designs {
        let rows = fitted_to(&usable, Some(left_out));
        // At least half as many rows as of all designs.
        assert!(2 * rows.len() > all, "{left_out}: {}", rows.len());
        for row in rows {
            assert_ne!(design_of(row.model), left_out, "{}", row.line);
        }
    }
}

/// The costs of engines in their profiles are those that the fit gave.
#[test]
fn profiles_have_the_fitted_numbers() {
    let fitted = FittedNumbers::read_fitted().unwrap();
    for (name, profile) in read_profiles().unwrap() {
        assert_eq!(fitted.all.put_into(&profile), profile, "{name}");
        // The range of TPOT does not hold for enough designs, that of TTFT says nothing: profiles have none.
        assert_eq!(profile.spreads, None, "{name}");
    }
}

/// On a part of the rows, another turn of the fit finds nothing much better than the shipped numbers; `fit` itself has all rows.
#[test]
fn fitted_numbers_are_the_best_of_their_grids() {
    let (models, profiles) = (rows::read_models().unwrap(), read_profiles().unwrap());
    let rows = rows::read_rows().unwrap();
    let mut trials = Trials::new(&models, &profiles);
    let usable: Vec<&ServedRow> = rows
        .iter()
        .filter(|row| row.source == RowSource::Dashboard && trials.can_simulate(row))
        .collect();
    let part = fitted_to(&usable, None).into_iter().step_by(FIT_STRIDE);
    let part: Vec<&ServedRow> = part.collect();
    let shipped = FittedNumbers::read_fitted().unwrap().all;
    let mut fit = NumberFit::new(part, &mut trials);
    let best = fit.turn_once(&shipped).unwrap();
    let [shipped, best] = [shipped, best].map(|numbers| fit.ttft_error(&numbers).unwrap());
    assert!(shipped - best < 0.05, "{shipped:.3}, best {best:.3}");
}

/// The whole fit, minutes even in a release build: `cargo test --release -p llmprof-simulate silicon:: -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn the_fit_finds_the_shipped_numbers() {
    let (rows, models) = (rows::read_rows().unwrap(), rows::read_models().unwrap());
    let fitted = fit::fit_all(&rows, &models, &read_profiles().unwrap()).unwrap();
    assert_eq!(fitted, FittedNumbers::read_fitted().unwrap());
}

/// A design whose rows are all off is not held by the interval of the others, and has no part in it.
#[test]
fn a_design_has_no_part_in_the_interval_that_it_is_graded_by() {
    let near: Vec<f64> = (0..100).map(|i| 0.9 + 0.002 * f64::from(i)).collect();
    let key = |design: &'static str| (design, "h200", RowSource::Sweep, "vllm");
    let groups = coverage::Groups::from([
        (key("a"), near.clone()),
        (key("b"), near),
        (key("c"), vec![3.0; 10]),
    ]);
    let others = coverage::of_other_designs(&groups, Some("c"));
    assert!((0.9..0.92).contains(&others.low) && (1.08..1.1).contains(&others.high));
    assert_eq!(coverage::of_other_designs(&groups, None).high, 3.0);
    // Nine tenths of `a` and of `b`, each by an interval that `c` has a part in; nothing of `c`.
    let [share, _] = coverage::cross_validated(&groups, "h200");
    assert!((0.83..0.93).contains(&share), "{share}");
}
