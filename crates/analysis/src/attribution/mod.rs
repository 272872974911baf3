//! Which operator, module and annotation every device event belongs to.
//!
//! An event carries the correlation id of the call that launched it, and that call lies inside operators, modules and
//! ranges of its thread. Frameworks also write the id of the operator into the event; that is taken first. An event
//! whose origin is not in the trace is a row too, with the reason: the rows sum to all device time.

pub mod kernels;
pub mod key_averages;
pub(crate) mod operator_cost;
pub mod operators;

use llmprof_record::trace::{HostKind, RangeKind, StrId, ThreadId, Trace};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::timeline::device_events::{DeviceEvent, DeviceEvents};
use crate::timeline::launches::EventCalls;
use crate::timeline::nesting::{NONE, Nesting, Paths, module_name};

/// Why a device event has no operator.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum UnattributedReason {
    /// It carries neither a correlation id nor the id of an operator.
    NoCorrelation,
    /// The call that it refers to is not in the trace: the capture began later, or calls were not recorded.
    CallNotRecorded,
    /// Its launch lies outside every operator.
    OutsideOperators,
    /// The trace has no operators at all, as traces of tools below the framework do.
    NoOperatorsRecorded,
}

/// Where one device event comes from. Absent parts are [`None`] through the accessors of [`Attribution`].
#[derive(Clone, Copy, Debug)]
struct OriginIds {
    call: u32,
    operator: u32,
    modules: u32,
    ranges: u32,
    reason: Option<UnattributedReason>,
}

/// A list of nested names, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PathId(u32);

/// The origin of every device event of a trace.
pub(crate) struct Attribution {
    origins: Vec<OriginIds>,
    paths: Paths,
}

impl Attribution {
    /// Finds the origin of every event.
    pub(crate) fn from_trace(
        trace: &Trace,
        events: &DeviceEvents,
        calls: &EventCalls,
        nesting: &Nesting,
    ) -> Self {
        let mut paths = Paths::default();
        let operators = nesting.operators(trace);
        let modules = module_paths(trace, nesting, &mut paths);
        let calls: Vec<u32> = (0..events.all().len())
            .map(|index| calls.call(index).unwrap_or(NONE))
            .collect();
        let ranges = range_paths(trace, &calls, &mut paths);
        let by_id = operators_by_id(trace, events);
        let has_operators = trace.hosts.kind.contains(&HostKind::OPERATOR);
        let origin = |event: &DeviceEvent, call: u32| {
            let at = |column: &[u32]| column.get(call as usize).copied().unwrap_or(NONE);
            // ROCm repeats the correlation as the id where no call was recorded.
            let is_repeated = call == NONE && event.external == u64::from(event.correlation);
            let named = by_id.get(&event.external).filter(|_| !is_repeated);
            let named = named.copied().unwrap_or(NONE);
            let operator = if named == NONE { at(&operators) } else { named };
            // An operator without a recorded call still lies inside modules.
            let module = match (at(&modules), named) {
                (NONE, operator) if operator != NONE => modules[operator as usize],
                (module, _) => module,
            };
            let reason = match (operator, call) {
                (operator, _) if operator != NONE => None,
                (_, call) if call != NONE && has_operators => {
                    Some(UnattributedReason::OutsideOperators)
                }
                (_, call) if call != NONE => Some(UnattributedReason::NoOperatorsRecorded),
                _ if event.correlation == 0 && event.external == 0 => {
                    Some(UnattributedReason::NoCorrelation)
                }
                _ => Some(UnattributedReason::CallNotRecorded),
            };
            OriginIds {
                call,
                operator,
                modules: module,
                ranges: ranges.get(&call).copied().unwrap_or(NONE),
                reason,
            }
        };
        let origins = events
            .all()
            .iter()
            .zip(&calls)
            .map(|(event, &call)| origin(event, call))
            .collect();
        Self { origins, paths }
    }

    /// The row in [`Trace::hosts`] of the call that launched event `index`.
    pub(crate) fn call(&self, index: usize) -> Option<u32> {
        some_row(self.origins[index].call)
    }

    /// The row in [`Trace::hosts`] of the operator that launched event `index`.
    pub(crate) fn operator(&self, index: usize) -> Option<u32> {
        some_row(self.origins[index].operator)
    }

    /// The modules around the launch of event `index`, outermost first.
    pub(crate) fn modules(&self, index: usize) -> PathId {
        PathId(self.origins[index].modules)
    }

    /// The annotations around the launch of event `index`, outermost first.
    pub(crate) fn ranges(&self, index: usize) -> PathId {
        PathId(self.origins[index].ranges)
    }

