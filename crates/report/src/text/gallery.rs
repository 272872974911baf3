//! The sentences of the gallery of grounded pages.

use llmprof_units::Count;

use crate::view::GalleryPage;

pub(crate) const MALFORMED: &str = "Tags that cannot be read";
pub(crate) const MARKDOWN: &str = "Text as Markdown";

pub(crate) fn title(model: &str, pages: u64) -> String {
    format!("{model}: {} with boxes", Count(pages, "page"))
}

pub(crate) fn totals(pages: &[GalleryPage]) -> String {
    let boxes = pages.iter().map(|page| page.labels.len() as u64).sum();
    let malformed: usize = pages.iter().map(|page| page.malformed.len()).sum();
    let outside: u64 = pages.iter().map(|page| page.out_of_range).sum();
    format!(
        "{}; {malformed} malformed tags, {outside} boxes beyond the page. Numbers on a page stand for labels beyond ASCII.",
        Count(boxes, "box")
    )
}

pub(crate) fn facts(page: &GalleryPage) -> String {
    format!(
        "{} × {} pixels, {} in {}",
        page.width,
        page.height,
        Count(page.output_tokens, "token"),
        page.duration_ns
    )
}
