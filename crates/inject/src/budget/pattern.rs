//! Steps by the pattern of kernels, where no range shows them.
//!
//! A program that generates text runs the same kernels again for every step. A kernel that it runs seldom, such as the one
//! that chooses a token, attaches again after a step; if nearly all others come back at the same distance, that is the step.
//! Layers come back as well, but what lies between the last of one step and the first of the next does not fit in with
//! them. A slice inside of one long step shows layers alone, so that a distance is certain only where something repeats
//! inside of it. Kernels of other streams lie between those of a step anywhere, so that each stream is looked at by itself,
//! those that more of the device's time is spent on first.

use std::collections::HashMap;

/// Kernels of a slice that are kept: more do not change what repeats.
const MOST_KERNELS: usize = 1 << 16;
/// Fewer kernels show nothing.
const FEWEST_KERNELS: usize = 32;
/// The part of kernels that may differ from those a step later.
const UNLIKE: f64 = 0.01;
/// The part of kernels that are those of a layer later, in a step of layers.
const ALIKE_IN_LAYERS: f64 = 0.6;
/// How many streams are looked at.
const MOST_STREAMS: usize = 4;
/// How many distances are tried.
const MOST_TRIES: usize = 32;

/// The kernels of a slice.
#[derive(Default)]
pub(crate) struct Kernels {
    kernels: Vec<Kernel>,
    /// The time of kernels by stream, ns.
    times: HashMap<Stream, i64>,
}

/// A stream: its device, context and number.
pub(crate) type Stream = (u32, u32, u32);

/// What is looked at of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kernel {
    start: i64,
    /// The number of its name.
    name: u32,
    stream: Stream,
}

/// What repeats in a slice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Period {
    /// How long it takes, ns.
    pub(super) time: i64,
    /// Whether something repeats inside of it, as layers do in a step.
    pub(super) holds_layers: bool,
}

