//! Measures import and analysis of Kineto traces together.
//!
//! Replicates `fixtures/h200/torch_shapes.json.gz` with shifted times and ids to 275 MB (or takes the file given), reads and
//! analyzes it in a process of its own three times, and prints MB/s, the peak of anonymous memory and the ratio to Python's
//! `json.load` and, where it is installed, orjson on the same file in the same run; with `--packed` also the ratio to the same trace as
//! gzip, and how long unpacking alone takes; with `--one-line` the same events on one line. Of an export of nsys (SQLite) or a recording of
//! llmprof it prints rows a second, of SQLite beside a plain `SELECT` of its kernels, calls and ranges. Seconds of processors are those of
//! all threads, and depend less on what else the machine does.
//!
//!     cargo run --release -p xtask -- bench analyze [--large] [--packed] [--one-line] [--no-python] [FILE]
//!
//! `LLMPROF_PYTHON` is the Python to compare with, else `python3`.

use std::env;
use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use flate2::{Compression, read::MultiGzDecoder, write::GzEncoder};
use llmprof_analysis::analyze;
use llmprof_record::import::{self, Limits, Profile};
use llmprof_record::run::{RecordedTrace, RunRecord};

use super::process_figures::{MemoryPeak, numbers_of_child, processor_seconds};

pub(super) fn run_bench(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    match arguments {
        ["--child", file] => return run_child(Path::new(file)),
        ["--unpack", file] => return unpack_trace(Path::new(file)),
        _ => {}
    }
    let has = |flag: &str| arguments.contains(&flag);
    let folder = tempfile::tempdir()?;
    let given = arguments
        .iter()
        .find(|argument| !argument.starts_with("--"));
    let path = if let Some(file) = given {
        PathBuf::from(file)
    } else {
        let path = folder.path().join("trace.json");
        let bytes = if has("--large") {
            3_000_000_000
        } else {
            275_000_000
        };
        replicate_trace(&path, bytes)?;
        path
    };
    let path = if has("--one-line") {
        let one_line = folder.path().join("one_line.json");
        fs::write(&one_line, on_one_line(&fs::read_to_string(&path)?))?;
        one_line
    } else {
        path
    };
    let bytes = fs::metadata(&path)?.len() as f64;
    println!(
        "{:.1} MB, {} threads",
        bytes / 1e6,
        rayon::current_num_threads()
    );
    let best = best_of_three(&path, bytes)?;
    if has("--packed") {
        let packed = folder.path().join("trace.json.gz");
        pack_trace(&path, &packed)?;
        let length = fs::metadata(&packed)?.len() as f64;
        println!("the same as gzip, {:.1} MB", length / 1e6);
        let gzip = best_of_three(&packed, bytes)?;
        println!(
            "  {:.2} × the plain file, {:.2} × its processor time",
            gzip.wall / best.wall,
            gzip.processors / best.processors
        );
        let unpacking = (0..3)
            .map(|_| {
                Ok(
                    numbers_of_child(&["analyze".as_ref(), "--unpack".as_ref(), packed.as_ref()])?
                        [0],
                )
            })
            .collect::<Result<Vec<f64>, Box<dyn Error>>>()?;
        let unpacking = unpacking.into_iter().fold(f64::INFINITY, f64::min);
        println!(
            "  unpacking alone, by flate2's reader: {unpacking:.3} s ({:.0} MB/s)",
            bytes / 1e6 / unpacking
        );
    }
    if !has("--no-python") {
        for (what, script) in list_readers(&path) {
            match python_seconds(script, &path) {
                Some(seconds) => println!(
                    "  {what} {seconds:.2} s; import and analysis are {:.1} × as fast",
                    seconds / best.wall
                ),
                None => println!("  {what}: not installed, or it cannot read the file"),
            }
        }
    }
    Ok(())
}

/// Seconds of import and analysis: on the clock, and of all processors.
struct Seconds {
    wall: f64,
    processors: f64,
}

