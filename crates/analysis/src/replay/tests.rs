use llmprof_record::trace::{Host, HostKind, Kernel, Trace, TraceBuilder};

use super::*;

/// Calls of one thread: name, start and duration in µs; a launch with a kernel has its stream, start and duration too.
fn trace(calls: &[(&str, i64, i64, Option<(u32, i64, i64)>)]) -> Trace {
    let mut builder = TraceBuilder::default();
    let thread = builder.thread(1, 1);
    for (index, &(name, start, duration, kernel)) in calls.iter().enumerate() {
        let name = builder.intern(name);
        let correlation = index as u32 + 1;
        builder.hosts.push(Host {
            start: 1_000 * start,
            duration: 1_000 * duration,
            name,
            thread,
            kind: HostKind::RUNTIME,
            correlation,
            ..Host::default()
        });
        if let Some((stream, start, duration)) = kernel {
            builder.kernels.push(Kernel {
                start: 1_000 * start,
                duration: 1_000 * duration,
                name,
                stream,
                correlation,
                ..Kernel::default()
            });
        }
    }
    builder.finish()
}

/// A launch of 10 µs and its kernel of 100, a wait for it, and the same again.
fn synchronized() -> Trace {
    trace(&[
        ("cudaLaunchKernel", 0, 10, Some((7, 5, 100))),
        ("cudaDeviceSynchronize", 10, 97, None),
        ("cudaLaunchKernel", 107, 10, Some((7, 112, 100))),
        ("cudaDeviceSynchronize", 117, 97, None),
    ])
}

fn whole() -> Vec<Window> {
    vec![Window {
        start: 0,
        end: 214_000,
    }]
}

fn replayed(graph: &Graph, event_cost_ns: f64, edit: &Edit) -> i64 {
    let model = Model {
        event_cost_ns,
        with_constants: false,
    };
    graph.window_times(&graph.replay(model, edit), edit)[0]
}

#[test]
fn an_unedited_replay_is_the_recording() {
    let graph = Graph::of(&synchronized(), whole()).unwrap();
    assert_eq!(replayed(&graph, 0.0, &Edit::default()), 214_000);
    assert_eq!(graph.fidelity(), [(214_000, 214_000)]);
}

/// Without the wait the second launch is queued behind the first kernel: only the last wait is left.
#[test]
fn a_dropped_wait_lets_launches_run_ahead() {
    let graph = Graph::of(&synchronized(), whole()).unwrap();
    let mut edit = Edit::default();
    edit.limit_segment(1, 0);
    // First kernel 5 to 105, second right behind it to 205, 2 µs to return.
    assert_eq!(replayed(&graph, 0.0, &edit), 207_000);
}

/// The cost of recording is taken off each event once: half at its begin, half at its end.
#[test]
fn recording_costs_as_much_for_a_long_event_as_for_a_short_one() {
    let calls = [
        ("cudaFuncSetAttribute", 0, 20, None),
        ("cudaLaunchKernel", 20, 10, Some((7, 25, 1))),
    ];
    let long = trace(&[
        calls[0],
        ("cudaFuncSetAttribute", 20, 500, None),
        ("cudaLaunchKernel", 520, 10, Some((7, 525, 1))),
    ]);
    let window = |end: i64| vec![Window { start: 0, end }];
    let short = Graph::of(&trace(&calls), window(30_000)).unwrap();
    let long = Graph::of(&long, window(530_000)).unwrap();
    let cost = |graph: &Graph| {
        let nothing = Edit::default();
        replayed(graph, 0.0, &nothing) - replayed(graph, 4_000.0, &nothing)
    };
    assert_eq!(cost(&short), 4_000);
    assert_eq!(cost(&long), 6_000);
}

/// Work of a thread that has nothing to do with the program delays its kernels, and no longer where it is removed.
#[test]
fn work_of_another_thread_delays_kernels() {
    let mut builder = TraceBuilder::default();
    let names = ["cudaLaunchKernel", "aten::mm"].map(|name| builder.intern(name));
    let threads = [builder.thread(1, 1), builder.thread(1, 2)];
    let mut call = |thread: usize, start: i64, correlation: u32, kernel: (u32, i64, i64)| {
        let host = Host {
            start,
            duration: 10_000,
            name: names[0],
            thread: threads[thread],
            kind: HostKind::RUNTIME,
            correlation,
            ..Host::default()
        };
        if thread == 0 {
            builder.hosts.push(Host {
                name: names[1],
                kind: HostKind::OPERATOR,
                correlation: 0,
                ..host
            });
        }
        builder.hosts.push(host);
        builder.kernels.push(Kernel {
            stream: kernel.0,
            start: kernel.1,
            duration: kernel.2,
            correlation,
            ..Kernel::default()
        });
    };
    // Two launches of the program that take 5 µs to start, and a third that waits for the other stream.
    call(0, 0, 1, (7, 5_000, 1_000));
    call(0, 20_000, 2, (7, 25_000, 1_000));
    call(1, 30_000, 3, (9, 35_000, 100_000));
    call(0, 40_000, 4, (7, 135_000, 1_000));
    let window = vec![Window {
        start: 0,
        end: 136_000,
    }];
    let graph = Graph::of(&builder.finish(), window).unwrap();
    assert_eq!(replayed(&graph, 0.0, &Edit::default()), 136_000);
    let mut alone = Edit::default();
    alone.run_alone();
    let foreign = graph
        .work()
        .iter()
        .position(|work| !graph.is_own_work(work));
    alone.drop_work(foreign.unwrap());
    assert_eq!(replayed(&graph, 0.0, &alone), 50_000);
}
