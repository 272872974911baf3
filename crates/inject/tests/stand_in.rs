//! The library in a process, driven by a stand-in for CUPTI and a program that initializes it as the CUDA driver and the
//! NVTX headers do. Both are C, built here; they need no GPU.

mod detach;
mod support;

use std::collections::HashMap;
use std::process::Command;

use llmprof_wire::{End, Record};
use support::{Recorded, Scene};

fn kernels(recorded: &Recorded) -> usize {
    recorded.count(|record| matches!(record, Record::Kernel(_)))
}

#[test]
fn nothing_is_exported_but_the_entry_points() {
    let output = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(support::library())
        .output()
        .expect("nm is there");
    let listed = String::from_utf8(output.stdout).expect("text");
    let mut names: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split(' ').next_back())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["InitializeInjection", "InitializeInjectionNvtx2"]);
}

#[test]
fn every_kind_of_record_comes_through_for_every_layout() {
    for version in [
        18, 20, 21, 22, 23, 24, 26, 28, 130_001, 130_101, 130_202, 130_301, 130_401,
    ] {
        let scene = Scene::new();
        let recorded = scene
            .env("STANDIN_VERSION", &version.to_string())
            .run("nvtx cuda push:decode kernels:3 others pop mark:here")
            .one();
        assert_eq!(recorded.end, End::Whole);
        let counts = recorded.kinds();
        for (kind, expected) in [
            ("kernel", 3),
            ("copy", 1),
            ("memset", 1),
            ("sync", 1),
            ("overhead", 1),
            ("call", 5),
            ("push", 1),
            ("pop", 1),
            ("mark", 1),
            ("ended", 1),
        ] {
            assert_eq!(
                counts.get(kind),
                Some(&expected),
                "{kind} of version {version}: {counts:?}"
            );
        }
        let texts = recorded.texts();
        recorded.each(|record| match record {
            Record::Attached(attached) => assert_eq!(attached.cupti, version),
            Record::Kernel(kernel) => {
                assert!(["gemm_kernel", "_Z4axpyfPfS_"].contains(&texts[&kernel.name].as_str()));
                assert_eq!(kernel.end - kernel.start, 1000);
                assert_eq!((kernel.device, kernel.context, kernel.stream), (0, 1, 7));
                assert_eq!((kernel.grid, kernel.block), ([10, 11, 12], [20, 21, 22]));
                assert_eq!((kernel.static_shared, kernel.dynamic_shared), (1024, 2048));
                assert_eq!(
                    (kernel.registers, kernel.graph, kernel.graph_node),
                    (32, 0, 0)
                );
            }
            Record::Copy(copy) => {
                assert_eq!(
                    (copy.kind, copy.source, copy.target, copy.bytes),
                    (1, 2, 3, 4096)
                );
                assert_eq!(copy.end - copy.start, 100);
            }
            Record::Memset(memset) => assert_eq!((memset.target, memset.bytes), (3, 512)),
            Record::Sync(sync) => assert_eq!((sync.kind, sync.context, sync.stream), (3, 1, 7)),
            Record::Overhead(overhead) => {
                assert_eq!(overhead.kind, 2 << 16);
                assert_ne!(overhead.thread, 0);
            }
            Record::Call(call) => {
                // A call that neither launches nor waits is left out, by CUPTI or, before 12.5, by us.
                assert_ne!(texts[&call.name], "cudaGetDevice_v3020");
                assert_eq!((call.status, call.domain), (0, 2));
            }
            _ => {}
        });
    }
}

#[test]
fn a_cupti_that_records_all_calls_or_none_is_filtered() {
    let scene = Scene::new().with_old_cupti().env("STANDIN_VERSION", "22");
    let recorded = scene.run("cuda kernels:4").one();
    let texts = recorded.texts();
    let mut calls = Vec::new();
    recorded.each(|record| {
        if let Record::Call(call) = record {
            calls.push(texts[&call.name].clone());
        }
    });
    assert_eq!(calls, ["cudaLaunchKernel_v7000"; 4]);
}

#[test]
fn every_call_is_recorded_when_asked() {
    let recorded = Scene::new()
        .capture("calls=all")
        .run("cuda kernels:4")
        .one();
    assert_eq!(
        recorded.count(|record| matches!(record, Record::Call(_))),
        8
    );
}

#[test]
fn kernels_belong_to_the_calls_and_threads_that_launched_them() {
    let recorded = Scene::new()
        .run("nvtx cuda thread:first,2 thread:second,3")
        .one();
    let (mut calls, mut ranges) = (HashMap::new(), HashMap::new());
    recorded.each(|record| match record {
        Record::Call(call) => {
            calls.insert(call.correlation, call.thread);
        }
        Record::Push(push) => {
            ranges.insert(push.thread, String::from_utf8_lossy(push.text).into_owned());
        }
        _ => {}
    });
    let mut launched: HashMap<String, u32> = HashMap::new();
    recorded.each(|record| {
        if let Record::Kernel(kernel) = record {
            let thread = calls[&kernel.correlation];
            *launched.entry(ranges[&thread].clone()).or_default() += 1;
        }
    });
    assert_eq!(
        launched,
        HashMap::from([("first".to_owned(), 2), ("second".to_owned(), 3)])
    );
}

