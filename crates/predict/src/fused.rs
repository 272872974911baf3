//! Fused kernels: what Inductor makes of a decode step, and what serving engines run.
//!
//! Counted in traces on an H200 (`fixtures/h200/runs/compile05`): norms with the addition before them are one kernel, rotation of keys writes
//! them into the cache, activations of a gate and the product are one. Serving engines also join projections of one input,
//! read the KV cache where it is, and absorb the up-projections of latent attention in decode.

use llmprof_units::{DType, stats::normal_quantile};

use super::{
    routing::equal_tokens,
    sequences::{SequenceGroup, StepSequences},
};
use llmprof_theory::{
    Decoder, Model, Routing, WeightFormat, Workload,
    block::{
        Attention, DeltaProjections, FeedForward, GatedDelta, Layer, Linear, Mixer, Mla, MlaQuery,
        Mlp, MlpInput, Moe, Projections,
    },
    kernels::{Access, Kernel, Stored},
};

#[derive(Clone, Copy, PartialEq)]
pub(super) enum FusedStyle {
    /// transformers compiled: a static cache of this length, masks, keys and values repeated for each head.
    Compiled { length: f64 },
    /// Fused kernels of serving engines: vLLM, SGLang, TensorRT-LLM.
    Serving,
}

struct FusedStep<'s> {
    sink: &'s mut dyn FnMut(&Kernel, f64),
    style: FusedStyle,
    groups: &'s [SequenceGroup],
    /// Sequences with one new token, and those with more.
    sides: [f64; 2],
    rows: f64,
    prefill_rows: f64,
    /// Bytes of an activation, and of an element of the KV cache.
    size: f64,
    cached: f64,
    weights: MatrixStorage,
    /// Of matrices that are never quantized: head, routers, those that a checkpoint leaves as they were.
    plain: MatrixStorage,
    layers: f64,
    distinct_tokens: f64,
    wanted: KernelSelection,
    in_group: bool,
}

/// Which kernels of a step are sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum KernelSelection {
    All,
    /// Those that run over the new tokens of all sequences at once.
    OverRows,
    /// Those whose time depends on the lengths of sequences.
    BySequence,
}

pub(super) fn lower_step(
    model: &Model,
    workload: &Workload,
    sequences: &StepSequences,
    (style, wanted): (FusedStyle, KernelSelection),
    sink: &mut dyn FnMut(&Kernel, f64),
) {
    let Some(decoder) = &model.decoder else {
        return;
    };
    let formats = model.number_formats(&workload.precision);
    let mut step = FusedStep {
        sink,
        style,
        groups: &sequences.groups,
        sides: sequences.launch_sides(),
        rows: sequences.total_rows(),
        prefill_rows: sequences.prefill_rows(),
        size: f64::from(formats.activations.bits()) / 8.0,
        cached: f64::from(formats.kv.bits()) / 8.0,
        weights: MatrixStorage::of_format(formats.weights, formats.compute),
        plain: MatrixStorage::of_format(WeightFormat::Plain(formats.plain), formats.plain),
        layers: 1.0,
        distinct_tokens: 1.0,
        wanted,
        in_group: false,
    };
    step.lower_decoder(decoder, workload, sequences);
}

/// Kernels behind one of the tables of serving engines.
pub(super) fn launches_per_kernel(kernel: &Kernel) -> f64 {
    match kernel {
        // Around each of the two products of experts run three more: rows are counted, sorted and gathered, activated, and summed.
        Kernel::Grouped { .. } => 4.0,
        // Activations are quantized by groups first.
        Kernel::Gemm {
            stored: Stored::EightByBlocks,
            ..
        } => 2.0,
        // Queries and keys are put together from the part that is rotated and the part that is not.
        Kernel::Attention {
            key_dim,
            value_dim,
            queries,
            ..
        } if key_dim != value_dim && *queries > 1.0 => 3.0,
        // By chunks: queries and keys normalized, decays summed, products within chunks, their inverse, what they write, states, outputs.
        Kernel::DeltaRule { queries, .. } if *queries > 1.0 => 8.0,
        _ => 1.0,
    }
}

/// What the matrices of a format take.
#[derive(Clone, Copy)]
struct MatrixStorage {
    /// Bytes of an element, scales included.
    size: f64,
    stored: Stored,
}

