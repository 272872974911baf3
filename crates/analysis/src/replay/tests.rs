use llmprof_record::trace::{Host, HostKind, Kernel, Trace, TraceBuilder};

use super::*;

/// Calls of one thread: name, start and duration in µs; a launch with a kernel has its stream, start and duration too.
type Call = (&'static str, i64, i64, Option<(u32, i64, i64)>);

fn drawn(calls: &[Call]) -> TraceBuilder {
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
    builder
}

fn trace(calls: &[Call]) -> Trace {
    drawn(calls).finish()
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

fn whole() -> Vec<HostWindow> {
    vec![HostWindow {
        start: 0,
        end: 214_000,
    }]
}

fn replayed(graph: &Graph, event_cost_ns: f64, edit: &Edit) -> i64 {
    let model = ReplayModel {
        event_cost_ns,
        with_constants: false,
    };
    let [times] = graph.replay([model], edit);
    times[0]
}

#[test]
fn an_unedited_replay_is_the_recording() {
    let graph = Graph::of_trace(&synchronized(), whole()).unwrap();
    assert_eq!(replayed(&graph, 0.0, &Edit::default()), 214_000);
    assert_eq!(graph.fidelity(), [(214_000, 214_000)]);
}

/// Without the wait the second launch is queued behind the first kernel: only the last wait is left.
#[test]
fn a_dropped_wait_lets_launches_run_ahead() {
    let graph = Graph::of_trace(&synchronized(), whole()).unwrap();
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
        ("cudaLaunchKernel", 20, 10, Some((7, 25, 50))),
    ];
    let long = trace(&[
        calls[0],
        ("cudaFuncSetAttribute", 20, 500, None),
        ("cudaLaunchKernel", 520, 10, Some((7, 525, 50))),
    ]);
    let window = |end: i64| vec![HostWindow { start: 0, end }];
    let short = Graph::of_trace(&trace(&calls), window(30_000)).unwrap();
    let long = Graph::of_trace(&long, window(530_000)).unwrap();
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
    let window = vec![HostWindow {
        start: 0,
        end: 136_000,
    }];
    let graph = Graph::of_trace(&builder.finish(), window).unwrap();
    assert_eq!(replayed(&graph, 0.0, &Edit::default()), 136_000);
    let mut alone = Edit::default();
    alone.run_alone();
    let foreign = graph.work().iter().position(|work| !work.is_own);
    alone.drop_work(foreign.unwrap());
    assert_eq!(replayed(&graph, 0.0, &alone), 50_000);
}

/// Times do not depend on where sums of segments are cut, whatever an edit changes.
#[test]
fn segments_between_nodes_are_summed_without_loss() {
    let mut calls = Vec::new();
    for step in 0..40 {
        let start = 200 * step;
        calls.push(("cudaFuncSetAttribute", start, 3, None));
        calls.push(("cudaLaunchKernel", start + 7, 10, Some((7, start + 15, 60))));
        calls.push(("cudaGetDevice", start + 20, 1 + step % 5, None));
        if step % 3 == 0 {
            calls.push(("cudaDeviceSynchronize", start + 40, 38, None));
        }
        calls.push(("cudaMallocAsync", start + 90, 30, None));
        calls.push(("cudaGetDevice", start + 95, 5, None));
    }
    let trace = trace(&calls);
    let window = |step: i64| HostWindow {
        start: 200_000 * step,
        end: 200_000 * (step + 1),
    };
    let windows: Vec<HostWindow> = (2..18).chain(22..36).map(window).collect();
    let parts = [(2, 18), (22, 36)].map(|(first, end)| HostWindow {
        start: window(first).start,
        end: window(end - 1).end,
    });
    let graph = |are_all_nodes| {
        Graph::with_nodes(&trace, windows.clone(), parts.to_vec(), are_all_nodes).unwrap()
    };
    let (few, all) = (graph(false), graph(true));
    assert!(2 * few.nodes.segment.len() < all.nodes.segment.len());
    let whole = Graph::of_trace(&trace, windows.clone()).unwrap();
    for row in (0..calls.len()).filter(|&row| !few.segments_of_row(row).is_empty()) {
        let around = |graph: &Graph| (graph.parent_row(row), graph.subtree_end(row));
        assert_eq!(around(&few), around(&whole), "{row}");
    }
    assert_eq!(few.recorded_lengths(), whole.recorded_lengths());
    assert_eq!(few.fidelity(), whole.fidelity());
    let models = [0.0, 1_500.0].map(|event_cost_ns| ReplayModel {
        event_cost_ns,
        with_constants: false,
    });
    for seed in 0..50 {
        let mut edit = Edit::default();
        for segment in (0..few.segment_count()).filter(|segment| segment % 7 == seed % 7) {
            match (segment + seed) % 5 {
                0 => edit.limit_segment(segment, (segment % 3) as i64 * 1_000),
                1 => edit.shorten_segment(segment, 700),
                2 => edit.drop_wait(segment),
                _ => {
                    edit.shorten_segment(segment, 400);
                    edit.limit_segment(segment, 900);
                }
            }
        }
        let replayed = few.replay(models, &edit);
        assert_eq!(replayed, all.replay(models, &edit), "{seed}");
        // Windows of one part alone.
        let later = (16..windows.len()).collect();
        let totals = Replay::of_windows(&few, models, later).total_with(&[&edit]);
        assert_eq!(
            totals,
            replayed.map(|times| times[16..].iter().sum::<i64>()),
            "{seed}"
        );
    }
}

/// A kernel of 1000 µs from before the recording, a wait for it, then a launch.
#[test]
fn work_from_before_the_recording_keeps_its_stream_busy() {
    let mut builder = drawn(&[
        ("cudaDeviceSynchronize", 5, 997, None),
        ("cudaLaunchKernel", 1002, 10, Some((7, 1007, 100))),
        ("cudaDeviceSynchronize", 1012, 97, None),
    ]);
    let name = builder.intern("earlier");
    builder.kernels.push(Kernel {
        start: 0,
        duration: 1_000_000,
        name,
        stream: 7,
        ..Kernel::default()
    });
    let window = HostWindow {
        start: 5_000,
        end: 1_110_000,
    };
    let graph = Graph::of_trace(&builder.finish(), vec![window]).unwrap();
    let mut edit = Edit::default();
    edit.drop_wait(graph.segments_in(window).start);
    let saved = replayed(&graph, 0.0, &Edit::default()) - replayed(&graph, 0.0, &edit);
    assert!((0..10_000).contains(&saved), "{saved} ns");
}
