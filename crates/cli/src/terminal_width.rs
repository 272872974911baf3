//! The width of a terminal. What is written to a pipe is not fitted to one.

use std::{io::IsTerminal, os::fd::AsFd};

/// Narrower terminals are written to as if they had this width.
const WIDTH_MIN: usize = 40;

/// The width to write a stream in; `None` where it is not a terminal.
pub(crate) fn width_of(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    let columns = rustix::termios::tcgetwinsize(stream).ok()?.ws_col;
    (columns > 0).then(|| usize::from(columns).max(WIDTH_MIN))
}
