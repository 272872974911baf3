//! Intervals: how far measured times lie from predicted ones.

use std::collections::BTreeMap;

use llmprof_predict::RatioSpread;

use super::rows::RowSource;

/// A design, a device, who measured, and an engine.
pub(crate) type RowGroup = (&'static str, &'static str, RowSource, &'static str);

/// Measured ÷ predicted, by groups of rows.
pub(crate) type Groups = BTreeMap<RowGroup, Vec<f64>>;

/// 5th and 95th percentile over the rows of all designs but one, on every device, each design with the same weight; 1 lies between them.
pub(crate) fn of_other_designs(groups: &Groups, without: Option<&str>) -> RatioSpread {
    let mut designs: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for ((design, ..), ratios) in groups {
        if Some(*design) != without {
            designs.entry(design).or_default().extend(ratios);
        }
    }
    let mut all: Vec<(f64, f64)> = designs
        .values()
        .flat_map(|ratios| {
            ratios
                .iter()
                .map(|ratio| (*ratio, 1.0 / ratios.len() as f64))
        })
        .collect();
    all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = all.iter().map(|(_, weight)| weight).sum();
    let quantile = |share: f64| {
        let mut below = 0.0;
        let reached = all.iter().find(|(_, weight)| {
            below += weight;
            below >= share * total
        });
        reached.map_or(1.0, |(ratio, _)| (ratio * 100.0).round() / 100.0)
    };
    RatioSpread {
        low: quantile(0.05).min(1.0),
        high: quantile(0.95).max(1.0),
    }
}

/// Of the rows of a device, each by the interval of all designs but its own: the share inside, and the median of half widths.
pub(crate) fn cross_validated(groups: &Groups, device: &str) -> [f64; 2] {
    let (mut held, mut halves) = (0.0, Vec::new());
    for ((design, of, ..), ratios) in groups {
        if *of == device {
            let spread = of_other_designs(groups, Some(design));
            held += share_inside(ratios, spread) * ratios.len() as f64;
            halves.extend(ratios.iter().map(|_| (spread.high - spread.low) / 2.0));
        }
    }
    [held / halves.len().max(1) as f64, median_of(&halves)]
}

/// Share of rows inside a spread.
pub(crate) fn share_inside(ratios: &[f64], spread: RatioSpread) -> f64 {
    let holds = |ratio: &&f64| (spread.low..=spread.high).contains(*ratio);
    ratios.iter().filter(holds).count() as f64 / ratios.len().max(1) as f64
}

pub(crate) fn median_of(values: &[f64]) -> f64 {
    llmprof_units::stats::median(&mut values.to_vec()).unwrap_or(0.0)
}
