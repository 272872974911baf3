//! All causes of a trace, with the gains that replays give.

use crate::thresholds::{
    CAUSE_GAIN_MIN_SHARE, COMPARED_CAUSES_MAX, EVENT_COST_PAIRS_MIN, REPEATED_ROWS_MIN_RATIO,
    REPLAY_ERROR_MAX_SHARE, SAME_TIME_MAX_SHARE, SPECIAL_CAUSE_GAIN_MIN_SHARE,
};
use llmprof_record::run::RunPhase;
use llmprof_record::trace::Trace;
use llmprof_theory::device::Device;
use llmprof_units::{Nanos, stats::upper_median};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CauseCandidate;
use super::cause::{Cause, CauseKind, PhaseGain};
use super::chosen_windows::{choose_windows, joined_parts};
use super::open_scene::open_scene;
use super::pauses::pause_lengths;
use super::scene::{NameTable, Scene};
use super::shapes::read_shapes;
use super::small_batches::passes_of_steps;
use super::subject::ProgramFacts;
use crate::replay::{CallWait, Edit, Graph, HostWindow, PhaseWindows, Replay, ReplayModel};

/// What torch's profiler costs per host event, ns: median over 20 traces of an H200 with plain times (fixtures/faults).
const EVENT_COST_NS: f64 = 2_500.0;
/// The cost to state, the least and the most: the median and its quartiles.
const EVENT_COST_RANGE: [f64; 3] = [1.0, 0.6, 2.0];
/// The cost of an event ÷ the time of such a pair: median over the phases of all folders of fixtures/faults with a device that is busy
/// for less than two thirds of the plain time (72 phases, quartiles 1.1 and 1.7).
const EVENT_COST_OF_PAIR: f64 = 1.3;
/// Costs that pairs of operators may give.
const EVENT_COST_PAIRS_NS: [f64; 2] = [0.0, 8_000.0];
/// Costs that plain times of the same program may give: ranges around modules are pushed by Python code, which takes longer than
/// recording them does.
const EVENT_COST_SOLVED_NS: [f64; 2] = [0.0, 100_000.0];

/// A phase to look for causes in.
#[derive(Clone, Debug)]
pub struct PhaseInput {
    pub phase: RunPhase,
    pub label: Option<String>,
    pub windows: PhaseWindows,
    /// What the same windows take without the profiler, ns.
    pub plain_ns: Option<i64>,
}

/// How a phase was replayed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct PhaseReplay {
    /// The phase that was replayed.
    pub phase: RunPhase,
    /// Name of the phase in reports; absent where the name of `phase` is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Number of steps of the phase; 1 where the phase is one pass.
    pub steps: u64,
    /// How many of them, spread over the phase, were looked at and replayed, where that is not all of them. Times and gains of a step are
    /// means of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed_steps: Option<u64>,
    /// Recorded time of a step, with the profiler's cost.
    pub recorded_ns: Nanos,
    /// The replay with one launch latency and one gap ÷ the recording, less 1.
    pub error: f64,
    /// Replayed time of a step without the profiler's cost.
    pub plain_ns: Nanos,
    /// Replayed time of a step without the profiler's cost and with all causes removed together.
    pub without_causes_ns: Nanos,
}

impl PhaseReplay {
    /// Whether the replay is close enough to the recording for gains to be stated.
    pub fn is_sound(&self) -> bool {
        self.error.abs() <= REPLAY_ERROR_MAX_SHARE
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// The cause that saves most comes first.
    pub causes: Vec<Cause>,
    pub phases: Vec<PhaseReplay>,
}

impl Diagnosis {
    /// The largest part of a phase that a cause on the host takes.
    pub(crate) fn host_share(&self, phase: RunPhase, label: Option<&str>) -> f64 {
        let causes = self.causes.iter().filter(|cause| cause.kind.is_host_time());
        let gains = causes.flat_map(|cause| &cause.gains);
        gains
            .filter(|gain| gain.phase == phase && gain.label.as_deref() == label)
            .map(PhaseGain::share)
            .fold(0.0, f64::max)
    }

