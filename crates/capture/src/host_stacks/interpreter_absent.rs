//! In place of `interpreter` where llmprof is built without the feature `host-stacks`.

use super::python::{Moment, Refusal};

pub(super) enum Interpreter {}

impl Interpreter {
    pub(super) fn attach_to(_process: u32) -> Result<Self, Refusal> {
        Err(Refusal::NotBuilt)
    }

    pub(super) fn read_threads(&mut self) -> Result<Moment, String> {
        match *self {}
    }

    pub(super) fn is_gil(&self, _address: u64) -> bool {
        match *self {}
    }
}
