//! What kind of program a trace shows, by proof.
//!
//! Words follow the program: *prefill, decode, TTFT, KV cache, serving* exist only where the program is proven to generate text
//! ([`Program::generates_text`]). Everything else is named by the ranges, steps and modules that the trace has.

pub(crate) mod proofs;

use llmprof_record::trace::Trace;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::phases::forward::ForwardPasses;

pub(crate) use proofs::{
    OPTIMIZER_STEP, backward_starts, is_backward_op, module_class, named_rows, uses_device,
};

/// What kind of program a trace shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramKind {
    /// A language model that generates text for one batch.
    LlmInference,
    /// An engine that schedules the steps of many requests.
    Serving,
    Training,
    /// Modules or backward ops were recorded; the modules are not those of a language model, and nothing is trained.
    Other,
    /// Nothing in the trace says what ran.
    #[default]
    Unknown,
}

impl ProgramKind {
    pub const ALL: [Self; 5] = [
        Self::LlmInference,
        Self::Serving,
        Self::Training,
        Self::Other,
        Self::Unknown,
    ];

    /// Whether the words of text generation apply: prefill, decode, TTFT, TPOT, KV cache.
    pub fn generates_text(self) -> bool {
        matches!(self, Self::LlmInference | Self::Serving)
    }
}

/// One fact of the trace or of the run that shows what ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(tag = "proof", rename_all = "snake_case")]
pub enum Proof {
    /// llmprof itself ran the model.
    Harness,
    /// Ranges whose names state the batch of a step.
    EngineLabels {
        /// Serving engine that writes such labels.
        engine: String,
        /// Label of the first such step.
        label: String,
    },
    /// Ranges that are named for the phases of text generation.
    Ranges {
        /// Names of these ranges.
        names: Vec<String>,
    },
    /// Embedding lookups, and attention over a KV cache that grows, by recorded shapes.
    Shapes {
        /// Forward passes that continue a KV cache, and those before them.
        passes: u64,
    },
    /// The named model agrees with what was recorded.
    Model {
        /// Name of the model, kernel or optimizer.
        name: String,
    },
    /// Calls of `nn.Module`, or ranges named by module path.
    Modules {
        /// Classes of the modules, or paths of their ranges.
        names: Vec<String>,
    },
    /// Operators of autograd, with the threads they ran on.
    BackwardOps {
        /// Name of the first backward op.
        op: String,
        /// Threads that ran backward ops.
        threads: Vec<String>,
    },
    /// A kernel that only a backward pass or an optimizer launches.
    TrainingKernel {
        /// Name of the model, kernel or optimizer.
        name: String,
    },
    /// The range of an optimizer's step.
    Optimizer {
        /// Name of the model, kernel or optimizer.
        name: String,
    },
    /// A range of what divides the work among ranks.
    Parallel {
        /// How the model is spread over ranks.
        scheme: Parallelism,
        /// Name of the first range of the wrapper that divides the work.
        range: String,
    },
    /// Ranges of a pipeline schedule, one for each micro-batch.
    Pipeline {
        /// Micro-batches with a forward and a backward range.
        micro_batches: u64,
        /// Name of the first forward range.
        range: String,
    },
}

/// How the work of training is divided among ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parallelism {
    /// Each rank keeps a part of the weights, and gathers the rest for each layer.
    FullySharded,
    /// Each rank has all weights, and gradients are added up.
    DataParallel,
}

/// What ran, and what shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct Program {
    /// What kind of program ran.
    pub kind: ProgramKind,
    /// What shows the kind; empty where it is unknown.
    pub proofs: Vec<Proof>,
    /// The devices that its processes launch on; empty where the trace holds one program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<u32>,
    /// Programs of other processes in the same trace, each on devices of its own; of all processes where they share one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Program>,
}

impl Program {
    /// The programs of processes that launch on devices of their own, as one with others. Processes of one kind are ranks of one
    /// program; nothing is said of the devices where there is but one kind.
    pub(crate) fn of_processes(processes: Vec<Self>) -> Self {
        let mut programs: Vec<Self> = Vec::new();
        for process in processes {
            match programs.iter_mut().find(|known| known.kind == process.kind) {
                Some(known) => {
                    known.name_no_other_threads(&process);
                    known.devices.extend(process.devices);
                }
                None => programs.push(process),
            }
        }
        if let [program] = &mut programs[..] {
            program.devices.clear();
        }
        let mut programs = programs.into_iter();
        let first = programs.next().unwrap_or_default();
        Self {
            others: programs.collect(),
            ..first
        }
    }

