//! Forward passes between steps of training whose results no backward op uses: evaluations, rollouts.

use llmprof_record::kernel_name::Category;
use llmprof_record::trace::{HostKind, ThreadId, Trace};
use rustc_hash::FxHashMap;

use crate::matching::operator_category::operator_category;
use crate::program::{backward_starts, named_rows};

/// What a thread of training calls, and what the forward pass of a step takes of it.
pub(super) struct UnusedPasses {
    /// When ops began, in order.
    ops: Vec<i64>,
    /// GEMMs, convolutions and attention that lie in no other one: start and end, in order.
    products: Vec<(i64, i64)>,
    backward: Vec<i64>,
    /// By the number of backward ops of a step, the forward pass with the fewest products: steps with as many backward ops need no more.
    least: FxHashMap<usize, ForwardOps>,
    /// When the last op ended.
    last_end: i64,
}

/// Ops of a step before its first backward op.
#[derive(Clone, Copy)]
struct ForwardOps {
    products: usize,
    /// Ops before the first product.
    lead: usize,
}

impl UnusedPasses {
    /// `is_cut` says that the first step begins with the recording: its forward pass may lack its begin, and says nothing of whole ones.
    pub(super) fn of(trace: &Trace, thread: ThreadId, steps: &[(i64, i64)], is_cut: bool) -> Self {
        let hosts = &trace.hosts;
        let first = hosts.thread.partition_point(|&on| on < thread);
        let last = hosts.thread.partition_point(|&on| on <= thread);
        let own = (first..last).filter(|&row| hosts.kind[row] == HostKind::OPERATOR);
        let ends = (first..last).map(|row| hosts.start[row].saturating_add(hosts.duration[row]));
        let is_product = |name: &str| {
            matches!(
                operator_category(name),
                Category::Gemm | Category::Conv | Category::Attention
            )
        };
        let mut products: Vec<(i64, i64)> = Vec::new();
        for row in named_rows(trace, &hosts.name, is_product)
            .filter(|row| (first..last).contains(row) && hosts.kind[*row] == HostKind::OPERATOR)
        {
            let start = hosts.start[row];
            if products.last().is_none_or(|last| start >= last.1) {
                products.push((start, start.saturating_add(hosts.duration[row])));
            }
        }
        let mut found = Self {
            ops: own.map(|row| hosts.start[row]).collect(),
            products,
            backward: backward_starts(trace),
            least: FxHashMap::default(),
            last_end: ends.max().unwrap_or(0),
        };
        for &step in &steps[usize::from(is_cut && steps.len() > 1)..] {
            let Some((forward, backward)) = found.forward_of(step) else {
                continue;
            };
            let least = found.least.entry(backward).or_insert(forward);
            if forward.products < least.products {
                *least = forward;
            }
        }
        found
    }

    /// The ops of a step before its first backward op, and how many of those it has.
    fn forward_of(&self, (start, end): (i64, i64)) -> Option<(ForwardOps, usize)> {
        let first = self.backward.partition_point(|&time| time < start);
        let last = self.backward.partition_point(|&time| time < end);
        let backward = *self.backward[..last].get(first)?;
        let products = self.between(start, backward);
        let lead = self.ops_before(products.first()?.0) - self.ops_before(start);
        let forward = ForwardOps {
            products: products.len(),
            lead,
        };
        Some((forward, last - first))
    }

    fn between(&self, start: i64, end: i64) -> &[(i64, i64)] {
        let first = self.products.partition_point(|product| product.0 < start);
        let last = self.products.partition_point(|product| product.0 < end);
        &self.products[first..last.max(first)]
    }

    fn ops_before(&self, time: i64) -> usize {
        self.ops.partition_point(|&op| op < time)
    }

