//! The order of rows in a finished trace.
//!
//! Every comparison goes on through all fields that can differ, so that two files with the same events in another
//! order give equal traces.

use std::cmp::{Ordering, Reverse};

use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;

use super::{
    AutogradSequences, Collectives, Copies, GraphNodes, HostSamples, Hosts, Kernels,
    LaunchedKernels, MemoryEvents, Memsets, OperatorCalls, Ranges, Syncs, ThreadId, Threads,
};

/// The rows in sorted order, or nothing where they already are.
fn sorted_rows(rows: usize, compare: impl Fn(usize, usize) -> Ordering + Sync) -> Option<Vec<u32>> {
    let in_order = |row: usize| compare(row - 1, row) != Ordering::Greater;
    if (1..rows)
        .into_par_iter()
        .with_min_len(1 << 13)
        .all(in_order)
    {
        return None;
    }
    let mut order: Vec<u32> = (0..rows as u32).collect();
    // A stable merge sort: files consist of a few long runs that are in order already.
    order.par_sort_by(|&a, &b| compare(a as usize, b as usize));
    Some(order)
}

macro_rules! sorts {
    ($( $(#[$doc:meta])* $function:ident($table:ident) by |$t:ident, $i:ident| [$($key:expr),* $(,)?]; )*) => { $(
        $(#[$doc])*
        pub(super) fn $function(table: &mut $table) {
            let $t = &*table;
            let order = sorted_rows(table.len(), |left, right| {
                // One field after the other: ties past the second are rare, so most fields are not touched.
                $( {
                    let key = |$i: usize| $key;
                    match key(left).cmp(&key(right)) {
                        Ordering::Equal => {}
                        unequal => return unequal,
                    }
                } )*
                Ordering::Equal
            });
            if let Some(order) = order {
                table.permute(&order);
            }
        }
    )* };
}

sorts! {
    /// Outer slices before inner ones on each thread.
    sort_hosts(Hosts) by |t, i| [
        t.thread[i], t.start[i], Reverse(t.duration[i]), t.kind[i], t.external[i], t.correlation[i],
        t.python_id[i], t.name[i], t.inputs[i], t.python_parent[i],
    ];
    sort_kernels(Kernels) by |t, i| [
        t.device[i], t.start[i], t.stream[i], t.duration[i], t.correlation[i], t.name[i], t.graph_node[i],
        t.context[i], t.external[i], t.graph[i], t.grid[i], t.block[i], t.registers[i], t.static_shared[i],
        t.dynamic_shared[i], t.occupancy[i].to_bits(), t.mangled[i],
    ];
    sort_copies(Copies) by |t, i| [
        t.device[i], t.start[i], t.stream[i], t.duration[i], t.correlation[i], t.bytes[i], t.name[i], t.graph_node[i],
        t.context[i], t.external[i], t.graph[i], t.kind[i], t.source[i], t.target[i],
    ];
    sort_memsets(Memsets) by |t, i| [
        t.device[i], t.start[i], t.stream[i], t.duration[i], t.correlation[i], t.bytes[i], t.name[i], t.graph_node[i],
        t.context[i], t.external[i], t.graph[i], t.target[i],
    ];
    sort_ranges(Ranges) by |t, i| [
        t.thread[i], t.start[i], Reverse(t.duration[i]), t.device[i], t.stream[i], t.kind[i], t.external[i],
        t.domain[i], t.name[i],
    ];
    sort_memory(MemoryEvents) by |t, i| [
        t.time[i], t.thread[i], t.place[i], t.device[i], t.address[i], t.bytes[i], t.allocated[i], t.reserved[i],
    ];
    sort_syncs(Syncs) by |t, i| [
        t.device[i], t.start[i], t.stream[i], t.duration[i], t.correlation[i], t.kind[i], t.name[i], t.context[i],
        t.external[i],
    ];
    sort_graph_nodes(GraphNodes) by |t, i| [t.node[i], t.graph[i], t.time[i], t.thread[i], t.ranges[i]];
    sort_operator_calls(OperatorCalls) by |t, i| [t.external[i], t.kind[i], t.dtype[i], t.groups[i], t.m[i], t.n[i], t.k[i], t.experts[i]];
    sort_autograd_sequences(AutogradSequences) by |t, i| [t.external[i], t.sequence[i]];
    sort_launched_kernels(LaunchedKernels) by |t, i| [t.correlation[i], t.kernel[i]];
    sort_host_samples(HostSamples) by |t, i| [
        t.time[i], t.thread[i], t.cpu[i], t.wait[i], t.stack[i], t.call[i], t.gil_holder[i], t.collecting[i], t.period[i],
    ];
    sort_collectives(Collectives) by |t, i| [
        t.thread[i], t.start[i], Reverse(t.duration[i]), t.correlation[i], t.name[i], t.process_group[i], t.group_ranks[i],
        t.group_size[i], t.sequence[i], t.in_elements[i], t.out_elements[i], t.dtype[i],
    ];
}

/// Sorts threads by their numbers, "none" staying first; the map gives the new id of an old one.
pub(super) fn sort_threads(threads: &mut Threads) -> Vec<ThreadId> {
    let mut order: Vec<u32> = (0..threads.len() as u32).collect();
    order[1..].sort_by_key(|&row| {
        let thread = threads.row(row as usize);
        (
            thread.process,
            thread.thread,
            thread.process_label,
            thread.label,
        )
    });
    let mut map = vec![ThreadId::NONE; threads.len()];
    for (new, &old) in order.iter().enumerate() {
        map[old as usize] = ThreadId(new as u32);
    }
    threads.permute(&order);
    map
}
