//! What the export says of devices and tools. Everything passes by name; the rest of these tables, such as hosts,
//! users and environments, is not asked for.

use llmprof_units::{Bytes, Nanos};
use std::collections::{BTreeMap, BTreeSet};

use super::database::Database;
use super::{Reading, process_of};
use crate::issue::{Issue, IssueCode, Severity};
use crate::trace::DeviceProperties;

/// How device numbers of events become numbers of this trace. Processes that each see one GPU as number 0 would
/// otherwise share it.
pub(super) struct DeviceNumbers {
    /// GPU by (process, CUDA device), where numbers of processes clash.
    physical: BTreeMap<(i64, i64), u32>,
}

impl DeviceNumbers {
    pub(super) fn scan_devices(database: &mut Database) -> Self {
        let mut physical = BTreeMap::new();
        let mut gpus: BTreeMap<i64, BTreeSet<u32>> = BTreeMap::new();
        database.scan(
            "TARGET_INFO_CUDA_DEVICE",
            &["gpuId", "cudaId", "pid"],
            3,
            |cells| {
                let (gpu, cuda, process) = (cells.int()?, cells.int()?, cells.int()?);
                let gpu = u32::try_from(gpu).ok()?;
                physical.insert((process, cuda), gpu);
                gpus.entry(cuda).or_default().insert(gpu);
                Some(())
            },
        );
        if gpus.values().all(|gpus| gpus.len() == 1) {
            physical.clear();
        } else {
            let issue = Issue::info(IssueCode::NsysDevicesRenumbered);
            database.lose(issue, "devices", 1);
        }
        Self { physical }
    }

    pub(super) fn number(&self, global: Option<i64>, device: i64) -> Option<u32> {
        let process = global.map(process_of);
        let renumbered = process.and_then(|process| self.physical.get(&(process, device)).copied());
        renumbered.or_else(|| u32::try_from(device).ok())
    }

    fn is_physical(&self) -> bool {
        !self.physical.is_empty()
    }
}

pub(super) fn read(database: &mut Database, reading: &mut Reading) {
    read_devices(database, reading);
    read_versions(database, reading);
    read_clock(database, reading);
    read_diagnostics(database, reading);
}

fn read_devices(database: &mut Database, reading: &mut Reading) {
    // The CUDA number of each GPU, which is what events carry while processes agree on it.
    let mut cuda: BTreeMap<i64, i64> = BTreeMap::new();
    if !reading.devices.is_physical() {
        database.scan(
            "TARGET_INFO_CUDA_DEVICE",
            &["gpuId", "cudaId"],
            2,
            |cells| {
                cuda.insert(cells.int()?, cells.int()?);
                Some(())
            },
        );
    }
    let columns = [
        "id",
        "name",
        "totalMemory",
        "computeMajor",
        "computeMinor",
        "smCount",
        "threadsPerWarp",
        "maxThreadsPerBlock",
        "maxWarpsPerSm",
        "maxBlocksPerSm",
        "maxRegistersPerSm",
        "maxRegistersPerBlock",
        "maxShmemPerSm",
        "maxShmemPerBlock",
        "maxShmemPerBlockOptin",
        "l2CacheSize",
        "clockRate",
        "memoryBandwidth",
    ];
    let devices = &mut reading.builder.devices;
    database.scan("TARGET_INFO_GPU", &columns, 2, |cells| {
        let gpu = cells.int()?;
        let name = cells.text()?;
        let mut large = || {
            cells
                .int()
                .and_then(|number| u64::try_from(number).ok())
                .filter(|number| *number > 0)
        };
        let memory_bytes = large();
        let major = large();
        // A minor version of 0 is a version.
        let minor = cells.small();
        let mut small = || {
            cells
                .int()
                .and_then(|number| u32::try_from(number).ok())
                .filter(|number| *number > 0)
        };
        let (sm_count, warp_size, max_threads_per_block) = (small(), small(), small());
        let (warps, max_blocks_per_sm) = (small(), small());
        let (registers_per_sm, registers_per_block) = (small(), small());
        let mut large = || {
            cells
                .int()
                .and_then(|number| u64::try_from(number).ok())
                .filter(|number| *number > 0)
        };
        devices.push(DeviceProperties {
            id: u32::try_from(*cuda.get(&gpu).unwrap_or(&gpu)).ok()?,
            name,
            memory_bytes: memory_bytes.map(Bytes),
            compute_capability: major.map(|major| (major as u32, minor)),
            sm_count,
            warp_size,
            max_threads_per_block,
            max_threads_per_sm: warps
                .zip(warp_size)
                .map(|(warps, threads)| warps.saturating_mul(threads)),
            max_blocks_per_sm,
            registers_per_sm,
            registers_per_block,
            shared_per_sm_bytes: large().map(Bytes),
            shared_per_block_bytes: large().map(Bytes),
            shared_per_block_optin_bytes: large().map(Bytes),
            l2_bytes: large().map(Bytes),
            clock_hz: large(),
            memory_bandwidth_bytes_per_s: large(),
            ..DeviceProperties::default()
        });
        Some(())
    });
}

