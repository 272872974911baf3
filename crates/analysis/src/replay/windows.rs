//! The phases that a replay is measured by.

/// One interval of a phase, as the host ran it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostWindow {
    /// When the host began it, ns.
    pub start: i64,
    /// When the host left it, ns; work that it launched may run on.
    pub end: i64,
}

/// The intervals of one phase, in order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PhaseWindows {
    pub windows: Vec<HostWindow>,
    /// Steps in all windows together; 0 where they are not known.
    pub steps: u64,
}
