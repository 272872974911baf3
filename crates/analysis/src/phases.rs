//! The phases of a trace: from annotations, else from patterns of launches, else one phase.

use llmprof_record::trace::{RangeKind, Trace};
use serde::{Deserialize, Serialize};

use crate::device_events::DeviceEvents;
use crate::intervals::add;
use crate::slices;
use crate::steps::{self, Repetition, StepLabel};

/// How the phases of a trace are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseSource {
    /// NVTX ranges or annotations of the framework.
    Annotation,
    /// Sequences of kernels that repeat.
    Inferred,
    /// Not at all: the whole trace is one phase.
    Whole,
}

/// A stretch of time that belongs to one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// When it begins, ns.
    pub start: i64,
    /// When it ends, ns.
    pub end: i64,
    /// The number of its name in [`Phases::names`].
    pub name: usize,
    /// Whether all of it was recorded.
    pub is_whole: bool,
}

/// The phases of a trace: stretches of time that do not overlap, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Phases {
    /// How they are known.
    pub source: PhaseSource,
    /// For inferred phases, how alike the repetitions are: 1 where all steps launch the same kernels.
    pub confidence: Option<f64>,
    /// The names, in order of first use.
    pub names: Vec<String>,
    /// The stretches, in order of time.
    pub windows: Vec<Window>,
    /// Where only slices were recorded, how long the stretches of each name were in all, ns; names that came with the cut
    /// have none.
    pub(crate) spans: Option<Vec<i64>>,
}

impl Phases {
    /// Finds the phases of a trace.
    pub fn of(trace: &Trace, events: &DeviceEvents) -> Self {
        Self::with_steps(trace, events, &steps::unnamed(trace))
    }

    /// Finds the phases of a trace whose steps by the pattern of launches are known.
    pub(crate) fn with_steps(trace: &Trace, events: &DeviceEvents, steps: &[Repetition]) -> Self {
        let mut phases = annotated(trace, events, phase_of_name)
            .or_else(|| {
                annotated(trace, events, own_name).filter(|phases| phases.names.len() <= 32)
            })
            .or_else(|| inferred(steps))
            .unwrap_or_else(|| whole(trace, events));
        if let Some(slices) = slices::of(trace) {
            let named = ranges_of(trace, STEP);
            if named.is_empty() {
                phases.keep_recorded(&slices, &steps::launched(steps), by_pattern);
            } else {
                phases.keep_recorded(&slices, &named, |_| Some(STEP));
            }
        }
        phases
    }

    /// Leaves out what was not recorded: it belongs to no phase. Of a phase that was recorded in part its whole steps are
    /// kept, as phases of their own, where there are any; `name_of` says what steps are in a phase of a name.
    fn keep_recorded(
        &mut self,
        slices: &[(i64, i64)],
        steps: &[(i64, i64)],
        name_of: impl Fn(&str) -> Option<&'static str>,
    ) {
        let mut spans = vec![0_i64; self.names.len()];
        for window in &self.windows {
            add(
                &mut spans[window.name],
                window.end.saturating_sub(window.start),
            );
        }
        self.spans = Some(spans);
        for window in std::mem::take(&mut self.windows) {
            let (start, end) = (window.start, window.end);
            if slices::hold(slices, (start, end)) {
                self.windows.push(window);
                continue;
            }
            let name = name_of(&self.names[window.name]);
            let first = steps.partition_point(|step| step.0 < start);
            let inside = steps[first..].iter().take_while(|step| step.1 <= end);
            let mut whole = inside
                .filter(|step| slices::hold(slices, **step))
                .filter_map(|&step| Some((name?, step)))
                .peekable();
            if whole.peek().is_none() {
                let parts = slices::inside(slices, (start, end));
                self.windows.extend(parts.map(|(start, end)| Window {
                    start,
                    end,
                    is_whole: false,
                    ..window
                }));
            }
            for (name, (start, end)) in whole {
                self.push(name, start, end);
            }
        }
    }

    /// Says what steps are that only the pattern of launches shows, all of one kind; false where there are none.
    pub(crate) fn name_steps(&mut self, name: &str) -> bool {
        let unnamed = StepLabel::Step.name();
        let found = self.names.iter_mut().find(|known| *known == unnamed);
        let Some(known) = found.filter(|_| self.source == PhaseSource::Inferred) else {
            return false;
        };
        name.clone_into(known);
        true
    }

