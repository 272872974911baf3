//! How much processor time other programs take.

/// Processor time of all programs and of this one, in ticks of the kernel; none where it does not say.
pub(super) fn cpu_ticks() -> Option<(u64, u64)> {
    let all = std::fs::read_to_string("/proc/stat").ok()?;
    let own = std::fs::read_to_string("/proc/self/stat").ok()?;
    Some((busy_ticks(&all)?, own_ticks(&own)?))
}

/// The sum of user, nice, system, irq, softirq and steal in the first line of `/proc/stat`.
fn busy_ticks(text: &str) -> Option<u64> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let values: Vec<u64> = line
        .split_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    // Idle and waiting for disks stand between them.
    let counted = values
        .iter()
        .take(8)
        .enumerate()
        .filter(|(place, _)| !matches!(place, 3 | 4));
    Some(counted.map(|(_, ticks)| ticks).sum())
}

/// User and system time in `/proc/self/stat`, after the name, which may hold anything.
fn own_ticks(text: &str) -> Option<u64> {
    let mut words = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut word = || words.next()?.parse::<u64>().ok();
    Some(word()? + word()?)
}

/// The processor time of others as a part of ours, between two readings.
pub(super) fn share_of_others(before: (u64, u64), after: (u64, u64)) -> Option<f64> {
    let own = after.1.checked_sub(before.1).filter(|own| *own > 0)?;
    let all = after.0.checked_sub(before.0)?;
    Some(all.saturating_sub(own) as f64 / own as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_other_programs_is_separate_from_ours() {
        // user nice system idle iowait irq softirq steal guest
        let stat = "cpu  100 10 20 9999 500 3 4 5 70 0\ncpu0 1 1 1 1\n";
        assert_eq!(busy_ticks(stat), Some(142));
        let own = "42 (a b) c) R 1 42 42 0 -1 4194304 1 2 3 4 30 12 0 0 20 0 1 0 5";
        assert_eq!(own_ticks(own), Some(42));
        assert_eq!(share_of_others((142, 42), (292, 142)), Some(0.5));
        // The two are read one after the other: we may seem to have more than all.
        assert_eq!(share_of_others((142, 42), (240, 142)), Some(0.0));
        assert_eq!(share_of_others((142, 42), (142, 42)), None);
        assert!(cpu_ticks().is_some_and(|(all, own)| all >= own));
    }
}
