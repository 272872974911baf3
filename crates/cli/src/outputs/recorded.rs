//! What a run recorded, as `analyze` and `report` need it again: `recorded.json` beside `trace.llmprof`.

use std::path::Path;

use llmprof_analysis::run::{
    MeasuredRun, OperatorEvent, RunAnalysis, TracedPass, analyze_run, analyze_times, analyze_trace,
};
use llmprof_capture::calibration::CalibrationFile;
use llmprof_record::{
    issue::{Issue, Severity},
    store::write_atomically,
    trace::Trace,
};
use llmprof_theory::{
    Model, Shape, Workload,
    device::{Catalog, Device},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{
    failure::Failure,
    subject::{Subject, uncounted},
};

/// The trace of a run.
pub(crate) const TRACE_FILE: &str = "trace.llmprof";
/// What else was recorded.
const FILE: &str = "recorded.json";
const SCHEMA: u32 = 1;

/// A model as a run knew it.
pub(crate) struct RecordedModel {
    /// Its design, with the keys of a Hugging Face config.
    pub(crate) design: Map<String, Value>,
    /// Read as this family, whatever the design says.
    family: Option<String>,
    /// The model, where theory knows its family.
    pub(crate) model: Option<Model>,
}

impl RecordedModel {
    pub(crate) fn of(subject: &Subject) -> Self {
        Self {
            design: subject.design.clone(),
            family: subject.model.as_ref().map(|model| model.family.to_owned()),
            model: subject.model.clone(),
        }
    }

    fn read(design: Map<String, Value>, family: Option<String>) -> Result<Self, Failure> {
        let model = match Model::from_config(&Value::Object(design.clone()), family.as_deref()) {
            Ok(model) => Some(model),
            // One that was run without being counted.
            Err(_) if family.is_none() => None,
            Err(error) => {
                return Err(Failure::new(format!(
                    "cannot read the run's model: {error}"
                )));
            }
        };
        Ok(Self {
            design,
            family,
            model,
        })
    }
}

/// How the captured pass was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Captured {
    /// As calls of operators by the native engine; the trace is a copy for other tools.
    Operators,
    /// As a trace.
    #[default]
    Trace,
}

/// What a run recorded beside its trace.
#[derive(Default)]
pub(crate) struct Recorded {
    /// What to call it.
    pub(crate) name: String,
    pub(crate) model: Option<RecordedModel>,
    /// What was asked of the model.
    pub(crate) workload: Option<Workload>,
    pub(crate) device: Option<Device>,
    /// The text of its device file, where it is not one that llmprof ships.
    pub(crate) device_file: Option<String>,
    pub(crate) measured: Option<MeasuredRun>,
    pub(crate) captured: Captured,
    /// What the first analysis said that its numbers rest on.
    pub(crate) assumptions: Vec<String>,
}