impl MatrixStorage {
    fn of_format(format: WeightFormat, compute: DType) -> Self {
        // The side of a usual matrix: scales of rows and blocks count as they do in one.
        const SAMPLED_SIDE: u64 = 4096;
        Self {
            size: format.stored_bytes(SAMPLED_SIDE, SAMPLED_SIDE) as f64
                / (SAMPLED_SIDE * SAMPLED_SIDE) as f64,
            stored: Stored::from_format(format, compute),
        }
    }
}

/// Keys that `queries` new tokens see after `past` cached ones where each sees the last `window`, itself among them: Σ min(past + i, window).
fn visible_keys(past: f64, queries: f64, window: f64) -> f64 {
    // Those that see all before them; sums of integers, as areas.
    let growing = (window - past).clamp(0.0, queries);
    growing * (past + 0.5 * growing) + (queries - growing) * window
}

/// Expected rows of the busiest of `ranks` ranks if `rows` rows are assigned at random: the mean plus the expected maximum of `ranks` normal deviates.
fn busiest_rank_rows(rows: f64, ranks: f64) -> f64 {
    let mean = rows / ranks;
    // Blom's approximation of the largest of n: the quantile at (n − 3/8) ÷ (n + 1/4).
    let place = (ranks - 0.375) / (ranks + 0.25);
    let deviates = normal_quantile(place);
    mean + deviates * (mean * (1.0 - 1.0 / ranks)).sqrt()
}

