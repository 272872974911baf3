//! Runs made from theory itself: every operator takes a chosen multiple of its roofline, so the answers are known.

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::run::{MeasuredPass, PassKind, PassShape, PhaseSpan, RecordedModel, Request};
use llmprof_record::trace::{Host, HostKind, OperatorCall, Range, RangeKind, TraceBuilder};
use llmprof_theory::device::Catalog;
use llmprof_theory::roofline::MemoryLevel;
use llmprof_theory::{Kind, Operator, Pass, Precision, Shape, WeightFormat};
use llmprof_units::{Basis, DType, FlopsPerSecond};
use proptest::prelude::*;
use serde_json::json;

use llmprof_record::run::{RecordedTrace, RunPhase, RunRecord};
use llmprof_record::trace::Trace;
use llmprof_theory::device::Device;
use llmprof_theory::roofline::Roof;
use llmprof_theory::{Model, Routing, Workload};
use llmprof_units::Nanos;

use super::analyze;
use crate::analysis::{Analysis, AnalysisError};
use crate::assumption::Assumption;
use crate::bottleneck::PhaseClass;
use crate::capture_cost;
use crate::capture_cost::CaptureCost;
use crate::evidence::Measure;
use crate::findings::finding::{Confidence, Finding};
use crate::findings::{Abstention, Conclusion};
use crate::matching::unmatched::UnmatchedReason;
use crate::phase_facts::TracedPhase;
use crate::waterfall::idle_parts::UNRECORDED;

pub(crate) fn llama_8b() -> Model {
    let config = json!({
        "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128_256, "rms_norm_eps": 1e-5,
        "max_position_embeddings": 131_072, "tie_word_embeddings": false, "hidden_act": "silu",
        "rope_theta": 500_000.0, "torch_dtype": "bfloat16",
    });
    Model::from_config(&config, None).unwrap()
}

fn tiny_moe() -> Model {
    let config = json!({
        "model_type": "mixtral", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256, "rms_norm_eps": 1e-5,
        "max_position_embeddings": 512, "num_local_experts": 8, "num_experts_per_tok": 2,
        "hidden_act": "silu", "rope_theta": 1e6, "torch_dtype": "float32",
    });
    Model::from_config(&config, None).unwrap()
}

/// Time of an operator that has no roofline, ns.
const NO_FLOOR_NS: i64 = 40;

/// A pass in which each operator takes `slowness` × its roofline and `gap` ns pass after each.
struct Recipe<'a> {
    model: &'a Model,
    workload: Workload,
    device: &'a Device,
    slowness: f64,
    gap: i64,
}

/// What an operator of the engine is.
struct Identity {
    path: String,
    kind: Kind,
    dtype: DType,
}

/// A call of an operator, by its index in [`Made::operators`].
#[derive(Clone, Copy)]
struct Call {
    operator: usize,
    shape: Shape,
    experts: u32,
    start: i64,
    end: i64,
}

/// A run of a warm-up, a plain and a captured pass, with the calls of the captured one before they become a trace.
#[derive(Default)]
struct Made {
    record: RunRecord,
    operators: Vec<Identity>,
    calls: Vec<Call>,
    /// Slices of the captured pass that are recorded.
    sampling: Vec<(i64, i64)>,
}

impl Made {
    /// The captured pass as llmprof's engine records it. A call of an operator that is not listed has no identity.
    fn trace(&self) -> Trace {
        let mut builder = TraceBuilder::default();
        let thread = builder.thread(1, 1);
        let phases = self.record.passes[2].phases.iter();
        let phases = phases.map(|span| (span.phase.name(), (span.start_ns.0, span.end_ns.0)));
        let sampling = self.sampling.iter().map(|&times| ("sampling", times));
        for (name, (start, end)) in phases.chain(sampling) {
            let name = builder.intern(name);
            builder.ranges.push(Range {
                start,
                duration: end - start,
                name,
                thread,
                kind: RangeKind::ANNOTATION,
                ..Range::default()
            });
        }
        for (call, external) in self.calls.iter().zip(1..) {
            let identity = self.operators.get(call.operator);
            let path = identity.map_or_else(
                || format!("operator {}", call.operator),
                |known| known.path.clone(),
            );
            let name = builder.intern(&path);
            builder.hosts.push(Host {
                start: call.start,
                duration: call.end - call.start,
                name,
                thread,
                kind: HostKind::OPERATOR,
                external,
                ..Host::default()
            });
            if let Some(identity) = identity {
                let Shape { groups, m, n, k } = call.shape;
                let kind = builder.intern(identity.kind.name());
                let dtype = builder.intern(identity.dtype.name());
                builder.operator_calls.push(OperatorCall {
                    external,
                    kind,
                    dtype,
                    groups,
                    m,
                    n,
                    k,
                    experts: call.experts,
                });
            }
        }
        builder.finish()
    }

