//! What a call of an operator must cost, from its name and the shapes and dtypes of its inputs.
//!
//! Operations: a multiply-add is two; an elementwise function is one per element of its output, whatever it computes;
//! softmax is five per element (maximum, subtraction, exponential, sum, division), a layer norm seven, an RMS norm four.
//! Bytes: every distinct input element is read once and every output element written once.

mod arguments;
mod rules;

use llmprof_record::trace::{InputsId, StrId, Trace};
use llmprof_theory::device::{Device, Engine};
use llmprof_units::{Bytes, DType, Flops};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::attribution::operator_cost::arguments::{CallArguments, on_vectors};
use crate::attribution::operator_cost::rules::{CostRule, RULES};

/// The least cost of one call of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct OperatorCost {
    /// Floating-point operations; a multiply-add is two.
    pub flops: Flops,
    /// Bytes that one call must read and write.
    pub bytes: Bytes,
    /// The format that it computes in.
    pub dtype: DType,
    /// Whether matrix units can do it.
    pub engine: Engine,
    /// The sizes of a matrix product.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gemm: Option<GemmShape>,
}

/// `batch` products of m × k by k × n.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct GemmShape {
    /// Number of products in one call.
    pub batch: u64,
    /// Number of rows of the result.
    pub m: u64,
    /// Number of columns of the result.
    pub n: u64,
    /// Depth: elements of each sum.
    pub k: u64,
}

impl OperatorCost {
    /// Counts a product of FP32 at the rate of TF32, in which tensor cores multiply it.
    pub(crate) fn use_tf32(&mut self) {
        if self.gemm.is_some() && self.dtype == DType::F32 {
            self.dtype = DType::Tf32;
        }
    }

    /// The least time on a device, seconds: the longer of computing and moving. Nothing where the device has no peak.
    pub(crate) fn roofline_seconds(&self, device: &Device) -> Option<f64> {
        let moving = self.bytes / device.memory_bandwidth();
        if self.flops == Flops(0) {
            return Some(moving);
        }
        let peak = device.dense_peak(self.dtype, self.engine).ok()?;
        Some((self.flops / peak.dense_flops_per_s).max(moving))
    }
}

/// The rules by the names of a trace.
pub(crate) struct OperatorCosts<'a> {
    trace: &'a Trace,
    rules: FxHashMap<StrId, CostRule>,
}

impl<'a> OperatorCosts<'a> {
    /// Looks up which names of a trace have a rule.
    pub(crate) fn from_trace(trace: &'a Trace) -> Self {
        let rules = RULES
            .iter()
            .filter_map(|&(name, rule)| Some((trace.strings.find(name)?, rule)))
            .collect();
        Self { trace, rules }
    }

    /// The least cost of a call; `None` for an operator without a rule, or if shapes or dtypes are not recorded.
    pub(crate) fn cost_of_call(&self, name: StrId, inputs: InputsId) -> Option<OperatorCost> {
        let rule = *self.rules.get(&name)?;
        let arguments = CallArguments {
            trace: self.trace,
            inputs,
        };
        match rule {
            CostRule::Product { a, b } => arguments.matrix_product(a, b),
            CostRule::Linear => arguments.linear(),
            CostRule::Attention {
                heads_first,
                causal,
            } => arguments.attention(heads_first, causal),
            CostRule::Convolution {
                stride,
                padding,
                dilation,
            } => arguments.convolution(stride, padding, dilation),
            CostRule::Elementwise => arguments.elementwise(),
            CostRule::Rowwise(per_element) => arguments.rowwise(per_element),
            CostRule::Reduction => {
                let input = arguments.tensor(0)?;
                Some(on_vectors(input.elements()?, input.bytes()?, input.dtype))
            }
            CostRule::Lookup { table, indices } => arguments.lookup(table, indices),
            CostRule::Copy => {
                let (to, from) = (arguments.tensor(0)?, arguments.tensor(1)?);
                let written = to.dtype.bytes_for(to.elements()?)?;
                Some(on_vectors(0, written.checked_add(from.bytes()?)?, to.dtype))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use llmprof_record::trace::{Host, HostKind, RawInputs, TraceBuilder};

    use super::*;

    fn cost(name: &str, dims: &str, dtypes: &str, values: &str) -> Option<OperatorCost> {
        let mut builder = TraceBuilder::default();
        let inputs = builder.inputs(RawInputs {
            dims: dims.as_bytes(),
            dtypes: dtypes.as_bytes(),
            values: values.as_bytes(),
            ..RawInputs::default()
        });
        let row = Host {
            name: builder.intern(name),
            thread: builder.thread(1, 1),
            kind: HostKind::OPERATOR,
            inputs,
            ..Host::default()
        };
        builder.hosts.push(row);
        let trace = builder.finish();
        OperatorCosts::from_trace(&trace).cost_of_call(trace.hosts.name[0], trace.hosts.inputs[0])
    }

    const TWO: &str = r#"["c10::BFloat16", "c10::BFloat16"]"#;

    #[test]
    fn products_worked_by_hand() {
        // 2·128·64·32; 2 bytes for 128·32 + 32·64 + 128·64 elements.
        let product = cost("aten::mm", "[[128, 32], [32, 64]]", TWO, "").expect("cost");
        assert_eq!(
            (product.flops.0, product.bytes.0),
            (524_288, 2 * (4096 + 2048 + 8192))
        );
        assert_eq!(product.engine, Engine::Tensor);
        let linear = cost("aten::linear", "[[1, 128, 32], [64, 32]]", TWO, "").expect("cost");
        assert_eq!(
            (linear.flops, linear.bytes.0),
            (product.flops, product.bytes.0)
        );
        // Batches broadcast: 4 products of 2×3 and 3×5.
        let batched = cost("aten::matmul", "[[4, 2, 3], [3, 5]]", TWO, "").expect("cost");
        assert_eq!(batched.flops.0, 4 * 2 * 2 * 3 * 5);
        assert_eq!(cost("aten::mm", "[[128, 32], [31, 64]]", TWO, ""), None);
        assert_eq!(cost("aten::mm", "[[128, 32], [-32, 64]]", TWO, ""), None);
    }

    #[test]
    fn a_convolution_worked_by_hand() {
        // 3×3 window, stride 2, padding 1 on 8×8: 4×4 places; 2·16·16·3·9.
        let dims = "[[1, 3, 8, 8], [16, 3, 3, 3], [], [], [], []]";
        let dtypes = r#"["float", "float", "", "ScalarList", "ScalarList", "ScalarList"]"#;
        let values = r#"["", "", "", "[2, 2]", "[1, 1]", "[1, 1]"]"#;
        let conv = cost("aten::convolution", dims, dtypes, values).expect("cost");
        assert_eq!(conv.flops.0, 2 * 16 * 16 * 3 * 9);
        assert_eq!(conv.bytes, Bytes(4 * (3 * 64 + 16 * 27 + 16 * 16)));
        let never = values.replace("[2, 2]", "[0, 0]");
        assert_eq!(cost("aten::convolution", dims, dtypes, &never), None);
    }

    #[test]
    fn elementwise_work_broadcasts() {
        let dtypes = r#"["float", "float", "Scalar"]"#;
        let sum = cost("aten::add", "[[4, 1, 3], [5, 1], []]", dtypes, "").expect("cost");
        assert_eq!((sum.flops.0, sum.bytes.0), (60, 4 * (12 + 5 + 60)));
        assert_eq!(cost("aten::add", "[[4], [5], []]", dtypes, ""), None);
        assert_eq!(cost("aten::view", "[[4], [5], []]", dtypes, ""), None);
    }
}
