//! Findings: conclusion, gain, knob, evidence.

mod conclusion;
mod evidence;
mod serving;

use llmprof_record::kernel_name::Library;
use llmprof_record::run::RunPhase;
use llmprof_units::{DType, Times};

pub use self::conclusion::finding;
pub(crate) use self::conclusion::{abstention, cache, no_conclusion, statement};
pub(crate) use self::evidence::{derivation, evidence, figure, label};
use super::runtime::Runtime;
use super::{causes, copies, program};
use crate::analyzed::{
    Analysis, Assumption, Conclusion, Confidence, Finding, Framework, GainOf, HostGaps, IdleRemedy,
    NamedTime, ProgramKind,
};

/// What must not be done with several gains.
pub(crate) const OVERLAP: &str = "Gains do not add up: two findings may be about the same time.";

/// Gains below this factor are no findings for people.
const NOTICED: f64 = 1.005;

/// Whether its gain, where there is one, can be noticed. The gain of a cause may be much more than what is stated: the recording hides it,
/// or the time of the alternative is not known.
pub(crate) fn is_noticed(finding: &Finding) -> bool {
    if let Some(Conclusion::Cause { cause }) = &finding.conclusion
        && cause
            .gains
            .iter()
            .any(|gain| 2 * gain.saved_ns.0 < gain.high_ns.0)
    {
        return true;
    }
    let gain = finding.gain.as_ref();
    gain.is_none_or(|gain| gain.factor >= NOTICED || gain.of != GainOf::Run)
}

/// What phases together are: a run that was measured, or part of a trace, which may hold more than they do.
pub(crate) fn whole(analysis: &Analysis) -> &'static str {
    if analysis.latency.measured_in.is_some() {
        "run"
    } else {
        "all phases"
    }
}

/// Whether the phase of a finding is all that was measured: one factor says what there is to say.
fn is_whole(finding: &Finding) -> bool {
    let gain = finding.gain.as_ref();
    gain.is_some_and(|gain| {
        let of_phase = gain.phase_factor.map(|factor| Times(factor).to_string());
        gain.of == GainOf::Run && of_phase == Some(Times(gain.factor).to_string())
    })
}

/// What the change would bring to the `whole`; nothing where no gain can be computed, or where the conclusion has said it.
pub fn gain(finding: &Finding, whole: &str) -> Option<String> {
    if let Some(Conclusion::Cause { cause }) = &finding.conclusion {
        return Some(causes::gain(cause));
    }
    if let Some(Conclusion::Serving { conclusion, .. }) = &finding.conclusion {
        return Some(format!(
            "Upper bound: {}.",
            serving::upper_bound(conclusion)
        ));
    }
    let gain = finding.gain.as_ref()?;
    let is_called_alike = gain.is_bound || finding.confidence != Confidence::Low;
    if is_called_alike && !finding.is_contended && is_whole(finding) {
        return None;
    }
    let of = match gain.of {
        GainOf::Run => whole,
        GainOf::Throughput => "throughput",
        GainOf::Latency => "mean request",
        GainOf::FirstRequest => match finding.phase_name() {
            Some(phase) => &format!("first {phase}"),
            None => "first request",
        },
    };
    // The sentence has the times.
    if gain.factor >= causes::RATIO_MAX {
        return None;
    }
    let is_bound =
        gain.is_bound || (gain.of == GainOf::Run && finding.confidence == Confidence::Low);
    let label = if is_bound {
        "Upper bound"
    } else {
        "Expected speedup"
    };
    let contended = if finding.is_contended {
        " (CPUs were contended)"
    } else {
        ""
    };
    Some(format!("{label}: {of} {}{contended}.", Times(gain.factor)))
}

/// Whether most of the exposed communication is waiting, as the issue `ranks.waiting` has it.
fn is_waiting(share: f64) -> bool {
    share > 0.5
}

