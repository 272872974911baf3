//! Steps of a model inferred from the kernels it launches.
//!
//! A model that generates text launches nearly the same sequence of kernels for every step, and within a step nearly
//! the same for every layer. Kernels that come once a layer, once a step or once a request return at regular distances,
//! counted in kernels; each such distance is a *level*. Steps are the level above layers, or the lowest one that has a
//! kernel which belongs to a step and not to a layer: the choice of a token, the lookup of an embedding.

use llmprof_record::kernel_name::Category;
use llmprof_record::trace::{StrId, Trace};
use rustc_hash::FxHashMap;

use crate::device_events::{Class, DeviceEvent, DeviceEvents};

/// What an inferred step seems to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepLabel {
    /// Unlike the usual step, longer, and followed by usual ones.
    Prefill,
    /// The usual step, where there is another kind beside it.
    DecodeStep,
    /// A step of which nothing more can be told.
    Step,
}

impl StepLabel {
    /// The name of the phase.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::DecodeStep => "decode_step",
            Self::Step => "step",
        }
    }
}

/// One inferred step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// When its first kernel began, ns. It lasts until the next step.
    pub start: i64,
    /// Kernels in the sequence that the pattern was found in.
    pub kernels: usize,
    /// What it seems to be.
    pub label: StepLabel,
}

/// Inferred steps, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps {
    /// The steps.
    pub steps: Vec<Step>,
    /// When the last one ends, ns.
    pub end: i64,
    /// How alike neighbouring steps are: the mean part of kernels that a step shares with the more similar neighbour.
    pub confidence: f64,
}

/// Kernels that return at a regular distance.
struct Level {
    /// The distance, in kernels.
    period: usize,
    /// The positions of the kernel that was chosen to mark it.
    anchors: Vec<u32>,
    /// Whether one of its kernels belongs to a step and not to a layer.
    marks_steps: bool,
}

/// Finds the steps of the busiest stream; nothing where no sequence repeats.
pub fn infer(trace: &Trace, events: &DeviceEvents) -> Option<Steps> {
    let sequence = busiest_stream(events);
    let levels = levels(trace, events, &sequence);
    let level = choose(&levels)?;
    let cuts = cuts(level, &sequence);
    let windows: Vec<&[DeviceEvent]> = cuts
        .iter()
        .enumerate()
        .map(|(index, &cut)| {
            let end = cuts.get(index + 1).copied().unwrap_or(sequence.len());
            &sequence[cut..end]
        })
        .collect();
    let profiles: Vec<Profile> = windows.iter().map(|window| Profile::of(window)).collect();
    let labels = labels(&profiles);
    let steps: Vec<Step> = windows
        .iter()
        .zip(labels)
        .map(|(window, label)| Step {
            start: window[0].start,
            kernels: window.len(),
            label,
        })
        .collect();
    Some(Steps {
        steps,
        end: events.span()?.1,
        confidence: likeness_of_neighbours(&profiles),
    })
}

/// The kernels of the stream that has most, in order.
fn busiest_stream(events: &DeviceEvents) -> Vec<DeviceEvent> {
    let is_kernel =
        |event: &&DeviceEvent| matches!(event.class, Class::Compute | Class::Communication);
    let mut counts: FxHashMap<_, usize> = FxHashMap::default();
    for event in events.all().iter().filter(is_kernel) {
        *counts.entry((event.device, event.stream)).or_default() += 1;
    }
    let busiest = counts
        .into_iter()
        .max_by_key(|&(stream, count)| (count, std::cmp::Reverse(stream)));
    let Some((stream, _)) = busiest else {
        return Vec::new();
    };
    let on_stream = |event: &&DeviceEvent| (event.device, event.stream) == stream;
    let kernels = events.all().iter().filter(is_kernel);
    kernels.filter(on_stream).copied().collect()
}

/// A kernel must return this often before its distance means anything.
const FEWEST_REPEATS: usize = 3;
/// The part of distances that must be within a tenth of the median one.
const REGULAR: f64 = 0.75;
/// The part of the sequence that the repetitions must cover.
const COVERED: f64 = 0.6;
/// Two distances belong to different levels where one is this many times the other.
const APART: usize = 3;

fn levels(trace: &Trace, events: &DeviceEvents, sequence: &[DeviceEvent]) -> Vec<Level> {
    let mut places: FxHashMap<StrId, Vec<u32>> = FxHashMap::default();
    for (place, event) in sequence.iter().enumerate() {
        places.entry(event.name).or_default().push(place as u32);
    }
    let mut regular: Vec<(usize, StrId, Vec<u32>)> = places
        .into_iter()
        .filter_map(|(name, places)| {
            let period = regular_distance(&places, sequence.len())?;
            Some((period, name, places))
        })
        .collect();
    regular.sort_by_key(|&(period, name, _)| (period, name));
    let mut levels: Vec<Level> = Vec::new();
    for (period, name, anchors) in regular {
        let marks_steps = marks_steps(trace, events, name);
        match levels.last_mut() {
            Some(level) if period < APART * level.period => {
                level.marks_steps |= marks_steps;
                // More anchors cover more of the trace; the earliest is nearest to where a step begins.
                if (anchors.len(), std::cmp::Reverse(anchors[0]))
                    > (level.anchors.len(), std::cmp::Reverse(level.anchors[0]))
                {
                    level.anchors = anchors;
                }
            }
            _ => levels.push(Level {
                period,
                anchors,
                marks_steps,
            }),
        }
    }
    levels
}

