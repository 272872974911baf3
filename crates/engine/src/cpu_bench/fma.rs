//! Multiply-adds on registers alone, of vectors or of tiles: what arithmetic could give if memory were free.

#![expect(
    unsafe_code,
    reason = "calls compiled for instructions that the processor was seen to have"
)]

use std::{hint::black_box, time::Instant};

use llmprof_theory::device::Engine;
use llmprof_units::DType;

#[cfg(target_arch = "x86_64")]
use super::tiles;
use crate::{error::EngineError, kernel::Isa};

/// Rounds of the loop per run and thread, for vectors and for tiles: two milliseconds or more, in which waking up is lost.
const VECTOR_ROUNDS: usize = 800_000;
const TILE_ROUNDS: usize = 80_000;
/// Sums that do not wait for each other: more than latency × units, fewer than registers.
const SUMS: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FmaPeak {
    /// The format that is multiplied. Sums are f32 for bf16, 32 bits for int8.
    pub dtype: DType,
    pub engine: Engine,
    pub threads: usize,
    pub instructions: &'static str,
    /// Operations per second, a multiply-add counted as two.
    pub flops_per_second: f64,
}

/// The formats that this processor multiplies, and the units that do.
pub fn fma_formats() -> Vec<(DType, Engine)> {
    [
        (DType::F32, Engine::Vector),
        (DType::F64, Engine::Vector),
        (DType::Bf16, Engine::Vector),
        (DType::Bf16, Engine::Tensor),
        (DType::I8, Engine::Tensor),
    ]
    .into_iter()
    .filter(|&(dtype, engine)| MultiplyAddLoop::for_units(dtype, engine).is_some())
    .collect()
}

