//! Weights quantized while they are loaded: symmetric integers, a scale for each group of inputs.

use std::sync::Arc;

use llmprof_theory::WeightFormat;
use memmap2::MmapMut;
use rayon::prelude::*;

use super::convert::to_bf16;
use crate::{
    buffer::{self, ElementBuffer, Elements, Format},
    error::EngineError,
    kernel::{CodeWidth, Quantized, pack_row, widen_bf16},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scheme {
    pub(crate) format: WeightFormat,
    pub(crate) width: CodeWidth,
    /// Inputs that share a scale; absent is all of a row.
    pub(crate) group: Option<usize>,
}

impl Scheme {
    /// The scheme of a format that there are kernels for.
    pub(crate) fn for_format(format: WeightFormat) -> Result<Self, EngineError> {
        let (width, group) = match format {
            WeightFormat::Int8 { group } if format.is_native() => (CodeWidth::Eight, group),
            WeightFormat::Int4 { group, .. } if format.is_native() => (CodeWidth::Four, group),
            other => return Err(EngineError::UnsupportedFormat { found: other }),
        };
        Ok(Self {
            format,
            width,
            group: (group > 0).then_some(group as usize),
        })
    }

    /// Scales of groups have 16 bits, those of rows 32, as `WeightFormat` counts them.
    fn scale_format(self) -> Format {
        if self.group.is_some() {
            Format::Bf16
        } else {
            Format::F32
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct QuantizedBuffer {
    scheme: Scheme,
    inputs: usize,
    memory: Arc<MmapMut>,
    codes: usize,
    scales: ElementBuffer,
}

impl QuantizedBuffer {
    pub(crate) fn new(
        scheme: Scheme,
        [outputs, inputs]: [usize; 2],
        from: Elements<'_>,
    ) -> Result<Self, EngineError> {
        let group = scheme.group.unwrap_or(inputs).max(1);
        let (row_bytes, groups) = (scheme.width.row_bytes(inputs), inputs.div_ceil(group));
        let format = scheme.scale_format();
        let codes = outputs * row_bytes;
        let scales_at = codes.next_multiple_of(4);
        let end = scales_at + outputs * groups * format.element_bytes();
        let mut memory = buffer::allocate_anonymous(end, "weights")?;
        if row_bytes > 0 {
            let (packed, scales) = memory[..end].split_at_mut(scales_at);
            packed[..codes]
                .par_chunks_exact_mut(row_bytes)
                .zip(scales.par_chunks_exact_mut(groups * format.element_bytes()))
                .enumerate()
                .for_each(|(row, (packed, stored))| {
                    let wide = wide_row(from, row, inputs);
                    let scales = scales_of(scheme.width, format, group, &wide);
                    pack_row(scheme.width, group, &wide, &scales, packed);
                    store_scales(&scales, format, stored);
                });
        }
        let memory = Arc::new(memory);
        let scales = ElementBuffer::of_memory(&memory, scales_at..end, format)
            .expect("a mapping starts at a page, and scales at a multiple of four");
        Ok(Self {
            scheme,
            inputs,
            memory,
            codes,
            scales,
        })
    }

    pub(crate) fn quantized_rows(&self) -> Quantized<'_> {
        let group = self.scheme.group.unwrap_or(self.inputs).max(1);
        let codes = &self.memory[..self.codes];
        let sizes = [self.inputs, group];
        Quantized::new(self.scheme.width, sizes, codes, self.scales.elements())
    }
}

fn wide_row(from: Elements<'_>, row: usize, inputs: usize) -> Vec<f32> {
    match from.slice(row * inputs..(row + 1) * inputs) {
        Elements::F32(from) => from.to_vec(),
        Elements::Bf16(from) => {
            let mut wide = vec![0.0; inputs];
            widen_bf16(from, &mut wide);
            wide
        }
    }
}

/// The scales of a row as they are stored: rounded up, so that the largest weight has a code.
fn scales_of(width: CodeWidth, format: Format, group: usize, row: &[f32]) -> Vec<f32> {
    row.chunks(group)
        .map(|group| {
            let largest = group.iter().fold(0.0f32, |most, w| most.max(w.abs()));
            let scale = largest / width.largest_code();
            match format {
                Format::F32 => scale,
                Format::Bf16 => {
                    let near = to_bf16(scale);
                    let up = f32::from_bits(u32::from(near) << 16) < scale;
                    f32::from_bits((u32::from(near) + u32::from(up)) << 16)
                }
            }
        })
        .collect()
}

fn store_scales(scales: &[f32], format: Format, to: &mut [u8]) {
    for (scale, to) in scales
        .iter()
        .zip(to.chunks_exact_mut(format.element_bytes()))
    {
        match format {
            Format::F32 => to.copy_from_slice(&scale.to_ne_bytes()),
            Format::Bf16 => to.copy_from_slice(&to_bf16(*scale).to_ne_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::expand_row;

    /// Rounding moves a weight by at most half a step, and a step is the largest weight of the group ÷ 127 or 7.
    #[test]
    fn weights_move_by_at_most_half_a_step() {
        let (outputs, inputs) = (5, 300);
        let weights: Vec<f32> = (0..outputs * inputs)
            .map(|i| ((i * 7919) % 1000) as f32 / 700.0 - 0.6)
            .collect();
        for format in ["int8", "int8_g128", "int4_g32", "int4_g128"] {
            let format: WeightFormat = format.parse().unwrap();
            let scheme = Scheme::for_format(format).unwrap();
            let quantized =
                QuantizedBuffer::new(scheme, [outputs, inputs], Elements::F32(&weights)).unwrap();
            let group = scheme.group.unwrap_or(inputs);
            for row in 0..outputs {
                let row_weights = &weights[row * inputs..(row + 1) * inputs];
                let mut wide = vec![f32::NAN; inputs];
                expand_row(quantized.quantized_rows().rows_from(row, 1), 0, &mut wide);
                for (part, wide) in row_weights.chunks(group).zip(wide.chunks(group)) {
                    let largest = part.iter().fold(0.0f32, |most, w| most.max(w.abs()));
                    // A scale in bf16 is up to 1/128 larger.
                    let step = largest / scheme.width.largest_code() * (1.0 + 1.0 / 128.0);
                    for (weight, wide) in part.iter().zip(wide) {
                        assert!(
                            (weight - wide).abs() <= step * 0.501,
                            "{format}: {weight} became {wide}, a step is {step}"
                        );
                    }
                }
            }
        }
    }

    /// A matrix whose rows are whole blocks takes the bytes that theory counts.
    #[test]
    fn bytes_are_those_that_theory_counts() {
        let weights = vec![0.5; 8 * 256];
        for format in ["int8", "int8_g64", "int4_g128"] {
            let format: WeightFormat = format.parse().unwrap();
            let scheme = Scheme::for_format(format).unwrap();
            let quantized =
                QuantizedBuffer::new(scheme, [8, 256], Elements::F32(&weights)).unwrap();
            assert_eq!(
                quantized.memory.len() as u64,
                format.stored_bytes(8, 256),
                "{format}"
            );
        }
    }

    #[test]
    fn formats_without_kernels_are_refused() {
        for format in [
            "fp8", "awq", "gptq", "mxfp4", "int4_g48", "int8_g16", "int8_g48", "bf16",
        ] {
            let format: WeightFormat = format.parse().unwrap();
            assert!(Scheme::for_format(format).is_err(), "{format}");
        }
    }
}
