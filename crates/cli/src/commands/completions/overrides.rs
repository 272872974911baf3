//! Overrides of the config at hand: groups, keys, and the values that are known of them.

use llmprof_config::{hydra::RunMode, node::Node};
use llmprof_theory::device::Catalog;

use crate::app;

/// What an override may become, beside the words that stand before it. Where the config cannot be composed there is nothing to
/// offer.
pub(super) fn candidates(current: &str, before: &[String]) -> Vec<String> {
    let Ok(host) = app::host() else {
        return Vec::new();
    };
    let application = app::llmprof(&host.cwd);
    let chosen: Vec<String> = before
        .iter()
        .filter(|word| word.contains('='))
        .cloned()
        .collect();
    let composed = application
        .compose(&chosen, RunMode::Multirun, &host)
        .or_else(|_| application.compose(&[], RunMode::Run, &host));
    let (Ok(composed), Ok(groups)) = (composed, application.list_groups(&host)) else {
        return Vec::new();
    };
    let config = composed.job_config();
    let bare = current.trim_start_matches(['+', '~']);
    let mark = &current[..current.len() - bare.len()];
    let Some((key, value)) = bare.split_once('=') else {
        let mut names: Vec<String> = groups.into_iter().map(|(group, _)| group).collect();
        keys(&config, "", &mut names);
        return names.iter().map(|name| format!("{mark}{name}=")).collect();
    };
    let options = match groups.into_iter().find(|(group, _)| group == key) {
        Some((_, options)) => options,
        None => values(&config, key),
    };
    // A sweep has several.
    let done = value.rfind(',').map_or("", |comma| &value[..=comma]);
    options
        .iter()
        .map(|option| format!("{mark}{key}={done}{option}"))
        .collect()
}

/// Every key that has a value.
fn keys(node: &Node, path: &str, paths: &mut Vec<String>) {
    for (child, value) in node.as_dict().into_iter().flatten() {
        let Some(child) = child.as_str() else {
            continue;
        };
        let path = match path {
            "" => child.to_owned(),
            _ => format!("{path}.{child}"),
        };
        match value.as_dict() {
            Some(inner) if !inner.is_empty() => keys(value, &path, paths),
            _ => paths.push(path),
        }
    }
}

/// Values of a key, as far as they can be known.
fn values(config: &Node, key: &str) -> Vec<String> {
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    match key {
        "hardware.spec" => {
            let mut names = devices();
            names.push("auto".to_owned());
            return names;
        }
        "device" => return words(&["cpu", "cuda:0"]),
        _ => {}
    }
    let mut node = Some(config);
    for part in key.split('.') {
        node = node.and_then(|node| node.get(part));
    }
    match node.and_then(Node::as_bool) {
        Some(_) => words(&["true", "false"]),
        None => Vec::new(),
    }
}

pub(super) fn devices() -> Vec<String> {
    let entries = Catalog::embedded().entries();
    entries.into_iter().map(|entry| entry.name).collect()
}
