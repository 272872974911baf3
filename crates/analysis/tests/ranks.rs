//! Several ranks: a published job of eight, and eight that are made of one with clock offsets and delays that are known.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use llmprof_analysis::findings::Conclusion;
use llmprof_analysis::ranks::{MatchedBy, RankRow, RanksAnalysis, rank_lanes};
use llmprof_analysis::{Analysis, analyze};
use llmprof_record::import::{self, Limits, Profile};
use llmprof_record::run::RunRecord;
use llmprof_record::trace::{
    Collective, Host, HostKind, Kernel, Range, RangeKind, Trace, TraceBuilder,
};
use llmprof_units::Nanos;
use serde_json::json;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/public/ranks_dlrm")
}

fn read(rank: usize) -> Trace {
    let file = fixtures().join(format!("rank{rank}.json.gz"));
    match import::import(&file, &Limits::default())
        .expect("a profile that can be read")
        .1
    {
        Profile::Trace(trace) => *trace,
        _ => panic!("rank {rank} is a trace"),
    }
}

fn recorded(traces: Vec<Trace>) -> RunRecord {
    let mut record = RunRecord::default();
    for trace in traces {
        let profile = Profile::Trace(Box::new(trace));
        record
            .add_profile("trace.json", profile)
            .expect("each has another rank");
    }
    record
}

fn analyzed(record: &RunRecord) -> (Analysis, RanksAnalysis) {
    let mut analysis = analyze(record, None).expect("without a workload nothing is refused");
    let ranks = analysis.ranks.take().expect("several ranks");
    (analysis, ranks)
}

fn parts(row: &RankRow) -> i64 {
    let parts = [
        row.compute_ns,
        row.exposed_transfer_ns,
        row.exposed_waiting_ns,
        row.exposed_unmatched_ns,
        row.copies_ns,
        row.idle_ns,
    ];
    parts.iter().map(|part| part.0).sum()
}

#[test]
fn a_published_job_of_eight_ranks() {
    let record = recorded((0..8).rev().map(read).collect());
    let (whole, found) = analyzed(&record);
    // Its first rank waits for the others: overlap would hide nothing.
    let waiting = whole
        .findings
        .iter()
        .find_map(|finding| match finding.conclusion {
            Some(Conclusion::Communication { waiting_share, .. }) => waiting_share,
            _ => None,
        });
    let first = &found.ranks[0];
    let share = first.exposed_waiting_ns.0 as f64 / first.exposed_communication().0 as f64;
    assert_eq!(waiting, Some(share));
    let is_told = whole
        .issues
        .iter()
        .any(|issue| issue.code.as_str() == "ranks.waiting");
    assert_eq!(is_told, share > 0.5, "{share}");
    assert_eq!(
        found.ranks.iter().map(|row| row.rank).collect::<Vec<_>>(),
        (0..8).collect::<Vec<_>>()
    );
    assert_eq!((found.matched, found.unmatched), (8, 0));
    assert_eq!(found.matched_by, Some(MatchedBy::Order));
    assert_eq!(found.world_size, Some(8));
    // Python, over all events with a length: the last rank begins to be recorded at …428551 µs, the first ends at …441163 µs. Clocks are
    // those of one machine.
    assert!(
        (found.span_ns.0 - 12_612_000).abs() < 10_000,
        "{}",
        found.span_ns
    );
    for row in &found.ranks {
        assert!(
            row.clock.offset_ns.0.abs() < 5_000,
            "rank {}: {}",
            row.rank,
            row.clock.offset_ns
        );
        assert!(
            row.clock.spread_ns.0 < 3_000,
            "rank {}: {}",
            row.rank,
            row.clock.spread_ns
        );
        assert_eq!(parts(row), found.span_ns.0, "rank {}", row.rank);
        assert_eq!(row.busy_ns.0 + row.idle_ns.0, found.span_ns.0);
    }
    // Python, µs by kernel: skews of the all-to-alls of 7624, 1101, 168, 125, 534; transfers of 11, 8, 8, 8, 11.
    let most = found
        .collectives
        .iter()
        .map(|row| row.skew_max_ns.0)
        .max()
        .unwrap();
    assert!((most - 7_624_000).abs() < 10_000, "{most}");
    let large = found
        .collectives
        .iter()
        .find(|row| row.bytes.is_some_and(|bytes| bytes.0 == 4 * 394_241))
        .expect("the largest all-reduce");
    assert!(
        (large.transfer_median_ns.0 - 87_000).abs() < 8_000,
        "{}",
        large.transfer_median_ns
    );
    let rate = large.bus_bytes_per_s.expect("a size and a time").0;
    let expected = 2.0 * 7.0 / 8.0 * 4.0 * 394_241.0 / large.transfer_median_ns.seconds();
    assert!((rate / expected - 1.0).abs() < 1e-9, "{rate}");
    // Rank 7 entered the recorded step 7.5 ms after the first: what it is blamed for is the rest.
    let apart = found.entered_apart_ns.0;
    assert!((7_300_000..7_700_000).contains(&apart), "{apart}");
    let slowest = found.slowest.expect("they waited");
    assert_eq!(slowest.rank, 7);
    let caused = slowest.caused_waiting_ns.0;
    assert!((1_200_000..1_700_000).contains(&caused), "{caused}");
}

