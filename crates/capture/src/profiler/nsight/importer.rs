//! What makes a report of what nsys recorded: without it, or without its libraries, a recording stays a `.qdstrm`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Folders beside the folder of the program that hold its host part: of Nsight Systems, and of the copy in Nsight Compute.
const HOST_FOLDERS: [&str; 2] = ["host-linux", "linux-desktop"];

/// The importer of an installation.
pub fn find_importer(nsys: &Path) -> Option<PathBuf> {
    let program = fs::canonicalize(nsys).ok()?;
    program.ancestors().skip(1).take(3).find_map(|folder| {
        let entries = fs::read_dir(folder).ok()?.flatten();
        let mut folders = entries.map(|entry| entry.path()).filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            HOST_FOLDERS.iter().any(|host| name.starts_with(host))
        });
        folders.find_map(|host| {
            let program = host.join("QdstrmImporter");
            program.is_file().then_some(program)
        })
    })
}

/// Whether an importer runs: it exits with success, or says how it is used. An error says why not.
pub fn check_importer(program: &Path) -> Result<(), String> {
    let started = Command::new(program)
        .arg("--help")
        .stdin(Stdio::null())
        .output();
    let output = started.map_err(|error| format!("{}: {error}", program.display()))?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let shows_usage = said.to_ascii_lowercase().contains("usage") || said.contains("--help");
    if output.status.success() || (output.status.code().is_some() && shows_usage) {
        return Ok(());
    }
    let last = said.trim().lines().last().unwrap_or_default();
    let why = format!("{}: {} {last}", program.display(), output.status);
    Err(why.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_importer_works_where_it_says_how_it_is_used() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let check = |script: &str, mode: u32| {
            let program = folder.path().join("QdstrmImporter");
            fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
            check_importer(&program)
        };
        for works in ["echo fine", "echo 'Usage: QdstrmImporter' >&2; exit 1"] {
            assert_eq!(check(works, 0o755), Ok(()), "{works}");
        }
        for (broken, mode, why) in [
            ("exit 0", 0o644, "ermission denied"),
            ("kill -SEGV $$", 0o755, "signal: 11"),
            ("exit 3", 0o755, "exit status: 3"),
            (
                "echo 'error while loading shared libraries: libdw.so.1' >&2; exit 127",
                0o755,
                "libdw.so.1",
            ),
        ] {
            let error = check(broken, mode).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn the_importer_is_found_beside_the_tool() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("2025.3.1");
        for host in ["host-linux-x64", "linux-desktop-glibc_2_11_3-x64"] {
            for name in ["bin", "target-linux-x64", host] {
                fs::create_dir_all(root.join(name)).unwrap();
            }
            fs::write(root.join("target-linux-x64/nsys"), "").unwrap();
            let _ = std::os::unix::fs::symlink("../target-linux-x64/nsys", root.join("bin/nsys"));
            assert_eq!(find_importer(&root.join("bin/nsys")), None);
            let importer = root.join(host).join("QdstrmImporter");
            fs::write(&importer, "").unwrap();
            let path = find_importer(&root.join("bin/nsys")).unwrap();
            assert_eq!(path, fs::canonicalize(importer).unwrap());
            fs::remove_dir_all(&root).unwrap();
        }
    }
}
