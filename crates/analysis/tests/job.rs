//! A whole job from summaries: what was planted is found, nothing else is, and summaries say what whole traces say.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../xtask/src/make_ranks/job.rs"]
mod made;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use llmprof_analysis::analyze;
use llmprof_analysis::ranks::job::{GroupKind, JobAnalysis, LookAtReason};
use llmprof_analysis::ranks::{RanksAnalysis, summarize};
use llmprof_record::import::{self, Limits, Profile};
use llmprof_record::rank_summary::{RankSummary, SummarySource};
use llmprof_record::run::{RecordedTrace, RunRecord};
use llmprof_record::trace::Trace;
use made::{MadeJob, RankTemplate};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/public/ranks_dlrm")
}

fn read(file: &Path) -> Trace {
    match import::import(file, &Limits::default()).unwrap().1 {
        Profile::Trace(trace) => *trace,
        _ => panic!("{} is a trace", file.display()),
    }
}

/// A summary as a file brings it back.
fn summary(trace: &Trace, rank: u32) -> RankSummary {
    let summary = summarize(trace, rank, SummarySource::default());
    let back = RankSummary::from_bytes(&summary.to_bytes()).unwrap();
    assert_eq!(back, summary);
    back
}

fn analyzed(summaries: Vec<RankSummary>) -> RanksAnalysis {
    let record = RunRecord {
        rank_summaries: summaries,
        ..RunRecord::default()
    };
    analyze(&record, None).unwrap().ranks.unwrap()
}

fn made(job: &MadeJob) -> RanksAnalysis {
    let template = RankTemplate::read(&fixtures().join("rank0.json.gz"));
    let timeline = job.run(&template);
    let folder = tempfile::tempdir().unwrap();
    let summaries = (0..job.ranks).map(|rank| {
        let file = folder.path().join(format!("rank{rank}.json"));
        std::fs::write(&file, timeline.profile(rank)).unwrap();
        summary(&read(&file), rank as u32)
    });
    analyzed(summaries.collect())
}

fn sound() -> MadeJob {
    MadeJob {
        ranks: 32,
        steps: 8,
        operators: 1,
        ..MadeJob::default()
    }
}

#[test]
fn nothing_is_invented_of_a_sound_job() {
    let ranks = made(&sound());
    let job = ranks.job.unwrap();
    assert_eq!(job.stragglers, []);
    assert_eq!(job.slow_links, []);
    assert_eq!(job.look_at, []);
    assert_eq!(job.steps.len(), 8);
    assert!(job.has_marked_steps);
    assert!(job.compute_imbalance < 0.02, "{}", job.compute_imbalance);
    // Four tensor groups and the pairs of 8 collectives a step, and all of them matched.
    assert_eq!(ranks.unmatched, 0);
    for row in &ranks.ranks {
        assert_eq!(row.clock.drift_ppm, 0.0, "rank {}", row.rank);
        assert!(row.clock.spread_ns.0 < 1_000, "rank {}", row.rank);
    }
    let kinds: Vec<(GroupKind, u64, u64)> = job
        .groups
        .iter()
        .map(|set| (set.kind, set.size, set.groups))
        .collect();
    assert_eq!(
        kinds,
        [
            (GroupKind::World, 32, 1),
            (GroupKind::Tensor, 8, 4),
            (GroupKind::Data, 4, 8),
            (GroupKind::Unknown, 2, 16),
        ]
    );
}

fn rank_set(job: &JobAnalysis, is_stable: bool) -> BTreeSet<u32> {
    let found = job.stragglers.iter();
    let found = found.filter(|straggler| straggler.is_stable == is_stable);
    found.map(|straggler| straggler.rank).collect()
}

