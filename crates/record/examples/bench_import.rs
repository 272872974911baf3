//! Measures the import of Kineto traces.
//!
//! Replicates `fixtures/h200/torch_shapes.json.gz` with shifted times and ids to 275 MB (and with `--large` to 3 GB) in
//! a temporary folder, imports each in a process of its own, and prints MB/s, the peak of anonymous memory and the
//! ratio to Python's `json.load` on the same file in the same run.
//!
//!     cargo run --release -p llmprof-record --example bench_import -- [--large] [--no-python] [--keep FILE]

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that prints its result"
)]

use std::env;
use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flate2::read::MultiGzDecoder;
use llmprof_record::import::{self, Limits, Profile};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [flag, file] = &arguments[..]
        && flag == "--child"
    {
        return child(Path::new(file));
    }
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let folder = tempfile::tempdir()?;
    let mut sizes = vec![("275 MB", 275_000_000_u64)];
    if has("--large") {
        sizes.push(("3 GB", 3_000_000_000));
    }
    for (label, bytes) in sizes {
        let keep = arguments.iter().position(|argument| argument == "--keep");
        let path = keep
            .and_then(|at| arguments.get(at + 1))
            .map_or_else(|| folder.path().join("trace.json"), PathBuf::from);
        let written = replicate(&path, bytes)?;
        let megabytes = written as f64 / 1e6;
        println!(
            "{label}: {megabytes:.1} MB, {} threads",
            rayon::current_num_threads()
        );
        let mut best = f64::INFINITY;
        for _ in 0..3 {
            let output = Command::new(env::current_exe()?)
                .arg("--child")
                .arg(&path)
                .output()?;
            if !output.status.success() {
                return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
            }
            let line = String::from_utf8(output.stdout)?;
            let mut parts = line.split_whitespace();
            let seconds: f64 = parts.next().ok_or("no time")?.parse()?;
            let anonymous: f64 = parts.next().ok_or("no memory")?.parse()?;
            println!(
                "  import {seconds:.3} s  {:.0} MB/s  peak RssAnon {:.0} MB ({:.3} × file)  {}",
                megabytes / seconds,
                anonymous / 1e6,
                anonymous / written as f64,
                parts.collect::<Vec<_>>().join(" ")
            );
            best = best.min(seconds);
        }
        if label == "275 MB" && !has("--no-python") {
            match python_seconds(&path) {
                Some(seconds) => println!(
                    "  python json.load {seconds:.2} s  {:.0} MB/s  import is {:.1} × as fast",
                    megabytes / seconds,
                    seconds / best
                ),
                None => println!("  python3 was not found"),
            }
        }
        if keep.is_none() {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Imports one file and prints seconds, peak anonymous bytes and what was read. The hook for what follows an import.
fn child(path: &Path) -> Result<(), Box<dyn Error>> {
    let peak = PeakAnonymous::watch();
    let began = Instant::now();
    let (format, profile) = import::import(path, &Limits::default())?;
    let seconds = began.elapsed().as_secs_f64();
    let anonymous = peak.stop();
    let Profile::Trace(trace) = profile else {
        return Err("not a trace".into());
    };
    println!(
        "{seconds} {anonymous} {format}: {} events, {} rows, {} kernels, {} strings, {} issues",
        trace.events_read,
        trace.rows(),
        trace.kernels.len(),
        trace.strings.len(),
        trace.issues.len()
    );
    Ok(())
}

/// The largest RssAnon of this process while it is watched.
struct PeakAnonymous {
    stop: Arc<AtomicBool>,
    peak: Arc<AtomicU64>,
    watcher: thread::JoinHandle<()>,
}

impl PeakAnonymous {
    fn watch() -> Self {
        let (stop, peak) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let watcher = thread::spawn({
            let (stop, peak) = (Arc::clone(&stop), Arc::clone(&peak));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    peak.fetch_max(anonymous_bytes(), Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(2));
                }
            }
        });
        Self {
            stop,
            peak,
            watcher,
        }
    }

    fn stop(self) -> u64 {
        self.peak.fetch_max(anonymous_bytes(), Ordering::Relaxed);
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.watcher.join();
        self.peak.load(Ordering::Relaxed)
    }
}

