//! When recording was on, and which kernels of graphs it holds.
//!
//! A graph that still runs when recording stops is a trap: CUPTI reads the times of its nodes where the next launch of the
//! same graph writes its own, so that a kernel of a microsecond can seem to end 200 ms later (seen with CUDA 13.0 on an H200,
//! in two of sixty slices). What was not done by then is left out.

/// The times in which was recorded.
#[derive(Default)]
pub(super) struct Edges {
    /// Since when, if it is now.
    since: Option<i64>,
    /// From when to when before.
    before: Vec<(i64, i64)>,
}

impl Edges {
    pub(super) fn begin(&mut self, time: i64) {
        self.since = Some(time);
    }

    pub(super) fn end(&mut self, time: i64) {
        if let Some(since) = self.since.take() {
            self.before.push((since, time));
        }
    }

    /// Whether what began and ended then was done before recording stopped. Of a file in which it never did, everything was.
    pub(super) fn hold(&self, start: i64, end: i64) -> bool {
        if self.since.is_some_and(|since| start >= since) {
            return true;
        }
        let later = self.before.partition_point(|&(since, _)| since <= start);
        match later.checked_sub(1).map(|last| self.before[last]) {
            Some((_, until)) => end <= until,
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Edges;

    #[test]
    fn what_was_done_in_time_is_held() {
        let mut edges = Edges::default();
        assert!(edges.hold(5, 6));
        edges.begin(10);
        assert!(edges.hold(11, 1000) && edges.hold(9, 12));
        edges.end(20);
        assert!(edges.hold(11, 20) && !edges.hold(11, 21) && !edges.hold(21, 22));
        edges.begin(30);
        assert!(edges.hold(30, 35) && !edges.hold(19, 35) && !edges.hold(25, 26));
        edges.end(40);
        assert!(edges.hold(31, 40) && edges.hold(12, 13) && !edges.hold(12, 35));
    }
}
