//! llmprof as a Hydra application: its config tree, and the world it composes in.

use std::path::Path;

use llmprof_config::hydra::{self, App, FileTree, Host};

use crate::{failure::Failure, shipped_models, unknown_option};

pub(crate) const EMBEDDED: FileTree = include!(concat!(env!("OUT_DIR"), "/conf.rs"));
/// The project's own tree, where there is one.
const PROJECT_CONF: &str = "conf";

/// Keys of earlier sketches and of other tools, and what stands in their place.
const MOVED: [(&str, &str); 3] = [
    (
        "hardware.device_index",
        "device=cuda:N chooses the GPU; hardware.spec=NAME what it is compared with",
    ),
    (
        "preset",
        "presets are added: +preset=stage1, +preset=stage2, +preset=roofline, +preset=direct_inference",
    ),
    ("runtime.num_new_tokens", "infer.max_new_tokens=N"),
];

/// What stands in the place of a key that is not there, or not any more.
pub(crate) fn moved(key: &str) -> Option<&'static str> {
    let key = key.trim_start_matches('+');
    MOVED
        .iter()
        .find_map(|(old, advice)| (*old == key).then_some(*advice))
}

/// Places whose keys are the user's own: a model's design, what Hydra has, variables of an environment.
const FREE: [&str; 4] = ["model.", "hydra.", "runtime.env.", "runtime.serving.env."];

/// A mistake in an override of our own config. Its keys are fixed but for [`FREE`] places, so that adding one is advice for
/// those alone.
pub(crate) fn own_failure(error: hydra::Error) -> Failure {
    if let hydra::Error::MissingConfig {
        parent,
        config,
        options,
        ..
    } = &error
        && parent == "config"
    {
        return unknown_option::unknown_option(config, options);
    }
    let hydra::Error::KeyNotInStruct {
        key, line, meant, ..
    } = &error
    else {
        return error.into();
    };
    let mut hints = Vec::new();
    hints.extend(moved(key).map(str::to_owned));
    if hints.is_empty() {
        let device = line.split_once('=').filter(|_| names_device(key));
        hints.extend(device.and_then(|(_, name)| unknown_option::device_spec(name)));
    }
    if hints.is_empty() {
        hints.extend(hydra::ask_which(meant));
    }
    if FREE.iter().any(|free| key.starts_with(free)) {
        hints.push(format!("to add it: +{line}"));
    }
    if hints.is_empty() {
        hints.push("`llmprof config` prints every key".to_owned());
    }
    Failure::from(error).hint(hints.join("\n"))
}

/// Commands that take settings as `KEY=VALUE`.
const WITH_SETTINGS: [&str; 6] = ["run", "predict", "simulate", "plan", "model", "config"];

/// The setting that an unknown flag stands for: of `run --batch 4`, `runtime.batch_size`.
pub(crate) fn setting_of_flag(command: &str, flag: &str) -> Option<String> {
    if !WITH_SETTINGS.contains(&command) {
        return None;
    }
    let key = flag
        .trim_start_matches('-')
        .split('=')
        .next()?
        .replace('-', "_");
    let host = host().ok()?;
    let line = format!("{key}=null");
    let composed = llmprof(&host.cwd).compose(&[line], hydra::RunMode::Run, &host);
    let Err(error) = composed else {
        return Some(format!("settings have no dashes: {key}=VALUE"));
    };
    let failure = own_failure(error);
    let meant = failure.advice()?.lines().next()?.to_owned();
    meant
        .starts_with("did you mean")
        .then(|| format!("settings are KEY=VALUE, without dashes: {meant}"))
}

/// Whether a key that does not exist would name the GPU.
fn names_device(key: &str) -> bool {
    let last = key.rsplit('.').next().unwrap_or(key);
    matches!(
        last,
        "gpu" | "gpus" | "device" | "hardware" | "accelerator" | "hw" | "name"
    )
}

/// Our own application: the project's `conf/` first, with or without a primary config of its own, then the embedded tree.
pub(crate) fn llmprof(cwd: &Path) -> App {
    let own = cwd.join(PROJECT_CONF).is_dir();
    App {
        job_name: "llmprof".to_owned(),
        config_dir: own.then(|| PROJECT_CONF.into()),
        config_name: Some("config".to_owned()),
        embedded: EMBEDDED,
        extra_config_dirs: Vec::new(),
        aliases: shipped_models::hub_aliases(EMBEDDED),
    }
}

pub(crate) fn shipped() -> App {
    App {
        job_name: "llmprof".to_owned(),
        config_name: Some("config".to_owned()),
        embedded: EMBEDDED,
        ..App::default()
    }
}

/// Somebody else's application: its config directory and nothing of ours.
pub(crate) fn foreign() -> App {
    App {
        job_name: "app".to_owned(),
        ..App::default()
    }
}

/// Prints what a composition warned about, as Hydra does.
pub(crate) fn warn(warnings: Vec<String>) {
    for warning in warnings {
        Failure::new(warning).warn();
    }
}

/// This process's directory, environment and clock.
pub(crate) fn host() -> Result<Host, Failure> {
    let cwd = std::env::current_dir()
        .map_err(|error| Failure::new(format!("cannot find the working directory: {error}")))?;
    // A variable that is not text cannot be interpolated into a config; Hydra does not see it either.
    let env = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let now = crate::clock::local();
    Ok(Host {
        cwd,
        env,
        seed: now.timestamp().as_nanosecond() as u64,
        now: now.datetime(),
        warnings: hydra::Warnings::default(),
    })
}

impl From<hydra::Error> for Failure {
    fn from(error: hydra::Error) -> Self {
        let failure = Self::new(error.to_string()).hint(error.hint());
        if let Some(origin) = error.origin() {
            return failure.at(
                origin.source().name(),
                origin.source().text(),
                origin.span(),
                "here",
            );
        }
        if let Some((line, span)) = error.override_span() {
            return failure.at("command line", line, span.start..span.end, "here");
        }
        failure
    }
}
