//! `plan`: which GPUs, how many, and which layout serve a load within its objectives.

mod benches;
mod prices;

use std::{collections::BTreeMap, process::ExitCode};

use llmprof_config::hydra::RunMode;
use llmprof_record::{plan::Plan as RequestPlan, store::write_output};
use llmprof_report::compose::{
    plan::{Planned, Shifted, document},
    simulate::load_line,
};
use llmprof_report::render::html;
use llmprof_simulate::plan::{
    self as planning, PlanAnswer, PlanQuestion, PlanTraffic, RequestSource, Requests, TriedFormats,
    served::BenchedServer,
};
use llmprof_simulate::shift::Shift;
use llmprof_theory::{Model, Workload, device::Device};
use llmprof_traffic::{arrivals::Arrivals, replay};

use crate::args_plan::PlanArgs;
use crate::{
    app, efficiency,
    failure::Failure,
    output::Output,
    plan::{PlanPurpose, plan as read_plan},
    progress::{Show, Stage},
    subject::{RunSubject, device},
};

/// No engine meets the objectives.
const NOT_MET: u8 = 1;
/// Requests of the first simulation of an engine.
const FIRST_REQUESTS: usize = 500;
const BLOCK_SIZE: u64 = 16;
const GPUS_MAX: u64 = 4096;
const REQUESTS_MAX: usize = 1_000_000;
/// Each is simulated some dozen times, and once more for each other one.
const BENCHES_MAX: usize = 32;

pub(crate) fn plan(args: &PlanArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    check(args)?;
    let (name, model, base) = subject(args)?;
    let devices: Vec<Device> = args
        .devices
        .iter()
        .map(|spec| device(spec.trim()))
        .collect::<Result<_, _>>()?;
    let mut profile = efficiency::profile(&args.engine)?;
    for (spec, device) in args.devices.iter().zip(&devices) {
        efficiency::add_curves(&mut profile, spec.trim(), device)?;
    }
    let names: Vec<String> = devices.iter().map(|device| device.name.clone()).collect();
    if let Some(twice) = (1..names.len()).find(|&index| names[..index].contains(&names[index])) {
        return Err(Failure::new(format!(
            "--devices names {} twice",
            names[twice]
        )));
    }
    let prices = match &args.prices {
        Some(file) => prices::read(file, &names)?,
        None => BTreeMap::new(),
    };
    let (traffic, line) = traffic(args)?;
    let from = match &args.from_server {
        Some(server) => Some(shifted(args, server)?),
        None => None,
    };
    let question = PlanQuestion {
        model: &model,
        devices: &devices,
        profile: &profile,
        shift: from
            .as_ref()
            .map_or_else(Shift::default, |from| from.fit.shift),
        base,
        formats: TriedFormats {
            fp8_weights: !args.keep_formats,
            fp8_kv: !args.keep_formats,
        },
        traffic: &traffic,
        slos: &args.slo,
        max_gpus: args.max_gpus,
        prices: &prices,
        gpu_memory_utilization: args.gpu_memory_utilization,
        block_size: BLOCK_SIZE,
        disaggregated: args.disaggregated,
        engines_max: args.simulate_max,
        requests: Requests {
            first: FIRST_REQUESTS.min(args.requests_max),
            most: args.requests_max,
        },
    };
    let plan = solve(&question)?;
    let planned = Planned {
        basis: "predicted",
        model: name,
        load: line,
        rate: traffic.mean_rate(),
        devices: names,
        efficiencies: profile.name.clone(),
        slos: args.slo.iter().map(ToString::to_string).collect(),
        is_met: plan.candidates.first().is_some_and(|best| best.is_met),
        from,
        plan,
    };
    let page = document(&planned, &args.slo);
    if let Some(file) = &args.output {
        write_output(file, html::report(&page).as_bytes())?;
    }
    if args.json {
        output.json(&planned)?;
    } else {
        output.document(&page)?;
    }
    Ok(if planned.is_met {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NOT_MET)
    })
}

fn check(args: &PlanArgs) -> Result<(), Failure> {
    let range = |what: &str, value: u64, most: u64| {
        if (1..=most).contains(&value) {
            return Ok(());
        }
        Err(Failure::new(format!(
            "{what} must lie between 1 and {most}"
        )))
    };
    range("--max-gpus", args.max_gpus, GPUS_MAX)?;
    range("--simulate-max", args.simulate_max as u64, 10_000)?;
    range(
        "--requests-max",
        args.requests_max as u64,
        REQUESTS_MAX as u64,
    )?;
    let share = args.gpu_memory_utilization;
    if !(share > 0.0 && share <= 1.0) {
        return Err(Failure::new(
            "--gpu-memory-utilization must lie between 0 and 1",
        ));
    }
    Ok(())
}

