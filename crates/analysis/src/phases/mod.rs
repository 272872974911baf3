//! The phases of a trace: from annotations, else from patterns of launches, else one phase.

mod annotations;
mod compiled;
mod cut;
mod device_windows;
pub(crate) mod engine;
pub(crate) mod forward;
pub(crate) mod forward_pass;
mod marks;
mod pass_ranges;
pub(crate) mod processes;
mod unused_passes;

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::run::is_graph_capture;
use llmprof_record::trace::Trace;
use llmprof_theory::Step;
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::annotations::{RangeChoice, annotated_phases};
use self::forward::ForwardPasses;
use crate::labels::{
    PROFILER_STEP, STEP, name_stem, own_name, phase_of_name, profiler_step, ranges_of, xla_module,
};
use crate::program::{Program, backward_starts, named_rows};
use crate::steps;
use crate::steps::Repetition;
use crate::thresholds::{PHASES_COVERED_MIN_SHARE, RANGE_NAMES_MAX};
use crate::timeline::device_events::{DeviceEvent, DeviceEvents};
use crate::timeline::extent::host_span;
use crate::timeline::intervals::add_saturating;
use crate::timeline::launch_times::EventLaunchTimes;
use crate::timeline::launches::loads_code;
use crate::timeline::slices;

/// The name of steps of training that a profiler or an optimizer marks.
pub(crate) const TRAINING_STEP: &str = "training step";
/// The name of steps that compute gradients, and leave the weights to a later one.
pub(crate) const ACCUMULATION_STEP: &str = "accumulation step";
/// The name of forward passes between steps of training whose results no backward op uses, such as those of an evaluation.
pub(crate) const FORWARD_ONLY: &str = "forward without backward";
/// The name of a sequence of launches that repeats, of which nothing says what it is.
pub(crate) const REPETITION: &str = "repetition";

/// The steps that something in a trace marks, in order: number, start and end on the host.
pub(crate) fn marked_steps(trace: &Trace) -> Vec<(Option<u64>, i64, i64)> {
    let labelled = self::engine::steps_of_one_thread(trace);
    let mut steps: Vec<(Option<u64>, i64, i64)> = labelled
        .iter()
        .map(|step| (step.label.number, step.start, step.end))
        .collect();
    if steps.is_empty()
        && let Some(phases) = self::marks::optimizer_steps(trace)
    {
        let is_step = |window: &&TraceWindow| phases.names[window.name] == TRAINING_STEP;
        let windows = phases.windows.iter().filter(is_step);
        steps.extend(windows.map(|window| (None, window.start, window.end)));
    }
    steps.sort_by_key(|(_, start, end)| (*start, *end));
    steps
}

/// How the phases of a trace are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseSource {
    /// NVTX ranges or annotations of the framework.
    Annotation,
    /// Shapes of operators, which show each forward pass.
    Shapes,
    /// The ends of an optimizer's steps.
    OptimizerSteps,
    /// Calls of the outermost `nn.Module`s.
    Modules,
    /// Sequences of launches that repeat.
    Inferred,
    /// Not at all: the whole trace is one phase.
    Whole,
}

/// An interval of time that belongs to one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceWindow {
    /// Begin of the window, ns.
    pub(crate) start: i64,
    /// End of the window, ns.
    pub(crate) end: i64,
    /// The number of its name in [`Phases::names`].
    pub(crate) name: usize,
    /// The device that alone it concerns; absent where it is one of all devices.
    pub(crate) device: Option<u32>,
    /// Whether all of it was recorded.
    pub(crate) is_whole: bool,
    /// Launches whose kernels the trace does not hold, where they are too many to be a matter of chance.
    pub(crate) missing_kernels: u64,
    /// The step that an engine's label states, where one does.
    step: Option<u32>,
}

