//! When CUPTI may detach from a process: the state machine, without the actions.
//!
//! Detaching CUPTI frees what its records point to, so all records must have been read before; and it is safe only at the
//! end of a CUDA call, on the thread that made it. Hence three parties: the thread that stops recording, our thread, which
//! reads, and the target's threads, whose CUDA calls end.
//!
//! ```text
//!              stopped             our thread looks          nothing is left          a call ends
//!   Attached ─────────► Detaching ────────────────► Draining ───────────────► Ready ─────────────► Detached
//!     ▲                   ▲ └── not yet: again after PAUSE ─┘                   │                     │
//!     ├───────────────────┴─────── wanted again: from any of these ─────────────┘                     │
//!     └────────────────────────────── wanted again: subscribes again ─────────────────────────────────┘
//! ```
//!
//! A flush returns the buffers with complete records; if CUPTI keeps no buffer after it, nothing is left. CUPTI may keep an
//! empty buffer, so a forced flush follows [`WAIT_GRACE_NS`] after the target synchronized with its device, or when
//! [`Patience`] runs out. The synchronization may have been for one stream of several: once kernels were lost that way, such
//! waits only wake our thread.

use super::calls::Wait;

/// How long after a slice we wait for the target to synchronize with its device. After that its kernels are assumed to have
/// ended. If some had not, the next wait is longer: the device may be far behind the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Patience {
    time: i64,
    /// Whether a wait for one stream is taken to mean that the device is idle.
    trusts_waits: bool,
}

impl Patience {
    const PATIENCE_MIN_NS: i64 = 50_000_000;
    /// A host runs ahead of its device by about a thousand launches, which take this long in a large prefill.
    const PATIENCE_START_NS: i64 = 800_000_000;
    const PATIENCE_MAX_NS: i64 = 1_600_000_000;

    /// Kernels were still running at the forced flush.
    pub(super) fn grow(&mut self) {
        self.time = (4 * self.time).min(Self::PATIENCE_MAX_NS);
        self.trusts_waits = false;
    }

    /// No kernel was running any more: waiting was unnecessary.
    pub(super) fn shrink(&mut self) {
        self.time = (self.time / 2).max(Self::PATIENCE_MIN_NS);
        self.trusts_waits |= self.time == Self::PATIENCE_MIN_NS;
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            time: Self::PATIENCE_START_NS,
            trusts_waits: true,
        }
    }
}

/// Minimum time between two flushes of our thread.
const LOOK_INTERVAL_NS: i64 = 5_000_000;

/// Time that CUPTI needs after a synchronization to know the times of the kernels before it: right after one, kernels of the
/// last 90 ms had no times on an H200.
const WAIT_GRACE_NS: i64 = 20_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detach {
    /// CUPTI is attached, and records or was not asked to detach.
    Attached,
    /// Recording has stopped; recorded kernels may still run on the device. Our thread flushes at intervals until its
    /// patience runs out.
    Detaching {
        limit: Limit,
        looked: i64,
        look: i64,
    },
    /// Our thread reads what CUPTI holds.
    Draining(Limit),
    /// Everything was read. The next CUDA call that ends detaches CUPTI.
    Ready,
    /// No function of CUPTI may be called except the one that subscribes.
    Detached,
}

/// When a forced flush is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    since: i64,
    until: i64,
    /// Or after a wait for one stream.
    trusts_waits: bool,
}

/// What to do at the end of a CUDA call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passing {
    Nothing,
    /// Wake our thread: it may flush.
    Wake,
    Detach,
}

/// What our thread should flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drain {
    /// Complete records only; afterwards it shows whether something is left.
    Whole,
    All,
}

impl Detach {
    /// Whether CUPTI may be called.
    pub(super) fn is_present(self) -> bool {
        self != Self::Detached
    }

    /// Whether CUPTI is about to be detached, with costs to come.
    pub(super) fn is_under_way(self) -> bool {
        !matches!(self, Self::Attached | Self::Detached)
    }

    /// Recording has stopped and CUPTI is to be detached.
    pub(super) fn begin_detach(&mut self, now: i64, patience: Patience) {
        if self.is_present() {
            let limit = Limit {
                since: now,
                until: now + patience.time,
                trusts_waits: patience.trusts_waits,
            };
            *self = Self::Detaching {
                limit,
                looked: now,
                look: now,
            };
        }
    }

