//! What ran, and the words that follow from it.

use llmprof_units::Count;

use crate::analyzed::{Analysis, Program, ProgramKind, Proof};
use crate::kernel_label::kernel_label;

/// `Training: backward ops on thread 12 (`MseLossBackward0`), `Optimizer.step#Adam.step`.`; nothing where llmprof itself ran the
/// model, or where nothing shows what ran.
pub fn line(analysis: &Analysis) -> Option<String> {
    let program = &analysis.program;
    let is_own = program.proofs.contains(&Proof::Harness);
    if is_own || program.kind == ProgramKind::Unknown {
        return None;
    }
    Some(format!("{}: {}.", name(program), proofs(program)))
}

fn name(program: &Program) -> &'static str {
    match program.kind {
        ProgramKind::LlmInference => "LLM inference",
        ProgramKind::Serving => "Serving",
        ProgramKind::Training => "Training",
        ProgramKind::Other => "Program",
        ProgramKind::Unknown => "Unknown program",
    }
}

fn proofs(program: &Program) -> String {
    let proofs: Vec<String> = program.proofs.iter().map(proof).collect();
    proofs.join(", ")
}

fn proof(proof: &Proof) -> String {
    match proof {
        Proof::Harness => "run by llmprof".to_owned(),
        Proof::EngineLabels { engine, label } => {
            format!("step labels of {engine} (`{}`)", shortened(label))
        }
        Proof::Ranges { names } => format!("ranges {}", quoted(names)),
        Proof::Shapes { passes } => {
            let passes = Count(*passes, "forward pass");
            format!("operator shapes of {passes} with a growing KV cache")
        }
        Proof::Model { name } => format!("agrees with the model {name}"),
        Proof::Modules { names } => format!("modules {}", quoted(names)),
        Proof::BackwardOps { op, threads } => {
            let threads = match threads.as_slice() {
                [] => String::new(),
                [thread] => format!(" on thread {thread}"),
                threads => format!(" on threads {}", threads.join(", ")),
            };
            format!("backward ops{threads} (`{op}`)")
        }
        Proof::TrainingKernel { name } => {
            format!(
                "kernels of a backward pass or an optimizer (`{}`)",
                kernel_label(name)
            )
        }
        Proof::Optimizer { name } => format!("`{name}`"),
    }
}

fn quoted(names: &[String]) -> String {
    let names = names.iter().map(|name| format!("`{}`", shortened(name)));
    names.collect::<Vec<_>>().join(", ")
}

/// Characters of a name that are given.
const NAME_MAX_CHARS: usize = 80;

/// The beginning of a name that may be as long as its program likes.
pub(crate) fn shortened(name: &str) -> String {
    match name.char_indices().nth(NAME_MAX_CHARS) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// What to do about a first range that is slow; nothing where later ones are what matters in any case.
pub(crate) fn warm_up(kind: ProgramKind) -> Option<&'static str> {
    match kind {
        ProgramKind::Serving => Some("Knob: warm up before serving."),
        ProgramKind::LlmInference => Some("Knob: warm up before the first request."),
        ProgramKind::Training | ProgramKind::Other | ProgramKind::Unknown => None,
    }
}
