//! Nothing that goes wrong in here reaches the process around it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

static PANICS: AtomicU64 = AtomicU64::new(0);

/// Runs `work` at an entry from foreign code; a panic inside gives `fallback`, is counted, and prints nothing.
pub(crate) fn quietly<T>(fallback: T, work: impl FnOnce() -> T) -> T {
    static SILENCE: Once = Once::new();
    // This library has a standard library of its own: the hook is not the target's.
    SILENCE.call_once(|| std::panic::set_hook(Box::new(|_| ())));
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        fallback
    })
}

/// How many panics were caught.
pub(crate) fn panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_gives_the_fallback_and_is_counted() {
        let before = panics();
        assert_eq!(quietly(7, || panic!("inside")), 7);
        assert_eq!(quietly(7, || 8), 8);
        assert!(panics() > before);
    }
}
