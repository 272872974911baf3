//! The conclusion of a finding in one sentence: the result, then the reason.

use llmprof_theory::roofline::Resource;
use llmprof_units::{Count, Nanos, Percent, Times, format_significant};

use super::is_waiting;
use crate::analyzed::{
    Abstention, Conclusion, CopyDirection, CopyTime, Finding, HostGaps, NamedTime,
};
use crate::text::{bottleneck, causes, copies, unmatched};

pub fn finding(finding: &Finding) -> String {
    match (&finding.conclusion, &finding.abstains) {
        (Some(conclusion), _) => {
            let StatedFinding { what, change } = stated(finding, conclusion);
            match change.zip(saving(finding)) {
                Some((change, saving)) => format!("{what}; {change} saves {saving}"),
                None => what,
            }
        }
        (None, Some(_)) => {
            let (phase, topic) = no_conclusion(finding);
            format!("{phase}: no conclusion on {topic}")
        }
        (None, None) => finding.code.clone(),
    }
}

/// The conclusion without what a change saves: the stakeholder page words that itself.
pub(crate) fn statement(finding: &Finding) -> String {
    match &finding.conclusion {
        Some(conclusion) => stated(finding, conclusion).what,
        None => self::finding(finding),
    }
}

/// The phase of a finding that abstains, and on what nothing is concluded.
pub(crate) fn no_conclusion(finding: &Finding) -> (String, String) {
    let phase = finding.phase_name().unwrap_or("run").to_owned();
    (phase, topic(&finding.code).to_owned())
}

/// Of the phase, where the finding is about one.
fn factor(finding: &Finding) -> f64 {
    let gain = finding.gain.as_ref();
    gain.map_or(1.0, |gain| gain.phase_factor.unwrap_or(gain.factor))
}

/// `up to 18.1 ms of 24.8 ms (3.70×)`, of the phase.
fn saving(finding: &Finding) -> Option<String> {
    let gain = finding.gain.as_ref()?;
    let factor = gain.phase_factor.filter(|factor| *factor > 1.0)?;
    let saved = gain.saved_ns?;
    let whole = Nanos((saved.0 as f64 * factor / (factor - 1.0)).round() as i64);
    let at_most = if gain.is_bound { "up to " } else { "" };
    let ratio = if factor < causes::RATIO_MAX {
        format!(" ({})", Times(factor))
    } else {
        String::new()
    };
    Some(format!("{at_most}{saved} of {whole}{ratio}"))
}

/// What was seen, and the change whose gain is known.
struct StatedFinding {
    what: String,
    change: Option<String>,
}

