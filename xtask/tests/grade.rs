//! Predicted GPU times beside measured ones, and the split between what may be fitted and what grades.

use std::collections::BTreeSet;

use llmprof_predict::{EfficiencyProfile, KernelCurves, KnownError};
use llmprof_theory::{Phase, device::Catalog};
use llmprof_units::stats::{median, percentile};
use serde_json::Value;
use xtask::{
    DataSplit, Grade, GradeSummary, Pair, Ratio, captured_grades, error_summary,
    fixture_comparison, grades, grades_on, known_errors, pairs, pairs_on, ratios, spreads,
    summarize,
};

const TIMES: &str = include_str!("../../fixtures/h200/kernels/times.json");

fn eager() -> EfficiencyProfile {
    EfficiencyProfile::embedded("hf_eager").expect("it is embedded")
}

fn summary(all: &[Grade], keep: impl Fn(&Grade) -> bool) -> GradeSummary {
    let kept: Vec<_> = all.iter().filter(|grade| keep(grade)).collect();
    summarize(&kept).expect("some are kept")
}

fn names(split: &str) -> BTreeSet<String> {
    let times: Value = serde_json::from_str(TIMES).expect("valid JSON");
    let models = times["models"].as_array().expect("a list");
    let of = models.iter().filter(|model| model["split"] == split);
    of.map(|model| model["model"].as_str().expect("a name").to_owned())
        .collect()
}

#[test]
fn curves_rest_on_calibration_models_only() {
    let (calibration, grading) = (names("calibration"), names("grading"));
    assert!(calibration.len() >= 10 && grading.len() >= 20);
    assert!(calibration.is_disjoint(&grading));
    // The recipe writes down which models it read.
    let used: BTreeSet<_> = KernelCurves::embedded("h200")
        .unwrap()
        .models
        .into_iter()
        .collect();
    assert!(!used.is_empty());
    assert!(used.is_subset(&calibration), "{used:?}");
}

#[test]
fn held_out_models_meet_the_goal() {
    let all = grades(&eager()).unwrap();
    let held_out = summary(&all, |grade| {
        grade.split == DataSplit::Grading && !grade.by_common_keys
    });
    assert!(held_out.times >= 200, "{held_out:?}");
    assert!(held_out.median <= 0.05, "{held_out:?}");
    assert!(held_out.p90 <= 0.15, "{held_out:?}");
    assert!((0.85..=0.97).contains(&held_out.coverage), "{held_out:?}");
    assert!(held_out.half_width <= 0.15, "{held_out:?}");
    // Tokens that choose alike choose no more experts each: Qwen3-30B-A3B was 35 % too slow.
    let decode = summary(&all, |grade| {
        grade.split == DataSplit::Grading && !grade.by_common_keys && grade.phase == Phase::Decode
    });
    assert!(decode.worst.abs() <= 0.15, "{decode:?}");
    for grade in &all {
        assert!(grade.roofline_ns < grade.measured_ns, "{grade:?}");
        assert!(
            grade.low_ns < grade.predicted_ns && grade.predicted_ns < grade.high_ns,
            "{grade:?}"
        );
    }
}

/// Ranges are percentiles over models that nothing was fitted to. A profile has them where those of the other models hold for each.
#[test]
fn spreads_are_those_of_models_that_nothing_was_fitted_to() {
    for name in ["hf_eager", "hf_graph", "torch_compile"] {
        let profile = EfficiencyProfile::embedded(name).unwrap();
        for (key, key_ratios) in ratios(&profile).unwrap() {
            let written = profile.spreads.and_then(|written| match key {
                "family" => Some(written.family),
                "common_keys" => written.common_keys,
                "traced" => written.traced,
                _ => written.from_run,
            });
            let models: BTreeSet<&str> = key_ratios.iter().map(|one| one.model.as_str()).collect();
            let mut inside = 0;
            for left_out in models {
                let (own, others): (Vec<&Ratio>, Vec<&Ratio>) =
                    key_ratios.iter().partition(|one| one.model == left_out);
                let range = spreads(&others).unwrap();
                inside += own
                    .iter()
                    .filter(|one| {
                        let spread = if one.phase == Phase::Decode {
                            range.decode
                        } else {
                            range.prefill
                        };
                        (spread.low..=spread.high).contains(&one.ratio)
                    })
                    .count();
            }
            let share = inside as f64 / key_ratios.len() as f64;
            let is_met = (0.85..=0.95).contains(&share);
            let expected = spreads(&key_ratios.iter().collect::<Vec<_>>()).filter(|_| is_met);
            assert_eq!(written, expected, "{name} {key}: {share}");
        }
    }
}