/// The parts of a rank are those that the analysis of its trace alone finds, which counts in another way.
#[test]
fn parts_are_those_of_the_single_analysis() {
    let record = recorded((0..2).map(read).collect());
    let lanes = rank_lanes(&record).expect("two ranks");
    for (index, lane) in lanes.lanes.iter().enumerate() {
        let alone = RunRecord {
            traces: vec![record.traces[index].clone()],
            ..RunRecord::default()
        };
        let analysis = analyze(&alone, None).expect("without a workload nothing is refused");
        let timeline = analysis.timeline.expect("a trace");
        let mut intervals: Vec<(i64, i64)> = lane
            .pieces
            .iter()
            .map(|piece| (piece.start_ns.0, piece.end_ns.0))
            .collect();
        intervals.sort_unstable();
        let mut busy = 0;
        let mut end = i64::MIN;
        for (from, to) in intervals {
            busy += (to - from.max(end)).max(0);
            end = end.max(to);
        }
        assert_eq!(Nanos(busy), timeline.totals.busy_ns, "rank {}", lane.rank);
    }
}

/// Clock offset of each made rank, ns, and how much later than planned it comes to each of the eight collectives.
const OFFSETS: [i64; 8] = [
    0,
    1_500_000,
    -2_000_000,
    37,
    -450_000_000,
    12_345,
    7,
    3_000_000_000,
];

fn delay(rank: usize, collective: usize) -> i64 {
    match (rank, collective) {
        (5, 2) => 400_000,
        (5, 6) => 900_000,
        (3, 4) => 150_000,
        // All come a little late, each another bit.
        _ => (rank as i64 * 7 + collective as i64 * 3) % 11 * 100,
    }
}

/// Rank 0 as it would have run on another rank: the collectives begin when it comes to them and end when all have come.
fn made(source: &Trace, rank: usize) -> Trace {
    let mut builder = TraceBuilder::default();
    let is_collective = |row: usize| source.text(source.kernels.name[row]).contains("nccl");
    let mut starts: Vec<usize> = (0..source.kernels.len())
        .filter(|&row| is_collective(row))
        .collect();
    starts.sort_by_key(|&row| source.kernels.start[row]);
    let begun: Vec<i64> = starts
        .iter()
        .map(|&row| source.kernels.start[row])
        .collect();
    let late = |collective: usize| (0..8).map(|rank| delay(rank, collective)).max().unwrap();
    // What comes after a collective is late by all that was waited for before.
    let shift = |time: i64| {
        (0..begun.len())
            .filter(|&k| begun[k] < time)
            .map(late)
            .sum::<i64>()
            + OFFSETS[rank]
    };
    let slow = builder.intern("slow_kernel(float*)");
    for row in 0..source.kernels.len() {
        let mut kernel = source.kernels.row(row);
        kernel.name = builder.intern(source.text(kernel.name));
        kernel.mangled = builder.intern("");
        let number = starts.iter().position(|&start| start == row);
        let moved = shift(kernel.start);
        if let Some(number) = number {
            let own = delay(rank, number);
            builder.kernels.push(Kernel {
                start: kernel.start + moved,
                duration: own,
                name: slow,
                correlation: 0,
                stream: 7,
                ..kernel
            });
            kernel.duration = 50_000 + late(number) - own;
            kernel.start += own;
        }
        kernel.start += moved;
        builder.kernels.push(kernel);
    }
    for row in 0..source.hosts.len() {
        let host = source.hosts.row(row);
        let thread = builder.thread(1, i64::from(host.thread.0));
        let name = builder.intern(source.text(host.name));
        builder.hosts.push(Host {
            start: host.start + shift(host.start),
            name,
            thread,
            inputs: llmprof_record::trace::InputsId::NONE,
            ..host
        });
    }
    for row in 0..source.collectives.len() {
        let collective = source.collectives.row(row);
        let thread = builder.thread(1, i64::from(collective.thread.0));
        let [name, dtype] =
            [collective.name, collective.dtype].map(|id| builder.intern(source.text(id)));
        builder.collectives.push(Collective {
            start: collective.start + shift(collective.start),
            name,
            dtype,
            thread,
            process_group: llmprof_record::trace::StrId::EMPTY,
            group_ranks: llmprof_record::trace::StrId::EMPTY,
            ..collective
        });
    }
    builder
        .metadata
        .insert("distributed_rank".to_owned(), rank.to_string());
    builder.finish()
}

