//! Segments at which threads and streams meet. Between two of them a thread only spends time, and a replay needs no more than the sum.

use super::parts::part_at;
use super::segments::Segments;
use super::windows::HostWindow;

/// No node of its thread follows a segment in its part.
pub(super) const NO_NODE: u32 = u32::MAX;

/// Segments of one thread in one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) part: usize,
    pub(super) first: usize,
    pub(super) end: usize,
}

#[derive(Debug, Default)]
pub(super) struct Nodes {
    /// The segments that are nodes, in recorded order of all threads.
    pub(super) segment: Vec<u32>,
    /// By segment: the node that it is, or the next one of its stretch; [`NO_NODE`] after the last.
    pub(super) at_or_after: Vec<u32>,
    pub(super) stretches: Vec<Stretch>,
}

impl Nodes {
    /// `parts` are sorted and disjoint, and hold all segments.
    pub(super) fn of_segments(
        segments: &Segments,
        parts: &[HostWindow],
        is_node: impl Fn(usize) -> bool,
    ) -> Self {
        let count = segments.start.len();
        let mut segment: Vec<u32> = (0..count as u32)
            .filter(|&segment| is_node(segment as usize))
            .collect();
        segment.sort_by_key(|&segment| segments.start[segment as usize]);
        let mut at_or_after = vec![NO_NODE; count];
        for (node, &segment) in segment.iter().enumerate() {
            at_or_after[segment as usize] = node as u32;
        }
        let stretches = cut_stretches(segments, parts);
        for stretch in &stretches {
            let mut next = NO_NODE;
            for place in at_or_after[stretch.first..stretch.end].iter_mut().rev() {
                if *place == NO_NODE {
                    *place = next;
                }
                next = *place;
            }
        }
        Self {
            segment,
            at_or_after,
            stretches,
        }
    }

    /// The node that a segment is.
    pub(super) fn node_of(&self, segment: usize) -> Option<usize> {
        let node = self.at_or_after[segment] as usize;
        (self.segment.get(node) == Some(&(segment as u32))).then_some(node)
    }
}

fn cut_stretches(segments: &Segments, parts: &[HostWindow]) -> Vec<Stretch> {
    let mut stretches: Vec<Stretch> = Vec::new();
    let mut thread = None;
    for (segment, (&start, &own)) in segments.start.iter().zip(&segments.thread).enumerate() {
        match stretches.last_mut() {
            Some(last) if thread == Some(own) && start < parts[last.part].end => {
                last.end = segment + 1;
            }
            _ => stretches.extend(part_at(parts, start).map(|part| Stretch {
                part,
                first: segment,
                end: segment + 1,
            })),
        }
        thread = Some(own);
    }
    stretches
}