/// What would make idle time shorter.
fn idle_knob(remedy: IdleRemedy, runtime: Runtime, torch: bool) -> &'static str {
    match remedy {
        IdleRemedy::CheaperLaunches => match runtime {
            Runtime::Gpu(Framework::Xla)
            | Runtime::Hip(Framework::Xla)
            | Runtime::Other(Framework::Xla) => {
                "Try: enqueue steps ahead (read results later), or XLA command buffers."
            }
            Runtime::Gpu(Framework::Unknown) | Runtime::Hip(Framework::Unknown) => {
                "Try: CUDA Graphs, or more work per launch and launches further ahead."
            }
            Runtime::Other(Framework::Unknown) => {
                "Try: more work per launch and launches further ahead."
            }
            Runtime::Other(_) => "Try: torch.compile, or launches further ahead.",
            _ => "Try: CUDA Graphs or torch.compile.",
        },
        IdleRemedy::LessHostWork => "Try: less work of the host, or do it while the GPU works.",
        IdleRemedy::ReuseMemory => {
            "Try: allocate once and reuse (a caching allocator, workspaces kept between calls): the driver allocates and frees slowly."
        }
        IdleRemedy::LessAroundGraphs => {
            "Most kernels run in CUDA Graphs already; what is left lies between their kernels and around their launches."
        }
        IdleRemedy::FewerKernels if !torch => {
            "Try: fewer, larger kernels: most of the idle time is inter-kernel gaps."
        }
        IdleRemedy::FewerKernels => {
            "Try: fewer, fused kernels (torch.compile): most of the idle time is inter-kernel gaps."
        }
    }
}

/// What tunes the GEMMs of a library, which is not the library itself.
fn tuned_gemms(library: Option<Library>, runtime: Runtime, torch: bool) -> &'static str {
    match (library, runtime) {
        (Some(Library::Triton), _) => "tile sizes of the Triton kernels tuned for these shapes",
        (Some(Library::Vllm), _) => "tuned configurations of the Triton kernels of experts",
        (Some(Library::Tensile), _) | (None, Runtime::Hip(_)) if torch => {
            "tuned GEMM kernels (TunableOp)"
        }
        (Some(Library::Aiter | Library::ComposableKernel), _) => {
            "tuned GEMM kernels (AITER's tuning tables)"
        }
        (Some(Library::Cublas | Library::CublasLt | Library::Cutlass) | None, _) if torch => {
            "tuned GEMM kernels (mode `max-autotune` of torch.compile)"
        }
        _ => "tuned GEMM kernels",
    }
}

/// Backends of the vendor, but for the one that runs.
fn attention_knob(library: Option<Library>, runtime: Runtime) -> String {
    let backends: &[(&str, Library)] = match runtime {
        Runtime::Hip(_) => &[
            ("AITER", Library::Aiter),
            ("CK FlashAttention", Library::ComposableKernel),
            ("Triton", Library::Triton),
        ],
        Runtime::Other(_) => &[],
        _ => &[
            ("FlashAttention", Library::FlashAttention),
            ("cuDNN", Library::Cudnn),
            ("FlashInfer", Library::FlashInfer),
        ],
    };
    let others = backends.iter().filter(|(_, own)| library != Some(*own));
    let others: Vec<&str> = others.map(|(name, _)| *name).collect();
    if others.is_empty() {
        return "Try: another attention backend.".to_owned();
    }
    format!("Try: another attention backend ({}).", others.join(", "))
}

/// What to do about an operator that the GPU waits for; nothing where it is one of the framework, which no user can shorten.
fn host_work_knob(operator: &str) -> Option<String> {
    let is_own = !["aten::", "autograd::", "torch::", "cuda", "hip"]
        .iter()
        .any(|library| operator.starts_with(library));
    if operator.to_ascii_lowercase().contains("dataloader") {
        Some("Try: more DataLoader workers, prefetching.".to_owned())
    } else {
        is_own.then(|| format!("Try: less work in `{operator}`, or do it while the GPU works."))
    }
}

/// Without a function or a range nothing says what the program does in the gaps.
fn host_gaps_knob(gaps: &HostGaps) -> &'static str {
    let is_loading = |range: &NamedTime| range.name.to_ascii_lowercase().contains("dataloader");
    if gaps.range.as_ref().is_some_and(is_loading) {
        "Try: more DataLoader workers, prefetching."
    } else if gaps.function.is_some() {
        "Try: less time in this function, or run it on another thread while ops run."
    } else {
        "Try: `with_stack=True` of torch.profiler, or `llmprof record`: they name the Python function."
    }
}

