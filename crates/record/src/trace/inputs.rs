//! What operators were called with: shapes, strides, dtypes and plain values.
//!
//! A trace has few distinct input lists and many calls, so a list is stored once and rows refer to it. A list has
//! arguments, an argument has tensors (none for a plain value, several for a list of tensors), a tensor has dimensions.

use super::column::{Bounds, Column, ColumnBytes, Element};
use super::ids::{InputsId, StrId};
use super::sections::{Sections, TraceFileError};

/// Every distinct input list of a trace, once.
///
/// Three nested levels of ranges: each `*_end` column says where an entry ends in the next level.
#[derive(Clone, Debug, PartialEq)]
pub struct Inputs {
    /// Per list: where it ends among the arguments.
    list_end: Column<u32>,
    /// Per argument: the dtype as the tool wrote it (`c10::BFloat16`, `Scalar`, `TensorList`), empty where unknown.
    dtype: Column<StrId>,
    /// Per argument: the plain value as the tool wrote it (`-1`, `[0, 1]`), empty where it has none.
    value: Column<StrId>,
    /// Per argument: where it ends among the tensors.
    argument_end: Column<u32>,
    /// Per tensor: where its dimensions end.
    tensor_end: Column<u64>,
    /// Per tensor: where its strides end; strides are absent where the tool did not record them.
    stride_end: Column<u64>,
    dims: Column<i64>,
    strides: Column<i64>,
}

/// One argument of an input list.
#[derive(Clone, Copy)]
pub struct Argument<'a> {
    inputs: &'a Inputs,
    index: usize,
}

/// One tensor of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor<'a> {
    /// Its dimensions; empty for a tensor with no dimensions.
    pub dims: &'a [i64],
    /// Its strides in elements, as many as dimensions; empty where they were not recorded.
    pub strides: &'a [i64],
}

impl Inputs {
    /// The name of the dictionary in a trace file.
    pub const NAME: &'static str = "inputs";

    /// How many distinct lists there are, the empty one included.
    pub fn len(&self) -> usize {
        self.list_end.len()
    }

    /// Always false: the empty list is there.
    pub fn is_empty(&self) -> bool {
        self.list_end.is_empty()
    }

    /// The arguments of list `id`; none for an id of another trace that this one does not have.
    pub fn arguments(&self, id: InputsId) -> impl ExactSizeIterator<Item = Argument<'_>> {
        range_at(&self.list_end, id.0 as usize).map(|index| Argument {
            inputs: self,
            index,
        })
    }

    /// Adds a list; `dtype`, `value` and the tensors with their strides, argument by argument.
    pub(super) fn push(&mut self, list: &[NewArgument]) {
        for argument in list {
            self.dtype.push(argument.dtype);
            self.value.push(argument.value);
            for (dims, strides) in &argument.tensors {
                self.dims.make_mut().extend_from_slice(dims);
                self.strides.make_mut().extend_from_slice(strides);
                self.tensor_end.push(self.dims.len() as u64);
                self.stride_end.push(self.strides.len() as u64);
            }
            self.argument_end.push(self.tensor_end.len() as u32);
        }
        self.list_end.push(self.argument_end.len() as u32);
    }

    /// The string columns, for renumbering.
    pub(super) fn string_columns(&mut self) -> [&mut Column<StrId>; 2] {
        [&mut self.dtype, &mut self.value]
    }

    pub(super) fn columns(&self) -> Vec<ColumnBytes<'_>> {
        vec![
            self.list_end.named("list_end"),
            self.dtype.named("dtype"),
            self.value.named("value"),
            self.argument_end.named("argument_end"),
            self.tensor_end.named("tensor_end"),
            self.stride_end.named("stride_end"),
            self.dims.named("dims"),
            self.strides.named("strides"),
        ]
    }

    pub(super) fn from_columns(source: &Sections, strings: usize) -> Result<Self, TraceFileError> {
        let inputs = Self {
            list_end: source.column(Self::NAME, "list_end")?,
            dtype: source.column(Self::NAME, "dtype")?,
            value: source.column(Self::NAME, "value")?,
            argument_end: source.column(Self::NAME, "argument_end")?,
            tensor_end: source.column(Self::NAME, "tensor_end")?,
            stride_end: source.column(Self::NAME, "stride_end")?,
            dims: source.column(Self::NAME, "dims")?,
            strides: source.column(Self::NAME, "strides")?,
        };
        let bounds = Bounds {
            strings,
            inputs: 0,
            threads: 0,
            frames: 0,
        };
        let arguments = inputs.argument_end.len();
        let tensors = inputs.tensor_end.len();
        let whole = inputs.list_end.first() == Some(&0)
            && ends_fit(&inputs.list_end, arguments)
            && ends_fit(&inputs.argument_end, tensors)
            && ends_fit(&inputs.tensor_end, inputs.dims.len())
            && ends_fit(&inputs.stride_end, inputs.strides.len())
            && inputs.dtype.len() == arguments
            && inputs.value.len() == arguments
            && inputs.stride_end.len() == tensors
            && !StrId::dangling(&inputs.dtype, bounds)
            && !StrId::dangling(&inputs.value, bounds);
        if whole {
            Ok(inputs)
        } else {
            Err(source.broken(Self::NAME, "the nested ranges do not fit together"))
        }
    }
}

impl Default for Inputs {
    fn default() -> Self {
        Self {
            list_end: vec![0].into(),
            dtype: Column::default(),
            value: Column::default(),
            argument_end: Column::default(),
            tensor_end: Column::default(),
            stride_end: Column::default(),
            dims: Column::default(),
            strides: Column::default(),
        }
    }
}

impl<'a> Argument<'a> {
    /// The dtype as the tool wrote it; [`StrId::EMPTY`] where unknown.
    pub fn dtype(&self) -> StrId {
        self.inputs.dtype[self.index]
    }

    /// The plain value as the tool wrote it; [`StrId::EMPTY`] for a tensor.
    pub fn value(&self) -> StrId {
        self.inputs.value[self.index]
    }

    /// Its tensors: none for a plain value, one for a tensor, any number for a list of tensors.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = Tensor<'a>> + use<'a> {
        let inputs = self.inputs;
        range_at(&inputs.argument_end, self.index).map(|tensor| Tensor {
            dims: &inputs.dims[range_at(&inputs.tensor_end, tensor)],
            strides: &inputs.strides[range_at(&inputs.stride_end, tensor)],
        })
    }
}

/// One argument on its way into [`Inputs`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NewArgument {
    pub(super) dtype: StrId,
    pub(super) value: StrId,
    pub(super) tensors: Vec<(Vec<i64>, Vec<i64>)>,
}

fn range_at<T: Copy + TryInto<usize>>(ends: &[T], index: usize) -> std::ops::Range<usize> {
    let at = |index: usize| {
        ends.get(index)
            .and_then(|&end| end.try_into().ok())
            .unwrap_or(0)
    };
    let begin = if index == 0 { 0 } else { at(index - 1) };
    begin..at(index).max(begin)
}

fn ends_fit<T: Copy + Ord + TryInto<usize>>(ends: &[T], next_level: usize) -> bool {
    let last = ends.last().map_or(Some(0), |&end| end.try_into().ok());
    ends.is_sorted() && last == Some(next_level)
}