/// The model that the words name, and the formats of its workload.
fn subject(args: &PlanArgs) -> Result<(String, Model, Workload), Failure> {
    let words = model_words(args);
    let chosen = words.iter().find(|word| {
        ["hardware.", "parallel."]
            .iter()
            .any(|group| word.trim_start_matches('+').starts_with(group))
    });
    if let Some(word) = chosen {
        return Err(Failure::new(format!(
            "`{word}`: a plan chooses devices and layouts itself"
        ))
        .hint(
            "--devices NAME,NAME; `llmprof simulate` takes one device and one layout".to_owned(),
        ));
    }
    let plan = compose(&words)?;
    let (name, model) = served_model(&plan)?;
    Ok((name, model, plan.spread_workload()))
}

/// The words of the model, as overrides.
fn model_words(args: &PlanArgs) -> Vec<String> {
    let words = args.words.iter().map(|word| {
        if word.contains('=') {
            word.clone()
        } else {
            format!("model={word}")
        }
    });
    words.collect()
}

fn compose(words: &[String]) -> Result<RequestPlan, Failure> {
    let host = app::host()?;
    let app = app::llmprof(&host.cwd);
    if app.compose_sweep(words, &host)?.len() != 1 {
        return Err(Failure::new("a plan is for one model, not for a sweep")
            .hint("--devices NAME,NAME lists devices".to_owned()));
    }
    let composed = app.compose(words, RunMode::Run, &host);
    read_plan(&composed.map_err(app::own_failure)?, PlanPurpose::Paper)
}

/// The model of a request, if engines of a plan serve such requests.
fn served_model(plan: &RequestPlan) -> Result<(String, Model), Failure> {
    let subject = RunSubject::model_of(plan, None)?;
    let model = subject.counted()?.clone();
    if model.encoder.is_some() || plan.spread_workload().images.count > 0 {
        return Err(Failure::new(
            "requests of a plan have prompts and answers alone: no images, no encoder",
        )
        .hint("`llmprof predict` times single requests".to_owned()));
    }
    Ok((subject.name, model))
}

/// The shift of step times by the benches of `--from`, which `server` served.
fn shifted(args: &PlanArgs, server: &str) -> Result<Shifted, Failure> {
    let mut words = model_words(args);
    words.extend(server.split_whitespace().map(str::to_owned));
    let plan = compose(&words)?;
    let spec = &plan.hardware.spec;
    if spec == "auto" {
        return Err(Failure::new("--from-server names no device")
            .hint("--from-server 'hardware.spec=h200 parallel.tensor=2'".to_owned()));
    }
    let device = device(spec)?;
    let mut profile = efficiency::profile(&args.engine)?;
    efficiency::add_curves(&mut profile, spec, &device)?;
    let mut benches = Vec::new();
    for path in &args.from {
        benches.extend(benches::read(path)?);
    }
    if benches.len() > BENCHES_MAX {
        return Err(Failure::new(format!(
            "{} benches; at most {BENCHES_MAX} shift a plan",
            benches.len()
        )));
    }
    let server_of_benches = BenchedServer {
        model: &served_model(&plan)?.1,
        device: &device,
        profile: &profile,
        workload: plan.spread_workload(),
        gpu_memory_utilization: args.gpu_memory_utilization,
        block_size: BLOCK_SIZE,
    };
    let fit = server_of_benches.shift_by(&benches).map_err(|error| {
        Failure::new(format!("--from: {error}"))
            .hint(format!("did `{server}` serve these benches?"))
    })?;
    Ok(Shifted {
        server: server.to_owned(),
        fit,
    })
}

/// The load of the arguments, and a line about it.
fn traffic(args: &PlanArgs) -> Result<(PlanTraffic, String), Failure> {
    let load = &args.load;
    let arrivals = load.arrivals(args.requests_max)?;
    if matches!(arrivals, Arrivals::Closed { .. }) {
        return Err(Failure::new("a plan needs a rate of requests")
            .hint("--rate R, or --trace FILE with the times of a recorded load".to_owned()));
    }
    let when = arrivals.describe(load.speedup);
    let source = match &load.trace {
        Some(path) => RequestSource::Traced {
            requests: replay::load_trace(path)
                .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?,
            arrivals,
            speedup: load.speedup,
        },
        None => RequestSource::Synthetic {
            arrivals,
            prompt: load.prompt_tokens,
            output: load.output_tokens,
            shared_prefix: load.shared_prefix,
        },
    };
    let traffic =
        PlanTraffic::new(source, load.seed).map_err(|error| Failure::new(error.to_string()))?;
    let line = load_line(&when, traffic.mean_lengths());
    Ok((traffic, line))
}

fn solve(question: &PlanQuestion<'_>) -> Result<PlanAnswer, Failure> {
    let mut stage: Option<Stage> = None;
    let plan = planning::plan_engines(question, &mut |done, total| {
        stage
            .get_or_insert_with(|| Stage::start(Show::detect(), "simulated engines", total as u64))
            .reached(done as u64);
    });
    drop(stage);
    plan.map_err(|error| Failure::new(error.to_string()))
}
