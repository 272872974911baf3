//! One run of a model: starts a worker, drives it through its passes, samples telemetry, and returns what was measured.
//!
//! The record is saved when a pass ends, so that a run that is killed keeps every pass it finished.

mod cublas_log;
mod cupti;
mod direct;
mod feed;
mod halt;
mod images;
mod native;
mod nsight;
mod own_timeline;
mod passes;
mod predictions;
mod pytorch;
mod slices;
mod spans;
mod torch_profiler;
mod watch;
mod worker_files;

use std::path::Path;

use llmprof_record::{
    plan::{Plan, RuntimeType},
    run::RunRecord,
    store::RunDir,
};
use llmprof_units::{Bytes, Nanos};
use serde_json::{Map, Value};

pub use self::cupti::scrub_wire_files;
pub use self::feed::{Feed, FeedError};
pub use self::halt::Halt;
pub use self::slices::{Sliced, cupti_stays};
use crate::{process::Interrupt, profiler::nsight::ToolError};

/// Where a run is shown while it goes on.
pub trait Observer {
    /// A stage of `steps` steps begins; 0 where their number is not known.
    fn stage_begins(&self, name: &str, steps: u64) -> Box<dyn StageObserver>;
    /// Something worth knowing before the next stage.
    fn tell(&self, _line: &str) {}
}

/// One stage while it goes on. Dropped without an end, it failed. Another thread may say how far it has come.
pub trait StageObserver: Sync {
    fn step_done(&self, done: u64);
    fn stage_ends(self: Box<Self>, outcome: Outcome);
}

/// What came of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Loaded {
        parameters: u64,
        weights: Bytes,
    },
    Generated {
        tokens: u64,
        time: Nanos,
    },
    /// Launches, by a tool that replays them.
    Profiled {
        launches: u64,
    },
    Drawn {
        pages: u64,
        boxes: u64,
    },
}

/// What a run needs beside its record.
pub struct Session<'a> {
    pub plan: &'a Plan,
    pub feed: &'a Feed,
    pub cwd: &'a Path,
    pub store: &'a mut RunDir,
    pub interrupt: &'a mut Interrupt,
    pub observer: &'a dyn Observer,
}

impl Session<'_> {
    /// Runs all passes of the plan. `record` says what is run and on what; it is completed as far as the run came.
    ///
    /// What stopped the run before its end is an error, whatever was measured by then.
    pub fn run_passes(&mut self, record: &mut RunRecord) -> Result<(), Halt> {
        // Asked for before there was a worker to end.
        if self.interrupt.stop_count() > 0 {
            return Err(Halt::Interrupted);
        }
        let ran = match self.plan.runtime.kind {
            _ if self.plan.pipeline.direct_inference.enable => direct::run_inference(self, record),
            RuntimeType::Pytorch | RuntimeType::Worker => pytorch::run_pytorch(self, record),
            _ => native::run_engine(self, record),
        };
        record.save(self.store.path())?;
        ran
    }
}

/// The command lines that a run would start, the worker's first.
pub fn list_commands(plan: &Plan, cwd: &Path, run: &Path) -> (Vec<String>, Vec<ToolError>) {
    nsight::command_lines(plan, &pytorch::worker_command(plan, cwd, run), run)
}

/// Why profilers that a run would start cannot be used here, found before anything runs.
pub fn find_missing_tools(plan: &Plan) -> Vec<ToolError> {
    nsight::find_missing_tools(plan)
}

/// The design of the model as a worker is asked to load it.
fn model_design(record: &RunRecord) -> Map<String, Value> {
    let model = record.model.as_ref();
    model.map(|model| model.design.clone()).unwrap_or_default()
}
