//! CUPTI detaches the process between slices and attaches again. The stand-in ends the process where `cuptiFinalize` is called at
//! another place than the end of a call, before everything was read, or with somebody inside, and where anything but
//! `cuptiSubscribe` comes after it.

use std::collections::{HashMap, HashSet};

use crate::support::{Recorded, Run, Scene};
use llmprof_wire::{End, Record};

/// Slices, and CUPTI out between them.
const DETACH: &str = "overhead_ppm=20000 detach=on interval_ms=20";
const STAY: &str = "overhead_ppm=20000 detach=off interval_ms=20";

/// How often the stand-in was finalized, which the program prints.
fn finalized(run: &Run) -> usize {
    let line = run
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("finalized "));
    line.expect("the program says it")
        .parse()
        .expect("a number")
}

fn detaches(recorded: &Recorded) -> usize {
    recorded.count(|record| matches!(record, Record::Attachment(attachment) if attachment.on == 0))
}

fn returns(recorded: &Recorded) -> usize {
    recorded.count(|record| matches!(record, Record::Attachment(attachment) if attachment.on == 1))
}

fn slices(recorded: &Recorded) -> usize {
    recorded.count(|record| matches!(record, Record::Capture(capture) if capture.on == 1))
}

fn kept(recorded: &Recorded) -> Vec<String> {
    let mut reasons = Vec::new();
    recorded.each(|record| {
        if let Record::Kept(kept) = record {
            reasons.push(String::from_utf8_lossy(kept.text).into_owned());
        }
    });
    reasons
}

/// How many kernels there are. Every one has a name, and a launch before CUPTI left: then numbers begin again.
fn kernels(recorded: &Recorded) -> usize {
    let texts = recorded.texts();
    let (mut count, mut calls, mut launched) = (0, HashMap::new(), Vec::new());
    let check = |calls: &mut HashMap<u32, i64>, launched: &mut Vec<(u32, i64)>| {
        for (correlation, start) in launched.drain(..) {
            assert_eq!(calls.get(&correlation), Some(&(start - 3000)));
        }
        calls.clear();
    };
    recorded.each(|record| match record {
        Record::Attachment(attachment) if attachment.on == 0 => check(&mut calls, &mut launched),
        Record::Call(call) => {
            calls.insert(call.correlation, call.start);
        }
        Record::Kernel(kernel) => {
            let name = texts[&kernel.name].as_str();
            assert!(["gemm_kernel", "_Z4axpyfPfS_"].contains(&name), "{name}");
            count += 1;
            launched.push((kernel.correlation, kernel.start));
        }
        _ => {}
    });
    check(&mut calls, &mut launched);
    count
}

/// Its one file, of a program that ended in order and whose records were all written.
fn whole(run: &Run) -> Recorded {
    assert_eq!(run.status, Some(0), "{}", run.stdout);
    let recorded = run.one();
    assert_eq!(recorded.end, End::Whole);
    assert_eq!(recorded.kinds().get("ended"), Some(&1));
    assert_eq!(losses(&recorded), 0);
    recorded
}

fn losses(recorded: &Recorded) -> usize {
    recorded.count(|record| matches!(record, Record::Loss(_)))
}

#[test]
fn slices_hold_the_same_whether_cupti_leaves_or_stays() {
    let run = Scene::new()
        .capture(DETACH)
        .run("nvtx cuda until:3,4 loop:100,20,4 finalized");
    let recorded = whole(&run);
    // Slices are of whole steps, of 20 kernels each.
    let count = kernels(&recorded);
    assert!(slices(&recorded) >= 3);
    assert_eq!(count % 20, 0);
    assert!(count >= 20 * (slices(&recorded) - 1), "{count}");
    let left = finalized(&run);
    assert_eq!(left, detaches(&recorded));
    assert!(left >= 2 && returns(&recorded) >= 2, "{left}");
    assert_eq!(kept(&recorded), Vec::<String>::new());

    let run = Scene::new()
        .capture(STAY)
        .run("nvtx cuda until:0,2 loop:100,20,4 finalized");
    let recorded = whole(&run);
    assert_eq!((finalized(&run), detaches(&recorded)), (0, 0));
    let count = kernels(&recorded);
    assert!(count > 0 && count.is_multiple_of(20), "{count}");
}

#[test]
fn a_program_that_never_waits_is_left_all_the_same() {
    let run = Scene::new()
        .capture(DETACH)
        .run("nvtx cuda until:2,0 steps:100,20,4 finalized");
    assert!(finalized(&run) >= 2);
    let recorded = whole(&run);
    assert!(kernels(&recorded) > 0);
}

