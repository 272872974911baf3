//! Engine steps of a server's trace: when each ran, and what was in its batch.

use std::{
    fmt,
    fs::File,
    io::{BufReader, Read},
    path::Path,
};

use flate2::read::MultiGzDecoder;
use llmprof_units::Nanos;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

/// A part of a batch: sequences, and sums over them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchPart {
    /// Sequences.
    pub sequences: u64,
    /// New tokens.
    pub tokens: u64,
    /// Tokens they attend to, where the label says so.
    pub context: Option<u64>,
}

/// One step of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Since 1970.
    pub start_unix_ns: Nanos,
    pub end_unix_ns: Nanos,
    /// Sequences in prefill.
    pub prefill: BatchPart,
    /// Sequences in decode.
    pub decode: BatchPart,
}

/// Why a trace has no steps.
#[derive(Debug, thiserror::Error)]
pub enum StepsError {
    /// The file cannot be read.
    #[error("cannot read {path}: {what}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        what: String,
    },
    /// No time of the wall: it cannot be joined with a load.
    #[error("{path} has no baseTimeNanoseconds: its times cannot be joined with the load's")]
    NoClock {
        /// The file.
        path: String,
    },
}

/// Reads a batch from the label of a step: vLLM's `execute_…`, SGLang's `step[…]`; `None` of another label.
pub fn batch(label: &str) -> Option<(BatchPart, BatchPart)> {
    if let Some(rest) = label.strip_prefix("execute_") {
        // `T_context_…` where annotations are detailed, else `context_…`.
        let rest = match rest.strip_prefix("context_") {
            Some(rest) => rest,
            None => rest.split_once("_context_")?.1,
        };
        let (context, generation) = rest.split_once("_generation_")?;
        return Some((vllm_part(context)?, vllm_part(generation)?));
    }
    let inside = label.strip_prefix("step[")?.strip_suffix(']')?;
    let mut words = inside.split_whitespace();
    let mode = words.next()?;
    let value = |names: &[&str]| {
        words.clone().find_map(|word| {
            let (name, value) = word.split_once('=')?;
            names.contains(&name).then(|| value.parse::<u64>().ok())?
        })
    };
    let sequences = value(&["bs"])?;
    let part = BatchPart {
        sequences,
        tokens: value(&["toks", "c_sq", "g_sq"]).unwrap_or(sequences),
        context: value(&["c_sk", "g_sk"]),
    };
    match mode {
        "DECODE" => Some((BatchPart::default(), part)),
        "EXTEND" | "PREFILL" => Some((part, BatchPart::default())),
        "MIXED" => {
            let decode = value(&["g_sq"]).unwrap_or(0);
            let decode = BatchPart {
                sequences: decode,
                tokens: decode,
                context: value(&["g_sk"]),
            };
            let prefill = BatchPart {
                sequences: sequences.saturating_sub(decode.sequences),
                tokens: value(&["c_sq"]).unwrap_or(0),
                context: value(&["c_sk"]),
            };
            Some((prefill, decode))
        }
        _ => None,
    }
}

/// `N(tok)` or `N(sq…sk…sqsq…sqsk…)`.
fn vllm_part(text: &str) -> Option<BatchPart> {
    let (sequences, inside) = text.split_once('(')?;
    let inside = inside.strip_suffix(')')?;
    let sequences = sequences.parse().ok()?;
    let digits = |text: &str| {
        let end = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        text[..end].parse::<u64>().ok()
    };
    if let Some(rest) = inside.strip_prefix("sq") {
        let tokens = digits(rest)?;
        let context = rest.split_once("sk").and_then(|(_, rest)| digits(rest));
        return Some(BatchPart {
            sequences,
            tokens,
            context,
        });
    }
    Some(BatchPart {
        sequences,
        tokens: inside.parse().ok()?,
        context: None,
    })
}

