//! Nodes of CUDA graphs, and where they were captured.

use llmprof_wire::GraphNode;

use super::Process;
use crate::trace::{self, StrId};

/// A node, as the file describes it.
#[derive(Clone, Copy)]
pub(super) struct Node {
    original: u64,
    graph: u32,
    time: i64,
    thread: u32,
    ranges: StrId,
}

impl Process<'_> {
    pub(super) fn graph_node(&mut self, node: &GraphNode<'_>) {
        let ranges: Vec<String> = node
            .text
            .split(|&byte| byte == 0x1f)
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect();
        let ranges = self.builder.intern(&ranges.join("/"));
        self.nodes.insert(
            node.node,
            Node {
                original: node.original,
                graph: node.graph,
                time: node.time,
                thread: node.thread,
                ranges,
            },
        );
    }

    /// Where a node was captured: its own place, or that of the node that it is a copy of.
    fn origin(&self, node: u64) -> Option<Node> {
        let mut origin = *self.nodes.get(&node)?;
        let own_graph = origin.graph;
        // A copy of a copy is possible; a ring is damage.
        for _ in 0..16 {
            match origin.original {
                0 => break,
                original => origin = *self.nodes.get(&original)?,
            }
        }
        origin.graph = own_graph;
        Some(origin)
    }

    pub(super) fn graph_nodes(&mut self) {
        for node in std::mem::take(&mut self.used_nodes) {
            let Some(origin) = self.origin(node) else {
                continue;
            };
            let row = trace::GraphNode {
                node: self.node(node),
                graph: self.graph(origin.graph),
                time: origin.time,
                thread: self.builder.thread(self.id, i64::from(origin.thread)),
                ranges: origin.ranges,
            };
            self.builder.graph_nodes.push(row);
        }
    }
}
