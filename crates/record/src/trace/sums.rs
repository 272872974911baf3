//! Whether the numbers of a trace can be added up.

use super::{Column, Trace};

impl Trace {
    /// Whether all events end, and all times and bytes add up, within the range of their integers: then every sum of some of
    /// them is right. A trace whose numbers are damaged may have others.
    pub fn adds_up(&self) -> bool {
        let tables: [(&Column<i64>, &Column<i64>); 6] = [
            (&self.hosts.start, &self.hosts.duration),
            (&self.kernels.start, &self.kernels.duration),
            (&self.copies.start, &self.copies.duration),
            (&self.memsets.start, &self.memsets.duration),
            (&self.ranges.start, &self.ranges.duration),
            (&self.syncs.start, &self.syncs.duration),
        ];
        let (mut first, mut last, mut total) = (i64::MAX, i64::MIN, 0_u128);
        for (starts, durations) in tables {
            for (&start, &duration) in starts.iter().zip(durations.iter()) {
                let Some(end) = start.checked_add(duration) else {
                    return false;
                };
                first = first.min(start).min(end);
                last = last.max(start).max(end);
                total += u128::from(duration.unsigned_abs());
            }
        }
        let bytes = self.copies.bytes.iter().chain(self.memsets.bytes.iter());
        let bytes: u128 = bytes.map(|&bytes| u128::from(bytes)).sum();
        let spans = first > last || last.checked_sub(first).is_some();
        spans && total <= i64::MAX as u128 && bytes <= u128::from(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Copies, Copy, Memset, Memsets};

    fn trace(times: &[(i64, i64)], bytes: &[u64]) -> Trace {
        let (mut copies, mut memsets) = (Copies::default(), Memsets::default());
        for &(start, duration) in times {
            memsets.push(Memset {
                start,
                duration,
                ..Memset::default()
            });
        }
        for &bytes in bytes {
            copies.push(Copy {
                bytes,
                ..Copy::default()
            });
        }
        Trace {
            copies,
            memsets,
            ..Trace::default()
        }
    }

    #[test]
    fn numbers_beyond_64_bits_are_noticed() {
        let most = i64::MAX;
        for (times, bytes) in [
            (&[][..], &[][..]),
            (&[(0, most)], &[u64::MAX]),
            (&[(-5, 2), (7, -3)], &[1, 2]),
        ] {
            assert!(trace(times, bytes).adds_up(), "{times:?} {bytes:?}");
        }
        for (times, bytes) in [
            (&[(1, most)][..], &[][..]),
            (&[(0, most), (0, 1)], &[]),
            (&[(i64::MIN, 0), (0, 0)], &[]),
            (&[(0, 1)], &[u64::MAX, 1]),
        ] {
            assert!(!trace(times, bytes).adds_up(), "{times:?} {bytes:?}");
        }
    }
}
