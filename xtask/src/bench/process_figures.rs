//! What a process takes of the machine, by `/proc`: of a part of this program that runs in a process of its own, so that nothing else counts.

use std::env;
use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Time of all threads of this process, in user and kernel mode, seconds: the 14th and 15th field of its line, in hundredths.
pub(super) fn processor_seconds() -> f64 {
    let line = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = line.rsplit(')').next().unwrap_or_default();
    let fields = after_name.split_whitespace().skip(11).take(2);
    let hundredths: f64 = fields.filter_map(|field| field.parse::<f64>().ok()).sum();
    hundredths / 100.0
}

/// The numbers that `xtask bench WORDS…` prints, in a process of its own.
pub(super) fn numbers_of_child(words: &[&OsStr]) -> Result<Vec<f64>, Box<dyn Error>> {
    let output = Command::new(env::current_exe()?)
        .arg("bench")
        .args(words)
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let line = String::from_utf8(output.stdout)?;
    let numbers = line.split_whitespace().map(str::parse);
    Ok(numbers.collect::<Result<_, _>>()?)
}

fn anonymous_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kibibytes| kibibytes * 1024)
}

/// The peak of anonymous memory since it began to watch.
pub(super) struct MemoryPeak {
    is_done: Arc<AtomicBool>,
    peak: Arc<AtomicU64>,
    watcher: JoinHandle<()>,
}

impl MemoryPeak {
    pub(super) fn watch() -> Self {
        let is_done = Arc::new(AtomicBool::new(false));
        let peak = Arc::new(AtomicU64::new(0));
        let (done, most) = (is_done.clone(), peak.clone());
        let watcher = thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                most.fetch_max(anonymous_bytes(), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(5));
            }
        });
        Self {
            is_done,
            peak,
            watcher,
        }
    }

    pub(super) fn bytes(self) -> Result<u64, &'static str> {
        self.peak.fetch_max(anonymous_bytes(), Ordering::Relaxed);
        self.is_done.store(true, Ordering::Relaxed);
        self.watcher.join().map_err(|_| "the watcher failed")?;
        Ok(self.peak.load(Ordering::Relaxed))
    }
}