    /// The window that holds a moment.
    pub fn at(&self, time: i64) -> Option<usize> {
        let after = self.windows.partition_point(|window| window.start <= time);
        let window = after.checked_sub(1)?;
        let end = self.windows[window].end;
        let at_the_end = time == end && window + 1 == self.windows.len() && !self.by_launch();
        (time < end || at_the_end).then_some(window)
    }

    /// Whether the last window of the phase `name` has its end: then it is the end of the device's events, of which one
    /// without length may lie there.
    pub(crate) fn closed(&self, name: usize) -> bool {
        !self.by_launch()
            && self
                .windows
                .last()
                .is_some_and(|window| window.name == name)
    }

    /// Whether a device event belongs to the phase in which it was launched; otherwise to the one in which it began.
    pub(crate) fn by_launch(&self) -> bool {
        self.source == PhaseSource::Annotation
    }

    fn empty(source: PhaseSource) -> Self {
        Self {
            source,
            confidence: None,
            names: Vec::new(),
            windows: Vec::new(),
            spans: None,
        }
    }

    fn push(&mut self, name: &str, start: i64, end: i64) {
        let found = self.names.iter().position(|known| known == name);
        let name = found.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        self.windows.push(Window {
            start,
            end,
            name,
            is_whole: true,
        });
    }
}

/// What steps by the pattern of launches are in a range of this name: one range may hold all prefills of a program.
fn by_pattern(name: &str) -> Option<&'static str> {
    match name {
        "prefill" => Some("prefill"),
        "decode" => Some(STEP),
        _ => None,
    }
}

/// The name of a step of decode.
pub(crate) const STEP: &str = "decode_step";

/// Words in the names of annotations, and the phases that they stand for. The first that is found decides.
const PHASE_WORDS: &[(&str, &str)] = &[
    ("warmup", "warmup"),
    ("warm_up", "warmup"),
    ("warm-up", "warmup"),
    (STEP, STEP),
    ("prefill", "prefill"),
    ("decode", "decode"),
    ("vision", "vision"),
    ("image_encoder", "vision"),
    ("load_model", "load"),
    ("model_load", "load"),
];

pub(crate) fn phase_of_name(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    if text == "load" {
        return Some(text);
    }
    let found = PHASE_WORDS.iter().find(|(word, _)| text.contains(word));
    found.map(|(_, phase)| (*phase).to_owned())
}

/// Start and end of the ranges that stand for `phase`, in order of time.
pub(crate) fn ranges_of(trace: &Trace, phase: &str) -> Vec<(i64, i64)> {
    let ranges = &trace.ranges;
    let mut cache = rustc_hash::FxHashMap::default();
    let mut found: Vec<(i64, i64)> = (0..ranges.len())
        .filter(|&row| {
            is_annotation(ranges.kind[row])
                && *cache.entry(ranges.name[row]).or_insert_with(|| {
                    phase_of_name(trace.text(ranges.name[row])).as_deref() == Some(phase)
                })
        })
        .map(|row| {
            let start = ranges.start[row];
            (start, start.saturating_add(ranges.duration[row]))
        })
        .collect();
    found.sort_unstable();
    found
}

/// Whether a range is one that a program put on a host's thread.
pub(crate) fn is_annotation(kind: RangeKind) -> bool {
    matches!(
        kind,
        RangeKind::ANNOTATION | RangeKind::NVTX | RangeKind::NVTX_START_END
    )
}

/// The name of an annotation without the number that counts its repetitions (`ProfilerStep#12`).
fn own_name(text: &str) -> Option<String> {
    let name = text
        .trim_end_matches(|c: char| c.is_ascii_digit())
        .trim_end_matches(['#', ' ', ':', '-']);
    (!name.is_empty()).then(|| name.to_owned())
}

