//! Ranges that are named for a phase.

use serde::{Deserialize, Serialize};

/// A phase that the name of a range stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseName {
    /// The model over prompts.
    Prefill,
    /// All decode steps of a generation.
    Decode,
    /// One decode step.
    DecodeStep,
    /// Image towers.
    Vision,
    /// Runs before the measured ones.
    Warmup,
    /// Loading of weights.
    Load,
}

impl PhaseName {
    /// The name of the phase, as in records and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::DecodeStep => "decode_step",
            Self::Vision => "vision",
            Self::Warmup => "warmup",
            Self::Load => "load",
        }
    }
}

/// Words of a name, joined by `_`, and their phases.
const NAMES: &[(&str, PhaseName)] = &[
    ("prefill", PhaseName::Prefill),
    ("prefill_step", PhaseName::Prefill),
    ("decode", PhaseName::Decode),
    ("decode_step", PhaseName::DecodeStep),
    ("vision", PhaseName::Vision),
    ("image_encoder", PhaseName::Vision),
    ("warmup", PhaseName::Warmup),
    ("warm_up", PhaseName::Warmup),
    ("load", PhaseName::Load),
    ("load_model", PhaseName::Load),
    ("model_load", PhaseName::Load),
];

/// The phase that a name is, and nothing else: letters of any case, words apart by one of `_`, `-` or a space, then at most
/// a number (`decode_step_3`, `decode 3`, `decode#3`, `decode:3`, `Prefill[0]`, `prefill(0)`).
pub fn phase_name(text: &str) -> Option<PhaseName> {
    let words = without_number(text)?;
    NAMES
        .iter()
        .find(|(name, _)| same_words(words, name))
        .map(|(_, phase)| *phase)
}

/// The text before a number at the end; `None` where brackets stand around something else.
fn without_number(text: &str) -> Option<&str> {
    for (open, close) in [('[', ']'), ('(', ')')] {
        if let Some(inside) = text.strip_suffix(close) {
            let (words, number) = inside.rsplit_once(open)?;
            let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            return digits.then(|| words.strip_suffix(' ').unwrap_or(words));
        }
    }
    let words = text.trim_end_matches(|letter: char| letter.is_ascii_digit());
    if words.len() == text.len() {
        return Some(text);
    }
    // `decode3` is as good as `decode_3`; one separator belongs to the number.
    Some(
        words
            .strip_suffix(['_', '-', ' ', '#', ':', '.'])
            .unwrap_or(words),
    )
}

fn same_words(text: &str, name: &str) -> bool {
    text.len() == name.len()
        && text.bytes().zip(name.bytes()).all(|(found, expected)| {
            found.to_ascii_lowercase() == expected
                || (expected == b'_' && matches!(found, b'-' | b' '))
        })
}