/// Three times: the least seconds. `bytes` is of the JSON.
fn best_of_three(path: &Path, bytes: f64) -> Result<Seconds, Box<dyn Error>> {
    let mut best = Seconds {
        wall: f64::INFINITY,
        processors: f64::INFINITY,
    };
    for _ in 0..3 {
        let numbers = numbers_of_child(&["analyze".as_ref(), "--child".as_ref(), path.as_ref()])?;
        let &[
            import,
            analysis,
            anonymous,
            kernels,
            steps,
            processors,
            serial,
            rows,
        ] = &numbers[..]
        else {
            return Err("a child printed something else".into());
        };
        let seconds = import + analysis;
        println!(
            "  import {import:.3} s ({:.2} M rows/s) + analyze {analysis:.3} s = {seconds:.3} s ({processors:.2} s of processors, {:.0} % of them in the main thread)  {:.0} MB/s  peak RssAnon {:.0} MB ({:.3} × file)  {kernels} kernels, {steps} steps",
            rows / 1e6 / import,
            100.0 * serial / processors,
            bytes / 1e6 / seconds,
            anonymous / 1e6,
            anonymous / bytes
        );
        best.wall = best.wall.min(seconds);
        best.processors = best.processors.min(processors);
    }
    Ok(best)
}

/// Unpacks a file and keeps nothing of it; prints the seconds of the processor.
fn unpack_trace(path: &Path) -> Result<(), Box<dyn Error>> {
    let packed = fs::read(path)?;
    let before = processor_seconds();
    let mut reader = MultiGzDecoder::new(&packed[..]);
    let mut buffer = vec![0; 1 << 17];
    while reader.read(&mut buffer)? > 0 {}
    println!("{}", processor_seconds() - before);
    Ok(())
}

fn pack_trace(from: &Path, to: &Path) -> Result<(), Box<dyn Error>> {
    let mut packer = GzEncoder::new(BufWriter::new(File::create(to)?), Compression::default());
    std::io::copy(&mut File::open(from)?, &mut packer)?;
    packer.finish()?.flush()?;
    Ok(())
}

/// Imports and analyzes one file; prints seconds of both, peak anonymous bytes, kernels, steps, seconds of processors, those of the
/// main thread, and rows.
fn run_child(path: &Path) -> Result<(), Box<dyn Error>> {
    let peak = MemoryPeak::watch();
    let began = Instant::now();
    let (_, Profile::Trace(trace)) = import::import(path, &Limits::default())? else {
        return Err("not a timeline".into());
    };
    let record = RunRecord {
        traces: vec![RecordedTrace {
            pass: None,
            trace: *trace,
        }],
        ..RunRecord::default()
    };
    let imported = began.elapsed().as_secs_f64();
    let rows = record.trace().map_or(0, llmprof_record::trace::Trace::rows);
    let analysis = analyze(&record, None)?.timeline;
    let analysis = analysis.ok_or("a trace has a timeline")?;
    let analyzed = began.elapsed().as_secs_f64() - imported;
    let anonymous = peak.bytes()?;
    let steps: u64 = analysis.phases.iter().map(|phase| phase.instances).sum();
    println!(
        "{imported} {analyzed} {anonymous} {} {steps} {} {} {rows}",
        analysis.totals.kernels,
        processor_seconds(),
        thread_seconds()
    );
    Ok(())
}

/// Time that the calling thread has run, seconds. What runs in a pool of threads while it waits is not in it, so that of the main
/// thread is what is not divided among processors.
fn thread_seconds() -> f64 {
    let line = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = line.split_whitespace().next();
    nanoseconds.map_or(0.0, |field| field.parse().unwrap_or(0.0) / 1e9)
}

const JSON_LOAD: &str = "import json,sys,time\nt=time.perf_counter()\njson.load(open(sys.argv[1],'rb'))\nprint(time.perf_counter()-t)";
const ORJSON: &str = "import orjson,sys,time\nt=time.perf_counter()\norjson.loads(open(sys.argv[1],'rb').read())\nprint(time.perf_counter()-t)";
const SELECT: &str = "import sqlite3,sys,time\nc=sqlite3.connect(sys.argv[1])\nhas={r[0] for r in c.execute('select name from sqlite_master')}\nt=time.perf_counter()\nfor n in ('CUPTI_ACTIVITY_KIND_KERNEL','CUPTI_ACTIVITY_KIND_RUNTIME','NVTX_EVENTS'):\n  if n in has: list(c.execute('select * from '+n))\nprint(time.perf_counter()-t)";

