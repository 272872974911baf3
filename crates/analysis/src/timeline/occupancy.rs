//! How many blocks of a kernel fit on a multiprocessor, and what follows.
//!
//! The rules are those of the CUDA C++ Programming Guide (compute capabilities, technical specifications) and of the
//! occupancy calculator: registers are given out per warp in steps of 256, to four schedulers; shared memory in steps of
//! 128 bytes, with 1 KiB a block kept by the system from capability 8.0 on.

use llmprof_record::trace::DeviceProperties;
use llmprof_units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What one block of a kernel needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockNeeds {
    pub threads: u64,
    /// Registers of one thread, not of the whole block.
    pub registers: u32,
    /// Shared memory, static and dynamic, bytes.
    pub shared_bytes: Bytes,
}

/// How many blocks fit on a multiprocessor by each resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockLimits {
    /// By the number of blocks a multiprocessor may hold.
    pub blocks: u64,
    /// By the number of warps that a multiprocessor may hold.
    pub warps: u64,
    /// By registers; absent where the kernel uses none, as graphs of unknown kernels say.
    pub registers: Option<u64>,
    /// By shared memory, were all of it given to the kernel; absent where the kernel uses none and the system keeps none.
    pub shared: Option<u64>,
}

impl BlockLimits {
    /// `None` if the device's figures or the block's size are not known.
    pub fn from_needs(needs: BlockNeeds, device: &DeviceProperties) -> Option<Self> {
        let (major, minor) = device.compute_capability?;
        let warp = u64::from(device.warp_size.unwrap_or(32)).max(1);
        let warps_per_block = needs.threads.div_ceil(warp);
        if warps_per_block == 0 {
            return None;
        }
        let resident_warps = u64::from(device.max_threads_per_sm?) / warp;
        let registers = (needs.registers > 0)
            .then(|| {
                let per_warp = (u64::from(needs.registers) * warp).next_multiple_of(256);
                let warps = u64::from(device.registers_per_sm?) / per_warp;
                // Each of the four schedulers has its own registers.
                Some(warps / 4 * 4 / warps_per_block)
            })
            .flatten();
        let reserved = if major >= 8 { 1024 } else { 0 };
        let shared_per_block = (needs.shared_bytes.0 + reserved).next_multiple_of(128);
        let blocks = device
            .max_blocks_per_sm
            .map_or_else(|| resident_blocks(major, minor), Some)
            .map(u64::from)?;
        let shared = (shared_per_block > 0)
            .then(|| Some(device.shared_per_sm_bytes?.0 / shared_per_block))
            .flatten();
        Some(Self {
            blocks,
            warps: resident_warps / warps_per_block,
            registers,
            shared,
        })
    }

    /// Blocks that fit by all resources.
    pub(crate) fn blocks_per_sm(&self) -> u64 {
        [
            Some(self.blocks),
            Some(self.warps),
            self.registers,
            self.shared,
        ]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(0)
    }
}

/// What a launch does to a device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Occupancy {
    /// Blocks that fit on a multiprocessor.
    pub blocks_per_sm: u64,
    /// Resident warps over the most there can be, percent, with enough blocks.
    pub theoretical_pct: f64,
    /// Rounds in which the grid goes over the device: 0.3 leaves most multiprocessors without work.
    pub waves: f64,
}

impl Occupancy {
    /// The occupancy of a launch of `blocks` blocks; `None` if the device's figures are not known.
    pub fn from_launch(blocks: u64, needs: BlockNeeds, device: &DeviceProperties) -> Option<Self> {
        let blocks_per_sm = BlockLimits::from_needs(needs, device)?.blocks_per_sm();
        if blocks_per_sm == 0 {
            return None;
        }
        let warp = u64::from(device.warp_size.unwrap_or(32)).max(1);
        let resident = u64::from(device.max_threads_per_sm?) / warp;
        let warps = blocks_per_sm * needs.threads.div_ceil(warp);
        let room = blocks_per_sm * u64::from(device.sm_count?);
        Some(Self {
            blocks_per_sm,
            theoretical_pct: 100.0 * warps as f64 / resident.max(1) as f64,
            waves: blocks as f64 / room.max(1) as f64,
        })
    }
}

/// Blocks that a multiprocessor may hold, by compute capability (Programming Guide, technical specifications).
fn resident_blocks(major: u32, minor: u32) -> Option<u32> {
    Some(match (major, minor) {
        (7, 5) | (8, 6 | 7) => 16,
        (7, 0 | 2) | (8 | 9, 0) | (10, _) => 32,
        (8, 9) | (11 | 12, _) => 24,
        _ => return None,
    })
}
