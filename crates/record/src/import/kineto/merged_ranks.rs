//! Files into which the traces of several ranks were merged: their processes are called by rank and number, `[TP01-DP00] 4711`.
//!
//! Each rank counts its ids and devices from the beginning, so ids get a mark of their rank, and devices of the same number get numbers of
//! their own where the whole file was seen.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use crate::issue::{Issue, IssueCode};
use crate::trace::TraceBuilder;

/// Set in a provisional number of a device, of which 20 bits are the rank's mark and 11 the device's own number. No tool counts so far.
const PROVISIONAL: u32 = 1 << 31;
const DEVICE_BITS: u32 = 11;
const DEVICE_MASK: u32 = (1 << DEVICE_BITS) - 1;

/// The part of a process label that names the rank: all before a number at its end, if that has a digit or a bracket. `None` of other
/// labels, such as Kineto's `Spans`.
pub(super) fn rank_label(process: &[u8]) -> Option<&[u8]> {
    let digits = process
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let rank = process[..process.len() - digits].trim_ascii_end();
    let is_apart = rank.len() < process.len() - digits;
    let names_rank = rank.ends_with(b"]") || rank.iter().any(u8::is_ascii_digit);
    (digits > 0 && is_apart && names_rank).then_some(rank)
}

/// What distinguishes the ids of a rank.
pub(super) fn rank_mark(label: &[u8]) -> u64 {
    use std::hash::Hasher;
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(label);
    hasher.finish()
}

/// The labels of ranks by the marks in provisional numbers of their devices.
#[derive(Default)]
pub(super) struct MergedRanks {
    labels: BTreeMap<u32, String>,
    /// Two ranks have the same mark: their devices cannot be told apart.
    collided: bool,
}

impl MergedRanks {
    /// A number for a device of a rank until all ranks are known.
    pub(super) fn number_device(&mut self, label: &[u8], device: u32) -> u32 {
        if device > DEVICE_MASK {
            return device;
        }
        let mark = (rank_mark(label) >> 44) as u32;
        self.add_label(mark, &String::from_utf8_lossy(label));
        PROVISIONAL | (mark << DEVICE_BITS) | device
    }

    fn add_label(&mut self, mark: u32, label: &str) {
        let kept = self.labels.entry(mark).or_insert_with(|| label.to_owned());
        self.collided |= kept != label;
    }

    pub(super) fn absorb(&mut self, other: Self) {
        for (mark, label) in other.labels {
            self.add_label(mark, &label);
        }
        self.collided |= other.collided;
    }

    /// Gives devices their own numbers again where no two ranks share one, else numbers in the order of ranks.
    pub(super) fn resolve(self, builder: &mut TraceBuilder) {
        if self.labels.is_empty() {
            return;
        }
        let mut columns = [
            &mut builder.kernels.device,
            &mut builder.copies.device,
            &mut builder.memsets.device,
            &mut builder.syncs.device,
            &mut builder.ranges.device,
        ];
        let devices: BTreeSet<(&str, u32)> = columns
            .iter()
            .flat_map(|column| column.iter())
            .filter(|number| **number & PROVISIONAL != 0)
            .map(|number| (number & !PROVISIONAL, number & DEVICE_MASK))
            .map(|(marked, device)| (self.labels[&(marked >> DEVICE_BITS)].as_str(), device))
            .collect();
        let distinct: BTreeSet<u32> = devices.iter().map(|(_, device)| *device).collect();
        let is_shared = distinct.len() < devices.len() && !self.collided;
        let numbers: HashMap<(&str, u32), u32> = (0..)
            .zip(&devices)
            .map(|(order, &key)| (key, if is_shared { order } else { key.1 }))
            .collect();
        for column in &mut columns {
            for number in column.make_mut() {
                if *number & PROVISIONAL != 0 {
                    let label = &self.labels[&((*number & !PROVISIONAL) >> DEVICE_BITS)];
                    *number = numbers[&(label.as_str(), *number & DEVICE_MASK)];
                }
            }
        }
        if is_shared {
            let issue = Issue::info(IssueCode::KinetoDevicesRenumbered);
            builder.issues.push(issue.with("devices", devices.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_ranks_are_told_from_others() {
        assert_eq!(rank_label(b"[TP01-DP00] 4711"), Some(&b"[TP01-DP00]"[..]));
        assert_eq!(rank_label(b"rank 1 4711"), Some(&b"rank 1"[..]));
        for other in [
            &b"Spans"[..],
            b"",
            b"4711",
            b"python 3",
            b"rank1",
            b"[TP01]",
        ] {
            assert_eq!(rank_label(other), None, "{other:?}");
        }
    }
}
