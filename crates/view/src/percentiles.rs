//! Percentiles as the report states them: interpolated between neighbours, and only of enough values.

use llmprof_report::compose::steps::sentences::has_percentile;
use llmprof_units::stats::percentile;
use serde_json::{Value, json};

/// Adds `min_ns`, `p50_ns`, `p90_ns`, `p99_ns` and `max_ns` of durations to an object; null where there are too few for one.
pub(crate) fn add_percentiles(object: &mut Value, mut durations: Vec<i64>) {
    durations.sort_unstable();
    object["min_ns"] = json!(durations.first());
    object["max_ns"] = json!(durations.last());
    let values: Vec<f64> = durations.iter().map(|&duration| duration as f64).collect();
    for (key, percent) in [("p50_ns", 50), ("p90_ns", 90), ("p99_ns", 99)] {
        let value = has_percentile(values.len() as u64, percent)
            .then(|| percentile(&values, f64::from(percent) / 100.0));
        object[key] = json!(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_need_enough_durations_and_lie_between_them() {
        let of = |durations: Vec<i64>| {
            let mut object = json!({});
            add_percentiles(&mut object, durations);
            object
        };
        let two = json!({"min_ns": 3, "p50_ns": null, "p90_ns": null, "p99_ns": null, "max_ns": 8});
        assert_eq!(of(vec![8, 3]), two);
        let eleven = of((1..=11).rev().map(|number| number * 10).collect());
        assert_eq!(
            (&eleven["p50_ns"], &eleven["p90_ns"]),
            (&json!(60.0), &json!(100.0))
        );
        assert_eq!(eleven["p99_ns"], Value::Null);
        assert_eq!(of((0..=100).collect())["p99_ns"], 99.0);
    }
}
