//! Measuring the peaks of the processor at hand.

use std::{collections::BTreeMap, path::Path};

use llmprof_engine::EngineError;
use llmprof_engine::cpu_bench::{FmaPeak, MemoryPattern, fma_formats, fma_peak, measure_bandwidth};
use llmprof_theory::device::{
    CacheScope, DeviceCalibration, DeviceKind,
    schema::{CacheEntry, DeviceFile, FigureEntry, MemoryEntry, PeakEntry, UnitsEntry},
};
use llmprof_units::{Basis, Count};

use super::{
    THIS_CPU,
    ticks::{cpu_ticks, share_of_others},
};
use crate::host;

/// Runs of each measurement, of which the best counts: a disturbed run is slower, never faster.
const MEASURE_RUNS: usize = 5;
/// Rounds over all formats of multiply-adds, and runs of a loop in each. A loop takes milliseconds and a processor needs longer
/// to reach its clock; and where others share its units, as in a virtual machine, half of them may be gone for seconds.
const LOOP_ROUNDS: usize = 10;
const LOOP_RUNS: usize = 15;
/// A working set that no cache here holds: machines of this class have up to 300 MB of it.
const MAIN_MEMORY: usize = 1 << 30;
/// A cache is measured with half of its size, so that its lines stay.
const PART_OF_CACHE: usize = 2;

/// How figures are taken. Goes up with every change that would give others, so that older files are measured again.
pub(super) const METHOD_VERSION: u32 = 6;
/// The key under which figures cite this program.
const SOURCE: &str = "llmprof";

/// A level of the cache hierarchy, as the system describes it.
struct CacheLevel {
    name: String,
    bytes: usize,
    /// Number of hardware threads that share one cache.
    shared_by: usize,
}

/// Measures this processor, which takes some seconds; `time` is now (RFC 3339).
pub fn calibrate_cpu(time: &str) -> Result<DeviceFile, EngineError> {
    let before = cpu_ticks();
    let cpu = host::read_cpu();
    let threads = cpu.threads.unwrap_or(1);
    // At moments that are seconds apart, since the speed of memory that others share changes.
    let mut main = MainMemory::new(threads);
    main.measure_bandwidth()?;
    let peaks = measure_peaks(threads)?;
    main.measure_bandwidth()?;
    let notes = main_memory_notes(threads)?;
    main.measure_bandwidth()?;
    let caches = measure_caches(threads)?;
    main.measure_bandwidth()?;
    let other_programs = before
        .zip(cpu_ticks())
        .and_then(|(before, after)| share_of_others(before, after));
    let citation = format!(
        "llmprof hardware measure, best of {MEASURE_RUNS} runs, of {} for arithmetic",
        LOOP_ROUNDS * LOOP_RUNS
    );
    Ok(DeviceFile {
        name: THIS_CPU.to_owned(),
        title: device_title(&cpu).to_owned(),
        driver_names: Vec::new(),
        vendor: "unknown".to_owned(),
        kind: DeviceKind::Cpu,
        architecture: None,
        basis: Basis::Measured,
        measured_at: Some(time.to_owned()),
        calibration: Some(DeviceCalibration {
            method: METHOD_VERSION,
            threads,
            other_programs,
            outdone: false,
        }),
        sources: BTreeMap::from([(SOURCE.to_owned(), citation)]),
        units: Some(UnitsEntry {
            name: "thread".to_owned(),
            value: threads as f64,
            source: SOURCE.to_owned(),
            at: None,
            basis: None,
        }),
        clocks_mhz: BTreeMap::new(),
        peaks: peaks.iter().map(peak_entry).collect(),
        memory: MemoryEntry {
            technology: None,
            capacity_gb: None,
            bandwidth_gb_s: FigureEntry {
                value: main.best / 1e9,
                source: SOURCE.to_owned(),
                at: Some("reading 1 GiB".to_owned()),
                basis: None,
            },
        },
        caches,
        interconnects: Vec::new(),
        power_w: None,
        launch_latency_us: None,
        notes,
    })
}

/// What a processor is called in its file.
pub(super) fn device_title(cpu: &llmprof_record::run::Cpu) -> &str {
    cpu.model.as_deref().unwrap_or("unknown processor")
}

fn peak_entry(peak: &FmaPeak) -> PeakEntry {
    PeakEntry {
        dtype: peak.dtype,
        engine: peak.engine,
        accumulate: None,
        tflops: peak.flops_per_second / 1e12,
        sparse_tflops: None,
        operations_per_clock: None,
        clock: None,
        not_recounted: Some("measured".to_owned()),
        source: SOURCE.to_owned(),
        at: Some(format!(
            "register-only multiply-adds with {}",
            peak.instructions
        )),
        basis: None,
    }
}

