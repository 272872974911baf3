//! Kernels by when they were launched: a kernel belongs to the range in which it was launched, whenever it ran.

use std::collections::HashMap;

use super::{HostKind, Kernels, Trace};

impl Trace {
    /// The trace with the kernels that were launched inside ranges whose name is accepted.
    #[must_use]
    pub fn launched_inside(&self, is_named: impl Fn(&str) -> bool) -> Self {
        let ranges = &self.ranges;
        let windows: Vec<(i64, i64)> = (0..ranges.len())
            .filter(|&row| is_named(self.text(ranges.name[row])))
            .map(|row| {
                let start = ranges.start[row];
                (start, start.saturating_add(ranges.duration[row]))
            })
            .collect();
        self.launched_when(|at| {
            let mut windows = windows.iter();
            windows.any(|(start, end)| (*start..=*end).contains(&at))
        })
    }

    /// The trace with the kernels whose launch call, or where that is not recorded whose start, is at an accepted time.
    #[must_use]
    pub fn launched_when(&self, is_wanted: impl Fn(i64) -> bool) -> Self {
        let hosts = &self.hosts;
        let mut calls: HashMap<u32, i64> = HashMap::new();
        for row in 0..hosts.len() {
            let is_call = matches!(hosts.kind[row], HostKind::RUNTIME | HostKind::DRIVER);
            if is_call && hosts.correlation[row] != 0 {
                calls
                    .entry(hosts.correlation[row])
                    .or_insert(hosts.start[row]);
            }
        }
        let mut kernels = Kernels::default();
        for kernel in self.kernels.rows() {
            let launched = calls.get(&kernel.correlation).copied();
            if is_wanted(launched.unwrap_or(kernel.start)) {
                kernels.push(kernel);
            }
        }
        let mut trace = self.clone();
        trace.kernels = kernels;
        trace
    }
}
