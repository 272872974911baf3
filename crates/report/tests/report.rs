//! One report through every renderer: what is said is the same.

#[path = "../examples/sample/mod.rs"]
mod sample;

use std::collections::BTreeSet;

use llmprof_record::import::{Limits, Profile, import};
use llmprof_record::run::{RecordedTrace, RunRecord};
use llmprof_report::{
    Block, Document, Drawing, Report, plots,
    render::{html, markdown, terminal},
};

/// The report of a recorded device trace.
fn of_a_trace() -> Document {
    let fixture = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/h200/nsys/qwen05.sqlite.gz");
    let Ok((_, Profile::Trace(trace))) = import(&fixture, &Limits::default()) else {
        panic!("{} is a trace", fixture.display());
    };
    let trace = *trace;
    let record = RunRecord {
        traces: vec![RecordedTrace { pass: None, trace }],
        ..RunRecord::default()
    };
    let analysis =
        llmprof_analysis::analyze(&record, None).expect("without a workload nothing is refused");
    Report {
        record: &record,
        analysis: &analysis,
        issues: &analysis.issues,
        device: None,
        notes: None,
    }
    .document()
}

/// Result and findings with their replay come first, then where the time went, then phases, then tables.
#[test]
fn a_report_begins_with_what_matters() {
    let document = of_a_trace();
    assert!(
        document.summary[0].starts_with("GPU busy 6.7 % of 163.7 ms in phases"),
        "{:?}",
        document.summary
    );
    let keys: Vec<&str> = document.sections.iter().map(|s| s.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "replay",
            "waterfall",
            "phases",
            "timeline",
            "kernels",
            "copies",
            "assumptions"
        ]
    );
    let text = markdown::document(&document);
    let places = [
        "## Summary",
        "## Findings",
        "## Warnings",
        "## Where the time went",
        "## Phases",
    ]
    .map(|heading| text.find(heading).unwrap_or_else(|| panic!("{heading}")));
    assert!(places.is_sorted(), "{places:?}");
    // A terminal has no more than the result, phases and three findings.
    let digest = terminal::digest(&document);
    assert!(digest.len() <= document.summary.len() + 3);
    assert!(
        digest
            .iter()
            .all(|line| !line.contains("nothing can be said"))
    );
}

/// Links of findings and of the navigation lead somewhere, and no two anchors are the same.
#[test]
fn every_link_of_a_page_has_its_anchor() {
    for document in [of_a_trace(), sample::report(500)] {
        let page = html::report(&document);
        let named = |mark: &str| {
            page.split(mark)
                .skip(1)
                .filter_map(|rest| rest.split('"').next())
                .map(str::to_owned)
                .collect::<Vec<String>>()
        };
        let anchors = named(" id=\"");
        let distinct: BTreeSet<&String> = anchors.iter().collect();
        assert_eq!(distinct.len(), anchors.len(), "{anchors:?}");
        let links = named("href=\"#");
        assert!(links.len() > 6, "{links:?}");
        for link in links {
            assert!(anchors.contains(&link), "#{link} leads nowhere");
        }
    }
}

#[test]
fn a_report_renders_the_same_each_time() {
    assert_eq!(
        html::report(&sample::report(500)),
        html::report(&sample::report(500))
    );
}

/// Every cell that a text has stands on the page too, and every section has its anchor.
#[test]
fn markdown_and_page_tell_the_same() {
    let document = sample::report(500);
    let text = markdown::document(&document);
    // Where a number may break.
    let page = html::report(&document).replace("<wbr>", "");
    for section in &document.sections {
        assert!(
            page.contains(&format!("id=\"{}\"", section.key)),
            "{}",
            section.key
        );
        // What is only drawn has no place in a text.
        let is_drawn = |block: &Block| matches!(block, Block::Chart(_));
        assert!(
            section.blocks.iter().all(is_drawn) || text.contains(&format!("## {}", section.title)),
            "{}",
            section.title
        );
        for block in &section.blocks {
            let Block::Table(table) = block else { continue };
            for cell in table.rows.iter().flat_map(|row| &row.cells) {
                let printed = cell.text();
                if !printed.contains(['<', '&']) {
                    assert!(
                        page.contains(printed) && text.contains(printed),
                        "{printed}"
                    );
                }
            }
        }
    }
    for line in &document.summary {
        assert!(text.contains(line), "{line}");
    }
}

#[test]
fn the_text_of_a_report() {
    // The long table is cut: its rows are all of one make.
    let mut document = sample::report(500);
    for block in document
        .sections
        .iter_mut()
        .flat_map(|section| &mut section.blocks)
    {
        if let Block::Table(table) = block {
            table.rows_in_text = 6;
        }
    }
    insta::assert_snapshot!(terminal::document(&document));
}

#[test]
fn a_terminal_has_the_result_first() {
    let lines = terminal::digest(&sample::report(500));
    assert_eq!(lines[0], "TTFT 41 ms · TPOT 20.6 ms · 46.9 tok/s");
    let last = lines.last().map(String::as_str);
    assert_eq!(
        last,
        Some(
            "1. Decode is host-bound: GPU idle 84.5 %. Upper bound: run 6.30×. Try: CUDA Graphs, or torch.compile."
        ),
        "what abstains stays in the report"
    );
}

#[test]
fn hostile_names_stay_text() {
    let page = html::report(&sample::report(500));
    // Seven scripts of our own: two with data, five with code; the name would add to both counts.
    assert_eq!(page.matches("<script").count(), 7);
    assert_eq!(page.matches("</script>").count(), 7);
    assert!(!page.contains("<!--"));
}

#[test]
fn nothing_outside_the_page_is_named() {
    let document = sample::report(500);
    let page = html::report(&document);
    for word in [
        "http:",
        "https:",
        "src=",
        "@import",
        "url(",
        "fetch(",
        "XMLHttpRequest",
    ] {
        assert!(!page.contains(word), "{word}");
    }
    assert!(html::report(&Document::default()).contains("</html>"));
    // A file of its own needs the namespace, which is a name and no address to load.
    for (name, svg) in plots(&document) {
        assert_eq!(svg.file().matches("http").count(), 1, "{name}");
    }
    let charts = document
        .charts()
        .filter(|chart| matches!(chart.drawing, Drawing::Waterfall(_) | Drawing::Timeline(_)));
    assert_eq!(charts.count(), 3);
}
