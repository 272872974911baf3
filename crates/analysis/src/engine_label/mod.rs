//! What serving engines write into the names of their step ranges.
//!
//! A label is read as a whole: what deviates from its engine's format, or contradicts itself, is no label.
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

use fields::Scanner;

/// Who wrote a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Engine {
    /// vLLM, and engines that took over its format.
    Vllm,
    /// SGLang.
    Sglang,
    /// The PyTorch backend of TensorRT-LLM.
    TensorRtLlm,
    /// `step(…)` of the Python package.
    Llmprof,
    /// `torch.profiler` with a schedule: a step of whatever the program does.
    ProfilerStep,
}

/// What the sequences of a step do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StepKind {
    /// All are in prefill.
    Prefill,
    /// All decode.
    Decode,
    /// Some are in prefill, some decode.
    Mixed,
    /// There are none.
    Idle,
    /// The label does not tell, or the step is not one of the model's (a draft model's).
    Unknown,
}

/// How much a label tells of a step's sequences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StepShape {
    /// Sequences of the step.
    pub sequences: u64,
    /// Those in prefill, where the label tells them apart.
    pub prefill_sequences: Option<u64>,
    /// New tokens of all sequences.
    pub new_tokens: Option<u64>,
    /// What theory can cost: present where new tokens of both sides are known.
    pub step: Option<Step>,
}

/// A label, read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EngineLabel {
    /// Who wrote it.
    pub engine: Engine,
    /// The sequences, where it tells of them.
    pub step: Option<StepShape>,
    /// What they do.
    pub kind: StepKind,
    /// The step's number, where it has one.
    pub number: Option<u64>,
}

impl EngineLabel {
    /// Reads the name of a range; `None` where it is no engine's label.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        // The first byte decides, so that the names of a million ranges cost nothing.
        match name.as_bytes().first()? {
            b'e' => vllm(name),
            b's' => sglang::parse(name),
            b'[' => tensorrt_llm(name),
            b'l' => llmprof(name),
            b'P' => {
                let mut scanner = Scanner::after(name, "ProfilerStep#")?;
                let number = scanner.number()?;
                scanner.end().then_some(Self {
                    engine: Engine::ProfilerStep,
                    step: None,
                    kind: StepKind::Unknown,
                    number: Some(number),
                })
            }
            _ => None,
        }
    }

    fn of_parts(engine: Engine, prefill: Part, decode: Part) -> Option<Self> {
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

fn vllm(name: &str) -> Option<EngineLabel> {
    let mut scanner = Scanner::after(name, "execute_")?;
    if scanner.take("new_") {
        return new_and_cached(scanner);
    }
    let (prefill, decode) = if scanner.take("context_") {
        let prefill = counts(&mut scanner)?;
        scanner.expect("_generation_")?;
        (prefill, counts(&mut scanner)?)
    } else {
        let tokens = scanner.number()?;
        scanner.expect("_context_")?;
        let prefill = vllm_sums(&mut scanner)?;
        scanner.expect("_generation_")?;
        let decode = vllm_sums(&mut scanner)?;
        if prefill.new.checked_add(decode.new)? != tokens {
            return None;
        }
        (Part::Sums(prefill), Part::Sums(decode))
    };
    if !scanner.end() {
        return None;
    }
    EngineLabel::of_parts(Engine::Vllm, prefill, decode)
}

/// `N_cached_M`: requests that are scheduled for the first time, and those that were before. The latter decode, but for a long
/// prompt that goes on in its next chunk, which the label does not tell.
fn new_and_cached(mut scanner: Scanner<'_>) -> Option<EngineLabel> {
    let new = scanner.number()?;
    scanner.expect("_cached_")?;
    let cached = scanner.number()?;
    scanner.end().then_some(())?;
    Some(EngineLabel {
        engine: Engine::Vllm,
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
fn counts(scanner: &mut Scanner<'_>) -> Option<Part> {
    let sequences = scanner.number()?;
    scanner.expect("(")?;
    let new = scanner.number()?;
    if scanner.take("_") {
        let squares = u128::from(scanner.number()?);
        let all = u128::from(new) * u128::from(new);
        // Between N equal sequences and one that has nearly all tokens.
        if squares > all || squares * u128::from(sequences) < all {
            return None;
        }
    }
    scanner.expect(")")?;
    Some(Part::Counts { sequences, new })
}

/// `N(sq…sk…sqsq…sqsk…)`.
fn vllm_sums(scanner: &mut Scanner<'_>) -> Option<SequenceSums> {
    let sequences = scanner.number()?;
    let mut next = |word: &str| {
        scanner.expect(word)?;
        scanner.number()
    };
    let sums = SequenceSums {
        sequences,
        new: next("(sq")?,
        total: next("sk")?,
        new_squared: next("sqsq")?,
        new_total: next("sqsk")?,
    };
    scanner.expect(")")?;
    Some(sums)
}

fn tensorrt_llm(name: &str) -> Option<EngineLabel> {
    let mut scanner = Scanner::after(name, "[Executor] _forward_step")?;
    let number = if scanner.take(" ") {
        Some(scanner.number()?)
    } else {
        None
    };
    scanner.expect(": ")?;
    let prefill = scanner.number()?;
    scanner.expect(" ctx reqs, ")?;
    let mut decode = scanner.number()?;
    let mut tokens = (prefill == 0).then_some(0);
    if scanner.take(" ctx tokens, ") {
        tokens = Some(decode);
        decode = scanner.number()?;
    }
    scanner.expect(" gen reqs")?;
    if !scanner.end() {
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
            EngineLabel::of_parts(Engine::TensorRtLlm, context, generation)?
        }
        None => EngineLabel {
            engine: Engine::TensorRtLlm,
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

fn llmprof(name: &str) -> Option<EngineLabel> {
    let mut scanner = Scanner::after(name, "llmprof.step ")?;
    let kind = if scanner.take("prefill") {
        StepKind::Prefill
    } else if scanner.take("decode") {
        StepKind::Decode
    } else {
        scanner.expect("mixed")?;
        StepKind::Mixed
    };
    let mut list = |key: &str| {
        scanner.expect(key)?;
        scanner.numbers()
    };
    let (count, new, cached) = (list(" batch=")?, list(" new=")?, list(" cached=")?);
    if !scanner.end() || count.len() != new.len() || count.len() != cached.len() {
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
    let label = EngineLabel::of_parts(Engine::Llmprof, step.prefill, step.decode)?;
    Some(EngineLabel { kind, ..label })
}

#[cfg(test)]
mod tests;
