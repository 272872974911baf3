//! Kernels with the most GPU time, as `top-kernels.yaml` lists them: names, with patterns that match each alone.

use llmprof_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::summary::TimeRow;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedKernel {
    /// As Nsight Systems demangles it.
    pub name: String,
    /// A pattern for `ncu --kernel-name`; the name itself where absent.
    #[serde(default)]
    pub regex: Option<String>,
    #[serde(default)]
    pub description: Option<String>,
}

/// Rows that are sorted by time; `total` is the time of all kernels, listed or not.
pub fn list_kernels(rows: &[TimeRow], total: Nanos) -> Vec<ListedKernel> {
    rows.iter()
        .enumerate()
        .map(|(index, row)| ListedKernel {
            name: row.name.clone(),
            regex: Some(name_pattern(&row.name)),
            description: Some(format!(
                "Kernel #{} - {:.1}% of GPU time, {} calls",
                index + 1,
                100.0 * row.total_ns.0 as f64 / total.0.max(1) as f64,
                row.times.count
            )),
        })
        .collect()
}

/// The list as YAML; `source` is what it was made of.
pub fn format_yaml(kernels: &[ListedKernel], source: &str) -> String {
    let mut text = format!(
        "# The kernels with the most GPU time in {source}, longest first.\n\
         # `regex` is what `ncu --kernel-name regex:…` matches on demangled names; widen it to profile a family of kernels.\n\
         kernels:\n"
    );
    for kernel in kernels {
        text += &format!("-   name: {}\n", yaml_scalar(&kernel.name));
        if let Some(regex) = &kernel.regex {
            text += &format!("    regex: {}\n", yaml_scalar(regex));
        }
        if let Some(description) = &kernel.description {
            text += &format!("    description: {}\n", yaml_quoted(description));
        }
    }
    text
}

/// `^name$` with every character that a pattern gives a meaning escaped, as Python's `re.escape` does.
pub fn name_pattern(name: &str) -> String {
    let mut pattern = String::from("^");
    for character in name.chars() {
        if r"\.^$*+?{}[]|()-&#~".contains(character) || character.is_whitespace() {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern + "$"
}

/// A scalar without quotes where YAML reads it back unchanged.
fn yaml_scalar(text: &str) -> String {
    let begins_plain = text
        .chars()
        .next()
        .is_some_and(|first| first.is_alphabetic() || "_^<".contains(first));
    let is_plain = begins_plain
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.ends_with([' ', ':'])
        && !text.contains(['\n', '\t'])
        && !matches!(
            text,
            "true" | "false" | "null" | "yes" | "no" | "on" | "off"
        );
    if is_plain {
        text.to_owned()
    } else {
        yaml_quoted(text)
    }
}

fn yaml_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
