//! Recordings of whole processes without operators: a start, a warm-up, and ranges in the layouts that programs have.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use llmprof_analysis::findings::Conclusion;
use llmprof_analysis::phases::PhaseSource;
use llmprof_analysis::{Analysis, analyze};
use llmprof_record::trace::{
    FrameId, Host, HostKind, HostSample, Kernel, Range, RangeKind, StackFrame, TraceBuilder,
};

use crate::record::record;

const US: i64 = 1_000;
const MS: i64 = 1_000_000;

/// A process whose main thread launches passes of a model.
struct Process {
    builder: TraceBuilder,
    clock: i64,
    device_end: i64,
    correlation: u32,
    /// Thread of ranges from here on.
    range_thread: i64,
}

impl Process {
    /// Takes memory and loads code for a second.
    fn start() -> Self {
        let mut process = Self {
            builder: TraceBuilder::default(),
            clock: 0,
            device_end: 0,
            correlation: 0,
            range_thread: 1,
        };
        for number in 0..20 {
            process.call(["cudaMalloc", "cuModuleLoadData"][number % 2], 10 * MS, 0);
            process.clock += 40 * MS;
        }
        process
    }

    fn call(&mut self, name: &str, duration: i64, correlation: u32) {
        let host = Host {
            start: self.clock,
            duration,
            name: self.builder.intern(name),
            thread: self.builder.thread(1, 1),
            kind: HostKind::RUNTIME,
            correlation,
            ..Host::default()
        };
        self.builder.hosts.push(host);
        self.clock += duration;
    }

    fn launch(&mut self, kernel: &str, duration: i64) {
        self.correlation += 1;
        let start = (self.clock + 6 * US).max(self.device_end);
        let kernel = Kernel {
            start,
            duration,
            name: self.builder.intern(kernel),
            stream: 7,
            correlation: self.correlation,
            grid: [264, 1, 1],
            block: [128, 1, 1],
            ..Kernel::default()
        };
        self.builder.kernels.push(kernel);
        self.device_end = start + duration;
        self.call("cudaLaunchKernel", 4 * US, self.correlation);
        self.clock += 4 * US;
    }

    /// Launches of `nodes` kernels that do not run, and the graph that they become. The call that begins a capture is not recorded.
    fn capture(&mut self, nodes: usize) {
        for _ in 0..nodes {
            self.correlation += 1;
            self.call("cudaLaunchKernel", 4 * US, self.correlation);
            self.clock += 20 * US;
        }
        self.call("cudaStreamEndCapture", 20 * US, 0);
        self.call("cudaGraphInstantiate", 500 * US, 0);
    }

    /// Code of the program, sampled each millisecond in a library that it calls.
    fn code(&mut self, milliseconds: i64) {
        let frame = |builder: &mut TraceBuilder, parent, file: &str, function: &str, line| {
            let frame = StackFrame {
                parent,
                function: builder.intern(function),
                file: builder.intern(file),
                line,
            };
            builder.frame(frame)
        };
        let caller = frame(
            &mut self.builder,
            FrameId::NONE,
            "/srv/serve.py",
            "detokenize",
            12,
        );
        let library = "/venv/lib/python3.12/site-packages/fast/text.py";
        let stack = frame(&mut self.builder, caller, library, "join", 99);
        for _ in 0..milliseconds {
            let sample = HostSample {
                time: self.clock + MS / 2,
                period: MS,
                thread: self.builder.thread(1, 1),
                stack,
                ..HostSample::default()
            };
            self.builder.host_samples.push(sample);
            self.clock += MS;
        }
    }

    fn synchronize(&mut self) {
        let wait = (self.device_end - self.clock).max(0) + 2 * US;
        self.call("cudaDeviceSynchronize", wait, 0);
    }

    /// A pass over `layers` of a model, which the host waits for.
    fn pass(&mut self, layers: usize) {
        for _ in 0..layers {
            self.launch("vectorized_layer_norm_kernel", 5 * US);
            self.launch("nvjet_tst_128x64_gemm", 40 * US);
            self.launch("flash_fwd_kernel", 20 * US);
        }
        self.launch("argmax_kernel", 5 * US);
        self.synchronize();
    }

    /// A pass that waits after each layer.
    fn waiting_pass(&mut self, layers: usize) {
        for _ in 0..layers {
            self.launch("nvjet_tst_128x64_gemm", 40 * US);
            self.synchronize();
            self.clock += 60 * US;
        }
        self.synchronize();
    }

    fn range(&mut self, name: &str, draw: impl FnOnce(&mut Self)) {
        let (start, thread) = (self.clock, self.range_thread);
        draw(self);
        let range = Range {
            start,
            duration: self.clock - start,
            name: self.builder.intern(name),
            thread: self.builder.thread(1, thread),
            kind: RangeKind::NVTX,
            ..Range::default()
        };
        self.builder.ranges.push(range);
        self.clock += 20 * US;
    }

    fn analyze(self) -> Analysis {
        analyze(&record(&self.builder.finish(), None), None).unwrap()
    }

    /// Name and intervals of each phase.
    fn phases(self) -> Vec<(String, u64)> {
        let analysis = self.analyze();
        let timeline = analysis.timeline.unwrap();
        assert_eq!(timeline.phase_source, PhaseSource::Annotation);
        let rows = timeline.phases.into_iter();
        rows.map(|row| (row.name, row.instances)).collect()
    }
}

fn named(phases: &[(&str, u64)]) -> Vec<(String, u64)> {
    let phases = phases.iter();
    phases
        .map(|&(name, count)| (name.to_owned(), count))
        .collect()
}

