//! Intervals: how far measured times lie from predicted ones, and whether those of a model lie as far as those of all others.

use std::collections::BTreeMap;

/// Measured ÷ predicted of the rows of each model.
pub(crate) type Ratios = BTreeMap<&'static str, Vec<f64>>;

/// DeepSeek V3 and R1 are one design, Llama 3.1 8B and its FP8 checkpoint another.
pub(crate) fn design(model: &'static str) -> &'static str {
    match model {
        "deepseek-ai/DeepSeek-V3" => "deepseek-ai/DeepSeek-R1",
        "nvidia/Llama-3.1-8B-Instruct-FP8" => "meta-llama/Llama-3.1-8B-Instruct",
        other => other,
    }
}

/// 5th and 95th percentile over all models but one, each model with the same weight; 1 lies between them.
pub(crate) fn spread(ratios: &Ratios, without: Option<&str>) -> [f64; 2] {
    let mut all: Vec<(f64, f64)> = ratios
        .iter()
        .filter(|(model, _)| Some(**model) != without)
        .flat_map(|(_, found)| found.iter().map(|ratio| (*ratio, 1.0 / found.len() as f64)))
        .collect();
    all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = all.iter().map(|(_, weight)| weight).sum();
    let quantile = |share: f64| {
        let mut below = 0.0;
        let reached = all.iter().find(|(_, weight)| {
            below += weight;
            below >= share * total
        });
        reached.map_or(1.0, |(ratio, _)| *ratio)
    };
    [quantile(0.05).min(1.0), quantile(0.95).max(1.0)]
}

/// Share of rows inside the spread of all other models, and the median of its half width.
pub(crate) fn held_out(ratios: &Ratios) -> [f64; 2] {
    let (mut inside, mut halves) = (0, Vec::new());
    for (model, found) in ratios {
        let [low, high] = spread(ratios, Some(model));
        inside += found
            .iter()
            .filter(|ratio| (low..=high).contains(*ratio))
            .count();
        halves.extend(found.iter().map(|_| f64::midpoint(high, -low)));
    }
    halves.sort_unstable_by(f64::total_cmp);
    let median = halves.get(halves.len() / 2).copied().unwrap_or_default();
    [inside as f64 / halves.len().max(1) as f64, median]
}
