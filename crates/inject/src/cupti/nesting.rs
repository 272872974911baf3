//! Tracks which CUDA calls are open on a thread, as far as callbacks show: a runtime call makes driver calls, and CUPTI must
//! not be detached inside the outer call.
//!
//! Callbacks may be switched on in the middle of a call, whose beginning is then missed. A runtime call is always outermost.
//! A driver call is taken to be outermost after several driver calls in a row, more than one runtime call makes.

use std::cell::Cell;

/// After this many driver calls in a row, none of them is inside a runtime call.
const IN_A_ROW: u32 = 4;

#[derive(Clone, Copy)]
struct Seen {
    /// Callbacks are switched on in rounds; counts of earlier rounds are void.
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
    /// Needs no drop, so it can be used even while the thread ends.
    static SEEN: Cell<Seen> = const { Cell::new(Seen::new(0)) };
}

fn with_round<T>(round: u64, change: impl FnOnce(&mut Seen) -> T) -> Option<T> {
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

pub(super) fn enter_call(round: u64) {
    with_round(round, |seen| seen.open += 1);
}

/// A CUDA call ends; returns true if no other call is open around it.
pub(super) fn leave_call(round: u64, is_runtime: bool) -> bool {
    let is_outermost = with_round(round, |seen| {
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
            enter_call(1);
            enter_call(1);
            assert!(!leave_call(1, false));
            assert!(leave_call(1, true));
        }
        // The beginning of the outer one came before callbacks were on.
        enter_call(2);
        assert!(!leave_call(2, false));
        assert!(leave_call(2, true));
        // The end came after they were off.
        enter_call(2);
        enter_call(3);
        assert!(leave_call(3, true));
    }

    #[test]
    fn a_program_without_the_runtime_is_recognized() {
        for _ in 1..IN_A_ROW {
            enter_call(4);
            assert!(!leave_call(4, false));
        }
        enter_call(4);
        assert!(leave_call(4, false));
    }
}
