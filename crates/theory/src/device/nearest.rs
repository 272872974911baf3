/// Up to four of `names` that are most similar to `wanted`, best first; empty if none is similar.
///
/// Two measures, since a driver's name is words and a spec name is one: shared words, then edit distance.
pub(super) fn nearest_names<'a>(
    wanted: &str,
    names: impl Iterator<Item = &'a str>,
) -> Vec<&'a str> {
    // What fits one line of an error.
    const SUGGESTIONS_MAX: usize = 4;
    let wanted = normalize_name(wanted);
    let mut scored: Vec<(f64, &str)> = names
        .map(|name| (name_likeness(&wanted, &normalize_name(name)), name))
        .filter(|(score, _)| *score >= 0.5)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    scored.truncate(SUGGESTIONS_MAX);
    scored.into_iter().map(|(_, name)| name).collect()
}

/// Lower case, words separated by one space.
pub(super) fn normalize_name(name: &str) -> String {
    name.to_lowercase()
        .split(|c: char| c.is_whitespace() || c == '_' || c == '-')
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// 1 for equal names, 0 for nothing in common.
fn name_likeness(a: &str, b: &str) -> f64 {
    let longest = a.chars().count().max(b.chars().count()).max(1);
    let by_letters = 1.0 - edit_distance(a, b) as f64 / longest as f64;
    // The maker's name is in every driver name and tells nothing.
    let words = |text: &str| -> Vec<String> {
        text.split(' ')
            .filter(|word| !matches!(*word, "nvidia" | "amd" | "intel" | "apple" | ""))
            .map(str::to_owned)
            .collect()
    };
    let (a, b) = (words(a), words(b));
    let shared = a.iter().filter(|word| b.contains(word)).count();
    let fewest = a.len().min(b.len());
    let by_words = if fewest == 0 {
        0.0
    } else {
        shared as f64 / fewest as f64
    };
    by_letters.max(by_words)
}

/// Levenshtein distance, one row at a time.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distances_by_hand() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("abc", ""), 3);
    }

    #[test]
    fn offers_what_looks_alike_and_nothing_else() {
        let names = ["h100_sxm", "h100_pcie", "h200", "NVIDIA GeForce RTX 4090"];
        assert_eq!(nearest_names("h100sxm", names.into_iter())[0], "h100_sxm");
        assert_eq!(
            nearest_names("NVIDIA GeForce RTX 4090 Laptop GPU", names.into_iter()),
            ["NVIDIA GeForce RTX 4090"]
        );
        assert!(nearest_names("Radeon VII", names.into_iter()).is_empty());
    }
}
