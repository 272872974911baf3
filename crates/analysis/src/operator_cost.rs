//! What a call of an operator must cost, from its name and the shapes and dtypes of its inputs.
//!
//! Operations: a multiply-add is two; an elementwise function is one per element of its output, whatever it computes;
//! softmax is five per element (maximum, subtraction, exponential, sum, division), a layer norm seven, an RMS norm four.
//! Bytes: every distinct input element is read once and every output element written once.

use llmprof_record::trace::{InputsId, StrId, Trace};
use llmprof_theory::device::{Device, Engine};
use llmprof_units::DType;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// What one call must cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorCost {
    /// Operations.
    pub flops: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// The format that it computes in.
    pub dtype: DType,
    /// Whether matrix units can do it.
    pub engine: Engine,
}

impl OperatorCost {
    /// The least time on a device, seconds: the longer of computing and moving. Nothing where the device has no peak.
    pub fn floor_seconds(&self, device: &Device) -> Option<f64> {
        let moving = self.bytes as f64 / device.bandwidth().0;
        if self.flops == 0 {
            return Some(moving);
        }
        let peak = device.peak(self.dtype, self.engine).ok()?;
        Some((self.flops as f64 / peak.dense_flops_per_s.0).max(moving))
    }
}

/// How the cost of an operator follows from its inputs. Numbers are positions of arguments.
#[derive(Clone, Copy)]
enum Rule {
    /// A product of matrices, with leading dimensions that broadcast.
    Product { a: usize, b: usize },
    /// A product with a weight that is stored transposed, `[out, in]`.
    Linear,
    /// Attention; `heads_first` where tensors are `[batch, heads, tokens, size]`.
    Attention { heads_first: bool, causal: usize },
    /// A convolution; where stride, padding and dilation are among the arguments.
    Convolution {
        stride: usize,
        padding: usize,
        dilation: usize,
    },
    /// One output element from the same place of all inputs.
    Elementwise,
    /// An output like the first input, with so many operations per element.
    Rowwise(u64),
    /// All elements of the first input, into an output that is much smaller.
    Reduction,
    /// Rows of a table (first number) chosen by indices (second number).
    Lookup { table: usize, indices: usize },
    /// From the second tensor into the first.
    Copy,
}

