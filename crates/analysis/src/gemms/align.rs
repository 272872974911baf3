//! Alignment of two sequences of the same events under different names.
//!
//! A log has the shape of each call, a timeline the kernel and grid of each launch. cuBLAS chooses the same kernel for the same
//! shape, so the place where shapes and kernels agree is found without knowing which kernel does which shape: a window of the
//! timeline is laid along every place of the log, and the fewest contradictions (one shape with two kernels) win. What the
//! windows teach is then a dictionary by which the whole is aligned, extra kernels and calls left out.

use crate::thresholds::ALIGNMENT_WRONG_MAX_SHARE;
use rustc_hash::FxHashMap;

/// Lengths of windows in launches, tried in turn: only short ones fit where extra kernels are everywhere.
const WINDOW_LENGTHS: [usize; 3] = [512, 128, 32];
/// Number of windows that are placed first, spread evenly over the timeline.
const WINDOW_COUNT: usize = 5;
/// Distance from the windows' diagonals within which pairs are looked for, on either side.
const DIAGONAL_SLACK: i64 = 64;
/// Maximum number of equally fitting places of a window that are looked at: further ones repeat the same steps.
const PLACES_MAX: usize = 256;
/// Maximum number of cells of the alignment's table, one byte each.
const CELLS_MAX: u64 = 1 << 28;

/// The call of the log that each launch is; `None` for launches of unknown calls.
pub(super) type Pairs = Vec<Option<usize>>;

/// A window at the places of the log where it fits best.
struct PlacedWindow {
    start: usize,
    /// Places that fit alike, in order.
    places: Vec<usize>,
    /// The one of them that is used.
    place: usize,
    length: usize,
}

/// Pairs calls of `log` with `launches`, both as small numbers for what is the same. Nothing where no window fits.
///
/// Steps repeat, so that a timeline may fit at several places. `end_together` says that the last launch is the last call, which
/// leaves one of them; else pairs whose shape depends on the place are left out.
pub(super) fn align_launches(log: &[u32], launches: &[u32], end_together: bool) -> Option<Pairs> {
    let windows = WINDOW_LENGTHS.iter().find_map(|&length| {
        let placed: Vec<PlacedWindow> = window_starts(launches.len(), length)
            .filter_map(|(start, length)| {
                place_window(log, &launches[start..start + length], start)
            })
            .collect();
        (!placed.is_empty()).then(|| align_with_last(placed))
    })?;
    let known = Dictionary::from_windows(&windows, log, launches);
    let diagonals = windows
        .iter()
        .map(|window| window.place as i64 - window.start as i64);
    let low = diagonals.clone().min()?.saturating_sub(DIAGONAL_SLACK);
    let high = diagonals.max()?.saturating_add(DIAGONAL_SLACK);
    let mut pairs = longest_common(log, launches, &known, low, high)?;
    fill_gaps(&mut pairs, log, launches, &known);
    let is_last = pairs
        .last()
        .is_some_and(|last| *last == log.len().checked_sub(1));
    if !(end_together && is_last) {
        leave_out_doubtful(&mut pairs, &windows, log, launches, &known);
    }
    Some(pairs)
}

/// A capture mostly ends with its process: of places that fit alike the last window takes the last one, the other windows those closest
/// to its diagonal.
fn align_with_last(mut windows: Vec<PlacedWindow>) -> Vec<PlacedWindow> {
    if let Some(last) = windows.last() {
        let diagonal = last.place as i64 - last.start as i64;
        for window in &mut windows {
            let start = window.start as i64;
            let distance = |place: usize| (place as i64 - start - diagonal).abs();
            let places = window.places.iter().copied();
            window.place = places
                .min_by_key(|place| distance(*place))
                .unwrap_or(window.place);
        }
    }
    windows
}

/// Where windows begin, and how long they are.
fn window_starts(launches: usize, length: usize) -> impl Iterator<Item = (usize, usize)> {
    let length = launches.min(length);
    let last = launches - length;
    let count = if last == 0 { 1 } else { WINDOW_COUNT };
    (0..count)
        .map(move |number| (number * last / (count - 1).max(1), length))
        .filter(|(_, length)| *length > 0)
}

