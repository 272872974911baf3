//! What stands above the sections: result, navigation, findings, warnings; and the notes below them.

use llmprof_record::issue::Issue;

use super::{block, lines};
use crate::{
    chart::escaped,
    document::{Document, FindingItem, Link, ReportTarget},
    text,
};

pub(super) fn header(document: &Document) -> String {
    let title = escaped(&document.title);
    let mut page = format!(
        "<header>\n<div class=\"top\"><h1>{title}</h1>\
         <button type=\"button\" id=\"theme\" title=\"Light, dark or as the system\">theme</button></div>\n"
    );
    if !document.subtitle.is_empty() {
        let subtitle = block::prose(&document.subtitle);
        page += &format!("<p class=\"subtitle\">{subtitle}</p>\n");
    }
    if !document.caveats.is_empty() {
        let caveats = lines("p", &document.caveats);
        page += &format!("<div class=\"caveats\" id=\"caveats\">\n{caveats}</div>\n");
    }
    if !document.summary.is_empty() {
        let summary = lines("p", &document.summary);
        page += &format!("<div class=\"conclusion\" id=\"summary\">\n{summary}</div>\n");
    }
    page += "</header>\n";
    page + &navigation(document)
}

fn navigation(document: &Document) -> String {
    let mut links = Vec::new();
    if !document.findings.is_empty() {
        links.push(("findings", "Findings".to_owned()));
    }
    for section in document.sections.iter().filter(|s| !s.title.is_empty()) {
        links.push((&section.key, section.title.clone()));
    }
    if document.notes().next().is_some() {
        links.push(("notes", "Notes".to_owned()));
    }
    if links.len() < 2 {
        return String::new();
    }
    let links: Vec<String> = links
        .iter()
        .map(|(key, title)| format!("<a href=\"#{}\">{}</a>", escaped(key), escaped(title)))
        .collect();
    format!("<nav aria-label=\"Sections\">{}</nav>\n", links.join(" "))
}

/// Findings as a ranked list, the evidence folded away behind the first three.
pub(super) fn findings(document: &Document) -> String {
    if document.findings.is_empty() && document.no_conclusion.is_empty() {
        return String::new();
    }
    let mut text = "<section id=\"findings\">\n<h2>Findings</h2>\n".to_owned();
    if !document.findings.is_empty() {
        text += &ranked(&document.findings);
        if document.findings.len() > 1 {
            text += &format!("<p class=\"facts\">{}</p>\n", text::OVERLAP);
        }
    }
    if !document.no_conclusion.is_empty() {
        let list = block::list(&document.no_conclusion);
        text += &format!("<details><summary>No conclusion</summary>\n{list}</details>\n");
    }
    text + "</section>\n"
}

pub(super) fn warnings(document: &Document) -> String {
    issues("Warnings", &document.warnings())
}

fn ranked(findings: &[FindingItem]) -> String {
    let mut text = "<ol class=\"findings\">\n".to_owned();
    for finding in findings {
        text += &format!(
            "<li id=\"{}\"><p class=\"title\">{}</p>\n",
            escaped(&finding.key),
            block::prose(&finding.title)
        );
        let mut facts = Vec::new();
        if let Some(gain) = &finding.gain {
            facts.push(format!(
                "<span class=\"gain\">{}</span>",
                block::prose(gain)
            ));
        }
        if let Some(knob) = &finding.knob {
            facts.push(format!(
                "<span class=\"knob\">{}</span>",
                block::prose(knob)
            ));
        }
        facts.extend(finding.links.iter().map(link));
        if !facts.is_empty() {
            text += &format!("<p class=\"facts\">{}</p>\n", facts.join(" "));
        }
        if !finding.evidence.is_empty() {
            let evidence = block::list(&finding.evidence);
            text += &format!("<details><summary>evidence</summary>\n{evidence}</details>\n");
        }
        text += "</li>\n";
    }
    text + "</ol>\n"
}

fn link(link: &Link) -> String {
    let label = escaped(&link.label);
    match &link.target {
        ReportTarget::Anchor(anchor) => format!("<a href=\"#{}\">{label}</a>", escaped(anchor)),
        ReportTarget::Phase(phase) => format!(
            "<a href=\"#timeline\" data-show-phase=\"{}\">{label}</a>",
            escaped(phase)
        ),
        ReportTarget::Event(name) => format!(
            "<a href=\"#timeline\" data-name=\"{}\">{label}</a>",
            escaped(name)
        ),
    }
}

/// Issues that affect no number, below everything else.
pub(super) fn notes(document: &Document) -> String {
    let notes: Vec<&Issue> = document.notes().collect();
    if notes.is_empty() {
        return String::new();
    }
    let list = issues("Notes", &notes);
    format!("<section id=\"notes\">\n<h2>Notes</h2>\n{list}</section>\n")
}

fn issues(label: &str, issues: &[&Issue]) -> String {
    if issues.is_empty() {
        return String::new();
    }
    let mut text = format!("<ul class=\"issues\" aria-label=\"{label}\">\n");
    for issue in issues {
        let severity = issue.severity;
        text += &format!(
            "<li class=\"{severity}\"><b>{severity}</b> {} <code>{}</code>",
            block::prose(&text::issue(issue)),
            escaped(issue.code.as_str())
        );
        if issue.count > 1 {
            text += &format!(" ×{}", issue.count);
        }
        if let Some(hint) = text::hint(issue) {
            text += &format!(" <span class=\"hint\">{}</span>", block::prose(&hint));
        }
        text += "</li>\n";
    }
    text + "</ul>\n"
}
