//! Keeps panics of this library from reaching the target process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

static PANICS: AtomicU64 = AtomicU64::new(0);

/// Runs `work` at an entry from foreign code. A panic returns `fallback`, is counted, and prints nothing.
pub(crate) fn catch_panics<T>(fallback: T, work: impl FnOnce() -> T) -> T {
    static SILENCE: Once = Once::new();
    // This library links its own standard library, so the hook is not the target's.
    SILENCE.call_once(|| std::panic::set_hook(Box::new(|_| ())));
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        fallback
    })
}

pub(crate) fn panic_count() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_gives_the_fallback_and_is_counted() {
        let before = panic_count();
        assert_eq!(catch_panics(7, || panic!("inside")), 7);
        assert_eq!(catch_panics(7, || 8), 8);
        assert!(panic_count() > before);
    }
}
