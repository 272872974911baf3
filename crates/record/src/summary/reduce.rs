//! Sums over a trace, by the rules of the tool's own reports.

use llmprof_units::Nanos;
use std::collections::{BTreeMap, HashMap};

use super::launches::{Calls, is_api, is_nvtx, ranges_around};
use super::{ExecutionRow, ProjectionRow, RangeKernelRow, Spread, TimeRow};
use crate::trace::{RangeKind, StrId, Trace};

/// Calls of the CUDA API by function.
pub fn api_times(trace: &Trace) -> Vec<TimeRow> {
    let hosts = &trace.hosts;
    let calls = (0..hosts.len()).filter(|row| is_api(hosts.kind[*row]));
    by_name(
        trace,
        calls.map(|row| (hosts.name[row], hosts.duration[row])),
    )
}

pub fn kernel_times(trace: &Trace) -> Vec<TimeRow> {
    let kernels = &trace.kernels;
    by_name(
        trace,
        (0..kernels.len()).map(|row| (kernels.name[row], kernels.duration[row])),
    )
}

/// Copies and memsets by the tool's name of them.
pub fn memory_times(trace: &Trace) -> Vec<TimeRow> {
    let (copies, memsets) = (&trace.copies, &trace.memsets);
    let copies = (0..copies.len()).map(|row| (copies.name[row], copies.duration[row]));
    let memsets = (0..memsets.len()).map(|row| (memsets.name[row], memsets.duration[row]));
    by_name(trace, copies.chain(memsets))
}

/// NVTX ranges by domain, text and kind.
pub fn range_times(trace: &Trace) -> Vec<TimeRow> {
    let mut times: BTreeMap<(String, &str), Vec<i64>> = BTreeMap::new();
    for row in 0..trace.ranges.len() {
        if let Some((name, style)) = range_name(trace, row) {
            times
                .entry((name, style))
                .or_default()
                .push(trace.ranges.duration[row]);
        }
    }
    let rows = times.into_iter().filter_map(|((name, style), mut times)| {
        let mut row = time_row(name, &mut times)?;
        row.style = Some(style.to_owned());
        Some(row)
    });
    largest_first(rows.collect())
}

/// Launches by thread, device, API function and kernel, in order of their mean time from call to end.
pub fn kernel_executions(trace: &Trace) -> Vec<ExecutionRow> {
    #[derive(Default)]
    struct Times {
        total: Vec<i64>,
        call: Vec<i64>,
        queue: Vec<i64>,
        run: Vec<i64>,
    }
    let (hosts, kernels) = (&trace.hosts, &trace.kernels);
    let calls = Calls::by_correlation(trace);
    let mut groups: BTreeMap<_, Times> = BTreeMap::new();
    for row in 0..kernels.len() {
        let Some(call) = calls.get(kernels.correlation[row]) else {
            continue;
        };
        let (call_start, call_time) = (hosts.start[call], hosts.duration[call]);
        let call_end = call_start.saturating_add(call_time);
        let (start, run) = (kernels.start[row], kernels.duration[row]);
        let end = start.saturating_add(run);
        let key = (
            hosts.thread[call],
            kernels.device[row],
            hosts.name[call],
            kernels.name[row],
        );
        let times = groups.entry(key).or_default();
        times
            .total
            .push(end.max(call_end).saturating_sub(call_start));
        times.call.push(call_time);
        times.run.push(run);
        if start >= call_end {
            times.queue.push(start - call_end);
        }
    }
    let rows = groups
        .into_iter()
        .filter_map(|((thread, device, api, kernel), mut times)| {
            let row = thread.0 as usize;
            Some(ExecutionRow {
                process: trace.threads.process.get(row).copied().unwrap_or(-1),
                thread: trace.threads.thread.get(row).copied().unwrap_or(-1),
                device,
                api: trace.text(api).to_owned(),
                kernel: trace.text(kernel).to_owned(),
                total: Spread::from_values(&mut times.total)?,
                call: Spread::from_values(&mut times.call)?,
                queue: Spread::from_values(&mut times.queue),
                run: Spread::from_values(&mut times.run)?,
            })
        });
    let mut rows: Vec<ExecutionRow> = rows.collect();
    rows.sort_by(|a, b| b.total.mean.total_cmp(&a.total.mean));
    rows
}

/// Kernels by each NVTX range around their launch; one in nested ranges counts for all of them.
pub fn range_kernels(trace: &Trace) -> Vec<RangeKernelRow> {
    #[derive(Default)]
    struct TimeGroup {
        times: Vec<i64>,
        instances: Vec<usize>,
    }
    let kernels = &trace.kernels;
    let calls = Calls::by_correlation(trace);
    let launched = (0..kernels.len()).filter_map(|row| calls.get(kernels.correlation[row]));
    let around = ranges_around(trace, launched);
    let mut groups: BTreeMap<_, TimeGroup> = BTreeMap::new();
    for row in 0..kernels.len() {
        let Some(call) = calls.get(kernels.correlation[row]) else {
            continue;
        };
        let thread = trace.hosts.thread[call];
        let ranges = around.get(&call).map_or(&[][..], Vec::as_slice);
        let mut add = |range: Option<usize>| {
            let name = range
                .and_then(|range| range_name(trace, range))
                .unwrap_or_default();
            let group = groups.entry((name, thread, kernels.name[row])).or_default();
            group.times.push(kernels.duration[row]);
            group.instances.extend(range);
        };
        if ranges.is_empty() {
            add(None);
        }
        for range in ranges {
            add(Some(*range));
        }
    }
    let rows = groups
        .into_iter()
        .filter_map(|(((range, style), thread, kernel), mut group)| {
            let row = thread.0 as usize;
            group.instances.sort_unstable();
            group.instances.dedup();
            Some(RangeKernelRow {
                range,
                style: style.to_owned(),
                process: trace.threads.process.get(row).copied().unwrap_or(-1),
                thread: trace.threads.thread.get(row).copied().unwrap_or(-1),
                range_instances: group.instances.len() as u64,
                kernel: trace.text(kernel).to_owned(),
                total_ns: Nanos(group.times.iter().sum()),
                times: Spread::from_values(&mut group.times)?,
            })
        });
    rows.collect()
}

