//! Weights as small integers with a scale for each group of inputs: GEMV, and expansion to f32.
//!
//! Integers are expanded to f32 on the way and multiplied with inputs in f32: what is saved is memory traffic.

#![expect(
    unsafe_code,
    reason = "vector loads from slices whose bounds were checked"
)]

use llmprof_theory::WeightFormat;

use super::isa::{Isa, vectorized};
use crate::buffer::Elements;

/// Inputs that lie together: 4-bit integers of the first half in low nibbles, those of the second in high ones, so that a
/// vector of either is one shift away.
pub(crate) const BLOCK_INPUTS: usize = WeightFormat::NATIVE_BLOCK as usize;
/// Inputs that one pass over a row serves.
const INPUTS_PER_PASS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeWidth {
    Eight,
    /// Nibbles with 8 added; groups start at whole blocks.
    Four,
}

impl CodeWidth {
    /// Bytes of a row of `inputs` integers.
    pub(crate) fn row_bytes(self, inputs: usize) -> usize {
        match self {
            Self::Eight => inputs,
            Self::Four => inputs.div_ceil(BLOCK_INPUTS) * (BLOCK_INPUTS / 2),
        }
    }

    /// The largest integer that is used; its negative is the smallest.
    pub(crate) fn largest_code(self) -> f32 {
        match self {
            Self::Eight => 127.0,
            Self::Four => 7.0,
        }
    }
}

/// Rows of a quantized matrix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantized<'a> {
    pub(crate) width: CodeWidth,
    /// Inputs that share a scale, and scales of a row.
    group: usize,
    groups: usize,
    inputs: usize,
    codes: &'a [u8],
    scales: Elements<'a>,
}

impl<'a> Quantized<'a> {
    /// Rows of `inputs` integers, `group` to a scale.
    pub(crate) fn new(
        width: CodeWidth,
        [inputs, group]: [usize; 2],
        codes: &'a [u8],
        scales: Elements<'a>,
    ) -> Self {
        Self {
            width,
            group,
            groups: inputs.div_ceil(group),
            inputs,
            codes,
            scales,
        }
    }

    /// `count` rows from `first` on.
    pub(crate) fn rows_from(self, first: usize, count: usize) -> Self {
        let (bytes, groups) = (self.width.row_bytes(self.inputs), self.groups);
        Self {
            codes: &self.codes[first * bytes..(first + count) * bytes],
            scales: self.scales.slice(first * groups..(first + count) * groups),
            ..self
        }
    }

    fn scale_of(&self, group: usize) -> f32 {
        match self.scales {
            Elements::F32(scales) => scales[group],
            Elements::Bf16(scales) => f32::from_bits(u32::from(scales[group]) << 16),
        }
    }

    /// The integer of an input of the first row.
    fn code_at(&self, input: usize) -> f32 {
        match self.width {
            CodeWidth::Eight => f32::from(self.codes[input] as i8),
            CodeWidth::Four => {
                let (block, place) = (input / BLOCK_INPUTS, input % BLOCK_INPUTS);
                let byte = self.codes[block * (BLOCK_INPUTS / 2) + place % (BLOCK_INPUTS / 2)];
                let nibble = if place < BLOCK_INPUTS / 2 {
                    byte
                } else {
                    byte >> 4
                };
                f32::from(nibble & 15) - 8.0
            }
        }
    }
}

/// Writes the codes of a row. The scales are those that the row is stored with.
pub(crate) fn pack_row(width: CodeWidth, group: usize, row: &[f32], scales: &[f32], to: &mut [u8]) {
    let largest = width.largest_code();
    let code = |input: usize| {
        let scale = scales[input / group];
        if scale == 0.0 {
            return 0.0;
        }
        (row[input] / scale)
            .round_ties_even()
            .clamp(-largest, largest)
    };
    match width {
        CodeWidth::Eight => {
            for (input, to) in to.iter_mut().enumerate() {
                *to = code(input) as i8 as u8;
            }
        }
        CodeWidth::Four => {
            // Places after the end of a row hold a zero.
            let nibble = |input: usize| {
                let code = if input < row.len() { code(input) } else { 0.0 };
                (code as i8 + 8) as u8
            };
            for (place, to) in to.iter_mut().enumerate() {
                let half = BLOCK_INPUTS / 2;
                let first = place / half * BLOCK_INPUTS + place % half;
                *to = nibble(first) | nibble(first + half) << 4;
            }
        }
    }
}

