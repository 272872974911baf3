//! Operators of a framework on the host as events: what a trace without a device is made of.
//!
//! At each moment of a thread the innermost operator is what runs. An operator that calls others is so cut into the
//! pieces between them, events do not overlap, and their sum is the time in operators.

use llmprof_record::kernel_name::Category;
use llmprof_record::trace::{HostKind, StrId, ThreadId, Trace};
use rustc_hash::FxHashMap;

use super::operator_category::operator_category;

/// An interval in which one operator was the innermost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) name: StrId,
    pub(crate) category: Category,
    /// Whether it is the first piece of its call.
    pub(crate) begins: bool,
}

/// The thread with the most operator time, and its leaves in order of time.
pub(crate) fn operator_leaves(trace: &Trace) -> Option<(ThreadId, Vec<Leaf>)> {
    let mut categories: FxHashMap<StrId, Category> = FxHashMap::default();
    let mut best: Option<(i64, ThreadId, Vec<Leaf>)> = None;
    let mut begin = 0;
    for rows in trace.hosts.thread.chunk_by(|a, b| a == b) {
        let range = begin..begin + rows.len();
        begin = range.end;
        let leaves = leaves_of_thread(trace, range, &mut categories);
        let time = leaves.iter().fold(0_i64, |sum, leaf| {
            sum.saturating_add(leaf.end.saturating_sub(leaf.start))
        });
        if time > best.as_ref().map_or(0, |(most, ..)| *most) {
            best = Some((time, rows[0], leaves));
        }
    }
    best.map(|(_, thread, leaves)| (thread, leaves))
}

/// An operator that is running.
struct RunningOperator {
    end: i64,
    name: StrId,
    category: Category,
    has_pieces: bool,
}

fn leaves_of_thread(
    trace: &Trace,
    rows: std::ops::Range<usize>,
    categories: &mut FxHashMap<StrId, Category>,
) -> Vec<Leaf> {
    let hosts = &trace.hosts;
    let mut leaves: Vec<Leaf> = Vec::new();
    let mut open: Vec<RunningOperator> = Vec::new();
    let mut at = i64::MIN;
    let mut emit = |from: i64, to: i64, running: &mut RunningOperator| {
        if from < to {
            leaves.push(Leaf {
                start: from,
                end: to,
                name: running.name,
                category: running.category,
                begins: !running.has_pieces,
            });
            running.has_pieces = true;
        }
    };
    for row in rows {
        if hosts.kind[row] != HostKind::OPERATOR {
            continue;
        }
        let start = hosts.start[row];
        let mut end = start.saturating_add(hosts.duration[row]);
        while let Some(mut running) = open.pop_if(|running| running.end <= start) {
            emit(at, running.end, &mut running);
            at = at.max(running.end);
        }
        let name = hosts.name[row];
        let mut category = *categories
            .entry(name)
            .or_insert_with(|| operator_category(trace.text(name)));
        if let Some(running) = open.last_mut() {
            emit(at, start, running);
            // A slice that reaches beyond the one around it is broken; the outer one is believed.
            end = end.min(running.end);
            category = category_inside(running.category, category);
        }
        at = at.max(start);
        open.push(RunningOperator {
            end,
            name,
            category,
            has_pieces: false,
        });
    }
    while let Some(mut running) = open.pop() {
        emit(at, running.end, &mut running);
        at = at.max(running.end);
    }
    leaves
}

/// The category of an operator that another one calls: the products inside attention are attention.
fn category_inside(outer: Category, inner: Category) -> Category {
    let whole = matches!(
        outer,
        Category::Attention | Category::Embedding | Category::Norm | Category::Conv
    );
    let moves = matches!(
        inner,
        Category::Copy | Category::Cat | Category::Memset | Category::View
    );
    let lookup = outer == Category::Embedding;
    if whole && !moves && (lookup || inner != Category::Index) {
        outer
    } else {
        inner
    }
}

#[cfg(test)]
mod tests {
    use llmprof_record::trace::{Host, TraceBuilder};

    use super::*;

    /// `linear` 0…100 calls `mm` 10…60 and `add` 70…80; then 20 ns of nothing, then `silu_` 120…130.
    #[test]
    fn each_moment_belongs_to_the_innermost_operator() {
        let mut builder = TraceBuilder::default();
        let thread = builder.thread(1, 1);
        for (name, start, duration) in [
            ("aten::linear", 0, 100),
            ("aten::mm", 10, 50),
            ("aten::add", 70, 10),
            ("aten::silu_", 120, 10),
        ] {
            let name = builder.intern(name);
            builder.hosts.push(Host {
                start,
                duration,
                name,
                thread,
                kind: HostKind::OPERATOR,
                ..Host::default()
            });
        }
        let trace = builder.finish();
        let (_, leaves) = operator_leaves(&trace).unwrap();
        let pieces: Vec<_> = leaves
            .iter()
            .map(|leaf| (leaf.start, leaf.end, trace.text(leaf.name), leaf.category))
            .collect();
        assert_eq!(
            pieces,
            [
                (0, 10, "aten::linear", Category::Gemm),
                (10, 60, "aten::mm", Category::Gemm),
                (60, 70, "aten::linear", Category::Gemm),
                (70, 80, "aten::add", Category::Elementwise),
                (80, 100, "aten::linear", Category::Gemm),
                (120, 130, "aten::silu_", Category::Elementwise),
            ]
        );
        // Three pieces of `linear` are one call.
        let calls = leaves.iter().filter(|leaf| leaf.begins);
        assert_eq!(calls.count(), 4);
    }

    #[test]
    fn parts_of_attention_are_attention() {
        assert_eq!(
            category_inside(Category::Attention, Category::Gemm),
            Category::Attention
        );
        assert_eq!(
            category_inside(Category::Attention, Category::Copy),
            Category::Copy
        );
        assert_eq!(
            category_inside(Category::Embedding, Category::Index),
            Category::Embedding
        );
        assert_eq!(
            category_inside(Category::Attention, Category::View),
            Category::View
        );
    }
}
