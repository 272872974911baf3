//! Which key was meant by one that does not exist.

use crate::error::nearest;
use crate::node::Node;

/// The key of the application that was most likely meant by the unknown `key`: one of the same name elsewhere
/// (`batch_size` for `runtime.batch_size`), one nearby that is spelled nearly like it, or such a one anywhere.
///
/// Of several, one that only passes on another key's value is not the place to change it.
pub(super) fn meant(config: &Node, key: &str) -> Option<String> {
    let mut known = Vec::new();
    list(config, "", &mut known);
    known.sort();
    let paths = || known.iter().map(|(_, path)| path.as_str());
    let last = name(key);
    if let Some(same) = paths().find(|path| name(path) == last && *path != key) {
        return Some(same.to_owned());
    }
    if let Some(near) = nearest(key, paths())
        && near.matches('.').count() == key.matches('.').count()
    {
        return Some(near.to_owned());
    }
    let near = nearest(last, paths().map(name))?;
    paths().find(|path| name(path) == near).map(str::to_owned)
}

fn name(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// Every key below a node but Hydra's own, each with whether it is an interpolation.
fn list(node: &Node, path: &str, known: &mut Vec<(bool, String)>) {
    for (child, value) in node.as_dict().into_iter().flatten() {
        let path = match (path, child.as_str()) {
            (_, None) | ("", Some("hydra")) => continue,
            ("", Some(child)) => child.to_owned(),
            (_, Some(child)) => format!("{path}.{child}"),
        };
        list(value, &path, known);
        known.push((value.is_interpolation(), path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;
    use crate::yaml;

    #[test]
    fn keys_are_found_by_name_and_by_spelling() {
        let text = "runtime: {batch_size: 1, type: native}\n\
                    infer: {max_new_tokens: 32}\n\
                    workload: {batch_size: '${runtime.batch_size}', prompt_tokens: 8}\n\
                    hydra: {verbose: false}\n";
        let config = yaml::load(&Source::new("config.yaml", text)).unwrap();
        let cases = [
            ("batch_size", Some("runtime.batch_size")),
            ("workload.max_new_tokens", Some("infer.max_new_tokens")),
            ("workload.promt_tokens", Some("workload.prompt_tokens")),
            ("wrkload.prompt_tokens", Some("workload.prompt_tokens")),
            ("batchsize", Some("runtime.batch_size")),
            ("verbose", None),
            ("colour", None),
        ];
        for (key, expected) in cases {
            assert_eq!(meant(&config, key).as_deref(), expected, "{key}");
        }
    }
}
