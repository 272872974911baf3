//! What the shapes in a trace say of the model and the workload, beside what the user said. The trace is believed.

use std::collections::BTreeMap;

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::kernel_name::{Category, classify};
use llmprof_record::run::{RunPhase, RunRecord};
use llmprof_record::trace::{StrId, Trace};
use llmprof_theory::{Kind, Model, Pass, Step, Workload};
use llmprof_units::stats::upper_median;
use rustc_hash::FxHashSet;

use crate::analyze::phase_intervals::TracePhase;
use crate::analyze::stated::{BATCH, PROMPT, StatedWorkload};
use crate::analyze::subject::AskedModel;
use crate::analyze::weight_format::other_format;
use crate::attribution::operator_cost::{GemmShape, OperatorCosts};
use crate::graphs::{ModelOperators, is_of_experts};
use crate::phases::forward::ForwardPasses;
use crate::phases::forward_pass::ForwardPass;
use crate::phases::{PhaseSource, Phases};
use crate::trace::Structure;

/// What the user said, as far as the trace does not contradict it, and where it does.
pub(super) fn believe_trace<'s, 'm>(
    structure: &mut Structure,
    trace: &Trace,
    subject: Option<&'s AskedModel<'m>>,
    record: &RunRecord,
) -> (Option<&'s AskedModel<'m>>, Vec<Issue>) {
    if subject.is_some_and(|subject| subject.model.encoder.is_some()) {
        // Shapes do not separate two stacks.
        structure.shown = None;
        if structure.phases.source != PhaseSource::Annotation {
            return (None, vec![Issue::warning(IssueCode::RunUnnamedStacks)]);
        }
    }
    // A run that was measured says itself what it did.
    let Some(said) = subject.filter(|_| record.passes.is_empty()) else {
        return (subject, Vec::new());
    };
    let shown = structure.shown.as_ref();
    let trains = structure.program.computes_gradients();
    let training =
        || Issue::warning(IssueCode::InvariantTraining).with("model", record.name.as_str());
    let other = trains
        .then(training)
        .or_else(|| other_model(shown?, said.model))
        .or_else(|| other_kernels(structure, trace, said))
        .or_else(|| other_attention(structure, said.model))
        .or_else(|| {
            let kernel = other_format(structure, trace, said)?;
            Some(
                Issue::warning(IssueCode::InvariantOtherFormat)
                    .with("kernel", shorten_name(kernel)),
            )
        });
    if let Some(other) = other {
        return (None, vec![other]);
    }
    let stated = StatedWorkload::of_record(record);
    let mut issues: Vec<Issue> = Vec::new();
    // Steps by shapes are compared below.
    if structure.phases.source == PhaseSource::Annotation {
        issues.extend(other_label(&structure.phases.steps, &said.workload, stated));
    }
    if let Some(shown) = shown {
        issues.extend(other_workload(shown, &said.workload, stated));
    }
    (subject, issues)
}

/// Whether an issue says that another model ran than the one that was named.
pub(super) fn is_other_model(issue: &Issue) -> bool {
    let codes = [
        IssueCode::InvariantOtherModel,
        IssueCode::InvariantOtherLayers,
        IssueCode::InvariantOtherGemm,
        IssueCode::InvariantOtherExperts,
        IssueCode::InvariantOtherFormat,
        IssueCode::InvariantTraining,
    ];
    codes.contains(&issue.code)
}

/// Another model than the one that was named: its work is not that of the trace, and nothing may be compared with it.
fn other_model(shown: &ForwardPasses, model: &Model) -> Option<Issue> {
    let decoder = model.decoder.as_ref()?;
    let (rows, width) = shown.table;
    if decoder.embedding.width != width {
        return Some(
            Issue::warning(IssueCode::InvariantOtherModel)
                .with("trace", format!("{rows} × {width}"))
                .with(
                    "model",
                    format!(
                        "{} × {}",
                        decoder.embedding.vocabulary, decoder.embedding.width
                    ),
                ),
        );
    }
    let layers = u64::from(decoder.layer_count());
    let mut calls = shown.passes.iter().map(|pass| pass.attentions);
    let first = calls.next().filter(|&first| first > 0)?;
    (first != layers && calls.all(|calls| calls == first)).then(|| {
        Issue::warning(IssueCode::InvariantOtherLayers)
            .with("trace", first)
            .with("model", layers)
    })
}

