//! Where the time of a phase went.
//!
//! Events are clipped to the phase. S is the sum of their durations, B the length of their union, W the phase:
//!
//! ```text
//! W = roofline + (kernel inefficiency) + extra + copies + communication + unattributed + idle − overlap      idle = W − B      overlap = S − B ≥ 0
//! ```
//!
//! On a CPU run events are intervals of the coordinating thread and do not overlap; on a device they are kernels, copies
//! and memory fills. All parts are whole nanoseconds and the equation holds exactly.

pub(crate) mod idle_parts;
mod unmatched_reason;

use std::collections::BTreeMap;

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_theory::roofline::OperatorRoofline;
use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use self::idle_parts::HostInterval;
pub use self::idle_parts::{
    DATA_LOADING, HOST_BUSY, HOST_SYNC, LAUNCH_CALL, LAUNCH_LATENCY, NOT_STARTED, NamedTime,
    QUEUED_GAP, UNKNOWN, UNRECORDED,
};
use self::idle_parts::{IdleSplit, from_causes, merge_parts, sort_longest_first};
pub use self::unmatched_reason::UnmatchedReason;
use crate::timeline::idle::IdleCauses;
use crate::timeline::intervals::{add_saturating, union_length};

/// The part that an event counts to. Every event is in exactly one part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EventClass {
    /// It does the work of the operator with this number in the list of rooflines.
    Matched(u32),
    /// It does what no operator of the model needs.
    Extra,
    /// It moves or fills memory.
    Copy,
    /// It exchanges data between devices.
    Communication,
    /// It belongs to nothing known.
    Unattributed(UnmatchedReason),
}

/// One interval of work and the part that it counts to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClassedEvent {
    pub(crate) start_ns: Nanos,
    pub(crate) end_ns: Nanos,
    /// When the host asked for it, where that is known.
    pub(crate) launched_ns: Option<Nanos>,
    /// The part that it belongs to.
    pub(crate) class: EventClass,
}

/// The least time of an operator, or of several that cannot be separated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Roofline {
    /// Seconds: the largest limit, summed over the operators where there are several.
    pub least: f64,
    /// The single limits, each summed.
    pub limits: OperatorRoofline,
}

impl From<OperatorRoofline> for Roofline {
    fn from(limits: OperatorRoofline) -> Self {
        Self {
            least: limits.roofline_seconds(),
            limits,
        }
    }
}

impl Roofline {
    pub fn add(&mut self, other: &OperatorRoofline) {
        self.least += other.roofline_seconds();
        self.limits.tensor += other.tensor;
        self.limits.vector += other.vector;
        self.limits.memory += other.memory;
    }
}

/// The facts that a waterfall is computed from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WaterfallInput<'a> {
    /// Begin and end of the phase.
    pub(crate) window: (Nanos, Nanos),
    /// The events of one device or of the coordinating thread, in order of their starts.
    pub(crate) events: &'a [ClassedEvent],
    /// The least times of the operators that events are matched to; absent without a device.
    pub(crate) rooflines: Option<&'a [Roofline]>,
    /// What the host did, in order of starts: it says what idle time was for.
    pub(crate) host: &'a [HostInterval],
}

/// Operators that were faster than their roofline time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct BelowRoofline {
    /// Number of operators that were faster than their roofline time.
    pub operators: u64,
    /// Sum of what they lack to their roofline times.
    pub missing_ns: Nanos,
    /// Their roofline ÷ their time, of the worst.
    pub worst_ratio: f64,
}

