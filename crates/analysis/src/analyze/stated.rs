//! What a user stated of the workload. A default is nobody's statement: nothing may rest on it.

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::run::{RunPhase, RunRecord};
use llmprof_theory::Workload;

use crate::analyze::phase_intervals::{PhaseInterval, TracePhase};
use crate::phases::forward::ForwardPasses;
use crate::phases::forward_pass::ForwardPass;

pub(super) const BATCH: &str = "runtime.batch_size";
pub(super) const PROMPT: &str = "workload.prompt_tokens";
pub(super) const NEW_TOKENS: &str = "infer.max_new_tokens";

/// The keys of the workload that are known.
#[derive(Clone, Copy)]
pub(super) struct StatedWorkload<'r> {
    /// A run that was measured did what was asked.
    is_measured: bool,
    keys: &'r [String],
}

impl<'r> StatedWorkload<'r> {
    pub(super) fn of_record(record: &'r RunRecord) -> Self {
        Self {
            is_measured: !record.passes.is_empty(),
            keys: &record.workload_keys,
        }
    }

    /// Who states a prompt and no batch speaks of one request.
    pub(super) fn has_key(self, key: &str) -> bool {
        let is_given = |key: &str| self.keys.iter().any(|known| known == key);
        self.is_measured || is_given(key) || (key == BATCH && is_given(PROMPT))
    }

    /// The workload where all of it is stated, or shapes show one batch with one prompt.
    pub(super) fn workload(
        self,
        workload: &Workload,
        shown: Option<&ForwardPasses>,
    ) -> Option<Workload> {
        if let Some(shown) = shown.filter(|_| !self.is_measured) {
            let (decode, prefill): (Vec<&ForwardPass>, Vec<&ForwardPass>) =
                shown.passes.iter().partition(|pass| pass.is_decode());
            let [prefill] = prefill.as_slice() else {
                return None;
            };
            let is_one = decode.iter().all(|pass| pass.batch == prefill.batch);
            return is_one.then_some(Workload {
                batch: prefill.batch,
                prompt: prefill.new,
                cached: prefill.cached,
                new_tokens: 1 + decode.len() as u64,
                ..*workload
            });
        }
        let is_known = [BATCH, PROMPT, NEW_TOKENS]
            .iter()
            .all(|key| self.has_key(key));
        is_known.then_some(*workload)
    }

    /// The keys that the passes of an interval rest on and nobody stated.
    fn missing_keys(self, phase: RunPhase, interval: &PhaseInterval) -> Vec<&'static str> {
        let mut keys = vec![BATCH, PROMPT];
        if phase == RunPhase::Decode && interval.steps.is_empty() {
            keys.push(NEW_TOKENS);
        }
        keys.retain(|key| !self.has_key(key));
        keys
    }

    /// Takes the passes out of intervals that nothing but defaults describe: what ran in them is not known.
    pub(super) fn leave_unknown(self, trace_phases: &mut [TracePhase]) -> Option<Issue> {
        let mut phases: Vec<&'static str> = Vec::new();
        let mut keys: Vec<&'static str> = Vec::new();
        for phase in trace_phases {
            for interval in &mut phase.intervals {
                if !interval.is_assumed {
                    continue;
                }
                let missing = self.missing_keys(phase.phase, interval);
                if missing.is_empty() {
                    continue;
                }
                interval.passes.clear();
                let name = phase.phase.name();
                if !phases.contains(&name) {
                    phases.push(name);
                }
                for key in missing {
                    if !keys.contains(&key) {
                        keys.push(key);
                    }
                }
            }
        }
        let keys: Vec<String> = keys.iter().map(|key| format!("{key}=N")).collect();
        (!keys.is_empty()).then(|| {
            Issue::warning(IssueCode::RunUnknownWorkload)
                .with("phases", phases.join(", "))
                .with("keys", keys.join(" "))
        })
    }
}