    /// Whether a cause that is not true of most programs has a gain.
    pub(crate) fn has_own_evidence(&self) -> bool {
        let mut causes = self.causes.iter();
        causes.any(|cause| !cause.kind.is_general() && !cause.gains.is_empty())
    }
}

/// A phase during the search.
struct Searched<'a> {
    input: &'a PhaseInput,
    steps: Steps,
    error: f64,
    recorded: i64,
    /// Replays with the most likely cost of recording a host event.
    stated: Replay<'a, 1>,
    /// Replays with that cost, the least and the most it may be, and none (as recorded).
    all: Replay<'a, 4>,
    /// Time of the phase without any edit, under each model of `all`.
    unchanged: [i64; 4],
}

#[derive(Clone, Copy, Debug)]
struct Steps {
    all: u64,
    /// Steps in the windows that are replayed.
    replayed: u64,
}

/// A candidate with its gain.
struct CandidateGain {
    phase: usize,
    candidate: CauseCandidate,
    gain: PhaseGain,
    /// Time of the replayed steps without it.
    after_ns: i64,
    /// The most that removing it can save in a step, by what stays: see [`gain_bound`].
    most_ns: Option<Nanos>,
}

/// Finds the causes of a trace; `None` if the trace has no launch calls.
pub fn diagnose(
    trace: &Trace,
    phases: &[PhaseInput],
    device: Option<&Device>,
    subject: &ProgramFacts,
) -> Option<Diagnosis> {
    let chosen: Vec<Vec<HostWindow>> = phases
        .iter()
        .map(|input| choose_windows(&trace.hosts, &input.windows.windows))
        .collect();
    let mut windows: Vec<(HostWindow, usize)> = Vec::new();
    for (index, chosen) in chosen.iter().enumerate() {
        windows.extend(chosen.iter().map(|window| (*window, index)));
    }
    windows.sort_by_key(|(window, _)| window.start);
    let all = phases.iter().flat_map(|input| &input.windows.windows);
    let only = windows.iter().map(|(window, _)| *window);
    let graph = match joined_parts(all, only.clone()) {
        Some(parts) => Graph::of_parts(trace, only.collect(), parts)?,
        None => Graph::of_trace(trace, only.collect())?,
    };
    let (fidelity, names) = rayon::join(|| graph.fidelity(), || NameTable::of_graph(trace, &graph));
    let mut scenes: Vec<Scene<'_>> = phases
        .par_iter()
        .zip(&chosen)
        .map(|(input, windows)| {
            let bare = Scene::without_operators(
                trace,
                &graph,
                input.phase,
                windows,
                device,
                subject,
                &names,
            );
            let mut scene = open_scene(bare);
            let steps = count_steps(input, &scene);
            (scene.steps, scene.all_steps) = (steps.replayed, steps.all);
            scene
        })
        .collect();
    let shapes = read_shapes(&scenes);
    let pauses: Vec<i64> = scenes.iter().flat_map(pause_lengths).collect();
    for scene in &mut scenes {
        scene.shapes = shapes.clone();
        scene.pauses.clone_from(&pauses);
        count_whole_steps(scene);
    }
    let results: Vec<(Searched<'_>, Vec<CandidateGain>)> = phases
        .par_iter()
        .zip(&scenes)
        .enumerate()
        .map(|(index, (input, scene))| {
            let own: Vec<usize> = (0..windows.len())
                .filter(|&at| windows[at].1 == index)
                .collect();
            let recorded: i64 = own.iter().map(|&at| fidelity[at].0).sum();
            let replayed: i64 = own.iter().map(|&at| fidelity[at].1).sum();
            let steps = Steps {
                all: scene.all_steps,
                replayed: scene.steps,
            };
            let costs = match input.plain_ns {
                Some(plain) => solved_costs(&graph, &own, steps.share_of(plain)),
                None => EVENT_COST_RANGE.map(|part| part * event_cost(scene)),
            };
            let [stated, least, most] = costs.map(with_cost);
            let all =
                Replay::of_windows(&graph, [stated, least, most, with_cost(0.0)], own.clone());
            let phase = Searched {
                input,
                steps,
                error: replayed as f64 / recorded.max(1) as f64 - 1.0,
                recorded,
                stated: Replay::of_windows(&graph, [stated], own),
                unchanged: all.total_with(&[]),
                all,
            };
            let judged = if recorded > 0 {
                judge_phase(&phase, index, scene)
            } else {
                Vec::new()
            };
            (phase, judged)
        })
        .collect();
    let (searched, judged): (Vec<_>, Vec<_>) = results.into_iter().unzip();
    let judged: Vec<CandidateGain> = judged.into_iter().flatten().collect();
    let phases = searched
        .par_iter()
        .enumerate()
        .map(|(index, phase)| summarize_replay(phase, index, &judged))
        .collect();
    let causes = merge_causes(&searched, judged);
    Some(Diagnosis { causes, phases })
}

/// Causes of one phase that save enough. What is true of most programs is judged last, by what it saves as things are or after the
/// rest is removed, whichever is less: a device that is busy with needless work does not wait for launches yet.
fn judge_phase(phase: &Searched<'_>, index: usize, scene: &Scene<'_>) -> Vec<CandidateGain> {
    let searches = scene.subject.purpose.list_searches();
    let candidates: Vec<Vec<CauseCandidate>> =
        searches.par_iter().map(|search| search(scene)).collect();
    let (general, special): (Vec<_>, Vec<_>) = candidates
        .into_iter()
        .flatten()
        .partition(|candidate| candidate.kind.is_general());
    let mut unhosted = Edit::default();
    for segment in scene.segments() {
        if scene.graph.wait_of(segment) == CallWait::No {
            unhosted.limit_segment(segment, 0);
        }
    }
    let judge_one = |candidate: CauseCandidate, (gain, after_ns): (PhaseGain, i64)| CandidateGain {
        phase: index,
        most_ns: gain_bound(phase, &candidate, &gain, &unhosted),
        candidate,
        gain,
        after_ns,
    };
    let mut judged: Vec<CandidateGain> = special
        .into_par_iter()
        .map(|candidate| {
            let gain = replay_gain(phase, &candidate, &[], &phase.unchanged);
            judge_one(candidate, gain)
        })
        .collect();
    // What the profiler hides is named with the little that the recording shows of it.
    judged.retain(|CandidateGain { gain, .. }| {
        gain.share() >= SPECIAL_CAUSE_GAIN_MIN_SHARE || gain.most_share() >= CAUSE_GAIN_MIN_SHARE
    });
    let removed: Vec<&Edit> = judged.iter().map(|one| &one.candidate.edit).collect();
    let before = if general.is_empty() || removed.is_empty() {
        phase.unchanged
    } else {
        phase.all.total_with(&removed)
    };
    let general: Vec<CandidateGain> = general
        .into_par_iter()
        .map(|candidate| {
            let alone = replay_gain(phase, &candidate, &[], &phase.unchanged);
            let after = replay_gain(phase, &candidate, &removed, &before);
            // An upper bound is one of things as they are, if any of it is left after the rest is removed.
            let is_bound =
                candidate.edit.is_empty() && after.0.most_share() >= CAUSE_GAIN_MIN_SHARE;
            let is_less = alone.0.saved_ns < after.0.saved_ns;
            judge_one(candidate, if is_less || is_bound { alone } else { after })
        })
        .collect();
    let enough = general.into_iter().filter(
        |CandidateGain {
             gain, candidate, ..
         }| {
            // Without an edit only the upper bound of the gain is known.
            let is_bound = candidate.edit.is_empty();
            let share = if is_bound {
                gain.most_share()
            } else {
                gain.share()
            };
            share >= CAUSE_GAIN_MIN_SHARE
        },
    );
    judged.extend(enough);
    judged
}

/// Steps of a phase: as stated, else one for each forward pass of decode, else one for each window.
fn count_steps(input: &PhaseInput, scene: &Scene<'_>) -> Steps {
    let windows = input.windows.windows.len() as u64;
    let replayed = scene.windows.len() as u64;
    let stated = input.windows.steps;
    if stated > 0 {
        return Steps {
            all: stated,
            replayed: in_proportion(stated, replayed, windows),
        };
    }
    // A pass over far more tokens than another does not decode: it encodes or reads a prompt.
    let fewest = scene.forwards.iter().map(|forward| forward.tokens).min();
    let most = fewest.unwrap_or(0).saturating_mul(REPEATED_ROWS_MIN_RATIO);
    let forwards = scene.forwards.iter();
    let passes = forwards.filter(|forward| forward.tokens < most).count() as u64;
    let passes = passes.max(scene.graph_launches());
    if passes > 0 && input.phase == RunPhase::Decode {
        return Steps {
            all: in_proportion(passes, windows, replayed),
            replayed: passes,
        };
    }
    Steps {
        all: windows.max(1),
        replayed: replayed.max(1),
    }
}

/// A step that is launched as several graphs, each over a part of its sequences, was counted as so many steps.
fn count_whole_steps(scene: &mut Scene<'_>) {
    if let Some((launches, passes)) = passes_of_steps(scene)
        && launches == scene.steps
    {
        scene.steps /= passes;
        scene.all_steps = (scene.all_steps / passes).max(scene.steps);
    }
}

/// `count` of `whole` for a part of that, at least 1; `count` itself where both are equal.
fn in_proportion(count: u64, part: u64, whole: u64) -> u64 {
    if part == whole {
        return count;
    }
    let share = part as f64 / whole.max(1) as f64;
    ((count as f64 * share).round() as u64).max(1)
}

impl Steps {
    /// The part of a time of all steps that falls to the replayed ones.
    fn share_of(self, time: i64) -> i64 {
        if self.all == self.replayed {
            return time;
        }
        (time as f64 * self.replayed as f64 / self.all as f64) as i64
    }
}

impl Searched<'_> {
    /// Time of the phase with edits, under the most likely cost of recording.
    fn time_with(&self, edits: &[&Edit]) -> i64 {
        let [time] = self.stated.total_with(edits);
        time
    }
}

