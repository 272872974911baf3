//! What a plan is about, in the terms of theory: a model, a workload, a device.

use std::path::{Path, PathBuf};

use llmprof_analysis::statics;
use llmprof_analysis::statics::Statics;
use llmprof_capture::{dataset::Vocabulary, telemetry::nvml};
use llmprof_record::{
    issue::{Issue, IssueCode},
    plan::{ModelPlace, ModelPlan, Plan, RuntimeType},
    run::{RecordedModel, RunRecord},
};
use llmprof_theory::{
    Model, ModelError, Workload,
    device::{Catalog, Device},
};
use llmprof_units::{
    DType,
    bounded_file::{CONFIG_MAX_BYTES, read_text_bounded},
};
use serde_json::{Map, Value};

use crate::{calibration, failure::Failure};

/// A model, what is asked of it, and the device for the roofline.
pub(crate) struct RunSubject {
    pub(crate) name: String,
    /// Its design, with the keys of a Hugging Face config.
    pub(crate) design: Map<String, Value>,
    /// The model, as theory counts it; absent where it cannot and the model is run all the same.
    pub(crate) model: Option<Model>,
    /// What is asked of it.
    pub(crate) workload: Workload,
    /// Configuration keys of the workload that the user set.
    pub(crate) workload_keys: Vec<String>,
    /// What it is compared with; absent where it could not be found out.
    pub(crate) device: Option<Device>,
    /// What could not be found out.
    pub(crate) issues: Vec<Issue>,
}

impl RunSubject {
    /// Reads the model's design and looks up the device. `family` reads the design as another family than it states.
    pub(crate) fn from_plan(plan: &Plan, family: Option<&str>) -> Result<Self, Failure> {
        let mut subject = Self::model_of(plan, family)?;
        subject.find_device(plan)?;
        Ok(subject)
    }

    /// What a profile is of. A model of an unknown family stays without counts: the timeline is worth reading without them.
    pub(crate) fn of_profile(plan: &Plan) -> Result<Self, Failure> {
        let design = design(&plan.model)?;
        let model = match Model::from_config(&Value::Object(design.clone()), None) {
            Ok(model) => Some(model),
            Err(ModelError::UnknownFamily { .. }) => None,
            Err(error) => return Err(refused(plan, &error)),
        };
        Ok(Self::without_device(plan, design, model, Vec::new()))
    }

    /// The same without a device.
    pub(crate) fn model_of(plan: &Plan, family: Option<&str>) -> Result<Self, Failure> {
        let design = design(&plan.model)?;
        let model = Model::from_config(&Value::Object(design.clone()), family)
            .map_err(|error| refused(plan, &error))?;
        Ok(Self::without_device(plan, design, Some(model), Vec::new()))
    }

    /// A model that no family knows, by the keys that most configs share; `None` where those do not describe a decoder.
    pub(crate) fn by_common_keys(plan: &Plan) -> Option<Self> {
        let design = design(&plan.model).ok()?;
        let config = Value::Object(design.clone());
        let unknown = matches!(
            Model::from_config(&config, None),
            Err(ModelError::UnknownFamily { .. })
        );
        let model = Model::from_common_keys(&config).ok().filter(|_| unknown)?;
        Some(Self::without_device(plan, design, Some(model), Vec::new()))
    }

    /// What a run is about, before it is known what it is compared with: that may have to be measured first, which takes
    /// seconds, while mistakes are found at once.
    pub(crate) fn of_run(plan: &Plan) -> Result<Self, Failure> {
        // What transformers or another program runs need not be known here.
        let others = matches!(
            plan.runtime.kind,
            RuntimeType::Pytorch | RuntimeType::Worker | RuntimeType::Command
        ) || plan.runtime.kind.is_serving();
        let design = design(&plan.model)?;
        match Model::from_config(&Value::Object(design.clone()), None) {
            Ok(model) => {
                let mut subject = Self::without_device(plan, design, Some(model), Vec::new());
                subject.as_executed(plan.runtime.kind);
                Ok(subject)
            }
            Err(error) if others && !error.is_absurd() => {
                Ok(Self::without_device(plan, design, None, Vec::new()))
            }
            Err(error) => Err(refused(plan, &error)),
        }
    }

    /// Counts in the formats that the runtime computes in: of weights of 8 bits, the native engine makes 32-bit numbers.
    fn as_executed(&mut self, runtime: RuntimeType) {
        if let Some(model) = &self.model
            && runtime == RuntimeType::Native
        {
            self.workload.precision = model.computed_in(&self.workload.precision, DType::F32);
        }
    }

    fn without_device(
        plan: &Plan,
        design: Map<String, Value>,
        model: Option<Model>,
        mut issues: Vec<Issue>,
    ) -> Self {
        issues.extend(beyond_context(plan, &design));
        Self {
            name: plan.model.name.clone(),
            design,
            model,
            workload: plan.workload.workload(),
            workload_keys: Vec::new(),
            device: None,
            issues,
        }
    }

