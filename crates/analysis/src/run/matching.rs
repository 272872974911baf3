//! Which operator of theory each executed operator is.
//!
//! An engine executes the operators of a step in the order in which theory counts them. A walk over both lists matches
//! them by path; kind, shape and dtype must then agree. What ran and is not expected is listed with a reason, what is
//! expected and did not run too: no call is dropped.

use std::borrow::Cow;
use std::fmt;

use llmprof_theory::floor::{MemoryLevel, OperatorFloor, Roof};
use llmprof_theory::{Kind, Model, Operator, Pass, Path, Shape, Workload};
use llmprof_units::{Basis, DType, Nanos};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::measured::{OperatorEvent, OperatorIdentity};
use super::operator_groups::{Groups, OperatorGroup};
use super::waterfall::{Event, EventClass, Floor};

/// Why an operator that ran is not matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnmatchedReason {
    /// Theory counts no operator of that path in the step.
    NotInTheory,
    /// The step has had its operator of that path already: this one is not needed.
    RanAgain,
    /// The operator of that path has another kind.
    KindDiffers,
    /// The operator of that path has another shape.
    ShapeDiffers,
    /// The operator of that path multiplies another format.
    DtypeDiffers,
    /// The event names an operator that the run does not list.
    UnknownOperator,
    /// Theory counts no operators in this phase.
    PhaseNotCounted,
    /// No operator of its module is done by such a kernel: a cast, a concatenation, a mask, index work.
    NotNeeded,
    /// No model says what is needed, and such work is rarely a model's own: a cast, a concatenation, a mask, a choice.
    RarelyNeeded,
    /// It was launched outside every module.
    OutsideModules,
    /// Its name does not say what it does.
    UnknownPurpose,
    /// It is a whole graph, recorded without its kernels.
    WholeGraph,
}

impl fmt::Display for UnmatchedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text())
    }
}

impl UnmatchedReason {
    fn text(self) -> &'static str {
        match self {
            Self::NotInTheory => "theory counts no operator of that path",
            Self::RanAgain => "ran more often than theory counts",
            Self::KindDiffers => "theory counts another kind",
            Self::ShapeDiffers => "theory counts another shape",
            Self::DtypeDiffers => "theory counts another dtype",
            Self::UnknownOperator => "the run does not list the operator",
            Self::PhaseNotCounted => "theory counts no operators in the phase",
            Self::NotNeeded => "no operator needs it",
            Self::RarelyNeeded => "moves, fills, arranges or picks values, by its name",
            Self::OutsideModules => "launched outside every module",
            Self::UnknownPurpose => "the name does not say what it does",
            Self::WholeGraph => "a graph was recorded as one event, without its kernels",
        }
    }

    /// The part of the waterfall that such time belongs to.
    pub(super) fn class(self) -> EventClass {
        match self {
            Self::RanAgain | Self::NotNeeded | Self::RarelyNeeded => EventClass::Extra,
            _ => EventClass::Unattributed(Cow::Borrowed(self.text())),
        }
    }
}

/// Calls of one operator that ran and are not matched for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnmatchedOperator {
    /// Its path.
    pub path: String,
    /// Why.
    pub reason: UnmatchedReason,
    /// What ran, of the first such call.
    pub found: String,
    /// What theory counts there, where it counts something.
    pub expected: Option<String>,
    /// Calls.
    pub calls: u64,
    /// Their time.
    pub time_ns: Nanos,
}

/// An operator that theory counts and that did not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingOperator {
    /// Its path.
    pub path: String,
    /// How often it was missed.
    pub calls: u64,
}

/// What theory says about one call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub(super) kind: Kind,
    pub(super) shape: Shape,
    pub(super) dtype: DType,
    pub(super) flops: u64,
    pub(super) compulsory: u64,
    pub(super) unfused: u64,
    pub(super) floor: Option<OperatorFloor>,
    pub(super) basis: Basis,
    /// Number of its path, and of its path without the layer.
    pub(super) path: u32,
    pub(super) place: u32,
}