fn with_cost(event_cost_ns: f64) -> ReplayModel {
    ReplayModel {
        event_cost_ns,
        with_constants: false,
    }
}

/// The profiler's cost per host event with which windows take their `plain` time, ns: the value to state, the least and the most.
fn solved_costs(graph: &Graph, windows: &[usize], plain: i64) -> [f64; 3] {
    let [mut low, mut high] = EVENT_COST_SOLVED_NS;
    for _ in 0..16 {
        let middle = f64::midpoint(low, high);
        let replay = Replay::of_windows(graph, [with_cost(middle)], windows.to_vec());
        let [time] = replay.total_with(&[]);
        if time > plain {
            low = middle;
        } else {
            high = middle;
        }
    }
    let solved = f64::midpoint(low, high);
    [solved, 0.8 * solved, 1.2 * solved]
}

/// What recording one host event costs here. An operator that only calls another, which only makes a view, takes little longer
/// than recording the inner one: its time is that cost at the speed that the host had.
fn event_cost(scene: &Scene<'_>) -> f64 {
    let mut times: Vec<i64> = Vec::new();
    for &top in &scene.tops {
        for row in scene.rows_in(top) {
            let inner = row + 1..scene.graph.subtree_end(row);
            let is_pair = inner.len() == 1 && inner.clone().all(|row| scene.is_operator(row));
            if is_pair && scene.is_operator(row) {
                times.push(scene.trace.hosts.duration[row]);
            }
        }
    }
    let is_enough = times.len() >= EVENT_COST_PAIRS_MIN;
    let Some(median) = upper_median(&mut times).filter(|_| is_enough) else {
        return EVENT_COST_NS;
    };
    let [least, most] = EVENT_COST_PAIRS_NS;
    let cost = (EVENT_COST_OF_PAIR * median as f64).clamp(least, most);
    // A thread that launches work of its own competes for the GIL: times of operators have waiting in them.
    let mut work = scene.graph.work().iter();
    if work.any(|work| !work.is_own) {
        cost.min(EVENT_COST_NS)
    } else {
        cost
    }
}

