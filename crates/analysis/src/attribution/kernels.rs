//! Kernels by name: how often, how long, in which launch configurations.

use llmprof_record::kernel_name::{Category, Library, canonical};
use llmprof_record::summary::Spread;
use llmprof_record::trace::{DeviceProperties, StrId, Trace};
use llmprof_units::{Bytes, Nanos};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::timeline::device_events::DeviceEvents;
use crate::timeline::occupancy::{BlockNeeds, Occupancy};

/// All launches of one kernel.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct KernelRow {
    /// The name as the tool wrote it.
    pub name: String,
    /// The name under which the spellings of all tools meet.
    pub canonical: String,
    /// What the kernel does, as far as its name tells.
    pub category: Category,
    /// The library it comes from, as far as its name tells.
    pub library: Library,
    /// Number of launches in the trace.
    pub calls: u64,
    /// The sum of their times.
    pub total_ns: Nanos,
    /// The part of all kernel time, percent.
    pub share_pct: f64,
    /// Mean time of a launch, ns.
    pub mean_ns: f64,
    /// Median time of a launch, ns.
    pub median_ns: f64,
    /// Time of the shortest launch.
    pub min_ns: Nanos,
    /// Time of the longest launch.
    pub max_ns: Nanos,
    /// Standard deviation with n − 1 in the denominator, ns; 0 for one launch.
    pub deviation_ns: f64,
    /// The ways it was launched, the longest total first.
    pub launches: Vec<LauncherRow>,
}

/// Launches of a kernel with one configuration.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct LauncherRow {
    /// Number of blocks in x, y and z.
    pub grid: [u32; 3],
    /// Number of threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Registers that one thread uses.
    pub registers: u32,
    /// Shared memory a block, static and dynamic, bytes.
    pub shared_bytes: Bytes,
    /// Number of launches with this configuration.
    pub calls: u64,
    /// The sum of their times.
    pub total_ns: Nanos,
    /// Resident warps over the most there can be, and rounds over the device; absent where the device is not known.
    #[serde(flatten)]
    pub occupancy: Option<Occupancy>,
    /// The tool's own estimate of the achieved occupancy, percent.
    pub estimated_occupancy_pct: Option<f32>,
}

/// Rows beyond this many are summed up in one: nobody reads them, and names were generated.
pub const KERNEL_ROWS_MAX: usize = 20_000;

/// The name of the row that sums up what is beyond [`KERNEL_ROWS_MAX`].
pub(crate) const OTHER_ROW: &str = "(other kernels)";

type Configuration = ([u32; 3], [u32; 3], u32, u64, u32);

/// All kernels of a trace, the longest total first.
pub(crate) fn kernel_rows(trace: &Trace, events: &DeviceEvents) -> Vec<KernelRow> {
    let table = &trace.kernels;
    let (names, durations) = (&table.name[..], &table.duration[..]);
    let mut order: Vec<u32> = (0..table.len() as u32).collect();
    order.par_sort_unstable_by_key(|&row| (names[row as usize], row));
    let total: i128 = durations.iter().map(|&time| i128::from(time)).sum();
    let mut groups: Vec<(i64, &[u32])> = order
        .chunk_by(|&a, &b| names[a as usize] == names[b as usize])
        .map(|group| {
            let times = group.iter().map(|&row| durations[row as usize]);
            (times.fold(0_i64, i64::saturating_add), group)
        })
        .collect();
    // Ids of strings compare as the strings do.
    groups.sort_by_key(|&(time, group)| (std::cmp::Reverse(time), names[group[0] as usize]));
    let beyond = groups.split_off(groups.len().min(KERNEL_ROWS_MAX));
    let mut rows: Vec<KernelRow> = groups
        .par_iter()
        .map(|&(time, group)| kernel_row(trace, events, group, time, total))
        .collect();
    if !beyond.is_empty() {
        let rest: Vec<u32> = beyond
            .iter()
            .flat_map(|(_, group)| *group)
            .copied()
            .collect();
        let time = beyond
            .iter()
            .fold(0_i64, |sum, (time, _)| sum.saturating_add(*time));
        let mut other = kernel_row(trace, events, &rest, time, total);
        OTHER_ROW.clone_into(&mut other.name);
        OTHER_ROW.clone_into(&mut other.canonical);
        other.category = Category::Other;
        other.library = Library::Unknown;
        other.launches.clear();
        rows.push(other);
    }
    rows
}

