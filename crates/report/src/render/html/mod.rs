//! One HTML file that needs nothing else: style, scripts and data are inside, and its content policy forbids every request.

mod block;
mod head;
mod roofline;
mod table;
mod timeline;

use sha2::{Digest as _, Sha256};

use crate::{
    chart::{self, ChartWidth, Svg, escaped, page_theme},
    document::{Block, Chart, Document, Drawing, Section},
};

const CSS: &str = include_str!("../../../assets/page.css");
const SCRIPTS: [&str; 5] = [
    include_str!("../../../assets/page.js"),
    include_str!("../../../assets/table.js"),
    include_str!("../../../assets/roofline.js"),
    include_str!("../../../assets/timeline.js"),
    include_str!("../../../assets/timeline_input.js"),
];

/// What the page may do: the style and the scripts that stand here run, by their hashes, and nothing else. It may be opened
/// from disk or from a server: either way it asks nobody for anything.
fn policy(style: &str, scripts: &[String]) -> String {
    let scripts: Vec<String> = scripts.iter().map(|script| hash(script)).collect();
    format!(
        "default-src 'none'; style-src {}; script-src {}; img-src data:; base-uri 'none'; form-action 'none'",
        hash(style),
        scripts.join(" ")
    )
}

/// How a content policy names a style or a script by what it is.
pub(super) fn hash(text: &str) -> String {
    format!("'sha256-{}'", base64(&Sha256::digest(text)))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = (0..3).fold(0_u32, |word, index| {
            word << 8 | u32::from(chunk.get(index).copied().unwrap_or(0))
        });
        for digit in 0..4 {
            let value = (word >> (18 - 6 * digit)) & 63;
            let is_padding = digit > chunk.len();
            text.push(if is_padding {
                '='
            } else {
                char::from(DIGITS[value as usize])
            });
        }
    }
    text
}

pub fn report(document: &Document) -> String {
    let title = escaped(&document.title);
    let style = format!("\n{}{CSS}", page_theme());
    let scripts = SCRIPTS.map(|script| format!("\n{script}"));
    let policy = policy(&style, &scripts);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <title>{title}</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>{style}</style>\n</head>\n<body>\n"
    );
    page += &head::header(document);
    page += "<main>\n";
    page += &head::findings(document);
    page += &head::warnings(document);
    let on_timeline = table::OnTimeline::collect(document);
    for section in &document.sections {
        page += &self::section(section, &on_timeline);
    }
    page += &head::notes(document);
    page += "</main>\n<div id=\"tip\" role=\"tooltip\" hidden></div>\n";
    for script in scripts {
        page += &format!("<script>{script}</script>\n");
    }
    page += "</body>\n</html>\n";
    page
}

fn section(section: &Section, on_timeline: &table::OnTimeline<'_>) -> String {
    let mut text = format!("<section id=\"{}\">\n", escaped(&section.key));
    if !section.title.is_empty() {
        text += &format!("<h2>{}</h2>\n", escaped(&section.title));
    }
    let is_small = |block: &Block| matches!(block, Block::Chart(chart) if !is_wide(chart));
    // Charts that follow each other stand side by side where there is room.
    for blocks in section.blocks.chunk_by(|a, b| is_small(a) && is_small(b)) {
        let several = blocks.len() > 1;
        if several {
            text += "<div class=\"charts\">\n";
        }
        for block in blocks {
            text += &self::block(block, on_timeline);
        }
        if several {
            text += "</div>\n";
        }
    }
    text + "</section>\n"
}

fn block(block: &Block, on_timeline: &table::OnTimeline<'_>) -> String {
    match block {
        Block::Heading(text) => block::heading(text),
        Block::Entry { key, title } => block::entry(key, title),
        Block::Paragraph(text) => block::paragraph(text),
        Block::List(items) => block::list(items),
        Block::Table(view) => table::table(view, on_timeline),
        Block::Chart(chart) => self::chart(chart),
    }
}

/// Whether a chart uses all of the width.
fn is_wide(chart: &Chart) -> bool {
    matches!(
        chart.drawing,
        Drawing::Timeline(_) | Drawing::Roofline(_) | Drawing::Icicle(_) | Drawing::HeatMap(_)
    )
}

fn chart(chart: &Chart) -> String {
    let key = &chart.key;
    match &chart.drawing {
        Drawing::Waterfall(view) => figure("waterfall", key, |width| chart::waterfall(view, width)),
        Drawing::Roofline(view) => roofline::figure(view, key),
        Drawing::Timeline(view) => timeline::figure(view, key),
        Drawing::Histogram(view) => figure("histogram", key, |width| chart::histogram(view, width)),
        Drawing::StepLatency(view) => figure("step-latency", key, |width| {
            chart::step_latency(view, width)
        }),
        Drawing::Series(view) => figure("series", key, |width| chart::series(view, width)),
        Drawing::PairedBars(view) => {
            figure("paired-bars", key, |width| chart::paired_bars(view, width))
        }
        Drawing::HeatMap(view) => figure("heat-map", key, |width| chart::heat_map(view, width)),
        Drawing::Icicle(view) => figure("icicle", key, |width| chart::icicle(view, width)),
        Drawing::Curves(view) => figure("curves", key, |width| chart::curves(view, width)),
    }
}

fn figure(class: &str, key: &str, drawn: impl Fn(ChartWidth) -> Svg) -> String {
    format!(
        "<figure class=\"{class}\" id=\"{}\">\n{}</figure>\n",
        escaped(key),
        both(drawn)
    )
}

/// A chart for wide and for narrow windows: the style sheet shows the one that fits.
fn both(drawn: impl Fn(ChartWidth) -> Svg) -> String {
    drawn(ChartWidth::Wide).inline() + &drawn(ChartWidth::Narrow).inline()
}

fn lines(tag: &str, texts: &[String]) -> String {
    texts.iter().fold(String::new(), |out, text| {
        out + &format!("<{tag}>{}</{tag}>\n", block::prose(text))
    })
}

/// JSON that may stand inside a `script` element: no `<` can end it early.
fn embedded_json(value: &serde_json::Value) -> String {
    value.to_string().replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_as_rfc_4648_has_it() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