/// The median distance of places that are regular and spread over most of the sequence.
fn regular_distance(places: &[u32], length: usize) -> Option<usize> {
    if places.len() < FEWEST_REPEATS {
        return None;
    }
    let mut gaps: Vec<u32> = places.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    let median = gaps[gaps.len() / 2];
    let near = |gap: u32| gap.abs_diff(median) * 10 <= median;
    let regular = gaps.iter().filter(|&&gap| near(gap)).count();
    let covered = places.len() as f64 * f64::from(median);
    // A kernel directly after itself is a loop inside some operator.
    let enough = median > 1
        && regular as f64 >= REGULAR * gaps.len() as f64
        && covered >= COVERED * length as f64;
    enough.then_some(median as usize)
}

/// Whether a kernel comes once a step: it chooses a token or looks up embeddings.
fn marks_steps(trace: &Trace, events: &DeviceEvents, name: StrId) -> bool {
    let category = events.class_of(name).category;
    if matches!(category, Category::Embedding | Category::Sampling) {
        return true;
    }
    let text = trace.text(name).to_ascii_lowercase();
    ["argmax", "indexselect", "vectorized_gather"]
        .iter()
        .any(|word| text.contains(word))
}

fn choose(levels: &[Level]) -> Option<&Level> {
    // The lowest level of several is that of layers (or of something inside them).
    let above = if levels.len() > 1 {
        &levels[1..]
    } else {
        levels
    };
    above
        .iter()
        .find(|level| level.marks_steps)
        .or_else(|| levels.get(1))
}

/// Where steps begin. The anchor may be anywhere in a step: what comes before the first anchor belongs to the first
/// step where it is short; otherwise the largest usual gap before a kernel shows where a step begins.
fn cuts(level: &Level, sequence: &[DeviceEvent]) -> Vec<usize> {
    let first = level.anchors[0] as usize;
    let back = if first * 10 <= level.period {
        first
    } else {
        let farthest = first.min(level.period - 1);
        let usual_gap = |back: usize| {
            let mut gaps: Vec<i64> = level.anchors[1..]
                .iter()
                .filter_map(|&anchor| {
                    let at = (anchor as usize).checked_sub(back)?;
                    let before = sequence.get(at.checked_sub(1)?)?;
                    Some(sequence[at].start.saturating_sub(before.end))
                })
                .collect();
            gaps.sort_unstable();
            gaps.get(gaps.len() / 2).copied()
        };
        (0..=farthest)
            .max_by_key(|&back| (usual_gap(back), std::cmp::Reverse(back)))
            .unwrap_or(0)
    };
    let mut cuts: Vec<usize> = level
        .anchors
        .iter()
        .map(|&anchor| (anchor as usize).saturating_sub(back))
        .collect();
    cuts.dedup();
    cuts
}

/// How often each kernel occurs in a step, and how long they take together.
struct Profile {
    counts: FxHashMap<StrId, u32>,
    kernels: usize,
    time: i64,
}

impl Profile {
    fn of(window: &[DeviceEvent]) -> Self {
        let mut counts = FxHashMap::default();
        for event in window {
            *counts.entry(event.name).or_default() += 1;
        }
        Self {
            counts,
            kernels: window.len(),
            time: window.iter().map(DeviceEvent::duration).sum(),
        }
    }

    /// The part of kernels that two steps share.
    fn likeness(&self, other: &Self) -> f64 {
        let shared: u32 = self
            .counts
            .iter()
            .map(|(name, &count)| count.min(other.counts.get(name).copied().unwrap_or(0)))
            .sum();
        f64::from(shared) / self.kernels.max(other.kernels).max(1) as f64
    }
}

fn likeness_of_neighbours(profiles: &[Profile]) -> f64 {
    let likeness = |index: usize| {
        let before = index.checked_sub(1).map(|before| &profiles[before]);
        let neighbours = before.into_iter().chain(profiles.get(index + 1));
        neighbours
            .map(|other| profiles[index].likeness(other))
            .fold(0.0, f64::max)
    };
    (0..profiles.len()).map(likeness).sum::<f64>() / profiles.len().max(1) as f64
}

/// Steps this alike are of one kind: kernels may change with the length of the cache, but few of them.
const ALIKE: f64 = 0.9;

fn labels(profiles: &[Profile]) -> Vec<StepLabel> {
    // The usual step is the one in the middle by time; prefill is rarer than decode.
    let mut by_time: Vec<usize> = (0..profiles.len()).collect();
    by_time.sort_by_key(|&index| (profiles[index].time, index));
    let Some(&middle) = by_time.get((profiles.len().max(1) - 1) / 2) else {
        return Vec::new();
    };
    let usual = &profiles[middle];
    let is_usual: Vec<bool> = profiles
        .iter()
        .map(|profile| profile.likeness(usual) >= ALIKE)
        .collect();
    if is_usual.iter().all(|&usual| usual) {
        return vec![StepLabel::Step; profiles.len()];
    }
    let label = |index: usize| {
        if is_usual[index] {
            StepLabel::DecodeStep
        } else if profiles[index].time > usual.time && is_usual.get(index + 1) == Some(&true) {
            StepLabel::Prefill
        } else {
            StepLabel::Step
        }
    };
    (0..profiles.len()).map(label).collect()
}