/// NVTX ranges as the device saw them. Ranges that launched nothing have no projection and are not counted.
pub fn range_projections(trace: &Trace) -> Vec<ProjectionRow> {
    let calls = Calls::by_correlation(trace);
    let (kernels, copies, memsets) = (&trace.kernels, &trace.copies, &trace.memsets);
    let kernels = (0..kernels.len()).map(|row| {
        (
            kernels.correlation[row],
            kernels.start[row],
            kernels.duration[row],
        )
    });
    let copies = (0..copies.len()).map(|row| {
        (
            copies.correlation[row],
            copies.start[row],
            copies.duration[row],
        )
    });
    let memsets = (0..memsets.len()).map(|row| {
        (
            memsets.correlation[row],
            memsets.start[row],
            memsets.duration[row],
        )
    });
    let launched: Vec<(usize, i64, i64)> = kernels
        .chain(copies)
        .chain(memsets)
        .filter_map(|(correlation, start, time)| {
            Some((calls.get(correlation)?, start, start.saturating_add(time)))
        })
        .collect();
    let around = ranges_around(trace, launched.iter().map(|(call, _, _)| *call));

    let mut projected: HashMap<usize, Projected> = HashMap::new();
    for (call, start, end) in launched {
        let ranges = around.get(&call).map_or(&[][..], Vec::as_slice);
        for (level, range) in ranges.iter().enumerate() {
            let entry = projected.entry(*range).or_insert(Projected {
                start,
                end,
                operations: 0,
                level,
                children: 0,
            });
            entry.start = entry.start.min(start);
            entry.end = entry.end.max(end);
            entry.operations += 1;
        }
    }
    count_children(&around, &mut projected);

    let mut groups: BTreeMap<(String, &str), Vec<(usize, Projected)>> = BTreeMap::new();
    for (range, projection) in projected {
        if let Some(name) = range_name(trace, range) {
            groups.entry(name).or_default().push((range, projection));
        }
    }
    let rows = groups
        .into_iter()
        .filter_map(|((range, style), instances)| {
            let mut times: Vec<i64> = instances.iter().map(|(_, at)| at.end - at.start).collect();
            let mean = |sum: usize| sum as f64 / instances.len() as f64;
            Some(ProjectionRow {
                range,
                style: style.to_owned(),
                total_ns: Nanos(times.iter().sum()),
                total_range_ns: instances
                    .iter()
                    .map(|(range, _)| Nanos(trace.ranges.duration[*range]))
                    .sum(),
                times: Spread::from_values(&mut times)?,
                operations: instances.iter().map(|(_, at)| at.operations).sum(),
                mean_level: mean(instances.iter().map(|(_, at)| at.level).sum()),
                mean_children: mean(instances.iter().map(|(_, at)| at.children).sum()),
            })
        });
    let mut rows: Vec<ProjectionRow> = rows.collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns));
    rows
}

struct Projected {
    start: i64,
    end: i64,
    operations: u64,
    level: usize,
    children: usize,
}

fn count_children(around: &HashMap<usize, Vec<usize>>, projected: &mut HashMap<usize, Projected>) {
    let pairs = around.values().flat_map(|ranges| ranges.windows(2));
    let mut pairs: Vec<(usize, usize)> = pairs.map(|pair| (pair[0], pair[1])).collect();
    pairs.sort_unstable();
    pairs.dedup();
    for (parent, _) in pairs {
        if let Some(parent) = projected.get_mut(&parent) {
            parent.children += 1;
        }
    }
}

/// `domain:text`, and how the range was made; `None` for what is no NVTX range.
fn range_name(trace: &Trace, row: usize) -> Option<(String, &'static str)> {
    let kind = trace.ranges.kind[row];
    let style = if kind == RangeKind::NVTX {
        "PushPop"
    } else {
        "StartEnd"
    };
    let (domain, text) = (
        trace.text(trace.ranges.domain[row]),
        trace.text(trace.ranges.name[row]),
    );
    is_nvtx(kind).then(|| (format!("{domain}:{text}"), style))
}

fn by_name(trace: &Trace, times: impl Iterator<Item = (StrId, i64)>) -> Vec<TimeRow> {
    let mut groups: HashMap<StrId, Vec<i64>> = HashMap::new();
    for (name, time) in times {
        groups.entry(name).or_default().push(time);
    }
    let rows = groups.into_iter();
    largest_first(
        rows.filter_map(|(name, mut times)| time_row(trace.text(name).to_owned(), &mut times))
            .collect(),
    )
}

fn time_row(name: String, times: &mut [i64]) -> Option<TimeRow> {
    Some(TimeRow {
        name,
        total_ns: Nanos(times.iter().sum()),
        times: Spread::from_values(times)?,
        style: None,
        grid: None,
        block: None,
    })
}

fn largest_first(mut rows: Vec<TimeRow>) -> Vec<TimeRow> {
    rows.sort_by(|a, b| {
        b.total_ns
            .cmp(&a.total_ns)
            .then_with(|| a.name.cmp(&b.name))
    });
    rows
}