/// The phases of a trace: intervals of time in order, which do not overlap but where each is of one device.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Phases {
    /// Where the phases come from.
    pub(crate) source: PhaseSource,
    /// Whether names are those of text generation, which the program is proven to do.
    pub(crate) are_generation: bool,
    /// For inferred phases, how alike the repetitions are: 1 where all steps launch the same kernels.
    pub(crate) confidence: Option<f64>,
    /// The names, in order of first use.
    pub(crate) names: Vec<String>,
    /// The intervals, in order of time. Where the device works on after the host has left a range, they are those of the device.
    pub(crate) windows: Vec<TraceWindow>,
    /// What engines state of their steps; windows have numbers of these.
    pub(crate) steps: Vec<Step>,
    /// For each window the range of the host in which its work was launched, where that is another time.
    launched: Option<Vec<TraceWindow>>,
    /// Where only slices were recorded, how long the intervals of each name were in all, ns; names that came with the cut
    /// have none.
    pub(crate) spans: Option<Vec<i64>>,
    /// Where only slices were recorded, how long intervals of a name took while nothing was recorded, ns.
    pub(crate) plain: FxHashMap<String, Vec<i64>>,
    /// Whether the ranges that they are made from are the device's own, which a profiler derived from those of the host.
    on_device: bool,
    /// The windows of each device, where devices run apart.
    of_device: FxHashMap<u32, DeviceWindows>,
    /// What is wrong with ranges that could have been phases.
    pub(crate) issues: Vec<Issue>,
}

/// The windows that one device works in, where devices run apart.
#[derive(Clone, Debug, Default, PartialEq)]
struct DeviceWindows {
    /// Numbers of the windows, in order.
    numbers: Vec<usize>,
    /// Whether an event belongs to the window in which it was launched; otherwise to the one in which it began.
    by_launch: bool,
}

/// For every device event, the window of [`Phases::windows`] that it belongs to.
pub(crate) struct EventWindows(Vec<Option<usize>>);

impl EventWindows {
    /// An event belongs to the window in which it was launched where ranges of the host are the phases, else to the one in
    /// which it began.
    ///
    /// Where the trace has launches, an event without one was launched before the recording began: it belongs to nothing.
    pub(crate) fn of_events(
        events: &DeviceEvents,
        launched: &EventLaunchTimes,
        phases: &Phases,
    ) -> Self {
        let window = |(index, event): (usize, &DeviceEvent)| {
            if phases.are_of_devices() {
                let launch = launched.or_start(index, event.start);
                return phases.at_device(event, launch);
            }
            if phases.by_host_range() {
                phases.at_launch(launched.or_start(index, event.start)?)
            } else {
                phases.at(event.start)
            }
        };
        Self(events.all().iter().enumerate().map(window).collect())
    }

    pub(crate) fn window_of(&self, index: usize) -> Option<usize> {
        self.0[index]
    }
}

