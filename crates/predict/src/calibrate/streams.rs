//! Kernels that only move and combine elements.

use super::{
    Bins, ComparedSamples,
    search::{FitPoint, mean_log_error, minimize_error},
};
use crate::curves::{CurveSize, KernelCurves, SizeTable, StreamCurve};
use llmprof_theory::kernels::{Access, Kernel};

/// Streams whose times are kept as a table, not as a line.
const TABLES: [(Access, CurveSize); 5] = [
    (Access::Pointwise, CurveSize::Bytes),
    (Access::Transcendental, CurveSize::Bytes),
    (Access::Broadcast, CurveSize::Elements),
    (Access::Sort, CurveSize::Elements),
    (Access::TopK, CurveSize::Bytes),
];

/// Bytes, elements, width and seconds.
type Known = [f64; 4];

fn collect_samples(samples: &ComparedSamples<'_>, wanted: Access) -> Vec<Known> {
    samples
        .isolated_kernels()
        .filter_map(|(kernel, seconds)| match *kernel {
            Kernel::Stream {
                access,
                bytes,
                elements,
                width,
            } if access == wanted => Some([bytes, elements, width, seconds]),
            _ => None,
        })
        .collect()
}

pub(super) fn fit_streams(
    samples: &ComparedSamples<'_>,
    curves: &mut KernelCurves,
    take: &mut dyn FnMut(&str, bool),
) {
    for access in Access::ALL {
        let stream_samples = collect_samples(samples, access);
        let tabled = TABLES.iter().find(|(table, _)| *table == access);
        let fitted = match tabled {
            Some((_, by)) => fit_table(&stream_samples, *by).map(|table| {
                curves.tables.insert(access, table);
            }),
            None => fit_line(&stream_samples, curves.streams.get(&access)).map(|curve| {
                curves.streams.insert(access, curve);
            }),
        };
        let key = serde_json::to_value(access).unwrap_or_default();
        take(key.as_str().unwrap_or("stream"), fitted.is_some());
    }
}

/// Times by size that never fall: a larger kernel that was measured faster was measured with luck.
fn fit_table(known: &[Known], by: CurveSize) -> Option<SizeTable> {
    let mut bins = Bins::new(1.0);
    for [bytes, elements, _, seconds] in known {
        let size = match by {
            CurveSize::Bytes => bytes,
            CurveSize::Elements => elements,
        };
        // Long kernels grow with their size within a bin; short ones do not.
        let place = size.log2().round().exp2();
        let scale = if *seconds > 8e-6 { place / size } else { 1.0 };
        bins.add_value(*size, seconds * scale * 1e6);
    }
    let (x, us) = bins.into_medians()?;
    let us = force_rising(&us);
    (x.len() > 1).then_some(SizeTable { by, x, us })
}

/// The nearest sequence that never falls, in logarithms.
fn force_rising(values: &[f64]) -> Vec<f64> {
    let mut blocks: Vec<(f64, f64)> = Vec::new();
    for value in values {
        let mut block = (value.ln(), 1.0);
        while let Some(last) = blocks.last().copied().filter(|last| last.0 > block.0) {
            blocks.pop();
            let count = last.1 + block.1;
            block = ((last.0 * last.1 + block.0 * block.1) / count, count);
        }
        blocks.push(block);
    }
    blocks
        .iter()
        .flat_map(|(log, count)| std::iter::repeat_n(log.exp(), *count as usize))
        .collect()
}

fn fit_line(known: &[Known], before: Option<&StreamCurve>) -> Option<StreamCurve> {
    if known.len() < 2 {
        return None;
    }
    // Kernels over rows also take a time for each element of a row.
    let by_row = known.iter().any(|[_, _, width, _]| *width > 0.0);
    let start = before.copied().unwrap_or(StreamCurve {
        fixed_us: 2.0,
        ns_per_kb: 0.3,
        ns_per_kelement: 1.0,
        ns_per_width: 1.0,
        ns_per_width_and_row: 0.1,
        narrow_ns_per_kb: 1.0,
    });
    let rows = |on: f64| if by_row { on } else { 0.0 };
    let parameters = minimize_error(
        [
            start.fixed_us,
            start.ns_per_kb,
            start.ns_per_kelement,
            rows(start.ns_per_width),
            rows(start.ns_per_width_and_row),
            rows(start.narrow_ns_per_kb),
        ],
        |parameters| {
            let curve = curve_from(parameters, by_row);
            mean_log_error(known.iter().map(|[bytes, elements, width, seconds]| {
                FitPoint {
                    predicted: curve
                        .seconds(*bytes, *elements, *width, [1.0, 1.0])
                        .seconds(),
                    measured: *seconds,
                }
            }))
        },
    );
    Some(curve_from(&parameters, by_row))
}

fn curve_from(parameters: &[f64; 6], by_row: bool) -> StreamCurve {
    let [
        fixed_us,
        ns_per_kb,
        ns_per_kelement,
        per_width,
        per_width_and_row,
        narrow,
    ] = *parameters;
    let rows = |value: f64| if by_row { value } else { 0.0 };
    StreamCurve {
        fixed_us,
        ns_per_kb,
        ns_per_kelement,
        ns_per_width: rows(per_width),
        ns_per_width_and_row: rows(per_width_and_row),
        narrow_ns_per_kb: rows(narrow),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_never_fall_with_size() {
        assert_eq!(force_rising(&[1.0, 2.0, 4.0]), [1.0, 2.0, 4.0]);
        let level = force_rising(&[1.0, 4.0, 1.0, 8.0]);
        assert!((level[1] - 2.0).abs() < 1e-9 && (level[2] - 2.0).abs() < 1e-9);
        assert!((level[3] - 8.0).abs() < 1e-9);
    }
}
