//! The page in a real browser: it loads alone and quietly, its charts have marks, and sorting, filtering and zooming work.
//!
//! `LLMPROF_SCREENSHOTS=DIR` keeps pictures to look at.

mod chromium;
mod policy;
#[path = "../../examples/sample/mod.rs"]
mod sample;

use std::{
    fs,
    path::{Path, PathBuf},
};

use chromium::Chromium;
use llmprof_record::import::{Limits, Profile, import};
use llmprof_record::run::{RecordedTrace, RunRecord};
use llmprof_report::{
    Document, Drawing, Report, plots,
    render::html,
    view::{Timeline, TimelineEvent},
};
use llmprof_units::Nanos;
use serde_json::{Value, json};
use tempfile::TempDir;

const EVENTS: usize = 100_000;

struct Page {
    browser: Chromium,
    file: PathBuf,
    _directory: TempDir,
}

/// The sample report in a browser of its own.
fn page() -> Page {
    page_of(&sample::report(EVENTS))
}

fn page_of(report: &Document) -> Page {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("report.html");
    fs::write(&file, html::report(report)).expect("the page is written");
    let mut browser = Chromium::start(&chromium::find());
    browser.open(&file);
    Page {
        browser,
        file,
        _directory: directory,
    }
}

impl Page {
    fn window(&mut self) -> (f64, f64) {
        self.browser.frame();
        let window = self
            .browser
            .value("document.querySelector('.timeline').timeline.window");
        (number(&window[0]), number(&window[1]))
    }

    /// The middle of an element, scrolled into view.
    fn center(&mut self, selector: &str) -> (f64, f64) {
        let place = self.browser.value(&format!(
            "(() => {{ const e = document.querySelector({}); e.scrollIntoView({{block: 'center', behavior: 'instant'}}); \
             const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; }})()",
            json!(selector)
        ));
        // The scroll event comes with the next frame, and hides what the pointer would show.
        self.browser.frame();
        (number(&place[0]), number(&place[1]))
    }

    fn click(&mut self, selector: &str) {
        let at = self.center(selector);
        for kind in ["mousePressed", "mouseReleased"] {
            self.browser
                .mouse(kind, at, json!({"button": "left", "clickCount": 1}));
        }
    }

    /// Drags from a place to the right; `modifiers` as the DevTools protocol counts them.
    fn drag(&mut self, (x, y): (f64, f64), by: f64, modifiers: u32) {
        let mut mouse = |kind, x, fields: Value| {
            let mut fields = fields;
            fields["modifiers"] = json!(modifiers);
            self.browser.mouse(kind, (x, y), fields);
        };
        mouse(
            "mousePressed",
            x,
            json!({"button": "left", "clickCount": 1}),
        );
        for step in [by / 2.0, by] {
            mouse(
                "mouseMoved",
                x + step,
                json!({"button": "left", "buttons": 1}),
            );
        }
        mouse(
            "mouseReleased",
            x + by,
            json!({"button": "left", "clickCount": 1}),
        );
    }

    /// Waits until the page has stopped scrolling.
    fn settled(&mut self) {
        self.browser.value(
            "new Promise(done => { let last = -1, still = 0; const look = () => { \
             still = scrollY === last ? still + 1 : 0; last = scrollY; \
             if (still > 5) done(true); else requestAnimationFrame(look); }; look(); })",
        );
    }

    fn type_into(&mut self, selector: &str, text: &str) {
        self.click(selector);
        self.browser.call("Input.insertText", json!({"text": text}));
    }

    fn strings(&mut self, expression: &str) -> Vec<String> {
        let value = self.browser.value(expression);
        let items = value
            .as_array()
            .unwrap_or_else(|| panic!("{expression} is {value}"));
        items
            .iter()
            .map(|item| item.as_str().expect("a string").to_owned())
            .collect()
    }

