//! Counters from Nsight Compute's CSV pages.
//!
//! Four shapes come from `ncu --csv`: `--page raw` has a column per metric and a row of units under the header;
//! `--page details` and the export of single sections have a row per metric or rule, with rows of uneven length;
//! `--print-summary per-kernel` has a row per kernel and metric, with the least, greatest and mean value of its launches.
//! Numbers are written as the tool's locale has them, which the page itself shows ([`notation`]). All may follow lines that the tool and the program printed. Names of processes and hosts are not kept.

mod details;
mod launch;
mod notation;
mod per_kernel;
mod raw;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use self::launch::LaunchColumns;
use super::csv_text::{CsvText, Row};
use super::{ImportError, Importer, Limits, Profile, Source};
use crate::counters::unit::Notation;
use crate::counters::{Counters, CountersBuilder, MetricId, ProfiledLaunch, Reading};
use crate::issue::{Issue, IssueCode};
use crate::store::Folder;

/// Reads one page; [`read_directory`] reads many.
pub(crate) const IMPORTER: Importer = Importer {
    name: "ncu_csv",
    sniff,
    read: read_source,
};

fn read_source(source: &Source) -> Result<Profile, ImportError> {
    let mut builder = CountersBuilder::default();
    read_page(&mut builder, source)?;
    Ok(Profile::Counters(Box::new(builder.counters)))
}

/// Reads pages of one report, so that their rows with one ID are of one launch.
pub fn read_pages(files: &[PathBuf], limits: &Limits) -> Result<Counters, ImportError> {
    let mut builder = CountersBuilder::default();
    for file in files {
        read_page(&mut builder, &Source::open(file, limits)?)?;
    }
    Ok(builder.counters)
}

fn read_page(builder: &mut CountersBuilder, source: &Source) -> Result<(), ImportError> {
    let place = source.path().file_name().unwrap_or_default();
    let issues = source.issues().iter().cloned();
    builder.counters.issues.extend(issues);
    read_into(builder, source.bytes(), &place.to_string_lossy(), "")
        .map_err(|error| source.unusable("an Nsight Compute page", error.to_string()))
}

/// Why a page of counters could not be read.
#[derive(Debug, thiserror::Error)]
pub enum NcuError {
    /// The file or directory could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    /// There is no header of Nsight Compute.
    #[error(
        "{place}: no header of an Nsight Compute CSV page (a line with \"ID\" and \"Kernel Name\") was found{}",
        said(said_by_tool.as_ref())
    )]
    NoHeader {
        place: String,
        /// What the tool printed in its place.
        said_by_tool: Option<String>,
    },
    /// The header lacks a column without which rows mean nothing.
    #[error("{place}: the header lacks the column {column:?}")]
    MissingColumn { place: String, column: &'static str },
    /// A directory holds no page of counters.
    #[error("{}: no Nsight Compute CSV was found in this directory", .0.display())]
    EmptyDirectory(PathBuf),
}

fn said(text: Option<&String>) -> String {
    text.map_or_else(String::new, |text| format!("; ncu printed: {text}"))
}

/// Whether a line may be the header of one of the pages.
pub fn is_header(cells: &[String]) -> bool {
    let has = |name: &str| cells.iter().any(|cell| cell == name);
    let is_page = cells.first().is_some_and(|cell| cell == "ID");
    has("Kernel Name") && (is_page || per_kernel::is_header(cells))
}

/// Whether the beginning of a file has the header of a page of counters within it.
pub fn sniff(head: &[u8]) -> bool {
    CsvText::find(head, is_header).is_some()
}

/// Reads one page. `place` names the file in errors and issues.
pub fn read(bytes: &[u8], place: &str) -> Result<Counters, NcuError> {
    let mut builder = CountersBuilder::default();
    read_into(&mut builder, bytes, place, "")?;
    Ok(builder.counters)
}

/// A page of every launch of an hour is far from this.
const PAGE_MAX_BYTES: u64 = 1 << 32;

/// Reads every page below a directory, at most two levels down. Files in one directory are of one report, so that
/// their rows with one ID are of one launch.
pub fn read_directory(path: &Path) -> Result<Counters, NcuError> {
    let folder = Folder::open(path).map_err(|source| NcuError::Io {
        path: path.to_owned(),
        source,
    })?;
    let mut builder = CountersBuilder::default();
    let mut pages = 0;
    for file in csv_files(path, 2)? {
        let failed = |source| NcuError::Io {
            path: file.clone(),
            source,
        };
        let bytes = folder
            .read(file.strip_prefix(path).unwrap_or(&file), PAGE_MAX_BYTES)
            .map_err(failed)?;
        let relative = file.strip_prefix(path).unwrap_or(&file);
        let place = relative.display().to_string();
        let report = relative
            .parent()
            .map_or_else(String::new, |folder| folder.display().to_string());
        if !sniff(&bytes) {
            builder
                .counters
                .issues
                .push(Issue::info(IssueCode::NcuOtherFile).with("file", place));
            continue;
        }
        read_into(&mut builder, &bytes, &place, &report)?;
        pages += 1;
    }
    if pages == 0 {
        return Err(NcuError::EmptyDirectory(path.to_owned()));
    }
    Ok(builder.counters)
}

fn csv_files(path: &Path, levels: u32) -> Result<Vec<PathBuf>, NcuError> {
    let failed = |source| NcuError::Io {
        path: path.to_owned(),
        source,
    };
    let entries = std::fs::read_dir(path).map_err(failed)?;
    let mut entries: Vec<PathBuf> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    entries.sort();
    let mut files = Vec::new();
    for entry in entries {
        let is_folder = std::fs::symlink_metadata(&entry).is_ok_and(|metadata| metadata.is_dir());
        if is_folder {
            if levels > 1 {
                files.extend(csv_files(&entry, levels - 1)?);
            }
        } else if entry
            .extension()
            .is_some_and(|extension| extension == "csv")
        {
            files.push(entry);
        }
    }
    Ok(files)
}

