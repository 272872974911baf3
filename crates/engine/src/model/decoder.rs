use llmprof_theory::{
    Decoder, Kind, Logits,
    block::{PositionTable, Rope},
};
use rayon::prelude::*;

use super::{
    BatchRows, Binder, layer::BoundLayer, linear::BoundLinear, norm::BoundNorm, resized_slice,
    table::VectorTable,
};
use crate::{
    cache::KvCache,
    error::EngineError,
    kernel::{Frequencies, add_assign, scale_values, soft_cap},
    recorder::Recorder,
};

/// Learned positions with their weights.
struct BoundPositions {
    operator: u32,
    table: VectorTable,
    offset: usize,
}

/// A language model with its weights.
pub(crate) struct BoundDecoder {
    width: usize,
    embedding: (u32, VectorTable),
    embedding_scale: Option<(u32, f32)>,
    positions: Option<BoundPositions>,
    tables: Vec<(u32, Frequencies)>,
    layers: Vec<BoundLayer>,
    final_norm: Option<BoundNorm>,
    head: BoundLinear,
    softcap: Option<(u32, f32)>,
}

impl BoundDecoder {
    pub(crate) fn bind(decoder: &Decoder, binder: &mut Binder<'_>) -> Result<Self, EngineError> {
        if decoder.project_in.is_some() || decoder.project_out.is_some() {
            return Err(EngineError::UnsupportedBlock {
                block: "embeddings of another width than the model",
            });
        }
        let embedding = &decoder.embedding;
        let name = binder.tensor_name(embedding.name, "weight");
        let table = binder.bind_table(&name, embedding.vocabulary, embedding.width)?;
        let embedding_operator = binder.add_weighted_operator(Kind::Embedding, embedding.name);
        let embedding_scale = embedding.scale.map(|scale| {
            (
                binder.add_operator(Kind::Scale, embedding.scale_name),
                scale as f32,
            )
        });
        let positions = decoder
            .positions
            .as_ref()
            .map(|positions| BoundPositions::bind(positions, binder))
            .transpose()?;
        let mut tables = Vec::new();
        let mut ropes: Vec<(Rope, Frequencies)> = Vec::new();
        for table in &decoder.tables {
            if table.axes != 1 {
                return Err(EngineError::UnsupportedBlock {
                    block: "positions with several axes",
                });
            }
            let frequencies = Frequencies::new(&table.rope, decoder.max_positions);
            tables.push((
                binder.add_operator(Kind::RopeTable, table.name),
                frequencies.clone(),
            ));
            ropes.push((table.rope.clone(), frequencies));
        }
        let mut layers = Vec::new();
        for (index, (number, layer)) in decoder.numbered_layers().enumerate() {
            binder.place = Some((decoder.layers_prefix, number));
            layers.push(BoundLayer::bind(layer, index, &ropes, binder)?);
        }
        binder.place = None;
        let final_norm = decoder
            .final_norm
            .as_ref()
            .map(|norm| BoundNorm::bind(norm, binder))
            .transpose()?;
        let head = if decoder.head.tied {
            binder.linear_with(&decoder.head.linear, Kind::Linear, table.as_matrix())?
        } else {
            binder.bind_linear(&decoder.head.linear)?
        };
        let softcap = decoder.head.softcap.map(|cap| {
            (
                binder.add_operator(Kind::Scale, "logits_softcap"),
                cap as f32,
            )
        });
        Ok(Self {
            width: decoder.hidden as usize,
            embedding: (embedding_operator, table),
            embedding_scale,
            positions,
            tables,
            layers,
            final_norm,
            head,
            softcap,
        })
    }

    /// One step: all new tokens of all sequences. Leaves the logits in the workspace and says how many there are.
    pub(crate) fn run_step(
        &self,
        cache: &mut KvCache,
        tokens: &[&[u32]],
        logits: Option<Logits>,
        recorder: &mut Recorder,
    ) -> usize {
        let counts: Vec<usize> = tokens.iter().map(|tokens| tokens.len()).collect();
        let rows = BatchRows {
            counts: &counts,
            total: counts.iter().sum(),
        };
        self.embed_tokens(cache, tokens, rows, recorder);
        for layer in &self.layers {
            layer.run(rows, cache, recorder);
        }
        let space = &mut cache.workspace;
        let elements = rows.total * self.width;
        if let Some(norm) = &self.final_norm {
            norm.run(&space.stream[..elements], &mut space.normed, recorder);
        } else {
            resized_slice(&mut space.normed, elements).copy_from_slice(&space.stream[..elements]);
        }
        let written = logits.map_or(0, |logits| {
            self.compute_logits(cache, rows, logits, recorder)
        });
        cache.advance_lengths(&counts);
        written
    }

