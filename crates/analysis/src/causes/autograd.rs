//! Gradients that nobody asks for: autograd makes a node for each operator, and keeps what a backward pass would need.

use crate::thresholds::{AUTOGRAD_COMPARED_CALLS_MIN, AUTOGRAD_NODES_MIN};
use std::collections::BTreeMap;

use llmprof_record::trace::StrId;
use llmprof_units::{Nanos, stats::upper_median};

use super::cause::CauseKind;
use super::{CauseCandidate, Scene};
use crate::replay::Edit;

pub(super) fn find_autograd(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    if scene.trace.autograd_sequences.is_empty() {
        return Vec::new();
    }
    let with_node = operators_with_node(scene);
    if with_node.len() < AUTOGRAD_NODES_MIN * scene.steps.max(1) as usize {
        return Vec::new();
    }
    let Some(node_ns) = node_cost(scene, &with_node) else {
        return Vec::new();
    };
    let mut edit = Edit::default();
    for &row in &with_node {
        let own = own_segments(scene, row);
        let longest = own.max_by_key(|&segment| scene.graph.segment_duration(segment));
        if let Some(segment) = longest {
            edit.shorten_segment(segment, node_ns);
        }
    }
    vec![CauseCandidate {
        kind: CauseKind::Autograd {
            node_ns: Nanos(node_ns),
        },
        place: scene.place(with_node[0]),
        count: with_node.len() as u64,
        edit,
        partial: None,
    }]
}

/// Rows of operators after which autograd's graph has one node more. The innermost operator makes the node.
fn operators_with_node(scene: &Scene<'_>) -> Vec<usize> {
    let rows = scene.tops.iter().flat_map(|&top| scene.rows_in(top));
    let mut rows: Vec<(usize, u64)> = rows
        .filter(|&row| scene.is_operator(row))
        .filter_map(|row| {
            let external = scene.trace.hosts.external[row];
            Some((row, scene.trace.autograd_sequence(external)?))
        })
        .collect();
    rows.dedup();
    let makes_node = |pair: &[(usize, u64)]| (pair[0].1 < pair[1].1).then_some(pair[0].0);
    rows.windows(2).filter_map(makes_node).collect()
}

/// Segments in which an operator itself runs, and nothing that it calls.
fn own_segments<'a>(scene: &'a Scene<'_>, row: usize) -> impl Iterator<Item = usize> + 'a {
    let segments = scene.graph.segments_of_row(row);
    segments.filter(move |&segment| scene.graph.row_of_segment(segment) == Some(row))
}

/// What a node takes on the host, ns: how much longer operators with one run than the same operators without, median over the
/// nodes. `None` where no operator runs both ways, or those with a node run no longer.
fn node_cost(scene: &Scene<'_>, with_node: &[usize]) -> Option<i64> {
    let mut times: BTreeMap<StrId, [Vec<i64>; 2]> = BTreeMap::new();
    for row in scene.tops.iter().flat_map(|&top| scene.rows_in(top)) {
        if scene.is_operator(row) {
            let own = own_segments(scene, row);
            let time = own
                .map(|segment| scene.graph.segment_duration(segment))
                .sum();
            let has_node = with_node.binary_search(&row).is_ok();
            let name = scene.trace.hosts.name[row];
            times.entry(name).or_default()[usize::from(has_node)].push(time);
        }
    }
    // The median of each operator counts as often as it makes a node.
    let mut longer: Vec<(i64, usize)> = Vec::new();
    for [without, with] in times.values_mut() {
        if without.len().min(with.len()) >= AUTOGRAD_COMPARED_CALLS_MIN {
            longer.push((upper_median(with)? - upper_median(without)?, with.len()));
        }
    }
    longer.sort_unstable();
    let nodes: usize = longer.iter().map(|(_, count)| count).sum();
    let mut passed = 0;
    let middle = longer.into_iter().find(|(_, count)| {
        passed += count;
        2 * passed >= nodes
    });
    middle.map(|(cost, _)| cost).filter(|&cost| cost > 0)
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    /// Steps of 60 views, 40 of which make a node and take `us` longer.
    fn sketch_views(us: i64, has_nodes: bool) -> Sketch {
        let mut sketch = Sketch::default();
        sketch.steps = 2;
        for _ in 0..2 {
            sketch.matrix_product(16, 1024, 1024, 5);
            for view in 0..60 {
                let makes_node = view % 3 > 0;
                let time = if makes_node { 5 + us } else { 5 };
                sketch.operator_of_autograd("aten::view", time, has_nodes && makes_node);
            }
            sketch.synchronize();
        }
        sketch
    }

    #[test]
    fn nodes_that_no_backward_pass_reads_are_a_cause() {
        let diagnosed = sketch_views(3, true).diagnose();
        let (saved, now) = diagnosed.gain_of("autograd").unwrap();
        assert!((0.11..0.13).contains(&saved), "{saved} of {now} ms");
        // As with anomaly detection, where each node keeps the Python stack.
        let diagnosed = sketch_views(200, true).diagnose();
        let (saved, now) = diagnosed.gain_of("autograd").unwrap();
        assert!((7.9..8.1).contains(&saved), "{saved} of {now} ms");
    }

    #[test]
    fn numbers_that_do_not_grow_are_none() {
        let diagnosed = sketch_views(200, false).diagnose();
        assert!(diagnosed.cause("autograd").is_none());
    }

    #[test]
    fn nodes_that_cost_nothing_are_none() {
        let diagnosed = sketch_views(0, true).diagnose();
        assert!(diagnosed.cause("autograd").is_none());
    }
}