/// What to change; nothing where the finding has no remedy. What the run has turned on already is no knob.
pub fn knob(finding: &Finding, analysis: &Analysis) -> Option<String> {
    let knob = by_runtime(
        finding,
        Runtime::from_analysis(analysis),
        analysis.program.kind,
    )?;
    let (compiled, graphs) = (is_compiled(analysis), has_decode_graphs(analysis));
    Some(turned_on(finding, knob, compiled, graphs))
}

/// The knob of a run whose decode is compiled or runs in graphs; its prefill does not.
fn turned_on(finding: &Finding, knob: String, is_compiled: bool, has_graphs: bool) -> String {
    let is_prefill = finding.phase == Some(RunPhase::Prefill);
    match &finding.conclusion {
        Some(Conclusion::Idle {
            remedy: Some(IdleRemedy::CheaperLaunches),
            ..
        }) if is_prefill && has_graphs => {
            "Try: graphs of prefill too; those of this run cover decode only.".to_owned()
        }
        _ if is_compiled && is_prefill => knob.replace(
            "torch.compile",
            "torch.compile of prefill (the run compiles decode only)",
        ),
        Some(Conclusion::Extra { .. }) if is_compiled => AVOID.to_owned(),
        Some(Conclusion::Inefficiency { .. }) if is_compiled => {
            knob.replace(FUSE, "Try: fuse them with adjacent ops by hand.")
        }
        _ => knob,
    }
}

/// Whether most kernels of decode come from graphs.
fn has_decode_graphs(analysis: &Analysis) -> bool {
    let phases = analysis.phases.iter();
    let mut decode = phases.filter(|phase| phase.phase == RunPhase::Decode);
    decode.any(|phase| {
        let traced = phase.traced.as_ref();
        traced.is_some_and(|traced| 2 * traced.graph_kernels > traced.kernels)
    })
}

/// Whether the run had `runtime.compile` on, which compiles decode steps.
fn is_compiled(analysis: &Analysis) -> bool {
    let mut assumptions = analysis.assumptions.iter();
    assumptions.any(|assumption| match assumption {
        Assumption::Worker { options, .. } => options
            .iter()
            .any(|(name, value)| name == "compile" && value != "off"),
        _ => false,
    })
}

const AVOID: &str = "Try: avoid casts, concatenations and copies.";
const FUSE: &str = "Try: fuse them with adjacent ops (torch.compile).";

fn format_knob(dtype: DType, is_native: bool) -> String {
    if is_native {
        format!("Try: `runtime=pytorch`; the native engine has no {dtype} GEMM.")
    } else {
        format!("Try: load the model in {dtype}, where that precision is enough.")
    }
}

fn is_gemm(operators: &str) -> bool {
    ["linear", "experts", "gemm"].contains(&operators)
}

/// Operators that have no kernels of their own to choose from.
fn other_operators_knob(operators: &str, runtime: Runtime, torch: bool) -> Option<&'static str> {
    if is_gemm(operators) && runtime == Runtime::PyTorchOnCpu {
        return Some(
            "Try: larger batches, more threads (OMP_NUM_THREADS), or bf16 on CPUs that have it.",
        );
    }
    torch.then_some(FUSE)
}