    fn analyzed(
        &self,
        model: &Model,
        workload: &Workload,
        device: Option<&Device>,
    ) -> Result<Analysis, AnalysisError> {
        let mut record = asked(model, workload, self.record.clone());
        record.traces = vec![RecordedTrace {
            pass: Some(2),
            trace: self.trace(),
        }];
        analyze(&record, device)
    }
}

fn asked(model: &Model, workload: &Workload, record: RunRecord) -> RunRecord {
    RunRecord {
        model: Some(RecordedModel {
            design: serde_json::Map::new(),
            model: Some(model.clone()),
        }),
        workload: Some(*workload),
        workload_keys: STATED.map(str::to_owned).to_vec(),
        ..record
    }
}

/// The workload is the user's, not the defaults of a configuration.
const STATED: [&str; 3] = [
    "runtime.batch_size",
    "workload.prompt_tokens",
    "infer.max_new_tokens",
];

impl<'a> Recipe<'a> {
    /// Of a small workload.
    fn of(model: &'a Model, device: &'a Device, slowness: f64, gap: i64) -> Self {
        Self {
            model,
            workload: small(),
            device,
            slowness,
            gap,
        }
    }

    fn run(&self) -> Made {
        let mut made = Made::default();
        made.record.name = "made".to_owned();
        let mut clock = 1_000;
        for kind in [PassKind::WarmUp, PassKind::Plain, PassKind::Captured] {
            self.pass(kind, &mut clock, &mut made);
            clock += 5_000;
        }
        made
    }

    fn analyzed(&self) -> Analysis {
        let made = self.run();
        let analysis = made.analyzed(self.model, &self.workload, Some(self.device));
        analysis.unwrap()
    }

    fn pass(&self, kind: PassKind, clock: &mut i64, made: &mut Made) {
        let roof = Roof::new(self.device);
        let mut pass = MeasuredPass {
            kind,
            ..MeasuredPass::default()
        };
        let begin = *clock;
        let mut tokens = Vec::new();
        let prefill: Vec<Pass> = self.model.prefill_passes(&self.workload).collect();
        let decode: Vec<Pass> = self.model.decode_pass(&self.workload).into_iter().collect();
        for (phase, passes) in [(RunPhase::Prefill, prefill), (RunPhase::Decode, decode)] {
            let start_ns = Nanos(*clock);
            for whole in passes {
                for step in 0..whole.steps {
                    let single = Pass {
                        past: whole.past + step * whole.queries,
                        steps: 1,
                        ..whole
                    };
                    self.model
                        .lower_in_order(&self.workload, &single, &mut |operator| {
                            let roofline =
                                roof.operator_times(operator, MemoryLevel::Main).unwrap();
                            let took =
                                (roofline.roofline_seconds() * 1e9 * self.slowness).ceil() as i64;
                            let took = if took == 0 { NO_FLOOR_NS } else { took };
                            if kind == PassKind::Captured {
                                let call = Call {
                                    operator: made.number(operator),
                                    shape: operator.shape,
                                    experts: if operator.kind == Kind::Experts { 3 } else { 0 },
                                    start: *clock,
                                    end: *clock + took,
                                };
                                made.calls.push(call);
                            }
                            *clock += took + self.gap;
                        });
                    if kind == PassKind::Captured {
                        made.sampling.push((*clock, *clock + 10));
                    }
                    *clock += 10;
                    tokens.push(Nanos(*clock));
                }
            }
            pass.phases.push(PhaseSpan {
                phase,
                start_ns,
                end_ns: Nanos(*clock),
                passes: Vec::new(),
            });
        }
        made.record.requests.push(Request {
            id: "0".to_owned(),
            pass: made.record.passes.len(),
            start_ns: Nanos(begin),
            prompt_tokens: self.workload.prompt,
            output_tokens: tokens.len() as u64,
            token_ns: tokens,
            batch: self.workload.batch,
            ..Request::default()
        });
        made.record.passes.push(pass);
    }
}

