//! Whole files of others, read only if they are regular files of a plausible size: a `config.json` that leads to `/dev/zero` or to a FIFO
//! would otherwise be read forever.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

/// A model's `config.json` or a project's YAML: shipped ones have at most a few hundred kB.
pub const CONFIG_MAX_BYTES: u64 = 16 << 20;

/// A `tokenizer.json`: the largest published ones have about 35 MB.
pub const TOKENIZER_MAX_BYTES: u64 = 256 << 20;

/// The index of a checkpoint, which names each tensor: safetensors limits the header of one file to 100 MB.
pub const INDEX_MAX_BYTES: u64 = 100 << 20;

/// Data that somebody names: requests to send, annotations of a dataset.
pub const DATA_MAX_BYTES: u64 = 4 << 30;

/// The bytes of a regular file of at most `max_bytes`.
pub fn read_bounded(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    // Opening a FIFO waits for a writer, so its kind is asked first.
    let size = regular_size(&fs::metadata(path)?)?;
    if size > max_bytes {
        return Err(too_large(max_bytes));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    // The file may grow meanwhile, and files in /proc have no size.
    File::open(path)?
        .take(max_bytes + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(too_large(max_bytes));
    }
    Ok(bytes)
}

/// The text of a regular file of at most `max_bytes`.
pub fn read_text_bounded(path: &Path, max_bytes: u64) -> io::Result<String> {
    text_of(read_bounded(path, max_bytes)?)
}

/// The text of a file that the user names, which may be a pipe: `<(command)`.
pub fn read_named_text(path: &Path, max_bytes: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(too_large(max_bytes));
    }
    text_of(bytes)
}

fn text_of(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8 text"))
}

fn regular_size(metadata: &fs::Metadata) -> io::Result<u64> {
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ));
    }
    Ok(metadata.len())
}

fn too_large(max_bytes: u64) -> io::Error {
    let limit = format!("larger than the limit of {} MiB", max_bytes >> 20);
    io::Error::new(io::ErrorKind::FileTooLarge, limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_within_the_limit_are_read() {
        let folder = std::env::temp_dir().join(format!("bounded-file-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("config.json");
        fs::write(&file, b"12345").unwrap();
        assert_eq!(read_bounded(&file, 5).unwrap(), b"12345");
        assert_eq!(read_named_text(&file, 5).unwrap(), "12345");
        let endless = read_named_text(Path::new("/dev/zero"), 1 << 20);
        assert_eq!(endless.unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        let kind = |path: &Path, limit| read_bounded(path, limit).unwrap_err().kind();
        assert_eq!(kind(&file, 4), io::ErrorKind::FileTooLarge);
        assert_eq!(kind(&folder, 4), io::ErrorKind::IsADirectory);
        assert_eq!(kind(&folder.join("none"), 4), io::ErrorKind::NotFound);
        if Path::new("/dev/zero").exists() {
            let link = folder.join("link.json");
            std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
            assert_eq!(kind(&link, 4), io::ErrorKind::InvalidInput);
        }
        fs::write(&file, b"\xff").unwrap();
        let error = read_text_bounded(&file, 5).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        fs::remove_dir_all(&folder).unwrap();
    }
}
