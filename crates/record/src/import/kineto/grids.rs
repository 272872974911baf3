//! Grids that count work-items instead of blocks.
//!
//! `hipExtModuleLaunchKernel`, which Tensile and hipBLASLt use, takes the global size in work-items, and Kineto writes down what
//! the call was given. Other calls take blocks.

use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;

use crate::trace::TraceBuilder;

const TAKES_WORK_ITEMS: &str = "hipExtModuleLaunchKernel";

/// Turns grids of work-items into grids of blocks.
pub(super) fn count_blocks(builder: &mut TraceBuilder) {
    let Some(name) = builder.strings.find(TAKES_WORK_ITEMS.as_bytes()) else {
        return;
    };
    let hosts = &builder.hosts;
    let calls: HashSet<u32, FxBuildHasher> = (0..hosts.len())
        .filter(|&row| hosts.name[row] == name && hosts.correlation[row] != 0)
        .map(|row| hosts.correlation[row])
        .collect();
    for row in 0..builder.kernels.len() {
        let block = builder.kernels.block[row];
        if block.contains(&0) || !calls.contains(&builder.kernels.correlation[row]) {
            continue;
        }
        let items = builder.kernels.grid[row];
        builder.kernels.grid.make_mut()[row] =
            [0, 1, 2].map(|axis| items[axis].div_ceil(block[axis]));
    }
}