impl Made {
    /// The index of an operator, which is added where it is new.
    fn number(&mut self, operator: &Operator<'_>) -> usize {
        let path = operator.path.to_string();
        let known = self.operators.iter().position(|known| known.path == path);
        known.unwrap_or_else(|| {
            self.operators.push(Identity {
                path,
                kind: operator.kind,
                dtype: operator.tensor.dtype,
            });
            self.operators.len() - 1
        })
    }
}

fn small() -> Workload {
    Workload {
        prompt: 16,
        new_tokens: 4,
        ..Workload::default()
    }
}

fn h200() -> Device {
    Catalog::embedded().by_name("h200").unwrap()
}

fn codes(analysis: &Analysis) -> Vec<&str> {
    analysis
        .issues
        .iter()
        .map(|issue| issue.code.as_str())
        .collect()
}

#[test]
fn a_run_of_theory_itself_is_matched_whole() {
    let (model, device) = (llama_8b(), h200());
    let recipe = Recipe::of(&model, &device, 1.25, 0);
    let run = recipe.run();
    let analysis = run
        .analyzed(&model, &recipe.workload, Some(&device))
        .unwrap();
    assert_eq!(codes(&analysis), Vec::<&str>::new());
    assert_eq!(analysis.captured_pass, Some(2));
    assert_eq!(analysis.phases.len(), 2);
    let calls: u64 = analysis
        .phases
        .iter()
        .map(|phase| phase.matched_calls)
        .sum();
    assert_eq!(calls, run.calls.len() as u64);
    for phase in &analysis.phases {
        assert!(phase.unmatched.is_empty() && phase.missing.is_empty());
        let total: i64 = phase.waterfall.parts().iter().map(|(_, time)| time.0).sum();
        assert_eq!(total, phase.waterfall.wall_ns.0);
        assert_eq!(phase.capture_ratio, Some(1.0));
        // Every step ends with 10 ns of sampling, and nothing else is idle.
        assert_eq!(phase.waterfall.idle[0].name, "sampling");
        assert_eq!(phase.waterfall.idle.len(), 1);
        let linear = phase
            .by_kind
            .iter()
            .find(|g| g.kind == Kind::Linear)
            .unwrap();
        assert!((linear.roofline_fraction.unwrap() - 0.8).abs() < 1e-3);
        // The roofline of the phase and the sum of matched rooflines are the same figure by two ways.
        let roofline = phase.roofline.as_ref().unwrap().roofline_ns.0;
        assert!(
            (phase.waterfall.roofline_ns.unwrap().0 - roofline).abs() <= 2,
            "{roofline}"
        );
    }
    let decode = analysis.phase(RunPhase::Decode).unwrap();
    assert_eq!(decode.class.class, Some(PhaseClass::MemoryBound));
    assert_eq!(decode.waterfall.idle_ns, Nanos(30));
    let names: Vec<_> = decode
        .by_path
        .iter()
        .map(|group| group.name.as_str())
        .collect();
    assert!(
        names.contains(&"model.layers.*.self_attn.q_proj"),
        "{names:?}"
    );
    assert!(names.contains(&"lm_head"), "{names:?}");
    // The last digit of a float may change on the way through text; whole numbers may not.
    let text = serde_json::to_string(&analysis).unwrap();
    let back: Analysis = serde_json::from_str(&text).unwrap();
    assert_eq!(back.phases[1].waterfall, decode.waterfall);
    assert_eq!(back.findings.len(), analysis.findings.len());
    assert_eq!(back.phases[1].by_path[0].shape, decode.by_path[0].shape);
}

