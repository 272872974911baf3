//! A value over time: memory, power, clocks.

use serde_json::{Value, json};

use crate::tile::TilePlace;

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

    /// The value before the tile, and its points `[time, value]` (time since the origin), which is all that deeper levels show. Where some
    /// pixel has two of them: `[pixel, smallest, largest, last]` of each pixel with a point.
    pub(crate) fn tile(&self, origin: i64, place: TilePlace) -> Value {
        let Some((start, end)) = place.interval() else {
            return json!({"before": null, "points": []});
        };
        let row_at = |time: i64| {
            let time = origin.saturating_add(time);
            self.times.partition_point(|&point| point < time)
        };
        let (first, last) = (row_at(start), row_at(end));
        let mut pixels: Vec<(i64, f64, f64, f64)> = Vec::new();
        for row in first..last {
            let pixel = (self.times[row] - origin - start) >> place.level;
            let value = self.values[row];
            match pixels.last_mut().filter(|known| known.0 == pixel) {
                Some(known) => {
                    *known = (pixel, known.1.min(value), known.2.max(value), value);
                }
                None => pixels.push((pixel, value, value, value)),
            }
        }
        let before = first.checked_sub(1).map(|row| self.values[row]);
        if pixels.len() < last - first {
            return json!({"before": before, "pixels": pixels});
        }
        let points = (first..last).map(|row| (self.times[row] - origin, self.values[row]));
        json!({"before": before, "points": points.collect::<Vec<_>>()})
    }

    /// Whether a tile has pixels of more than one point.
    pub(crate) fn folds_any(&self, origin: i64, place: TilePlace) -> bool {
        !self.tile(origin, place)["pixels"].is_null()
    }

    pub fn memory_bytes(&self) -> usize {
        (self.times.capacity() + self.values.capacity()) * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_has_points_until_two_share_a_pixel() {
        let counter = Counter::new("bytes", vec![(100, 1.0), (103, 5.0), (108, 2.0)]);
        let tile = |level, x| counter.tile(100, TilePlace { level, x });
        let points = json!({"before": null, "points": [[0, 1.0], [3, 5.0], [8, 2.0]]});
        assert_eq!(tile(0, 0), points);
        assert_eq!(tile(1, 0), points, "two pixels each");
        let pixels = json!({"before": null, "pixels": [[0, 1.0, 5.0, 5.0], [2, 2.0, 2.0, 2.0]]});
        assert_eq!(tile(2, 0), pixels);
        assert_eq!(tile(0, 1), json!({"before": 2.0, "points": []}));
    }
}
