//! Quantities with units, numeric formats, and how both are printed.
//!
//! A number that leaves a function carries its unit in its type: [`Nanos`] on one clock, [`Bytes`], [`Flops`],
//! rates, [`Watts`] and [`Joules`]. Counts are exact integers; rates are floats, since they are quotients.
//! [`Basis`] says where a number comes from, so that a report never mixes what was measured with what was computed.

mod basis;
pub mod bounded_file;
mod dtype;
mod format;
mod hex;
pub mod path_text;
mod printable;
mod quantity;
pub mod schema;
mod share;
pub mod stats;

pub use basis::Basis;
pub use dtype::{DType, ParseDTypeError};
pub use format::{Count, Percent, Times, format_significant};
pub use hex::hex_text;
pub use printable::{is_order, printable, printable_in_place};
pub use quantity::{
    Bytes, BytesPerSecond, Flops, FlopsPerSecond, Hertz, Joules, Nanos, Watts, take_saturated,
};
pub use share::{Share, ShareError};