#[test]
fn offsets_and_delays_of_made_ranks_are_recovered() {
    let source = read(0);
    let record = recorded((0..8).map(|rank| made(&source, rank)).collect());
    let (_, found) = analyzed(&record);
    assert_eq!((found.matched, found.unmatched), (8, 0));
    for (rank, row) in found.ranks.iter().enumerate() {
        assert_eq!(row.clock.offset_ns.0, OFFSETS[rank], "rank {rank}");
        assert_eq!(row.clock.spread_ns.0, 0);
        assert_eq!(parts(row), found.span_ns.0);
        let others = |collective: usize| {
            let last = (0..8).max_by_key(|&rank| delay(rank, collective)).unwrap();
            let most = delay(last, collective);
            let waited = (0..8)
                .map(|rank| most - delay(rank, collective))
                .sum::<i64>();
            if last == rank { waited / 7 } else { 0 }
        };
        let caused: i64 = (0..8).map(others).sum();
        assert_eq!(row.caused_waiting_ns.0, caused, "rank {rank}");
    }
    let skew: i64 = found
        .collectives
        .iter()
        .map(|row| row.skew_total_ns.0)
        .sum();
    let expected: i64 = (0..8)
        .map(|collective| {
            let delays = || (0..8).map(|rank| delay(rank, collective));
            delays().max().unwrap() - delays().min().unwrap()
        })
        .sum();
    assert_eq!(skew, expected);
    assert!(
        found
            .collectives
            .iter()
            .all(|row| row.transfer_median_ns.0 == 50_000)
    );
    let slowest = found.slowest.expect("they waited");
    assert_eq!(slowest.rank, 5);
    let first = &slowest.differences[0];
    assert_eq!(first.name.as_deref(), Some("slow_kernel(float*)"));
    assert!(
        first.time_ns.0 >= 1_300_000 && first.others_ns.0 < 10_000,
        "{first:?}"
    );
}

/// Ranks that were recorded a few collectives apart are laid beside each other by the ends, which differ by a constant.
#[test]
fn a_rank_that_was_recorded_later_is_matched_where_it_fits() {
    let make = |rank: u32, from: usize| {
        let mut builder = TraceBuilder::default();
        let name = builder.intern("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(int)");
        let mut time = 0;
        for number in 0..40_usize {
            time += 100_000 + (number as i64 * 7919 % 31) * 1000;
            if number >= from && number < from + 30 {
                builder.kernels.push(Kernel {
                    start: time - 20_000 + i64::from(rank) * 77_000_000,
                    duration: 20_000,
                    name,
                    ..Kernel::default()
                });
            }
        }
        builder
            .metadata
            .insert("distributed_rank".to_owned(), rank.to_string());
        builder.finish()
    };
    let (_, found) = analyzed(&recorded(vec![make(0, 0), make(1, 4)]));
    assert_eq!((found.matched, found.unmatched), (26, 8));
    assert_eq!(found.ranks[1].clock.offset_ns.0, 77_000_000);
}

/// Steps of one length on a rank that was recorded `late` steps later, on a clock with `offset` ns: two all-reduces a step, whose ends
/// are seen to a few µs.
fn regular(rank: u32, late: u64, has_steps: bool, offset: i64) -> Trace {
    let mut builder = TraceBuilder::default();
    let name = builder.intern("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(int)");
    let thread = builder.thread(1, 1);
    for step in late..late + 8 {
        let start = step as i64 * 1_000_000 + offset;
        if has_steps {
            let step_name = builder.intern(&format!("ProfilerStep#{step}"));
            builder.ranges.push(Range {
                start,
                duration: 1_000_000,
                name: step_name,
                thread,
                kind: RangeKind::ANNOTATION,
                ..Range::default()
            });
        }
        for place in [1, 2_i64] {
            let seen = (step as i64 * 7 + place * 3 + i64::from(rank) * 5) % 9 * 500;
            let correlation = (step * 2) as u32 + place as u32;
            let begin = start + place * 400_000;
            let launch = builder.intern("cudaLaunchKernel");
            builder.hosts.push(Host {
                start: begin - 10_000,
                duration: 5_000,
                name: launch,
                thread,
                kind: HostKind::RUNTIME,
                correlation,
                ..Host::default()
            });
            builder.kernels.push(Kernel {
                start: begin,
                duration: 20_000 + seen,
                name,
                correlation,
                ..Kernel::default()
            });
        }
    }
    builder
        .metadata
        .insert("distributed_rank".to_owned(), rank.to_string());
    builder.finish()
}

