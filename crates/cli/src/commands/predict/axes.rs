//! From sweep overrides to the points of a grid, without composing a config for every point.
//!
//! Composing takes a fraction of a millisecond, a prediction a few microseconds. So each value of an axis is composed
//! once, with the other axes at their first value, and what it changes in the plan is noted. Axes that change the same
//! thing (`model=a,b` and `model.hidden_size=1,2`) are composed together, all combinations of them. A value of the config
//! that depends on two axes changes with each of them, so such axes always meet; apart from those, the changes add up.
//!
//! Points are made from their number when they are asked for: a grid takes the memory of its axes, not of its points.

use std::collections::HashMap;

use llmprof_config::hydra::{App, COMPOSED_MAX, Host, JobSweep, RunMode};
use llmprof_predict::EfficiencyProfile;
use llmprof_record::plan::{Compile, Plan, RuntimeType};
use llmprof_theory::{
    Model, Workload,
    device::{Device, DeviceKind},
    parallel::Parallel,
};
use serde_json::{Map, Value};

use super::from_run::StartingRun;
use crate::{
    efficiency,
    failure::Failure,
    plan::{PlanPurpose, plan},
    subject::{RunSubject, device, unknown_design},
};

/// More points than anyone reads.
const POINTS_MAX: usize = 10_000_000;

/// A model of the grid.
pub(super) struct AxisModel {
    pub(super) name: String,
    /// As a family reads it; else by the keys that most configs share, where those describe a decoder.
    pub(super) model: Option<Model>,
    /// What tracing needs, where the kernels that transformers runs for it are not known.
    pub(super) tracing: Option<TracingPlan>,
}

/// A model whose kernels are traced: no family knows it, or one without its kernels in eager mode.
pub(super) struct TracingPlan {
    pub(super) design: Map<String, Value>,
    /// The interpreter that traces it.
    pub(super) python: String,
    /// Attention code other than the default, which families do not know the kernels of.
    pub(super) attention: Option<String>,
    /// Why no family reads it; absent where one does, so that other software is predicted by the model.
    pub(super) unread: Option<String>,
}

/// One point: which model and device, and what is asked of them.
pub(super) struct AxisPoint {
    pub(super) model: usize,
    pub(super) device: usize,
    pub(super) profile: usize,
    pub(super) workload: Workload,
    /// Its place in the values of each override.
    places: Vec<usize>,
}

/// What one value of a group of axes makes of the plan.
#[derive(Clone)]
struct Setting {
    model: usize,
    device: usize,
    profile: usize,
    workload: Workload,
}

/// Axes that change the same things.
struct AxisGroup {
    /// Places in the override list, and how many values each has.
    positions: Vec<(usize, usize)>,
    /// Of every combination of their values, the last place varying fastest.
    settings: Vec<Setting>,
}

pub(super) struct SweepAxes {
    sweep: JobSweep,
    /// Places in the override list that vary.
    varying: Vec<usize>,
    base: Setting,
    groups: Vec<AxisGroup>,
    pub(super) models: Vec<AxisModel>,
    pub(super) devices: Vec<Device>,
    pub(super) profiles: Vec<EfficiencyProfile>,
}

/// Composes, and keeps each distinct model and device once.
struct AxisReader<'a> {
    app: &'a App,
    host: &'a Host,
    models: Vec<(Value, AxisModel)>,
    devices: Vec<(String, Device)>,
    profiles: Vec<(String, EfficiencyProfile)>,
    /// The profile that the user named; else the runtime of each point decides.
    efficiency: Option<&'a str>,
    /// The run that predictions start from: its model and its device stand where none is named.
    start: Option<&'a StartingRun>,
}