/// What a runtime has to change.
fn by_runtime(finding: &Finding, runtime: Runtime, kind: ProgramKind) -> Option<String> {
    let gpu = matches!(
        runtime,
        Runtime::Gpu(_) | Runtime::Hip(_) | Runtime::Other(_)
    );
    let torch = matches!(
        runtime,
        Runtime::PyTorchOnCpu
            | Runtime::Gpu(Framework::Pytorch)
            | Runtime::Hip(Framework::Pytorch)
            | Runtime::Other(Framework::Pytorch)
    );
    let knob = match finding.conclusion.as_ref()? {
        Conclusion::Cause { cause } => return Some(causes::change(cause)),
        Conclusion::Serving { server, conclusion } => {
            return Some(format!("Try: {}.", serving::change(conclusion, *server)));
        }
        Conclusion::Idle {
            remedy: Some(IdleRemedy::LessHostWork),
            host_work,
            ..
        } => return host_work_knob(&host_work.as_ref()?.operator),
        Conclusion::HostGaps { gaps } => host_gaps_knob(gaps),
        Conclusion::Idle { remedy, .. } => idle_knob((*remedy)?, runtime, torch),
        Conclusion::Inefficiency {
            operators, library, ..
        } if gpu && operators == "attention" => return Some(attention_knob(*library, runtime)),
        Conclusion::Inefficiency {
            operators, library, ..
        } if gpu && is_gemm(operators) => {
            let kernels = match operators.as_str() {
                "experts" => "grouped-GEMM kernels",
                _ => tuned_gemms(*library, runtime, torch),
            };
            // A larger batch makes no prefill shorter.
            return Some(if finding.phase == Some(RunPhase::Decode) {
                format!("Try: larger batches, or {kernels}.")
            } else {
                format!("Try: {kernels}.")
            });
        }
        Conclusion::Inefficiency { operators, .. } => {
            other_operators_knob(operators, runtime, torch)?
        }
        Conclusion::GemmShapes { library, .. } => {
            return Some(format!("Try: {}.", tuned_gemms(*library, runtime, torch)));
        }
        Conclusion::Extra {
            share,
            views_share: Some(views),
            ..
        } if torch && *views > share / 2.0 => "Try: torch.compile: fewer ops to dispatch.",
        Conclusion::Extra { .. } if torch => {
            "Try: torch.compile; avoid casts, concatenations and copies."
        }
        Conclusion::Copies {
            is_on_device,
            longest,
            ..
        } if gpu => copies::knob(longest.as_ref(), *is_on_device, runtime),
        Conclusion::Communication {
            exposed_share,
            waiting_share,
            is_point_to_point,
            ..
        } => communication(*exposed_share, *waiting_share, *is_point_to_point),
        // What a compiler has fused is not fused further by turning it on.
        Conclusion::Fusion {
            fused_share: Some(fused),
            ..
        } if *fused > 0.5 => {
            "Try: kernels fused by hand (norm with add, rotary embedding with the KV cache write)."
        }
        Conclusion::Fusion { .. } if torch => "Try: torch.compile, or fused kernels.",
        Conclusion::Fusion { .. } => "Try: fused kernels.",
        Conclusion::FasterFormat {
            faster_dtype,
            is_native,
            ..
        } => return Some(format_knob(*faster_dtype, *is_native)),
        Conclusion::QuantizeWeights { .. } if gpu => "Try: int8 weights.",
        Conclusion::QuantizeWeights { .. } if runtime == Runtime::Native => {
            "Try: `workload.weights=int8`."
        }
        Conclusion::KvLengths { .. }
        | Conclusion::FirstPass {
            extra_step_ns: Some(_),
            has_kv_cache: true,
            ..
        } => "Try: warm up the lengths that are served, or keep the KV cache at one size.",
        Conclusion::FirstPass {
            extra_step_ns: Some(_),
            ..
        } => "Try: warm up the lengths that are served.",
        Conclusion::FirstPass { .. } | Conclusion::FirstRange { .. } => {
            return program::warm_up(kind).map(str::to_owned);
        }
        Conclusion::Throttled { .. } => "Try: power limit or cooling.",
        Conclusion::Extra { .. }
        | Conclusion::Copies { .. }
        | Conclusion::QuantizeWeights { .. }
        | Conclusion::WeightsOnChip { .. } => return None,
    };
    Some(match runtime {
        Runtime::Hip(_) => knob.replace("CUDA Graphs", "HIP graphs"),
        _ => knob.to_owned(),
    })
}

/// Exposed communication above this share leaves hardly any compute to hide it behind.
const NOTHING_TO_OVERLAP_MIN_SHARE: f64 = 0.9;

