//! Numbers by which rows refer to the dictionaries of their trace.

/// A number that is only meaningful within one trace.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
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
        pub struct $name(pub u32);
    };
}

id!(
    /// The number of a string in [`Strings`](super::Strings).
    StrId
);
id!(
    /// The number of an input list in [`Inputs`](super::Inputs).
    InputsId
);
id!(
    /// The number of a thread in [`Threads`](super::Threads).
    ThreadId
);

impl StrId {
    /// The empty string, which stands for "none".
    pub const EMPTY: Self = Self(0);
}

impl InputsId {
    /// Nothing recorded: the first entry, a list with no arguments.
    pub const NONE: Self = Self(0);
}

impl ThreadId {
    /// No thread: the first entry of every table of threads.
    pub const NONE: Self = Self(0);
}
