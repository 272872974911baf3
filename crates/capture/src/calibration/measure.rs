//! The processor at hand as a device: measured once, kept in the cache directory, used by `hardware.spec=auto`.

use std::path::{Path, PathBuf};

use llmprof_capture::host::Cpu;
use llmprof_engine::EngineError;
use llmprof_engine::cpu_bench::{FmaPeak, Traffic, bandwidth, fma_formats, fma_peak};
use llmprof_record::{
    issue::{Issue, Severity},
    store::write_atomically,
};
use llmprof_theory::device::{Catalog, Device};
use llmprof_units::Count;

use crate::{clock, failure::Failure};

/// Runs of each measurement, of which the best counts: a disturbed run is slower, never faster.
const RUNS: usize = 5;
/// Rounds over all formats of multiply-adds, and runs of a loop in each. A loop takes milliseconds and a processor needs longer
/// to reach its clock; and where others share its units, as in a virtual machine, half of them may be gone for seconds.
const LOOP_ROUNDS: usize = 10;
const LOOP_RUNS: usize = 15;
/// A working set that no cache here holds: machines of this class have up to 300 MB of it.
const MAIN_MEMORY: usize = 1 << 30;
/// A cache is measured with half of its size, so that its lines stay.
const PART_OF_CACHE: usize = 2;

/// How figures are taken. Goes up with every change that would give others, so that older files are measured again.
const METHOD: u32 = 5;

/// What the processor at hand is called.
pub(crate) const NAME: &str = "this_cpu";

/// Where the file is kept.
pub(crate) fn path() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("llmprof").join("cpu.yaml"))
}

/// The measured processor; `None` where it was never measured. A file that cannot be read is an error.
pub(crate) fn load(path: &Path) -> Result<Option<Device>, Failure> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(Failure::new(format!(
                "cannot read {}: {error}",
                path.display()
            )));
        }
    };
    let mut catalog = Catalog::embedded();
    let device = catalog
        .add(&path.to_string_lossy(), &text)
        .map_err(|error| {
            Failure::new(error.to_string())
                .hint("`llmprof hardware measure` writes it anew".to_owned())
        })?;
    Ok(Some(device.clone()))
}

/// Measures the processor where that was never done. A cache directory that cannot be written is no obstacle: the run goes
/// on without a device, and says so.
pub(crate) fn ensure() -> Result<(), Failure> {
    let Some(path) = path() else {
        return Ok(());
    };
    let cpu = Cpu::collect();
    if std::fs::read_to_string(&path).is_ok_and(|text| is_current(&text, &cpu)) {
        return Ok(());
    }
    Failure::new(
        "this processor is measured once, which takes some seconds; keep the machine quiet",
    )
    .warn();
    write(&path, &measure()?).or_else(|failure| {
        failure.warn();
        Ok(())
    })
}

/// Writes a device file, with the folders above it.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(|error| {
            Failure::new(format!("cannot create {}: {error}", parent.display()))
        })?;
    }
    write_atomically(path, text.as_bytes())?;
    Ok(())
}

/// How a note about a run that was faster than these limits begins.
const OUTDONE: &str = "A run was faster";

/// Notes that a run was faster than the limits in `path`, so that the next one measures again: what disturbs a virtual machine
/// from outside cannot be seen from inside.
pub(crate) fn outdone(path: &Path) -> Result<(), Failure> {
    let Ok(text) = std::fs::read_to_string(path) else {
        return Ok(());
    };
    if text.contains(OUTDONE) {
        return Ok(());
    }
    Failure::new("this run was faster than what was measured of the processor")
        .hint("the next run measures it again; keep the machine quiet".to_owned())
        .warn();
    // The notes are a list at the end of the file.
    let note = quoted(&format!("{OUTDONE} than these limits: they are too low."));
    write(path, &format!("{text}  - {note}\n"))
}

/// How a note about other programs begins.
const DISTURBED: &str = "Measured while other programs took";