fn read_into(
    builder: &mut CountersBuilder,
    bytes: &[u8],
    place: &str,
    report: &str,
) -> Result<(), NcuError> {
    let Some(table) = CsvText::find(bytes, is_header) else {
        return Err(NcuError::NoHeader {
            place: place.to_owned(),
            said_by_tool: tool_message(bytes),
        });
    };
    let messages = table.preamble.iter().filter_map(|line| message_in(line));
    let mut said: Vec<(String, u64)> = Vec::new();
    for text in messages {
        match said.iter_mut().find(|(known, _)| *known == text) {
            Some((_, count)) => *count += 1,
            None => said.push((text, 1)),
        }
    }
    for (text, count) in said {
        let issue = Issue::warning(IssueCode::NcuSaid).with("file", place);
        let issue = issue.with("text", text).counting(count);
        builder.counters.issues.push(issue);
    }
    let mut sink = Sink::new(builder, place, report);
    sink.notation = notation::detect_notation(bytes, &mut sink);
    if per_kernel::is_header(&table.header) {
        per_kernel::read(table, &mut sink)?;
    } else if table.column("Metric Name").is_some() {
        details::read(table, &mut sink)?;
    } else {
        raw::read(table, &mut sink)?;
    }
    sink.finish();
    Ok(())
}

/// What the tool printed, where it printed no table.
fn tool_message(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(64 * 1024)]);
    text.lines().filter_map(message_in).next_back()
}

/// The text of a warning or an error of the tool. One that has a path in it is withheld: it may name a user.
fn message_in(line: &str) -> Option<String> {
    let text = line
        .strip_prefix("==WARNING==")
        .or_else(|| line.strip_prefix("==ERROR=="))?
        .trim();
    let names_a_path = text.contains(" /") || text.starts_with('/') || text.contains(":\\");
    Some(if names_a_path {
        "a message with a path in it".to_owned()
    } else {
        text.to_owned()
    })
}

/// Where rows of one file go: finds the launch of each, drops repetitions, counts losses.
struct Sink<'a> {
    builder: &'a mut CountersBuilder,
    place: &'a str,
    report: &'a str,
    /// Launches of this report by ID.
    launches: BTreeMap<u64, usize>,
    /// What each launch of this report has, so that a metric repeated in another file is kept once.
    known: BTreeMap<(usize, MetricId), usize>,
    losses: BTreeMap<IssueCode, (u64, Issue)>,
    notation: Notation,
}

impl<'a> Sink<'a> {
    fn new(builder: &'a mut CountersBuilder, place: &'a str, report: &'a str) -> Self {
        let mut launches = BTreeMap::new();
        let mut known = BTreeMap::new();
        for (index, launch) in builder.counters.launches.iter().enumerate() {
            if launch.report == report {
                launches.insert(launch.id, index);
                let readings = launch.readings.iter().enumerate();
                known.extend(readings.map(|(at, reading)| ((index, reading.metric), at)));
            }
        }
        Self {
            builder,
            place,
            report,
            launches,
            known,
            losses: BTreeMap::new(),
            notation: Notation::Point,
        }
    }

    /// The launch of a row that is whole; what does not parse is a loss.
    fn launch_of(&mut self, row: &Row, columns: &mut LaunchColumns) -> Option<usize> {
        let line = row.line;
        if row.damaged_text {
            self.lose(Issue::warning(IssueCode::NcuNotUtf8).with("line", line));
        }
        match columns.launch(&row.cells) {
            Ok(launch) => Some(self.launch(launch, line)),
            Err(column) => {
                let issue = Issue::warning(IssueCode::NcuBadLaunch).with("line", line);
                self.lose(issue.with("column", column));
                None
            }
        }
    }

    fn launch(&mut self, mut launch: ProfiledLaunch, line: u64) -> usize {
        let known = self.launches.get(&launch.id).copied();
        if let Some(index) = known {
            let other = &self.builder.counters.launches[index];
            if other.kernel == launch.kernel
                && other.grid == launch.grid
                && other.block == launch.block
            {
                return index;
            }
            let issue = Issue::warning(IssueCode::NcuIdReused).with("line", line);
            self.lose(issue.with("launch", launch.id));
        }
        self.report.clone_into(&mut launch.report);
        let index = self.builder.counters.launches.len();
        self.launches.insert(launch.id, index);
        self.builder.counters.launches.push(launch);
        index
    }

    fn reading(&mut self, launch: usize, reading: Reading, line: u64) {
        let readings = &mut self.builder.counters.launches[launch].readings;
        match self.known.get(&(launch, reading.metric)) {
            None => {
                self.known.insert((launch, reading.metric), readings.len());
                readings.push(reading);
            }
            Some(&at) if readings[at].value == reading.value => {}
            Some(_) => {
                readings.push(reading);
                self.lose(Issue::warning(IssueCode::NcuTwoValues).with("line", line));
            }
        }
    }

    /// Notes a loss; losses of one kind become one issue that shows the first.
    fn lose(&mut self, issue: Issue) {
        let code = issue.code.clone();
        self.losses.entry(code).or_insert((0, issue)).0 += 1;
    }

    fn finish(self) {
        for (count, first) in self.losses.into_values() {
            let issue = first.with("place", self.place);
            self.builder.counters.issues.push(issue.counting(count));
        }
    }
}
