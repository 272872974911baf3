//! Causal attention of new queries over cached keys and values.

use std::cell::RefCell;

use rayon::prelude::*;

use super::{
    dot::dot_rows,
    elementwise::{scale_values, soft_cap, softmax},
    gemm::{GemmOperand, run_gemm},
    isa::{Isa, vectorized},
};
use crate::buffer::Elements;

/// Queries that one task of prefill takes.
const TILE: usize = 32;

/// What all sequences of a layer share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttentionShape {
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    /// Keys that a query sees, itself included.
    pub(crate) window: Option<usize>,
    pub(crate) scale: f32,
    pub(crate) softcap: Option<f32>,
}

impl AttentionShape {
    /// The first key that the query at `position` sees.
    fn first_key(&self, position: usize) -> usize {
        self.window
            .map_or(0, |window| (position + 1).saturating_sub(window))
    }

    /// From raw scores to weights.
    fn weigh_scores(&self, scores: &mut [f32]) {
        scale_values(scores, self.scale);
        if let Some(limit) = self.softcap {
            soft_cap(scores, limit);
        }
        softmax(scores);
    }
}

/// The cache of one sequence in one layer, the new tokens included, and its queries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile<'a> {
    /// Per key head `capacity` keys of `head_dim` elements.
    pub(crate) keys: &'a [f32],
    pub(crate) values: &'a [f32],
    pub(crate) capacity: usize,
    /// Position of the first query.
    pub(crate) past: usize,
    pub(crate) queries: usize,
}

impl<'a> Tile<'a> {
    /// Keys and values of a head from position `from` up to `to`.
    fn head_span(
        &self,
        shape: &AttentionShape,
        head: usize,
        from: usize,
        to: usize,
    ) -> (&'a [f32], &'a [f32]) {
        let start = head * self.capacity;
        let range = (start + from) * shape.head_dim..(start + to) * shape.head_dim;
        (&self.keys[range.clone()], &self.values[range])
    }
}