/// Where the time of a phase went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Waterfall {
    /// W: wall time of the phase.
    pub wall_ns: Nanos,
    /// Σ over operators with a matched event of their least time. An operator counts where its first event began. Absent
    /// without a device.
    pub roofline_ns: Option<Nanos>,
    /// kernel inefficiency: the inefficiency of kernels. Negative values are kept. Absent without a device.
    pub inefficiency_ns: Option<Nanos>,
    /// Time of events that do the work of operators.
    pub matched_ns: Nanos,
    /// Time of events that no operator needs.
    pub extra_ns: Nanos,
    /// The part of it in which nothing else ran: without them the phase is shorter by no more.
    #[serde(default)]
    pub exposed_extra_ns: Nanos,
    /// Time of copies and memory fills.
    pub copies_ns: Nanos,
    /// Time of exchange between devices.
    #[serde(default)]
    pub communication_ns: Nanos,
    /// The part of it in which nothing else ran.
    #[serde(default)]
    pub exposed_communication_ns: Nanos,
    /// Time of events that belong to nothing known.
    pub unattributed_ns: Nanos,
    /// W − B: time without events.
    pub idle_ns: Nanos,
    /// S − B: time that is counted more than once because events ran at once.
    pub overlap_ns: Nanos,
    /// B: time with at least one event.
    pub busy_ns: Nanos,
    /// S: the sum of the events' times.
    pub sum_ns: Nanos,
    /// What perfect overlap of all matched operators would leave: the largest of Σ matrix work, Σ other work, Σ bytes,
    /// each at its limit.
    pub whole_roofline_ns: Option<Nanos>,
    /// Time of events that began or were launched before the phase. Part of S.
    pub carried_in_ns: Nanos,
    /// Number of events in the phase.
    pub events: u64,
    /// Operators with a matched event.
    pub operators: u64,
    /// Operators that were faster than their roofline time.
    pub below_roofline: BelowRoofline,
    /// What idle time was for; the parts sum to it.
    pub idle: Vec<NamedTime>,
    /// Why events are unattributed; the parts sum to it.
    pub unattributed: Vec<NamedTime>,
    /// Why `extra` cannot be separated from matched work; absent where it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_abstains: Option<UnmatchedReason>,
}

impl Waterfall {
    /// The waterfall of one interval of time.
    pub(crate) fn from_events(input: &WaterfallInput<'_>) -> Self {
        let (start, end) = (input.window.0, input.window.1.max(input.window.0));
        let mut parts = WaterfallSums::default();
        let mut per_operator = vec![OperatorSum::default(); input.rooflines.map_or(0, <[_]>::len)];
        let mut without_roofline = std::collections::BTreeSet::new();
        let mut idle = IdleSplit::new(input.host);
        let mut covered = start;
        for event in input.events {
            let (from, to) = (event.start_ns.max(start), event.end_ns.min(end));
            // An event without length happened too, but only inside the phase.
            let inside = from < to || (from == to && (start..end).contains(&event.start_ns));
            if !inside {
                continue;
            }
            let time = to.0.saturating_sub(from.0);
            parts.events += 1;
            add_saturating(&mut parts.sum, time);
            if event.launched_ns.unwrap_or(event.start_ns) < start {
                add_saturating(&mut parts.carried_in, time);
            }
            match &event.class {
                EventClass::Matched(id) => {
                    add_saturating(&mut parts.matched, time);
                    match per_operator.get_mut(*id as usize) {
                        Some(operator) => {
                            add_saturating(&mut operator.time, time);
                            operator.seen = true;
                            operator.begins |= event.start_ns >= start;
                        }
                        None => {
                            without_roofline.insert(*id);
                        }
                    }
                }
                EventClass::Extra => add_saturating(&mut parts.extra, time),
                EventClass::Copy => add_saturating(&mut parts.copies, time),
                EventClass::Communication => add_saturating(&mut parts.communication, time),
                EventClass::Unattributed(reason) => {
                    let entry = parts.reasons.entry(*reason).or_default();
                    add_saturating(&mut entry.0, time);
                    entry.1 += 1;
                }
            }
            if from > covered {
                idle.add_gap(covered, from);
                add_saturating(&mut parts.idle, from.0.saturating_sub(covered.0));
            }
            covered = covered.max(to);
        }
        if end > covered {
            idle.add_gap(covered, end);
            add_saturating(&mut parts.idle, end.0.saturating_sub(covered.0));
        }
        let mut waterfall = parts.into_waterfall(end.0.saturating_sub(start.0), idle.into_parts());
        waterfall.operators = without_roofline.len() as u64;
        waterfall.take_rooflines(&per_operator, input.rooflines);
        waterfall.exposed_communication_ns = exposed_time(input, &EventClass::Communication);
        waterfall.exposed_extra_ns = exposed_time(input, &EventClass::Extra);
        waterfall
    }