/// Overlap hides transfers, and no waiting. A stage of a pipeline waits for its input less often the more micro-batches there are.
fn communication(
    exposed_share: f64,
    waiting_share: Option<f64>,
    is_point_to_point: bool,
) -> &'static str {
    match waiting_share {
        _ if is_point_to_point => {
            "Try: more micro-batches, or interleaved ones, where this is a pipeline: its stages wait for each other at the begin and end of a step; overlap the rest with compute."
        }
        Some(waiting) if is_waiting(waiting) => {
            "Try: balance the ranks (equal work for each; the slowest rank first): overlap hides no waiting."
        }
        Some(_) => {
            "Try: overlap transfers with compute; more bus bandwidth: fewer, larger collectives, smaller dtypes, another algorithm."
        }
        None if exposed_share > NOTHING_TO_OVERLAP_MIN_SHARE => {
            "Try: fewer, larger collectives, smaller dtypes, another algorithm."
        }
        None => "Try: overlap communication with compute; fewer, larger collectives.",
    }
}

#[cfg(test)]
mod tests {
    use llmprof_analysis::findings::{Derivation, Gain};

    use llmprof_units::Nanos;

    use super::*;

    fn sample(conclusion: Conclusion, factor: f64, is_bound: bool) -> Finding {
        let derivation = Derivation::WithoutPart {
            wall_ns: Nanos(2),
            part_ns: Nanos(1),
        };
        Finding {
            code: "a".to_owned(),
            phase: Some(RunPhase::Decode),
            label: None,
            conclusion: Some(conclusion),
            evidence: Vec::new(),
            gain: Some(Gain {
                of: GainOf::Run,
                factor,
                phase_factor: Some(3.7),
                saved_ns: Some(Nanos(18_100_000)),
                derivation,
                is_bound,
            }),
            confidence: Confidence::High,
            abstains: None,
            is_contended: false,
        }
    }

    fn idle(first_use_share: Option<f64>) -> Conclusion {
        Conclusion::Idle {
            share: 0.73,
            is_host_bound: true,
            on_device: true,
            first_use_share,
            queued_share: None,
            remedy: Some(IdleRemedy::CheaperLaunches),
            host_work: None,
        }
    }

    fn inefficiency(operators: &str) -> Conclusion {
        Conclusion::Inefficiency {
            operators: operators.to_owned(),
            share: 0.5,
            roofline_fraction: 0.457,
            binds: Some(llmprof_theory::roofline::Resource::Tensor),
            library: Some(Library::Tensile).filter(|_| operators == "linear"),
        }
    }

    #[test]
    fn the_result_comes_first() {
        let line = |conclusion, is_bound| finding(&sample(conclusion, 2.0, is_bound));
        assert_eq!(
            line(idle(None), true),
            "decode is host-bound: GPU idle 73.0 %; removing it saves up to 18.1 ms of 24.8 ms (3.70×)"
        );
        assert_eq!(
            line(idle(Some(0.2)), true),
            "decode is host-bound: GPU idle 73.0 % of the time, 20.0 % in first-use waits (a finding of their own); removing the other 53.0 % \
             saves up to 18.1 ms of 24.8 ms (3.70×)"
        );
        let mut queued = idle(None);
        if let Conclusion::Idle {
            is_host_bound,
            queued_share,
            ..
        } = &mut queued
        {
            (*is_host_bound, *queued_share) = (false, Some(0.4));
        }
        assert_eq!(
            line(queued, true),
            "decode: GPU idle 73.0 % of the time, 40.0 % with work queued that the GPU did not start (the trace does not show why); removing the other \
             33.0 % saves up to 18.1 ms of 24.8 ms (3.70×)"
        );
        assert_eq!(
            line(inefficiency("gemm"), true),
            "decode: GEMMs take 50.0 % of the time at 45.7 % of their compute roofline; reaching it saves up to 18.1 ms of 24.8 ms (3.70×)"
        );
        assert_eq!(
            line(
                Conclusion::Copies {
                    share: 0.25,
                    is_on_device: true,
                    is_copy_bound: false,
                    longest: None,
                    others: Vec::new(),
                },
                false
            ),
            "decode: exposed copies and memsets on the GPU take 25.0 % of the time; removing them saves 18.1 ms of 24.8 ms (3.70×)"
        );
    }