/// Kernels that the model cannot have: those of experts where it has none, or a largest GEMM of a shape that no linear operator has.
fn other_kernels(structure: &Structure, trace: &Trace, said: &AskedModel<'_>) -> Option<Issue> {
    let model = said.model;
    // Towers have GEMMs of their own, and backward passes other shapes.
    if model.encoder.is_some() || model.vision.is_some() || structure.program.computes_gradients() {
        return None;
    }
    let operators = ModelOperators::from_model(model, &said.workload, None);
    if !operators.has_gemms() {
        return None;
    }
    if !operators.has_experts() {
        let mut events = structure.events.all().iter();
        let of_experts = events.find(|event| {
            let category = structure.events.class_of(event.name).category;
            category == Category::Moe || is_of_experts(trace.text(event.name))
        });
        if let Some(event) = of_experts {
            let kernel = shorten_name(trace.text(event.name));
            return Some(Issue::warning(IssueCode::InvariantOtherExperts).with("kernel", kernel));
        }
    }
    let (n, k) = largest_gemm(trace)?;
    (!operators.has_gemm(n, k)).then(|| {
        Issue::warning(IssueCode::InvariantOtherGemm)
            .with("n", n)
            .with("k", k)
    })
}

/// Another number of layers than the attention kernels of a labelled step show. A layer may launch several, and layers may differ in
/// theirs: the most frequent one, or all together, must be a multiple of the model's.
fn other_attention(structure: &Structure, model: &Model) -> Option<Issue> {
    let mut layers = 0_u64;
    let one_step = Pass::decode_steps(1, 1, 1);
    model.lower_in_order(&Workload::default(), &one_step, &mut |operator| {
        layers += u64::from(operator.kind == Kind::Attention);
    });
    let windows = &structure.phases.windows;
    let mut by_window: Vec<BTreeMap<StrId, u64>> = vec![BTreeMap::new(); windows.len()];
    for (index, event) in structure.events.all().iter().enumerate() {
        let is_attention = structure.events.class_of(event.name).category == Category::Attention;
        if let Some(window) = structure.windows.window_of(index).filter(|_| is_attention) {
            *by_window[window].entry(event.name).or_default() += 1;
        }
    }
    let steps = windows.iter().zip(by_window);
    let mut counts: Vec<(u64, u64)> = steps
        .filter(|(window, kernels)| {
            window.step_index().is_some() && window.is_whole && !kernels.is_empty()
        })
        .map(|(_, kernels)| {
            let most = kernels.values().max().copied().unwrap_or_default();
            (most, kernels.values().sum())
        })
        .collect();
    let (most, all) = upper_median(&mut counts)?;
    let fits = |count: u64| layers > 0 && count.is_multiple_of(layers);
    (layers > 0 && !fits(most) && !fits(all)).then(|| {
        Issue::warning(IssueCode::InvariantOtherLayers)
            .with("trace", most)
            .with("model", layers)
    })
}

/// N and K of the GEMMs that most recorded work is in.
fn largest_gemm(trace: &Trace) -> Option<(u64, u64)> {
    let mut by_shape: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for (_, gemm, flops) in recorded_gemms(trace) {
        let sum = by_shape.entry((gemm.n, gemm.k)).or_default();
        *sum = sum.saturating_add(flops);
    }
    let largest = by_shape.into_iter().max_by_key(|(_, flops)| *flops)?;
    Some(largest.0)
}

/// Whether a trace is of one of several ranks, and has no shapes that would show which part of the model it runs.
///
/// Engines write how many ranks there are; a trace without that has the kernels by which ranks exchange data.
pub(super) fn is_one_of_ranks(record: &RunRecord) -> bool {
    let Some(trace) = record.trace().filter(|_| record.passes.is_empty()) else {
        return false;
    };
    let size = trace.metadata.get("distributed_world_size");
    let size = size.and_then(|size| size.parse::<u64>().ok());
    let exchanges = || {
        let names: FxHashSet<StrId> = trace.kernels.name.iter().copied().collect();
        let mut names = names.into_iter();
        names.any(|name| classify(trace.text(name)).category == Category::Communication)
    };
    size.map_or_else(exchanges, |size| size > 1) && largest_gemm(trace).is_none()
}

/// How much of a kernel's name is given.
const NAME_LISTED_MAX_CHARS: usize = 80;

fn shorten_name(kernel: &str) -> String {
    kernel.chars().take(NAME_LISTED_MAX_CHARS).collect()
}

/// GEMMs by recorded shapes: when the host called them, their sizes, their operations.
fn recorded_gemms(trace: &Trace) -> impl Iterator<Item = (i64, GemmShape, u64)> {
    let costs = OperatorCosts::from_trace(trace);
    let hosts = &trace.hosts;
    (0..hosts.len()).filter_map(move |row| {
        let cost = costs.cost_of_call(hosts.name[row], hosts.inputs[row])?;
        let gemm = cost.gemm.filter(|gemm| gemm.batch == 1)?;
        Some((hosts.start[row], gemm, cost.flops.0))
    })
}