#[test]
fn ranges_after_a_long_warm_up_are_phases() {
    let mut process = Process::start();
    for _ in 0..12 {
        process.pass(20);
    }
    for _ in 0..3 {
        process.range("embed", |process| process.pass(20));
    }
    assert_eq!(process.phases(), named(&[("embed", 3)]));
}

#[test]
fn a_lone_range_after_a_warm_up_is_a_phase() {
    let mut process = Process::start();
    for _ in 0..3 {
        process.pass(20);
    }
    process.range("answer", |process| process.pass(20));
    assert_eq!(process.phases(), named(&[("answer", 1)]));
}

#[test]
fn of_nested_ranges_the_level_that_comes_again_divides() {
    let mut process = Process::start();
    process.range("main", |process| {
        process.range("warmup", |process| process.pass(20));
        process.range("serve", |process| {
            for _ in 0..4 {
                process.range("request", |process| {
                    process.range("read", |process| process.pass(20));
                    process.range("write", |process| process.pass(10));
                });
            }
        });
    });
    let phases = process.phases();
    assert!(phases.contains(&("request".to_owned(), 4)), "{phases:?}");
}

#[test]
fn layers_do_not_divide_a_pass() {
    let mut process = Process::start();
    process.pass(12);
    process.range("encode_text", |process| {
        for layer in 0..12 {
            process.range(&format!("layer_{layer}"), |process| process.pass(1));
        }
    });
    assert_eq!(process.phases(), named(&[("encode_text", 1)]));
}

/// A thread marks requests while another one launches, in ranges of its own.
#[test]
fn of_threads_whose_ranges_overlap_one_divides() {
    let mut process = Process::start();
    for _ in 0..4 {
        process.range_thread = 2;
        process.range("handle", |process| {
            process.clock += 50 * US;
            process.range_thread = 1;
            process.range("infer", |process| process.pass(20));
            process.range_thread = 2;
        });
    }
    let phases = process.phases();
    assert_eq!(phases.len(), 1, "{phases:?}");
    assert_eq!(phases[0].1, 4, "{phases:?}");
}

#[test]
fn ranges_on_another_thread_than_the_launches_are_phases() {
    let mut process = Process::start();
    process.range_thread = 2;
    for _ in 0..4 {
        process.range("infer", |process| process.pass(20));
    }
    assert_eq!(process.phases(), named(&[("infer", 4)]));
}

#[test]
fn ranges_with_an_id_each_are_one_phase() {
    let mut process = Process::start();
    for request in 0..40 {
        let id = format!(
            "request {:x}-{request} ({} tokens)",
            17 * request + 0xa3,
            100 + request
        );
        process.range(&id, |process| process.pass(5));
    }
    assert_eq!(process.phases(), named(&[("request", 40)]));
}

#[test]
fn a_range_around_a_whole_program_gives_way_to_what_repeats() {
    let mut process = Process::start();
    process.builder = TraceBuilder::default();
    process.clock = 0;
    process.range("main", |process| {
        for _ in 0..4 {
            process.call("cuModuleLoadData", 10 * MS, 0);
        }
        for _ in 0..10 {
            process.pass(20);
        }
    });
    let analysis = process.analyze();
    let source = analysis.timeline.unwrap().phase_source;
    assert_eq!(source, PhaseSource::Inferred);
}

/// A wait in each layer is named in every layout.
#[test]
fn causes_are_named_without_operators() {
    let layouts: [fn(&mut Process); 4] = [
        |process| {
            for _ in 0..3 {
                process.range("embed", |process| process.waiting_pass(20));
            }
        },
        |process| {
            process.range("main", |process| {
                for _ in 0..3 {
                    process.range("embed", |process| process.waiting_pass(20));
                }
            });
        },
        |process| process.range("embed", |process| process.waiting_pass(20)),
        |process| {
            for _ in 0..10 {
                process.waiting_pass(20);
            }
        },
    ];
    for (number, draw) in layouts.into_iter().enumerate() {
        let mut process = Process::start();
        process.waiting_pass(20);
        draw(&mut process);
        let analysis = process.analyze();
        let codes: Vec<&str> = analysis
            .findings
            .iter()
            .map(|finding| finding.code.as_str())
            .collect();
        assert!(codes.contains(&"synchronization"), "{number}: {codes:?}");
    }
}

#[test]
fn capturing_in_each_range_is_named_without_the_begin_of_captures() {
    let mut process = Process::start();
    process.pass(20);
    for _ in 0..4 {
        process.range("step", |process| {
            process.capture(60);
            process.pass(20);
        });
    }
    let analysis = process.analyze();
    let mut codes = analysis.findings.iter().map(|finding| &finding.code);
    assert!(codes.any(|code| code == "graph_captures"));
}

#[test]
fn host_code_has_the_line_of_the_program_that_samples_show() {
    let mut process = Process::start();
    process.pass(20);
    for _ in 0..4 {
        process.range("embed", |process| {
            process.pass(20);
            process.code(3);
            process.pass(20);
        });
    }
    let analysis = process.analyze();
    let lines: Vec<&str> = analysis
        .findings
        .iter()
        .filter(|finding| finding.code == "host_code")
        .filter_map(|finding| match &finding.conclusion {
            Some(Conclusion::Cause { cause }) => cause.place.line.as_deref(),
            _ => None,
        })
        .collect();
    assert_eq!(lines, ["serve.py(12): detokenize"]);
}
