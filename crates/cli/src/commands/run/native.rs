//! The native runtime: passes of the workload on llmprof's own engine, and what they say.

use std::path::PathBuf;

use llmprof_analysis::run::{
    MeasuredPass, MeasuredRun, OperatorEvent, OperatorIdentity, PassKind, PhaseSpan, RequestFacts,
    RunAnalysis, RunPhase, analyze_run,
};
use llmprof_capture::{
    native::{events, precision},
    process::{Interrupt, Launch},
    runner::{
        Client, Limits, Problem, WorkerError,
        protocol::{Generate, GenerateRequest, Generated, Load, Prompt, TokenSampling},
    },
};
use llmprof_record::{
    plan::Plan,
    store::{Pass, RunDir, RunStatus},
};
use llmprof_theory::Workload;
use llmprof_units::Nanos;

use super::{halt::Halt, outputs};
use crate::subject::Subject;

/// Runs warm-up, plain and captured passes, analyzes them and writes what people read.
pub(super) fn native(
    plan: &Plan,
    subject: &Subject,
    store: &mut RunDir,
    interrupt: &mut Interrupt,
) -> Result<Vec<String>, Halt> {
    let program = std::env::current_exe()
        .map_err(|error| Halt::Failed(format!("cannot tell where llmprof is: {error}")))?;
    let launch = Launch::new(program.to_string_lossy()).arg("worker");
    let logs = store.path().join("native");
    let mut client = Client::start(&launch, &logs, "worker", Limits::default(), interrupt)?;
    let load = load(plan, subject);
    let loaded = client.load(&load, interrupt, &mut |_| ())?;
    let mut run = MeasuredRun {
        model: subject.name.clone(),
        issues: loaded.issues.clone(),
        ..MeasuredRun::default()
    };
    run.passes.push(MeasuredPass {
        kind: PassKind::WarmUp,
        phases: vec![PhaseSpan {
            phase: RunPhase::Load,
            start_ns: loaded.start_ns.0,
            end_ns: loaded.end_ns.0,
            passes: Vec::new(),
        }],
        ..MeasuredPass::default()
    });

    let mut batch = batch(plan, loaded.vocab_size);
    for _ in 0..plan.runtime.warmup {
        let generated = client.warm_up(&batch, interrupt, &mut |_| ())?;
        run.passes.push(measured(&generated, PassKind::WarmUp));
    }
    let mut plain = Nanos(0);
    for _ in 0..plan.runtime.repeats {
        let generated = client.generate(&batch, interrupt, &mut |_| ())?;
        plain += generated.end_ns - generated.start_ns;
        run.passes.push(measured(&generated, PassKind::Plain));
    }
    note(store, "plain", plain)?;

    batch.events = Some(logs.join("operators.events"));
    let generated = client.generate(&batch, interrupt, &mut |_| ())?;
    note(store, "captured", generated.end_ns - generated.start_ns)?;
    let mut captured = measured(&generated, PassKind::Captured);
    if let Some(file) = &generated.events {
        let (operators, calls) = read_events(&file.path)?;
        run.operators = operators;
        captured.operators = calls;
    }
    run.issues.extend(generated.issues.clone());
    run.passes.push(captured);
    client.finish(interrupt)?;

    let workload = Workload {
        precision: precision(&loaded.facts),
        ..subject.workload
    };
    let mut analysis = analysis(subject, &workload, &run)?;
    if let Some(time) = subject
        .device
        .as_ref()
        .and_then(|device| device.measured_at.as_ref())
    {
        analysis.assumptions.push(format!(
            "The limits of this processor were measured at {time}; `llmprof hardware measure` does it again."
        ));
    }
    outputs::write(plan, subject, &run, &analysis, store)
}

fn analysis(
    subject: &Subject,
    workload: &Workload,
    run: &MeasuredRun,
) -> Result<RunAnalysis, Halt> {
    analyze_run(&subject.model, workload, subject.device.as_ref(), run)
        .map_err(|error| Halt::Failed(format!("cannot analyze the run: {error}")))
}