impl Kernels {
    /// A kernel that ran from `start` to `end`, with the number of its name.
    pub(crate) fn add(&mut self, (start, end): (i64, i64), name: u32, stream: Stream) {
        if self.kernels.len() < MOST_KERNELS {
            let time = self.times.entry(stream).or_default();
            *time = time.saturating_add(end.saturating_sub(start));
            self.kernels.push(Kernel {
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

    /// Whether there are so few that nothing could repeat.
    pub(super) fn are_few(&self) -> bool {
        self.kernels.len() < FEWEST_KERNELS
    }

    /// What repeats on the busiest stream that shows a step for certain, else on the busiest that shows anything; nothing where no
    /// distance fits, or the slice holds it less than twice.
    pub(super) fn period(&self) -> Option<Period> {
        let mut streams: Vec<(i64, Stream)> = self
            .times
            .iter()
            .map(|(&stream, &time)| (time, stream))
            .collect();
        streams.sort_unstable_by(|a, b| b.cmp(a));
        streams.truncate(MOST_STREAMS);
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
        let mut kernels: Vec<Kernel> = of_stream.copied().collect();
        if kernels.len() < FEWEST_KERNELS {
            return None;
        }
        // Buffers come in no order.
        kernels.sort_unstable();
        let names: Vec<u32> = kernels.iter().map(|kernel| kernel.name).collect();
        let distance = distances(&names, Rarest::First)
            .into_iter()
            .find(|&distance| alike(&names, distance) >= 1.0 - UNLIKE)?;
        let step = &names[..distance];
        let holds_layers = distances(step, Rarest::Last)
            .into_iter()
            .any(|layer| alike(step, layer) >= ALIKE_IN_LAYERS);
        let mut times: Vec<i64> = kernels
            .iter()
            .zip(&kernels[distance..])
            .map(|(kernel, later)| later.start.saturating_sub(kernel.start))
            .collect();
        // Between two requests a step takes longer.
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

/// The distances at which names come back, no more than half of all, those of rare names first or last.
fn distances(names: &[u32], rarest: Rarest) -> Vec<usize> {
    /// Where a name came last, how often it came, and at which distances.
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
            // A name that attaches again at ever other distances says nothing.
            if of.distances.len() < MOST_TRIES {
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
    let mut found = Vec::new();
    for distance in seen.into_iter().flat_map(|(_, of)| of.distances) {
        if !found.contains(&distance) {
            found.push(distance);
        }
        if found.len() == MOST_TRIES {
            break;
        }
    }
    found
}

/// The part of names that are those so much later.
fn alike(names: &[u32], distance: usize) -> f64 {
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
    fn steps(count: usize, layers: usize, from: usize, until: usize) -> Kernels {
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
            kernels.add((start, start + 1000), name, STREAM);
        }
        kernels
    }

    #[test]
    fn steps_are_found_wherever_the_slice_begins() {
        for from in [0, 1, 7, 100, 292, 293] {
            let period = steps(4, 24, from, usize::MAX).period();
            let step = Period {
                time: 293_000,
                holds_layers: true,
            };
            assert_eq!(period, Some(step), "from {from}");
        }
    }

    #[test]
    fn layers_alone_are_not_certain() {
        let layers = steps(1, 80, 5, 700).period().unwrap();
        let layer = Period {
            time: 12_000,
            holds_layers: false,
        };
        assert_eq!(layers, layer);
    }

    #[test]
    fn one_step_and_a_half_show_none() {
        assert_eq!(steps(2, 24, 30, 30 + 440).period(), None);
    }

    #[test]
    fn steps_that_differ_by_a_kernel_are_alike() {
        let mut kernels = steps(6, 24, 0, usize::MAX);
        for (index, kernel) in kernels.kernels.iter_mut().enumerate() {
            if index % 401 == 5 {
                kernel.name = 99;
            }
        }
        assert_eq!(kernels.period().map(|period| period.time), Some(293_000));
    }

    #[test]
    fn buffers_come_in_no_order() {
        let mut kernels = steps(4, 24, 0, usize::MAX);
        kernels.kernels.reverse();
        assert_eq!(kernels.period().map(|period| period.time), Some(293_000));
    }

    /// Meanwhile short kernels of a thread of its own run on another stream, or long ones that wait for other devices.
    #[test]
    fn each_stream_is_looked_at_by_itself() {
        for time in [50, 380] {
            let mut kernels = steps(4, 24, 0, usize::MAX);
            for place in 0..3000 {
                let start = place * 390;
                kernels.add((start, start + time), 7, (0, 1, 13));
                kernels.add((start, start + time), 8, (0, 1, 14));
            }
            assert_eq!(kernels.period().map(|period| period.time), Some(293_000));
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
            kernels.add((place, place + 1), (random >> 60) as u32, STREAM);
        }
        assert_eq!(kernels.period(), None);
        assert_eq!(Kernels::default().period(), None);
    }

    #[test]
    fn times_out_of_all_bounds_are_times() {
        let mut kernels = Kernels::default();
        for place in 0..100 {
            let start = if place % 2 == 0 { i64::MIN } else { i64::MAX };
            kernels.add((start, i64::MAX), 7, STREAM);
        }
        assert!(kernels.period().is_some());
    }

    #[test]
    fn a_loop_of_one_kernel_is_a_period() {
        let mut kernels = Kernels::default();
        (0..100).for_each(|place| kernels.add((place * 50, place * 50 + 40), 7, STREAM));
        let one = Period {
            time: 50,
            holds_layers: false,
        };
        assert_eq!(kernels.period(), Some(one));
    }

    #[test]
    fn kernels_without_end_are_bounded() {
        let mut kernels = Kernels::default();
        (0..200_000)
            .for_each(|place| kernels.add((place, place + 1), place as u32 % 70_000, STREAM));
        assert_eq!(kernels.kernels.len(), MOST_KERNELS);
        assert_eq!(kernels.period(), None);
    }
}
