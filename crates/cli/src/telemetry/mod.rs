//! What was sampled while a run went on: as a table for other tools, and as curves of its page.

pub(crate) mod curves;
pub(crate) mod table;