    fn quiet(&self) {
        assert_eq!(self.browser.complaints(), Vec::<&Value>::new());
        assert_eq!(self.browser.requests(&self.file), Vec::<String>::new());
    }
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
#[ignore = "live: needs Chromium"]
fn loads_alone_and_quietly_with_marks_in_every_chart() {
    let mut page = page();
    page.quiet();
    let marks = [
        (".waterfall .bar", 2 * 8),
        (".roofline .wide .point", 2 * 6 * 4),
        (".roofline .roof", 4),
        (".histogram .bar", 10),
        (".histogram .mark", 3),
        (".step-latency .line", 1),
        (".findings > li", 1),
        ("nav a", 9),
        (".series .line", 2 + 2 + 2),
        (".operators tbody tr", 84),
        (".issues li", 3),
    ];
    for (selector, least) in marks {
        let count = page
            .browser
            .number(&format!("document.querySelectorAll('{selector}').length"));
        assert!(count >= f64::from(least), "{selector}: {count} of {least}");
    }
    // The canvas has more than its ground: count distinct colours of a line through the first row.
    let colors = page.browser.number(
        "(() => { const c = document.querySelector('canvas'); const d = c.getContext('2d').getImageData(0, 30, c.width, 40).data; \
         const seen = new Set(); for (let i = 0; i < d.length; i += 4) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return seen.size; })()",
    );
    assert!(colors > 5.0, "{colors} colours on the timeline");
    assert!(
        page.browser
            .number("document.querySelector('.timeline').timeline.total")
            >= EVENTS as f64
    );
    let titles = page.strings(
        "[...document.querySelectorAll('.operators tbody td[title]')].map(cell => cell.title)",
    );
    assert!(
        titles.iter().any(|title| title == sample::HOSTILE),
        "{titles:?}"
    );
    assert_eq!(
        page.browser
            .number("document.querySelectorAll('script').length"),
        7.0
    );
}

#[test]
#[ignore = "live: needs Chromium"]
fn the_table_sorts_and_filters() {
    let mut page = page();
    let column = |index: usize| {
        format!(
            "[...document.querySelectorAll('.operators tbody tr')].filter(r => !r.hidden).map(r => {{ const c = r.cells[{index}]; \
             return c.dataset.value ?? c.textContent; }})"
        )
    };
    page.click(".operators th:nth-child(5) button");
    let times: Vec<f64> = page
        .strings(&column(4))
        .iter()
        .map(|text| text.parse().expect("a number"))
        .collect();
    assert!(times.is_sorted_by(|a, b| a >= b), "{times:?}");
    page.click(".operators th:nth-child(5) button");
    let rising: Vec<f64> = page
        .strings(&column(4))
        .iter()
        .map(|text| text.parse().expect("a number"))
        .collect();
    assert!(rising.is_sorted() && rising.len() == 84);

    // What is not known comes last both ways.
    for _ in 0..2 {
        page.click(".operators th:nth-child(7) button");
        let known = page.strings(&column(6));
        assert_eq!(known.iter().position(|text| text == "–"), Some(70));
    }

    page.type_into(".operators .filter", "ROPE");
    let kinds = page.strings(&column(1));
    assert_eq!(kinds, vec!["rope"; 12]);
    assert_eq!(
        page.browser
            .value("document.querySelector('.operators output').textContent"),
        "12 of 84 operators"
    );
    page.quiet();
}

#[test]
#[ignore = "live: needs Chromium"]
fn the_roofline_filters_and_tells_what_is_under_the_pointer() {
    let mut page = page();
    let shown = "[...document.querySelectorAll('.roofline .wide .point')].filter(p => getComputedStyle(p).display !== 'none')";
    assert_eq!(page.browser.number(&format!("{shown}.length")), 48.0);
    page.click(".roofline [data-filter=phase][value=prefill]");
    let phases = page.strings(&format!("[...new Set({shown}.map(p => p.dataset.phase))]"));
    assert_eq!(phases, ["decode"]);
    page.click(".roofline [data-filter=kind][value=linear]");
    assert_eq!(page.browser.number(&format!("{shown}.length")), 20.0);
    assert_eq!(
        page.browser
            .value("document.querySelector('.roofline output').textContent"),
        "20 of 48 points"
    );

    let bases = "[...new Set([...document.querySelectorAll('.roof')].filter(r => r.getClientRects().length > 0 && \
                 r.getBoundingClientRect().width > 0).map(r => r.closest('.roofs').dataset.basis))]";
    assert_eq!(page.strings(bases), ["measured"]);
    page.click(".roofline .basis[value=datasheet]");
    assert_eq!(page.strings(bases), ["datasheet"]);

    let at = page.center(".roofline .wide .point[data-kind=attention]:not(.hidden)");
    page.browser.mouse("mouseMoved", at, json!({}));
    let tip = page.browser.value(
        "document.getElementById('tip').hidden ? '' : document.getElementById('tip').textContent",
    );
    assert!(
        tip.as_str()
            .is_some_and(|text| text.contains("FLOP/s at") && text.contains("decode")),
        "{tip}"
    );
    page.quiet();
}

#[test]
#[ignore = "live: needs Chromium"]
fn the_timeline_zooms_and_moves() {
    let mut page = page();
    let span = page
        .browser
        .number("document.querySelector('.timeline').timeline.span");
    assert_eq!(page.window(), (0.0, span));
    let at = page.center(".timeline canvas");
    // Ctrl and the wheel zoom around the pointer.
    page.browser.mouse(
        "mouseWheel",
        at,
        json!({"deltaX": 0, "deltaY": -300, "modifiers": 2}),
    );
    let (from, to) = page.window();
    assert!(
        from > 0.0 && to < span && to - from < span / 2.0,
        "wheel: {from} to {to}"
    );

    // Shift and a drag move by what is dragged.
    page.drag(at, 100.0, 8);
    let moved = page.window();
    assert!(
        moved.0 < from && ((moved.1 - moved.0) - (to - from)).abs() < 1.0,
        "move: {moved:?}"
    );
    // A drag alone zooms into the range that it spans.
    page.drag(at, 100.0, 0);
    let closer = page.window();
    let width = page
        .browser
        .number("(() => { const t = document.querySelector('.timeline').timeline; return t.width - t.GUTTER; })()");
    let expected = (moved.1 - moved.0) * 100.0 / width;
    assert!(
        ((closer.1 - closer.0) / expected - 1.0).abs() < 0.02,
        "range: {closer:?} is not {expected} ns"
    );

    page.browser
        .value("document.querySelector('.timeline canvas').focus()");
    for (key, changes) in [
        ("d", "right"),
        ("a", "left"),
        ("ArrowRight", "right"),
        ("w", "in"),
        ("s", "out"),
        ("+", "in"),
        ("-", "out"),
    ] {
        let before = page.window();
        page.browser.key(key);
        let after = page.window();
        let (was, is) = (before.1 - before.0, after.1 - after.0);
        let changed = match changes {
            "right" => after.0 > before.0 && (is - was).abs() < 1.0,
            "left" => after.0 < before.0 && (is - was).abs() < 1.0,
            "in" => (is * 2.0 - was).abs() < 1.0,
            _ => (is - was * 2.0).abs() < 1.0,
        };
        assert!(changed, "{key}: {before:?} to {after:?}");
    }
    page.click(".timeline [data-action=out]");
    page.click(".timeline [data-action=all]");
    assert_eq!(page.window(), (0.0, span));
    page.browser.value("{ const t = document.querySelector('.timeline').timeline; t.show(t.span / 2, t.span / 2 + 2e6); }");
    page.browser.frame();
    screenshot(&mut page, "zoomed", "figure.timeline");
    page.quiet();
}

/// The wheel alone belongs to the page, wherever the pointer is.
#[test]
#[ignore = "live: needs Chromium"]
fn the_wheel_scrolls_the_page_past_the_timeline() {
    let mut page = page();
    let at = page.center(".timeline canvas");
    let before = page.browser.number("scrollY");
    let window = page.window();
    for delta in [240, -120] {
        page.browser
            .mouse("mouseWheel", at, json!({"deltaX": 0, "deltaY": delta}));
        page.settled();
    }
    let after = page.browser.number("scrollY");
    assert!(
        (after - before - 120.0).abs() < 2.0,
        "scrolled from {before} to {after}"
    );
    assert_eq!(page.window(), window, "the timeline did not zoom");
    page.quiet();
}

#[test]
#[ignore = "live: needs Chromium"]
fn the_timeline_finds_selects_and_follows_links() {
    let mut page = page();
    let span = page
        .browser
        .number("document.querySelector('.timeline').timeline.span");
    page.type_into(".timeline .find", "</SCRIPT>");
    page.browser.frame();
    let status = "document.querySelector('.timeline output').textContent";
    let text = page.browser.value(status);
    let text = text.as_str().unwrap_or_default().to_owned();
    assert!(
        text.ends_with("found") && !text.contains(" 0 found"),
        "{text}"
    );
    // Enter jumps to one hit after the other and tells all of its name.
    page.browser.key("Enter");
    let first = page.window();
    assert!(first.1 - first.0 < span / 100.0, "{first:?}");
    let details = "document.querySelector('.timeline .details').textContent";
    let told = page.browser.value(details);
    assert!(
        told.as_str()
            .is_some_and(|text| text.contains(sample::HOSTILE) && text.contains("of this name")),
        "{told}"
    );
    page.browser.key("Enter");
    assert!(page.window().0 > first.0, "the next hit is later");
    let status = page.browser.value(status);
    assert!(
        status.as_str().is_some_and(|text| text.contains("2 of ")),
        "{status}"
    );

    // A click on an event shows it; its tooltip tells the same.
    page.click(".timeline [data-action=all]");
    let (x, _) = page.center(".timeline canvas");
    let top = page
        .browser
        .number("document.querySelector('.timeline canvas').getBoundingClientRect().top");
    let at = (x, top + 36.0);
    page.browser.mouse("mouseMoved", at, json!({}));
    let tip = page
        .browser
        .value("document.getElementById('tip').textContent");
    assert!(
        tip.as_str()
            .is_some_and(|text| text.contains("step") && text.contains("thread 4711")),
        "{tip}"
    );
    for kind in ["mousePressed", "mouseReleased"] {
        page.browser
            .mouse(kind, at, json!({"button": "left", "clickCount": 1}));
    }
    let told = page.browser.value(details);
    assert!(
        told.as_str().is_some_and(|text| text.starts_with("step")),
        "{told}"
    );

    // The link of a finding shows its phase, the name of a kernel in a table its first launch.
    page.click("[data-show-phase=decode]");
    page.settled();
    let decode = page.window();
    assert!(decode.0 > 0.0 && decode.1 < span, "{decode:?}");
    page.click(".timeline [data-action=all]");
    page.click(".operators a[data-name]");
    page.settled();
    let kernel = page.window();
    assert!(kernel.1 - kernel.0 < span / 100.0, "{kernel:?}");
    // Events of this very name are found, and no other that holds it.
    let marked = page
        .browser
        .number("document.querySelector('.timeline').timeline.found.flags.reduce((sum, flag) => sum + flag, 0)");
    assert_eq!(marked, 1.0, "names that are marked");
    page.click(".findings a[href='#phase-decode']");
    assert_eq!(
        page.browser
            .value("document.querySelector('tr:target').cells[0].textContent"),
        "decode"
    );
    page.quiet();
}

/// Zoomed out, a row that is busy a tenth of the time is a tenth full, not a solid bar.
#[test]
#[ignore = "live: needs Chromium"]
fn zoomed_out_the_timeline_shows_utilization() {
    let mut timeline = Timeline::new(
        vec!["stream 7".to_owned()],
        vec!["kernel".to_owned()],
        vec![],
    );
    for index in 0..50_000_i64 {
        timeline.push(TimelineEvent {
            lane: 0,
            start_ns: Nanos(index * 1_000),
            duration_ns: Nanos(100),
            name: 0,
            phase: 0,
        });
    }
    let mut page = page_of(&of_timeline(timeline));
    let filled = page.browser.number(
        "(() => { const f = document.querySelector('.timeline'), t = f.timeline, c = t.canvas, row = t.rows[0]; \
         const ratio = c.width / t.width, top = Math.round(row.y * ratio), high = Math.round(17 * ratio); \
         const left = Math.round((t.GUTTER + 20) * ratio), wide = c.width - left - 20; \
         const d = c.getContext('2d').getImageData(left, top, wide, high).data; \
         const ground = [d[0], d[1], d[2]].join(); let marks = 0; \
         for (let i = 0; i < d.length; i += 4) if ([d[i], d[i + 1], d[i + 2]].join() !== ground) marks++; \
         return marks / (wide * high); })()",
    );
    assert!(
        (0.05..0.2).contains(&filled),
        "a tenth is busy, {filled:.2} is filled"
    );
    page.quiet();
}

fn of_timeline(timeline: Timeline) -> Document {
    let mut document = Document::new("t");
    document
        .section("timeline", "Timeline")
        .chart("timeline", Drawing::Timeline(timeline));
    document
}

/// The page of a device trace: the same parts, with lanes of the device and a table of kernels.
#[test]
#[ignore = "live: needs Chromium"]
fn a_page_of_a_trace_works() {
    let fixture =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/h200/nsys/qwen05.sqlite.gz");
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
    let document = Report {
        record: &record,
        analysis: &analysis,
        issues: &analysis.issues,
        device: None,
        notes: None,
    }
    .document();
    let timeline = document.charts().find_map(|chart| match &chart.drawing {
        Drawing::Timeline(timeline) => Some(timeline),
        _ => None,
    });
    let timeline = timeline.expect("a trace has one");
    let events = timeline.len();
    assert!(timeline.lanes.iter().any(|lane| lane == "GPU 0, stream 7"));
    let mut page = page_of(&document);
    // Every link of a finding leads somewhere.
    let dangling = page.strings(
        "[...document.querySelectorAll('.findings a, nav a')].map(a => a.getAttribute('href').slice(1)) \
         .filter(id => !document.getElementById(id))",
    );
    assert_eq!(dangling, Vec::<String>::new());
    let links = page
        .browser
        .number("document.querySelectorAll('.findings a').length");
    assert!(links >= 2.0, "{links} links");
    let label = page
        .browser
        .value("document.querySelector('.timeline canvas').getAttribute('aria-label')");
    assert!(
        label
            .as_str()
            .is_some_and(|text| text.contains(&format!("{events} events"))),
        "{label}"
    );
    assert_eq!(
        page.browser
            .number("document.querySelectorAll('figure.waterfall').length"),
        2.0
    );
    // Sorted by calls one way and the other, the kernel that ran most often stands first once.
    let first_after_click = "(() => { const table = document.querySelector('figure.operators'); \
         const column = [...table.querySelectorAll('th')].findIndex(th => th.textContent.startsWith('Calls')); \
         table.querySelectorAll('th button')[column].click(); \
         return Number(table.querySelector('tbody tr').cells[column].dataset.value); })()";
    let firsts = [
        page.browser.number(first_after_click),
        page.browser.number(first_after_click),
    ];
    let kernels = &analysis.timeline.as_ref().expect("a trace has one").kernels;
    let most = kernels.iter().map(|kernel| kernel.calls).max().unwrap_or(0) as f64;
    let least = kernels.iter().map(|kernel| kernel.calls).min().unwrap_or(0) as f64;
    assert_eq!(firsts.iter().copied().fold(0.0, f64::max), most);
    assert_eq!(firsts.iter().copied().fold(most, f64::min), least);
    page.quiet();
}

/// Budget: 95 of 100 redraws within 50 ms. Printed, not asserted, since the machine may be busy with other things.
#[test]
#[ignore = "live: needs Chromium"]
fn redraws_are_timed() {
    // Many events in few rows, then as many in many rows, where every pixel of a large canvas has its own event.
    for (name, report) in [
        ("a few rows", sample::report(EVENTS)),
        ("128 rows", many_lanes(128)),
    ] {
        let mut page = page_of(&report);
        let times = page.browser.value(
            "(() => { const t = document.querySelector('.timeline').timeline, c = t.canvas.getContext('2d'), times = []; \
             for (let i = 0; i < 200; i++) { const extent = t.span * 0.97 ** i; const from = (t.span - extent) * (i % 7) / 7; \
             t.show(from, from + extent); const begun = performance.now(); t.draw(); c.getImageData(0, 0, 1, 1); \
             times.push(performance.now() - begun); } return times.sort((a, b) => a - b); })()",
        );
        let times: Vec<f64> = times
            .as_array()
            .expect("a list")
            .iter()
            .map(number)
            .collect();
        assert_eq!(times.len(), 200);
        eprintln!(
            "redraw of {EVENTS} events in {name}, pixels read back: median {:.1} ms, p95 {:.1} ms, most {:.1} ms (budget: p95 50 ms)",
            times[100], times[190], times[199]
        );
        page.quiet();
    }
}

fn many_lanes(lanes: u32) -> Document {
    let names = (0..50).map(|name| format!("kernel {name}")).collect();
    let mut timeline = Timeline::new(
        (0..lanes).map(|lane| format!("thread {lane}")).collect(),
        names,
        vec![],
    );
    for index in 0..EVENTS as u32 {
        timeline.push(TimelineEvent {
            lane: index % lanes,
            start_ns: Nanos(i64::from(index) * 100),
            duration_ns: Nanos(i64::from(lanes) * 60),
            name: index.wrapping_mul(2_654_435_761) >> 16 & 31,
            phase: 0,
        });
    }
    of_timeline(timeline)
}

#[test]
#[ignore = "live: needs Chromium"]
fn both_themes_are_drawn() {
    let mut page = page();
    let ground = "getComputedStyle(document.body).backgroundColor";
    let scheme = |page: &mut Page, value: &str| {
        let features = json!([{"name": "prefers-color-scheme", "value": value}]);
        page.browser
            .call("Emulation.setEmulatedMedia", json!({"features": features}));
        page.browser.frame();
    };
    scheme(&mut page, "dark");
    let dark = page.browser.value(ground);
    screenshot(&mut page, "dark", "header, section");
    scheme(&mut page, "light");
    let light = page.browser.value(ground);
    screenshot(&mut page, "light", "header, section");
    assert_ne!(dark, light);
    page.browser.call(
        "Emulation.setDeviceMetricsOverride",
        json!({"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": false}),
    );
    page.browser.frame();
    assert_eq!(
        page.browser
            .value("document.documentElement.scrollWidth <= innerWidth"),
        true,
        "a narrow page scrolls sideways"
    );
    screenshot(&mut page, "narrow", "header, section");
    page.browser
        .call("Emulation.clearDeviceMetricsOverride", json!({}));
    page.browser.frame();
    // The button overrides the system: light, then dark.
    page.click("#theme");
    assert_eq!(
        page.browser
            .value("document.getElementById('theme').textContent"),
        "theme: light"
    );
    assert_eq!(page.browser.value(ground), light);
    page.click("#theme");
    assert_eq!(page.browser.value(ground), dark);

    // Paper is light whatever the theme, on the canvas too, and has no controls.
    page.browser
        .call("Emulation.setEmulatedMedia", json!({"media": "print"}));
    page.browser.frame();
    assert_eq!(page.browser.value(ground), light);
    let corner = page.browser.value(
        "[...document.querySelector('canvas').getContext('2d').getImageData(2, 2, 1, 1).data]",
    );
    assert_eq!(corner, json!([255, 255, 255, 255]));
    let controls = "[...document.querySelectorAll('.controls')].filter(c => getComputedStyle(c).display !== 'none').length";
    assert_eq!(page.browser.number(controls), 0.0);
    screenshot(&mut page, "print", "header, section");
    page.quiet();
}

/// At any width all of a chart can be seen and read: nothing scrolls sideways, no text is cut off at an edge, and letters have a
/// size.
#[test]
#[ignore = "live: needs Chromium"]
fn charts_fit_narrow_windows() {
    let mut page = page();
    for width in [360, 480, 600, 700, 760, 1280] {
        page.browser.call(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": false}),
        );
        page.browser.frame();
        let wide = "[document.documentElement, ...document.querySelectorAll('figure')].filter(part => part.scrollWidth > \
                    part.clientWidth).map(part => part.className)";
        assert_eq!(page.strings(wide), Vec::<String>::new(), "at {width}");
        // Tables of a narrow page are cards where they would not fit.
        if width < 736 {
            let cut = "[...document.querySelectorAll('.scroll')].filter(table => table.scrollWidth > table.clientWidth + 1) \
                       .map(table => table.textContent.slice(0, 80))";
            assert_eq!(page.strings(cut), Vec::<String>::new(), "at {width}");
        }
        let shown = "[...document.querySelectorAll('svg.chart')].filter(svg => svg.getClientRects().length > 0)";
        let drawn = "document.querySelectorAll('svg.chart').length";
        assert_eq!(
            2.0 * page.browser.number(&format!("{shown}.length")),
            page.browser.number(drawn),
            "one of two at {width}"
        );
        let cut = format!(
            "{shown}.flatMap(svg => {{ const box = svg.getBoundingClientRect(); return [...svg.querySelectorAll('text')].filter(text => text.getClientRects().length > 0).filter(text => {{ \
             const place = text.getBoundingClientRect(); return place.left < box.left - 1 || place.right > box.right + 1; }}) \
             .map(text => text.textContent); }})"
        );
        assert_eq!(page.strings(&cut), Vec::<String>::new(), "at {width}");
        let smallest = format!(
            "Math.min(...{shown}.map(svg => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width))"
        );
        let smallest = 11.0 * page.browser.number(&smallest);
        assert!(smallest >= 8.0, "letters of {smallest:.1} px at {width}");
        screenshot(&mut page, &format!("at-{width}"), "header, section");
    }
    page.quiet();
}

#[test]
#[ignore = "live: needs Chromium"]
fn plots_are_files_of_their_own() {
    let mut page = page();
    let report = sample::report(2_000);
    for (_, plot) in plots(&report) {
        let file = page.file.with_extension("svg");
        fs::write(&file, plot.file()).expect("the plot is written");
        page.browser.open(&file);
        page.file = file;
        page.quiet();
        assert_eq!(
            page.browser.value("document.documentElement.localName"),
            "svg"
        );
        assert!(
            page.browser
                .number("document.querySelectorAll('rect, path, polyline, line').length")
                > 5.0
        );
        // A style that was not read would leave the ground black.
        let ground = page
            .browser
            .value("getComputedStyle(document.querySelector('.ground')).fill");
        assert_ne!(ground, "rgb(0, 0, 0)");
    }
}

/// One picture of each part of the page, where they are asked for.
fn screenshot(page: &mut Page, name: &str, selector: &str) {
    let Some(directory) = std::env::var_os("LLMPROF_SCREENSHOTS") else {
        return;
    };
    let clips = page.browser.value(&format!(
        "scrollTo({{top: 0, behavior: 'instant'}}), [...document.querySelectorAll('{selector}')].map(part => {{ \
         const r = part.getBoundingClientRect(); return {{x: 0, y: r.y, width: innerWidth, height: r.height + 20, scale: 1}}; }})",
    ));
    for (index, clip) in clips.as_array().expect("a list").iter().enumerate() {
        let params = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let picture = page.browser.call("Page.captureScreenshot", params)["data"].clone();
        let bytes = decoded(picture.as_str().expect("base64"));
        fs::write(
            Path::new(&directory).join(format!("{name}-{index}.png")),
            bytes,
        )
        .expect("the picture is written");
    }
}

fn decoded(base64: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u32> = base64.bytes().filter_map(digit).map(u32::from).collect();
    digits
        .chunks(4)
        .flat_map(|chunk| {
            let bits =
                chunk.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - chunk.len()));
            bits.to_be_bytes()[1..chunk.len()].to_vec()
        })
        .collect()
}
