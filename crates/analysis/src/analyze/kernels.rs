//! The kernels of a phase: how many, how many of graphs, those too small for the device, those beside products and attention.

use std::collections::BTreeMap;

use llmprof_record::kernel_name::Category;
use llmprof_record::trace::{StrId, ThreadId, Trace};
use llmprof_units::Nanos;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::analyze::phase_intervals::PhaseInterval;
use crate::analyze::tracing::TraceContext;
use crate::matching::kernel_table::{KernelPurpose, WorkGroup, kernel_purpose};
use crate::matching::lanes::{Item, WorkLane};
use crate::phase_facts::{CategoryTime, Glue, PhaseKernel};
use crate::row_order::{sort_descending, sort_descending_named};
use crate::timeline::device_events::Class;
use crate::timeline::intervals::{add_saturating, union_length};

/// Kernels of a phase that are named.
const KERNELS_LISTED_MAX: usize = 20;

impl TraceContext<'_> {
    /// The kernels of some intervals that neither multiply by weights nor attend; absent for the host, where a graph hides
    /// its kernels, and for programs that run no model.
    pub(crate) fn glue(&self, included: &[&PhaseInterval], lane: &WorkLane) -> Option<Glue> {
        lane.device?;
        let mut glue = Glue::default();
        let mut heavy = 0_u64;
        for (item, time) in computing_kernels(included, lane) {
            if item.whole_graph {
                return None;
            }
            let name = self.trace.text(item.name);
            let is_heavy = |group| {
                matches!(
                    group,
                    WorkGroup::Products | WorkGroup::Attention | WorkGroup::Convolutions
                )
            };
            let is_glue = match kernel_purpose(item.category, name) {
                KernelPurpose::Operators(group) if is_heavy(group) => {
                    heavy += 1;
                    false
                }
                KernelPurpose::Operators(_) | KernelPurpose::Extra => true,
                KernelPurpose::Unknown => false,
            };
            if is_glue {
                glue.kernels += 1;
                glue.time_ns = Nanos(glue.time_ns.0.saturating_add(time));
                glue.fused += u64::from(name.starts_with("triton_") && name.contains("_fused_"));
            }
        }
        // A program without GEMMs is no model: its kernels are its own work.
        (heavy > 0).then_some(glue)
    }

    /// The kernels of some intervals with most time.
    pub(super) fn longest_kernels(
        &self,
        included: &[&PhaseInterval],
        lane: &WorkLane,
    ) -> Vec<PhaseKernel> {
        if lane.device.is_none() {
            return Vec::new();
        }
        let mut sums: FxHashMap<StrId, (Category, u64, i64)> = FxHashMap::default();
        for interval in included {
            for item in &lane.items[lane.items_around(interval.window())] {
                let time = item.kernel.and(item.time_inside(interval.window()));
                let Some(time) = time else { continue };
                let sum = sums.entry(item.name).or_insert((item.category, 0, 0));
                sum.1 += 1;
                sum.2 = sum.2.saturating_add(time);
            }
        }
        let mut rows: Vec<PhaseKernel> = sums
            .into_iter()
            .map(|(name, (category, calls, time))| PhaseKernel {
                name: self.trace.text(name).to_owned(),
                category,
                calls,
                time_ns: Nanos(time),
            })
            .collect();
        sort_descending_named(&mut rows, |row| (row.time_ns.0, &row.name));
        rows.truncate(KERNELS_LISTED_MAX);
        rows
    }

    /// The time of a phase's kernels by category, the longest first.
    pub(super) fn category_times(
        included: &[&PhaseInterval],
        lane: &WorkLane,
    ) -> Vec<CategoryTime> {
        let mut sums: BTreeMap<Category, i64> = BTreeMap::new();
        for interval in included {
            for item in &lane.items[lane.items_around(interval.window())] {
                if let Some(time) = item.kernel.and(item.time_inside(interval.window())) {
                    add_saturating(sums.entry(item.category).or_default(), time);
                }
            }
        }
        let rows = sums.into_iter().map(|(category, time)| CategoryTime {
            category,
            time_ns: Nanos(time),
        });
        let mut rows: Vec<CategoryTime> = rows.collect();
        sort_descending(&mut rows, |row| row.time_ns.0);
        rows
    }

    /// Part of the busy time in kernels that compute and cannot fill the device. Kernels that exchange data have few blocks by
    /// design.
    pub(super) fn small_kernels(
        &self,
        included: &[&PhaseInterval],
        lane: &WorkLane,
        busy: i64,
    ) -> Option<f64> {
        let device = lane.device?;
        let told = self.trace.devices.iter().find(|known| known.id == device);
        let units = told.and_then(|device| device.sm_count).map(f64::from);
        let units = units.or_else(|| {
            let device = self.roof?.device();
            device.units.as_ref().map(|units| units.count.value)
        })?;
        let kernels = &self.trace.kernels;
        let mut time = 0_i64;
        for interval in included {
            let (start, end) = interval.window();
            let mut small: Vec<(i64, i64)> = Vec::new();
            for item in &lane.items[lane.items_around(interval.window())] {
                let computes = item.class == Class::Compute && !item.whole_graph;
                let Some(row) = item.kernel.filter(|_| computes) else {
                    continue;
                };
                let blocks: f64 = kernels.grid[row as usize]
                    .iter()
                    .map(|&size| f64::from(size))
                    .product();
                if blocks > 0.0 && blocks < units && item.time_inside(interval.window()).is_some() {
                    small.push((item.start.max(start), item.end.min(end)));
                }
            }
            // Busy time is a union, and so is this: kernels that run at once count once.
            time = time.saturating_add(union_length(small));
        }
        (busy > 0).then(|| time as f64 / busy as f64)
    }
}

