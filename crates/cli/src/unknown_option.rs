//! Options of config groups that do not exist, in the words of the request: `model=nope`, `hardware=h200`.

use llmprof_config::{
    hydra::ask_which,
    near_names::{near_names, nearest_name},
};
use llmprof_theory::device::Catalog;

use crate::{failure::Failure, shipped_models};

/// Models that a suggestion names at most.
const MODELS_NAMED_MAX: usize = 3;

/// The failure of `GROUP=NAME` where the group has only `options`.
pub(crate) fn unknown_option(config: &str, options: &[String]) -> Failure {
    let (group, name) = config.split_once('/').unwrap_or(("config", config));
    let failure = Failure::new(format!("unknown {group} `{name}`"));
    let hint = match group {
        shipped_models::GROUP => Some(model_hint(name, options)),
        "hardware" => Some(device_spec(name).unwrap_or_else(|| {
            format!(
                "hardware is one of {}; hardware.spec=NAME is the device (`llmprof hardware list`)",
                options.join(", ")
            )
        })),
        _ => None,
    };
    let near = || {
        let near: Vec<String> = nearest_name(name, names(options))
            .map(str::to_owned)
            .into_iter()
            .collect();
        ask_which(&near)
    };
    let all = || format!("{group} is one of {}", options.join(", "));
    failure.hint(hint.or_else(near).unwrap_or_else(all))
}

fn names(options: &[String]) -> impl Iterator<Item = &str> {
    options.iter().map(String::as_str)
}

fn model_hint(name: &str, options: &[String]) -> String {
    let models = names(options).filter(|option| !matches!(*option, "base" | "local"));
    let mut near: Vec<String> = near_names(name, models)
        .into_iter()
        .map(str::to_owned)
        .collect();
    near.truncate(MODELS_NAMED_MAX);
    let meant = ask_which(&near).or_else(|| device_spec(name));
    let mut lines: Vec<String> = meant.into_iter().collect();
    lines.push(
        "`llmprof model list` shows shipped models; for others: model=local model.config=path/to/config.json, which is \
         --config path/to/config.json of import, model and bench"
            .to_owned(),
    );
    lines.join("\n")
}

/// The override that names a device, where a word is the name of one, or of the variants of one: `h100` of `h100_sxm`.
pub(crate) fn device_spec(name: &str) -> Option<String> {
    let catalog = Catalog::embedded();
    let named = if let Ok(device) = catalog.find_device(name) {
        vec![device.name]
    } else {
        let start = format!("{}_", name.to_ascii_lowercase());
        let entries = catalog.entries().into_iter().map(|entry| entry.name);
        entries.filter(|entry| entry.starts_with(&start)).collect()
    };
    let specs: Vec<String> = named
        .into_iter()
        .map(|device| format!("hardware.spec={device}"))
        .collect();
    ask_which(&specs)
}
