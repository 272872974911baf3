//! A predictor that a measured run corrects.

use super::{PredictError, Predictor};
use crate::from_run::{Corrections, Factors, MeasuredRun, PredictedStep, fit_factors, is_matrix};
use llmprof_theory::{Step, Workload};

impl Predictor<'_> {
    /// What a run says of this model on this device.
    pub fn measure_corrections(&self, run: &MeasuredRun) -> Result<Corrections, PredictError> {
        let predicted = self.predict(&run.workload)?;
        let steps = run.workload.decode_steps().max(1) as f64;
        let (device, host) = match predicted.decode {
            Some(decode) => (decode.device_ns, decode.host_ns),
            None => (
                predicted.decode_step.device_ns,
                predicted.decode_step.host_ns,
            ),
        };
        let workload = &run.workload;
        let middle = {
            let mut pass = self.model.decode_step(workload);
            pass.past += (steps as u64 - 1) / 2;
            Step::first_of(&pass)
        };
        let prefill = self
            .model
            .prefill_passes(&run.workload)
            .map(|pass| self.kernel_group_ns(workload, &Step::first_of(&pass)))
            .fold([0.0; 2], |sum, part| [sum[0] + part[0], sum[1] + part[1]]);
        let ns = |seconds: f64| seconds * 1e9;
        let prefill = match &run.prefill {
            None => Factors::NONE,
            Some(measured) => fit_factors(
                measured,
                &PredictedStep {
                    phase: "prefill",
                    device_ns: ns(predicted.prefill.device_ns.seconds()),
                    groups_ns: prefill,
                    host_ns: predicted.prefill.host_ns.map(|host| ns(host.seconds())),
                },
            )?,
        };
        let decode = match &run.decode_step {
            None => Factors::NONE,
            Some(measured) => fit_factors(
                measured,
                &PredictedStep {
                    phase: "decode",
                    device_ns: ns(device.seconds()) / steps,
                    groups_ns: self.kernel_group_ns(workload, &middle),
                    host_ns: host.map(|host| ns(host.seconds()) / steps),
                },
            )?,
        };
        Ok(Corrections { prefill, decode })
    }

    #[must_use]
    pub fn with_corrections(mut self, corrections: Corrections) -> Self {
        self.steps.get_mut().clear();
        self.before.set(None);
        self.corrections = Some(corrections);
        self
    }

    /// Without ranges: errors of such predictions were not measured.
    #[must_use]
    pub fn without_ranges(mut self) -> Self {
        self.spreads = None;
        self
    }

    /// Predicted ns of GEMMs and attention, and of all other kernels.
    fn kernel_group_ns(&self, workload: &Workload, step: &Step) -> [f64; 2] {
        let mut groups = [0.0; 2];
        for (kernel, launches, time) in self.list_kernels(workload, step) {
            groups[usize::from(!is_matrix(&kernel))] += time.seconds() * launches * 1e9;
        }
        groups
    }
}
