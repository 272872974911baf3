use std::{io, path::PathBuf};

use llmprof_theory::WeightFormat;
use llmprof_units::{Count, DType};

/// Why a model cannot be loaded or run.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A family that has no execution here.
    #[error("the native engine does not run the family `{found}`; it runs {known}")]
    UnsupportedFamily { found: &'static str, known: String },
    /// A part of a model that has no execution here.
    #[error("the native engine does not run {block}")]
    UnsupportedBlock { block: &'static str },
    /// A storage format that has no kernels here.
    #[error("the native engine keeps weights in f32 or bf16, not in {found}")]
    UnsupportedDtype { found: DType },
    /// Quantized weights that have no kernels here.
    #[error(
        "the native engine quantizes weights to int8, int8_gN or int4_gN (N a multiple of 32), not to {found}"
    )]
    UnsupportedFormat { found: WeightFormat },
    /// A checkpoint with quantized weights.
    #[error("the native engine does not read quantized checkpoints")]
    Quantized,
    /// A file that cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("`{}` holds no `*.safetensors` file", directory.display())]
    NoWeights { directory: PathBuf },
    /// An index that is not what it should be.
    #[error("`{}` is not an index of shards: {reason}", path.display())]
    BrokenIndex { path: PathBuf, reason: String },
    /// A shard that the index names and the directory lacks.
    #[error("the shard `{}` that `{}` names is missing", shard.display(), index.display())]
    MissingShard { shard: PathBuf, index: PathBuf },
    /// A file whose header cannot be read.
    #[error("`{}` has a broken safetensors header: {reason}", path.display())]
    BrokenHeader { path: PathBuf, reason: String },
    /// A tensor that the model needs and the checkpoint lacks.
    #[error("the checkpoint in `{}` has no tensor `{name}`{}", directory.display(), and_others(*others))]
    MissingTensor {
        /// The first that is missing.
        name: String,
        /// Number of further tensors that the checkpoint lacks.
        others: usize,
        directory: PathBuf,
    },
    /// A tensor of another shape than the config says.
    #[error("the tensor `{name}` has the shape {found:?}, but the config asks for {expected:?}")]
    TensorShape {
        name: String,
        /// The shape in the checkpoint.
        found: Vec<u64>,
        /// The shape that the model needs.
        expected: Vec<u64>,
    },
    /// A tensor in a format that is not read.
    #[error("the tensor `{name}` is stored as {found}; only F32, BF16 and F16 are read")]
    TensorDtype {
        name: String,
        /// Its format, as safetensors names it.
        found: String,
    },
    /// No memory for weights or cache.
    #[error("cannot reserve {bytes} bytes for {what}")]
    Memory { bytes: u64, what: &'static str },
    /// Threads could not be started.
    #[error("cannot start {}: {reason}", Count(*.threads as u64, "thread"))]
    Threads { threads: usize, reason: String },
    /// A token that the model does not have.
    #[error("token {token} of sequence {sequence} is outside the vocabulary of {vocabulary}")]
    UnknownToken {
        token: u32,
        sequence: usize,
        vocabulary: u64,
    },
    /// A step over another number of sequences than the cache holds.
    #[error("the cache holds {}, but {found} were given", Count(*.expected as u64, "sequence"))]
    Batch { found: usize, expected: usize },
    /// A sequence without a new token.
    #[error("sequence {sequence} has no token to run")]
    EmptySequence { sequence: usize },
    /// More tokens than the cache or the position table takes.
    #[error(
        "sequence {sequence} would grow to {needed} tokens, but {limit} is the most that {of} takes"
    )]
    TooLong {
        sequence: usize,
        /// Length that the step would give.
        needed: usize,
        limit: usize,
        /// The cache or the position table, as the message names it.
        of: &'static str,
    },
    /// A temperature that is not positive.
    #[error("the temperature is {found}, but must be a positive number")]
    Temperature { found: f64 },
}

fn and_others(others: usize) -> String {
    match others {
        0 => String::new(),
        1 => " (and one other)".to_owned(),
        _ => format!(" (and {others} others)"),
    }
}
