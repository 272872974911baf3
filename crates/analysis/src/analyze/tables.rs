//! The tables of a phase: operators by kind and by place, work that matched none, operators that nothing matched.

use llmprof_record::trace::StrId;
use llmprof_units::Nanos;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::analyze::phase_intervals::PhaseInterval;
use crate::analyze::tracing::TraceContext;
use crate::matching::groups::{GroupSums, OperatorGroup};
use crate::matching::kernel_table::WorkGroup;
use crate::matching::units::MatchVerdict;
use crate::matching::unmatched::{MissingOperator, UnmatchedOperator, UnmatchedReason};

#[derive(Default)]
struct TableSums {
    units: FxHashSet<u32>,
    kinds: GroupSums,
    paths: GroupSums,
    calls: u64,
    unmatched: FxHashMap<(StrId, UnmatchedReason), (usize, u64, i64)>,
}

/// The tables of a phase.
pub(crate) struct Tables {
    pub(crate) calls: u64,
    pub(crate) by_kind: Vec<OperatorGroup>,
    pub(crate) by_path: Vec<OperatorGroup>,
    pub(crate) unmatched: Vec<UnmatchedOperator>,
    pub(crate) missing: Vec<MissingOperator>,
}

impl TraceContext<'_> {
    /// What the events of these intervals add up to.
    pub(crate) fn tables(&self, included: &[&PhaseInterval], number: usize, wall: i64) -> Tables {
        let lane = &self.lanes[number];
        let mut sums = TableSums::default();
        for interval in included {
            for index in lane.items_around(interval.window()) {
                let (item, verdict) = (&lane.items[index], &self.matching.verdicts[number][index]);
                if !lane.counts_in(item, interval.window) {
                    continue;
                }
                let Some(time) = item.time_inside(interval.window()) else {
                    continue;
                };
                match *verdict {
                    MatchVerdict::Copy | MatchVerdict::Communication => {}
                    MatchVerdict::Unit(unit) => self.add_unit(&mut sums, unit, time),
                    MatchVerdict::Unmatched(reason) => {
                        let key = (item.name, reason);
                        let entry = sums.unmatched.entry(key).or_insert((index, 0, 0));
                        entry.1 += u64::from(item.begins);
                        entry.2 = i64::saturating_add(entry.2, time);
                    }
                }
            }
        }
        let missing = self.missing(included, &sums, lane.is_exact);
        let mut unmatched: Vec<UnmatchedOperator> = sums
            .unmatched
            .into_iter()
            .map(|((name, reason), (first, calls, time))| {
                let mismatch = self.matching.mismatches.get(&first);
                let category = || lane.items[first].category.name().to_owned();
                UnmatchedOperator {
                    path: self.trace.text(name).to_owned(),
                    reason,
                    found: mismatch.map_or_else(category, |mismatch| mismatch.found.clone()),
                    expected: mismatch.and_then(|mismatch| mismatch.expected.clone()),
                    calls,
                    time_ns: Nanos(time),
                }
            })
            .collect();
        unmatched.sort_by(|a, b| {
            b.time_ns
                .cmp(&a.time_ns)
                .then_with(|| (&a.path, a.reason).cmp(&(&b.path, b.reason)))
        });
        let script = self.theory.as_ref().map(|(_, counted)| &counted.script);
        let group_name = |number: u32| group_of(number).map(|group| group.name().to_owned());
        Tables {
            calls: sums.calls,
            by_kind: sums.kinds.into_groups(wall, |number, kind| {
                group_name(number).unwrap_or_else(|| kind.name().to_owned())
            }),
            by_path: sums.paths.into_groups(wall, |number, kind| {
                group_name(number)
                    .or_else(|| Some(script?.place_text(number).to_owned()))
                    .unwrap_or_else(|| kind.name().to_owned())
            }),
            unmatched,
            missing,
        }
    }

    /// Adds an event of a unit; the unit's work the first time.
    fn add_unit(&self, sums: &mut TableSums, number: u32, time: i64) {
        let Some((_, counted)) = &self.theory else {
            return;
        };
        let unit = &self.matching.units[number as usize];
        // In a window in which nothing is counted there is nothing to compare the time with.
        if unit.calls.is_empty() {
            return;
        }
        if sums.units.insert(number) {
            sums.calls += unit.calls.len() as u64;
            for &index in &unit.calls {
                let call = &counted.script.calls[index as usize];
                if let Some(group) = unit.group {
                    sums.kinds
                        .add_work(group_number(group), group.typical_kind(), call);
                    sums.paths
                        .add_work(group_number(group), group.typical_kind(), call);
                } else {
                    sums.kinds.add_work(call.kind as u32, call.kind, call);
                    sums.paths.add_work(call.place, call.kind, call);
                }
            }
        }
        match (unit.group, unit.calls.first()) {
            (Some(group), _) => {
                sums.kinds
                    .add_time(group_number(group), group.typical_kind(), time);
                sums.paths
                    .add_time(group_number(group), group.typical_kind(), time);
            }
            (None, Some(&index)) => {
                let call = &counted.script.calls[index as usize];
                sums.kinds.add_time(call.kind as u32, call.kind, time);
                sums.paths.add_time(call.place, call.kind, time);
            }
            (None, None) => {}
        }
    }

    /// Calls of the intervals that no event was matched to. A call of a known operator that differs from what theory counts
    /// did run; known operators are named by path, others by place.
    fn missing(
        &self,
        included: &[&PhaseInterval],
        sums: &TableSums,
        is_exact: bool,
    ) -> Vec<MissingOperator> {
        let Some((_, counted)) = &self.theory else {
            return Vec::new();
        };
        let mut met = vec![false; counted.script.calls.len()];
        for &unit in &sums.units {
            for &call in &self.matching.units[unit as usize].calls {
                met[call as usize] = true;
            }
        }
        for mismatch in self.matching.mismatches.values() {
            if let Some(place) = mismatch.place {
                met[place] = true;
            }
        }
        let script = &counted.script;
        let mut missed: FxHashMap<u32, u64> = FxHashMap::default();
        for interval in included {
            let calls = counted.windows.get(&interval.window).cloned();
            for index in calls.unwrap_or_default() {
                if !met[index] {
                    let call = &script.calls[index];
                    let name = if is_exact { call.path } else { call.place };
                    *missed.entry(name).or_default() += 1;
                }
            }
        }
        let mut missing: Vec<MissingOperator> = missed
            .into_iter()
            .map(|(name, calls)| MissingOperator {
                path: if is_exact {
                    script.path_text(name).to_owned()
                } else {
                    script.place_text(name).to_owned()
                },
                calls,
            })
            .collect();
        missing.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.path.cmp(&b.path)));
        missing
    }
}

/// The number of a group among the rows of a table, where places of the model have numbers from 0.
fn group_number(group: WorkGroup) -> u32 {
    u32::MAX - group as u32
}

/// The group of such a number; none for that of a place.
fn group_of(number: u32) -> Option<WorkGroup> {
    WorkGroup::ALL.get((u32::MAX - number) as usize).copied()
}
