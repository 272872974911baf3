//! What a plan is about, in the terms of theory: a model, a workload, a device.

use std::path::Path;

use llmprof_analysis::statics::{self, Statics};
use llmprof_capture::telemetry::nvml::GpuFacts;
use llmprof_record::{
    issue::{Issue, Severity},
    plan::{ModelPlan, Place, Plan},
};
use llmprof_theory::{
    Model, Workload,
    device::{Catalog, Device},
};
use serde_json::{Map, Value};

use crate::{failure::Failure, measured};

/// A model, what is asked of it, and the device it is compared with.
pub(crate) struct Subject {
    /// Name of the model.
    pub(crate) name: String,
    /// Its design, with the keys of a Hugging Face config.
    pub(crate) design: Map<String, Value>,
    /// The model.
    pub(crate) model: Model,
    /// What is asked of it.
    pub(crate) workload: Workload,
    /// What it is compared with; absent where it could not be told.
    pub(crate) device: Option<Device>,
    /// What could not be told.
    pub(crate) issues: Vec<Issue>,
}

impl Subject {
    /// Reads the model's design and looks up the device. `family` reads the design as another family than it states.
    pub(crate) fn of(plan: &Plan, family: Option<&str>) -> Result<Self, Failure> {
        let design = design(&plan.model)?;
        let model = Model::from_config(&Value::Object(design.clone()), family)
            .map_err(|error| Failure::new(format!("model {}: {error}", plan.model.name)))?;
        let mut issues = Vec::new();
        let device = match plan.hardware.spec.as_str() {
            "auto" => {
                let known = match plan.device {
                    Place::Cpu => measured::path()
                        .map(|path| measured::load(&path))
                        .transpose()?
                        .flatten(),
                    Place::Cuda(index) => gpu(index, &mut issues),
                };
                if known.is_none() {
                    issues.push(
                        Issue::new(
                            Severity::Warning,
                            "hardware.unknown",
                            "no device is described, so there is no floor to compare with",
                        )
                        .with_hint(
                            "measure this machine with `llmprof hardware measure`, or hardware.spec=NAME, where \
                             `llmprof hardware list` shows the names",
                        ),
                    );
                }
                known
            }
            spec => Some(device(spec)?),
        };
        Ok(Self {
            name: plan.model.name.clone(),
            design,
            model,
            workload: plan.workload.workload(),
            device,
            issues,
        })
    }

    /// How many token ids the model knows; 0 for one without a decoder.
    pub(crate) fn vocabulary(&self) -> u64 {
        let decoder = self.model.decoder.as_ref();
        decoder.map_or(0, |decoder| decoder.embedding.vocabulary)
    }

    /// What it must cost, on paper.
    pub(crate) fn statics(&self) -> Result<Statics, Failure> {
        statics::analyze(
            &self.name,
            &self.model,
            &self.workload,
            self.device.as_ref(),
        )
        .map_err(|error| Failure::new(format!("model {}: {error}", self.name)))
    }
}

/// The device file of the GPU of that number, by the name that its driver gives it.
fn gpu(index: u32, issues: &mut Vec<Issue>) -> Option<Device> {
    let facts = GpuFacts::collect(None).ok()?;
    let name = facts
        .gpus
        .into_iter()
        .find(|gpu| gpu.index == index)?
        .name?;
    match Catalog::embedded().by_driver_name(&name) {
        Ok(device) => Some(device),
        Err(error) => {
            issues.push(Issue::new(
                Severity::Warning,
                "hardware.undescribed",
                format!("GPU {index} is a {name}: {error}"),
            ));
            None
        }
    }
}

/// The device of that name, or of that file.
pub(crate) fn device(spec: &str) -> Result<Device, Failure> {
    let failed = |error: llmprof_theory::device::DeviceError| Failure::new(error.to_string());
    let mut catalog = Catalog::embedded();
    let path = Path::new(spec);
    if path
        .extension()
        .is_some_and(|extension| extension == "yaml" || extension == "yml")
    {
        let text = read(path)?;
        return catalog.add(spec, &text).cloned().map_err(failed);
    }
    catalog.find(spec).map_err(failed)
}

/// The design of a model: from its config file, with the keys of the plan on top.
fn design(model: &ModelPlan) -> Result<Map<String, Value>, Failure> {
    let file = match (&model.config, &model.path) {
        (Some(file), _) => Some(file.clone()),
        (None, Some(path)) if !model.design.contains_key("model_type") => {
            Some(path.join("config.json"))
        }
        _ => None,
    };
    let mut design = match file {
        Some(file) => parse(&file)?,
        None if model.design.is_empty() => {
            return Err(
                Failure::new(format!("model {} has no design", model.name)).hint(
                    "model.path=DIR, model.config=FILE, or a model of the config tree".to_owned(),
                ),
            );
        }
        None => Map::new(),
    };
    design.extend(model.design.clone());
    if let Some(dtype) = model.dtype {
        design.insert("dtype".to_owned(), Value::String(dtype.name().to_owned()));
        design.remove("torch_dtype");
    }
    Ok(design)
}

fn parse(file: &Path) -> Result<Map<String, Value>, Failure> {
    let text = read(file)?;
    match serde_json::from_str(&text) {
        Ok(Value::Object(design)) => Ok(design),
        Ok(_) => Err(Failure::new(format!(
            "{} is not a JSON object",
            file.display()
        ))),
        Err(error) => Err(Failure::new(format!(
            "cannot read {}: {error}",
            file.display()
        ))),
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file)
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", file.display())))
}
