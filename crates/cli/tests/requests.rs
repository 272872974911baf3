//! Requests and what is said of them before anything is spent: directories, paths, keys, memory, completions.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use std::{
    fs,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::Path,
    process::Command,
    time::Instant,
};

use common::{json, llmprof, refused, works};

/// A model small enough to run in a blink, compared with a device that need not be measured.
const TINY: [&str; 9] = [
    "model=qwen2_5_0_5b",
    "model.num_hidden_layers=1",
    "model.num_attention_heads=1",
    "model.num_key_value_heads=1",
    "model.hidden_size=16",
    "model.intermediate_size=16",
    "workload.prompt_tokens=4",
    "infer.max_new_tokens=3",
    "runtime.repeats=1",
];

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn below(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn runs_of_one_second_have_a_directory_each() {
    let folder = folder();
    let run = ["run", "runtime=none", "hardware.spec=h200", "model=gpt2"];
    let began = Instant::now();
    for _ in 0..3 {
        works(folder.path(), &run);
    }
    let runs = below(&folder.path().join("runs/baseline/gpt2"));
    assert_eq!(runs.len(), 3, "{runs:?} after {:?}", began.elapsed());
    for name in &runs {
        let micros = name.rsplit('-').next().unwrap();
        assert!(micros.len() == 6 && micros.parse::<u32>().is_ok(), "{name}");
    }
}

#[test]
fn a_directory_that_is_taken_is_reported_with_the_argument_of_the_command() {
    let folder = folder();
    let run = [
        "run",
        "runtime=none",
        "hardware.spec=h200",
        "hydra.run.dir=out",
    ];
    works(folder.path(), &run);
    let said = refused(folder.path(), &run);
    assert!(said.contains("already holds a run"), "{said}");
    assert!(
        said.contains("hydra.run.dir=DIR") && !said.contains("-o"),
        "{said}"
    );

    let trace = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/cpu/torch_modules.json.gz"
    );
    let said = refused(folder.path(), &["import", trace, "-o", "out"]);
    assert!(said.contains("-o DIR") && !said.contains("hydra"), "{said}");
}

/// A processor is calibrated for seconds, and only once nothing else is wrong.
#[test]
fn paths_are_looked_at_before_the_processor_is_measured() {
    let folder = folder();
    fs::create_dir(folder.path().join("empty")).unwrap();
    fs::write(folder.path().join("taken"), "a file").unwrap();
    let cases: [(&[&str], &[&str]); 4] = [
        (
            &["model=local", "model.path=nowhere"],
            &["model.path", "directory nowhere not found"],
        ),
        (
            &["model=local", "model.config=nothing.json"],
            &["model.config", "file nothing.json not found"],
        ),
        (
            &["model.path=empty", "model.load_format=safetensors"],
            &["model.path", "no .safetensors file"],
        ),
        (
            &["hydra.run.dir=taken/run"],
            &["taken", "hydra.run.dir=DIR"],
        ),
    ];
    for (overrides, words) in cases {
        let output = Command::new(env!("CARGO_BIN_EXE_llmprof"))
            .current_dir(folder.path())
            .env("NO_COLOR", "1")
            .env("XDG_CACHE_HOME", folder.path().join("cache"))
            .arg("run")
            .args(overrides)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.split_whitespace().filter(|word| *word != "│");
        let said = said.collect::<Vec<_>>().join(" ");
        assert_eq!(output.status.code(), Some(2), "{overrides:?}: {said}");
        for word in words {
            assert!(said.contains(word), "{overrides:?}: {said}");
        }
        assert!(!said.contains("measured once"), "{overrides:?}: {said}");
    }
    assert!(
        !folder.path().join("cache").exists(),
        "the processor was measured"
    );
    assert!(!folder.path().join("runs").exists());
}

