//! Telemetry of GPUs in whole runs, from a stand-in for NVIDIA's library with two of them (`crates/capture/tests/nvml`): it counts
//! energy up from reading to reading, or has no counter and takes 249.5 W, and its GPU 1 always throttles.

use std::path::Path;

use serde_json::Value;

use super::{
    NO_PROFILER,
    stand_in_cuda::{Ended, Machine, build},
};

/// Power of the moment of either GPU.
const WATTS: f64 = 249.5;

/// A run with the stand-in, compiled with some of its switches.
fn run(switches: &[&str], overrides: &[&str]) -> Ended {
    let machine = Machine::new();
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capture/tests/nvml/stand_in.c");
    let flags = [build::SHARED, &["-w"], switches].concat();
    let library = build::compile(&source, folder.path().join("libnvidia-ml.so.1"), &flags);
    let overrides = [
        &[NO_PROFILER, "runtime.repeats=2", "pipeline.telemetry.hz=50"],
        overrides,
    ];
    let ended = machine
        .env("LLMPROF_NVML", library.to_str().unwrap())
        .run(&overrides.concat());
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr());
    assert!(ended.issues("telemetry.no_gpu").is_empty());
    ended
}

/// `nvml.csv`: its columns and its rows.
struct Samples {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Samples {
    fn of(ended: &Ended) -> Self {
        let text = ended.read("nvml.csv");
        let mut rows = text
            .lines()
            .map(|line| line.split(',').map(str::to_owned).collect());
        Self {
            columns: rows.next().unwrap(),
            rows: rows.collect(),
        }
    }

    /// One column of one GPU.
    fn column(&self, gpu: &str, name: &str) -> Vec<&str> {
        let place = |name: &str| self.columns.iter().position(|one| one == name).unwrap();
        let (index, wanted) = (place("gpu_index"), place(name));
        let rows = self.rows.iter().filter(|row| row[index] == gpu);
        rows.map(|row| row[wanted].as_str()).collect()
    }