thread_local! {
    /// Scores of each thread's current head, kept from call to call.
    static SCORES: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Attention of all sequences; `queries` and `out` have a row of `heads × head_dim` per query, sequence by sequence.
pub(crate) fn attend_sequences(
    shape: &AttentionShape,
    sequences: &[Tile<'_>],
    queries: &[f32],
    out: &mut [f32],
) {
    let width = shape.heads * shape.head_dim;
    if sequences.iter().all(|sequence| sequence.queries == 1) {
        let group = width / shape.kv_heads;
        out.par_chunks_mut(group)
            .zip(queries.par_chunks(group))
            .enumerate()
            .for_each(|(task, (out, queries))| {
                let (sequence, head) = (task / shape.kv_heads, task % shape.kv_heads);
                attend_one_query(shape, &sequences[sequence], head, queries, out);
            });
        return;
    }
    let mut tasks = Vec::new();
    let (mut queries, mut out) = (queries, out);
    for sequence in sequences {
        for first in (0..sequence.queries).step_by(TILE) {
            let count = TILE.min(sequence.queries - first);
            let (these, rest) = queries.split_at(count * width);
            let (target, after) = out.split_at_mut(count * width);
            (queries, out) = (rest, after);
            let tile = Tile {
                past: sequence.past + first,
                queries: count,
                ..*sequence
            };
            tasks.push((tile, these, target));
        }
    }
    tasks
        .into_par_iter()
        .with_max_len(1)
        .for_each(|(tile, queries, out)| attend_many_queries(shape, &tile, queries, out));
}

/// Elements of a result that are summed in registers.
const REGISTER_ELEMENTS: usize = 32;

vectorized! {
    /// `to = Σ weights[i] × row i of values`, block by block so that the sums stay in registers.
    fn weighted_sum(weights: &[f32], values: &[f32], to: &mut [f32]) {
        let width = to.len();
        let rows = || weights.iter().zip(values.chunks_exact(width));
        let (blocks, rest) = to.as_chunks_mut::<REGISTER_ELEMENTS>();
        for (block, to) in blocks.iter_mut().enumerate() {
            let mut sums = [0.0f32; REGISTER_ELEMENTS];
            for (weight, row) in rows() {
                let row = &row[block * REGISTER_ELEMENTS..(block + 1) * REGISTER_ELEMENTS];
                for (sum, value) in sums.iter_mut().zip(row) {
                    *sum += weight * value;
                }
            }
            *to = sums;
        }
        let done = width - rest.len();
        rest.fill(0.0);
        for (weight, row) in rows() {
            for (to, value) in rest.iter_mut().zip(&row[done..]) {
                *to += weight * value;
            }
        }
    }
}

/// One query of each head that shares the key head `head`: a matrix-vector product each way.
fn attend_one_query(
    shape: &AttentionShape,
    tile: &Tile<'_>,
    head: usize,
    queries: &[f32],
    out: &mut [f32],
) {
    let (first, last) = (shape.first_key(tile.past), tile.past + 1);
    let (keys, values) = tile.head_span(shape, head, first, last);
    let count = last - first;
    let group = shape.heads / shape.kv_heads;
    SCORES.with_borrow_mut(|scores| {
        scores.resize(count * (group + 1), 0.0);
        let (scores, row) = scores.split_at_mut(count * group);
        dot_rows(
            Isa::detected(),
            Elements::F32(keys),
            shape.head_dim,
            queries,
            scores,
        );
        for (member, out) in out.chunks_exact_mut(shape.head_dim).enumerate() {
            for (weight, scores) in row.iter_mut().zip(scores.chunks_exact(group)) {
                *weight = scores[member];
            }
            shape.weigh_scores(row);
            weighted_sum(row, values, out);
        }
    });
}

/// Several queries of one sequence, head by head: a GEMM each way.
fn attend_many_queries(shape: &AttentionShape, tile: &Tile<'_>, queries: &[f32], out: &mut [f32]) {
    let isa = Isa::detected();
    let dim = shape.head_dim;
    let width = shape.heads * dim;
    let group = shape.heads / shape.kv_heads;
    let (first, last) = (shape.first_key(tile.past), tile.past + tile.queries);
    let count = last - first;
    SCORES.with_borrow_mut(|scores| {
        scores.resize(tile.queries * count, 0.0);
        for head in 0..shape.heads {
            let (keys, values) = tile.head_span(shape, head / group, first, last);
            let by_rows = |data, row_stride| GemmOperand {
                data,
                row_stride,
                column_stride: 1,
            };
            let transposed = GemmOperand {
                data: keys,
                row_stride: 1,
                column_stride: dim,
            };
            let sizes = [tile.queries, count, dim];
            run_gemm(
                isa,
                sizes,
                by_rows(&queries[head * dim..], width),
                transposed,
                scores,
                count,
            );
            for (query, row) in scores.chunks_exact_mut(count).enumerate() {
                let position = tile.past + query;
                let (hidden, row) = row.split_at_mut(shape.first_key(position) - first);
                let (seen, future) = row.split_at_mut(position + 1 - shape.first_key(position));
                hidden.fill(0.0);
                future.fill(0.0);
                shape.weigh_scores(seen);
            }
            let sizes = [tile.queries, dim, count];
            run_gemm(
                isa,
                sizes,
                by_rows(scores, count),
                by_rows(values, dim),
                &mut out[head * dim..],
                width,
            );
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One query at a time in double precision.
    fn reference_attention(
        shape: &AttentionShape,
        tile: &Tile<'_>,
        query: usize,
        head: usize,
        queries: &[f32],
    ) -> Vec<f64> {
        let dim = shape.head_dim;
        let position = tile.past + query;
        let first = shape
            .window
            .map_or(0, |window| (position + 1).saturating_sub(window));
        let kv = head / (shape.heads / shape.kv_heads);
        let q = &queries[(query * shape.heads + head) * dim..][..dim];
        let at = |data: &[f32], key: usize, i: usize| {
            f64::from(data[(kv * tile.capacity + key) * dim + i])
        };
        let scores: Vec<f64> = (first..=position)
            .map(|key| {
                let dot: f64 = (0..dim)
                    .map(|i| f64::from(q[i]) * at(tile.keys, key, i))
                    .sum();
                let score = dot * f64::from(shape.scale);
                shape.softcap.map_or(score, |limit| {
                    f64::from(limit) * (score / f64::from(limit)).tanh()
                })
            })
            .collect();
        let total: f64 = scores.iter().map(|score| score.exp()).sum();
        (0..dim)
            .map(|i| {
                scores
                    .iter()
                    .zip(first..)
                    .map(|(score, key)| score.exp() / total * at(tile.values, key, i))
                    .sum()
            })
            .collect()
    }

    #[test]
    fn tiles_and_single_queries_agree_with_double_precision() {
        // One block of a sum and a rest.
        const DIM: usize = REGISTER_ELEMENTS + 8;
        let value = |i: usize| ((i * 31 + 17) % 89) as f32 / 44.0 - 1.0;
        for (window, softcap) in [(None, None), (Some(5), None), (Some(40), Some(2.0))] {
            let shape = AttentionShape {
                heads: 4,
                kv_heads: 2,
                head_dim: DIM,
                window,
                scale: 0.3,
                softcap,
            };
            let capacity = 100;
            let kv: Vec<f32> = (0..2 * 2 * capacity * DIM).map(value).collect();
            for (past, count) in [(0, 70), (20, 3), (60, 1)] {
                let (keys, values) = kv.split_at(2 * capacity * DIM);
                let tile = Tile {
                    keys,
                    values,
                    capacity,
                    past,
                    queries: count,
                };
                let queries: Vec<f32> = (0..count * 4 * DIM).map(|i| value(i * 7)).collect();
                let mut out = vec![f32::NAN; count * 4 * DIM];
                attend_sequences(&shape, &[tile], &queries, &mut out);
                for query in 0..count {
                    for head in 0..4 {
                        let expected = reference_attention(&shape, &tile, query, head, &queries);
                        for (i, expected) in expected.iter().enumerate() {
                            let computed = f64::from(out[(query * 4 + head) * DIM + i]);
                            assert!(
                                (computed - expected).abs() < 1e-5,
                                "{computed} is not {expected}"
                            );
                        }
                    }
                }
            }
        }
    }
}
