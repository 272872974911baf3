//! The grading harness of serving engines on a part of the public rows; the example `silicon_sample` grades all of them.

#![allow(dead_code, reason = "the example has more of these modules")]

#[path = "../examples/silicon_sample/coverage.rs"]
mod coverage;
#[path = "../examples/silicon_sample/fit.rs"]
mod fit;
#[path = "../examples/silicon_sample/fitted.rs"]
mod fitted;
#[path = "../examples/silicon_sample/launch.rs"]
mod launch;
#[path = "../examples/silicon_sample/rows.rs"]
mod rows;
#[path = "../examples/silicon_sample/served.rs"]
mod served;
#[path = "../examples/silicon_sample/split.rs"]
mod split;

use std::collections::BTreeSet;

use fit::Fit;
use fitted::{Fitted, profiles};
use llmprof_theory::device::Catalog;
use rows::{Row, Source};
use split::Split;

/// Every so manieth row of a grading model on an H200 is graded here.
const STRIDE: usize = 9;
/// Every so manieth row that numbers of dashboards were fitted to is looked at again here.
const FIT_STRIDE: usize = 4;

#[test]
fn models_that_were_not_calibrated_with_are_predicted_as_stated() {
    let (split, models) = (Split::read().unwrap(), rows::models().unwrap());
    let (profiles, fitted) = (profiles().unwrap(), Fitted::read().unwrap());
    let device = Catalog::embedded().by_name("h200").unwrap();
    let rows = rows::rows().unwrap();
    let graded = rows
        .iter()
        .filter(|row| row.device == "h200" && split.grades(row))
        .step_by(STRIDE);
    let mut ratios = [Vec::new(), Vec::new()];
    let mut dashboards = [Vec::new(), Vec::new()];
    for row in graded {
        let client = fitted.client_of(row).unwrap();
        let profile = &profiles[row.backend];
        let found = served::served(row, &models[row.model], &device, profile, &client).unwrap();
        let both = [
            row.measured.ttft / found.ttft,
            row.measured.tpot / found.tpot,
        ];
        for (of, ratio) in both.into_iter().enumerate() {
            ratios[of].push(ratio);
            if row.source == Source::Dashboard {
                dashboards[of].push((1.0 / ratio - 1.0).abs());
            }
        }
    }
    assert_eq!(ratios[0].len(), 58);
    let [ttft, tpot] = dashboards.map(|errors| coverage::median(&errors));
    // All 376 rows: 30.6 % and 8.2 %.
    assert!(ttft < 0.36 && tpot < 0.10, "TTFT {ttft:.3}, TPOT {tpot:.3}");
    let shipped = profiles["vllm"].spreads.unwrap();
    for (ratios, spread) in ratios.iter().zip([shipped.prefill, shipped.decode]) {
        let share = coverage::inside(ratios, spread);
        assert!((0.80..0.98).contains(&share), "{share:.3} in the interval");
    }
}

#[test]
fn the_split_follows_its_rule() {
    let split = Split::read().unwrap();
    let (rows, models) = (rows::rows().unwrap(), rows::models().unwrap());
    assert!(split.rule.contains("most"));
    let found = split::by_rule(&rows, &models);
    let stated: BTreeSet<&str> = models
        .keys()
        .filter(|model| split.calibration.contains(**model))
        .map(|model| split::design(model))
        .collect();
    assert_eq!(stated, found);
    // A model has one side, and all of a design the same one.
    for model in models.keys() {
        let calibrates = split.calibration.contains(*model);
        assert_ne!(calibrates, split.grading.contains(*model), "{model}");
        assert_eq!(calibrates, found.contains(split::design(model)), "{model}");
    }
    assert_eq!(
        models.len(),
        split.calibration.len() + split.grading.len(),
        "models without a design"
    );
}

#[test]
fn nothing_is_fitted_to_rows_of_grading_models() {
    let split = Split::read().unwrap();
    let rows = rows::rows().unwrap();
    let all = split.calibrating(&rows);
    let to = fit::fitted_to(&split, &rows);
    assert!(!to.is_empty() && to.len() < all.len());
    for row in all.iter().chain(&to) {
        assert!(!split.grades(row), "{}", row.line);
    }
    // Of H200s only what no other device has: SGLang of dashboards.
    let is_exception = |row: &&&Row| (row.source, row.backend) == (Source::Dashboard, "sglang");
    let on_h200 = to.iter().filter(|row| row.device == "h200");
    assert!(on_h200.clone().all(|row| is_exception(&row)));
    assert_eq!(on_h200.count(), 15);
}

/// What engines cost stands in their profiles, and is what the fit found.
#[test]
fn profiles_have_the_fitted_numbers() {
    let fitted = Fitted::read().unwrap();
    for (name, profile) in profiles().unwrap() {
        assert_eq!(fitted.put_into(&profile), profile, "{name}");
    }
}

/// On a part of the rows no value of the grids is much better than the shipped one; `fit` itself has all rows.
#[test]
fn fitted_numbers_are_the_best_of_their_grids() {
    let (split, models) = (Split::read().unwrap(), rows::models().unwrap());
    let (profiles, rows) = (profiles().unwrap(), rows::rows().unwrap());
    let part: Vec<&Row> = fit::fitted_to(&split, &rows)
        .into_iter()
        .filter(|row| row.source == Source::Dashboard)
        .step_by(FIT_STRIDE)
        .collect();
    let fitted = Fitted::read().unwrap();
    let mut fit = Fit::new(part, &models, &profiles);
    for (name, shipped, best) in fit.regrets(&fitted).unwrap() {
        assert!(
            shipped - best < 0.05,
            "{name}: {shipped:.3}, best {best:.3}"
        );
    }
}

/// The whole fit, minutes even in a release build: `cargo test --release -p llmprof-simulate --test silicon -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn the_fit_finds_the_shipped_numbers() {
    let (rows, models) = (rows::rows().unwrap(), rows::models().unwrap());
    let found = fit::all(&rows, &models, &profiles().unwrap()).unwrap();
    assert_eq!(found, Fitted::read().unwrap());
}

/// Groups that lie apart make the interval wide, and few groups make it wider; a single far row does not.
#[test]
fn an_interval_is_that_of_another_group() {
    let group = |name: &'static str, middle: f64| {
        let near = (0..101).map(|i| middle * (0.95 + 0.001 * f64::from(i)));
        ((name, "h200", Source::Sweep, "vllm"), near.collect())
    };
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let groups = |count: usize, apart: f64| -> coverage::Groups {
        let place = |i: usize| {
            if i.is_multiple_of(2) {
                apart
            } else {
                1.0 / apart
            }
        };
        (0..count).map(|i| group(names[i], place(i))).collect()
    };
    let half = |groups: &coverage::Groups| coverage::spread(groups).high;
    let (near, apart, few) = (groups(8, 1.0), groups(8, 1.2), groups(2, 1.2));
    assert!((1.04..1.10).contains(&half(&near)), "{}", half(&near));
    assert!((1.35..1.60).contains(&half(&apart)), "{}", half(&apart));
    assert!(half(&few) > 2.0, "{}", half(&few));
    let mut with_one = near.clone();
    with_one.values_mut().next().unwrap().push(100.0);
    assert!((half(&with_one) - half(&near)).abs() < 0.02);
}

/// A design whose rows are all off is not held by the interval of the others, and has no part in it.
#[test]
fn a_design_has_no_part_in_the_interval_that_it_is_graded_by() {
    let near: Vec<f64> = (0..100).map(|i| 0.9 + 0.002 * f64::from(i)).collect();
    let key = |design: &'static str| (design, "h200", Source::Sweep, "vllm");
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