/// Phases from the annotations to which `name_of` gives a name; none where they hold less than half of the device time.
fn annotated(
    trace: &Trace,
    events: &DeviceEvents,
    name_of: impl Fn(&str) -> Option<String>,
) -> Option<Phases> {
    let ranges = &trace.ranges;
    let mut cache = rustc_hash::FxHashMap::default();
    let mut found: Vec<(i64, i64, usize)> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let mut outermost: Option<(u32, i64)> = None;
    for row in 0..ranges.len() {
        if !is_annotation(ranges.kind[row]) {
            continue;
        }
        let name = cache.entry(ranges.name[row]).or_insert_with(|| {
            let name = name_of(trace.text(ranges.name[row]))?;
            let known = names.iter().position(|known| *known == name);
            Some(known.unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            }))
        });
        let Some(name) = *name else { continue };
        let (start, thread) = (ranges.start[row], ranges.thread[row].0);
        let end = start.saturating_add(ranges.duration[row]);
        // A phase inside a phase of the same thread is a part of it; but an image tower runs inside the forward pass of
        // its model, and what stands before it there only prepares it.
        if outermost.is_some_and(|(holder, until)| holder == thread && end <= until) {
            let tower = |around: &&mut (i64, i64, usize)| {
                names[name] == "vision" && around.2 != name && start >= around.0
            };
            if let Some(around) = found.last_mut().filter(tower) {
                let begin = std::mem::replace(&mut around.0, end);
                match found.len().checked_sub(2).map(|before| &mut found[before]) {
                    Some(before) if before.2 == name && before.1 == begin => before.1 = end,
                    _ => found.insert(found.len() - 1, (begin, end, name)),
                }
            }
            continue;
        }
        if end > start {
            outermost = Some((thread, end));
            found.push((start, end, name));
        }
    }
    // A tower may leave nothing of what is around it.
    found.retain(|&(start, end, _)| end > start);
    drop_chatter(&mut found, &names);
    if found.is_empty() {
        return None;
    }
    let phases = partition(&found, &names);
    let time = |inside: bool| -> i128 {
        let events = events.all().iter();
        events
            .filter(|event| !inside || phases.at(event.start).is_some())
            .map(|event| i128::from(event.duration()))
            .sum()
    };
    let recognized = names.iter().any(|name| is_phase(name));
    (recognized || 2 * time(true) >= time(false)).then_some(phases)
}

fn is_phase(name: &str) -> bool {
    PHASE_WORDS.iter().any(|(_, phase)| *phase == name)
}

/// Libraries put ranges around small things of their own: a name with a thousandth of the time is no phase.
fn drop_chatter(found: &mut Vec<(i64, i64, usize)>, names: &[String]) {
    let mut times = vec![0_i128; names.len()];
    for &(start, end, name) in found.iter() {
        times[name] += i128::from(end) - i128::from(start);
    }
    let all: i128 = times.iter().sum();
    found.retain(|&(_, _, name)| is_phase(&names[name]) || times[name] * 1000 >= all);
}

/// Cuts ranges that may overlap (on several threads) into stretches; where two phases run at once it is `mixed`.
fn partition(found: &[(i64, i64, usize)], names: &[String]) -> Phases {
    let mut points: Vec<(i64, bool, usize)> = Vec::with_capacity(2 * found.len());
    for &(start, end, name) in found {
        points.push((start, true, name));
        points.push((end, false, name));
    }
    // Ends come before starts at one moment, so that ranges that touch stay apart.
    points.sort_unstable();
    let mut phases = Phases::empty(PhaseSource::Annotation);
    let mut active = vec![0_u32; names.len()];
    let mut current: Option<(String, i64)> = None;
    for (index, &(time, begins, name)) in points.iter().enumerate() {
        if begins {
            active[name] += 1;
        } else {
            active[name] -= 1;
        }
        let next = points.get(index + 1);
        if next.is_some_and(|&(at, begins_next, _)| at == time && begins_next == begins) {
            continue;
        }
        let mut running = (0..names.len()).filter(|&name| active[name] > 0);
        let state = match (running.next(), running.next()) {
            (None, _) => None,
            (Some(one), None) => Some(names[one].as_str()),
            (Some(_), Some(_)) => Some("mixed"),
        };
        let changed = current.as_ref().map(|(name, _)| name.as_str()) != state;
        if changed {
            if let Some((name, start)) = current.take()
                && time > start
            {
                phases.push(&name, start, time);
            }
            current = state.map(|name| (name.to_owned(), time));
        }
    }
    phases
}

fn inferred(steps: &[Repetition]) -> Option<Phases> {
    let steps = steps::phases(steps)?;
    let mut phases = Phases::empty(PhaseSource::Inferred);
    phases.confidence = Some(steps.likeness);
    for (start, end, label) in steps.windows {
        phases.push(label.name(), start, end);
    }
    Some(phases)
}