fn stated(finding: &Finding, conclusion: &Conclusion) -> StatedFinding {
    let phase = finding.phase_name().unwrap_or("run");
    let (what, change) = match conclusion {
        Conclusion::Cause { cause } => (causes::statement(cause), None),
        Conclusion::Serving { conclusion, .. } => (super::serving::title(conclusion), None),
        Conclusion::Idle { .. } => idle(phase, conclusion),
        Conclusion::HostGaps { gaps } => (host_gaps(gaps), None),
        Conclusion::Inefficiency {
            operators,
            share,
            roofline_fraction,
            binds,
            library: _,
        } => {
            let operators = spoken(operators);
            let share = Percent(*share);
            match binds {
                Some(resource) => (
                    format!(
                        "{phase}: {operators} take {share} of the time at {} of their {}",
                        Percent(*roofline_fraction),
                        limit(*resource)
                    ),
                    Some("reaching it".to_owned()),
                ),
                None => (
                    format!(
                        "{phase}: {operators} take {share} of the time and could be fused away"
                    ),
                    Some("removing them".to_owned()),
                ),
            }
        }
        Conclusion::GemmShapes {
            share,
            roofline_fraction,
            library: _,
        } => (
            format!(
                "{phase}: GEMMs with recorded shapes take {} of the time at {} of the roofline of their shapes",
                Percent(*share),
                Percent(*roofline_fraction)
            ),
            Some("reaching it".to_owned()),
        ),
        Conclusion::Extra { .. } => (extra(phase, conclusion), Some("removing them".to_owned())),
        Conclusion::Copies { .. } => (copied(phase, conclusion), Some("removing them".to_owned())),
        Conclusion::Communication {
            exposed_share,
            waiting_share,
            rank,
            device: _,
            is_point_to_point,
        } => {
            let exchange = if *is_point_to_point {
                "send/receive"
            } else {
                "communication"
            };
            communication(phase, exchange, *exposed_share, *waiting_share, *rank)
        }
        Conclusion::Fusion { .. } => fusion(phase, conclusion),
        Conclusion::FasterFormat {
            share,
            dtype,
            peak_flops_per_s,
            faster_dtype,
            faster_peak_flops_per_s,
            is_native: _,
        } => (
            format!(
                "{phase}: weight GEMMs take {} of the time and run in {dtype} (peak {peak_flops_per_s}); the {faster_dtype} peak is \
                 {faster_peak_flops_per_s}, {} as high",
                Percent(*share),
                Times(faster_peak_flops_per_s.0 / peak_flops_per_s.0)
            ),
            Some(format!("running them in {faster_dtype}")),
        ),
        Conclusion::QuantizeWeights { weights } => (
            format!("{phase} is limited by reading {weights} weights"),
            Some("storing them in int8".to_owned()),
        ),
        Conclusion::WeightsOnChip {
            bytes_per_step,
            cache,
        } => {
            let cache = self::cache(cache);
            let what = format!(
                "{phase}: a step reads {bytes_per_step}, which {cache} can hold: DRAM bandwidth is not its limit, and results do not \
                 carry over to larger models"
            );
            (what, None)
        }
        Conclusion::KvLengths { waits, mean_ns } => (
            format!(
                "{phase}: attention waits {}, {mean_ns} on average, at KV cache lengths that had not run before",
                Count(*waits, "time")
            ),
            Some("removing these waits".to_owned()),
        ),
        Conclusion::FirstPass { .. } | Conclusion::FirstRange { .. } => {
            (first_use(phase, conclusion, factor(finding)), None)
        }
        Conclusion::Throttled { .. } => (throttled(phase, conclusion), None),
    };
    StatedFinding { what, change }
}

fn extra(phase: &str, conclusion: &Conclusion) -> String {
    let Conclusion::Extra {
        share,
        by_name,
        on_device,
        views_share,
    } = conclusion
    else {
        return String::new();
    };
    let by = match (by_name, on_device) {
        (true, true) => " (by kernel name)",
        (true, false) => " (by op name)",
        (false, _) => "",
    };
    let views = views_share.map_or_else(String::new, |views| {
        let views = Percent(views);
        format!(" ({views} in views and allocations, which touch no data)")
    });
    let share = Percent(*share);
    format!("{phase}: overhead ops{by} take {share} of the time{views}")
}

fn copied(phase: &str, conclusion: &Conclusion) -> String {
    let Conclusion::Copies {
        share,
        is_on_device,
        is_copy_bound,
        longest,
        others,
    } = conclusion
    else {
        return String::new();
    };
    let is_fill = |copies: &&CopyTime| copies.direction == CopyDirection::Memset;
    let what = match longest.as_ref().filter(is_fill) {
        Some(_) if others.is_empty() => "memsets",
        Some(_) => "memsets and copies",
        None => "copies and memsets",
    };
    let each: Vec<String> = longest.iter().chain(others).map(copies::rate).collect();
    let each = (!each.is_empty()).then(|| format!(" ({})", each.join("; ")));
    format!(
        "{phase}{}: exposed {what}{} take {} of the time{}",
        if *is_copy_bound { " is copy-bound" } else { "" },
        if *is_on_device { " on the GPU" } else { "" },
        Percent(*share),
        each.unwrap_or_default()
    )
}

