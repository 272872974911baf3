//! `predict --from RUN`: what a measured run says of its kernels, for other requests.

use std::path::{Path, PathBuf};

use llmprof_analysis::{Analysis, PhaseAnalysis, analyze, causes::PhaseReplay, judged_device};
use llmprof_predict::{Corrections, EfficiencyProfile, MeasuredRun, MeasuredStep, Predictor};
use llmprof_record::{
    plan::ModelPlan,
    run::{RecordedModel, RunPhase, RunRecord},
    store::StoredRun,
};
use llmprof_report::compose::predict::sentences::{MeasuredTime, TimeSource, from_run};
use llmprof_theory::{Model, Workload, device::Device};
use serde_json::{Map, Value};

use crate::failure::Failure;

/// A run that predictions start from.
pub(super) struct StartingRun {
    run: PathBuf,
    name: String,
    /// What it was started with.
    overrides: Vec<String>,
    model: RecordedModel,
    /// Whether the request names a model of its own.
    names_model: bool,
    /// What it ran on: predicted for where no other device is named.
    device: Option<Device>,
    measured: MeasuredRun,
    /// The times that it starts from, for people.
    times: Vec<MeasuredTime>,
    /// With the device that they hold for.
    corrections: Option<(Corrections, Device)>,
}

impl StartingRun {
    pub(super) fn read(run: &Path, given: &[String]) -> Result<Self, Failure> {
        let record = RunRecord::load(run)?.filter(RunRecord::has_times);
        let record = record.ok_or_else(|| {
            Failure::new(format!("{} has no times to start from", run.display()))
                .hint("`llmprof runs show RUN` shows how far the run came".to_owned())
        })?;
        let analysis = analyze(&record, None)
            .map_err(|error| Failure::new(format!("cannot analyze {}: {error}", run.display())))?;
        let workload = analysis.workload.or(record.workload);
        let device = judged_device(&record, None).device;
        let (model, workload) = record.model.zip(workload).ok_or_else(|| {
            Failure::new(format!("{}: its model is not known", run.display())).hint(
                "`llmprof import FILE model=NAME workload.prompt_tokens=N` names it".to_owned(),
            )
        })?;
        let steps = [RunPhase::Prefill, RunPhase::Decode]
            .map(|phase| measured_step(&analysis, phase, &workload));
        if steps.iter().all(Option::is_none) {
            return Err(Failure::new(format!(
                "{} has neither prefill nor decode to start from",
                run.display()
            )));
        }
        let [prefill, decode_step] = steps.map(|step| step.map(|(step, _)| step));
        Ok(Self {
            run: run.to_owned(),
            name: record.name,
            overrides: StoredRun::open(run)
                .map_or_else(|_| Vec::new(), |stored| stored.manifest.overrides),
            model,
            names_model: given
                .iter()
                .any(|text| MODEL_NAMES.contains(&override_key(text))),
            device,
            measured: MeasuredRun {
                workload,
                prefill,
                decode_step,
            },
            times: steps.into_iter().flatten().map(|(_, time)| time).collect(),
            corrections: None,
        })
    }

    pub(super) fn device(&self) -> Option<&Device> {
        self.device.as_ref()
    }

    /// The run's own overrides, its request as it ran, and `given`, which stand in place of those with the same key.
    pub(super) fn overrides(&self, given: &[String]) -> Vec<String> {
        let has_key = |keys: &[&str]| given.iter().any(|text| keys.contains(&override_key(text)));
        let own = self.overrides.iter().filter(|text| {
            let key = override_key(text);
            let is_request = REQUEST_KEYS.iter().any(|keys| keys.contains(&key));
            let is_replaced_model =
                self.names_model && (key == "model" || key.starts_with("model."));
            // Where it was written does not matter here.
            !(key.starts_with("hydra.") || is_request || is_replaced_model || has_key(&[key]))
        });
        let Workload {
            batch,
            prompt,
            new_tokens,
            cached,
            chunk,
            ..
        } = self.measured.workload;
        let chunk = chunk.map_or_else(|| "null".to_owned(), |tokens| tokens.to_string());
        let values = [batch, prompt, new_tokens, cached].map(|value| value.to_string());
        let request = REQUEST_KEYS.iter().zip(values.into_iter().chain([chunk]));
        let request = request
            .filter(|(keys, _)| !has_key(keys))
            .map(|(keys, value)| format!("{}={value}", keys[0]));
        own.cloned()
            .chain(request)
            .chain(given.iter().cloned())
            .collect()
    }

    /// Puts the run's model, with the edits among `job`, in place of the composed one, unless the request names another.
    pub(super) fn set_model(&self, model: &mut ModelPlan, job: &[String]) {
        if self.names_model {
            return;
        }
        let mut design = self.model.design.clone();
        for text in job {
            let Some(path) = override_key(text).strip_prefix("model.") else {
                continue;
            };
            let path: Vec<&str> = path.split('.').collect();
            if !ModelPlan::KEYS.contains(&path[0]) {
                copy_value(&model.design, &mut design, &path);
            }
        }
        self.name.clone_into(&mut model.name);
        (model.path, model.config) = (None, None);
        model.design = design;
    }

