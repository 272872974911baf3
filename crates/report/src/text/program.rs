//! What ran, and the words that follow from it.

use llmprof_units::Count;

use crate::analyzed::{
    Analysis, CauseKind, Conclusion, Finding, Parallelism, Program, ProgramKind, Proof,
};
use crate::kernel_label::kernel_label;

/// `Training: backward ops on thread 12 (`MseLossBackward0`), `Optimizer.step#Adam.step`.`; nothing where llmprof itself ran the
/// model, or where nothing shows what ran.
pub fn line(analysis: &Analysis) -> Option<String> {
    let program = &analysis.program;
    let is_own = program.proofs.contains(&Proof::Harness);
    if is_own || program.kind == ProgramKind::Unknown && program.others.is_empty() {
        return None;
    }
    let own = (!program.shares_device()).then_some(program);
    let programs: Vec<String> = own
        .into_iter()
        .chain(&program.others)
        .map(one_program)
        .collect();
    let shared = if program.shares_device() {
        format!("{} processes share a GPU. ", program.others.len())
    } else {
        String::new()
    };
    Some(format!("{shared}{}.", programs.join("; ")))
}

fn one_program(program: &Program) -> String {
    let name = name(program);
    let on = match program.devices.as_slice() {
        [] => String::new(),
        [device] => format!(" on GPU {device}"),
        devices => {
            let devices: Vec<String> = devices.iter().map(u32::to_string).collect();
            format!(" on GPUs {}", devices.join(", "))
        }
    };
    match proofs(program) {
        proofs if proofs.is_empty() => format!("{name}{on}"),
        proofs => format!("{name}{on}: {proofs}"),
    }
}

fn name(program: &Program) -> &'static str {
    match program.kind {
        // Shapes of a growing cache are those of any decoder of tokens: text, speech.
        ProgramKind::LlmInference if matches!(program.proofs[..], [Proof::Shapes { .. }]) => {
            "Autoregressive inference"
        }
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
            format!("operator shapes of {passes} with a KV cache")
        }
        Proof::Model { name } if name == UNNAMED_MODEL => {
            "agrees with the model's config".to_owned()
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
        Proof::Parallel { scheme, range } => {
            let scheme = match scheme {
                Parallelism::FullySharded => "FSDP",
                Parallelism::DataParallel => "DDP",
            };
            format!("{scheme} (`{}`)", shortened(range))
        }
        Proof::Pipeline {
            micro_batches,
            range,
        } => format!("a pipeline of {micro_batches} micro-batches (`{range}`)"),
    }
}

fn quoted(names: &[String]) -> String {
    let names = names.iter().map(|name| format!("`{}`", shortened(name)));
    names.collect::<Vec<_>>().join(", ")
}

/// What a model is called that a file describes and no name.
pub(crate) const UNNAMED_MODEL: &str = "local";
/// Characters of a name that are given.
const NAME_MAX_CHARS: usize = 80;

