//! Where in the model each kernel runs: its launches by (kernel, grid, block), and the operators that they were matched to.

use std::collections::BTreeMap;

use llmprof_record::kernel_name::canonical;
use llmprof_record::trace::{StrId, Trace};
use rustc_hash::FxHashMap;

use crate::matching::lanes::WorkLane;
use crate::matching::units::{CountedCalls, MatchVerdict, Matching};
use crate::row_order::sort_descending_named;

/// Launches of a kernel by operator, with `*` for the number of the layer.
type Launches = BTreeMap<String, u64>;

/// A kernel's name, grid and block.
type LaunchKey = (StrId, [u32; 3], [u32; 3]);

/// Places of kernels, where ranges of modules say them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct KernelPlaces(FxHashMap<(String, [u32; 3], [u32; 3]), Launches>);

impl KernelPlaces {
    pub(crate) fn from_matching(
        trace: &Trace,
        lanes: &[WorkLane],
        matching: &Matching,
        counted: Option<&CountedCalls<'_>>,
    ) -> Self {
        let Some(counted) = counted else {
            return Self::default();
        };
        let mut sums: FxHashMap<LaunchKey, BTreeMap<u32, u64>> = FxHashMap::default();
        for (lane, verdicts) in lanes.iter().zip(&matching.verdicts) {
            for (item, verdict) in lane.items.iter().zip(verdicts) {
                let (Some(row), MatchVerdict::Unit(unit)) = (item.kernel, *verdict) else {
                    continue;
                };
                let unit = &matching.units[unit as usize];
                let (None, Some(&call)) = (unit.group, unit.calls.first()) else {
                    continue;
                };
                let (row, kernels) = (row as usize, &trace.kernels);
                let key = (kernels.name[row], kernels.grid[row], kernels.block[row]);
                let place = counted.script.calls[call as usize].place;
                *sums.entry(key).or_default().entry(place).or_default() += 1;
            }
        }
        let named = sums.into_iter().map(|((name, grid, block), places)| {
            let places = places
                .into_iter()
                .map(|(place, count)| (counted.script.place_text(place).to_owned(), count));
            ((canonical(trace.text(name)), grid, block), places.collect())
        });
        Self(named.collect())
    }

    /// The operators of a kernel, those with the most launches first.
    pub(crate) fn operators_of(
        &self,
        kernel: &str,
        grid: Option<[u32; 3]>,
        block: Option<[u32; 3]>,
    ) -> Vec<String> {
        let (Some(grid), Some(block)) = (grid, block) else {
            return Vec::new();
        };
        let launches = self.0.get(&(kernel.to_owned(), grid, block));
        let mut places: Vec<(&String, &u64)> = launches.into_iter().flatten().collect();
        sort_descending_named(&mut places, |(place, launches)| (**launches as i64, place));
        places.into_iter().map(|(place, _)| place.clone()).collect()
    }
}