    /// What a run has turned on is advised for the phase that it does not cover, and for no other.
    #[test]
    fn what_the_run_has_on_is_no_knob() {
        let worker = Assumption::Worker {
            model_class: "A".to_owned(),
            versions: Vec::new(),
            options: vec![("compile".to_owned(), "reduce-overhead".to_owned())],
        };
        let mut compiled = Analysis::default();
        compiled.assumptions.push(worker);
        let extra = Conclusion::Extra {
            share: 0.5,
            by_name: false,
            on_device: true,
            views_share: None,
        };
        let decode = sample(extra, 2.0, true);
        let of = |finding: &Finding, is_compiled: bool| {
            let knob = by_runtime(
                finding,
                Runtime::Gpu(Framework::Pytorch),
                ProgramKind::LlmInference,
            )
            .unwrap();
            turned_on(finding, knob, is_compiled, false)
        };
        assert_eq!(
            of(&decode, false),
            "Try: torch.compile; avoid casts, concatenations and copies."
        );
        assert_eq!(of(&decode, is_compiled(&compiled)), AVOID);
        let prefill = Finding {
            phase: Some(RunPhase::Prefill),
            ..decode
        };
        assert!(of(&prefill, true).contains("torch.compile of prefill"));
    }

    /// One phase is the whole: its factor is said once.
    #[test]
    fn one_phase_has_one_factor() {
        let whole = sample(idle(None), 3.7, true);
        assert_eq!(
            finding(&whole),
            "decode is host-bound: GPU idle 73.0 %; removing it saves up to 18.1 ms of 24.8 ms (3.70×)"
        );
        assert_eq!(gain(&whole, "all phases"), None);
        assert_eq!(
            conclusion::statement(&whole),
            "decode is host-bound: GPU idle 73.0 %"
        );
    }

    /// As `ranks.waiting`: skew asks for balance, transfer for overlap and bandwidth.
    #[test]
    fn waiting_for_ranks_asks_for_balance() {
        let told = |waiting_share| {
            let conclusion = Conclusion::Communication {
                exposed_share: 0.4,
                waiting_share,
                rank: None,
                device: None,
                is_point_to_point: false,
            };
            let waiting = sample(conclusion, 2.0, true);
            let knob = by_runtime(
                &waiting,
                Runtime::Gpu(Framework::Pytorch),
                ProgramKind::LlmInference,
            );
            (finding(&waiting), knob.unwrap_or_default())
        };
        let (skewed, balance) = told(Some(0.8));
        assert!(
            skewed.contains("of this rank 80.0 % is waiting for slower ranks"),
            "{skewed}"
        );
        assert!(balance.starts_with("Try: balance the ranks"), "{balance}");
        let (slow, bandwidth) = told(Some(0.2));
        assert!(slow.contains("; overlapping it saves up to"), "{slow}");
        assert!(bandwidth.contains("bus bandwidth"), "{bandwidth}");
        let (_, unknown) = told(None);
        assert!(unknown.contains("overlap communication"), "{unknown}");
        let pipeline = communication(0.1, None, true);
        assert!(pipeline.contains("micro-batches") && !pipeline.contains("collective"));
    }

    /// A ratio above ten says less than the times that it is made of.
    #[test]
    fn large_ratios_are_left_to_their_times() {
        let mut large = sample(idle(None), 31.0, true);
        if let Some(gain) = &mut large.gain {
            (gain.phase_factor, gain.saved_ns) = (Some(31.0), Some(Nanos(30_000)));
        }
        assert_eq!(
            finding(&large),
            "decode is host-bound: GPU idle 73.0 %; removing it saves up to 30 µs of 31 µs"
        );
        assert_eq!(gain(&large, "run"), None);
        large.gain = None;
        assert_eq!(finding(&large), "decode is host-bound: GPU idle 73.0 %");
    }