/// Why the limits of a measured processor should not be trusted. What is told while they are measured is gone with the terminal,
/// but every figure of a run stands against them.
pub(crate) fn doubt(device: &Device) -> Option<Issue> {
    let note = device
        .notes
        .iter()
        .find(|note| note.starts_with(DISTURBED))?;
    let why = lowercase(note.trim_end_matches('.'));
    Some(
        Issue::new(
            Severity::Warning,
            "hardware.disturbed",
            format!("this processor was {why}; floors are too long, MFU and MBU too high"),
        )
        .with_hint("keep the machine quiet and run it again: the next run measures anew"),
    )
}

/// The processor time of other programs, as a part of our own, from which on a measurement is doubtful.
const MUCH: f64 = 0.1;

/// Processor time of all programs and of this one, in ticks of the kernel; none where it does not say.
fn ticks() -> Option<(u64, u64)> {
    let all = std::fs::read_to_string("/proc/stat").ok()?;
    let own = std::fs::read_to_string("/proc/self/stat").ok()?;
    Some((busy_ticks(&all)?, own_ticks(&own)?))
}

/// The sum of user, nice, system, irq, softirq and steal in the first line of `/proc/stat`.
fn busy_ticks(text: &str) -> Option<u64> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let values: Vec<u64> = line
        .split_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    // Idle and waiting for disks stand between them.
    let counted = values
        .iter()
        .take(8)
        .enumerate()
        .filter(|(place, _)| !matches!(place, 3 | 4));
    Some(counted.map(|(_, ticks)| ticks).sum())
}

/// User and system time in `/proc/self/stat`, after the name, which may hold anything.
fn own_ticks(text: &str) -> Option<u64> {
    let mut words = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut word = || words.next()?.parse::<u64>().ok();
    Some(word()? + word()?)
}

/// The processor time of others as a part of ours, between two readings.
fn others(before: (u64, u64), after: (u64, u64)) -> Option<f64> {
    let own = after.1.checked_sub(before.1).filter(|own| *own > 0)?;
    let all = after.0.checked_sub(before.0)?;
    Some(all.saturating_sub(own) as f64 / own as f64)
}

/// A level of the cache hierarchy, as the system describes it.
struct CacheLevel {
    name: String,
    bytes: usize,
    /// Threads that share one.
    shared_by: usize,
}

/// The line of a device file that says which processor it is of.
fn title(cpu: &Cpu) -> String {
    let model = cpu.model.as_deref().unwrap_or("unknown processor");
    format!("title: {}", quoted(model))
}

/// How a device file says that it was measured.
fn method(cpu: &Cpu) -> String {
    let threads = Count(cpu.threads.unwrap_or(1) as u64, "thread");
    format!("llmprof hardware measure, method {METHOD}, {threads}")
}

/// Whether a file was measured on this processor as we would measure it now. What was measured on a busy machine or was
/// outdone is too low, so it is measured again.
fn is_current(text: &str, cpu: &Cpu) -> bool {
    let is_low = text.contains(DISTURBED) || text.contains(OUTDONE);
    text.contains(&title(cpu)) && text.contains(&method(cpu)) && !is_low
}

