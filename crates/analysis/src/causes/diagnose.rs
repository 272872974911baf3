//! All causes of a trace, with the gains that replays give.

use llmprof_record::run::RunPhase;
use llmprof_record::trace::Trace;
use llmprof_theory::device::Device;
use llmprof_units::{Nanos, stats::upper_median};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Candidate;
use super::cause::{Cause, PhaseGain};
use super::open_scene::open_scene;
use super::pauses::pause_lengths;
use super::repeated_work::ROWS_MIN_RATIO;
use super::scene::Scene;
use super::shapes::shapes;
use super::subject::Subject;
use crate::replay::{Edit, FIDELITY_ERROR_MAX, Graph, Model, PhaseWindows, Window};

/// Gains below this part of a phase are not reported: host-bound phases vary by more from run to run.
const GAIN_MIN_SHARE: f64 = 0.05;
/// Causes with evidence of their own are named from this part on: most faults cost more.
const SPECIAL_GAIN_MIN_SHARE: f64 = 0.02;
/// What torch's profiler costs per host event, ns: median over 20 traces of an H200 with plain times (fixtures/faults).
const EVENT_COST_NS: f64 = 2_500.0;
/// Its quartiles as parts of the median.
const EVENT_COST_RANGE: [f64; 2] = [0.6, 2.0];
/// The cost of an event ÷ the time of such a pair: median over the phases of all folders of fixtures/faults with a device that is busy
/// for less than two thirds of the plain time (72 phases, quartiles 1.1 and 1.7).
const EVENT_COST_OF_PAIR: f64 = 1.3;
/// Pairs of an operator and the one it calls that show what recording costs.
const EVENT_COST_MIN_PAIRS: usize = 50;
/// Costs that pairs of operators may give.
const EVENT_COST_PAIRS_NS: [f64; 2] = [0.0, 8_000.0];
/// Costs that plain times of the same program may give: ranges around modules are pushed by Python code, which takes longer than
/// recording them does.
const EVENT_COST_SOLVED_NS: [f64; 2] = [0.0, 100_000.0];
/// A cause that adds less than this part of its own gain to another's is about the same time.
const SAME_TIME_SHARE: f64 = 0.5;
/// Causes that are compared with each other for that.
const COMPARED_MAX: usize = 8;

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
    /// Name of the phase.
    pub phase: RunPhase,
    /// Name for people, where the phase is not enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Steps that the times below are divided by.
    pub steps: u64,
    /// Recorded time of the phase.
    pub recorded_ns: Nanos,
    /// The replay with one launch latency and one gap ÷ the recording, less 1.
    pub error: f64,
    /// Without the profiler's cost.
    pub plain_ns: Nanos,
    /// With all causes removed together.
    pub without_causes_ns: Nanos,
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
    /// Its windows among those of the graph.
    windows: Vec<usize>,
    steps: u64,
    error: f64,
    recorded: i64,
    /// What recording a host event costs as the trace shows it.
    event_cost_ns: f64,
    costs: [f64; 3],
    /// Its time with each of them, and as it was recorded.
    unchanged: [i64; 4],
}

/// A candidate with its gain.
struct Judged {
    phase: usize,
    candidate: Candidate,
    gain: PhaseGain,
}