/// Takes the work out of intervals whose GEMMs have another number of rows than the step has new tokens.
///
/// Engines round the tokens of a step up to a size that they captured: 1, 2, 4, 8, then multiples of 8 and of 16 in vLLM
/// (`cudagraph_capture_sizes`), always less than twice as many.
pub(super) fn leave_other_rows(
    trace_phases: &mut [TracePhase],
    phases: &Phases,
    trace: &Trace,
    subject: &AskedModel<'_>,
) -> Vec<Issue> {
    let operators = ModelOperators::from_model(subject.model, &subject.workload, None);
    let rows: Vec<(i64, u64)> = recorded_gemms(trace)
        .filter(|(_, gemm, _)| operators.has_in_layers(gemm.n, gemm.k))
        .map(|(start, gemm, _)| (start, gemm.m))
        .collect();
    let mut issues = Vec::new();
    for phase in trace_phases {
        let mut other = None;
        for interval in &mut phase.intervals {
            let (start, end) = phases.host_window(interval.window);
            let inside = rows.iter().filter(|(at, _)| (start..end).contains(at));
            let most = inside.map(|(_, rows)| *rows).max();
            let passes = interval.passes.iter();
            let counted = match &interval.step {
                Some(step) => Some(step.new_tokens()),
                None => passes.map(|pass| pass.batch * pass.queries).max(),
            };
            let Some((most, counted)) = most.zip(counted) else {
                continue;
            };
            if most < counted || most >= counted.saturating_mul(2) {
                other.get_or_insert((counted, most));
                interval.step = None;
                interval.passes.clear();
                interval.is_assumed = false;
            }
        }
        issues.extend(other.map(|(counted, most)| {
            Issue::warning(IssueCode::InvariantOtherRows)
                .with("phase", phase.phase.name())
                .with("stated", counted)
                .with("shown", most)
        }));
    }
    issues
}

/// Where no label of a step has the batch that the user stated.
fn other_label(steps: &[Step], workload: &Workload, stated: StatedWorkload<'_>) -> Option<Issue> {
    let mut sequences = steps.iter().map(Step::sequences);
    let most = sequences.clone().max()?;
    let is_other = stated.has_key(BATCH) && !sequences.any(|shown| shown == workload.batch);
    is_other.then(|| {
        Issue::warning(IssueCode::InvariantOtherLabel)
            .with("key", BATCH)
            .with("said", workload.batch)
            .with("shown", most)
    })
}

/// Where the shapes show another batch or prompt than the user stated.
fn other_workload(
    shown: &ForwardPasses,
    workload: &Workload,
    stated: StatedWorkload<'_>,
) -> Vec<Issue> {
    let differs = |key: &str, said: u64, shown: u64| {
        (stated.has_key(key) && said != shown).then(|| {
            Issue::warning(IssueCode::InvariantOtherShape)
                .with("key", key)
                .with("said", said)
                .with("shown", shown)
        })
    };
    let prompt = shown.passes.iter().find(|pass| !pass.is_decode());
    let batch = shown.passes.first();
    let batch = batch.and_then(|pass| differs(BATCH, workload.batch, pass.batch));
    let prompt = prompt.and_then(|pass| differs(PROMPT, workload.prompt, pass.new));
    batch.into_iter().chain(prompt).collect()
}

/// Counts the intervals of named phases by the passes whose shapes the trace shows in them.
pub(super) fn count_shown(
    trace_phases: &mut [TracePhase],
    phases: &Phases,
    shown: &ForwardPasses,
    workload: &Workload,
) {
    for phase in trace_phases
        .iter_mut()
        .filter(|phase| matches!(phase.phase, RunPhase::Prefill | RunPhase::Decode))
    {
        for interval in phase.intervals.iter_mut().filter(|one| one.step.is_none()) {
            let (start, end) = phases.host_window(interval.window);
            let passes = shown.begun_within(start, end);
            if !passes.is_empty() {
                interval.passes = passes_of(passes, workload);
                interval.is_assumed = false;
            }
        }
    }
}

/// Decode steps that follow each other are one entry.
fn passes_of(shown: &[ForwardPass], workload: &Workload) -> Vec<Pass> {
    let mut passes: Vec<Pass> = Vec::new();
    for pass in shown {
        if !pass.is_decode() {
            let logits = workload.logits;
            passes.extend(Pass::prefill_chunks(
                pass.batch,
                pass.new,
                pass.cached,
                None,
                logits,
            ));
            continue;
        }
        match passes.last_mut() {
            Some(last)
                if last.queries == 1
                    && last.batch == pass.batch
                    && last.past.saturating_add(last.steps) == pass.cached =>
            {
                last.steps += 1;
            }
            _ => passes.push(Pass::decode_steps(pass.batch, pass.cached, 1)),
        }
    }
    passes
}
