//! Locks and atomics of what threads share: those of the standard library, or Loom's in tests with `--cfg loom`, which try
//! every order in which threads may run (`scripts/loom`).

#[cfg(all(test, loom))]
pub(crate) use loom::sync::{Mutex, atomic};
#[cfg(not(all(test, loom)))]
pub(crate) use std::sync::{Mutex, atomic};

/// Runs `model` in every order of its threads with up to three switches that none of them asked for.
#[cfg(all(test, loom))]
pub(crate) fn in_every_order(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}
