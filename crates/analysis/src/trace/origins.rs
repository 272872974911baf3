//! Device time by origin: operator, modules, annotations and phase.

use llmprof_record::trace::{StrId, Trace};
use llmprof_units::Nanos;
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::attribution::{Attribution, PathId, UnattributedReason};
use crate::phases::{EventWindows, Phases};
use crate::timeline::device_events::DeviceEvents;

/// Device time of one origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct OriginRow {
    /// The innermost operator around the launch.
    pub operator: Option<String>,
    /// The modules around the launch, outermost first.
    pub module: Option<String>,
    /// The annotations around the launch, outermost first.
    pub range: Option<String>,
    /// Name of the phase of the launch; absent outside of phases.
    pub phase: Option<String>,
    /// Why there is no operator.
    pub reason: Option<UnattributedReason>,
    /// Number of device events with this origin.
    pub events: u64,
    /// Those of them that came out of graphs.
    pub graph_events: u64,
    /// The sum of their times.
    pub total_ns: Nanos,
}

/// Origins beyond this many are summed up in one row.
const ORIGIN_ROWS_MAX: usize = 50_000;

/// The operator of the row that sums up what is beyond [`ORIGIN_ROWS_MAX`].
const OTHER_ROW: &str = "(other origins)";

/// Device time by origin, the longest first. The rows hold every event once.
pub(crate) fn origin_rows(
    trace: &Trace,
    events: &DeviceEvents,
    attribution: &Attribution,
    phases: &Phases,
    windows: &EventWindows,
) -> Vec<OriginRow> {
    #[derive(Clone, Copy, PartialEq, Eq, Hash)]
    struct OriginKey {
        operator: Option<StrId>,
        modules: PathId,
        ranges: PathId,
        phase: Option<usize>,
        reason: Option<UnattributedReason>,
    }
    #[derive(Default)]
    struct OriginSum {
        events: u64,
        graph_events: u64,
        total: i64,
    }
    let mut sums: FxHashMap<OriginKey, OriginSum> = FxHashMap::default();
    for (index, event) in events.all().iter().enumerate() {
        let operator = attribution.operator(index);
        let key = OriginKey {
            operator: operator.map(|row| trace.hosts.name[row as usize]),
            modules: attribution.modules(index),
            ranges: attribution.ranges(index),
            phase: windows
                .window_of(index)
                .map(|window| phases.windows[window].name),
            reason: attribution.reason(index),
        };
        let sum = sums.entry(key).or_default();
        sum.events += 1;
        sum.graph_events += u64::from(event.in_graph);
        sum.total = sum.total.saturating_add(event.duration());
    }
    let mut rows: Vec<OriginRow> = sums
        .into_iter()
        .map(|(key, sum)| OriginRow {
            operator: key.operator.map(|name| trace.text(name).to_owned()),
            module: attribution.text(trace, key.modules),
            range: attribution.text(trace, key.ranges),
            phase: key.phase.map(|name| phases.names[name].clone()),
            reason: key.reason,
            events: sum.events,
            graph_events: sum.graph_events,
            total_ns: Nanos(sum.total),
        })
        .collect();
    rows.sort_by(|a, b| {
        let key = |row: &OriginRow| std::cmp::Reverse(row.total_ns);
        key(a).cmp(&key(b)).then_with(|| {
            (&a.phase, &a.module, &a.range, &a.operator, a.reason).cmp(&(
                &b.phase,
                &b.module,
                &b.range,
                &b.operator,
                b.reason,
            ))
        })
    });
    if rows.len() > ORIGIN_ROWS_MAX {
        let mut other = OriginRow {
            operator: Some(OTHER_ROW.to_owned()),
            module: None,
            range: None,
            phase: None,
            reason: None,
            events: 0,
            graph_events: 0,
            total_ns: Nanos(0),
        };
        for row in rows.drain(ORIGIN_ROWS_MAX..) {
            other.events += row.events;
            other.graph_events += row.graph_events;
            other.total_ns = Nanos(other.total_ns.0.saturating_add(row.total_ns.0));
        }
        rows.push(other);
    }
    rows
}