/// Finds the causes of a trace. `None` where its launches are not known.
pub fn diagnose(
    trace: &Trace,
    phases: &[PhaseInput],
    device: Option<&Device>,
    subject: &Subject,
) -> Option<Diagnosis> {
    let mut windows: Vec<(Window, usize)> = Vec::new();
    for (index, phase) in phases.iter().enumerate() {
        windows.extend(phase.windows.windows.iter().map(|window| (*window, index)));
    }
    windows.sort_by_key(|(window, _)| window.start);
    let graph = Graph::of(trace, windows.iter().map(|(window, _)| *window).collect())?;
    let fidelity = graph.fidelity();
    let mut scenes: Vec<Scene<'_>> = phases
        .iter()
        .map(|input| {
            let windows = &input.windows.windows;
            let mut scene = open_scene(trace, &graph, input.phase, windows, device, subject);
            scene.steps = steps(input, &scene);
            scene
        })
        .collect();
    let shapes = shapes(&scenes);
    let pauses: Vec<i64> = scenes.iter().flat_map(pause_lengths).collect();
    let mut judged = Vec::new();
    let mut searched = Vec::new();
    for (index, (input, scene)) in phases.iter().zip(&mut scenes).enumerate() {
        scene.shapes = shapes.clone();
        scene.pauses.clone_from(&pauses);
        let own: Vec<usize> = (0..windows.len())
            .filter(|&at| windows[at].1 == index)
            .collect();
        let recorded: i64 = own.iter().map(|&at| fidelity[at].0).sum();
        let replayed: i64 = own.iter().map(|&at| fidelity[at].1).sum();
        let mut phase = Searched {
            input,
            windows: own,
            steps: scene.steps,
            error: replayed as f64 / recorded.max(1) as f64 - 1.0,
            recorded,
            event_cost_ns: event_cost(scene),
            costs: [0.0; 3],
            unchanged: [0; 4],
        };
        phase.costs = costs(&graph, &phase);
        phase.unchanged = phase.times(&graph, &Edit::default());
        if recorded > 0 {
            judged.extend(judge(&graph, &phase, index, scene));
        }
        searched.push(phase);
    }
    let phases = searched
        .iter()
        .enumerate()
        .map(|(index, phase)| replayed(&graph, phase, index, &judged))
        .collect();
    let causes = merged(&graph, &searched, judged);
    Some(Diagnosis { causes, phases })
}

/// Causes of one phase that save enough. What is true of most programs is judged last, by what it saves as things are or after the
/// rest is removed, whichever is less: a device that is busy with needless work does not wait for launches yet.
fn judge(graph: &Graph, phase: &Searched<'_>, index: usize, scene: &Scene<'_>) -> Vec<Judged> {
    let searches = scene.subject.purpose.searches().iter();
    let candidates = searches.flat_map(|search| search(scene));
    let (general, special): (Vec<_>, Vec<_>) =
        candidates.partition(|candidate| candidate.kind.is_general());
    let mut judged: Vec<Judged> = Vec::new();
    let mut removed = Edit::default();
    for candidate in special {
        let gain = gain(graph, phase, &candidate, &Edit::default());
        // What the profiler hides is named with the little that the recording shows of it.
        if gain.share() >= SPECIAL_GAIN_MIN_SHARE || gain.most_share() >= GAIN_MIN_SHARE {
            removed.extend(&candidate.edit);
            judged.push(Judged {
                phase: index,
                candidate,
                gain,
            });
        }
    }
    for candidate in general {
        let alone = gain(graph, phase, &candidate, &Edit::default());
        let after = gain(graph, phase, &candidate, &removed);
        let gain = if alone.saved_ns < after.saved_ns {
            alone
        } else {
            after
        };
        if gain.share() >= GAIN_MIN_SHARE {
            judged.push(Judged {
                phase: index,
                candidate,
                gain,
            });
        }
    }
    judged
}

/// Steps of a phase: as stated, else one for each forward pass of decode, else one for each window.
fn steps(input: &PhaseInput, scene: &Scene<'_>) -> u64 {
    if input.windows.steps > 0 {
        return input.windows.steps;
    }
    // A pass over far more tokens than another is none of the new tokens.
    let fewest = scene.forwards.iter().map(|forward| forward.tokens).min();
    let most = fewest.unwrap_or(0).saturating_mul(ROWS_MIN_RATIO);
    let forwards = scene.forwards.iter();
    let passes = forwards.filter(|forward| forward.tokens < most).count() as u64;
    let passes = passes.max(scene.graph_launches());
    if passes > 0 && input.phase == RunPhase::Decode {
        return passes;
    }
    (input.windows.windows.len() as u64).max(1)
}

