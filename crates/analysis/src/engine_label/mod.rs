//! What serving engines write into the names of their step ranges.
//!
//! A label is read as a whole: a name that deviates from its engine's format, or contradicts itself, is not a label.
//!
//! | engine | format |
//! |---|---|
//! | vLLM | `execute_context_N(tok)_generation_M(tok)`, also with squares: `N(tok_sq)`; detailed `execute_T_context_N(sq…sk…sqsq…sqsk…)_generation_M(…)`; until 0.12 `execute_new_N_cached_M` |
//! | SGLang | `step[MODE bs=… toks=…]`, with `c_sq= c_sk= c_sqsq= c_sqsk=` (prefill) and `g_…` (decode) where detailed |
//! | TensorRT-LLM | `[Executor] _forward_step N: C ctx reqs, G gen reqs`, older ones without `N`, newer ones with `, K ctx tokens` |
//! | llmprof | `llmprof.step PHASE batch=… new=… cached=…`, a list each |
//! | PyTorch | `ProfilerStep#N` |

mod fields;
mod sglang;

use llmprof_theory::{Part, SequenceSums, Sequences, Step};
use serde::{Deserialize, Serialize};

use fields::LabelScanner;

/// The engine or tool that wrote a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LabelEngine {
    /// vLLM, and engines that took over its format.
    Vllm,
    Sglang,
    /// The PyTorch backend of TensorRT-LLM.
    TensorRtLlm,
    /// `step(…)` of the Python package.
    Llmprof,
    /// `torch.profiler` with a schedule: a step of any program.
    ProfilerStep,
}

/// What the sequences of a step do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StepKind {
    /// All sequences are in prefill.
    Prefill,
    /// All sequences are in decode.
    Decode,
    /// Some are in prefill, some decode.
    Mixed,
    /// The step has no sequences.
    Idle,
    /// The label does not tell, or the step is not one of the model's (a draft model's).
    Unknown,
}

/// How much a label tells of a step's sequences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StepShape {
    pub sequences: u64,
    /// Those in prefill, where the label tells them apart.
    pub prefill_sequences: Option<u64>,
    /// New tokens of all sequences.
    pub new_tokens: Option<u64>,
    /// What theory can cost: present where new tokens of both sides are known.
    pub step: Option<Step>,
}

/// What the label of an engine's step says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EngineLabel {
    pub engine: LabelEngine,
    /// The sequences, where it tells of them.
    pub step: Option<StepShape>,
    pub kind: StepKind,
    /// The step's number, where it has one.
    pub number: Option<u64>,
}

impl EngineLabel {
    /// Parses the name of a range; `None` if it is not an engine's label.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        // The first byte decides, so that the names of a million ranges cost nothing.
        match name.as_bytes().first()? {
            b'e' => parse_vllm(name),
            b's' => sglang::parse_sglang(name),
            b'[' => parse_tensorrt_llm(name),
            b'l' => parse_llmprof(name),
            b'P' => {
                let mut scanner = LabelScanner::after_prefix(name, "ProfilerStep#")?;
                let number = scanner.read_number()?;
                scanner.is_at_end().then_some(Self {
                    engine: LabelEngine::ProfilerStep,
                    step: None,
                    kind: StepKind::Unknown,
                    number: Some(number),
                })
            }
            _ => None,
        }
    }

    fn of_parts(engine: LabelEngine, prefill: Part, decode: Part) -> Option<Self> {
        let step = Step {
            prefill,
            decode,
            logits: None,
        };
        step.validate().ok()?;
        Some(Self {
            engine,
            kind: StepKind::of_counts(step.prefill.sequences(), step.decode.sequences()),
            step: Some(StepShape {
                sequences: step.sequences(),
                prefill_sequences: Some(step.prefill.sequences()),
                new_tokens: Some(step.new_tokens()),
                step: Some(step),
            }),
            number: None,
        })
    }
}

impl StepKind {
    fn of_counts(prefill: u64, decode: u64) -> Self {
        match (prefill, decode) {
            (0, 0) => Self::Idle,
            (_, 0) => Self::Prefill,
            (0, _) => Self::Decode,
            _ => Self::Mixed,
        }
    }
}

fn parse_vllm(name: &str) -> Option<EngineLabel> {
    let mut scanner = LabelScanner::after_prefix(name, "execute_")?;
    if scanner.skip_word("new_") {
        return parse_new_and_cached(scanner);
    }
    let (prefill, decode) = if scanner.skip_word("context_") {
        let prefill = parse_counts(&mut scanner)?;
        scanner.expect_word("_generation_")?;
        (prefill, parse_counts(&mut scanner)?)
    } else {
        let tokens = scanner.read_number()?;
        scanner.expect_word("_context_")?;
        let prefill = parse_vllm_sums(&mut scanner)?;
        scanner.expect_word("_generation_")?;
        let decode = parse_vllm_sums(&mut scanner)?;
        if prefill.new.checked_add(decode.new)? != tokens {
            return None;
        }
        (Part::Sums(prefill), Part::Sums(decode))
    };
    if !scanner.is_at_end() {
        return None;
    }
    EngineLabel::of_parts(LabelEngine::Vllm, prefill, decode)
}

