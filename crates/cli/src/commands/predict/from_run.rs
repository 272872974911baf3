//! `predict --from RUN`: what a measured run says of its kernels, for other requests.

use std::path::{Path, PathBuf};

use llmprof_analysis::{Analysis, PhaseAnalysis};
use llmprof_predict::{Corrections, Factors, MeasuredRun, MeasuredStep, Predictor};
use llmprof_record::{
    run::{RunPhase, RunRecord},
    store::Folder,
};
use llmprof_theory::{Workload, device::Device};

use super::axes::Axes;
use crate::failure::Failure;

/// A run that predictions start from.
pub(super) struct Start {
    run: PathBuf,
    /// What it was started with.
    overrides: Vec<String>,
    /// What it was judged by: predicted for where no other device is named.
    device: Option<Device>,
    measured: MeasuredRun,
    corrections: Option<Corrections>,
}

impl Start {
    pub(super) fn read(run: &Path) -> Result<Self, Failure> {
        let record = RunRecord::load(run)?.filter(RunRecord::has_times);
        let record = record.ok_or_else(|| {
            Failure::new(format!("{} has no times to start from", run.display()))
                .hint("`llmprof runs show RUN` shows how far the run came".to_owned())
        })?;
        let analysis = llmprof_analysis::analyze(&record, None)
            .map_err(|error| Failure::new(format!("cannot analyze {}: {error}", run.display())))?;
        let workload = analysis.workload.or(record.workload).ok_or_else(|| {
            Failure::new(format!("{}: its model is not known", run.display())).hint(
                "`llmprof import FILE model=NAME workload.prompt_tokens=N` names it".to_owned(),
            )
        })?;
        let measured = MeasuredRun {
            workload,
            prefill: step(&analysis, RunPhase::Prefill, &workload),
            decode_step: step(&analysis, RunPhase::Decode, &workload),
        };
        if measured.prefill.is_none() && measured.decode_step.is_none() {
            return Err(Failure::new(format!(
                "{} has neither prefill nor decode to start from",
                run.display()
            )));
        }
        Ok(Self {
            run: run.to_owned(),
            overrides: overrides_of(run),
            device: record.device,
            measured,
            corrections: None,
        })
    }

    pub(super) fn device(&self) -> Option<&Device> {
        self.device.as_ref()
    }

    /// The run's own overrides, less those whose key is given anew.
    pub(super) fn overrides(&self, given: &[String]) -> Vec<String> {
        let key = |text: &str| {
            let name = text.split('=').next().unwrap_or(text);
            name.trim_start_matches(['+', '~']).to_owned()
        };
        let anew: Vec<String> = given.iter().map(|text| key(text)).collect();
        let kept = self.overrides.iter().filter(|text| {
            let own = key(text);
            // Where it was written does not matter here.
            !own.starts_with("hydra.") && !anew.contains(&own)
        });
        kept.chain(given).cloned().collect()
    }

    /// Compares the run with what is predicted of it: with the first model, device and software of the grid.
    pub(super) fn correct(mut self, axes: &Axes) -> Result<Self, Failure> {
        let first = axes.point(0);
        let model = axes.models[first.model].model.as_ref().ok_or_else(|| {
            Failure::new("--from needs a model that a family or common keys describe")
        })?;
        if !first.workload.parallel.is_single() {
            return Err(
                Failure::new("--from predicts one device").hint("leave parallel.* out".to_owned())
            );
        }
        let device = &axes.devices[first.device];
        let predictor = Predictor::new(model, device, &axes.profiles[first.profile]);
        let corrections = predictor
            .measure_corrections(&self.measured)
            .map_err(|error| Failure::new(error.to_string()))?;
        self.corrections = Some(corrections);
        Ok(self)
    }

    pub(super) fn corrections(&self) -> Corrections {
        self.corrections
            .expect("a grid is made after the run was compared")
    }

    pub(super) fn note(&self) -> String {
        let corrections = self.corrections();
        let factors = |name: &str, factors: &Factors| {
            format!(
                "{name}: GEMM and attention {:.2}, other kernels {:.2}, host {:.2}",
                factors.matrix, factors.other, factors.host
            )
        };
        format!(
            "from {}, measured ÷ predicted: {}; {}",
            self.run.display(),
            factors("prefill", &corrections.prefill),
            factors("decode", &corrections.decode)
        )
    }
}

/// Times of one step of a phase.
fn step(analysis: &Analysis, phase: RunPhase, workload: &Workload) -> Option<MeasuredStep> {
    let found = analysis.phase(phase)?;
    let steps = steps(found, phase, workload);
    let each = |ns: i64| ns as f64 / steps;
    let traced = found.traced.as_ref();
    let on_device = traced.is_some_and(|traced| traced.device.is_some());
    let wall = found.judged_wall().0;
    let device = if on_device {
        found.waterfall.sum_ns.0
    } else {
        wall
    };
    (device > 0).then(|| MeasuredStep {
        device_ns: each(device),
        other_ns: traced
            .filter(|_| on_device)
            .and_then(|traced| traced.glue.as_ref())
            .map(|glue| each(glue.time_ns.0)),
        wall_ns: on_device.then(|| each(wall)),
    })
}

/// Prefills, or decode steps, that the phase of the captured pass has.
fn steps(found: &PhaseAnalysis, phase: RunPhase, workload: &Workload) -> f64 {
    let traced = found.traced.as_ref();
    let instances = traced.map_or(1, |traced| traced.instances.len().max(1));
    let steps = match phase {
        RunPhase::Decode => {
            let shown = traced.map_or(0, |traced| traced.step_ns.len());
            if shown > 0 {
                shown as u64
            } else {
                workload.decode_steps().max(1) * instances as u64
            }
        }
        _ => instances as u64,
    };
    steps as f64
}

/// A command line is far shorter.
const MOST_OVERRIDE_BYTES: u64 = 1 << 20;

/// What a run was started with, as Hydra keeps it; nothing where a run was not started by llmprof.
fn overrides_of(run: &Path) -> Vec<String> {
    let read = |folder: Folder| folder.read(".hydra/overrides.yaml", MOST_OVERRIDE_BYTES);
    let bytes = Folder::open(run).and_then(read).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().filter_map(|line| line.strip_prefix("- "));
    lines
        .map(|line| line.trim().trim_matches(['\'', '"']).to_owned())
        .collect()
}