#[test]
fn planted_faults_are_found_with_their_causes_and_no_others() {
    let planted = MadeJob {
        slow_kernels: vec![(11, 30.0)],
        slow_hosts: vec![(17, 900.0)],
        slow_once: vec![(29, 2, 3_000.0)],
        drifts: vec![(8, 100.0), (9, -80.0)],
        slow_pairs: vec![(22, 2.5)],
        ..sound()
    };
    let ranks = made(&planted);
    for row in &ranks.ranks {
        let expected = match row.rank {
            8 => 100.0,
            9 => -80.0,
            _ => 0.0,
        };
        let drift = row.clock.drift_ppm;
        assert!((drift - expected).abs() < 6.0, "rank {}: {drift}", row.rank);
    }
    let job = ranks.job.unwrap();
    assert_eq!(job.most_computing_rank, Some(11));
    assert_eq!(rank_set(&job, true), BTreeSet::from([11, 17]));
    assert_eq!(rank_set(&job, false), BTreeSet::from([29]));
    for straggler in &job.stragglers {
        let first = straggler.differences.first().unwrap();
        let more = (first.time_ns.0 - first.others_ns.0) as f64;
        let delay = straggler.own_delay_ns.0 as f64;
        match straggler.rank {
            11 => assert!(first.kernel.is_some(), "{straggler:?}"),
            _ => assert_eq!(
                first.idle_cause.as_deref(),
                Some("host_busy"),
                "{straggler:?}"
            ),
        }
        // The time that the others waited is that of the cause.
        assert!((more / delay - 1.0).abs() < 0.2, "{straggler:?}");
    }
    let once = job
        .stragglers
        .iter()
        .find(|found| found.rank == 29)
        .unwrap();
    assert_eq!(once.slow_steps, [12]);
    let links: Vec<&[u32]> = job.slow_links.iter().map(|link| &link.ranks[..]).collect();
    assert_eq!(links, [&[22, 23]]);
    let link = &job.slow_links[0];
    let ratio = link.transfer_ns.0 as f64 / link.others_ns.0 as f64;
    assert!((ratio - 2.5).abs() < 0.1, "{ratio}");
    let first: BTreeSet<u32> = job.look_at.iter().map(|found| found.rank).collect();
    assert_eq!(first, BTreeSet::from([8, 9, 11, 17, 22, 23, 29]));
    assert!(matches!(
        job.look_at[0].reasons[0],
        LookAtReason::Straggler(0)
    ));
}

/// Over 15 steps of 7 ms, 20 ppm are 2 µs, of which ends of collectives show half a microsecond each.
#[test]
fn a_small_drift_of_a_clock_is_found() {
    let planted = MadeJob {
        steps: 15,
        drifts: vec![(8, 20.0), (9, -20.0)],
        ..sound()
    };
    for row in &made(&planted).ranks {
        let drift = row.clock.drift_ppm;
        match row.rank {
            8 => assert!((drift - 20.0).abs() < 6.0, "{drift}"),
            9 => assert!((drift + 20.0).abs() < 6.0, "{drift}"),
            _ => assert_eq!(drift, 0.0, "rank {}", row.rank),
        }
    }
}

/// One step is enough to say which rank computes longest.
#[test]
fn a_rank_that_computes_longer_is_one_to_look_at() {
    let short = MadeJob {
        steps: 1,
        ..sound()
    };
    assert_eq!(made(&short).job.unwrap().look_at, []);
    let uneven = MadeJob {
        slow_kernels: vec![(11, 30.0)],
        ..short
    };
    let job = made(&uneven).job.unwrap();
    assert_eq!(job.steps.len(), 1);
    let found = job.look_at.iter().find(|found| found.rank == 11).unwrap();
    let longer = found.reasons.iter().find_map(|reason| match reason {
        LookAtReason::ComputesLonger(share) => Some(*share),
        _ => None,
    });
    assert!(longer.is_some_and(|share| share > 0.3), "{found:?}");
}

/// Summaries of a published job say of its ranks what its whole traces say.
#[test]
fn summaries_agree_with_whole_traces() {
    let traces: Vec<Trace> = (0..8)
        .map(|rank| read(&fixtures().join(format!("rank{rank}.json.gz"))))
        .collect();
    let joined = analyzed(
        traces
            .iter()
            .enumerate()
            .map(|(rank, trace)| summary(trace, rank as u32))
            .collect(),
    );
    let record = RunRecord {
        traces: traces
            .into_iter()
            .map(|trace| RecordedTrace { pass: None, trace })
            .collect(),
        ..RunRecord::default()
    };
    let whole = analyze(&record, None).unwrap().ranks.unwrap();
    assert_eq!(joined.collectives, whole.collectives);
    assert_eq!(joined.job, whole.job);
    assert_eq!(joined.span_ns, whole.span_ns);
    let span = whole.span_ns.0;
    for (joined, whole) in joined.ranks.iter().zip(&whole.ranks) {
        let parts = [
            (joined.compute_ns, whole.compute_ns),
            (joined.exposed_transfer_ns, whole.exposed_transfer_ns),
            (joined.exposed_waiting_ns, whole.exposed_waiting_ns),
            (joined.copies_ns, whole.copies_ns),
            (joined.idle_ns, whole.idle_ns),
            (joined.caused_waiting_ns, whole.caused_waiting_ns),
        ];
        for (number, (joined, whole)) in parts.iter().enumerate() {
            // What is cut in proportion at the edges of the window is below a fiftieth of it.
            let difference = (joined.0 - whole.0).abs();
            assert!(difference * 50 < span, "part {number}: {joined} {whole}");
        }
    }
}