/// Weights in bf16 under activations in f32, as the native engine has them: those that int8 leaves alone stay in bf16, so
/// that a step reads as much as in [`gains_are_counted_again_from_theory`], and the gain is the same.
#[test]
fn what_is_not_quantized_keeps_its_format() {
    let (model, device) = (llama_8b(), h200());
    let mut workload = small();
    workload.precision = Precision {
        weights: Some(WeightFormat::Plain(DType::Bf16)),
        activations: Some(DType::F32),
        ..Precision::default()
    };
    let recipe = Recipe {
        model: &model,
        workload,
        device: &device,
        slowness: 1.25,
        gap: 0,
    };
    let analysis = recipe.analyzed();
    // Whoever compares with the roofline on paper must know why it is another.
    let is_stated = |assumption: &Assumption| {
        matches!(
            assumption,
            Assumption::ComputeDtype {
                dtype: DType::F32,
                stored_dtype: DType::Bf16,
                ..
            }
        )
    };
    let assumptions = &analysis.assumptions;
    assert!(assumptions.iter().any(is_stated), "{assumptions:?}");
    let mut findings = analysis.findings.iter();
    let quantize = findings.find(|f| f.code == "quantize_weights").unwrap();
    let weights = |what| {
        let evidence = quantize.evidence.iter().find(|e| e.what == what);
        evidence.unwrap().value as u64
    };
    // 16,060,522,496 B in all; the GEMMs give up half of theirs for 4 B a row.
    assert_eq!(weights(Measure::WeightBytes), 16_060_522_496);
    assert_eq!(
        weights(Measure::Int8WeightBytes),
        16_060_522_496 - 6_979_321_856 + 4 * 32 * 43_008
    );
}

/// Weights in bf16 that are multiplied in f32, as the native engine does, with a prompt of 2,048 tokens.
fn widened() -> Workload {
    Workload {
        prompt: 2048,
        precision: Precision {
            weights: Some(WeightFormat::Plain(DType::Bf16)),
            activations: Some(DType::F32),
            kv: Some(DType::F32),
            ..Precision::default()
        },
        ..small()
    }
}

fn faster_formats(device: &Device, workload: Workload) -> (Analysis, Vec<Finding>) {
    slow_formats(device, workload, 1.25)
}

/// The findings where each operator takes `slowness` times its roofline.
fn slow_formats(device: &Device, workload: Workload, slowness: f64) -> (Analysis, Vec<Finding>) {
    let model = llama_8b();
    let recipe = Recipe {
        model: &model,
        workload,
        device,
        slowness,
        gap: 0,
    };
    let analysis = recipe.analyzed();
    let findings = analysis.findings.iter();
    let findings = findings.filter(|finding| finding.code == "faster_format");
    let findings = findings.cloned().collect();
    (analysis, findings)
}

/// A prefill of Llama-3.1-8B multiplies 6,979,321,856 weights with 2,048 tokens: 2.8587e13 operations, 427.3 ms at an H200's
/// 66.9 TFLOP/s in f32 and 28.9 ms at its 989.4 TFLOP/s in bf16. All take 1.25 times their roofline, so that
/// 1.25 × (427.3 ms − 28.9 ms) = 498.0 ms go.
#[test]
fn gemms_in_a_slow_format_are_counted_again_in_the_fast_one() {
    let device = h200();
    let (analysis, findings) = faster_formats(&device, widened());
    let prefill = analysis.phase(RunPhase::Prefill).unwrap();
    assert_eq!(prefill.class.class, Some(PhaseClass::ComputeBound));
    let [finding] = findings.as_slice() else {
        panic!("{findings:?}")
    };
    assert_eq!(finding.phase, Some(RunPhase::Prefill));
    let gain = finding.gain.as_ref().unwrap();
    let operations = 2.0 * 6_979_321_856.0 * 2048.0;
    let saved = 1.25 * operations * (1.0 / 66.9e12 - 1.0 / 989.4e12);
    assert!((gain.saved_ns.unwrap().seconds() / saved - 1.0).abs() < 1e-3);
    let wall = prefill.waterfall.wall_ns.seconds();
    assert!((gain.phase_factor.unwrap() / (wall / (wall - saved)) - 1.0).abs() < 1e-3);
    // What is left is no shorter than the GEMMs' own roofline, and what is no GEMM stays.
    let linear = prefill.by_kind.iter().find(|g| g.kind == Kind::Linear);
    let rest = wall - linear.unwrap().measured_ns.seconds();
    assert!(wall - saved > rest + operations / 989.4e12);
    let Some(Conclusion::FasterFormat {
        peak_flops_per_s,
        faster_peak_flops_per_s,
        is_native,
        ..
    }) = finding.conclusion
    else {
        panic!("{finding:?}")
    };
    let close = |peak: FlopsPerSecond, stated: f64| (peak.0 / stated - 1.0).abs() < 1e-9;
    assert!(close(peak_flops_per_s, 66.9e12) && close(faster_peak_flops_per_s, 989.4e12));
    assert!(is_native);
}

