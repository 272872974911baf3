//! Which phase a moment belongs to.

use crate::phase_analysis::PhaseAnalysis;

pub(super) struct PhaseTimes<'a> {
    /// Start, end and name, in order and without overlap.
    intervals: Vec<(i64, i64, &'a str)>,
}

impl<'a> PhaseTimes<'a> {
    /// `None` where no phases were found. Of phases that several devices have at the same time, one stands for all.
    pub(super) fn from_phases(phases: &'a [PhaseAnalysis]) -> Option<Self> {
        let mut intervals: Vec<(i64, i64, &str)> = Vec::new();
        for phase in phases {
            let Some(traced) = phase.traced.as_ref().filter(|one| !one.is_whole_trace) else {
                continue;
            };
            intervals.extend(traced.instances.iter().map(|one| {
                let end = one.start_ns.0.saturating_add(one.wall_ns.0);
                (one.start_ns.0, end, phase.name())
            }));
        }
        let times = Self::without_overlap(intervals);
        (!times.intervals.is_empty()).then_some(times)
    }

    fn without_overlap(mut intervals: Vec<(i64, i64, &'a str)>) -> Self {
        // By start, the longer first, so that only what an interval adds to those before it is kept.
        intervals.sort_by_key(|&(start, end, _)| (start, std::cmp::Reverse(end)));
        let mut covered = i64::MIN;
        intervals.retain_mut(|(start, end, _)| {
            *start = (*start).max(covered);
            covered = covered.max(*end);
            start < end
        });
        Self { intervals }
    }

    pub(super) fn name_at(&self, time: i64) -> Option<&'a str> {
        let after = self.intervals.partition_point(|one| one.0 <= time);
        let &(_, end, name) = self.intervals.get(after.checked_sub(1)?)?;
        (time < end).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_belongs_to_one_phase() {
        let devices_alike = [(10, 20, "prefill"), (20, 30, "decode"), (10, 20, "prefill")];
        let late_device = [(21, 34, "decode")];
        let intervals = devices_alike.into_iter().chain(late_device).collect();
        let times = PhaseTimes::without_overlap(intervals);
        let names = [9, 10, 19, 20, 33, 34].map(|time| times.name_at(time));
        let (prefill, decode) = (Some("prefill"), Some("decode"));
        assert_eq!(names, [None, prefill, prefill, decode, decode, None]);
    }
}
