//! How long steps take: predicted for a model on a device, or fitted to a recorded server.

use std::path::Path;

use llmprof_config::hydra::RunMode;
use llmprof_predict::{EfficiencyProfile, EngineLimits, parallel::ParallelModel};
use llmprof_record::plan::Plan;
use llmprof_record::serving::EngineStep;
use llmprof_report::compose::simulate::StepTimeBasis;
use llmprof_simulate::{
    StepTimer,
    calibrated::{FittedSteps, Observation},
    memory::{Relief, SequenceMemory, smallest_relief},
    predicted::Predicted,
};
use llmprof_theory::{Model, Step, Workload, device::Device};
use llmprof_units::Nanos;

use crate::args_simulate::SimulateArgs;
use crate::{
    app, efficiency, engine_trace,
    failure::Failure,
    plan::{PlanPurpose, plan},
    subject::{RunSubject, device},
};

struct Subjects {
    plan: Plan,
    name: String,
    model: Model,
    device: Device,
}

/// KV blocks of an engine, and those of a sequence whatever its length.
#[derive(Clone, Copy)]
pub(super) struct KvBlocks {
    pub(super) all: u64,
    pub(super) sequence: u64,
}

/// Finds step times and KV blocks, and runs `then` with them. `longest`: tokens of the longest request.
pub(super) fn with<R>(
    args: &SimulateArgs,
    longest: u64,
    then: impl FnOnce(&dyn StepTimer, KvBlocks, StepTimeBasis) -> Result<R, Failure>,
) -> Result<R, Failure> {
    if let (Some(trace), Some(all)) = (&args.calibrate, args.engine.kv_blocks) {
        let (calibration, basis) = calibrated(trace)?;
        return then(&calibration, KvBlocks { all, sequence: 0 }, basis);
    }
    let subjects = subjects(args)?;
    let workload = subjects.plan.spread_workload();
    let mut profile = efficiency::profile(&args.efficiency)?;
    efficiency::add_curves(&mut profile, &subjects.plan.hardware.spec, &subjects.device)?;
    let spread = ParallelModel::new(&subjects.model, &subjects.device, workload.parallel)
        .map_err(|error| Failure::new(error.to_string()))?;
    let predictor = spread.rank_predictor(&subjects.device, &profile);
    let blocks = kv_blocks(args, &subjects, &spread, &workload)?;
    if let Some(trace) = &args.calibrate {
        let (calibration, basis) = calibrated(trace)?;
        return then(&calibration, blocks, basis);
    }
    let overhead = args.step_overhead.map_or(Nanos(0), efficiency::nanos);
    let predict = |step: &Step| spread.predict_step(&predictor, &workload, step);
    warn_beyond_context(&subjects, longest);
    let time =
        Predicted::new(&predict, overhead).map_err(|error| Failure::new(error.to_string()))?;
    let basis = predicted_basis(&subjects, &profile, overhead);
    let done = then(&time, blocks, basis)?;
    match time.first_failure() {
        Some(error) => Err(Failure::new(format!("a step cannot be predicted: {error}"))),
        None => Ok(done),
    }
}

/// Says that the longest request does not fit the model's positions: its times are those of a model that has them.
fn warn_beyond_context(subjects: &Subjects, longest: u64) {
    if let Some(most) = subjects
        .model
        .max_positions()
        .filter(|most| longest > *most)
    {
        Failure::new(format!(
            "{} has {most} positions: requests of up to {longest} tokens exceed its context length",
            subjects.name
        ))
        .warn();
    }
}

fn predicted_basis(
    subjects: &Subjects,
    profile: &EfficiencyProfile,
    overhead: Nanos,
) -> StepTimeBasis {
    StepTimeBasis::Predicted {
        model: subjects.name.clone(),
        device: subjects.device.name.clone(),
        efficiencies: profile.name.clone(),
        overhead_ns: overhead,
        gpus: subjects.plan.parallel.rank_count(),
    }
}

