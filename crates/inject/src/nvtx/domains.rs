//! Domains of ranges. They are never removed, and no lock guards them: a child after a fork must find them whole.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// A domain; its address is the handle that the program holds.
pub(crate) struct Domain {
    /// Its number; 0 is the default domain, which has no entry here.
    pub(crate) id: u32,
    pub(crate) name: Box<[u8]>,
    next: *const Domain,
}

static NEWEST: AtomicPtr<Domain> = AtomicPtr::new(std::ptr::null_mut());
static IDS: AtomicU32 = AtomicU32::new(0);

/// All domains, the newest first.
pub(super) fn all() -> impl Iterator<Item = &'static Domain> {
    // SAFETY: entries are complete before they are linked, and are never freed or changed.
    let newest = unsafe { NEWEST.load(Ordering::Acquire).as_ref() };
    std::iter::successors(newest, |domain| {
        // SAFETY: likewise.
        unsafe { domain.next.as_ref() }
    })
}

/// The domain of this name, and whether it is new. Two threads that make it at once may make it twice.
pub(super) fn make(name: &[u8]) -> (&'static Domain, bool) {
    if let Some(known) = all().find(|domain| *domain.name == *name) {
        return (known, false);
    }
    let domain = Box::leak(Box::new(Domain {
        id: IDS.fetch_add(1, Ordering::Relaxed) + 1,
        name: name.into(),
        next: std::ptr::null(),
    }));
    let place = std::ptr::from_mut(domain);
    loop {
        let newest = NEWEST.load(Ordering::Acquire);
        // SAFETY: nobody else sees the entry until it is linked.
        unsafe { (*place).next = newest };
        if NEWEST
            .compare_exchange(newest, place, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
        {
            // SAFETY: it is never freed or changed from now on.
            return (unsafe { &*place }, true);
        }
    }
}

/// The number of the domain behind a handle; 0 for the default one.
///
/// # Safety
/// `handle` is null or came from [`make`].
pub(super) unsafe fn id(handle: *const Domain) -> u32 {
    // SAFETY: the caller says so.
    unsafe { handle.as_ref() }.map_or(0, |domain| domain.id)
}

/// The name of domain `id`.
pub(super) fn name(id: u32) -> &'static [u8] {
    match id {
        0 => &[],
        id => all()
            .find(|domain| domain.id == id)
            .map_or(&[], |domain| &domain.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_made_once_and_found_by_its_number() {
        let (first, is_new) = make(b"domains-test-a");
        assert!(is_new);
        let (second, _) = make(b"domains-test-b");
        assert!(!make(b"domains-test-a").1);
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
