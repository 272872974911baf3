//! The work of a traced pass as one list per device, or of the host's thread where there is no device.

use llmprof_record::kernel_name::Category;
use llmprof_record::trace::{StrId, ThreadId, Trace};

use super::host_operators;
use crate::analysis::Structure;
use crate::device_events::{Class, DeviceEvent, Table};

/// One interval of work, and where on the host it comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) start: i64,
    pub(super) end: i64,
    /// When the host asked for it; absent where the call is not known, and for work of the host itself.
    pub(super) launched: Option<i64>,
    /// The host's thread and moment at which modules are looked up; absent where the call is not known.
    pub(super) place: Option<(ThreadId, i64)>,
    /// The window of the trace's phases that it belongs to.
    pub(super) window: Option<usize>,
    pub(super) name: StrId,
    pub(super) class: Class,
    pub(super) category: Category,
    /// A graph that was recorded as one event.
    pub(super) whole_graph: bool,
    /// Whether it begins a call: an operator of the host that calls others is several items.
    pub(super) begins: bool,
    /// The row in the table of kernels, for kernels.
    pub(super) kernel: Option<u32>,
    /// The node of a graph that it came from.
    pub(super) node: Option<u64>,
}

impl Item {
    /// The part inside a stretch, ns; nothing where it lies outside.
    pub(super) fn inside(&self, (start, end): (i64, i64)) -> Option<i64> {
        let (from, to) = (self.start.max(start), self.end.min(end));
        (from < to || (from == to && (start..end).contains(&self.start)))
            .then(|| to.saturating_sub(from))
    }
}

/// Work that one device, or the host's thread, did.
pub(super) struct Lane {
    /// The device; absent for the host.
    pub(super) device: Option<u32>,
    /// In order of starts.
    pub(super) items: Vec<Item>,
    /// The latest end of all items up to each.
    ends: Vec<i64>,
}

impl Lane {
    fn new(device: Option<u32>, items: Vec<Item>) -> Self {
        let ends = items
            .iter()
            .scan(i64::MIN, |latest, item| {
                *latest = (*latest).max(item.end);
                Some(*latest)
            })
            .collect();
        Self {
            device,
            items,
            ends,
        }
    }

    /// The items that may reach into a stretch.
    pub(super) fn around(&self, (start, end): (i64, i64)) -> std::ops::Range<usize> {
        // An item without length at the very start is inside.
        let first = self.ends.partition_point(|&latest| latest < start);
        let last = self.items.partition_point(|item| item.start < end);
        first..last.max(first)
    }
}

/// The name under which importers write a graph without its kernels.
const WHOLE_GRAPH: &str = "[CUDA graph]";

/// The lanes of a trace: its devices, or the host where there are none.
pub(super) fn lanes(trace: &Trace, structure: &Structure) -> Vec<Lane> {
    if structure.events.all().is_empty() {
        return host(trace, structure).into_iter().collect();
    }
    let (hosts, attribution) = (&trace.hosts, &structure.attribution);
    let mut index = 0;
    structure
        .events
        .devices()
        .map(|events| {
            let items = events
                .iter()
                .map(|event| {
                    let call = attribution.call(index).map(|call| call as usize);
                    let window = attribution.window(index);
                    index += 1;
                    let is_kernel = event.table == Table::Kernels;
                    Item {
                        start: event.start,
                        end: event.end,
                        launched: call.map(|call| hosts.start[call]),
                        place: call.map(|call| (hosts.thread[call], hosts.start[call])),
                        window,
                        name: event.name,
                        class: event.class,
                        category: structure.events.class_of(event.name).category,
                        whole_graph: event.in_graph && trace.text(event.name) == WHOLE_GRAPH,
                        begins: true,
                        kernel: is_kernel.then_some(event.row),
                        node: Some(node(trace, event)).filter(|&node| node != 0),
                    }
                })
                .collect();
            Lane::new(events.first().map(|event| event.device), items)
        })
        .collect()
}

/// The node of a graph that an event came from, 0 for none.
fn node(trace: &Trace, event: &DeviceEvent) -> u64 {
    let nodes = match event.table {
        Table::Kernels => &trace.kernels.graph_node,
        Table::Copies => &trace.copies.graph_node,
        Table::Memsets => &trace.memsets.graph_node,
    };
    nodes[event.row as usize]
}

fn host(trace: &Trace, structure: &Structure) -> Option<Lane> {
    let (thread, leaves) = host_operators::leaves(trace)?;
    let items = leaves
        .iter()
        .map(|leaf| Item {
            start: leaf.start,
            end: leaf.end,
            launched: None,
            place: Some((thread, leaf.start)),
            window: structure.phases.at(leaf.start),
            name: leaf.name,
            class: Class::Compute,
            category: leaf.category,
            whole_graph: false,
            begins: leaf.begins,
            kernel: None,
            node: None,
        })
        .collect();
    Some(Lane::new(None, items))
}
