//! A value over time: memory, power, clocks.

use serde_json::{Value, json};

use crate::tile::{TILE_PX, TilePlace};

/// Points in the order of time. A value holds until the next point.
#[derive(Debug)]
pub struct Counter {
    pub unit: &'static str,
    times: Vec<i64>,
    values: Vec<f64>,
    pub largest: f64,
}

impl Counter {
    /// `points` are sorted by time.
    pub(crate) fn new(unit: &'static str, points: Vec<(i64, f64)>) -> Self {
        let largest = points.iter().map(|point| point.1).fold(0.0, f64::max);
        let (times, values) = points.into_iter().unzip();
        Self {
            unit,
            times,
            values,
            largest,
        }
    }

    pub(crate) fn span(&self) -> Option<(i64, i64)> {
        Some((*self.times.first()?, *self.times.last()?))
    }

    pub(crate) fn len(&self) -> usize {
        self.times.len()
    }

    pub(crate) fn points(&self) -> impl Iterator<Item = (i64, f64)> {
        self.times.iter().copied().zip(self.values.iter().copied())
    }

    /// The value that holds at a moment.
    pub fn value_at(&self, time: i64) -> Option<f64> {
        let next = self.times.partition_point(|&point| point <= time);
        Some(self.values[next.checked_sub(1)?])
    }

    /// Per pixel with a point: `[pixel, smallest, largest, last]`, and the value before the tile.
    pub(crate) fn tile(&self, origin: i64, place: TilePlace) -> Value {
        let Some((start, end)) = place.interval() else {
            return json!({"before": null, "pixels": []});
        };
        let (start, end) = (origin.saturating_add(start), origin.saturating_add(end));
        let first = self.times.partition_point(|&point| point < start);
        let last = self.times.partition_point(|&point| point < end);
        let mut pixels: Vec<(i64, f64, f64, f64)> = Vec::new();
        for row in first..last {
            let pixel = ((self.times[row] - start) >> place.level).min(TILE_PX - 1);
            let value = self.values[row];
            match pixels.last_mut().filter(|known| known.0 == pixel) {
                Some(known) => {
                    *known = (pixel, known.1.min(value), known.2.max(value), value);
                }
                None => pixels.push((pixel, value, value, value)),
            }
        }
        json!({"before": first.checked_sub(1).map(|row| self.values[row]), "pixels": pixels})
    }

    /// Whether some pixel of a tile has more than one point.
    pub(crate) fn is_dense(&self, origin: i64, place: TilePlace) -> bool {
        let Some((start, end)) = place.interval() else {
            return false;
        };
        let (start, end) = (origin.saturating_add(start), origin.saturating_add(end));
        let first = self.times.partition_point(|&point| point < start);
        let last = self.times.partition_point(|&point| point < end);
        let pixel = |time: i64| (time - start) >> place.level;
        let times = self.times[first..last].windows(2);
        times
            .into_iter()
            .any(|pair| pixel(pair[0]) == pixel(pair[1]))
    }

    pub fn memory_bytes(&self) -> usize {
        (self.times.capacity() + self.values.capacity()) * 8
    }
}
