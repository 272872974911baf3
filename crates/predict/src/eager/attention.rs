//! Attention of one layer: projections, norms, rotation, KV cache, scores.

use super::EagerStep;
use llmprof_theory::{
    block::{Attention, Mla, MlaQuery, NormKind, Projections, QkvOrder, Scores},
    kernels::{Access, Kernel, Stored},
};

/// The longest row of scores that a warp holds.
const WARP_ROW: f64 = 2048.0;

impl EagerStep<'_> {
    /// Keys that a layer with this window holds after the step's own are added.
    fn held_keys(&self, window: Option<u64>) -> f64 {
        if let Some(length) = self.static_length.filter(|_| self.is_decode()) {
            return window.map_or(length, |window| length.min(window as f64));
        }
        let back = window.map_or(self.past, |window| {
            self.past.min(window.saturating_sub(1) as f64)
        });
        back + self.queries
    }

    fn is_decode(&self) -> bool {
        self.queries <= 1.0 && self.past > 0.0
    }

    /// Whether transformers builds a mask tensor: a window that some keys lie outside of.
    pub(super) fn needs_mask(&self, window: Option<u64>) -> bool {
        if self.static_length.is_some() && self.is_decode() {
            return true;
        }
        window.is_some_and(|window| self.past + self.queries >= window as f64)
    }

    pub(super) fn lower_attention(&mut self, attention: &Attention) {
        let rows = self.rows;
        let fused = match &attention.projections {
            Projections::Separate { q, k, v } => {
                for linear in [q, k, v] {
                    self.emit_gemm(rows, linear.outputs as f64, linear.inputs as f64);
                }
                false
            }
            Projections::Fused { qkv, order } => {
                self.emit_gemm(rows, qkv.outputs as f64, qkv.inputs as f64);
                // One token of one sequence is dense, unless heads lie between those of others.
                self.batch > 1.0 || *order == QkvOrder::PerHead
            }
        };
        let (heads, kv_heads) = (attention.heads as f64, attention.kv_heads as f64);
        let width = attention.head_dim as f64;
        for (norm, count) in [(&attention.q_norm, heads), (&attention.k_norm, kv_heads)] {
            if let Some(norm) = norm {
                // Gemma norms heads that were already moved before the tokens.
                let dense = norm.kind != NormKind::RmsUnitOffset || self.queries <= 1.0;
                self.lower_norm(norm, rows * count * width / norm.width as f64, dense);
            }
        }
        if let Some(table) = &attention.rope_table {
            self.rope_table(table);
        }
        if let Some(rope) = &attention.rope {
            let dims = (rope.dims as f64).min(width);
            self.lower_rotation(heads, dims, width - dims);
            self.lower_rotation(kv_heads, dims, width - dims);
        } else if self.habits.scales_queries {
            let elements = rows * heads * width;
            self.emit_stream(Access::Pointwise, 2.0 * elements * self.size, elements);
        }
        if attention.window.is_some() && self.past == 0.0 {
            self.emit_small(Access::Fill, 1.0);
        }
        let keys = self.held_keys(attention.window);
        let cached = self.batch * kv_heads * keys * width;
        let sliced = self.past > 0.0 && self.needs_mask(attention.window);
        // Values of a fused projection stay a slice of it; keys too where nothing rotates them.
        let sliced_value = sliced || fused;
        let sliced_key = sliced || fused && attention.rope.is_none();
        if self.static_length.is_some() {
            self.write_in_place(self.rows * kv_heads * width);
        } else {
            for sliced in [sliced_key, sliced_value] {
                self.append_to_cache(cached, sliced, width);
            }
        }
        match attention.scores {
            Scores::Fused if self.habits.eager_attention => self.lower_scores(attention, keys),
            Scores::Fused => self.fused_attention(attention, keys),
            Scores::Tensors => self.plain_scores(attention, keys, self.size),
            Scores::WideTensors => self.plain_scores(attention, keys, 4.0),
        }
        self.emit_gemm(
            rows,
            attention.output.outputs as f64,
            attention.output.inputs as f64,
        );
    }

    /// Keys and values written to their places in a static cache, whose positions each layer computes again.
    fn write_in_place(&mut self, elements: f64) {
        for _ in 0..2 {
            self.emit_stream(Access::Gather, 2.0 * elements * self.size, elements);
        }
        if self.is_decode() {
            self.emit_small(Access::Fill, 1.0);
            self.emit_small(Access::Pointwise, 2.0);
        } else {
            self.emit_small(Access::Fill, 2.0);
            self.emit_small(Access::Pointwise, 1.0);
        }
    }

    /// Joins cache and new tokens of so many numbers, `elements` together: dense tensors at full speed, slices of others slowly, and tokens that do not start at multiples of
    /// 16 bytes as a copy.
    fn append_to_cache(&mut self, elements: f64, sliced: bool, width: f64) {
        let access = if self.queries > 1.0 || sliced {
            Access::AppendSliced
        } else if width * self.size % 16.0 != 0.0 {
            Access::Copy
        } else {
            Access::Append
        };
        self.emit_stream(access, 2.0 * elements * self.size, elements);
    }

    /// Keys or values repeated for each query head.
    fn repeat_heads(&mut self, attention: &Attention, keys: f64) {
        let width = attention.head_dim as f64;
        let one = self.batch * keys * width;
        let (heads, kv_heads) = (attention.heads as f64, attention.kv_heads as f64);
        // A single head is repeated by a stride of zero, without a copy.
        if kv_heads > 1.0 && kv_heads < heads {
            self.emit_stream(
                Access::Copy,
                one * (heads + kv_heads) * self.size,
                one * heads,
            );
        }
    }

    fn fused_attention(&mut self, attention: &Attention, keys: f64) {
        let masked = self.needs_mask(attention.window);
        let mut kv_heads = attention.kv_heads;
        if masked {
            self.repeat_heads(attention, keys);
            self.repeat_heads(attention, keys);
            kv_heads = attention.heads;
            // The mask of true and false becomes one of zero and minus infinity.
            let scores = self.batch * self.queries * keys;
            self.emit_stream(Access::Broadcast, 3.0 * scores, scores);
            self.emit_small(Access::Fill, 2.0);
        }
        let width = attention.head_dim as f64;
        self.pad_heads(attention.heads, kv_heads, keys, width);
        self.emit_kernel(&Kernel::Attention {
            batch: self.batch,
            heads: attention.heads as f64,
            kv_heads: kv_heads as f64,
            queries: self.queries,
            keys,
            key_dim: width,
            value_dim: width,
            causal: self.queries > 1.0 && !masked,
            masked,
            cached: 2.0,
        });
    }

    /// Heads whose width is not a multiple of eight are copied into zeroed wider heads; the result is sliced out again.
    fn pad_heads(&mut self, heads: u64, kv_heads: u64, keys: f64, width: f64) {
        let padded = (width / 8.0).ceil() * 8.0;
        if padded <= width {
            return;
        }
        let queries = self.queries * heads as f64;
        let keys = keys * kv_heads as f64;
        for rows in [queries, keys, keys] {
            let elements = self.batch * rows;
            self.emit_stream(
                Access::Fill,
                elements * padded * self.size,
                elements * padded,
            );
            self.emit_stream(
                Access::Broadcast,
                2.0 * elements * width * self.size,
                elements * width,
            );
        }
        let result = self.batch * queries * width;
        self.emit_stream(Access::Broadcast, 2.0 * result * self.size, result);
    }

    /// Attention as tensors of scores, with a learned sink per head (GPT-OSS).
    fn lower_scores(&mut self, attention: &Attention, keys: f64) {
        self.repeat_heads(attention, keys);
        self.repeat_heads(attention, keys);
        let groups = self.batch * attention.heads as f64;
        let (m, width) = (self.queries, attention.head_dim as f64);
        let size = self.size;
        self.emit_kernel(&Kernel::Gemm {
            groups,
            m,
            n: keys,
            k: width,
            size,
            aligned: keys % 8.0 == 0.0,
            stored: Stored::Plain,
        });
        let scores = groups * m * keys;
        let bytes = scores * size;
        self.emit_stream(Access::Pointwise, 2.0 * bytes, scores);
        self.emit_stream(Access::Broadcast, 2.0 * bytes, scores);
        self.emit_stream(Access::AppendSliced, 2.0 * bytes, scores);
        self.by_row(Access::Reduce, bytes, scores, keys);
        self.emit_stream(Access::Broadcast, 2.0 * bytes, scores);
        // The sink makes rows of scores one longer, so that none is aligned.
        let softmax = if keys + 1.0 > WARP_ROW {
            Access::SoftmaxLong
        } else {
            Access::Softmax
        };
        self.emit_stream(softmax, 2.0 * bytes, scores);
        self.emit_kernel(&Kernel::Gemm {
            groups,
            m,
            n: width,
            k: keys,
            size,
            aligned: false,
            stored: Stored::Plain,
        });
        let result = groups * m * width;
        self.emit_stream(Access::Copy, 2.0 * result * size, result);
    }

    /// Attention as tensors of scores, each a number of `size` bytes: scaled, masked, normalized in 32 bits and cast back.
    fn plain_scores(&mut self, attention: &Attention, keys: f64, size: f64) {
        let groups = self.batch * attention.heads as f64;
        let (m, width) = (self.queries, attention.head_dim as f64);
        if size > self.size {
            for rows in [m, keys] {
                let elements = groups * rows * width;
                self.emit_stream(Access::Widen, elements * (size + self.size), elements);
            }
        }
        let aligned = keys % 8.0 == 0.0;
        self.emit_kernel(&Kernel::Gemm {
            groups,
            m,
            n: keys,
            k: width,
            size,
            aligned,
            stored: Stored::Plain,
        });
        let scores = groups * m * keys;
        self.emit_stream(Access::Pointwise, 2.0 * scores * size, scores);
        self.emit_stream(Access::Broadcast, 2.0 * scores * size, scores);
        let softmax = if keys > WARP_ROW {
            Access::SoftmaxLong
        } else {
            Access::Softmax
        };
        self.emit_stream(softmax, scores * (size + 4.0), scores);
        self.emit_stream(Access::Pointwise, scores * (4.0 + self.size), scores);
        self.emit_kernel(&Kernel::Gemm {
            groups,
            m,
            n: width,
            k: keys,
            size: self.size,
            aligned,
            stored: Stored::Plain,
        });
        let result = groups * m * width;
        self.emit_stream(Access::Copy, 2.0 * result * self.size, result);
    }

    /// Latent attention: the cache holds latents, which every step expands to keys and values of all heads.
    pub(super) fn lower_latent(&mut self, latent: &Mla) {
        let rows = self.rows;
        match &latent.query {
            MlaQuery::Direct(q) => self.emit_gemm(rows, q.outputs as f64, q.inputs as f64),
            MlaQuery::LowRank { down, norm, up } => {
                self.emit_gemm(rows, down.outputs as f64, down.inputs as f64);
                self.lower_norm(norm, rows, true);
                self.emit_gemm(rows, up.outputs as f64, up.inputs as f64);
            }
        }
        self.emit_gemm(
            rows,
            latent.kv_down.outputs as f64,
            latent.kv_down.inputs as f64,
        );
        self.lower_norm(&latent.kv_norm, rows, true);
        let heads = latent.heads as f64;
        let (nope, rope) = (latent.nope_dim as f64, latent.rope_dim as f64);
        self.lower_rotation(heads, rope, 0.0);
        self.lower_rotation(1.0, rope, 0.0);
        let keys = self.past + self.queries;
        let tokens = self.batch * keys;
        self.append_to_cache(tokens * latent.rank as f64, false, latent.rank as f64);
        self.append_to_cache(tokens * rope, false, rope);
        let query = rows * heads * (nope + rope);
        self.emit_stream(Access::Concat, 2.0 * query * self.size, query);
        self.emit_gemm(
            tokens,
            latent.kv_up.outputs as f64,
            latent.kv_up.inputs as f64,
        );
        let (plain, rotated) = (tokens * heads * nope, tokens * heads * rope);
        self.emit_stream(Access::Copy, 2.0 * plain * self.size, plain);
        self.emit_stream(Access::Copy, rotated * self.size, rotated);
        self.emit_kernel(&Kernel::Attention {
            batch: self.batch,
            heads,
            kv_heads: heads,
            queries: self.queries,
            keys,
            key_dim: nope + rope,
            value_dim: latent.value_dim as f64,
            causal: self.queries > 1.0,
            masked: false,
            cached: 2.0,
        });
        self.emit_gemm(
            rows,
            latent.output.outputs as f64,
            latent.output.inputs as f64,
        );
    }
}
