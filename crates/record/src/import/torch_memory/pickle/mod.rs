//! Python's pickle format, as far as it is plain data.
//!
//! A pickle is a program for a stack machine, and a general one may call anything. This machine knows the opcodes that
//! build `None`, booleans, numbers, text, bytes, lists, tuples, dictionaries and sets, of protocols 0 to 5; an opcode
//! that would import, call or look up something is an error that names it and where it stands. Nothing is executed,
//! nothing is read but the bytes given.
//!
//! Values live in a [`Heap`] and refer to each other by number, as the memo of a pickle demands: shared lists are shared,
//! a list may hold itself, and no depth of nesting uses the call stack. Memory grows with the number of opcodes, which
//! [`Limits`] bounds.

mod bytes;
mod heap;
mod integer;
mod machine;
mod opcode;
mod text;

pub(super) use self::machine::STEPS_PER_BYTE;
pub use self::{
    heap::{Heap, Value},
    integer::Integer,
    machine::{Limits, Pickle, load},
    opcode::refusal,
};

use thiserror::Error;

/// Why a pickle cannot be read. Offsets count bytes from the beginning.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PickleError {
    #[error("the pickle is truncated at byte {offset}, inside {what}")]
    Truncated {
        /// Offset in the file where bytes are missing.
        offset: usize,
        /// What they would belong to.
        what: &'static str,
    },
    /// It asks for more than data.
    #[error("the opcode {opcode} at byte {offset} would {effect}; only plain data is read")]
    Refused {
        opcode: &'static str,
        offset: usize,
        /// What it would do in Python.
        effect: &'static str,
    },
    /// There is no such opcode.
    #[error("the byte {byte:#04x} at {offset} is not an opcode")]
    Unknown { byte: u8, offset: usize },
    /// An opcode that cannot stand where it does, or has an operand that cannot be.
    #[error("the opcode {opcode} at byte {offset} {what}")]
    Malformed {
        opcode: &'static str,
        offset: usize,
        what: &'static str,
    },
    /// It builds more than the limits allow.
    #[error("at byte {offset} the pickle holds more than {limit} {what}")]
    TooLarge {
        /// Where the limit was passed.
        offset: usize,
        limit: usize,
        what: &'static str,
    },
}