    /// Looks up the device that the plan names, or that is at hand.
    pub(crate) fn find_device(&mut self, plan: &Plan) -> Result<(), Failure> {
        let issues = &mut self.issues;
        self.device = match plan.hardware.spec.as_str() {
            "auto" => {
                let known = match plan.device {
                    ModelPlace::Cpu => calibration::this_cpu()?,
                    ModelPlace::Cuda(index) => gpu(index, issues),
                    ModelPlace::Mps | ModelPlace::Xpu(_) | ModelPlace::Hpu(_) => None,
                };
                issues.extend(known.as_ref().and_then(calibration::doubt));
                if known.is_none() {
                    issues.push(Issue::warning(IssueCode::HardwareUnknown));
                }
                known
            }
            spec => Some(device(spec)?),
        };
        Ok(())
    }

    /// Adds edits of the design that the command line made: the name alone would stand for another model.
    pub(crate) fn name_edits(&mut self, overrides: &[String]) {
        let edit = |text: &String| {
            let (key, value) = text.trim_start_matches('+').split_once('=')?;
            let key = key.strip_prefix("model.")?;
            let is_design = !ModelPlan::KEYS.contains(&key);
            is_design.then(|| format!("{key}={value}"))
        };
        let edits: Vec<String> = overrides.iter().filter_map(edit).collect();
        if !edits.is_empty() {
            self.name = format!("{} ({})", self.name, edits.join(", "));
        }
    }

    /// Puts it into a record.
    pub(crate) fn describe(&self, record: &mut RunRecord) {
        record.name.clone_from(&self.name);
        record.workload = Some(self.workload);
        record.workload_keys.clone_from(&self.workload_keys);
        record.device.clone_from(&self.device);
        record.model = Some(RecordedModel {
            design: self.design.clone(),
            model: self.model.clone(),
        });
        record.issues.extend(self.issues.iter().cloned());
    }

    /// The token ids that prompts may have.
    pub(crate) fn vocabulary(&self) -> Result<Vocabulary, Failure> {
        let size = match &self.model {
            Some(model) => model
                .decoder
                .as_ref()
                .map_or(0, |decoder| decoder.embedding.vocabulary),
            None => number(&self.design, "vocab_size").ok_or_else(|| {
                Failure::new(format!(
                    "model {}: its design has no `vocab_size`, so there are no token ids to make prompts of",
                    self.name
                ))
                .hint("model.vocab_size=N".to_owned())
            })?,
        };
        let reserved = FEATURE_TOKENS.iter();
        Ok(Vocabulary {
            size,
            reserved: reserved
                .filter_map(|key| number(&self.design, key))
                .collect(),
        })
    }

    /// The model, where theory can count it.
    pub(crate) fn counted(&self) -> Result<&Model, Failure> {
        let unknown = || {
            Failure::new(format!(
                "no cost model for model {}: unknown family",
                self.name
            ))
        };
        self.model.as_ref().ok_or_else(unknown)
    }

    /// What it must cost, on paper.
    pub(crate) fn statics(&self) -> Result<Statics, Failure> {
        statics::analyze(
            &self.name,
            self.counted()?,
            &self.workload,
            self.device.as_ref(),
        )
        .map_err(|error| Failure::new(format!("model {}: {error}", self.name)))
    }
}

/// Keys of a design that hold such ids.
const FEATURE_TOKENS: [&str; 6] = [
    "image_token_id",
    "image_token_index",
    "video_token_id",
    "video_token_index",
    "audio_token_id",
    "audio_token_index",
];

/// A number of the decoder's part of a design where it has one, else of the design.
fn number(design: &Map<String, Value>, key: &str) -> Option<u64> {
    let text = design.get("text_config").and_then(Value::as_object);
    let mut places = [text, Some(design)].into_iter().flatten();
    places.find_map(|place| place.get(key)?.as_u64())
}

fn refused(plan: &Plan, error: &ModelError) -> Failure {
    let failure = Failure::new(format!("model {}: {error}", plan.model.name));
    match error {
        ModelError::NoModelType { .. } | ModelError::UnknownFamily { .. } => failure.hint(
            "if the model is built like one of these, say model.config=FILE +model.model_type=FAMILY, or `llmprof model --as \
             FAMILY`; runtime=pytorch runs what transformers knows"
                .to_owned(),
        ),
        _ => failure,
    }
}

/// That a request goes beyond what a model was made for. It can be run and timed; what is generated means little.
fn beyond_context(plan: &Plan, design: &Map<String, Value>) -> Option<Issue> {
    let keys = ["max_position_embeddings", "n_positions"];
    let (key, most) = keys
        .iter()
        .find_map(|key| Some((key, number(design, key)?)))?;
    let workload = &plan.workload;
    let parts = [
        workload.cached_tokens,
        workload.prompt_tokens,
        workload.new_tokens,
    ];
    let asked = parts
        .into_iter()
        .fold(0, u64::saturating_add)
        .saturating_sub(1);
    (asked > most).then(|| {
        Issue::warning(IssueCode::WorkloadBeyondContext)
            .with("positions", asked)
            .with("most", most)
            .with("key", *key)
    })
}