/// The file.
#[derive(Serialize, Deserialize)]
struct Stored {
    schema_version: u32,
    name: String,
    captured: Captured,
    model: Option<StoredModel>,
    workload: Option<Workload>,
    device: Option<StoredDevice>,
    measured: Option<MeasuredRun>,
    /// The calls of each captured pass, which `measured` leaves out.
    calls: Vec<Calls>,
    assumptions: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct StoredModel {
    design: Map<String, Value>,
    family: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct StoredDevice {
    name: String,
    file: Option<String>,
}

/// Calls of operators as columns, of which a file can hold many.
#[derive(Default, Serialize, Deserialize)]
struct Calls {
    pass: usize,
    operator: Vec<u32>,
    groups: Vec<u64>,
    m: Vec<u64>,
    n: Vec<u64>,
    k: Vec<u64>,
    touched: Vec<Option<u32>>,
    start_ns: Vec<i64>,
    end_ns: Vec<i64>,
}

impl Calls {
    fn of(pass: usize, events: &[OperatorEvent]) -> Self {
        let mut calls = Self {
            pass,
            ..Self::default()
        };
        for event in events {
            calls.operator.push(event.operator);
            calls.groups.push(event.shape.groups);
            calls.m.push(event.shape.m);
            calls.n.push(event.shape.n);
            calls.k.push(event.shape.k);
            calls.touched.push(event.touched);
            calls.start_ns.push(event.start_ns);
            calls.end_ns.push(event.end_ns);
        }
        calls
    }

    /// The events; nothing where columns have different lengths.
    fn events(&self) -> Option<Vec<OperatorEvent>> {
        let event = |index: usize| {
            Some(OperatorEvent {
                operator: *self.operator.get(index)?,
                shape: Shape {
                    groups: *self.groups.get(index)?,
                    m: *self.m.get(index)?,
                    n: *self.n.get(index)?,
                    k: *self.k.get(index)?,
                },
                touched: *self.touched.get(index)?,
                start_ns: *self.start_ns.get(index)?,
                end_ns: *self.end_ns.get(index)?,
            })
        };
        (0..self.operator.len()).map(event).collect()
    }
}

impl Recorded {
    /// Writes the file into the directory of a run.
    pub(crate) fn save(&self, run: &Path) -> Result<(), Failure> {
        let mut measured = self.measured.clone();
        let mut calls = Vec::new();
        for (number, pass) in measured
            .iter_mut()
            .flat_map(|run| &mut run.passes)
            .enumerate()
        {
            if !pass.operators.is_empty() {
                calls.push(Calls::of(number, &std::mem::take(&mut pass.operators)));
            }
        }
        let stored = Stored {
            schema_version: SCHEMA,
            name: self.name.clone(),
            captured: self.captured,
            model: self.model.as_ref().map(|model| StoredModel {
                design: model.design.clone(),
                family: model.family.clone(),
            }),
            workload: self.workload,
            device: self.device.as_ref().map(|device| StoredDevice {
                name: device.name.clone(),
                file: self.device_file.clone(),
            }),
            measured,
            calls,
            assumptions: self.assumptions.clone(),
        };
        let text = serde_json::to_string(&stored)
            .map_err(|error| Failure::new(format!("cannot write JSON: {error}")))?;
        write_atomically(&run.join(FILE), (text + "\n").as_bytes())?;
        Ok(())
    }

    /// Reads it back; nothing where a run has no such file.
    pub(crate) fn load(run: &Path) -> Result<Option<Self>, Failure> {
        let file = run.join(FILE);
        let Some(stored) = json::<Stored>(&file)? else {
            return Ok(None);
        };
        let broken = |what: &str| Failure::new(format!("{} is broken: {what}", file.display()));
        if stored.schema_version > SCHEMA {
            return Err(Failure::new(format!(
                "{} has schema version {}, this llmprof reads up to {SCHEMA}",
                file.display(),
                stored.schema_version
            )));
        }
        let mut measured = stored.measured;
        for calls in &stored.calls {
            let pass = measured
                .as_mut()
                .and_then(|run| run.passes.get_mut(calls.pass))
                .ok_or_else(|| broken("it has calls of a pass that it does not list"))?;
            pass.operators = calls
                .events()
                .ok_or_else(|| broken("columns of calls have different lengths"))?;
        }
        let model = stored
            .model
            .map(|model| RecordedModel::read(model.design, model.family))
            .transpose()?;
        let device = stored
            .device
            .as_ref()
            .map(|device| device_of(&device.name, device.file.as_deref()))
            .transpose()?;
        Ok(Some(Self {
            name: stored.name,
            model,
            workload: stored.workload,
            device,
            device_file: stored.device.and_then(|device| device.file),
            measured,
            captured: stored.captured,
            assumptions: stored.assumptions,
        }))
    }

    /// Analyzes what was recorded. Limits are those of `device`, the recorded one, or the one that the trace names.
    pub(crate) fn analyze(
        &self,
        trace: Option<&Trace>,
        device: Option<&Device>,
    ) -> Result<RunAnalysis, Failure> {
        let subject = self
            .model
            .as_ref()
            .and_then(|model| model.model.as_ref())
            .zip(self.workload.as_ref());
        let same_device = device.is_none();
        let device = device.or(self.device.as_ref());
        let failed = |error: llmprof_analysis::run::RunAnalysisError| {
            Failure::new(format!("cannot analyze the run: {error}"))
        };
        let mut analysis = match (self.captured, &self.measured, subject, trace) {
            (Captured::Operators, Some(measured), Some((model, workload)), _) => {
                analyze_run(model, workload, device, measured).map_err(failed)?
            }
            (_, measured, _, Some(trace)) => {
                let pass = TracedPass {
                    name: &self.name,
                    subject,
                    device,
                    measured: measured.as_ref(),
                };
                analyze_trace(trace, &pass).map_err(failed)?
            }
            (_, Some(measured), None, None) => analyze_times(measured),
            _ => {
                return Err(Failure::new(
                    "the run has neither a timeline nor recorded operators",
                ));
            }
        };
        if let Some(model) = self.model.as_ref().filter(|model| model.model.is_none()) {
            analysis.workload = self.workload;
            name_uncounted(&model.design, &mut analysis.issues);
        }
        // What the run knew beside its data, such as what a profiler cost.
        let told = self.assumptions.iter().filter(|_| same_device);
        for assumption in told {
            if !analysis.assumptions.contains(assumption) {
                analysis.assumptions.push(assumption.clone());
            }
        }
        Ok(analysis)
    }
}

/// Says why a model that was named is not counted.
pub(crate) fn name_uncounted(design: &Map<String, Value>, issues: &mut Vec<Issue>) {
    issues.retain(|issue| issue.code != "run.no_model");
    let counted = Model::from_config(&Value::Object(design.clone()), None);
    let issue = counted.err().map(|error| uncounted(&error));
    issues.extend(issue.filter(|issue| !issues.contains(issue)));
}

/// The text of a device's file, where llmprof does not ship it: the measured processor, or a file of the user's.
pub(crate) fn device_file(device: Option<&Device>, spec: &str) -> Option<String> {
    let device = device?;
    if Catalog::embedded().by_name(&device.name).is_ok() {
        return None;
    }
    let path = Path::new(spec);
    let path = if path.is_file() {
        path.to_path_buf()
    } else {
        CalibrationFile::of_this_machine()?.path().to_path_buf()
    };
    std::fs::read_to_string(path).ok()
}

fn device_of(name: &str, file: Option<&str>) -> Result<Device, Failure> {
    let failed = |error: llmprof_theory::device::DeviceError| {
        Failure::new(format!("cannot read the run's device: {error}"))
    };
    let mut catalog = Catalog::embedded();
    match file {
        Some(text) => catalog
            .add("the run's device", text)
            .cloned()
            .map_err(failed),
        None => catalog.by_name(name).map_err(failed),
    }
}

/// The description of the device that a trace names, or why there is none.
pub(crate) fn described(trace: &Trace) -> (Option<Device>, Option<Issue>) {
    let Some(name) = trace
        .devices
        .iter()
        .map(|device| device.name.as_str())
        .find(|name| !name.is_empty())
    else {
        return (None, None);
    };
    match Catalog::embedded().by_driver_name(name) {
        Ok(device) => (Some(device), None),
        Err(error) => {
            let issue = Issue::new(
                Severity::Warning,
                "hardware.unknown",
                format!("no rooflines: {error}"),
            )
            .with_hint("--device NAME compares with another device");
            (None, Some(issue))
        }
    }
}

/// The contents of a JSON file of a run; `None` where there is no such file.
pub(crate) fn json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(format!("cannot read {}: {error}", path.display()))
    };
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| failed(&error)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(&error)),
    }
}
