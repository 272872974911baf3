use std::{
    fmt::Write,
    io,
    path::{Path, PathBuf},
};

/// Files that a message names before it only counts.
const NAMED: usize = 20;

/// Why a project's assets could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum AssetError {
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// A file does not say what it must.
    #[error("{}{}: {message}", .path.display(), line_suffix(*.line))]
    BadFile {
        path: PathBuf,
        /// The line, from 1; 0 where it is about the whole file.
        line: usize,
        message: String,
    },
    /// A link would point at nothing.
    #[error("{} would point at {}, which does not exist", .link.display(), .target.display())]
    MissingTarget {
        link: PathBuf,
        target: PathBuf,
        /// Where it was looked for, and what names another place.
        hint: String,
    },
    /// A folder lacks files that were declared as required.
    #[error("{} lacks {}:{}", .folder.display(), llmprof_units::Count(.files.len() as u64, "required file"), name_lines(.files))]
    MissingFiles {
        folder: PathBuf,
        /// All that are missing, and why where that is not obvious.
        files: Vec<String>,
    },
    /// Something stands where a link or folder should be.
    #[error("{} is {what}; it is left as it is", .path.display())]
    InTheWay {
        path: PathBuf,
        /// What is at the path: `a folder`, `a file`.
        what: &'static str,
    },
    /// A path leads out of the project.
    #[error("{} is outside the project {}", .path.display(), .project.display())]
    Outside { path: PathBuf, project: PathBuf },
    /// An archive that must not be extracted.
    #[error("{} is not extracted: entry `{entry}` {why}", .archive.display())]
    UnsafeArchive {
        archive: PathBuf,
        entry: String,
        /// What is wrong with it.
        why: String,
    },
    #[error("`{command}` failed: {how}")]
    Tool {
        command: String,
        /// Its exit code and last words.
        how: String,
        hint: Option<String>,
    },
    /// There is nothing of that name.
    #[error("there is no {what} `{name}`")]
    Unknown {
        what: &'static str,
        name: String,
        known: Vec<String>,
    },
    /// The request makes no sense here.
    #[error("{message}")]
    Refused {
        message: String,
        /// What to do instead, as a sentence.
        hint: Option<String>,
    },
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<AssetError>),
}

impl AssetError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    pub(crate) fn bad(path: &Path, message: impl Into<String>) -> Self {
        Self::BadFile {
            path: path.to_owned(),
            line: 0,
            message: message.into(),
        }
    }

    pub(crate) fn refused(message: impl Into<String>, hint: &str) -> Self {
        Self::Refused {
            message: message.into(),
            hint: Some(hint.to_owned()),
        }
    }

    /// What would fix it, where that can be said.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::MissingTarget { hint, .. } => Some(hint.clone()),
            Self::InTheWay { .. } => Some(
                "move it away if it is not needed; llmprof only replaces links that stand inside the project"
                    .to_owned(),
            ),
            Self::Tool { hint, .. } | Self::Refused { hint, .. } => hint.clone(),
            Self::Unknown { known, .. } if known.is_empty() => None,
            Self::Unknown { known, .. } => Some(format!("known: {}", known.join(", "))),
            Self::Several(errors) => errors.iter().find_map(Self::hint),
            Self::UnsafeArchive { .. } => {
                Some("extract it by hand where you trust it; a folder that has files is not extracted again".to_owned())
            }
            _ => None,
        }
    }
}

fn line_suffix(line: usize) -> String {
    match line {
        0 => String::new(),
        line => format!(":{line}"),
    }
}

fn name_lines(names: &[String]) -> String {
    let mut text = String::new();
    for name in names.iter().take(NAMED) {
        let _ = write!(text, "\n  {name}");
    }
    if names.len() > NAMED {
        let _ = write!(text, "\n  and {} more", names.len() - NAMED);
    }
    text
}