    /// A CUDA call of the target ends that waited for this.
    pub(super) fn call_ends(&mut self, now: i64, waited: Option<Wait>) -> Passing {
        match (&mut *self, waited) {
            (Self::Detaching { limit, look, .. }, Some(wait))
                if limit.trusts_waits || wait == Wait::Device =>
            {
                // The first one counts.
                let until = now + WAIT_GRACE_NS;
                if until >= limit.until {
                    return Passing::Nothing;
                }
                (limit.since, limit.until) = (now, until);
                *look = now;
                Passing::Wake
            }
            (
                Self::Detaching {
                    limit,
                    looked,
                    look,
                },
                Some(_),
            ) => {
                // Programs may wait all the time.
                let soon = *looked + LOOK_INTERVAL_NS;
                if soon >= limit.until.min(*look) {
                    return Passing::Nothing;
                }
                *look = soon;
                Passing::Wake
            }
            (Self::Ready, _) => Passing::Detach,
            _ => Passing::Nothing,
        }
    }

    /// When our thread should flush next.
    pub(super) fn next(self) -> Option<i64> {
        match self {
            Self::Detaching { limit, look, .. } => Some(look.min(limit.until)),
            _ => None,
        }
    }

    pub(super) fn next_drain(&mut self, now: i64) -> Option<Drain> {
        self.next().filter(|&time| now >= time)?;
        let (limit, drain) = match *self {
            Self::Detaching { limit, .. } if now < limit.until => (limit, Drain::Whole),
            _ => {
                let limit = Limit {
                    since: now,
                    until: now,
                    trusts_waits: true,
                };
                (limit, Drain::All)
            }
        };
        *self = Self::Draining(limit);
        Some(drain)
    }

    /// Our thread has read what it flushed. Returns true if nothing is left and CUPTI is ready to detach; false if recording
    /// was switched on meanwhile.
    pub(super) fn finish_drain(&mut self, now: i64, is_left: bool) -> bool {
        let Self::Draining(limit) = *self else {
            return false;
        };
        *self = if is_left {
            // The longer it takes, the less often.
            let look = now + LOOK_INTERVAL_NS.max((now - limit.since) / 4);
            Self::Detaching {
                limit,
                looked: now,
                look,
            }
        } else {
            Self::Ready
        };
        !is_left
    }

