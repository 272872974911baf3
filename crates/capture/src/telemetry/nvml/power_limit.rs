//! A power limit that lasts as long as a run.
//!
//! The limit of before comes back when the run ends, however it ends: by its own end, an error or Ctrl-C through [`PowerLimit`], by
//! `kill -9` through a guard, a process of its own that waits until we are gone.

use std::{
    io::{Read as _, Write as _},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
};

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_units::Watts;
use nvml_wrapper::{Nvml, error::NvmlError};

use super::library;

/// The first argument of a guard; `GPU=MILLIWATTS=MILLIWATTS` follow, the limit to restore and the one that was set.
pub const RESTORE: &str = "restore-power-limit";

/// What tells a guard that there is nothing to restore.
const DONE: &[u8] = b"done\n";

/// The limit of one GPU before and now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChangedLimit {
    gpu: u32,
    before_mw: u32,
    limit_mw: u32,
}

/// Power limits that were set. Dropped, it restores them.
#[derive(Debug)]
pub struct PowerLimit {
    changed: Vec<ChangedLimit>,
    library: Option<PathBuf>,
    guard: Option<(Child, Option<ChildStdin>)>,
}

impl PowerLimit {
    /// Sets the limit of the GPUs that CUDA gives these numbers. Issues say what was set and what was refused; there is nothing to
    /// restore where nothing was set. `program` is started as the guard, with [`RESTORE`] as its first argument.
    pub fn set_limit(
        devices: &[u32],
        limit: Watts,
        library: Option<&PathBuf>,
        program: Option<&PathBuf>,
    ) -> (Option<Self>, Vec<Issue>) {
        let limit_mw = (limit.0 * 1e3).round() as u32;
        let refused = |gpu: u32, reason: String| {
            Issue::warning(IssueCode::PowerLimitRefused)
                .with("gpu", gpu)
                .with("limit_w", to_watts(limit_mw))
                .with("reason", reason)
        };
        let nvml = match library::load_nvml(library) {
            Ok(nvml) => nvml,
            Err(error) => return (None, vec![refused(0, error.to_string())]),
        };
        let (mut changed, mut issues) = (Vec::new(), Vec::new());
        for &device in devices {
            match nvml_index(&nvml, device).and_then(|gpu| set_one(&nvml, gpu, limit_mw)) {
                Ok(one) => {
                    issues.push(
                        Issue::info(IssueCode::PowerLimitSet)
                            .with("gpu", one.gpu)
                            .with("limit_w", to_watts(limit_mw))
                            .with("before_w", to_watts(one.before_mw)),
                    );
                    changed.push(one);
                }
                Err(reason) => issues.push(refused(device, reason)),
            }
        }
        if changed.is_empty() {
            return (None, issues);
        }
        let set = Self {
            guard: program.and_then(|program| start_guard(program, &changed)),
            changed,
            library: library.cloned(),
        };
        (Some(set), issues)
    }

    /// Brings back the limits of before; an issue for each that could not be.
    pub fn restore_limits(mut self) -> Vec<Issue> {
        self.put_back()
    }

    fn put_back(&mut self) -> Vec<Issue> {
        let changed = std::mem::take(&mut self.changed);
        let issues = restore_changed(&changed, self.library.as_ref());
        // Whatever could not be restored, a guard could not restore either.
        if let Some((mut child, pipe)) = self.guard.take() {
            if let Some(mut pipe) = pipe {
                // A guard that somebody ended needs no word.
                let _ = pipe.write_all(DONE);
            }
            let _ = child.wait();
        }
        issues
    }
}

impl Drop for PowerLimit {
    fn drop(&mut self) {
        self.put_back();
    }
}

/// What a guard does: waits until whoever started it has said that all is restored, or is gone, and restores it then.
pub fn stand_guard(words: &[String]) -> Result<(), String> {
    let changed: Option<Vec<ChangedLimit>> = words.iter().map(|word| parse_changed(word)).collect();
    let changed = changed.ok_or_else(|| format!("{RESTORE} takes GPU=MILLIWATTS=MILLIWATTS"))?;
    let mut said = Vec::new();
    // A pipe that breaks ends like one that is closed.
    let _ = std::io::stdin().read_to_end(&mut said);
    if said != DONE {
        restore_changed(&changed, None);
    }
    Ok(())
}

fn parse_changed(word: &str) -> Option<ChangedLimit> {
    let mut numbers = word.split('=').map(|number| number.parse::<u32>().ok());
    let changed = ChangedLimit {
        gpu: numbers.next()??,
        before_mw: numbers.next()??,
        limit_mw: numbers.next()??,
    };
    numbers.next().is_none().then_some(changed)
}

