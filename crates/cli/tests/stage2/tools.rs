//! What ncu is asked for by what it has, how far it has come, and what the user says of kernels.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use super::{Machine, SECRET, root, said};

/// What the stand-in prints of twelve launches.
fn printed() -> String {
    let names = [
        "indexSelectSmallIndex",
        "nvjet_sm90_tst_64x8_64x16_4x1...",
        "reduce_kernel",
    ];
    let line = |number: usize| {
        let name = names[number % names.len()];
        format!("==PROF== Profiling \"{name}\" - {number} (1/1): 0%....50%....100% - 25 passes\n")
    };
    (0..12).map(line).collect()
}

impl Machine {
    /// `kernels profile` of a program under the stand-in, from the timeline of an H200, with `before` before its words.
    fn profile(&self, before: &[&str], words: &[&str], stream: &str) -> Output {
        let timeline = self.path("run.sqlite");
        if !timeline.exists() {
            let mut exported = self.tool("nsys", &["export", "-o"]);
            assert!(exported.arg(&timeline).status().unwrap().success());
            let mut top = Command::new(env!("CARGO_BIN_EXE_llmprof"));
            top.args(["kernels", "top", "run.sqlite", "-o", "top.yaml"]);
            let top = top.current_dir(self.folder.path()).output().unwrap();
            assert!(top.status.success(), "{}", said(&top));
        }
        let all = [before, &[env!("CARGO_BIN_EXE_llmprof")]].concat();
        let mut command = Command::new(all[0]);
        command.args(&all[1..]).args(["kernels", "profile"]);
        command
            .current_dir(self.folder.path())
            .env("NO_COLOR", "1")
            .env("TERM", "xterm")
            .env("NCU", self.path("ncu"))
            .env("STANDIN_PYTHON", "/bin/true")
            .env("STANDIN_FIXTURES", root().join("fixtures/h200"))
            .env("STANDIN_PRINTS", stream)
            .args(["top.yaml", "--timeline", "run.sqlite", "-o", "ncu-out"])
            .args(words)
            .args(["--", "/bin/true"]);
        command.output().unwrap()
    }

    fn tool(&self, name: &str, words: &[&str]) -> Command {
        let mut command = Command::new(self.path(name));
        command
            .args(words)
            .env("STANDIN_PYTHON", "/bin/true")
            .env("STANDIN_FIXTURES", root().join("fixtures/h200"));
        command
    }

    fn log(&self, stream: &str) -> String {
        fs::read_to_string(self.path(&format!("ncu-out/kernels.{stream}.log"))).unwrap()
    }
}

/// The number before a word.
fn number_before(text: &str, word: &str) -> u64 {
    let words: Vec<&str> = text.split_whitespace().collect();
    let at = words.iter().position(|one| *one == word);
    let at = at.unwrap_or_else(|| panic!("no {word} in {text}"));
    words[at - 1].parse().unwrap()
}

#[test]
fn ncu_shows_how_far_it_has_come() {
    let machine = Machine::new();
    let terminal = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stage2/terminal.py");
    let terminal = ["python3", terminal.to_str().unwrap()];
    let output = machine.profile(&terminal, &[], "stdout");
    let seen = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{seen}");
    let planned = number_before(&seen, "launches");
    assert!(planned > 12, "{planned}");
    // A bar with the time left, and the last launch before it goes.
    let bar = format!(" 12/{planned}, ");
    let last = seen.split(&bar).nth(1);
    let last = last.unwrap_or_else(|| panic!("no {bar} in {seen}"));
    assert!(last.contains(" left"), "{seen}");
    assert_eq!(machine.log("stdout"), printed(), "the log has all of it");

    // Without a terminal there is no bar; the lines are counted on either stream.
    let output = machine.profile(&[], &[], "stderr");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(
        told.contains("ncu                      12 launches ("),
        "{told}"
    );
    assert!(!told.contains(&format!("/{planned}")), "{told}");
    assert_eq!(machine.log("stderr"), printed(), "the log has all of it");
    assert_eq!(machine.log("stdout"), "");
    // What was missed is said after it.
    let missed = "12 launches profiled, which stand for ";
    let rest = told.split(missed).nth(1);
    let rest = rest.unwrap_or_else(|| panic!("no {missed} in {told}"));
    assert!(rest.contains("listed kernels were not profiled"), "{told}");
}

