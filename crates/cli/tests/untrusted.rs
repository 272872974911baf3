//! A run directory from somebody else: no command reads or writes outside of it, and none waits for what is no file.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::{
    fs,
    os::unix::fs::symlink,
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

/// Every command that opens a run.
const COMMANDS: [&[&str]; 8] = [
    &["report", "run"],
    &["analyze", "run"],
    &["export", "run", "--to", "chrome"],
    &["export", "run", "--to", "sqlite"],
    &["runs", "show", "run"],
    &["runs", "list", "--root", "."],
    &["runs", "export", "--root", "."],
    &["compare", "run", "run"],
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
    ];
    let scene = Scene::new();
    for place in places {
        let target = if place == "plots" {
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
                None if place == "plots" => fs::create_dir(scene.run(place)).unwrap(),
                None => {}
            }
        }
    }
    // With all of them back in place the run is still one.
    works(scene.path(), &["analyze", "run"]);
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
    fs::write(scene.run("bench.json"), "{}").unwrap();
    let made = Command::new("mkfifo")
        .arg(scene.run("requests.csv"))
        .status();
    assert!(made.unwrap().success());
    let said = refused(scene.path(), &["compare", "run", "run"]);
    assert!(said.contains("FIFO"), "{said}");
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
    assert!(said.contains("symbolic link"), "{said}");
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
