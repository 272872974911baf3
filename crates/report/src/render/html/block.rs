//! Headings, paragraphs and lists.

use super::lines;
use crate::chart::escaped;

pub(super) fn heading(text: &str) -> String {
    format!("<h3>{}</h3>\n", escaped(text))
}

pub(super) fn entry(key: &str, title: &str) -> String {
    format!("<h3 id=\"{}\">{}</h3>\n", escaped(key), escaped(title))
}

pub(super) fn paragraph(text: &str) -> String {
    format!("<p>{}</p>\n", prose(text))
}

pub(super) fn list(items: &[String]) -> String {
    format!("<ul>\n{}</ul>\n", lines("li", items))
}

/// Running text with the two marks that documents use, `code` and **strong**; a mark without its partner stays as it is.
pub(super) fn prose(text: &str) -> String {
    let mut out = String::new();
    let mut pieces = text.split('`');
    let mut prose = pieces.next().unwrap_or_default().to_owned();
    while let Some(code) = pieces.next() {
        if let Some(next) = pieces.next() {
            out += &strong(&prose);
            out += &format!("<code>{}</code>", escaped(code));
            next.clone_into(&mut prose);
        } else {
            prose = format!("{prose}`{code}");
        }
    }
    out + &strong(&prose)
}

/// Units that stay on the line of their number.
const UNITS: [&str; 14] = [
    "%", "ns", "µs", "ms", "s", "B", "KiB", "MiB", "GiB", "tok/s", "kernels", "steps", "W", "GHz",
];

/// The text with no-break spaces between numbers and units: a narrow page would part them.
fn unbroken(text: &str) -> String {
    let mut out = String::new();
    for word in text.split_inclusive(' ') {
        let bare = word.trim_end().trim_end_matches([',', '.', ';', ':', ')']);
        let is_unit = UNITS.contains(&bare);
        let is_after_number = out
            .strip_suffix(' ')
            .is_some_and(|before| before.ends_with(|c: char| c.is_ascii_digit()));
        if is_unit && is_after_number {
            out.pop();
            out.push('\u{a0}');
        }
        out += word;
    }
    out
}

fn strong(text: &str) -> String {
    let text = unbroken(&escaped(text));
    let pieces: Vec<&str> = text.split("**").collect();
    let pairs = (pieces.len() - 1) / 2;
    let mut out = String::new();
    for (index, piece) in pieces.iter().enumerate() {
        out += match index {
            0 => "",
            index if index > 2 * pairs => "**",
            index if index % 2 == 1 => "<strong>",
            _ => "</strong>",
        };
        out += piece;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_need_their_partner() {
        assert_eq!(
            prose("a `b<c` **d** e"),
            "a <code>b&lt;c</code> <strong>d</strong> e"
        );
        assert_eq!(prose("a ` b"), "a ` b");
        assert_eq!(prose("`x` and ` y"), "<code>x</code> and ` y");
        assert_eq!(prose("2 ** 3"), "2 ** 3");
        assert_eq!(prose("**a** ** b"), "<strong>a</strong> ** b");
        assert_eq!(prose(""), "");
    }

    #[test]
    fn a_number_keeps_its_unit() {
        assert_eq!(
            prose("idle 94.1 %; 942 ms more, in 3 ways"),
            "idle 94.1\u{a0}%; 942\u{a0}ms more, in 3 ways"
        );
    }
}