#[test]
fn names_are_checked_against_the_installed_tool() {
    let machine = Machine::new();
    let words = |args: &[&str]| -> Vec<String> {
        args.iter().map(|arg| format!("--ncu-arg={arg}")).collect()
    };
    let profile = |args: &[&str]| {
        let words = words(args);
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        words.push("--dry-run");
        let output = machine.profile(&[], &words, "stdout");
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            said(&output),
        )
    };
    // A set of older guides has a successor; one that the tool lacks is left out by name, and the tier's stays.
    let (line, _) = profile(&["--set", "default"]);
    assert!(line.contains(" --set basic --section"), "{line}");
    let (line, told) = profile(&[
        "--set",
        "detailed",
        "--metrics",
        "dram__bytes_read.max,l3__hits.sum",
    ]);
    assert!(line.contains(" --set roofline --section"), "{line}");
    assert!(
        !line.contains("detailed") && !line.contains("l3__"),
        "{line}"
    );
    let metrics =
        " --metrics dram__bytes_read.sum,dram__bytes_write.sum,dram__bytes_read.max --replay-mode";
    assert!(line.contains(metrics), "{line}");
    assert!(
        told.contains("Nsight Compute has no set detailed"),
        "{told}"
    );
    assert!(
        told.contains("Nsight Compute has no metric l3__hits.sum"),
        "{told}"
    );

    // In a run likewise, with what llmprof itself asks for.
    let output = machine.run(
        &["pipeline.ncu.args='--set source'"],
        &[("STANDIN_NCU", "blackwell")],
    );
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let line = machine.read("ncu/cmd.txt");
    let metrics = " --metrics dram__bytes_op_read.sum,dram__bytes_op_write.sum --replay-mode";
    assert!(line.contains(metrics), "{line}");
    assert!(line.contains(" --set roofline "), "{line}");
    let replaced = machine.issues("ncu.metric_replaced");
    assert_eq!(replaced.len(), 2);
    assert_eq!(replaced[0]["values"]["by"], "dram__bytes_op_read.sum");
    assert_eq!(machine.issues("ncu.no_set")[0]["values"]["set"], "source");
}

/// A kernel of the report as nsys spells it, and one that nothing launched.
const NOTES: &str = "\
- raw_name: 'void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_tn_align1>(T1::Params)'
  friendly_name: GEMM of the rotary embedding
  source_lib: CUTLASS, FP32
  data_shape: {generic: [[(M, K), (K, N), \"->\", (M, N)]], fixed: null, tiled: null}
  description: Positions times inverse frequencies.
- raw_name: nobody_launches_this
  friendly_name: Nothing
";

#[test]
fn notes_of_a_user_are_joined_and_kept() {
    let machine = Machine::new();
    let key = "pipeline.ncu.kernel_info=kernel-info.yaml";
    // Nothing runs without the file.
    let output = machine.run(&[key], &[]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let words = said(&output);
    assert!(
        words.contains("`pipeline.ncu.kernel_info`: cannot read kernel-info.yaml"),
        "{words}"
    );
    assert!(!machine.path("out").exists() && !machine.path("asked.jsonl").exists());
    let file: PathBuf = machine.path("kernel-info.yaml");
    fs::write(&file, "- friendly_name: without a kernel\n").unwrap();
    let output = machine.run(&[key, "--dry-run"], &[]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(
        said(&output).contains("entry 1 has no `raw_name`"),
        "{}",
        said(&output)
    );
    // A stage that is off reads no notes.
    let output = machine.run(&[key, "pipeline.ncu.enable=false", "--dry-run"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));

    fs::write(&file, NOTES).unwrap();
    let output = machine.run(&[key, "--dry-run"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let kept = "notes on 2 kernels from kernel-info.yaml go into the kernel report";
    assert!(said(&output).contains(kept), "{}", said(&output));
    // Margins of classes are keys too: below them no unit limits a kernel.
    let margins = "pipeline.ncu.classify={low_pct: 0, high_pct: 0, margin_pct: 2}";
    let output = machine.run(&[key, margins], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let rule = &machine.json("analysis.json")["counters"]["rule"];
    assert_eq!(
        (&rule["high_pct"], &rule["margin_pct"]),
        (&0.0.into(), &2.0.into())
    );
    assert!(
        !machine
            .read("ncu/analysis/classification_summary.csv")
            .contains("underfilled")
    );
    fs::remove_dir_all(machine.path("out")).unwrap();

    let output = machine.run(&[key], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(
        machine
            .read("ncu/analysis/classification_summary.csv")
            .contains("underfilled_grid")
    );
    assert!(
        said(&output).contains("ncu 12 launches ("),
        "{}",
        said(&output)
    );
    let printed = machine.read("ncu/worker.stdout.log");
    assert_eq!(printed, self::printed(), "the log has all of it");
    let noted = |report: &str| {
        for words in [
            "GEMM of the rotary embedding: under-filled grid",
            "CUTLASS, FP32",
            "Positions times inverse frequencies.",
            "Shapes: generic (M, K), (K, N) → (M, N).",
            "`kernel-info.yaml` describes 1 of 10 kernels.",
        ] {
            assert!(report.contains(words), "{words}: {report}");
        }
    };
    noted(&machine.read("report.md"));
    assert_eq!(machine.read("ncu/kernel-info.yaml"), NOTES);
    let plan = &machine.json("record.json")["plan"]["pipeline"]["ncu"];
    assert_eq!(plan["kernel_info"], "kernel-info.yaml");
    let table = machine.read("ncu/analysis/metrics_summary.csv");
    assert!(table.contains(",GEMM of the rotary embedding,"), "{table}");
    // The run has a copy: it is reported again without the user's file, from anywhere.
    fs::remove_file(&file).unwrap();
    fs::remove_file(machine.path("out/report.md")).unwrap();
    for command in ["report", "analyze"] {
        let output = Command::new(env!("CARGO_BIN_EXE_llmprof"))
            .args([command, "out"])
            .current_dir(machine.folder.path())
            .env("DATABASE_PASSWORD", SECRET)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        noted(&machine.read("report.md"));
    }
}
