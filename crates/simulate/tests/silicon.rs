//! The grading harness of serving engines on a part of the public rows of H200s; the example `silicon_sample` grades all of them.

#![allow(dead_code, reason = "the example has more of these modules")]

#[path = "../examples/silicon_sample/coverage.rs"]
mod coverage;
#[path = "../examples/silicon_sample/launch.rs"]
mod launch;
#[path = "../examples/silicon_sample/rows.rs"]
mod rows;
#[path = "../examples/silicon_sample/served.rs"]
mod served;

use std::collections::BTreeMap;

use llmprof_theory::{
    device::Catalog,
    predict::{EfficiencyProfile, Spread},
};

/// Every so manieth row of an H200 is graded here.
const STRIDE: usize = 9;

#[test]
fn served_models_are_predicted_within_the_goals_and_their_intervals() {
    let models = rows::models().unwrap();
    let device = Catalog::embedded().by_name("h200").unwrap();
    let engines = ["vllm", "sglang", "trtllm"];
    let profiles: BTreeMap<&str, EfficiencyProfile> = engines
        .iter()
        .map(|name| (*name, EfficiencyProfile::embedded(name).unwrap()))
        .collect();
    let rows = rows::rows().unwrap();
    let graded = rows
        .iter()
        .filter(|row| row.device == "h200" && models.contains_key(row.model))
        .step_by(STRIDE);
    let (mut ttft, mut tpot, mut inside) = (Vec::new(), Vec::new(), [0.0; 2]);
    for row in graded {
        let profile = &profiles[row.backend];
        let found = served::served(row, &models[row.model], &device, profile).unwrap();
        let spreads = profile.spreads.unwrap();
        let holds =
            |spread: Spread, ratio: f64| f64::from((spread.low..=spread.high).contains(&ratio));
        inside[0] += holds(spreads.prefill, row.measured.ttft / found.ttft);
        inside[1] += holds(spreads.decode, row.measured.tpot / found.tpot);
        ttft.push((found.ttft / row.measured.ttft - 1.0).abs());
        tpot.push((found.tpot / row.measured.tpot - 1.0).abs());
    }
    let median = |values: &mut Vec<f64>| {
        values.sort_unstable_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let count = ttft.len() as f64;
    assert_eq!(count, 82.0);
    let (ttft, tpot) = (median(&mut ttft), median(&mut tpot));
    // All 738 rows: 18.4 % and 9.3 %.
    assert!(ttft < 0.20 && tpot < 0.10, "TTFT {ttft:.3}, TPOT {tpot:.3}");
    // All 738 rows: 91 % of both.
    for share in inside.map(|inside| inside / count) {
        assert!((0.85..=0.97).contains(&share), "{share:.3} in the interval");
    }
}

/// A model whose rows are all off leaves the interval of the others alone, and is not in it.
#[test]
fn a_model_has_no_part_in_the_interval_that_it_is_graded_by() {
    let near: Vec<f64> = (0..100).map(|i| 0.9 + 0.002 * f64::from(i)).collect();
    let ratios = coverage::Ratios::from([("a", near.clone()), ("b", near), ("c", vec![3.0; 10])]);
    let [low, high] = coverage::spread(&ratios, Some("c"));
    assert!(
        (0.9..0.92).contains(&low) && (1.08..1.1).contains(&high),
        "{low} {high}"
    );
    assert_eq!(coverage::spread(&ratios, None)[1], 3.0);
    // Nine tenths of `a` and of `b`, each by an interval that `c` has a part in; nothing of `c`.
    let [share, _] = coverage::held_out(&ratios);
    assert!((0.83..0.88).contains(&share), "{share}");
}
