use std::{
    collections::HashMap,
    fs,
    io::{BufRead as _, BufReader, Read as _, Seek as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use llmprof_units::bounded_file::{DATA_MAX_BYTES, read_bounded};
use serde::Deserialize;

use super::{
    Located, SampleError, SampleLocation, line,
    unpack::{LinePacking, UnpackedLines, csv_lines},
};

const TEXTS: [&str; 2] = ["txt", "md"];
const IMAGES: [&str; 6] = ["png", "jpg", "jpeg", "webp", "bmp", "gif"];
/// Files of lines, each a JSON value.
const LINES: [&str; 2] = ["jsonl", "ndjson"];
/// Lines and rows too, where the first of them is a sample: other files are called so as well.
const JSON: &str = "json";
const CSV: &str = "csv";
const PACKED: [(&str, LinePacking); 3] = [
    ("gz", LinePacking::Gzip),
    ("zst", LinePacking::Zstd),
    ("parquet", LinePacking::Parquet),
];
/// Longest first line of a `.json` file that is looked at to tell lines from one value.
const FIRST_LINE_MAX_BYTES: u64 = 16 << 20;
/// Names of files about the data; they are not the data.
const ABOUT: [&str; 4] = ["readme", "license", "licence", "changelog"];
/// The annotations of OmniDocBench, which name its pages.
const OMNIDOCBENCH: &str = "OmniDocBench.json";

/// What a file is by its name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SampleFileKind {
    Text,
    Lines(Option<LinePacking>),
    Image,
}

fn kind_of(path: &Path) -> Option<SampleFileKind> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    let packing = PACKED.iter().find(|(end, _)| *end == extension);
    if let Some((_, packing)) = packing {
        let inner = Path::new(path.file_stem()?).extension();
        let inner = inner
            .and_then(|end| end.to_str())
            .unwrap_or_default()
            .to_ascii_lowercase();
        let is_lines =
            *packing == LinePacking::Parquet || inner == JSON || LINES.contains(&inner.as_str());
        return is_lines.then_some(SampleFileKind::Lines(Some(*packing)));
    }
    if TEXTS.contains(&extension.as_str()) {
        Some(SampleFileKind::Text)
    } else if LINES.contains(&extension.as_str()) || (extension == JSON && begins_with_sample(path))
    {
        Some(SampleFileKind::Lines(None))
    } else if extension == CSV && has_sample_rows(path) {
        Some(SampleFileKind::Lines(Some(LinePacking::Csv)))
    } else if IMAGES.contains(&extension.as_str()) {
        Some(SampleFileKind::Image)
    } else {
        None
    }
}

/// Whether the first line of a file is a sample by itself.
fn begins_with_sample(path: &Path) -> bool {
    let mut line = Vec::new();
    let Ok(file) = fs::File::open(path) else {
        return false;
    };
    let mut reader = BufReader::new(file).take(FIRST_LINE_MAX_BYTES);
    reader.read_until(b'\n', &mut line).is_ok() && line::read_line(&line, path, 1).is_ok()
}

fn has_sample_rows(path: &Path) -> bool {
    let first = csv_lines(path).ok().and_then(|mut lines| lines.next());
    matches!(first, Some(Ok(line)) if line::read_line(line.as_bytes(), path, 1).is_ok())
}

/// Every sample below a folder, or in a file.
pub(super) fn find_samples(root: &Path) -> Result<Vec<Located>, SampleError> {
    if root.is_file() {
        let name = root.file_name().unwrap_or(root.as_os_str());
        return in_file(root, &name.to_string_lossy(), SampleFileKind::Text);
    }
    let annotations = root.join(OMNIDOCBENCH);
    if annotations.is_file() {
        return locate_pages(root, &annotations);
    }
    let mut files = Vec::new();
    collect_files(root, root, &mut files)?;
    files.sort();
    let texts = files
        .iter()
        .any(|(_, path)| kind_of(path) != Some(SampleFileKind::Image));
    let mut samples = Vec::new();
    for (name, path) in &files {
        if texts && kind_of(path) == Some(SampleFileKind::Image) {
            continue;
        }
        samples.extend(in_file(path, name, SampleFileKind::Text)?);
    }
    Ok(samples)
}

/// What a list names, and where the list is.
pub(super) fn find_listed(
    root: &Path,
    list: &Path,
    places: &[&Path],
) -> Result<(PathBuf, Vec<Located>), SampleError> {
    let candidates = if list.is_absolute() {
        vec![list.to_owned()]
    } else {
        places.iter().map(|place| place.join(list)).collect()
    };
    let Some(list) = candidates.iter().find(|path| path.is_file()) else {
        return Err(SampleError::NoFileList {
            list: list.to_owned(),
            tried: candidates,
        });
    };
    let text = read_text(list)?;
    let names = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut by_id: Option<HashMap<String, Located>> = None;
    let (mut samples, mut missing, mut total) = (Vec::new(), Vec::new(), 0);
    for name in names {
        total += 1;
        let path = root.join(name);
        if path.is_file() {
            samples.extend(in_file(&path, name, SampleFileKind::Text)?);
            continue;
        }
        let known = by_id.get_or_insert_with(|| {
            let all = find_samples(root).unwrap_or_default();
            all.into_iter()
                .map(|sample| (sample.id.clone(), sample))
                .collect()
        });
        match known.get(name) {
            Some(sample) => samples.push(sample.clone()),
            None => missing.push(path),
        }
    }
    if missing.is_empty() {
        return Ok((list.clone(), samples));
    }
    Err(SampleError::Missing {
        list: list.clone(),
        missing,
        total,
    })
}

