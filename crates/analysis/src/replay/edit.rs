//! A change of the timeline.

/// What is removed or shortened; everything else stays. Indices are those of the [`Graph`](super::Graph).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Edit {
    /// Host segments with the most they take afterwards, ns. 0 removes them with what they wait for.
    pub(super) host: Vec<(u32, i64)>,
    /// Host segments that are shorter by so many ns.
    pub(super) shortened: Vec<(u32, i64)>,
    /// Synchronizing calls that return at once.
    pub(super) unwaited: Vec<u32>,
    /// Device work with its new duration, ns.
    pub(super) device: Vec<(u32, i64)>,
    /// Device work that is not done.
    pub(super) dropped: Vec<u32>,
    /// Device work that no longer follows work of another stream.
    pub(super) unordered: Vec<u32>,
    /// Whether device work no longer waits for that of other streams.
    pub(super) is_alone: bool,
}

impl Edit {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Limits a segment to `most` ns; a limited segment no longer waits.
    pub fn limit_segment(&mut self, segment: usize, most: i64) {
        self.host.push((segment as u32, most));
    }

    /// Takes `less` ns off a segment beyond what recording costs.
    pub fn shorten_segment(&mut self, segment: usize, less: i64) {
        self.shortened.push((segment as u32, less));
    }

    pub fn drop_wait(&mut self, segment: usize) {
        self.unwaited.push(segment as u32);
    }

    pub fn set_duration(&mut self, work: usize, duration: i64) {
        self.device.push((work as u32, duration));
    }

    pub fn drop_work(&mut self, work: usize) {
        self.dropped.push(work as u32);
    }

    pub fn drop_stream_wait(&mut self, work: usize) {
        self.unordered.push(work as u32);
    }

    pub fn run_alone(&mut self) {
        self.is_alone = true;
    }
}
