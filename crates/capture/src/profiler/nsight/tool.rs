//! Where the tools are, and which version they have.

use std::{
    fmt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use thiserror::Error;

/// Year and release of a tool, such as 2025.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub year: u32,
    pub release: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.year, self.release)
    }
}

impl Version {
    /// Reads `NVIDIA Nsight Systems version 2025.3.1.90-…` and `Version 2025.3.1.0 (build 36398880)`.
    pub fn parse_version(text: &str) -> Option<Self> {
        text.split(|c: char| c.is_whitespace() || c == '-')
            .find_map(|word| {
                let mut parts = word.split('.');
                let year: u32 = parts.next()?.parse().ok()?;
                let release: u32 = parts.next()?.parse().ok()?;
                (2018..2100)
                    .contains(&year)
                    .then_some(Self { year, release })
            })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    pub program: PathBuf,
    pub version: Version,
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum ToolError {
    #[error("{name} was not found")]
    NotFound { name: &'static str },
    #[error("{} does not start: {why}", program.display())]
    DoesNotStart { program: PathBuf, why: String },
    #[error("{} prints no version: {said}", program.display())]
    NoVersion { program: PathBuf, said: String },
    #[error("{name} {version} is older than {needed}, which has the options that are needed")]
    TooOld {
        name: &'static str,
        version: Version,
        needed: Version,
    },
    #[error("the importer of nsys does not start: {why}")]
    NoImporter { why: String },
}

impl ToolError {
    pub fn hint(&self) -> String {
        match self {
            Self::NotFound { name: "nsys" } => {
                "sudo apt-get install nsight-systems (Debian 13; docs/install.md has others), or pipeline.nsys.path=PATH".to_owned()
            }
            Self::NotFound { .. } => {
                "sudo apt-get install nsight-compute (Debian 13; docs/install.md has others), or pipeline.ncu.path=PATH".to_owned()
            }
            Self::TooOld { name, .. } => {
                let tool = if *name == "nsys" {
                    "Systems"
                } else {
                    "Compute"
                };
                format!("install a newer Nsight {tool}, or name one: pipeline.{name}.path=PATH")
            }
            Self::NoImporter { .. } => {
                "install the packages libdw1 and libelf1, or what the message names".to_owned()
            }
            Self::DoesNotStart { .. } | Self::NoVersion { .. } => {
                "run it by hand; `llmprof doctor` checks the tools".to_owned()
            }
        }
    }
}

/// The newest release that command lines were checked with.
const VERSION_MAX: Version = Version {
    year: 2025,
    release: 3,
};

/// Folders below which installers put the tools, newest release last by name.
const FOLDERS: [(&str, &str); 5] = [
    ("/opt/nvidia/nsight-systems", "bin"),
    ("/opt/nvidia/nsight-compute", ""),
    ("/opt/nvidia/nsight-compute", "host/target-linux-x64"),
    ("/usr/local/cuda/bin", ""),
    ("/usr/lib/nsight-systems/bin", ""),
];

impl Tool {
    /// The program that `named` names, else what the variable of the tool's name in capitals names, else one on the `PATH`, else
    /// one where installers put it.
    pub fn find_tool(name: &'static str, named: Option<&Path>) -> Result<Self, ToolError> {
        let variable = std::env::var_os(name.to_uppercase()).filter(|value| !value.is_empty());
        let program = named
            .map(Path::to_path_buf)
            .or_else(|| variable.map(PathBuf::from))
            .or_else(|| on_path(name))
            .or_else(|| find_installed(name))
            .ok_or(ToolError::NotFound { name })?;
        Self::ask_version(program)
    }

    /// The tool that [`Self::find_tool`] finds; where none is installed, one of the newest release known by its name alone, with why: for
    /// showing commands. One that is there and does not work stays an error.
    pub fn find_or_assume(
        name: &'static str,
        named: Option<&Path>,
    ) -> Result<(Self, Option<ToolError>), ToolError> {
        match Self::find_tool(name, named) {
            Ok(tool) => Ok((tool, None)),
            Err(error @ ToolError::NotFound { .. }) => {
                let tool = Self {
                    program: PathBuf::from(name),
                    version: VERSION_MAX,
                };
                Ok((tool, Some(error)))
            }
            Err(error) => Err(error),
        }
    }

    /// Refuses a release that is older than what is needed.
    pub fn require_version(&self, name: &'static str, needed: Version) -> Result<(), ToolError> {
        if self.version >= needed {
            return Ok(());
        }
        Err(ToolError::TooOld {
            name,
            version: self.version,
            needed,
        })
    }

    /// Asks a program for its version.
    pub fn ask_version(program: PathBuf) -> Result<Self, ToolError> {
        let run = Command::new(&program)
            .arg("--version")
            .stdin(Stdio::null())
            .output();
        let output = match run {
            Ok(output) => output,
            Err(error) => {
                let why = error.to_string();
                return Err(ToolError::DoesNotStart { program, why });
            }
        };
        let said = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        match Version::parse_version(&said) {
            Some(version) => Ok(Self { program, version }),
            None => Err(ToolError::NoVersion {
                program,
                said: said.trim().lines().next().unwrap_or_default().to_owned(),
            }),
        }
    }
}

fn on_path(name: &str) -> Option<PathBuf> {
    let search = std::env::var_os("PATH")?;
    std::env::split_paths(&search)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

fn find_installed(name: &str) -> Option<PathBuf> {
    FOLDERS.iter().find_map(|(folder, below)| {
        let direct = Path::new(folder).join(below).join(name);
        if direct.is_file() {
            return Some(direct);
        }
        let entries = std::fs::read_dir(folder).ok()?.flatten();
        let mut paths: Vec<PathBuf> = entries
            .map(|entry| entry.path().join(below).join(name))
            .filter(|path| path.is_file())
            .collect();
        paths.sort();
        paths.pop()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_both_banners() {
        let of = |text: &str| Version::parse_version(text).map(|version| version.to_string());
        let nsys = "NVIDIA Nsight Systems version 2025.3.1.90-253135822126v0";
        assert_eq!(of(nsys).as_deref(), Some("2025.3"));
        let ncu = "NVIDIA (R) Nsight Compute Command Line Profiler\nCopyright (c) 2018-2025 NVIDIA Corporation\nVersion 2025.3.1.0 (build 36398880) (public-release)";
        assert_eq!(of(ncu).as_deref(), Some("2025.3"));
        assert_eq!(of("command not found"), None);
    }

    #[test]
    fn a_program_that_is_no_tool_is_refused() {
        let error = Tool::ask_version(PathBuf::from("/bin/true")).unwrap_err();
        assert!(matches!(error, ToolError::NoVersion { .. }), "{error}");
        let error = Tool::ask_version(PathBuf::from("/nowhere/ncu")).unwrap_err();
        assert!(matches!(error, ToolError::DoesNotStart { .. }), "{error}");
    }
}