/// What else reads such a file, by its beginning.
fn list_readers(path: &Path) -> Vec<(&'static str, &'static str)> {
    let mut head = [0; 16];
    let is_read = File::open(path)
        .and_then(|mut file| file.read_exact(&mut head))
        .is_ok();
    match &head {
        b"SQLite format 3\0" => vec![("python sqlite3 SELECT", SELECT)],
        [b'{' | b'[' | b' ' | b'\n', ..] if is_read => {
            vec![
                ("python json.load", JSON_LOAD),
                ("python orjson.loads", ORJSON),
            ]
        }
        _ => Vec::new(),
    }
}

/// The same JSON without line breaks and indentation. Strings of these traces have neither.
fn on_one_line(text: &str) -> String {
    text.lines().map(str::trim_start).collect()
}

fn python_seconds(script: &str, path: &Path) -> Option<f64> {
    let python = env::var_os("LLMPROF_PYTHON").unwrap_or_else(|| "python3".into());
    let output = Command::new(python)
        .arg("-c")
        .arg(script)
        .arg(path)
        .output()
        .ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

/// Keys whose numbers grow with every copy, and by how much: a copy lasts half a second and has fewer ids than that.
const SHIFTED: [(&str, i64); 5] = [
    ("\"ts\": ", 500_000_000),
    ("\"External id\": ", 100_000),
    ("\"correlation\": ", 100_000),
    ("\"id\": ", 100_000),
    ("\"Ev Idx\": ", 100_000),
];

/// Writes copies of the fixture's events until the file has `bytes`.
fn replicate_trace(path: &Path, bytes: u64) -> Result<(), Box<dyn Error>> {
    let fixture =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/h200/torch_shapes.json.gz");
    let mut text = String::new();
    MultiGzDecoder::new(File::open(fixture)?).read_to_string(&mut text)?;
    let list = "\"traceEvents\": [";
    let begin = text.find(list).ok_or("no events")? + list.len();
    let end = text.rfind("\n  ],").ok_or("no end of events")?;
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    out.write_all(&text.as_bytes()[..begin])?;
    let mut written = begin as u64;
    for copy in 0.. {
        if copy > 0 {
            out.write_all(b",")?;
        }
        for line in text[begin..end].split_inclusive('\n') {
            // A new event begins here: stop between two, once there is enough.
            if line.starts_with("  {") && written > bytes {
                out.write_all(b"  {\"ph\": \"M\", \"name\": \"end\"}")?;
                out.write_all(&text.as_bytes()[end..])?;
                out.flush()?;
                return Ok(());
            }
            written += shift_times(line, copy, &mut out)?;
        }
    }
    Ok(())
}

/// Writes one line with its numbers shifted; several keys may stand on it.
fn shift_times(line: &str, copy: i64, out: &mut impl Write) -> Result<u64, Box<dyn Error>> {
    let mut rest = line;
    let mut written = 0;
    while let Some((at, key, step)) = SHIFTED
        .iter()
        .filter_map(|&(key, step)| Some((rest.find(key)?, key, step)))
        .min_by_key(|&(at, ..)| at)
    {
        let (before, number) = rest.split_at(at + key.len());
        let digits = number
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(number.len());
        let (number, after) = number.split_at(digits);
        let is_time = number.contains('.');
        let value = number.replace('.', "").parse::<i64>()? + step * copy;
        let shifted = if is_time {
            format!("{}.{:03}", value / 1000, value % 1000)
        } else {
            value.to_string()
        };
        out.write_all(before.as_bytes())?;
        out.write_all(shifted.as_bytes())?;
        written += (before.len() + shifted.len()) as u64;
        rest = after;
    }
    out.write_all(rest.as_bytes())?;
    Ok(written + rest.len() as u64)
}