    fn take_rooflines(&mut self, operators: &[OperatorSum], rooflines: Option<&[Roofline]>) {
        self.operators += operators.iter().filter(|operator| operator.seen).count() as u64;
        let Some(rooflines) = rooflines else { return };
        let mut sum = 0.0;
        let mut whole = OperatorRoofline::default();
        for (operator, roofline) in operators.iter().zip(rooflines) {
            if !operator.begins {
                continue;
            }
            sum += roofline.least;
            whole.tensor += roofline.limits.tensor;
            whole.vector += roofline.limits.vector;
            whole.memory += roofline.limits.memory;
            let least_ns = roofline.least * 1e9;
            // A clock that counts whole nanoseconds may lose one at each end.
            if least_ns > operator.time as f64 + 2.0 {
                self.below_roofline.operators += 1;
                add_saturating(
                    &mut self.below_roofline.missing_ns.0,
                    (least_ns - operator.time as f64).round() as i64,
                );
                self.below_roofline.worst_ratio = self
                    .below_roofline
                    .worst_ratio
                    .max(least_ns / (operator.time as f64).max(1.0));
            }
        }
        let roofline = Nanos::from_seconds(sum);
        self.roofline_ns = Some(roofline);
        self.inefficiency_ns = Some(Nanos(self.matched_ns.0.saturating_sub(roofline.0)));
        self.whole_roofline_ns = Some(Nanos::from_seconds(whole.roofline_seconds()));
    }

    /// The same times without what they were compared with.
    pub(crate) fn forget_rooflines(&mut self) {
        self.roofline_ns = None;
        self.inefficiency_ns = None;
        self.whole_roofline_ns = None;
        self.below_roofline = BelowRoofline::default();
    }

    /// Sums up another interval of the same phase. Both have rooflines, or the sum has none.
    pub(crate) fn add(&mut self, other: &Self) {
        let both = |a: Option<Nanos>, b: Option<Nanos>| {
            a.zip(b).map(|(a, b)| Nanos(a.0.saturating_add(b.0)))
        };
        self.roofline_ns = both(self.roofline_ns, other.roofline_ns);
        self.inefficiency_ns = both(self.inefficiency_ns, other.inefficiency_ns);
        self.whole_roofline_ns = both(self.whole_roofline_ns, other.whole_roofline_ns);
        for (sum, more) in [
            (&mut self.wall_ns, other.wall_ns),
            (&mut self.matched_ns, other.matched_ns),
            (&mut self.extra_ns, other.extra_ns),
            (&mut self.exposed_extra_ns, other.exposed_extra_ns),
            (&mut self.copies_ns, other.copies_ns),
            (&mut self.communication_ns, other.communication_ns),
            (
                &mut self.exposed_communication_ns,
                other.exposed_communication_ns,
            ),
            (&mut self.unattributed_ns, other.unattributed_ns),
            (&mut self.idle_ns, other.idle_ns),
            (&mut self.overlap_ns, other.overlap_ns),
            (&mut self.busy_ns, other.busy_ns),
            (&mut self.sum_ns, other.sum_ns),
            (&mut self.carried_in_ns, other.carried_in_ns),
            (
                &mut self.below_roofline.missing_ns,
                other.below_roofline.missing_ns,
            ),
        ] {
            add_saturating(&mut sum.0, more.0);
        }
        self.events += other.events;
        self.operators += other.operators;
        self.below_roofline.operators += other.below_roofline.operators;
        self.below_roofline.worst_ratio = self
            .below_roofline
            .worst_ratio
            .max(other.below_roofline.worst_ratio);
        merge_parts(&mut self.idle, &other.idle);
        merge_parts(&mut self.unattributed, &other.unattributed);
        if self.extra_abstains.is_none() {
            self.extra_abstains = other.extra_abstains;
        }
    }

    /// The part of the idle time that has one of these names, from 0 to 1.
    pub(crate) fn idle_part(&self, names: &[&str]) -> f64 {
        let parts = self.idle.iter();
        let named = parts.filter(|part| names.contains(&part.name.as_str()));
        let sum = named
            .map(|part| part.time_ns.0)
            .fold(0, i64::saturating_add);
        sum as f64 / self.idle_ns.0.max(1) as f64
    }

    /// The same waterfall with its idle time by the causes that a device trace shows for the same intervals.
    #[must_use]
    pub(crate) fn with_idle_causes(mut self, causes: &IdleCauses) -> Self {
        self.idle = from_causes(causes, self.idle_ns);
        self
    }

    /// The parts in the order of the equation, overlap with its minus sign. They sum to W.
    pub fn parts(&self) -> Vec<(&'static str, Nanos)> {
        let mut parts = match (self.roofline_ns, self.inefficiency_ns) {
            (Some(roofline), Some(rest)) => {
                vec![("roofline", roofline), ("kernel inefficiency", rest)]
            }
            _ => vec![("matched", self.matched_ns)],
        };
        parts.extend([
            ("overhead ops", self.extra_ns),
            ("copies", self.copies_ns),
            ("communication", self.communication_ns),
            ("unattributed", self.unattributed_ns),
            ("idle", self.idle_ns),
            ("− overlap", -self.overlap_ns),
        ]);
        parts
    }

