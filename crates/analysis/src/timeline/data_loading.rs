//! When a program loads data: PyTorch marks each batch that its DataLoader hands out, other frameworks name their ranges alike.

use llmprof_record::trace::{StrId, Trace};
use rustc_hash::FxHashMap;

use crate::labels::is_annotation;

/// Disjoint times in which some thread waited for the next batch, in order, and what the first range is called.
#[derive(Default)]
pub(crate) struct DataLoading {
    times: Vec<(i64, i64)>,
    name: Option<StrId>,
}

/// `enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__`, `[pl][profile]…train_dataloader_next`.
fn is_loading(name: &str) -> bool {
    name.contains("DataLoader") || name.to_ascii_lowercase().contains("dataloader_next")
}

impl DataLoading {
    pub(crate) fn from_trace(trace: &Trace) -> Self {
        let (hosts, ranges) = (&trace.hosts, &trace.ranges);
        let mut known: FxHashMap<StrId, bool> = FxHashMap::default();
        let mut is_loading = |name: StrId| {
            *known
                .entry(name)
                .or_insert_with(|| is_loading(trace.text(name)))
        };
        let mut loading = Self::default();
        for row in (0..ranges.len()).filter(|&row| is_annotation(ranges.kind[row])) {
            if is_loading(ranges.name[row]) {
                loading.push(ranges.start[row], ranges.duration[row], ranges.name[row]);
            }
        }
        // Older versions of Kineto write ranges as operators.
        for row in 0..hosts.len() {
            if is_loading(hosts.name[row]) {
                loading.push(hosts.start[row], hosts.duration[row], hosts.name[row]);
            }
        }
        loading.times.sort_unstable();
        let mut merged: Vec<(i64, i64)> = Vec::with_capacity(loading.times.len());
        for (start, end) in loading.times {
            match merged.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        Self {
            times: merged,
            name: loading.name,
        }
    }

    fn push(&mut self, start: i64, duration: i64, name: StrId) {
        self.times.push((start, start.saturating_add(duration)));
        self.name.get_or_insert(name);
    }

    pub(crate) fn name(&self) -> Option<StrId> {
        self.name
    }

    /// How long data was loaded between two moments.
    pub(crate) fn between(&self, from: i64, to: i64) -> i64 {
        let first = self.times.partition_point(|&(_, end)| end <= from);
        self.times[first..]
            .iter()
            .take_while(|&&(start, _)| start < to)
            .map(|&(start, end)| end.min(to).saturating_sub(start.max(from)))
            .fold(0, i64::saturating_add)
    }
}
