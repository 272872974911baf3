//! Random applications, composed by the real hydra-core and by this crate in the same run.
//!
//! `LLMPROF_PYTHON` names the Python (default: the repository's `.venv`). `LLMPROF_SEED` chooses other cases, `LLMPROF_CASES` another number of them.

use crate::common;

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use common::{Answer, Invocation};
use serde::{Deserialize, Serialize};

const DEFAULT_SEED: &str = "llmprof";
const DEFAULT_CASES: usize = 1000;
/// How often a case that differs may be tried in a smaller form.
const SHRINKING_STEPS: usize = 120;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Case {
    files: BTreeMap<String, String>,
    #[serde(flatten)]
    invocation: Invocation,
}

#[derive(Debug, Deserialize)]
struct Reply {
    case: Option<Case>,
    #[serde(default)]
    features: Vec<String>,
    result: Answer,
}

/// A Python that has hydra-core 1.3.
fn python() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    env::var_os("LLMPROF_PYTHON")
        .map_or_else(|| manifest.join("../../.venv/bin/python"), PathBuf::from)
}

/// The real Hydra, in one process of its own.
struct Hydra {
    process: Child,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
}

impl Hydra {
    fn start(python: &Path, seed: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/serve.py");
        let mut process = Command::new(python)
            .arg(script)
            .args(["--seed", seed])
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python starts");
        let requests = process.stdin.take().expect("piped");
        let replies = BufReader::new(process.stdout.take().expect("piped"));
        Self {
            process,
            requests,
            replies,
        }
    }

    fn ask(&mut self, request: &serde_json::Value) -> Reply {
        writeln!(self.requests, "{request}").expect("Hydra listens");
        let mut line = String::new();
        self.replies.read_line(&mut line).expect("Hydra answers");
        serde_json::from_str(&line).expect("an answer is one line of JSON")
    }

    fn generate(&mut self, number: usize) -> Reply {
        self.ask(&serde_json::json!({ "generate": number }))
    }

    fn run(&mut self, case: &Case) -> Answer {
        self.ask(&serde_json::json!({ "run": case })).result
    }
}

impl Drop for Hydra {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn ours(root: &Path, case: &Case) -> Answer {
    common::write_tree(
        root,
        case.files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str())),
    );
    common::run(root, &case.invocation)
}

/// A smaller case that still differs: arguments, files and lines are left out one at a time while the difference stays.
fn shrink(hydra: &mut Hydra, root: &Path, mut case: Case) -> Case {
    let mut steps = SHRINKING_STEPS;
    let mut smaller = true;
    while smaller {
        smaller = false;
        for candidate in smaller_forms(&case) {
            if steps == 0 {
                return case;
            }
            steps -= 1;
            let theirs = hydra.run(&candidate);
            if !theirs.agrees_with(&ours(root, &candidate), &candidate.invocation) {
                case = candidate;
                smaller = true;
                break;
            }
        }
    }
    case
}

fn smaller_forms(case: &Case) -> Vec<Case> {
    let mut forms = Vec::new();
    for (index, arg) in case.invocation.args.iter().enumerate() {
        if !arg.starts_with('-') && arg.contains('=') {
            let mut form = case.clone();
            form.invocation.args.remove(index);
            forms.push(form);
        }
    }
    for path in case.files.keys().filter(|path| *path != "conf/config.yaml") {
        let mut form = case.clone();
        form.files.remove(path);
        forms.push(form);
    }
    for (path, text) in &case.files {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        for left_out in 0..lines.len() {
            let mut form = case.clone();
            let kept = lines
                .iter()
                .enumerate()
                .filter(|(index, _)| *index != left_out);
            form.files
                .insert(path.clone(), kept.map(|(_, line)| *line).collect());
            forms.push(form);
        }
    }
    forms
}

fn report(hydra: &mut Hydra, root: &Path, number: usize, case: Case) -> String {
    let case = shrink(hydra, root, case);
    let mut text = format!("--- case {number}: {:?}\n", case.invocation.args);
    for (path, content) in &case.files {
        text += &format!("=== {path}\n{content}\n");
    }
    let theirs = hydra.run(&case);
    text + &format!("hydra: {theirs:?}\nours:  {:?}\n", ours(root, &case))
}

#[test]
#[ignore = "live: needs hydra-core"]
fn random_applications_are_as_hydra_has_them() {
    let seed = env::var("LLMPROF_SEED").unwrap_or_else(|_| DEFAULT_SEED.to_owned());
    let cases = env::var("LLMPROF_CASES").map_or(DEFAULT_CASES, |text| {
        text.parse().expect("LLMPROF_CASES is a number")
    });
    eprintln!("comparing {cases} random applications with Hydra, LLMPROF_SEED={seed}");

    let temporary = tempfile::tempdir().expect("a temporary folder");
    let root = common::root_in(temporary.path());
    let mut hydra = Hydra::start(&python(), &seed);
    let mut features: BTreeMap<String, usize> = BTreeMap::new();
    let mut accepted = 0;
    let mut differing = Vec::new();
    for number in 0..cases {
        let reply = hydra.generate(number);
        let case = reply.case.expect("a generated case comes with itself");
        for feature in reply.features {
            *features.entry(feature).or_default() += 1;
        }
        accepted += usize::from(reply.result.is_accepted());
        if !reply
            .result
            .agrees_with(&ours(&root, &case), &case.invocation)
        {
            differing.push((number, case));
        }
    }
    eprintln!("Hydra accepted {accepted} of {cases}; how often each feature occurred:");
    for (feature, count) in &features {
        eprintln!("{count:6}  {feature}");
    }
    let count = differing.len();
    let reports: Vec<String> = differing
        .into_iter()
        .take(env::var("LLMPROF_REPORTS").map_or(10, |text| {
            text.parse().expect("LLMPROF_REPORTS is a number")
        }))
        .map(|(number, case)| report(&mut hydra, &root, number, case))
        .collect();
    assert!(
        count == 0,
        "{count} of {cases} differ from Hydra (LLMPROF_SEED={seed}):\n{}",
        reports.join("\n")
    );
    assert!(
        accepted * 2 >= cases,
        "Hydra accepted only {accepted} of {cases}: the cases are not worth much"
    );
}
