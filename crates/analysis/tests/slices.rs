//! What slices say of the whole, against a capture of the whole on the same machine.

use crate::record;

use std::path::Path;

use llmprof_analysis::assumption::Assumption;
use llmprof_analysis::trace::scaled::{Estimate, scale_slices};
use llmprof_analysis::{PhaseAnalysis, analyze};
use llmprof_record::import::{self, Limits, Profile};
use llmprof_record::run::RunPhase;
use llmprof_record::trace::{
    Host, HostKind, Kernel, Range, RangeKind, Ranges, Trace, TraceBuilder,
};

use self::record::record;

/// A process of the same program, recorded whole minutes later, of which these sums were kept: 160 decode steps of 1006
/// kernels, 2070.189 µs of kernels a step. Other recordings of this model are within 1 % of that (`h200.rs`).
const STEPS: f64 = 160.0;
const KERNELS_A_STEP: f64 = 1006.0;
const KERNEL_TIME_A_STEP_NS: f64 = 2_070_189.0;
/// Of the 160 steps in the slices' own process, those that no slice touches, nor their neighbours, and their median.
const PLAIN_STEPS: u64 = 88;
const PLAIN_STEP_NS: i64 = 41_285_152;

fn slices() -> Trace {
    fixture("slices")
}

fn fixture(name: &str) -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../../fixtures/h200/cupti/{name}.wire.gz"));
    let (_, profile) = import::import(&path, &Limits::default()).expect("the fixture");
    let Profile::Trace(trace) = profile else {
        panic!("a timeline");
    };
    *trace
}

fn holds(estimate: Estimate, value: f64) -> bool {
    estimate.low <= value && value <= estimate.high
}

#[test]
fn the_interval_of_slices_holds_what_a_whole_capture_gives() {
    let scaled = scale_slices(&slices()).unwrap();
    assert_eq!(scaled.step.as_deref(), Some("decode_step"));
    assert_eq!((scaled.units, scaled.sampled), (160, 25));
    assert_eq!(scaled.kernels.value, STEPS * KERNELS_A_STEP);
    let whole = STEPS * KERNEL_TIME_A_STEP_NS;
    let found = scaled.kernel_time_ns;
    assert!(
        found.low <= whole && whole <= found.high,
        "{found:?} and {whole}"
    );
    // And it says something: the interval is narrower than one part in a hundred.
    assert!(found.high - found.low < 0.01 * found.value, "{found:?}");
    assert_eq!(scaled.by_kernel.len(), 20);
    assert_eq!(scaled.pattern, None);
    let share = scaled.recorded_ns.0 as f64 / scaled.whole_ns.0 as f64;
    assert!((0.1..0.6).contains(&share), "{share}");
}

/// Of the phases of such a run steps that were recorded whole are judged, and why the device was idle in them is known.
#[test]
fn whole_steps_are_judged_and_what_lies_between_slices_is_not_idle() {
    let analysis = analyze(&record(&slices(), None), None).unwrap();
    let decode = analysis.phase(RunPhase::Decode).unwrap();
    let traced = decode.traced.as_ref().unwrap();
    let part = traced.recorded.unwrap();
    let judged = traced.step_ns.len() as u64;
    assert!((24..=25).contains(&judged), "one may be first use");
    assert_eq!((part.steps, part.of_steps), (Some(judged), Some(160)));
    assert_eq!(part.time_ns, decode.waterfall.wall_ns);
    assert_eq!(part.time_ns, traced.step_ns.iter().copied().sum());
    assert!(part.of_ns.0 > 5 * part.time_ns.0);
    let causes = &decode.waterfall.idle;
    assert_eq!(causes[0].name, "host_busy");
    assert!(causes.iter().all(|cause| cause.name != "unrecorded"));
    let timeline = analysis.timeline.unwrap();
    assert_eq!(timeline.scaled, scale_slices(&slices()));
}

/// The constants were counted with Python from the wire file (docs/wire-format.md).
#[test]
fn steps_between_slices_show_what_recording_costs() {
    let analysis = analyze(&record(&slices(), None), None).unwrap();
    let decode = analysis.phase(RunPhase::Decode).unwrap();
    let found = decode.traced.as_ref().unwrap().between_slices.unwrap();
    assert_eq!(found.plain, PLAIN_STEPS);
    assert_eq!(found.plain_ns.0, PLAIN_STEP_NS);
    let ratio = decode.capture_ratio.unwrap();
    assert!((ratio - found.ratio()).abs() < 1e-6, "{ratio}");
    // The class and the share of idle time rest on the same wall time.
    let wall = decode.judged_wall().0 as f64;
    assert!((wall * ratio / decode.waterfall.wall_ns.0 as f64 - 1.0).abs() < 1e-6);
    // The whole phase is all of its range, of which the sample is a part.
    let part = decode.traced.as_ref().unwrap().recorded.unwrap();
    assert_eq!(decode.whole_wall(), part.of_ns);
    let is_told = |one: &Assumption| matches!(one, Assumption::BetweenSlices { .. });
    assert!(analysis.assumptions.iter().any(is_told));
    // Where nothing shows steps between slices, nothing is taken off.
    let prefills = analyze(&record(&fixture("streams_slices"), None), None).unwrap();
    assert!(
        prefills
            .phases
            .iter()
            .all(|one| one.capture_ratio.is_none())
    );
}