#[test]
fn a_key_without_its_place_is_found() {
    let folder = folder();
    let cases = [
        ("batch_size=4", "did you mean `runtime.batch_size`?"),
        ("max_new_tokens=4", "did you mean `infer.max_new_tokens`?"),
        (
            "workload.promt_tokens=4",
            "did you mean `workload.prompt_tokens`?",
        ),
        ("colour=red", "`llmprof config` prints every key"),
        ("model.rope_scaling=null", "+model.rope_scaling=null"),
        ("hardware.device_index=1", "device=cuda:N"),
        ("+preset=fast", "preset is one of"),
        (
            "workload.prompt_token=4",
            "did you mean `workload.prompt_tokens`?",
        ),
        (
            "workload.prompts=4",
            "did you mean `workload.prompt_tokens`?",
        ),
        ("batch=4", "did you mean `runtime.batch_size`?"),
        ("gpu=h200", "did you mean `hardware.spec=h200`?"),
        ("hardware=h200", "did you mean `hardware.spec=h200`?"),
        ("hardware.device=h200", "did you mean `hardware.spec=h200`?"),
        (
            "hardware=h100",
            "did you mean `hardware.spec=h100_pcie` or `hardware.spec=h100_sxm`?",
        ),
        ("hardware=huge", "hardware.spec=NAME is the device"),
        ("runtime=pytorh", "did you mean `pytorch`?"),
        ("model=Qwen/Qwen3-8B-FP8", "did you mean `qwen3_8b`?"),
        ("model=nope", "--config path/to/config.json"),
        ("runtime.num_new_tokens=4", "infer.max_new_tokens=N"),
    ];
    for (line, advice) in cases {
        let said = refused(folder.path(), &["model", line]);
        assert!(said.contains(advice), "{line}: {said}");
        // Advice that fails is worse than none.
        let added = format!("+{line}");
        if line.starts_with("model.") {
            works(folder.path(), &["model", &added]);
        } else {
            assert!(!said.contains(&added), "{line}: {said}");
        }
    }
}

/// Hydra merges a map into the one that is there and refuses keys that it does not have; with a plus it adds them.
#[test]
fn variables_of_an_environment_are_added() {
    let folder = folder();
    let line = "runtime.env={LLMPROF_A: 1}";
    let words = |line: &'static str| ["model", "runtime=command", "runtime.argv=[ls]", line];
    let said = refused(folder.path(), &words(line));
    assert!(
        said.contains("unknown key `runtime.env.LLMPROF_A`"),
        "{said}"
    );
    assert!(said.contains("+runtime.env={LLMPROF_A: 1}"), "{said}");
    works(folder.path(), &words("+runtime.env={LLMPROF_A: 1}"));
    works(folder.path(), &words("+runtime.env.LLMPROF_A=1"));
}

/// Every key that a message names is one that can be set.
#[test]
fn messages_name_keys_that_exist() {
    let folder = folder();
    let mut named = 0;
    for line in [
        "runtime.batch_size=99999999",
        "workload.prompt_tokens=99999999999",
        "infer.max_new_tokens=99999999999",
        "workload.cached_tokens=99999999999",
        "workload.images.count=1",
        "workload.dtype=i8",
        "runtime.batch_size=0",
    ] {
        let said = refused(folder.path(), &["model", line]);
        let words = said.split(|letter: char| letter.is_whitespace() || "`:,;".contains(letter));
        let words = words.map(|word| word.split('=').next().unwrap().trim_end_matches('.'));
        for key in words.filter(|word| word.starts_with("workload.")) {
            works(folder.path(), &["config", "--package", key, "--resolve"]);
            named += 1;
        }
    }
    assert!(named >= 6, "{named} keys were named");
}

#[test]
fn what_does_not_fit_is_refused_before_it_is_loaded() {
    let folder = folder();
    let said = refused(
        folder.path(),
        &[
            "run",
            "runtime.batch_size=1000000",
            "hardware.spec=xeon_8480",
        ],
    );
    assert!(
        said.contains("runtime.batch_size=1000000 does not fit this machine"),
        "{said}"
    );
    assert!(
        said.contains("KV cache") && said.contains("lower runtime.batch_size"),
        "{said}"
    );
    // The cache of a tiny model fits; its logits do not.
    let mut tiny = vec!["run", "hardware.spec=xeon_8480"];
    tiny.extend(TINY);
    tiny.extend(["runtime.batch_size=400000", "workload.prompt_tokens=50"]);
    let said = refused(folder.path(), &tiny);
    assert!(said.contains(" + activations "), "{said}");
    assert!(
        !folder.path().join("runs").exists(),
        "a mistake leaves nothing"
    );
}

#[test]
fn a_gpu_is_no_device_of_a_run_on_the_cpu() {
    let folder = folder();
    for runtime in ["runtime=native", "runtime=pytorch"] {
        let said = refused(folder.path(), &["run", runtime, "hardware.spec=h200"]);
        for part in [
            "h200, but the model runs on this CPU",
            "`llmprof predict hardware.spec=h200` predicts it",
        ] {
            assert!(said.contains(part), "{runtime}: {said}");
        }
        assert!(!folder.path().join("runs").exists());
    }
}