    /// A part of the wall time as a fraction; 0 for a phase without length.
    pub fn share(&self, part: Nanos) -> f64 {
        if self.wall_ns.0 > 0 {
            part.0 as f64 / self.wall_ns.0 as f64
        } else {
            0.0
        }
    }

    /// Issues that put the waterfall in doubt.
    pub fn issues(&self, phase: &str) -> Vec<Issue> {
        let mut issues = Vec::new();
        if let Some(rest) = self.inefficiency_ns.filter(|rest| rest.0 < 0) {
            issues.push(
                Issue::warning(IssueCode::WaterfallBelowRoofline)
                    .with("phase", phase)
                    .with("matched_ns", self.matched_ns.0)
                    .with("below_ns", -rest.0),
            );
        }
        if self.below_roofline.operators > 0 {
            issues.push(
                Issue::info(IssueCode::WaterfallOperatorsBelowRoofline)
                    .with("phase", phase)
                    .with("of", self.operators)
                    .with("worst_ratio", self.below_roofline.worst_ratio)
                    .counting(self.below_roofline.operators),
            );
        }
        // Kernels may run at once: of their summed time, which they are a part of.
        let share = self.unattributed_ns.0 as f64 / self.sum_ns.0.max(1) as f64;
        if share > 0.02 {
            issues.push(
                Issue::warning(IssueCode::WaterfallUnattributed)
                    .with("phase", phase)
                    .with("share", share),
            );
        }
        issues
    }
}

/// Time in which events of one class run and nothing else does: the union of all events less that of the others.
fn exposed_time(input: &WaterfallInput<'_>, class: &EventClass) -> Nanos {
    let is_of_class = |event: &&ClassedEvent| event.class == *class;
    if !input.events.iter().any(|event| is_of_class(&event)) {
        return Nanos(0);
    }
    let (start, end) = input.window;
    let inside = |event: &ClassedEvent| (event.start_ns.max(start).0, event.end_ns.min(end).0);
    let in_window = |(start, end): &(i64, i64)| start < end;
    let all = input.events.iter().map(inside).filter(in_window);
    let others = input.events.iter().filter(|event| !is_of_class(event));
    let others = others.map(inside).filter(in_window);
    Nanos(union_length(all).saturating_sub(union_length(others)))
}

#[derive(Clone, Copy, Default)]
struct OperatorSum {
    time: i64,
    seen: bool,
    begins: bool,
}

#[derive(Default)]
struct WaterfallSums {
    events: u64,
    sum: i64,
    matched: i64,
    extra: i64,
    copies: i64,
    communication: i64,
    idle: i64,
    carried_in: i64,
    reasons: BTreeMap<UnmatchedReason, (i64, u64)>,
}