/// Main memory by one thread and by all, read and copied.
fn main_memory_notes(threads: usize) -> Result<Vec<String>, EngineError> {
    let mut notes = Vec::new();
    let mut counts: Vec<usize> = [1, threads].into();
    counts.dedup();
    for count in counts {
        for (name, traffic) in [("read", MemoryPattern::Read), ("copy", MemoryPattern::Copy)] {
            let rate = measure_bandwidth(traffic, count, MAIN_MEMORY, MEASURE_RUNS)?;
            notes.push(format!(
                "Main memory, {name}, {}: {:.1} GB/s.",
                Count(count as u64, "thread"),
                rate.bytes_per_second / 1e9
            ));
        }
    }
    Ok(notes)
}

fn measure_caches(threads: usize) -> Result<Vec<CacheEntry>, EngineError> {
    let levels = cache_levels(Path::new("/sys/devices/system/cpu/cpu0/cache"), threads);
    let entry = |level: CacheLevel| {
        // Each thread goes over its part of the caches that all threads have together.
        let bytes = level.bytes * (threads / level.shared_by).max(1);
        let set = bytes / PART_OF_CACHE;
        let rate = measure_bandwidth(MemoryPattern::Read, threads, set, MEASURE_RUNS)?;
        Ok(CacheEntry {
            level: level.name,
            scope: CacheScope::Device,
            kib: Some((bytes / 1024) as f64),
            bandwidth_gb_s: Some(rate.bytes_per_second / 1e9),
            source: SOURCE.to_owned(),
            at: Some(format!("size by the system, reading {} KiB", set / 1024)),
            basis: None,
        })
    };
    levels.into_iter().map(entry).collect()
}

/// How fast all threads read what no cache holds.
struct MainMemory {
    threads: usize,
    /// Highest bandwidth measured so far, bytes per second.
    best: f64,
}

impl MainMemory {
    fn new(threads: usize) -> Self {
        Self { threads, best: 0.0 }
    }

    fn measure_bandwidth(&mut self) -> Result<(), EngineError> {
        let measured =
            measure_bandwidth(MemoryPattern::Read, self.threads, MAIN_MEMORY, MEASURE_RUNS)?;
        self.best = self.best.max(measured.bytes_per_second);
        Ok(())
    }
}

/// The best of each format, all of them in turn.
fn measure_peaks(threads: usize) -> Result<Vec<FmaPeak>, EngineError> {
    let mut best: Vec<FmaPeak> = Vec::new();
    for _ in 0..LOOP_ROUNDS {
        for format in fma_formats() {
            let Some(peak) = fma_peak(format, threads, LOOP_RUNS)? else {
                continue;
            };
            let known = best
                .iter_mut()
                .find(|known| (known.dtype, known.engine) == format);
            match known {
                Some(known) if known.flops_per_second >= peak.flops_per_second => {}
                Some(known) => *known = peak,
                None => best.push(peak),
            }
        }
    }
    Ok(best)
}

/// The data caches of one processor, nearest first.
fn cache_levels(folder: &Path, threads: usize) -> Vec<CacheLevel> {
    let read = |index: usize, file: &str| {
        let path = folder.join(format!("index{index}")).join(file);
        std::fs::read_to_string(path)
            .ok()
            .map(|text| text.trim().to_owned())
    };
    (0..8)
        .filter_map(|index| {
            if read(index, "type")? == "Instruction" {
                return None;
            }
            let size = read(index, "size")?;
            let kib: usize = size.strip_suffix('K')?.parse().ok()?;
            let shared = read(index, "shared_cpu_list").map_or(1, |list| count_listed(&list));
            Some(CacheLevel {
                name: format!("l{}", read(index, "level")?),
                bytes: kib * 1024,
                shared_by: shared.clamp(1, threads),
            })
        })
        .collect()
}

/// How many processors a list such as `0-3,8` names.
fn count_listed(list: &str) -> usize {
    list.split(',')
        .filter_map(|part| match part.split_once('-') {
            Some((first, last)) => Some(
                last.trim()
                    .parse::<usize>()
                    .ok()?
                    .checked_sub(first.trim().parse().ok()?)?
                    + 1,
            ),
            None => part.trim().parse::<usize>().ok().map(|_| 1),
        })
        .sum::<usize>()
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_lists_are_counted() {
        assert_eq!(count_listed("0-3,8"), 5);
        assert_eq!(count_listed("0"), 1);
        assert_eq!(count_listed(""), 1);
    }
}