/// Flags of other load generators are led to ours; clap's own guess was `--no-record` for `--ignore-eos`.
#[test]
fn flags_of_vllm_bench_serve_are_led_to_ours() {
    let folder = folder();
    for (flag, hint) in [
        ("--base-url", "the endpoint comes first"),
        ("--ignore-eos", "ignore_eos is the default"),
        ("--num-warmups", "--warmup N"),
        ("--goodput", "--slo"),
    ] {
        let said = refused(folder.path(), &["bench", "localhost:1", flag]);
        assert!(said.contains(hint), "{flag}: {said}");
        assert!(!said.contains("no-record"), "{flag}: {said}");
    }
    let said = refused(folder.path(), &["bench", "localhost:1", "--zzqq"]);
    assert!(!said.contains("tip:"), "{said}");
}

#[test]
fn names_in_mistakes_are_those_that_a_request_takes() {
    let folder = folder();
    for (line, named) in [
        (
            "infer.max_new_tokens=0",
            "`infer.max_new_tokens`: must be at least 1",
        ),
        ("hardware.spec=a100", "a100_sxm_80gb"),
    ] {
        let said = refused(folder.path(), &["model", "model=gpt2", line]);
        assert!(said.contains(named), "{said}");
        assert!(!said.contains("NVIDIA A100"), "{said}");
    }
    let said = refused(folder.path(), &["query", "select 1"]);
    assert!(!said.contains("select 1 does not exist"), "{said}");
}

#[test]
fn measured_peaks_are_not_called_a_limit() {
    let folder = folder();
    for (basis, limit) in [
        ("datasheet", "No software can be faster."),
        (
            "measured\nmeasured_at: \"2026-01-01\"",
            "a run can be faster where it was disturbed.",
        ),
    ] {
        let device = format!(
            "name: plain\ntitle: A CPU\nvendor: none\nkind: cpu\nbasis: {basis}\nsources: {{ sheet: a data sheet }}\n\
             peaks: [{{ dtype: f32, engine: vector, tflops: 1, source: sheet, not_recounted: made up }}]\n\
             memory: {{ bandwidth_gb_s: {{ value: 50, source: sheet }} }}\n"
        );
        fs::write(folder.path().join("plain.yaml"), device).unwrap();
        let asked = [
            "model",
            "model=gpt2",
            "model.dtype=f32",
            "hardware.spec=plain.yaml",
        ];
        let text = works(folder.path(), &asked);
        assert!(text.starts_with("gpt2 on plain: "), "{text}");
        assert!(text.contains(limit), "{basis}: {text}");
    }
}

#[test]
fn a_model_that_does_not_fit_its_device_is_reported() {
    let folder = folder();
    let asked = ["model=llama3_1_70b", "hardware.spec=l4"];
    let mut run = vec!["run", "runtime=none", "hydra.run.dir=run"];
    run.extend(asked);
    let output = common::llmprof(folder.path(), &run);
    assert_eq!(output.status.code(), Some(0));
    let warnings = String::from_utf8(output.stderr).unwrap();
    assert!(
        warnings.contains("model llama3_1_70b does not fit l4")
            && warnings.contains("[memory.does_not_fit]"),
        "{warnings}"
    );
    let manifest = json(&folder.path().join("run/run.json"));
    assert_eq!(manifest["issues"][0]["code"], "memory.does_not_fit");
    let mut paper = vec!["model"];
    paper.extend(asked);
    assert!(works(folder.path(), &paper).contains("does not fit"));
    // One that fits is not reported to be too large.
    let printed = works(
        folder.path(),
        &["run", "runtime=none", "model=gpt2", "hardware.spec=l4"],
    );
    assert!(!printed.contains("does not fit"), "{printed}");
}

#[test]
fn a_project_without_a_primary_config_still_comes_first() {
    let folder = folder();
    let model = folder.path().join("conf/model");
    fs::create_dir_all(&model).unwrap();
    fs::write(
        model.join("mine.yaml"),
        "defaults: [gpt2, _self_]\nname: mine\nn_layer: 2\n",
    )
    .unwrap();
    let workload = folder.path().join("conf/workload");
    fs::create_dir_all(&workload).unwrap();
    let shipped = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../conf/workload/default.yaml"
    );
    let shipped = fs::read_to_string(shipped).unwrap();
    fs::write(
        workload.join("default.yaml"),
        shipped.replace("prompt_tokens: 128", "prompt_tokens: 9"),
    )
    .unwrap();
    let text = works(folder.path(), &["config", "model=mine", "--resolve"]);
    assert!(
        text.contains("name: mine") && text.contains("prompt_tokens: 9"),
        "{text}"
    );
    let path = works(folder.path(), &["config", "--info", "searchpath"]);
    assert!(path.contains("conf"), "{path}");
}