    /// The programs of processes that launch on one device: none of them is the program of that device.
    pub(crate) fn of_shared_device(processes: &[Trace]) -> Self {
        let own = |trace| Self::of_trace(trace, false, ForwardPasses::of_trace(trace).as_ref());
        Self {
            others: processes.iter().map(own).collect(),
            ..Self::default()
        }
    }

    /// Whether several programs run on one device, so that nothing about its time is about one of them.
    pub fn shares_device(&self) -> bool {
        self.devices.is_empty() && !self.others.is_empty()
    }

    /// Leaves out the threads of backward ops where another process runs them on others: a few of many ranks say nothing.
    fn name_no_other_threads(&mut self, other: &Self) {
        let threads_of = |proof: &Proof| match proof {
            Proof::BackwardOps { threads, .. } => Some(threads.clone()),
            _ => None,
        };
        let theirs = other.proofs.iter().find_map(threads_of);
        for proof in &mut self.proofs {
            if let Proof::BackwardOps { threads, .. } = proof
                && theirs.as_ref().is_some_and(|theirs| theirs != threads)
            {
                threads.clear();
            }
        }
    }

    /// The program with the devices that it launches on.
    pub(crate) fn on_devices(mut self, devices: &[u32]) -> Self {
        self.devices = devices.to_vec();
        self
    }

    /// The program that a device runs; the first one where none launches on it.
    pub fn of_device(&self, device: Option<u32>) -> &Self {
        let runs = |program: &&Self| device.is_some_and(|device| program.devices.contains(&device));
        self.others.iter().find(runs).unwrap_or(self)
    }

    /// The program that a trace shows; `is_measured` says that llmprof itself ran the model. Engine labels state what each step did, and
    /// go before everything else; a backward pass goes before names, since a program may call anything `decode`.
    pub(crate) fn of_trace(
        trace: &Trace,
        is_measured: bool,
        shown: Option<&ForwardPasses>,
    ) -> Self {
        if is_measured {
            return Self::proven(ProgramKind::LlmInference, vec![Proof::Harness]);
        }
        if let Some((kind, labels)) = proofs::engine_labels(trace) {
            return Self::proven(kind, vec![labels]);
        }
        if let Some((kind, gradients)) = proofs::gradient_proofs(trace) {
            return Self::proven(kind, gradients);
        }
        let modules = proofs::Modules::of_trace(trace);
        let mut generation: Vec<Proof> = proofs::generation_ranges(trace).into_iter().collect();
        generation.extend(shown.filter(|shown| shown.generate_text()).map(|shown| {
            let passes = shown.decoder_passes();
            Proof::Shapes { passes }
        }));
        generation.extend(modules.language_model());
        if !generation.is_empty() {
            return Self::proven(ProgramKind::LlmInference, generation);
        }
        match modules.outermost_modules() {
            Some(modules) => Self::proven(ProgramKind::Other, vec![modules]),
            None => Self::default(),
        }
    }

    fn proven(kind: ProgramKind, proofs: Vec<Proof>) -> Self {
        Self {
            kind,
            proofs,
            ..Self::default()
        }
    }

    /// Whether the words of text generation apply.
    pub fn generates_text(&self) -> bool {
        self.kind.generates_text()
    }

    pub fn is_training(&self) -> bool {
        self.kind == ProgramKind::Training
    }

    /// Whether backward passes run, of training or of gradients by inputs.
    pub(crate) fn computes_gradients(&self) -> bool {
        let is_backward = |proof: &Proof| matches!(proof, Proof::BackwardOps { .. });
        self.is_training() || self.proofs.iter().any(is_backward)
    }

    /// Adds that the model which the user named agrees with the trace. A program that computes gradients stays what it is.
    pub(crate) fn add_model(&mut self, name: &str) {
        if self.computes_gradients() {
            return;
        }
        if !self.generates_text() {
            self.kind = ProgramKind::LlmInference;
            self.proofs.clear();
        }
        self.proofs.push(Proof::Model {
            name: name.to_owned(),
        });
    }
}

#[cfg(test)]
mod tests;
