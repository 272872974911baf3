//! A machine with one CUDA device, without hardware: `machine.py` runs the worker, `device.c` is the device and CUPTI.
//!
//! Most of a worker's time would be the import of torch and transformers: `prepared.py` does it once for all of them.

pub(crate) use crate::injected as build;

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::OnceLock,
};

use serde_json::Value;
use tempfile::TempDir;

/// The smallest model that has everything a decoder has.
const TINY: &str = r#"{"model_type": "qwen2", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "tie_word_embeddings": true,
    "use_sliding_window": false, "max_position_embeddings": 128}"#;

/// Tokens that each request generates; the first is prefill's.
pub(crate) const NEW_TOKENS: usize = 6;

struct Built {
    _folder: TempDir,
    device: PathBuf,
    library: PathBuf,
    /// Stands for the interpreter.
    interpreter: PathBuf,
    /// The process that workers are forks of; it ends with the tests, which hold its standard input.
    _prepared: Child,
}

fn built(python: &Path) -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = tempfile::tempdir().unwrap();
        let device = build::compile(
            &crate_folder.join("tests/cuda_run/stand_in_cuda/device.c"),
            folder.path().join("device.so"),
            build::SHARED,
        );
        let socket = folder.path().join("workers");
        let script = crate_folder.join("tests/cuda_run/stand_in_cuda/prepared.py");
        let prepared = prepare(python, &script, &socket, &device);
        let interpreter = folder.path().join("python");
        let text = format!(
            "#!/bin/sh\nexec '{}' -IS '{}' '{}' \"$@\"\n",
            python.display(),
            script.display(),
            socket.display()
        );
        fs::write(&interpreter, text).unwrap();
        fs::set_permissions(&interpreter, fs::Permissions::from_mode(0o755)).unwrap();
        Built {
            _folder: folder,
            device,
            library: build::library(),
            interpreter,
            _prepared: prepared,
        }
    })
}

/// Starts the process that workers are forks of.
fn prepare(python: &Path, script: &Path, socket: &Path, device: &Path) -> Child {
    let mut child = Command::new(python)
        .arg("-u")
        .args([script, socket])
        .env("LLMPROF_CUPTI", device)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut said).unwrap();
    assert_eq!(said, "ready\n", "imports");
    child
}

/// The interpreter. Its torch has NVTX, which builds for the CPU alone lack.
fn python() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = std::env::var_os("LLMPROF_PYTHON")
        .map_or_else(|| root.join(".venv/bin/python"), PathBuf::from);
    std::path::absolute(path).unwrap()
}

/// A run on that machine, in a folder of its own.
pub(crate) struct Machine {
    folder: TempDir,
    command: Command,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let built = built(&python());
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("tiny.json"), TINY).unwrap();
        fs::create_dir(folder.path().join("counts")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_llmprof"));
        command
            .current_dir(folder.path())
            .env("NO_COLOR", "1")
            .env("LLMPROF_INJECT", &built.library)
            .env("LLMPROF_CUPTI", &built.device)
            .env("STANDIN_COUNTS", folder.path().join("counts"))
            .args(["run", "runtime=pytorch", "device=cuda:0"])
            .arg(format!("runtime.python={}", built.interpreter.display()))
            .args(["model=local", "model.config=tiny.json", "model.dtype=f32"])
            .args(["model.load_format=dummy", "hardware.spec=h200"])
            .args(["runtime.warmup=1", "runtime.threads=1"])
            .arg("workload.prompt_tokens=8")
            .arg(format!("infer.max_new_tokens={NEW_TOKENS}"))
            .arg("hydra.run.dir=out");
        Self { folder, command }
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs it with more overrides.
    pub(crate) fn run(mut self, overrides: &[&str]) -> Ended {
        let output = self.command.args(overrides).output().unwrap();
        Ended {
            folder: self.folder,
            output,
        }
    }
}

/// What came of a run.
pub(crate) struct Ended {
    folder: TempDir,
    output: Output,
}

/// What the device was given in one batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    pub(crate) kernels: usize,
    /// Those of them that steps of decode launched.
    pub(crate) step_kernels: usize,
    pub(crate) copies: usize,
    pub(crate) steps: usize,
}

/// What a worker did by the device's own count.
pub(crate) struct Worker {
    pub(crate) process: u32,
    /// Whether the process had llmprof's library in it.
    pub(crate) is_injected: bool,
    pub(crate) batches: Vec<Given>,
}

impl Ended {
    pub(crate) fn code(&self) -> Option<i32> {
        self.output.status.code()
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// Runs another command of llmprof in the same folder.
    pub(crate) fn llmprof(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_llmprof"))
            .current_dir(self.folder.path())
            .env("NO_COLOR", "1")
            .args(args)
            .output()
            .unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("out").join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).unwrap()
    }

    /// The issues of the run with this code.
    pub(crate) fn issues(&self, code: &str) -> Vec<Value> {
        let manifest = self.json("run.json");
        let issues = manifest["issues"].as_array().unwrap().iter();
        issues.filter(|one| one["code"] == code).cloned().collect()
    }

    /// One phase of `analysis.json`.
    pub(crate) fn phase(&self, name: &str) -> Value {
        let analysis = self.json("analysis.json");
        let phases = analysis["phases"].as_array().unwrap();
        let mut named = phases.iter().filter(|phase| phase["phase"] == name);
        let phase = named.next().unwrap_or_else(|| panic!("no {name}")).clone();
        assert!(named.next().is_none(), "{name} is there once");
        phase
    }

    /// The workers, those without the library first.
    pub(crate) fn workers(&self) -> Vec<Worker> {
        let files = fs::read_dir(self.folder.path().join("counts")).unwrap();
        let mut workers: Vec<Worker> = files
            .map(|entry| {
                let path = entry.unwrap().path();
                let reported: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
                let batches = reported["batches"].as_array().unwrap().iter();
                let count = |batch: &Value, name: &str| batch[name].as_u64().unwrap() as usize;
                Worker {
                    process: path.file_stem().unwrap().to_str().unwrap().parse().unwrap(),
                    is_injected: reported["injected"].as_bool().unwrap(),
                    batches: batches
                        .map(|batch| Given {
                            kernels: count(batch, "kernels"),
                            step_kernels: count(batch, "step_kernels"),
                            copies: count(batch, "copies"),
                            steps: count(batch, "steps"),
                        })
                        .collect(),
                }
            })
            .collect();
        workers.sort_by_key(|worker| worker.is_injected);
        workers
    }

    /// The wire files of the run.
    pub(crate) fn wire_files(&self) -> Vec<PathBuf> {
        llmprof_record::import::wire::wire_files(&self.path("cupti")).unwrap_or_default()
    }
}