fn load(plan: &Plan, subject: &Subject) -> Load {
    Load {
        config: subject.design.clone(),
        path: plan.model.path.clone(),
        tokenizer: None,
        load_format: plan.model.load_format,
        dtype: plan.workload.dtype,
        device: plan.device.to_string(),
        max_batch: plan.workload.batch_size,
        max_positions: plan
            .workload
            .prompt_tokens
            .saturating_add(plan.workload.new_tokens),
        threads: plan.runtime.threads,
        seed: plan.dataset.sampling.seed.unwrap_or(0),
    }
}

/// Synthetic prompts: the same token ids on every machine.
fn batch(plan: &Plan, vocabulary: u32) -> Generate {
    let seed = plan.dataset.sampling.seed.unwrap_or(0);
    let requests = (0..plan.workload.batch_size).map(|index| GenerateRequest {
        id: index.to_string(),
        prompt: Prompt::Tokens(tokens(
            seed.wrapping_add(index),
            plan.workload.prompt_tokens,
            vocabulary,
        )),
        max_new_tokens: plan.workload.new_tokens,
    });
    Generate {
        requests: requests.collect(),
        sampling: TokenSampling {
            do_sample: plan.infer.do_sample,
            temperature: plan.infer.temperature,
            no_repeat_ngram_size: plan.infer.no_repeat_ngram_size,
            seed,
        },
        ignore_eos: true,
        events: None,
    }
}

/// Token ids by SplitMix64, which needs no more state than its seed.
fn tokens(seed: u64, count: u64, vocabulary: u32) -> Vec<u32> {
    let mut state = seed;
    (0..count)
        .map(|_| {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut mixed = state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            mixed ^= mixed >> 31;
            (mixed % u64::from(vocabulary.max(1))) as u32
        })
        .collect()
}

fn measured(generated: &Generated, kind: PassKind) -> MeasuredPass {
    let phase = |name: &str| match name {
        "prefill" => Some(RunPhase::Prefill),
        "decode" => Some(RunPhase::Decode),
        "vision" => Some(RunPhase::Vision),
        "mixed" => Some(RunPhase::Mixed),
        _ => None,
    };
    MeasuredPass {
        kind,
        phases: generated
            .phases
            .iter()
            .filter_map(|span| {
                Some(PhaseSpan {
                    phase: phase(&span.phase)?,
                    start_ns: span.start_ns.0,
                    end_ns: span.end_ns.0,
                    passes: Vec::new(),
                })
            })
            .collect(),
        requests: generated
            .requests
            .iter()
            .map(|request| RequestFacts {
                id: request.id.clone(),
                start_ns: request.start_ns.0,
                token_ns: request.token_ns.iter().map(|time| time.0).collect(),
                prompt_tokens: request.prompt_tokens,
                output_tokens: request.output_tokens.len() as u64,
                batch: generated.requests.len() as u64,
            })
            .collect(),
        ..MeasuredPass::default()
    }
}

fn read_events(path: &PathBuf) -> Result<(Vec<OperatorIdentity>, Vec<OperatorEvent>), Halt> {
    let failed =
        |error: std::io::Error| Halt::Failed(format!("cannot read {}: {error}", path.display()));
    let bytes = std::fs::read(path).map_err(failed)?;
    let (operators, calls) = events::read(&bytes).map_err(failed)?;
    let operators = operators
        .into_iter()
        .map(|operator| OperatorIdentity {
            path: operator.path,
            kind: operator.kind,
            dtype: operator.dtype,
        })
        .collect();
    let calls = calls
        .into_iter()
        .map(|call| OperatorEvent {
            operator: call.operator,
            shape: call.shape,
            touched: (call.touched > 0).then_some(call.touched),
            start_ns: i64::try_from(call.start_ns).unwrap_or(i64::MAX),
            end_ns: i64::try_from(call.end_ns).unwrap_or(i64::MAX),
        })
        .collect();
    Ok((operators, calls))
}

fn note(store: &mut RunDir, name: &str, duration: Nanos) -> Result<(), Halt> {
    store.set_pass(Pass {
        name: name.to_owned(),
        status: RunStatus::Complete,
        duration_ns: Some(duration),
        exit_code: None,
    })?;
    Ok(())
}

impl From<WorkerError> for Halt {
    fn from(error: WorkerError) -> Self {
        match error.problem {
            Problem::Interrupted => Self::Interrupted,
            _ => Self::Failed(error.to_string()),
        }
    }
}
