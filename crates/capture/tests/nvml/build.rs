use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Compiles the stand-in for NVIDIA's library with some of its switches.
pub(crate) fn stand_in(folder: &Path, switches: &[&str]) -> PathBuf {
    let library = folder.join("libnvidia-ml.so.1");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capture/tests/nvml/stand_in.c");
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-w", "-o"])
        .arg(&library)
        .args(switches.iter().map(|switch| format!("-D{switch}")))
        .arg(source)
        .status()
        .expect("a C compiler builds the stand-in");
    assert!(status.success());
    library
}
