//! A safe door to the GEMM libraries: one thread, row-major results.

#![expect(
    unsafe_code,
    reason = "the libraries take pointers and strides; both are checked here"
)]
#![expect(
    clippy::many_single_char_names,
    reason = "the names that everybody gives the parts of a matrix product"
)]

use super::isa::Isa;

/// A matrix in a slice: element `(row, column)` lies at `row × row_stride + column × column_stride`.
#[derive(Clone, Copy)]
pub(crate) struct GemmOperand<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) row_stride: usize,
    pub(crate) column_stride: usize,
}

impl GemmOperand<'_> {
    /// True where `rows × columns` elements lie inside the slice.
    fn holds_matrix(&self, rows: usize, columns: usize) -> bool {
        rows == 0
            || columns == 0
            || (rows - 1) * self.row_stride + (columns - 1) * self.column_stride < self.data.len()
    }
}

/// The result of a product: where its first element lies, and the distance between rows.
#[derive(Clone, Copy)]
pub(crate) struct GemmTarget {
    pub(crate) first: *mut f32,
    pub(crate) row_stride: usize,
}

// SAFETY: a target is a place; who writes through it answers for the writes not meeting (see `gemm_to`).
unsafe impl Send for GemmTarget {}
// SAFETY: as above.
unsafe impl Sync for GemmTarget {}

impl GemmTarget {
    /// The same with `columns` columns left out.
    pub(crate) fn skip_columns(self, columns: usize) -> Self {
        Self {
            first: self.first.wrapping_add(columns),
            ..self
        }
    }
}

/// `c = a × b`, or `c += a × b`: `m × k` by `k × n`, into a slice with `c_stride` elements from row to row.
pub(crate) fn run_gemm(
    isa: Isa,
    [m, n, k]: [usize; 3],
    a: GemmOperand<'_>,
    b: GemmOperand<'_>,
    c: &mut [f32],
    c_stride: usize,
) {
    assert!(
        m == 0 || n == 0 || (c_stride >= n && (m - 1) * c_stride + n <= c.len()),
        "the result holds {m} × {n} elements"
    );
    let target = GemmTarget {
        first: c.as_mut_ptr(),
        row_stride: c_stride,
    };
    // SAFETY: the slice holds the result and is borrowed for the call.
    unsafe { gemm_to(isa, [m, n, k], a, b, target, false) }
}

/// As [`run_gemm`], into a place that the caller answers for; adds where `accumulate`.
///
/// # Safety
///
/// `m` rows of `n` elements at `c` are inside one allocation, initialized, and nobody else uses them during the call.
pub(crate) unsafe fn gemm_to(
    isa: Isa,
    [m, n, k]: [usize; 3],
    a: GemmOperand<'_>,
    b: GemmOperand<'_>,
    c: GemmTarget,
    accumulate: bool,
) {
    assert!(
        a.holds_matrix(m, k) && b.holds_matrix(k, n),
        "operands hold what is multiplied"
    );
    if m == 0 || n == 0 {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    {
        use private_gemm_x86::{Accum, DType, DstKind, IType, InstrSet};
        let instructions = match isa {
            Isa::Avx512 => Some(InstrSet::Avx512),
            Isa::Avx2 => Some(InstrSet::Avx256),
            Isa::Portable => None,
        };
        if let Some(instructions) = instructions {
            let one = 1.0f32;
            // SAFETY: the operands' bounds were checked, the target's are the caller's promise, strides count elements,
            // and `Isa` states what the processor has. Absent indices and diagonal are null, as the library wants them.
            unsafe {
                private_gemm_x86::gemm(
                    DType::F32,
                    IType::U32,
                    instructions,
                    m,
                    n,
                    k,
                    c.first.cast(),
                    c.row_stride as isize,
                    1,
                    std::ptr::null(),
                    std::ptr::null(),
                    DstKind::Full,
                    if accumulate {
                        Accum::Add
                    } else {
                        Accum::Replace
                    },
                    a.data.as_ptr().cast(),
                    a.row_stride as isize,
                    a.column_stride as isize,
                    false,
                    std::ptr::null(),
                    0,
                    b.data.as_ptr().cast(),
                    b.row_stride as isize,
                    b.column_stride as isize,
                    false,
                    (&raw const one).cast(),
                    1,
                );
            }
            return;
        }
    }
    let _ = isa;
    // SAFETY: as above.
    unsafe {
        matrixmultiply::sgemm(
            m,
            k,
            n,
            1.0,
            a.data.as_ptr(),
            a.row_stride as isize,
            a.column_stride as isize,
            b.data.as_ptr(),
            b.row_stride as isize,
            b.column_stride as isize,
            if accumulate { 1.0 } else { 0.0 },
            c.first,
            c.row_stride as isize,
            1,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_libraries_multiply_strided_operands() {
        let (m, n, k) = (5, 7, 9);
        let a: Vec<f32> = (0..m * k).map(|i| (i % 11) as f32 - 5.0).collect();
        let b: Vec<f32> = (0..n * k).map(|i| (i % 13) as f32 - 6.0).collect();
        for isa in [Isa::detected(), Isa::Portable] {
            let mut c = vec![9.0; m * 10];
            let rows = |data, stride| GemmOperand {
                data,
                row_stride: stride,
                column_stride: 1,
            };
            let transposed = GemmOperand {
                data: &b,
                row_stride: 1,
                column_stride: k,
            };
            run_gemm(isa, [m, n, k], rows(&a, k), transposed, &mut c, 10);
            for i in 0..m {
                for j in 0..n {
                    let expected: f32 = (0..k).map(|l| a[i * k + l] * b[j * k + l]).sum();
                    assert_eq!(c[i * 10 + j], expected);
                }
                assert_eq!(c[i * 10 + 7], 9.0);
            }
        }
    }

    #[test]
    #[should_panic(expected = "operands hold")]
    fn operands_that_are_too_short_are_refused() {
        let short = GemmOperand {
            data: &[0.0; 8],
            row_stride: 3,
            column_stride: 1,
        };
        run_gemm(Isa::detected(), [3, 3, 3], short, short, &mut [0.0; 9], 3);
    }
}
