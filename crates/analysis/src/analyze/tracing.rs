//! What all phases of a trace have in common.

use llmprof_record::run::RunRecord;
use llmprof_record::trace::Trace;
use llmprof_theory::device::Device;
use llmprof_theory::roofline::Roof;
use rustc_hash::FxHashMap;

use crate::analyze::training::TrainingPlaces;
use crate::matching::lanes::WorkLane;
use crate::matching::units::{CountedCalls, Matching};
use crate::program::Program;
use crate::roofline::Theory;
use crate::telemetry::HostTelemetry;
use crate::timeline::open_ranges::ProgramRanges;
use crate::trace::TraceAnalysis;

pub(crate) struct TraceContext<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) timeline: &'a TraceAnalysis,
    /// The names of the trace's phases.
    pub(crate) names: &'a [String],
    /// Lengths of intervals between slices, by name: [`Phases::plain`](crate::phases::Phases::plain).
    pub(crate) plain: &'a FxHashMap<String, Vec<i64>>,
    pub(crate) open_ranges: &'a ProgramRanges,
    pub(crate) lanes: &'a [WorkLane],
    pub(crate) matching: &'a Matching,
    /// When each unit's first event began, by unit.
    pub(crate) first_events: &'a [i64],
    /// Theory of the model with what it counts; absent without a model.
    pub(crate) theory: Option<(Theory<'a>, &'a CountedCalls<'a>)>,
    /// When and where gradients are computed; absent where the program does not train.
    pub(crate) training: Option<&'a TrainingPlaces>,
    pub(crate) program: &'a Program,
    /// Whether the host calls a device, recorded or not.
    pub(crate) uses_device: bool,
    pub(crate) record: &'a RunRecord,
    /// The pass that the trace was recorded in.
    pub(crate) captured: Option<usize>,
    pub(crate) telemetry: Option<&'a HostTelemetry>,
    /// Intervals of prefill in the whole trace.
    pub(crate) prefills: usize,
    pub(crate) roof: Option<&'a Roof<'a>>,
    /// Also where several share the work, and there is no roof of it.
    pub(crate) device: Option<&'a Device>,
}

impl TraceContext<'_> {
    /// Whether another tool recorded a program that runs on the CPU alone.
    pub(crate) fn is_host_alone(&self) -> bool {
        let mut lanes = self.lanes.iter();
        !self.uses_device && lanes.all(|lane| lane.device.is_none() && !lane.is_exact)
    }
}
