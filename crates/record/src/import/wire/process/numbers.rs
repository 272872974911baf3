//! Numbers that each process gives out for itself, among those of all.

use std::collections::HashMap;

use llmprof_wire::Device;

use super::Process;

/// Numbers that processes give out each for itself, and what earlier processes have used of them.
#[derive(Default)]
pub(in crate::import::wire) struct Numbers {
    pub(super) correlations: u32,
    pub(super) contexts: u32,
    pub(super) graphs: u32,
    /// Devices by where they are on the bus.
    devices: HashMap<(u32, u32, u32), u32>,
}

impl Numbers {
    /// The number of a device in the trace: its own, unless another device of the machine has it.
    pub(super) fn device(&mut self, device: &Device<'_>) -> u32 {
        let place = (device.pci_domain, device.pci_bus, device.pci_device);
        if place == (0, 0, 0) {
            return device.id;
        }
        if let Some(&number) = self.devices.get(&place) {
            return number;
        }
        let taken: Vec<u32> = self.devices.values().copied().collect();
        let number = (device.id..=u32::MAX)
            .find(|number| !taken.contains(number))
            .unwrap_or(device.id);
        self.devices.insert(place, number);
        number
    }
}

impl Process<'_> {
    /// A number of this process among those of all.
    fn shift_number(own: u32, base: u32, most: &mut u32, too_many: &mut u64) -> u32 {
        if own == 0 {
            return 0;
        }
        *most = (*most).max(own);
        base.checked_add(own).unwrap_or_else(|| {
            *too_many += 1;
            0
        })
    }

    /// CUPTI has left the process. When it is back it may begin again at 1, which the numbers will show.
    pub(super) fn renumber(&mut self) {
        self.earlier_correlations = self.most.correlations;
    }

    pub(super) fn correlation(&mut self, own: u32) -> u32 {
        if (1..=self.earlier_correlations).contains(&own) {
            self.earlier_correlations = 0;
            let used = std::mem::take(&mut self.most.correlations);
            self.numbers.correlations = self.numbers.correlations.saturating_add(used);
        }
        let base = self.numbers.correlations;
        Self::shift_number(own, base, &mut self.most.correlations, &mut self.too_many)
    }

    pub(super) fn context(&mut self, own: u32) -> u32 {
        let base = self.numbers.contexts;
        Self::shift_number(own, base, &mut self.most.contexts, &mut self.too_many)
    }

    pub(super) fn graph(&mut self, own: u32) -> u32 {
        let base = self.numbers.graphs;
        Self::shift_number(own, base, &mut self.most.graphs, &mut self.too_many)
    }

    /// Nodes have the number of their graph in the upper half.
    pub(super) fn node(&self, own: u64) -> u64 {
        match own {
            0 => 0,
            own => own.wrapping_add(u64::from(self.numbers.graphs) << 32),
        }
    }
}