/// The gain of a cause in a phase without `removed`, which takes `before`, and the time of the phase without both, ns.
fn replay_gain(
    phase: &Searched<'_>,
    candidate: &CauseCandidate,
    removed: &[&Edit],
    before: &[i64; 4],
) -> (PhaseGain, i64) {
    let now = phase.unchanged[0];
    let (after, partly) = rayon::join(
        || {
            phase
                .all
                .total_with(&[removed, &[&candidate.edit]].concat())
        },
        || {
            let ways = candidate.partial.iter().flatten();
            let times = ways.map(|way| phase.time_with(&[removed, &[way]].concat()));
            times.collect::<Vec<i64>>()
        },
    );
    let saved = |place: usize| before[place] - after[place];
    let saved_ns = saved(0);
    // With another cost of the profiler the phase takes another time too, so the range is one of shares.
    let mut all = vec![saved_ns];
    for place in 1..EVENT_COST_RANGE.len() {
        let share = saved(place) as f64 / phase.unchanged[place].max(1) as f64;
        all.push((share * now as f64) as i64);
    }
    all.extend(partly.into_iter().map(|partly| before[0] - partly));
    let (recorded, profiled) = (phase.unchanged[3], saved(3));
    let a_step = |time: i64| Nanos(time / phase.steps.replayed as i64);
    let at_least = |share: f64, time: i64| time as f64 >= share * now as f64;
    let gain = PhaseGain {
        phase: phase.input.phase,
        label: phase.input.label.clone(),
        steps: phase.steps.all,
        now_ns: a_step(now),
        recorded_ns: a_step(recorded),
        saved_ns: a_step(saved_ns),
        low_ns: a_step(all.iter().copied().min().unwrap_or(saved_ns).max(0)),
        high_ns: a_step(all.iter().copied().max().unwrap_or(saved_ns).min(now)),
        host_bound_by_profiler: !at_least(CAUSE_GAIN_MIN_SHARE, profiled),
    };
    (gain, after[0])
}

