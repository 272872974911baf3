//! Several devices of which one computes at a time: layers divided among them, with one batch that passes through.

use std::collections::BTreeMap;

use llmprof_units::Nanos;

use super::cause::{CauseKind, CausePlace};
use super::{CauseCandidate, Scene};
use crate::replay::{DeviceRow, Edit};
use crate::thresholds::{TURN_MIN_SHARE, TURNS_OVERLAP_MAX_SHARE};
use crate::timeline::intervals::union_length;

/// Devices of which one computes at a time.
pub(super) struct Turns {
    devices: u64,
    busy_ns: i64,
}

pub(super) fn turns(scene: &Scene<'_>) -> Option<Turns> {
    let mut devices: BTreeMap<u32, Vec<(i64, i64)>> = BTreeMap::new();
    for (_, work) in scene.own_work() {
        if let DeviceRow::Kernel(row) = work.row {
            let device = scene.trace.kernels.device[row as usize];
            let intervals = devices.entry(device).or_default();
            intervals.push((work.start, work.end()));
        }
    }
    if devices.len() < 2 {
        return None;
    }
    let mut all: Vec<(i64, i64)> = devices.values().flatten().copied().collect();
    let mut busy: Vec<i64> = Vec::new();
    for intervals in devices.values_mut() {
        intervals.sort_unstable();
        busy.push(union_length(intervals.iter().copied()));
    }
    all.sort_unstable();
    let sum: i64 = busy.iter().sum();
    let together = union_length(all);
    let takes_turn = |busy: &&i64| **busy as f64 >= TURN_MIN_SHARE * sum as f64;
    let count = busy.iter().filter(takes_turn).count() as u64;
    let are_in_turn = (sum - together) as f64 <= TURNS_OVERLAP_MAX_SHARE * sum as f64;
    (count >= 2 && are_in_turn).then_some(Turns {
        devices: count,
        busy_ns: together,
    })
}

/// Whether one device needs what another computes is not in the trace, so the gain is no more than an upper bound: all at once.
pub(super) fn find_devices_in_turn(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let Some(Turns { devices, busy_ns }) = turns(scene) else {
        return Vec::new();
    };
    let mut at_once = Edit::default();
    for (index, work) in scene.own_work() {
        at_once.set_duration(index, work.duration / devices as i64);
    }
    vec![CauseCandidate {
        kind: CauseKind::DevicesInTurn {
            devices,
            busy_ns: Nanos(scene.a_step(busy_ns)),
        },
        place: CausePlace::default(),
        count: 1,
        edit: Edit::default(),
        partial: Some(vec![at_once]),
    }]
}

#[cfg(test)]
mod tests {
    use crate::causes::ProgramPurpose;
    use crate::causes::sketch::{Diagnosed, Sketch};

    /// Layers on two devices, the host waiting after each stage; or all on one.
    fn sketch_stages(devices: u32) -> Diagnosed {
        let mut sketch = Sketch::default();
        sketch.purpose = ProgramPurpose::RunsModel;
        for stage in 0..20 {
            sketch.device = stage % devices;
            for _ in 0..4 {
                sketch.matrix_product(4096, 4096, 4096, 100);
            }
            sketch.synchronize();
        }
        sketch.diagnose()
    }

    #[test]
    fn devices_in_turn_are_said_and_no_wait_has_the_gain() {
        let found = sketch_stages(2);
        let gain = &found.cause("devices_in_turn").unwrap().gains[0];
        assert_eq!(gain.saved_ns.0, 0);
        assert!((0.4..0.6).contains(&gain.most_share()), "{gain:?}");
        assert!(found.cause("synchronization").is_none());
        assert!(sketch_stages(1).cause("devices_in_turn").is_none());
    }
}
