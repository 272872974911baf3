use llmprof_units::Basis;

use super::{ActivationKind, Linear, Mlp};
use crate::{
    count::saturating_product,
    lower::{Lowering, StepCost},
    operator::{Kind, Phase, Shape, Traffic},
    routing::expected_touched,
    weight::{Dims, Visitor, WeightSpec},
    workload::Routing,
};

/// How gate logits become weights of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scoring {
    /// Softmax over all experts, then top-k.
    Softmax,
    /// Top-k, then softmax over the chosen (GPT-OSS).
    SoftmaxOfChosen,
    /// A sigmoid each, then top-k (DeepSeek-V3).
    Sigmoid,
}

/// The choice of experts for a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Router {
    /// From the model's width to one logit per expert; never quantized.
    pub gate: Linear,
    /// Path of a per-expert bias that takes part in the choice only (DeepSeek-V3).
    pub correction: Option<&'static str>,
    pub scoring: Scoring,
    /// Whether the weights of the chosen are divided by their sum.
    pub normalize: bool,
    /// What the weights are multiplied by.
    pub scaling: f64,
    /// Experts are first chosen by group: how many groups, and how many of them stay.
    pub groups: Option<(u64, u64)>,
}

/// How a checkpoint names the experts' matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpertWeights {
    /// One tensor per expert and projection: `PREFIX.<expert>.<leaf>.weight`.
    PerExpert {
        /// Path before the expert's number.
        prefix: &'static str,
        gate: &'static str,
        /// Leaf of the up projection.
        up: &'static str,
        /// Leaf of the down projection.
        down: &'static str,
    },
    /// All experts in one tensor, rows as inputs, gate and up columns interleaved, with biases (GPT-OSS).
    PackedInterleaved {
        /// Gate and up; the bias has `_bias` added.
        gate_up: &'static str,
        /// Bias of gate and up.
        gate_up_bias: &'static str,
        down: &'static str,
        down_bias: &'static str,
    },
}

/// The routed experts: gated feed-forward networks of equal size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experts {
    pub name: &'static str,
    pub count: u64,
    /// How many a token uses.
    pub top_k: u64,
    pub hidden: u64,
    pub intermediate: u64,
    pub activation: ActivationKind,
    pub weights: ExpertWeights,
    /// Ranks that whole experts are dealt out to: of each, `intermediate` then has a share, as if ranks divided all of them.
    pub dealt_to: u64,
}

impl Experts {
    /// Elements of one expert's biases.
    fn bias_elements(&self) -> u64 {
        match self.weights {
            ExpertWeights::PerExpert { .. } => 0,
            ExpertWeights::PackedInterleaved { .. } => 2 * self.intermediate + self.hidden,
        }
    }

    pub(crate) fn parameters_each(&self) -> u64 {
        saturating_product(&[3, self.hidden, self.intermediate])
            .saturating_add(self.bias_elements())
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moe {
    pub router: Router,
    pub experts: Experts,
    /// A network that every token passes.
    pub shared: Option<Mlp>,
    /// A sigmoid gate on the shared network's result (Qwen2-MoE).
    pub shared_gate: Option<Linear>,
}

impl Moe {
    pub(crate) fn lower<'m>(&'m self, lowering: &mut Lowering<'_, 'm>) {
        self.lower_router(lowering);
        self.lower_experts(lowering);
        if let Some(shared) = &self.shared {
            shared.lower(lowering);
            let rows = lowering.rows();
            if let Some(gate) = &self.shared_gate {
                lowering.emit_linear(gate, rows);
                lowering.emit_elementwise(
                    Kind::Scale,
                    "mlp.shared_expert_scale",
                    (rows, self.experts.hidden),
                    1,
                    1,
                );
            }
            lowering.emit_add("mlp.shared_add", self.experts.hidden);
        }
    }

    /// The gate GEMM, scores (five operations each) and the choice.
    fn lower_router<'m>(&'m self, lowering: &mut Lowering<'_, 'm>) {
        let rows = lowering.rows();
        let gate = &self.router.gate;
        let mut step = lowering.linear_step(gate, rows);
        let correction = if self.router.correction.is_some() {
            gate.outputs
        } else {
            0
        };
        step.parameters = gate.parameter_count();
        step.vector = step
            .vector
            .saturating_add(saturating_product(&[rows, gate.outputs, 5]));
        step.traffic.weights = step
            .traffic
            .weights
            .saturating_add(lowering.plain_bytes(correction));
        step.traffic.activation_write =
            lowering.activation_bytes(saturating_product(&[rows, 2, self.experts.top_k]));
        lowering.emit(
            Kind::Route,
            gate.name,
            Shape::gemm(rows, gate.outputs, gate.inputs),
            &step,
        );
    }

