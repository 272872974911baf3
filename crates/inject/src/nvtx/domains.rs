//! NVTX domains of this process: their handles, numbers and names.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::kept::AppendList;
use crate::outbox::Outbox;

/// A domain; its address is the handle that the program holds.
pub(crate) struct Domain {
    /// Its number; 0 is the default domain, which has no entry here.
    pub(crate) id: u32,
    pub(crate) name: Box<[u8]>,
}

impl Domain {
    /// Writes the domain's name to the file.
    pub(crate) fn write_note(&self, outbox: &Outbox) {
        let record = llmprof_wire::Domain {
            id: self.id,
            text: &self.name,
        };
        outbox.write_note(|out| record.put(out));
    }
}

#[cfg(not(all(test, loom)))]
static DOMAINS: AppendList<Domain> = AppendList::new();
#[cfg(all(test, loom))]
loom::lazy_static! {
    static ref DOMAINS: AppendList<Domain> = AppendList::new();
}
static IDS: AtomicU32 = AtomicU32::new(0);

/// Writes the names of all domains to a file.
pub(crate) fn note_all(outbox: &Outbox) {
    for domain in all_domains() {
        domain.write_note(outbox);
    }
}

fn all_domains() -> impl Iterator<Item = &'static Domain> {
    DOMAINS.iter_newest_first()
}

/// The domain of this name. `announce` is called for a new domain before another thread can find it. If two threads create
/// the same domain at once, it may also be called for one that is discarded.
pub(crate) fn find_or_make(name: &[u8], announce: impl Fn(&Domain)) -> &'static Domain {
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
/// `handle` is null or came from [`find_or_make`].
pub(crate) unsafe fn domain_id(handle: *const Domain) -> u32 {
    // SAFETY: the caller says so.
    unsafe { handle.as_ref() }.map_or(0, |domain| domain.id)
}

/// The name of domain `id`.
pub(crate) fn domain_name(id: u32) -> &'static [u8] {
    match id {
        0 => &[],
        id => all_domains()
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
        let make = |name: &[u8]| find_or_make(name, |_| announced.set(announced.get() + 1));
        let first = make(b"domains-test-a");
        let second = make(b"domains-test-b");
        assert!(std::ptr::eq(make(b"domains-test-a"), first));
        assert_eq!(announced.get(), 2);
        assert_ne!(first.id, second.id);
        assert_eq!(domain_name(second.id), b"domains-test-b");
        assert_eq!(domain_name(0), b"");
        // SAFETY: the handles are of this module.
        unsafe {
            assert_eq!(domain_id(first), first.id);
            assert_eq!(domain_id(std::ptr::null()), 0);
        }
    }
}
