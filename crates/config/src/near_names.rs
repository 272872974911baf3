//! Which names are near one that does not exist: by their words and by edits.

/// Names of more bytes are near to none: edits take the product of both lengths.
const WANTED_MAX_BYTES: usize = 1_024;

/// Names near `wanted`, the nearest first. Case and the separators `_ - . / ` do not count.
pub fn near_names<'a>(wanted: &str, candidates: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    if wanted.len() > WANTED_MAX_BYTES {
        return Vec::new();
    }
    let mut near: Vec<((usize, usize), &str)> = candidates
        .filter(|candidate| *candidate != wanted)
        .filter_map(|candidate| Some((name_distance(wanted, candidate)?, candidate)))
        .collect();
    near.sort_unstable();
    near.into_iter().map(|(_, candidate)| candidate).collect()
}

pub fn nearest_name<'a>(
    wanted: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    near_names(wanted, candidates).into_iter().next()
}

/// The names that are equally near, at most `limit`; empty if there are more.
pub(crate) fn nearest_alike<'a>(
    wanted: &str,
    candidates: impl Iterator<Item = &'a str>,
    limit: usize,
) -> Vec<&'a str> {
    let near = near_names(wanted, candidates);
    let cost = |name: &str| name_distance(wanted, name).map(|(cost, _)| cost);
    let Some(least) = near.first().and_then(|name| cost(name)) else {
        return Vec::new();
    };
    let alike: Vec<&str> = near
        .into_iter()
        .filter(|name| cost(name) == Some(least))
        .collect();
    if alike.len() > limit {
        Vec::new()
    } else {
        alike
    }
}

/// How many words of `wanted` a name has, in parts of all its words.
pub(crate) fn shared_words(wanted: &str, name: &str) -> (usize, usize) {
    let (wanted, name) = (normalize_name(wanted), normalize_name(name));
    let words: Vec<&str> = split_words(&wanted).collect();
    (words.len() - count_unmatched(&wanted, &name), words.len())
}

/// The words or letters that tell a name from `wanted`, then its edits; `None` for names that are not near.
fn name_distance(wanted: &str, name: &str) -> Option<(usize, usize)> {
    let (wanted, name) = (normalize_name(wanted), normalize_name(name));
    let edits = edit_distance(&wanted, &name);
    let (missing, added) = (
        count_unmatched(&wanted, &name),
        count_unmatched(&name, &wanted),
    );
    let is_whole_name = |name: &str| split_words(name).count() > 1;
    let is_beginning = |of: &str, text: &str| text.len() > 2 && of.starts_with(text);
    let by_words = if missing == 0 {
        Some(added)
    } else if (added == 0 && is_whole_name(&name)) || is_beginning(&wanted, &name) {
        Some(missing)
    } else if is_beginning(&name, &wanted) {
        Some(added.max(1))
    } else {
        None
    };
    let limit = (wanted.chars().count() / 3).max(1);
    let by_letters = (edits <= limit).then_some(edits);
    let cost = by_words.into_iter().chain(by_letters).min()?;
    Some((cost, edits))
}

fn normalize_name(name: &str) -> String {
    let letter = |c: char| match c {
        '-' | '.' | '/' | ' ' => '_',
        other => other.to_ascii_lowercase(),
    };
    name.chars().map(letter).collect()
}

fn split_words(name: &str) -> impl Iterator<Item = &str> {
    name.split('_').filter(|word| !word.is_empty())
}

/// Words of a name that are like no word of the other.
fn count_unmatched(name: &str, other: &str) -> usize {
    let is_missing = |word: &&str| !split_words(other).any(|candidate| is_like(word, candidate));
    split_words(name).filter(is_missing).count()
}

/// Equal, singular and plural, one the beginning of the other, or one slip in a long word. Different numbers never match: `qwen2` is not
/// `qwen3`.
fn is_like(word: &str, other: &str) -> bool {
    let (short, long) = if word.len() <= other.len() {
        (word, other)
    } else {
        (other, word)
    };
    word == other
        || (short.len() > 2 && long.starts_with(short))
        || (short.len() > 4
            && edit_distance(word, other) == 1
            && digits_of(word) == digits_of(other))
}

fn digits_of(word: &str) -> String {
    word.chars().filter(char::is_ascii_digit).collect()
}

/// Insertions, deletions, replacements and swaps of neighbouring characters.
fn edit_distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, &a) in left.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, &b) in right.iter().enumerate() {
            let replaced = row[j] + usize::from(a != b);
            let mut least = replaced.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && a == right[j - 1] && left[i - 1] == b {
                least = least.min(before[j - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_by_hand() {
        for (left, right, count) in [
            ("kitten", "sitting", 3),
            ("", "abc", 3),
            ("abc", "", 3),
            ("modle", "model", 1),
            ("same", "same", 0),
        ] {
            assert_eq!(edit_distance(left, right), count, "{left} {right}");
            assert_eq!(edit_distance(right, left), count, "{right} {left}");
        }
    }

    #[test]
    fn names_are_near_by_words_and_by_letters() {
        let names = [
            "batch_size",
            "path",
            "model",
            "device",
            "prompt_tokens",
            "cached_tokens",
            "num_hidden_layers",
        ];
        for (wanted, expected) in [
            ("batchsize", Some("batch_size")),
            ("batch", Some("batch_size")),
            ("modle", Some("model")),
            ("modl", Some("model")),
            ("prompt_token", Some("prompt_tokens")),
            ("prompts", Some("prompt_tokens")),
            ("layers", Some("num_hidden_layers")),
            ("zzz", None),
            ("colour", None),
        ] {
            assert_eq!(
                nearest_name(wanted, names.into_iter()),
                expected,
                "{wanted}"
            );
        }
        let alike = nearest_alike("tokens", names.into_iter(), 3);
        assert_eq!(alike, ["cached_tokens", "prompt_tokens"]);
        assert!(nearest_alike("tokens", names.into_iter(), 1).is_empty());
    }

    #[test]
    fn a_name_of_megabytes_is_near_to_none_at_once() {
        let long = "a".repeat(100 << 20);
        assert!(near_names(&long, [long[1..].as_ref()].into_iter()).is_empty());
    }

    #[test]
    fn models_are_near_by_their_hub_names() {
        let names = [
            "qwen3_8b",
            "qwen3_30b_a3b",
            "qwen2_5_7b",
            "llama3_1_8b",
            "llama3_70b",
        ];
        for (wanted, expected) in [
            ("Qwen/Qwen3-8B-FP8", Some("qwen3_8b")),
            ("llama-3.1-8b", Some("llama3_1_8b")),
            ("Llama-3.1-8B-Instruct", Some("llama3_1_8b")),
            ("nope", None),
        ] {
            assert_eq!(
                nearest_name(wanted, names.into_iter()),
                expected,
                "{wanted}"
            );
        }
        let alike = near_names("qwen3", names.into_iter());
        assert_eq!(alike, ["qwen3_8b", "qwen3_30b_a3b"]);
    }
}
