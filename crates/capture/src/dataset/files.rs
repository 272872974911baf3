use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{DatasetError, DatasetSample};
use crate::runner::protocol::Prompt;

/// What a text file is called when no list names it.
const TEXT_EXTENSIONS: [&str; 2] = ["txt", "md"];

/// Texts, one file each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// Name below the root, and path.
    files: Vec<(String, PathBuf)>,
}

impl Files {
    /// The files that a list names, one a line, in its order; blank lines are skipped.
    pub(super) fn listed(root: &Path, list: &Path, cwd: &Path) -> Result<Self, DatasetError> {
        let candidates = if list.is_absolute() {
            vec![list.to_owned()]
        } else {
            vec![cwd.join(list), root.join(list)]
        };
        let Some(list) = candidates.iter().find(|path| path.is_file()) else {
            return Err(DatasetError::NoFileList {
                list: list.to_owned(),
                tried: candidates,
            });
        };
        let text = text(list)?;
        let files: Vec<(String, PathBuf)> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .map(|line| (line.to_owned(), root.join(line)))
            .collect();
        let missing: Vec<PathBuf> = files
            .iter()
            .filter(|(_, path)| !path.is_file())
            .map(|(_, path)| path.clone())
            .collect();
        if !missing.is_empty() {
            return Err(DatasetError::Missing {
                list: list.clone(),
                missing,
                total: files.len(),
            });
        }
        Self::new(files, || format!("{} names no file", list.display()))
    }

    /// Every text file below `root`, by name; or `root` itself where it is a file.
    pub(super) fn found(root: &Path) -> Result<Self, DatasetError> {
        let mut files = Vec::new();
        if root.is_file() {
            let name = root.file_name().unwrap_or(root.as_os_str());
            files.push((name.to_string_lossy().into_owned(), root.to_owned()));
        } else {
            collect(root, root, &mut files)?;
            files.sort();
        }
        Self::new(files, || {
            format!("there is no .txt or .md file in {}", root.display())
        })
    }

    fn new(
        files: Vec<(String, PathBuf)>,
        what: impl FnOnce() -> String,
    ) -> Result<Self, DatasetError> {
        if files.is_empty() {
            return Err(DatasetError::Empty { what: what() });
        }
        let blank: Vec<PathBuf> = files
            .iter()
            .filter(|(_, path)| fs::metadata(path).is_ok_and(|file| file.len() == 0))
            .map(|(_, path)| path.clone())
            .collect();
        if blank.is_empty() {
            Ok(Self { files })
        } else {
            Err(DatasetError::Blank { files: blank })
        }
    }

    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    pub(super) fn sample(&self, index: usize) -> Result<DatasetSample, DatasetError> {
        let (id, path) = self.files.get(index).ok_or(DatasetError::NoSuchSample {
            index,
            count: self.files.len(),
        })?;
        Ok(DatasetSample {
            id: id.clone(),
            prompt: Prompt::Text(text(path)?),
            file: Some(path.clone()),
        })
    }
}

/// Text files below `folder`. Hidden ones are skipped, and folders behind links are not entered: they may form circles.
fn collect(
    root: &Path,
    folder: &Path,
    files: &mut Vec<(String, PathBuf)>,
) -> Result<(), DatasetError> {
    for entry in fs::read_dir(folder).map_err(DatasetError::read(folder))? {
        let entry = entry.map_err(DatasetError::read(folder))?;
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let kind = entry.file_type().map_err(DatasetError::read(&path))?;
        let is_text = path
            .extension()
            .is_some_and(|extension| TEXT_EXTENSIONS.iter().any(|known| extension == *known));
        if kind.is_dir() {
            collect(root, &path, files)?;
        } else if is_text && path.is_file() {
            let name = path.strip_prefix(root).unwrap_or(&path);
            files.push((name.to_string_lossy().into_owned(), path));
        }
    }
    Ok(())
}

