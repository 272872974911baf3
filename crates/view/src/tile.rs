//! A piece of a lane at one zoom level, as bytes that a page draws without parsing.
//!
//! Level `l` shows 2^l ns a pixel; a tile has [`TILE_PX`] pixels. A slice of at least [`SLICE_MIN_PX`] pixels is a slice of its own, with exact
//! times; shorter ones are folded into one cell a pixel, with the share of the pixel that they cover, their number and the longest name.
//! A tile without cells holds all that deeper levels show, so nothing below it is asked for.
//!
//! Little-endian, each track padded to 8 bytes: `u32` slices, `u32` cells; per slice `f64` start and duration (ns since the origin of the
//! timeline), `u32` name and event; per cell `u16` pixel and covered share (of 65,535), `u32` count and name.

use crate::track::Track;

pub const TILE_PX: i64 = 512;
/// Below this width a slice is folded into cells.
pub const SLICE_MIN_PX: i64 = 3;
/// 2^40 ns a pixel are 18 minutes; a tile is then six days.
pub const LEVEL_MAX: u32 = 40;

/// Which piece of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TilePlace {
    pub level: u32,
    pub x: i64,
}

impl TilePlace {
    /// First and last moment, ns since the origin; `None` where it is not a place on the clock.
    pub fn interval(self) -> Option<(i64, i64)> {
        if self.level > LEVEL_MAX || self.x < 0 {
            return None;
        }
        let width = TILE_PX << self.level;
        let start = self.x.checked_mul(width)?;
        Some((start, start.checked_add(width)?))
    }
}

/// The level at which one tile holds the whole timeline.
pub(crate) fn top_level(span: i64) -> u32 {
    (0..LEVEL_MAX)
        .find(|level| span < TILE_PX << level)
        .unwrap_or(LEVEL_MAX)
}

#[derive(Default)]
struct TileParts {
    starts: Vec<f64>,
    durations: Vec<f64>,
    names: Vec<u32>,
    events: Vec<u32>,
    cells: Vec<TileCell>,
}

#[derive(Clone, Copy)]
struct TileCell {
    pixel: u16,
    covered: u16,
    count: u32,
    name: u32,
}

/// Appends one track to a tile. `origin` is the moment on the trace's clock where the timeline begins.
pub(crate) fn encode_track(track: &Track, origin: i64, place: TilePlace, out: &mut Vec<u8>) {
    let parts = place
        .interval()
        .map(|(start, _)| cut_track(track, origin, origin.saturating_add(start), place.level))
        .unwrap_or_default();
    out.extend((parts.starts.len() as u32).to_le_bytes());
    out.extend((parts.cells.len() as u32).to_le_bytes());
    for column in [&parts.starts, &parts.durations] {
        out.extend(column.iter().flat_map(|value| value.to_le_bytes()));
    }
    for column in [&parts.names, &parts.events] {
        out.extend(column.iter().flat_map(|value| value.to_le_bytes()));
    }
    out.extend(parts.cells.iter().flat_map(|cell| cell.pixel.to_le_bytes()));
    out.extend(
        parts
            .cells
            .iter()
            .flat_map(|cell| cell.covered.to_le_bytes()),
    );
    out.extend(parts.cells.iter().flat_map(|cell| cell.count.to_le_bytes()));
    out.extend(parts.cells.iter().flat_map(|cell| cell.name.to_le_bytes()));
    out.resize(out.len().next_multiple_of(8), 0);
}

