use llmprof_theory::{
    Kind,
    block::{Attention, Projections, QkvOrder},
};

use super::{BatchRows, Binder, linear::BoundLinear, norm::BoundNorm, resized_slice};
use crate::{
    cache::KvCache,
    error::EngineError,
    kernel::{AttentionShape, Frequencies, attend_sequences, rotate_rows},
    recorder::Recorder,
};

enum BoundProjections {
    Separate([BoundLinear; 3]),
    Fused(BoundLinear),
}

pub(crate) struct BoundAttention {
    operator: u32,
    shape: AttentionShape,
    projections: BoundProjections,
    output: BoundLinear,
    q_norm: Option<BoundNorm>,
    k_norm: Option<BoundNorm>,
    /// Operator, frequencies, and which of the decoder's tables.
    rope: Option<(u32, Frequencies, usize)>,
    /// Which layer of the cache.
    layer: usize,
}

impl BoundAttention {
    /// `tables` are the decoder's rotations, `layer` is the number in the cache.
    pub(crate) fn bind(
        attention: &Attention,
        layer: usize,
        tables: &[(llmprof_theory::block::Rope, Frequencies)],
        binder: &mut Binder<'_>,
    ) -> Result<Self, EngineError> {
        let unsupported = |block| Err(EngineError::UnsupportedBlock { block });
        if attention.sinks.is_some() {
            return unsupported("attention sinks");
        }
        if attention.gate.is_some() {
            return unsupported("attention with an output gate");
        }
        if attention.rope_table.is_some() {
            return unsupported("rotation tables of single layers");
        }
        let projections = match &attention.projections {
            Projections::Separate { q, k, v } => BoundProjections::Separate([
                binder.bind_linear(q)?,
                binder.bind_linear(k)?,
                binder.bind_linear(v)?,
            ]),
            Projections::Fused {
                qkv,
                order: QkvOrder::Concatenated,
            } => BoundProjections::Fused(binder.bind_linear(qkv)?),
            Projections::Fused { .. } => return unsupported("projections fused head by head"),
        };
        let mut norm = |norm: &Option<_>| {
            norm.as_ref()
                .map(|norm| BoundNorm::bind(norm, binder))
                .transpose()
        };
        let (q_norm, k_norm) = (norm(&attention.q_norm)?, norm(&attention.k_norm)?);
        let rope = match &attention.rope {
            None => None,
            Some(rope) => {
                let table = tables.iter().position(|(shared, _)| shared == rope).ok_or(
                    EngineError::UnsupportedBlock {
                        block: "a rotation without a table",
                    },
                )?;
                let operator = binder.add_operator(Kind::Rope, attention.rope_name);
                Some((operator, tables[table].1.clone(), table))
            }
        };
        Ok(Self {
            operator: binder.add_operator(Kind::Attention, attention.name),
            shape: AttentionShape {
                heads: attention.heads as usize,
                kv_heads: attention.kv_heads as usize,
                head_dim: attention.head_dim as usize,
                window: attention.window.map(|window| window.max(1) as usize),
                scale: attention.scale as f32,
                softcap: attention.softcap.map(|cap| cap as f32),
            },
            projections,
            output: binder.bind_linear(&attention.output)?,
            q_norm,
            k_norm,
            rope,
            layer,
        })
    }

    /// Reads `workspace.normed` and leaves its output in `workspace.result`.
    pub(crate) fn run(&self, rows: BatchRows<'_>, cache: &mut KvCache, recorder: &mut Recorder) {
        // The workspace steps out of the cache while both are needed.
        let mut space = std::mem::take(&mut cache.workspace);
        let shape = &self.shape;
        let (q_width, kv_width) = (
            shape.heads * shape.head_dim,
            shape.kv_heads * shape.head_dim,
        );
        let x = &space.normed[..rows.total * self.input_width()];
        match &self.projections {
            BoundProjections::Separate([q, k, v]) => {
                q.run(rows.total, x, &mut space.queries, recorder);
                k.run(rows.total, x, &mut space.keys, recorder);
                v.run(rows.total, x, &mut space.values, recorder);
            }
            BoundProjections::Fused(qkv) => {
                let start = recorder.start_operator();
                let fused = resized_slice(&mut space.mixed, rows.total * (q_width + 2 * kv_width));
                qkv.compute_rows(rows.total, x, fused);
                let queries = resized_slice(&mut space.queries, rows.total * q_width);
                let keys = resized_slice(&mut space.keys, rows.total * kv_width);
                let values = resized_slice(&mut space.values, rows.total * kv_width);
                for (row, fused) in fused.chunks_exact(q_width + 2 * kv_width).enumerate() {
                    let (q, kv) = fused.split_at(q_width);
                    let (k, v) = kv.split_at(kv_width);
                    queries[row * q_width..][..q_width].copy_from_slice(q);
                    keys[row * kv_width..][..kv_width].copy_from_slice(k);
                    values[row * kv_width..][..kv_width].copy_from_slice(v);
                }
                recorder.end_operator(qkv.operator, start, qkv.event_shape(rows.total));
            }
        }
        for (norm, values, width) in [
            (&self.q_norm, &mut space.queries, q_width),
            (&self.k_norm, &mut space.keys, kv_width),
        ] {
            if let Some(norm) = norm {
                norm.run(&values[..rows.total * width], &mut space.mixed, recorder);
                std::mem::swap(values, &mut space.mixed);
            }
        }
        let queries = &mut space.queries[..rows.total * q_width];
        let keys = &mut space.keys[..rows.total * kv_width];
        if let Some((operator, frequencies, table)) = &self.rope {
            let start = recorder.start_operator();
            let (dims, pairing) = (frequencies.dims(), frequencies.pairing());
            let table = &space.tables[*table];
            rotate_rows(pairing, table, dims, [q_width, shape.head_dim], queries);
            rotate_rows(pairing, table, dims, [kv_width, shape.head_dim], keys);
            let heads = shape.heads + shape.kv_heads;
            recorder.end_operator(*operator, start, [1, rows.total * heads, dims, 0]);
        }
        let start = recorder.start_operator();
        cache.store_tokens(
            self.layer,
            rows.counts,
            keys,
            &space.values[..rows.total * kv_width],
        );
        let mixed = resized_slice(&mut space.mixed, rows.total * q_width);
        let tiles: Vec<_> = cache.layer_tiles(self.layer, rows.counts).collect();
        attend_sequences(shape, &tiles, queries, mixed);
        recorder.end_operator(
            self.operator,
            start,
            self.event_shape(rows, cache.lengths()),
        );
        self.output.run(
            rows.total,
            &space.mixed[..rows.total * q_width],
            &mut space.result,
            recorder,
        );
        cache.workspace = space;
    }

    fn input_width(&self) -> usize {
        match &self.projections {
            BoundProjections::Separate([q, ..]) => q.matrix.inputs,
            BoundProjections::Fused(qkv) => qkv.matrix.inputs,
        }
    }

    /// Groups, m, n and k of a step: of the longest sequence where they differ.
    fn event_shape(&self, rows: BatchRows<'_>, lengths: &[usize]) -> [usize; 4] {
        let seen = self.shape.window.map_or(usize::MAX, |window| window - 1);
        let queries = rows.counts.iter().copied().max().unwrap_or(0);
        let keys = rows
            .counts
            .iter()
            .zip(lengths)
            .map(|(count, past)| past.min(&seen) + count)
            .max()
            .unwrap_or(0);
        let groups = rows.counts.len() * self.shape.heads;
        [groups, queries, keys, self.shape.head_dim]
    }
}