const RULES: &[(&str, Rule)] = &[
    ("aten::mm", Rule::Product { a: 0, b: 1 }),
    ("aten::bmm", Rule::Product { a: 0, b: 1 }),
    ("aten::matmul", Rule::Product { a: 0, b: 1 }),
    ("aten::_int_mm", Rule::Product { a: 0, b: 1 }),
    ("aten::_scaled_mm", Rule::Product { a: 0, b: 1 }),
    ("aten::addmm", Rule::Product { a: 1, b: 2 }),
    ("aten::baddbmm", Rule::Product { a: 1, b: 2 }),
    ("aten::_addmm_activation", Rule::Product { a: 1, b: 2 }),
    ("aten::linear", Rule::Linear),
    (
        "aten::scaled_dot_product_attention",
        Rule::Attention {
            heads_first: true,
            causal: 5,
        },
    ),
    (
        "aten::_scaled_dot_product_flash_attention",
        Rule::Attention {
            heads_first: true,
            causal: 4,
        },
    ),
    (
        "aten::_scaled_dot_product_efficient_attention",
        Rule::Attention {
            heads_first: true,
            causal: 6,
        },
    ),
    (
        "aten::_scaled_dot_product_cudnn_attention",
        Rule::Attention {
            heads_first: true,
            causal: 6,
        },
    ),
    (
        "aten::_cudnn_attention_forward",
        Rule::Attention {
            heads_first: true,
            causal: 10,
        },
    ),
    (
        "aten::_flash_attention_forward",
        Rule::Attention {
            heads_first: false,
            causal: 8,
        },
    ),
    (
        "aten::convolution",
        Rule::Convolution {
            stride: 3,
            padding: 4,
            dilation: 5,
        },
    ),
    (
        "aten::_convolution",
        Rule::Convolution {
            stride: 3,
            padding: 4,
            dilation: 5,
        },
    ),
    (
        "aten::conv1d",
        Rule::Convolution {
            stride: 3,
            padding: 4,
            dilation: 5,
        },
    ),
    (
        "aten::conv2d",
        Rule::Convolution {
            stride: 3,
            padding: 4,
            dilation: 5,
        },
    ),
    (
        "aten::conv3d",
        Rule::Convolution {
            stride: 3,
            padding: 4,
            dilation: 5,
        },
    ),
    (
        "aten::cudnn_convolution",
        Rule::Convolution {
            stride: 3,
            padding: 2,
            dilation: 4,
        },
    ),
    ("aten::add", Rule::Elementwise),
    ("aten::add_", Rule::Elementwise),
    ("aten::sub", Rule::Elementwise),
    ("aten::rsub", Rule::Elementwise),
    ("aten::mul", Rule::Elementwise),
    ("aten::mul_", Rule::Elementwise),
    ("aten::div", Rule::Elementwise),
    ("aten::div_", Rule::Elementwise),
    ("aten::pow", Rule::Elementwise),
    ("aten::neg", Rule::Elementwise),
    ("aten::exp", Rule::Elementwise),
    ("aten::rsqrt", Rule::Elementwise),
    ("aten::sqrt", Rule::Elementwise),
    ("aten::cos", Rule::Elementwise),
    ("aten::sin", Rule::Elementwise),
    ("aten::tanh", Rule::Elementwise),
    ("aten::sigmoid", Rule::Elementwise),
    ("aten::silu", Rule::Elementwise),
    ("aten::gelu", Rule::Elementwise),
    ("aten::relu", Rule::Elementwise),
    ("aten::clamp", Rule::Elementwise),
    ("aten::where", Rule::Elementwise),
    ("aten::native_layer_norm", Rule::Rowwise(7)),
    ("aten::layer_norm", Rule::Rowwise(7)),
    ("aten::rms_norm", Rule::Rowwise(4)),
    ("aten::_fused_rms_norm", Rule::Rowwise(4)),
    ("aten::_softmax", Rule::Rowwise(5)),
    ("aten::softmax", Rule::Rowwise(5)),
    ("aten::_log_softmax", Rule::Rowwise(5)),
    ("aten::cumsum", Rule::Rowwise(1)),
    ("aten::sum", Rule::Reduction),
    ("aten::mean", Rule::Reduction),
    ("aten::max", Rule::Reduction),
    ("aten::amax", Rule::Reduction),
    ("aten::argmax", Rule::Reduction),
    (
        "aten::embedding",
        Rule::Lookup {
            table: 0,
            indices: 1,
        },
    ),
    (
        "aten::index_select",
        Rule::Lookup {
            table: 0,
            indices: 2,
        },
    ),
    ("aten::copy_", Rule::Copy),
];

/// The rules by the names of a trace.
pub struct Costs<'a> {
    trace: &'a Trace,
    rules: FxHashMap<StrId, Rule>,
}

/// A tensor among the arguments.
#[derive(Clone, Copy)]
struct Operand<'a> {
    dims: &'a [i64],
    strides: &'a [i64],
    dtype: DType,
}

impl Operand<'_> {
    fn elements(&self) -> Option<u64> {
        product(self.dims.iter().copied())
    }

    /// Bytes that lie behind it: a dimension with stride 0 repeats the same elements.
    fn bytes(&self) -> Option<u64> {
        let repeated = |index: usize| self.strides.get(index) == Some(&0);
        let distinct = (0..self.dims.len()).filter(|&index| !repeated(index));
        self.dtype
            .bytes_for(product(distinct.map(|index| self.dims[index]))?)
    }
}

fn product(sizes: impl IntoIterator<Item = i64>) -> Option<u64> {
    sizes.into_iter().try_fold(1_u64, |all, size| {
        all.checked_mul(u64::try_from(size).ok()?)
    })
}

impl<'a> Costs<'a> {
    /// Looks up which names of a trace have a rule.
    pub fn of(trace: &'a Trace) -> Self {
        let rules = RULES
            .iter()
            .filter_map(|&(name, rule)| Some((trace.strings.find(name)?, rule)))
            .collect();
        Self { trace, rules }
    }

