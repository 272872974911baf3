//! What ran, when: one event per operator call, in a buffer that is allocated before anything runs.

use llmprof_theory::{Kind, Path, Shape};
use llmprof_units::DType;
use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the system's monotonic clock, which all processes of the machine share.
pub fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    (time.tv_sec as u64).wrapping_mul(1_000_000_000) + time.tv_nsec as u64
}

/// What an operator of the loaded model is. Events name it by its index in [`NativeEngine::operators`](crate::NativeEngine::operators).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperatorInfo {
    pub kind: Kind,
    /// Where it stands; made into text only when somebody reads it.
    pub path: Path<'static>,
    /// The format that is multiplied.
    pub dtype: DType,
    /// The format that its weights are stored in, where it has some.
    pub weights: Option<DType>,
}

/// One call of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperatorEvent {
    /// When it began, on the clock of [`now_ns`].
    pub start_ns: u64,
    pub end_ns: u64,
    /// Independent problems of the same size.
    pub groups: u32,
    pub m: u32,
    pub n: u32,
    pub k: u32,
    pub operator: u32,
    /// For experts: how many distinct ones the tokens reached. 0 for others.
    pub touched: u32,
}

impl OperatorEvent {
    /// The size of the call as theory states it.
    pub fn shape(&self) -> Shape {
        Shape {
            groups: self.groups.into(),
            m: self.m.into(),
            n: self.n.into(),
            k: self.k.into(),
        }
    }
}

/// Takes events. It never allocates while a model runs: events beyond its capacity are counted as dropped.
#[derive(Debug, Default)]
pub struct Recorder {
    events: Vec<OperatorEvent>,
    dropped: u64,
    on: bool,
}

impl Recorder {
    /// A recorder for `capacity` events.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            events: Vec::with_capacity(capacity),
            dropped: 0,
            on: true,
        }
    }

    /// A recorder that keeps nothing and does not read the clock.
    pub fn off() -> Self {
        Self::default()
    }

    pub fn events(&self) -> &[OperatorEvent] {
        &self.events
    }

    /// Number of events dropped because the recorder was full.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Forgets the events, keeps the room.
    pub fn clear_events(&mut self) {
        self.events.clear();
        self.dropped = 0;
    }

    /// The start of an operator.
    #[inline]
    pub fn start_operator(&self) -> u64 {
        if self.on { now_ns() } else { 0 }
    }

    /// The end of an operator that began at `start_ns`.
    #[inline]
    pub fn end_operator(&mut self, operator: u32, start_ns: u64, shape: [usize; 4]) {
        self.end_touching(operator, start_ns, shape, 0);
    }

    /// As [`end_operator`](Self::end_operator), with the number of experts reached. `shape` is groups, m, n, k.
    #[inline]
    pub(crate) fn end_touching(
        &mut self,
        operator: u32,
        start_ns: u64,
        [groups, m, n, k]: [usize; 4],
        touched: u32,
    ) {
        if !self.on {
            return;
        }
        if self.events.len() == self.events.capacity() {
            self.dropped += 1;
            return;
        }
        self.events.push(OperatorEvent {
            start_ns,
            end_ns: now_ns(),
            groups: groups as u32,
            m: m as u32,
            n: n as u32,
            k: k as u32,
            operator,
            touched,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_beyond_the_room_are_counted_not_kept() {
        let mut recorder = Recorder::with_capacity(2);
        let room = recorder.events.capacity();
        for operator in 0..room as u32 + 3 {
            let start = recorder.start_operator();
            recorder.end_operator(operator, start, [1, 2, 3, 4]);
        }
        assert_eq!(recorder.events().len(), room);
        assert_eq!(recorder.dropped(), 3);
        assert!(recorder.events()[0].end_ns >= recorder.events()[0].start_ns);
        recorder.clear_events();
        assert_eq!((recorder.events().len(), recorder.dropped()), (0, 0));
    }

    #[test]
    fn a_recorder_that_is_off_keeps_nothing() {
        let mut recorder = Recorder::off();
        let start = recorder.start_operator();
        recorder.end_operator(0, start, [1; 4]);
        assert!(recorder.events().is_empty());
        assert_eq!(recorder.dropped(), 0);
    }
}
