//! When CUPTI may detach from a process: the order of events, apart from what they do.
//!
//! Detaching CUPTI frees what its records point to, so everything must have been read before; and it is safe only at
//! the end of a call of CUDA on a thread that makes it. Hence three parties: whoever stops recording, our thread, which
//! reads, and the target's threads, which pass by.
//!
//! ```text
//!              stopped             our thread looks          nothing is left          a call ends
//!   Attached ─────────► Detaching ────────────────► Draining ───────────────► Ready ─────────────► Detached
//!     ▲                   ▲ └── not yet: again after PAUSE ─┘                   │                     │
//!     ├───────────────────┴─────── wanted again: from any of these ─────────────┘                     │
//!     └────────────────────────────── wanted again: subscribes again ─────────────────────────────────┘
//! ```
//!
//! CUPTI hands out what is whole; when it keeps no buffer after that, nothing is left. It may keep one that is empty, so
//! a [`GRACE`] after a wait of the target for its device, or after a [`Patience`], all is asked for, whole or not. A wait may
//! have been for one stream of several: once kernels were dropped, such waits only make our thread look.

use super::calls::Wait;

/// How long after the end of a slice a wait of the target for its device is hoped for. Later its kernels are taken to have
/// ended. Where they had not, it is longer the next time: a device may be far behind the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Patience {
    /// So long, ns.
    time: i64,
    /// Whether nothing runs any more after a wait for a stream, as far as is known.
    trusts_waits: bool,
}

impl Patience {
    const LEAST: i64 = 50_000_000;
    /// A host runs ahead by about a thousand launches: those of a large prefill run for so long, ns.
    const FIRST: i64 = 800_000_000;
    const MOST: i64 = 1_600_000_000;

    /// Kernels were still running.
    pub(super) fn grow(&mut self) {
        self.time = (4 * self.time).min(Self::MOST);
        self.trusts_waits = false;
    }

    /// None was: it was in vain.
    pub(super) fn shrink(&mut self) {
        self.time = (self.time / 2).max(Self::LEAST);
        self.trusts_waits |= self.time == Self::LEAST;
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            time: Self::FIRST,
            trusts_waits: true,
        }
    }
}

/// How long our thread waits before it looks again, ns.
const PAUSE: i64 = 5_000_000;

/// How long after a wait CUPTI may need to know the times of what was waited for, ns: right after one an H200 had none for kernels
/// of the last 90 ms.
const GRACE: i64 = 20_000_000;

/// Where CUPTI is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detach {
    /// It is in the process, and recording or not asked to detach.
    Attached,
    /// Recording has stopped, and what was recorded may still run on the device; our thread looks at intervals until it is
    /// out of patience.
    Detaching {
        limit: Limit,
        looked: i64,
        look: i64,
    },
    /// Our thread takes what CUPTI holds.
    Draining(Limit),
    /// All was read. The next call that ends detaches CUPTI.
    Ready,
    /// It is out: no function of CUPTI may be called but the one that subscribes.
    Detached,
}

/// When what CUPTI holds is taken whether whole or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    since: i64,
    until: i64,
    /// Or after a wait for part of what runs.
    trusts_waits: bool,
}

/// What is to be done at the end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passing {
    Nothing,
    /// Our thread is to be woken: it may take what CUPTI holds.
    Wake,
    /// CUPTI is to be taken out, now.
    Detach,
}

/// What our thread is to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drain {
    /// What is whole; whether something is left shows after it.
    Whole,
    All,
}

impl Detach {
    /// Whether CUPTI may be called.
    pub(super) fn is_present(self) -> bool {
        self != Self::Detached
    }

    /// Whether it is on its way, with costs to come.
    pub(super) fn is_under_way(self) -> bool {
        !matches!(self, Self::Attached | Self::Detached)
    }

