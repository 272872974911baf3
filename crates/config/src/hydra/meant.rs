//! Which keys were meant by one that does not exist.

use crate::near_names::{nearest_alike, nearest_name, shared_words};
use crate::node::Node;

/// Maximum number of keys in a suggestion: a longer list does not help.
const SUGGESTED_MAX: usize = 3;

/// The keys of the application that were most likely meant by the unknown `key`, in this order: one of the same name elsewhere
/// (`runtime.batch_size` for `batch_size`); those beside it whose names are near or share words; one whose whole path is near
/// (`workload.seed` for `wrkload.seeds`); one of a near name anywhere. Several where nothing tells them apart.
///
/// Of several keys of one name, one that only passes on another key's value is not the place to change it.
pub(super) fn likely_keys(config: &Node, key: &str) -> Vec<String> {
    let mut known = Vec::new();
    collect_keys(config, "", &mut known);
    known.sort();
    let paths = || known.iter().map(|(_, path)| path.as_str());
    let (place, last) = split_parent(key);
    let first_named =
        |wanted: &str| paths().find(|path| split_parent(path).1 == wanted && *path != key);
    if let Some(same) = first_named(last) {
        return vec![same.to_owned()];
    }
    let beside: Vec<&str> = paths()
        .map(split_parent)
        .filter(|(parent, _)| *parent == place)
        .map(|(_, name)| name)
        .collect();
    let mut near = nearest_alike(last, beside.iter().copied(), SUGGESTED_MAX);
    if near.is_empty() && !place.is_empty() {
        near = sharing_most(last, &beside);
    }
    if !near.is_empty() {
        let path = |name| match place {
            "" => String::from(name),
            _ => format!("{place}.{name}"),
        };
        return near.into_iter().map(path).collect();
    }
    if let Some(near) = nearest_name(key, paths())
        && near.matches('.').count() == key.matches('.').count()
    {
        return vec![near.to_owned()];
    }
    let mut names: Vec<&str> = paths().map(|path| split_parent(path).1).collect();
    names.sort_unstable();
    names.dedup();
    nearest_alike(last, names.into_iter(), SUGGESTED_MAX)
        .into_iter()
        .filter_map(first_named)
        .map(str::to_owned)
        .collect()
}

/// Names that have at least half of the words of `wanted`, as many as any of them has: `prompt_tokens` for `prompt_length`.
fn sharing_most<'a>(wanted: &str, names: &[&'a str]) -> Vec<&'a str> {
    let shared = |name: &str| {
        let (shared, all) = shared_words(wanted, name);
        if 2 * shared >= all { shared } else { 0 }
    };
    let most = names.iter().map(|name| shared(name)).max().unwrap_or(0);
    let alike: Vec<&str> = names
        .iter()
        .copied()
        .filter(|name| most > 0 && shared(name) == most)
        .collect();
    if alike.len() > SUGGESTED_MAX {
        Vec::new()
    } else {
        alike
    }
}

/// The place of a key and its name there.
fn split_parent(path: &str) -> (&str, &str) {
    path.rsplit_once('.').unwrap_or(("", path))
}

/// Every key below a node but Hydra's own, each with whether it is an interpolation.
fn collect_keys(node: &Node, path: &str, known: &mut Vec<(bool, String)>) {
    for (child, value) in node.as_dict().into_iter().flatten() {
        let path = match (path, child.as_str()) {
            (_, None) | ("", Some("hydra")) => continue,
            ("", Some(child)) => child.to_owned(),
            (_, Some(child)) => format!("{path}.{child}"),
        };
        collect_keys(value, &path, known);
        known.push((value.is_interpolation(), path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::SourceText;
    use crate::yaml;

    #[test]
    fn keys_are_found_by_name_and_by_spelling() {
        let text = "runtime: {batch_size: 1, type: native}\n\
                    infer: {max_new_tokens: 32}\n\
                    model: {path: null, name: gpt2, num_hidden_layers: 12}\n\
                    workload: {batch_size: '${runtime.batch_size}', prompt_tokens: 8, cached_tokens: 0, logits: last}\n\
                    hydra: {verbose: false}\n";
        let config = yaml::load_config(&SourceText::new("config.yaml", text)).unwrap();
        let cases = [
            ("batch_size", "runtime.batch_size"),
            ("batch", "runtime.batch_size"),
            ("batchsize", "runtime.batch_size"),
            ("workload.max_new_tokens", "infer.max_new_tokens"),
            ("workload.promt_tokens", "workload.prompt_tokens"),
            ("workload.prompt_token", "workload.prompt_tokens"),
            ("workload.prompts", "workload.prompt_tokens"),
            ("workload.prompt_length", "workload.prompt_tokens"),
            ("wrkload.prompt_tokens", "workload.prompt_tokens"),
            ("wrkload.promt_tokens", "workload.prompt_tokens"),
            ("model.layers", "model.num_hidden_layers"),
            (
                "workload.input_tokens",
                "workload.cached_tokens workload.prompt_tokens",
            ),
            ("verbose", ""),
            ("colour", ""),
        ];
        for (key, expected) in cases {
            assert_eq!(likely_keys(&config, key).join(" "), expected, "{key}");
        }
    }
}
