//! What the library inside a profiled process and llmprof say to each other: a file of records, options in the
//! environment, and lines on a control channel.
//!
//! Nothing here has dependencies, and nothing allocates but what a caller hands in: this crate ends up inside other
//! people's processes. `docs/wire-format.md` describes the bytes.

pub mod control;
mod decode;
mod header;
pub mod options;
mod record;

pub use decode::{End, Reader};
pub use header::{HEADER_BYTES, Header, HeaderError, MAGIC, VERSION};
pub use options::Options;
pub use record::{
    Attached, Attachment, Call, Capture, Checkpoint, Copy, Cost, Device, Domain, Ended, GraphNode,
    HostSample, Kept, Kernel, Loss, Mark, Memset, Overhead, Pop, Push, RangeEnd, RangeStart,
    Record, Refused, Sampler, StackFrame, Sync, TEXT_MAX_BYTES, Text, ThreadName,
};

/// How the name of a wire file ends.
pub const EXTENSION: &str = "wire";

/// The file name of the library that is loaded into watched processes.
pub const LIBRARY: &str = "libllmprof_inject.so";

/// Why CUPTI stays attached: the program captures CUDA graphs.
pub const KEPT_GRAPHS_CAPTURED: &str = "the program makes CUDA graphs, which must be seen and would fail without it, and take up to 2 % longer with it";
/// Why CUPTI stays attached: the program launches CUDA graphs that it captured while CUPTI was detached.
pub const KEPT_GRAPHS_FOUND: &str = "the program runs CUDA graphs that were captured while CUPTI was detached, so that their kernels \
                                     lack the ranges around them (--no-detach sees graphs being captured)";
