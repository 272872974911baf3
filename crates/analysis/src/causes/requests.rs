//! Times between requests, where the program marks each request with a range: it may wait for the next one.

use crate::thresholds::{REQUEST_PASSES_MIN, REQUESTS_LAUNCHED_MIN_SHARE};
use llmprof_record::trace::{RangeKind, StrId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Scene;
use crate::replay::DeviceRow;

/// Name of the ranges that torch.profiler's schedule makes of its own steps.
const PROFILER_STEP: &str = "ProfilerStep";

/// The ranges of requests in order of time; empty where no ranges are that.
pub(super) fn request_ranges(scene: &Scene<'_>) -> Vec<(i64, i64)> {
    let ranges = &scene.trace.ranges;
    let mut by_name: FxHashMap<StrId, Vec<(i64, i64)>> = FxHashMap::default();
    for row in 0..ranges.len() {
        let is_marked = matches!(ranges.kind[row], RangeKind::ANNOTATION | RangeKind::NVTX);
        let is_of_program = ranges.thread[row] == scene.graph.main_thread()
            && !scene
                .trace
                .text(ranges.name[row])
                .starts_with(PROFILER_STEP);
        if is_marked && is_of_program {
            let end = ranges.start[row].saturating_add(ranges.duration[row]);
            let named = by_name.entry(ranges.name[row]).or_default();
            named.push((ranges.start[row], end));
        }
    }
    by_name.retain(|_, ranges| {
        ranges.len() > 1 && ranges.is_sorted_by(|before, after| before.1 <= after.0)
    });
    if by_name.is_empty() {
        return Vec::new();
    }
    let launches = launch_times(scene);
    let passes = pass_times(scene);
    let are_requests = |ranges: &Vec<(i64, i64)>| {
        let held = launches
            .iter()
            .filter(|&&time| is_inside(ranges, time))
            .count();
        held as f64 >= REQUESTS_LAUNCHED_MIN_SHARE * launches.len() as f64
            && ranges.iter().all(|range| {
                let inside = passes.iter().filter(|&&time| is_inside(&[*range], time));
                inside.count() >= REQUEST_PASSES_MIN
            })
    };
    let mut names: Vec<Vec<(i64, i64)>> = by_name.into_values().filter(are_requests).collect();
    names.sort_by_key(|ranges| (std::cmp::Reverse(ranges.len()), ranges[0]));
    names.into_iter().next().unwrap_or_default()
}

/// Whether a time lies in one of some ranges, which are in order.
pub(super) fn is_inside(ranges: &[(i64, i64)], time: i64) -> bool {
    let after = ranges.partition_point(|range| range.0 <= time);
    after > 0 && time < ranges[after - 1].1
}

/// When the program launches kernels.
fn launch_times(scene: &Scene<'_>) -> Vec<i64> {
    let graph = scene.graph;
    let kernels = graph
        .work()
        .iter()
        .filter(|work| work.is_own && matches!(work.row, DeviceRow::Kernel(_)));
    kernels
        .map(|work| graph.segment_start(work.segment as usize))
        .collect()
}

/// When passes over the model begin: launched graphs, and lookups in the table of the first lookup.
fn pass_times(scene: &Scene<'_>) -> Vec<i64> {
    let graph = scene.graph;
    let mut graphs: FxHashSet<u32> = FxHashSet::default();
    for pair in graph.work().windows(2) {
        if pair[0].segment == pair[1].segment && pair[0].is_own {
            graphs.insert(pair[0].segment);
        }
    }
    let mut times: Vec<i64> = graphs
        .into_iter()
        .map(|segment| graph.segment_start(segment as usize))
        .collect();
    let hosts = &scene.trace.hosts;
    let table = |row: usize| scene.tensors(row).first().map(|(dims, _)| *dims);
    if let Some(first) = scene.forwards.first() {
        let is_lookup = |row: &usize| {
            hosts.name[*row] == hosts.name[first.row] && table(*row) == table(first.row)
        };
        let lookups = (0..hosts.len()).filter(is_lookup);
        times.extend(lookups.map(|row| hosts.start[row]));
    }
    times
}