/// The device is 120 ms behind a program that never waits for it, or waits for another stream: after a while nothing is taken
/// before it has ended.
#[test]
fn a_device_that_is_far_behind_is_waited_for() {
    for (words, aside) in [("steps:100,20,4", "0"), ("loop:100,20,4", "1")] {
        let run = Scene::new()
            .capture("overhead_ppm=200000 detach=on interval_ms=20")
            .env("STANDIN_LAG", "120")
            .env("STANDIN_ASIDE", aside)
            .run(&format!("nvtx cuda until:6,0 {words} finalized"));
        assert!(finalized(&run) >= 6, "{}", run.stdout);
        let recorded = run.one();
        let (mut losses, mut kernels) = (Vec::new(), 0);
        recorded.each(|record| match record {
            Record::Loss(loss) => losses.push(String::from_utf8_lossy(loss.text).into_owned()),
            Record::Kernel(_) => kernels += 1,
            _ => {}
        });
        let hasty = "device activities that had no times";
        assert!(losses.iter().all(|why| why == hasty), "{losses:?}");
        // The first time, and what still ran when the process ended.
        assert!(losses.len() <= 2, "{words} {losses:?}");
        assert!(kernels >= 20, "{words} {kernels}");
    }
}

/// A program that has waited knows of it before CUPTI does.
#[test]
fn what_cupti_learns_late_is_not_lost() {
    let run = Scene::new()
        .capture("overhead_ppm=200000 detach=on interval_ms=20")
        .env("STANDIN_LAG", "30")
        .env("STANDIN_LATE", "15")
        .run("nvtx cuda until:4,0 loop:50,20,4 sleep:60 finalized");
    assert!(finalized(&run) >= 4, "{}", run.stdout);
    let count = whole(&run).count(|record| matches!(record, Record::Kernel(_)));
    assert!(count >= 80, "{count}");
}

#[test]
fn slices_by_time_are_as_long_as_recording_is_on() {
    let run = Scene::new()
        .capture("overhead_ppm=1000000 detach=on interval_ms=20")
        .env("STANDIN_START", "150")
        .run("cuda until:4,0 layers:8,4,5 finalized");
    let recorded = whole(&run);
    let (mut on, mut lengths) = (0, Vec::new());
    recorded.each(|record| {
        if let Record::Capture(capture) = record {
            if capture.on == 1 {
                on = capture.time;
            } else {
                lengths.push((capture.time - on) / 1_000_000);
            }
        }
    });
    lengths.pop();
    assert!(
        lengths.len() >= 3 && lengths.iter().all(|&length| length >= 100),
        "{lengths:?}"
    );
}

#[test]
fn slices_by_time_detach_too() {
    let run = Scene::new()
        .capture("overhead_ppm=1000000 detach=on interval_ms=20")
        .run("cuda until:2,4 loop:100,5,2 finalized");
    let recorded = whole(&run);
    assert!(finalized(&run) >= 2 && slices(&recorded) >= 3);
    assert!(kernels(&recorded) > 0);
}

#[test]
fn buffers_that_cupti_kept_are_used_again() {
    // Two buffers, one of which is dropped with every detach that nobody makes up for.
    let run = Scene::new()
        .capture("overhead_ppm=50000 detach=on interval_ms=20 buffer_kib=512 memory_mib=1")
        .run("nvtx cuda until:5,0 loop:100,10,2 finalized");
    assert!(finalized(&run) >= 5, "{}", run.stdout);
    let recorded = whole(&run);
    assert!(kernels(&recorded) > 0);
}

#[test]
fn a_cupti_that_keeps_a_buffer_is_asked_for_all_after_a_wait_or_a_while() {
    // Slices so far apart that there is a while between them.
    let scene = || {
        Scene::new()
            .capture("overhead_ppm=3000 detach=on interval_ms=20")
            .env("STANDIN_HOLD", "1")
    };
    let check = |words: &str| {
        let run = scene().run(&format!("nvtx cuda until:2,0 {words} finalized"));
        assert!(finalized(&run) >= 2, "{words} {}", run.stdout);
        let count = kernels(&whole(&run));
        assert!(count > 0 && count.is_multiple_of(20), "{words} {count}");
    };
    // Slices that are far apart take their time.
    std::thread::scope(|scope| {
        scope.spawn(|| check("loop:100,20,3"));
        check("steps:100,20,3");
    });
}

#[test]
fn what_cupti_hands_out_when_it_detaches_is_dropped() {
    let run = Scene::new()
        .capture(DETACH)
        .env("STANDIN_HOLD", "2")
        .run("nvtx cuda until:2,0 loop:100,20,4 finalized");
    assert_eq!(run.status, Some(0));
    let recorded = run.one();
    let mut dropped = 0;
    recorded.each(|record| {
        if let Record::Loss(loss) = record {
            assert!(loss.text.ends_with(b"CUPTI had left"));
            dropped += loss.count;
        }
    });
    assert!(finalized(&run) >= 2);
    assert_eq!(dropped, finalized(&run) as u64);
}