#[test]
fn a_faster_format_is_named_only_where_the_device_and_the_phase_have_use_for_it() {
    // No units for 16 bits: their peak is that of f32.
    let mut without = h200();
    without.peaks.retain(|peak| peak.dtype == DType::F32);
    let (analysis, findings) = faster_formats(&without, widened());
    let prefill = analysis.phase(RunPhase::Prefill).unwrap();
    assert_eq!(prefill.class.class, Some(PhaseClass::ComputeBound));
    assert_eq!(findings, []);
    // Units that are only a little faster.
    let mut little = h200();
    for peak in &mut little.peaks {
        if peak.dtype == DType::Bf16 {
            peak.dense_flops_per_s.0 = 1.4 * 66.9e12;
        }
    }
    assert_eq!(faster_formats(&little, widened()).1, []);
    // Products that are far from any limit would stay so.
    assert_eq!(slow_formats(&h200(), widened(), 4.0).1.len(), 1);
    assert_eq!(slow_formats(&h200(), widened(), 6.0).1, []);
    // It is memory-bound: a prompt of one token reads all weights for it.
    let short = Workload {
        prompt: 1,
        ..widened()
    };
    assert_eq!(faster_formats(&h200(), short).1, []);
    // It multiplies in the fast format already.
    let narrow = Workload {
        precision: Precision::default(),
        ..widened()
    };
    assert_eq!(faster_formats(&h200(), narrow).1, []);
}

/// A step of Llama-3.1-8B reads GEMM weights of 6,979,321,856 elements and a head of 525,336,576, in bf16 15,009,316,864 B. In
/// int8 they take 6,979,321,856 B and 4 B for each of 32 × 43,008 output rows, the head stays: 8,035,500,032 B.
/// All run at 80 % of the roof, so decode gets 15,009,316,864 ÷ 8,035,500,032 = 1.868 times faster, less a little for
/// what is no GEMM.
#[test]
fn gains_are_counted_again_from_theory() {
    let (model, device) = (llama_8b(), h200());
    let recipe = Recipe::of(&model, &device, 1.25, 0);
    let analysis = recipe.analyzed();
    let find = |code: &str| analysis.findings.iter().find(|f| f.code == code).unwrap();
    let quantize = find("quantize_weights");
    let gain = quantize.gain.as_ref().unwrap();
    assert!(!gain.is_bound);
    let phase_factor = gain.phase_factor.unwrap();
    assert!((1.866..1.868).contains(&phase_factor), "{quantize:?}");
    // Decode alone gets faster: 1 ÷ (1 − share × (1 − 1 ÷ factor)).
    let wall = |phase| analysis.phase(phase).unwrap().waterfall.wall_ns.0 as f64;
    let share = wall(RunPhase::Decode) / (wall(RunPhase::Decode) + wall(RunPhase::Prefill));
    let expected = 1.0 / (1.0 - share * (1.0 - 1.0 / phase_factor));
    assert!((gain.factor - expected).abs() < 1e-6);
    // Those of the same workload come first, the larger first.
    let order: Vec<_> = analysis
        .findings
        .iter()
        .filter_map(|finding| finding.gain.as_ref())
        .map(|gain| (gain.of, gain.factor))
        .collect();
    assert!(
        order.is_sorted_by(|a, b| (a.0, -a.1) <= (b.0, -b.1)),
        "{order:?}"
    );
}

