//! The text without its tags.

use crate::parse::{Grounded, Region};

/// What ends a text of DeepSeek's models, where the tokenizer leaves it in.
const END: &str = "<｜end▁of▁sentence｜>";

/// Commands of LaTeX that Markdown renderers do not know.
const REPLACED: [(&str, &str); 2] = [("\\coloneqq", ":="), ("\\eqqcolon", "=:")];

/// Markdown: a region labelled `image` becomes a link to its crops, other tags are left out. `crops` are the file names of a
/// region's crops.
pub(crate) fn to_markdown(
    text: &str,
    grounded: &Grounded,
    crops: impl Fn(usize, &Region) -> Vec<String>,
) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for (number, region) in grounded.regions.iter().enumerate() {
        out += &text[at..region.span.start];
        let links = crops(number, region);
        let links: Vec<String> = links.iter().map(|name| format!("![]({name})")).collect();
        out += &links.join("\n");
        at = region.span.end;
    }
    out += &text[at..];
    let mut out = out.replace(END, "");
    for (from, to) in REPLACED {
        out = out.replace(from, to);
    }
    out.trim().to_owned() + "\n"
}