/// The beginning of a name that may be as long as its program likes.
pub(crate) fn shortened(name: &str) -> String {
    match name.char_indices().nth(NAME_MAX_CHARS) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// Whether a finding can be told of a program: those about tokens, logits and the KV cache only where it generates text.
pub(crate) fn has_words_for(kind: ProgramKind, finding: &Finding) -> bool {
    let needs_generation = match &finding.conclusion {
        Some(Conclusion::Cause { cause }) => matches!(
            cause.kind,
            CauseKind::UnusedLogits { .. }
                | CauseKind::KvCopies { .. }
                | CauseKind::VocabularySort { .. }
                | CauseKind::AllExperts { .. }
                | CauseKind::SmallChunks { .. }
        ),
        Some(Conclusion::KvLengths { .. } | Conclusion::FirstPass { .. }) => true,
        Some(Conclusion::FirstRange {
            attention_wait_ns, ..
        }) => attention_wait_ns.is_some(),
        _ => false,
    };
    kind.generates_text() || !needs_generation
}

/// What to do about a first range that is slow; nothing where later ones are what matters in any case.
pub(crate) fn warm_up(kind: ProgramKind) -> Option<&'static str> {
    match kind {
        ProgramKind::Serving => Some("Try: warm up before serving."),
        ProgramKind::LlmInference => Some("Try: warm up before the first request."),
        ProgramKind::Training | ProgramKind::Other | ProgramKind::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use llmprof_analysis::findings::{HostWork, IdleRemedy};
    use llmprof_units::{Bytes, Nanos};

    use super::*;
    use crate::analyzed::{Cause, CausePlace, Confidence};
    use crate::text;

    /// Words of text generation.
    const WORDS: [&str; 8] = [
        "prefill", "decode", "ttft", "tpot", "kv cache", "serving", "token", "request",
    ];

    fn causes() -> Vec<CauseKind> {
        let time = Nanos(1_000_000);
        let text = || "x".to_owned();
        vec![
            CauseKind::Synchronization {
                call: "cudaDeviceSynchronize".to_owned(),
                waited_ns: time,
                is_copied_back: true,
            },
            CauseKind::HostCalls {
                call: "cudaMemGetInfo".to_owned(),
                time_ns: time,
            },
            CauseKind::HostCopies {
                to_device: false,
                bytes: Bytes(1),
                is_pageable: true,
                is_serialized: false,
                is_input: false,
                gains_by_joining: false,
                copied_ns: time,
                computed_on_host: None,
            },
            CauseKind::HostCode {
                time_ns: time,
                longest_ns: time,
                after: None,
                before: None,
                copied: None,
                collecting_share: Some(0.5),
                gil_holder: None,
                has_switch_interval: false,
                has_ops: true,
                fits_beside_gpu: true,
                is_seen_once: false,
                are_between_requests: false,
            },
            CauseKind::Autograd { node_ns: time },
            CauseKind::UnmergedAdapters {
                rank: 16,
                kernels_ns: time,
            },
            CauseKind::RepeatedTables {
                operators: 9,
                last: text(),
                time_ns: time,
            },
            CauseKind::DispatchMode { time_ns: time },
            CauseKind::HostOperators {
                time_ns: time,
                on_cpu: true,
                others: 1,
            },
            CauseKind::Allocation { time_ns: time },
            CauseKind::BlockingLaunches,
            CauseKind::GatheredWeights {
                shape: text(),
                kernels_ns: time,
            },
            CauseKind::UnfusedAttention {
                shape: text(),
                is_fallback: false,
                kernels_ns: time,
            },
            CauseKind::Recomputed {
                tokens: 9,
                new_tokens: 1,
            },
            CauseKind::UnusedLogits { rows: 9, needed: 1 },
            CauseKind::SmallChunks {
                passes: 9,
                tokens: 64,
            },
            CauseKind::Fills {
                largest: Some(Bytes(1)),
                kernels_ns: time,
            },
            CauseKind::UnalignedGemms {
                shape: text(),
                kernels_ns: time,
            },
            CauseKind::CpuContention { time_ns: time },
            CauseKind::KvCopies {
                operator: "aten::cat".to_owned(),
                shape: text(),
                kernels_ns: time,
            },
            CauseKind::VocabularySort {
                shape: text(),
                kernels_ns: time,
            },
            CauseKind::OtherWork {
                streams: 1,
                kernels_ns: time,
                longest: None,
            },
            CauseKind::GpuShared {
                slice_ns: time,
                time_ns: time,
            },
            CauseKind::SmallGrids {
                kernel: text(),
                blocks: 8,
                multiprocessors: 132,
                kernels_ns: time,
            },
            CauseKind::Communication {
                kernels_ns: time,
                longest: text(),
            },
            CauseKind::UnfusedElementwise {
                kernels: 9,
                others: 2,
                kernels_ns: time,
                run_operators: vec![text()],
            },
            CauseKind::DevicesInTurn {
                devices: 2,
                busy_ns: time,
            },
            CauseKind::LaunchBound {
                launches: 9,
                busy_ns: time,
                code_ns: time,
            },
        ]
    }

    fn conclusions() -> Vec<Conclusion> {
        let time = Nanos(1_000_000);
        let idle = |remedy| Conclusion::Idle {
            share: 0.6,
            is_host_bound: true,
            on_device: true,
            first_use_share: None,
            queued_share: Some(0.1),
            remedy: Some(remedy),
            host_work: Some(HostWork {
                operator: "enumerate(DataLoader)".to_owned(),
                gaps: 2,
                share: 0.4,
            })
            .filter(|_| remedy == IdleRemedy::LessHostWork),
        };
        let mut all = vec![
            idle(IdleRemedy::CheaperLaunches),
            idle(IdleRemedy::LessHostWork),
            idle(IdleRemedy::ReuseMemory),
            idle(IdleRemedy::LessAroundGraphs),
            idle(IdleRemedy::FewerKernels),
            Conclusion::GemmShapes {
                share: 0.5,
                roofline_fraction: 0.5,
                library: None,
            },
            Conclusion::Copies {
                share: 0.5,
                is_on_device: false,
                is_copy_bound: true,
                longest: None,
                others: Vec::new(),
            },
            Conclusion::Communication {
                exposed_share: 0.5,
                waiting_share: None,
                rank: Some((3, 8)),
                device: None,
                is_point_to_point: false,
            },
            Conclusion::KvLengths {
                waits: 2,
                mean_ns: time,
            },
            Conclusion::FirstRange {
                first_ns: time,
                attention_wait_ns: None,
                lengths: 0,
            },
            Conclusion::FirstRange {
                first_ns: time,
                attention_wait_ns: Some(time),
                lengths: 1,
            },
            Conclusion::Throttled {
                gpu: 0,
                share: 0.5,
                reasons: Vec::new(),
                clock_mhz: None,
            },
        ];
        all.extend(causes().into_iter().map(|kind| Conclusion::Cause {
            cause: Box::new(Cause {
                kind,
                count: 2.0,
                place: CausePlace::default(),
                gains: Vec::new(),
                same_time_as: Vec::new(),
            }),
        }));
        all
    }

    /// Every sentence that can be told of a program, for every program: words of text generation only where it generates text.
    #[test]
    fn words_follow_the_program() {
        let mut told = [0; ProgramKind::ALL.len()];
        for (place, kind) in ProgramKind::ALL.into_iter().enumerate() {
            let mut analysis = Analysis::default();
            analysis.program.kind = kind;
            for conclusion in conclusions() {
                let finding = Finding {
                    code: String::new(),
                    phase: None,
                    label: Some("training step".to_owned()),
                    conclusion: Some(conclusion),
                    evidence: Vec::new(),
                    gain: None,
                    confidence: Confidence::High,
                    abstains: None,
                    is_contended: false,
                };
                if !has_words_for(kind, &finding) {
                    continue;
                }
                told[place] += 1;
                let knob = text::knob(&finding, &analysis).unwrap_or_default();
                let said = format!("{} {knob}", text::finding(&finding)).to_lowercase();
                let has = |word: &&&str| said.contains(**word);
                let word = WORDS.iter().find(has);
                assert!(kind.generates_text() || word.is_none(), "{kind:?}: {said}");
            }
        }
        assert_eq!(told[0], conclusions().len());
        assert!(told[2] < told[0] && told[2] > 10, "{told:?}");
    }
}
