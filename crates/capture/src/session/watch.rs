//! Telemetry of a run, sampled from its start to its end.

use std::time::Duration;

use llmprof_record::{
    issue::Issue,
    plan::Plan,
    run::{ProcessorCounters, RunRecord},
    store::RunDir,
};

use super::Halt;
use crate::{
    counters::Counters,
    telemetry::{Gpus, Sampler, Settings},
};

/// A run under observation; nothing is observed where telemetry is off.
pub(super) struct Watch {
    sampler: Option<Sampler>,
}

/// Counters of the processor, while a pass runs.
pub(super) struct Counting {
    counters: Counters,
    issue: Option<Issue>,
}

impl Counting {
    /// What was counted, where anything was, and why not.
    pub(super) fn read_counters(mut self) -> (Option<ProcessorCounters>, Option<Issue>) {
        let values = self.counters.read_values();
        let values = ProcessorCounters {
            cycles: values.cycles,
            instructions: values.instructions,
            cache_references: values.cache_references,
            cache_misses: values.cache_misses,
            counted_share: values.counted_share,
        };
        let counted = Some(values).filter(|values| *values != ProcessorCounters::default());
        (counted, self.issue)
    }
}

impl Watch {
    pub(super) fn start(plan: &Plan) -> Result<Self, Halt> {
        let telemetry = &plan.pipeline.telemetry;
        let gpus = match (&telemetry.devices, plan.device) {
            // A model on the CPU leaves GPUs alone; that there is none is no news then.
            (None, place) if !place.is_cuda() => Gpus::None,
            (devices, _) => Gpus::requested(devices.as_deref()),
        };
        let settings = Settings {
            period: Duration::from_secs_f64(1.0 / telemetry.hz.max(f64::MIN_POSITIVE)),
            gpus,
            nvml_library: None,
            amd_library: None,
        };
        let sampler = telemetry
            .enable
            .then(|| Sampler::start_with(settings))
            .transpose()
            .map_err(|error| Halt::failed(error.to_string()))?;
        Ok(Self { sampler })
    }

    /// Watches the worker's process too.
    pub(super) fn follow_worker(&self, pid: u32) {
        if let Some(sampler) = &self.sampler {
            sampler.watch(pid);
        }
    }

    /// Counts what the worker's threads do from now on. `None` where telemetry is off.
    pub(super) fn count_worker(&self, pid: u32) -> Option<Counting> {
        self.sampler.as_ref()?;
        let (counters, issue) = Counters::attach_counters(pid);
        Some(Counting { counters, issue })
    }

    /// Ends sampling; what was seen goes into the record and its directory.
    pub(super) fn stop(self, record: &mut RunRecord, store: &RunDir) -> Result<(), Halt> {
        let Some(sampler) = self.sampler else {
            return Ok(());
        };
        let mut samples = sampler
            .stop()
            .map_err(|error| Halt::failed(error.to_string()))?;
        record.issues.append(&mut samples.issues);
        store.write("telemetry.csv", samples.host_csv())?;
        if let Some(text) = samples.nvml_csv() {
            store.write("nvml.csv", text)?;
        }
        record.samples = Some(samples);
        Ok(())
    }
}