/// Decode steps as CUDA graphs and compiled.
#[test]
fn captured_steps_of_held_out_models_lie_in_their_intervals() {
    for name in ["hf_graph", "torch_compile"] {
        let profile = EfficiencyProfile::embedded(name).expect("it is embedded");
        let captured = captured_grades(&profile).unwrap();
        let steps = captured.gpu.iter().filter(|one| one.phase == Phase::Decode);
        let decode: Vec<Grade> = steps.chain(&captured.tpot).cloned().collect();
        let of = |split: DataSplit| {
            summary(&decode, |grade| {
                grade.split == split && !grade.by_common_keys
            })
        };
        let held_out = of(DataSplit::Grading);
        assert!(held_out.times >= 40, "{name}: {held_out:?}");
        assert!(held_out.median <= 0.05, "{name}: {held_out:?}");
        assert!(held_out.p90 <= 0.15, "{name}: {held_out:?}");
        let has_range = profile.spreads.is_some();
        assert!(
            !has_range || held_out.coverage >= 0.85,
            "{name}: {held_out:?}"
        );
        assert!(held_out.half_width <= 0.15, "{name}: {held_out:?}");
        let prefill = summary(&captured.gpu, |grade| {
            grade.split == DataSplit::Grading
                && grade.phase == Phase::Prefill
                && !grade.by_common_keys
        });
        assert!(
            prefill.median <= 0.05 && (!has_range || prefill.coverage >= 0.85),
            "{name}: {prefill:?}"
        );
    }
    assert!(captured_grades(&eager()).unwrap().gpu.is_empty());
}

#[test]
fn kernels_are_counted_as_they_were_recorded() {
    let all = grades(&eager()).unwrap();
    let mut off = Vec::new();
    for grade in all.iter().filter(|grade| !grade.by_common_keys) {
        let difference = grade.predicted_kernels.abs_diff(grade.measured_kernels);
        if difference as f64 > 0.1 * grade.measured_kernels as f64 {
            off.push(format!(
                "{} {} {}x{}: {} of {}",
                grade.model,
                grade.phase,
                grade.batch,
                grade.prompt,
                grade.predicted_kernels,
                grade.measured_kernels
            ));
        }
    }
    assert!(off.is_empty(), "{off:#?}");
}

#[test]
fn unknown_types_are_read_by_common_keys() {
    let all = grades(&eager()).unwrap();
    let common = summary(&all, |grade| {
        grade.by_common_keys && grade.model != "falcon_7b"
    });
    assert!(common.times >= 50, "{common:?}");
    assert!(common.median <= 0.06, "{common:?}");
}

#[test]
fn bad_curves_are_refused() {
    let good = include_str!("../../crates/predict/data/curves/h200.json");
    assert!(KernelCurves::parse_text(good, "mine.json").is_ok());
    for (from, to, expected) in [
        ("\"m\":[1,2,", "\"m\":[2,1,", "gemm"),
        ("\"keys\":[128,", "\"keys\":[0,", "attention"),
        ("\"peak_flops\":", "\"peak_flop\":", "peak_flop"),
        ("\"fill\":{", "\"fil\":{", "fil"),
    ] {
        assert!(good.contains(from), "{from}");
        let error = KernelCurves::parse_text(&good.replacen(from, to, 1), "mine.json").unwrap_err();
        assert!(
            error.contains("mine.json") && error.contains(expected),
            "{error}"
        );
    }
}

