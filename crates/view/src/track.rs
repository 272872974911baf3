//! Slices that do not overlap, as columns with a tree over them.
//!
//! Blocks of [`FAN_OUT`] slices know the time covered before them; a tree of the same fan-out knows the longest slice of each block.
//! Covered time and the longest slice of any interval take some tens of steps, however many slices the interval holds.

/// A tile of a lane with deep stacks asks some ten thousand times: wider blocks are read longer, narrower ones take more memory.
const FAN_OUT: usize = 16;

/// A table and a row of it, in 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRef(pub u32);

impl EventRef {
    const ROW_BITS: u32 = 28;
    /// Rows of one table that can be referred to.
    pub const ROWS_MAX: usize = 1 << Self::ROW_BITS;

    pub fn new(table: u8, row: usize) -> Self {
        debug_assert!(table < 16 && row < Self::ROWS_MAX);
        Self(u32::from(table) << Self::ROW_BITS | row as u32)
    }

    pub fn table(self) -> u8 {
        (self.0 >> Self::ROW_BITS) as u8
    }

    pub fn row(self) -> usize {
        (self.0 as usize) & (Self::ROWS_MAX - 1)
    }
}

/// One slice while a track is built, and as it is read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSlice {
    pub start: i64,
    pub end: i64,
    pub name: u32,
    pub event: EventRef,
}

impl LaneSlice {
    pub fn duration(&self) -> i64 {
        self.end - self.start
    }
}

/// One row of a lane: slices in the order of time, none of which overlaps another.
#[derive(Debug, Default)]
pub struct Track {
    starts: Vec<i64>,
    ends: Vec<i64>,
    names: Vec<u32>,
    events: Vec<u32>,
    /// Time covered by all slices before each block.
    covered_before: Vec<i64>,
    /// The longest slice of each block of slices, of each block of blocks, and so on.
    longest: Vec<Vec<LongestSlices>>,
}

/// A slice that is the longest of some. Its duration is here, since the slice itself is far away in memory.
#[derive(Clone, Copy, Debug)]
struct LongestSlices {
    duration: i64,
    row: u32,
}

impl LongestSlices {
    /// The longer of two; the first of equals, so that the answer does not depend on how blocks lie.
    fn or(self, other: Self) -> Self {
        let is_longer = other.duration > self.duration
            || other.duration == self.duration && other.row < self.row;
        if is_longer { other } else { self }
    }
}

impl Track {
    /// `slices` are sorted by start and do not overlap.
    pub fn new(slices: impl IntoIterator<Item = LaneSlice>) -> Self {
        let mut track = Self::default();
        for slice in slices {
            track.push(slice);
        }
        track.index();
        track
    }

    pub(crate) fn push(&mut self, slice: LaneSlice) {
        debug_assert!(slice.end >= slice.start);
        debug_assert!(self.ends.last().is_none_or(|&end| end <= slice.start));
        self.starts.push(slice.start);
        self.ends.push(slice.end);
        self.names.push(slice.name);
        self.events.push(slice.event.0);
    }

    pub(crate) fn last_end(&self) -> Option<i64> {
        self.ends.last().copied()
    }

    /// Builds the tree; must be called after the last [`push`](Self::push).
    pub(crate) fn index(&mut self) {
        self.starts.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.names.shrink_to_fit();
        self.events.shrink_to_fit();
        self.covered_before.clear();
        self.longest.clear();
        let mut covered = 0;
        let mut level = Vec::with_capacity(self.len().div_ceil(FAN_OUT));
        for block in (0..self.len()).step_by(FAN_OUT) {
            self.covered_before.push(covered);
            let rows = block..(block + FAN_OUT).min(self.len());
            covered += rows.clone().map(|row| self.duration(row)).sum::<i64>();
            level.extend(
                rows.map(|row| self.candidate(row))
                    .reduce(LongestSlices::or),
            );
        }
        while level.len() > 1 {
            let above = level
                .chunks(FAN_OUT)
                .filter_map(|block| block.iter().copied().reduce(LongestSlices::or))
                .collect();
            self.longest.push(std::mem::replace(&mut level, above));
        }
        self.longest.push(level);
    }

    fn candidate(&self, row: usize) -> LongestSlices {
        LongestSlices {
            duration: self.duration(row),
            row: row as u32,
        }
    }

    fn duration(&self, row: usize) -> i64 {
        self.ends[row] - self.starts[row]
    }