/// The samples of one file; one whose name says nothing is taken as `otherwise`.
fn in_file(
    path: &Path,
    name: &str,
    otherwise: SampleFileKind,
) -> Result<Vec<Located>, SampleError> {
    let one = |place| {
        vec![Located {
            id: name.to_owned(),
            place,
        }]
    };
    match kind_of(path).unwrap_or(otherwise) {
        SampleFileKind::Text => Ok(one(SampleLocation::Text(path.to_owned()))),
        SampleFileKind::Image => Ok(one(SampleLocation::Image(path.to_owned()))),
        SampleFileKind::Lines(packing) => locate_lines(path, name, packing),
    }
}

/// Where the lines of a file are; blank ones are skipped.
fn locate_lines(
    path: &Path,
    name: &str,
    packing: Option<LinePacking>,
) -> Result<Vec<Located>, SampleError> {
    let unpacked = packing
        .map(|packing| UnpackedLines::new(path, packing))
        .transpose()?;
    let mut file = match &unpacked {
        Some(unpacked) => unpacked.file().try_clone(),
        None => fs::File::open(path),
    }
    .map_err(SampleError::cannot_read(path))?;
    file.rewind().map_err(SampleError::cannot_read(path))?;
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let shared = Arc::new(path.to_owned());
    let (mut samples, mut line) = (Vec::new(), Vec::new());
    let (mut start, mut number) = (0u64, 0u64);
    loop {
        line.clear();
        let length = reader
            .read_until(b'\n', &mut line)
            .map_err(SampleError::cannot_read(path))? as u64;
        if length == 0 {
            return Ok(samples);
        }
        number += 1;
        if line.iter().any(|byte| !byte.is_ascii_whitespace()) {
            samples.push(Located {
                id: format!("{name}:{number}"),
                place: SampleLocation::Line {
                    file: shared.clone(),
                    unpacked: unpacked.clone(),
                    number,
                    start,
                    length,
                },
            });
        }
        start += length;
    }
}

/// One page of OmniDocBench, as far as it is read.
#[derive(Deserialize)]
struct OmniDocPage {
    page_info: PageInfo,
}

#[derive(Deserialize)]
struct PageInfo {
    image_path: String,
}

/// The pages that the annotations name; their images are in `images/`, or in the folder itself.
fn locate_pages(root: &Path, annotations: &Path) -> Result<Vec<Located>, SampleError> {
    let bad = |what: String| SampleError::BadLine {
        path: annotations.to_owned(),
        line: 1,
        what,
    };
    let bytes =
        read_bounded(annotations, DATA_MAX_BYTES).map_err(SampleError::cannot_read(annotations))?;
    let pages: Vec<OmniDocPage> =
        serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))?;
    let (mut samples, mut missing) = (Vec::new(), Vec::new());
    for page in &pages {
        let name = &page.page_info.image_path;
        let below = format!("images/{name}");
        let places = [below.as_str(), name.as_str()];
        let id = places.into_iter().find(|id| root.join(id).is_file());
        match id {
            Some(id) => samples.push(Located {
                id: id.to_owned(),
                place: SampleLocation::Image(root.join(id)),
            }),
            None => missing.push(root.join(below)),
        }
    }
    if missing.is_empty() {
        return Ok(samples);
    }
    Err(SampleError::Missing {
        list: annotations.to_owned(),
        missing,
        total: pages.len(),
    })
}

/// Files below `folder`. Hidden ones are skipped, and folders behind links are not entered: they may form circles.
fn collect_files(
    root: &Path,
    folder: &Path,
    files: &mut Vec<(String, PathBuf)>,
) -> Result<(), SampleError> {
    for entry in fs::read_dir(folder).map_err(SampleError::cannot_read(folder))? {
        let entry = entry.map_err(SampleError::cannot_read(folder))?;
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let file_type = entry.file_type().map_err(SampleError::cannot_read(&path))?;
        if file_type.is_dir() {
            collect_files(root, &path, files)?;
        } else if kind_of(&path).is_some() && path.is_file() && !(folder == root && is_about(&path))
        {
            let name = path.strip_prefix(root).unwrap_or(&path);
            files.push((name.to_string_lossy().into_owned(), path));
        }
    }
    Ok(())
}

fn is_about(path: &Path) -> bool {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let stem = stem.to_ascii_lowercase();
    ABOUT
        .iter()
        .any(|name| stem == *name || stem.starts_with(&format!("{name}_")))
}

/// A file as text, without a byte order mark.
pub(super) fn read_text(path: &Path) -> Result<String, SampleError> {
    let bytes = read_bounded(path, DATA_MAX_BYTES).map_err(SampleError::cannot_read(path))?;
    let text = String::from_utf8(bytes).map_err(|error| SampleError::NotText {
        path: path.to_owned(),
        at: error.utf8_error().valid_up_to(),
    })?;
    Ok(match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    })
}

#[cfg(test)]
mod tests;
