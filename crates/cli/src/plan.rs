//! From a composed config to a [`Plan`]: every mistake in a request is found here, before anything starts.

mod paths;

use std::path::Path;

use llmprof_capture::profiler::nsight::Tool;
use llmprof_config::{
    hydra::Composed,
    node::Node,
    source::SourceSpan,
    typed::{self, TypeError},
};
use llmprof_record::plan::{ModelPlan, Plan, has_cuda_program};

use crate::{app, failure::Failure, moved_keys, weights};

/// What a plan is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlanPurpose {
    Run,
    /// To be worked out on paper, whatever would run it.
    Paper,
}

/// Reads and checks the plan of one job.
pub(crate) fn plan(composed: &Composed, purpose: PlanPurpose) -> Result<Plan, Failure> {
    let composed = &moved_keys::whole(composed)?;
    let mut config = composed.resolved_job()?;
    app::warn(composed.take_warnings());
    gather_design(&mut config);
    let overrides = composed.resolved_value("hydra.overrides.task")?;
    let overrides: Vec<String> = overrides
        .as_list()
        .unwrap_or_default()
        .iter()
        .map(ToString::to_string)
        .collect();
    let mut plan: Plan =
        typed::read_typed(&config).map_err(|error| misfit(&error, &config, &overrides))?;
    weights::decide(&mut plan);
    decide_tools(&mut plan);
    let mut mistakes = plan.mistakes();
    if purpose == PlanPurpose::Run {
        mistakes.extend(plan.execution_mistakes());
        mistakes.extend(paths::mistakes(&plan));
    }
    let Some(first) = mistakes.first() else {
        return Ok(plan);
    };
    let lines: Vec<String> = mistakes
        .iter()
        .map(|mistake| format!("`{}`: {}", mistake.key, mistake.message))
        .collect();
    let failure = Failure::new(format!("the request cannot be run\n{}", lines.join("\n")))
        .hint(first.hint.clone());
    Err(pointing(
        failure,
        first.key,
        origin(&config, first.key),
        &config,
        &overrides,
    ))
}

/// Decides which tools of Nsight run where the request leaves it to what is there.
fn decide_tools(plan: &mut Plan) {
    let has_program = has_cuda_program(plan) && !plan.pipeline.direct_inference.enable;
    let pipeline = &mut plan.pipeline;
    let is_there = |name, path: Option<&Path>| has_program && Tool::find_tool(name, path).is_ok();
    let (nsys, ncu) = (&mut pipeline.nsys, &mut pipeline.ncu);
    if nsys.enable.is_none() {
        nsys.enable = Some(is_there("nsys", nsys.path.as_deref()));
    }
    if ncu.enable.is_none() {
        ncu.enable = Some(is_there("ncu", ncu.path.as_deref()));
    }
}

/// Moves the keys of a model's design (those of a Hugging Face config) under `model.design`, which is how the plan
/// holds them. In the config they stand beside the others, so that `model.hidden_size=5120` is a design edit.
fn gather_design(config: &mut Node) {
    let Some(model) = config.get_mut("model").and_then(Node::as_dict_mut) else {
        return;
    };
    let mut design = Node::empty_dict();
    for (key, value) in std::mem::take(model) {
        match key.as_str() {
            Some(name) if !ModelPlan::KEYS.contains(&name) => design.insert(name, value),
            _ => {
                model.insert(key, value);
            }
        }
    }
    model.insert("design".into(), design);
}

fn misfit(error: &TypeError, config: &Node, overrides: &[String]) -> Failure {
    // serde names Rust's types; a config has numbers.
    let message = error
        .to_string()
        .replace("u64", "a whole number, 0 or more")
        .replace("u32", "a whole number, 0 or more");
    let failure = Failure::new(format!("config error: {message}"))
        .hint(app::moved(&error.key).map(str::to_owned));
    let origin = error.origin.as_ref();
    pointing(failure, &error.key, origin, config, overrides)
}

/// Interpolations that are followed from key to key: a circle of them ends.
const PASSED_ON_MAX: usize = 8;

/// Points at the override that set the key, else at the file that did, else at an override of something around it.
fn pointing(
    failure: Failure,
    key: &str,
    origin: Option<&SourceSpan>,
    config: &Node,
    overrides: &[String],
) -> Failure {
    let name = |line: &String| {
        let line = line.trim_start_matches(['+', '~']);
        line.split('=').next().unwrap_or_default().to_owned()
    };
    let around = |line: &&String| {
        key.strip_prefix(&name(line))
            .is_some_and(|rest| rest.starts_with(['.', '[']))
    };
    let set = |key: &str| overrides.iter().rev().find(|line| name(line) == key);
    // A file that only passes on what another key says is not where the mistake is.
    let mut place = origin;
    let mut exact = set(key);
    for _ in 0..PASSED_ON_MAX {
        let Some(source) = place.and_then(interpolated).filter(|_| exact.is_none()) else {
            break;
        };
        exact = set(source);
        place = self::origin(config, source).or(place);
    }
    let line = exact.or_else(|| {
        overrides
            .iter()
            .rev()
            .find(around)
            .filter(|_| origin.is_none())
    });
    match (line, place) {
        (Some(line), _) => failure.at("command line", line, 0..line.len(), "here"),
        (None, Some(place)) => failure.at(
            place.source().name(),
            place.source().text(),
            place.span(),
            "here",
        ),
        (None, None) => failure,
    }
}

/// The key whose value stands at that place: `a.b` of `${a.b}`.
fn interpolated(origin: &SourceSpan) -> Option<&str> {
    let text = origin.source().text().get(origin.span())?.trim();
    text.strip_prefix("${")?
        .strip_suffix('}')
        .filter(|key| !key.contains(['$', ':']))
}

/// Where the value of a dotted key was written.
fn origin<'a>(config: &'a Node, key: &str) -> Option<&'a SourceSpan> {
    let mut node = config;
    for part in key.split('.') {
        node = node.get(part)?;
    }
    node.origin.as_ref()
}