#[test]
#[ignore = "live: another user runs the binary"]
fn a_directory_that_cannot_be_read_is_not_reported_to_be_written() {
    let folder = folder();
    let runs = folder.path().join("runs");
    fs::create_dir(&runs).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&runs, fs::Permissions::from_mode(0o000)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_llmprof"));
    command
        .current_dir(folder.path())
        .env("NO_COLOR", "1")
        .args(["runs", "list"]);
    if fs::read_dir(&runs).is_ok() {
        // The superuser reads everything: somebody else does it.
        command.uid(65534).gid(65534);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("cannot read runs") && said.contains("who may read it"),
        "{said}"
    );
    assert!(!said.contains("written"), "{said}");
    fs::set_permissions(&runs, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn runs_show_has_the_results() {
    let folder = folder();
    let mut run = vec!["run", "hardware.spec=xeon_8480", "hydra.run.dir=runs/one"];
    run.extend(TINY);
    works(folder.path(), &run);
    let shown = works(folder.path(), &["runs", "show"]);
    let metrics = json(&folder.path().join("runs/one/metrics.json"));
    for (name, key) in [("TTFT", "ttft_ms"), ("TPOT", "tpot_ms")] {
        let line = shown.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(
            metrics["aggregates"][key]["mean"].as_f64().unwrap() > 0.0,
            "{line}"
        );
    }
    for phase in ["prefill", "decode"] {
        let is_phase = |line: &str| line.starts_with("phase") && line.contains(phase);
        assert!(shown.lines().any(is_phase), "{phase}: {shown}");
    }
    assert!(shown.contains("file        analysis.json"), "{shown}");
}

/// The script as bash runs it, with its word breaks.
#[test]
fn bash_completes_overrides_and_their_values() {
    let folder = folder();
    let script = works(folder.path(), &["completions", "bash"]);
    let file = folder.path().join("llmprof.bash");
    fs::write(&file, script).unwrap();
    let complete = |line: &str| {
        let line = line.replacen("llmprof", env!("CARGO_BIN_EXE_llmprof"), 1);
        let text = format!(
            "source '{}'; COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; _llmprof; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            file.display()
        );
        let output = Command::new("bash")
            .current_dir(folder.path())
            .args(["--norc", "-c", &text])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        complete("llmprof run runtime.batch"),
        ["runtime.batch_size="]
    );
    assert_eq!(
        complete("llmprof run pipeline.ncu.kernel"),
        ["pipeline.ncu.kernel_info="]
    );
    // What bash has before the last `=` stays.
    assert_eq!(complete("llmprof run hardware.spec=xeon_84"), ["xeon_8480"]);
    assert!(complete("llmprof run model=").contains(&"gpt2".to_owned()));
    assert_eq!(complete("llmprof hardware show xeon_84"), ["xeon_8480"]);
    let commands = complete("llmprof ");
    assert!(commands.contains(&"predict".to_owned()), "{commands:?}");
    assert!(!commands.contains(&"worker".to_owned()), "{commands:?}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        // `bench --workers` is an option, `worker` is a hidden command.
        let script = works(folder.path(), &["completions", shell]).replace("workers", "");
        assert!(
            script.contains("llmprof") && !script.contains("worker"),
            "{shell}"
        );
    }
    // It is there all the same, for llmprof itself.
    let worker = llmprof(folder.path(), &["worker"]);
    assert_eq!(worker.status.code(), Some(2));
}

/// As Hydra does: each text once, and nothing on standard output.
#[test]
fn warnings_of_a_config_are_printed() {
    let folder = folder();
    let conf = folder.path().join("other");
    fs::create_dir(&conf).unwrap();
    fs::write(
        conf.join("config.yaml"),
        "new: 1\nold: ${oc.deprecated:new}\nolder: ${oc.deprecated:new, '$OLD_KEY is gone'}\n",
    )
    .unwrap();
    let args = ["config", "-cp", "other", "-cn", "config", "--cfg", "job"];
    let output = llmprof(folder.path(), &[&args[..], &["--resolve"]].concat());
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "new: 1\nold: 1\nolder: 1\n"
    );
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "warning: 'old' is deprecated. Change your code and config to use 'new'\nwarning: older is gone\n"
    );
    // Nothing resolves them here.
    assert!(llmprof(folder.path(), &args).stderr.is_empty());

    let output = llmprof(
        folder.path(),
        &[
            "model",
            "model=qwen2_5_0_5b",
            "workload.prompt_tokens=${oc.deprecated:infer.max_new_tokens}",
        ],
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let warning = "warning: 'workload.prompt_tokens' is deprecated.";
    assert_eq!(said.matches(warning).count(), 1, "{said}");
}