impl WaterfallSums {
    fn into_waterfall(self, wall: i64, idle: Vec<NamedTime>) -> Waterfall {
        let busy = wall.saturating_sub(self.idle);
        let mut unattributed: Vec<NamedTime> = self
            .reasons
            .into_iter()
            .map(|(reason, (time, count))| NamedTime {
                name: reason.code().to_owned(),
                time_ns: Nanos(time),
                count,
            })
            .collect();
        sort_longest_first(&mut unattributed);
        Waterfall {
            wall_ns: Nanos(wall),
            matched_ns: Nanos(self.matched),
            extra_ns: Nanos(self.extra),
            copies_ns: Nanos(self.copies),
            communication_ns: Nanos(self.communication),
            unattributed_ns: Nanos(
                unattributed
                    .iter()
                    .fold(0, |sum: i64, part| sum.saturating_add(part.time_ns.0)),
            ),
            idle_ns: Nanos(self.idle),
            overlap_ns: Nanos(self.sum.saturating_sub(busy)),
            busy_ns: Nanos(busy),
            sum_ns: Nanos(self.sum),
            carried_in_ns: Nanos(self.carried_in),
            events: self.events,
            idle,
            unattributed,
            ..Waterfall::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::waterfall::idle_parts::UNRECORDED;

    fn event(start_ns: i64, end_ns: i64, class: EventClass) -> ClassedEvent {
        ClassedEvent {
            start_ns: Nanos(start_ns),
            end_ns: Nanos(end_ns),
            launched_ns: None,
            class,
        }
    }

    fn roofline(nanos: f64) -> Roofline {
        Roofline::from(OperatorRoofline {
            tensor: nanos * 0.5e-9,
            vector: 0.0,
            memory: nanos * 1e-9,
        })
    }

    fn host(name: &str, start_ns: i64, end_ns: i64) -> HostInterval {
        HostInterval {
            name: name.to_owned(),
            start_ns: Nanos(start_ns),
            end_ns: Nanos(end_ns),
        }
    }

    /// Phase 100…200. Operator 0 runs 90…120 (20 inside, begun before: no roofline) and operator 1 120…150 (roofline 12);
    /// a copy 140…160 overlaps it by 10; extra 170…175; unattributed 175…180. B = 60 + 10, S = 20 + 30 + 20 + 5 + 5 = 80.
    #[test]
    fn worked_by_hand() {
        let events = [
            event(90, 120, EventClass::Matched(0)),
            event(120, 150, EventClass::Matched(1)),
            event(140, 160, EventClass::Copy),
            event(170, 175, EventClass::Extra),
            event(
                175,
                180,
                EventClass::Unattributed(UnmatchedReason::OutsideModules),
            ),
            event(300, 400, EventClass::Extra),
        ];
        let rooflines = [roofline(25.0), roofline(12.0)];
        let waterfall = Waterfall::from_events(&WaterfallInput {
            window: (Nanos(100), Nanos(200)),
            events: &events,
            rooflines: Some(&rooflines),
            host: &[host("tokenizer", 0, 50), host("sampling", 165, 190)],
        });
        let parts: Vec<i64> = waterfall.parts().iter().map(|(_, time)| time.0).collect();
        assert_eq!(parts, [12, 38, 5, 20, 0, 5, 30, -10]);
        assert_eq!(waterfall.wall_ns, Nanos(100));
        assert_eq!(
            (waterfall.busy_ns, waterfall.sum_ns),
            (Nanos(70), Nanos(80))
        );
        assert_eq!(waterfall.carried_in_ns, Nanos(20));
        assert_eq!((waterfall.events, waterfall.operators), (5, 2));
        assert_eq!(waterfall.whole_roofline_ns, Some(Nanos(12)));
        let idle: Vec<_> = waterfall
            .idle
            .iter()
            .map(|part| (part.name.as_str(), part.time_ns.0))
            .collect();
        // 160…165 unrecorded, 165…170 and 180…190 sampling, 190…200 unrecorded.
        assert_eq!(idle, [("sampling", 15), (UNRECORDED, 15)]);
        assert_eq!(waterfall.below_roofline.operators, 0);
    }

    #[test]
    fn less_than_the_roofline_time_is_kept_and_an_issue() {
        let events = [event(0, 10, EventClass::Matched(0))];
        let waterfall = Waterfall::from_events(&WaterfallInput {
            window: (Nanos(0), Nanos(10)),
            events: &events,
            rooflines: Some(&[roofline(15.0)]),
            host: &[],
        });
        assert_eq!(waterfall.inefficiency_ns, Some(Nanos(-5)));
        assert_eq!(waterfall.below_roofline.operators, 1);
        assert!((waterfall.below_roofline.worst_ratio - 1.5).abs() < 1e-9);
        let codes: Vec<_> = waterfall
            .issues("decode")
            .into_iter()
            .map(|issue| issue.code)
            .collect();
        assert_eq!(
            codes,
            [
                IssueCode::WaterfallBelowRoofline,
                IssueCode::WaterfallOperatorsBelowRoofline
            ]
        );
    }

    #[test]
    fn without_a_device_matched_time_is_one_part() {
        let events = [event(0, 10, EventClass::Matched(7))];
        let waterfall = Waterfall::from_events(&WaterfallInput {
            window: (Nanos(0), Nanos(20)),
            events: &events,
            ..WaterfallInput::default()
        });
        assert_eq!(waterfall.roofline_ns, None);
        assert_eq!(waterfall.parts()[0], ("matched", Nanos(10)));
        assert_eq!((waterfall.operators, waterfall.idle_ns), (1, Nanos(10)));
    }

    fn classes() -> impl Strategy<Value = EventClass> {
        prop_oneof![
            (0u32..4).prop_map(EventClass::Matched),
            Just(EventClass::Extra),
            Just(EventClass::Copy),
            prop::sample::select(UnmatchedReason::ALL.to_vec()).prop_map(EventClass::Unattributed),
        ]
    }

    fn events() -> impl Strategy<Value = Vec<ClassedEvent>> {
        prop::collection::vec((-50i64..250, 0i64..60, classes()), 0..40).prop_map(|raw| {
            let mut events: Vec<ClassedEvent> = raw
                .into_iter()
                .map(|(start, length, class)| event(start, start + length, class))
                .collect();
            events.sort_by_key(|event| event.start_ns);
            events
        })
    }

    proptest! {
        #[test]
        fn parts_sum_to_the_whole(
            events in events(),
            window in (0i64..100, 0i64..150),
            rooflines in prop::option::of(prop::collection::vec(0.0..500.0f64, 4)),
            host in prop::collection::vec((-20i64..200, 0i64..50), 0..6),
        ) {
            let window = (window.0, window.0 + window.1);
            let rooflines: Option<Vec<_>> = rooflines.map(|f| f.into_iter().map(roofline).collect());
            let mut host: Vec<_> = host.into_iter().map(|(s, l)| super::tests::host("h", s, s + l)).collect();
            host.sort_by_key(|host| host.start_ns);
            let waterfall = Waterfall::from_events(&WaterfallInput { window: (Nanos(window.0), Nanos(window.1)), events: &events, rooflines: rooflines.as_deref(), host: &host });
            let total: i64 = waterfall.parts().iter().map(|(_, time)| time.0).sum();
            prop_assert_eq!(total, window.1 - window.0);
            prop_assert_eq!(waterfall.wall_ns.0, window.1 - window.0);

            // Against single moments: busy is where some event is, the sum counts each event there.
            let inside = |t: i64| events.iter().filter(|e| e.start_ns.0 <= t && t < e.end_ns.0).count() as i64;
            let busy = (window.0..window.1).filter(|t| inside(*t) > 0).count() as i64;
            let sum: i64 = (window.0..window.1).map(inside).sum();
            prop_assert_eq!(waterfall.busy_ns.0, busy);
            prop_assert_eq!(waterfall.busy_ns.0 + waterfall.idle_ns.0, waterfall.wall_ns.0);
            prop_assert_eq!(waterfall.sum_ns.0, sum);
            prop_assert_eq!(waterfall.overlap_ns.0, sum - busy);
            let named = |parts: &[NamedTime]| parts.iter().map(|part| part.time_ns.0).sum::<i64>();
            prop_assert_eq!(named(&waterfall.idle), waterfall.idle_ns.0);
            prop_assert_eq!(named(&waterfall.unattributed), waterfall.unattributed_ns.0);
            let in_host = |t: i64| host.iter().any(|h| h.start_ns.0 <= t && t < h.end_ns.0);
            let host_idle = (window.0..window.1).filter(|t| inside(*t) == 0 && in_host(*t)).count() as i64;
            let named_idle = waterfall.idle.iter().filter(|part| part.name == "h").map(|part| part.time_ns.0).sum::<i64>();
            prop_assert_eq!(named_idle, host_idle);
        }

        /// Cutting a phase in two changes nothing but where the cut is.
        #[test]
        fn halves_sum_to_the_whole(events in events(), cut in 0i64..100) {
            let between = |start, end| Waterfall::from_events(&WaterfallInput { window: (Nanos(start), Nanos(end)), events: &events, ..WaterfallInput::default() });
            let whole = between(0, 100);
            let mut halves = between(0, cut);
            halves.add(&between(cut, 100));
            prop_assert_eq!(halves.parts(), whole.parts());
            prop_assert_eq!((halves.busy_ns, halves.sum_ns), (whole.busy_ns, whole.sum_ns));
        }

        #[test]
        fn no_times_make_it_panic(times in prop::collection::vec((any::<i64>(), any::<i64>(), classes()), 0..6), window in any::<(i64, i64)>()) {
            let mut events: Vec<ClassedEvent> = times.into_iter().map(|(s, e, class)| event(s, e, class)).collect();
            events.sort_by_key(|event| event.start_ns);
            let waterfall = Waterfall::from_events(&WaterfallInput { window: (Nanos(window.0), Nanos(window.1)), events: &events, rooflines: Some(&[roofline(1.0)]), host: &[] });
            prop_assert!(waterfall.wall_ns.0 >= 0);
            let _ = waterfall.issues("x");
        }
    }
}
