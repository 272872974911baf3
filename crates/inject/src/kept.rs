//! An append-only list without a lock. Entries are never removed, so that a forked child always finds the list intact.

use crate::sync::atomic::{AtomicPtr, Ordering};

pub(crate) struct AppendList<T: 'static> {
    newest: AtomicPtr<KeptEntry<T>>,
}

struct KeptEntry<T: 'static> {
    value: T,
    next: *const KeptEntry<T>,
}

impl<T: Send + Sync + 'static> AppendList<T> {
    #[cfg(not(all(test, loom)))]
    pub(crate) const fn new() -> Self {
        Self {
            newest: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    #[cfg(all(test, loom))]
    pub(crate) fn new() -> Self {
        Self {
            newest: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    pub(crate) fn iter_newest_first(&self) -> impl Iterator<Item = &'static T> {
        let newest = self.newest.load(Ordering::Acquire);
        Self::iter_between(newest, std::ptr::null())
    }

    /// The values from `newest` up to but without `end`.
    fn iter_between(
        newest: *const KeptEntry<T>,
        end: *const KeptEntry<T>,
    ) -> impl Iterator<Item = &'static T> {
        let entry = move |place: *const KeptEntry<T>| {
            let place = if place == end {
                std::ptr::null()
            } else {
                place
            };
            // SAFETY: entries are complete before they are linked, and are never freed or changed.
            unsafe { place.as_ref() }
        };
        std::iter::successors(entry(newest), move |known| entry(known.next))
            .map(|known| &known.value)
    }

    /// The value for which `is` holds, and whether `make` created it now. Threads that add the same value at once get the same.
    pub(crate) fn find_or_add(
        &self,
        is: impl Fn(&T) -> bool,
        make: impl Fn() -> T,
    ) -> (&'static T, bool) {
        let mut newest = self.newest.load(Ordering::Acquire);
        let mut looked_at: *const KeptEntry<T> = std::ptr::null();
        let mut made: Option<Box<KeptEntry<T>>> = None;
        loop {
            if let Some(known) = Self::iter_between(newest, looked_at).find(|value| is(value)) {
                return (known, false);
            }
            let mut entry = made.take().unwrap_or_else(|| {
                Box::new(KeptEntry {
                    value: make(),
                    next: std::ptr::null(),
                })
            });
            entry.next = newest;
            let place = Box::into_raw(entry);
            let (before, after) = (Ordering::AcqRel, Ordering::Acquire);
            match self.newest.compare_exchange(newest, place, before, after) {
                // SAFETY: it is linked, and from now on never freed or changed.
                Ok(_) => return (unsafe { &(*place).value }, true),
                Err(newer) => {
                    // SAFETY: it was not linked: nobody else has seen it.
                    made = Some(unsafe { Box::from_raw(place) });
                    (looked_at, newest) = (newest, newer);
                }
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_made_once_and_the_newest_comes_first() {
        let kept = AppendList::new();
        let add = |text: &'static str| kept.find_or_add(|known| *known == text, || text);
        let (first, is_new) = add("a");
        assert!(is_new && add("b").1);
        let (again, is_new) = add("a");
        assert!(!is_new && std::ptr::eq(first, again));
        assert_eq!(
            kept.iter_newest_first().copied().collect::<Vec<_>>(),
            ["b", "a"]
        );
    }
}

#[cfg(all(test, loom))]
mod orders {
    use loom::{sync::Arc, thread};

    use super::*;
    use crate::sync::in_every_order;

    #[test]
    fn threads_that_add_the_same_at_once_get_the_same() {
        in_every_order(|| {
            let kept = Arc::new(AppendList::new());
            let add = |kept: &AppendList<Box<u32>>, value: u32| {
                let (kept, _) = kept.find_or_add(|known| **known == value, || Box::new(value));
                std::ptr::from_ref(kept) as usize
            };
            let others = [[1, 2], [2, 1]].map(|values| {
                let kept = kept.clone();
                thread::spawn(move || values.map(|value| (value, add(&kept, value))))
            });
            let mut values: Vec<_> = others
                .into_iter()
                .flat_map(|other| other.join().unwrap())
                .collect();
            values.sort_unstable();
            values.dedup();
            assert_eq!(values.len(), 2);
            assert_eq!(kept.iter_newest_first().count(), 2);
        });
    }
}