/// Starts the guard in a process group of its own: what is sent to ours does not end it.
fn start_guard(program: &Path, changed: &[ChangedLimit]) -> Option<(Child, Option<ChildStdin>)> {
    let words = changed
        .iter()
        .map(|one| format!("{}={}={}", one.gpu, one.before_mw, one.limit_mw));
    let mut child = Command::new(program)
        .arg(RESTORE)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .ok()?;
    let pipe = child.stdin.take();
    Some((child, pipe))
}

fn set_one(nvml: &Nvml, gpu: u32, limit_mw: u32) -> Result<ChangedLimit, String> {
    let said = |error: NvmlError| error_words(&error);
    let mut device = nvml.device_by_index(gpu).map_err(said)?;
    let before_mw = device.power_management_limit().map_err(said)?;
    let range = device.power_management_limit_constraints().ok();
    if let Some(range) =
        range.filter(|range| !(range.min_limit..=range.max_limit).contains(&limit_mw))
    {
        let (low, high) = (to_watts(range.min_limit), to_watts(range.max_limit));
        return Err(format!("it takes {low} to {high} W"));
    }
    device.set_power_management_limit(limit_mw).map_err(said)?;
    Ok(ChangedLimit {
        gpu,
        before_mw,
        limit_mw,
    })
}

fn restore_changed(changed: &[ChangedLimit], library: Option<&PathBuf>) -> Vec<Issue> {
    if changed.is_empty() {
        return Vec::new();
    }
    let nvml = library::load_nvml(library).map_err(|error| error.to_string());
    let put_back = |one: &ChangedLimit| -> Result<(), String> {
        let nvml = nvml.as_ref().map_err(Clone::clone)?;
        let mut device = nvml
            .device_by_index(one.gpu)
            .map_err(|error| error_words(&error))?;
        // Somebody else's limit is left alone.
        if device.power_management_limit().ok() != Some(one.limit_mw) {
            return Ok(());
        }
        device
            .set_power_management_limit(one.before_mw)
            .map_err(|error| error_words(&error))
    };
    let failed = |one: &ChangedLimit| {
        let reason = put_back(one).err()?;
        Some(
            Issue::error(IssueCode::PowerLimitKept)
                .with("gpu", one.gpu)
                .with("limit_w", to_watts(one.limit_mw))
                .with("before_w", to_watts(one.before_mw))
                .with("reason", reason),
        )
    };
    changed.iter().filter_map(failed).collect()
}

/// The number that the driver gives the GPU which CUDA calls `device`. CUDA counts what `CUDA_VISIBLE_DEVICES` lets it see, in that
/// order, and puts the fastest first where GPUs differ; the driver counts by the PCI bus.
fn nvml_index(nvml: &Nvml, device: u32) -> Result<u32, String> {
    let count = nvml.device_count().unwrap_or(0);
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
    let position = usize::try_from(device).unwrap_or(usize::MAX);
    let entry = match visible.trim() {
        "" => device.to_string(),
        list => {
            let entry = list.split(',').nth(position).map(str::trim);
            entry
                .ok_or_else(|| format!("CUDA_VISIBLE_DEVICES={list} has no GPU {device}"))?
                .to_owned()
        }
    };
    let Ok(number) = entry.parse::<u32>() else {
        let is_it = |index: &u32| {
            let uuid = nvml
                .device_by_index(*index)
                .and_then(|device| device.uuid());
            uuid.is_ok_and(|uuid| uuid.starts_with(&entry))
        };
        let index = (0..count).find(is_it);
        return index.ok_or_else(|| format!("the driver knows no GPU `{entry}`"));
    };
    if number >= count {
        return Err(format!("the driver knows {count} GPUs"));
    }
    let by_bus = std::env::var("CUDA_DEVICE_ORDER").is_ok_and(|order| order == "PCI_BUS_ID");
    let name = |index| {
        nvml.device_by_index(index)
            .and_then(|device| device.name())
            .ok()
    };
    if by_bus || (1..count).all(|index| name(index) == name(0)) {
        return Ok(number);
    }
    Err(
        "the GPUs of this machine differ, and CUDA counts them in an order of its own; CUDA_DEVICE_ORDER=PCI_BUS_ID makes it the driver's"
            .to_owned(),
    )
}

fn error_words(error: &NvmlError) -> String {
    match error {
        NvmlError::NoPermission => "the driver permits it to root alone".to_owned(),
        NvmlError::NotSupported => "this GPU has no limit that can be set".to_owned(),
        other => other.to_string(),
    }
}

fn to_watts(milliwatts: u32) -> f64 {
    f64::from(milliwatts) / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_reads_what_it_is_told() {
        let changed = ChangedLimit {
            gpu: 1,
            before_mw: 700_000,
            limit_mw: 400_000,
        };
        assert_eq!(parse_changed("1=700000=400000"), Some(changed));
        for wrong in ["", "1=2", "1=2=3=4", "a=2=3", "1=2=-3"] {
            assert_eq!(parse_changed(wrong), None, "{wrong}");
        }
        assert!(stand_guard(&["1".to_owned()]).is_err());
    }
}