#[test]
fn many_threads_that_launch_meanwhile_are_not_hurt() {
    let run = Scene::new()
        .capture("overhead_ppm=200000 detach=on interval_ms=5")
        .run("nvtx cuda until:5,0 crowd:6,400,30 print:done finalized");
    assert!(run.stdout.starts_with("done\n"));
    assert!(finalized(&run) >= 5);
    let recorded = whole(&run);
    let texts = recorded.texts();
    let names: HashSet<&str> = texts.values().map(String::as_str).collect();
    assert!(names.iter().all(|name| !name.contains("xx")), "{names:?}");
}

#[test]
fn a_process_with_graphs_is_never_left() {
    let node = 5_u64 << 32 | 1;
    let run = Scene::new().capture(DETACH).run(&format!(
        "nvtx cuda node:{node},0 until:0,3 loop:100,20,4 finalized"
    ));
    assert_eq!(finalized(&run), 0);
    let recorded = whole(&run);
    assert!(slices(&recorded) >= 2);
    let kept = kept(&recorded);
    assert!(
        kept.len() == 1 && kept[0].contains("CUDA graphs"),
        "{kept:?}"
    );
}

#[test]
fn a_graph_that_was_made_while_cupti_was_out_is_noticed_when_it_runs() {
    let node = 5_u64 << 32 | 1;
    let run = Scene::new().capture(DETACH).run(&format!(
        "nvtx cuda until:1,0 loop:100,20,4 until:1,2 replay:100,{node},4 finalized"
    ));
    let recorded = whole(&run);
    assert!(finalized(&run) >= 1);
    let kept = kept(&recorded);
    assert!(
        kept.len() == 1 && kept[0].contains("captured while CUPTI was detached"),
        "{kept:?}"
    );
    // From the first slice that held its kernels on.
    let mut order = Vec::new();
    recorded.each(|record| match record {
        Record::Attachment(attachment) => order.push(attachment.on),
        Record::Kept(_) => order.push(2),
        _ => {}
    });
    assert_eq!(order.last(), Some(&2), "{order:?}");
}

/// What was recorded of it has no times, and is not written.
#[test]
fn a_graph_is_noticed_though_its_kernels_are_lost() {
    let node = 5_u64 << 32 | 1;
    let run = Scene::new()
        .capture("overhead_ppm=200000 detach=on interval_ms=20")
        .env("STANDIN_LAG", "3000")
        .env("STANDIN_ASIDE", "1")
        .run(&format!(
            "nvtx cuda until:1,0 loop:100,20,4 until:1,3 replay:100,{node},4 finalized"
        ));
    assert_eq!(run.status, Some(0), "{}", run.stdout);
    let recorded = run.one();
    assert!(losses(&recorded) > 0);
    assert_eq!(kept(&recorded).len(), 1);
}

#[test]
fn a_cupti_that_cannot_detach_or_should_not_stays() {
    for (variable, value, why) in [
        ("STANDIN_VERSION", "22", "12.6"),
        ("STANDIN_FINALIZE", "999", "failed"),
    ] {
        let run = Scene::new()
            .capture(DETACH)
            .env(variable, value)
            .run("nvtx cuda until:0,3 loop:100,20,4 finalized");
        assert_eq!(finalized(&run), 0);
        let recorded = whole(&run);
        let kept = kept(&recorded);
        assert!(kept.len() == 1 && kept[0].contains(why), "{kept:?}");
        assert!(slices(&recorded) >= 2);
        assert!(kernels(&recorded) > 0);
    }
}

#[test]
fn a_tool_that_took_cupti_meanwhile_costs_slices_and_nothing_else() {
    let run = Scene::new()
        .capture(DETACH)
        .env("STANDIN_TAKEN", "2,4")
        .run("nvtx cuda until:2,0 loop:100,20,4 finalized print:done");
    let recorded = whole(&run);
    let mut refused = Vec::new();
    recorded.each(|record| {
        if let Record::Refused(refusal) = record {
            refused.push(refusal.status);
        }
    });
    // Told once, and tried again.
    assert_eq!(refused, [39]);
    assert!(returns(&recorded) >= 1 && finalized(&run) >= 2);
    assert!(kernels(&recorded) > 0);
    assert!(!run.reports().iter().any(|line| line.starts_with("refused")));
}