fn whole(trace: &Trace, events: &DeviceEvents) -> Phases {
    let mut phases = Phases::empty(PhaseSource::Whole);
    let host = crate::analysis::host_span(trace);
    let span = match (host, events.span()) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    };
    if let Some((start, end)) = span {
        phases.push("all", start, end);
    }
    phases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_phases_are_recognized() {
        let phase = |name| phase_of_name(name);
        assert_eq!(phase("Prefill[0]").as_deref(), Some("prefill"));
        assert_eq!(phase("decode_step_3").as_deref(), Some("decode_step"));
        assert_eq!(phase("upload"), None);
        assert_eq!(own_name("ProfilerStep#12").as_deref(), Some("ProfilerStep"));
    }

    #[test]
    fn ranges_of_libraries_are_no_phases() {
        let names = ["graph", "cub::DeviceScan", "vision"].map(str::to_owned);
        let mut found = vec![(0, 3, 1), (10, 11, 2), (20, 10_000, 0)];
        drop_chatter(&mut found, &names);
        assert_eq!(found, [(10, 11, 2), (20, 10_000, 0)]);
        // Where there is nothing else, they are all there is.
        let mut found = vec![(0, 3, 1)];
        drop_chatter(&mut found, &names);
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn an_image_tower_inside_prefill_is_a_phase() {
        let mut builder = llmprof_record::trace::TraceBuilder::default();
        let thread = builder.thread(1, 1);
        let mut range = |name: &str, start: i64, end: i64| {
            let name = builder.intern(name);
            builder.ranges.push(llmprof_record::trace::Range {
                start,
                duration: end - start,
                name,
                kind: RangeKind::NVTX,
                thread,
                ..Default::default()
            });
        };
        range("prefill", 0, 100);
        range("vision", 10, 30);
        range("vision_tower.layers.0", 12, 28);
        range("decode", 100, 200);
        let trace = builder.finish();
        let phases = Phases::of(&trace, &DeviceEvents::of(&trace));
        let windows: Vec<_> = phases
            .windows
            .iter()
            .map(|window| (window.start, window.end, phases.names[window.name].as_str()))
            .collect();
        assert_eq!(
            windows,
            [
                (0, 30, "vision"),
                (30, 100, "prefill"),
                (100, 200, "decode")
            ]
        );
    }

    #[test]
    fn of_phases_that_were_recorded_in_part_whole_steps_are_left() {
        let names = ["prefill".to_owned(), "decode".to_owned()];
        let mut phases = partition(&[(0, 30, 0), (30, 100, 1), (100, 120, 0)], &names);
        let steps = [(30, 50), (50, 70), (70, 90), (90, 100)];
        phases.keep_recorded(&[(10, 55), (69, 95), (98, 200)], &steps, |_| Some(STEP));
        let windows: Vec<_> = phases
            .windows
            .iter()
            .map(|window| {
                let name = phases.names[window.name].as_str();
                (window.start, window.end, name, window.is_whole)
            })
            .collect();
        assert_eq!(
            windows,
            [
                (10, 30, "prefill", false),
                (30, 50, STEP, true),
                (70, 90, STEP, true),
                (100, 120, "prefill", true)
            ]
        );
        assert_eq!(phases.spans, Some(vec![50, 70]));
    }

    #[test]
    fn in_one_range_around_all_prefills_each_is_one() {
        let names = ["prefill".to_owned(), "other".to_owned()];
        let mut phases = partition(&[(0, 100, 0), (100, 200, 1)], &names);
        let steps = [(0, 20), (20, 40), (40, 60), (60, 80), (110, 120)];
        phases.keep_recorded(&[(10, 65), (105, 130)], &steps, by_pattern);
        let windows: Vec<_> = phases
            .windows
            .iter()
            .map(|window| (window.start, window.end, window.name, window.is_whole))
            .collect();
        assert_eq!(
            windows,
            [(20, 40, 0, true), (40, 60, 0, true), (105, 130, 1, false)]
        );
    }

    #[test]
    fn overlapping_phases_of_two_threads_are_mixed() {
        let names = ["prefill".to_owned(), "decode".to_owned()];
        let phases = partition(&[(0, 10, 0), (5, 20, 1), (20, 30, 1)], &names);
        let windows: Vec<_> = phases
            .windows
            .iter()
            .map(|window| (window.start, window.end, phases.names[window.name].as_str()))
            .collect();
        assert_eq!(
            windows,
            [
                (0, 5, "prefill"),
                (5, 10, "mixed"),
                (10, 20, "decode"),
                (20, 30, "decode")
            ]
        );
        assert_eq!(phases.at(20), Some(3));
        assert_eq!(phases.at(30), None);
    }
}