/// Texts by number.
#[derive(Default)]
struct Names<'m> {
    paths: FxHashMap<Path<'m>, (u32, u32)>,
    path_texts: Vec<String>,
    by_path: FxHashMap<String, u32>,
    place_texts: Vec<String>,
    by_place: FxHashMap<String, u32>,
}

impl<'m> Names<'m> {
    fn of(&mut self, path: Path<'m>) -> (u32, u32) {
        if let Some(known) = self.paths.get(&path) {
            return *known;
        }
        let numbers = (
            number(&mut self.by_path, &mut self.path_texts, path.to_string()),
            number(&mut self.by_place, &mut self.place_texts, place(&path)),
        );
        self.paths.insert(path, numbers);
        numbers
    }
}

fn number(known: &mut FxHashMap<String, u32>, texts: &mut Vec<String>, text: String) -> u32 {
    *known.entry(text).or_insert_with_key(|text| {
        texts.push(text.clone());
        (texts.len() - 1) as u32
    })
}

/// A path with `*` for the number of its layer.
pub(super) fn place(path: &Path<'_>) -> String {
    if path.layer.is_none() {
        return path.to_string();
    }
    [path.prefix, "*", path.name]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(".")
}

/// What theory counts for some stretch of a run, call by call in the order of execution.
pub(super) struct Script<'m> {
    names: Names<'m>,
    pub(super) calls: Vec<Expected>,
    /// Where each step begins in `calls`; one more for the end.
    steps: Vec<usize>,
}