/// Measures and gives the device file.
pub(crate) fn measure() -> Result<String, Failure> {
    let failed = |error: EngineError| Failure::new(format!("cannot measure: {error}"));
    let before = ticks();
    let cpu = Cpu::collect();
    let threads = cpu.threads.unwrap_or(1);
    let mut text = format!(
        "name: {NAME}\n{title}\ndriver_names: []\nvendor: unknown\nkind: cpu\nbasis: measured\nmeasured_at: {time}\n\
         sources:\n  llmprof: {method}, best of {RUNS} runs, of {loops} for arithmetic\n\
         units: {{ name: thread, value: {threads}, source: llmprof }}\npeaks:\n",
        title = title(&cpu),
        method = method(&cpu),
        time = quoted(&clock::now()),
        loops = LOOP_ROUNDS * LOOP_RUNS,
    );
    // At moments that are seconds apart, since the speed of memory that others share changes.
    let mut main = MainMemory::new(threads);
    main.measure().map_err(failed)?;
    let peaks = peaks(threads).map_err(failed)?;
    main.measure().map_err(failed)?;
    for peak in peaks {
        text += &format!(
            "  - {{ dtype: {}, engine: {}, tflops: {:.6}, not_recounted: measured, source: llmprof, at: {} }}\n",
            peak.dtype,
            peak.engine,
            peak.flops_per_second / 1e12,
            quoted(&format!(
                "register-only multiply-adds with {}",
                peak.instructions
            )),
        );
    }
    let mut notes = Vec::new();
    let mut counts: Vec<usize> = [1, threads].into();
    counts.dedup();
    for &count in &counts {
        for (name, traffic) in [("read", Traffic::Read), ("copy", Traffic::Copy)] {
            let rate = bandwidth(traffic, count, MAIN_MEMORY, RUNS).map_err(failed)?;
            notes.push(format!(
                "Main memory, {name}, {}: {:.1} GB/s.",
                Count(count as u64, "thread"),
                rate.bytes_per_second / 1e9
            ));
        }
    }
    main.measure().map_err(failed)?;
    let levels = cache_levels(Path::new("/sys/devices/system/cpu/cpu0/cache"), threads);
    let mut caches = String::new();
    for level in levels {
        // Each thread goes over its part of the caches that all threads have together.
        let copies = (threads / level.shared_by).max(1);
        let set = level.bytes * copies / PART_OF_CACHE;
        let rate = bandwidth(Traffic::Read, threads, set, RUNS).map_err(failed)?;
        caches += &format!(
            "  - {{ level: {}, scope: device, kib: {}, bandwidth_gb_s: {:.3}, source: llmprof, at: {} }}\n",
            level.name,
            level.bytes * copies / 1024,
            rate.bytes_per_second / 1e9,
            quoted(&format!("size by the system, reading {} KiB", set / 1024)),
        );
    }
    main.measure().map_err(failed)?;
    text += &format!(
        "memory:\n  bandwidth_gb_s: {{ value: {:.3}, source: llmprof, at: {} }}\n",
        main.best / 1e9,
        quoted("reading 1 GiB"),
    );
    if !caches.is_empty() {
        text += &format!("caches:\n{caches}");
    }
    let taken = before
        .zip(ticks())
        .and_then(|(before, after)| others(before, after));
    if let Some(share) = taken.filter(|share| *share > MUCH) {
        let what = format!(
            "{DISTURBED} {:.0} % as much processor time as measuring",
            share * 100.0
        );
        Failure::new(format!("{}: the limits are too low", lowercase(&what)))
            .hint("keep the machine quiet; the next run measures again".to_owned())
            .warn();
        notes.push(format!("{what}: the limits are too low."));
    }
    text += "notes:\n";
    for note in notes {
        text += &format!("  - {}\n", quoted(&note));
    }
    Ok(text)
}

/// How fast all threads read what no cache holds.
struct MainMemory {
    threads: usize,
    /// Bytes per second.
    best: f64,
}

impl MainMemory {
    fn new(threads: usize) -> Self {
        Self { threads, best: 0.0 }
    }

    fn measure(&mut self) -> Result<(), EngineError> {
        let found = bandwidth(Traffic::Read, self.threads, MAIN_MEMORY, RUNS)?;
        self.best = self.best.max(found.bytes_per_second);
        Ok(())
    }
}

/// The best of each format, all of them in turn.
fn peaks(threads: usize) -> Result<Vec<FmaPeak>, EngineError> {
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
            let shared = read(index, "shared_cpu_list").map_or(1, |list| listed(&list));
            Some(CacheLevel {
                name: format!("l{}", read(index, "level")?),
                bytes: kib * 1024,
                shared_by: shared.clamp(1, threads),
            })
        })
        .collect()
}

