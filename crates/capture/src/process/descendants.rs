//! A command and everything below it, which end with us whatever ends us.

use std::process::Command;

use super::{
    orphan::{Guard, end_with_us, stop_with_us},
    tree::Leftovers,
};

pub(crate) struct Descendants {
    pub(super) left: Leftovers,
    pub(super) guard: Option<Guard>,
}

impl Descendants {
    /// Before the command starts. The thread that calls this must start it and wait for it.
    pub(crate) fn bind_command(command: &mut Command) -> Self {
        let mut left = Leftovers::begin_watch();
        // Without a shell there is no guard, and the kernel kills the command alone.
        let guard = Guard::of_tree();
        match &guard {
            Some(guard) => {
                left.exclude_process(guard.id());
                stop_with_us(command, guard);
            }
            None => end_with_us(command),
        }
        Self { left, guard }
    }

    /// Once the command has ended: ends what it left behind.
    pub(crate) fn end_all(&self) {
        self.left.end_leftovers();
    }
}
