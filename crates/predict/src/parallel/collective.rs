//! How long collectives take: curves of public tables, or latency and bandwidth of a link.

use crate::kernel_factors::KernelFactors;
use llmprof_theory::{
    device::{Counts, Device, Interconnect},
    parallel::Operation,
};
use serde::Deserialize;
use thiserror::Error;

const EMBEDDED: [(&str, &str); 7] = [
    (
        "a100_sxm",
        include_str!("../../data/collectives/a100_sxm.yaml"),
    ),
    ("b200", include_str!("../../data/collectives/b200.yaml")),
    ("b300", include_str!("../../data/collectives/b300.yaml")),
    ("gb200", include_str!("../../data/collectives/gb200.yaml")),
    (
        "h100_sxm",
        include_str!("../../data/collectives/h100_sxm.yaml"),
    ),
    ("h200", include_str!("../../data/collectives/h200.yaml")),
    ("l40s", include_str!("../../data/collectives/l40s.yaml")),
];

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CollectiveError {
    #[error("a size that stays in one node of {most}: links between nodes are not modelled")]
    Ranks { most: u64 },
    #[error("1: {device} has no link to other devices that its file states")]
    NoLink { device: String },
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct CollectiveTable {
    devices: Vec<String>,
    source: String,
    curves: Vec<CollectiveCurve>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct CollectiveCurve {
    operation: Operation,
    ranks: u64,
    /// Buffer and µs, by size.
    bytes_us: Vec<(f64, f64)>,
}

/// Ranks of a node without a table.
const NODE: u64 = 8;

/// Collectives among devices of one kind in one node.
#[derive(Clone, Debug, PartialEq)]
pub struct Collectives(CollectiveSource);

#[derive(Clone, Debug, PartialEq)]
enum CollectiveSource {
    Table(CollectiveTable),
    /// Bytes per second, one direction.
    Link {
        name: String,
        bytes_per_s: f64,
    },
}

impl Collectives {
    /// By the device's table, else by its fastest link.
    pub fn for_device(device: &Device) -> Result<Self, CollectiveError> {
        let table = EMBEDDED.iter().find_map(|(_, text)| {
            let table: CollectiveTable = serde_saphyr::from_str(text).ok()?;
            table.devices.contains(&device.name).then_some(table)
        });
        if let Some(table) = table {
            return Ok(Self(CollectiveSource::Table(table)));
        }
        let link = fastest_link(device).ok_or_else(|| CollectiveError::NoLink {
            device: device.name.clone(),
        })?;
        Ok(Self(CollectiveSource::Link {
            name: link.name.clone(),
            bytes_per_s: one_way(link),
        }))
    }

    /// What the times rest on.
    pub fn source(&self) -> String {
        match &self.0 {
            CollectiveSource::Table(table) => table.source.clone(),
            CollectiveSource::Link { name, .. } => format!(
                "{name}: {:.0} % of its stated bandwidth and {:.0} µs per doubling of the ranks (assumed)",
                KernelFactors::shipped_factors().link_share() * 100.0,
                KernelFactors::shipped_factors().link_latency_s() * 1e6
            ),
        }
    }

    /// Seconds of one collective over a buffer.
    pub fn seconds(
        &self,
        operation: Operation,
        ranks: u64,
        bytes: u64,
    ) -> Result<f64, CollectiveError> {
        if ranks < 2 || bytes == 0 {
            return Ok(0.0);
        }
        match &self.0 {
            // Between two ranks, half of an all-to-all's buffer stays where it is.
            CollectiveSource::Table(table) if operation == Operation::Send => {
                table.interpolate_seconds(Operation::AllToAll, 2, 2.0 * bytes as f64)
            }
            CollectiveSource::Table(table) => {
                table.interpolate_seconds(operation, ranks, bytes as f64)
            }
            CollectiveSource::Link { bytes_per_s, .. } => {
                if ranks > NODE {
                    return Err(CollectiveError::Ranks { most: NODE });
                }
                let factors = KernelFactors::shipped_factors();
                let latency = factors.link_latency_s() * (ranks as f64).log2();
                let bus = bytes as f64 * operation.bus_factor(ranks as f64);
                Ok(latency + bus / (bytes_per_s * factors.link_share()))
            }
        }
    }
}

fn fastest_link(device: &Device) -> Option<&Interconnect> {
    let links = device.interconnects.iter();
    links.max_by(|a, b| one_way(a).total_cmp(&one_way(b)))
}

/// Bytes per second of a large transfer over the fastest link that a device's file states, in one direction; `None` without a link.
pub fn sent_bytes_per_s(device: &Device) -> Option<f64> {
    Some(one_way(fastest_link(device)?) * KernelFactors::shipped_factors().link_share())
}

/// Bytes per second of a link in one direction.
fn one_way(link: &Interconnect) -> f64 {
    let rate = link.bandwidth.value.0;
    match link.counts {
        Counts::OneDirection => rate,
        Counts::BothDirections => rate / 2.0,
    }
}

impl CollectiveTable {
    fn interpolate_seconds(
        &self,
        operation: Operation,
        ranks: u64,
        bytes: f64,
    ) -> Result<f64, CollectiveError> {
        let curves = || {
            self.curves
                .iter()
                .filter(|curve| curve.operation == operation)
        };
        let most = curves().map(|curve| curve.ranks).max().unwrap_or(1);
        let above = curves()
            .filter(|curve| curve.ranks >= ranks)
            .min_by_key(|curve| curve.ranks);
        let Some(above) = above else {
            return Err(CollectiveError::Ranks { most });
        };
        let high = above.interpolate_us(bytes);
        let below = curves()
            .filter(|curve| curve.ranks <= ranks)
            .max_by_key(|curve| curve.ranks);
        // Between measured numbers of ranks: linear in their logarithm.
        let us = match below {
            Some(below) if below.ranks < above.ranks => {
                let share = (ranks as f64 / below.ranks as f64).ln()
                    / (above.ranks as f64 / below.ranks as f64).ln();
                let low = below.interpolate_us(bytes);
                low + (high - low) * share
            }
            _ => high,
        };
        Ok(us * 1e-6)
    }
}

impl CollectiveCurve {
    /// Linear between logarithms; below the smallest buffer its time, above the largest its bandwidth.
    fn interpolate_us(&self, bytes: f64) -> f64 {
        let points = &self.bytes_us;
        let (Some(&first), Some(&last)) = (points.first(), points.last()) else {
            return 0.0;
        };
        if bytes <= first.0 {
            return first.1;
        }
        if bytes >= last.0 {
            return last.1 * bytes / last.0;
        }
        let place = points.partition_point(|point| point.0 <= bytes);
        let ((x0, y0), (x1, y1)) = (points[place - 1], points[place]);
        let share = (bytes / x0).ln() / (x1 / x0).ln();
        (y0.ln() + (y1.ln() - y0.ln()) * share).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use llmprof_theory::device::Catalog;
    use llmprof_units::stats::median;

    fn collectives_of(name: &str) -> Collectives {
        Collectives::for_device(&Catalog::embedded().by_name(name).unwrap()).unwrap()
    }

    #[test]
    fn every_table_is_read_and_belongs_to_a_device() {
        for (name, text) in EMBEDDED {
            let table: CollectiveTable = serde_saphyr::from_str(text).unwrap();
            for device in &table.devices {
                assert_eq!(collectives_of(device).source(), table.source, "{name}");
            }
            for curve in &table.curves {
                assert!(curve.ranks >= 2 && curve.bytes_us.len() > 5);
                assert!(curve.bytes_us.is_sorted_by(|a, b| a.0 < b.0));
                assert!(curve.bytes_us.iter().all(|point| point.1 > 0.0));
                // Within what links have: from PCIe without peer access to 900 GB/s a direction.
                let (bytes, us) = curve.bytes_us[curve.bytes_us.len() - 1];
                let bus = bytes * curve.operation.bus_factor(curve.ranks as f64) / us / 1e3;
                assert!(
                    (1.0..900.0).contains(&bus),
                    "{name} {:?} {}: {bus} GB/s",
                    curve.operation,
                    curve.ranks
                );
            }
        }
    }

    /// 5.3 µs for each doubling of the ranks, and 0.65 of NVLink's bandwidth: what is assumed of links without a table is near it.
    #[test]
    fn assumed_links_are_like_those_of_tables() {
        let (mut latencies, mut shares) = (Vec::new(), Vec::new());
        for (_, text) in EMBEDDED {
            let table: CollectiveTable = serde_saphyr::from_str(text).unwrap();
            let device = Catalog::embedded().by_name(&table.devices[0]).unwrap();
            let fastest = device.interconnects.iter().map(one_way).fold(0.0, f64::max);
            for curve in &table.curves {
                let ranks = curve.ranks as f64;
                let [(_, least), (bytes, most)] =
                    [curve.bytes_us[0], *curve.bytes_us.last().unwrap()];
                latencies.push(least / ranks.log2());
                if table.devices[0] != "l40s" {
                    let bus = bytes * curve.operation.bus_factor(ranks);
                    shares.push(bus / (most * 1e-6 * fastest));
                }
            }
        }
        let [latency, share] = [latencies, shares].map(|mut all| median(&mut all).unwrap());
        assert!((latency - 5.3).abs() < 0.05, "{latency}");
        assert!((share - 0.65).abs() < 0.005, "{share}");
        let factors = KernelFactors::shipped_factors();
        assert!((factors.link_latency_s() * 1e6 / latency - 1.0).abs() < 0.1);
        assert!((factors.link_share() / share - 1.0).abs() < 0.1);
    }

    #[test]
    fn a_point_of_the_table_and_what_lies_between() {
        let h200 = collectives_of("h200");
        let at = |bytes| h200.seconds(Operation::AllReduce, 8, bytes).unwrap() * 1e6;
        assert!((at(1 << 20) - 14.1).abs() < 1e-6, "{}", at(1 << 20));
        // Half way on a logarithmic scale: √(14.1 · 28.4).
        assert!((at(1 << 21) - (14.1_f64 * 28.4).sqrt()).abs() < 1e-6);
        assert_eq!(at(1), at(256));
        assert!((at(1 << 31) / at(1 << 30) - 2.0).abs() < 1e-9);
        let six = h200.seconds(Operation::AllReduce, 6, 1 << 20).unwrap();
        let four = h200.seconds(Operation::AllReduce, 4, 1 << 20).unwrap();
        assert!(four < six && six * 1e6 < at(1 << 20));
        assert!(h200.seconds(Operation::AllReduce, 16, 1 << 20).is_err());
        assert_eq!(h200.seconds(Operation::AllReduce, 1, 1 << 20).unwrap(), 0.0);
    }

    #[test]
    fn a_link_without_a_table_is_latency_and_bandwidth() {
        let link = collectives_of("rtx_4090");
        assert!(link.source().contains("assumed"));
        let small = link.seconds(Operation::AllReduce, 2, 8).unwrap();
        assert!((small / KernelFactors::shipped_factors().link_latency_s() - 1.0).abs() < 1e-3);
        let large = link.seconds(Operation::AllReduce, 2, 1 << 30).unwrap();
        assert!(large > 100.0 * small);
    }
}
