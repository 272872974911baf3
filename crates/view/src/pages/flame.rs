//! What host threads did, as a tree of stacks.

use llmprof_analysis::host_stacks::flame_stacks;
use llmprof_record::flame::FlameStack;
use llmprof_record::trace::HostKind;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use crate::opened_run::OpenedRun;

/// Frames below this part of the whole are left out of the tree: they are narrower than a pixel of the widest screen.
const SHARE_MIN: f64 = 1.0 / 4096.0;

const NO_STACKS: &str = "No host stacks were recorded. llmprof record samples them; torch.profiler records Python functions with with_stack=True.";

/// Stacks of other threads say nothing about a device.
const NO_CALLS: &str = "Host stacks are shown of threads that call a GPU, and none here does. Timeline shows the recorded functions, Query has them in host_op and sample.";

pub(super) fn flame_json(run: &OpenedRun) -> Value {
    let Some(trace) = run.record.trace() else {
        return json!({"why": "This run has no trace, and host stacks are part of one."});
    };
    let whole = flame_stacks(trace, false);
    if whole.is_empty() {
        let is_recorded =
            trace.hosts.kind.contains(&HostKind::PYTHON) || !trace.host_samples.is_empty();
        let why = if is_recorded { NO_CALLS } else { NO_STACKS };
        return json!({"why": why});
    }
    let idle = flame_stacks(trace, true);
    json!({
        "is_sampled": !trace.host_samples.is_empty(),
        "whole": tree_json(&whole), "idle": tree_json(&idle),
    })
}

/// One frame under its callers.
#[derive(Default)]
struct FlameNode {
    total_ns: i64,
    /// By the number of the name, in the order of the stacks.
    children: Vec<(usize, FlameNode)>,
}

/// `{names, tree}`: a node is `[name, total_ns, children]`.
fn tree_json(stacks: &[FlameStack]) -> Value {
    let mut numbers: FxHashMap<&str, usize> = FxHashMap::default();
    let mut names: Vec<&str> = Vec::new();
    let mut root = FlameNode::default();
    for stack in stacks {
        let time = stack.time_ns.0;
        root.total_ns += time;
        let mut node = &mut root;
        for frame in &stack.frames {
            let name = *numbers.entry(frame).or_insert_with(|| {
                names.push(frame);
                names.len() - 1
            });
            let known = node.children.iter().position(|(child, _)| *child == name);
            let place = known.unwrap_or_else(|| {
                node.children.push((name, FlameNode::default()));
                node.children.len() - 1
            });
            node = &mut node.children[place].1;
            node.total_ns += time;
        }
    }
    let least = (root.total_ns as f64 * SHARE_MIN) as i64;
    json!({"names": names, "total_ns": root.total_ns, "children": children_json(root.children, least)})
}

fn children_json(children: Vec<(usize, FlameNode)>, least: i64) -> Vec<Value> {
    let kept = children
        .into_iter()
        .filter(|(_, node)| node.total_ns > least);
    kept.map(|(name, node)| json!([name, node.total_ns, children_json(node.children, least)]))
        .collect()
}

#[cfg(test)]
mod tests {
    use llmprof_units::Nanos;

    use super::*;

    #[test]
    fn stacks_share_their_callers() {
        let stack = |frames: &[&str], time| FlameStack {
            frames: frames.iter().map(|frame| (*frame).to_owned()).collect(),
            time_ns: Nanos(time),
        };
        let stacks = [
            stack(&["main", "step", "forward"], 60_000),
            stack(&["main", "step"], 30_000),
            stack(&["main", "load"], 9_999),
            stack(&["main", "step", "short"], 1),
        ];
        let tree = tree_json(&stacks);
        assert_eq!(tree["total_ns"], 100_000);
        let main = &tree["children"][0];
        assert_eq!((&main[0], &main[1]), (&json!(0), &json!(100_000)));
        assert_eq!(main[2][0], json!([1, 90_001, [[2, 60_000, []]]]));
        assert_eq!(main[2][1], json!([3, 9_999, []]));
    }
}