fn throttled(phase: &str, conclusion: &Conclusion) -> String {
    let Conclusion::Throttled {
        gpu,
        share,
        reasons,
        clock_mhz,
    } = conclusion
    else {
        return String::new();
    };
    let why = match reasons.as_slice() {
        [] => String::new(),
        reasons => format!(" ({})", reasons.join(", ").replace('_', " ")),
    };
    let clock = clock_mhz.map(|clock| format!(", at {} MHz on average", format_significant(clock)));
    format!(
        "{phase}: GPU {gpu} ran below its clock for {} of the time{why}{}",
        Percent(*share),
        clock.unwrap_or_default()
    )
}

fn idle(phase: &str, conclusion: &Conclusion) -> (String, Option<String>) {
    let Conclusion::Idle {
        share,
        is_host_bound,
        on_device,
        first_use_share,
        queued_share,
        remedy: _,
        host_work,
    } = conclusion
    else {
        return (String::new(), None);
    };
    let bound = if *is_host_bound { " is host-bound" } else { "" };
    let what = if *on_device {
        format!("GPU idle {}", Percent(*share))
    } else {
        format!("no operator runs for {} of the time", Percent(*share))
    };
    if let Some(work) = host_work {
        let gaps = if work.gaps == 1 { "gap" } else { "gaps" };
        let what = format!(
            "{phase}{bound}: {what} of the time, {} in {} {gaps} while the host runs `{}`",
            Percent(work.share),
            work.gaps,
            work.operator
        );
        return (what, Some("removing that part".to_owned()));
    }
    let first = first_use_share.map(|first| {
        format!(
            "{} in first-use waits (a finding of their own)",
            Percent(first)
        )
    });
    let queued = queued_share.map(|queued| {
        format!(
            "{} with work queued that the GPU did not start (the trace does not show why)",
            Percent(queued)
        )
    });
    let apart: Vec<String> = first.into_iter().chain(queued).collect();
    if apart.is_empty() {
        let change = Some("removing it".to_owned());
        return (format!("{phase}{bound}: {what}"), change);
    }
    let rest = share - first_use_share.unwrap_or(0.0) - queued_share.unwrap_or(0.0);
    let of = if *on_device { " of the time" } else { "" };
    (
        format!("{phase}{bound}: {what}{of}, {}", apart.join(", ")),
        Some(format!("removing the other {}", Percent(rest))),
    )
}

/// How long no op runs, and the closest place that the trace shows.
fn host_gaps(gaps: &HostGaps) -> String {
    let place =
        |what: &str, named: &NamedTime| format!("{} {what} `{}`", named.time_ns, named.name);
    let function = gaps.function.as_ref().map(|named| place("in", named));
    let range = gaps.range.as_ref().map(|named| place("in range", named));
    let places: Vec<String> = function.into_iter().chain(range).collect();
    let places = if places.is_empty() {
        format!(
            "the longest, {}, between `{}` and `{}`",
            gaps.longest_ns, gaps.after, gaps.before
        )
    } else {
        places.join(", ")
    };
    format!(
        "no op runs for {} of the {} between the first and the last op ({}), in {} of 0.2 ms or more: {places}",
        gaps.time_ns,
        gaps.span_ns,
        Percent(gaps.share()),
        Count(gaps.gaps, "gap")
    )
}

fn communication(
    phase: &str,
    exchange: &str,
    exposed_share: f64,
    waiting_share: Option<f64>,
    rank: Option<(u64, u64)>,
) -> (String, Option<String>) {
    let exposed = Percent(exposed_share);
    let alone = match rank {
        Some((rank, ranks)) => format!(
            " (rank {rank} of {ranks}; it contains waiting for ranks that were not imported)"
        ),
        None if waiting_share.is_none() => {
            " (it contains waiting for other ranks, which this trace does not show)".to_owned()
        }
        None => String::new(),
    };
    let (what, change) = match waiting_share {
        Some(waiting) if is_waiting(waiting) => (
            format!(
                "; of all exposed communication of this rank {} is waiting for slower ranks",
                Percent(waiting)
            ),
            "balancing the ranks and overlapping the rest",
        ),
        _ => (alone, "overlapping it"),
    };
    (
        format!("{phase}: exposed {exchange} takes {exposed} of the time{what}"),
        Some(change.to_owned()),
    )
}

