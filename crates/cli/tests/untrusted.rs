//! A run directory from somebody else: no command reads or writes outside of it, and none waits for what is no file.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use common::{llmprof, refused, works};

const FIXTURE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../fixtures/h200/cupti/triton.wire.gz"
);

/// A run, and a folder beside it with a file that nobody may touch.
struct Scene {
    root: tempfile::TempDir,
}

const PRECIOUS: &str = "precious\n";

impl Scene {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        works(root.path(), &["import", FIXTURE, "-o", "run"]);
        fs::create_dir(root.path().join("home")).unwrap();
        fs::write(root.path().join("home/file"), PRECIOUS).unwrap();
        works(root.path(), &["kernels", "top", "run", "-o", "top.yaml"]);
        program(
            &root.path().join("ncu"),
            "echo 'Version 2025.3.1.0 (build 1)'",
        );
        Self { root }
    }

    fn path(&self) -> &Path {
        self.root.path()
    }

    fn run(&self, name: &str) -> PathBuf {
        self.path().join("run").join(name)
    }

    fn file(&self) -> PathBuf {
        self.path().join("home/file")
    }

    /// Puts a link in the place of an entry of the run.
    fn link(&self, name: &str, target: &Path) {
        let place = self.run(name);
        let _ = fs::remove_file(&place).or_else(|_| fs::remove_dir_all(&place));
        symlink(target, place).unwrap();
    }

    fn assert_untouched(&self, what: &str) {
        assert_eq!(fs::read_to_string(self.file()).unwrap(), PRECIOUS, "{what}");
        let entries = fs::read_dir(self.path().join("home")).unwrap();
        assert_eq!(entries.count(), 1, "{what} wrote outside of the run");
    }
}