#[test]
fn the_end_finds_cupti_gone() {
    // By its own end, killed, and after fork, where the child begins anew.
    let words = "nvtx cuda until:1,0 loop:100,20,4";
    let run = Scene::new().capture(DETACH).run(words);
    let recorded = whole(&run);
    assert!(detaches(&recorded) >= 1);

    let run = Scene::new()
        .capture(DETACH)
        .run(&format!("{words} sleep:100 kill"));
    let recorded = run.one();
    assert!(detaches(&recorded) >= 1);
    assert!(kernels(&recorded) > 0);

    let run = Scene::new()
        .capture(DETACH)
        .run(&format!("{words} finalized fork:1 fork:0 loop:50,20,4"));
    assert_eq!(run.status, Some(0));
    assert!(finalized(&run) >= 1);
    assert_eq!(run.files().len(), 2);
    for file in run.files() {
        assert_eq!((file.end, file.kinds()["ended"]), (End::Whole, 1));
    }
}

#[test]
fn a_range_that_comes_back_in_a_slice_finds_cupti_there() {
    let run = Scene::new()
        .capture("overhead_ppm=100000 detach=on interval_ms=20")
        .env("LLMPROF_NVTX_RANGE", "part")
        .run("nvtx cuda until:4,0 parts:100,20,5 finalized");
    let recorded = whole(&run);
    assert!(finalized(&run) >= 4, "{}", run.stdout);
    // A slice is a step, which has two parts.
    let (parts, returns) = (slices(&recorded), returns(&recorded));
    assert!(2 * returns <= parts + 1, "{returns} for {parts}");
    assert!(kernels(&recorded) > 0);
}

#[test]
fn recording_that_is_ended_outside_of_its_range_leaves_nothing_behind() {
    let run = Scene::new()
        .capture("detach=on interval_ms=20")
        .env("LLMPROF_NVTX_RANGE", "decode")
        .hanging_up()
        .run(
            "nvtx cuda push:decode kernels:40 pop leave:20000 push:decode kernels:5 pop finalized",
        );
    assert_eq!(finalized(&run), 1);
    assert_eq!(kernels(&whole(&run)), 40);
}

#[test]
fn recording_that_was_ended_leaves_nothing_behind() {
    // Nobody listens any more: the same as an order to stop.
    let run = Scene::new()
        .capture("detach=on interval_ms=20")
        .hanging_up()
        .run("nvtx cuda kernels:40 leave:20000 kernels:5 finalized");
    assert_eq!(finalized(&run), 1);
    let recorded = whole(&run);
    assert_eq!(kernels(&recorded), 40);
}

/// Where CUPTI must stay, recording ends all the same.
#[test]
fn recording_that_was_ended_takes_no_kernels_of_graphs() {
    let (node, copy) = (5_u64 << 32 | 1, 6_u64 << 32 | 1);
    let run = Scene::new()
        .capture("detach=on interval_ms=20")
        .hanging_up()
        .run(&format!(
            "nvtx cuda node:{node},0 node:{copy},{node} replay:4,{copy},5 context replay:200,{copy},5 finalized"
        ));
    let recorded = whole(&run);
    let (mut stopped, mut last) = (i64::MAX, 0);
    recorded.each(|record| match record {
        Record::Capture(capture) if capture.on == 0 => stopped = capture.time,
        Record::Kernel(kernel) => last = last.max(kernel.start),
        _ => {}
    });
    assert_eq!(finalized(&run), 0);
    assert!(last > 0 && stopped < i64::MAX, "{last} {stopped}");
    // One may be on its way.
    assert!(last < stopped + 4_000_000, "{last} {stopped}");
}

/// A slice that began and ended between two checkpoints is in the file by the next one.
#[test]
fn what_slices_hold_is_written_where_cupti_stays() {
    let run = Scene::new()
        .capture("overhead_ppm=20000 detach=off interval_ms=100")
        .run("nvtx cuda until:0,3 steps:10,20,4 until:0,0 steps:4,20,4 sleep:400 kill");
    let recorded = run.one();
    let (mut on, mut slices, mut starts) = (None, Vec::new(), Vec::new());
    recorded.each(|record| match record {
        Record::Capture(capture) if capture.on == 1 => on = Some(capture.time),
        Record::Capture(capture) => slices.extend(on.take().map(|on| on..capture.time)),
        Record::Kernel(kernel) => starts.push(kernel.start),
        _ => {}
    });
    // How many steps a slice holds depends on the machine. Kernels start soon after their launch, within the slice or behind it.
    assert!(slices.len() >= 2, "{slices:?}");
    let last = slices.last().expect("two or more").start;
    assert!(
        starts.iter().any(|&start| start > last),
        "{last} {starts:?}"
    );
}
