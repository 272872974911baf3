use llmprof_record::trace::{Host, Kernel, StackFrame, TraceBuilder};

use super::*;

/// Kernels at 0..10 and 50..60: a gap of 40. The thread 1 calls CUDA, 2 holds the GIL, 3 is a bystander.
fn builder() -> TraceBuilder {
    let mut builder = TraceBuilder::default();
    for start in [0, 50] {
        builder.kernels.push(Kernel {
            start,
            duration: 10,
            ..Kernel::default()
        });
    }
    let (thread, name) = (builder.thread(1, 1), builder.intern("cudaLaunchKernel"));
    builder.hosts.push(Host {
        name,
        thread,
        kind: HostKind::RUNTIME,
        ..Host::default()
    });
    builder
}

fn stack(builder: &mut TraceBuilder, function: &str, line: u32) -> FrameId {
    let file = builder.intern("/srv/serve.py");
    let main = builder.intern("main");
    let parent = builder.frame(StackFrame {
        parent: FrameId::NONE,
        function: main,
        file,
        line: 1,
    });
    let function = builder.intern(function);
    builder.frame(StackFrame {
        parent,
        function,
        file,
        line,
    })
}

fn sample(builder: &mut TraceBuilder, time: i64, thread: i64, function: &str) -> HostSample {
    HostSample {
        time,
        period: 10,
        thread: builder.thread(1, thread),
        cpu: CpuState::ON,
        stack: stack(builder, function, time as u32),
        ..HostSample::default()
    }
}

#[test]
fn idle_time_goes_to_what_the_calling_thread_did() {
    let mut builder = builder();
    let holder = builder.thread(1, 2);
    let busy = sample(&mut builder, 5, 1, "launch");
    let mut collects = sample(&mut builder, 20, 1, "step");
    collects.gil_holder = collects.thread;
    collects.collecting = Collecting::YES;
    let mut waits = sample(&mut builder, 30, 1, "step");
    (waits.cpu, waits.wait, waits.gil_holder) = (CpuState::OFF, HostWait::GIL, holder);
    let mut holds = sample(&mut builder, 30, 2, "tokenize");
    holds.gil_holder = holder;
    let mut sleeps = sample(&mut builder, 40, 1, "idle");
    (sleeps.cpu, sleeps.wait) = (CpuState::OFF, HostWait::SLEEP);
    let bystander = sample(&mut builder, 35, 3, "serve");
    for row in [busy, collects, waits, holds, sleeps, bystander] {
        builder.host_samples.push(row);
    }
    let trace = builder.finish();
    assert_eq!(find_gaps(&trace), [(10, 50)]);
    let stacks = analyze_host_stacks(&trace, &[]).unwrap();
    assert_eq!(
        (stacks.source, stacks.idle.samples),
        (StackSource::Sampled, 3)
    );
    assert_eq!(stacks.whole.samples, 4);
    let mut places: Vec<_> = stacks
        .idle
        .places
        .iter()
        .map(|place| (place.activity, place.function.as_str(), place.line))
        .collect();
    places.sort_unstable();
    assert_eq!(
        places,
        [
            (HostActivity::CollectingGarbage, "step", 20),
            (HostActivity::WaitingForGil, "step", 30),
            (HostActivity::Sleeping, "idle", 40),
        ]
    );
    let waiting = stacks
        .idle
        .places
        .iter()
        .find(|place| place.activity == HostActivity::WaitingForGil)
        .unwrap();
    assert_eq!(waiting.gil_held_by, "tokenize /srv/serve.py:30");
    let share: f64 = stacks.idle.places.iter().map(|place| place.share).sum();
    assert!((share - 1.0).abs() < 1e-9);
    assert_eq!(
        (stacks.gaps.len(), stacks.gaps[0].duration_ns),
        (1, Nanos(40))
    );

    let flame = flame_stacks(&trace, true);
    let folded = llmprof_record::flame::write_folded(&flame);
    assert!(
        folded.contains("main (serve.py:1);step (serve.py:30);[waiting for the GIL];held by tokenize (serve.py:30) 0\n"),
        "{folded}"
    );
    let total: i64 = flame.iter().map(|stack| stack.time_ns.0).sum();
    assert_eq!(total, stacks.idle.sampled_ns.0);
}

#[test]
fn between_slices_nothing_is_idle() {
    let mut builder = builder();
    for (start, duration) in [(0, 15), (45, 20)] {
        builder.ranges.push(llmprof_record::trace::Range {
            start,
            duration,
            kind: RangeKind::CAPTURE,
            ..Default::default()
        });
    }
    assert_eq!(find_gaps(&builder.finish()), [(10, 15), (45, 50)]);
}

#[test]
fn recorded_functions_are_cut_at_the_edges_of_gaps() {
    let mut builder = builder();
    let thread = builder.thread(1, 1);
    for (name, start, duration) in [
        ("serve.py(1): main", 0, 60),
        ("serve.py(12): step", 5, 30),
        ("<built-in method sleep of module object at 0x7f>", 20, 10),
    ] {
        let name = builder.intern(name);
        builder.hosts.push(Host {
            start,
            duration,
            name,
            thread,
            kind: HostKind::PYTHON,
            ..Host::default()
        });
    }
    let trace = builder.finish();
    let stacks = analyze_host_stacks(&trace, &[]).unwrap();
    assert_eq!(stacks.source, StackSource::RecordedFunctions);
    assert_eq!(stacks.whole.sampled_ns, Nanos(60));
    let places: Vec<_> = stacks
        .idle
        .places
        .iter()
        .map(|place| (place.function.as_str(), place.line, place.time_ns.0))
        .collect();
    // Idle from 10 to 50: step until 35, ten of it asleep, then main until 50.
    assert_eq!(places, [("step", 12, 25), ("main", 1, 15)]);
}

#[test]
fn a_trace_without_stacks_says_nothing() {
    assert_eq!(analyze_host_stacks(&builder().finish(), &[]), None);
    assert_eq!(analyze_host_stacks(&Trace::default(), &[]), None);
}
