//! `analysis/samples.html`: the first samples of a dataset or a variant, to look at. No script, no address outside of the dataset.

use std::path::Path;

use super::{
    ANALYSIS, Dataset, SOURCE,
    samples::{DatasetSamples, SampleContent},
};
use crate::{Changes, Result};

/// Enough to see what the samples are like on a page that loads at once: 20 samples, about ten lines of each.
const SAMPLES_SHOWN: usize = 20;
const CHARACTERS_SHOWN: usize = 600;
const TOKENS_SHOWN: usize = 64;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}\
pre{white-space:pre-wrap;overflow-wrap:anywhere;border-left:3px solid #8888;padding-left:.8rem}\
img{max-width:100%;max-height:24rem}h2{font-size:1rem;overflow-wrap:anywhere}";

/// Writes the page of a part: `source-data` or a variant. `root` is where its samples lie now.
pub(super) fn put_page(
    dataset: &Dataset,
    part: &str,
    (root, samples): (&Path, &DatasetSamples),
    changes: &mut Changes,
) -> Result<()> {
    let name = match part {
        SOURCE => "samples.html".to_owned(),
        variant => format!("samples-{variant}.html"),
    };
    let page = render_page(dataset, part, root, samples)?;
    changes.own_file(&dataset.folder.join(ANALYSIS).join(name), page);
    Ok(())
}

fn render_page(
    dataset: &Dataset,
    part: &str,
    root: &Path,
    samples: &DatasetSamples,
) -> Result<String> {
    let title = escape_html(&format!("{}: {part}", dataset.name));
    let shown = samples.len().min(SAMPLES_SHOWN);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src 'self' file:\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<p>The first {shown} of {}.</p>\n",
        llmprof_units::Count(samples.len() as u64, "sample")
    );
    for number in 0..shown {
        let sample = samples.sample(number)?;
        page += &format!("<h2>{}</h2>\n", escape_html(&sample.id));
        page += &match sample.content {
            SampleContent::Text(text) => excerpt_of(text.chars(), CHARACTERS_SHOWN, "character"),
            SampleContent::Tokens(tokens) => {
                let ids: Vec<String> = tokens
                    .iter()
                    .take(TOKENS_SHOWN)
                    .map(u32::to_string)
                    .collect();
                let more = tokens.len().saturating_sub(TOKENS_SHOWN);
                format!("<pre>{}{}</pre>\n", ids.join(" "), rest_note(more, "token"))
            }
            SampleContent::Image(path) => {
                let address = image_address(dataset, part, root, &path);
                let address = escape_html(&address);
                format!(
                    "<p><a href=\"{address}\"><img loading=\"lazy\" src=\"{address}\" alt=\"\"></a></p>\n"
                )
            }
        };
    }
    page += "</body>\n</html>\n";
    Ok(page)
}

fn excerpt_of(mut characters: std::str::Chars<'_>, most: usize, unit: &str) -> String {
    let shown: String = characters.by_ref().take(most).collect();
    format!(
        "<pre>{}{}</pre>\n",
        escape_html(&shown),
        rest_note(characters.count(), unit)
    )
}

fn rest_note(count: usize, unit: &str) -> String {
    match count {
        0 => String::new(),
        count => format!(" … {} more", llmprof_units::Count(count as u64, unit)),
    }
}

/// An image from the page: by the link of the dataset where it lies below it, so that the project can move.
fn image_address(dataset: &Dataset, part: &str, root: &Path, image: &Path) -> String {
    let below = match (
        image.strip_prefix(&dataset.folder),
        image.strip_prefix(root),
    ) {
        (Ok(below), _) => Path::new("..").join(below),
        (_, Ok(below)) => Path::new("..").join(part).join(below),
        _ => image.to_owned(),
    };
    let mut address = String::new();
    for byte in below.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                address.push(*byte as char);
            }
            other => address += &format!("%{other:02X}"),
        }
    }
    address
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