    /// What a title calls "up to" is no expectation, however sure the time is that would go.
    #[test]
    fn a_bound_is_called_one() {
        let line = |is_bound, confidence| {
            let finding = Finding {
                confidence,
                ..sample(idle(None), 2.65, is_bound)
            };
            gain(&finding, "run")
        };
        let most = Some("Upper bound: run 2.65×.".to_owned());
        assert_eq!(line(true, Confidence::High), most);
        assert_eq!(line(false, Confidence::Low), most);
        let expected = Some("Expected speedup: run 2.65×.".to_owned());
        assert_eq!(line(false, Confidence::Medium), expected);
        let contended = Finding {
            is_contended: true,
            ..sample(idle(None), 2.65, true)
        };
        let line = super::gain(&contended, "run").unwrap_or_default();
        assert!(line.contains("CPUs were contended"), "{line}");
        assert!(!is_noticed(&sample(idle(None), 1.001, true)));
        assert!(is_noticed(&sample(idle(None), 1.01, true)));
    }

    #[test]
    fn knobs_follow_conclusions() {
        let of = |conclusion, runtime| {
            by_runtime(
                &sample(conclusion, 2.0, true),
                runtime,
                ProgramKind::LlmInference,
            )
        };
        let gpu = |conclusion| of(conclusion, Runtime::Gpu(Framework::Pytorch));
        let graphs = gpu(idle(None));
        assert_eq!(
            graphs.as_deref(),
            Some("Try: CUDA Graphs or torch.compile.")
        );
        let attention = gpu(inefficiency("attention"));
        assert!(
            attention
                .as_ref()
                .is_some_and(|knob| knob.contains("attention"))
        );
        assert_ne!(attention, gpu(inefficiency("linear")));
        let prefill = Finding {
            phase: Some(RunPhase::Prefill),
            ..sample(inefficiency("experts"), 2.0, true)
        };
        assert_eq!(
            by_runtime(
                &prefill,
                Runtime::Gpu(Framework::Pytorch),
                ProgramKind::LlmInference
            )
            .as_deref(),
            Some("Try: grouped-GEMM kernels.")
        );
        assert_eq!(
            of(idle(None), Runtime::Hip(Framework::Pytorch)).as_deref(),
            Some("Try: HIP graphs or torch.compile.")
        );
        // No library of another vendor is advised.
        for runtime in [Runtime::Hip, Runtime::Other].map(|of| of(Framework::Pytorch)) {
            for conclusion in [
                idle(None),
                inefficiency("attention"),
                inefficiency("linear"),
            ] {
                let knob = of(conclusion, runtime).unwrap();
                let is_foreign = ["CUDA", "cuDNN", "FlashInfer"].map(|word| knob.contains(word));
                assert_eq!(is_foreign, [false; 3], "{knob}");
            }
        }
        let linear = of(inefficiency("linear"), Runtime::Hip(Framework::Pytorch));
        // What runs already is no advice, with a model or without.
        assert!(
            linear.is_some_and(|knob| knob.contains("TunableOp") && !knob.contains("hipBLASLt"))
        );
        let by_shapes = Conclusion::GemmShapes {
            share: 0.5,
            roofline_fraction: 0.4,
            library: Some(Library::Triton),
        };
        let by_model = Conclusion::Inefficiency {
            operators: "gemm".to_owned(),
            share: 0.5,
            roofline_fraction: 0.4,
            binds: None,
            library: Some(Library::Triton),
        };
        let prefill = |conclusion| Finding {
            phase: Some(RunPhase::Prefill),
            ..sample(conclusion, 2.0, true)
        };
        let [shapes, model] = [by_shapes, by_model].map(|one| {
            by_runtime(
                &prefill(one),
                Runtime::Hip(Framework::Pytorch),
                ProgramKind::LlmInference,
            )
        });
        assert_eq!(shapes, model);
        assert!(shapes.is_some_and(|knob| knob.contains("Triton")));
        let native = of(inefficiency("attention"), Runtime::Native);
        assert_eq!(native, None, "there is no other");
        let weights = Conclusion::QuantizeWeights {
            weights: "bf16".to_owned(),
        };
        let native = of(weights, Runtime::Native);
        assert_eq!(native.as_deref(), Some("Try: `workload.weights=int8`."));
    }
}
