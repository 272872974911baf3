use llmprof_theory::{
    Kind,
    block::{Arrangement, FeedForward, Layer, Rope},
};
use rayon::prelude::*;

use super::{
    BatchRows, Binder, attention::BoundAttention, mixer::attention_of, mlp::BoundMlp,
    moe::BoundMoe, norm::BoundNorm,
};
use crate::{
    cache::KvCache,
    error::EngineError,
    kernel::{Frequencies, add_assign},
    recorder::Recorder,
};

enum BoundFeed {
    Dense(BoundMlp),
    Moe(BoundMoe),
}

/// A pre-norm layer with its weights.
pub(crate) struct BoundLayer {
    width: usize,
    mixer_norm: BoundNorm,
    attention: BoundAttention,
    after_mixer_norm: Option<BoundNorm>,
    mixer_add: u32,
    feed_norm: BoundNorm,
    feed: BoundFeed,
    after_feed_norm: Option<BoundNorm>,
    feed_add: u32,
}

impl BoundLayer {
    pub(crate) fn bind(
        layer: &Layer,
        index: usize,
        tables: &[(Rope, Frequencies)],
        binder: &mut Binder<'_>,
    ) -> Result<Self, EngineError> {
        if layer.arrangement != Arrangement::PreNorm {
            return Err(EngineError::UnsupportedBlock {
                block: "layers that are not pre-norm",
            });
        }
        let attention = attention_of(layer)?;
        Ok(Self {
            width: layer.width as usize,
            mixer_norm: BoundNorm::bind(&layer.mixer_norm, binder)?,
            attention: BoundAttention::bind(attention, index, tables, binder)?,
            after_mixer_norm: bind_norm(layer.after_mixer_norm.as_ref(), binder)?,
            mixer_add: binder.add_operator(Kind::Add, "mixer_add"),
            feed_norm: BoundNorm::bind(&layer.feed_norm, binder)?,
            feed: match &layer.feed {
                FeedForward::Dense(mlp) => BoundFeed::Dense(BoundMlp::bind(mlp, binder)?),
                FeedForward::Moe(moe) => BoundFeed::Moe(BoundMoe::bind(moe, binder)?),
            },
            after_feed_norm: bind_norm(layer.after_feed_norm.as_ref(), binder)?,
            feed_add: binder.add_operator(Kind::Add, "feed_add"),
        })
    }

    /// One layer over the residual stream in the cache's workspace.
    pub(crate) fn run(&self, rows: BatchRows<'_>, cache: &mut KvCache, recorder: &mut Recorder) {
        let elements = rows.total * self.width;
        let space = &mut cache.workspace;
        self.mixer_norm
            .run(&space.stream[..elements], &mut space.normed, recorder);
        self.attention.run(rows, cache, recorder);
        self.add_to_stream(
            self.after_mixer_norm.as_ref(),
            self.mixer_add,
            rows,
            cache,
            recorder,
        );
        let space = &mut cache.workspace;
        self.feed_norm
            .run(&space.stream[..elements], &mut space.normed, recorder);
        match &self.feed {
            BoundFeed::Dense(mlp) => mlp.run(rows, space, recorder),
            BoundFeed::Moe(moe) => moe.run(rows, space, recorder),
        }
        self.add_to_stream(
            self.after_feed_norm.as_ref(),
            self.feed_add,
            rows,
            cache,
            recorder,
        );
    }

    /// Adds a part's result to the stream, normalized first where the layer says so.
    fn add_to_stream(
        &self,
        norm: Option<&BoundNorm>,
        operator: u32,
        rows: BatchRows<'_>,
        cache: &mut KvCache,
        recorder: &mut Recorder,
    ) {
        let space = &mut cache.workspace;
        let elements = rows.total * self.width;
        let result = match norm {
            Some(norm) => norm.run(&space.result[..elements], &mut space.normed, recorder),
            None => &mut space.result[..elements],
        };
        let start = recorder.start_operator();
        space.stream[..elements]
            .par_chunks_mut(1 << 15)
            .zip(result.par_chunks(1 << 15))
            .for_each(|(to, from)| add_assign(to, from));
        recorder.end_operator(operator, start, [1, rows.total, self.width, 0]);
    }
}

fn bind_norm(
    norm: Option<&llmprof_theory::block::Norm>,
    binder: &mut Binder<'_>,
) -> Result<Option<BoundNorm>, EngineError> {
    norm.map(|norm| BoundNorm::bind(norm, binder)).transpose()
}
