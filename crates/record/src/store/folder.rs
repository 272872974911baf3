//! The one door to the files of a run directory.
//!
//! A run may come from somebody else, by an archive or on a shared disk. Everything below its root is therefore opened
//! relative to an open directory, component by component, and never through a symbolic link; what is neither a regular
//! file nor a folder (FIFO, device, socket) is refused before a byte is read. A file is replaced by renaming a new one
//! with a random name over it, so that nothing that lies there, a link included, is ever written through.

use std::{
    ffi::OsStr,
    fs::File,
    hash::{BuildHasher as _, RandomState},
    io::{self, Read as _, Write as _},
    os::fd::{AsFd as _, OwnedFd},
    path::{Component, Path, PathBuf},
};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::secrets::redact;

/// Names that are tried before giving up; two equal ones are as likely as two equal 64-bit numbers.
const ATTEMPTS: u32 = 16;

/// Folders inside of each other that a run may have. Its own are 4 deep; each that is open has a descriptor and a path of its own.
const FOLDER_LEVELS_MAX: usize = 64;

/// What a power cut may take of a file that was replaced. Until then, and when a process is killed, all are alike. A sync takes up to 45 ms on
/// the disks of clouds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The file: it can be made again.
    Derived,
    /// The name of the file, until the folder is synced with a later one. The content is on the disk before.
    Content,
    Whole,
}

#[derive(Debug)]
pub struct Folder {
    handle: OwnedFd,
    /// Used in messages only: files are opened relative to `handle`.
    path: PathBuf,
}

#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error(
        "it is {0}; only regular files and folders are read or written in a run directory, so remove it"
    )]
    Kind(&'static str),
    #[error("it has {length} bytes, more than the {limit} that such a file may have")]
    TooLarge { length: u64, limit: u64 },
    #[error("the name leaves the directory")]
    Outside,
    #[error("it is more than {FOLDER_LEVELS_MAX} folders deep in the run directory")]
    TooDeep,
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        Self::new(io::ErrorKind::InvalidData, refused)
    }
}

impl Folder {
    /// Opens the directory that the user named; that name itself may be a link.
    pub fn open(path: &Path) -> io::Result<Self> {
        let shown = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            handle: rustix::fs::open(shown, flags, Mode::empty())?,
            path: shown.to_owned(),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a regular file for reading.
    pub fn open_file(&self, relative: impl AsRef<Path>) -> io::Result<File> {
        let relative = relative.as_ref();
        let (folder, name) = self.parent(relative, false)?;
        let folder = folder.as_ref().unwrap_or(self);
        // A FIFO must not hold us up before it can be refused.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&folder.handle, name, flags, Mode::empty());
        let file = File::from(opened.map_err(|errno| folder.explain(name, errno))?);
        require_regular(&file)?;
        Ok(file)
    }

    /// Opens a regular file for reading and for overwriting parts of it.
    pub(crate) fn open_file_to_change(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.handle, name, flags, Mode::empty());
        let file = File::from(opened.map_err(|errno| self.explain(name, errno))?);
        require_regular(&file)?;
        Ok(file)
    }

    /// The contents of a regular file of at most `limit` bytes.
    pub fn read(&self, relative: impl AsRef<Path>, limit: u64) -> io::Result<Vec<u8>> {
        let file = self.open_file(relative)?;
        let length = file.metadata()?.len();
        if length > limit {
            return Err(Refused::TooLarge { length, limit }.into());
        }
        let mut contents = Vec::new();
        file.take(limit).read_to_end(&mut contents)?;
        Ok(contents)
    }

    /// Whether there is a regular file of this name.
    pub fn has_file(&self, relative: impl AsRef<Path>) -> bool {
        let Ok((folder, name)) = self.parent(relative.as_ref(), false) else {
            return false;
        };
        let folder = folder.as_ref().unwrap_or(self);
        folder.kind(name) == Ok(FileType::RegularFile)
    }

    /// Opens a folder below this one, creating it and those above it where they are absent.
    pub fn create_folder(&self, relative: impl AsRef<Path>) -> io::Result<Self> {
        let mut folder: Option<Self> = None;
        for name in split_names(relative.as_ref())? {
            folder = Some(folder.as_ref().unwrap_or(self).enter(name, true)?);
        }
        folder.map_or_else(|| Self::open(&self.path), Ok)
    }