    fn lower_experts<'m>(&'m self, lowering: &mut Lowering<'_, 'm>) {
        let experts = &self.experts;
        let pass = lowering.pass;
        let tokens = pass.rows();
        let (touched, basis) = match lowering.routing {
            Routing::Uniform => {
                let touched = expected_touched(experts.count, experts.top_k, tokens);
                let exact = tokens <= 1 || experts.top_k == experts.count;
                let basis = if exact {
                    Basis::Counted
                } else {
                    Basis::Expected
                };
                (touched, basis)
            }
            Routing::Measured { prefill, decode } => {
                let touched = if pass.phase == Phase::Decode {
                    decode
                } else {
                    prefill
                };
                (touched.clamp(0.0, experts.count as f64), Basis::Measured)
            }
        };
        let matrix = lowering.formats.matrix_format(true);
        let each = matrix
            .stored_bytes(experts.intermediate, experts.hidden)
            .saturating_mul(2)
            .saturating_add(matrix.stored_bytes(experts.hidden, experts.intermediate))
            .saturating_add(lowering.plain_bytes(experts.bias_elements()));
        let pairs = saturating_product(&[tokens, experts.top_k, pass.steps]);
        let inner = saturating_product(&[pairs, experts.intermediate]);
        let outer = saturating_product(&[pairs, experts.hidden]);
        let biases = saturating_product(&[pairs, experts.bias_elements()]);
        let all = StepCost {
            parameters: saturating_product(&[experts.count, experts.parameters_each()]),
            tensor: saturating_product(&[6, inner, experts.hidden]),
            // The gated activation, then a product and a sum per output for the weighted mean.
            vector: inner
                .saturating_mul(experts.activation.flops_per_element() + 1)
                .saturating_add(outer.saturating_mul(2))
                .saturating_add(biases),
            traffic: Traffic {
                weights: (touched * each as f64 * pass.steps as f64).round() as u64,
                activation_read: lowering.activation_bytes(
                    outer
                        .saturating_add(inner.saturating_mul(3))
                        .saturating_add(outer),
                ),
                activation_write: lowering.activation_bytes(
                    inner.saturating_mul(3).saturating_add(saturating_product(&[
                        tokens,
                        pass.steps,
                        experts.hidden,
                    ])),
                ),
                ..Traffic::default()
            },
        };
        lowering.emit_sum(
            Kind::Experts,
            experts.name,
            Shape {
                groups: experts.top_k,
                m: tokens,
                n: experts.intermediate,
                k: experts.hidden,
            },
            &all,
            lowering.formats.compute_for(true),
            basis,
        );
    }

    pub(crate) fn visit_weights(&self, visitor: &mut Visitor<'_>) {
        self.router.gate.visit_weights(visitor);
        if let Some(name) = self.router.correction {
            visitor.visit(WeightSpec {
                buffer: true,
                ..WeightSpec::new(name, "", Dims::from([self.experts.count]))
            });
        }
        let Experts {
            count,
            hidden,
            intermediate,
            ..
        } = self.experts;
        match self.experts.weights {
            ExpertWeights::PerExpert {
                prefix,
                gate,
                up,
                down,
            } => {
                let mut each = |leaf, outputs, inputs| {
                    visitor.visit(WeightSpec {
                        quantized: Some([1, outputs, inputs]),
                        experts: Some((u32::try_from(count).unwrap_or(u32::MAX), leaf)),
                        ..WeightSpec::new(prefix, "weight", Dims::from([outputs, inputs]))
                    });
                };
                each(gate, intermediate, hidden);
                each(up, intermediate, hidden);
                each(down, hidden, intermediate);
            }
            ExpertWeights::PackedInterleaved {
                gate_up,
                gate_up_bias,
                down,
                down_bias,
            } => {
                let mut each = |name, bias, inputs, outputs, parts| {
                    visitor.visit(WeightSpec {
                        quantized: Some([count * parts, outputs / parts, inputs]),
                        ..WeightSpec::new(name, "", Dims::from([count, inputs, outputs]))
                    });
                    visitor.visit(WeightSpec::new(bias, "", Dims::from([count, outputs])));
                };
                each(gate_up, gate_up_bias, hidden, 2 * intermediate, 2);
                each(down, down_bias, intermediate, hidden, 1);
            }
        }
        if let Some(shared) = &self.shared {
            shared.visit_weights(visitor);
        }
        if let Some(gate) = &self.shared_gate {
            gate.visit_weights(visitor);
        }
    }
}