/// The most that a cause on the host can save in a step. What stays takes the time of the device at least, which `unhosted` leaves; and
/// what the host does otherwise takes no longer without the profiler than with it, whatever it delays.
fn gain_bound(
    phase: &Searched<'_>,
    candidate: &CauseCandidate,
    gain: &PhaseGain,
    unhosted: &Edit,
) -> Option<Nanos> {
    let kind = &candidate.kind;
    if !(kind.is_host_time() || matches!(kind, CauseKind::LaunchBound { .. })) {
        return None;
    }
    let edits = [&candidate.edit, unhosted];
    let stays = phase.time_with(&edits) / phase.steps.replayed as i64;
    let most = gain.now_ns.0 - stays;
    let Some(host) = kind.host_time() else {
        return Some(Nanos(most));
    };
    let [.., recorded] = phase.all.total_with(&edits[..1]);
    let delayed = (phase.unchanged[3] - recorded) / phase.steps.replayed as i64;
    Some(Nanos(most.min(delayed.max(host.0))))
}

fn summarize_replay(phase: &Searched<'_>, index: usize, judged: &[CandidateGain]) -> PhaseReplay {
    let causes = judged.iter().filter(|judged| judged.phase == index);
    let all: Vec<&Edit> = causes
        .filter(|judged| !judged.candidate.kind.is_seen_once())
        .map(|judged| &judged.candidate.edit)
        .collect();
    let Steps {
        all: steps,
        replayed,
    } = phase.steps;
    let a_step = |time: i64| Nanos(time / replayed as i64);
    PhaseReplay {
        phase: phase.input.phase,
        label: phase.input.label.clone(),
        steps,
        replayed_steps: Some(replayed).filter(|replayed| *replayed < steps),
        recorded_ns: a_step(phase.recorded),
        error: phase.error,
        plain_ns: a_step(phase.unchanged[0]),
        without_causes_ns: a_step(phase.time_with(&all)),
    }
}

/// Whether two findings are one cause: of one kind, at one place.
fn is_same(a: &CauseCandidate, b: &CauseCandidate) -> bool {
    // Inside of a graph no operator is known.
    let are_one_place = match (&a.place.operator, &b.place.operator) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    };
    a.kind.code() == b.kind.code()
        && are_one_place
        && match (&a.kind, &b.kind) {
            (
                CauseKind::HostCopies { to_device: a, .. },
                CauseKind::HostCopies { to_device: b, .. },
            ) => a == b,
            (CauseKind::HostCalls { call: a, .. }, CauseKind::HostCalls { call: b, .. }) => a == b,
            _ => true,
        }
}

