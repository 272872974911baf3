//! Finds steps by the pattern of kernels if no range shows them.
//!
//! A program that generates text runs the same kernels in every step. A kernel that runs once a step, such as the one that
//! samples a token, recurs after one step; if nearly all other kernels recur at the same distance, that distance is the
//! step. Layers recur too, but the kernels between the last layer of a step and the first layer of the next do not fit
//! their period. A slice inside one long step shows layers only, so a distance is certain only if something repeats inside
//! it. Kernels of other streams interleave with those of a step in no fixed order, so each stream is searched by itself,
//! the busiest first.

use std::collections::HashMap;

/// More kernels of a slice are not kept: they would not change the period.
const KERNELS_MAX: usize = 1 << 16;
/// With fewer kernels a repetition could be chance.
const KERNELS_MIN: usize = 32;
/// Share of kernels that may differ from the kernel one step later.
const STEP_UNLIKE_MAX_SHARE: f64 = 0.01;
/// Share of kernels that equal the kernel one layer later, in a step made of layers.
const LAYER_ALIKE_MIN_SHARE: f64 = 0.6;
/// Only the busiest streams are searched.
const STREAMS_MAX: usize = 4;
/// Number of candidate distances, which bounds the search time.
const DISTANCES_MAX: usize = 32;

#[derive(Default)]
pub(crate) struct Kernels {
    kernels: Vec<PatternKernel>,
    /// Kernel time by stream, ns.
    times: HashMap<Stream, i64>,
}

/// A stream: its device, context and number.
pub(crate) type Stream = (u32, u32, u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PatternKernel {
    start: i64,
    /// Number of the kernel's name.
    name: u32,
    stream: Stream,
}

/// The repetition found in a slice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Period {
    /// Median duration of one repetition, ns.
    pub(super) time: i64,
    /// Whether something repeats inside it, as layers do in a step.
    pub(super) holds_layers: bool,
}

impl Kernels {
    /// Adds a kernel that ran from `start` to `end`; `name` is the number of its name.
    pub(crate) fn add_kernel(&mut self, (start, end): (i64, i64), name: u32, stream: Stream) {
        if self.kernels.len() < KERNELS_MAX {
            let time = self.times.entry(stream).or_default();
            *time = time.saturating_add(end.saturating_sub(start));
            self.kernels.push(PatternKernel {
                start,
                name,
                stream,
            });
        }
    }

    pub(super) fn clear(&mut self) {
        self.kernels.clear();
        self.times.clear();
    }

    /// Whether there are too few kernels to find a period.
    pub(super) fn are_few(&self) -> bool {
        self.kernels.len() < KERNELS_MIN
    }

    /// The period of the busiest stream that certainly shows a step, else of the busiest stream that has one. `None` if no
    /// distance fits or the slice holds fewer than two periods.
    pub(super) fn find_period(&self) -> Option<Period> {
        let mut streams: Vec<(i64, Stream)> = self
            .times
            .iter()
            .map(|(&stream, &time)| (time, stream))
            .collect();
        streams.sort_unstable_by(|a, b| b.cmp(a));
        streams.truncate(STREAMS_MAX);
        let mut first = None;
        for (_, stream) in streams {
            let period = self.period_of(stream);
            if period.is_some_and(|period| period.holds_layers) {
                return period;
            }
            first = first.or(period);
        }
        first
    }

