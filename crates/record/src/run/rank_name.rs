//! The rank in the name of a file.

/// The number behind `rank` or `TP` in the name of a file: `rank3.json.gz`, `dp0_pp0_tp2_rank2.pt.trace.json`, `1740-TP-1.trace.json.gz`.
pub fn rank_of_file(name: &str) -> Option<u32> {
    let lower = name.to_ascii_lowercase();
    ["rank", "tp"].iter().find_map(|word| {
        lower.rmatch_indices(word).find_map(|(at, _)| {
            let before = lower[..at].chars().next_back();
            if before.is_some_and(char::is_alphabetic) {
                return None;
            }
            let rest = lower[at + word.len()..].trim_start_matches(['-', '_', '=']);
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            rest[..digits].parse().ok()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_have_ranks() {
        for (name, rank) in [
            ("rank3.json.gz", Some(3)),
            ("dp0_pp0_tp2_dcp0_ep0_rank2.1762.pt.trace.json.gz", Some(2)),
            ("1740992813.44-TP-1.trace.json.gz", Some(1)),
            ("worker-rank_07.json", Some(7)),
            ("trace.json", None),
            ("franks2.json", None),
            ("http2.json", None),
            ("rank.json", None),
        ] {
            assert_eq!(rank_of_file(name), rank, "{name}");
        }
    }
}