/// Joins the gains of one cause in several phases. Causes that save most come first.
fn merge_causes(phases: &[Searched<'_>], mut judged: Vec<CandidateGain>) -> Vec<Cause> {
    judged.sort_by_key(|judged| std::cmp::Reverse(judged.gain.total_saved()));
    let mut groups: Vec<Vec<CandidateGain>> = Vec::new();
    for one in judged {
        let group = groups
            .iter_mut()
            .find(|group| is_same(&group[0].candidate, &one.candidate));
        match group {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    let total = |group: &Vec<CandidateGain>| -> i64 {
        group.iter().map(|judged| judged.gain.total_saved()).sum()
    };
    groups.sort_by_key(|group| std::cmp::Reverse(total(group)));
    let same = same_time_codes(phases, &groups);
    let causes = groups.into_iter().zip(same).map(|(group, same_time_as)| {
        let mut gains = Vec::new();
        let mut first = None;
        for mut judged in group {
            // A replay that does not explain the recording gives no gain, nor does what may never come again.
            let is_explained = phases[judged.phase].error.abs() <= REPLAY_ERROR_MAX_SHARE;
            if is_explained && !judged.candidate.kind.is_seen_once() {
                judged.gain.widen_range(judged.most_ns);
                gains.push(judged.gain);
            }
            first.get_or_insert((judged.candidate, phases[judged.phase].steps.replayed));
        }
        let (candidate, steps) = first?;
        Some(Cause {
            kind: candidate.kind,
            count: candidate.count as f64 / steps as f64,
            place: candidate.place,
            gains,
            same_time_as,
        })
    });
    causes.flatten().collect()
}

/// For each group the codes of those before it whose removal leaves little for it to save.
fn same_time_codes(phases: &[Searched<'_>], groups: &[Vec<CandidateGain>]) -> Vec<Vec<String>> {
    let is_special = |group: &&Vec<CandidateGain>| !group[0].candidate.kind.is_general();
    let codes = |later: usize| {
        let one = &groups[later][0];
        // A general cause is what is left after the others.
        if later >= COMPARED_CAUSES_MAX || one.candidate.kind.is_general() {
            return Vec::new();
        }
        let phase = &phases[one.phase];
        let earlier = groups[..later].par_iter().filter(is_special);
        let codes = earlier.filter_map(|group| {
            let other = group.iter().find(|other| other.phase == one.phase)?;
            let both = phase.time_with(&[&other.candidate.edit, &one.candidate.edit]);
            let added = other.after_ns - both;
            let saved = a_phase(one.gain.saved_ns, phase.steps.replayed);
            let is_same = (added as f64) < SAME_TIME_MAX_SHARE * saved as f64;
            is_same.then(|| other.candidate.kind.code().to_owned())
        });
        codes.collect()
    };
    (0..groups.len()).into_par_iter().map(codes).collect()
}

/// A time of one step as that of the replayed steps.
fn a_phase(time: Nanos, steps: u64) -> i64 {
    time.0.saturating_mul(steps as i64)
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::{Diagnosed, Sketch};

    /// Steps of products whose launches take 13 µs each, which wait for the device between products, or not at all.
    fn sketch_steps(waits: bool, us: i64, has_windows: bool) -> Diagnosed {
        let mut sketch = Sketch::default();
        sketch.steps = 100;
        for step in 0..100 {
            for product in 0..10 {
                // The context grows.
                sketch.matrix_product(512, 2048, 2048, us + step / 10);
                // A wait after the last one would end its window, where it is no cause.
                if waits && product < 9 {
                    sketch.synchronize();
                    sketch.pause(40);
                }
            }
            if has_windows {
                sketch.end_window();
            }
        }
        sketch.diagnose()
    }

    /// Some of many steps give the gain of all.
    #[test]
    fn gains_of_some_steps_are_those_of_all() {
        let (some, all) = (
            sketch_steps(true, 100, true),
            sketch_steps(true, 100, false),
        );
        let [phase] = &some.0.phases[..] else {
            panic!("one phase");
        };
        assert_eq!((phase.steps, phase.replayed_steps), (100, Some(32)));
        assert_eq!(all.0.phases[0].replayed_steps, None);
        let gains = [&some, &all].map(|diagnosed| diagnosed.gain_of("synchronization").unwrap());
        let [(saved, now), (all_saved, all_now)] = gains;
        assert!(
            (saved / all_saved - 1.0).abs() < 0.05,
            "{saved} {all_saved} ms"
        );
        assert!((now / all_now - 1.0).abs() < 0.03, "{now} {all_now} ms");
        let counts =
            [&some, &all].map(|diagnosed| diagnosed.cause("synchronization").unwrap().count);
        assert!((counts[0] / counts[1] - 1.0).abs() < 0.05, "{counts:?}");
    }

    /// The device is far behind the host where a replayed part begins: the time of a step is that of the device.
    #[test]
    fn a_part_begins_with_the_queue_that_the_recording_had() {
        for us in [5, 30] {
            let (some, all) = (
                sketch_steps(false, us, true),
                sketch_steps(false, us, false),
            );
            let [some, all] = [some, all].map(|diagnosed| diagnosed.0.phases[0].plain_ns.0 as f64);
            assert!((some / all - 1.0).abs() < 0.03, "{us} µs: {some} {all} ns");
        }
    }
}