impl<'m> Script<'m> {
    /// The calls of `passes`, with floors where there is a roof with a memory level for each pass.
    ///
    /// No step begins once there are more than `most` calls: a run cannot match more than it made, and a workload may
    /// ask for any number of steps.
    pub(super) fn of(
        model: &'m Model,
        workload: &Workload,
        passes: &[Pass],
        roof: Option<(&Roof<'_>, &[MemoryLevel])>,
        most: usize,
    ) -> Self {
        let mut script = Self::empty();
        for (index, pass) in passes.iter().enumerate() {
            let roof = roof.and_then(|(roof, levels)| Some((roof, *levels.get(index)?)));
            script.add_pass(model, workload, pass, roof, most);
        }
        script
    }

    /// Nothing yet.
    pub(super) fn empty() -> Self {
        Self {
            names: Names::default(),
            calls: Vec::new(),
            steps: vec![0],
        }
    }

    /// Adds the calls of one pass. No step begins once there are more than `most` calls.
    pub(super) fn add_pass(
        &mut self,
        model: &'m Model,
        workload: &Workload,
        pass: &Pass,
        roof: Option<(&Roof<'_>, MemoryLevel)>,
        most: usize,
    ) {
        for step in 0..pass.steps {
            if self.calls.len() > most {
                return;
            }
            let single = Pass {
                past: pass.past.saturating_add(step.saturating_mul(pass.queries)),
                steps: 1,
                ..*pass
            };
            model.lower_in_order(workload, &single, &mut |operator| {
                self.push(operator, roof);
            });
            self.steps.push(self.calls.len());
        }
    }

    /// Adds the calls of the image towers, each layer by itself.
    pub(super) fn add_vision(
        &mut self,
        model: &'m Model,
        workload: &Workload,
        roof: Option<(&Roof<'_>, MemoryLevel)>,
    ) {
        model.lower_vision(workload, &mut |operator| {
            if operator.numbers.is_empty() {
                self.push(operator, roof);
            }
            for &number in operator.numbers {
                let mut single = *operator;
                single.path.layer = Some(number);
                single.layers = 1;
                self.push(&single, roof);
            }
        });
        self.steps.push(self.calls.len());
    }

    /// The text of a path's number.
    pub(super) fn path_text(&self, path: u32) -> &str {
        &self.names.path_texts[path as usize]
    }

    /// The text of a place's number.
    pub(super) fn place_text(&self, place: u32) -> &str {
        &self.names.place_texts[place as usize]
    }

    fn push(&mut self, operator: &Operator<'m>, roof: Option<(&Roof<'_>, MemoryLevel)>) {
        let (path, place) = self.names.of(operator.path);
        self.calls.push(Expected {
            kind: operator.kind,
            shape: operator.shape,
            dtype: operator.tensor.dtype,
            flops: operator.tensor.flops.saturating_add(operator.vector.flops),
            compulsory: operator.traffic.compulsory(),
            unfused: operator.traffic.total(),
            floor: roof.and_then(|(roof, level)| roof.operator(operator, level).ok()),
            basis: operator.basis,
            path,
            place,
        });
    }
}

/// The calls of one phase, matched.
#[derive(Default)]
pub(super) struct Matched {
    /// The events in their part of the waterfall. A matched one has the number of its floor.
    pub(super) events: Vec<Event>,
    /// Floors of matched calls; absent where one is not known.
    pub(super) floors: Option<Vec<Floor>>,
    pub(super) by_kind: Vec<OperatorGroup>,
    pub(super) by_path: Vec<OperatorGroup>,
    pub(super) unmatched: Vec<UnmatchedOperator>,
    pub(super) missing: Vec<MissingOperator>,
    pub(super) calls: u64,
}

/// Matches `events`, in order of their starts, to what theory counts. `wall` is the phase's time.
pub(super) fn match_operators(
    script: &Script<'_>,
    operators: &[OperatorIdentity],
    events: &[OperatorEvent],
    wall: i64,
) -> Matched {
    let path_of: Vec<Option<u32>> = operators
        .iter()
        .map(|operator| script.names.by_path.get(&operator.path).copied())
        .collect();
    let mut walk = Walk::new(script);
    let mut matched = Matched::default();
    let (mut kinds, mut paths) = (Groups::default(), Groups::default());
    let mut floors = Some(Vec::new());
    let mut unmatched: FxHashMap<(String, UnmatchedReason), UnmatchedOperator> =
        FxHashMap::default();
    for event in events {
        let identity = operators.get(event.operator as usize);
        let path = path_of.get(event.operator as usize).copied().flatten();
        let time = event.end_ns.saturating_sub(event.start_ns).max(0);
        let found = match (identity, path) {
            (None, _) => Err((UnmatchedReason::UnknownOperator, None)),
            _ if script.calls.is_empty() => Err((UnmatchedReason::PhaseNotCounted, None)),
            (_, None) => Err((UnmatchedReason::NotInTheory, None)),
            (Some(identity), Some(path)) => walk
                .next(path)
                .map_err(|reason| (reason, None))
                .and_then(|call| agree(identity, event, call)),
        };
        let class = match found {
            Ok(call) => {
                matched.calls += 1;
                kinds.add(call.kind as u32, call, time);
                paths.add(call.place, call, time);
                match (&mut floors, call.floor) {
                    (Some(floors), Some(floor)) => floors.push(Floor::from(floor)),
                    (floors, _) => *floors = None,
                }
                EventClass::Matched((matched.calls - 1) as u32)
            }
            Err((reason, call)) => {
                let text = identity.map_or_else(
                    || format!("operator {}", event.operator),
                    |identity| identity.path.clone(),
                );
                let entry = unmatched
                    .entry((text, reason))
                    .or_insert_with_key(|(path, _)| UnmatchedOperator {
                        path: path.clone(),
                        reason,
                        found: identity.map_or_else(String::new, |identity| {
                            describe(identity.kind, &event.shape, identity.dtype)
                        }),
                        expected: call
                            .map(|call: &Expected| describe(call.kind, &call.shape, call.dtype)),
                        calls: 0,
                        time_ns: Nanos(0),
                    });
                entry.calls += 1;
                entry.time_ns.0 = entry.time_ns.0.saturating_add(time);
                reason.class()
            }
        };
        matched.events.push(Event {
            start_ns: event.start_ns,
            end_ns: event.end_ns,
            launched_ns: None,
            class,
        });
    }
    matched.floors = floors.filter(|floors| !floors.is_empty());
    matched.by_kind = kinds.finish(wall, |_, kind| kind.name().to_owned());
    matched.by_path = paths.finish(wall, |place, _| {
        script.names.place_texts[place as usize].clone()
    });
    matched.missing = walk.missing();
    matched.unmatched = unmatched.into_values().collect();
    matched.unmatched.sort_by(|a, b| {
        b.time_ns
            .cmp(&a.time_ns)
            .then_with(|| (&a.path, a.reason).cmp(&(&b.path, b.reason)))
    });
    matched
}

fn describe(kind: Kind, shape: &Shape, dtype: DType) -> String {
    let Shape { groups, m, n, k } = shape;
    format!("{kind} {groups}×[m {m}, n {n}, k {k}] {dtype}")
}

fn agree<'a>(
    identity: &OperatorIdentity,
    event: &OperatorEvent,
    call: &'a Expected,
) -> Result<&'a Expected, (UnmatchedReason, Option<&'a Expected>)> {
    let reason = if identity.kind != call.kind {
        UnmatchedReason::KindDiffers
    } else if event.shape != call.shape {
        UnmatchedReason::ShapeDiffers
    } else if identity.dtype != call.dtype {
        UnmatchedReason::DtypeDiffers
    } else {
        return Ok(call);
    };
    Err((reason, Some(call)))
}