    /// When passes end that a step begins with and that its backward ops do not use; none where it has no such passes.
    pub(super) fn end_within(&self, (start, end): (i64, i64)) -> Option<i64> {
        let (_, backward) = self.forward_of((start, end))?;
        let least = *self.least.get(&backward)?;
        let first = self.backward.partition_point(|&time| time < start);
        let products = self.between(start, self.backward[first]);
        let unused = products.len().checked_sub(least.products)?;
        let (_, unused_end) = *products[..unused].last()?;
        let own = self.ops_before(products.get(unused)?.0);
        let begin = self.ops.get(own.saturating_sub(least.lead))?;
        Some(unused_end.max(*begin))
    }

    /// The passes after a time that no backward op follows. A recording may end within the forward pass of a step.
    pub(super) fn after(&self, time: i64) -> Option<(i64, i64)> {
        let is_followed = self.backward.last().is_some_and(|&last| last >= time);
        let usual = self.least.values().map(|least| least.products).max()?;
        let has_more = self.between(time, i64::MAX).len() > usual;
        (has_more && !is_followed).then_some((time, self.last_end))
    }
}

#[cfg(test)]
mod tests {
    use llmprof_record::trace::{Host, TraceBuilder};

    use super::*;

    /// Steps of a GEMM, a backward op and a pause, with so many GEMMs of an evaluation before each and `after` the last.
    fn trace_of(before: &[usize], after: usize, backward: usize) -> (Trace, Vec<(i64, i64)>) {
        let mut builder = TraceBuilder::default();
        let thread = builder.thread(1, 1);
        let mut time = 0;
        let mut push = |name: &str| {
            let name = builder.intern(name);
            builder.hosts.push(Host {
                start: time,
                duration: 8,
                name,
                thread,
                kind: HostKind::OPERATOR,
                ..Host::default()
            });
            time += 10;
            time
        };
        let (mut steps, mut start) = (Vec::new(), 0);
        for &evaluated in before {
            for _ in 0..evaluated {
                push("aten::mm");
            }
            push("aten::copy_");
            let mut end = push("aten::mm");
            for _ in 0..=backward * evaluated {
                end = push("MmBackward0");
            }
            steps.push((start, end));
            start = end;
        }
        for _ in 0..after {
            push("aten::mm");
        }
        (builder.finish(), steps)
    }

    fn passes_of(
        before: &[usize],
        after: usize,
        backward: usize,
    ) -> (UnusedPasses, Vec<(i64, i64)>) {
        let (trace, steps) = trace_of(before, after, backward);
        let passes = UnusedPasses::of(&trace, trace.hosts.thread[0], &steps, false);
        (passes, steps)
    }

    #[test]
    fn passes_without_backward_lie_before_a_step() {
        let (passes, steps) = passes_of(&[0, 0, 3, 0], 2, 0);
        let ends: Vec<Option<i64>> = steps.iter().map(|&step| passes.end_within(step)).collect();
        // The step begins with the copy of its batch.
        assert_eq!(ends, [None, None, Some(steps[2].0 + 30), None]);
        assert_eq!(
            passes.after(steps[3].1),
            Some((steps[3].1, steps[3].1 + 18))
        );
    }

    /// A recording that begins within a forward pass has fewer products in its first step. No step after it evaluates.
    #[test]
    fn a_first_step_that_is_cut_says_nothing_of_whole_ones() {
        let (trace, steps) = trace_of(&[0, 2, 2, 2], 0, 0);
        let thread = trace.hosts.thread[0];
        let of = |is_cut| {
            let passes = UnusedPasses::of(&trace, thread, &steps, is_cut);
            steps
                .iter()
                .filter_map(|&step| passes.end_within(step))
                .count()
        };
        assert_eq!((of(false), of(true)), (3, 0));
    }

    /// A longer forward pass with a longer backward pass is one step; so is one that the recording cut.
    #[test]
    fn longer_steps_have_no_unused_passes() {
        let (passes, steps) = passes_of(&[0, 0, 3, 0], 1, 1);
        assert!(steps.iter().all(|&step| passes.end_within(step).is_none()));
        assert_eq!(passes.after(steps[3].1), None);
    }
}