impl Phases {
    /// The phases of a trace, by the first of these that it has: labels of engines; ranges by the names of text generation, and
    /// forward passes by shapes, where the program is proven to generate text; steps that a profiler or an optimizer marks;
    /// ranges of the program; modules; sequences of launches that repeat.
    pub(crate) fn resolve(
        trace: &Trace,
        events: &DeviceEvents,
        launched: &EventLaunchTimes,
        steps: &[Repetition],
        shown: Option<&ForwardPasses>,
        program: &Program,
    ) -> Self {
        let mut dropped = Vec::new();
        let mut covering = |phases: Phases| match phases.covering(events, launched) {
            Ok(phases) => Some(phases),
            Err(issue) => {
                dropped.push(issue);
                None
            }
        };
        let named = |name_of: fn(&str) -> Option<String>| {
            annotated_phases(trace, events, launched, name_of, RangeChoice::ByName)
        };
        let generates = program.generates_text();
        let is_sliced = slices::recorded_slices(trace).is_some();
        let generation = || {
            let named = || named(phase_of_name).filter(Phases::says_more_than_warmup);
            let phases = named().or_else(|| shown.map(|passes| passes.to_phases(trace)))?;
            Some(Self {
                are_generation: true,
                ..phases
            })
        };
        // Where the most frequent pattern is a small part of the work, such as decode after long prompts, all of them are.
        let repeated = || {
            [1, RANGE_NAMES_MAX].into_iter().find_map(|patterns| {
                inferred_phases(steps, patterns)
                    .filter(|phases| is_sliced || phases.covers(events, launched))
            })
        };
        let repeats = repeated().is_some();
        let own_ranges = || {
            let by = |name_of: fn(&str) -> Option<String>| {
                annotated_phases(trace, events, launched, name_of, RangeChoice::Dividing)
                    .filter(|phases| phases.names.len() <= RANGE_NAMES_MAX)
                    .filter(|phases| !(phases.hold_start(trace) && repeats))
            };
            by(own_name).or_else(|| by(name_stem))
        };
        let mut phases = engine::engine_phases(trace, events, launched)
            .and_then(&mut covering)
            .or_else(|| generates.then(generation).flatten())
            .or_else(|| named(profiler_step))
            .or_else(|| {
                let steps = marks::optimizer_steps(trace)?;
                Some(match own_ranges() {
                    Some(own) => own.around_steps(steps),
                    None => steps,
                })
            })
            .or_else(|| named(xla_module))
            .or_else(own_ranges)
            .or_else(|| compiled::calls(trace).filter(|found| found.covers(events, launched)))
            .or_else(|| {
                marks::outermost_modules(trace).filter(|phases| phases.covers(events, launched))
            })
            .or_else(repeated)
            .unwrap_or_else(|| whole_trace(trace, events));
        phases.issues.extend(dropped);
        if phases.by_host_range() && !launched.are_known {
            phases
                .issues
                .push(Issue::warning(IssueCode::AnalysisNoLaunches));
        }
        if phases.by_host_range() && !is_sliced {
            let cut = cut::clip_last_window(&mut phases, trace, events);
            phases.issues.extend(cut);
            if let Err(concurrent) = phases.follow_devices(events, launched) {
                let issues = std::mem::take(&mut phases.issues);
                phases = repeated().unwrap_or_else(|| whole_trace(trace, events));
                phases.issues = issues;
                phases.issues.extend(concurrent);
            }
        }
        // Ranges begin and end where the program says so; forward passes by shapes end with the recording.
        if phases.source == PhaseSource::Shapes && phases.launched.is_none() && !is_sliced {
            phases.clip_to_device(events, launched);
        }
        // The capture of graphs executes nothing, and has no kernels to miss.
        let are_launches_known =
            phases.by_host_range() || launched.are_known && !events.all().is_empty();
        if are_launches_known && !is_sliced && !is_graph_capture(trace) {
            let cut = cut::mark_missing_kernels(&mut phases, trace, events);
            phases.issues.extend(cut);
        }
        if let Some(slices) = slices::recorded_slices(trace) {
            let named = ranges_of(trace, STEP);
            if named.is_empty() {
                phases.keep_recorded(&slices, &steps::launched_steps(steps), by_pattern);
            } else {
                phases.keep_recorded(&slices, &named, |_| Some(STEP));
            }
        }
        if program.is_training() {
            phases.name_training(trace);
            if phases.source == PhaseSource::Inferred && !is_sliced {
                phases.close_gaps();
            }
        }
        phases
    }

    /// Lets each repetition begin where the one before it ended. A loop of training repeats everything it does: what lies between two
    /// backward passes belongs to an iteration, though it launches the kernels of other steps too. What lies before the first is the
    /// start of the program.
    fn close_gaps(&mut self) {
        for place in 1..self.windows.len() {
            let reached = self.windows[place - 1].end;
            let window = &mut self.windows[place];
            window.start = reached.min(window.start);
        }
    }

    /// One phase where processes with ranges share a device: no range says what the device does.
    pub(crate) fn of_gpu_shared(trace: &Trace, events: &DeviceEvents) -> Self {
        let mut phases = whole_trace(trace, events);
        let shared = Issue::warning(IssueCode::AnalysisStepsOfProcesses);
        phases.issues.push(shared);
        phases
    }

    /// The phases of processes, each with the devices that it launches on: a range says nothing of other devices. The first process
    /// says how the phases are known.
    pub(crate) fn of_processes(parts: Vec<(Vec<u32>, Self)>) -> Self {
        let source = parts.first().map(|(_, first)| first.source);
        let mut phases = Self::empty(source.unwrap_or(PhaseSource::Whole));
        for (devices, mut own) in parts {
            phases.are_generation |= own.are_generation;
            phases.issues.append(&mut own.issues);
            for device in devices {
                phases.absorb_device(device, &own);
            }
        }
        phases.order_devices();
        phases
    }