    /// A buffer came after everything was read.
    pub(super) fn found_more(&mut self, now: i64) {
        let limit = Limit {
            since: now,
            until: now + WAIT_GRACE_NS,
            trusts_waits: true,
        };
        *self = Self::Detaching {
            limit,
            looked: now,
            look: now,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Option<Wait> = Some(Wait::Part);

    #[test]
    fn what_is_whole_is_read_and_then_a_call_ends() {
        let mut detach = Detach::Attached;
        assert_eq!(detach.call_ends(999, WAIT), Passing::Nothing);
        detach.begin_detach(1000, Patience::default());
        assert_eq!(detach.call_ends(1000, None), Passing::Nothing);
        assert_eq!(detach.next_drain(1000), Some(Drain::Whole));
        // Until our thread has read, calls pass.
        assert_eq!(detach.call_ends(1000, WAIT), Passing::Nothing);
        assert!(detach.finish_drain(1001, false));
        assert_eq!(detach.call_ends(1001, None), Passing::Detach);
    }

    #[test]
    fn what_is_not_whole_is_taken_after_a_wait() {
        let mut detach = Detach::Attached;
        detach.begin_detach(1000, Patience::default());
        assert_eq!(detach.next_drain(1000), Some(Drain::Whole));
        assert!(!detach.finish_drain(1001, true));
        assert_eq!(detach.next_drain(1002), None);
        assert_eq!(
            detach.next_drain(1001 + LOOK_INTERVAL_NS),
            Some(Drain::Whole)
        );
        assert!(!detach.finish_drain(1002 + LOOK_INTERVAL_NS, true));
        let mut now = 1003 + LOOK_INTERVAL_NS;
        let until = now + WAIT_GRACE_NS;
        assert_eq!(detach.call_ends(now, WAIT), Passing::Wake);
        // CUPTI may hear of it later than the program. Other waits add nothing.
        let mut looks = 0;
        while detach.next_drain(now) == Some(Drain::Whole) {
            assert!(!detach.finish_drain(now, true));
            assert_eq!(detach.call_ends(now + 1, WAIT), Passing::Nothing);
            now = detach.next().expect("it looks again");
            looks += 1;
        }
        assert_eq!((now, looks), (until, 4));
        assert!(detach.finish_drain(now, false));
        assert_eq!(detach.call_ends(now, WAIT), Passing::Detach);
    }

    #[test]
    fn what_is_whole_soon_after_a_wait_is_not_taken_by_force() {
        let mut detach = Detach::Attached;
        detach.begin_detach(0, Patience::default());
        let late = 400_000_000;
        assert_eq!(detach.next_drain(late), Some(Drain::Whole));
        assert!(!detach.finish_drain(late, true));
        assert_eq!(detach.call_ends(late + 1, WAIT), Passing::Wake);
        assert_eq!(detach.next_drain(late + 1), Some(Drain::Whole));
        assert!(!detach.finish_drain(late + 2, true));
        assert_eq!(
            detach.next_drain(late + 2 + LOOK_INTERVAL_NS),
            Some(Drain::Whole)
        );
        assert!(detach.finish_drain(late + 3 + LOOK_INTERVAL_NS, false));
        assert_eq!(
            detach.call_ends(late + 4 + LOOK_INTERVAL_NS, None),
            Passing::Detach
        );
    }

    #[test]
    fn a_program_that_never_waits_is_left_later() {
        let mut detach = Detach::Attached;
        detach.begin_detach(1000, Patience::default());
        let mut now = 1000;
        while detach.next_drain(now) == Some(Drain::Whole) {
            assert!(!detach.finish_drain(now, true));
            now = detach.next().expect("it looks again");
        }
        assert_eq!(now, 1000 + Patience::PATIENCE_START_NS);
        assert!(detach.finish_drain(now, false));
        assert_eq!(detach.next(), None);
        assert_eq!(detach.call_ends(now, None), Passing::Detach);
    }

    #[test]
    fn patience_shrinks_and_grows_and_ends() {
        let mut patience = Patience::default();
        for expected in [400, 200, 100, 50, 50] {
            patience.shrink();
            assert_eq!(patience.time, expected * 1_000_000);
        }
        for expected in [200, 800, 1600, 1600] {
            patience.grow();
            assert_eq!(patience.time, expected * 1_000_000);
        }
        let mut detach = Detach::Attached;
        detach.begin_detach(0, patience);
        let (mut now, mut looks) = (0, 0);
        while detach.next_drain(now) == Some(Drain::Whole) {
            assert!(!detach.finish_drain(now, true));
            now = detach.next().expect("it looks again");
            looks += 1;
        }
        assert_eq!(now, patience.time);
        assert!((20..40).contains(&looks), "{looks}");
    }

    #[test]
    fn a_wait_for_a_stream_is_no_end_once_kernels_were_lost() {
        let mut patience = Patience::default();
        (0..4).for_each(|_| patience.shrink());
        patience.grow();
        patience.grow();
        let mut detach = Detach::Attached;
        detach.begin_detach(0, patience);
        let (mut now, mut looks) = (0, 0);
        while detach.next_drain(now) == Some(Drain::Whole) {
            assert!(!detach.finish_drain(now, true));
            // Waits make it look sooner, but not all the time.
            let is_late = detach.next() > Some(now + LOOK_INTERVAL_NS);
            assert_eq!(detach.call_ends(now, WAIT) == Passing::Wake, is_late);
            assert_eq!(detach.call_ends(now, WAIT), Passing::Nothing);
            let next = detach.next().expect("it looks again");
            assert!(next == now + LOOK_INTERVAL_NS || next == patience.time);
            now = next;
            looks += 1;
        }
        assert_eq!((now, looks), (patience.time, 160));
        // One for the device is.
        detach.begin_detach(0, patience);
        assert_eq!(detach.call_ends(1, Some(Wait::Device)), Passing::Wake);
        assert_eq!(detach.next_drain(1 + WAIT_GRACE_NS), Some(Drain::All));
        // When it was in vain often enough, any is again.
        (0..4).for_each(|_| patience.shrink());
        detach.begin_detach(0, patience);
        assert_eq!(detach.call_ends(1, WAIT), Passing::Wake);
        assert_eq!(detach.next_drain(1 + WAIT_GRACE_NS), Some(Drain::All));
    }

    #[test]
    fn a_slice_that_begins_meanwhile_calls_it_off() {
        // While our thread reads, a slice begins and ends: what it recorded has not been read.
        let mut detach = Detach::Attached;
        detach.begin_detach(1000, Patience::default());
        assert!(detach.next_drain(1001).is_some());
        detach = Detach::Attached;
        detach.begin_detach(2000, Patience::default());
        assert!(!detach.finish_drain(2001, false));
        assert_eq!(detach.call_ends(2001, None), Passing::Nothing);
        assert_eq!(detach.next_drain(2001), Some(Drain::Whole));
    }

    #[test]
    fn what_came_late_is_read_first() {
        let mut detach = Detach::Ready;
        detach.found_more(5);
        assert_eq!(detach.call_ends(5, None), Passing::Nothing);
        assert_eq!(detach.next_drain(5), Some(Drain::Whole));
        assert!(detach.finish_drain(5, false));
        assert_eq!(detach.call_ends(5, None), Passing::Detach);
    }

    #[test]
    fn what_is_gone_stays_so() {
        let mut detach = Detach::Detached;
        detach.begin_detach(1, Patience::default());
        assert!(!detach.is_present() && !detach.is_under_way());
        assert_eq!(detach.call_ends(2, WAIT), Passing::Nothing);
        assert!(detach.next_drain(i64::MAX).is_none() && !detach.finish_drain(0, false));
    }
}
