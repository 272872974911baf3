//! One HTML file that needs nothing else: style, scripts and data are inside, and its content policy forbids every request.

mod block;
mod operators;
mod roofline;
mod timeline;

use llmprof_record::issue::Issue;

use crate::{
    chart::{self, Svg, Width, escaped, page_theme},
    view::{Part, ReportView, Section},
};

const CSS: &str = include_str!("../../../assets/page.css");
const SCRIPTS: [&str; 4] = [
    include_str!("../../../assets/page.js"),
    include_str!("../../../assets/table.js"),
    include_str!("../../../assets/roofline.js"),
    include_str!("../../../assets/timeline.js"),
];

// The page may be opened from disk or from a server: either way it asks nobody for anything.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// The whole page.
pub fn report(view: &ReportView) -> String {
    let title = escaped(&view.title);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <title>{title}</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n{}{CSS}</style>\n</head>\n<body>\n",
        page_theme()
    );
    page += &format!(
        "<header>\n<div class=\"top\"><h1>{title}</h1>\
         <button type=\"button\" id=\"theme\" title=\"Light, dark or as the system\">theme</button></div>\n"
    );
    if !view.subtitle.is_empty() {
        page += &format!(
            "<p class=\"subtitle\">{}</p>\n",
            block::prose(&view.subtitle)
        );
    }
    if !view.conclusion.is_empty() {
        page += &format!(
            "<div class=\"conclusion\">\n{}</div>\n",
            lines("p", &view.conclusion)
        );
    }
    page += &issues(&view.issues);
    page += &contents(&view.sections);
    page += "</header>\n<main>\n";
    for (index, section) in view.sections.iter().enumerate() {
        page += &format!(
            "<section id=\"section-{index}\">\n<h2>{}</h2>\n",
            escaped(&section.title)
        );
        for (place, part) in section.parts.iter().enumerate() {
            page += &self::part(part, &format!("{index}-{place}"));
        }
        page += "</section>\n";
    }
    page += "</main>\n<div id=\"tip\" role=\"tooltip\" hidden></div>\n";
    for script in SCRIPTS {
        page += &format!("<script>\n{script}</script>\n");
    }
    page += "</body>\n</html>\n";
    page
}

fn part(part: &Part, id: &str) -> String {
    match part {
        Part::Document(document) => block::blocks(&document.blocks),
        Part::Waterfall(waterfall) => {
            figure("waterfall", |width| chart::waterfall(waterfall, width))
        }
        Part::Roofline(roofline) => roofline::figure(roofline, id),
        Part::Timeline(timeline) => timeline::figure(timeline),
        Part::Histogram(histogram) => {
            figure("histogram", |width| chart::histogram(histogram, width))
        }
        Part::Series(series) => figure("series", |width| chart::series(series, width)),
        Part::Operators(table) => operators::figure(table),
    }
}

fn figure(class: &str, drawn: impl Fn(Width) -> Svg) -> String {
    format!("<figure class=\"{class}\">\n{}</figure>\n", both(drawn))
}

/// A chart for wide and for narrow windows: the style sheet shows the one that fits.
fn both(drawn: impl Fn(Width) -> Svg) -> String {
    drawn(Width::Wide).inline() + &drawn(Width::Narrow).inline()
}

fn issues(issues: &[Issue]) -> String {
    if issues.is_empty() {
        return String::new();
    }
    let mut text = "<ul class=\"issues\" aria-label=\"Issues\">\n".to_owned();
    let mut sorted: Vec<&Issue> = issues.iter().collect();
    sorted.sort_by_key(|issue| std::cmp::Reverse(issue.severity));
    for issue in sorted {
        let severity = issue.severity;
        text += &format!(
            "<li class=\"{severity}\"><b>{severity}</b> {} <code>{}</code>",
            block::prose(&issue.message),
            escaped(&issue.code)
        );
        if issue.count > 1 {
            text += &format!(" ×{}", issue.count);
        }
        if let Some(hint) = &issue.hint {
            text += &format!(" <span class=\"hint\">{}</span>", block::prose(hint));
        }
        text += "</li>\n";
    }
    text + "</ul>\n"
}

fn contents(sections: &[Section]) -> String {
    if sections.len() < 2 {
        return String::new();
    }
    let links: Vec<String> = sections
        .iter()
        .enumerate()
        .map(|(index, section)| {
            format!(
                "<a href=\"#section-{index}\">{}</a>",
                escaped(&section.title)
            )
        })
        .collect();
    format!("<nav aria-label=\"Sections\">{}</nav>\n", links.join(" "))
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
