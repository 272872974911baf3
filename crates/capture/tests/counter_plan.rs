//! Launches chosen from a real timeline.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, path::PathBuf};

use llmprof_capture::profiler::nsight::{CounterPlan, CoverageRequest};
use llmprof_record::{
    counters::ProfiledLaunch,
    import::{self, Limits, Profile},
    trace::Trace,
};

/// Qwen2.5-0.5B on an H200: a warm-up and a batch, 4 tokens each.
fn timeline() -> Trace {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/h200/nsys/qwen05.sqlite.gz"
    );
    match import::import(&PathBuf::from(path), &Limits::default()).unwrap() {
        (_, Profile::Trace(trace)) => *trace,
        (format, _) => panic!("{format}"),
    }
}

#[test]
fn few_launches_stand_for_most_of_decode() {
    let trace = timeline();
    let wanted = CoverageRequest {
        coverage: 0.95,
        range: Some("decode"),
        is_gated: true,
        ..CoverageRequest::default()
    };
    let plan = CounterPlan::from_trace(&trace, &wanted).unwrap();
    assert!(plan.covered >= 0.95, "{}", plan.covered);
    assert_eq!((plan.skip, plan.name_pattern()), (0, None));
    let decode: usize = trace.kernels.len();
    assert!(
        plan.launches.len() * 20 < decode,
        "{} of {decode}",
        plan.launches.len()
    );
    // What launches stand for is all of what is covered, once.
    let time: i64 = plan
        .launches
        .iter()
        .map(|one| one.stands_for.total_ns.0)
        .sum();
    let share = time as f64 / plan.total_ns.0 as f64;
    assert!(
        (share - plan.covered).abs() < 1e-9,
        "{share} {}",
        plan.covered
    );
    // No configuration is profiled more often than `count`.
    let mut of_each: BTreeMap<_, u64> = BTreeMap::new();
    for one in &plan.launches {
        *of_each
            .entry((&one.kernel, one.grid, one.block))
            .or_default() += 1;
    }
    assert!(of_each.len() >= 20, "{}", of_each.len());
}

#[test]
fn names_cover_the_share_with_a_pattern_that_matches_each_alone() {
    let trace = timeline();
    let wanted = CoverageRequest {
        coverage: 0.9,
        range: Some("decode"),
        ..CoverageRequest::default()
    };
    let plan = CounterPlan::from_trace(&trace, &wanted).unwrap();
    assert!(plan.covered >= 0.9, "{}", plan.covered);
    let pattern = plan.name_pattern().unwrap();
    assert!(pattern.starts_with("^(") && pattern.ends_with(")$"));
    let less = CounterPlan::from_trace(
        &trace,
        &CoverageRequest {
            coverage: 0.5,
            ..wanted
        },
    )
    .unwrap();
    assert!(less.launches.len() < plan.launches.len());
}

#[test]
fn profiled_launches_are_told_what_they_stand_for() {
    let trace = timeline();
    let wanted = CoverageRequest {
        coverage: 0.95,
        range: Some("decode"),
        is_gated: true,
        ..CoverageRequest::default()
    };
    let plan = CounterPlan::from_trace(&trace, &wanted).unwrap();
    let profiled = |kernel: &str, grid, block| ProfiledLaunch {
        canonical: kernel.to_owned(),
        grid: Some(grid),
        block: Some(block),
        ..ProfiledLaunch::default()
    };
    let mut launches: Vec<ProfiledLaunch> = plan
        .launches
        .iter()
        .map(|one| profiled(&one.canonical, one.grid, one.block))
        .collect();
    launches.push(profiled("a kernel of another program", [1; 3], [1; 3]));
    assert_eq!(plan.join_launches(&mut launches), 1);
    let time: i64 = launches
        .iter()
        .filter_map(|one| Some(one.stands_for?.total_ns.0))
        .sum();
    assert!((time as f64 / plan.total_ns.0 as f64 - plan.covered).abs() < 1e-9);
}

#[test]
fn a_range_that_never_came_gives_no_plan() {
    let wanted = CoverageRequest {
        coverage: 0.95,
        range: Some("no such range"),
        is_gated: true,
        ..CoverageRequest::default()
    };
    assert_eq!(CounterPlan::from_trace(&timeline(), &wanted), None);
}
