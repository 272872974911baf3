//! `step[MODE bs=… …]` of SGLang, by its forward modes.

use llmprof_theory::{Part, SequenceSums};

use super::{Engine, EngineLabel, StepKind, StepShape, fields::Scanner};

/// Numbers of a label, by key; each key stands at most once.
#[derive(Default)]
struct Fields {
    bs: Option<u64>,
    toks: Option<u64>,
    c: Option<u64>,
    g: Option<u64>,
    prefill: SumFields,
    decode: SumFields,
}

#[derive(Default)]
struct SumFields {
    sq: Option<u64>,
    sk: Option<u64>,
    sqsq: Option<u64>,
    sqsk: Option<u64>,
}

impl SumFields {
    fn slot(&mut self, key: &str) -> Option<&mut Option<u64>> {
        Some(match key {
            "sq" => &mut self.sq,
            "sk" => &mut self.sk,
            "sqsq" => &mut self.sqsq,
            "sqsk" => &mut self.sqsk,
            _ => return None,
        })
    }

    fn is_empty(&self) -> bool {
        self.sq.is_none() && self.sk.is_none() && self.sqsq.is_none() && self.sqsk.is_none()
    }

    /// The sums of `sequences`; `new` where the label leaves `sq` out, as its first version did.
    fn sums(&self, sequences: u64, new: Option<u64>) -> Option<SequenceSums> {
        Some(SequenceSums {
            sequences,
            new: self.sq.or(new)?,
            total: self.sk?,
            new_squared: self.sqsq?,
            new_total: self.sqsk?,
        })
    }
}

impl Fields {
    fn read(scanner: &mut Scanner<'_>) -> Option<Self> {
        let mut fields = Self::default();
        while scanner.take(" ") {
            let key = scanner.word();
            scanner.expect("=")?;
            let slot = match key {
                "bs" => &mut fields.bs,
                "toks" => &mut fields.toks,
                "c" => &mut fields.c,
                "g" => &mut fields.g,
                _ => match key.split_once('_')? {
                    ("c", key) => fields.prefill.slot(key)?,
                    ("g", key) => fields.decode.slot(key)?,
                    _ => return None,
                },
            };
            if slot.replace(scanner.number()?).is_some() {
                return None;
            }
        }
        scanner.expect("]")?;
        scanner.end().then_some(fields)
    }
}

pub(super) fn parse(name: &str) -> Option<EngineLabel> {
    let mut scanner = Scanner::after(name, "step[")?;
    let mode = scanner.word();
    let fields = Fields::read(&mut scanner)?;
    let sequences = fields.bs?;
    let split = fields.c.is_some() || fields.g.is_some();
    let detailed = !(fields.prefill.is_empty() && fields.decode.is_empty());
    if (mode != "EXTEND" && fields.toks.is_some()) || (mode != "MIXED" && split) {
        return None;
    }
    match mode {
        "EXTEND" if fields.decode.is_empty() => extend(sequences, &fields),
        "DECODE" if fields.prefill.is_empty() => decode(sequences, &fields),
        "MIXED" => mixed(sequences, &fields),
        "IDLE" if !detailed && sequences == 0 => {
            EngineLabel::of_parts(Engine::Sglang, Part::default(), Part::default())
        }
        // The model over the drafts of each sequence: a tree of tokens, whose keys the label does not tell.
        "TARGET_VERIFY" if fields.prefill.is_empty() => {
            let new = fields.decode.sq;
            if new.is_some_and(|new| new < sequences) {
                return None;
            }
            Some(only(sequences, Some(0), new, StepKind::Decode))
        }
        // A few layers at a time.
        "SPLIT_PREFILL" if !detailed => {
            Some(only(sequences, Some(sequences), None, StepKind::Prefill))
        }
        // The draft model, a diffusion model, or no forward pass at all.
        "DRAFT_EXTEND" | "DRAFT_EXTEND_V2" | "DLLM_EXTEND" | "PREBUILT" | "DUMMY_FIRST" => {
            Some(EngineLabel {
                engine: Engine::Sglang,
                step: None,
                kind: StepKind::Unknown,
                number: None,
            })
        }
        _ => None,
    }
}

fn extend(sequences: u64, fields: &Fields) -> Option<EngineLabel> {
    let new = fields.toks?;
    let prefill = if fields.prefill.is_empty() {
        Part::Counts { sequences, new }
    } else {
        let sums = fields.prefill.sums(sequences, Some(new))?;
        if sums.new != new {
            return None;
        }
        Part::Sums(sums)
    };
    EngineLabel::of_parts(Engine::Sglang, prefill, Part::default())
}

fn decode(sequences: u64, fields: &Fields) -> Option<EngineLabel> {
    if fields.decode.is_empty() {
        // One token each, unless drafts are decoded, which only details tell.
        let part = Part::Counts {
            sequences,
            new: sequences,
        };
        return EngineLabel::of_parts(Engine::Sglang, Part::default(), part);
    }
    let sums = fields.decode.sums(sequences, fields.decode.sqsq)?;
    if sums.new != sequences {
        // Drafts of several tokens a sequence: a tree, whose keys the sums do not tell.
        return (sums.new > sequences)
            .then(|| only(sequences, Some(0), Some(sums.new), StepKind::Decode));
    }
    EngineLabel::of_parts(Engine::Sglang, Part::default(), Part::Sums(sums))
}

/// The engine counts every sequence with one new token among those that decode, the last token of a prompt too.
fn mixed(sequences: u64, fields: &Fields) -> Option<EngineLabel> {
    let (Some(prefill), Some(decode)) = (fields.c, fields.g) else {
        let plain = fields.c.is_none()
            && fields.g.is_none()
            && fields.prefill.is_empty()
            && fields.decode.is_empty();
        return plain.then(|| only(sequences, None, None, StepKind::Mixed));
    };
    if prefill.checked_add(decode)? != sequences {
        return None;
    }
    EngineLabel::of_parts(
        Engine::Sglang,
        Part::Sums(fields.prefill.sums(prefill, None)?),
        Part::Sums(fields.decode.sums(decode, None)?),
    )
}

/// A label that tells of sequences, but not enough to cost them.
fn only(
    sequences: u64,
    prefill_sequences: Option<u64>,
    new_tokens: Option<u64>,
    kind: StepKind,
) -> EngineLabel {
    EngineLabel {
        engine: Engine::Sglang,
        step: Some(StepShape {
            sequences,
            prefill_sequences,
            new_tokens,
            step: None,
        }),
        kind,
        number: None,
    }
}