    /// What a call must cost; nothing for an operator without a rule, or where shapes or dtypes are not recorded.
    pub fn cost(&self, name: StrId, inputs: InputsId) -> Option<OperatorCost> {
        let rule = *self.rules.get(&name)?;
        let arguments = Arguments {
            trace: self.trace,
            inputs,
        };
        match rule {
            Rule::Product { a, b } => arguments.matrix_product(a, b),
            Rule::Linear => arguments.linear(),
            Rule::Attention {
                heads_first,
                causal,
            } => arguments.attention(heads_first, causal),
            Rule::Convolution {
                stride,
                padding,
                dilation,
            } => arguments.convolution(stride, padding, dilation),
            Rule::Elementwise => arguments.elementwise(),
            Rule::Rowwise(per_element) => arguments.rowwise(per_element),
            Rule::Reduction => {
                let input = arguments.tensor(0)?;
                Some(on_vectors(input.elements()?, input.bytes()?, input.dtype))
            }
            Rule::Lookup { table, indices } => arguments.lookup(table, indices),
            Rule::Copy => {
                let (to, from) = (arguments.tensor(0)?, arguments.tensor(1)?);
                let written = to.dtype.bytes_for(to.elements()?)?;
                Some(on_vectors(0, written.checked_add(from.bytes()?)?, to.dtype))
            }
        }
    }
}

fn on_vectors(flops: u64, bytes: u64, dtype: DType) -> OperatorCost {
    OperatorCost {
        flops,
        bytes,
        dtype,
        engine: Engine::Vector,
    }
}

fn on_matrices(flops: u64, bytes: u64, dtype: DType) -> OperatorCost {
    OperatorCost {
        flops,
        bytes,
        dtype,
        engine: Engine::Tensor,
    }
}

/// The inputs of one call.
struct Arguments<'a> {
    trace: &'a Trace,
    inputs: InputsId,
}