/// The best of `runs` runs of a register-only loop on `threads` threads; `None` for a format without instructions.
pub fn fma_peak(
    (dtype, engine): (DType, Engine),
    threads: usize,
    runs: usize,
) -> Result<Option<FmaPeak>, EngineError> {
    let Some(work) = MultiplyAddLoop::for_units(dtype, engine) else {
        return Ok(None);
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|error| EngineError::Threads {
            threads,
            reason: error.to_string(),
        })?;
    let threads = pool.current_num_threads();
    let mut best = f64::INFINITY;
    for _ in 0..runs.max(1) {
        let start = Instant::now();
        // Once on every thread: shared out, a thread that wakes slowly would leave its part to another.
        pool.broadcast(|_| (work.kernel)(work.rounds));
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(Some(FmaPeak {
        dtype,
        engine,
        threads,
        instructions: work.instructions,
        flops_per_second: (threads * work.rounds * work.operations) as f64 / best,
    }))
}

/// A loop that does nothing but multiply and add.
struct MultiplyAddLoop {
    kernel: Kernel,
    rounds: usize,
    operations: usize,
    instructions: &'static str,
}

impl MultiplyAddLoop {
    fn for_units(dtype: DType, engine: Engine) -> Option<Self> {
        if engine == Engine::Tensor {
            return Self::of_tiles(dtype);
        }
        let (kernel, flops, instructions) = select_kernel(dtype)?;
        Some(Self {
            kernel,
            rounds: VECTOR_ROUNDS,
            operations: SUMS * flops,
            instructions,
        })
    }

    #[cfg(target_arch = "x86_64")]
    fn of_tiles(dtype: DType) -> Option<Self> {
        Some(Self {
            kernel: tiles::select_kernel(dtype)?,
            rounds: TILE_ROUNDS,
            operations: tiles::SUMS * tiles::tile_operations(dtype)?,
            instructions: match dtype {
                DType::Bf16 => "AMX BF16",
                _ => "AMX INT8",
            },
        })
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn of_tiles(_: DType) -> Option<Self> {
        None
    }
}

type Kernel = fn(usize);

/// A loop, the operations of one of its vectors, and the instructions' name.
#[cfg(target_arch = "x86_64")]
fn select_kernel(dtype: DType) -> Option<(Kernel, usize, &'static str)> {
    /// A plain function around a loop; handed out below only where the loop's features were detected.
    macro_rules! detected {
        ($loop:ident) => {
            // SAFETY: the match arm around it saw the features.
            |rounds| unsafe { x86::$loop(rounds) }
        };
    }
    Some(match (dtype, Isa::detected()) {
        (DType::F32, Isa::Avx512) => (detected!(f32_avx512), 32, "AVX-512"),
        (DType::F64, Isa::Avx512) => (detected!(f64_avx512), 16, "AVX-512"),
        (DType::Bf16, Isa::Avx512) if has_bf16() => (detected!(bf16_avx512), 64, "AVX-512 BF16"),
        (DType::F32, Isa::Avx2) => (detected!(f32_avx2), 16, "AVX2"),
        (DType::F64, Isa::Avx2) => (detected!(f64_avx2), 8, "AVX2"),
        (DType::F32, Isa::Portable) => (portable_f32, 2, "portable"),
        (DType::F64, Isa::Portable) => (portable_f64, 2, "portable"),
        _ => return None,
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn select_kernel(dtype: DType) -> Option<(Kernel, usize, &'static str)> {
    match dtype {
        DType::F32 => Some((portable_f32, 2, Isa::detected().name())),
        DType::F64 => Some((portable_f64, 2, Isa::detected().name())),
        _ => None,
    }
}

#[cfg(target_arch = "x86_64")]
fn has_bf16() -> bool {
    Isa::detected() == Isa::Avx512 && is_x86_feature_detected!("avx512bf16")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_bf16() -> bool {
    false
}

/// Scalars, which the compiler may join to vectors.
macro_rules! portable {
    ($name:ident, $type:ty) => {
        fn $name(rounds: usize) {
            let (factor, summand): ($type, $type) = (black_box(0.999), black_box(0.001));
            let mut sums: [$type; SUMS] = [1.0; SUMS];
            for _ in 0..rounds {
                for sum in &mut sums {
                    *sum = *sum * factor + summand;
                }
            }
            black_box(sums);
        }
    };
}
portable!(portable_f32, f32);
portable!(portable_f64, f64);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::{
        arch::x86_64::{
            __m512bh, __m512i, _mm256_fmadd_pd, _mm256_fmadd_ps, _mm256_set1_pd, _mm256_set1_ps,
            _mm512_dpbf16_ps, _mm512_fmadd_pd, _mm512_fmadd_ps, _mm512_set1_epi16, _mm512_set1_pd,
            _mm512_set1_ps,
        },
        hint::black_box,
    };

    use super::SUMS;

    macro_rules! fma {
        ($name:ident, $features:literal, $set:ident, $fma:ident) => {
            #[target_feature(enable = $features)]
            pub(super) fn $name(rounds: usize) {
                let (factor, summand) = ($set(black_box(0.999)), $set(black_box(0.001)));
                let mut sums = [$set(1.0); SUMS];
                for _ in 0..rounds {
                    for sum in &mut sums {
                        *sum = $fma(*sum, factor, summand);
                    }
                }
                black_box(sums);
            }
        };
    }
    fma!(f32_avx512, "avx512f", _mm512_set1_ps, _mm512_fmadd_ps);
    fma!(f64_avx512, "avx512f", _mm512_set1_pd, _mm512_fmadd_pd);
    fma!(f32_avx2, "avx2,fma", _mm256_set1_ps, _mm256_fmadd_ps);
    fma!(f64_avx2, "avx2,fma", _mm256_set1_pd, _mm256_fmadd_pd);

    /// Pairs of bf16 products added to f32.
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    pub(super) fn bf16_avx512(rounds: usize) {
        // 0x3c00 is 2⁻⁷: sums grow slowly and stay finite.
        let pairs = _mm512_set1_epi16(black_box(0x3c00));
        // SAFETY: the two types are the same 512 bits.
        let pairs = unsafe { std::mem::transmute::<__m512i, __m512bh>(pairs) };
        let mut sums = [_mm512_set1_ps(1.0); SUMS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm512_dpbf16_ps(*sum, pairs, pairs);
            }
        }
        black_box(sums);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_at_hand_has_a_peak() {
        for format in fma_formats() {
            let peak = fma_peak(format, 1, 1)
                .unwrap()
                .expect("listed formats are measured");
            assert_eq!((peak.dtype, peak.engine), format);
            assert!(peak.flops_per_second > 1e7, "{peak:?}");
        }
        let none = fma_peak((DType::I4, Engine::Tensor), 1, 1).unwrap();
        assert_eq!(none, None);
    }
}