fn fusion(phase: &str, conclusion: &Conclusion) -> (String, Option<String>) {
    let Conclusion::Fusion {
        kernels,
        of_kernels,
        per_step,
        mean_ns,
        fused_share,
        share,
        with_gaps,
    } = conclusion
    else {
        return (String::new(), None);
    };
    let each = if *per_step { " per step" } else { "" };
    let (already, change) = match fused_share {
        Some(fused) => (
            format!(", {} already fused by a compiler", Percent(*fused)),
            "fusing them further",
        ),
        None => (String::new(), "fusing them"),
    };
    let gaps = if *with_gaps {
        "with the gaps after them they"
    } else {
        "they"
    };
    let what = format!(
        "{phase}: {kernels} of {of_kernels} kernels{each} are norms, elementwise ops and copies ({mean_ns} on average{already}); {gaps} take {} of the time (not overlapped)",
        Percent(*share)
    );
    (what, Some(change.to_owned()))
}

fn first_use(phase: &str, conclusion: &Conclusion, factor: f64) -> String {
    match conclusion {
        Conclusion::FirstPass {
            first_ns,
            extra_step_ns,
            has_kv_cache,
        } => {
            let of = if *has_kv_cache {
                "KV cache"
            } else {
                "sequence"
            };
            let lengths = extra_step_ns.map(|extra| {
                format!(
                    ", and its median step {extra} longer: each new {of} length costs that once"
                )
            });
            format!(
                "the first pass took {first_ns}, later ones {}{}",
                later_than(*first_ns, factor),
                lengths.unwrap_or_default()
            )
        }
        Conclusion::FirstRange {
            first_ns,
            attention_wait_ns,
            lengths,
        } => {
            let waits = attention_wait_ns.map(|time| {
                format!(
                    "; {time} of it are waits before attention kernels of {} of the KV cache",
                    Count(*lengths, "new length")
                )
            });
            format!(
                "the first {phase} took {first_ns}, later ones {}{}",
                later_than(*first_ns, factor),
                waits.unwrap_or_default()
            )
        }
        _ => String::new(),
    }
}

/// What the later passes took, whose ratio to the first is the factor.
fn later_than(first: Nanos, factor: f64) -> Nanos {
    Nanos((first.0 as f64 / factor).round() as i64)
}

/// What a finding that abstains is about, by its code.
fn topic(code: &str) -> &str {
    match code {
        "idle" => "the cost of GPU idle time",
        "inefficiency" => "kernel inefficiency",
        "extra" => "overhead ops",
        "quantize_weights" => "8-bit weights",
        "batching" => "larger batches",
        other => other,
    }
}

