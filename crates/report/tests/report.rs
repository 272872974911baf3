//! One report through every renderer: what is said is the same.

#[path = "../examples/sample/mod.rs"]
mod sample;

use llmprof_report::{
    chart::{self, Width},
    render::{html, markdown, terminal},
    view::{Part, ReportView},
};

#[test]
fn a_report_renders_the_same_each_time() {
    assert_eq!(
        html::report(&sample::report(500)),
        html::report(&sample::report(500))
    );
}

#[test]
fn markdown_and_page_tell_the_same_waterfall() {
    let view = sample::report(500);
    let page = html::report(&view);
    let text = markdown::document(&view.document());
    let waterfalls = view
        .sections
        .iter()
        .flat_map(|section| &section.parts)
        .filter_map(|part| match part {
            Part::Waterfall(waterfall) => Some(waterfall),
            _ => None,
        });
    for part in waterfalls.flat_map(|waterfall| &waterfall.parts) {
        assert!(
            page.contains(&format!("<title>{}: {} · ", part.label, part.duration_ns)),
            "{part:?}"
        );
        assert!(
            text.contains(&format!("| {} | {} | ", part.label, part.duration_ns)),
            "{part:?}"
        );
    }
}

#[test]
fn the_text_of_a_report() {
    // The long parts are left out: points and operators have their own tables of the same make.
    let mut view = sample::report(500);
    for part in view
        .sections
        .iter_mut()
        .flat_map(|section| &mut section.parts)
    {
        match part {
            Part::Roofline(roofline) => roofline.points.truncate(6),
            Part::Operators(operators) => operators.rows.truncate(6),
            _ => {}
        }
    }
    insta::assert_snapshot!(terminal::document(&view.document()));
}

#[test]
fn hostile_names_stay_text() {
    let page = html::report(&sample::report(500));
    // Six scripts of our own: two with data, four with code; the name would add to both counts.
    assert_eq!(page.matches("<script").count(), 6);
    assert_eq!(page.matches("</script>").count(), 6);
    assert!(!page.contains("<!--"));
}

#[test]
fn nothing_outside_the_page_is_named() {
    let page = html::report(&sample::report(500));
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
    // A file of its own needs the namespace, which is a name and no address to load.
    let empty = ReportView::default();
    assert!(html::report(&empty).contains("</html>"));
    for part in sample::report(500)
        .sections
        .iter()
        .flat_map(|section| &section.parts)
    {
        if let Part::Waterfall(view) = part {
            assert_eq!(
                chart::waterfall(view, Width::Wide)
                    .file()
                    .matches("http")
                    .count(),
                1
            );
        }
    }
}