/// A shell script that can be started.
fn program(path: &Path, script: &str) {
    fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Every command that opens a run.
const COMMANDS: [&[&str]; 13] = [
    &["report", "run"],
    &["analyze", "run"],
    &["export", "run", "--to", "chrome"],
    &["export", "run", "--to", "sqlite"],
    &["runs", "show", "run"],
    &["runs", "list", "--root", "."],
    &["runs", "export", "--root", "."],
    &["compare", "run", "run"],
    &["kernels", "top", "run"],
    &["kernels", "analyze", "run"],
    &[
        "kernels",
        "profile",
        "top.yaml",
        "--timeline",
        "run",
        "--ncu",
        "./ncu",
        "--dry-run",
        "--",
        "true",
    ],
    &["predict", "--from=run", "hardware.spec=h200"],
    &[
        "simulate",
        "--calibrate",
        "run",
        "--kv-blocks",
        "100",
        "-n",
        "1",
    ],
];

#[test]
fn a_linked_lock_does_not_empty_its_target() {
    let scene = Scene::new();
    scene.link(".lock", &scene.file());
    for command in COMMANDS {
        llmprof(scene.path(), command);
        scene.assert_untouched(&command.join(" "));
    }
    let said = refused(scene.path(), &["report", "run"]);
    assert!(said.contains("symbolic link"), "{said}");
}

/// The folder of a comparison may be somebody else's, too.
#[test]
fn a_comparison_is_not_written_through_links() {
    let scene = Scene::new();
    let out = scene.path().join("out");
    works(scene.path(), &["compare", "run", "run", "-o", "out"]);
    fs::remove_file(out.join("compare.json")).unwrap();
    symlink(scene.file(), out.join("compare.json")).unwrap();
    works(scene.path(), &["compare", "run", "run", "-o", "out"]);
    scene.assert_untouched("compare.json");
    assert!(
        fs::symlink_metadata(out.join("compare.json"))
            .unwrap()
            .is_file()
    );

    fs::remove_dir_all(out.join("plots")).unwrap();
    symlink(scene.path().join("home"), out.join("plots")).unwrap();
    let said = refused(scene.path(), &["compare", "run", "run", "-o", "out"]);
    scene.assert_untouched("plots");
    assert!(said.contains("symbolic link"), "{said}");
}

#[test]
fn links_in_the_place_of_files_and_folders_are_not_followed() {
    let places = [
        "plots",
        "report.html",
        "run.json",
        "record.json",
        "analysis.json",
        "trace.llmprof",
        "trace.json",
        "trace.sqlite",
        "trace.llmprof.partial",
        "metrics.json",
        "bench.json",
        "vllm_bench.json",
        ".hydra/overrides.yaml",
        "nsys/summary_cuda_gpu_kern_sum.csv",
        "analysis",
    ];
    let scene = Scene::new();
    for place in places {
        if let Some((folder, _)) = place.split_once('/') {
            fs::create_dir_all(scene.run(folder)).unwrap();
        }
        let is_folder = ["plots", "analysis"].contains(&place);
        let target = if is_folder {
            scene.path().join("home")
        } else {
            scene.file()
        };
        // The commands replace some links by files of their own; each starts with the link in place.
        for command in COMMANDS {
            let before = fs::read(scene.run(place)).ok();
            scene.link(place, &target);
            let output = llmprof(scene.path(), command);
            assert!(output.status.code().is_some_and(|code| code <= 2));
            let what = format!("{place}: {}", command.join(" "));
            scene.assert_untouched(&what);
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(!text.contains("precious"), "{what}");
            fs::remove_file(scene.run(place))
                .or_else(|_| fs::remove_dir_all(scene.run(place)))
                .unwrap();
            match before {
                Some(before) => fs::write(scene.run(place), before).unwrap(),
                None if is_folder => fs::create_dir(scene.run(place)).unwrap(),
                None => {}
            }
        }
    }
    // With all of them back in place the run is still one.
    works(scene.path(), &["analyze", "run"]);
}

/// Tables, plots and the report of `kernels analyze RUN` go into the run by the same door as all of its files.
#[test]
fn counters_of_a_run_are_analyzed_inside_of_it() {
    let counters = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/h200/ncu/decode_12.ncu-rep.gz"
    );
    let scene = Scene::new();
    fs::remove_dir_all(scene.path().join("run")).unwrap();
    works(scene.path(), &["import", counters, "-o", "run"]);
    let analyze = ["kernels", "analyze", "run"];
    scene.link("analysis", &scene.path().join("home"));
    let said = refused(scene.path(), &analyze);
    assert!(said.contains("symbolic link"), "{said}");
    scene.assert_untouched("a linked analysis");
    fs::remove_file(scene.run("analysis")).unwrap();
    fs::create_dir(scene.run("analysis")).unwrap();
    for (place, target) in [
        ("analysis/plots", scene.path().join("home")),
        ("analysis/report.html", scene.file()),
    ] {
        scene.link(place, &target);
        llmprof(scene.path(), &analyze);
        scene.assert_untouched(place);
        let _ = fs::remove_file(scene.run(place));
    }
    // Who holds the run writes it.
    let lock = fs::File::open(scene.run(".lock")).unwrap();
    lock.lock().unwrap();
    let said = refused(scene.path(), &analyze);
    assert!(said.contains("in use"), "{said}");
    drop(lock);
    works(scene.path(), &analyze);
    assert!(scene.run("analysis/metrics_summary.csv").is_file());
    let listed = fs::read_to_string(scene.run("run.json")).unwrap();
    assert!(listed.contains("analysis/metrics_summary.csv"), "{listed}");
    // A report that was found, not named, is no link either.
    let pages = scene.path().join("pages");
    fs::create_dir(&pages).unwrap();
    symlink(scene.file(), pages.join("x.ncu-rep")).unwrap();
    let said = refused(scene.path(), &["kernels", "analyze", "pages"]);
    assert!(said.contains("symbolic link"), "{said}");
}

#[test]
fn a_link_outside_is_an_error_that_names_it() {
    let scene = Scene::new();
    scene.link("extra.txt", &scene.file());
    let said = refused(scene.path(), &["report", "run"]);
    assert!(
        said.contains("extra.txt") && said.contains("symbolic link"),
        "{said}"
    );
}