/// Gaps as long as all operators together: half of the time is idle, so without it the phase is twice as fast.
#[test]
fn idle_time_is_a_finding_with_its_factor() {
    let (model, device) = (llama_8b(), h200());
    let recipe = Recipe::of(&model, &device, 1.0, 100_000);
    let analysis = recipe.analyzed();
    let decode = analysis.phase(RunPhase::Decode).unwrap();
    assert_eq!(decode.class.class, Some(PhaseClass::HostBound));
    let waterfall = &decode.waterfall;
    let idle = analysis
        .findings
        .iter()
        .find(|f| f.code == "idle" && f.phase == Some(RunPhase::Decode))
        .unwrap();
    let factor = idle.gain.as_ref().unwrap().phase_factor.unwrap();
    let expected = waterfall.wall_ns.0 as f64 / waterfall.busy_ns.0 as f64;
    assert!((factor - expected).abs() < 1e-9);
    // No software leaves nothing of it.
    assert!(idle.gain.as_ref().unwrap().is_bound);
    let is_host_bound = matches!(
        idle.conclusion,
        Some(Conclusion::Idle {
            is_host_bound: true,
            ..
        })
    );
    assert!(is_host_bound, "{idle:?}");
    assert_eq!(waterfall.idle[0].name, UNRECORDED);
    // It is not memory-bound.
    assert!(
        !analysis
            .findings
            .iter()
            .any(|f| f.code == "quantize_weights")
    );
}

#[test]
fn what_differs_from_theory_is_listed_with_its_reason() {
    let (model, device) = (llama_8b(), h200());
    let recipe = Recipe::of(&model, &device, 1.1, 50);
    let mut run = recipe.run();
    let all = run.calls.len() as u64;
    let at = |run: &Made, path: &str| {
        let index = run.operators.iter().position(|o| o.path == path).unwrap();
        let mut calls = run.calls.iter();
        calls.position(|call| call.operator == index).unwrap()
    };
    run.operators.push(Identity {
        path: "debug.dump".to_owned(),
        kind: Kind::Scale,
        dtype: llmprof_units::DType::Bf16,
    });
    let unknown = run.operators.len() - 1;
    let late = at(&run, "model.layers.5.self_attn.q_proj");
    let mut again = run.calls[late];
    (again.start, again.end) = (again.end + 1, again.end + 11);
    let mut stray = again;
    (stray.operator, stray.start, stray.end) = (unknown, again.end + 1, again.end + 8);
    let mut nameless = stray;
    (nameless.operator, nameless.start, nameless.end) = (9_999_999, stray.end + 1, stray.end + 4);
    let events = &mut run.calls;
    events.extend([again, stray, nameless]);
    let index = at(&run, "model.layers.7.mlp.down_proj");
    run.calls[index].shape = Shape::gemm(1, 2, 3);
    let index = at(&run, "model.layers.9.mlp.up_proj");
    run.calls.remove(index);
    let index = at(&run, "model.layers.11.self_attn.o_proj");
    let operator = run.calls[index].operator;
    run.operators[operator].dtype = llmprof_units::DType::F16;

    let analysis = run
        .analyzed(&model, &recipe.workload, Some(&device))
        .unwrap();
    let prefill = analysis.phase(RunPhase::Prefill).unwrap();
    let mut reasons: Vec<_> = prefill
        .unmatched
        .iter()
        .map(|o| (o.reason, o.path.as_str(), o.calls))
        .collect();
    reasons.sort();
    assert_eq!(
        reasons,
        [
            (UnmatchedReason::NotInTheory, "debug.dump", 1),
            (
                UnmatchedReason::RanAgain,
                "model.layers.5.self_attn.q_proj",
                1
            ),
            (
                UnmatchedReason::ShapeDiffers,
                "model.layers.7.mlp.down_proj",
                1
            ),
            (
                UnmatchedReason::DtypeDiffers,
                "model.layers.11.self_attn.o_proj",
                1
            ),
            (UnmatchedReason::UnknownOperator, "operator 9999999", 1),
        ]
    );
    assert_eq!(prefill.missing.len(), 1);
    assert_eq!(prefill.missing[0].path, "model.layers.9.mlp.up_proj");
    // Decode has the wrong dtype once per step and nothing else.
    let decode = analysis.phase(RunPhase::Decode).unwrap();
    assert_eq!((decode.unmatched.len(), decode.unmatched[0].calls), (1, 3));
    let matched: u64 = analysis
        .phases
        .iter()
        .map(|phase| phase.matched_calls)
        .sum();
    assert_eq!(matched, all - 1 - 1 - 4);
    assert_eq!(prefill.waterfall.extra_ns, Nanos(10));
    let unattributed: i64 = prefill.unmatched.iter().map(|o| o.time_ns.0).sum::<i64>() - 10;
    assert_eq!(prefill.waterfall.unattributed_ns, Nanos(unattributed));
    let codes = codes(&analysis);
    assert!(codes.contains(&"run.unmatched_operators") && codes.contains(&"run.missing_operators"));
}