/// The places of the log where a window contradicts itself least.
fn place_window(log: &[u32], window: &[u32], start: usize) -> Option<PlacedWindow> {
    let shapes = log.iter().max().map_or(0, |most| *most as usize + 1);
    let most = (ALIGNMENT_WRONG_MAX_SHARE * window.len() as f64) as usize;
    let mut best = most;
    let mut places = Vec::new();
    let mut first = vec![(usize::MAX, 0); shapes];
    for place in 0..(log.len() + 1).checked_sub(window.len())? {
        let mut wrong = 0;
        for (shape, kernel) in log[place..].iter().zip(window) {
            let seen = &mut first[*shape as usize];
            if seen.0 != place {
                *seen = (place, *kernel);
            } else if seen.1 != *kernel {
                wrong += 1;
                if wrong > best {
                    break;
                }
            }
        }
        if wrong < best {
            best = wrong;
            places.clear();
        }
        if wrong == best {
            places.push(place);
        }
    }
    let place = *places.last()?;
    Some(PlacedWindow {
        start,
        places,
        place,
        length: window.len(),
    })
}

/// Which kernels do which shape.
struct Dictionary(FxHashMap<u32, Vec<u32>>);

impl Dictionary {
    /// Kernels that do at least a quarter of the calls of a shape: a shape may have two, by the alignment of its data.
    fn from_windows(windows: &[PlacedWindow], log: &[u32], launches: &[u32]) -> Self {
        let mut counts: FxHashMap<u32, FxHashMap<u32, u64>> = FxHashMap::default();
        for window in windows {
            let own = &launches[window.start..][..window.length];
            let places = window.places.iter().rev().take(PLACES_MAX);
            for (shape, kernel) in places.flat_map(|place| log[*place..].iter().zip(own)) {
                let kernels = counts.entry(*shape).or_default();
                *kernels.entry(*kernel).or_default() += 1;
            }
        }
        let known = counts.into_iter().map(|(shape, kernels)| {
            let all: u64 = kernels.values().sum();
            let often = kernels.iter().filter(|(_, count)| **count * 4 >= all);
            (shape, often.map(|(kernel, _)| *kernel).collect())
        });
        Self(known.collect())
    }

    fn has_pair(&self, shape: u32, kernel: u32) -> bool {
        self.0
            .get(&shape)
            .is_some_and(|kernels| kernels.contains(&kernel))
    }
}

/// What the best alignment of a cell does: pairs its call and launch, or leaves one of them out.
const PAIR_BOTH: u8 = 0;
const SKIP_LAUNCH: u8 = 1;
const SKIP_CALL: u8 = 2;

/// The longest common sequence by the dictionary, among pairs with `low` ≤ place in the log − place on the timeline ≤ `high`.
fn longest_common(
    log: &[u32],
    launches: &[u32],
    known: &Dictionary,
    low: i64,
    high: i64,
) -> Option<Pairs> {
    let width = usize::try_from(high - low + 1).ok()?;
    let cells = (launches.len() as u64).checked_mul(width as u64)?;
    if cells > CELLS_MAX {
        return None;
    }
    // Column c of row i is the call i + low + c. `above` is the row before, shifted by one.
    let mut above = vec![0_u32; width + 1];
    let mut row = vec![0_u32; width + 1];
    let mut taken = vec![SKIP_LAUNCH; cells as usize];
    for (i, kernel) in launches.iter().enumerate() {
        for c in 0..width {
            let call = i as i64 + low + c as i64;
            let shape = usize::try_from(call)
                .ok()
                .and_then(|call| log.get(call).copied());
            // Of pairings that are as long, the one with the latest calls.
            let (mut best, mut how) = match shape {
                Some(shape) if known.has_pair(shape, *kernel) => (above[c] + 1, PAIR_BOTH),
                _ => (0, SKIP_CALL),
            };
            if c > 0 && row[c - 1] > best {
                (best, how) = (row[c - 1], SKIP_CALL);
            }
            // Without this launch: the same call in the row before stands one column to the right.
            if above[c + 1] > best || (how == SKIP_CALL && c == 0) {
                (best, how) = (above[c + 1], SKIP_LAUNCH);
            }
            row[c] = best;
            taken[i * width + c] = how;
        }
        std::mem::swap(&mut above, &mut row);
        above[width] = 0;
    }
    let mut pairs = vec![None; launches.len()];
    let (mut i, mut c) = (launches.len(), width - 1);
    while i > 0 {
        match taken[(i - 1) * width + c] {
            PAIR_BOTH => {
                let call = (i - 1) as i64 + low + c as i64;
                pairs[i - 1] = usize::try_from(call).ok();
                i -= 1;
            }
            SKIP_CALL if c > 0 => c -= 1,
            _ => {
                i -= 1;
                // At the edge of the band the row before ends one call earlier.
                c = (c + 1).min(width - 1);
            }
        }
    }
    Some(pairs)
}

