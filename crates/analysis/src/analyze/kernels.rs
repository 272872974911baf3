//! The kernels of a phase: how many, how many of graphs, those too small for the device, those beside products and attention.

use llmprof_record::kernel_name::Category;
use llmprof_record::trace::StrId;
use llmprof_units::Nanos;
use rustc_hash::FxHashMap;

use crate::analyze::phase_intervals::Interval;
use crate::analyze::tracing::Tracing;
use crate::matching::kernel_table::{Purpose, WorkGroup, purpose};
use crate::matching::lanes::{Item, Lane};
use crate::phase_facts::{Glue, PhaseKernel};
use crate::timeline::device_events::Class;
use crate::timeline::intervals::union_length;

/// Kernels of a phase that are named.
const MOST_KERNELS: usize = 20;

impl Tracing<'_> {
    /// The kernels of some intervals that neither multiply by weights nor attend; absent for the host, where a graph hides
    /// its kernels, and for programs that run no model.
    pub(crate) fn glue(&self, included: &[&Interval], lane: &Lane) -> Option<Glue> {
        lane.device?;
        let mut glue = Glue::default();
        let mut heavy = 0_u64;
        for (item, time) in computing(included, lane) {
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
            let is_glue = match purpose(item.category, name) {
                Purpose::Operators(group) if is_heavy(group) => {
                    heavy += 1;
                    false
                }
                Purpose::Operators(_) | Purpose::Extra => true,
                Purpose::Unknown => false,
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
    pub(super) fn longest_kernels(&self, included: &[&Interval], lane: &Lane) -> Vec<PhaseKernel> {
        if lane.device.is_none() {
            return Vec::new();
        }
        let mut sums: FxHashMap<StrId, (Category, u64, i64)> = FxHashMap::default();
        for interval in included {
            for item in &lane.items[lane.around(interval.window())] {
                let time = item.kernel.and(item.inside(interval.window()));
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
        rows.sort_by(|a, b| b.time_ns.cmp(&a.time_ns).then_with(|| a.name.cmp(&b.name)));
        rows.truncate(MOST_KERNELS);
        rows
    }

    /// Part of the busy time in kernels that cannot fill the device.
    pub(super) fn small_kernels(
        &self,
        included: &[&Interval],
        lane: &Lane,
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
            for item in &lane.items[lane.around(interval.window())] {
                let Some(row) = item.kernel.filter(|_| !item.whole_graph) else {
                    continue;
                };
                let blocks: f64 = kernels.grid[row as usize]
                    .iter()
                    .map(|&size| f64::from(size))
                    .product();
                if blocks > 0.0 && blocks < units && item.inside(interval.window()).is_some() {
                    small.push((item.start.max(start), item.end.min(end)));
                }
            }
            // Busy time is a union, and so is this: kernels that run at once count once.
            time = time.saturating_add(union_length(small));
        }
        (busy > 0).then(|| time as f64 / busy as f64)
    }
}

/// How many kernels reach into some intervals.
pub(super) fn kernels(included: &[&Interval], lane: &Lane) -> u64 {
    let of = |interval: &&Interval| {
        let items = lane.items[lane.around(interval.window())].iter();
        items
            .filter(|item| matches!(item.class, Class::Compute | Class::Communication))
            .filter(|item| item.inside(interval.window()).is_some())
            .count() as u64
    };
    included.iter().map(of).sum()
}

/// How many kernels of some intervals were nodes of graphs.
pub(crate) fn in_graphs(included: &[&Interval], lane: &Lane) -> u64 {
    computing(included, lane)
        .filter(|(item, _)| item.node.is_some())
        .count() as u64
}

/// Kernels that compute, each with its time in its interval.
fn computing<'a>(
    included: &'a [&Interval],
    lane: &'a Lane,
) -> impl Iterator<Item = (&'a Item, i64)> + 'a {
    included.iter().flat_map(|interval| {
        lane.items[lane.around(interval.window())]
            .iter()
            .filter(|item| item.class == Class::Compute && item.kernel.is_some())
            .filter_map(|item| Some((item, item.inside(interval.window())?)))
    })
}
