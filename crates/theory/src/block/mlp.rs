use super::Linear;
use crate::{lower::Lowering, operator::Kind, weight::Visitor};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivationKind {
    /// SiLU, also named swish: `x × sigmoid(x)`.
    Silu,
    Gelu,
    /// GELU by the tanh approximation.
    GeluTanh,
    /// CLIP's approximation of GELU: `x × sigmoid(1.702 x)`.
    QuickGelu,
    Relu,
    /// GPT-OSS: clamped gate and up, `gate × sigmoid(1.702 gate) × (up + 1)`.
    ClampedSwiglu,
}

impl ActivationKind {
    /// The names that configs use.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "silu" | "swish" => Self::Silu,
            "gelu" => Self::Gelu,
            "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Self::GeluTanh,
            "quick_gelu" => Self::QuickGelu,
            "relu" => Self::Relu,
            _ => return None,
        })
    }

    /// Operations per element, an exponential, tanh or error function counted as one.
    pub(crate) fn flops_per_element(self) -> u64 {
        match self {
            Self::Silu => 4,
            Self::Gelu | Self::QuickGelu => 5,
            Self::GeluTanh | Self::ClampedSwiglu => 8,
            Self::Relu => 1,
        }
    }
}

/// The first half of a feed-forward network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MlpInput {
    /// One projection and a nonlinearity.
    Plain(Linear),
    /// A gate through the nonlinearity, times an up projection.
    Gated { gate: Linear, up: Linear },
    /// As `Gated`, with gate and up in one matrix, gate first.
    Fused(Linear),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mlp {
    /// Path of the activation operator.
    pub activation_name: &'static str,
    pub input: MlpInput,
    pub down: Linear,
    pub activation: ActivationKind,
}

impl Mlp {
    /// The same network, never quantized.
    #[must_use]
    pub(crate) fn without_quantization(self) -> Self {
        Self {
            input: match self.input {
                MlpInput::Plain(up) => MlpInput::Plain(up.without_quantization()),
                MlpInput::Gated { gate, up } => MlpInput::Gated {
                    gate: gate.without_quantization(),
                    up: up.without_quantization(),
                },
                MlpInput::Fused(both) => MlpInput::Fused(both.without_quantization()),
            },
            down: self.down.without_quantization(),
            ..self
        }
    }

    pub(crate) fn lower<'m>(&'m self, lowering: &mut Lowering<'_, 'm>) {
        let rows = lowering.rows();
        let gated = match &self.input {
            MlpInput::Plain(up) => {
                lowering.emit_linear(up, rows);
                false
            }
            MlpInput::Gated { gate, up } => {
                lowering.emit_linear(gate, rows);
                lowering.emit_linear(up, rows);
                true
            }
            MlpInput::Fused(gate_up) => {
                lowering.emit_linear(gate_up, rows);
                true
            }
        };
        lowering.emit_elementwise(
            Kind::Activation,
            self.activation_name,
            (rows, self.down.inputs),
            1 + u64::from(gated),
            self.activation.flops_per_element() + u64::from(gated),
        );
        lowering.emit_linear(&self.down, rows);
    }

    pub(crate) fn visit_weights(&self, visitor: &mut Visitor<'_>) {
        match &self.input {
            MlpInput::Plain(up) => up.visit_weights(visitor),
            MlpInput::Gated { gate, up } => {
                gate.visit_weights(visitor);
                up.visit_weights(visitor);
            }
            MlpInput::Fused(gate_up) => gate_up.visit_weights(visitor),
        }
        self.down.visit_weights(visitor);
    }
}
