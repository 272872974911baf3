mod sentences;
use self::sentences as text;
use super::summary::by_size;
use crate::Document;
use crate::analyzed::Analysis;

/// `stakeholder_summary.md`: how fast, what limits it, what would help.
pub fn stakeholder(analysis: &Analysis) -> Document {
    let mut document = Document::new(format!(
        "{}: how fast it is, and why",
        super::summary::model_name(analysis)
    ));
    document
        .section("speed", "How fast it is")
        .list(text::speed(analysis));
    let (large, _) = by_size(&analysis.phases);
    let limits: Vec<String> = large
        .into_iter()
        .map(|phase| text::limit(phase, analysis))
        .collect();
    let section = document.section("limits", "What holds it back");
    if limits.is_empty() {
        section.paragraph("Nothing was recorded that would tell.");
    }
    section.list(limits);
    let helps = text::helps(analysis);
    let section = document.section("helps", "What would help");
    if helps.is_empty() {
        section.paragraph("Nothing was found whose gain can be computed from this run.");
    }
    section.list(helps);
    super::named(document, analysis)
}