fn read_versions(database: &mut Database, reading: &mut Reading) {
    // Names in the export, and names here. Nothing else of these tables is read.
    const ALLOWED: &[(&str, &str)] = &[
        ("EXPORT_PRODUCT_VERSION", "nsys_version"),
        ("EXPORT_SCHEMA_VERSION", "nsys_schema_version"),
        (
            "PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE",
            "cuda_graph_trace",
        ),
        ("NvDriverVersion", "driver_version"),
        ("CudaDriverVersion", "cuda_driver_version"),
    ];
    let metadata = &mut reading.builder.metadata;
    for table in [
        "META_DATA_EXPORT",
        "META_DATA_CAPTURE",
        "TARGET_INFO_SYSTEM_ENV",
    ] {
        database.scan(table, &["name", "value"], 2, |cells| {
            let name = cells.text()?;
            if let Some((_, ours)) = ALLOWED.iter().find(|(theirs, _)| *theirs == name)
                && let Some(value) = cells.text()
            {
                metadata.insert((*ours).to_owned(), value);
            }
            Some(())
        });
    }
}

fn read_clock(database: &mut Database, reading: &mut Reading) {
    let origin = &mut reading.builder.clock_origin_ns;
    database.scan(
        "TARGET_INFO_SESSION_START_TIME",
        &["utcEpochNs"],
        1,
        |cells| {
            *origin = cells.int().map(Nanos);
            Some(())
        },
    );
}

/// Warnings and errors that the tool recorded about its own capture. Messages that differ in numbers only are one issue that shows
/// the first.
fn read_diagnostics(database: &mut Database, reading: &mut Reading) {
    let labels = database.labels("ENUM_DIAGNOSTIC_SEVERITY_LEVEL");
    let mut said: Vec<(Severity, String, String, u64)> = Vec::new();
    database.scan("DIAGNOSTIC_EVENT", &["severity", "text"], 2, |cells| {
        let severity = cells.int()?;
        let label = labels.get(&severity).map_or("", String::as_str);
        let severity = match label {
            "Warning" => Severity::Warning,
            "Error" | "Fatal" => Severity::Error,
            _ => return Some(()),
        };
        let text = cells.text()?;
        // A path may name a user.
        let text = if text.contains(" /") || text.starts_with('/') || text.contains(":\\") {
            "a message with a path in it".to_owned()
        } else {
            text
        };
        let shape: String = text.chars().filter(|c| !c.is_ascii_digit()).collect();
        let known = said
            .iter_mut()
            .find(|(level, _, known, _)| (*level, known) == (severity, &shape));
        match known {
            Some((_, _, _, count)) => *count += 1,
            None => said.push((severity, text, shape, 1)),
        }
        Some(())
    });
    for (severity, text, _, count) in said {
        let issue = Issue::coded(severity, IssueCode::NsysSaid).with("text", text);
        reading.builder.issues.push(issue.counting(count));
    }
}
