//! How many experts the tokens of a decode step reach where weights are random.
//!
//! A random router gives expert e of token t the logit √ρ·z_e + √(1−ρ)·ε_te, where ρ is the correlation of the tokens' hidden states: what
//! they have in common prefers the same experts. Hidden states of different sequences have in common what attention averages
//! from their contexts: prompts drawn from U token ids share the mean of those ids' values (variance 1/U) beside what is their own
//! (1/n of n tokens). Variances and covariances are followed through the layers; matrices have independent elements of
//! variance σ². Nothing is fitted.

use llmprof_theory::{
    Decoder, Model, Routing,
    block::{Attention, FeedForward, Layer, Mixer, Mlp, MlpInput, Moe, Scoring},
    expected_touched,
};
use llmprof_units::stats::normal_below;

/// Standard deviation of weights, as transformers initializes them.
const INITIAL: f64 = 0.02;
/// Points of an integral over a standard normal variable from −6 to 6.
const POINTS: usize = 96;

/// Experts that a model of random weights reaches: as by uniform choice in prefill, fewer in decode, where tokens choose alike as far as
/// their contexts do. `token_kinds`: token ids that prompts were drawn from; uniform where it is not stated.
pub fn random_routing(model: &Model, token_kinds: Option<u64>, batch: u64, prompt: u64) -> Routing {
    let (Some(kinds), Some(decoder)) = (token_kinds, &model.decoder) else {
        return Routing::Uniform;
    };
    let moe = decoder
        .groups
        .iter()
        .find_map(|group| match &group.layer.feed {
            FeedForward::Moe(moe) => Some(moe),
            FeedForward::Dense(_) => None,
        });
    let Some(experts) = moe.map(|moe| &moe.experts) else {
        return Routing::Uniform;
    };
    let tokens = batch.saturating_mul(prompt);
    Routing::Measured {
        prefill: expected_touched(experts.count, experts.top_k, tokens),
        decode: touched_in_decode(decoder, batch as f64, prompt as f64, kinds.max(1) as f64),
    }
}

/// Experts that a decode step reaches, in the mean of the layers that have any.
fn touched_in_decode(decoder: &Decoder, batch: f64, past: f64, kinds: f64) -> f64 {
    let variance = INITIAL * INITIAL;
    let mut context = Hidden::new(variance, kinds);
    let mut step = Hidden::new(variance, kinds);
    let (mut sum, mut mixtures) = (0.0, 0.0);
    let mut order: Vec<(u32, usize)> = Vec::new();
    for (group, layers) in decoder.groups.iter().enumerate() {
        order.extend(layers.layers.iter().map(|layer| (*layer, group)));
    }
    order.sort_unstable();
    for (_, group) in order {
        let layer = &decoder.groups[group].layer;
        let mixing = Mixing::of_layer(layer);
        // Tokens of the prompt have seen two thirds of it in the mean of their logarithms; the step's have seen all.
        let [prompt, whole] = [past * 2.0 / 3.0, past].map(|tokens| mixing.independent(tokens));
        let own = context.share_within();
        let between = context.share_across();
        step.mix(mixing.gain, own, between, whole);
        context.mix(mixing.gain, own, between, prompt);
        if let FeedForward::Moe(moe) = &layer.feed {
            sum += touched(moe, batch, step.share_across());
            mixtures += 1.0;
        }
        for hidden in [&mut step, &mut context] {
            hidden.feed(layer);
        }
    }
    sum / f64::max(mixtures, 1.0)
}

/// Variance of an element of the residual stream, and covariances of two tokens: of one sequence, and of two.
#[derive(Clone, Copy)]
struct Hidden {
    variance: f64,
    within: f64,
    across: f64,
}

impl Hidden {
    /// Embeddings of tokens that are the same with probability 1 ÷ kinds.
    fn new(variance: f64, kinds: f64) -> Self {
        Self {
            variance,
            within: variance / kinds,
            across: variance / kinds,
        }
    }

    fn share_within(&self) -> f64 {
        self.within / self.variance
    }

    fn share_across(&self) -> f64 {
        self.across / self.variance
    }

    /// Adds the mean of values whose correlations are `within` and `across`, `independent` of them.
    fn mix(&mut self, gain: f64, within: f64, across: f64, independent: f64) {
        self.variance += gain * (within + (1.0 - within) / independent);
        self.within += gain * (within + (1.0 - within) / (independent * 1.5));
        self.across += gain * across;
    }

    /// Adds the feed-forward network: products of two projections, whose correlation is that of their input squared.
    fn feed(&mut self, layer: &Layer) {
        let projected = INITIAL * INITIAL * layer.width as f64;
        let (own, between) = (self.share_within(), self.share_across());
        let mut add = |variance: f64, shared: &dyn Fn(f64) -> f64| {
            self.within += variance * own * own * shared(own);
            self.across += variance * between * between * shared(between);
            self.variance += variance;
        };
        match &layer.feed {
            FeedForward::Dense(mlp) => add(mlp_variance(mlp, projected), &|_| 1.0),
            FeedForward::Moe(moe) => {
                let inner = moe.experts.intermediate as f64;
                let expert = activated(projected) * projected * INITIAL * INITIAL * inner;
                let weights = squared_weights(moe, projected);
                add(expert * weights, &|correlation| overlap(moe, correlation));
                if let Some(shared) = &moe.shared {
                    // A gate is a sigmoid around one half.
                    let gate = if moe.shared_gate.is_some() { 0.25 } else { 1.0 };
                    add(gate * mlp_variance(shared, projected), &|_| 1.0);
                }
            }
        }
    }
}