/// The steps of a Kineto trace, plain or gzip, by time.
pub fn load(path: &Path) -> Result<Vec<Step>, StepsError> {
    let unreadable = |what: String| StepsError::Unreadable {
        path: path.display().to_string(),
        what,
    };
    let mut file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
    let mut magic = [0; 2];
    let is_gzip = file.read_exact(&mut magic).is_ok() && magic == [0x1f, 0x8b];
    let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
    let trace: TraceFile = if is_gzip {
        let reader = BufReader::with_capacity(1 << 18, MultiGzDecoder::new(file));
        serde_json::from_reader(reader)
    } else {
        serde_json::from_reader(BufReader::with_capacity(1 << 18, file))
    }
    .map_err(|error| unreadable(error.to_string()))?;
    let base = trace.base.ok_or_else(|| StepsError::NoClock {
        path: path.display().to_string(),
    })?;
    let mut steps: Vec<Step> = trace
        .steps
        .into_iter()
        .map(|(start_us, duration_us, (prefill, decode))| {
            let start_unix_ns = Nanos(base + (start_us * 1e3).round() as i64);
            Step {
                start_unix_ns,
                end_unix_ns: start_unix_ns + Nanos((duration_us * 1e3).round() as i64),
                prefill,
                decode,
            }
        })
        .collect();
    steps.sort_by_key(|step| (step.start_unix_ns, step.end_unix_ns));
    // On GPUs the same label stands on the device's line too; the host's, which is the longer one, is the step.
    steps.dedup_by(|later, earlier| {
        let is_same = (later.prefill, later.decode) == (earlier.prefill, earlier.decode)
            && later.start_unix_ns < earlier.end_unix_ns;
        if is_same {
            earlier.end_unix_ns = earlier.end_unix_ns.max(later.end_unix_ns);
        }
        is_same
    });
    Ok(steps)
}

type Found = (f64, f64, (BatchPart, BatchPart));

/// Of a trace only what is needed: reading all of it would hold all of it.
struct TraceFile {
    base: Option<i64>,
    steps: Vec<Found>,
}

#[derive(Deserialize)]
struct TraceEvent {
    #[serde(default)]
    name: Name,
    #[serde(default)]
    ts: Option<f64>,
    #[serde(default)]
    dur: Option<f64>,
}

/// The batch that a name tells, if any: other names are not kept.
#[derive(Default)]
struct Name(Option<(BatchPart, BatchPart)>);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Label;
        impl Visitor<'_> for Label {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Name, E> {
                Ok(Name(batch(text)))
            }

            fn visit_f64<E: de::Error>(self, _: f64) -> Result<Name, E> {
                Ok(Name(None))
            }

            fn visit_u64<E: de::Error>(self, _: u64) -> Result<Name, E> {
                Ok(Name(None))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Name, E> {
                Ok(Name(None))
            }
        }
        deserializer.deserialize_any(Label)
    }
}

impl<'de> Deserialize<'de> for TraceFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Events(Vec<Found>);
        impl<'de> Deserialize<'de> for Events {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct List;
                impl<'de> Visitor<'de> for List {
                    type Value = Events;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a list of events")
                    }

                    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Events, A::Error> {
                        let mut found = Vec::new();
                        while let Some(event) = seq.next_element::<TraceEvent>()? {
                            if let (Some(batch), Some(ts), Some(dur)) =
                                (event.name.0, event.ts, event.dur)
                            {
                                found.push((ts, dur, batch));
                            }
                        }
                        Ok(Events(found))
                    }
                }
                deserializer.deserialize_seq(List)
            }
        }
        struct Top;
        impl<'de> Visitor<'de> for Top {
            type Value = TraceFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a Kineto trace")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TraceFile, A::Error> {
                let mut trace = TraceFile {
                    base: None,
                    steps: Vec::new(),
                };
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "baseTimeNanoseconds" => trace.base = Some(map.next_value()?),
                        "traceEvents" => trace.steps = map.next_value::<Events>()?.0,
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(trace)
            }
        }
        deserializer.deserialize_map(Top)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_vllm_and_sglang() {
        let (prefill, decode) = batch(
            "execute_52_context_1(sq48sk48sqsq2304sqsk2304)_generation_4(sq4sk201sqsq4sqsk201)",
        )
        .unwrap();
        assert_eq!(
            (prefill.sequences, prefill.tokens, prefill.context),
            (1, 48, Some(48))
        );
        assert_eq!(
            (decode.sequences, decode.tokens, decode.context),
            (4, 4, Some(201))
        );
        let (prefill, decode) = batch("execute_context_2(96)_generation_3(3)").unwrap();
        assert_eq!(
            (prefill.tokens, decode.sequences, decode.context),
            (96, 3, None)
        );
        let (prefill, decode) = batch("step[DECODE bs=8 g_sq=8 g_sk=900]").unwrap();
        assert_eq!(
            (prefill.sequences, decode.sequences, decode.context),
            (0, 8, Some(900))
        );
        let (prefill, _) = batch("step[EXTEND bs=2 toks=300 c_sq=300 c_sk=400]").unwrap();
        assert_eq!((prefill.sequences, prefill.tokens), (2, 300));
        for other in [
            "execute_model",
            "step[",
            "aten::mm",
            "execute_context_x(1)_generation_0(0)",
        ] {
            assert_eq!(batch(other), None, "{other}");
        }
    }
}
