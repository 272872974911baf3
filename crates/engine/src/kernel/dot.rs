//! Products of many weight rows with a few inputs: decode. Each row is read once from memory, in order.

#![expect(
    unsafe_code,
    reason = "vector loads from slices whose bounds were checked"
)]

use super::isa::Isa;
use crate::buffer::Elements;

/// Inputs that one pass over a row serves. More inputs take further passes, which find the row in the first cache.
const INPUTS_PER_PASS: usize = 4;

/// `out[row × inputs + i] = Σ weights[row] × input i` for all rows of `weights`.
///
/// `inputs` holds `inputs.len() ÷ width` vectors of `width` elements, `out` as many results per row.
pub(crate) fn dot_rows(
    isa: Isa,
    weights: Elements<'_>,
    width: usize,
    inputs: &[f32],
    out: &mut [f32],
) {
    let count = inputs.len() / width;
    for (row, out) in out.chunks_exact_mut(count).enumerate() {
        let row = weights.slice(row * width..(row + 1) * width);
        for (inputs, out) in inputs
            .chunks(INPUTS_PER_PASS * width)
            .zip(out.chunks_mut(INPUTS_PER_PASS))
        {
            match out.len() {
                1 => out.copy_from_slice(&dot_row::<1>(isa, row, inputs)),
                2 => out.copy_from_slice(&dot_row::<2>(isa, row, inputs)),
                3 => out.copy_from_slice(&dot_row::<3>(isa, row, inputs)),
                _ => out.copy_from_slice(&dot_row::<4>(isa, row, inputs)),
            }
        }
    }
}

/// The products of one row with `N` inputs that lie one after the other.
fn dot_row<const N: usize>(isa: Isa, row: Elements<'_>, inputs: &[f32]) -> [f32; N] {
    match row {
        Elements::F32(row) => {
            assert_eq!(inputs.len(), N * row.len());
            #[cfg(target_arch = "x86_64")]
            match isa {
                // SAFETY: `Isa` states what the processor has; the length was checked.
                Isa::Avx512 => return unsafe { x86::f32_avx512::<N>(row, inputs) },
                // SAFETY: as above.
                Isa::Avx2 => return unsafe { x86::f32_avx2::<N>(row, inputs) },
                Isa::Portable => {}
            }
            let _ = isa;
            dot_portable(row.len(), |i| row[i], inputs)
        }
        Elements::Bf16(row) => {
            assert_eq!(inputs.len(), N * row.len());
            #[cfg(target_arch = "x86_64")]
            match isa {
                // SAFETY: `Isa` states what the processor has; the length was checked.
                Isa::Avx512 => return unsafe { x86::bf16_avx512::<N>(row, inputs) },
                // SAFETY: as above.
                Isa::Avx2 => return unsafe { x86::bf16_avx2::<N>(row, inputs) },
                Isa::Portable => {}
            }
            dot_portable(row.len(), |i| widen_bf16(row[i]), inputs)
        }
    }
}

fn widen_bf16(value: u16) -> f32 {
    f32::from_bits(u32::from(value) << 16)
}

