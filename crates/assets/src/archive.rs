//! Zip archives, extracted so that nothing lands outside of the folder, nothing fills the disk unasked, and a folder that has
//! its name is complete.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, Read, Write},
    path::{Component, Path, PathBuf},
};

use llmprof_units::Bytes;
use zip::ZipArchive;

use crate::{AssetError, Result};

/// What the files of an archive may have together where a bootstrap file does not say.
pub(crate) const DEFAULT_BOUND: Bytes = Bytes(200_000_000_000);
/// What one archive may hold.
const ENTRIES_MAX: usize = 10_000_000;
/// Kind of file in the upper half of an entry's Unix mode.
const KIND: u32 = 0o170_000;
const LINK: u32 = 0o120_000;
const FOLDER: u32 = 0o040_000;
const PLAIN: u32 = 0o100_000;

/// Whether an archive has to be extracted into a folder: it is not there, or there is nothing in it.
pub(crate) fn is_needed(into: &Path) -> bool {
    !fs::read_dir(into).is_ok_and(|mut entries| entries.next().is_some())
}

/// Reads the names and sizes of an archive and refuses one that must not be extracted; the sum of its sizes.
pub(crate) fn check_archive(archive: &Path, bound: Bytes) -> Result<Bytes> {
    let mut zip = open_archive(archive)?;
    let mut total = 0u64;
    let mut names = BTreeSet::new();
    for number in 0..zip.len() {
        let entry = zip
            .by_index_raw(number)
            .map_err(|error| AssetError::bad(archive, error.to_string()))?;
        let refuse = |why: &str| AssetError::UnsafeArchive {
            archive: archive.to_owned(),
            entry: entry.name().escape_debug().to_string(),
            why: why.to_owned(),
        };
        let path = plain_path(entry.name()).ok_or_else(|| refuse("leads out of the folder"))?;
        match entry.unix_mode().map(|mode| mode & KIND) {
            Some(LINK) => return Err(refuse("is a link")),
            Some(0 | PLAIN | FOLDER) | None => {}
            Some(_) => return Err(refuse("is neither a file nor a folder")),
        }
        if entry.encrypted() {
            return Err(refuse("is encrypted"));
        }
        if !entry.is_dir() && !names.insert(path) {
            return Err(refuse("is there twice"));
        }
        total = total.saturating_add(entry.size());
        if total > bound.0 {
            return Err(refuse(&format!("exceeds {bound} in all")));
        }
    }
    Ok(Bytes(total))
}

/// Extracts an archive that was checked. Files appear in a folder beside `into`, which gets its name at the end.
///
/// Where every file is below one folder with the name of `into`, that folder is `into`.
pub(crate) fn extract_archive(archive: &Path, into: &Path, bound: Bytes) -> Result<()> {
    check_archive(archive, bound)?;
    let name = into.file_name().unwrap_or_default();
    let partial = into.with_file_name(format!(".{}.llmprof-partial", name.to_string_lossy()));
    // Ours, of a call that was ended.
    if partial.symlink_metadata().is_ok() {
        fs::remove_dir_all(&partial).map_err(AssetError::io("remove", &partial))?;
    }
    fs::create_dir_all(&partial).map_err(AssetError::io("create", &partial))?;
    let mut zip = open_archive(archive)?;
    let inner = zip.file_names().all(|entry| {
        plain_path(entry).is_some_and(|path| {
            path.starts_with(name) && (path != Path::new(name) || entry.ends_with('/'))
        })
    });
    let mut left = bound.0;
    for number in 0..zip.len() {
        let bad = |error: &dyn std::fmt::Display| AssetError::bad(archive, error.to_string());
        let mut entry = zip.by_index(number).map_err(|error| bad(&error))?;
        let Some(path) = plain_path(entry.name()) else {
            continue;
        };
        let path = if inner {
            path.strip_prefix(name).unwrap_or(&path).to_owned()
        } else {
            path
        };
        let path = partial.join(path);
        if entry.is_dir() {
            fs::create_dir_all(&path).map_err(AssetError::io("create", &path))?;
            continue;
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(AssetError::io("create", folder))?;
        }
        let mut file = File::create_new(&path).map_err(AssetError::io("create", &path))?;
        // The size that an entry states is not always the one it has.
        let written = copy_limited(&mut entry, &mut file, left, &path)
            .map_err(|error| bad(&format!("entry `{}`: {error}", entry.name())))?;
        left = left
            .checked_sub(written)
            .ok_or_else(|| AssetError::UnsafeArchive {
                archive: archive.to_owned(),
                entry: entry.name().escape_debug().to_string(),
                why: format!("exceeds {bound} in all"),
            })?;
    }
    fs::rename(&partial, into).map_err(AssetError::io("create", into))
}