/// Pairs what stands between two pairs where as many calls as launches do, and the shapes are not otherwise known.
fn fill_gaps(pairs: &mut Pairs, log: &[u32], launches: &[u32], known: &Dictionary) {
    let mut learned: FxHashMap<u32, u32> = FxHashMap::default();
    let mut last: Option<(usize, usize)> = None;
    for i in 0..pairs.len() {
        let Some(call) = pairs[i] else { continue };
        if let Some((before, before_call)) = last
            && i - before == call - before_call
        {
            for gap in 1..i - before {
                let (shape, kernel) = (log[before_call + gap], launches[before + gap]);
                let is_new = !known.0.contains_key(&shape);
                if is_new && *learned.entry(shape).or_insert(kernel) == kernel {
                    pairs[before + gap] = Some(before_call + gap);
                }
            }
        }
        last = Some((i, call));
    }
}

/// Leaves out pairs for which another place of the whole fits as well and has another shape.
fn leave_out_doubtful(
    pairs: &mut Pairs,
    windows: &[PlacedWindow],
    log: &[u32],
    launches: &[u32],
    known: &Dictionary,
) {
    let mut shifts: Vec<i64> = windows
        .iter()
        .flat_map(|window| {
            let used = window.place as i64;
            let others = window.places.iter().rev().take(PLACES_MAX);
            others.map(move |place| *place as i64 - used)
        })
        .collect();
    shifts.sort_unstable();
    shifts.dedup();
    shifts.retain(|shift| *shift != 0);
    let joined = pairs.iter().flatten().count();
    let shape = |call: usize, shift: i64| {
        let call = usize::try_from(call as i64 + shift).ok()?;
        log.get(call).copied()
    };
    let mut doubtful = vec![false; pairs.len()];
    for shift in shifts {
        // The other call, where its shape has this kernel too.
        let other = |i: usize| {
            let call = pairs[i]?;
            let other = shape(call, shift).filter(|shape| known.has_pair(*shape, launches[i]))?;
            Some((call, other))
        };
        let fits = (0..pairs.len()).filter(|&i| other(i).is_some()).count();
        if fits < joined {
            continue;
        }
        for (i, is_doubtful) in doubtful.iter_mut().enumerate() {
            *is_doubtful |= other(i).is_some_and(|(call, shape)| log[call] != shape);
        }
    }
    for (pair, is_doubtful) in pairs.iter_mut().zip(doubtful) {
        if is_doubtful {
            *pair = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shapes of a model's layers and head, and the kernel of each: 3 and 4 have one, as gate and up of two sizes may.
    const LAYER: [u32; 5] = [0, 1, 1, 2, 3];
    const HEAD: u32 = 4;

    fn kernel(shape: u32) -> u32 {
        match shape {
            3 | 4 => 13,
            other => 10 + other,
        }
    }

    fn steps(count: usize) -> Vec<u32> {
        let step: Vec<u32> = LAYER
            .iter()
            .cycle()
            .take(20)
            .copied()
            .chain([HEAD])
            .collect();
        step.iter()
            .cycle()
            .take(step.len() * count)
            .copied()
            .collect()
    }

    fn joined(pairs: &Pairs) -> usize {
        pairs.iter().flatten().count()
    }

    fn agree(pairs: &Pairs, log: &[u32], launches: &[u32]) -> bool {
        let mut pairs = pairs.iter().zip(launches);
        pairs.all(|(call, launch)| call.is_none_or(|call| kernel(log[call]) == *launch))
    }

    #[test]
    fn a_log_with_warm_ups_ends_where_the_timeline_ends() {
        let log: Vec<u32> = [9, 9, 8].into_iter().chain(steps(60)).collect();
        let launches: Vec<u32> = steps(40).into_iter().map(kernel).collect();
        let pairs = align_launches(&log, &launches, false).expect("it fits");
        assert_eq!(joined(&pairs), launches.len());
        assert!(agree(&pairs, &log, &launches));
        assert_eq!(pairs.last(), Some(&Some(log.len() - 1)));
    }

    #[test]
    fn kernels_and_calls_of_others_are_left_out() {
        let log = steps(50);
        let mut launches: Vec<u32> = log.iter().map(|shape| kernel(*shape)).collect();
        // A GEMM that is not cuBLAS's, far apart; a call whose kernel was dropped.
        for at in [300, 700, 701] {
            launches.insert(at, 99);
        }
        launches.remove(900);
        let pairs = align_launches(&log, &launches, false).expect("it fits");
        assert_eq!(joined(&pairs), log.len() - 1);
        assert!(agree(&pairs, &log, &launches));
        assert_eq!(pairs[300], None);
    }

    /// A shape that no window saw is known by its neighbours.
    #[test]
    fn what_stands_between_pairs_is_paired() {
        let mut log = steps(400);
        log[1000] = 7;
        let launches: Vec<u32> = log.iter().map(|shape| kernel(*shape)).collect();
        let pairs = align_launches(&log, &launches, false).expect("it fits");
        assert_eq!(pairs[1000], Some(1000));
        assert_eq!(joined(&pairs), log.len());
    }

    /// A short prompt has the kernels of decode: only the end says which step is which.
    #[test]
    fn a_run_that_ends_with_its_log_is_known_by_its_end() {
        let pass = || {
            let prefill = steps(1).into_iter().map(|shape| shape + 20);
            prefill.chain(steps(31)).collect::<Vec<u32>>()
        };
        let log = [pass(), pass(), pass()].concat();
        let launches: Vec<u32> = pass().into_iter().map(|shape| kernel(shape % 20)).collect();
        let known = align_launches(&log, &launches, true).expect("it fits");
        let first = log.len() - launches.len();
        assert_eq!(known, (first..log.len()).map(Some).collect::<Pairs>());
        let unknown = align_launches(&log, &launches, false).expect("it fits");
        assert!(joined(&unknown) < launches.len() / 2);
    }

    #[test]
    fn another_program_does_not_fit() {
        let log = steps(20);
        // Eleven kernels in turn, which no period of the log explains.
        let launches: Vec<u32> = (0..400).map(|number| number % 11).collect();
        let joined = align_launches(&log, &launches, false).map_or(0, |pairs| joined(&pairs));
        assert!(joined < launches.len() / 2, "{joined}");
        assert_eq!(align_launches(&log, &[], false), None);
        assert_eq!(align_launches(&[], &[1, 2, 3], false), None);
    }

    /// One kernel for everything fits everywhere: nothing says which shape a launch has.
    #[test]
    fn a_timeline_that_fits_everywhere_says_nothing_of_shapes_that_differ() {
        let log = vec![0, 0, 1, 0, 0, 2, 0, 0];
        let launches = vec![5; 4];
        let pairs = align_launches(&log, &launches, false).expect("it fits");
        assert_eq!(joined(&pairs), 0);
        let same = align_launches(&[3; 8], &launches, false).expect("it fits");
        assert_eq!(joined(&same), 4);
    }
}
