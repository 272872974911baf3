//! What did happen: the plan of a run, the facts it measured, and the profiles it was read from.
//!
//! [`issue::Issue`] is how a loss is recorded, [`trace`] holds events as columns, [`import`] is where every foreign
//! format ends, [`store`] keeps all of it in a directory.

pub mod clock;
pub mod command_line;
pub mod communication;
pub mod counters;
pub mod flame;
pub mod import;
pub mod issue;
pub mod kernel_list;
pub mod kernel_name;
pub mod mapped;
pub mod memory;
pub mod plan;
pub mod predictions;
pub mod rank_summary;
pub mod run;
pub mod samples;
pub mod secrets;
pub mod serving;
pub mod store;
pub mod summary;
pub mod trace;
