//! A site as files that any web server shows: what the page asks for, under the same paths.
//!
//! Tiles are written level by level from the whole timeline down; below a tile without cells there is nothing more to show. What needs a
//! computation (sums of a selection, search, SQL) is left to `llmprof view`, and the page says so.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::assets::ASSETS;
use crate::names::NAMES_PER_BLOCK;
use crate::opened_run::OpenedRun;
use crate::pages::PAGES;
use crate::site::Site;
use crate::tile::{TilePlace, top_level};
use crate::track::EventRef;

/// Tiles of all runs together.
const TILE_BYTES_MAX: u64 = 1 << 30;
/// Facts of more events than this are left out: a page of facts is some 600 bytes.
const EVENTS_WITH_FACTS_MAX: usize = 200_000;
/// Events of a table in one file of facts.
pub(crate) const EVENTS_PER_BLOCK: usize = 256;

/// Why an archive could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("{path} exists; remove it or choose another name")]
    Exists { path: PathBuf },
    #[error("cannot write {path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

/// What an archive holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveFacts {
    pub files: u64,
    pub bytes: u64,
    /// Whether the limit on tiles left out the deepest levels of some run.
    pub is_cut: bool,
}

struct Writer<'a> {
    folder: &'a Path,
    facts: ArchiveFacts,
    tile_bytes: u64,
}

impl Site {
    /// Writes the site to a folder that must not exist.
    pub fn write_archive(&self, folder: &Path) -> Result<ArchiveFacts, ArchiveError> {
        if folder.exists() {
            return Err(ArchiveError::Exists {
                path: folder.to_owned(),
            });
        }
        let mut writer = Writer {
            folder,
            facts: ArchiveFacts::default(),
            tile_bytes: 0,
        };
        for (name, _, text) in ASSETS {
            writer.write(name, text.as_bytes())?;
        }
        let mut runs = self.runs_json();
        runs["is_archive"] = json!(true);
        writer.write("runs.json", runs.to_string().as_bytes())?;
        for (number, run) in self.runs.iter().enumerate() {
            writer.run(&format!("r/{number}/"), run)?;
        }
        Ok(writer.facts)
    }
}

impl Writer<'_> {
    fn write(&mut self, name: &str, bytes: &[u8]) -> Result<(), ArchiveError> {
        let path = self.folder.join(name);
        let failed = |source| ArchiveError::Io {
            path: path.clone(),
            source,
        };
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        fs::write(&path, bytes).map_err(failed)?;
        self.facts.files += 1;
        self.facts.bytes += bytes.len() as u64;
        Ok(())
    }

    fn run(&mut self, base: &str, run: &std::sync::Arc<OpenedRun>) -> Result<(), ArchiveError> {
        let timeline = &run.timeline;
        let mut paths = vec!["run.json".to_owned(), "report.html".to_owned()];
        paths.extend(PAGES.iter().map(|page| format!("{page}.json")));
        paths.extend(run.plot_names().map(|name| format!("plot/{name}.svg")));
        for block in 0..timeline.names.len().div_ceil(NAMES_PER_BLOCK) {
            paths.push(format!("names/{block}.json"));
        }
        for path in paths {
            let parts: Vec<&str> = path.split('/').collect();
            if let Some(reply) = run.reply(&parts, &[]) {
                self.write(&format!("{base}{path}"), &reply.body)?;
            }
        }
        let (top, finest) = self.tiles(base, run)?;
        let has_facts = timeline.events() <= EVENTS_WITH_FACTS_MAX;
        if has_facts {
            self.events(base, run)?;
        }
        let mut lanes = timeline.lanes_json();
        lanes["top_level"] = json!(top);
        lanes["finest_level"] = json!(finest);
        lanes["has_facts"] = json!(has_facts);
        self.write(&format!("{base}lanes.json"), lanes.to_string().as_bytes())
    }

    /// Writes tiles of all lanes; returns the first and the last level.
    fn tiles(&mut self, base: &str, run: &OpenedRun) -> Result<(u32, u32), ArchiveError> {
        let timeline = &run.timeline;
        let top = top_level(timeline.span);
        let lanes = 0..timeline.lanes.len();
        let mut wanted: Vec<(usize, i64)> = lanes.map(|lane| (lane, 0)).collect();
        for level in (0..=top).rev() {
            let mut below = Vec::new();
            for (lane, x) in wanted {
                let Some(bytes) = timeline.tile(lane, TilePlace { level, x }) else {
                    continue;
                };
                if self.tile_bytes + bytes.len() as u64 > TILE_BYTES_MAX {
                    self.facts.is_cut = true;
                    return Ok((top, level + 1));
                }
                self.tile_bytes += bytes.len() as u64;
                self.write(&format!("{base}tile/{lane}/{level}/{x}"), &bytes)?;
                let has_more = match &timeline.lanes[lane].counter {
                    // A pixel of a counter has its extremes; below one point a pixel there is nothing more.
                    Some(counter) => counter.is_dense(timeline.origin, TilePlace { level, x }),
                    None => has_cells(&bytes),
                };
                if has_more {
                    below.extend([(lane, 2 * x), (lane, 2 * x + 1)]);
                }
            }
            wanted = below;
            if wanted.is_empty() {
                return Ok((top, level));
            }
        }
        Ok((top, 0))
    }

    /// Facts of every event, in blocks.
    fn events(&mut self, base: &str, run: &OpenedRun) -> Result<(), ArchiveError> {
        let timeline = &run.timeline;
        let mut blocks: BTreeSet<(usize, u8, usize)> = BTreeSet::new();
        for (lane, slice) in timeline.slices(|_| true) {
            let trace = timeline.lanes[lane].trace;
            let block = slice.event.row() / EVENTS_PER_BLOCK;
            blocks.insert((trace, slice.event.table(), block));
        }
        for (trace, table, block) in blocks {
            let rows = (0..EVENTS_PER_BLOCK).map(|row| {
                let event = EventRef::new(table, block * EVENTS_PER_BLOCK + row);
                run.event_json(trace, event).unwrap_or(Value::Null)
            });
            let text = rows.collect::<Value>().to_string();
            self.write(
                &format!("{base}event/{trace}/{table}/{block}.json"),
                text.as_bytes(),
            )?;
        }
        Ok(())
    }
}

/// Whether a tile folds anything.
fn has_cells(tile: &[u8]) -> bool {
    let number = |at: usize| {
        let bytes = tile.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u32::from_le_bytes) as usize
    };
    let mut at = 0;
    while at + 8 <= tile.len() {
        let (slices, cells) = (number(at), number(at + 4));
        if cells > 0 {
            return true;
        }
        at = (at + 8 + slices * 24).next_multiple_of(8);
    }
    false
}