/// Why there is no conclusion.
pub(crate) fn abstention(why: &Abstention) -> String {
    match why {
        Abstention::NoPhases => {
            "no range divides the trace, so the time includes the program's start and end; NVTX ranges name phases".to_owned()
        }
        Abstention::HardlyUsed => {
            "the GPU is hardly used in this phase, which is work of the host or of another GPU".to_owned()
        }
        Abstention::QueuedIdle {
            share,
            queued_share,
        } => format!(
            "GPU idle {} of the time, {} with work queued that the GPU did not start: the trace does not show why",
            Percent(*share),
            Percent(*queued_share)
        ),
        Abstention::UnknownIdle { share } => format!(
            "GPU idle {} of the time; the trace does not show what the GPU waits for",
            Percent(*share)
        ),
        Abstention::ClocksDisagree { share } => format!(
            "GPU idle {} of the time; host and device clocks disagree, so the trace does not show what the GPU waits for",
            Percent(*share)
        ),
        Abstention::NoModel => "no model named".to_owned(),
        Abstention::NothingCounted => {
            "the trace and what was stated do not tell what the model did (see the issues)".to_owned()
        }
        Abstention::NoDevice => "no device named, so its peaks are unknown".to_owned(),
        Abstention::UnknownPhase => {
            "the phase is neither prefill nor decode by name, so its operators are unknown; name its range `prefill` or `decode`".to_owned()
        }
        Abstention::Unmatched { why } => unmatched::reason(*why).to_owned(),
        Abstention::UnknownLimit { why } => format!(
            "not shown to be memory-bound ({})",
            bottleneck::reason(None, why)
        ),
        Abstention::FarFromRoofline { fraction } => format!(
            "GEMMs of linear layers run at {} of roofline: fewer bytes alone may change nothing",
            Percent(*fraction)
        ),
        Abstention::NotCounted => "the theoretical cost of this change on the device is unknown".to_owned(),
        Abstention::ClientTooSlow => {
            "No conclusion about the server: the client did not keep up, so its latencies are not the server's.".to_owned()
        }
        Abstention::NoCompleteStream => {
            "No conclusion about the server: no request streamed to its end.".to_owned()
        }
    }
}

/// What roofline time is set by. A class (`memory-bound`) would say that operators reach it.
fn limit(resource: Resource) -> &'static str {
    match resource {
        Resource::Tensor => "compute roofline",
        Resource::Vector => "roofline (FP32 pipe)",
        Resource::Memory => "memory roofline",
        Resource::Launch => "roofline (launches)",
        Resource::Host => "roofline (host)",
    }
}

pub(crate) fn cache(cache: &str) -> String {
    match cache {
        "caches" => "the caches together".to_owned(),
        name => format!("the {} cache", name.to_uppercase()),
    }
}

/// What to call a group of operators.
fn spoken(operators: &str) -> String {
    match operators {
        "gemm" => "GEMMs".to_owned(),
        "linear" => "GEMMs of linear layers".to_owned(),
        name => format!("{name} operators"),
    }
}

#[cfg(test)]
mod tests {
    use llmprof_analysis::matching::UnmatchedReason;

    use super::*;

    #[test]
    fn time_without_an_op_has_its_place() {
        let named = |name: &str| NamedTime {
            name: name.to_owned(),
            time_ns: Nanos(274_000_000),
            count: 10,
        };
        let mut gaps = HostGaps {
            span_ns: Nanos(345_000_000),
            time_ns: Nanos(280_000_000),
            gaps: 10,
            longest_ns: Nanos(31_000_000),
            after: "aten::linear".to_owned(),
            before: "aten::mm".to_owned(),
            function: Some(named("app.py(7): fetch")),
            range: None,
        };
        assert_eq!(
            host_gaps(&gaps),
            "no op runs for 280 ms of the 345 ms between the first and the last op (81.2 %), in 10 gaps of 0.2 ms or more: \
             274 ms in `app.py(7): fetch`"
        );
        gaps.function = None;
        let text = host_gaps(&gaps);
        assert!(
            text.ends_with("the longest, 31 ms, between `aten::linear` and `aten::mm`"),
            "{text}"
        );
    }

    #[test]
    fn every_code_that_abstains_has_a_topic() {
        for code in [
            "idle",
            "inefficiency",
            "extra",
            "quantize_weights",
            "batching",
        ] {
            assert_ne!(topic(code), code);
        }
    }

    #[test]
    fn every_reason_is_worded_once() {
        let mut texts: Vec<&str> = UnmatchedReason::ALL.map(unmatched::reason).to_vec();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), UnmatchedReason::ALL.len());
        for reason in UnmatchedReason::ALL {
            assert_eq!(
                unmatched::of_code(reason.code()),
                Some(unmatched::reason(reason))
            );
            let json = serde_json::to_value(reason).unwrap();
            assert_eq!(json, reason.code());
        }
    }
}