fn kernel_row(
    trace: &Trace,
    events: &DeviceEvents,
    group: &[u32],
    time: i64,
    total: i128,
) -> KernelRow {
    let table = &trace.kernels;
    let name: StrId = table.name[group[0] as usize];
    let mut times: Vec<i64> = group
        .iter()
        .map(|&row| table.duration[row as usize])
        .collect();
    let spread = Spread::from_values(&mut times).unwrap_or_default();
    let mangled = table.mangled[group[0] as usize];
    let spelling = if mangled == StrId::EMPTY {
        name
    } else {
        mangled
    };
    let class = events.class_of(name);
    KernelRow {
        name: trace.text(name).to_owned(),
        canonical: canonical(trace.text(spelling)),
        category: class.category,
        library: class.library,
        calls: spread.count,
        total_ns: Nanos(time),
        share_pct: if total > 0 {
            100.0 * time as f64 / total as f64
        } else {
            0.0
        },
        mean_ns: spread.mean,
        median_ns: spread.median.unwrap_or_default(),
        min_ns: Nanos(times.first().copied().unwrap_or_default()),
        max_ns: Nanos(times.last().copied().unwrap_or_default()),
        deviation_ns: spread.deviation.unwrap_or_default(),
        launches: launcher_rows(trace, group),
    }
}

fn launcher_rows(trace: &Trace, group: &[u32]) -> Vec<LauncherRow> {
    let table = &trace.kernels;
    let configuration = |row: u32| -> Configuration {
        let row = row as usize;
        let shared = u64::from(table.static_shared[row]) + u64::from(table.dynamic_shared[row]);
        (
            table.grid[row],
            table.block[row],
            table.registers[row],
            shared,
            table.device[row],
        )
    };
    let mut sorted: Vec<(Configuration, u32)> =
        group.iter().map(|&row| (configuration(row), row)).collect();
    sorted.sort_unstable();
    let mut rows: Vec<LauncherRow> = sorted
        .chunk_by(|a, b| a.0 == b.0)
        .map(|launches| launcher_row(trace, launches))
        .collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.total_ns), row.grid, row.block));
    rows
}

fn launcher_row(trace: &Trace, launches: &[(Configuration, u32)]) -> LauncherRow {
    let table = &trace.kernels;
    let (grid, block, registers, shared_bytes, device) = launches[0].0;
    let size = |sizes: [u32; 3]| {
        sizes
            .iter()
            .fold(1_u64, |all, &one| all.saturating_mul(u64::from(one)))
    };
    let needs = BlockNeeds {
        threads: size(block),
        registers,
        shared_bytes: Bytes(shared_bytes),
    };
    let device: Option<&DeviceProperties> = trace.devices.iter().find(|known| known.id == device);
    let estimate = table.occupancy[launches[0].1 as usize];
    LauncherRow {
        grid,
        block,
        registers,
        shared_bytes: Bytes(shared_bytes),
        calls: launches.len() as u64,
        total_ns: Nanos(launches.iter().fold(0_i64, |sum, (_, row)| {
            sum.saturating_add(table.duration[*row as usize])
        })),
        // Every kernel uses registers: without them the launch was not recorded.
        occupancy: device
            .filter(|_| registers > 0)
            .and_then(|device| Occupancy::from_launch(size(grid), needs, device)),
        estimated_occupancy_pct: (!estimate.is_nan()).then_some(estimate),
    }
}
