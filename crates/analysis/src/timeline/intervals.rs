//! Lengths of unions of intervals, and sums that cannot overflow.

/// Adds to a sum of times. Saturates: a broken trace may hold any time.
pub(crate) fn add_saturating(sum: &mut i64, more: i64) {
    *sum = sum.saturating_add(more);
}

/// The length of the union of half-open intervals that come in order of their starts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Union {
    length: i64,
    end: Option<i64>,
}

impl Union {
    /// Adds an interval that does not start before the ones added so far.
    pub(crate) fn add(&mut self, start: i64, end: i64) {
        let covered = self.end.unwrap_or(i64::MIN);
        let begin = start.max(covered);
        if end > begin {
            self.length = self.length.saturating_add(end.saturating_sub(begin));
            self.end = Some(end);
        } else if self.end.is_none() {
            self.end = Some(start);
        }
    }

    /// How long the union is.
    pub(crate) fn length(&self) -> i64 {
        self.length
    }
}

/// The length of the union of intervals in order of their starts.
pub(crate) fn union_length(intervals: impl IntoIterator<Item = (i64, i64)>) -> i64 {
    let mut union = Union::default();
    for (start, end) in intervals {
        union.add(start, end);
    }
    union.length()
}

#[cfg(test)]
mod tests {
    use crate::timeline::intervals::union_length;

    #[test]
    fn worked_by_hand() {
        assert_eq!(union_length([]), 0);
        assert_eq!(union_length([(5, 5)]), 0);
        // Touching, contained, overlapping, apart: 0..10, 12..16.
        assert_eq!(
            union_length([(0, 4), (4, 8), (5, 6), (7, 10), (12, 16)]),
            14
        );
    }
}