    pub fn len(&self) -> usize {
        self.starts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    pub fn slice(&self, row: usize) -> LaneSlice {
        LaneSlice {
            start: self.starts[row],
            end: self.ends[row],
            name: self.names[row],
            event: EventRef(self.events[row]),
        }
    }

    pub(crate) fn start(&self, row: usize) -> i64 {
        self.starts[row]
    }

    /// How many slices begin before `time`.
    pub fn begun_before(&self, time: i64) -> usize {
        self.starts.partition_point(|&start| start < time)
    }

    /// As [`begun_before`](Self::begun_before), where at least `from` slices do and the answer is near.
    pub(crate) fn begun_before_from(&self, from: usize, time: i64) -> usize {
        let mut step = 1;
        let mut low = from;
        while low + step <= self.len() && self.starts[low + step - 1] < time {
            low += step;
            step *= 2;
        }
        let high = (low + step).min(self.len());
        low + self.starts[low..high].partition_point(|&start| start < time)
    }

    /// Time covered by slices before `time`, of which `begun` begin before it.
    pub(crate) fn covered_until(&self, time: i64, begun: usize) -> i64 {
        let Some(last) = begun.checked_sub(1) else {
            return 0;
        };
        let block = last / FAN_OUT;
        let rows = block * FAN_OUT..begun;
        let whole = rows.map(|row| self.duration(row)).sum::<i64>();
        self.covered_before[block] + whole - (self.ends[last] - time).max(0)
    }

    /// Time covered by slices between two moments.
    pub fn covered(&self, from: i64, to: i64) -> i64 {
        if to <= from {
            return 0;
        }
        self.covered_until(to, self.begun_before(to))
            - self.covered_until(from, self.begun_before(from))
    }

    /// The longest of some slices.
    pub fn longest(&self, rows: std::ops::Range<usize>) -> Option<usize> {
        let mut best: Option<LongestSlices> = None;
        let mut offer =
            |other: LongestSlices| best = Some(best.map_or(other, |best| best.or(other)));
        let (mut low, mut high) = (rows.start, rows.end);
        let mut level: Option<&[LongestSlices]> = None;
        let mut above = self.longest.iter();
        // Both ends are walked to the edges of blocks; what is between them is asked one level higher.
        while low < high {
            let at =
                |place: usize| level.map_or_else(|| self.candidate(place), |level| level[place]);
            while low < high && low % FAN_OUT != 0 {
                offer(at(low));
                low += 1;
            }
            while low < high && high % FAN_OUT != 0 {
                high -= 1;
                offer(at(high));
            }
            level = above.next().map(Vec::as_slice);
            if level.is_none() {
                break;
            }
            (low, high) = (low / FAN_OUT, high / FAN_OUT);
        }
        best.map(|best| best.row as usize)
    }

    /// Bytes of memory that the columns and the tree take.
    pub fn memory_bytes(&self) -> usize {
        let nodes: usize = self.longest.iter().map(Vec::capacity).sum();
        let tree = nodes * size_of::<LongestSlices>();
        (self.starts.capacity() + self.ends.capacity() + self.covered_before.capacity()) * 8
            + (self.names.capacity() + self.events.capacity()) * 4
            + tree
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn track(lengths: &[(i64, i64)]) -> Track {
        let mut time = 0;
        Track::new(lengths.iter().enumerate().map(|(row, &(gap, length))| {
            let start = time + gap;
            time = start + length;
            LaneSlice {
                start,
                end: time,
                name: 0,
                event: EventRef::new(1, row),
            }
        }))
    }

    proptest! {
        /// The tree answers as reading every slice does.
        #[test]
        fn intervals_are_summed_exactly(
            lengths in proptest::collection::vec((0_i64..4, 0_i64..9), 0..9000),
            from in 0_i64..40_000,
            length in 0_i64..40_000,
        ) {
            let track = track(&lengths);
            let to = from + length;
            let slices: Vec<LaneSlice> = (0..track.len()).map(|row| track.slice(row)).collect();
            let covered: i64 = slices.iter().map(|slice| (slice.end.min(to) - slice.start.max(from)).max(0)).sum();
            prop_assert_eq!(track.covered(from, to), covered);
            let rows = track.begun_before(from)..track.begun_before(to);
            let longest = rows.clone().max_by_key(|&row| (slices[row].duration(), std::cmp::Reverse(row)));
            prop_assert_eq!(track.longest(rows.clone()), longest);
            for near in [rows.start, rows.end, rows.start / 2] {
                prop_assert_eq!(track.begun_before_from(near, to), rows.end.max(near));
            }
        }
    }

    #[test]
    fn references_keep_table_and_row() {
        let event = EventRef::new(15, EventRef::ROWS_MAX - 1);
        assert_eq!((event.table(), event.row()), (15, EventRef::ROWS_MAX - 1));
    }
}