/// Moved by two steps the lists agree as well: numbers of steps say which is which.
#[test]
fn regular_steps_are_matched_by_their_numbers() {
    let traces = vec![regular(0, 0, true, 0), regular(1, 2, true, 77_000_000)];
    let (_, found) = analyzed(&recorded(traces));
    assert_eq!((found.matched, found.unmatched), (12, 8));
    let offset = found.ranks[1].clock.offset_ns.0;
    assert!((offset - 77_000_000).abs() < 5_000, "{offset}");
}

#[test]
fn regular_steps_without_numbers_are_not_matched() {
    let traces = vec![regular(0, 0, false, 0), regular(1, 2, false, 77_000_000)];
    let (analysis, found) = analyzed(&recorded(traces));
    assert_eq!((found.matched, found.unmatched), (0, 32));
    assert!(found.slowest.is_none());
    let codes = analysis.issues.iter().map(|issue| issue.code.as_str());
    assert!(codes.into_iter().any(|code| code == "ranks.not_aligned"));
}

#[test]
fn sequence_numbers_match_whatever_the_order() {
    let make = |rank: u32, group_size: u32| {
        let mut builder = TraceBuilder::default();
        let name = builder.intern("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(int)");
        let (call, group, dtype) = (
            builder.intern("allreduce"),
            builder.intern("1"),
            builder.intern("BFloat16"),
        );
        for number in 0..6_i64 {
            // Rank 1 lacks the first, as if its profiler had started later.
            if rank == 1 && number == 0 {
                continue;
            }
            let correlation = 10 + number as u32;
            let start = number * 1_000_000 + i64::from(rank) * 5_000;
            builder.kernels.push(Kernel {
                start,
                duration: 100_000 - i64::from(rank) * 5_000,
                name,
                correlation,
                ..Kernel::default()
            });
            builder.collectives.push(Collective {
                start,
                correlation,
                name: call,
                process_group: group,
                group_size,
                sequence: 100 + number,
                in_elements: 1024,
                out_elements: 1024,
                dtype,
                ..Collective::default()
            });
        }
        builder
            .metadata
            .insert("distributed_rank".to_owned(), rank.to_string());
        builder
            .metadata
            .insert("distributed_world_size".to_owned(), "4".to_owned());
        builder.finish()
    };
    let (analysis, found) = analyzed(&recorded(vec![make(0, 4), make(1, 4)]));
    assert_eq!(found.matched_by, Some(MatchedBy::Sequence));
    assert_eq!((found.matched, found.unmatched), (5, 1));
    let [row] = found.collectives.as_slice() else {
        panic!("one kind: {:?}", found.collectives);
    };
    assert_eq!(
        (row.group_size, row.bytes.map(|bytes| bytes.0)),
        (4, Some(2048))
    );
    assert_eq!(
        (row.skew_median_ns.0, row.transfer_median_ns.0),
        (5_000, 95_000)
    );
    assert!(
        analysis
            .issues
            .iter()
            .any(|issue| issue.code.as_str() == "ranks.missing")
    );
    assert!(row.bus_bytes_per_s.is_some());
    // Two ranks of the four are missing: what these two do not wait for each other may be waiting for those.
    let told = analysis
        .findings
        .iter()
        .find_map(|finding| match &finding.conclusion {
            Some(Conclusion::Communication {
                waiting_share,
                rank,
                ..
            }) => Some((*waiting_share, *rank)),
            _ => None,
        });
    assert_eq!(told, Some((None, Some((0, 4)))));
    // Without the size of the group nothing says how many took part.
    let (_, found) = analyzed(&recorded(vec![make(0, 0), make(1, 0)]));
    assert_eq!(found.collectives[0].bus_bytes_per_s, None);
}