#[test]
fn without_a_device_findings_abstain_and_say_why() {
    let (model, device) = (llama_8b(), h200());
    let recipe = Recipe::of(&model, &device, 1.0, 0);
    let analysis = recipe
        .run()
        .analyzed(&model, &recipe.workload, None)
        .unwrap();
    assert_eq!(codes(&analysis), ["run.no_device"]);
    let decode = analysis.phase(RunPhase::Decode).unwrap();
    assert_eq!(
        (decode.class.class, decode.waterfall.roofline_ns),
        (None, None)
    );
    assert!(decode.utilization.is_none());
    assert!(!analysis.findings.is_empty());
    for finding in &analysis.findings {
        assert_eq!(finding.confidence, Confidence::Abstains, "{finding:?}");
        assert_eq!(finding.abstains, Some(Abstention::NoDevice));
    }
}

#[test]
fn a_model_in_the_cache_is_not_judged_against_main_memory() {
    let (model, device) = (tiny_moe(), h200());
    let recipe = Recipe::of(&model, &device, 1.0, 1);
    let analysis = recipe.analyzed();
    let decode = analysis.phase(RunPhase::Decode).unwrap();
    assert_eq!(
        decode.residence.as_ref().unwrap().level,
        MemoryLevel::OnChip
    );
    assert_eq!(decode.residence.as_ref().unwrap().name, "l1");
    // The H200's file has no bandwidths of caches: no class is claimed.
    assert_eq!(decode.roofline.as_ref().unwrap().memory_ns, Nanos(0));
    assert!(
        analysis
            .findings
            .iter()
            .any(|f| f.code == "weights_on_chip")
    );
    let refused = analysis
        .findings
        .iter()
        .find(|f| f.code == "quantize_weights");
    assert!(refused.is_none_or(|finding| finding.confidence == Confidence::Abstains));
    // Each call of the experts said that it reached three.
    assert_eq!(
        analysis.workload.unwrap().routing,
        Routing::Measured {
            prefill: 3.0,
            decode: 3.0
        }
    );
    assert_eq!(decode.basis, Basis::Measured);
}

#[test]
fn passes_of_a_span_stand_in_for_the_workload() {
    let (model, device) = (llama_8b(), h200());
    let mut recipe = Recipe {
        model: &model,
        workload: Workload {
            prompt: 24,
            chunk: Some(8),
            ..small()
        },
        device: &device,
        slowness: 1.0,
        gap: 0,
    };
    let mut run = recipe.run();
    recipe.workload = small();
    let shape = |queries, past, steps, logits| PassShape {
        batch: 1,
        queries,
        past,
        steps,
        logits,
    };
    for pass in &mut run.record.passes {
        pass.phases[0].passes = vec![shape(8, 0, 2, 0), shape(8, 16, 1, 1)];
        pass.phases[1].passes = vec![shape(1, 24, 3, 1)];
    }
    let analysis = run
        .analyzed(&model, &recipe.workload, Some(&device))
        .unwrap();
    for phase in &analysis.phases {
        assert!(phase.unmatched.is_empty(), "{:?}", phase.unmatched);
        assert!(phase.missing.is_empty(), "{:?}", phase.missing);
    }
}

/// A workload may ask for millions of steps of which a run made three.
#[test]
fn a_generation_that_stopped_early_has_missing_operators() {
    let (model, device) = (tiny_moe(), h200());
    let recipe = Recipe::of(&model, &device, 1.0, 0);
    let run = recipe.run();
    let longer = Workload {
        new_tokens: 1 << 24,
        ..small()
    };
    let analysis = run.analyzed(&model, &longer, None).unwrap();
    let decode = analysis.phase(RunPhase::Decode).unwrap();
    assert!(decode.unmatched.is_empty());
    assert!(!decode.missing.is_empty());
    assert!(codes(&analysis).contains(&"run.missing_operators"));
}