    /// Whether all of it is one interval in which the program loads code, as when it starts: a range around a whole program.
    fn hold_start(&self, trace: &Trace) -> bool {
        let hosts = &trace.hosts;
        let [window] = &self.windows[..] else {
            return false;
        };
        named_rows(trace, &hosts.name, loads_code)
            .any(|row| (window.start..window.end).contains(&hosts.start[row]))
    }

    /// Whether a range names more than loading and warming up.
    fn says_more_than_warmup(&self) -> bool {
        let says_little = |name: &String| matches!(name.as_str(), "warmup" | "load");
        !self.names.iter().all(says_little)
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
            add_saturating(
                &mut spans[window.name],
                window.end.saturating_sub(window.start),
            );
        }
        self.spans = Some(spans);
        self.keep_plain(slices, steps, &name_of);
        for window in std::mem::take(&mut self.windows) {
            let (start, end) = (window.start, window.end);
            if slices::hold_all(slices, (start, end)) {
                self.windows.push(window);
                continue;
            }
            let name = name_of(&self.names[window.name]);
            let first = steps.partition_point(|step| step.0 < start);
            let inside = steps[first..].iter().take_while(|step| step.1 <= end);
            let mut whole = inside
                .filter(|step| slices::hold_all(slices, **step))
                .filter_map(|&step| Some((name?, step)))
                .peekable();
            if whole.peek().is_none() {
                let parts = slices::recorded_parts(slices, (start, end));
                self.windows.extend(parts.map(|(start, end)| TraceWindow {
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

    /// Keeps the lengths of what ranges show outside of the slices.
    fn keep_plain(
        &mut self,
        slices: &[(i64, i64)],
        steps: &[(i64, i64)],
        name_of: impl Fn(&str) -> Option<&'static str>,
    ) {
        for (number, name) in self.names.iter().enumerate() {
            let own = self.windows.iter().filter(|window| window.name == number);
            let own: Vec<(i64, i64)> = own.map(|window| (window.start, window.end)).collect();
            self.plain
                .insert(name.clone(), slices::lengths_apart(slices, &own));
        }
        // Steps that a pattern shows lie inside of slices: of them nothing is left here.
        let plain = slices::lengths_apart(slices, steps);
        let step = self.names.iter().find_map(|name| name_of(name));
        if let Some(step) = step.filter(|_| !plain.is_empty()) {
            self.plain.insert(step.to_owned(), plain);
        }
    }

    /// Says what a sequence of launches that repeats is; false where there is none. A model that agrees with the trace says so.
    pub(crate) fn name_repetitions(&mut self, name: &str) -> bool {
        let is_inferred = self.source == PhaseSource::Inferred && !self.are_generation;
        let repetition = self.names.iter_mut().find(|known| *known == REPETITION);
        let Some(repetition) = repetition.filter(|_| is_inferred) else {
            return false;
        };
        name.clone_into(repetition);
        self.are_generation = true;
        true
    }

    /// Whether devices run apart, so that each has windows of its own.
    pub(crate) fn are_of_devices(&self) -> bool {
        self.windows.first().is_some_and(|one| one.device.is_some())
    }

    /// The windows that concern a device, in order.
    pub(crate) fn windows_on(&self, device: u32) -> impl Iterator<Item = &TraceWindow> {
        let windows = self.windows.iter();
        windows.filter(move |window| window.device.is_none_or(|own| own == device))
    }

    /// The window that an event of a device belongs to, where devices run apart.
    fn at_device(&self, event: &DeviceEvent, launch: Option<i64>) -> Option<usize> {
        let own = self.of_device.get(&event.device)?;
        let (windows, time) = match &self.launched {
            Some(launched) if own.by_launch => (launched, launch?),
            _ => (&self.windows, event.start),
        };
        let numbers = &own.numbers;
        let after = numbers.partition_point(|&window| windows[window].start <= time);
        let window = numbers[after.checked_sub(1)?];
        (time < windows[window].end).then_some(window)
    }

    /// The window that holds a moment; none where devices run apart.
    pub(crate) fn at(&self, time: i64) -> Option<usize> {
        if self.are_of_devices() {
            return None;
        }
        let after = self.windows.partition_point(|window| window.start <= time);
        let window = after.checked_sub(1)?;
        let end = self.windows[window].end;
        let at_the_end = time == end && window + 1 == self.windows.len() && !self.by_launch();
        (time < end || at_the_end).then_some(window)
    }

    /// The window whose work was launched at a moment of the host; none where devices run apart.
    pub(crate) fn at_launch(&self, time: i64) -> Option<usize> {
        if self.are_of_devices() {
            return None;
        }
        let Some(launched) = &self.launched else {
            return self.at(time);
        };
        let after = launched.partition_point(|window| window.start <= time);
        let window = after.checked_sub(1)?;
        (time < launched[window].end).then_some(window)
    }

    /// Takes the time before the first and after the last device event of the windows off: the program's start and end are no
    /// idle time.
    fn clip_to_device(&mut self, events: &DeviceEvents, launched: &EventLaunchTimes) {
        let own = events.all().iter().enumerate().filter(|(index, event)| {
            let time = launched.or_start(*index, event.start);
            time.is_some_and(|time| self.at(time).is_some())
        });
        let span = own.fold(None, |span: Option<(i64, i64)>, (_, event)| {
            let (start, end) = span.unwrap_or((event.start, event.end));
            Some((start.min(event.start), end.max(event.end)))
        });
        let Some((start, end)) = span else {
            return;
        };
        let (windows, launched) = self
            .windows
            .iter()
            .map(|window| {
                let clipped = TraceWindow {
                    start: window.start.clamp(start, end),
                    end: window.end.clamp(start, end),
                    ..*window
                };
                (clipped, *window)
            })
            .filter(|(clipped, _)| clipped.start < clipped.end)
            .unzip();
        (self.windows, self.launched) = (windows, Some(launched));
    }

    /// Whether a device event belongs to the phase in which it was launched; otherwise to the one in which it began.
    pub(crate) fn by_launch(&self) -> bool {
        !matches!(self.source, PhaseSource::Inferred | PhaseSource::Whole)
    }

    /// Whether phases are ranges of the host, to which events belong by their launches.
    fn by_host_range(&self) -> bool {
        self.by_launch() && !self.on_device
    }

    /// The host's time in which the work of a window was launched.
    pub(crate) fn host_window(&self, window: usize) -> (i64, i64) {
        let windows = self.launched.as_ref().unwrap_or(&self.windows);
        (windows[window].start, windows[window].end)
    }

    /// These ranges where those of one name are the steps that end with `Optimizer.step`: they say when a step begins, and name what
    /// runs between steps. Otherwise the steps.
    fn around_steps(mut self, steps: Self) -> Self {
        let total = |windows: &mut dyn Iterator<Item = &TraceWindow>| -> i64 {
            windows.fold(0, |sum, window| {
                sum.saturating_add(window.end.saturating_sub(window.start))
            })
        };
        let is_step = |step: &&TraceWindow| steps.names[step.name] == TRAINING_STEP;
        let training = || steps.windows.iter().filter(is_step);
        let mut ends = training().map(|step| step.end);
        let holding = |end: i64| {
            let mut own = self.windows.iter();
            own.find(|window| window.start < end && end <= window.end)
        };
        let Some(name) = ends.next().and_then(holding).map(|window| window.name) else {
            return steps;
        };
        let is_around = ends.all(|end| holding(end).is_some_and(|window| window.name == name));
        let mut own = self.windows.iter().filter(|window| window.name == name);
        // A range around the optimizer alone is a part of a step.
        if !is_around || total(&mut own) < total(&mut training()) / 2 {
            return steps;
        }
        // One that holds several steps, such as an epoch, keeps its own name.
        let mut own = self.windows.iter().filter(|window| window.name == name);
        let holds_several = |window: &TraceWindow| {
            let ends = training().map(|step| step.end);
            ends.filter(|&end| window.start < end && end <= window.end)
                .count()
                > 1
        };
        if !own.any(holds_several) {
            TRAINING_STEP.clone_into(&mut self.names[name]);
        }
        self
    }

    /// Steps that a profiler marks are steps of training where they compute gradients; a step of evaluation is not, and one that only adds to
    /// gradients which a later one uses is an accumulation.
    fn name_training(&mut self, trace: &Trace) {
        let Some(marked) = self.names.iter().position(|name| name == PROFILER_STEP) else {
            return;
        };
        let backward = backward_starts(trace);
        let trains = |window: usize| {
            let (start, end) = self.host_window(window);
            let next = backward.partition_point(|&time| time < start);
            backward.is_empty() || backward.get(next).is_some_and(|&time| time < end)
        };
        let marked_windows =
            (0..self.windows.len()).filter(|&one| self.windows[one].name == marked);
        let (training, others): (Vec<usize>, Vec<usize>) =
            marked_windows.partition(|&one| trains(one));
        let optimized = marks::all_optimizer_ends(trace);
        let updates = |window: &usize| {
            let (start, end) = self.host_window(*window);
            let next = optimized.partition_point(|&time| time <= start);
            optimized.get(next).is_some_and(|&time| time <= end)
        };
        let (mut updating, mut accumulating): (Vec<usize>, Vec<usize>) =
            training.into_iter().partition(updates);
        if updating.is_empty() {
            std::mem::swap(&mut updating, &mut accumulating);
        }
        if others.is_empty() && accumulating.is_empty() {
            TRAINING_STEP.clone_into(&mut self.names[marked]);
            return;
        }
        for (name, windows) in [(TRAINING_STEP, updating), (ACCUMULATION_STEP, accumulating)] {
            if windows.is_empty() {
                continue;
            }
            self.names.push(name.to_owned());
            for window in windows {
                self.windows[window].name = self.names.len() - 1;
            }
        }
    }

    /// Says what the model did in the last window.
    fn state_step(&mut self, step: Step) {
        if let Some(window) = self.windows.last_mut() {
            window.step = Some(self.steps.len() as u32);
            self.steps.push(step);
        }
    }

    fn empty(source: PhaseSource) -> Self {
        Self {
            source,
            are_generation: false,
            confidence: None,
            names: Vec::new(),
            windows: Vec::new(),
            launched: None,
            steps: Vec::new(),
            spans: None,
            plain: FxHashMap::default(),
            on_device: false,
            of_device: FxHashMap::default(),
            issues: Vec::new(),
        }
    }

    /// Keeps phases that explain the time they are about.
    fn covering(self, events: &DeviceEvents, launched: &EventLaunchTimes) -> Result<Self, Issue> {
        let share = self.covered_share(events, launched);
        if share >= PHASES_COVERED_MIN_SHARE {
            return Ok(self);
        }
        Err(Issue::warning(IssueCode::AnalysisLabelsDropped).with("share", share))
    }

    fn covers(&self, events: &DeviceEvents, launched: &EventLaunchTimes) -> bool {
        self.covered_share(events, launched) >= PHASES_COVERED_MIN_SHARE
    }

    /// The part of the device time, from the first window on, that belongs to the windows; 1 where no device works.
    fn covered_share(&self, events: &DeviceEvents, launched: &EventLaunchTimes) -> f64 {
        let from = self.windows.first().map_or(0, |window| window.start);
        let windows = EventWindows::of_events(events, launched, self);
        let (mut inside, mut all) = (0_i128, 0_i128);
        for (index, event) in events.all().iter().enumerate() {
            let time = launched.or_start(index, event.start);
            if time.is_some_and(|time| time >= from) {
                let duration = i128::from(event.duration());
                all += duration;
                inside += windows.window_of(index).map_or(0, |_| duration);
            }
        }
        if all == 0 {
            1.0
        } else {
            inside as f64 / all as f64
        }
    }

    /// Takes over the phases of one device.
    fn absorb_device(&mut self, device: u32, own: &Self) {
        let launched = own.launched.as_ref().unwrap_or(&own.windows);
        for (window, launched) in own.windows.iter().zip(launched) {
            self.push(&own.names[window.name], window.start, window.end);
            if let Some(last) = self.windows.last_mut() {
                last.device = Some(device);
                last.is_whole = window.is_whole;
                last.missing_kernels = window.missing_kernels;
                let launched = TraceWindow {
                    start: launched.start,
                    end: launched.end,
                    ..*last
                };
                self.launched.get_or_insert_default().push(launched);
            }
            if let Some(step) = window.step_index() {
                self.state_step(own.steps[step].clone());
            }
        }
        self.of_device.entry(device).or_default().by_launch = own.by_host_range();
    }

    /// Puts the windows of all devices in order.
    fn order_devices(&mut self) {
        let launched = self.launched.take().unwrap_or_default();
        let mut pairs: Vec<(TraceWindow, TraceWindow)> =
            self.windows.drain(..).zip(launched).collect();
        pairs.sort_by_key(|(window, _)| (window.start, window.end, window.device));
        for (number, (window, _)) in pairs.iter().enumerate() {
            if let Some(device) = window.device {
                self.of_device
                    .entry(device)
                    .or_default()
                    .numbers
                    .push(number);
            }
        }
        let (windows, launched) = pairs.into_iter().unzip();
        (self.windows, self.launched) = (windows, Some(launched));
    }

    fn push(&mut self, name: &str, start: i64, end: i64) {
        let known = self.names.iter().position(|known| known == name);
        let name = known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        self.windows.push(TraceWindow {
            start,
            end,
            name,
            device: None,
            is_whole: true,
            missing_kernels: 0,
            step: None,
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

/// Steps of the first `patterns` patterns; those of the first one are the repetition, others have its number.
fn inferred_phases(steps: &[Repetition], patterns: usize) -> Option<Phases> {
    let steps = steps::step_phases(steps, patterns)?;
    let mut phases = Phases::empty(PhaseSource::Inferred);
    phases.confidence = Some(steps.likeness);
    for (start, end, pattern) in steps.windows {
        match pattern {
            0 => phases.push(REPETITION, start, end),
            _ => phases.push(&format!("{REPETITION} {}", pattern + 1), start, end),
        }
    }
    Some(phases)
}

fn whole_trace(trace: &Trace, events: &DeviceEvents) -> Phases {
    let mut phases = Phases::empty(PhaseSource::Whole);
    // What the host did before the first and after the last device event is no idle time of the device.
    let span = events.span().or_else(|| host_span(trace));
    if let Some((start, end)) = span {
        phases.push("whole trace", start, end);
    }
    phases
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::annotations::cut_ranges;

    #[test]
    fn of_phases_that_were_recorded_in_part_whole_steps_are_left() {
        let names = ["prefill".to_owned(), "decode".to_owned()];
        let mut phases = cut_ranges(&[(0, 30, 0), (30, 100, 1), (100, 120, 0)], &names);
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
        // Every step touches a slice or follows one that does.
        assert_eq!(phases.plain.get(STEP), None);
    }

    #[test]
    fn a_range_around_several_optimizer_steps_keeps_its_name() {
        let own = || cut_ranges(&[(0, 100, 0), (100, 200, 0)], &["update".to_owned()]);
        let steps = |ends: &[i64]| {
            let mut phases = Phases::empty(PhaseSource::OptimizerSteps);
            for pair in ends.windows(2) {
                phases.push(TRAINING_STEP, pair[0], pair[1]);
            }
            phases
        };
        let several = own().around_steps(steps(&[0, 40, 90, 140, 190]));
        assert_eq!(
            (several.names, several.windows.len()),
            (vec!["update".to_owned()], 2)
        );
        let each = own().around_steps(steps(&[0, 90, 190]));
        assert_eq!(each.names, [TRAINING_STEP]);
    }

    #[test]
    fn steps_apart_from_slices_are_plain() {
        let names = ["decode".to_owned()];
        let mut phases = cut_ranges(&[(0, 120, 0)], &names);
        let steps: Vec<(i64, i64)> = (0..10).map(|step| (12 * step, 12 * step + 10)).collect();
        // The third step is recorded; in those around it CUPTI attaches and detaches.
        phases.keep_recorded(&[(23, 35)], &steps, |_| Some(STEP));
        assert_eq!(phases.plain[STEP], [10; 7]);
    }

    #[test]
    fn in_one_range_around_all_prefills_each_is_one() {
        let names = ["prefill".to_owned(), "other".to_owned()];
        let mut phases = cut_ranges(&[(0, 100, 0), (100, 200, 1)], &names);
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
}