/// A position in a script that only moves forward.
struct Walk<'s, 'm> {
    script: &'s Script<'m>,
    /// The next call, and the step it is in.
    next: usize,
    step: usize,
    skipped: FxHashMap<u32, u64>,
}

impl<'s, 'm> Walk<'s, 'm> {
    fn new(script: &'s Script<'m>) -> Self {
        Self {
            script,
            next: 0,
            step: 0,
            skipped: FxHashMap::default(),
        }
    }

    /// The next call of `path`: the one that is due, a later one of the step, or the first of the next step.
    ///
    /// Nothing farther ahead is looked at, so that one call too many does not put all later steps out of order.
    fn next(&mut self, path: u32) -> Result<&'s Expected, UnmatchedReason> {
        let calls = &self.script.calls;
        while self.step + 1 < self.script.steps.len()
            && self.script.steps[self.step + 1] <= self.next
        {
            self.step += 1;
        }
        let step_end = self.end_of(self.step);
        let ahead = calls[self.next..step_end]
            .iter()
            .position(|call| call.path == path)
            .map(|offset| self.next + offset);
        let begins_next =
            (step_end < calls.len() && calls[step_end].path == path).then_some(step_end);
        if let Some(found) = ahead.or(begins_next) {
            for skipped in &calls[self.next..found] {
                *self.skipped.entry(skipped.path).or_default() += 1;
            }
            self.next = found + 1;
            return Ok(&calls[found]);
        }
        // Behind the walk the step is searched back to its start; at a boundary that is the step just done.
        let from = self.script.steps[if self.next == self.script.steps[self.step] {
            self.step.saturating_sub(1)
        } else {
            self.step
        }];
        if calls[from..self.next].iter().any(|call| call.path == path) {
            Err(UnmatchedReason::RanAgain)
        } else {
            Err(UnmatchedReason::NotInTheory)
        }
    }

    fn end_of(&self, step: usize) -> usize {
        self.script
            .steps
            .get(step + 1)
            .copied()
            .unwrap_or(self.script.calls.len())
    }

    /// What was never met, most often missed first.
    fn missing(mut self) -> Vec<MissingOperator> {
        for call in &self.script.calls[self.next..] {
            *self.skipped.entry(call.path).or_default() += 1;
        }
        let mut missing: Vec<MissingOperator> = self
            .skipped
            .into_iter()
            .map(|(path, calls)| MissingOperator {
                path: self.script.names.path_texts[path as usize].clone(),
                calls,
            })
            .collect();
        missing.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.path.cmp(&b.path)));
        missing
    }
}