/// The device file of the GPU of that number, by the name that its driver gives it.
fn gpu(index: u32, issues: &mut Vec<Issue>) -> Option<Device> {
    let facts = nvml::gpu_facts(None).ok()?;
    let name = facts
        .gpus
        .into_iter()
        .find(|gpu| gpu.index == index)?
        .name?;
    match Catalog::embedded().by_driver_name(&name) {
        Ok(device) => Some(device),
        Err(error) => {
            issues.push(
                Issue::warning(IssueCode::HardwareUndescribed)
                    .with("gpu", index)
                    .with("name", name)
                    .with("error", error.to_string()),
            );
            None
        }
    }
}

/// The device of that name, or of that file. `cpu` is the CPU of this machine, as in `device=cpu`.
pub(crate) fn device(spec: &str) -> Result<Device, Failure> {
    let failed = |error: llmprof_theory::device::DeviceError| Failure::new(error.to_string());
    if ["cpu", llmprof_capture::calibration::THIS_CPU].contains(&spec) {
        return calibration::this_cpu()?.ok_or_else(|| {
            Failure::new("this CPU is not calibrated yet")
                .hint("`llmprof hardware measure` does; so does the first run on it".to_owned())
        });
    }
    let mut catalog = Catalog::embedded();
    let path = Path::new(spec);
    if path
        .extension()
        .is_some_and(|extension| extension == "yaml" || extension == "yml")
    {
        let text = read(path)?;
        return catalog.add_file(spec, &text).cloned().map_err(failed);
    }
    catalog.find_device(spec).map_err(|error| {
        failed(error).hint(
            "`llmprof hardware list` shows the names; the path of a .yaml file is a custom device: `llmprof hardware show custom_npu \
             --yaml` prints a template"
                .to_owned(),
        )
    })
}

/// The design of a model that no family knows, and why none does.
pub(crate) fn unknown_design(plan: &Plan) -> Option<(Map<String, Value>, String)> {
    let design = design(&plan.model).ok()?;
    match Model::from_config(&Value::Object(design.clone()), None) {
        Err(error @ ModelError::UnknownFamily { .. }) => Some((design, error.to_string())),
        _ => None,
    }
}

/// The design of a model: from its config file, with the keys of the plan on top.
fn design(model: &ModelPlan) -> Result<Map<String, Value>, Failure> {
    let file = match (&model.config, &model.path) {
        (Some(file), _) => Some(file.clone()),
        (None, Some(path)) if !is_whole(&model.design) => Some(path.join("config.json")),
        _ => None,
    };
    if is_whole(&model.design)
        && let Some(file) = model.config.clone().or_else(|| own_config(model))
    {
        agrees(&model.name, &model.design, &file)?;
    }
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

/// The config.json in the model's directory, if there is one.
fn own_config(model: &ModelPlan) -> Option<PathBuf> {
    let file = model.path.as_ref()?.join("config.json");
    file.is_file().then_some(file)
}

/// A model of the config tree beside the files of another one: either may be meant, and neither is taken.
fn agrees(name: &str, design: &Map<String, Value>, file: &Path) -> Result<(), Failure> {
    let stated = parse(file)?;
    let keys = [
        "model_type",
        "hidden_size",
        "n_embd",
        "d_model",
        "vocab_size",
    ];
    let differs = |key: &&str| {
        let both = design.get(*key).zip(stated.get(*key));
        both.is_some_and(|(here, there)| here != there)
    };
    let Some(key) = keys.into_iter().find(differs) else {
        return Ok(());
    };
    let message = format!(
        "`{key}` of the model {name} is {}, but {} in {}",
        design[key],
        stated[key],
        file.display()
    );
    Err(Failure::new(message).hint(
        "`model=local` takes the design of the file; keys of the design given with it are edits"
            .to_owned(),
    ))
}

/// Whether keys of the config are a design by themselves, not changes to one: they state the family and a size.
fn is_whole(design: &Map<String, Value>) -> bool {
    let sizes = [
        "hidden_size",
        "n_embd",
        "d_model",
        "text_config",
        "vision_config",
    ];
    design.contains_key("model_type") && sizes.iter().any(|key| design.contains_key(*key))
}

fn parse(file: &Path) -> Result<Map<String, Value>, Failure> {
    let text = read(file)?;
    let hint =
        "a model's config is JSON: config.json of its Hugging Face repository, or a file like it"
            .to_owned();
    match llmprof_theory::parse_config(&text) {
        Ok(Value::Object(design)) => Ok(design),
        Ok(_) => Err(Failure::new(format!("{} is not a JSON object", file.display())).hint(hint)),
        Err(error) => {
            Err(Failure::new(format!("cannot read {}: {error}", file.display())).hint(hint))
        }
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    read_text_bounded(file, CONFIG_MAX_BYTES)
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", file.display())))
}
