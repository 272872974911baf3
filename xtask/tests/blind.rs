//! Models that were written down before anything was predicted of them, and measured on an H200 afterwards (fixtures/h200/kernels/blind_models.py).
//!
//! Each list was graded, and what it showed was mended, before the next was written down. Nothing is fitted to any of them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeSet, env, fs, io::Read, process::Command};

use flate2::read::GzDecoder;
use llmprof_predict::{EfficiencyProfile, KnownError, PhaseSpreads, predict_traced};
use llmprof_theory::{Phase, Workload, device::Catalog, kernels::TracedModel};
use llmprof_units::stats::percentile;
use serde::Deserialize;
use xtask::{DataSplit, Grade, blind_grades, captured_grades, grades};

const TRACED: &[u8] = include_bytes!("../../fixtures/h200/kernels/blind_traced.json.gz");

#[derive(Deserialize)]
struct Row {
    list: String,
    model: String,
    batch: u64,
    prompt: u64,
    prefill_ns: f64,
    decode_step_ns: f64,
    traced: TracedModel,
}

/// A predicted time and the measured one.
#[derive(Clone, Debug)]
struct Time {
    list: String,
    model: String,
    error: f64,
    covered: bool,
    half_width: f64,
}

#[derive(Debug)]
struct Summary {
    times: usize,
    median: f64,
    p90: f64,
    coverage: f64,
    half_width: f64,
}

fn eager() -> EfficiencyProfile {
    EfficiencyProfile::embedded("hf_eager").expect("it is embedded")
}

fn rows() -> Vec<Row> {
    let mut text = String::new();
    GzDecoder::new(TRACED).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).expect("the fixture has this form")
}

fn traced() -> Vec<Time> {
    let rows = rows();
    let device = Catalog::embedded().by_name("h200").expect("it is embedded");
    let mut all = Vec::new();
    for row in &rows {
        let workload = Workload {
            batch: row.batch,
            prompt: row.prompt,
            new_tokens: 2,
            ..Workload::default()
        };
        let prediction = predict_traced(&row.traced, &device, &eager(), &workload).unwrap();
        for (predicted, interval, measured) in [
            (
                prediction.prefill_gpu_ns,
                prediction.prefill_gpu_interval,
                row.prefill_ns,
            ),
            (
                prediction.decode_step_gpu_ns,
                prediction.decode_step_gpu_interval,
                row.decode_step_ns,
            ),
        ] {
            let interval = interval.expect("a shape near what was measured");
            let (low, high) = (interval.low_ns.0 as f64, interval.high_ns.0 as f64);
            let predicted = predicted.0 as f64;
            all.push(Time {
                list: row.list.clone(),
                model: row.model.clone(),
                error: predicted / measured - 1.0,
                covered: (low..=high).contains(&measured),
                half_width: (high - low) / 2.0 / predicted,
            });
        }
    }
    all
}

fn of_families() -> Vec<Time> {
    let all = blind_grades(&eager()).unwrap();
    // Kernels of gated delta layers, and of attention other than the default, are traced.
    let traced: BTreeSet<String> = rows().into_iter().map(|row| row.model).collect();
    let known = all
        .iter()
        .filter(|grade| !grade.by_common_keys && !traced.contains(&grade.model));
    known
        .map(|grade| Time {
            list: grade.list.clone().expect("blind models are in a list"),
            model: grade.model.clone(),
            error: grade.error(),
            covered: grade.covered(),
            half_width: (grade.high_ns.seconds() - grade.low_ns.seconds())
                / 2.0
                / grade.predicted_ns.seconds(),
        })
        .collect()
}

fn summary(times: &[Time]) -> Summary {
    let sorted = |of: fn(&Time) -> f64| {
        let mut values: Vec<f64> = times.iter().map(of).collect();
        values.sort_unstable_by(f64::total_cmp);
        values
    };
    let errors = sorted(|time| time.error.abs());
    Summary {
        times: times.len(),
        median: percentile(&errors, 0.5),
        p90: percentile(&errors, 0.9),
        coverage: times.iter().filter(|time| time.covered).count() as f64 / times.len() as f64,
        half_width: percentile(&sorted(|time| time.half_width), 0.5),
    }
}

fn of_list(times: &[Time], list: &str) -> Vec<Time> {
    let of = times.iter().filter(|time| time.list == list);
    of.cloned().collect()
}

#[test]
fn blind_models_meet_the_goal() {
    let (families, traced) = (of_families(), traced());
    for list in ["first", "second", "third", "fourth"] {
        let (families, traced) = (of_list(&families, list), of_list(&traced, list));
        for time in families.iter().chain(&traced) {
            println!(
                "{list} {}: {:+.1} %{}",
                time.model,
                time.error * 100.0,
                if time.covered { "" } else { " outside" }
            );
        }
        println!("{list}, families: {:?}", summary(&families));
        println!("{list}, traced: {:?}", summary(&traced));
        let all = summary(&[families, traced].concat());
        println!("{list}: {all:?}");
        assert!(all.times >= 100, "{all:?}");
        assert!(all.median <= 0.05 && all.p90 <= 0.15, "{all:?}");
        assert!((0.85..=0.95).contains(&all.coverage), "{all:?}");
        assert!(all.half_width <= 0.15, "{all:?}");
    }
}