/// How many processors a list such as `0-3,8` names.
fn listed(list: &str) -> usize {
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

fn lowercase(sentence: &str) -> String {
    let mut letters = sentence.chars();
    let first = letters
        .next()
        .map(|letter| letter.to_lowercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

/// A YAML string in double quotes.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_other_programs_is_told_from_ours() {
        // user nice system idle iowait irq softirq steal guest
        let stat = "cpu  100 10 20 9999 500 3 4 5 70 0\ncpu0 1 1 1 1\n";
        assert_eq!(busy_ticks(stat), Some(142));
        let own = "42 (a b) c) R 1 42 42 0 -1 4194304 1 2 3 4 30 12 0 0 20 0 1 0 5";
        assert_eq!(own_ticks(own), Some(42));
        assert_eq!(others((142, 42), (292, 142)), Some(0.5));
        // The two are read one after the other: we may seem to have more than all.
        assert_eq!(others((142, 42), (240, 142)), Some(0.0));
        assert_eq!(others((142, 42), (142, 42)), None);
        assert!(ticks().is_some_and(|(all, own)| all >= own));
    }

    #[test]
    fn figures_of_another_processor_or_method_are_taken_again() {
        let cpu = Cpu::collect();
        let text = format!("{}\n{}, best of 5\n", title(&cpu), method(&cpu));
        assert!(is_current(&text, &cpu));
        assert!(!is_current(&text.replace("method", "way"), &cpu));
        assert!(!is_current(
            &text.replace("title: \"", "title: \"Another "),
            &cpu
        ));
        assert!(!is_current(&text.replace(" threads", "0 threads"), &cpu));
        assert!(!is_current(&format!("{text}{DISTURBED} 30 %"), &cpu));
        assert!(!is_current("", &cpu));
    }

    #[test]
    fn limits_that_a_run_outdid_are_measured_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cpu.yaml");
        // There is nothing to outdo.
        outdone(&path).unwrap();
        assert!(!path.exists());
        let cpu = Cpu::collect();
        let text = format!(
            "name: this_cpu\n{}\ndriver_names: []\nvendor: unknown\nkind: cpu\nbasis: measured\n\
             measured_at: \"2026-01-01T00:00:00Z\"\nsources:\n  llmprof: {}\n\
             units: {{ name: thread, value: 2, source: llmprof }}\n\
             peaks:\n  - {{ dtype: f32, engine: vector, tflops: 0.3, not_recounted: measured, source: llmprof, at: loop }}\n\
             memory:\n  bandwidth_gb_s: {{ value: 20.0, source: llmprof, at: reading }}\n\
             notes:\n  - \"Main memory, read, 1 threads: 10.0 GB/s.\"\n",
            title(&cpu),
            method(&cpu)
        );
        write(&path, &text).unwrap();
        assert!(is_current(&text, &cpu));
        outdone(&path).unwrap();
        outdone(&path).unwrap();
        let noted = std::fs::read_to_string(&path).unwrap();
        assert_eq!(noted.matches(OUTDONE).count(), 1);
        assert!(!is_current(&noted, &cpu));
        let device = load(&path).unwrap().unwrap();
        assert!(device.notes.iter().any(|note| note.starts_with(OUTDONE)));
        // A run that was disturbed while it measured says so in its report.
        assert_eq!(doubt(&device), None);
        let note = format!("  - \"{DISTURBED} 48 % as much as we: the limits are too low.\"\n");
        write(&path, &(text + &note)).unwrap();
        let issue = doubt(&load(&path).unwrap().unwrap()).unwrap();
        assert_eq!(
            issue.message,
            "this processor was measured while other programs took 48 % as much as we: the limits are too low; floors are too \
             long, MFU and MBU too high"
        );
    }

    #[test]
    fn processor_lists_are_counted() {
        assert_eq!(listed("0-3,8"), 5);
        assert_eq!(listed("0"), 1);
        assert_eq!(listed(""), 1);
    }
}