    fn period_of(&self, stream: Stream) -> Option<Period> {
        let of_stream = self.kernels.iter().filter(|kernel| kernel.stream == stream);
        let mut kernels: Vec<PatternKernel> = of_stream.copied().collect();
        if kernels.len() < KERNELS_MIN {
            return None;
        }
        // Buffers arrive out of order.
        kernels.sort_unstable();
        let names: Vec<u32> = kernels.iter().map(|kernel| kernel.name).collect();
        let distance = recurring_distances(&names, Rarest::First)
            .into_iter()
            .find(|&distance| share_alike(&names, distance) >= 1.0 - STEP_UNLIKE_MAX_SHARE)?;
        let step = &names[..distance];
        let holds_layers = recurring_distances(step, Rarest::Last)
            .into_iter()
            .any(|layer| share_alike(step, layer) >= LAYER_ALIKE_MIN_SHARE);
        let mut times: Vec<i64> = kernels
            .iter()
            .zip(&kernels[distance..])
            .map(|(kernel, later)| later.start.saturating_sub(kernel.start))
            .collect();
        // The median: a step that spans the gap between two requests takes longer.
        let middle = times.len() / 2;
        let (_, &mut time, _) = times.select_nth_unstable(middle);
        Some(Period { time, holds_layers })
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Rarest {
    First,
    Last,
}

/// Distances at which kernel names recur, at most half the slice; those of rare names come first or last.
fn recurring_distances(names: &[u32], rarest: Rarest) -> Vec<usize> {
    /// Last position of a name, its count, and the distances at which it recurred.
    #[derive(Default)]
    struct Seen {
        last: usize,
        count: usize,
        distances: Vec<usize>,
    }
    let mut seen: HashMap<u32, Seen> = HashMap::new();
    for (place, &name) in names.iter().enumerate() {
        let of = seen.entry(name).or_default();
        let distance = place - of.last;
        if of.count > 0 && distance <= names.len() / 2 && !of.distances.contains(&distance) {
            // A name that recurs at ever different distances shows no period.
            if of.distances.len() < DISTANCES_MAX {
                of.distances.push(distance);
            }
        }
        of.count += 1;
        of.last = place;
    }
    let mut seen: Vec<(u32, Seen)> = seen.into_iter().filter(|(_, of)| of.count > 1).collect();
    seen.sort_unstable_by_key(|(name, of)| (of.count, *name));
    if rarest == Rarest::Last {
        seen.reverse();
    }
    let mut distances = Vec::new();
    for distance in seen.into_iter().flat_map(|(_, of)| of.distances) {
        if !distances.contains(&distance) {
            distances.push(distance);
        }
        if distances.len() == DISTANCES_MAX {
            break;
        }
    }
    distances
}

/// Share of names that equal the name `distance` later.
fn share_alike(names: &[u32], distance: usize) -> f64 {
    let later = names.get(distance..).unwrap_or_default();
    let same = names.iter().zip(later).filter(|(a, b)| a == b).count();
    same as f64 / later.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: Stream = (0, 1, 7);

    /// Kernels, a microsecond each, of so many steps of `layers` layers; every step begins with a lookup and ends with a
    /// choice, and a layer runs 12 kernels, some of the same name.
    fn kernels_of_steps(count: usize, layers: usize, from: usize, until: usize) -> Kernels {
        let layer = [10, 11, 12, 12, 12, 13, 14, 12, 10, 11, 15, 12];
        let mut names = Vec::new();
        for _ in 0..count {
            names.push(1);
            for _ in 0..layers {
                names.extend(layer);
            }
            names.extend([10, 11, 2, 3]);
        }
        let mut kernels = Kernels::default();
        for (place, &name) in names.iter().enumerate().take(until).skip(from) {
            let start = place as i64 * 1000;
            kernels.add_kernel((start, start + 1000), name, STREAM);
        }
        kernels
    }

    #[test]
    fn steps_are_found_wherever_the_slice_begins() {
        for from in [0, 1, 7, 100, 292, 293] {
            let period = kernels_of_steps(4, 24, from, usize::MAX).find_period();
            let step = Period {
                time: 293_000,
                holds_layers: true,
            };
            assert_eq!(period, Some(step), "from {from}");
        }
    }

    #[test]
    fn layers_alone_are_not_certain() {
        let layers = kernels_of_steps(1, 80, 5, 700).find_period().unwrap();
        let layer = Period {
            time: 12_000,
            holds_layers: false,
        };
        assert_eq!(layers, layer);
    }

    #[test]
    fn one_step_and_a_half_show_none() {
        assert_eq!(kernels_of_steps(2, 24, 30, 30 + 440).find_period(), None);
    }

    #[test]
    fn steps_that_differ_by_a_kernel_are_alike() {
        let mut kernels = kernels_of_steps(6, 24, 0, usize::MAX);
        for (index, kernel) in kernels.kernels.iter_mut().enumerate() {
            if index % 401 == 5 {
                kernel.name = 99;
            }
        }
        assert_eq!(
            kernels.find_period().map(|period| period.time),
            Some(293_000)
        );
    }

    #[test]
    fn buffers_come_in_no_order() {
        let mut kernels = kernels_of_steps(4, 24, 0, usize::MAX);
        kernels.kernels.reverse();
        assert_eq!(
            kernels.find_period().map(|period| period.time),
            Some(293_000)
        );
    }

    /// Meanwhile short kernels of a thread of its own run on another stream, or long ones that wait for other devices.
    #[test]
    fn each_stream_is_looked_at_by_itself() {
        for time in [50, 380] {
            let mut kernels = kernels_of_steps(4, 24, 0, usize::MAX);
            for place in 0..3000 {
                let start = place * 390;
                kernels.add_kernel((start, start + time), 7, (0, 1, 13));
                kernels.add_kernel((start, start + time), 8, (0, 1, 14));
            }
            assert_eq!(
                kernels.find_period().map(|period| period.time),
                Some(293_000)
            );
        }
    }

    #[test]
    fn what_is_in_no_order_has_no_period() {
        let mut kernels = Kernels::default();
        let mut random = 1_u64;
        for place in 0..5000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            kernels.add_kernel((place, place + 1), (random >> 60) as u32, STREAM);
        }
        assert_eq!(kernels.find_period(), None);
        assert_eq!(Kernels::default().find_period(), None);
    }

    #[test]
    fn times_out_of_all_bounds_are_times() {
        let mut kernels = Kernels::default();
        for place in 0..100 {
            let start = if place % 2 == 0 { i64::MIN } else { i64::MAX };
            kernels.add_kernel((start, i64::MAX), 7, STREAM);
        }
        assert!(kernels.find_period().is_some());
    }

    #[test]
    fn a_loop_of_one_kernel_is_a_period() {
        let mut kernels = Kernels::default();
        (0..100).for_each(|place| kernels.add_kernel((place * 50, place * 50 + 40), 7, STREAM));
        let one = Period {
            time: 50,
            holds_layers: false,
        };
        assert_eq!(kernels.find_period(), Some(one));
    }

    #[test]
    fn kernels_without_end_are_bounded() {
        let mut kernels = Kernels::default();
        (0..200_000).for_each(|place| {
            kernels.add_kernel((place, place + 1), place as u32 % 70_000, STREAM);
        });
        assert_eq!(kernels.kernels.len(), KERNELS_MAX);
        assert_eq!(kernels.find_period(), None);
    }
}