/// How many kernels belong to some intervals: launched in them where ranges are the phases, else begun in them.
pub(super) fn count_kernels(included: &[&PhaseInterval], lane: &WorkLane) -> u64 {
    let windows: FxHashSet<usize> = included.iter().map(|interval| interval.window).collect();
    let is_kernel = |item: &&Item| matches!(item.class, Class::Compute | Class::Communication);
    let own = |item: &&Item| {
        item.window()
            .is_some_and(|window| windows.contains(&window))
    };
    lane.items.iter().filter(is_kernel).filter(own).count() as u64
}

/// How many kernels of some intervals ran in graphs: they are nodes of one, or a launch of a graph started them. Kineto writes
/// no nodes on ROCm.
pub(crate) fn count_graph_kernels(
    trace: &Trace,
    included: &[&PhaseInterval],
    lane: &WorkLane,
) -> u64 {
    let launches = graph_launches(trace);
    computing_kernels(included, lane)
        .filter(|(item, _)| {
            let launched = |place| launches.contains(&place);
            item.node.is_some() || item.place.is_some_and(launched)
        })
        .count() as u64
}

const GRAPH_LAUNCHES: [&str; 3] = ["cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch"];

/// Threads and times of the calls that launch graphs.
fn graph_launches(trace: &Trace) -> FxHashSet<(ThreadId, i64)> {
    let names = GRAPH_LAUNCHES.map(|name| trace.strings.find(name));
    if names.iter().all(Option::is_none) {
        return FxHashSet::default();
    }
    let hosts = &trace.hosts;
    (0..hosts.len())
        .filter(|&row| names.contains(&Some(hosts.name[row])))
        .map(|row| (hosts.thread[row], hosts.start[row]))
        .collect()
}

/// Kernels that compute and belong to the intervals, each with its time in its interval.
fn computing_kernels<'a>(
    included: &'a [&PhaseInterval],
    lane: &'a WorkLane,
) -> impl Iterator<Item = (&'a Item, i64)> + 'a {
    included.iter().flat_map(|interval| {
        lane.items[lane.items_around(interval.window())]
            .iter()
            .filter(|item| item.class == Class::Compute && item.kernel.is_some())
            .filter(|item| item.window() == Some(interval.window))
            .filter_map(|item| Some((item, item.time_inside(interval.window())?)))
    })
}