/// A warm-up that served nobody, and no pass after it.
fn unfinished() -> RunRecord {
    let warm_up = MeasuredPass {
        kind: PassKind::WarmUp,
        ..MeasuredPass::default()
    };
    RunRecord {
        passes: vec![warm_up],
        ..RunRecord::default()
    }
}

#[test]
fn nothing_measured_is_an_issue_and_a_bad_workload_an_error() {
    let model = llama_8b();
    let of_nothing = |workload: &Workload| analyze(&asked(&model, workload, unfinished()), None);
    let analysis = of_nothing(&small()).unwrap();
    assert!(codes(&analysis).contains(&"run.no_capture"));
    let bad = Workload {
        batch: 0,
        ..Workload::default()
    };
    assert!(of_nothing(&bad).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is dropped, repeated or shifted: every event is matched or listed, and parts sum to the whole.
    #[test]
    fn no_event_is_lost(
        drops in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        repeats in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        shifts in prop::collection::vec((any::<prop::sample::Index>(), -5_000i64..5_000), 0..5),
    ) {
        let (model, device) = (tiny_moe(), h200());
        let recipe = Recipe::of(&model, &device, 2.0, 3);
        let mut run = recipe.run();
        let events = &mut run.calls;
        for index in drops { let at = index.index(events.len()); events.remove(at); }
        for index in repeats { let event = events[index.index(events.len())]; events.push(event); }
        for (index, by) in shifts {
            let at = index.index(events.len());
            events[at].start += by;
            events[at].end += by;
        }
        let inside = run.calls.iter()
            .filter(|event| run.record.passes[2].phases.iter().any(|span| span.contains(Nanos(event.start))))
            .count() as u64;
        let analysis = run.analyzed(&model, &recipe.workload, Some(&device)).unwrap();
        let mut seen = 0;
        for phase in &analysis.phases {
            seen += phase.matched_calls + phase.unmatched.iter().map(|o| o.calls).sum::<u64>();
            let total: i64 = phase.waterfall.parts().iter().map(|(_, time)| time.0).sum();
            prop_assert_eq!(total, phase.waterfall.wall_ns.0);
            let grouped: u64 = phase.by_path.iter().map(|group| group.calls).sum();
            prop_assert_eq!(grouped, phase.matched_calls);
        }
        prop_assert_eq!(seen, inside);
    }
}

#[test]
fn a_pass_that_recording_made_another_one_is_named() {
    let (model, device) = (llama_8b(), h200());
    let recipe = Recipe::of(&model, &device, 1.0, 0);
    let analysis = recipe
        .run()
        .analyzed(&model, &recipe.workload, None)
        .unwrap();
    let phase = |ratio: f64, device: Option<u32>| {
        let mut phase = analysis.phase(RunPhase::Decode).unwrap().clone();
        phase.capture_ratio = Some(ratio);
        phase.traced = device.map(|device| TracedPhase {
            device: Some(device),
            ..TracedPhase::default()
        });
        phase
    };
    let issues = capture_cost::issues([phase(1.2, None), phase(3.02, None)].iter());
    let expected = Issue::warning(IssueCode::RunSlowedByCapture)
        .with("phase", "decode")
        .with("ratio", 3.02);
    assert_eq!(issues, [expected]);
    assert_eq!(capture_cost::issues([phase(1.4, None)].iter()), []);
    assert_eq!(capture_cost::issues([phase(0.95, None)].iter()), []);
    let issues = capture_cost::issues([phase(0.7, None)].iter());
    assert_eq!(issues[0].code, IssueCode::RunPlainPassSlower);
    // What a device did is judged by passes without capture.
    assert_eq!(capture_cost::issues([phase(3.0, Some(0))].iter()), []);

    // What else tells the cost of a capture has the same figure, once for a phase of several devices.
    let mut of_devices = analysis.clone();
    of_devices.phases = vec![phase(3.02, Some(0)), phase(3.02, Some(1))];
    let costs = CaptureCost::of(&of_devices);
    assert_eq!(costs.len(), 1);
    assert_eq!((costs[0].phase.as_str(), costs[0].ratio), ("decode", 3.02));
    let captured = of_devices.phases[0].waterfall.wall_ns;
    assert_eq!(costs[0].captured_ns, captured);
    let plain = costs[0].plain_ns.0 as f64;
    assert!((captured.0 as f64 / plain / 3.02 - 1.0).abs() < 1e-6);
}
