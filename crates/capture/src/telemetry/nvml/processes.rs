//! Who used a GPU: the worker with its descendants, or others.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use llmprof_units::Bytes;
use nvml_wrapper::{Device, enums::device::UsedGpuMemory, error::NvmlError};

use super::questions::Refused;
use crate::telemetry::procfs;

/// NVML keeps a few seconds of per-process samples; the last second of them is asked for each time.
const USAGE_WINDOW: Duration = Duration::from_secs(1);

/// How much of a GPU processes used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Usage {
    pub(super) worker_percent: Option<f64>,
    pub(super) other_percent: Option<f64>,
    pub(super) worker_memory: Option<Bytes>,
}

/// Tells the worker's processes from others.
#[derive(Debug)]
pub(super) struct Processes {
    proc: PathBuf,
}

impl Processes {
    pub(super) fn new(proc: PathBuf) -> Self {
        Self { proc }
    }

    /// Who uses `device` now. Without a worker, everybody is another.
    pub(super) fn device_usage(
        &self,
        device: &Device<'_>,
        worker: Option<u32>,
        refused: &mut Refused,
    ) -> Usage {
        let mut usage = Usage::default();
        if let Some(shares) =
            refused.ask_unless_refused("shares of processes", || process_shares(device))
        {
            let (mut ours, mut others) = (0.0, 0.0);
            for (pid, percent) in shares {
                if worker.is_some_and(|worker| self.is_part_of(pid, worker)) {
                    ours += percent;
                } else {
                    others += percent;
                }
            }
            usage.worker_percent = worker.map(|_| ours);
            usage.other_percent = Some(others);
        }
        if let Some(worker) = worker {
            let running = refused
                .ask_unless_refused("memory of processes", || device.running_compute_processes());
            usage.worker_memory = running.and_then(|all| {
                all.into_iter()
                    .filter(|process| self.is_part_of(process.pid, worker))
                    .map(|process| match process.used_gpu_memory {
                        UsedGpuMemory::Used(bytes) => Some(Bytes(bytes)),
                        UsedGpuMemory::Unavailable => None,
                    })
                    .sum()
            });
        }
        usage
    }

    /// Whether a process is the worker or descends from it.
    fn is_part_of(&self, pid: u32, worker: u32) -> bool {
        is_part_of(&self.proc, pid, worker)
    }
}

/// Percent of the last second in which each process had a kernel on the GPU.
fn process_shares(device: &Device<'_>) -> Result<BTreeMap<u32, f64>, NvmlError> {
    let since = SystemTime::now()
        .checked_sub(USAGE_WINDOW)
        .unwrap_or(UNIX_EPOCH);
    let since = since.duration_since(UNIX_EPOCH).unwrap_or_default();
    let since = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
    let samples = match device.process_utilization_stats(since) {
        // Nobody had a kernel in that time.
        Err(NvmlError::NotFound) => Vec::new(),
        samples => samples?,
    };
    let mut latest: BTreeMap<u32, (u64, f64)> = BTreeMap::new();
    // Drivers have been seen to return entries of no process, and shares beyond the whole.
    for sample in samples
        .into_iter()
        .filter(|sample| sample.pid != 0 && sample.sm_util <= 100)
    {
        let entry = latest.entry(sample.pid).or_default();
        if sample.timestamp >= entry.0 {
            *entry = (sample.timestamp, f64::from(sample.sm_util));
        }
    }
    Ok(latest
        .into_iter()
        .map(|(pid, (_, percent))| (pid, percent))
        .collect())
}

fn is_part_of(proc: &Path, pid: u32, worker: u32) -> bool {
    let mut current = pid;
    // A process may end and its number be given anew while the chain is followed: the bound ends any cycle.
    for _ in 0..64 {
        if current == worker {
            return true;
        }
        let stat = fs::read_to_string(proc.join(current.to_string()).join("stat")).ok();
        match stat.as_deref().and_then(procfs::parent_of) {
            Some(parent) if parent > 0 => current = parent,
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_followed_to_the_worker() {
        let root = tempfile::tempdir().unwrap();
        // 7 is the worker; 8 is its child, 9 its grandchild; 20 descends from 1; 30 and 31 name each other.
        for (pid, parent) in [(7, 1), (8, 7), (9, 8), (20, 1), (30, 31), (31, 30)] {
            let folder = root.path().join(pid.to_string());
            fs::create_dir(&folder).unwrap();
            fs::write(
                folder.join("stat"),
                format!("{pid} (a) b) S {parent} 1 1 0"),
            )
            .unwrap();
        }
        let part = |pid| is_part_of(root.path(), pid, 7);
        assert!(part(7) && part(8) && part(9));
        assert!(!part(20) && !part(30) && !part(99));
    }
}
