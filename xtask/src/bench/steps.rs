//! Measures how long it takes to find steps by the pattern of launches, against reading the same trace from its file and
//! against its whole analysis, of which it is a part.
//!
//! Makes a trace of 1,000,000 launches (steps of 24 layers of 41 kernels, one in ten with a kernel more, a prefill before
//! every 64), saves it, loads it, finds the steps and analyzes it, five times, and prints the medians and their ratios; then
//! the same for a million launches without any order.
//!
//!     cargo run --release -p xtask -- bench steps

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use llmprof_analysis::analyze;
use llmprof_analysis::steps::step_patterns;
use llmprof_record::run::{RecordedTrace, RunRecord};
use llmprof_record::trace::{Host, HostKind, Kernel, Trace, TraceBuilder};
use llmprof_units::stats::median;

const LAUNCHES: usize = 1_000_000;
const REPEATS: usize = 5;

pub(super) fn run_bench() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    for (name, symbols) in [("steps", steps()), ("no order", random())] {
        let path = folder.path().join("trace.llmprof");
        build(&symbols).save(&path)?;
        let (mut loads, mut finds, mut wholes) = (Vec::new(), Vec::new(), Vec::new());
        let mut patterns = None;
        for _ in 0..REPEATS {
            let started = Instant::now();
            let trace = Trace::load(&path)?;
            loads.push(started.elapsed().as_secs_f64());
            let started = Instant::now();
            patterns = black_box(step_patterns(&trace));
            finds.push(started.elapsed().as_secs_f64());
            let record = RunRecord {
                traces: vec![RecordedTrace { pass: None, trace }],
                ..RunRecord::default()
            };
            let started = Instant::now();
            black_box(analyze(&record, None)?);
            wholes.push(started.elapsed().as_secs_f64());
        }
        let [load, find, whole] =
            [loads, finds, wholes].map(|mut times| median(&mut times).unwrap_or(f64::NAN));
        println!(
            "{name}: {LAUNCHES} launches, load {load:.3} s, find {find:.3} s, analyze {whole:.3} s: find is {:.1} × load, {:.2} × \
             analyze",
            find / load,
            find / whole
        );
        for pattern in patterns.iter().flat_map(|patterns| &patterns.patterns) {
            println!("  {}: {} steps", pattern.name, pattern.steps);
        }
    }
    Ok(())
}

/// Numbers of kernels: embedding 0, layers 1 to 41, head 42 to 50, noise 51; of a prefill 60 more.
fn steps() -> Vec<u32> {
    let mut symbols = Vec::with_capacity(LAUNCHES);
    let mut step = 0;
    while symbols.len() < LAUNCHES {
        let shift = if step % 64 == 0 { 60 } else { 0 };
        symbols.push(shift);
        for _ in 0..24 {
            symbols.extend((1..=41).map(|kernel| kernel + shift));
        }
        if step % 10 == 3 {
            symbols.push(51);
        }
        symbols.extend(42..=50);
        step += 1;
    }
    symbols.truncate(LAUNCHES);
    symbols
}

fn random() -> Vec<u32> {
    let mut state = 1_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u32 % 40
    };
    (0..LAUNCHES).map(|_| next()).collect()
}

fn build(symbols: &[u32]) -> Trace {
    let mut builder = TraceBuilder::default();
    let thread = builder.thread(1, 1);
    let call = builder.intern("cudaLaunchKernel");
    let names: Vec<_> = (0..=120)
        .map(|number| builder.intern(&format!("kernel_{number}")))
        .collect();
    for (place, &symbol) in symbols.iter().enumerate() {
        let (start, correlation) = (place as i64 * 10_000, place as u32 + 1);
        builder.hosts.push(Host {
            start,
            duration: 4_000,
            name: call,
            thread,
            kind: HostKind::RUNTIME,
            correlation,
            ..Host::default()
        });
        builder.kernels.push(Kernel {
            start: start + 6_000,
            duration: 2_000,
            name: names[symbol as usize],
            correlation,
            ..Kernel::default()
        });
    }
    builder.finish()
}