    pub(crate) fn text(&self, trace: &Trace, path: PathId) -> Option<String> {
        self.paths.text(trace, path.0)
    }

    /// Why event `index` has no operator.
    pub(crate) fn reason(&self, index: usize) -> Option<UnattributedReason> {
        self.origins[index].reason
    }
}

fn some_row(index: u32) -> Option<u32> {
    (index != NONE).then_some(index)
}

/// For every host row, the path of the modules around it.
fn module_paths(trace: &Trace, nesting: &Nesting, paths: &mut Paths) -> Vec<u32> {
    let hosts = &trace.hosts;
    if !hosts.kind.contains(&HostKind::PYTHON) {
        return vec![NONE; hosts.len()];
    }
    let mut is_module: FxHashMap<StrId, bool> = FxHashMap::default();
    nesting.inherit(|row, around| {
        if hosts.kind[row] != HostKind::PYTHON {
            return around;
        }
        let name = hosts.name[row];
        let is_module = is_module
            .entry(name)
            .or_insert_with(|| module_name(trace.text(name)).is_some());
        if *is_module {
            paths.child(around, StrId::EMPTY, name)
        } else {
            around
        }
    })
}

/// The modules around one host row, outermost first, joined by `/`.
pub(crate) fn module_path(trace: &Trace, nesting: &Nesting, row: u32) -> Option<String> {
    let hosts = &trace.hosts;
    let is_python = |row: &u32| hosts.kind[*row as usize] == HostKind::PYTHON;
    let outwards = nesting.outwards(row).filter(is_python);
    let names = outwards.filter_map(|row| module_name(trace.text(hosts.name[row as usize])));
    let mut names: Vec<&str> = names.collect();
    names.reverse();
    (!names.is_empty()).then(|| names.join("/"))
}

/// Ranges may overlap without nesting: of more open ones than this, the inner ones are left out of paths.
const OPEN_RANGES_MAX: usize = 64;

/// For every launching call inside some range, the path of the ranges around it.
fn range_paths(trace: &Trace, calls: &[u32], paths: &mut Paths) -> FxHashMap<u32, u32> {
    let (hosts, ranges) = (&trace.hosts, &trace.ranges);
    let mut around = FxHashMap::default();
    if !ranges.kind.iter().any(|&kind| is_annotation(kind)) {
        return around;
    }
    let mut calls: Vec<u32> = calls.iter().copied().filter(|&call| call != NONE).collect();
    calls.sort_unstable();
    calls.dedup();
    let end = |range: usize| ranges.start[range].saturating_add(ranges.duration[range]);
    let mut open: Vec<usize> = Vec::new();
    let mut thread = ThreadId::NONE;
    let mut next = 0;
    // Both tables are sorted by thread and start: one walk over both.
    for call in calls {
        let (on, at) = (hosts.thread[call as usize], hosts.start[call as usize]);
        if on != thread {
            open.clear();
            thread = on;
        }
        while next < ranges.len() && (ranges.thread[next], ranges.start[next]) <= (on, at) {
            if ranges.thread[next] == on && is_annotation(ranges.kind[next]) {
                if open.len() >= OPEN_RANGES_MAX {
                    open.retain(|&range| end(range) > ranges.start[next]);
                }
                if open.len() < OPEN_RANGES_MAX {
                    open.push(next);
                }
            }
            next += 1;
        }
        open.retain(|&range| end(range) > at);
        let path = open.iter().fold(NONE, |path, &range| {
            paths.child(path, ranges.domain[range], ranges.name[range])
        });
        if path != NONE {
            around.insert(call, path);
        }
    }
    around
}

fn is_annotation(kind: RangeKind) -> bool {
    matches!(
        kind,
        RangeKind::ANNOTATION | RangeKind::NVTX | RangeKind::NVTX_START_END
    )
}

/// The rows of those operators to which some event refers by id.
fn operators_by_id(trace: &Trace, events: &DeviceEvents) -> FxHashMap<u64, u32> {
    let mut rows: FxHashMap<u64, u32> = events
        .all()
        .iter()
        .filter(|event| event.external != 0)
        .map(|event| (event.external, NONE))
        .collect();
    if rows.is_empty() {
        return rows;
    }
    let hosts = &trace.hosts;
    for row in 0..hosts.len() {
        if hosts.kind[row] == HostKind::OPERATOR
            && let Some(first) = rows.get_mut(&hosts.external[row])
            && *first == NONE
        {
            *first = row as u32;
        }
    }
    rows
}