    /// What a GPU's counter had reached at a time, on the line between the rows at which it moved.
    fn joules_at(&self, gpu: &str, time: f64) -> f64 {
        let number = |text: &&str| text.parse::<f64>().unwrap();
        let times = self.column(gpu, "time_ns");
        let counter = self.column(gpu, "energy_j");
        let mut points: Vec<(f64, f64)> = times
            .iter()
            .map(number)
            .zip(counter.iter().map(number))
            .collect();
        points.dedup_by_key(|point| point.1);
        let after = points.iter().position(|point| point.0 >= time).unwrap();
        let ((start, from), (end, to)) = (points[after - 1], points[after]);
        from + (to - from) * (time - start) / (end - start)
    }
}

/// The times of a phase in the passes without capture.
fn spans(ended: &Ended, phase: &str) -> Vec<(f64, f64)> {
    let recorded = ended.json("record.json");
    let passes = recorded["passes"].as_array().unwrap().iter();
    passes
        .filter(|pass| pass["kind"] == "plain")
        .flat_map(|pass| pass["phases"].as_array().unwrap())
        .filter(|span| span["phase"] == phase)
        .map(|span| {
            let time = |name: &str| span[name].as_f64().unwrap();
            (time("start_ns"), time("end_ns"))
        })
        .collect()
}

/// Energy of a phase is what the GPUs took, with what the processors took on machines that tell.
fn assert_energy(ended: &Ended, phase: &str, expected: f64, basis: &str) {
    let analysis = ended.json("analysis.json");
    let mut phases = analysis["telemetry"]["phases"].as_array().unwrap().iter();
    let energy = &phases.find(|one| one["phase"] == phase).unwrap()["energy"];
    let covers: Vec<&str> = energy["covers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one.as_str().unwrap())
        .collect();
    let joules = energy["joules"].as_f64().unwrap();
    let gpus = covers.strip_prefix(&["processors"]);
    assert_eq!(gpus.unwrap_or(&covers), ["GPU 0", "GPU 1"]);
    let more = joules - expected;
    let slack = 1e-5 * expected;
    assert!(
        expected > 0.0 && more > -slack,
        "{phase}: {joules} of {expected} J"
    );
    assert!(
        gpus.is_some() || more < slack,
        "{phase}: {joules} of {expected} J"
    );
    assert_eq!(energy["basis"], basis, "{phase}");
    let reported = format!("Energy covers {} ({basis}).", covers.join(", "));
    for file in ["report.md", "report.html"] {
        assert!(ended.read(file).contains(&reported), "{reported} in {file}");
    }
}

/// What findings say of GPUs that throttled.
fn throttled(ended: &Ended) -> Vec<String> {
    let analysis = ended.json("analysis.json");
    let findings = analysis["findings"].as_array().unwrap().iter();
    let titles = findings
        .filter(|one| one["code"] == "throttled")
        .map(|one| llmprof_report::text::finding(&serde_json::from_value(one.clone()).unwrap()));
    let mut titles: Vec<String> = titles.collect();
    titles.sort_unstable();
    titles
}

#[test]
#[ignore = "live: needs torch built for CUDA"]
fn gpus_are_sampled_from_start_to_end_and_their_counters_give_the_energy() {
    let ended = run(&[], &[]);
    let samples = Samples::of(&ended);
    let known = "ts,gpu_util_pct,mem_util_pct,sm_clock_MHz,mem_clock_MHz,power_W,temp_C,mem_used_MiB,mem_total_MiB";
    let known: Vec<&str> = known.split(',').collect();
    assert_eq!(samples.columns[..known.len()], known);
    // The columns that scripts know, of either GPU.
    for (gpu, expected) in [
        ("0", "70,30,1980,3201,250.000,37,2565,143771"),
        ("1", "71,30,1480,3201,350.000,38,2565,143771"),
    ] {
        let values = known[1..].iter().map(|name| samples.column(gpu, name));
        let last: Vec<&str> = values.map(|column| *column.last().unwrap()).collect();
        assert_eq!(last.join(","), expected);
    }
    let held = samples.column("1", "throttle_reasons");
    assert!(
        held.iter()
            .all(|cell| *cell == "software_power_cap|software_thermal")
    );
    for phase in ["prefill", "decode"] {
        let spans = spans(&ended, phase);
        assert_eq!(spans.len(), 2);
        let of = |gpu: &str| -> f64 {
            let joules = |time| samples.joules_at(gpu, time);
            spans
                .iter()
                .map(|&(start, end)| joules(end) - joules(start))
                .sum()
        };
        assert_energy(&ended, phase, of("0") + of("1"), "measured");
    }
    // A comparison has the energy of a token of decode, and the device's memory where it is known.
    let compared = ended.llmprof(&["compare", "out", "out", "--json"]);
    let compared: Value = serde_json::from_slice(&compared.stdout).unwrap();
    let mut metrics = compared["metrics"].as_array().unwrap().iter();
    let energy = metrics.find(|one| one["metric"] == "energy_per_token");
    let energy = energy.unwrap_or_else(|| panic!("{compared}"));
    let analysis = ended.json("analysis.json");
    let mut phases = analysis["telemetry"]["phases"].as_array().unwrap().iter();
    let decode = phases.find(|one| one["phase"] == "decode").unwrap();
    let number = |value: &Value| value.as_f64().unwrap();
    let expected = number(&decode["energy"]["joules"]) / number(&decode["tokens"]);
    assert!(
        (number(&energy["a"]) / expected - 1.0).abs() < 1e-9,
        "{energy}"
    );
    assert_eq!(
        (number(&energy["ratio"]), &energy["unit"]),
        (1.0, &Value::from("joules"))
    );
}

#[test]
#[ignore = "live: needs torch built for CUDA"]
fn a_gpu_that_throttles_in_a_phase_is_a_finding() {
    let ended = run(&[], &[]);
    // GPU 0 is idle by its own reason, which is no throttling.
    let expected = ["decode", "prefill"].map(|phase| {
        format!(
            "{phase}: GPU 1 ran below its clock for 100.0 % of the time (software power cap, software thermal), at 1480 MHz on \
             average"
        )
    });
    assert_eq!(throttled(&ended), expected);
    for title in &expected {
        assert!(ended.read("report.md").contains(title), "{title}");
    }
    // A GPU that was not asked for is neither read nor reported of.
    let ended = run(&[], &["pipeline.telemetry.devices=[0]"]);
    assert!(Samples::of(&ended).column("1", "ts").is_empty());
    assert_eq!(throttled(&ended), Vec::<String>::new());
}

#[test]
#[ignore = "live: needs torch built for CUDA"]
fn without_a_counter_power_gives_the_energy_and_the_run_says_so() {
    let ended = run(&["-DNO_ENERGY"], &[]);
    let reported = ended.issues("telemetry.gpu_energy_derived");
    assert_eq!(reported.len(), 2, "one of each GPU");
    let cells = Samples::of(&ended);
    assert!(
        cells
            .column("0", "energy_j")
            .iter()
            .all(|cell| cell.is_empty())
    );
    for phase in ["prefill", "decode"] {
        let time: f64 = spans(&ended, phase)
            .iter()
            .map(|(start, end)| end - start)
            .sum();
        assert_energy(&ended, phase, 2.0 * WATTS * time * 1e-9, "derived");
    }
}