/// The page has this table after a comment with its name; `LLMPROF_UPDATE_DOCS=1` writes it anew.
fn check_table(name: &str, table: &str) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/prediction.md");
    let page = fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(&format!("<!-- {name} -->\n\n")).unwrap();
    let (shown, after) = rest.split_once("\n<!-- end -->").unwrap();
    if env::var_os("LLMPROF_UPDATE_DOCS").is_some() {
        let page = format!("{before}<!-- {name} -->\n\n{table}\n<!-- end -->{after}");
        fs::write(path, page).unwrap();
    } else {
        assert_eq!(shown, table, "run this test with LLMPROF_UPDATE_DOCS=1");
    }
}

fn ranges_table() -> String {
    let mut table = "| software | models | prefill | decode |\n|---|---|---|---|\n".to_owned();
    for name in EfficiencyProfile::names() {
        let profile = EfficiencyProfile::embedded(name).unwrap();
        let Some(spreads) = profile.spreads else {
            continue;
        };
        let families = if profile.computes.is_some() {
            "known families, on a CPU that `llmprof hardware measure` measured"
        } else {
            "known families"
        };
        let rows: [(&str, Option<PhaseSpreads>); 4] = [
            (families, Some(spreads.family)),
            ("read by common keys", spreads.common_keys),
            ("traced with Python", spreads.traced),
            ("from a run of the same model (`--from`)", spreads.from_run),
        ];
        let mut software = format!("`{name}`");
        for (models, range) in rows {
            let Some(range) = range else { continue };
            let [prefill, decode] = [range.prefill, range.decode]
                .map(|spread| format!("{:.3} to {:.3}", spread.low, spread.high));
            table += &format!("| {software} | {models} | {prefill} | {decode} |\n");
            software.clear();
        }
    }
    table
}

fn errors_table() -> String {
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let count = |models: BTreeSet<String>| models.len();
    let is_graded = |grade: &&Grade| grade.split == DataSplit::Grading && !grade.by_common_keys;
    let all = grades(&eager()).unwrap();
    let eager_models = all
        .iter()
        .filter(is_graded)
        .map(|grade| grade.model.clone());
    let known = KnownError::of_profile("hf_eager").unwrap();
    let fourth = [
        of_list(&of_families(), "fourth"),
        of_list(&traced(), "fourth"),
    ]
    .concat();
    let fourth_models = fourth.iter().map(|time| time.model.clone());
    let captured = captured_grades(&EfficiencyProfile::embedded("hf_graph").unwrap()).unwrap();
    let decode = captured.gpu.iter().filter(is_graded);
    let decode = decode.filter(|grade| grade.phase == Phase::Decode);
    let graph = xtask::summarize(&decode.collect::<Vec<_>>()).unwrap();
    let fourth_summary = summary(&fourth);
    let rows = [
        (
            format!(
                "`hf_eager`, {} models of known families that nothing was fitted to, H200",
                count(eager_models.collect())
            ),
            [known.times as f64, known.median, known.p90],
        ),
        (
            format!(
                "`hf_eager`, {} models that were fixed before anything was predicted of them (the last of four lists)",
                count(fourth_models.collect())
            ),
            [
                fourth_summary.times as f64,
                fourth_summary.median,
                fourth_summary.p90,
            ],
        ),
        (
            "`hf_graph`, GPU time of decode steps".to_owned(),
            [graph.times as f64, graph.median, graph.p90],
        ),
    ];
    let mut table =
        "| compared with | times | median error | p90 |\n|---|---|---|---|\n".to_owned();
    for (what, [times, median, p90]) in rows {
        table += &format!(
            "| {what} | {times} | {} | {} |\n",
            percent(median),
            percent(p90)
        );
    }
    // `xtask silicon` computes these from all rows, in minutes; the profile states them to users.
    let stated = EfficiencyProfile::embedded("vllm").unwrap().known_error;
    let (errors, rest) = stated.split_once(" off in the median on ").unwrap();
    let (tpot, ttft) = errors
        .strip_prefix("TPOT ")
        .unwrap()
        .split_once(" and TTFT ")
        .unwrap();
    let (rows, _) = rest.split_once(" public dashboard rows of H200s").unwrap();
    table += &format!(
        "| `vllm`, public dashboards of H200s, TPOT and TTFT of whole engines | {rows} rows | {tpot} and {ttft} | – |\n"
    );
    table
}

/// `cargo run -p xtask -- grade svg` draws it.
#[test]
fn the_picture_of_errors_is_drawn_from_the_grades() {
    let drawn = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["grade", "svg"])
        .output()
        .unwrap();
    let picture = include_str!("../../docs/images/prediction.svg");
    let drawn = String::from_utf8(drawn.stdout).unwrap();
    let mut lines = drawn.lines().zip(picture.lines());
    let differ = lines.find(|(one, other)| one != other);
    assert!(drawn == picture, "{differ:?}");
}

#[test]
fn the_tables_of_the_page_are_those_of_the_data() {
    check_table("ranges", &ranges_table());
    let errors = errors_table();
    check_table("errors", &errors);
    let translated = include_str!("../../docs/zh/concepts/prediction.md");
    for row in errors.lines().skip(2) {
        let cells: Vec<&str> = row.split(" | ").skip(1).collect();
        let cells = cells.join(" | ");
        let cells = cells.replace("rows", "行").replace("and", "和");
        assert!(
            translated.contains(&cells),
            "docs/zh/concepts/prediction.md: {cells}"
        );
    }
}
