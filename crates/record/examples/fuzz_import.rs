//! Feeds damaged files to the importers until a time is up; the seeds are real profiles.
//!
//!     cargo run --release -p llmprof-record --example fuzz_import -- SECONDS [FILE…]
//!
//! Without files, each text importer gets its fixtures for SECONDS. Each case changes, repeats, moves or cuts bytes of
//! a seed. A panic, or a case that takes longer than ten seconds, writes the input to the temporary folder and ends
//! with exit code 1. The random numbers are the same in every run of one length.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that prints its result"
)]

use std::env;
use std::error::Error;
use std::fs::{self, File};
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use flate2::read::MultiGzDecoder;
use llmprof_record::import::{self, Limits, Source};

/// How much of a fixture a seed has: small enough for thousands of cases a second.
const SEED_BYTES: usize = 48 << 10;
/// A case that takes longer is a hang.
const SLOW: Duration = Duration::from_secs(10);
const FIXTURES: [&str; 6] = [
    "h200/torch_shapes.json.gz",
    "h200/torch_full.json.gz",
    "h200/ncu/decode_raw.csv.gz",
    "h200/ncu/decode_details.csv.gz",
    "h200/nsys/stats_cuda_gpu_kern_sum.csv",
    "h200/nsys/stats_nvtx_kern_sum.csv",
];

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let seconds: u64 = arguments.next().as_deref().unwrap_or("60").parse()?;
    let mut files: Vec<PathBuf> = arguments.map(PathBuf::from).collect();
    if files.is_empty() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
        files.extend(FIXTURES.iter().map(|name| fixtures.join(name)));
    }
    for file in files {
        let seed = seed(&file)?;
        let name = import::sniff(&seed).map_or("unknown", |importer| importer.name);
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        let (mut cases, mut read) = (0_u64, 0_u64);
        let end = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < end {
            let input = damaged(&seed, &mut random);
            let began = Instant::now();
            let outcome = catch_unwind(AssertUnwindSafe(|| attempt(&input)));
            if outcome.is_err() || began.elapsed() > SLOW {
                let path = env::temp_dir().join(format!("fuzz_{name}_{cases}"));
                fs::write(&path, &input)?;
                eprintln!(
                    "{name}: case {cases} fails; its input is {}",
                    path.display()
                );
                return Ok(ExitCode::FAILURE);
            }
            cases += 1;
            read += u64::from(outcome.unwrap_or(false));
        }
        println!(
            "{}: {name}, {cases} cases, {read} read in part, no failure",
            file.display()
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether anything could be read.
fn attempt(input: &[u8]) -> bool {
    let Ok(source) = Source::from_bytes(Path::new("input"), input.to_vec(), &Limits::default())
    else {
        return false;
    };
    import::sniff(source.head()).is_some_and(|importer| (importer.read)(&source).is_ok())
}

/// The beginning and the end of a file, unpacked.
fn seed(path: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut content = Vec::new();
    File::open(path)?.read_to_end(&mut content)?;
    if content.starts_with(&[0x1f, 0x8b]) {
        let mut unpacked = Vec::new();
        MultiGzDecoder::new(&content[..]).read_to_end(&mut unpacked)?;
        content = unpacked;
    }
    if content.len() > SEED_BYTES {
        let tail = content.split_off(content.len() - SEED_BYTES / 4);
        content.truncate(SEED_BYTES * 3 / 4);
        content.extend_from_slice(&tail);
    }
    Ok(content)
}

fn damaged(seed: &[u8], random: &mut Random) -> Vec<u8> {
    const INTERESTING: [&[u8]; 12] = [
        b"\"",
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b"\n",
        b"-1",
        b"NaN",
        b"99999999999999999999",
        b"\xff\xfe",
    ];
    let mut content = seed.to_vec();
    for _ in 0..=random.below(12) {
        if content.is_empty() {
            break;
        }
        let at = random.below(content.len());
        let length = random.below(64).min(content.len() - at);
        match random.below(7) {
            0 => content[at] ^= 1 << random.below(8),
            1 => {
                content.drain(at..at + length);
            }
            2 => {
                let copy = content[at..at + length].to_vec();
                let to = random.below(content.len());
                content.splice(to..to, copy);
            }
            3 => {
                let word = INTERESTING[random.below(INTERESTING.len())];
                content.splice(at..at, word.iter().copied());
            }
            4 => {
                let word = INTERESTING[random.below(INTERESTING.len())];
                content.splice(at..at + length, word.iter().copied());
            }
            5 if random.below(4) == 0 => content.truncate(at),
            _ => content[at] = random.below(256) as u8,
        }
    }
    content
}

/// Numbers that look random (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}