fn anonymous_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kibibytes| kibibytes * 1024)
}

fn python_seconds(path: &Path) -> Option<f64> {
    let script = "import json,sys,time\nt=time.perf_counter()\njson.load(open(sys.argv[1],'rb'))\nprint(time.perf_counter()-t)";
    let output = Command::new("python3")
        .arg("-c")
        .arg(script)
        .arg(path)
        .output()
        .ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

/// The fixture's text, cut where a number has to differ between copies.
enum Fragment {
    Text(Vec<u8>),
    /// A number that grows by this much a copy; with thousandths where it is a time.
    Shifted {
        value: i64,
        step: i64,
        time: bool,
    },
}

/// Writes copies of the fixture to `path` until it has `bytes`; the last copy ends after a whole event.
fn replicate(path: &Path, bytes: u64) -> Result<u64, Box<dyn Error>> {
    let fixture =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/h200/torch_shapes.json.gz");
    let mut text = Vec::new();
    MultiGzDecoder::new(File::open(fixture)?).read_to_end(&mut text)?;
    let list = b"\"traceEvents\": [";
    let begin = memchr::memmem::find(&text, list).ok_or("no events")? + list.len();
    let end = memchr::memmem::rfind(&text, b"\n  ],").ok_or("no end of events")?;
    let fragments = fragments(&text[begin..end])?;

    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    out.write_all(&text[..begin])?;
    let mut written = begin as u64;
    let mut line = Vec::new();
    'copies: for copy in 0.. {
        if copy > 0 {
            out.write_all(b",")?;
            written += 1;
        }
        for fragment in &fragments {
            line.clear();
            match fragment {
                Fragment::Text(text) => line.extend_from_slice(text),
                Fragment::Shifted { value, step, time } => {
                    let value = value + step * copy;
                    if *time {
                        write!(line, "{}.{:03}", value / 1000, value % 1000)?;
                    } else {
                        write!(line, "{value}")?;
                    }
                }
            }
            if written > bytes
                && let Some(cut) = memchr::memmem::find(&line, b"\n  },")
            {
                out.write_all(&line[..cut + 4])?;
                written += cut as u64 + 4;
                break 'copies;
            }
            out.write_all(&line)?;
            written += line.len() as u64;
        }
    }
    out.write_all(&text[end..])?;
    out.flush()?;
    Ok(written + (text.len() - end) as u64)
}

fn fragments(text: &[u8]) -> Result<Vec<Fragment>, Box<dyn Error>> {
    // The fixture covers 436 ms and its ids stay below these steps, so copies do not overlap.
    const SHIFTED: [(&[u8], i64, bool); 5] = [
        (b"\"ts\": ", 500_000_000, true),
        (b"\"External id\": ", 100_000, false),
        (b"\"correlation\": ", 100_000, false),
        (b"\"id\": ", 100_000, false),
        (b"\"Ev Idx\": ", 100_000, false),
    ];
    let mut fragments = Vec::new();
    let mut done = 0;
    let mut at = 0;
    while let Some(quote) = memchr::memchr(b'"', &text[at..]) {
        at += quote;
        let Some((key, step, time)) = SHIFTED.iter().find(|(key, ..)| text[at..].starts_with(key))
        else {
            at += 1;
            continue;
        };
        at += key.len();
        let length = text[at..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit() || **byte == b'.')
            .count();
        let number = str::from_utf8(&text[at..at + length])?;
        let value: i64 = if *time {
            number.replace('.', "").parse()?
        } else {
            number.parse()?
        };
        fragments.push(Fragment::Text(text[done..at].to_vec()));
        fragments.push(Fragment::Shifted {
            value,
            step: *step,
            time: *time,
        });
        at += length;
        done = at;
    }
    fragments.push(Fragment::Text(text[done..].to_vec()));
    Ok(fragments)
}
