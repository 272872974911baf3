//! The pages of a dataset with what a model found on them, in one HTML file beside their folders.

use llmprof_units::Count;

use crate::{
    chart::{escaped, page_theme},
    render::html,
    text::gallery as text,
    view::GalleryPage,
};

const CSS: &str = include_str!("../../assets/gallery.css");

/// Images lie beside the page, which is opened from disk or from a server; nothing else is asked for.
fn policy(style: &str) -> String {
    let style = html::hash(style);
    format!(
        "default-src 'none'; style-src {style}; img-src 'self' file: data:; base-uri 'none'; form-action 'none'"
    )
}

pub fn gallery(model: &str, pages: &[GalleryPage]) -> String {
    let title = text::title(model, pages.len() as u64);
    let style = format!("\n{}{CSS}", page_theme());
    let policy = policy(&style);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <title>{0}</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>{style}</style>\n</head>\n<body>\n\
         <h1>{0}</h1>\n<p>{1}</p>\n<main>\n",
        escaped(&title),
        escaped(&text::totals(pages)),
    );
    for page in pages {
        html += &article(page);
    }
    html += "</main>\n</body>\n</html>\n";
    html
}

fn article(page: &GalleryPage) -> String {
    let image = format!("{}/result_with_boxes.jpg", href(&page.folder));
    let mut html = format!(
        "<article>\n<h2>{0}</h2>\n<a href=\"{image}\"><img loading=\"lazy\" src=\"{image}\" alt=\"{0}\" width=\"{1}\" height=\"{2}\"></a>\n<p>{3}</p>\n",
        escaped(&page.id),
        page.width,
        page.height,
        escaped(&text::facts(page)),
    );
    if !page.labels.is_empty() {
        let items = page.labels.iter();
        let items = items
            .map(|(number, label)| format!("<li value=\"{number}\">{}</li>\n", escaped(label)));
        html += &details(
            &Count(page.labels.len() as u64, "box").to_string(),
            &format!("<ol>\n{}</ol>\n", items.collect::<String>()),
        );
    }
    if !page.crops.is_empty() {
        let crops = page.crops.iter();
        let crops = crops.map(|file| {
            format!(
                "<img loading=\"lazy\" src=\"{}/{}\" alt=\"\">\n",
                href(&page.folder),
                href(file)
            )
        });
        html += &details(
            &Count(page.crops.len() as u64, "crop").to_string(),
            &crops.collect::<String>(),
        );
    }
    if !page.malformed.is_empty() {
        let items = page.malformed.iter();
        let items = items.map(|line| format!("<li>{}</li>\n", escaped(line)));
        html += &details(
            text::MALFORMED,
            &format!("<ul>\n{}</ul>\n", items.collect::<String>()),
        );
    }
    html += &details(
        text::MARKDOWN,
        &format!("<pre>{}</pre>\n", escaped(&page.markdown)),
    );
    html + "</article>\n"
}

fn details(summary: &str, inner: &str) -> String {
    format!("<details><summary>{summary}</summary>\n{inner}</details>\n")
}

/// A path as a relative address.
fn href(path: &str) -> String {
    let mut address = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_./".contains(&byte) {
            address.push(byte as char);
        } else {
            address += &format!("%{byte:02X}");
        }
    }
    address
}

#[cfg(test)]
mod tests {
    use llmprof_units::Nanos;

    use super::*;

    #[test]
    fn what_a_model_said_is_text_and_never_markup() {
        let page = GalleryPage {
            folder: "a b.png".to_owned(),
            id: "a b.png".to_owned(),
            width: 10,
            height: 20,
            labels: vec![(1, "<script>alert(1)</script>".to_owned())],
            malformed: vec!["byte 3: `<|det|>` is not closed".to_owned()],
            out_of_range: 1,
            crops: vec!["images/0.jpg".to_owned()],
            markdown: "</pre><b>".to_owned(),
            duration_ns: Nanos(1_500_000),
            output_tokens: 7,
        };
        let html = gallery("m<x>", &[page]);
        assert!(
            !html.contains("<script") && !html.contains("</pre><b>"),
            "{html}"
        );
        assert!(html.contains("src=\"a%20b.png/images/0.jpg\""), "{html}");
        assert!(html.contains("&lt;script&gt;"), "{html}");
    }
}
