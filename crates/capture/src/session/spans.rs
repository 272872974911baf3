//! The phases that a worker reports, as a run records them.

use llmprof_record::run::{PassShape, PhaseSpan, RunPhase};

use crate::runner::protocol::Generated;

/// The phases of a batch, each with what the decoder did in it. A phase that occurs several times in a batch is what the
/// workload says.
pub(super) fn phase_spans(answer: &Generated) -> Vec<PhaseSpan> {
    let batch = answer.requests.len() as u64;
    let prompts = answer.requests.iter();
    let prompt = prompts
        .map(|one| one.decoder_prompt_tokens.unwrap_or(one.prompt_tokens))
        .max();
    let tokens = answer.requests.iter().map(|one| one.output_tokens.len());
    let steps = (tokens.max().unwrap_or(0) as u64).saturating_sub(1);
    let once = |name: &str| {
        let phases = answer.phases.iter();
        phases.filter(|span| span.phase == name).count() == 1
    };
    answer
        .phases
        .iter()
        .filter_map(|span| {
            let (phase, shape) = match span.phase.as_str() {
                "prefill" => (RunPhase::Prefill, prompt.map(|prompt| (prompt, 0, 1))),
                "decode" => (RunPhase::Decode, prompt.map(|prompt| (1, prompt, steps))),
                "vision" => (RunPhase::Vision, None),
                "encoder" => (RunPhase::Encoder, None),
                "mixed" => (RunPhase::Mixed, None),
                _ => return None,
            };
            let shape = shape.filter(|_| once(&span.phase));
            let passes = shape.map(|(queries, past, steps)| PassShape {
                batch,
                queries,
                past,
                steps,
                logits: 1,
            });
            Some(PhaseSpan {
                phase,
                start_ns: span.start_ns,
                end_ns: span.end_ns,
                passes: passes.into_iter().collect(),
            })
        })
        .collect()
}