/// Eight sums per input: enough for the compiler to use what vectors the target has.
fn dot_portable<const N: usize>(
    width: usize,
    weight: impl Fn(usize) -> f32,
    inputs: &[f32],
) -> [f32; N] {
    // The floats of an AVX2 register; the compiler makes vectors of these sums.
    const LANES: usize = 8;
    let mut sums = [[0.0f32; LANES]; N];
    for start in (0..width).step_by(LANES) {
        for i in start..width.min(start + LANES) {
            let weight = weight(i);
            for (input, sums) in sums.iter_mut().enumerate() {
                sums[i - start] += weight * inputs[input * width + i];
            }
        }
    }
    sums.map(|lanes| lanes.iter().sum())
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256, __m512, _MM_HINT_T0, _mm_add_ps, _mm_add_ss, _mm_cvtss_f32, _mm_loadu_si128,
        _mm_movehdup_ps, _mm_movehl_ps, _mm_prefetch, _mm256_castps256_ps128, _mm256_castsi256_ps,
        _mm256_cvtepu16_epi32, _mm256_extractf128_ps, _mm256_fmadd_ps, _mm256_loadu_ps,
        _mm256_loadu_si256, _mm256_setzero_ps, _mm256_slli_epi32, _mm512_add_ps,
        _mm512_castsi512_ps, _mm512_cvtepu16_epi32, _mm512_fmadd_ps, _mm512_loadu_ps,
        _mm512_reduce_add_ps, _mm512_setzero_ps, _mm512_slli_epi32,
    };

    use super::widen_bf16;

    /// Bytes of a cache line.
    const LINE: usize = 64;
    /// How far ahead weights are fetched. The processor's own prefetcher stops at the end of each 4 KiB page; asking for
    /// lines two pages ahead raised the speed of one Sapphire Rapids core from 10.6 to 16.2 GB/s, of 17.5 that it can read.
    const AHEAD: usize = 8192;

    /// Products of the elements from `start` on, which fill no vector.
    fn add_tail<const N: usize>(
        start: usize,
        width: usize,
        weight: impl Fn(usize) -> f32,
        inputs: &[f32],
        sums: &mut [f32; N],
    ) {
        for i in start..width {
            for (input, sum) in sums.iter_mut().enumerate() {
                *sum += weight(i) * inputs[input * width + i];
            }
        }
    }

    /// The loop of a kernel: `unroll` vectors of `lanes` elements at a time with a sum each, then single vectors, then
    /// single elements. Several sums hide the latency of the multiply-add.
    macro_rules! kernel {
        ($name:ident, $features:literal, $element:ty, $vector:ty, $lanes:literal, $zero:ident, $fma:ident,
         $load_input:ident, $load:expr, $total:expr, $scalar:expr) => {
            /// # Safety
            ///
            /// `inputs` holds `N × row.len()` elements.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn $name<const N: usize>(
                row: &[$element],
                inputs: &[f32],
            ) -> [f32; N] {
                // Independent sums hide the latency of a multiply-add: 4 cycles on both units of current x86 cores.
                const UNROLL: usize = 4;
                let width = row.len();
                let mut sums: [[$vector; UNROLL]; N] = [[$zero(); UNROLL]; N];
                let mut start = 0;
                while start + UNROLL * $lanes <= width {
                    for part in 0..UNROLL {
                        let at = start + part * $lanes;
                        if (part * $lanes * size_of::<$element>()).is_multiple_of(LINE) {
                            let ahead = row
                                .as_ptr()
                                .wrapping_add(at)
                                .cast::<i8>()
                                .wrapping_add(AHEAD);
                            // A hint, which no address makes fail.
                            _mm_prefetch::<_MM_HINT_T0>(ahead);
                        }
                        // SAFETY: `at + lanes` is at most `width`, and every input has `width` elements.
                        unsafe {
                            let weight = $load(row.as_ptr().add(at));
                            for (input, sums) in sums.iter_mut().enumerate() {
                                let value = $load_input(inputs.as_ptr().add(input * width + at));
                                sums[part] = $fma(weight, value, sums[part]);
                            }
                        }
                    }
                    start += UNROLL * $lanes;
                }
                while start + $lanes <= width {
                    // SAFETY: as above.
                    unsafe {
                        let weight = $load(row.as_ptr().add(start));
                        for (input, sums) in sums.iter_mut().enumerate() {
                            let value = $load_input(inputs.as_ptr().add(input * width + start));
                            sums[0] = $fma(weight, value, sums[0]);
                        }
                    }
                    start += $lanes;
                }
                let mut totals = [0.0; N];
                for (total, sums) in totals.iter_mut().zip(sums) {
                    *total = $total(sums);
                }
                add_tail(start, width, |i| $scalar(row[i]), inputs, &mut totals);
                totals
            }
        };
    }

    #[target_feature(enable = "avx512f")]
    fn total_512([a, b, c, d]: [__m512; 4]) -> f32 {
        _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d)))
    }

    #[target_feature(enable = "avx2,fma")]
    fn total_256(sums: [__m256; 4]) -> f32 {
        use std::arch::x86_64::_mm256_add_ps;
        let [a, b, c, d] = sums;
        let sum = _mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(c, d));
        let four = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
    }

    /// # Safety
    ///
    /// Sixteen elements lie at `from`.
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn load_bf16_512(from: *const u16) -> __m512 {
        // SAFETY: by the function's contract.
        let half = unsafe { _mm256_loadu_si256(from.cast()) };
        _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16))
    }

    /// # Safety
    ///
    /// Eight elements lie at `from`.
    #[target_feature(enable = "avx2")]
    unsafe fn load_bf16_256(from: *const u16) -> __m256 {
        // SAFETY: by the function's contract.
        let half = unsafe { _mm_loadu_si128(from.cast()) };
        _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16))
    }

    kernel!(
        f32_avx512,
        "avx512f,avx512bw",
        f32,
        __m512,
        16,
        _mm512_setzero_ps,
        _mm512_fmadd_ps,
        _mm512_loadu_ps,
        |from| _mm512_loadu_ps(from),
        total_512,
        std::convert::identity
    );
    kernel!(
        bf16_avx512,
        "avx512f,avx512bw",
        u16,
        __m512,
        16,
        _mm512_setzero_ps,
        _mm512_fmadd_ps,
        _mm512_loadu_ps,
        load_bf16_512,
        total_512,
        widen_bf16
    );
    kernel!(
        f32_avx2,
        "avx2,fma",
        f32,
        __m256,
        8,
        _mm256_setzero_ps,
        _mm256_fmadd_ps,
        _mm256_loadu_ps,
        |from| _mm256_loadu_ps(from),
        total_256,
        std::convert::identity
    );
    kernel!(
        bf16_avx2,
        "avx2,fma",
        u16,
        __m256,
        8,
        _mm256_setzero_ps,
        _mm256_fmadd_ps,
        _mm256_loadu_ps,
        load_bf16_256,
        total_256,
        widen_bf16
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn testable_isas() -> Vec<Isa> {
        match Isa::detected() {
            Isa::Avx512 => vec![Isa::Avx512, Isa::Avx2, Isa::Portable],
            Isa::Avx2 => vec![Isa::Avx2, Isa::Portable],
            Isa::Portable => vec![Isa::Portable],
        }
    }

    #[test]
    fn all_kernels_agree_with_double_precision_at_any_width() {
        for width in [1, 7, 8, 15, 16, 17, 31, 63, 64, 65, 130, 200] {
            for count in [1, 2, 3, 4, 5, 9] {
                let rows = 3;
                let value = |i: usize| ((i * 37 + 11) % 101) as f32 / 50.0 - 1.0;
                let weights: Vec<f32> = (0..rows * width).map(value).collect();
                let half: Vec<u16> = weights.iter().map(|w| (w.to_bits() >> 16) as u16).collect();
                let inputs: Vec<f32> = (0..count * width).map(|i| value(i * 3 + 1)).collect();
                for isa in testable_isas() {
                    for bf16 in [false, true] {
                        let elements = if bf16 {
                            Elements::Bf16(&half)
                        } else {
                            Elements::F32(&weights)
                        };
                        let mut out = vec![0.0; rows * count];
                        dot_rows(isa, elements, width, &inputs, &mut out);
                        for row in 0..rows {
                            for input in 0..count {
                                let expected: f64 = (0..width)
                                    .map(|i| {
                                        let at = row * width + i;
                                        let weight = if bf16 {
                                            widen_bf16(half[at])
                                        } else {
                                            weights[at]
                                        };
                                        f64::from(weight) * f64::from(inputs[input * width + i])
                                    })
                                    .sum();
                                let computed = f64::from(out[row * count + input]);
                                assert!(
                                    (computed - expected).abs() < 1e-4,
                                    "{isa:?} bf16={bf16} width {width}: {computed} is not {expected}"
                                );
                            }
                        }
                    }
                }
            }
        }
    }
}
