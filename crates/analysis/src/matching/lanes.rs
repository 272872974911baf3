//! The work of a traced pass as one list per device, or of the host's thread where there is no device.

use llmprof_record::kernel_name::Category;
use llmprof_record::trace::{HostKind, StrId, ThreadId, Trace};

use crate::labels::runs_on_host;
use crate::matching::host_operators;
use crate::timeline::device_events::{Class, DeviceEvent, Table, WHOLE_GRAPH};
use crate::trace::Structure;

/// One interval of work, and where on the host it comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// When the host asked for it; absent where the call is not known, and for work of the host itself.
    pub(crate) launched: Option<i64>,
    /// The host's thread and moment at which modules are looked up; absent where the call is not known.
    pub(crate) place: Option<(ThreadId, i64)>,
    /// The window of the trace's phases that it belongs to.
    pub(crate) window: Option<usize>,
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
    pub(crate) transfer: Option<(Table, u32)>,
    /// The node of a graph that it came from.
    pub(crate) node: Option<u64>,
    /// The row in the table of operator calls, where the recorder knows the operator.
    pub(crate) call: Option<u32>,
}

impl Item {
    /// The part inside an interval, ns; nothing where it lies outside.
    pub(crate) fn inside(&self, (start, end): (i64, i64)) -> Option<i64> {
        let (from, to) = (self.start.max(start), self.end.min(end));
        (from < to || (from == to && (start..end).contains(&self.start)))
            .then(|| to.saturating_sub(from))
    }
}

/// Work that one device, or the host's thread, did.
pub(crate) struct Lane {
    /// The device; absent for the host.
    pub(crate) device: Option<u32>,
    /// Whether the recorder knows the operator of every item.
    pub(crate) is_exact: bool,
    /// In order of starts.
    pub(crate) items: Vec<Item>,
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
            is_exact: items.iter().any(|item| item.call.is_some()),
            items,
            ends,
        }
    }

    /// Whether an item counts in a window of the trace's phases that it reaches into. A call of a known operator counts where
    /// it begins, and there alone.
    pub(crate) fn holds(&self, item: &Item, window: usize) -> bool {
        !self.is_exact || item.window == Some(window)
    }

    /// The items that may reach into an interval.
    pub(crate) fn around(&self, (start, end): (i64, i64)) -> std::ops::Range<usize> {
        // An item without length at the very start is inside.
        let first = self.ends.partition_point(|&latest| latest < start);
        let last = self.items.partition_point(|item| item.start < end);
        first..last.max(first)
    }
}

/// The lanes of a trace: its devices, or the host where there are none.
pub(crate) fn lanes(trace: &Trace, structure: &Structure) -> Vec<Lane> {
    if !trace.operator_calls.is_empty() {
        return vec![engine(trace, structure)];
    }
    if structure.events.all().is_empty() {
        return host(trace, structure).into_iter().collect();
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
                    let window = structure.windows.get(index);
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
                        transfer: (!is_kernel).then_some((event.table, event.row)),
                        node: Some(node(trace, event)).filter(|&node| node != 0),
                        call: None,
                    }
                })
                .collect();
            Lane::new(events.first().map(|event| event.device), items)
        })
        .filter(|lane| {
            let is_judged = |device| structure.judged_devices.contains(&device);
            lane.device.is_some_and(is_judged)
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

/// The operator calls of llmprof's engine: intervals of its coordinating thread.
fn engine(trace: &Trace, structure: &Structure) -> Lane {
    let (hosts, calls) = (&trace.hosts, &trace.operator_calls);
    let mut items: Vec<Item> = (0..hosts.len())
        .filter(|&row| hosts.kind[row] == HostKind::OPERATOR)
        .map(|row| {
            let (start, external) = (hosts.start[row], hosts.external[row]);
            let at = calls.external.partition_point(|&known| known < external);
            Item {
                start,
                end: start.saturating_add(hosts.duration[row]),
                launched: None,
                place: Some((hosts.thread[row], start)),
                window: structure.phases.at_launch(start),
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
    Lane::new(None, items)
}

fn host(trace: &Trace, structure: &Structure) -> Option<Lane> {
    let (thread, leaves) = host_operators::leaves(trace)?;
    let mut items: Vec<Item> = leaves
        .iter()
        .map(|leaf| Item {
            start: leaf.start,
            end: leaf.end,
            launched: None,
            place: Some((thread, leaf.start)),
            window: structure.phases.at_launch(leaf.start),
            name: leaf.name,
            class: Class::Compute,
            category: leaf.category,
            whole_graph: false,
            begins: leaf.begins,
            kernel: None,
            transfer: None,
            node: None,
            call: None,
        })
        .collect();
    items.extend(host_collectives(trace, structure));
    items.sort_by_key(|item| (item.start, item.end));
    Some(Lane::new(None, items))
}

/// Collectives that the CPU runs, on threads of their backend.
fn host_collectives(trace: &Trace, structure: &Structure) -> Vec<Item> {
    let table = &trace.collectives;
    let rows = (0..table.len()).filter(|&row| runs_on_host(trace.text(table.name[row])));
    rows.map(|row| Item {
        start: table.start[row],
        end: table.start[row].saturating_add(table.duration[row]),
        launched: None,
        place: Some((table.thread[row], table.start[row])),
        window: structure.phases.at_launch(table.start[row]),
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