/// One run of a model predicts its other runs about as well as curves of this very device do.
#[test]
fn runs_correct_predictions_of_other_runs() {
    let profile = EfficiencyProfile::embedded("hf_eager").unwrap();
    let all = pairs(&profile).unwrap();
    let middle_and_p90 = |is_in: &dyn Fn(&Pair) -> bool, of: fn(&Pair) -> f64| {
        let mut values: Vec<f64> = all.iter().filter(|pair| is_in(pair)).map(of).collect();
        values.sort_by(f64::total_cmp);
        [0.5, 0.9].map(|share| percentile(&values, share))
    };
    let grading = |pair: &Pair| !pair.calibration && !pair.by_common_keys;
    let [middle, p90] = middle_and_p90(&grading, |pair| pair.error.abs());
    assert!(middle < 0.04 && p90 < 0.12, "{middle} {p90}");
    let (inside, count) = all
        .iter()
        .filter(|pair| grading(pair))
        .fold((0, 0), |(inside, count), pair| {
            (inside + usize::from(pair.covered), count + 1)
        });
    let share = f64::from(inside as u32) / f64::from(count as u32);
    assert!((0.85..=0.97).contains(&share), "{share}");
}

/// Where curves are of another device and wrong by half, one run sets them right.
#[test]
fn a_run_makes_up_for_curves_of_another_device() {
    let device = Catalog::embedded().by_name("h200").unwrap();
    let mut curves = KernelCurves::embedded("h200").unwrap();
    curves.gemm.ratio.iter_mut().for_each(|ratio| *ratio *= 1.5);
    for table in curves.tables.values_mut() {
        table.us.iter_mut().for_each(|us| *us *= 2.0);
    }
    let mut profile = eager();
    profile.curves.insert(device.name.clone(), curves);
    let all = pairs_on(&device, &profile).unwrap();
    let of_all = |of: fn(&Pair) -> f64| {
        let mut values: Vec<f64> = all.iter().map(of).collect();
        median(&mut values).unwrap()
    };
    let (with, without) = (
        of_all(|pair| pair.error.abs()),
        of_all(|pair| pair.plain_error.abs()),
    );
    assert!(without > 0.3 && with < 0.06, "{with} {without}");
}

/// Curves of `llmprof hardware measure --gpu` on an H200, which no model had a part in, predict held-out models nearly as well.
#[test]
fn micro_benchmarks_alone_predict_held_out_models() {
    let text = include_str!("../../fixtures/h200/kernels/measured_curves.json");
    let curves = KernelCurves::parse_text(text, "measured_curves.json").unwrap();
    assert!(curves.models.is_empty());
    let device = Catalog::embedded().by_name("h200").unwrap();
    let mut profile = eager();
    profile.curves.insert(device.name.clone(), curves);
    let all = grades_on(&device, &profile).unwrap();
    let held_out: Vec<&Grade> = all
        .iter()
        .filter(|grade| grade.split == DataSplit::Grading && !grade.by_common_keys)
        .collect();
    let errors = summarize(&held_out).unwrap();
    assert!(errors.median < 0.05 && errors.p90 < 0.12, "{errors:?}");
}

#[test]
fn eager_predictions_hold_where_they_were_not_fitted() {
    let eager = eager();
    let comparisons = fixture_comparison(&eager);
    assert_eq!(comparisons.len(), 36);
    for comparison in &comparisons {
        assert!(
            comparison.error.abs() < if comparison.fitted { 0.05 } else { 0.15 },
            "{comparison:?}"
        );
        assert!(
            comparison.roofline_ns < comparison.measured_ns,
            "{comparison:?}"
        );
    }
    let summary = error_summary(&comparisons).unwrap();
    assert_eq!(summary.figures, 34);
    assert!(summary.mean < 0.05, "{summary:?}");
}

/// `cargo run -p xtask -- grade table` writes what `llmprof predict` prints.
#[test]
fn the_table_of_known_errors_is_what_grading_finds() {
    let known = known_errors().unwrap();
    assert_eq!(known.len(), 3);
    for error in &known {
        assert_eq!(KnownError::of_profile(&error.profile), Some(error));
    }
}