/// Copies at most one byte more than `left`, so that too much is noticed.
fn copy_limited(from: &mut impl Read, to: &mut File, left: u64, path: &Path) -> io::Result<u64> {
    let written = io::copy(&mut from.take(left.saturating_add(1)), to)?;
    to.flush()
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    Ok(written)
}

fn open_archive(archive: &Path) -> Result<ZipArchive<File>> {
    let file = File::open(archive).map_err(AssetError::io("read", archive))?;
    let zip = ZipArchive::new(file).map_err(|error| AssetError::bad(archive, error.to_string()))?;
    if zip.len() > ENTRIES_MAX {
        return Err(AssetError::bad(
            archive,
            format!("holds {} entries; at most {ENTRIES_MAX}", zip.len()),
        ));
    }
    Ok(zip)
}

/// An entry's name as a path of plain parts; nothing else may be extracted.
fn plain_path(name: &str) -> Option<PathBuf> {
    if name.contains(['\\', '\0']) || name.is_empty() {
        return None;
    }
    let path = Path::new(name);
    let plain = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    plain.then(|| path.components().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zip::{ZipWriter, write::SimpleFileOptions};

    fn make_archive(folder: &Path, entries: &[(&str, &[u8])]) -> PathBuf {
        let path = folder.join("a.zip");
        let mut zip = ZipWriter::new(File::create(&path).unwrap());
        for (name, content) in entries {
            zip.start_file(*name, SimpleFileOptions::default()).unwrap();
            zip.write_all(content).unwrap();
        }
        zip.finish().unwrap();
        path
    }

    #[test]
    fn files_are_extracted_once_and_a_folder_of_the_same_name_is_not_doubled() {
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("images");
        let flat = make_archive(folder.path(), &[("x.png", b"1"), ("sub/y.png", b"22")]);
        assert!(is_needed(&into));
        assert_eq!(check_archive(&flat, DEFAULT_BOUND).unwrap(), Bytes(3));
        // What a killed call left.
        fs::create_dir(folder.path().join(".images.llmprof-partial")).unwrap();
        fs::write(folder.path().join(".images.llmprof-partial/x.png"), "half").unwrap();
        extract_archive(&flat, &into, DEFAULT_BOUND).unwrap();
        assert_eq!(fs::read(into.join("x.png")).unwrap(), b"1");
        assert_eq!(fs::read(into.join("sub/y.png")).unwrap(), b"22");
        assert!(!is_needed(&into));
        assert!(!folder.path().join(".images.llmprof-partial").exists());

        fs::remove_dir_all(&into).unwrap();
        fs::create_dir(&into).unwrap();
        let nested = make_archive(folder.path(), &[("images/x.png", b"1")]);
        extract_archive(&nested, &into, DEFAULT_BOUND).unwrap();
        assert_eq!(fs::read(into.join("x.png")).unwrap(), b"1");
    }

    #[test]
    fn archives_that_escape_link_or_swell_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("images");
        let refused = |path: &Path, bound: u64| {
            let error = extract_archive(path, &into, Bytes(bound)).unwrap_err();
            assert!(!into.exists());
            error.to_string()
        };
        for name in ["../x", "/etc/x", "a/../../x", "a\\..\\x"] {
            let path = make_archive(folder.path(), &[("ok", b"1"), (name, b"2")]);
            let error = refused(&path, 100);
            assert!(error.contains("leads out of the folder"), "{name}: {error}");
        }
        let path = make_archive(folder.path(), &[("big", &[0; 2000])]);
        assert!(refused(&path, 1999).contains("exceeds"), "stated size");
        extract_archive(&path, &into, Bytes(2000)).unwrap();
        fs::remove_dir_all(&into).unwrap();

        let path = folder.path().join("link.zip");
        let mut zip = ZipWriter::new(File::create(&path).unwrap());
        zip.add_symlink("l", "/etc/passwd", SimpleFileOptions::default())
            .unwrap();
        zip.finish().unwrap();
        assert!(refused(&path, 100).contains("is a link"));

        // An entry that states fewer bytes than it has.
        let path = make_archive(folder.path(), &[("lie", &[7; 4000])]);
        let mut bytes = fs::read(&path).unwrap();
        let size = 4000u32.to_le_bytes();
        let places: Vec<usize> = (0..bytes.len() - 4)
            .filter(|&at| bytes[at..at + 4] == size)
            .collect();
        assert_eq!(places.len(), 2, "local and central header");
        for at in places {
            bytes[at..at + 4].copy_from_slice(&10u32.to_le_bytes());
        }
        fs::write(&path, bytes).unwrap();
        refused(&path, 1000);
        let broken = make_archive(folder.path(), &[("x", b"1")]);
        let bytes = fs::read(&broken).unwrap();
        for length in 0..bytes.len() {
            fs::write(&broken, &bytes[..length]).unwrap();
            refused(&broken, 100);
        }
    }
}
