//! What some threads and some devices of a trace did, as a trace of its own.

use super::{HostSamples, MemoryEvents, RangeKind, ThreadId, Trace};

impl Trace {
    /// Rows of accepted threads and of accepted devices. Memory events and samples of stacks are left out.
    #[must_use]
    pub fn part(
        &self,
        has_thread: impl Fn(ThreadId) -> bool,
        has_device: impl Fn(u32) -> bool,
    ) -> Self {
        let mut part = self.clone();
        (part.memory, part.host_samples) = (MemoryEvents::default(), HostSamples::default());
        let rows = |count: usize, is_kept: &dyn Fn(usize) -> bool| -> Vec<u32> {
            let kept = (0..count).filter(|&row| is_kept(row));
            kept.map(|row| row as u32).collect()
        };
        let (hosts, ranges) = (&self.hosts, &self.ranges);
        part.hosts
            .permute(&rows(hosts.len(), &|row| has_thread(hosts.thread[row])));
        part.ranges.permute(&rows(ranges.len(), &|row| {
            if ranges.kind[row] == RangeKind::DEVICE_ANNOTATION {
                has_device(ranges.device[row])
            } else {
                has_thread(ranges.thread[row])
            }
        }));
        let on_device =
            |devices: &[u32]| rows(devices.len(), &|row: usize| has_device(devices[row]));
        part.kernels.permute(&on_device(&self.kernels.device));
        part.copies.permute(&on_device(&self.copies.device));
        part.memsets.permute(&on_device(&self.memsets.device));
        part.syncs.permute(&on_device(&self.syncs.device));
        part
    }
}
