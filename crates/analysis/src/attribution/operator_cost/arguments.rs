//! The inputs of a call, and what each kind of work costs with them.

use llmprof_record::trace::{InputsId, Trace};
use llmprof_theory::device::Engine;
use llmprof_units::{Bytes, DType, Flops};

use crate::attribution::operator_cost::{GemmShape, OperatorCost};

/// A tensor among the arguments.
#[derive(Clone, Copy)]
pub(crate) struct TensorOperand<'a> {
    dims: &'a [i64],
    strides: &'a [i64],
    pub(crate) dtype: DType,
}

impl TensorOperand<'_> {
    pub(crate) fn elements(&self) -> Option<u64> {
        product_of(self.dims.iter().copied())
    }

    /// Bytes that lie behind it: a dimension with stride 0 repeats the same elements.
    pub(crate) fn bytes(&self) -> Option<u64> {
        let repeated = |index: usize| self.strides.get(index) == Some(&0);
        let distinct = (0..self.dims.len()).filter(|&index| !repeated(index));
        self.dtype
            .bytes_for(product_of(distinct.map(|index| self.dims[index]))?)
    }
}

fn product_of(sizes: impl IntoIterator<Item = i64>) -> Option<u64> {
    sizes.into_iter().try_fold(1_u64, |all, size| {
        all.checked_mul(u64::try_from(size).ok()?)
    })
}

pub(crate) fn on_vectors(flops: u64, bytes: u64, dtype: DType) -> OperatorCost {
    OperatorCost {
        flops: Flops(flops),
        bytes: Bytes(bytes),
        dtype,
        engine: Engine::Vector,
        gemm: None,
    }
}

fn on_matrices(flops: u64, bytes: u64, dtype: DType) -> OperatorCost {
    OperatorCost {
        flops: Flops(flops),
        bytes: Bytes(bytes),
        dtype,
        engine: Engine::Tensor,
        gemm: None,
    }
}

/// The inputs of one call.
pub(crate) struct CallArguments<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) inputs: InputsId,
}

impl<'a> CallArguments<'a> {
    pub(crate) fn tensor(&self, position: usize) -> Option<TensorOperand<'a>> {
        let argument = self.trace.inputs.arguments(self.inputs).nth(position)?;
        let dtype = self.trace.text(argument.dtype()).parse().ok()?;
        let mut tensors = argument.tensors();
        let tensor = tensors.next()?;
        tensors.next().is_none().then_some(TensorOperand {
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
    pub(crate) fn matrix_product(&self, left: usize, right: usize) -> Option<OperatorCost> {
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
        let batch = broadcast_elements([lead_left, lead_right])?;
        let outputs = batch.checked_mul(product_of([*rows, *columns])?)?;
        let flops = outputs
            .checked_mul(u64::try_from(*inner).ok()?)?
            .checked_mul(2)?;
        let bytes = read.checked_add(left.dtype.bytes_for(outputs)?)?;
        let size = |dim: &i64| u64::try_from(*dim).ok();
        Some(OperatorCost {
            gemm: Some(GemmShape {
                batch,
                m: size(rows)?,
                n: size(columns)?,
                k: size(inner)?,
            }),
            ..on_matrices(flops, bytes, left.dtype)
        })
    }

    pub(crate) fn linear(&self) -> Option<OperatorCost> {
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
        let m = product_of(rows.iter().copied())?;
        let n = u64::try_from(*out).ok()?;
        let outputs = m.checked_mul(n)?;
        let flops = outputs
            .checked_mul(u64::try_from(*inner).ok()?)?
            .checked_mul(2)?;
        let bytes = input.bytes()?.checked_add(weight.bytes()?)?;
        let bytes = bytes.checked_add(input.dtype.bytes_for(outputs)?)?;
        let k = u64::try_from(*inner).ok()?;
        Some(OperatorCost {
            gemm: Some(GemmShape { batch: 1, m, n, k }),
            ..on_matrices(flops, bytes, input.dtype)
        })
    }

    /// 2·(scores)·(size of a key + size of a value) per head; a causal mask keeps the scores of earlier tokens.
    pub(crate) fn attention(&self, heads_first: bool, causal: usize) -> Option<OperatorCost> {
        let (query, key, value) = (self.tensor(0)?, self.tensor(1)?, self.tensor(2)?);
        let shape = |operand: &TensorOperand<'_>| -> Option<[u64; 4]> {
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
    pub(crate) fn convolution(
        &self,
        stride: usize,
        padding: usize,
        dilation: usize,
    ) -> Option<OperatorCost> {
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
        let mut outputs = product_of([*batch, *out_channels])?;
        for (index, (&size, &extent)) in sizes.iter().zip(window).enumerate() {
            let reach = at(&dilation, index, 1).checked_mul(extent.checked_sub(1)?)?;
            let room = size.checked_add(at(&padding, index, 0).checked_mul(2)?)?;
            let steps = room.checked_sub(reach)?.checked_sub(1)?;
            let places = steps.checked_div(at(&stride, index, 1))?.checked_add(1)?;
            outputs = outputs.checked_mul(u64::try_from(places).ok()?)?;
        }
        let per_output =
            product_of(std::iter::once(*group_channels).chain(window.iter().copied()))?;
        let flops = outputs.checked_mul(per_output)?.checked_mul(2)?;
        let bytes = input.bytes()?.checked_add(weight.bytes()?)?;
        let bytes = bytes.checked_add(input.dtype.bytes_for(outputs)?)?;
        Some(on_matrices(flops, bytes, input.dtype))
    }

    pub(crate) fn elementwise(&self) -> Option<OperatorCost> {
        let count = self.trace.inputs.arguments(self.inputs).len();
        let operands: Vec<TensorOperand<'_>> = (0..count)
            .filter_map(|position| self.tensor(position))
            .collect();
        // The result has the dtype of the tensors with dimensions; numbers adapt to it.
        let widest = operands.iter().filter(|operand| !operand.dims.is_empty());
        let dtype = widest
            .map(|operand| operand.dtype)
            .max_by_key(|dtype| (dtype.is_float(), dtype.bits()))?;
        let outputs = broadcast_elements(operands.iter().map(|operand| operand.dims))?;
        let read = operands
            .iter()
            .try_fold(0_u64, |sum, operand| sum.checked_add(operand.bytes()?))?;
        Some(on_vectors(
            outputs,
            read.checked_add(dtype.bytes_for(outputs)?)?,
            dtype,
        ))
    }

    pub(crate) fn rowwise(&self, per_element: u64) -> Option<OperatorCost> {
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

    pub(crate) fn lookup(&self, table: usize, indices: usize) -> Option<OperatorCost> {
        let (table, indices) = (self.tensor(table)?, self.tensor(indices)?);
        let [_, row @ ..] = table.dims else {
            return None;
        };
        let elements = indices
            .elements()?
            .checked_mul(product_of(row.iter().copied())?)?;
        let moved = table.dtype.bytes_for(elements)?.checked_mul(2)?;
        Some(on_vectors(
            0,
            moved.checked_add(indices.bytes()?)?,
            table.dtype,
        ))
    }
}

/// The number of elements of shapes that are broadcast together; `None` if they do not fit.
fn broadcast_elements<'a>(shapes: impl IntoIterator<Item = &'a [i64]>) -> Option<u64> {
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
    product_of(result)
}
