//! Which weights a run had.

use llmprof_record::run::RecordedWeights;

/// Characters of a hash or commit that people read.
const SHORT_HASH_CHARS: usize = 12;

/// `random weights`, or where they are from: part of the result.
pub(crate) fn weights_part(weights: &RecordedWeights) -> String {
    match &weights.path {
        None => "random weights".to_owned(),
        Some(path) => format!("weights of {}", path.display()),
    }
}

/// A line of its own: `weights: models/qwen2_5_0_5b, 988 MB, revision 060db6499f32, index sha256 9f86d081884c`.
pub fn weights_line(weights: &RecordedWeights) -> String {
    let Some(path) = &weights.path else {
        return "weights: random".to_owned();
    };
    let short = |text: &String| text.chars().take(SHORT_HASH_CHARS).collect::<String>();
    let parts = [
        weights.bytes.map(|bytes| bytes.to_string()),
        weights
            .revision
            .as_ref()
            .map(|commit| format!("revision {}", short(commit))),
        weights
            .index_sha256
            .as_ref()
            .map(|hash| format!("index sha256 {}", short(hash))),
    ];
    let parts = parts.into_iter().flatten();
    let all: Vec<String> = std::iter::once(path.display().to_string())
        .chain(parts)
        .collect();
    format!("weights: {}", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use llmprof_units::Bytes;

    #[test]
    fn weights_are_named_with_what_identifies_them() {
        let random = RecordedWeights::default();
        assert_eq!(weights_part(&random), "random weights");
        assert_eq!(weights_line(&random), "weights: random");
        let stored = RecordedWeights {
            path: Some("models/x".into()),
            revision: Some("0123456789abcdef".to_owned()),
            index_sha256: None,
            bytes: Some(Bytes(2000)),
        };
        assert_eq!(weights_part(&stored), "weights of models/x");
        assert_eq!(
            weights_line(&stored),
            format!("weights: models/x, {}, revision 0123456789ab", Bytes(2000))
        );
    }
}