/// The same slices without the ranges: the pattern of launches shows the steps.
#[test]
fn without_ranges_the_pattern_gives_what_a_step_holds() {
    let mut trace = slices();
    let mut kept = Ranges::default();
    for range in trace.ranges.rows() {
        if range.kind == RangeKind::CAPTURE {
            kept.push(range);
        }
    }
    trace.ranges = kept;
    let scaled = scale_slices(&trace).unwrap();
    assert_eq!((scaled.step.as_deref(), scaled.sampled), (None, 25));
    let steps = scaled.pattern.unwrap();
    assert_eq!(steps.usual_kernels, 1006);
    assert_eq!(steps.kernels.value, KERNELS_A_STEP);
    let time = steps.kernel_time_ns;
    assert!(holds(time, KERNEL_TIME_A_STEP_NS), "{time:?}");
    assert!(time.high - time.low < 0.01 * time.value, "{time:?}");
    assert!(holds(steps.steps, STEPS), "{:?}", steps.steps);
    assert!(holds(scaled.kernels, STEPS * KERNELS_A_STEP));
}

/// The device is the limit: while CUPTI comes back it catches up with the host, which then launches three steps in the time
/// of 2.2. 202 prefills in all, a few of them after the last slice; another process of the same program, recorded whole, has
/// 1093 kernels and 240.1 ms of kernels a prefill.
#[test]
fn a_host_that_catches_up_in_slices_does_not_count_for_more_steps() {
    let scaled = scale_slices(&fixture("prefill_slices")).unwrap();
    let steps = scaled.pattern.unwrap();
    assert_eq!(steps.kernels.value, 1093.0);
    assert!(
        holds(steps.kernel_time_ns, 240.1e6),
        "{:?}",
        steps.kernel_time_ns
    );
    for all in [197.0, 202.0] {
        assert!(holds(steps.steps, all), "{:?}", steps.steps);
    }
    assert!(
        steps.steps.high - steps.steps.low < 50.0,
        "{:?}",
        steps.steps
    );
}

/// 214 prefills of 1093 kernels, and a thread that launches its own meanwhile. Slices of 100 ms hold parts of prefills of
/// 119 ms, which the edges of slices cut: they are no forward pass of another kind.
#[test]
fn slices_that_are_shorter_than_steps_count_their_parts() {
    let trace = fixture("streams_slices");
    let scaled = scale_slices(&trace).unwrap();
    let steps = scaled.pattern.unwrap();
    assert_eq!(steps.kernels.value, 1093.0);
    for all in [208.0, 214.0] {
        assert!(holds(steps.steps, all), "{:?}", steps.steps);
    }
    let analysis = analyze(&record(&trace, None), None).unwrap();
    let names: Vec<&str> = analysis.phases.iter().map(PhaseAnalysis::name).collect();
    assert_eq!(names, ["repetition"]);
    for pattern in analysis.timeline.unwrap().steps.unwrap().patterns {
        // None reaches from one slice into the next.
        assert!(pattern.wall_ns.max < 600e6, "{pattern:?}");
    }
}

/// Numbers that follow from a seed.
struct Numbers(u64);

impl Numbers {
    fn of(seed: u64) -> Self {
        let mut numbers = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            numbers.uniform();
        }
        numbers
    }

    /// Between 0 and 1 (Marsaglia's xorshift64, times an odd constant).
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// With mean 0 and deviation 1: twelve uniform ones, less six.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// A program of which slices see the launches that are made in them.
struct Sliced {
    builder: TraceBuilder,
    slices: Vec<(i64, i64)>,
    correlation: u32,
}

impl Sliced {
    fn new(slices: Vec<(i64, i64)>) -> Self {
        Self {
            builder: TraceBuilder::default(),
            slices,
            correlation: 0,
        }
    }

    fn launch(&mut self, at: i64, kernel: i64, (start, duration): (i64, i64)) {
        let mut slices = self.slices.iter();
        if !slices.any(|&(from, to)| (from..to).contains(&at)) {
            return;
        }
        let thread = self.builder.thread(1, 1);
        let name = self.builder.intern(&format!("kernel_{kernel}"));
        self.correlation += 1;
        self.builder.hosts.push(Host {
            start: at,
            duration: 4_000,
            thread,
            kind: HostKind::RUNTIME,
            correlation: self.correlation,
            ..Host::default()
        });
        self.builder.kernels.push(Kernel {
            start,
            duration,
            name,
            correlation: self.correlation,
            ..Kernel::default()
        });
    }

    fn finish(self) -> Trace {
        let mut builder = self.builder;
        let name = builder.intern("slice");
        for (start, end) in self.slices {
            builder.ranges.push(Range {
                start,
                duration: end - start,
                name,
                kind: RangeKind::CAPTURE,
                ..Range::default()
            });
        }
        let metadata = &mut builder.metadata;
        metadata.insert("slices".to_owned(), "true".to_owned());
        builder.finish()
    }
}

