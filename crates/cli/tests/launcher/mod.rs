//! Sweeps through submitit's launchers: the script against the plugin's, a recorded `sbatch`, local processes, and a real Slurm.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attach;

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

const TINY: &str = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "tie_word_embeddings": false, "eos_token_id": 2}"#;

const MODEL: &str = "model=local model.config=tiny.json model.dtype=f32 infer.max_new_tokens=4 hardware.spec=xeon_8480 \
                     runtime.repeats=1 runtime.threads=1";

struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("tiny.json"), TINY).unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    fn tool(&self, name: &str, script: &str) {
        let file = self.path().join("bin").join(name);
        fs::write(&file, format!("#!/bin/bash\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// An `sbatch` that runs every task of the array at once, and a `squeue` that says how they went, as Slurm's own printed it.
    fn recorded_slurm(&self) {
        let root = self.path();
        let root = root.display();
        self.tool(
            "sbatch",
            &format!(
                r#"cp "$1" {root}/script; n=$(sed -n 's/^#SBATCH --array=0-\([0-9]*\)%.*/\1/p' "$1"); : > {root}/queue
for i in $(seq 0 ${{n:-0}}); do
  name=77; [ -n "$n" ] && {{ name=77_$i; export SLURM_ARRAY_TASK_ID=$i; }}
  if [ -f {root}/say_$i ]; then state=$(cat {root}/say_$i)
  elif bash "$1" > {root}/log_$i 2>&1; then state=COMPLETED; else state=FAILED; fi
  echo "$name $state" >> {root}/queue
done
echo "Submitted batch job 77""#
            ),
        );
        self.tool("srun", "shift 5; \"$@\"");
        self.tool("squeue", &format!("cat {root}/queue"));
    }

    fn llmprof(&self, args: &[&str]) -> Output {
        let path = std::env::var("PATH").unwrap();
        Command::new(env!("CARGO_BIN_EXE_llmprof"))
            .current_dir(self.path())
            .env("NO_COLOR", "1")
            .env(
                "PATH",
                format!("{}:{path}", self.path().join("bin").display()),
            )
            .args(args)
            .output()
            .unwrap()
    }

    fn sweep(&self, launcher: &str, more: &[&str]) -> Output {
        let launcher = format!("hydra/launcher={launcher}");
        let mut words = vec![
            "run",
            "-m",
            "hydra.sweep.dir=sweep",
            &launcher,
            "workload.prompt_tokens=4,8",
        ];
        words.extend(MODEL.split_whitespace());
        words.extend(more);
        self.llmprof(&words)
    }

    fn csv(&self) -> String {
        fs::read_to_string(self.path().join("sweep/comparison.csv")).unwrap()
    }
}

fn said(output: &Output) -> String {
    format!(
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// For the keys of each case, byte for byte what the plugin hands to sbatch; only the command is ours.
#[test]
fn the_script_is_the_plugins() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/launcher");
    let cases = fs::read_to_string(here.join("cases.txt")).unwrap();
    let mut compared = 0;
    for line in cases.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split('\t');
        let name = words.next().unwrap();
        let swept = words.next().unwrap();
        // Keys of llmprof's config are fixed, so that the sweep is over one of them.
        let values = swept.strip_prefix("+x=").unwrap();
        let values: Vec<String> = values.split(',').map(|value| format!("e{value}")).collect();
        let scene = Scene::new();
        let root = scene.path();
        scene.tool(
            "sbatch",
            &format!(
                "cat \"$1\" > {}/script; echo 'Submitted batch job 77'",
                root.display()
            ),
        );
        scene.tool("squeue", "exit 0");
        let experiment = format!("experiment={}", values.join(","));
        let dir = format!("hydra.sweep.dir={}/sweep", root.display());
        let mut args = vec![
            "run",
            "-m",
            "hydra/launcher=submitit_slurm",
            "hydra.job.name=app",
            "runtime=none",
            &experiment,
            &dir,
        ];
        args.extend(words);
        let output = scene.llmprof(&args);
        let script = fs::read_to_string(root.join("script"))
            .unwrap_or_else(|_| panic!("{name}: {}", said(&output)));
        let command = format!("{} sweep-job", env!("CARGO_BIN_EXE_llmprof"));
        let at = script.find(&command).unwrap_or_else(|| panic!("{script}"));
        let end = at + script[at..].find('\n').unwrap();
        let script = format!("{}COMMAND{}", &script[..at], &script[end..]);
        let script = script.replace(&format!("{}/sweep", root.display()), "SWEEP");
        let expected = fs::read_to_string(here.join(format!("expected_{name}.sh"))).unwrap();
        assert_eq!(script, expected, "{name}");
        assert!(root.join("sweep/.submitit/77/77_submission.sh").is_file());
        compared += 1;
    }
    assert_eq!(compared, 5);
}

#[test]
fn the_keys_are_the_plugins() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/launcher");
    for launcher in ["submitit_local", "submitit_slurm"] {
        let scene = Scene::new();
        let choice = format!("hydra/launcher={launcher}");
        let output = scene.llmprof(&[
            "config",
            &choice,
            "--cfg",
            "hydra",
            "--package",
            "hydra.launcher",
        ]);
        let expected = fs::read_to_string(here.join(format!("expected_{launcher}.yaml"))).unwrap();
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            expected,
            "{launcher}"
        );
    }
}

