//! Our library in a process: where it is found, and the environment that loads it.

use std::path::{Path, PathBuf};

use llmprof_units::Bytes;
use llmprof_wire::{LIBRARY, Options, options};

use crate::process::Launch;

/// Names the library where it does not lie beside the binary.
const LIBRARY_VARIABLE: &str = "LLMPROF_INJECT";

/// The injected library is in none of the places where it is looked for.
#[derive(Debug, thiserror::Error)]
#[error("{LIBRARY} is missing: {looked}")]
pub struct LibraryMissing {
    looked: String,
}

impl LibraryMissing {
    pub fn hint(&self) -> String {
        format!(
            "`cargo build --release` builds it beside the binary, the wheel of llmprof-harness installs it; or set {LIBRARY_VARIABLE} to its path"
        )
    }
}

/// The library beside this program, or where `LLMPROF_INJECT` says.
pub fn find_library() -> Result<PathBuf, LibraryMissing> {
    if let Some(named) = std::env::var_os(LIBRARY_VARIABLE) {
        let named = PathBuf::from(named);
        return match std::path::absolute(&named) {
            Ok(path) if path.is_file() => Ok(path),
            _ => Err(LibraryMissing {
                looked: format!(
                    "{LIBRARY_VARIABLE} names {}, which is not a file",
                    named.display()
                ),
            }),
        };
    }
    let program = std::env::current_exe().unwrap_or_default();
    installed_with(&program).ok_or_else(|| LibraryMissing {
        looked: format!(
            "it is neither beside {} nor in ../lib/llmprof of it",
            program.display()
        ),
    })
}

/// The library that was built or installed with `program`.
fn installed_with(program: &Path) -> Option<PathBuf> {
    let folder = program.parent()?;
    // Beside the binary; beside the folder of a test; in the library folder of an installation (PREFIX/bin/llmprof,
    // PREFIX/lib/llmprof/…, as a wheel has it).
    let places = ["", "deps", "..", "../lib/llmprof", "../lib"];
    places
        .iter()
        .map(|place| folder.join(place).join(LIBRARY))
        .find(|path| path.is_file())
}

/// Bytes that recordings into a directory may have where nobody set a limit: a quarter of what is free. The trace that is made of them needs as much, and others write to the
/// disk too. Nothing where the system does not say.
pub fn quarter_of_free(directory: &Path) -> Option<Bytes> {
    let disk = rustix::fs::statvfs(directory).ok()?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    // No byte at all would be no limit.
    Some(Bytes((free / 4).max(1)))
}

/// Recording by the injected library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cupti {
    pub library: PathBuf,
    /// Where the processes write their files. It must exist.
    pub directory: PathBuf,
    /// The socket of the control channel, where someone listens.
    pub control: Option<PathBuf>,
    pub options: Options,
    /// Record inside NVTX ranges of this name only.
    pub range: Option<String>,
}

impl Cupti {
    /// The same command with the variables that inject the library.
    #[must_use]
    pub fn apply_to(&self, launch: Launch) -> Launch {
        let library = self.library.to_string_lossy();
        let mut launch = launch
            .env("CUDA_INJECTION64_PATH", library.clone())
            .env("NVTX_INJECTION64_PATH", library)
            .env(options::DIRECTORY, self.directory.to_string_lossy())
            .env(options::CAPTURE, self.options.to_string());
        if let Some(control) = &self.control {
            launch = launch.env(options::CONTROL, control.to_string_lossy());
        }
        if let Some(range) = &self.range {
            launch = launch.env(options::RANGE, range.clone());
        }
        launch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installed_binary_finds_the_library_of_its_prefix() {
        let prefix = tempfile::tempdir().unwrap();
        let program = prefix.path().join("bin/llmprof");
        let library = prefix.path().join("lib/llmprof").join(LIBRARY);
        for file in [&program, &library] {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        }
        std::fs::write(&program, "").unwrap();
        assert_eq!(installed_with(&program), None);
        std::fs::write(&library, "").unwrap();
        let installed = installed_with(&program).unwrap();
        assert_eq!(
            installed.canonicalize().unwrap(),
            library.canonicalize().unwrap()
        );
        // One that was just built comes first.
        std::fs::write(prefix.path().join("bin").join(LIBRARY), "").unwrap();
        assert_eq!(
            installed_with(&program).unwrap(),
            prefix.path().join("bin").join(LIBRARY)
        );
    }

    #[test]
    fn a_command_is_recorded_by_its_environment_alone() {
        let cupti = Cupti {
            library: "/opt/llmprof/libllmprof_inject.so".into(),
            directory: "/runs/a/cupti".into(),
            control: Some("/tmp/x/control".into()),
            options: Options {
                overhead_ppm: 20_000,
                begin: false,
                ..Options::default()
            },
            range: Some("decode step".to_owned()),
        };
        let launch = cupti.apply_to(Launch::new("python3").arg("serve.py"));
        assert_eq!(
            launch.to_string(),
            "CUDA_INJECTION64_PATH=/opt/llmprof/libllmprof_inject.so \
             LLMPROF_CAPTURE='calls=launch begin=off interval_ms=40 overhead_ppm=20000 detach=on buffer_kib=128 memory_mib=64 exit_ms=10000 most_bytes=0' \
             LLMPROF_CONTROL=/tmp/x/control LLMPROF_NVTX_RANGE='decode step' LLMPROF_WIRE_DIR=/runs/a/cupti \
             NVTX_INJECTION64_PATH=/opt/llmprof/libllmprof_inject.so python3 serve.py"
        );
    }
}
