//! The installed git, without what this host's config says.

use std::{path::Path, process::Command};

/// What it prints; it must succeed.
pub(crate) fn git(folder: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args([
            "-c",
            "user.name=Test",
            "-c",
            "user.email=test@example.org",
            "-c",
            "protocol.file.allow=always",
        ])
        .args(args)
        .current_dir(folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {args:?}: {said}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