impl Searched<'_> {
    /// The time of the phase with a change, ns.
    fn time(&self, graph: &Graph, event_cost_ns: f64, edit: &Edit) -> i64 {
        let model = Model {
            event_cost_ns,
            with_constants: false,
        };
        let times = graph.window_times(&graph.replay(model, edit), edit);
        self.windows.iter().map(|&at| times[at]).sum()
    }

    /// Its times with a change, with each cost and as it was recorded: replays of their own, which run side by side.
    fn times(&self, graph: &Graph, edit: &Edit) -> [i64; 4] {
        let [stated, least, most] = self.costs;
        let mut times = [0; 4];
        times
            .par_iter_mut()
            .zip([stated, least, most, 0.0].par_iter())
            .for_each(|(time, &cost)| *time = self.time(graph, cost, edit));
        times
    }
}

/// The profiler's cost per host event: the value to state, the least and the most. Where plain times are known, the cost that
/// gives them.
fn costs(graph: &Graph, phase: &Searched<'_>) -> [f64; 3] {
    let nothing = Edit::default();
    if let Some(plain) = phase.input.plain_ns {
        let [mut low, mut high] = EVENT_COST_SOLVED_NS;
        for _ in 0..16 {
            let middle = f64::midpoint(low, high);
            if phase.time(graph, middle, &nothing) > plain {
                low = middle;
            } else {
                high = middle;
            }
        }
        let solved = f64::midpoint(low, high);
        return [solved, 0.8 * solved, 1.2 * solved];
    }
    let cost = phase.event_cost_ns;
    let [least, most] = EVENT_COST_RANGE;
    [cost, least * cost, most * cost]
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
    let is_enough = times.len() >= EVENT_COST_MIN_PAIRS;
    let Some(median) = upper_median(&mut times).filter(|_| is_enough) else {
        return EVENT_COST_NS;
    };
    let [least, most] = EVENT_COST_PAIRS_NS;
    let cost = (EVENT_COST_OF_PAIR * median as f64).clamp(least, most);
    // A thread that launches work of its own competes for the GIL: times of operators have waiting in them.
    let mut work = scene.graph.work().iter();
    if work.any(|work| !scene.graph.is_own_work(work)) {
        cost.min(EVENT_COST_NS)
    } else {
        cost
    }
}

/// What a cause saves of a phase from which `removed` is gone already.
fn gain(graph: &Graph, phase: &Searched<'_>, candidate: &Candidate, removed: &Edit) -> PhaseGain {
    let with = |edit: &Edit| {
        let mut both = removed.clone();
        both.extend(edit);
        both
    };
    let now = phase.unchanged[0];
    let before = if removed.is_empty() {
        phase.unchanged
    } else {
        phase.times(graph, removed)
    };
    let (after, partly) = rayon::join(
        || phase.times(graph, &with(&candidate.edit)),
        || {
            let partial = candidate.partial.as_ref()?;
            Some(phase.time(graph, phase.costs[0], &with(partial)))
        },
    );
    let saved = |place: usize| before[place] - after[place];
    let saved_ns = saved(0);
    // With another cost of the profiler the phase takes another time too, so the range is one of shares.
    let mut all = vec![saved_ns];
    for place in 1..phase.costs.len() {
        let share = saved(place) as f64 / phase.unchanged[place].max(1) as f64;
        all.push((share * now as f64) as i64);
    }
    all.extend(partly.map(|partly| before[0] - partly));
    let (recorded, profiled) = (phase.unchanged[3], saved(3));
    let a_step = |time: i64| Nanos(time / phase.steps as i64);
    let at_least = |share: f64, time: i64| time as f64 >= share * now as f64;
    PhaseGain {
        phase: phase.input.phase,
        label: phase.input.label.clone(),
        steps: phase.steps,
        now_ns: a_step(now),
        recorded_ns: a_step(recorded),
        saved_ns: a_step(saved_ns),
        low_ns: a_step(all.iter().copied().min().unwrap_or(saved_ns).max(0)),
        high_ns: a_step(all.iter().copied().max().unwrap_or(saved_ns).min(now)),
        host_bound_by_profiler: !at_least(GAIN_MIN_SHARE, profiled),
    }
}

