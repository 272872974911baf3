//! The work of a traced pass as one list per device, or of the host's thread where there is no device.

use std::num::NonZeroU64;

use llmprof_record::kernel_name::Category;
use llmprof_record::trace::{HostKind, StrId, ThreadId, Trace};

use crate::labels::{is_collective_call, runs_on_host};
use crate::matching::host_operators;
use crate::timeline::device_events::{Class, DeviceEvent, EventTable, WHOLE_GRAPH};
use crate::trace::Structure;

/// One interval of work, and where on the host it comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// The host's thread and moment at which modules are looked up; absent where the call is not known.
    pub(crate) place: Option<(ThreadId, i64)>,
    /// As [`Item::window`], in half the bytes: a large trace has millions of items.
    window_number: Option<u32>,
    pub(crate) name: StrId,
    pub(crate) class: Class,
    pub(crate) category: Category,
    /// A graph that was recorded as one event.
    pub(crate) whole_graph: bool,
    /// Whether it begins a call: an operator of the host that calls others is several items.
    pub(crate) begins: bool,
    /// The row in the table of kernels, for kernels.
    pub(crate) kernel: Option<u32>,
    /// The table and row of a copy or memset.
    pub(crate) transfer: Option<(EventTable, u32)>,
    /// The node of a graph that it came from.
    pub(crate) node: Option<NonZeroU64>,
    /// The row in the table of operator calls, where the recorder knows the operator.
    pub(crate) call: Option<u32>,
}

impl Item {
    /// The window of the trace's phases that it belongs to.
    pub(crate) fn window(&self) -> Option<usize> {
        self.window_number.map(|window| window as usize)
    }

    /// When the host asked for it; `None` where the call is not known, and for work of the host itself.
    pub(crate) fn launch_time(&self) -> Option<i64> {
        let is_of_device = self.kernel.is_some() || self.transfer.is_some();
        self.place.filter(|_| is_of_device).map(|(_, time)| time)
    }

    /// Its time inside an interval, ns; `None` if it lies outside.
    pub(crate) fn time_inside(&self, (start, end): (i64, i64)) -> Option<i64> {
        let (from, to) = (self.start.max(start), self.end.min(end));
        (from < to || (from == to && (start..end).contains(&self.start)))
            .then(|| to.saturating_sub(from))
    }
}

/// Work that one device, or the host's thread, did.
pub(crate) struct WorkLane {
    /// The device; absent for the host.
    pub(crate) device: Option<u32>,
    /// Whether the recorder knows the operator of every item.
    pub(crate) is_exact: bool,
    /// Sorted by start; see [`WorkLane::items_around`].
    pub(crate) items: Vec<Item>,
    /// The latest end of all items up to each.
    ends: Vec<i64>,
}

impl WorkLane {
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
            is_exact: items.iter().any(|item| item.call.is_some()),
            items,
            ends,
        }
    }

    /// Whether an item counts in a window of the trace's phases that it reaches into. A call of a known operator counts where
    /// it begins, and there alone.
    pub(crate) fn counts_in(&self, item: &Item, window: usize) -> bool {
        !self.is_exact || item.window() == Some(window)
    }

    /// The items that may reach into an interval.
    pub(crate) fn items_around(&self, (start, end): (i64, i64)) -> std::ops::Range<usize> {
        // An item without length at the very start is inside.
        let first = self.ends.partition_point(|&latest| latest < start);
        let last = self.items.partition_point(|item| item.start < end);
        first..last.max(first)
    }
}

