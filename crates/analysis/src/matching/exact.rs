//! Matching by identity: the recorder knows the path, kind, shape and dtype of every call.
//!
//! An engine executes the operators of a step in the order in which theory counts them. A walk over both lists matches
//! them by path; kind, shape and dtype must then agree. What ran and is not expected is listed with a reason, what is
//! expected and did not run too: no call is dropped.

use std::ops::Range;

use llmprof_record::trace::{OperatorCall, Trace};
use llmprof_theory::Shape;
use rustc_hash::FxHashMap;

use crate::matching::expected::Expected;
use crate::matching::lanes::WorkLane;
use crate::matching::script::Script;
use crate::matching::units::{CountedCalls, MatchUnit, MatchVerdict, Matching, Mismatch};
use crate::matching::unmatched::UnmatchedReason;
use crate::waterfall::Roofline;

impl Matching {
    /// Matches the calls of a lane whose operators are known.
    pub(crate) fn by_identity(trace: &Trace, lane: &WorkLane, counted: &CountedCalls<'_>) -> Self {
        let mut matching = Self {
            units: Vec::new(),
            verdicts: Vec::new(),
            with_modules: counted.windows.keys().copied().collect(),
            in_module: Vec::new(),
            mismatches: FxHashMap::default(),
        };
        let mut walks: FxHashMap<usize, ScriptWalk<'_, '_>> = counted
            .windows
            .iter()
            .map(|(&window, calls)| (window, ScriptWalk::new(&counted.script, calls.clone())))
            .collect();
        let mut verdicts = Vec::with_capacity(lane.items.len());
        for (index, item) in lane.items.iter().enumerate() {
            let call = item.call.map(|row| trace.operator_calls.row(row as usize));
            let path = counted.script.path_number(trace.text(item.name));
            let walk = item.window().and_then(|window| walks.get_mut(&window));
            let outcome = match (call, walk, path) {
                (None, ..) => Err((UnmatchedReason::UnknownOperator, None)),
                (_, None, _) => Err((UnmatchedReason::PhaseNotCounted, None)),
                (_, Some(walk), _) if walk.is_empty() => {
                    Err((UnmatchedReason::PhaseNotCounted, None))
                }
                (_, _, None) => Err((UnmatchedReason::NotInTheory, None)),
                (Some(call), Some(walk), Some(path)) => walk
                    .next_call(path)
                    .map_err(|reason| (reason, None))
                    .and_then(|place| {
                        check_call(trace, &call, &counted.script.calls[place], place)
                    }),
            };
            verdicts.push(match outcome {
                Ok(place) => {
                    let expected = &counted.script.calls[place];
                    matching.units.push(MatchUnit {
                        calls: vec![place as u32],
                        group: None,
                        roofline: expected.roofline.map(Roofline::from),
                    });
                    MatchVerdict::Unit((matching.units.len() - 1) as u32)
                }
                Err((reason, place)) => {
                    let mismatch = Mismatch {
                        place,
                        found: call.map_or_else(String::new, |call| describe_call(trace, &call)),
                        expected: place
                            .map(|place| describe_expected(&counted.script.calls[place])),
                    };
                    matching.mismatches.insert(index, mismatch);
                    MatchVerdict::Unmatched(reason)
                }
            });
        }
        matching.verdicts.push(verdicts);
        matching
    }
}

/// Returns the place if the call that ran is the one that theory counts there.
fn check_call(
    trace: &Trace,
    call: &OperatorCall,
    expected: &Expected,
    place: usize,
) -> Result<usize, (UnmatchedReason, Option<usize>)> {
    let reason = if trace.text(call.kind) != expected.kind.name() {
        UnmatchedReason::KindDiffers
    } else if shape_of(call) != expected.shape {
        UnmatchedReason::ShapeDiffers
    } else if trace.text(call.dtype) != expected.dtype.name() {
        UnmatchedReason::DtypeDiffers
    } else {
        return Ok(place);
    };
    Err((reason, Some(place)))
}

fn shape_of(call: &OperatorCall) -> Shape {
    Shape {
        groups: call.groups,
        m: call.m,
        n: call.n,
        k: call.k,
    }
}

fn describe_expected(expected: &Expected) -> String {
    let Shape { groups, m, n, k } = expected.shape;
    let (kind, dtype) = (expected.kind, expected.dtype);
    format!("{kind} {groups}×[m {m}, n {n}, k {k}] {dtype}")
}

fn describe_call(trace: &Trace, call: &OperatorCall) -> String {
    let Shape { groups, m, n, k } = shape_of(call);
    let (kind, dtype) = (trace.text(call.kind), trace.text(call.dtype));
    format!("{kind} {groups}×[m {m}, n {n}, k {k}] {dtype}")
}

/// A position among the calls of one window that only moves forward.
struct ScriptWalk<'s, 'm> {
    script: &'s Script<'m>,
    window: Range<usize>,
    next: usize,
}

impl<'s, 'm> ScriptWalk<'s, 'm> {
    fn new(script: &'s Script<'m>, window: Range<usize>) -> Self {
        Self {
            script,
            next: window.start,
            window,
        }
    }

    fn is_empty(&self) -> bool {
        self.window.is_empty()
    }

    /// The step that holds a call, as far as it lies in the window.
    fn step_range(&self, index: usize) -> Range<usize> {
        let step = self.script.step_around(index);
        step.start.max(self.window.start)..step.end.min(self.window.end)
    }

    /// The next call of `path`: the one that is due, a later one of the step, or the first of the next step.
    ///
    /// Nothing farther ahead is looked at, so that one call too many does not put all later steps out of order.
    fn next_call(&mut self, path: u32) -> Result<usize, UnmatchedReason> {
        let calls = &self.script.calls;
        let step = self.step_range(self.next.min(self.window.end - 1));
        let has_path = |&index: &usize| calls[index].path == path;
        let ahead = (self.next..step.end).find(has_path);
        let begins_next = (step.end < self.window.end).then_some(step.end);
        if let Some(index) = ahead.or(begins_next.filter(has_path)) {
            self.next = index + 1;
            return Ok(index);
        }
        // Behind the walk the step is searched back to its start; at a boundary that is the step just done.
        let from = if self.next == step.start && self.next > self.window.start {
            self.step_range(self.next - 1).start
        } else {
            step.start
        };
        if (from..self.next).any(|index| calls[index].path == path) {
            Err(UnmatchedReason::RanAgain)
        } else {
            Err(UnmatchedReason::NotInTheory)
        }
    }
}
