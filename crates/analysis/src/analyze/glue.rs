//! Kernels beside the products and attention of a phase.

use llmprof_units::Nanos;

use crate::analyze::phase::Tracing;
use crate::analyze::stretches::Stretch;
use crate::matching::kernel_table::{Purpose, WorkGroup, purpose};
use crate::matching::lanes::{Item, Lane};
use crate::phase_facts::Glue;
use crate::timeline::device_events::Class;

impl Tracing<'_> {
    /// The kernels of some stretches that neither multiply by weights nor attend; absent for the host, and where a graph hides
    /// its kernels.
    pub(crate) fn glue(&self, included: &[&Stretch], lane: &Lane) -> Option<Glue> {
        lane.device?;
        let mut glue = Glue::default();
        for (item, time) in kernels(included, lane) {
            if item.whole_graph {
                return None;
            }
            let name = self.trace.text(item.name);
            let is_glue = match purpose(item.category, name) {
                Purpose::Operators(group) => !matches!(
                    group,
                    WorkGroup::Products | WorkGroup::Attention | WorkGroup::Convolutions
                ),
                Purpose::Extra => true,
                Purpose::Unknown => false,
            };
            if is_glue {
                glue.kernels += 1;
                glue.time_ns = Nanos(glue.time_ns.0.saturating_add(time));
                glue.fused += u64::from(name.starts_with("triton_") && name.contains("_fused_"));
            }
        }
        Some(glue)
    }
}

/// How many kernels of some stretches were nodes of graphs.
pub(crate) fn in_graphs(included: &[&Stretch], lane: &Lane) -> u64 {
    kernels(included, lane)
        .filter(|(item, _)| item.node.is_some())
        .count() as u64
}

/// Kernels that compute, each with its time in its stretch.
fn kernels<'a>(
    included: &'a [&Stretch],
    lane: &'a Lane,
) -> impl Iterator<Item = (&'a Item, i64)> + 'a {
    included.iter().flat_map(|stretch| {
        lane.items[lane.around(stretch.window())]
            .iter()
            .filter(|item| item.class == Class::Compute && item.kernel.is_some())
            .filter_map(|item| Some((item, item.inside(stretch.window())?)))
    })
}