#[test]
fn ranges_have_domains_and_wide_names() {
    let recorded = Scene::new()
        .run("nvtx cuda domain:torch,matmul wide:weit start:long")
        .one();
    let (mut domains, mut seen) = (HashMap::from([(0, String::new())]), Vec::new());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    recorded.each(|record| match record {
        Record::Domain(domain) => {
            domains.insert(domain.id, text(domain.text));
        }
        Record::Push(push) => seen.push((domains[&push.domain].clone(), text(push.text))),
        Record::RangeStart(start) => seen.push((domains[&start.domain].clone(), text(start.text))),
        Record::Mark(mark) => seen.push((domains[&mark.domain].clone(), text(mark.text))),
        _ => {}
    });
    seen.sort();
    let expected = [("", "long"), ("", "weit"), ("torch", "matmul")];
    assert_eq!(seen, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    assert_eq!(
        recorded.count(|record| matches!(record, Record::RangeEnd(_))),
        1
    );
}

#[test]
fn nodes_of_graphs_know_the_ranges_they_were_captured_in() {
    let (node, copy) = (5_u64 << 32 | 1, 6_u64 << 32 | 1);
    let words = format!(
        "nvtx cuda push:model push:layers.0.mlp node:{node},0 pop pop node:{copy},{node} graphkernel:{copy}"
    );
    let recorded = Scene::new().run(&words).one();
    let mut nodes = HashMap::new();
    recorded.each(|record| {
        if let Record::GraphNode(node) = record {
            nodes.insert(
                node.node,
                (
                    node.original,
                    node.graph,
                    String::from_utf8_lossy(node.text).into_owned(),
                ),
            );
        }
    });
    assert_eq!(nodes[&node], (0, 5, "model\u{1f}layers.0.mlp".to_owned()));
    assert_eq!(nodes[&copy], (node, 6, String::new()));
}

#[test]
fn only_the_range_that_was_named_is_recorded() {
    let scene = Scene::new().env("LLMPROF_NVTX_RANGE", "decode");
    let recorded = scene
        .run("nvtx cuda kernels:5 push:request push:decode kernels:3 pop kernels:7 push:decode kernels:1 pop pop kernels:2")
        .one();
    assert_eq!(kernels(&recorded), 4);
    let mut texts = Vec::new();
    recorded.each(|record| {
        if let Record::Push(push) = record {
            texts.push(String::from_utf8_lossy(push.text).into_owned());
        }
    });
    // The range around it was open when recording began.
    assert_eq!(texts, ["request", "decode", "decode"]);
    assert_eq!(recorded.count(|record| matches!(record, Record::Pop(_))), 3);
    assert_eq!(
        recorded.count(|record| matches!(record, Record::Capture(_))),
        4
    );
}

#[test]
fn ranges_beyond_measure_do_not_end_others() {
    let scene = Scene::new().env("LLMPROF_NVTX_RANGE", "decode");
    let recorded = scene
        .run("nvtx cuda push:decode deep:5000 kernels:3 pop kernels:5")
        .one();
    assert_eq!(kernels(&recorded), 3);
    assert_eq!(
        recorded.kinds()["push"],
        recorded.kinds()["pop"],
        "every range that was written has an end"
    );
}

#[test]
fn ranges_that_never_end_are_bounded_and_counted() {
    let recorded = Scene::new().run("nvtx cuda starts:70000 start:late").one();
    let mut dropped = 0;
    recorded.each(|record| {
        if let Record::Loss(loss) = record {
            dropped += loss.count;
        }
    });
    let written = recorded.kinds()["rangestart"];
    assert_eq!((written, dropped), (1 << 16, 70_001 - (1 << 16)));
}

/// Nobody asks for them for a minute, and they are on their way all the same.
#[test]
fn marks_without_ranges_are_handed_over() {
    let recorded = Scene::new()
        .capture("interval_ms=60000")
        .run("nvtx cuda marks:30000 sleep:500 kill")
        .one();
    let marks = recorded.kinds()["mark"];
    assert!(marks > 10_000, "{marks}");
}

#[test]
fn a_killed_process_keeps_all_but_the_last_interval() {
    let scene = Scene::new().capture("interval_ms=20");
    let recorded = scene
        .run("nvtx cuda push:decode kernels:100 sleep:300 kernels:7 kill")
        .one();
    let kernel_count = kernels(&recorded);
    assert!((100..=107).contains(&kernel_count), "{kernel_count}");
    assert_eq!(recorded.kinds().get("ended"), None);
    assert!(recorded.kinds()["checkpoint"] >= 3);
}

/// A process that ends while our thread is just starting: what it launched is handed out last, and read after that.
#[test]
fn a_short_life_loses_nothing() {
    for _ in 0..40 {
        let recorded = Scene::new().run("cuda kernels:3").one();
        assert_eq!(kernels(&recorded), 3);
        assert_eq!(recorded.kinds()["ended"], 1);
    }
}

#[test]
fn leaving_without_goodbye_keeps_what_was_flushed() {
    let scene = Scene::new().capture("interval_ms=20");
    let recorded = scene.run("cuda kernels:50 sleep:300 quick").one();
    assert_eq!(kernels(&recorded), 50);
}

/// With the options that `record` uses, by a null pointer.
#[test]
fn a_crash_keeps_what_was_launched_long_before() {
    let recorded = Scene::new().run("cuda kernels:50 sleep:500 crash").one();
    assert_eq!(kernels(&recorded), 50);
    assert_eq!(recorded.kinds().get("ended"), None);
    // What a killed process may lose: the interval, and as much again for what its device had not done.
    assert!(llmprof_wire::Options::default().interval_ms * 2 < 100);
}

#[test]
fn a_full_disk_costs_records_and_nothing_else() {
    // A limit on the size of files is an error for our thread and a deadly signal for others.
    let scene = Scene::new().capture("interval_ms=20");
    let recorded =
        scene.run("filesize:20000 cuda kernels:1000 full kernels:500 print:alive exit:3");
    assert_eq!(recorded.status, Some(3));
    assert_eq!(recorded.stdout, "alive\n");
    let file = recorded.one();
    assert!(matches!(file.end, End::Cut { .. }), "{:?}", file.end);
    let kernel_count = kernels(&file);
    assert!((50..500).contains(&kernel_count), "{kernel_count}");
    let reported = recorded.reports();
    let dropped = reported
        .iter()
        .rfind(|line| line.starts_with("dropped "))
        .expect("reported");
    let count: usize = dropped
        .split(' ')
        .nth(1)
        .expect("a number")
        .parse()
        .expect("a number");
    assert!(
        count > 500 && dropped.contains("File too large"),
        "{dropped}"
    );
}

#[test]
fn a_slow_writer_costs_records_which_are_counted() {
    // Two small buffers, handed back only every interval.
    let scene = Scene::new().capture("interval_ms=60000 buffer_kib=16 memory_mib=1");
    let recorded = scene.run("cuda kernels:30000").one();
    let mut dropped = 0;
    recorded.each(|record| {
        if let Record::Loss(loss) = record {
            dropped += loss.count;
        }
    });
    let calls = recorded.count(|record| matches!(record, Record::Call(_))) as u64;
    assert_eq!(kernels(&recorded) as u64 + calls + dropped, 60_000);
}

#[test]
fn kernels_without_times_are_losses() {
    let recorded = Scene::new()
        .run("cuda kernels:2 unfinished kernels:1")
        .one();
    assert_eq!(kernels(&recorded), 3);
    assert_eq!(recorded.kinds().get("loss"), Some(&1));
}

#[test]
fn a_refusal_leaves_the_process_alone_and_is_told() {
    for (variable, status) in [("STANDIN_REFUSE", 39), ("STANDIN_ENABLE", 35)] {
        let scene = Scene::new().env(variable, &status.to_string());
        let run = scene.run("nvtx cuda push:a kernels:5 pop print:done exit:7");
        assert_eq!((run.status, run.stdout.as_str()), (Some(7), "done\n"));
        let recorded = run.one();
        assert_eq!(kernels(&recorded), 0);
        let mut refused = Vec::new();
        recorded.each(|record| {
            if let Record::Refused(refusal) = record {
                refused.push(refusal.status);
            }
        });
        assert_eq!(refused, [status]);
        assert!(
            run.reports()
                .iter()
                .any(|line| line.starts_with("refused "))
        );
    }
}

#[test]
fn an_unknown_version_and_a_missing_library_are_refusals() {
    let run = Scene::new()
        .env("STANDIN_VERSION", "150000")
        .run("cuda kernels:5");
    let reported = run.reports();
    assert!(
        reported
            .iter()
            .any(|line| line.starts_with("refused libcupti has version 150000")),
        "{reported:?}"
    );
    let run = Scene::new()
        .env("LLMPROF_CUPTI", "/nowhere/libcupti.so")
        .run("cuda");
    assert!(
        run.reports()
            .iter()
            .any(|line| line.contains("does not load"))
    );
    assert_eq!(run.status, Some(0));
}

#[test]
fn a_forked_child_has_a_file_of_its_own() {
    let run = Scene::new().run("nvtx fork:1 push:parent cuda kernels:2 pop fork:0 kernels:1");
    assert_eq!(run.status, Some(0));
    let files = run.files();
    let mut counts: Vec<usize> = files.iter().map(kernels).collect();
    counts.sort_unstable();
    // The child that used CUDA, and the parent; the other child wrote nothing anywhere.
    assert_eq!(counts, [3, 3]);
    assert!(
        files
            .iter()
            .all(|file| file.end == End::Whole && file.kinds()["ended"] == 1)
    );
    let processes: std::collections::HashSet<u32> =
        files.iter().map(|file| file.header.process).collect();
    assert_eq!(processes.len(), 2);
}

#[test]
fn a_started_program_and_a_replaced_one_are_watched() {
    let run = Scene::new().run("nvtx cuda kernels:1 spawn kernels:1");
    let mut counts: Vec<usize> = run.files().iter().map(kernels).collect();
    counts.sort_unstable();
    assert_eq!(counts, [2, 5]);
    let run = Scene::new()
        .capture("interval_ms=20")
        .run("nvtx cuda kernels:3 sleep:100 become");
    let files = run.files();
    let mut counts: Vec<usize> = files.iter().map(kernels).collect();
    counts.sort_unstable();
    assert_eq!(counts, [3, 4]);
    assert_eq!(files[0].header.process, files[1].header.process);
}

#[test]
fn slices_keep_whole_steps_and_ranges_go_on_between_them() {
    let scene = Scene::new().capture("overhead_ppm=20000 interval_ms=20");
    let recorded = scene.run("nvtx cuda steps:400,20,4").one();
    let pushes = recorded.count(|record| matches!(record, Record::Push(_)));
    assert_eq!(pushes, 400);
    let (mut on, mut off, mut all_slices) = (0, 0, true);
    recorded.each(|record| {
        if let Record::Capture(capture) = record {
            all_slices &= capture.slice != 0;
            if capture.on == 1 {
                on += 1;
            } else {
                off += 1;
            }
        }
    });
    assert!(
        all_slices && on >= 2 && (on == off || on == off + 1),
        "{on} {off}"
    );
    let kernel_count = kernels(&recorded);
    assert!(kernel_count > 0 && kernel_count < 8000, "{kernel_count}");
}

/// A step takes longer than the first slices, and no range shows it.
#[test]
fn slices_grow_until_they_hold_whole_steps_by_the_pattern_of_kernels() {
    let scene = Scene::new().capture("overhead_ppm=500000 interval_ms=20");
    let recorded = scene.run("cuda until:0,6 layers:8,8,15").one();
    let (mut lookup, mut slices, mut starts) = (None, Vec::new(), Vec::new());
    recorded.each(|record| match record {
        Record::Text(text) if text.text == b"lookup_kernel" => lookup = Some(text.id),
        Record::Kernel(kernel) if Some(kernel.name) == lookup => starts.push(kernel.start),
        Record::Capture(capture) if capture.on == 1 => slices.push((capture.time, i64::MAX)),
        Record::Capture(capture) => slices.last_mut().expect("it was on").1 = capture.time,
        _ => {}
    });
    let whole_steps = |&(on, off): &(i64, i64)| {
        let begun = starts.iter().filter(|start| (on..off).contains(start));
        begun.count().saturating_sub(1)
    };
    let held: Vec<usize> = slices.iter().map(whole_steps).collect();
    assert!(
        held.iter().any(|&steps| steps > 0),
        "{held:?} in {slices:?}"
    );
}

#[test]
fn nothing_happens_where_nobody_asked() {
    let run = Scene::new()
        .without_directory()
        .run("nvtx cuda push:a kernels:5 pop print:done");
    assert_eq!((run.status, run.stdout.as_str()), (Some(0), "done\n"));
    assert!(run.files().is_empty());
}

/// Its files had our numbers, and got our records.
#[test]
fn a_program_that_closes_all_descriptors_keeps_its_files_to_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = format!(
        "nvtx cuda push:before kernels:4 pop sleep:300 takeall:700,{} push:after kernels:2000 marks:3000 pop sleep:500 forked kernels:50",
        folder.path().display()
    );
    let run = Scene::new().capture("interval_ms=20").run(&words);
    assert_eq!(run.status, Some(0));
    assert_eq!(run.stdout.trim(), "all open");
    let mut files = 0;
    for entry in std::fs::read_dir(folder.path()).expect("the folder is there") {
        let length = entry.expect("an entry").metadata().expect("a file").len();
        assert_eq!(length, 0, "something was written to the program's files");
        files += 1;
    }
    assert_eq!(files, 700);
    // What was written before is whole.
    assert_eq!(kernels(&run.one()), 4);
}
