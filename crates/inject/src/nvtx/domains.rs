//! Domains of ranges.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::kept::Kept;
use crate::outbox::Outbox;

/// A domain; its address is the handle that the program holds.
pub(crate) struct Domain {
    /// Its number; 0 is the default domain, which has no entry here.
    pub(crate) id: u32,
    pub(crate) name: Box<[u8]>,
}

impl Domain {
    /// Tells the file of it.
    pub(crate) fn note(&self, outbox: &Outbox) {
        let record = llmprof_wire::Domain {
            id: self.id,
            text: &self.name,
        };
        outbox.note(|out| record.put(out));
    }
}

#[cfg(not(all(test, loom)))]
static DOMAINS: Kept<Domain> = Kept::new();
#[cfg(all(test, loom))]
loom::lazy_static! {
    static ref DOMAINS: Kept<Domain> = Kept::new();
}
static IDS: AtomicU32 = AtomicU32::new(0);

/// Tells a file of all domains that are known.
pub(crate) fn note_all(outbox: &Outbox) {
    for domain in all() {
        domain.note(outbox);
    }
}

/// All domains, the newest first.
fn all() -> impl Iterator<Item = &'static Domain> {
    DOMAINS.all()
}

/// The domain of this name. A new one is announced before another thread can find it; where two threads make the same at
/// once, one that nobody gets may be announced too.
pub(crate) fn make(name: &[u8], announce: impl Fn(&Domain)) -> &'static Domain {
    let make = || {
        let domain = Domain {
            id: IDS.fetch_add(1, Ordering::Relaxed) + 1,
            name: name.into(),
        };
        announce(&domain);
        domain
    };
    DOMAINS.find_or_add(|known| *known.name == *name, make).0
}

/// The number of the domain behind a handle; 0 for the default one.
///
/// # Safety
/// `handle` is null or came from [`make`].
pub(crate) unsafe fn id(handle: *const Domain) -> u32 {
    // SAFETY: the caller says so.
    unsafe { handle.as_ref() }.map_or(0, |domain| domain.id)
}

/// The name of domain `id`.
pub(crate) fn name(id: u32) -> &'static [u8] {
    match id {
        0 => &[],
        id => all()
            .find(|domain| domain.id == id)
            .map_or(&[], |domain| &domain.name),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_domain_is_made_and_announced_once_and_found_by_its_number() {
        let announced = Cell::new(0);
        let make = |name: &[u8]| make(name, |_| announced.set(announced.get() + 1));
        let first = make(b"domains-test-a");
        let second = make(b"domains-test-b");
        assert!(std::ptr::eq(make(b"domains-test-a"), first));
        assert_eq!(announced.get(), 2);
        assert_ne!(first.id, second.id);
        assert_eq!(name(second.id), b"domains-test-b");
        assert_eq!(name(0), b"");
        // SAFETY: the handles are of this module.
        unsafe {
            assert_eq!(id(first), first.id);
            assert_eq!(id(std::ptr::null()), 0);
        }
    }
}