fn cut_track(track: &Track, origin: i64, start: i64, level: u32) -> TileParts {
    let pixel_ns = 1_i64 << level;
    let slice_min = SLICE_MIN_PX << level;
    let end = start.saturating_add(TILE_PX << level);
    let mut parts = TileParts::default();
    let mut begun = track.begun_before(start);
    let mut covered = track.covered_until(start, begun);
    // The slice that reaches into the tile from before it, if it is drawn as one.
    let mut shown_until = start;
    if let Some(before) = begun.checked_sub(1).map(|row| track.slice(row))
        && before.end > start
        && before.duration() >= slice_min
    {
        parts.push_slice(track, begun - 1, origin);
        shown_until = before.end;
    }
    let mut small_until = begun
        .checked_sub(1)
        .map(|row| track.slice(row))
        .filter(|before| before.duration() < slice_min)
        .map_or(start, |before| before.end);
    let mut pixel = 0;
    while pixel < TILE_PX {
        let from = start + pixel * pixel_ns;
        let to = from + pixel_ns;
        let next = track.begun_before_from(begun, to);
        if next == begun && small_until <= from {
            // Nothing begins here: go on where something does.
            let Some(next_start) = (begun < track.len()).then(|| track.start(begun)) else {
                break;
            };
            if next_start >= end {
                break;
            }
            pixel = (next_start - start) / pixel_ns;
            covered = track.covered_until(start + pixel * pixel_ns, begun);
            continue;
        }
        let covered_to = track.covered_until(to, next);
        let mut small = covered_to - covered - (shown_until.min(to) - from).max(0);
        let longest = track.longest(begun..next);
        let mut count = next - begun;
        let mut name = longest.map(|row| track.slice(row).name);
        if let Some(row) = longest
            && track.slice(row).duration() >= slice_min
        {
            // Slices of a track do not overlap, so one pixel has at most one beginning of a slice that is longer than a pixel.
            let slice = track.slice(row);
            parts.push_slice(track, row, origin);
            small -= slice.end.min(to) - slice.start;
            shown_until = slice.end;
            count -= 1;
            name = track
                .longest(begun..row)
                .map(|other| track.slice(other).name);
        } else if next > begun {
            small_until = track.slice(next - 1).end;
        }
        if count > 0 || small > 0 {
            let name = name.or_else(|| Some(track.slice(begun.checked_sub(1)?).name));
            parts.cells.push(TileCell {
                pixel: pixel as u16,
                covered: share_of(small, pixel_ns),
                count: count as u32,
                name: name.unwrap_or_default(),
            });
        }
        begun = next;
        covered = covered_to;
        pixel += 1;
    }
    parts
}

/// A part of a pixel in 65,535ths, rounded.
fn share_of(part: i64, pixel_ns: i64) -> u16 {
    let share = (part as f64 / pixel_ns as f64).clamp(0.0, 1.0);
    (share * f64::from(u16::MAX)).round() as u16
}

impl TileParts {
    fn push_slice(&mut self, track: &Track, row: usize, origin: i64) {
        let slice = track.slice(row);
        self.starts.push((slice.start - origin) as f64);
        self.durations.push(slice.duration() as f64);
        self.names.push(slice.name);
        self.events.push(slice.event.0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::track::{EventRef, LaneSlice};

    proptest! {
        /// Slices and cells of all tiles of a level together are all slices: their number and, to rounding, their time.
        #[test]
        fn tiles_hold_every_slice_once(
            lengths in proptest::collection::vec((0_i64..30, 0_i64..90), 1..400),
            level in 0_u32..9,
            origin in -50_i64..1,
        ) {
            let mut time = 0;
            let track = Track::new(lengths.iter().enumerate().map(|(row, &(gap, length))| {
                let start = time + gap;
                time = start + length;
                LaneSlice { start, end: time, name: row as u32, event: EventRef::new(0, row) }
            }));
            let (mut seen, mut folded, mut folded_ns) = (vec![false; track.len()], 0, 0.0);
            let tiles = (time - origin) / (TILE_PX << level) + 1;
            for x in 0..tiles {
                let start = origin + x * (TILE_PX << level);
                let parts = cut_track(&track, origin, start, level);
                for &event in &parts.events {
                    seen[EventRef(event).row()] = true;
                }
                for cell in &parts.cells {
                    folded += cell.count as usize;
                    folded_ns += f64::from(cell.covered) / 65535.0 * (1_i64 << level) as f64;
                }
            }
            let is_long = |row: usize| track.slice(row).duration() >= SLICE_MIN_PX << level;
            let rows = 0..track.len();
            prop_assert!(rows.clone().all(|row| seen[row] == is_long(row)));
            prop_assert_eq!(folded, rows.clone().filter(|&row| !is_long(row)).count());
            let short: i64 = rows.filter(|&row| !is_long(row)).map(|row| track.slice(row).duration()).sum();
            let rounding = 512.0 * tiles as f64 * (1_i64 << level) as f64 / 65535.0;
            prop_assert!((folded_ns - short as f64).abs() <= rounding + 1e-6, "{folded_ns} {short}");
        }
    }

    #[test]
    fn places_off_the_clock_have_no_interval() {
        for (level, x) in [(41, 0), (0, -1), (40, i64::MAX / 4)] {
            assert_eq!(TilePlace { level, x }.interval(), None);
        }
        assert_eq!(TilePlace { level: 3, x: 2 }.interval(), Some((8192, 12288)));
    }
}
