//! Which windows of a phase are looked at and replayed, where it has many that are alike.

use crate::thresholds::{
    REPLAY_ERROR_MAX_SHARE, REPLAYED_EVENTS_MAX, REPLAYED_RUN_WINDOWS_MIN, REPLAYED_RUNS_MAX,
    REPLAYED_WINDOWS_MAX, REPLAYED_WINDOWS_MIN,
};
use std::ops::Range;

use llmprof_record::trace::Hosts;

use crate::replay::HostWindow;

/// The windows that stand for all, in order: all of them where they are few, or where no smaller number of them takes as long on
/// average as they do, to the error that a replay may have.
pub(super) fn choose_windows(hosts: &Hosts, windows: &[HostWindow]) -> Vec<HostWindow> {
    let events = events_in(hosts, windows) / windows.len().max(1);
    let mut count =
        (REPLAYED_EVENTS_MAX / events.max(1)).clamp(REPLAYED_WINDOWS_MIN, REPLAYED_WINDOWS_MAX);
    let length = mean_length(windows);
    while 2 * count <= windows.len() {
        let chosen: Vec<HostWindow> = spread_runs(windows.len(), count)
            .flat_map(|run| &windows[run])
            .copied()
            .collect();
        if (mean_length(&chosen) - length).abs() <= REPLAY_ERROR_MAX_SHARE * length {
            return chosen;
        }
        count *= 2;
    }
    windows.to_vec()
}

/// Runs of `count` of `all` windows together, in the middle of equal parts.
fn spread_runs(all: usize, count: usize) -> impl Iterator<Item = Range<usize>> {
    let length = (count / REPLAYED_RUNS_MAX).max(REPLAYED_RUN_WINDOWS_MIN);
    let number = (count / length).max(1);
    (0..number).map(move |run| {
        let part = run * all / number..(run + 1) * all / number;
        let start = part.start + (part.len() - length) / 2;
        start..start + length
    })
}

fn mean_length(windows: &[HostWindow]) -> f64 {
    let lengths = windows
        .iter()
        .map(|window| (window.end - window.start) as f64);
    lengths.sum::<f64>() / windows.len().max(1) as f64
}

/// Host events that begin in windows. Rows of a thread lie together, in order of time.
fn events_in(hosts: &Hosts, windows: &[HostWindow]) -> usize {
    let threads = hosts.thread.chunk_by(|a, b| a == b);
    let mut first = 0;
    threads
        .map(|rows| {
            let starts = &hosts.start[first..first + rows.len()];
            first += rows.len();
            let before = |time: i64| starts.partition_point(|&start| start < time);
            let counts = windows
                .iter()
                .map(|window| before(window.end) - before(window.start));
            counts.sum::<usize>()
        })
        .sum()
}

/// Stretches of neighbouring windows that were chosen; `None` where all were.
pub(super) fn joined_parts<'a>(
    all: impl Iterator<Item = &'a HostWindow>,
    chosen: impl ExactSizeIterator<Item = HostWindow>,
) -> Option<Vec<HostWindow>> {
    let mut all: Vec<HostWindow> = all.copied().collect();
    if chosen.len() == all.len() {
        return None;
    }
    all.sort_by_key(|window| window.start);
    let mut parts: Vec<(HostWindow, usize)> = Vec::new();
    for window in chosen {
        let place = all.partition_point(|one| one.start < window.start);
        match parts.last_mut() {
            Some((part, last)) if place <= *last + 1 => {
                part.end = part.end.max(window.end);
                *last = place;
            }
            _ => parts.push((window, place)),
        }
    }
    Some(parts.into_iter().map(|(part, _)| part).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(lengths: impl Iterator<Item = i64>) -> Vec<HostWindow> {
        let mut start = 0;
        lengths
            .map(|length| {
                start += length;
                HostWindow {
                    start: start - length,
                    end: start,
                }
            })
            .collect()
    }

    fn chosen(windows: &[HostWindow]) -> Vec<HostWindow> {
        choose_windows(&Hosts::default(), windows)
    }

    #[test]
    fn few_windows_are_all_chosen() {
        let few = windows((0..2 * REPLAYED_WINDOWS_MAX as i64 - 1).map(|_| 10));
        assert_eq!(chosen(&few), few);
        assert_eq!(joined_parts(few.iter(), few.iter().copied()), None);
    }

    #[test]
    fn of_many_windows_runs_over_the_whole_phase_are_chosen() {
        // Steps take longer as the context grows.
        let many = windows((0..1_000).map(|step| 1_000 + step));
        let some = chosen(&many);
        assert_eq!(some.len(), REPLAYED_WINDOWS_MAX);
        let parts = joined_parts(many.iter(), some.iter().copied()).unwrap();
        assert_eq!(parts.len(), REPLAYED_RUNS_MAX);
        assert!(
            many[..125]
                .iter()
                .any(|window| window.start == parts[0].start)
        );
        assert!(many[875..].iter().any(|window| window.end == parts[7].end));
    }

    /// Every hundredth step takes 100 times as long: no few steps stand for all.
    #[test]
    fn rare_long_windows_are_not_left_out() {
        let many = windows((0..1_000).map(|step| if step % 100 == 7 { 10_000 } else { 100 }));
        let some = chosen(&many);
        let error = mean_length(&some) / mean_length(&many) - 1.0;
        assert!(error.abs() <= REPLAY_ERROR_MAX_SHARE, "{error}");
    }

    #[test]
    fn windows_with_many_events_are_fewer() {
        let many = windows((0..1_000).map(|_| 100));
        let mut hosts = Hosts::default();
        let starts = (0..REPLAYED_EVENTS_MAX as i64).flat_map(|row| [row % 100_000, row % 100_000]);
        let mut starts: Vec<i64> = starts.collect();
        starts.sort_unstable();
        for start in starts {
            hosts.push(llmprof_record::trace::Host {
                start,
                ..Default::default()
            });
        }
        // 400 events a window, and 10,000.
        assert_eq!(choose_windows(&hosts, &many).len(), REPLAYED_WINDOWS_MAX);
        let long = windows((0..40).map(|_| 2_500));
        assert_eq!(choose_windows(&hosts, &long).len(), 20);
    }
}
