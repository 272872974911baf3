//! Numbers by which rows refer to the dictionaries of their trace.

/// The number of a string in [`Strings`](super::Strings); only meaningful within one trace.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    bytemuck::Pod,
    bytemuck::Zeroable,
)]
#[repr(transparent)]
pub struct StrId(pub u32);

impl StrId {
    /// The empty string, which stands for "none".
    pub const EMPTY: Self = Self(0);
}

/// The number of an input list in [`Inputs`](super::Inputs); only meaningful within one trace.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    bytemuck::Pod,
    bytemuck::Zeroable,
)]
#[repr(transparent)]
pub struct InputsId(pub u32);

impl InputsId {
    /// Nothing recorded: the first entry, a list with no arguments.
    pub const NONE: Self = Self(0);
}

/// The number of a thread in [`Threads`](super::Threads); only meaningful within one trace.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    bytemuck::Pod,
    bytemuck::Zeroable,
)]
#[repr(transparent)]
pub struct ThreadId(pub u32);

impl ThreadId {
    /// No thread: the first entry of every table of threads.
    pub const NONE: Self = Self(0);
}