#[test]
fn a_recorded_sbatch_runs_the_sweep() {
    let scene = Scene::new();
    scene.recorded_slurm();
    let output = scene.sweep("submitit_slurm", &[]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("submitted job 77"));
    let csv = scene.csv();
    assert_eq!(csv.matches(",complete,").count(), 2, "{csv}");
    let sweep = scene.path().join("sweep");
    for file in [
        "multirun.yaml",
        "0/.hydra/config.yaml",
        "1/report.html",
        ".submitit/77/77_submission.sh",
        "comparison.html",
    ] {
        assert!(sweep.join(file).is_file(), "{file}");
    }
    // The same sweep in this process has the same config files.
    let local = Scene::new();
    let output = local.sweep("basic", &[]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let config = |scene: &Scene| {
        fs::read_to_string(scene.path().join("sweep/1/.hydra/config.yaml")).unwrap()
    };
    assert_eq!(config(&scene), config(&local));
}

#[test]
fn a_job_that_ended_early_is_shown_and_run_again() {
    let scene = Scene::new();
    scene.recorded_slurm();
    // The second job ends before it starts.
    fs::write(scene.path().join("say_1"), "PREEMPTED").unwrap();
    let output = scene.sweep("submitit_slurm", &[]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let csv = scene.csv();
    assert!(
        csv.contains(",complete,") && csv.contains(",preempted,"),
        "{csv}"
    );
    assert!(said(&output).contains("--resume"));
    fs::remove_file(scene.path().join("say_1")).unwrap();
    let output = scene.sweep("submitit_slurm", &["--resume"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(scene.csv().matches(",complete,").count(), 2);
    // One job is left: no array.
    let script = fs::read_to_string(scene.path().join("script")).unwrap();
    assert!(
        !script.contains("--array") && script.contains("%j_0_log.out"),
        "{script}"
    );
}

/// A job whose time was up is submitted again as often as the key says. What it left is kept beside it, and without the key it is shown as it
/// ended.
#[test]
fn a_timed_out_job_is_submitted_again() {
    for (more, code) in [(&["hydra.launcher.max_num_timeout=1"][..], 0), (&[], 2)] {
        let scene = Scene::new();
        scene.recorded_slurm();
        let root = scene.path();
        // Of the first submission the second job is what a process leaves that is killed in the middle.
        let sbatch = fs::read_to_string(root.join("bin/sbatch")).unwrap();
        let killed = format!(
            "done\nif [ ! -f {0}/once ]; then touch {0}/once; sed -i 's/\"complete\"/\"running\"/' {0}/sweep/1/run.json; \
             sed -i 's/^77_1 .*/77_1 TIMEOUT/' {0}/queue; fi\n",
            root.display()
        );
        let sbatch = sbatch.replacen("done\n", &killed, 1);
        fs::write(root.join("bin/sbatch"), sbatch).unwrap();
        let output = scene.sweep("submitit_slurm", more);
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        let csv = scene.csv();
        let is_again = code == 0;
        assert_eq!(
            csv.matches(",complete,").count(),
            1 + usize::from(is_again),
            "{csv}"
        );
        assert_eq!(csv.contains(",timeout,"), !is_again, "{csv}");
        assert_eq!(root.join("sweep/1.attempt1").exists(), is_again);
    }
}

/// Ctrl-C on a terminal offers to cancel the jobs too; without one, or where the answer is no, they go on and it says how to end them.
#[test]
fn ctrl_c_offers_to_cancel() {
    for (answer, canceled) in [(Some("y\n"), true), (Some("n\n"), false), (None, false)] {
        let scene = Scene::new();
        let root = scene.path();
        let root = root.display();
        scene.tool("sbatch", "echo 'Submitted batch job 77'");
        scene.tool(
            "squeue",
            &format!("touch {root}/followed; echo '77_0 RUNNING'; echo '77_1 PENDING'"),
        );
        scene.tool("scancel", &format!("echo \"$@\" > {root}/canceled"));
        let words = format!(
            "run -m hydra.sweep.dir=sweep hydra/launcher=submitit_slurm workload.prompt_tokens=4,8 {MODEL}"
        );
        let program = env!("CARGO_BIN_EXE_llmprof");
        let path = std::env::var("PATH").unwrap();
        let mut command = if answer.is_some() {
            // `script` gives the program a terminal.
            let mut script = Command::new("script");
            script.args(["-qefc", &format!("exec {program} {words}"), "/dev/null"]);
            script
        } else {
            let mut plain = Command::new(program);
            plain.args(words.split_whitespace());
            plain
        };
        let mut child = command
            .current_dir(scene.path())
            .env("NO_COLOR", "1")
            .env("PATH", format!("{root}/bin:{path}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let followed = scene.path().join("followed");
        wait_for(|| followed.exists());
        let mut stdin = child.stdin.take().unwrap();
        if let Some(answer) = answer {
            // A terminal makes SIGINT of its Ctrl-C; the answer waits in it until it is read.
            let typed = format!("\u{3}{answer}");
            stdin.write_all(typed.as_bytes()).unwrap();
        } else {
            let pid = child.id().to_string();
            let sent = Command::new("kill").args(["-INT", &pid]).status();
            assert!(sent.unwrap().success());
        }
        let output = child.wait_with_output().unwrap();
        drop(stdin);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(130), "{said}");
        let file = scene.path().join("canceled");
        let asked = fs::read_to_string(file).unwrap_or_default();
        assert_eq!(asked.trim(), if canceled { "77" } else { "" }, "{said}");
        let expected = match answer {
            Some(_) if canceled => "job 77 canceled",
            Some(_) => "cancel job 77 as well?",
            None => "`scancel 77` ends them",
        };
        assert!(said.contains(expected), "{said}");
    }
}

fn wait_for(mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(2);
    while !done() {
        assert!(Instant::now() < deadline, "it did not happen");
        sleep(Duration::from_millis(10));
    }
}

/// One job has a GPU to itself, unless the user says otherwise.
#[test]
fn a_gpu_is_asked_for_where_one_is_used() {
    let scene = Scene::new();
    scene.recorded_slurm();
    scene.sweep(
        "submitit_slurm",
        &[
            "runtime=pytorch",
            "device=cuda:0",
            "hydra.launcher.timeout_min=1",
        ],
    );
    let script = fs::read_to_string(scene.path().join("script")).unwrap();
    assert!(script.contains("#SBATCH --gpus-per-node=1\n"), "{script}");
    let scene = Scene::new();
    scene.recorded_slurm();
    scene.sweep(
        "submitit_slurm",
        &[
            "runtime=pytorch",
            "device=cuda:0",
            "hydra.launcher.gres=gpu:2",
        ],
    );
    let script = fs::read_to_string(scene.path().join("script")).unwrap();
    assert!(
        script.contains("--gres=gpu:2") && !script.contains("gpus-per-node"),
        "{script}"
    );
}

#[test]
fn local_jobs_have_submitits_folders() {
    let scene = Scene::new();
    let output = scene.sweep("submitit_local", &[]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(scene.csv().matches(",complete,").count(), 2);
    let folders = fs::read_dir(scene.path().join("sweep/.submitit")).unwrap();
    let logs = folders
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .filter(|entry| {
            let id = entry.file_name().into_string().unwrap();
            entry.path().join(format!("{id}_0_log.err")).is_file()
        });
    assert_eq!(logs.count(), 2);
}

#[test]
fn mistakes_are_refused_before_anything_is_submitted() {
    let scene = Scene::new();
    scene.recorded_slurm();
    for (key, part) in [
        ("hydra.launcher.nodes=2", "must be 1"),
        ("hydra.launcher.timeout_min=0", "above zero"),
        (
            "hydra.launcher.partion=x",
            "unknown key `hydra.launcher.partion`",
        ),
    ] {
        let output = scene.sweep("submitit_slurm", &[key]);
        assert_eq!(output.status.code(), Some(2), "{key}");
        assert!(said(&output).contains(part), "{key}: {}", said(&output));
        assert!(!scene.path().join("script").exists(), "{key}");
    }
    scene.tool(
        "sbatch",
        "echo 'sbatch: error: invalid partition specified: x' >&2; exit 1",
    );
    let output = scene.sweep("submitit_slurm", &["hydra.launcher.partition=x"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said(&output).contains("invalid partition"),
        "{}",
        said(&output)
    );
}

/// Inside `scripts/with-slurm`: a real controller and node.
#[test]
#[ignore = "needs Slurm: scripts/with-slurm cargo test -p llmprof launcher:: -- --ignored"]
fn slurm_runs_the_sweep() {
    let scene = Scene::new();
    let output = scene.sweep("submitit_slurm", &["hydra.launcher.timeout_min=5"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(
        scene.csv().matches(",complete,").count(),
        2,
        "{}",
        scene.csv()
    );
    let submitit = scene.path().join("sweep/.submitit");
    let names: Vec<String> = fs::read_dir(&submitit)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let logged = names.iter().any(|name| {
        name.ends_with("_1")
            && submitit
                .join(name)
                .join(format!("{name}_0_log.err"))
                .is_file()
    });
    assert!(logged, "{names:?}");
    // A job that fails is FAILED for Slurm too, and is run again.
    fs::rename(scene.path().join("sweep/1"), scene.path().join("kept")).unwrap();
    fs::write(scene.path().join("sweep/1"), "").unwrap();
    let output = scene.sweep("submitit_slurm", &["--resume"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("job 1: failed"), "{}", said(&output));
    fs::remove_file(scene.path().join("sweep/1")).unwrap();
    let output = scene.sweep("submitit_slurm", &["--resume"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

/// Slurm starts a job again that was preempted or whose node failed: it goes on, and one that had ended is left as it is.
#[test]
fn a_requeued_job_goes_on() {
    let scene = Scene::new();
    scene.recorded_slurm();
    let output = scene.sweep("submitit_slurm", &[]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let run = scene.path().join("sweep/1/run.json");
    let text = fs::read_to_string(&run).unwrap();
    fs::write(&run, text.replace("\"complete\"", "\"interrupted\"")).unwrap();
    let submitit = scene.path().join("sweep/.submitit");
    let mut files = fs::read_dir(&submitit)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let jobs = files
        .find(|path| path.to_string_lossy().contains("jobs_"))
        .unwrap();
    let again = |place: &str, count: &str| {
        Command::new(env!("CARGO_BIN_EXE_llmprof"))
            .arg("sweep-job")
            .arg(&jobs)
            .arg(place)
            .env("SLURM_RESTART_COUNT", count)
            .output()
            .unwrap()
    };
    let refused = again("1", "0");
    assert!(
        said(&refused).contains("already holds a run"),
        "{}",
        said(&refused)
    );
    let output = again("1", "1");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(scene.path().join("sweep/1.attempt1").is_dir());
    let before = fs::read(&run).unwrap();
    let output = again("1", "2");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(
        fs::read(&run).unwrap(),
        before,
        "a complete job is left as it is"
    );
}

#[test]
#[ignore = "needs Slurm: scripts/with-slurm cargo test -p llmprof launcher:: -- --ignored"]
fn slurm_reads_and_joins_ranks() {
    let scene = Scene::new();
    let traces = scene.path().join("traces");
    fs::create_dir(&traces).unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/public/ranks_dlrm");
    for rank in 0..8 {
        let name = format!("rank{rank}.json.gz");
        fs::copy(fixtures.join(&name), traces.join(&name)).unwrap();
    }
    fs::write(traces.join("rank8.json.gz"), "not a trace").unwrap();
    let import = || scene.llmprof(&["import", "traces/rank*", "-o", "run", "--launcher", "slurm"]);
    let output = import();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let run = scene.path().join("run");
    wait_for(|| run.join("report.html").is_file());
    let log = scene.path().join("run.ranks/slurm/join.log");
    wait_for(|| fs::read_to_string(&log).is_ok_and(|text| text.contains("report:")));
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.contains("8 ranks over"), "{text}");
    // The one that failed is named, and its task failed.
    assert!(text.contains("rank8.json.gz"), "{text}");
    let ranks = fs::read_to_string(run.join("ranks.csv")).unwrap();
    assert_eq!(ranks.lines().count(), 9);
    // Submitted again, finished ranks are kept.
    fs::rename(&run, scene.path().join("first")).unwrap();
    fs::remove_file(&log).unwrap();
    let output = import();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    wait_for(|| fs::read_to_string(&log).is_ok_and(|text| text.contains("report:")));
    let mapped = fs::read_to_string(scene.path().join("run.ranks/slurm/map-3.log")).unwrap();
    assert!(mapped.contains("0 read, 1 kept"), "{mapped}");
}
