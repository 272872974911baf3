//! Products of tiles in AMX registers: the matrix units of a processor that has them.

#![expect(
    unsafe_code,
    reason = "instructions that no intrinsic gives, behind a check for them"
)]

use std::{
    arch::{asm, x86_64::__cpuid_count},
    hint::black_box,
    sync::LazyLock,
};

use llmprof_units::DType;

/// Rows of a tile, and numbers of 32 bits in a row of sums.
const ROWS: usize = 16;
const ROW_BYTES: usize = 64;
/// Products per round: two of the eight tiles are factors.
pub(super) const SUMS: usize = 6;

/// Operations of one product of full tiles, a multiply-add counted as two.
pub(super) fn tile_operations(dtype: DType) -> Option<usize> {
    let depth = match dtype {
        DType::Bf16 => ROW_BYTES / 2,
        DType::I8 => ROW_BYTES,
        _ => return None,
    };
    Some(2 * ROWS * ROWS * depth)
}

/// A loop over products of tiles of `dtype`, where processor and system let us use them.
pub(super) fn select_kernel(dtype: DType) -> Option<fn(usize)> {
    match dtype {
        DType::Bf16 if UNITS.bf16 => Some(|rounds| {
            // SAFETY: the guard saw the instructions and the system's permission.
            black_box(unsafe { bf16(&SMALL_BF16, rounds) });
        }),
        DType::I8 if UNITS.int8 => Some(|rounds| {
            // SAFETY: as above.
            black_box(unsafe { int8(&ONES_INT8, rounds) });
        }),
        _ => None,
    }
}

struct TileUnits {
    bf16: bool,
    int8: bool,
}

static UNITS: LazyLock<TileUnits> = LazyLock::new(|| {
    // Bits of EDX of leaf 7: 22 for products of bf16, 24 for tiles, 25 for products of int8.
    let features = if __cpuid_count(0, 0).eax >= 7 {
        __cpuid_count(7, 0).edx
    } else {
        0
    };
    let has = |bit: u32| features >> bit & 1 == 1;
    let tiles = has(24) && (has(22) || has(25)) && request_tiles();
    TileUnits {
        bf16: tiles && has(22),
        int8: tiles && has(25),
    }
});

/// Asks Linux for the state that tiles need, once for the process: it is not saved for those who do not ask.
#[cfg(target_os = "linux")]
fn request_tiles() -> bool {
    /// `ARCH_REQ_XCOMP_PERM` and `XFEATURE_XTILEDATA` of Linux 5.16.
    const REQUEST: libc::c_long = 0x1023;
    const TILE_DATA: libc::c_long = 18;
    // SAFETY: takes two numbers and changes nothing but this permission.
    unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST, TILE_DATA) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn request_tiles() -> bool {
    false
}

/// The shapes of the eight tiles, as `ldtilecfg` reads them.
#[repr(C, align(64))]
struct TileShapes {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    bytes_of_row: [u16; 16],
    rows: [u8; 16],
}

static FULL: TileShapes = TileShapes {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    bytes_of_row: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

#[repr(C, align(64))]
struct AmxTile([u32; ROWS * ROW_BYTES / 4]);

/// 2⁻⁷ everywhere: sums grow slowly.
static SMALL_BF16: AmxTile = AmxTile([0x3c00_3c00; ROWS * ROW_BYTES / 4]);
static ONES_INT8: AmxTile = AmxTile([0x0101_0101; ROWS * ROW_BYTES / 4]);

macro_rules! products {
    ($name:ident, $product:literal) => {
        /// One of the sums after `rounds` rounds.
        ///
        /// # Safety
        /// The processor has the instruction, and the system has given permission to use tiles.
        unsafe fn $name(factor: &AmxTile, rounds: usize) -> AmxTile {
            let mut sums = AmxTile([0; ROWS * ROW_BYTES / 4]);
            // SAFETY: reads the shapes and a full tile, writes one to `sums`, and leaves tiles as it found them: unused.
            unsafe {
                asm!(
                    "ldtilecfg [{shapes}]",
                    "tileloadd tmm6, [{factor} + {row}]",
                    "tileloadd tmm7, [{factor} + {row}]",
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "tilezero tmm3",
                    "tilezero tmm4",
                    "tilezero tmm5",
                    "2:",
                    concat!($product, " tmm0, tmm6, tmm7"),
                    concat!($product, " tmm1, tmm6, tmm7"),
                    concat!($product, " tmm2, tmm6, tmm7"),
                    concat!($product, " tmm3, tmm6, tmm7"),
                    concat!($product, " tmm4, tmm6, tmm7"),
                    concat!($product, " tmm5, tmm6, tmm7"),
                    "dec {rounds}",
                    "jnz 2b",
                    "tilestored [{sums} + {row}], tmm5",
                    "tilerelease",
                    shapes = in(reg) &raw const FULL,
                    factor = in(reg) factor,
                    sums = in(reg) &raw mut sums,
                    row = in(reg) ROW_BYTES,
                    rounds = inout(reg) rounds.max(1) => _,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
            sums
        }
    };
}
products!(bf16, "tdpbf16ps");
products!(int8, "tdpbssd");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_by_hand() {
        // 16 × 16 sums over 32 pairs of bf16, or 64 of int8.
        assert_eq!(tile_operations(DType::Bf16), Some(16_384));
        assert_eq!(tile_operations(DType::I8), Some(32_768));
        assert_eq!(tile_operations(DType::F32), None);
        assert_eq!(size_of::<TileShapes>(), 64);
    }

    /// Eight rounds of 32 products of 2⁻⁷ by itself, or of 64 products of ones: every element was worked on, every time.
    #[test]
    fn sums_by_hand() {
        if UNITS.bf16 {
            // SAFETY: as for the loops.
            let sums = unsafe { bf16(&SMALL_BF16, 8) };
            let expected = (8.0 * 32.0 / 16_384.0_f32).to_bits();
            assert!(sums.0.iter().all(|&sum| sum == expected));
        }
        if UNITS.int8 {
            // SAFETY: as for the loops.
            let sums = unsafe { int8(&ONES_INT8, 8) };
            assert!(sums.0.iter().all(|&sum| sum == 8 * 64));
        }
    }
}
