//! A site as files that any web server shows: what the page asks for, under the same paths.
//!
//! Tiles are written level by level from the whole timeline down; below a tile without cells there is nothing more to show. What needs a
//! computation (sums of a selection, search, SQL) is left to `llmprof view`, and the page says so.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::assets::ASSETS;
use crate::compare_page::compare_json;
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

/// Tiles of a lane in one file, in the order in which they are listed: most tiles are so small that a file each would take a hundred times
/// their size on a disk.
pub(crate) const TILES_PER_PACK: usize = 64;

/// Why an archive could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("{path} exists; remove it or choose another name")]
    Exists { path: PathBuf },
    #[error("cannot write {path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveFacts {
    pub files: u64,
    pub bytes: u64,
    /// Whether the limit on tiles left out the deepest levels of some run.
    pub is_cut: bool,
}

/// Tiles of a lane by level: numbers of the first and the last of each interval in one list.
type LaneTiles = BTreeMap<u32, Vec<i64>>;

/// Tiles of a lane that are not written yet.
#[derive(Default)]
struct TilePack {
    number: usize,
    lengths: Vec<u32>,
    bytes: Vec<u8>,
}

impl TilePack {
    /// The lengths of all its tiles, 0 for those that the last pack of a lane lacks, then the tiles.
    fn encoded(&self) -> Vec<u8> {
        let mut lengths = self.lengths.clone();
        lengths.resize(TILES_PER_PACK, 0);
        let mut encoded: Vec<u8> = lengths
            .iter()
            .flat_map(|length| length.to_le_bytes())
            .collect();
        encoded.extend_from_slice(&self.bytes);
        encoded
    }
}

struct ArchiveWriter<'a> {
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
        let mut writer = ArchiveWriter {
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
        for (a, first) in self.runs.iter().enumerate() {
            for (b, second) in self.runs.iter().enumerate().filter(|(b, _)| *b != a) {
                let compared = compare_json(first, second).to_string();
                writer.write(&format!("compare/{a}/{b}.json"), compared.as_bytes())?;
            }
        }
        Ok(writer.facts)
    }
}

impl ArchiveWriter<'_> {
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
        let tiles = self.tiles(base, run)?;
        let has_facts = timeline.events() <= EVENTS_WITH_FACTS_MAX;
        if has_facts {
            self.events(base, run)?;
        }
        let mut lanes = timeline.lanes_json();
        lanes["is_archive"] = json!(true);
        for (lane, levels) in tiles.iter().enumerate() {
            lanes["lanes"][lane]["tiles"] = json!(levels);
        }
        lanes["has_facts"] = json!(has_facts);
        self.write(&format!("{base}lanes.json"), lanes.to_string().as_bytes())
    }

    /// Writes tiles of all lanes; returns which, so that a page asks for no other.
    fn tiles(&mut self, base: &str, run: &OpenedRun) -> Result<Vec<LaneTiles>, ArchiveError> {
        let lanes = 0..run.timeline.lanes.len();
        let mut packs: Vec<TilePack> = lanes.map(|_| TilePack::default()).collect();
        let written = self.pack_tiles(base, run, &mut packs)?;
        for (lane, pack) in packs.iter_mut().enumerate() {
            self.write_pack(base, lane, pack)?;
        }
        Ok(written)
    }

    fn write_pack(
        &mut self,
        base: &str,
        lane: usize,
        pack: &mut TilePack,
    ) -> Result<(), ArchiveError> {
        if pack.lengths.is_empty() {
            return Ok(());
        }
        let path = format!("{base}tile/{lane}/{}", pack.number);
        self.write(&path, &pack.encoded())?;
        *pack = TilePack {
            number: pack.number + 1,
            ..TilePack::default()
        };
        Ok(())
    }

    fn pack_tiles(
        &mut self,
        base: &str,
        run: &OpenedRun,
        packs: &mut [TilePack],
    ) -> Result<Vec<LaneTiles>, ArchiveError> {
        let timeline = &run.timeline;
        let lanes = 0..timeline.lanes.len();
        let mut written: Vec<LaneTiles> = lanes.clone().map(|_| LaneTiles::new()).collect();
        let mut wanted: Vec<(usize, i64)> = lanes.map(|lane| (lane, 0)).collect();
        for level in (0..=top_level(timeline.span)).rev() {
            let mut below = Vec::new();
            for (lane, x) in wanted {
                let Some(bytes) = timeline.tile(lane, TilePlace { level, x }) else {
                    continue;
                };
                if self.tile_bytes + bytes.len() as u64 > TILE_BYTES_MAX {
                    self.facts.is_cut = true;
                    return Ok(written);
                }
                self.tile_bytes += bytes.len() as u64;
                let pack = &mut packs[lane];
                pack.lengths.push(bytes.len() as u32);
                pack.bytes.extend_from_slice(&bytes);
                if pack.lengths.len() == TILES_PER_PACK {
                    self.write_pack(base, lane, pack)?;
                }
                insert_after(written[lane].entry(level).or_default(), x);
                let folds_any = match &timeline.lanes[lane].counter {
                    Some(counter) => counter.folds_any(timeline.origin, TilePlace { level, x }),
                    None => has_cells(&bytes),
                };
                if folds_any {
                    below.extend([(lane, 2 * x), (lane, 2 * x + 1)]);
                }
            }
            wanted = below;
        }
        Ok(written)
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

/// Appends a number to intervals that are before it, first and last of each in one list.
fn insert_after(bounds: &mut Vec<i64>, number: i64) {
    match bounds.last_mut().filter(|last| **last + 1 == number) {
        Some(last) => *last = number,
        None => bounds.extend([number, number]),
    }
}

/// Whether a tile of slices folds anything.
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