/// A file as text, without a byte order mark.
fn text(path: &Path) -> Result<String, DatasetError> {
    let bytes = fs::read(path).map_err(DatasetError::read(path))?;
    let text = String::from_utf8(bytes).map_err(|error| DatasetError::NotText {
        path: path.to_owned(),
        at: error.utf8_error().valid_up_to(),
    })?;
    Ok(match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        root
    }

    fn names(files: &Files) -> Vec<&str> {
        files.files.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn text_files_are_found_by_name() {
        let root = folder(&[
            ("b.txt", b"two"),
            ("a/z.md", b"one"),
            ("c.png", b"\x89PNG"),
            (".hidden/d.txt", b"no"),
        ]);
        std::os::unix::fs::symlink(root.path(), root.path().join("a/circle")).unwrap();
        let files = Files::found(root.path()).unwrap();
        assert_eq!(names(&files), ["a/z.md", "b.txt"]);
        let sample = files.sample(1).unwrap();
        assert_eq!(sample.prompt, Prompt::Text("two".to_owned()));
        assert_eq!(sample.file, Some(root.path().join("b.txt")));
        let one = Files::found(&root.path().join("b.txt")).unwrap();
        assert_eq!(names(&one), ["b.txt"]);
    }

    #[test]
    fn a_list_is_looked_for_in_the_working_folder_and_then_in_the_root() {
        let root = folder(&[
            ("images/a, b.c.txt", b"A"),
            ("d.txt", b"D"),
            ("list.txt", b"d.txt\n"),
        ]);
        let cwd = folder(&[("list.txt", b"\xef\xbb\xbfd.txt\r\n\n  images/a, b.c.txt \n")]);
        let list = Path::new("list.txt");
        let files = Files::listed(root.path(), list, cwd.path()).unwrap();
        assert_eq!(names(&files), ["d.txt", "images/a, b.c.txt"]);
        let nowhere = Path::new("/nowhere");
        let files = Files::listed(root.path(), list, nowhere).unwrap();
        assert_eq!(names(&files), ["d.txt"]);
        let error = Files::listed(root.path(), Path::new("absent.txt"), nowhere).unwrap_err();
        assert!(error.to_string().contains("/nowhere/absent.txt"), "{error}");
    }

    #[test]
    fn every_missing_file_is_listed() {
        let named: Vec<String> = (0..25).map(|n| format!("{n:02}.txt")).collect();
        let list = named.join("\n");
        let root = folder(&[
            ("00.txt", b"x"),
            ("list", list.as_bytes()),
            ("01.txt/folder", b"x"),
        ]);
        let error = Files::listed(root.path(), Path::new("list"), Path::new("/")).unwrap_err();
        let DatasetError::Missing { missing, total, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!((missing.len(), *total), (24, 25));
        assert!(error.to_string().contains("24 of 25 files"), "{error}");
        assert!(error.to_string().ends_with("and 4 more"), "{error}");
    }

    #[test]
    fn nothing_to_read_is_an_error() {
        let root = folder(&[("list", b"\n \n"), ("a.png", b"x")]);
        let empty = Files::found(root.path()).unwrap_err();
        assert!(
            empty
                .to_string()
                .starts_with("the dataset is empty: there is no .txt"),
            "{empty}"
        );
        let empty = Files::listed(root.path(), Path::new("list"), root.path()).unwrap_err();
        assert!(matches!(empty, DatasetError::Empty { .. }), "{empty}");
        let absent = Files::found(&root.path().join("absent")).unwrap_err();
        assert!(matches!(absent, DatasetError::Read { .. }), "{absent}");
        let root = folder(&[("a.txt", b""), ("b.txt", b"b")]);
        let blank = Files::found(root.path()).unwrap_err();
        assert!(
            matches!(&blank, DatasetError::Blank { files } if files.len() == 1),
            "{blank}"
        );
        let root = folder(&[("a.txt", b"ab\xff")]);
        let binary = Files::found(root.path()).unwrap().sample(0).unwrap_err();
        assert!(
            matches!(binary, DatasetError::NotText { at: 2, .. }),
            "{binary}"
        );
    }
}