/// What a made program did.
struct Truth {
    steps: f64,
    kernel_time_ns: f64,
    kernel_time_a_step_ns: f64,
}

/// Steps of 20 ms, give or take, whose pace wanders, of which slices of 100 ms record about a fifth.
fn recorded(seed: u64) -> (Trace, Truth) {
    const KERNELS: i64 = 12;
    const MS: f64 = 1e6;
    let mut numbers = Numbers::of(seed);
    let mut slices: Vec<(i64, i64)> = Vec::new();
    let mut at = 200.0 * MS * numbers.uniform();
    while slices.len() < 24 {
        slices.push((at as i64, (at + 100.0 * MS) as i64));
        at += (300.0 + 400.0 * numbers.uniform()) * MS;
    }
    let (first, last) = (slices[0].0, slices[slices.len() - 1].1);
    let mut program = Sliced::new(slices);
    let (mut steps, mut whole, mut time) = (0.0, 0_u32, 0.0);
    let mut whole_time = 0.0;
    let (mut at, mut pace) = (-50.0 * MS, 20.0 * MS);
    while at < last as f64 + 50.0 * MS {
        pace = 20.0 * MS + 0.9 * (pace - 20.0 * MS) + 0.4 * MS * numbers.normal();
        let wall = pace + 2.0 * MS * numbers.normal().max(-4.0);
        let work = 2.0 * MS + 0.02 * MS * numbers.normal();
        whole += 1;
        whole_time += work;
        for kernel in 0..KERNELS {
            // Between steps the host takes longer.
            let start = (at + 0.9 * wall * kernel as f64 / KERNELS as f64) as i64;
            if (first..last).contains(&start) {
                steps += 1.0 / KERNELS as f64;
                time += work / KERNELS as f64;
            }
            let duration = (work / KERNELS as f64) as i64;
            program.launch(start, kernel, (start + 5_000, duration));
        }
        at += wall;
    }
    let truth = Truth {
        steps,
        kernel_time_ns: time,
        kernel_time_a_step_ns: whole_time / f64::from(whole),
    };
    (program.finish(), truth)
}

/// Of many programs, about 95 in 100 have what they did inside the interval: at least as many less three deviations of a
/// count of 400 with that chance, 3 √(0.95 × 0.05 ÷ 400); and not nearly all, as they would in an interval that is far too
/// wide. Of 3000, 97 in 100 had their steps and their kernel time inside, 95 what a step holds.
#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    const RUNS: u64 = 400;
    let (mut steps, mut total, mut a_step) = (0, 0, 0);
    for seed in 1..=RUNS {
        let (trace, truth) = recorded(seed);
        let scaled = scale_slices(&trace).unwrap();
        let pattern = scaled.pattern.as_ref().unwrap();
        steps += u32::from(holds(pattern.steps, truth.steps));
        total += u32::from(holds(scaled.kernel_time_ns, truth.kernel_time_ns));
        a_step += u32::from(holds(pattern.kernel_time_ns, truth.kernel_time_a_step_ns));
    }
    for (what, held) in [("steps", steps), ("total", total), ("a step", a_step)] {
        let share = f64::from(held) / RUNS as f64;
        assert!((0.917..=0.99).contains(&share), "{what}: {share}");
    }
}

/// Every half second the host launches eight steps at once, which the device works off in 400 ms while the host waits; slices
/// begin anywhere, since CUPTI stays. How many steps the estimate has for each there are.
fn of_bursts(seed: u64) -> Option<f64> {
    const MS: i64 = 1_000_000;
    const KERNELS: i64 = 12;
    let mut numbers = Numbers::of(seed);
    let mut slices = Vec::new();
    let mut at = 0;
    while slices.len() < 40 {
        slices.push((at, at + 120 * MS));
        at += 300 * MS + (800.0 * numbers.uniform()) as i64 * MS;
    }
    let end = slices[slices.len() - 1].1;
    let mut program = Sliced::new(slices);
    let mut steps = 0.0;
    for burst in 0..end / (500 * MS) {
        for step in 0..8 {
            steps += 1.0;
            for kernel in 0..KERNELS {
                // 96 launches in 48 ms, and 4 ms of device time each.
                let number = step * KERNELS + kernel;
                let begin = burst * 500 * MS;
                let start = begin + 10_000 + number * 4 * MS;
                program.launch(begin + number * MS / 2, kernel, (start, 4 * MS));
            }
        }
    }
    let found = scale_slices(&program.finish())?.pattern?.steps.value;
    Some(found / steps)
}

/// Over many programs the mean is what there is; a correction for pauses that there were not would make it a third of that.
#[test]
fn bursts_of_launches_do_not_count_for_less() {
    let found: Vec<f64> = (1..=60).filter_map(of_bursts).collect();
    assert!(found.len() >= 50, "{}", found.len());
    let mean = found.iter().sum::<f64>() / found.len() as f64;
    assert!((0.9..1.1).contains(&mean), "{mean}");
}
