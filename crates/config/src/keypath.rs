//! Key paths such as `a.b[0].c`, split and written as OmegaConf does.

use crate::key::Key;

/// Splits a key path into its parts: `a.b`, `a[b]`, `[a].b`, and a leading dot for each empty part.
pub fn split_path(path: &str) -> Vec<String> {
    let dots = path.len() - path.trim_start_matches('.').len();
    let head = dots + path[dots..].find(['.', '[']).unwrap_or(path.len() - dots);
    let mut parts: Vec<String> = path[..head].split('.').map(str::to_owned).collect();
    let mut rest = &path[head..];
    if rest.starts_with('[') && parts.last().is_some_and(String::is_empty) {
        parts.pop();
    }
    while let Some(first) = rest.chars().next() {
        let tail = &rest[first.len_utf8()..];
        match first {
            '.' => {
                let end = tail.find(['.', '[']).unwrap_or(tail.len());
                parts.push(tail[..end].to_owned());
                rest = &tail[end..];
            }
            // Brackets do not cross lines; an unclosed one is passed over.
            '[' => match tail.find([']', '\n']) {
                Some(end) if tail[end..].starts_with(']') => {
                    parts.push(tail[..end].to_owned());
                    rest = &tail[end + 1..];
                }
                _ => rest = tail,
            },
            _ => rest = tail,
        }
    }
    parts
}

/// One step from a node to a child, with what kind of container it leads out of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PathStep {
    pub(crate) key: Key,
    pub(crate) in_list: bool,
}

/// Writes steps as a full key: `a.b[0].c`.
pub(crate) fn join_steps<'a>(steps: impl IntoIterator<Item = &'a PathStep>) -> String {
    let mut out = String::new();
    for step in steps {
        if step.in_list {
            out.push('[');
            out.push_str(&step.key.to_string());
            out.push(']');
        } else {
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(&step.key.to_string());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_lists_with_brackets() {
        let step = |key: Key, in_list| PathStep { key, in_list };
        let steps = [
            step("a".into(), false),
            step(0.into(), true),
            step(1.into(), true),
            step("b".into(), false),
        ];
        assert_eq!(join_steps(&steps), "a[0][1].b");
    }
}
