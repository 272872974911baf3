use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use crate::{AssetError, Result};

/// What a change does once it is applied.
type Action = Box<dyn FnOnce() -> Result<()>>;

/// One change to the file system or to a repository, not made yet.
pub struct Change {
    what: String,
    action: Action,
}

impl Change {
    pub(crate) fn new(
        what: impl Into<String>,
        action: impl FnOnce() -> Result<()> + 'static,
    ) -> Self {
        Self {
            what: what.into(),
            action: Box::new(action),
        }
    }

    /// What it does, in a line.
    pub fn what(&self) -> &str {
        &self.what
    }
}

/// What a command is about to do, in order. Making this list changes nothing.
#[derive(Default)]
pub struct Changes {
    list: Vec<Change>,
    notes: Vec<String>,
}

impl Changes {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The changes, each in a line.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(Change::what)
    }

    /// What was left as it is, and why.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Makes the changes, telling each before it is made.
    pub fn apply(self, mut tell: impl FnMut(&str)) -> Result<()> {
        for change in self.list {
            tell(&change.what);
            (change.action)()?;
        }
        Ok(())
    }

    /// Puts another list behind this one.
    pub fn extend(&mut self, more: Self) {
        self.list.extend(more.list);
        self.notes.extend(more.notes);
    }

    pub(crate) fn push(&mut self, change: Change) {
        self.list.push(change);
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// A folder, where there is none.
    pub(crate) fn folder(&mut self, path: &Path) {
        if !path.is_dir() {
            let path = path.to_owned();
            self.push(Change::new(
                format!("create {}/", path.display()),
                move || make_folder(&path),
            ));
        }
    }

    /// A file, where there is none. One that is there is the user's.
    pub(crate) fn new_file(&mut self, path: &Path, contents: impl Into<Vec<u8>>) {
        let contents = contents.into();
        if path.symlink_metadata().is_ok() {
            if !fs::read(path).is_ok_and(|existing| existing == contents) {
                self.note(format!("{} is kept as it is", path.display()));
            }
            return;
        }
        self.write_file("create", path.to_owned(), contents);
    }

    /// A program, where there is none.
    pub(crate) fn new_script(&mut self, path: &Path, contents: &str) {
        if path.symlink_metadata().is_ok() {
            return;
        }
        let (path, contents) = (path.to_owned(), contents.to_owned());
        self.push(Change::new(
            format!("create {}", path.display()),
            move || {
                if let Some(folder) = path.parent() {
                    make_folder(folder)?;
                }
                replace_file(&path, contents.as_bytes())?;
                let mode = fs::Permissions::from_mode(0o755);
                fs::set_permissions(&path, mode).map_err(AssetError::io("write", &path))
            },
        ));
    }

    /// A file that llmprof owns: it is replaced where it differs.
    pub(crate) fn own_file(&mut self, path: &Path, contents: impl Into<Vec<u8>>) {
        let contents = contents.into();
        match fs::read(path) {
            Ok(existing) if existing == contents => {}
            Ok(_) => self.write_file("replace", path.to_owned(), contents),
            Err(_) => self.write_file("create", path.to_owned(), contents),
        }
    }

    fn write_file(&mut self, verb: &str, path: PathBuf, contents: Vec<u8>) {
        self.push(Change::new(
            format!("{verb} {}", path.display()),
            move || {
                if let Some(folder) = path.parent() {
                    make_folder(folder)?;
                }
                replace_file(&path, &contents)
            },
        ));
    }
}

/// Replaces a file in one step. The file beside it that this takes has one name, so that what a killed call left of it is
/// taken up by the next: the project's lock keeps others away.
pub(crate) fn replace_file(path: &Path, contents: &[u8]) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.llmprof-tmp"));
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(contents)?;
        file.sync_all()
    });
    written
        .and_then(|()| fs::rename(&temporary, path))
        .map_err(AssetError::io("write", path))
}

pub(crate) fn make_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(AssetError::io("create", path))
}
