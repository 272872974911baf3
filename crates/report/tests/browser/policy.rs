//! The content policy of the page, as a browser enforces it: what a hole in the escaping would let in does not run.

use std::fs;

use llmprof_report::render::html;
use serde_json::Value;

use super::{Page, page_of, sample};

/// Each way to run something; `ran` collects those that did.
const INJECTED: [&str; 6] = [
    "<script>ran.push('inline')</script>",
    "<script src=\"data:text/javascript,ran.push('data')\"></script>",
    "<img src=\"data:,\" onerror=\"ran.push('attribute')\">",
    "<svg onload=\"ran.push('svg')\"></svg>",
    "<iframe srcdoc=\"<script>parent.ran.push('frame')</script>\"></iframe>",
    "<a id=\"link\" href=\"javascript:ran.push('link')\">x</a>",
];

/// The sample report with these elements at the beginning of its body.
fn page_with(injected: &str, keeps_policy: bool) -> Page {
    let report = sample::report(2_000);
    let mut page = page_of(&report);
    let text = html::report(&report);
    let meta = "<meta http-equiv=\"Content-Security-Policy\"";
    assert!(text.contains(meta));
    let other = "<meta name=\"none\"";
    let text = text.replacen(meta, if keeps_policy { meta } else { other }, 1);
    let text = text.replacen("<body>", &format!("<body>{injected}"), 1);
    fs::write(&page.file, text).expect("the page is written");
    page.browser.call(
        "Page.addScriptToEvaluateOnNewDocument",
        serde_json::json!({"source": "var ran = [];"}),
    );
    page.browser.open(&page.file.clone());
    page.browser
        .value("document.getElementById('link').click()");
    page.browser.frame();
    page
}

fn ran(page: &mut Page) -> Vec<String> {
    let ran = page.browser.value("[...ran].sort()");
    let ran = ran.as_array().into_iter().flatten();
    ran.filter_map(Value::as_str).map(str::to_owned).collect()
}

#[test]
#[ignore = "live: needs Chromium"]
fn what_is_injected_does_not_run_and_the_page_does() {
    let mut page = page_with(&INJECTED.concat(), true);
    assert_eq!(ran(&mut page), Vec::<String>::new());
    let refused = page
        .browser
        .complaints()
        .iter()
        .filter(|complaint| complaint.to_string().contains("Content Security Policy"))
        .count();
    assert!(refused >= INJECTED.len(), "{refused}");
    // The page's own scripts ran.
    page.click(".operators th:nth-child(5) button");
    let times = page.strings(
        "[...document.querySelectorAll('.operators tbody tr')].map(r => r.cells[4].dataset.value)",
    );
    let times: Vec<f64> = times.iter().flat_map(|text| text.parse()).collect();
    assert!(times.len() == 84 && times.is_sorted_by(|a, b| a >= b));
    assert_eq!(page.browser.requests(&page.file), Vec::<String>::new());
}

/// Else the test above would hold of any page.
#[test]
#[ignore = "live: needs Chromium"]
fn without_the_policy_it_would_run() {
    let mut page = page_with(&INJECTED.concat(), false);
    assert_eq!(
        ran(&mut page),
        ["attribute", "data", "frame", "inline", "link", "svg"]
    );
}

/// A style could hide what a report says.
#[test]
#[ignore = "live: needs Chromium"]
fn an_injected_style_does_not_apply() {
    let injected = "<style>main { display: none }</style><a id=\"link\"></a><p id=\"p\" style=\"display: none\">x</p>";
    let mut page = page_with(injected, true);
    for selector in ["main", "#p"] {
        let display = format!("getComputedStyle(document.querySelector('{selector}')).display");
        assert_ne!(page.browser.value(&display), "none", "{selector}");
    }
}