impl<'a> Arguments<'a> {
    fn tensor(&self, position: usize) -> Option<Operand<'a>> {
        let argument = self.trace.inputs.arguments(self.inputs).nth(position)?;
        let dtype = self.trace.text(argument.dtype()).parse().ok()?;
        let mut tensors = argument.tensors();
        let tensor = tensors.next()?;
        tensors.next().is_none().then_some(Operand {
            dims: tensor.dims,
            strides: tensor.strides,
            dtype,
        })
    }

    /// The integers of a plain value such as `[1, 1]` or `2`.
    fn integers(&self, position: usize) -> Vec<i64> {
        let Some(argument) = self.trace.inputs.arguments(self.inputs).nth(position) else {
            return Vec::new();
        };
        let text = self.trace.text(argument.value());
        let inside = text.trim_start_matches('[').trim_end_matches(']');
        inside
            .split(',')
            .filter_map(|part| part.trim().parse().ok())
            .collect()
    }

    fn is_true(&self, position: usize) -> bool {
        let argument = self.trace.inputs.arguments(self.inputs).nth(position);
        argument.is_some_and(|argument| {
            self.trace
                .text(argument.value())
                .eq_ignore_ascii_case("true")
        })
    }

    /// 2·m·n·k for every matrix of the batch.
    fn matrix_product(&self, left: usize, right: usize) -> Option<OperatorCost> {
        let (left, right) = (self.tensor(left)?, self.tensor(right)?);
        let read = left.bytes()?.checked_add(right.bytes()?)?;
        let ([lead_left @ .., rows, inner], [lead_right @ .., same, columns]) =
            (left.dims, right.dims)
        else {
            // A vector on either side: every element of the matrix meets one of the vector.
            let flops = left.elements()?.max(right.elements()?).checked_mul(2)?;
            return Some(on_matrices(flops, read, left.dtype));
        };
        if inner != same {
            return None;
        }
        let batch = broadcast([lead_left, lead_right])?;
        let outputs = batch.checked_mul(product([*rows, *columns])?)?;
        let flops = outputs
            .checked_mul(u64::try_from(*inner).ok()?)?
            .checked_mul(2)?;
        let bytes = read.checked_add(left.dtype.bytes_for(outputs)?)?;
        Some(on_matrices(flops, bytes, left.dtype))
    }

    fn linear(&self) -> Option<OperatorCost> {
        let (input, weight) = (self.tensor(0)?, self.tensor(1)?);
        let [rows @ .., inner] = input.dims else {
            return None;
        };
        let [out, width] = weight.dims else {
            return None;
        };
        if inner != width {
            return None;
        }
        let outputs = product(rows.iter().copied())?.checked_mul(u64::try_from(*out).ok()?)?;
        let flops = outputs
            .checked_mul(u64::try_from(*inner).ok()?)?
            .checked_mul(2)?;
        let bytes = input.bytes()?.checked_add(weight.bytes()?)?;
        Some(on_matrices(
            flops,
            bytes.checked_add(input.dtype.bytes_for(outputs)?)?,
            input.dtype,
        ))
    }

    /// 2·(scores)·(size of a key + size of a value) per head; a causal mask keeps the scores of earlier tokens.
    fn attention(&self, heads_first: bool, causal: usize) -> Option<OperatorCost> {
        let (query, key, value) = (self.tensor(0)?, self.tensor(1)?, self.tensor(2)?);
        let shape = |operand: &Operand<'_>| -> Option<[u64; 4]> {
            let &[batch, second, third, size] = operand.dims else {
                return None;
            };
            let [heads, tokens] = if heads_first {
                [second, third]
            } else {
                [third, second]
            };
            let mut shape = [0; 4];
            for (to, from) in shape.iter_mut().zip([batch, heads, tokens, size]) {
                *to = u64::try_from(from).ok()?;
            }
            Some(shape)
        };
        let [batch, heads, tokens, size] = shape(&query)?;
        let [_, _, context, _] = shape(&key)?;
        let [.., value_size] = shape(&value)?;
        let scores = if self.is_true(causal) && tokens == context {
            tokens.checked_mul(tokens.checked_add(1)?)? / 2
        } else {
            tokens.checked_mul(context)?
        };
        let per_score = 2_u64.checked_mul(size.checked_add(value_size)?)?;
        let flops = batch
            .checked_mul(heads)?
            .checked_mul(scores)?
            .checked_mul(per_score)?;
        let outputs = batch
            .checked_mul(heads)?
            .checked_mul(tokens)?
            .checked_mul(value_size)?;
        let read = [query, key, value]
            .iter()
            .try_fold(0_u64, |sum, operand| sum.checked_add(operand.bytes()?))?;
        Some(on_matrices(
            flops,
            read.checked_add(query.dtype.bytes_for(outputs)?)?,
            query.dtype,
        ))
    }

    /// 2·(output elements)·(input channels of a group)·(kernel size).
    fn convolution(&self, stride: usize, padding: usize, dilation: usize) -> Option<OperatorCost> {
        let (input, weight) = (self.tensor(0)?, self.tensor(1)?);
        let [batch, _, sizes @ ..] = input.dims else {
            return None;
        };
        let [out_channels, group_channels, window @ ..] = weight.dims else {
            return None;
        };
        let (stride, padding) = (self.integers(stride), self.integers(padding));
        let dilation = self.integers(dilation);
        // One number stands for all dimensions.
        let at = |list: &[i64], index: usize, default: i64| {
            list.get(index).or(list.first()).copied().unwrap_or(default)
        };
        let mut outputs = product([*batch, *out_channels])?;
        for (index, (&size, &extent)) in sizes.iter().zip(window).enumerate() {
            let reach = at(&dilation, index, 1).checked_mul(extent.checked_sub(1)?)?;
            let room = size.checked_add(at(&padding, index, 0).checked_mul(2)?)?;
            let steps = room.checked_sub(reach)?.checked_sub(1)?;
            let places = steps.checked_div(at(&stride, index, 1))?.checked_add(1)?;
            outputs = outputs.checked_mul(u64::try_from(places).ok()?)?;
        }
        let per_output = product(std::iter::once(*group_channels).chain(window.iter().copied()))?;
        let flops = outputs.checked_mul(per_output)?.checked_mul(2)?;
        let bytes = input.bytes()?.checked_add(weight.bytes()?)?;
        Some(on_matrices(
            flops,
            bytes.checked_add(input.dtype.bytes_for(outputs)?)?,
            input.dtype,
        ))
    }

    fn elementwise(&self) -> Option<OperatorCost> {
        let count = self.trace.inputs.arguments(self.inputs).len();
        let operands: Vec<Operand<'_>> = (0..count)
            .filter_map(|position| self.tensor(position))
            .collect();
        // The result has the dtype of the tensors with dimensions; numbers adapt to it.
        let widest = operands.iter().filter(|operand| !operand.dims.is_empty());
        let dtype = widest
            .map(|operand| operand.dtype)
            .max_by_key(|dtype| (dtype.is_float(), dtype.bits()))?;
        let outputs = broadcast(operands.iter().map(|operand| operand.dims))?;
        let read = operands
            .iter()
            .try_fold(0_u64, |sum, operand| sum.checked_add(operand.bytes()?))?;
        Some(on_vectors(
            outputs,
            read.checked_add(dtype.bytes_for(outputs)?)?,
            dtype,
        ))
    }

    fn rowwise(&self, per_element: u64) -> Option<OperatorCost> {
        let input = self.tensor(0)?;
        let elements = input.elements()?;
        let bytes = input
            .bytes()?
            .checked_add(input.dtype.bytes_for(elements)?)?;
        Some(on_vectors(
            elements.checked_mul(per_element)?,
            bytes,
            input.dtype,
        ))
    }

    fn lookup(&self, table: usize, indices: usize) -> Option<OperatorCost> {
        let (table, indices) = (self.tensor(table)?, self.tensor(indices)?);
        let [_, row @ ..] = table.dims else {
            return None;
        };
        let elements = indices
            .elements()?
            .checked_mul(product(row.iter().copied())?)?;
        let moved = table.dtype.bytes_for(elements)?.checked_mul(2)?;
        Some(on_vectors(
            0,
            moved.checked_add(indices.bytes()?)?,
            table.dtype,
        ))
    }
}