    /// Replaces a file such that a reader, or the next start after a crash, sees the old one or the new one and nothing
    /// between. On failure the old file is untouched and no other stays behind. Folders above it are created. What looks
    /// like a credential in a text is not written.
    pub fn replace(&self, relative: impl AsRef<Path>, contents: &[u8]) -> io::Result<()> {
        self.replace_as(Durability::Whole, relative, contents)
    }

    /// As [`replace`](Self::replace), with what a power cut may take of it.
    pub fn replace_as(
        &self,
        durability: Durability,
        relative: impl AsRef<Path>,
        contents: &[u8],
    ) -> io::Result<()> {
        // All text of a run goes through here.
        match std::str::from_utf8(contents) {
            Ok(text) => {
                let clean = redact(text);
                let write = |file: &mut File| file.write_all(clean.as_bytes());
                self.replace_with(durability, relative, write)
            }
            Err(_) => self.replace_with(durability, relative, |file| file.write_all(contents)),
        }
    }

    /// As [`replace_as`](Self::replace_as), with what `write` puts into the new file.
    pub fn replace_with(
        &self,
        durability: Durability,
        relative: impl AsRef<Path>,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let (folder, name) = self.parent(relative.as_ref(), true)?;
        let folder = folder.as_ref().unwrap_or(self);
        let (temporary, mut file) = folder.create_temporary(name)?;
        let renamed = write(&mut file)
            .and_then(|()| match durability {
                Durability::Derived => Ok(()),
                Durability::Content | Durability::Whole => file.sync_all(),
            })
            .and_then(|()| {
                let handle = &folder.handle;
                Ok(rustix::fs::renameat(handle, &*temporary, handle, name)?)
            });
        if let Err(error) = renamed {
            // The error to report is the first one.
            let _ = rustix::fs::unlinkat(&folder.handle, &*temporary, AtFlags::empty());
            return Err(error);
        }
        // The rename itself lives in the directory: without this it may be lost in a power cut.
        if durability == Durability::Whole {
            rustix::fs::fsync(&folder.handle)?;
        }
        Ok(())
    }

    /// Gives a regular file a second name: a hard link, or a copy where the file system has none. It is the file as it is now:
    /// replacing either name leaves the other.
    pub fn link(&self, existing: impl AsRef<Path>, second: impl AsRef<Path>) -> io::Result<()> {
        let (from, name) = self.parent(existing.as_ref(), false)?;
        let from = from.as_ref().unwrap_or(self);
        let (to, second_name) = self.parent(second.as_ref(), true)?;
        let to = to.as_ref().unwrap_or(self);
        match from.kind(name)? {
            FileType::RegularFile => {}
            other => return Err(Refused::Kind(kind_name(other)).into()),
        }
        match rustix::fs::unlinkat(&to.handle, second_name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        let no_follow = AtFlags::empty();
        match rustix::fs::linkat(&from.handle, name, &to.handle, second_name, no_follow) {
            Ok(()) => Ok(()),
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK | Errno::XDEV) => {
                let mut file = from.open_file(name)?;
                to.replace_with(Durability::Derived, second_name, |copy| {
                    io::copy(&mut file, copy).map(|_| ())
                })
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// A new, empty file for a stream of unknown length, such as the log of a child. What had its name is unlinked, not
    /// written through.
    pub fn create_file(&self, relative: impl AsRef<Path>) -> io::Result<File> {
        let (folder, name) = self.parent(relative.as_ref(), true)?;
        let folder = folder.as_ref().unwrap_or(self);
        match rustix::fs::unlinkat(&folder.handle, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(folder.create_new(name)?)
    }

    /// Opens a regular file of this folder for reading and writing in place, as a lock or a log that grows is; makes it
    /// where there is none. It is never truncated.
    pub(crate) fn open_in_place(&self, name: &str) -> io::Result<File> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.handle, name, flags, Mode::from_raw_mode(0o644));
        let file = File::from(opened.map_err(|errno| self.explain(OsStr::new(name), errno))?);
        require_regular(&file)?;
        Ok(file)
    }

    /// Calls `each` with every regular file below this folder, by its path relative to it. A link or special file is an
    /// error that names it.
    pub fn walk(
        &self,
        each: &mut dyn FnMut(&Path, &Folder, &OsStr) -> io::Result<()>,
    ) -> Result<(), (PathBuf, io::Error)> {
        self.walk_below(Path::new(""), each)
    }

    fn walk_below(
        &self,
        relative: &Path,
        each: &mut dyn FnMut(&Path, &Folder, &OsStr) -> io::Result<()>,
    ) -> Result<(), (PathBuf, io::Error)> {
        let at = |name: &OsStr| self.path.join(name);
        let entries = Dir::read_from(&self.handle)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|errno| (self.path.clone(), errno.into()))?;
        for entry in entries {
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let name = std::os::unix::ffi::OsStrExt::from_bytes(name);
            let below = relative.join(name);
            match self.kind(name).map_err(|errno| (at(name), errno.into()))? {
                FileType::Directory if relative.components().count() >= FOLDER_LEVELS_MAX => {
                    return Err((at(name), Refused::TooDeep.into()));
                }
                FileType::Directory => self
                    .enter(name, false)
                    .map_err(|error| (at(name), error))?
                    .walk_below(&below, each)?,
                FileType::RegularFile => {
                    each(&below, self, name).map_err(|error| (at(name), error))?;
                }
                other => return Err((at(name), Refused::Kind(kind_name(other)).into())),
            }
        }
        Ok(())
    }

    /// The folder that holds `relative`, unless that is this one, and its name there.
    fn parent<'a>(
        &self,
        relative: &'a Path,
        create: bool,
    ) -> io::Result<(Option<Self>, &'a OsStr)> {
        let mut names = split_names(relative)?;
        let name = names.pop().ok_or(Refused::Outside)?;
        let mut folder: Option<Self> = None;
        for above in names {
            folder = Some(folder.as_ref().unwrap_or(self).enter(above, create)?);
        }
        Ok((folder, name))
    }