/// The lanes of a trace: its devices, or the host of a trace without devices.
pub(crate) fn list_lanes(trace: &Trace, structure: &Structure) -> Vec<WorkLane> {
    if !trace.operator_calls.is_empty() {
        return vec![engine_lane(trace, structure)];
    }
    if structure.events.all().is_empty() {
        return host_lane(trace, structure).into_iter().collect();
    }
    let hosts = &trace.hosts;
    let mut index = 0;
    structure
        .events
        .devices()
        .map(|events| {
            let items = events
                .iter()
                .map(|event| {
                    let call = structure.calls.call(index).map(|call| call as usize);
                    let window_number = structure
                        .windows
                        .window_of(index)
                        .map(|window| window as u32);
                    index += 1;
                    let is_kernel = event.table == EventTable::Kernels;
                    Item {
                        start: event.start,
                        end: event.end,
                        place: call.map(|call| (hosts.thread[call], hosts.start[call])),
                        window_number,
                        name: event.name,
                        class: event.class,
                        category: structure.events.class_of(event.name).category,
                        whole_graph: event.in_graph && trace.text(event.name) == WHOLE_GRAPH,
                        begins: true,
                        kernel: is_kernel.then_some(event.row),
                        transfer: (!is_kernel).then_some((event.table, event.row)),
                        node: NonZeroU64::new(graph_node(trace, event)),
                        call: None,
                    }
                })
                .collect();
            WorkLane::new(events.first().map(|event| event.device), items)
        })
        .filter(|lane| {
            let is_judged = |device| structure.judged_devices.contains(&device);
            lane.device.is_some_and(is_judged)
        })
        .collect()
}

fn window_of_launch(structure: &Structure, time: i64) -> Option<u32> {
    let window = structure.phases.at_launch(time);
    window.map(|window| window as u32)
}

/// The node of a graph that an event came from, 0 for none.
fn graph_node(trace: &Trace, event: &DeviceEvent) -> u64 {
    let nodes = match event.table {
        EventTable::Kernels => &trace.kernels.graph_node,
        EventTable::Copies => &trace.copies.graph_node,
        EventTable::Memsets => &trace.memsets.graph_node,
    };
    nodes[event.row as usize]
}

/// The operator calls of llmprof's engine: intervals of its coordinating thread.
fn engine_lane(trace: &Trace, structure: &Structure) -> WorkLane {
    let (hosts, calls) = (&trace.hosts, &trace.operator_calls);
    let mut items: Vec<Item> = (0..hosts.len())
        .filter(|&row| hosts.kind[row] == HostKind::OPERATOR)
        .map(|row| {
            let (start, external) = (hosts.start[row], hosts.external[row]);
            let at = calls.external.partition_point(|&known| known < external);
            Item {
                start,
                end: start.saturating_add(hosts.duration[row]),
                place: Some((hosts.thread[row], start)),
                window_number: window_of_launch(structure, start),
                name: hosts.name[row],
                class: Class::Compute,
                category: Category::Other,
                whole_graph: false,
                begins: true,
                kernel: None,
                transfer: None,
                node: None,
                call: (calls.external.get(at) == Some(&external)).then_some(at as u32),
            }
        })
        .collect();
    items.sort_by_key(|item| (item.start, item.end));
    WorkLane::new(None, items)
}

fn host_lane(trace: &Trace, structure: &Structure) -> Option<WorkLane> {
    let (thread, leaves) = host_operators::operator_leaves(trace)?;
    let mut items: Vec<Item> = leaves
        .iter()
        .map(|leaf| {
            // The thread waits in it, for the other ranks or for the thread of the backend.
            let (class, category) = if is_collective_call(trace.text(leaf.name)) {
                (Class::Communication, Category::Communication)
            } else {
                (Class::Compute, leaf.category)
            };
            Item {
                start: leaf.start,
                end: leaf.end,
                place: Some((thread, leaf.start)),
                window_number: window_of_launch(structure, leaf.start),
                name: leaf.name,
                class,
                category,
                whole_graph: false,
                begins: leaf.begins,
                kernel: None,
                transfer: None,
                node: None,
                call: None,
            }
        })
        .collect();
    items.extend(host_collectives(trace, structure));
    items.sort_by_key(|item| (item.start, item.end));
    Some(WorkLane::new(None, items))
}

/// Collectives that the CPU runs, on threads of their backend.
fn host_collectives(trace: &Trace, structure: &Structure) -> Vec<Item> {
    let table = &trace.collectives;
    let rows = (0..table.len()).filter(|&row| runs_on_host(trace.text(table.name[row])));
    rows.map(|row| Item {
        start: table.start[row],
        end: table.start[row].saturating_add(table.duration[row]),
        place: Some((table.thread[row], table.start[row])),
        window_number: window_of_launch(structure, table.start[row]),
        name: table.name[row],
        class: Class::Communication,
        category: Category::Communication,
        whole_graph: false,
        begins: true,
        kernel: None,
        transfer: None,
        node: None,
        call: None,
    })
    .collect()
}
