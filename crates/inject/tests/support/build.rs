//! Building the library and stand-ins in C, for the tests of this crate and of those that use the library.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use llmprof_wire::LIBRARY;

/// The library as it is now. Cargo builds no `cdylib` for tests, and one that lies around may be an old one.
pub(crate) fn library() -> PathBuf {
    static LIBRARY_FILE: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let test = std::env::current_exe().expect("the test has a path");
        // The test lies in `<target>/<profile>/deps`.
        let target = test.ancestors().nth(3).expect("it lies in a target folder");
        let target = target.join("injected");
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--offline", "--package"])
            .arg("llmprof-inject")
            .arg("--target-dir")
            .arg(&target)
            .env_remove("CARGO_BUILD_TARGET")
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .expect("Cargo is there");
        assert!(status.success(), "the library is built");
        target.join("debug").join(LIBRARY)
    };
    LIBRARY_FILE.get_or_init(build).clone()
}

/// Compiles a source in C to `target`, and says where that is.
pub(crate) fn compile(source: &Path, target: PathBuf, flags: &[&str]) -> PathBuf {
    let status = Command::new("cc")
        .args(["-O1", "-o"])
        .arg(&target)
        .args(flags)
        .arg(source)
        .args(["-ldl", "-lpthread"])
        .status()
        .expect("a C compiler is there");
    assert!(status.success(), "{} compiles", source.display());
    target
}

/// What a shared library is compiled with.
pub(crate) const SHARED: &[&str] = &["-shared", "-fPIC"];