    fn enter(&self, name: &OsStr, create: bool) -> io::Result<Self> {
        if create {
            match rustix::fs::mkdirat(&self.handle, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.handle, name, flags, Mode::empty());
        Ok(Self {
            handle: opened.map_err(|errno| self.explain(name, errno))?,
            path: self.path.join(name),
        })
    }

    fn create_temporary(&self, name: &OsStr) -> io::Result<(String, File)> {
        let mut last = Errno::EXIST;
        for _ in 0..ATTEMPTS {
            let random = RandomState::new().hash_one(std::process::id());
            let temporary = format!(".{}.{random:016x}.tmp", name.to_string_lossy());
            match self.create_new(OsStr::new(&temporary)) {
                Ok(file) => return Ok((temporary, file)),
                Err(errno) => last = errno,
            }
            if last != Errno::EXIST {
                break;
            }
        }
        Err(last.into())
    }

    /// Removes what [`replace_with`](Self::replace_with) left where its process was killed before the rename.
    pub(super) fn sweep_temporary(&self) -> Result<(), (PathBuf, io::Error)> {
        self.walk(&mut |_, folder, name| {
            if is_temporary(name) {
                rustix::fs::unlinkat(&folder.handle, name, AtFlags::empty())?;
            }
            Ok(())
        })
    }

    fn create_new(&self, name: &OsStr) -> Result<File, Errno> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        rustix::fs::openat(self.handle.as_fd(), name, flags, mode).map(File::from)
    }

    fn kind(&self, name: &OsStr) -> Result<FileType, Errno> {
        let status = rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(status.st_mode))
    }

    /// The reason in words where the system has none: a refused link is `ELOOP` or `ENOTDIR` to it.
    fn explain(&self, name: &OsStr, errno: Errno) -> io::Error {
        match self.kind(name) {
            Ok(FileType::RegularFile | FileType::Directory) | Err(_) => errno.into(),
            Ok(other) => Refused::Kind(kind_name(other)).into(),
        }
    }
}

/// Whether [`Folder::create_temporary`] makes such names: `.NAME.0123456789abcdef.tmp`.
fn is_temporary(name: &OsStr) -> bool {
    let parts = name.to_str().and_then(|name| {
        let (name, random) = name
            .strip_prefix('.')?
            .strip_suffix(".tmp")?
            .rsplit_once('.')?;
        Some(
            !name.is_empty() && random.len() == 16 && random.bytes().all(|b| b.is_ascii_hexdigit()),
        )
    });
    parts == Some(true)
}

/// Refuses what is open and is no regular file.
fn require_regular(file: &File) -> io::Result<()> {
    let status = rustix::fs::fstat(file)?;
    match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => Ok(()),
        other => Err(Refused::Kind(kind_name(other)).into()),
    }
}

fn split_names(relative: &Path) -> io::Result<Vec<&OsStr>> {
    let mut names = Vec::new();
    for component in relative.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::CurDir => {}
            _ => return Err(Refused::Outside.into()),
        }
    }
    Ok(names)
}

fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Directory => "a folder",
        _ => "not a regular file",
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_is_read_or_written_through_a_link() {
        let outside = tempfile::tempdir().unwrap();
        let secret = outside.path().join("secret");
        fs::write(&secret, "precious").unwrap();
        let run = tempfile::tempdir().unwrap();
        symlink(&secret, run.path().join("file")).unwrap();
        symlink(outside.path(), run.path().join("plots")).unwrap();
        let folder = Folder::open(run.path()).unwrap();

        let error = folder.read("file", 100).unwrap_err().to_string();
        assert!(error.contains("symbolic link"), "{error}");
        for name in ["plots/secret", "plots/new.svg", "../secret", "/etc/passwd"] {
            assert!(folder.read(name, 100).is_err(), "{name}");
            assert!(folder.replace(name, b"x").is_err(), "{name}");
            assert!(folder.create_file(name).is_err(), "{name}");
        }
        // What is replaced is the link, not its target.
        folder.replace("file", b"new").unwrap();
        assert_eq!(folder.read("file", 100).unwrap(), b"new");
        assert_eq!(fs::read(&secret).unwrap(), b"precious");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
        let walked = folder.walk(&mut |_, _, _| Ok(()));
        assert_eq!(walked.unwrap_err().0, run.path().join("plots"));
    }

    #[test]
    fn special_files_are_refused_before_they_are_read() {
        let run = tempfile::tempdir().unwrap();
        let fifo = run.path().join("run.json");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            FileType::Fifo,
            Mode::from_raw_mode(0o644),
            0,
        )
        .unwrap();
        let folder = Folder::open(run.path()).unwrap();
        let error = folder.read("run.json", 100).unwrap_err().to_string();
        assert!(error.contains("FIFO"), "{error}");
        assert!(folder.open_in_place("run.json").is_err());
        fs::write(run.path().join("large"), [0; 101]).unwrap();
        let error = folder.read("large", 100).unwrap_err().to_string();
        assert!(error.contains("101 bytes"), "{error}");
    }

    /// Each folder's path was kept while those below it were walked: 18,000 with names of 255 bytes took 40 GB.
    #[test]
    fn folders_beyond_measure_are_refused() {
        let run = tempfile::tempdir().unwrap();
        let folder = Folder::open(run.path()).unwrap();
        let deep = |levels: usize| "d/".repeat(levels);
        folder.create_folder(deep(FOLDER_LEVELS_MAX)).unwrap();
        folder.walk(&mut |_, _, _| Ok(())).unwrap();
        folder.create_folder(deep(FOLDER_LEVELS_MAX + 1)).unwrap();
        let (path, error) = folder.walk(&mut |_, _, _| Ok(())).unwrap_err();
        assert_eq!(path, run.path().join(deep(FOLDER_LEVELS_MAX + 1)));
        assert!(error.to_string().contains("64 folders deep"), "{error}");
    }

    #[test]
    fn a_second_name_is_of_a_regular_file_inside_the_run() {
        let outside = tempfile::tempdir().unwrap();
        let secret = outside.path().join("secret");
        fs::write(&secret, "precious").unwrap();
        let run = tempfile::tempdir().unwrap();
        let folder = Folder::open(run.path()).unwrap();
        folder.replace("cost.md", b"old").unwrap();
        folder.link("cost.md", "static/cost.md").unwrap();
        assert_eq!(folder.read("static/cost.md", 9).unwrap(), b"old");
        folder.replace("cost.md", b"new").unwrap();
        assert_eq!(folder.read("static/cost.md", 9).unwrap(), b"old");
        // Again, over the name that is there.
        folder.link("cost.md", "static/cost.md").unwrap();
        assert_eq!(folder.read("static/cost.md", 9).unwrap(), b"new");
        symlink(&secret, run.path().join("leak")).unwrap();
        for (existing, second) in [
            ("leak", "static/leak"),
            ("absent", "static/absent"),
            ("cost.md", "../cost.md"),
            ("../secret", "static/secret"),
        ] {
            assert!(folder.link(existing, second).is_err(), "{existing}");
        }
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
        assert_eq!(fs::read_dir(run.path().join("static")).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let run = tempfile::tempdir().unwrap();
        let folder = Folder::open(run.path()).unwrap();
        folder.replace("a/b/run.json", b"old").unwrap();
        let failed = folder.replace_with(Durability::Whole, "a/b/run.json", |file| {
            file.write_all(b"half")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        });
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(folder.read("a/b/run.json", 9).unwrap(), b"old");
        assert_eq!(fs::read_dir(run.path().join("a/b")).unwrap().count(), 1);
    }
}