/// `N_cached_M`: requests that are scheduled for the first time, and those that were before. The latter decode, but for a long
/// prompt that goes on in its next chunk, which the label does not tell.
fn parse_new_and_cached(mut scanner: LabelScanner<'_>) -> Option<EngineLabel> {
    let new = scanner.read_number()?;
    scanner.expect_word("_cached_")?;
    let cached = scanner.read_number()?;
    scanner.is_at_end().then_some(())?;
    Some(EngineLabel {
        engine: LabelEngine::Vllm,
        kind: StepKind::of_counts(new, cached),
        step: Some(StepShape {
            sequences: new.checked_add(cached)?,
            prefill_sequences: Some(new),
            new_tokens: None,
            step: None,
        }),
        number: None,
    })
}

/// `N(tok)`, or `N(tok_sq)` with the sum of the squares of the sequences' new tokens.
fn parse_counts(scanner: &mut LabelScanner<'_>) -> Option<Part> {
    let sequences = scanner.read_number()?;
    scanner.expect_word("(")?;
    let new = scanner.read_number()?;
    if scanner.skip_word("_") {
        let squares = u128::from(scanner.read_number()?);
        let all = u128::from(new) * u128::from(new);
        // Between N equal sequences and one that has nearly all tokens.
        if squares > all || squares * u128::from(sequences) < all {
            return None;
        }
    }
    scanner.expect_word(")")?;
    Some(Part::Counts { sequences, new })
}

/// `N(sq…sk…sqsq…sqsk…)`.
fn parse_vllm_sums(scanner: &mut LabelScanner<'_>) -> Option<SequenceSums> {
    let sequences = scanner.read_number()?;
    let mut next = |word: &str| {
        scanner.expect_word(word)?;
        scanner.read_number()
    };
    let sums = SequenceSums {
        sequences,
        new: next("(sq")?,
        total: next("sk")?,
        new_squared: next("sqsq")?,
        new_total: next("sqsk")?,
    };
    scanner.expect_word(")")?;
    Some(sums)
}

fn parse_tensorrt_llm(name: &str) -> Option<EngineLabel> {
    let mut scanner = LabelScanner::after_prefix(name, "[Executor] _forward_step")?;
    let number = if scanner.skip_word(" ") {
        Some(scanner.read_number()?)
    } else {
        None
    };
    scanner.expect_word(": ")?;
    let prefill = scanner.read_number()?;
    scanner.expect_word(" ctx reqs, ")?;
    let mut decode = scanner.read_number()?;
    let mut tokens = (prefill == 0).then_some(0);
    if scanner.skip_word(" ctx tokens, ") {
        tokens = Some(decode);
        decode = scanner.read_number()?;
    }
    scanner.expect_word(" gen reqs")?;
    if !scanner.is_at_end() {
        return None;
    }
    // One token of each that decodes, unless drafts are verified, which the label does not tell.
    let generation = Part::Counts {
        sequences: decode,
        new: decode,
    };
    let label = match tokens {
        Some(new) => {
            let context = Part::Counts {
                sequences: prefill,
                new,
            };
            EngineLabel::of_parts(LabelEngine::TensorRtLlm, context, generation)?
        }
        None => EngineLabel {
            engine: LabelEngine::TensorRtLlm,
            kind: StepKind::of_counts(prefill, decode),
            step: Some(StepShape {
                sequences: prefill.checked_add(decode)?,
                prefill_sequences: Some(prefill),
                new_tokens: None,
                step: None,
            }),
            number: None,
        },
    };
    Some(EngineLabel { number, ..label })
}

fn parse_llmprof(name: &str) -> Option<EngineLabel> {
    let mut scanner = LabelScanner::after_prefix(name, "llmprof.step ")?;
    let kind = if scanner.skip_word("prefill") {
        StepKind::Prefill
    } else if scanner.skip_word("decode") {
        StepKind::Decode
    } else {
        scanner.expect_word("mixed")?;
        StepKind::Mixed
    };
    let mut list = |key: &str| {
        scanner.expect_word(key)?;
        scanner.read_numbers()
    };
    let (count, new, cached) = (list(" batch=")?, list(" new=")?, list(" cached=")?);
    if !scanner.is_at_end() || count.len() != new.len() || count.len() != cached.len() {
        return None;
    }
    let groups = (0..count.len()).map(|i| Sequences {
        count: count[i],
        new: new[i],
        cached: cached[i],
    });
    let step = match kind {
        StepKind::Prefill => Step::all_prefill(Part::Groups(groups.collect())),
        StepKind::Decode => Step::all_decode(Part::Groups(groups.collect())),
        _ => Step::of_sequences(groups),
    };
    let label = EngineLabel::of_parts(LabelEngine::Llmprof, step.prefill, step.decode)?;
    Some(EngineLabel { kind, ..label })
}

#[cfg(test)]
mod tests;
