//! What ran in a phase, by name, with the places that launched it.

use llmprof_record::kernel_name::canonical;
use llmprof_record::trace::{StrId, Trace};
use rustc_hash::FxHashMap;

use super::facts::WorkRow;
use crate::matching::lanes::{Item, WorkLane, list_lanes};
use crate::phase_analysis::PhaseAnalysis;
use crate::row_order::sort_descending_named;
use crate::timeline::device_events::Class;
use crate::trace::{Said, Structure};

/// Maximum length of [`PhaseWork::sequence`]: a decode step of a large model has about a thousand events.
const SEQUENCE_EVENTS_MAX: usize = 2000;
/// Maximum number of places in a row.
const ROW_PLACES_MAX: usize = 8;

/// A trace with the indices by which the work of its phases is collected.
pub(super) struct WorkedTrace<'t> {
    trace: &'t Trace,
    pub(super) structure: Structure,
    lanes: Vec<WorkLane>,
    /// By node of a CUDA graph, the ranges that were open when it was captured.
    nodes: FxHashMap<u64, StrId>,
}

/// Work of a phase: rows, and the order of one range.
pub(super) struct PhaseWork {
    pub(super) rows: Vec<WorkRow>,
    pub(super) sequence: Vec<u32>,
}

#[derive(Default)]
struct WorkSum {
    category: &'static str,
    calls: u64,
    time: i64,
    places: FxHashMap<String, i64>,
}

impl<'t> WorkedTrace<'t> {
    pub(super) fn from_trace(trace: &'t Trace) -> Self {
        let structure = Structure::from_trace(trace, &Said::default());
        let lanes = list_lanes(trace, &structure);
        let nodes = &trace.graph_nodes;
        Self {
            nodes: (0..nodes.len())
                .map(|row| (nodes.node[row], nodes.ranges[row]))
                .collect(),
            trace,
            structure,
            lanes,
        }
    }

    /// Sums the events of a phase's device, clipped to its ranges as in the waterfall; `None` for the host, whose operators the phase
    /// itself lists.
    pub(super) fn phase_work(&self, phase: &PhaseAnalysis, steps: f64) -> Option<PhaseWork> {
        let device = phase.device()?;
        let traced = phase.traced.as_ref()?;
        let mut first = 0;
        let mut own_lane = None;
        for lane in &self.lanes {
            if lane.device == Some(device) {
                own_lane = Some(lane);
                break;
            }
            first += lane.items.len();
        }
        let lane = own_lane?;
        let mut sums: Vec<(String, WorkSum)> = Vec::new();
        let mut by_id: FxHashMap<StrId, u32> = FxHashMap::default();
        let mut by_name: FxHashMap<String, u32> = FxHashMap::default();
        let mut sequence = Vec::new();
        let judged = traced.instances.iter().filter(|one| !one.left_out);
        for (number, instance) in judged.enumerate() {
            let window = (
                instance.start_ns.0,
                instance.start_ns.0.saturating_add(instance.wall_ns.0),
            );
            for index in lane.items_around(window) {
                let item = &lane.items[index];
                let Some(time) = item.time_inside(window) else {
                    continue;
                };
                let row = *by_id.entry(item.name).or_insert_with(|| {
                    let name = self.item_name(item);
                    *by_name.entry(name.clone()).or_insert_with(|| {
                        sums.push((
                            name,
                            WorkSum {
                                category: item_category(item),
                                ..WorkSum::default()
                            },
                        ));
                        sums.len() as u32 - 1
                    })
                });
                let sum = &mut sums[row as usize].1;
                // A kernel that reaches into two ranges ran once.
                sum.calls += u64::from(item.start >= window.0);
                sum.time = sum.time.saturating_add(time);
                if let Some(place) = self.launch_place(first + index, item) {
                    let at = sum.places.entry(place).or_default();
                    *at = at.saturating_add(time);
                }
                if number == 0 && sequence.len() < SEQUENCE_EVENTS_MAX {
                    sequence.push(row);
                }
            }
        }
        let rows = sums
            .into_iter()
            .map(|(name, sum)| sum.into_row(name, steps));
        Some(PhaseWork {
            rows: rows.collect(),
            sequence,
        })
    }

    fn item_name(&self, item: &Item) -> String {
        let text = self.trace.text(item.name);
        match item.kernel {
            Some(_) => canonical(text),
            None => text.to_owned(),
        }
    }

    /// The module, else the framework's operator, that launched event `index`.
    fn launch_place(&self, index: usize, item: &Item) -> Option<String> {
        let attribution = &self.structure.attribution;
        let captured = item
            .node
            .and_then(|node| self.nodes.get(&node.get()).copied());
        let captured = captured.map(|ranges| self.trace.text(ranges).to_owned());
        let ranges = captured.or_else(|| attribution.text(self.trace, attribution.ranges(index)));
        let modules = || attribution.text(self.trace, attribution.modules(index));
        if let Some(module) = ranges.as_deref().and_then(innermost_module) {
            return Some(module);
        }
        if let Some(module) = modules() {
            return Some(without_numbers(&module));
        }
        let row = attribution.operator(index)? as usize;
        let name = self.trace.hosts.name[row];
        Some(self.trace.text(name).to_owned())
    }
}

impl WorkSum {
    fn into_row(self, name: String, steps: f64) -> WorkRow {
        let mut places: Vec<(String, i64)> = self.places.into_iter().collect();
        sort_descending_named(&mut places, |(place, time)| (*time, place));
        places.truncate(ROW_PLACES_MAX);
        WorkRow {
            name,
            category: self.category.to_owned(),
            calls: self.calls as f64 / steps,
            time_ns: self.time as f64 / steps,
            places: places.into_iter().map(|(place, _)| place).collect(),
        }
    }
}

fn item_category(item: &Item) -> &'static str {
    match item.class {
        Class::Copy => "copy",
        Class::Memset => "memset",
        Class::Communication => "communication",
        Class::Compute => item.category.name(),
    }
}

/// The innermost range that is named by a module's path, with `*` for numbers: `model.layers.*.self_attn`.
fn innermost_module(ranges: &str) -> Option<String> {
    let names = ranges.split('/').rev();
    let mut modules = names.filter(|name| {
        name.contains('.')
            && name
                .chars()
                .all(|c| c.is_alphanumeric() || "._".contains(c))
    });
    modules.next().map(without_numbers)
}

fn without_numbers(path: &str) -> String {
    let is_number = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    let slashes = path.split('/').map(|step| {
        let parts = step.split('.');
        let parts: Vec<&str> = parts
            .map(|part| if is_number(part) { "*" } else { part })
            .collect();
        // torch numbers the calls of modules: `Linear_3`.
        let joined = parts.join(".");
        match joined.rsplit_once('_') {
            Some((name, number)) if is_number(number) && !name.contains('.') => name.to_owned(),
            _ => joined,
        }
    });
    slashes.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_the_innermost_dotted_ranges() {
        assert_eq!(
            innermost_module("decode/model/model.layers.3.self_attn").as_deref(),
            Some("model.layers.*.self_attn")
        );
        assert_eq!(innermost_module("decode/decode_step"), None);
        assert_eq!(
            without_numbers("Qwen2Model_0/Linear_12"),
            "Qwen2Model/Linear"
        );
    }
}