fn replayed(graph: &Graph, phase: &Searched<'_>, index: usize, judged: &[Judged]) -> PhaseReplay {
    let mut all = Edit::default();
    let own = judged.iter().filter(|judged| judged.phase == index);
    for judged in own.filter(|judged| !judged.candidate.kind.is_seen_once()) {
        all.extend(&judged.candidate.edit);
    }
    let steps = phase.steps as i64;
    let cost = phase.costs[0];
    PhaseReplay {
        phase: phase.input.phase,
        label: phase.input.label.clone(),
        steps: phase.steps,
        recorded_ns: Nanos(phase.recorded / steps),
        error: phase.error,
        plain_ns: Nanos(phase.time(graph, cost, &Edit::default()) / steps),
        without_causes_ns: Nanos(phase.time(graph, cost, &all) / steps),
    }
}

/// Whether two findings are one cause: of one kind, at one place.
fn is_same(a: &Candidate, b: &Candidate) -> bool {
    // Inside of a graph no operator is known.
    let are_one_place = match (&a.place.operator, &b.place.operator) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    };
    a.kind.code() == b.kind.code()
        && are_one_place
        && match (&a.kind, &b.kind) {
            (
                super::CauseKind::HostCopies { to_device: a, .. },
                super::CauseKind::HostCopies { to_device: b, .. },
            ) => a == b,
            (
                super::CauseKind::HostCalls { call: a, .. },
                super::CauseKind::HostCalls { call: b, .. },
            ) => a == b,
            _ => true,
        }
}

/// One cause for all phases in which it occurs, those that save most first.
fn merged(graph: &Graph, phases: &[Searched<'_>], mut judged: Vec<Judged>) -> Vec<Cause> {
    judged.sort_by_key(|judged| std::cmp::Reverse(judged.gain.total_saved()));
    let mut groups: Vec<Vec<Judged>> = Vec::new();
    for one in judged {
        let group = groups
            .iter_mut()
            .find(|group| is_same(&group[0].candidate, &one.candidate));
        match group {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    let total =
        |group: &Vec<Judged>| -> i64 { group.iter().map(|judged| judged.gain.total_saved()).sum() };
    groups.sort_by_key(|group| std::cmp::Reverse(total(group)));
    let same = same_time(graph, phases, &groups);
    let causes = groups.into_iter().zip(same).map(|(group, same_time_as)| {
        let mut gains = Vec::new();
        let mut first = None;
        for judged in group {
            // A replay that does not explain the recording gives no gain, nor does what may never come again.
            let is_explained = phases[judged.phase].error.abs() <= FIDELITY_ERROR_MAX;
            if is_explained && !judged.candidate.kind.is_seen_once() {
                gains.push(judged.gain);
            }
            first.get_or_insert((judged.candidate, phases[judged.phase].steps));
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
fn same_time(graph: &Graph, phases: &[Searched<'_>], groups: &[Vec<Judged>]) -> Vec<Vec<String>> {
    let mut found = vec![Vec::new(); groups.len()];
    for later in 1..groups.len().min(COMPARED_MAX) {
        let one = &groups[later][0];
        // A general cause is what is left after the others.
        if one.candidate.kind.is_general() {
            continue;
        }
        for earlier in groups[..later]
            .iter()
            .filter(|group| !group[0].candidate.kind.is_general())
        {
            let Some(other) = earlier.iter().find(|other| other.phase == one.phase) else {
                continue;
            };
            let phase = &phases[one.phase];
            let cost = phase.costs[0];
            let mut both = other.candidate.edit.clone();
            let alone = phase.time(graph, cost, &both);
            both.extend(&one.candidate.edit);
            let added = alone - phase.time(graph, cost, &both);
            if (added as f64) < SAME_TIME_SHARE * one.gain.total_saved() as f64 {
                found[later].push(other.candidate.kind.code().to_owned());
            }
        }
    }
    found
}