/// What attention adds to the variance for each unit of its inputs', and how evenly it looks at keys.
struct Mixing {
    gain: f64,
    logit_variance: f64,
}

impl Mixing {
    fn of_layer(layer: &Layer) -> Self {
        let width = layer.width as f64;
        let projected = INITIAL * INITIAL * width;
        let (values, normed) = match &layer.mixer {
            Mixer::Attention(Attention {
                heads,
                head_dim,
                q_norm,
                ..
            }) => ((heads * head_dim) as f64, q_norm.is_some()),
            Mixer::Mla(latent) => ((latent.heads * latent.value_dim) as f64, false),
            // As attention with normed keys, though a random decay forgets what lies far back.
            Mixer::GatedDelta(delta) => ((delta.value_heads * delta.value_dim) as f64, true),
        };
        Self {
            gain: projected * INITIAL * INITIAL * values,
            // The product of two vectors of d elements, divided by √d.
            logit_variance: if normed { 1.0 } else { projected * projected },
        }
    }

    /// Keys that would give as much variance with even weights: Σw² = exp(s²) ÷ n for logits of variance s².
    fn independent(&self, tokens: f64) -> f64 {
        (tokens / self.logit_variance.exp()).max(1.0)
    }
}

fn mlp_variance(mlp: &Mlp, projected: f64) -> f64 {
    let gate = match mlp.input {
        MlpInput::Plain(_) => 1.0,
        MlpInput::Gated { .. } | MlpInput::Fused(_) => projected,
    };
    activated(projected) * gate * INITIAL * INITIAL * mlp.down.inputs as f64
}

/// E[silu(x)²] of a normal x.
fn activated(variance: f64) -> f64 {
    let deviation = variance.sqrt();
    expectation(|z| {
        let x = z * deviation;
        (x / (1.0 + (-x).exp())).powi(2)
    })
}

/// Σ of squared routing weights of a token.
fn squared_weights(moe: &Moe, logit_variance: f64) -> f64 {
    let (experts, chosen) = (moe.experts.count as f64, moe.experts.top_k as f64);
    if moe.router.normalize || moe.router.scoring != Scoring::Softmax {
        return 1.0 / chosen;
    }
    // E[w²] of logits above the threshold, where the sum of exponentials is E·exp(s²/2).
    let threshold = threshold(moe);
    let above = normal_below(2.0 * logit_variance.sqrt() - threshold) / (chosen / experts);
    chosen * logit_variance.exp() * above / (experts * experts)
}

/// The standard normal value that the chosen share of experts lies above.
fn threshold(moe: &Moe) -> f64 {
    let share = (moe.experts.top_k as f64 / moe.experts.count as f64).min(1.0);
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if normal_below(-middle) > share {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The probability that a token chooses an expert whose common part is z.
fn chosen(threshold: f64, correlation: f64, z: f64) -> f64 {
    let correlation = correlation.clamp(0.0, 0.9999);
    normal_below((correlation.sqrt() * z - threshold) / (1.0 - correlation).sqrt())
}

/// Experts that `tokens` tokens of this correlation reach.
fn touched(moe: &Moe, tokens: f64, correlation: f64) -> f64 {
    let threshold = threshold(moe);
    moe.experts.count as f64
        * expectation(|z| 1.0 - (1.0 - chosen(threshold, correlation, z)).powf(tokens))
}

/// Share of a token's experts that another one chooses too.
fn overlap(moe: &Moe, correlation: f64) -> f64 {
    let threshold = threshold(moe);
    let both = expectation(|z| chosen(threshold, correlation, z).powi(2));
    both / (moe.experts.top_k as f64 / moe.experts.count as f64)
}

/// The mean of a function of a standard normal variable.
fn expectation(of: impl Fn(f64) -> f64) -> f64 {
    let step = 12.0 / POINTS as f64;
    let density = |z: f64| (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    (0..POINTS)
        .map(|index| {
            let z = -6.0 + step * (index as f64 + 0.5);
            of(z) * density(z) * step
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoder(model: &str) -> Decoder {
        let config = serde_json::from_str(model).unwrap();
        Model::from_config(&config, None).unwrap().decoder.unwrap()
    }

    #[test]
    fn the_variance_of_a_normal_variable_is_one() {
        assert!((expectation(|z| z * z) - 1.0).abs() < 1e-6);
    }

    /// Experts counted in decode steps of random models of four layers on an H200 (fixtures/h200/kernels/routing.json).
    #[test]
    fn counted_experts_are_within_a_quarter() {
        let text = include_str!("../../fixtures/h200/kernels/routing.json");
        let counted: serde_json::Value = serde_json::from_str(text).unwrap();
        let mut errors = Vec::new();
        for row in counted["rows"].as_array().unwrap() {
            let decoder = decoder(&counted["models"][row["model"].as_str().unwrap()].to_string());
            let number = |key: &str| row[key].as_f64().unwrap();
            let (batch, prompt) = (number("batch"), number("prompt"));
            let predicted = touched_in_decode(&decoder, batch, prompt, number("token_kinds"));
            let layers = row["decode"].as_array().unwrap();
            let measured: f64 = layers.iter().filter_map(serde_json::Value::as_f64).sum();
            errors.push((predicted / (measured / layers.len() as f64) - 1.0).abs());
        }
        assert!(errors.iter().all(|error| *error < 0.3), "{errors:?}");
        let mean: f64 = errors.iter().sum::<f64>() / errors.len() as f64;
        assert!(mean < 0.09, "{mean}");
    }
}