    /// Embeddings, positions and rotation tables: everything before the first layer.
    fn embed_tokens(
        &self,
        cache: &mut KvCache,
        tokens: &[&[u32]],
        rows: BatchRows<'_>,
        recorder: &mut Recorder,
    ) {
        let positions: Vec<usize> = cache
            .lengths()
            .iter()
            .zip(rows.counts)
            .flat_map(|(past, count)| *past..past + count)
            .collect();
        let expected = cache.expected_prompt();
        let space = &mut cache.workspace;
        let width = self.width;
        let stream = resized_slice(&mut space.stream, rows.total * width);
        let (operator, table) = &self.embedding;
        let start = recorder.start_operator();
        let ids = tokens.iter().flat_map(|tokens| tokens.iter());
        for (row, token) in stream.chunks_exact_mut(width).zip(ids) {
            table.read_row(*token as usize, row);
        }
        recorder.end_operator(*operator, start, [1, rows.total, width, 0]);
        if let Some((operator, factor)) = self.embedding_scale {
            let start = recorder.start_operator();
            stream
                .par_chunks_mut(1 << 15)
                .for_each(|values| scale_values(values, factor));
            recorder.end_operator(operator, start, [1, rows.total, width, 0]);
        }
        if let Some(learned) = &self.positions {
            let start = recorder.start_operator();
            let mut row_of = vec![0.0; width];
            for (row, position) in stream.chunks_exact_mut(width).zip(&positions) {
                learned
                    .table
                    .read_row(position + learned.offset, &mut row_of);
                add_assign(row, &row_of);
            }
            recorder.end_operator(learned.operator, start, [1, rows.total, width, 0]);
        }
        space.tables.resize_with(self.tables.len(), Vec::new);
        for ((operator, frequencies), table) in self.tables.iter().zip(&mut space.tables) {
            let start = recorder.start_operator();
            frequencies.fill_table(&positions, expected, table);
            recorder.end_operator(*operator, start, [1, rows.total, frequencies.dims() / 2, 1]);
        }
    }

    /// The head over the rows that are asked for.
    fn compute_logits(
        &self,
        cache: &mut KvCache,
        rows: BatchRows<'_>,
        which: Logits,
        recorder: &mut Recorder,
    ) -> usize {
        let space = &mut cache.workspace;
        let width = self.width;
        let count = match which {
            Logits::All => rows.total,
            Logits::Last => {
                // The last row of each sequence moves to the front; the others are not needed any more.
                let mut end = 0;
                for (sequence, count) in rows.counts.iter().enumerate() {
                    end += count;
                    space
                        .normed
                        .copy_within((end - 1) * width..end * width, sequence * width);
                }
                rows.counts.len()
            }
        };
        let vocabulary = self.head.matrix.outputs;
        let x = &space.normed[..count * width];
        let logits = self.head.run(count, x, &mut space.logits, recorder);
        if let Some((operator, limit)) = self.softcap {
            let start = recorder.start_operator();
            logits
                .par_chunks_mut(1 << 14)
                .for_each(|values| soft_cap(values, limit));
            recorder.end_operator(operator, start, [1, count, vocabulary, 0]);
        }
        count * vocabulary
    }
}

impl BoundPositions {
    fn bind(positions: &PositionTable, binder: &mut Binder<'_>) -> Result<Self, EngineError> {
        let name = binder.tensor_name(positions.name, "weight");
        Ok(Self {
            table: binder.bind_table(&name, positions.rows, positions.width)?,
            operator: binder.add_weighted_operator(Kind::PositionEmbedding, positions.name),
            offset: positions.offset as usize,
        })
    }
}