/// A FIFO would be waited for, a device read without end.
#[test]
fn fifos_and_devices_are_refused_at_once() {
    let scene = Scene::new();
    for (place, command) in [
        ("run.json", &["runs", "show", "run"][..]),
        ("record.json", &["analyze", "run"]),
        ("analysis.json", &["report", "run"]),
        ("trace.llmprof", &["export", "run", "--to", "chrome"]),
        (".lock", &["report", "run"]),
    ] {
        let before = fs::read(scene.run(place)).unwrap();
        fs::remove_file(scene.run(place)).unwrap();
        let made = Command::new("mkfifo").arg(scene.run(place)).status();
        assert!(made.unwrap().success());
        let said = refused(scene.path(), command);
        assert!(
            said.contains("FIFO") || said.contains("has no timeline"),
            "{place}: {said}"
        );
        fs::remove_file(scene.run(place)).unwrap();
        fs::write(scene.run(place), before).unwrap();
    }
    // Where a file may be absent, what is none counts as absent.
    for (place, command) in [
        ("metrics.json", &["runs", "export", "--root", "."][..]),
        ("bench.json", &["runs", "export", "--root", "."]),
        ("bench.json", &["compare", "run", "run"]),
    ] {
        let before = fs::read(scene.run(place)).ok();
        let _ = fs::remove_file(scene.run(place));
        let made = Command::new("mkfifo").arg(scene.run(place)).status();
        assert!(made.unwrap().success());
        works(scene.path(), command);
        fs::remove_file(scene.run(place)).unwrap();
        if let Some(before) = before {
            fs::write(scene.run(place), before).unwrap();
        }
    }
    // A summary of kernels is a file of the folder, or there is none.
    let folder = scene.path().join("other/nsys");
    fs::create_dir_all(&folder).unwrap();
    let summary = folder.join("summary_cuda_gpu_kern_sum.csv");
    let table = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/h200/nsys/stats_cuda_gpu_kern_sum.csv"
    );
    let top = ["kernels", "top", "other"];
    symlink(table, &summary).unwrap();
    let said = refused(scene.path(), &top);
    assert!(said.contains("has no timeline"), "{said}");
    fs::remove_file(&summary).unwrap();
    let made = Command::new("mkfifo").arg(&summary).status();
    assert!(made.unwrap().success());
    let said = refused(scene.path(), &top);
    assert!(said.contains("has no timeline"), "{said}");
    fs::remove_file(&summary).unwrap();
    fs::copy(table, &summary).unwrap();
    assert!(works(scene.path(), &top).contains("Kernel"));
    // It comes after the times of the run: it ends, and does not wait.
    fs::create_dir_all(scene.run(".hydra")).unwrap();
    let made = Command::new("mkfifo")
        .arg(scene.run(".hydra/overrides.yaml"))
        .status();
    assert!(made.unwrap().success());
    llmprof(
        scene.path(),
        &["predict", "--from=run", "hardware.spec=h200"],
    );
    fs::remove_file(scene.run(".hydra/overrides.yaml")).unwrap();
    // Times between tokens of an earlier version's load that a FIFO would have are left out.
    fs::rename(scene.run("record.json"), scene.run("kept.json")).unwrap();
    fs::write(scene.run("bench.json"), "{}").unwrap();
    let rows = "id,start_ms,ttft_ms,e2e_ms\n0,0,1,2\n";
    fs::write(scene.run("requests.csv"), rows).unwrap();
    let made = Command::new("mkfifo")
        .arg(scene.run("vllm_bench.json"))
        .status();
    assert!(made.unwrap().success());
    let text = works(scene.path(), &["compare", "--json", "run", "run"]);
    let comparison: serde_json::Value = serde_json::from_str(&text).unwrap();
    let metrics = comparison["metrics"].as_array().unwrap().iter();
    let keys: Vec<_> = metrics.map(|one| one["metric"].as_str().unwrap()).collect();
    assert!(keys.contains(&"ttft") && !keys.contains(&"itl"), "{keys:?}");
    fs::remove_file(scene.run("requests.csv")).unwrap();
    let made = Command::new("mkfifo")
        .arg(scene.run("requests.csv"))
        .status();
    assert!(made.unwrap().success());
    let said = refused(scene.path(), &["compare", "run", "run"]);
    assert!(said.contains("FIFO"), "{said}");
    fs::rename(scene.run("kept.json"), scene.run("record.json")).unwrap();
    let recorded = scene.path().join("cupti");
    fs::create_dir(&recorded).unwrap();
    symlink("/dev/zero", recorded.join("1.wire")).unwrap();
    let said = refused(scene.path(), &["import", "cupti", "-o", "other"]);
    assert!(said.contains("symbolic link"), "{said}");
    let said = refused(scene.path(), &["import", "/dev/zero", "-o", "other"]);
    assert!(said.contains("is a device"), "{said}");
}

#[test]
fn a_new_run_does_not_begin_in_a_folder_with_links() {
    let scene = Scene::new();
    let prepared = scene.path().join("prepared");
    fs::create_dir(&prepared).unwrap();
    symlink(scene.path().join("home"), prepared.join("native")).unwrap();
    let said = refused(scene.path(), &["import", FIXTURE, "-o", "prepared"]);
    assert!(said.contains("prepared is not empty"), "{said}");
    scene.assert_untouched("import");
}

/// The file that is written aside first had a name that could be guessed.
#[test]
fn reports_are_written_by_whoever_holds_the_run() {
    let scene = Scene::new();
    let lock = fs::File::open(scene.run(".lock")).unwrap();
    lock.lock().unwrap();
    let before = fs::read(scene.run("report.html")).unwrap();
    fs::write(scene.run("report.html"), "held").unwrap();
    let said = refused(scene.path(), &["report", "run"]);
    assert!(said.contains("in use"), "{said}");
    assert_eq!(fs::read(scene.run("report.html")).unwrap(), b"held");
    drop(lock);
    works(scene.path(), &["report", "run"]);
    assert_eq!(fs::read(scene.run("report.html")).unwrap(), before);
}