/// The number of elements of shapes that are broadcast together; nothing where they do not fit.
fn broadcast<'a>(shapes: impl IntoIterator<Item = &'a [i64]>) -> Option<u64> {
    let mut result: Vec<i64> = Vec::new();
    for shape in shapes {
        if shape.len() > result.len() {
            let missing = shape.len() - result.len();
            result.splice(0..0, std::iter::repeat_n(1, missing));
        }
        let offset = result.len() - shape.len();
        for (size, &other) in result[offset..].iter_mut().zip(shape) {
            if *size == 1 {
                *size = other;
            } else if other != 1 && other != *size {
                return None;
            }
        }
    }
    product(result)
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
        Costs::of(&trace).cost(trace.hosts.name[0], trace.hosts.inputs[0])
    }

    const TWO: &str = r#"["c10::BFloat16", "c10::BFloat16"]"#;

    #[test]
    fn products_worked_by_hand() {
        // 2·128·64·32; 2 bytes for 128·32 + 32·64 + 128·64 elements.
        let product = cost("aten::mm", "[[128, 32], [32, 64]]", TWO, "").expect("cost");
        assert_eq!(
            (product.flops, product.bytes),
            (524_288, 2 * (4096 + 2048 + 8192))
        );
        assert_eq!(product.engine, Engine::Tensor);
        let linear = cost("aten::linear", "[[1, 128, 32], [64, 32]]", TWO, "").expect("cost");
        assert_eq!((linear.flops, linear.bytes), (product.flops, product.bytes));
        // Batches broadcast: 4 products of 2×3 and 3×5.
        let batched = cost("aten::matmul", "[[4, 2, 3], [3, 5]]", TWO, "").expect("cost");
        assert_eq!(batched.flops, 4 * 2 * 2 * 3 * 5);
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
        assert_eq!(conv.flops, 2 * 16 * 16 * 3 * 9);
        assert_eq!(conv.bytes, 4 * (3 * 64 + 16 * 27 + 16 * 16));
        let never = values.replace("[2, 2]", "[0, 0]");
        assert_eq!(cost("aten::convolution", dims, dtypes, &never), None);
    }

    #[test]
    fn elementwise_work_broadcasts() {
        let dtypes = r#"["float", "float", "Scalar"]"#;
        let sum = cost("aten::add", "[[4, 1, 3], [5, 1], []]", dtypes, "").expect("cost");
        assert_eq!((sum.flops, sum.bytes), (60, 4 * (12 + 5 + 60)));
        assert_eq!(cost("aten::add", "[[4], [5], []]", dtypes, ""), None);
        assert_eq!(cost("aten::view", "[[4], [5], []]", dtypes, ""), None);
    }
}
