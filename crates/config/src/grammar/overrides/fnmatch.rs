//! Python's `fnmatch`: `*`, `?`, `[abc]`, `[!a-c]`.

/// Whether the whole of `name` matches `pattern`.
pub(super) fn matches_pattern(name: &str, pattern: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    let pattern: Vec<char> = pattern.chars().collect();
    let (mut n, mut p) = (0, 0);
    // Where to go back to: the last star, and the name position it was tried with.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&'*') {
            star = Some((p, n));
            p += 1;
            continue;
        }
        match name.get(n) {
            None if p == pattern.len() => return true,
            Some(&c) => {
                if let Some(length) = match_one(&pattern[p..], c) {
                    n += 1;
                    p += length;
                    continue;
                }
            }
            None => {}
        }
        match star {
            Some((at, tried)) if tried < name.len() => {
                star = Some((at, tried + 1));
                (p, n) = (at + 1, tried + 1);
            }
            _ => return false,
        }
    }
}

/// The length of the pattern item that matches `c`.
fn match_one(pattern: &[char], c: char) -> Option<usize> {
    match pattern.first()? {
        '?' => Some(1),
        '[' => match parse_set(pattern) {
            Some((members, length)) => in_set(members, c).then_some(length),
            None => (c == '[').then_some(1),
        },
        &literal => (literal == c).then_some(1),
    }
}

/// The inside of `[…]` and the length of the whole; a `]` that comes first is a member.
fn parse_set(pattern: &[char]) -> Option<(&[char], usize)> {
    let mut end = 1;
    if pattern.get(end) == Some(&'!') {
        end += 1;
    }
    if pattern.get(end) == Some(&']') {
        end += 1;
    }
    while *pattern.get(end)? != ']' {
        end += 1;
    }
    Some((&pattern[1..end], end + 1))
}

fn in_set(members: &[char], c: char) -> bool {
    let (negated, members) = match members {
        ['!', rest @ ..] => (true, rest),
        _ => (false, members),
    };
    let mut at = 0;
    let mut is_member = false;
    while at < members.len() {
        if let [low, '-', high, ..] = members[at..] {
            is_member |= (low..=high).contains(&c);
            at += 3;
        } else {
            is_member |= members[at] == c;
            at += 1;
        }
    }
    is_member != negated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_and_sets() {
        for (name, pattern) in [
            ("resnet50", "res*"),
            ("resnet50", "*50"),
            ("resnet50", "r*n*5?"),
            ("a]b", "a[]]b"),
            ("b1", "[a-c][!2-9]"),
            ("a[b", "a[b"),
            ("", "*"),
            ("a-b", "a[x-]b"),
        ] {
            assert!(matches_pattern(name, pattern), "{name} {pattern}");
        }
        for (name, pattern) in [("", "?"), ("ab", "a"), ("b", "[!a-c]"), ("abc", "*b")] {
            assert!(!matches_pattern(name, pattern), "{name} {pattern}");
        }
    }
}
