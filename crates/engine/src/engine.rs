use llmprof_theory::{Logits, Model, Precision, WeightFormat};
use llmprof_units::DType;
use rayon::ThreadPool;

use crate::{
    buffer::Format,
    cache::KvCache,
    error::EngineError,
    kernel::Isa,
    model::{Binder, BoundDecoder},
    recorder::{OperatorInfo, Recorder},
    weights::{Scheme, WeightSource, Weights},
};

/// The families that the engine runs.
pub const SUPPORTED_FAMILIES: &[&str] = &[
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "phi3",
    "gemma2",
    "gpt2",
    "mixtral",
    "qwen3_moe",
];

/// How an engine is set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineOptions {
    /// How weights are kept: f32 or bf16. Absent is the model's own dtype, f32 where that is f16.
    pub weights: Option<DType>,
    /// Storage of the matrices that quantized checkpoints quantize, made while loading; absent is plain.
    pub quantized: Option<WeightFormat>,
    /// Threads; absent is one per available core.
    pub threads: Option<usize>,
}

pub struct NativeEngine {
    model: Model,
    decoder: BoundDecoder,
    operators: Vec<OperatorInfo>,
    pool: ThreadPool,
    format: Format,
    scheme: Option<Scheme>,
}

impl std::fmt::Debug for NativeEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("family", &self.model.family)
            .field("weights", &self.format)
            .field("quantized", &self.scheme)
            .field("operators", &self.operators.len())
            .finish_non_exhaustive()
    }
}

impl NativeEngine {
    /// Finds or makes the weights of `model` and binds its blocks to them.
    pub fn load(
        model: &Model,
        source: &WeightSource,
        options: EngineOptions,
    ) -> Result<Self, EngineError> {
        let decoder = model
            .decoder
            .as_ref()
            .filter(|_| SUPPORTED_FAMILIES.contains(&model.family))
            .ok_or_else(|| EngineError::UnsupportedFamily {
                found: model.family,
                known: SUPPORTED_FAMILIES.join(", "),
            })?;
        if model.quantization.is_some() {
            return Err(EngineError::Quantized);
        }
        let format = Format::from_dtype(options.weights.unwrap_or(match model.dtype {
            DType::F16 => DType::F32,
            own => own,
        }))?;
        let scheme = options.quantized.map(Scheme::for_format).transpose()?;
        let threads = options
            .threads
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
            .max(1);
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("engine-{index}"))
            .build()
            .map_err(|error| EngineError::Threads {
                threads,
                reason: error.to_string(),
            })?;
        let (bound, operators) = pool.install(|| {
            let weights = Weights::open_source(source, model, format, scheme.is_none())?;
            let mut binder = Binder {
                weights: &weights,
                format,
                scheme,
                operators: Vec::new(),
                place: None,
            };
            let bound = BoundDecoder::bind(decoder, &mut binder)?;
            Ok::<_, EngineError>((bound, binder.operators))
        })?;
        Ok(Self {
            model: model.clone(),
            decoder: bound,
            operators,
            pool,
            format,
            scheme,
        })
    }

    pub fn model(&self) -> &Model {
        &self.model
    }

    /// What the operators of events are.
    pub fn operators(&self) -> &[OperatorInfo] {
        &self.operators
    }

    /// The number formats that theory must assume to count what this engine does.
    pub fn theory_precision(&self) -> Precision {
        Precision {
            weights: Some(
                self.scheme
                    .map_or(WeightFormat::Plain(self.format.dtype()), |scheme| {
                        scheme.format
                    }),
            ),
            plain: self.scheme.map(|_| self.format.dtype()),
            activations: Some(DType::F32),
            kv: Some(DType::F32),
            compute: Some(DType::F32),
        }
    }

    pub fn thread_count(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// The vector instructions in use.
    pub fn instruction_set(&self) -> &'static str {
        Isa::detected().name()
    }

    /// Events that one step records.
    pub fn events_per_step(&self) -> usize {
        self.operators.len()
    }

    pub fn vocabulary_size(&self) -> usize {
        self.model
            .decoder
            .as_ref()
            .map_or(0, |decoder| decoder.head.linear.outputs as usize)
    }

    /// An empty cache for `batch` sequences of at most `max_len` tokens.
    pub fn new_cache(&self, batch: usize, max_len: usize) -> Result<KvCache, EngineError> {
        let decoder = self.model.decoder.as_ref().expect("checked when loaded");
        KvCache::new(decoder, batch, max_len)
    }

    /// Runs the tokens of each sequence after those in the cache, and gives the logits that `logits` asks for: a row of
    /// [`vocabulary_size`](Self::vocabulary_size) per position, sequence by sequence.
    ///
    /// `None` gives none, for the chunks of a prompt before its last.
    pub fn prefill<'c, T: AsRef<[u32]>>(
        &self,
        cache: &'c mut KvCache,
        tokens: &[T],
        logits: Option<Logits>,
        recorder: &mut Recorder,
    ) -> Result<&'c mut [f32], EngineError> {
        let tokens: Vec<&[u32]> = tokens.iter().map(AsRef::as_ref).collect();
        self.check_tokens(cache, &tokens)?;
        let written = self
            .pool
            .install(|| self.decoder.run_step(cache, &tokens, logits, recorder));
        Ok(&mut cache.workspace.logits[..written])
    }

    /// Runs one token of each sequence and gives its logits: a row per sequence.
    pub fn decode_step<'c>(
        &self,
        cache: &'c mut KvCache,
        tokens: &[u32],
        recorder: &mut Recorder,
    ) -> Result<&'c mut [f32], EngineError> {
        self.prefill(
            cache,
            tokens.as_chunks::<1>().0,
            Some(Logits::Last),
            recorder,
        )
    }

    fn check_tokens(&self, cache: &KvCache, tokens: &[&[u32]]) -> Result<(), EngineError> {
        if tokens.len() != cache.sequence_count() {
            return Err(EngineError::Batch {
                found: tokens.len(),
                expected: cache.sequence_count(),
            });
        }
        let decoder = self.model.decoder.as_ref().expect("checked when loaded");
        let vocabulary = decoder.embedding.vocabulary;
        // Rotations have no end; a table of learned positions has.
        let table = decoder.positions.map_or(usize::MAX, |positions| {
            positions.rows.saturating_sub(positions.offset) as usize
        });
        for (sequence, (tokens, past)) in tokens.iter().zip(cache.lengths()).enumerate() {
            if tokens.is_empty() {
                return Err(EngineError::EmptySequence { sequence });
            }
            let needed = past + tokens.len();
            for (limit, of) in [(cache.capacity(), "the cache"), (table, "the model")] {
                if needed > limit {
                    return Err(EngineError::TooLong {
                        sequence,
                        needed,
                        limit,
                        of,
                    });
                }
            }
            if let Some(token) = tokens.iter().find(|token| u64::from(**token) >= vocabulary) {
                return Err(EngineError::UnknownToken {
                    token: *token,
                    sequence,
                    vocabulary,
                });
            }
        }
        Ok(())
    }
}
