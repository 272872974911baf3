use llmprof_theory::block::ActivationKind;

use super::{
    isa::vectorized,
    math::{erf, exp, sigmoid, tanh},
};

vectorized! {
    pub(crate) fn add_assign(to: &mut [f32], from: &[f32]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to += from;
        }
    }
}

vectorized! {
    pub(crate) fn scale_values(values: &mut [f32], factor: f32) {
        for value in values {
            *value *= factor;
        }
    }
}

vectorized! {
    /// `cap × tanh(value ÷ cap)`.
    pub(crate) fn soft_cap(values: &mut [f32], cap: f32) {
        for value in values {
            *value = cap * tanh(*value / cap);
        }
    }
}

vectorized! {
    pub(crate) fn widen_bf16(from: &[u16], to: &mut [f32]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = f32::from_bits(u32::from(*from) << 16);
        }
    }
}

vectorized! {
    /// `eˢ ÷ Σ eˢ` in place. An empty slice stays empty.
    pub(crate) fn softmax(scores: &mut [f32]) {
        // The floats of an AVX-512 register, two of AVX2.
        const LANES: usize = 16;
        let mut largest = [f32::NEG_INFINITY; LANES];
        for chunk in scores.chunks(LANES) {
            for (largest, score) in largest.iter_mut().zip(chunk) {
                *largest = if *score > *largest { *score } else { *largest };
            }
        }
        let largest = largest.into_iter().fold(f32::NEG_INFINITY, f32::max);
        for score in scores.iter_mut() {
            *score = exp(*score - largest);
        }
        let mut sums = [0.0; LANES];
        for chunk in scores.chunks(LANES) {
            for (sum, score) in sums.iter_mut().zip(chunk) {
                *sum += score;
            }
        }
        let inverse = 1.0 / sums.iter().sum::<f32>();
        for score in scores.iter_mut() {
            *score *= inverse;
        }
    }
}

/// √(2 ÷ π), of the approximation of GELU by tanh.
const ROOT_2_OVER_PI: f32 = 0.797_884_6;

/// Runs a loop with the nonlinearity of `kind` inlined into it.
macro_rules! with_activation {
    ($kind:expr, $run:ident) => {
        match $kind {
            ActivationKind::Silu => $run!(|x: f32| x * sigmoid(x)),
            ActivationKind::Gelu => {
                $run!(|x: f32| 0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2)))
            }
            ActivationKind::GeluTanh => {
                $run!(|x: f32| 0.5 * x * (1.0 + tanh(ROOT_2_OVER_PI * (x + 0.044_715 * x * x * x))))
            }
            ActivationKind::QuickGelu => $run!(|x: f32| x * sigmoid(1.702 * x)),
            ActivationKind::Relu => $run!(|x: f32| x.max(0.0)),
            // Loading refuses models that have it.
            ActivationKind::ClampedSwiglu => {}
        }
    };
}

vectorized! {
    /// The nonlinearity of each value, in place.
    pub(crate) fn apply_activation(kind: ActivationKind, values: &mut [f32]) {
        macro_rules! run {
            ($function:expr) => {
                for value in values {
                    *value = $function(*value);
                }
            };
        }
        with_activation!(kind, run);
    }
}

vectorized! {
    /// The nonlinearity of each gate times its up value, into `to`.
    pub(crate) fn activate_gated(kind: ActivationKind, gate: &[f32], up: &[f32], to: &mut [f32]) {
        macro_rules! run {
            ($function:expr) => {
                for ((to, gate), up) in to.iter_mut().zip(gate).zip(up) {
                    *to = $function(*gate) * up;
                }
            };
        }
        with_activation!(kind, run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softmax_sums_to_one_and_keeps_order() {
        let mut scores: Vec<f32> = (0..37)
            .map(|i| ((i * 7) % 37) as f32 / 3.0 + 200.0)
            .collect();
        let before = scores.clone();
        softmax(&mut scores);
        assert!((scores.iter().sum::<f32>() - 1.0).abs() < 1e-6);
        for (i, j) in [(0, 1), (5, 9), (36, 2)] {
            assert_eq!(before[i] < before[j], scores[i] < scores[j]);
        }
        let expected = f64::from(before[3] - before[4]).exp();
        assert!((f64::from(scores[3] / scores[4]) - expected).abs() / expected < 1e-5);
        softmax(&mut []);
    }

    #[test]
    fn activations_at_one() {
        for (kind, expected) in [
            (ActivationKind::Silu, 0.731_058_6),
            (ActivationKind::Gelu, 0.841_344_8),
            (ActivationKind::GeluTanh, 0.841_192),
            (ActivationKind::QuickGelu, 0.845_796),
            (ActivationKind::Relu, 1.0),
        ] {
            let mut values = [1.0];
            apply_activation(kind, &mut values);
            assert!(
                (values[0] - expected).abs() < 1e-5,
                "{kind:?}: {}",
                values[0]
            );
            let mut gated = [0.0];
            activate_gated(kind, &[1.0], &[3.0], &mut gated);
            assert!(
                (gated[0] - 3.0 * expected).abs() < 3e-5,
                "{kind:?}: {}",
                gated[0]
            );
        }
    }
}
