//! Our library in a process: where it is found, and the environment that loads it.

use std::path::{Path, PathBuf};

use llmprof_wire::{LIBRARY, Options, options};

use crate::process::Launch;

/// Names the library where it does not lie beside the binary.
const LIBRARY_VARIABLE: &str = "LLMPROF_INJECT";

/// The library is nowhere.
#[derive(Debug, thiserror::Error)]
#[error("{LIBRARY} is missing: {looked}")]
pub struct LibraryMissing {
    looked: String,
}

impl LibraryMissing {
    /// How to get it.
    pub fn hint(&self) -> String {
        format!(
            "`cargo build --release` builds it beside the binary; or set {LIBRARY_VARIABLE} to its path"
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
    let folder = program.parent().unwrap_or(Path::new(""));
    // Beside the binary; beside the folder of a test; in the library folder of an installation.
    let places = [
        folder.to_owned(),
        folder.join("deps"),
        folder.join(".."),
        folder.join("../lib"),
    ];
    let found = places
        .iter()
        .map(|place| place.join(LIBRARY))
        .find(|path| path.is_file());
    found.ok_or_else(|| LibraryMissing {
        looked: format!("it is not beside {}", program.display()),
    })
}

/// Recording by our library.
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
    /// The same command, recorded.
    #[must_use]
    pub fn apply(&self, launch: Launch) -> Launch {
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
        let launch = cupti.apply(Launch::new("python3").arg("serve.py"));
        assert_eq!(
            launch.to_string(),
            "CUDA_INJECTION64_PATH=/opt/llmprof/libllmprof_inject.so \
             LLMPROF_CAPTURE='calls=launch begin=off interval_ms=200 overhead_ppm=20000 detach=on buffer_kib=512 memory_mib=64 exit_ms=10000' \
             LLMPROF_CONTROL=/tmp/x/control LLMPROF_NVTX_RANGE='decode step' LLMPROF_WIRE_DIR=/runs/a/cupti \
             NVTX_INJECTION64_PATH=/opt/llmprof/libllmprof_inject.so python3 serve.py"
        );
    }
}
