//! Causes: what was done, what removing it saves, what to change.

mod change;
mod gain;
mod statement;

pub(crate) use self::change::change;
pub(crate) use self::gain::{gain, replay_notes};
pub(crate) use self::statement::statement;