fn subjects(args: &SimulateArgs) -> Result<Subjects, Failure> {
    let host = app::host()?;
    let app = app::llmprof(&host.cwd);
    if app.compose_sweep(&args.overrides, &host)?.len() != 1 {
        return Err(
            Failure::new("a simulation is of one model on one device, not of a sweep")
                .hint("`llmprof predict` takes lists of models, devices and workloads; `llmprof plan` chooses among --devices".to_owned()),
        );
    }
    let composed = app.compose(&args.overrides, RunMode::Run, &host);
    let plan = plan(&composed.map_err(app::own_failure)?, PlanPurpose::Paper)?;
    let subject = RunSubject::model_of(&plan, None)?;
    if plan.hardware.spec == "auto" {
        let hint = if args.calibrate.is_some() {
            "--kv-blocks N states the KV cache without a device"
        } else {
            "hardware.spec=NAME, where `llmprof hardware list` shows the names; or --calibrate TRACE --kv-blocks N"
        };
        return Err(Failure::new("a simulation needs a device").hint(hint.to_owned()));
    }
    if plan.parallel.data > 1 {
        return Err(Failure::new(
            "an engine of a simulation has one group of sequences, not parallel.data of them",
        )
        .hint("--replicas N simulates N engines".to_owned()));
    }
    if plan.spread_workload().images.count > 0 {
        return Err(Failure::new("requests of a simulation have no images")
            .hint("`llmprof predict` times single requests with images".to_owned()));
    }
    let model = subject.counted()?;
    if model.encoder.is_some() {
        let name = &subject.name;
        return Err(Failure::new(format!(
            "model {name} has an encoder, which the simulated scheduler does not run"
        ))
        .hint("a model of a decoder alone, or `llmprof predict` for single requests".to_owned()));
    }
    Ok(Subjects {
        name: subject.name.clone(),
        model: model.clone(),
        device: device(&plan.hardware.spec)?,
        plan,
    })
}

/// KV blocks as stated, or as many as the engine has memory for.
fn kv_blocks(
    args: &SimulateArgs,
    subjects: &Subjects,
    spread: &ParallelModel,
    workload: &Workload,
) -> Result<KvBlocks, Failure> {
    let share = args.engine.gpu_memory_utilization;
    if !(share > 0.0 && share <= 1.0) {
        return Err(Failure::new(
            "--gpu-memory-utilization must lie between 0 and 1",
        ));
    }
    let limits = EngineLimits {
        gpu_memory_utilization: share,
        max_num_batched_tokens: args.engine.max_num_batched_tokens,
        max_num_seqs: args.engine.max_num_seqs,
    };
    let device = &subjects.device;
    let memory = SequenceMemory::of_model(spread, device, workload, &limits)
        .map_err(|error| Failure::new(error.to_string()))?;
    let block_size = args.engine.block_size.max(1);
    let sequence = memory.sequence_blocks(block_size);
    if let Some(all) = args.engine.kv_blocks {
        return Ok(KvBlocks { all, sequence });
    }
    let unknown = |what: &str| Failure::new(what.to_owned()).hint("--kv-blocks N".to_owned());
    if memory.token <= 0.0 {
        return Err(unknown("the model has no KV cache that grows with context"));
    }
    let Some((all, capacity)) = memory
        .kv_blocks(block_size)
        .zip(memory.engine.capacity_bytes)
    else {
        return Err(unknown("the device file states no memory capacity"));
    };
    if all == 0 {
        let held = memory.engine;
        return Err(Failure::new(format!(
            "{} leaves no memory for a KV cache on {}: weights take {}, activations {} of {capacity}, of which the engine uses {:.0} %",
            subjects.name,
            device.name,
            held.weights_bytes,
            held.activations_bytes,
            share * 100.0,
        ))
        .hint(more_memory(smallest_relief(
            &subjects.model,
            device,
            workload,
            &limits,
        ))));
    }
    Ok(KvBlocks { all, sequence })
}

/// What to ask for that gives an engine memory for at least one long sequence.
fn more_memory(relief: Relief) -> String {
    match relief {
        Relief::Tensor(ranks) => format!("parallel.tensor={ranks}"),
        Relief::Fp8Weights => "narrower weights: workload.weights=fp8".to_owned(),
        Relief::LargerDevice => {
            "a device with more memory: `llmprof hardware show NAME` states it".to_owned()
        }
    }
}

fn calibrated(path: &Path) -> Result<(FittedSteps, StepTimeBasis), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(format!("{}: {error}", path.display())).hint(
            "vLLM with --profiler-config '{\"profiler\":\"torch\",…,\"detailed_trace_annotation\":true}' labels its steps".to_owned(),
        )
    };
    let steps = engine_trace::load(path, None).map_err(|error| failed(&error))?;
    let observed: Vec<Observation> = steps.iter().map(observation).collect();
    let calibration = FittedSteps::fit_steps(&observed).map_err(|error| failed(&error))?;
    let basis = StepTimeBasis::Calibrated {
        trace: path.display().to_string(),
        calibration: calibration.clone(),
    };
    Ok((calibration, basis))
}

fn observation(step: &EngineStep) -> Observation {
    let parts = [step.prefill, step.decode];
    // A side without sequences has no context to know.
    let context = parts.iter().map(|part| match part.context {
        None if part.sequences == 0 => Some(0),
        known => known,
    });
    Observation {
        start: step.start_unix_ns,
        end: step.end_unix_ns,
        tokens: parts.iter().map(|part| part.tokens).sum(),
        sequences: parts.iter().map(|part| part.sequences).sum(),
        context: context.sum(),
    }
}