/// `out[row × inputs + i] = Σ weights[row] × input i`, as [`dot_rows`](super::dot::dot_rows) of plain weights.
pub(crate) fn dot_quantized(isa: Isa, weights: Quantized<'_>, inputs: &[f32], out: &mut [f32]) {
    let width = weights.inputs;
    let count = inputs.len() / width;
    for (row, out) in out.chunks_exact_mut(count).enumerate() {
        let row = weights.rows_from(row, 1);
        for (inputs, out) in inputs
            .chunks(INPUTS_PER_PASS * width)
            .zip(out.chunks_mut(INPUTS_PER_PASS))
        {
            match out.len() {
                1 => out.copy_from_slice(&dot_row::<1>(isa, &row, inputs)),
                2 => out.copy_from_slice(&dot_row::<2>(isa, &row, inputs)),
                3 => out.copy_from_slice(&dot_row::<3>(isa, &row, inputs)),
                _ => out.copy_from_slice(&dot_row::<4>(isa, &row, inputs)),
            }
        }
    }
}

/// The products of one row with `N` inputs that lie one after the other.
fn dot_row<const N: usize>(isa: Isa, row: &Quantized<'_>, inputs: &[f32]) -> [f32; N] {
    assert_eq!(inputs.len(), N * row.inputs);
    assert_eq!(row.codes.len(), row.width.row_bytes(row.inputs));
    assert!(row.width == CodeWidth::Eight || row.group.is_multiple_of(BLOCK_INPUTS));
    #[cfg(target_arch = "x86_64")]
    match (isa, row.width) {
        // SAFETY: `Isa` states what the processor has; lengths and blocks were checked. So in all of these.
        (Isa::Avx512, CodeWidth::Eight) => return unsafe { x86::eight_avx512::<N>(row, inputs) },
        // SAFETY: as above.
        (Isa::Avx512, CodeWidth::Four) => return unsafe { x86::four_avx512::<N>(row, inputs) },
        // SAFETY: as above.
        (Isa::Avx2, CodeWidth::Eight) => return unsafe { x86::eight_avx2::<N>(row, inputs) },
        // SAFETY: as above.
        (Isa::Avx2, CodeWidth::Four) => return unsafe { x86::four_avx2::<N>(row, inputs) },
        (Isa::Portable, _) => {}
    }
    let _ = isa;
    let mut totals = [0.0; N];
    for group in 0..row.groups {
        let start = group * row.group;
        let end = row.inputs.min(start + row.group);
        add_scalar_products(row, group, start..end, inputs, &mut totals);
    }
    totals
}

/// Adds the products of some inputs of one group.
fn add_scalar_products<const N: usize>(
    row: &Quantized<'_>,
    group: usize,
    range: std::ops::Range<usize>,
    inputs: &[f32],
    totals: &mut [f32; N],
) {
    let scale = row.scale_of(group);
    for input in range {
        let weight = row.code_at(input) * scale;
        for (at, total) in totals.iter_mut().enumerate() {
            *total += weight * inputs[at * row.inputs + input];
        }
    }
}

