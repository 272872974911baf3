//! Copies of stored weights in another format or order.

use rayon::prelude::*;

use crate::buffer::Format;

/// Elements that one task converts.
const TASK_ELEMENTS: usize = 1 << 16;

/// IEEE half precision to single.
pub(crate) fn from_f16(bits: u16) -> f32 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from(bits >> 10 & 0x1f);
    let mantissa = f32::from(bits & 0x3ff);
    sign * match exponent {
        // Subnormal numbers count in steps of 2⁻²⁴.
        0 => mantissa * 2f32.powi(-24),
        31 if mantissa == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1024.0 + mantissa) * 2f32.powi(exponent - 25),
    }
}

/// Single precision to the nearest bf16, ties to even.
pub(crate) fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        // Rounding could carry a NaN's mantissa away.
        return (bits >> 16) as u16 | 0x40;
    }
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// Copies elements of `size` bytes, read by `read`, to `to` in `format`. With `transposed` (rows, columns of the source)
/// rows and columns change places.
pub(crate) fn copy_elements(
    from: &[u8],
    size: usize,
    read: fn([u8; 4]) -> f32,
    to: &mut [u8],
    format: Format,
    transposed: Option<[usize; 2]>,
) {
    let element = |index: usize| {
        let mut bytes = [0; 4];
        bytes[..size].copy_from_slice(&from[index * size..(index + 1) * size]);
        read(bytes)
    };
    let source = |index: usize| match transposed {
        None => index,
        Some([rows, columns]) => index % rows * columns + index / rows,
    };
    let width = format.element_bytes();
    to.par_chunks_mut(TASK_ELEMENTS * width)
        .enumerate()
        .for_each(|(task, to)| {
            for (offset, to) in to.chunks_exact_mut(width).enumerate() {
                let value = element(source(task * TASK_ELEMENTS + offset));
                match format {
                    Format::F32 => to.copy_from_slice(&value.to_ne_bytes()),
                    Format::Bf16 => to.copy_from_slice(&to_bf16(value).to_ne_bytes()),
                }
            }
        });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_by_hand() {
        for (bits, expected) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0001, 5.960_464_5e-8),
            (0x0400, 6.103_515_6e-5),
            (0x7c00, f32::INFINITY),
            (0x3555, 0.333_251_95),
        ] {
            assert_eq!(from_f16(bits), expected, "{bits:#x}");
        }
        assert!(from_f16(0x7e00).is_nan());
    }

    #[test]
    fn bf16_rounds_to_even() {
        assert_eq!(to_bf16(1.0), 0x3f80);
        // Halfway between 0x3f80 and 0x3f81, and between 0x3f81 and 0x3f82.
        assert_eq!(to_bf16(f32::from_bits(0x3f80_8000)), 0x3f80);
        assert_eq!(to_bf16(f32::from_bits(0x3f81_8000)), 0x3f82);
        assert_eq!(to_bf16(f32::INFINITY), 0x7f80);
        assert!(f32::from_bits(u32::from(to_bf16(f32::NAN)) << 16).is_nan());
    }

    #[test]
    fn transposition_swaps_rows_and_columns() {
        let from: Vec<u8> = (0..6).flat_map(|i| (i as f32).to_le_bytes()).collect();
        let mut to = [0; 24];
        copy_elements(
            &from,
            4,
            f32::from_le_bytes,
            &mut to,
            Format::F32,
            Some([2, 3]),
        );
        let converted: Vec<f32> = to
            .as_chunks::<4>()
            .0
            .iter()
            .map(|b| f32::from_ne_bytes(*b))
            .collect();
        assert_eq!(converted, [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    }
}