impl SweepAxes {
    pub(super) fn read(
        app: &App,
        overrides: &[String],
        host: &Host,
        efficiency: Option<&str>,
        start: Option<&StartingRun>,
    ) -> Result<Self, Failure> {
        let sweep = app
            .compose_sweep(overrides, host)
            .map_err(crate::app::own_failure)?;
        if sweep.len() > POINTS_MAX {
            return Err(
                Failure::new(format!("{} points are too many", sweep.len())).hint(format!(
                    "at most {POINTS_MAX} at once: fewer values of a key"
                )),
            );
        }
        let Some(first) = sweep.job_overrides(0) else {
            return Err(Failure::new("the sweep has no points"));
        };
        let mut reader = AxisReader {
            app,
            host,
            models: Vec::new(),
            devices: Vec::new(),
            profiles: Vec::new(),
            efficiency,
            start,
        };
        let base_plan = reader.plan(&first)?;
        let base = reader.setting(&base_plan)?;
        let values = sweep.values();
        let varying: Vec<usize> = (0..values.len())
            .filter(|&position| values[position].iter().any(|text| *text != first[position]))
            .collect();

        let mut composed = 0;
        for &position in &varying {
            composed += values[position].len();
            check_composed(&first, &[position], composed)?;
        }
        let mut alone = HashMap::new();
        let mut clusters: Vec<(Vec<usize>, Vec<&'static str>)> = Vec::new();
        for &position in &varying {
            let mut parts = Vec::new();
            let mut settings = Vec::with_capacity(values[position].len());
            let mut job = first.clone();
            for value in &values[position] {
                job[position].clone_from(value);
                let plan = reader.plan(&job)?;
                for part in changed(&base_plan, &plan) {
                    if !parts.contains(&part) {
                        parts.push(part);
                    }
                }
                settings.push(reader.setting(&plan)?);
            }
            alone.insert(position, settings);
            merge(&mut clusters, position, parts);
        }
        let mut groups = Vec::new();
        for (positions, _) in clusters {
            let sizes = positions.iter().map(|&position| values[position].len());
            let combinations = sizes.clone().fold(1, usize::saturating_mul);
            let settings = if let [position] = positions.as_slice() {
                alone.remove(position).unwrap_or_default()
            } else {
                composed = composed.saturating_add(combinations);
                check_composed(&first, &positions, composed)?;
                reader.settings(&first, &positions, values)?
            };
            groups.push(AxisGroup {
                positions: positions.iter().copied().zip(sizes).collect(),
                settings,
            });
        }
        for (_, profile) in &mut reader.profiles {
            for (spec, device) in &reader.devices {
                efficiency::add_curves(profile, spec, device)?;
            }
        }
        Ok(Self {
            sweep,
            varying,
            base,
            groups,
            models: reader.models.into_iter().map(|(_, model)| model).collect(),
            devices: reader
                .devices
                .into_iter()
                .map(|(_, device)| device)
                .collect(),
            profiles: reader
                .profiles
                .into_iter()
                .map(|(_, profile)| profile)
                .collect(),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.sweep.len()
    }

    /// A point, in Hydra's order: the last axis varies fastest.
    pub(super) fn point(&self, index: usize) -> AxisPoint {
        let places = self.sweep.job_indices(index);
        let mut point = AxisPoint {
            model: self.base.model,
            device: self.base.device,
            profile: self.base.profile,
            workload: self.base.workload,
            places: Vec::new(),
        };
        for group in &self.groups {
            let number = group
                .positions
                .iter()
                .fold(0, |number, &(position, values)| {
                    number * values + places[position]
                });
            if let Some(setting) = group.settings.get(number) {
                self.apply(setting, &mut point);
            }
        }
        point.places = places;
        point
    }

    /// Takes over what the setting changes against the base.
    fn apply(&self, setting: &Setting, point: &mut AxisPoint) {
        if setting.model != self.base.model {
            point.model = setting.model;
        }
        if setting.device != self.base.device {
            point.device = setting.device;
        }
        if setting.profile != self.base.profile {
            point.profile = setting.profile;
        }
        let (base, new, target) = (&self.base.workload, &setting.workload, &mut point.workload);
        macro_rules! take {
            ($($($field:ident).+),*) => {
                $(if new.$($field).+ != base.$($field).+ {
                    target.$($field).+ = new.$($field).+;
                })*
            };
        }
        take!(
            batch,
            prompt,
            new_tokens,
            cached,
            chunk,
            precision.weights,
            precision.activations,
            precision.kv,
            precision.compute,
            images.count,
            images.height,
            images.width,
            images.crops_wide,
            images.crops_high,
            attention,
            logits,
            mla,
            routing,
            parallel
        );
    }

    /// Every way that points spread a model over devices, single ones not counted.
    pub(super) fn parallels(&self) -> Vec<Parallel> {
        let settings = self.groups.iter().flat_map(|group| &group.settings);
        let all = settings.chain([&self.base]);
        let mut parallels = Vec::new();
        for parallel in all.map(|setting| setting.workload.parallel) {
            if !parallel.is_single() && !parallels.contains(&parallel) {
                parallels.push(parallel);
            }
        }
        parallels
    }

    pub(super) fn names(&self) -> Vec<&str> {
        let name = |&position: &usize| {
            let text = self.sweep.values()[position][0].as_str();
            text.split_once('=').map_or(text, |(key, _)| key)
        };
        self.varying.iter().map(name).collect()
    }

    /// The values that a point has on them.
    pub(super) fn labels(&self, point: &AxisPoint) -> Vec<&str> {
        let value = |&position: &usize| {
            let text = self.sweep.values()[position][point.places[position]].as_str();
            text.split_once('=').map_or("", |(_, value)| value)
        };
        self.varying.iter().map(value).collect()
    }
}

/// Refuses what would compose for minutes before the first point; `positions` are the axes that were counted last.
fn check_composed(first: &[String], positions: &[usize], composed: usize) -> Result<(), Failure> {
    if composed <= COMPOSED_MAX {
        return Ok(());
    }
    let keys = positions.iter().map(|&position| {
        let word = first[position].as_str();
        word.split_once('=').map_or(word, |(key, _)| key)
    });
    let keys: Vec<&str> = keys.collect();
    let what = match keys.as_slice() {
        [key] => format!("{key} has too many values"),
        _ => format!("{} change the same settings", keys.join(" and ")),
    };
    Err(Failure::new(format!(
        "{what}: {composed} requests would be composed, at most {COMPOSED_MAX} are"
    ))
    .hint("fewer values, such as range(1,100001,100), or several calls".to_owned()))
}

impl AxisReader<'_> {
    fn plan(&self, job: &[String]) -> Result<Plan, Failure> {
        let composed = self.app.compose(job, RunMode::Run, self.host);
        let mut plan = plan(
            &composed.map_err(crate::app::own_failure)?,
            PlanPurpose::Paper,
        )?;
        if let Some(start) = self.start {
            start.set_model(&mut plan.model, job);
        }
        Ok(plan)
    }

    /// Of every combination of the values at some places, the last place varying fastest.
    fn settings(
        &mut self,
        first: &[String],
        positions: &[usize],
        values: &[Vec<String>],
    ) -> Result<Vec<Setting>, Failure> {
        let mut settings = Vec::new();
        let mut job = first.to_vec();
        for texts in combinations(positions, values) {
            for (&position, text) in positions.iter().zip(&texts) {
                job[position].clone_from(text);
            }
            let plan = self.plan(&job)?;
            settings.push(self.setting(&plan)?);
        }
        Ok(settings)
    }

    fn setting(&mut self, plan: &Plan) -> Result<Setting, Failure> {
        let key = serde_json::to_value((&plan.model, attention(plan)))
            .map_err(|error| Failure::new(format!("cannot compare models: {error}")))?;
        let model = if let Some(index) = self.models.iter().position(|(known, _)| *known == key) {
            index
        } else {
            self.models.push((key, grid_model(plan)?));
            self.models.len() - 1
        };
        let spec = &plan.hardware.spec;
        let device = if let Some(index) = self.devices.iter().position(|(known, _)| known == spec) {
            index
        } else {
            let device = match (spec.as_str(), self.start.and_then(StartingRun::device)) {
                ("auto", Some(own)) => own.clone(),
                ("auto", None) => {
                    return Err(Failure::new("a prediction needs a device").hint(
                        "hardware.spec=NAME, where `llmprof hardware list` shows the names; `this_cpu` is this machine's processor"
                            .to_owned(),
                    ));
                }
                _ => device(spec)?,
            };
            self.devices.push((spec.clone(), device));
            self.devices.len() - 1
        };
        let name = self.efficiency.map_or_else(
            || implementation(plan, &self.devices[device].1),
            str::to_owned,
        );
        let profile =
            if let Some(index) = self.profiles.iter().position(|(known, _)| *known == name) {
                index
            } else {
                self.profiles
                    .push((name.clone(), efficiency::profile(&name)?));
                self.profiles.len() - 1
            };
        Ok(Setting {
            model,
            device,
            profile,
            workload: plan.spread_workload(),
        })
    }
}

/// The model of a plan: counted where a family knows it, with what tracing needs where kernels have to be found out.
fn grid_model(plan: &Plan) -> Result<AxisModel, Failure> {
    let tracing = |design, unread| TracingPlan {
        design,
        python: plan
            .runtime
            .python
            .clone()
            .unwrap_or_else(|| "python3".to_owned()),
        attention: attention(plan),
        unread,
    };
    let failure = match RunSubject::from_plan(plan, None) {
        Ok(subject) => {
            let model = subject.counted()?.clone();
            let traced = model.has_gated_delta() || attention(plan).is_some();
            return Ok(AxisModel {
                name: subject.name.clone(),
                model: Some(model),
                tracing: traced.then(|| tracing(subject.design.clone(), None)),
            });
        }
        Err(failure) => failure,
    };
    let design = unknown_design(plan).ok_or(failure)?;
    Ok(AxisModel {
        name: plan.model.name.clone(),
        model: RunSubject::by_common_keys(plan).and_then(|subject| subject.model),
        tracing: Some(tracing(design.0, Some(design.1))),
    })
}

/// Attention code that the user chose in place of transformers' default.
fn attention(plan: &Plan) -> Option<String> {
    let chosen = plan.runtime.attn_implementation.as_ref();
    chosen.filter(|name| *name != "sdpa").cloned()
}

/// The software that a plan runs its model with.
pub(super) fn implementation(plan: &Plan, device: &Device) -> String {
    let runtime = &plan.runtime;
    let name = match runtime.kind {
        RuntimeType::Native if device.kind == DeviceKind::Cpu => "native",
        RuntimeType::Pytorch if runtime.compile != Compile::Off => "torch_compile",
        RuntimeType::Pytorch if runtime.cuda_graph => "hf_graph",
        kind if kind.is_serving() => "vllm",
        _ => "hf_eager",
    };
    name.to_owned()
}

/// The parts of the plan that differ: the model and the device as wholes, a workload by its fields.
fn changed(base: &Plan, other: &Plan) -> Vec<&'static str> {
    let mut parts = Vec::new();
    let mut note = |part, differs| {
        if differs {
            parts.push(part);
        }
    };
    let (a, b) = (&base.workload, &other.workload);
    let attends = attention(base) != attention(other);
    note("model", attends || base.model != other.model);
    note("device", base.hardware != other.hardware);
    note("runtime", base.runtime != other.runtime);
    note("parallel", base.parallel != other.parallel);
    note("batch", a.batch_size != b.batch_size);
    note("prompt", a.prompt_tokens != b.prompt_tokens);
    note("new_tokens", a.new_tokens != b.new_tokens);
    note("cached", a.cached_tokens != b.cached_tokens);
    note("chunk", a.chunk_tokens != b.chunk_tokens);
    note("dtype", a.dtype != b.dtype);
    note("weights", a.weights != b.weights);
    note("kv", a.kv_dtype != b.kv_dtype);
    note("attention", a.attention != b.attention);
    note("logits", a.logits != b.logits);
    note("mla", a.mla != b.mla);
    note("images", a.images != b.images);
    parts
}

/// Puts an axis into the cluster of those that change the same parts, joining clusters that it connects.
fn merge(
    clusters: &mut Vec<(Vec<usize>, Vec<&'static str>)>,
    position: usize,
    parts: Vec<&'static str>,
) {
    let meets = |known: &Vec<&'static str>| parts.iter().any(|part| known.contains(part));
    let (mut joined, apart): (Vec<_>, Vec<_>) =
        clusters.drain(..).partition(|(_, known)| meets(known));
    joined.push((vec![position], parts));
    *clusters = apart;
    let (positions, parts): (Vec<_>, Vec<_>) = joined.into_iter().unzip();
    clusters.push((positions.concat(), parts.concat()));
}

/// All combinations of the values at some places.
fn combinations(positions: &[usize], values: &[Vec<String>]) -> Vec<Vec<String>> {
    positions
        .iter()
        .fold(vec![Vec::new()], |partial, &position| {
            partial
                .iter()
                .flat_map(|texts| {
                    values[position].iter().map(move |text| {
                        let mut longer = texts.clone();
                        longer.push(text.clone());
                        longer
                    })
                })
                .collect()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_that_change_the_same_part_meet() {
        let mut clusters = Vec::new();
        merge(&mut clusters, 0, vec!["model", "dtype"]);
        merge(&mut clusters, 1, vec!["batch"]);
        merge(&mut clusters, 2, vec!["device"]);
        merge(&mut clusters, 3, vec!["dtype", "device"]);
        let mut positions: Vec<_> = clusters
            .into_iter()
            .map(|(positions, _)| positions)
            .collect();
        positions.sort();
        assert_eq!(positions, [vec![0, 2, 3], vec![1]]);
    }

    #[test]
    fn combinations_are_a_product() {
        let values = [
            vec!["a=1".to_owned(), "a=2".to_owned()],
            vec!["b=3".to_owned()],
        ];
        assert_eq!(
            combinations(&[0, 1], &values),
            [["a=1", "b=3"], ["a=2", "b=3"]]
        );
        assert_eq!(combinations(&[], &values), [Vec::<String>::new()]);
    }
}
