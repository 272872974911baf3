//! `step[MODE bs=… …]` of SGLang, by its forward modes.

use llmprof_theory::{Part, SequenceSums};

use super::{EngineLabel, LabelEngine, StepKind, StepShape, fields::LabelScanner};

/// Numbers of a label, by key; each key stands at most once.
#[derive(Default)]
struct LabelFields {
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
    fn sums_of(&self, sequences: u64, new: Option<u64>) -> Option<SequenceSums> {
        Some(SequenceSums {
            sequences,
            new: self.sq.or(new)?,
            total: self.sk?,
            new_squared: self.sqsq?,
            new_total: self.sqsk?,
        })
    }
}

impl LabelFields {
    fn from_scanner(scanner: &mut LabelScanner<'_>) -> Option<Self> {
        let mut fields = Self::default();
        while scanner.skip_word(" ") {
            let key = scanner.read_word();
            scanner.expect_word("=")?;
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
            if slot.replace(scanner.read_number()?).is_some() {
                return None;
            }
        }
        scanner.expect_word("]")?;
        scanner.is_at_end().then_some(fields)
    }
}

/// A label whose numbers are of another version, or contradict each other, still says what its step does: what another label says of
/// its step is not true of the time of this one.
pub(super) fn parse_sglang(name: &str) -> Option<EngineLabel> {
    parse_numbers(name).or_else(|| {
        let (mode, numbers) = name
            .strip_prefix("step[")?
            .strip_suffix(']')?
            .split_once(' ')?;
        let is_number = |number: &str| {
            let value = number.split_once('=').map(|(_, value)| value.as_bytes());
            value.is_some_and(|value| !value.is_empty() && value.iter().all(u8::is_ascii_digit))
        };
        let is_label = numbers.starts_with("bs=") && numbers.split(' ').all(is_number);
        let kind = match mode {
            "EXTEND" | "SPLIT_PREFILL" => StepKind::Prefill,
            "DECODE" | "TARGET_VERIFY" => StepKind::Decode,
            "MIXED" => StepKind::Mixed,
            _ => return None,
        };
        is_label.then_some(EngineLabel {
            engine: LabelEngine::Sglang,
            step: None,
            kind,
            number: None,
        })
    })
}

fn parse_numbers(name: &str) -> Option<EngineLabel> {
    let mut scanner = LabelScanner::after_prefix(name, "step[")?;
    let mode = scanner.read_word();
    let fields = LabelFields::from_scanner(&mut scanner)?;
    let sequences = fields.bs?;
    let split = fields.c.is_some() || fields.g.is_some();
    let detailed = !(fields.prefill.is_empty() && fields.decode.is_empty());
    if (mode != "EXTEND" && fields.toks.is_some()) || (mode != "MIXED" && split) {
        return None;
    }
    match mode {
        "EXTEND" if fields.decode.is_empty() => extend_label(sequences, &fields),
        "DECODE" if fields.prefill.is_empty() => decode_label(sequences, &fields),
        "MIXED" => mixed_label(sequences, &fields),
        "IDLE" if !detailed && sequences == 0 => {
            EngineLabel::of_parts(LabelEngine::Sglang, Part::default(), Part::default())
        }
        // The model over the drafts of each sequence: a tree of tokens, whose keys the label does not tell.
        "TARGET_VERIFY" if fields.prefill.is_empty() => {
            let new = fields.decode.sq;
            if new.is_some_and(|new| new < sequences) {
                return None;
            }
            Some(label_without_cost(
                sequences,
                Some(0),
                new,
                StepKind::Decode,
            ))
        }
        // A few layers at a time.
        "SPLIT_PREFILL" if !detailed => Some(label_without_cost(
            sequences,
            Some(sequences),
            None,
            StepKind::Prefill,
        )),
        // The draft model, a diffusion model, or no forward pass at all.
        "DRAFT_EXTEND" | "DRAFT_EXTEND_V2" | "DLLM_EXTEND" | "PREBUILT" | "DUMMY_FIRST" => {
            Some(EngineLabel {
                engine: LabelEngine::Sglang,
                step: None,
                kind: StepKind::Unknown,
                number: None,
            })
        }
        _ => None,
    }
}

fn extend_label(sequences: u64, fields: &LabelFields) -> Option<EngineLabel> {
    let new = fields.toks?;
    let prefill = if fields.prefill.is_empty() {
        Part::Counts { sequences, new }
    } else {
        let sums = fields.prefill.sums_of(sequences, Some(new))?;
        if sums.new != new {
            return None;
        }
        Part::Sums(sums)
    };
    EngineLabel::of_parts(LabelEngine::Sglang, prefill, Part::default())
}

fn decode_label(sequences: u64, fields: &LabelFields) -> Option<EngineLabel> {
    if fields.decode.is_empty() {
        // One token each, unless drafts are decoded, which only details tell.
        let part = Part::Counts {
            sequences,
            new: sequences,
        };
        return EngineLabel::of_parts(LabelEngine::Sglang, Part::default(), part);
    }
    let sums = fields.decode.sums_of(sequences, fields.decode.sqsq)?;
    if sums.new != sequences {
        // Drafts of several tokens a sequence: a tree, whose keys the sums do not tell.
        return (sums.new > sequences)
            .then(|| label_without_cost(sequences, Some(0), Some(sums.new), StepKind::Decode));
    }
    EngineLabel::of_parts(LabelEngine::Sglang, Part::default(), Part::Sums(sums))
}

/// The engine counts every sequence with one new token among those that decode, the last token of a prompt too.
fn mixed_label(sequences: u64, fields: &LabelFields) -> Option<EngineLabel> {
    let (Some(prefill), Some(decode)) = (fields.c, fields.g) else {
        let plain = fields.c.is_none()
            && fields.g.is_none()
            && fields.prefill.is_empty()
            && fields.decode.is_empty();
        return plain.then(|| label_without_cost(sequences, None, None, StepKind::Mixed));
    };
    if prefill.checked_add(decode)? != sequences {
        return None;
    }
    EngineLabel::of_parts(
        LabelEngine::Sglang,
        Part::Sums(fields.prefill.sums_of(prefill, None)?),
        Part::Sums(fields.decode.sums_of(decode, None)?),
    )
}

/// A label that tells of sequences, but not enough to cost them.
fn label_without_cost(
    sequences: u64,
    prefill_sequences: Option<u64>,
    new_tokens: Option<u64>,
    kind: StepKind,
) -> EngineLabel {
    EngineLabel {
        engine: LabelEngine::Sglang,
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
