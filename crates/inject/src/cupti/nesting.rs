//! Which calls of CUDA are under way on a thread, as far as their callbacks tell: a call of the runtime makes calls of
//! the driver, and CUPTI should not be taken out from under the outer one.
//!
//! Callbacks may have been switched on in the midst of a call, whose beginning is then missed. A call of the runtime is
//! the outermost all the same. A call of the driver is taken for it when several came one after the other, more than one
//! call of the runtime makes.

use std::cell::Cell;

/// How many calls of the driver in a row show that none of them is inside a call of the runtime.
const IN_A_ROW: u32 = 4;

#[derive(Clone, Copy)]
struct Seen {
    /// Callbacks are switched on in rounds; what an earlier one has missed does not count.
    round: u64,
    /// Calls that have begun and not ended.
    open: u32,
    /// Outermost calls of the driver since the last one of the runtime.
    in_a_row: u32,
}

impl Seen {
    const fn new(round: u64) -> Self {
        Self {
            round,
            open: 0,
            in_a_row: 0,
        }
    }
}

thread_local! {
    /// There is nothing to drop: it may be used at any time of a thread.
    static SEEN: Cell<Seen> = const { Cell::new(Seen::new(0)) };
}

fn with<T>(round: u64, change: impl FnOnce(&mut Seen) -> T) -> Option<T> {
    let changed = SEEN.try_with(|place| {
        let mut seen = place.get();
        if seen.round != round {
            seen = Seen::new(round);
        }
        let result = change(&mut seen);
        place.set(seen);
        result
    });
    changed.ok()
}

pub(super) fn enter(round: u64) {
    with(round, |seen| seen.open += 1);
}

/// A call ends; true if no other is open around it.
pub(super) fn leave(round: u64, is_runtime: bool) -> bool {
    let is_outermost = with(round, |seen| {
        seen.open = seen.open.saturating_sub(1);
        if seen.open > 0 {
            return false;
        }
        seen.in_a_row = if is_runtime { 0 } else { seen.in_a_row + 1 };
        is_runtime || seen.in_a_row >= IN_A_ROW
    });
    is_outermost.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_of_the_driver_inside_one_of_the_runtime_is_not_the_outermost() {
        for _ in 0..2 * IN_A_ROW {
            enter(1);
            enter(1);
            assert!(!leave(1, false));
            assert!(leave(1, true));
        }
        // The beginning of the outer one came before callbacks were on.
        enter(2);
        assert!(!leave(2, false));
        assert!(leave(2, true));
        // The end came after they were off.
        enter(2);
        enter(3);
        assert!(leave(3, true));
    }

    #[test]
    fn a_program_without_the_runtime_is_recognized() {
        for _ in 1..IN_A_ROW {
            enter(4);
            assert!(!leave(4, false));
        }
        enter(4);
        assert!(leave(4, false));
    }
}
