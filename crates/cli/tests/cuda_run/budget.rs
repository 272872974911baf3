//! Runs whose recording keeps within a budget.

use serde_json::Value;

use super::stand_in_cuda::{Ended, Machine};
use super::{NO_PROFILER, first_plain_request, plain_wall};

/// Steps of decode in the runs within a budget.
const STEPS: i64 = 80;

/// A phase of which slices were recorded is judged on whole steps, which every file says; the answer is how many.
fn assert_steps_stand_for_the_rest(ended: &Ended) -> i64 {
    let decode = ended.phase("decode");
    let steps = decode["traced"]["step_ns"].as_array().unwrap();
    let recorded = steps.len() as i64;
    assert!((1..STEPS).contains(&recorded), "{recorded}");
    assert!(
        decode["missing"].as_array().unwrap().is_empty(),
        "{}",
        decode["missing"]
    );
    let unmatched = decode["unmatched"].to_string();
    assert!(!unmatched.contains("ran_again"), "{unmatched}");
    assert_eq!(ended.issues("cupti.slices").len(), 1);
    let times = first_plain_request(ended);
    let last = times.last().unwrap();
    let plain = (last - times[0]) * recorded / STEPS;
    let reported = plain_wall(ended, "decode");
    assert!((reported - plain).abs() <= 1, "{reported} and {plain}");
    let time: i64 = steps.iter().map(|step| step.as_i64().unwrap()).sum();
    let part_of = |name: &str| decode["waterfall"][name].as_i64().unwrap();
    assert_eq!(
        part_of("wall_ns"),
        time,
        "no time outside of whole steps counts"
    );
    assert_eq!(part_of("idle_ns"), time - part_of("busy_ns"));
    let causes = decode["waterfall"]["idle"].as_array().unwrap();
    // On a busy host the gaps are so long that nothing shows what the host did in them.
    let cause = causes[0]["name"].as_str().unwrap();
    assert!(["host_busy", "unknown"].contains(&cause), "{cause}");

    let metrics = ended.json("metrics.json");
    let phases = metrics["phases"].as_array().unwrap();
    let mut reported = phases.iter().filter(|phase| phase["phase"] == "decode");
    let part = &reported.next().unwrap()["recorded"];
    assert_eq!(
        (&part["steps"], &part["of_steps"]),
        (&Value::from(recorded), &Value::from(STEPS))
    );
    assert_eq!(part["time_ns"], time);
    let words = format!("sampled {recorded} of {STEPS} steps");
    assert!(ended.read("report.md").contains(&words), "{words}");
    // A page keeps a number and its unit on one line.
    let page = ended.read("report.html").replace('\u{a0}', " ");
    assert!(page.contains(&words), "{words}");
    assert!(ended.stdout().contains(&words), "{}", ended.stdout());
    // What cannot be judged is named.
    let has_prefill = phases.iter().any(|phase| phase["phase"] == "prefill");
    let named = ended.issues("run.unrecorded_phase");
    assert_eq!(named.len(), usize::from(!has_prefill), "{named:?}");
    let few = ended.issues("run.few_steps");
    assert_eq!(few.len(), usize::from(recorded < 4), "{few:?}");
    recorded
}

/// A run of many steps within 5 % that ended in order.
fn within_budget(machine: Machine, detach: &str) -> Ended {
    let ended = machine.run(&[
        NO_PROFILER,
        "runtime.repeats=1",
        "infer.max_new_tokens=81",
        "pipeline.cupti.overhead=0.05",
        detach,
    ]);
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr());
    ended
}

#[test]
#[ignore = "live: needs torch built for CUDA"]
fn within_a_budget_whole_steps_stand_for_the_rest() {
    let machine = Machine::new();
    let ended = within_budget(machine, "pipeline.cupti.detach=false");
    assert_eq!(ended.issues("record.cupti_stays").len(), 1);
    let recorded = assert_steps_stand_for_the_rest(&ended);
    // Warm-ups, whose ranges were recorded too, count nowhere; the interval holds what the device was given.
    let scaled = ended.json("slices.json");
    assert_eq!(
        (&scaled["step"], &scaled["units"]),
        (&Value::from("decode_step"), &Value::from(STEPS))
    );
    // The first one may be left out of the phase as first use.
    let sampled = scaled["sampled"].as_i64().unwrap();
    let decode = ended.phase("decode");
    let instances = decode["traced"]["instances"].as_array().unwrap();
    assert_eq!(sampled, instances.len() as i64);
    assert!((recorded..=recorded + 1).contains(&sampled), "{sampled}");
    let figure = |name: &str| scaled["kernels"][name].as_f64().unwrap();
    let given = ended.workers()[1].batches.last().unwrap().step_kernels as f64;
    assert!(
        figure("low") <= given && given <= figure("high"),
        "{given} in {}",
        scaled["kernels"]
    );
    assert_eq!(ended.json("metrics.json")["slices"], scaled);
    let words = format!("{sampled} of {STEPS} ranges `decode_step` recorded whole");
    assert!(ended.read("report.md").contains(&words), "{words}");
    // What was recorded gives the same again.
    let before = (ended.read("analysis.json"), ended.read("slices.json"));
    let output = ended.llmprof(&["analyze", "out"]);
    assert!(output.status.success());
    assert_eq!(
        (ended.read("analysis.json"), ended.read("slices.json")),
        before
    );
}

#[test]
#[ignore = "live: needs torch built for CUDA"]
fn cupti_may_detach_between_slices_of_a_run() {
    let machine = Machine::new();
    let ended = within_budget(machine, "pipeline.cupti.detach=true");
    assert!(ended.issues("record.cupti_stays").is_empty());
    assert!(ended.issues("cupti.kept").is_empty());
    assert_steps_stand_for_the_rest(&ended);
}

#[test]
#[ignore = "live: needs torch built for CUDA"]
fn a_budget_that_allows_for_no_slice_leaves_the_plain_measurements() {
    let machine = Machine::new();
    let ended = machine.run(&[
        NO_PROFILER,
        "runtime.repeats=1",
        "pipeline.cupti.overhead=0.000001",
    ]);
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr());
    let issues = ended.issues("slices.none");
    assert_eq!(issues.len(), 1);
    let hint = llmprof_report::text::issue_table::MORE_SLICES;
    assert!(hint.contains("pipeline.cupti.overhead"), "{hint}");
    assert!(ended.read("report.md").contains(hint) && ended.stderr().contains(hint));
    assert!(ended.issues("cupti.slices").is_empty());
    assert!(!ended.path("slices.json").exists());
    let metrics = ended.json("metrics.json");
    assert!(metrics["aggregates"]["tpot_ms"]["mean"].as_f64().unwrap() > 0.0);
    assert!(metrics["phases"].as_array().unwrap().is_empty());
}