    /// Recording has stopped and CUPTI is to detach.
    pub(super) fn stopped(&mut self, now: i64, patience: Patience) {
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

    /// A call of the target ends, and what it waited for.
    pub(super) fn passes(&mut self, now: i64, waited: Option<Wait>) -> Passing {
        match (&mut *self, waited) {
            (Self::Detaching { limit, look, .. }, Some(wait))
                if limit.trusts_waits || wait == Wait::Device =>
            {
                // The first one counts.
                let until = now + GRACE;
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
                let soon = *looked + PAUSE;
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

    /// When our thread should look.
    pub(super) fn next(self) -> Option<i64> {
        match self {
            Self::Detaching { limit, look, .. } => Some(look.min(limit.until)),
            _ => None,
        }
    }

    /// What our thread should take now, if anything.
    pub(super) fn drains(&mut self, now: i64) -> Option<Drain> {
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

    /// Our thread has read what it was to take, and nothing `is_left`. True if that was the last; not if recording went
    /// on meanwhile.
    pub(super) fn drained(&mut self, now: i64, is_left: bool) -> bool {
        let Self::Draining(limit) = *self else {
            return false;
        };
        *self = if is_left {
            // The longer it takes, the less often.
            let look = now + PAUSE.max((now - limit.since) / 4);
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

    /// Something came after all was read.
    pub(super) fn found_more(&mut self, now: i64) {
        let limit = Limit {
            since: now,
            until: now + GRACE,
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
        assert_eq!(detach.passes(999, WAIT), Passing::Nothing);
        detach.stopped(1000, Patience::default());
        assert_eq!(detach.passes(1000, None), Passing::Nothing);
        assert_eq!(detach.drains(1000), Some(Drain::Whole));
        // Until our thread has read, calls pass.
        assert_eq!(detach.passes(1000, WAIT), Passing::Nothing);
        assert!(detach.drained(1001, false));
        assert_eq!(detach.passes(1001, None), Passing::Detach);
    }

    #[test]
    fn what_is_not_whole_is_taken_after_a_wait() {
        let mut detach = Detach::Attached;
        detach.stopped(1000, Patience::default());
        assert_eq!(detach.drains(1000), Some(Drain::Whole));
        assert!(!detach.drained(1001, true));
        assert_eq!(detach.drains(1002), None);
        assert_eq!(detach.drains(1001 + PAUSE), Some(Drain::Whole));
        assert!(!detach.drained(1002 + PAUSE, true));
        let mut now = 1003 + PAUSE;
        let until = now + GRACE;
        assert_eq!(detach.passes(now, WAIT), Passing::Wake);
        // CUPTI may hear of it later than the program. Other waits add nothing.
        let mut looks = 0;
        while detach.drains(now) == Some(Drain::Whole) {
            assert!(!detach.drained(now, true));
            assert_eq!(detach.passes(now + 1, WAIT), Passing::Nothing);
            now = detach.next().expect("it looks again");
            looks += 1;
        }
        assert_eq!((now, looks), (until, 4));
        assert!(detach.drained(now, false));
        assert_eq!(detach.passes(now, WAIT), Passing::Detach);
    }

    #[test]
    fn what_is_whole_soon_after_a_wait_is_not_taken_by_force() {
        let mut detach = Detach::Attached;
        detach.stopped(0, Patience::default());
        let late = 400_000_000;
        assert_eq!(detach.drains(late), Some(Drain::Whole));
        assert!(!detach.drained(late, true));
        assert_eq!(detach.passes(late + 1, WAIT), Passing::Wake);
        assert_eq!(detach.drains(late + 1), Some(Drain::Whole));
        assert!(!detach.drained(late + 2, true));
        assert_eq!(detach.drains(late + 2 + PAUSE), Some(Drain::Whole));
        assert!(detach.drained(late + 3 + PAUSE, false));
        assert_eq!(detach.passes(late + 4 + PAUSE, None), Passing::Detach);
    }

    #[test]
    fn a_program_that_never_waits_is_left_later() {
        let mut detach = Detach::Attached;
        detach.stopped(1000, Patience::default());
        let mut now = 1000;
        while detach.drains(now) == Some(Drain::Whole) {
            assert!(!detach.drained(now, true));
            now = detach.next().expect("it looks again");
        }
        assert_eq!(now, 1000 + Patience::FIRST);
        assert!(detach.drained(now, false));
        assert_eq!(detach.next(), None);
        assert_eq!(detach.passes(now, None), Passing::Detach);
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
        detach.stopped(0, patience);
        let (mut now, mut looks) = (0, 0);
        while detach.drains(now) == Some(Drain::Whole) {
            assert!(!detach.drained(now, true));
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
        detach.stopped(0, patience);
        let (mut now, mut looks) = (0, 0);
        while detach.drains(now) == Some(Drain::Whole) {
            assert!(!detach.drained(now, true));
            // Waits make it look sooner, but not all the time.
            let is_late = detach.next() > Some(now + PAUSE);
            assert_eq!(detach.passes(now, WAIT) == Passing::Wake, is_late);
            assert_eq!(detach.passes(now, WAIT), Passing::Nothing);
            let next = detach.next().expect("it looks again");
            assert!(next == now + PAUSE || next == patience.time);
            now = next;
            looks += 1;
        }
        assert_eq!((now, looks), (patience.time, 160));
        // One for the device is.
        detach.stopped(0, patience);
        assert_eq!(detach.passes(1, Some(Wait::Device)), Passing::Wake);
        assert_eq!(detach.drains(1 + GRACE), Some(Drain::All));
        // When it was in vain often enough, any is again.
        (0..4).for_each(|_| patience.shrink());
        detach.stopped(0, patience);
        assert_eq!(detach.passes(1, WAIT), Passing::Wake);
        assert_eq!(detach.drains(1 + GRACE), Some(Drain::All));
    }

    #[test]
    fn a_slice_that_begins_meanwhile_calls_it_off() {
        // While our thread reads, a slice begins and ends: what it recorded has not been read.
        let mut detach = Detach::Attached;
        detach.stopped(1000, Patience::default());
        assert!(detach.drains(1001).is_some());
        detach = Detach::Attached;
        detach.stopped(2000, Patience::default());
        assert!(!detach.drained(2001, false));
        assert_eq!(detach.passes(2001, None), Passing::Nothing);
        assert_eq!(detach.drains(2001), Some(Drain::Whole));
    }

    #[test]
    fn what_came_late_is_read_first() {
        let mut detach = Detach::Ready;
        detach.found_more(5);
        assert_eq!(detach.passes(5, None), Passing::Nothing);
        assert_eq!(detach.drains(5), Some(Drain::Whole));
        assert!(detach.drained(5, false));
        assert_eq!(detach.passes(5, None), Passing::Detach);
    }

    #[test]
    fn what_is_gone_stays_so() {
        let mut detach = Detach::Detached;
        detach.stopped(1, Patience::default());
        assert!(!detach.is_present() && !detach.is_under_way());
        assert_eq!(detach.passes(2, WAIT), Passing::Nothing);
        assert!(detach.drains(i64::MAX).is_none() && !detach.drained(0, false));
    }
}
