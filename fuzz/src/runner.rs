//! Feeds damaged copies of seeds to readers, all in one process: a few microseconds each.

use std::env;
use std::error::Error;
use std::fs;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::memory;
use crate::seeds::Seeds;

/// An input that takes longer is a hang.
const SLOW: Duration = Duration::from_secs(10);
/// Inputs that are kept of one target.
const MOST_KEPT: u64 = 20;

/// More memory than that is not from the size of the input.
fn most_memory(input: &[u8]) -> usize {
    (64 << 20) + 200 * input.len()
}

/// What the last panic said.
static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

/// Bytes, and whether something could be read.
type Read = Box<dyn Fn(&[u8]) -> bool>;

pub struct FuzzTarget {
    pub name: &'static str,
    pub seeds: Seeds,
    pub read: Read,
}

/// What came of a target.
#[derive(Default)]
struct TargetTally {
    read: u64,
    panics: u64,
    slow: u64,
    large: u64,
    most_bytes: usize,
}

/// `COUNT [NAME…]`: each target, or each that is named, gets COUNT inputs.
pub fn main(targets: Vec<FuzzTarget>) -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let count: u64 = arguments.next().as_deref().unwrap_or("10000").parse()?;
    let first: u64 = env::var("LLMPROF_FUZZ_FIRST").map_or(Ok(0), |text| text.parse())?;
    let chosen: Vec<String> = arguments.collect();
    if let Some(unknown) = chosen
        .iter()
        .find(|name| !targets.iter().any(|target| target.name == **name))
    {
        return Err(format!("no target {unknown}").into());
    }
    std::panic::set_hook(Box::new(|panic| {
        if let Ok(mut last) = LAST_PANIC.lock() {
            *last = panic.to_string();
        }
    }));
    let watched = InputWatch::start();
    let mut failed = false;
    for target in targets {
        if !chosen.is_empty() && !chosen.iter().any(|name| name == target.name) {
            continue;
        }
        watched.set(&target);
        let began = Instant::now();
        let tally = run(&target, first..first + count, &watched)?;
        failed |= tally.panics + tally.slow + tally.large > 0;
        println!(
            "{}: {count} inputs from {first}, {} read in part, {} panics, {} slow, {} large, at most {} KiB, {:.0} s",
            target.name,
            tally.read,
            tally.panics,
            tally.slow,
            tally.large,
            tally.most_bytes >> 10,
            began.elapsed().as_secs_f64()
        );
        std::io::stdout().flush()?;
    }
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn run(
    target: &FuzzTarget,
    numbers: std::ops::Range<u64>,
    watched: &InputWatch,
) -> Result<TargetTally, Box<dyn Error>> {
    let mut tally = TargetTally::default();
    for number in numbers {
        let input = target.seeds.damaged(number);
        watched.begin(number);
        let start = Instant::now();
        let (outcome, bytes) =
            memory::peak_of(|| catch_unwind(AssertUnwindSafe(|| (target.read)(&input))));
        let is_slow = start.elapsed() > SLOW;
        let is_large = bytes > most_memory(&input);
        tally.slow += u64::from(is_slow);
        tally.large += u64::from(is_large);
        tally.panics += u64::from(outcome.is_err());
        tally.most_bytes = tally.most_bytes.max(bytes);
        let failures = tally.panics + tally.slow + tally.large;
        if (outcome.is_err() || is_slow || is_large) && failures <= MOST_KEPT {
            keep_input(target.name, number, &input)?;
        }
        tally.read += u64::from(outcome.unwrap_or(false));
    }
    Ok(tally)
}

fn keep_input(name: &str, number: u64, input: &[u8]) -> Result<(), std::io::Error> {
    let path: PathBuf = env::temp_dir().join(format!("fuzz_{name}_{number}"));
    fs::write(&path, input)?;
    let said = LAST_PANIC.lock().map(|mut said| std::mem::take(&mut *said));
    eprintln!(
        "{name}: input {number} fails: {} {}",
        path.display(),
        said.unwrap_or_default().replace('\n', " ")
    );
    Ok(())
}

/// A target's name and seeds.
type Named = (&'static str, Seeds);

/// Ends the process where an input takes without end.
struct InputWatch {
    number: Arc<AtomicU64>,
    target: Arc<Mutex<Named>>,
}

impl InputWatch {
    fn start() -> Self {
        let watched = Self {
            number: Arc::new(AtomicU64::new(u64::MAX)),
            target: Arc::default(),
        };
        let (number, target) = (watched.number.clone(), watched.target.clone());
        thread::spawn(move || {
            let mut last = (u64::MAX, Instant::now());
            loop {
                thread::sleep(Duration::from_secs(1));
                let now = number.load(Ordering::Relaxed);
                if now != last.0 {
                    last = (now, Instant::now());
                } else if now != u64::MAX && last.1.elapsed() > 6 * SLOW {
                    let (name, seeds) = &*target.lock().expect("nobody panics with it");
                    let _ = keep_input(name, now, &seeds.damaged(now));
                    std::process::exit(1);
                }
            }
        });
        watched
    }

    fn set(&self, target: &FuzzTarget) {
        *self.target.lock().expect("nobody panics with it") = (target.name, target.seeds.clone());
    }

    fn begin(&self, number: u64) {
        self.number.store(number, Ordering::Relaxed);
    }
}
