//! One command line of a Hydra application, done by this crate, and its comparison with Hydra's result.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod rejection;

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use llmprof_config::hydra::{App, CommandOutcome, Execution, Host, HydraCommand, HydraJob};
use serde::{Deserialize, Serialize};

/// Length of an application's folder in characters; `python/oracle.py` has the same.
const ROOT_LENGTH: usize = 96;
const ROOT_TOKEN: &str = "{ROOT}";

/// A command line and the world it sees, but for the config files.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Invocation {
    pub(crate) args: Vec<String>,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// `jobs` when only the overrides of a sweep's jobs are wanted.
    #[serde(default)]
    pub(crate) kind: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    Stdout(String),
    /// It wrote files: path from the root, and text.
    Files(BTreeMap<String, String>),
    /// It would run jobs with these overrides.
    Jobs(Vec<Vec<String>>),
    Error(Rejection),
}

/// A refusal: Hydra's exception and its causes, or the name of our kind of error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rejection {
    pub(crate) chain: Vec<String>,
    pub(crate) message: String,
}

impl Answer {
    /// Whether Hydra took the request.
    pub(crate) fn is_accepted(&self) -> bool {
        !matches!(self, Self::Error(_))
    }

    /// Whether `self`, Hydra's answer, and `ours` say the same.
    ///
    /// `shuffle(…)` draws an order of its own: its jobs are compared as sets of sets of characters.
    pub(crate) fn agrees_with(&self, ours: &Self, invocation: &Invocation) -> bool {
        match (self, ours) {
            (Self::Error(theirs), Self::Error(ours)) => rejection::agrees(theirs, ours),
            (Self::Jobs(theirs), Self::Jobs(ours))
                if invocation.args.iter().any(|arg| arg.contains("shuffle")) =>
            {
                unordered(theirs) == unordered(ours)
            }
            (theirs, ours) => theirs == ours,
        }
    }
}

fn unordered(jobs: &[Vec<String>]) -> Vec<Vec<char>> {
    let mut jobs: Vec<Vec<char>> = jobs
        .iter()
        .map(|job| {
            let mut characters: Vec<char> = job.iter().flat_map(|text| text.chars()).collect();
            characters.sort_unstable();
            characters
        })
        .collect();
    jobs.sort_unstable();
    jobs
}

/// A path below `parent` with the length that the recipe gives all applications.
pub(crate) fn root_in(parent: &Path) -> PathBuf {
    let parent = parent.canonicalize().expect("the folder exists");
    let length = ROOT_LENGTH - parent.as_os_str().len() - 1;
    parent.join("r".repeat(length))
}

/// Does what `python app.py ARGS` does in `root`; a panic is an answer too.
pub(crate) fn run(root: &Path, invocation: &Invocation) -> Answer {
    let attempt = catch_unwind(AssertUnwindSafe(|| perform(root, invocation)));
    let root = root.to_str().expect("temporary paths are text");
    match attempt {
        Ok(Ok(answer)) => answer.with_token(root),
        Ok(Err(error)) => Answer::Error(Rejection {
            chain: vec![error.kind().to_owned()],
            message: error.to_string().replace(root, ROOT_TOKEN),
        }),
        Err(_) => Answer::Error(Rejection {
            chain: vec!["panic".to_owned()],
            message: String::new(),
        }),
    }
}

fn perform(root: &Path, invocation: &Invocation) -> Result<Answer, llmprof_config::hydra::Error> {
    let common = [
        ("HOME", "/srv/home"),
        ("USER", "user"),
        ("PROJECT_ROOT", "/srv/project"),
    ];
    let mut env: BTreeMap<String, String> = common
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    env.extend(invocation.env.clone());
    let host = Host {
        cwd: root.to_owned(),
        env,
        now: jiff::civil::datetime(2026, 3, 5, 14, 7, 9, 123_456_000),
        seed: 0,
        warnings: llmprof_config::hydra::Warnings::default(),
    };
    let app = App {
        job_name: "app".to_owned(),
        config_dir: Some("conf".into()),
        config_name: Some("config".to_owned()),
        ..App::default()
    };
    let command = HydraCommand::parse(invocation.args.clone())?;
    Ok(match command.perform(&app, &host)? {
        CommandOutcome::Text(text) => Answer::Stdout(text),
        CommandOutcome::Execution(Execution::Multirun(sweep))
            if invocation.kind.as_deref() == Some("jobs") =>
        {
            Answer::Jobs(sweep.jobs.iter().map(overrides).collect())
        }
        CommandOutcome::Execution(Execution::Multirun(sweep)) => {
            let mut files = BTreeMap::new();
            let text = sweep.multirun_yaml.clone();
            files.insert(below(root, &sweep.dir.join("multirun.yaml")), text);
            for job in &sweep.jobs {
                insert_files(&mut files, root, job);
            }
            Answer::Files(files)
        }
        CommandOutcome::Execution(Execution::Run(job)) => {
            let mut files = BTreeMap::new();
            insert_files(&mut files, root, &job);
            Answer::Files(files)
        }
    })
}

fn insert_files(files: &mut BTreeMap<String, String>, root: &Path, job: &HydraJob) {
    for (path, text) in &job.files {
        files.insert(below(root, &job.dir.join(path)), text.clone());
    }
}

fn below(root: &Path, path: &Path) -> String {
    let path = path.strip_prefix(root).unwrap_or(path);
    path.display().to_string()
}

/// The overrides a job of a sweep is started with.
fn overrides(job: &HydraJob) -> Vec<String> {
    let list = ["hydra", "overrides", "task"]
        .into_iter()
        .try_fold(&job.composed.config, |node, key| node.get(key))
        .and_then(|node| node.as_list())
        .expect("Hydra's schema has the list");
    list.iter().map(ToString::to_string).collect()
}

impl Answer {
    fn with_token(self, root: &str) -> Self {
        match self {
            Self::Stdout(text) => Self::Stdout(text.replace(root, ROOT_TOKEN)),
            Self::Files(files) => Self::Files(
                files
                    .into_iter()
                    .map(|(path, text)| (path, text.replace(root, ROOT_TOKEN)))
                    .collect(),
            ),
            other => other,
        }
    }
}

/// Writes config files below `root`, which is emptied first.
pub(crate) fn write_tree<'a>(root: &Path, files: impl IntoIterator<Item = (&'a str, &'a str)>) {
    if root.exists() {
        fs::remove_dir_all(root).expect("the folder is ours");
    }
    fs::create_dir_all(root).expect("the temporary folder can be written");
    for (path, text) in files {
        let path = root.join(path);
        let parent = path.parent().expect("below the root");
        fs::create_dir_all(parent).expect("the temporary folder can be written");
        fs::write(path, text).expect("the temporary folder can be written");
    }
}