    /// Compares the run with what is predicted of it, on its own device where that is known, else on the `asked` one.
    pub(super) fn correct(
        mut self,
        is_one_device: bool,
        asked: &Device,
        profile: &EfficiencyProfile,
    ) -> Result<Self, Failure> {
        let common = || Model::from_common_keys(&Value::Object(self.model.design.clone())).ok();
        let model = self.model.model.clone().or_else(common).ok_or_else(|| {
            Failure::new("--from needs a model that a family or common keys describe")
        })?;
        if !is_one_device {
            return Err(
                Failure::new("--from predicts one device").hint("leave parallel.* out".to_owned())
            );
        }
        // A device of that name may have been measured since.
        let own = self.device.as_ref().filter(|own| own.name != asked.name);
        let device = own.unwrap_or(asked);
        let predictor = Predictor::new(&model, device, profile);
        let corrections = predictor
            .measure_corrections(&self.measured)
            .map_err(|error| {
                let failure = Failure::new(format!("--from {}: {error}", self.run.display()));
                failure.hint(format!(
                    "did `{}` run on {} with this software? --efficiency names another, hardware.spec another device",
                    self.name, device.name
                ))
            })?;
        self.corrections = Some((corrections, device.clone()));
        Ok(self)
    }

    /// A predictor of one device with the run's corrections; they have no known error on another device.
    pub(super) fn apply_corrections<'a>(&self, plain: Predictor<'a>) -> Predictor<'a> {
        let (corrections, device) = self.checked_corrections();
        let is_same = plain.device().name == device.name;
        let corrected = plain.with_corrections(*corrections);
        if is_same {
            corrected
        } else {
            corrected.without_ranges()
        }
    }

    fn checked_corrections(&self) -> &(Corrections, Device) {
        self.corrections
            .as_ref()
            .expect("a grid is made after the run was compared")
    }

    pub(super) fn note(&self) -> String {
        let (corrections, device) = self.checked_corrections();
        let run = self.run.display().to_string();
        from_run((&run, &device.name), &self.times, corrections)
    }
}

/// Keys that name a model.
const MODEL_NAMES: [&str; 3] = ["model", "model.path", "model.config"];

/// Keys of a request, each with the one that stands for it elsewhere in the config.
const REQUEST_KEYS: [&[&str]; 5] = [
    &["runtime.batch_size", "workload.batch_size"],
    &["workload.prompt_tokens"],
    &["infer.max_new_tokens", "workload.new_tokens"],
    &["workload.cached_tokens"],
    &["workload.chunk_tokens"],
];

fn override_key(text: &str) -> &str {
    let name = text.split('=').next().unwrap_or(text);
    name.trim_start_matches(['+', '~']).trim()
}

/// Copies the value at a path, or its absence.
fn copy_value(from: &Map<String, Value>, to: &mut Map<String, Value>, path: &[&str]) {
    let [key, rest @ ..] = path else {
        return;
    };
    let Some(value) = from.get(*key) else {
        to.remove(*key);
        return;
    };
    let inner = to.get_mut(*key).and_then(Value::as_object_mut);
    match (value.as_object(), inner) {
        (Some(from), Some(to)) if !rest.is_empty() => copy_value(from, to, rest),
        _ => {
            to.insert((*key).to_owned(), value.clone());
        }
    }
}

/// Times of one step of a phase: without a profiler where passes show them, else without its cost where the trace was replayed.
fn measured_step(
    analysis: &Analysis,
    phase: RunPhase,
    workload: &Workload,
) -> Option<(MeasuredStep, MeasuredTime)> {
    let measured = analysis.phase(phase)?;
    let replay = analysis
        .replays
        .iter()
        .find(|replay| replay.phase == phase && replay.label == measured.label);
    let steps = count_steps(measured, replay, workload);
    let each = |ns: i64| ns as f64 / steps;
    let traced = measured.traced.as_ref();
    let on_device = traced.is_some_and(|traced| traced.device.is_some());
    let (wall_ns, source) = match (measured.unrecorded_wall(), replay) {
        (Some(plain), _) => (each(plain.0), TimeSource::Plain),
        (None, Some(replay)) if replay.is_sound() => {
            (replay.plain_ns.0 as f64, TimeSource::WithoutProfiler)
        }
        _ => (each(measured.waterfall.wall_ns.0), TimeSource::Recorded),
    };
    let device_ns = if on_device {
        each(measured.waterfall.sum_ns.0)
    } else {
        wall_ns
    };
    let step = MeasuredStep {
        device_ns,
        other_ns: traced
            .filter(|_| on_device)
            .and_then(|traced| traced.glue.as_ref())
            .map(|glue| each(glue.time_ns.0)),
        wall_ns: on_device.then_some(wall_ns),
    };
    let time = MeasuredTime {
        phase,
        wall_ns,
        source,
    };
    (device_ns > 0.0).then_some((step, time))
}

/// Prefills, or decode steps, that the times of a phase are of: not those in intervals that were left out.
fn count_steps(measured: &PhaseAnalysis, replay: Option<&PhaseReplay>, workload: &Workload) -> f64 {
    let traced = measured.traced.as_ref();
    let instances = traced.map_or(1, |traced| {
        let included = traced.instances.iter().filter(|one| !one.left_out);
        included.count().max(1) as u64
    });
    let shown = traced.map_or(0, |traced| traced.step_ns.len() as u64);
    let steps = match (measured.phase, shown, replay) {
        (RunPhase::Decode, 1.., _) => shown,
        (RunPhase::Decode, 0, Some(replay)) if replay.steps > 0 => replay.steps,
        (RunPhase::Decode, ..) => workload.decode_steps().max(1) * instances,
        _ => instances,
    };
    steps as f64
}