vectorized! {
    /// Inputs from `from` on of the first row, as f32. `from` starts a block.
    pub(crate) fn expand_row(row: Quantized<'_>, from: usize, to: &mut [f32]) {
        let mut at = from;
        let end = from + to.len();
        while at < end {
            let group = at / row.group;
            let next = end.min((group + 1).saturating_mul(row.group));
            let scale = row.scale_of(group);
            let to = &mut to[at - from..next - from];
            match row.width {
                CodeWidth::Eight => {
                    for (to, code) in to.iter_mut().zip(&row.codes[at..next]) {
                        *to = f32::from(*code as i8) * scale;
                    }
                }
                CodeWidth::Four => {
                    const HALF: usize = BLOCK_INPUTS / 2;
                    let codes = &row.codes[at / BLOCK_INPUTS * HALF..];
                    for (to, codes) in to.chunks_mut(BLOCK_INPUTS).zip(codes.chunks_exact(HALF)) {
                        let (low, high) = to.split_at_mut(to.len().min(HALF));
                        for (to, code) in low.iter_mut().zip(codes) {
                            *to = (f32::from(code & 15) - 8.0) * scale;
                        }
                        for (to, code) in high.iter_mut().zip(codes) {
                            *to = (f32::from(code >> 4) - 8.0) * scale;
                        }
                    }
                }
            }
            at = next;
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256, __m256i, __m512, _MM_HINT_T0, _mm_add_ps, _mm_add_ss, _mm_cvtss_f32,
        _mm_loadl_epi64, _mm_loadu_si128, _mm_movehdup_ps, _mm_movehl_ps, _mm_prefetch,
        _mm256_add_ps, _mm256_and_si256, _mm256_castps256_ps128, _mm256_cvtepi8_epi32,
        _mm256_cvtepi32_ps, _mm256_cvtepu8_epi32, _mm256_extractf128_ps, _mm256_fmadd_ps,
        _mm256_loadu_ps, _mm256_set1_epi32, _mm256_set1_ps, _mm256_setzero_ps, _mm256_srli_epi32,
        _mm256_sub_ps, _mm512_add_ps, _mm512_cvtepi8_epi32, _mm512_cvtepi32_ps,
        _mm512_cvtepu8_epi32, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_permutexvar_ps,
        _mm512_reduce_add_ps, _mm512_set1_ps, _mm512_setr_ps, _mm512_setzero_ps, _mm512_srli_epi32,
    };

    use super::{BLOCK_INPUTS, Quantized, add_scalar_products};

    /// Bytes of a cache line.
    const LINE: usize = 64;
    /// How far ahead codes are fetched; why: `dot.rs`.
    const AHEAD: usize = 8192;

    /// # Safety
    ///
    /// 32 codes lie at `from`.
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn load_eight_512(from: *const u8) -> [__m512; 2] {
        // SAFETY: by the function's contract.
        let (first, second) = unsafe {
            (
                _mm_loadu_si128(from.cast()),
                _mm_loadu_si128(from.add(16).cast()),
            )
        };
        [
            _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(first)),
            _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(second)),
        ]
    }

    /// # Safety
    ///
    /// A block of 16 bytes lies at `from`.
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn load_four_512(from: *const u8) -> [__m512; 2] {
        // The permutation looks at the lowest four bits of each index, so that looking up is masking, too.
        let values = _mm512_setr_ps(
            -8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0,
        );
        // SAFETY: by the function's contract.
        let codes = _mm512_cvtepu8_epi32(unsafe { _mm_loadu_si128(from.cast()) });
        [
            _mm512_permutexvar_ps(codes, values),
            _mm512_permutexvar_ps(_mm512_srli_epi32(codes, 4), values),
        ]
    }

    /// # Safety
    ///
    /// 32 codes lie at `from`.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn load_eight_256(from: *const u8) -> [__m256; 4] {
        // SAFETY: by the function's contract.
        let (a, b, c, d) = unsafe {
            (
                _mm_loadl_epi64(from.cast()),
                _mm_loadl_epi64(from.add(8).cast()),
                _mm_loadl_epi64(from.add(16).cast()),
                _mm_loadl_epi64(from.add(24).cast()),
            )
        };
        [
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(a)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(b)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(c)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(d)),
        ]
    }

    #[target_feature(enable = "avx2,fma")]
    fn total_256(sums: __m256) -> f32 {
        let four = _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
    }

    /// Nibbles without the 8 that was added.
    #[target_feature(enable = "avx2,fma")]
    fn center_codes(codes: __m256i) -> __m256 {
        _mm256_sub_ps(_mm256_cvtepi32_ps(codes), _mm256_set1_ps(8.0))
    }

    /// # Safety
    ///
    /// A block of 16 bytes lies at `from`.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn load_four_256(from: *const u8) -> [__m256; 4] {
        // SAFETY: by the function's contract.
        let (first, second) = unsafe {
            (
                _mm_loadl_epi64(from.cast()),
                _mm_loadl_epi64(from.add(8).cast()),
            )
        };
        let (first, second) = (_mm256_cvtepu8_epi32(first), _mm256_cvtepu8_epi32(second));
        let mask = _mm256_set1_epi32(15);
        [
            center_codes(_mm256_and_si256(first, mask)),
            center_codes(_mm256_and_si256(second, mask)),
            center_codes(_mm256_srli_epi32(first, 4)),
            center_codes(_mm256_srli_epi32(second, 4)),
        ]
    }

    /// Whole blocks in vectors with a sum for each vector of a block; sums of a group are scaled once.
    macro_rules! kernel {
        ($name:ident, $features:literal, $vector:ty, $lanes:literal, $codes_per_byte:literal,
         $zero:ident, $add:ident, $all:ident, $fma:ident, $load_input:ident, $total:ident, $load:ident) => {
            /// # Safety
            ///
            /// `inputs` holds `N × row.inputs` elements, `row.codes` a row, and 4-bit groups start at whole blocks.
            #[target_feature(enable = $features)]
            // Arrays of vectors are walked by index: iterators over them go through memory.
            pub(super) unsafe fn $name<const N: usize>(
                row: &Quantized<'_>,
                inputs: &[f32],
            ) -> [f32; N] {
                const PARTS: usize = BLOCK_INPUTS / $lanes;
                let width = row.inputs;
                let mut sums: [$vector; N] = [$zero(); N];
                let mut totals = [0.0; N];
                for group in 0..row.groups {
                    let start = group * row.group;
                    let end = width.min(start + row.group);
                    let mut parts: [[$vector; PARTS]; N] = [[$zero(); PARTS]; N];
                    let mut at = start;
                    while at + BLOCK_INPUTS <= end {
                        // SAFETY: a whole block lies before `end`, which is at most `width`.
                        unsafe {
                            let codes = row.codes.as_ptr().add(at / $codes_per_byte);
                            if (at / $codes_per_byte).is_multiple_of(LINE) {
                                // A hint, which no address makes fail.
                                _mm_prefetch::<_MM_HINT_T0>(codes.wrapping_add(AHEAD).cast());
                            }
                            let weights = $load(codes);
                            for part in 0..PARTS {
                                for input in 0..N {
                                    let place = input * width + at + part * $lanes;
                                    let value = $load_input(inputs.as_ptr().add(place));
                                    parts[input][part] =
                                        $fma(weights[part], value, parts[input][part]);
                                }
                            }
                        }
                        at += BLOCK_INPUTS;
                    }
                    let scale = $all(row.scale_of(group));
                    for input in 0..N {
                        let mut joined = parts[input][0];
                        for part in 1..PARTS {
                            joined = $add(joined, parts[input][part]);
                        }
                        sums[input] = $fma(joined, scale, sums[input]);
                    }
                    if at < end {
                        add_scalar_products(row, group, at..end, inputs, &mut totals);
                    }
                }
                for input in 0..N {
                    totals[input] += $total(sums[input]);
                }
                totals
            }
        };
    }

    kernel!(
        eight_avx512,
        "avx512f,avx512bw",
        __m512,
        16,
        1,
        _mm512_setzero_ps,
        _mm512_add_ps,
        _mm512_set1_ps,
        _mm512_fmadd_ps,
        _mm512_loadu_ps,
        _mm512_reduce_add_ps,
        load_eight_512
    );
    kernel!(
        four_avx512,
        "avx512f,avx512bw",
        __m512,
        16,
        2,
        _mm512_setzero_ps,
        _mm512_add_ps,
        _mm512_set1_ps,
        _mm512_fmadd_ps,
        _mm512_loadu_ps,
        _mm512_reduce_add_ps,
        load_four_512
    );
    kernel!(
        eight_avx2,
        "avx2,fma",
        __m256,
        8,
        1,
        _mm256_setzero_ps,
        _mm256_add_ps,
        _mm256_set1_ps,
        _mm256_fmadd_ps,
        _mm256_loadu_ps,
        total_256,
        load_eight_256
    );
    kernel!(
        four_avx2,
        "avx2,fma",
        __m256,
        8,
        2,
        _mm256_setzero_ps,
        _mm256_add_ps,
        _mm256_set1_ps,
        _mm256_fmadd_ps,
        _mm256_loadu_ps,
        total_256,
        load_four_256
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
    fn codes_of_a_block_by_hand() {
        let row: Vec<f32> = (0..32).map(|i| (i % 15) as f32 - 7.0).collect();
        let mut codes = [0; 16];
        pack_row(CodeWidth::Four, 32, &row, &[1.0], &mut codes);
        // Input 0 is −7 and input 16 is 1 − 7: 1 in the low nibble, 2 in the high.
        assert_eq!(codes[0], 0x21);
        // Input 15 is 0 − 7 and input 31 is 1 − 7.
        assert_eq!(codes[15], 0x21);
        let mut bytes = [0; 2];
        pack_row(CodeWidth::Eight, 2, &[-63.5, 12.6], &[0.5], &mut bytes);
        assert_eq!(bytes.map(|byte| byte as i8), [-127, 25]);
    }

    /// Products and expansion of packed rows, against integers times scales in double precision.
    #[test]
    fn all_kernels_agree_with_double_precision() {
        let code = |i: usize| ((i * 37 + 11) % 15) as f32 - 7.0;
        let value = |i: usize| ((i * 29 + 5) % 101) as f32 / 50.0 - 1.0;
        for (width, group) in [(64, 32), (200, 64), (130, 128), (33, 32), (96, 96), (7, 7)] {
            for kind in [CodeWidth::Eight, CodeWidth::Four] {
                if kind == CodeWidth::Four && group % BLOCK_INPUTS != 0 {
                    continue;
                }
                let (rows, groups) = (3, usize::div_ceil(width, group));
                let scales: Vec<f32> = (0..rows * groups).map(|i| 0.25 + i as f32).collect();
                let weight = |row: usize, i: usize| {
                    f64::from(code(row * 1000 + i)) * f64::from(scales[row * groups + i / group])
                };
                let mut codes = Vec::new();
                for row in 0..rows {
                    let wide: Vec<f32> = (0..width).map(|i| weight(row, i) as f32).collect();
                    let mut packed = vec![0; kind.row_bytes(width)];
                    let row_scales = &scales[row * groups..(row + 1) * groups];
                    pack_row(kind, group, &wide, row_scales, &mut packed);
                    codes.extend(packed);
                }
                let all = Quantized::new(kind, [width, group], &codes, Elements::F32(&scales));
                for count in [1, 2, 3, 4, 5, 9] {
                    let inputs: Vec<f32> = (0..count * width).map(value).collect();
                    for isa in testable_isas() {
                        let mut out = vec![0.0; rows * count];
                        dot_quantized(isa, all, &inputs, &mut out);
                        for row in 0..rows {
                            for input in 0..count {
                                let expected: f64 = (0..width)
                                    .map(|i| weight(row, i) * f64::from(inputs[input * width + i]))
                                    .sum();
                                let computed = f64::from(out[row * count + input]);
                                assert!(
                                    (computed - expected).abs() < 1e-3 * expected.abs().max(1.0),
                                    "{isa:?} {kind:?} {width}/{group}: {computed} is not {expected}"
                                );
                            }
                        }
                    }
                }
                for from in [0, BLOCK_INPUTS.min(width / BLOCK_INPUTS * BLOCK_INPUTS)] {
                    let mut wide = vec![f32::NAN; width - from];
                    expand_row(all.rows_from(2, 1), from, &mut wide);
                    for (i, value) in wide.iter().enumerate() {
                        assert_eq!(f64::from(*value), weight(2, from + i), "{kind:?} {i}");
                    }
                }
            }
        }
    }
}