/// Ranks of two jobs share no collective that ran at the same time.
#[test]
fn what_did_not_run_together_is_not_matched() {
    let make = |rank: u32, names: &[&str]| {
        let mut builder = TraceBuilder::default();
        for (number, name) in names.iter().enumerate() {
            let name = builder.intern(name);
            builder.kernels.push(Kernel {
                start: number as i64 * 1_000,
                duration: 10,
                name,
                ..Kernel::default()
            });
        }
        builder
            .metadata
            .insert("distributed_rank".to_owned(), rank.to_string());
        builder.finish()
    };
    let one = make(0, &["ncclKernel_AllReduce_RING_LL_Sum_float(int)", "gemm"]);
    let other = make(1, &["ncclKernel_Broadcast_RING_LL_Sum_float(int)", "gemm"]);
    let (analysis, found) = analyzed(&recorded(vec![one, other]));
    assert_eq!((found.matched, found.unmatched), (0, 2));
    assert!(found.slowest.is_none());
    assert!(
        analysis
            .issues
            .iter()
            .any(|issue| issue.code.as_str() == "ranks.not_aligned")
    );
}

/// Two ranks on CPUs whose steps take 100 ms; the second sleeps for 50 ms in each. Two buckets of gradients are reduced at once, on
/// threads of their own.
fn on_host(rank: u32) -> Trace {
    let begins = if rank == 0 { 10_000 } else { 60_000 };
    let mut events = Vec::new();
    for step in 0..3 {
        let at = |time: i64| 1_000_000 + 100_000 * step + time;
        let mut event = |category: &str, name: &str, thread: u32, start: i64, end: i64| {
            events.push(json!({
                "ph": "X", "cat": category, "name": name, "pid": 7, "tid": thread,
                "ts": at(start), "dur": end - start, "args": {},
            }));
        };
        let step_name = format!("ProfilerStep#{}", step + 1);
        event("user_annotation", &step_name, 1, 0, 99_000);
        event("cpu_op", "aten::mm", 1, begins - 10_000, begins);
        event("cpu_op", "aten::relu", 1, 70_000, 99_000);
        for bucket in [2, 3] {
            event("user_annotation", "gloo:all_reduce", bucket, begins, 70_000);
        }
    }
    let file = tempfile::NamedTempFile::with_suffix(".json").unwrap();
    let info = json!({ "backend": "gloo", "rank": rank, "world_size": 2 });
    let trace = json!({ "distributedInfo": info, "traceEvents": events });
    std::fs::write(file.path(), trace.to_string()).unwrap();
    match import::import(file.path(), &Limits::default()).unwrap().1 {
        Profile::Trace(trace) => *trace,
        _ => panic!("a trace"),
    }
}

#[test]
fn a_rank_waits_once_at_collectives_that_run_at_once() {
    let (_, ranks) = analyzed(&recorded(vec![on_host(0), on_host(1)]));
    let slowest = ranks.slowest.unwrap();
    assert_eq!((slowest.rank, slowest.last_at), (1, 6));
    assert_eq!(slowest.caused_waiting_ns.0, 3 * 50_000_000);
    let job = ranks.job.unwrap();
    assert!(job.on_host);
    let blamed: Vec<u32> = job.stragglers.iter().map(|one| one.rank).collect();
    assert_eq!(blamed, [1]);
}

/// Two ranks exchange what a pipeline needs: no sequence counts it, and its time is told all the same.
#[test]
fn transfers_of_a_rank_alone_are_in_its_sums() {
    let mut builder = TraceBuilder::default();
    let kernel = builder.intern("ncclDevKernel_SendRecv");
    let [send, all_reduce] = ["send", "all_reduce"].map(|name| builder.intern(name));
    for (number, name) in [send, send, all_reduce, send].into_iter().enumerate() {
        let correlation = number as u32 + 1;
        let start = 1_000 * number as i64;
        builder.kernels.push(Kernel {
            start,
            duration: 500,
            name: kernel,
            correlation,
            ..Kernel::default()
        });
        builder.collectives.push(Collective {
            start,
            name,
            correlation,
            group_size: 2,
            ..Collective::default()
        });
    }
    let analysis = analyze(&recorded(vec![builder.finish()]), None).unwrap();
    let sums = analysis.collectives.iter();
    let sums: Vec<_> = sums
        .map(|row| (row.kind.name(), row.calls, row.time_ns.0))
        .collect();
    assert_eq!(sums, [("send/receive", 3, 1_500), ("all_reduce", 1, 500)]);
}