impl FusedStep<'_> {
    fn emit_kernel(&mut self, kernel: &Kernel) {
        let is_wanted = match self.wanted {
            KernelSelection::All => true,
            KernelSelection::OverRows => !self.in_group,
            KernelSelection::BySequence => self.in_group,
        };
        if is_wanted {
            (self.sink)(kernel, self.layers);
        }
    }

    /// Runs `each` for every group of equal sequences. One launch takes all sequences of a side, so that each group has its share of
    /// a launch in which all were like it.
    fn by_group(&mut self, each: impl Fn(&mut Self, SequenceGroup)) {
        let layers = self.layers;
        self.in_group = true;
        for group in self.groups {
            let side = self.sides[usize::from(group.is_prefill())];
            self.layers = layers * (group.count / side);
            each(
                self,
                SequenceGroup {
                    count: side,
                    ..*group
                },
            );
        }
        self.in_group = false;
        self.layers = layers;
    }

    fn is_serving(&self) -> bool {
        self.style == FusedStyle::Serving
    }

    fn emit_stream(&mut self, access: Access, bytes: f64, elements: f64) {
        self.emit_kernel(&Kernel::Stream {
            access,
            bytes,
            elements,
            width: 0.0,
        });
    }

    fn gemm_of(&mut self, rows: f64, n: f64, k: f64, weights: MatrixStorage) {
        let MatrixStorage { size, stored } = weights;
        self.emit_kernel(&Kernel::Gemm {
            groups: 1.0,
            m: rows,
            n,
            k,
            size,
            aligned: n % 8.0 == 0.0 && k % 8.0 == 0.0,
            stored,
        });
    }

    fn weights_of(&self, linear: &Linear) -> MatrixStorage {
        if linear.quantized {
            self.weights
        } else {
            self.plain
        }
    }

    fn lower_gemm(&mut self, linear: &Linear) {
        let weights = self.weights_of(linear);
        let rows = self.rows;
        // Activations are brought to 8 bits first; tables of serving engines have it in the GEMM.
        if weights.stored.is_eight_bit() && !self.is_serving() {
            let elements = rows * linear.inputs as f64;
            self.emit_stream(Access::Pointwise, elements * 3.0, elements);
        }
        self.gemm_of(rows, linear.outputs as f64, linear.inputs as f64, weights);
    }

    /// Projections of one input: joined where an engine joins them.
    fn lower_joined_gemms(&mut self, linears: &[&Linear]) {
        if !self.is_serving() {
            for linear in linears {
                self.lower_gemm(linear);
            }
            return;
        }
        if let Some(first) = linears.first() {
            let outputs = linears.iter().map(|linear| linear.outputs).sum();
            self.lower_gemm(&Linear { outputs, ..**first });
        }
    }

    /// A norm with the addition of the residual before it.
    fn emit_norm(&mut self, elements: f64) {
        self.emit_stream(Access::Transcendental, 4.0 * elements * self.size, elements);
    }

    fn lower_decoder(&mut self, decoder: &Decoder, workload: &Workload, sequences: &StepSequences) {
        let embedded = self.rows * decoder.embedding.width as f64;
        self.emit_stream(Access::Gather, 2.0 * embedded * self.size, embedded);
        for group in &decoder.groups {
            self.layers = group.layers.len() as f64;
            self.distinct_tokens = match (&group.layer.feed, workload.routing) {
                (FeedForward::Moe(moe), Routing::Measured { prefill, decode }) => {
                    equal_tokens(moe, if self.sides[1] > 0.0 { prefill } else { decode })
                }
                _ => self.rows,
            };
            self.lower_layer(&group.layer);
        }
        self.layers = 1.0;
        self.emit_norm(embedded);
        let logits = sequences.logits;
        if logits > 0.0 {
            let head = &decoder.head.linear;
            let (n, k) = (head.outputs as f64, head.inputs as f64);
            self.gemm_of(logits, n, k, self.plain);
            // The next token.
            self.emit_stream(Access::Pointwise, logits * n * 6.0, logits * n);
            self.emit_stream(Access::Pointwise, logits * n * 4.0, logits * n);
        }
    }

    fn lower_layer(&mut self, layer: &Layer) {
        let elements = self.rows * layer.width as f64;
        self.emit_norm(elements);
        match &layer.mixer {
            Mixer::Attention(attention) => self.lower_attention(attention),
            Mixer::Mla(latent) => self.lower_latent(latent),
            Mixer::GatedDelta(delta) => self.gated_delta(delta),
        }
        for norm in [&layer.after_mixer_norm, &layer.after_feed_norm] {
            if norm.is_some() {
                self.emit_norm(elements);
            }
        }
        self.emit_norm(elements);
        match &layer.feed {
            FeedForward::Dense(mlp) => self.lower_mlp(mlp),
            FeedForward::Moe(moe) => self.lower_moe(moe),
        }
        if !self.is_serving() {
            // The residual is written back by a kernel of its own.
            self.emit_stream(Access::Pointwise, 3.0 * elements * self.size, elements);
        }
    }

    fn lower_attention(&mut self, attention: &Attention) {
        match &attention.projections {
            Projections::Separate { q, k, v } => self.lower_joined_gemms(&[q, k, v]),
            Projections::Fused { qkv, .. } => self.lower_gemm(qkv),
        }
        let width = attention.head_dim as f64;
        let (heads, kv_heads) = (attention.heads as f64, attention.kv_heads as f64);
        let (query, key) = (self.rows * heads * width, self.rows * kv_heads * width);
        for (norm, elements) in [(&attention.q_norm, query), (&attention.k_norm, key)] {
            if norm.is_some() {
                self.emit_stream(Access::Transcendental, 2.0 * elements * self.size, elements);
            }
        }
        if attention.rope.is_some() {
            self.emit_stream(Access::Pointwise, 2.0 * query * self.size, query);
        }
        // Keys and values into the cache: by one kernel, or with the rotation of keys.
        let written = key * (self.size + self.cached);
        if self.is_serving() {
            self.emit_stream(Access::Gather, 2.0 * written, 2.0 * key);
        } else {
            self.emit_stream(Access::Pointwise, written, key);
            self.emit_stream(Access::Pointwise, written, key);
        }
        let window = attention.window.map(|window| window as f64);
        self.by_group(|step, group| step.attend_group([heads, kv_heads, width], window, group));
        if attention.gate.is_some() {
            self.emit_stream(Access::Transcendental, 3.0 * query * self.size, query);
        }
        self.lower_gemm(&attention.output);
    }

    /// Attention of equal sequences: heads, KV heads and width of a head.
    fn attend_group(
        &mut self,
        [heads, kv_heads, width]: [f64; 3],
        window: Option<f64>,
        group: SequenceGroup,
    ) {
        let (keys, masked) = match self.style {
            FusedStyle::Serving => (group.cached + group.new, false),
            FusedStyle::Compiled { length } => {
                (window.map_or(length, |window| length.min(window)), true)
            }
        };
        let mut shared = kv_heads;
        if masked {
            let one = group.count * keys * width;
            if kv_heads < heads {
                for _ in 0..2 {
                    self.emit_stream(
                        Access::Pointwise,
                        one * (heads + kv_heads) * self.size,
                        one * heads,
                    );
                }
                shared = heads;
            }
            let scores = group.count * group.new * keys;
            self.emit_stream(Access::Pointwise, 3.0 * scores, scores);
        }
        match window {
            Some(window) if self.is_serving() && keys > window => {
                self.lower_band(group, [heads, shared, window, width]);
            }
            _ => self.emit_attention(group, [heads, shared, keys, width, width], masked),
        }
    }

    /// Queries that see a window of keys each. Costed as blocks of window × window where there are more queries than that, else as queries that all see
    /// what they see on average.
    fn lower_band(&mut self, group: SequenceGroup, [heads, kv_heads, window, width]: [f64; 4]) {
        let seen = visible_keys(group.cached, group.new, window);
        let (batch, queries, keys) = if group.new > window {
            (group.count * seen / (window * window), window, window)
        } else {
            (group.count, group.new, seen / group.new)
        };
        let cached = self.cached;
        self.emit_kernel(&Kernel::Attention {
            batch,
            heads,
            kv_heads,
            queries,
            keys,
            key_dim: width,
            value_dim: width,
            causal: false,
            masked: false,
            cached,
        });
    }

    /// Heads, KV heads, keys, and elements of a key and of a value.
    fn emit_attention(
        &mut self,
        group: SequenceGroup,
        [heads, kv_heads, keys, key_dim, value_dim]: [f64; 5],
        masked: bool,
    ) {
        self.emit_kernel(&Kernel::Attention {
            batch: group.count,
            heads,
            kv_heads,
            queries: group.new,
            keys,
            key_dim,
            value_dim,
            causal: group.new > 1.0 && !masked,
            masked,
            cached: self.cached,
        });
    }

    /// Convolution, delta rule and gated norm are a kernel each, or a few that tables have as one.
    fn gated_delta(&mut self, delta: &GatedDelta) {
        let (rows, size) = (self.rows, self.size);
        match &delta.projections {
            DeltaProjections::Fused { qkvz, ba } => {
                self.lower_gemm(qkvz);
                self.lower_gemm(ba);
                // Sorted by queries, keys, values and gates, which lie by key head.
                let all = rows * (qkvz.outputs + ba.outputs) as f64;
                self.emit_stream(Access::Pointwise, 2.0 * all * size, all);
            }
            DeltaProjections::Separate { qkv, z, b, a } => {
                self.lower_joined_gemms(&[qkv, z]);
                self.lower_joined_gemms(&[b, a]);
            }
        }
        self.by_group(|step, group| {
            step.emit_kernel(&Kernel::CausalConv {
                batch: group.count,
                queries: group.new,
                channels: delta.conv_channels() as f64,
                kernel: delta.kernel as f64,
            });
        });
        let heads = delta.value_heads as f64;
        if self.prefill_rows > 0.0 {
            // Decays and write strengths in 32 bits, which decode has in the kernel of the rule.
            let gates = 2.0 * self.prefill_rows * heads;
            self.emit_stream(Access::Transcendental, gates * (size + 4.0), gates);
        }
        self.by_group(|step, group| {
            step.emit_kernel(&Kernel::DeltaRule {
                batch: group.count,
                heads,
                key_heads: delta.key_heads as f64,
                queries: group.new,
                key_dim: delta.key_dim as f64,
                value_dim: delta.value_dim as f64,
                state: f64::from(delta.state.bits()) / 8.0,
            });
        });
        let values = rows * heads * delta.value_dim as f64;
        self.emit_stream(Access::Transcendental, 3.0 * values * size, values);
        self.lower_gemm(&delta.output);
    }

    fn lower_latent(&mut self, latent: &Mla) {
        let rows = self.rows;
        match &latent.query {
            MlaQuery::Direct(q) => self.lower_joined_gemms(&[q, &latent.kv_down]),
            MlaQuery::LowRank { down, norm, up } => {
                self.lower_joined_gemms(&[down, &latent.kv_down]);
                self.emit_norm(rows * norm.width as f64);
                self.lower_gemm(up);
            }
        }
        self.emit_norm(rows * latent.rank as f64);
        let heads = latent.heads as f64;
        let (nope, rope) = (latent.nope_dim as f64, latent.rope_dim as f64);
        let (rank, value) = (latent.rank as f64, latent.value_dim as f64);
        let rotated = rows * heads * rope;
        self.emit_stream(Access::Pointwise, 2.0 * rotated * self.size, rotated);
        let new = rows * (rank + rope);
        self.emit_stream(Access::Gather, new * (self.size + self.cached), new);
        self.by_group(|step, group| {
            let keys = group.cached + group.new;
            if group.is_prefill() || !step.is_serving() {
                let up = &latent.kv_up;
                let weights = step.weights_of(up);
                let rows = group.count * keys;
                step.gemm_of(rows, up.outputs as f64, up.inputs as f64, weights);
                step.emit_attention(group, [heads, heads, keys, nope + rope, value], false);
                return;
            }
            let (size, m) = (step.size, group.count * group.new);
            let absorbed = |n: f64, k: f64| Kernel::Gemm {
                groups: heads,
                m,
                n,
                k,
                size,
                aligned: true,
                stored: Stored::Plain,
            };
            step.emit_kernel(&absorbed(rank, nope));
            step.emit_attention(group, [heads, 1.0, keys, rank + rope, rank], false);
            step.emit_kernel(&absorbed(value, rank));
        });
        self.lower_gemm(&latent.output);
    }

    fn lower_mlp(&mut self, mlp: &Mlp) {
        match &mlp.input {
            MlpInput::Plain(up) => self.lower_gemm(up),
            MlpInput::Gated { gate, up } => self.lower_joined_gemms(&[gate, up]),
            MlpInput::Fused(both) => self.lower_gemm(both),
        }
        let elements = self.rows * mlp.down.inputs as f64;
        self.emit_stream(Access::Pointwise, 3.0 * elements * self.size, elements);
        self.lower_gemm(&mlp.down);
    }

    fn lower_moe(&mut self, moe: &Moe) {
        let experts = &moe.experts;
        let (rows, size) = (self.rows, self.size);
        let gate = &moe.router.gate;
        self.gemm_of(rows, gate.outputs as f64, gate.inputs as f64, self.plain);
        let (count, pairs) = (experts.count as f64, rows * experts.top_k as f64);
        let (hidden, inner) = (experts.hidden as f64, experts.intermediate as f64);
        // Choice of experts, and where their rows begin.
        self.emit_stream(Access::Softmax, rows * count * 4.0, rows * count);
        let (count, pairs, inner) = if experts.dealt_to > 1 {
            let ranks = experts.dealt_to as f64;
            let most = rows * (experts.top_k as f64).min(count / ranks);
            (
                count / ranks,
                busiest_rank_rows(pairs, ranks).min(most),
                inner * ranks,
            )
        } else {
            (count, pairs, inner)
        };
        let chosen = pairs / rows.max(1.0);
        self.emit_grouped([count, pairs, chosen], 2.0 * inner, hidden);
        self.emit_grouped([count, pairs, chosen], hidden, inner);
        // Tables of serving engines have the rest in the grouped GEMMs.
        if !self.is_serving() {
            self.emit_stream(Access::Histogram, pairs * 8.0, pairs);
            self.emit_stream(Access::Scan, count * 8.0, count);
            self.emit_stream(Access::Pointwise, 3.0 * pairs * inner * size, pairs * inner);
            let joined = (pairs + rows) * hidden * size;
            self.emit_stream(Access::Pointwise, joined, rows * hidden);
        }
        if let Some(shared) = &moe.shared {
            self.lower_mlp(shared);
            self.emit_stream(Access::Pointwise, 3.0 * rows * hidden * size, rows * hidden);
        }
    }

    /// Experts, rows of all of them, and experts of a token.
    fn emit_grouped(&mut self, [experts, pairs, chosen]: [f64; 3], n: f64, k: f64) {
        let tokens = self.distinct_tokens;
        let MatrixStorage { size, stored } = self.weights;
        self.emit_kernel(&Kernel::Grouped {
            experts,
            tokens,
            pairs,
            chosen,
            n,
            k,
            size,
            stored,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Σ min(i, 4) over i = 1…q is 10 at 4, 14 at 5 and 26 at 8; areas leave out half a key for each of the first four.
    #[test]
    fn a_window_is_seen_once() {
        assert_eq!(visible_keys(0.0, 4.0, 4.0), 8.0);
        assert_eq!(visible_keys(0.0, 5.0, 4.0), 12.0);
        assert_eq!(visible_keys(0.0, 8.0, 4.0), 24.0);
        // Two cached: two see 3 and 4 keys, two see 4.
        assert_eq!(visible_keys(2.0, 4.0, 4.0), 14.0);
        assert_eq!(visible_keys(9.0, 1.0, 4.0), 4.0);
    }

    #[test]
    fn the_busiest_of_eight_ranks_has_more_than_the_mean() {
        // The largest of eight normal deviates is 1.42 in the mean (tables of order statistics): 100 + 1.42 × √(100 × 7/8).
        assert!((busiest_rank_rows(800.0, 8.0) - 113.3).abs() < 0.5);
    }
}
