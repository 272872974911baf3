//! Which host slice lies inside which, thread by thread.

use llmprof_record::trace::{HostKind, StrId, Trace};

/// The index that stands for "none".
pub(crate) const NONE: u32 = u32::MAX;

/// For every row of [`Trace::hosts`], the slices around it.
pub(crate) struct Nesting {
    /// The innermost slice around a row, of any kind but calls of the operating system.
    parent: Vec<u32>,
}

impl Nesting {
    /// Finds the slices around every row in one pass over the sorted table.
    ///
    /// Slices of one thread should nest. Where a profiler wrote two that overlap in part, the later one is not inside
    /// the earlier one, and the earlier one holds nothing that begins after it.
    pub(crate) fn from_trace(trace: &Trace) -> Self {
        let hosts = &trace.hosts;
        let (start, duration) = (&hosts.start[..], &hosts.duration[..]);
        let (thread, kind) = (&hosts.thread[..], &hosts.kind[..]);
        let mut parent = vec![NONE; hosts.len()];
        let mut open: Vec<(u32, i64)> = Vec::new();
        for row in 0..hosts.len() {
            if row > 0 && thread[row] != thread[row - 1] {
                open.clear();
            }
            let begin = start[row];
            let end = begin.saturating_add(duration[row]);
            while open
                .last()
                .is_some_and(|&(_, until)| until <= begin || until < end)
            {
                open.pop();
            }
            if let Some(&(around, _)) = open.last() {
                parent[row] = around;
            }
            if kind[row] != HostKind::SYSTEM {
                open.push((row as u32, end));
            }
        }
        Self { parent }
    }

    /// The slice directly around `row`.
    pub(crate) fn parent(&self, row: u32) -> Option<u32> {
        let parent = *self.parent.get(row as usize)?;
        (parent != NONE).then_some(parent)
    }

    /// The slices around `row`, innermost first, `row` itself leading.
    pub(crate) fn outwards(&self, row: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(Some(row), |&row| self.parent(row))
    }

    /// For every row, the innermost operator that it is or that it lies in.
    pub(crate) fn operators(&self, trace: &Trace) -> Vec<u32> {
        let kind = &trace.hosts.kind[..];
        self.inherit(|row, around| {
            if kind[row] == HostKind::OPERATOR {
                row as u32
            } else {
                around
            }
        })
    }

    /// Passes a value from each slice to what it holds: outer rows come before inner ones.
    pub(crate) fn inherit(&self, mut value: impl FnMut(usize, u32) -> u32) -> Vec<u32> {
        let mut values = vec![NONE; self.parent.len()];
        for row in 0..values.len() {
            let around = match self.parent[row] {
                NONE => NONE,
                parent => values[parent as usize],
            };
            values[row] = value(row, around);
        }
        values
    }
}

/// Whether a name is that of a module's call (`nn.Module: Linear_3`), and what follows the prefix.
pub(crate) fn module_name(text: &str) -> Option<&str> {
    text.strip_prefix("nn.Module: ")
}

/// Paths of names as a tree: a path is its parent's number and one more name.
#[derive(Default)]
pub(crate) struct Paths {
    nodes: Vec<PathNode>,
    lookup: rustc_hash::FxHashMap<PathNode, u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct PathNode {
    parent: u32,
    domain: StrId,
    name: StrId,
}

impl Paths {
    /// The number of the path that goes from `parent` ([`NONE`] at the top) on to `name`.
    pub(crate) fn child(&mut self, parent: u32, domain: StrId, name: StrId) -> u32 {
        let node = PathNode {
            parent,
            domain,
            name,
        };
        let nodes = &mut self.nodes;
        *self.lookup.entry(node).or_insert_with(|| {
            nodes.push(node);
            nodes.len() as u32 - 1
        })
    }

    /// The names of a path from the top, joined by `/`; a name in a domain has it in front, as `domain:name`.
    pub(crate) fn text(&self, trace: &Trace, path: u32) -> Option<String> {
        let mut names = Vec::new();
        let mut at = path;
        while let Some(node) = self.nodes.get(at as usize) {
            let text = trace.text(node.name);
            let name = module_name(text).unwrap_or(text);
            names.push(match node.domain {
                StrId::EMPTY => name.to_owned(),
                domain => format!("{}:{name}", trace.text(domain)),
            });
            at = node.parent;
        }
        names.reverse();
        (!names.is_empty()).then(|| names.join("/"))
    }
}
