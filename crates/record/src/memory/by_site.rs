//! Memory by the place that allocated it, over time.
//!
//! All sites have their levels at the same moments, so that they can be drawn on top of each other: at each moment they sum up to what the
//! program held. A moment is kept where memory was highest among its neighbours, so no peak is lost by thinning.

use std::cmp::Reverse;

use llmprof_units::{Bytes, Nanos};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sites with a level of their own; the others are one.
const SITES_MAX: usize = 12;
/// Moments of a history: more than a screen has pixels.
const MOMENTS_MAX: usize = 4_000;
/// What sites beyond [`SITES_MAX`] are called.
const OTHER_SITES: &str = "other sites";
/// What blocks without a recorded site are called.
const NO_SITE: &str = "site not recorded";

/// A block taken or given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryChange {
    pub time_ns: Nanos,
    /// Negative where it is given back.
    pub bytes: i64,
    pub address: u64,
    /// Index in the list of sites; `None` where the site was not recorded.
    pub site: Option<u32>,
}

/// Levels of all sites at the same moments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct SiteHistory {
    /// The moments, in order, on the clock of the recording.
    pub time_ns: Vec<Nanos>,
    /// The site with the highest level first, what was held before the recording and what is beyond the list last.
    pub sites: Vec<SiteLevels>,
}

impl SiteHistory {
    pub fn is_empty(&self) -> bool {
        self.time_ns.is_empty()
    }
}

/// What one site held over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct SiteLevels {
    /// Where it was allocated; absent for what was held before the recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// Bytes at each of the moments.
    pub bytes: Vec<Bytes>,
}

/// Whose level a change moves.
type Owner = Option<u32>;
/// What was held when the recording began.
const BEFORE: Owner = None;

/// The levels of sites; `held_before` bytes were held when the recording began. Changes are in the order of time.
pub fn site_history(changes: &[MemoryChange], held_before: Bytes, sites: &[String]) -> SiteHistory {
    let no_site = sites.len() as u32;
    let moved = owned_changes(changes, no_site);
    let own = top_owners(&moved);
    let other = own.len();
    let before = other + 1;
    let row_of = |owner: Owner| match owner {
        BEFORE => before,
        Some(_) => own
            .iter()
            .position(|&own| owner == Some(own))
            .unwrap_or(other),
    };
    let rows: FxHashMap<Owner, usize> = moved
        .iter()
        .map(|&(owner, _)| (owner, row_of(owner)))
        .collect();
    let mut levels = vec![0_i64; before + 1];
    levels[before] = i64::try_from(held_before.0).unwrap_or(i64::MAX);
    let moments = highest_moments(&moved, levels[before]);
    let mut history = SiteHistory {
        time_ns: moments.iter().map(|&at| changes[at].time_ns).collect(),
        sites: Vec::new(),
    };
    let mut columns: Vec<Vec<Bytes>> = vec![Vec::with_capacity(moments.len()); before + 1];
    let mut moments = moments.into_iter().peekable();
    for (at, (owner, bytes)) in moved.iter().enumerate() {
        let level = &mut levels[rows[owner]];
        *level = level.saturating_add(*bytes);
        if moments.next_if_eq(&at).is_some() {
            for (column, level) in columns.iter_mut().zip(&levels) {
                column.push(Bytes(u64::try_from(*level).unwrap_or(0)));
            }
        }
    }
    let name = |row: usize| match own.get(row) {
        Some(&site) if site == no_site => Some(NO_SITE.to_owned()),
        Some(&site) => sites.get(site as usize).cloned(),
        None if row == other => Some(OTHER_SITES.to_owned()),
        None => None,
    };
    let named = columns.into_iter().enumerate();
    history.sites = named
        .map(|(row, bytes)| SiteLevels {
            site: name(row),
            bytes,
        })
        .filter(|levels| levels.bytes.iter().any(|bytes| bytes.0 > 0))
        .collect();
    history
}

/// Each change with the owner of its block: a block that nothing recorded took was held before.
fn owned_changes(changes: &[MemoryChange], no_site: u32) -> Vec<(Owner, i64)> {
    let mut live: FxHashMap<u64, (Owner, i64)> = FxHashMap::default();
    let owned = changes.iter().map(|change| {
        if change.bytes >= 0 {
            let owner = Some(change.site.unwrap_or(no_site));
            live.insert(change.address, (owner, change.bytes));
            return (owner, change.bytes);
        }
        match live.remove(&change.address) {
            // What was taken is given back, whatever a rounded size says.
            Some((owner, bytes)) => (owner, -bytes),
            None => (BEFORE, change.bytes),
        }
    });
    owned.collect()
}

/// The sites with the highest levels, the highest first.
fn top_owners(moved: &[(Owner, i64)]) -> Vec<u32> {
    let mut levels: FxHashMap<u32, (i64, i64)> = FxHashMap::default();
    for (owner, bytes) in moved {
        if let Some(site) = owner {
            let (level, peak) = levels.entry(*site).or_default();
            *level += bytes;
            *peak = (*peak).max(*level);
        }
    }
    let mut all: Vec<(u32, i64)> = levels
        .into_iter()
        .map(|(site, (_, peak))| (site, peak))
        .collect();
    all.sort_unstable_by_key(|&(site, peak)| (Reverse(peak), site));
    all.truncate(SITES_MAX);
    all.into_iter().map(|(site, _)| site).collect()
}

/// Of each interval of equally many changes, the one with the highest level after it, and the last.
fn highest_moments(moved: &[(Owner, i64)], before: i64) -> Vec<usize> {
    let interval = moved.len().div_ceil(MOMENTS_MAX / 2).max(1);
    let mut moments = Vec::new();
    let mut level = before;
    for (number, chunk) in moved.chunks(interval).enumerate() {
        let (mut highest, mut highest_at) = (i64::MIN, 0);
        for (at, (_, bytes)) in chunk.iter().enumerate() {
            level = level.saturating_add(*bytes);
            if level > highest {
                (highest, highest_at) = (level, at);
            }
        }
        let first = number * interval;
        moments.push(first + highest_at);
        if highest_at + 1 < chunk.len() {
            moments.push(first + chunk.len() - 1);
        }
    }
    moments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(time: i64, bytes: i64, address: u64, site: Option<u32>) -> MemoryChange {
        MemoryChange {
            time_ns: Nanos(time),
            bytes,
            address,
            site,
        }
    }

    #[test]
    fn levels_sum_up_to_what_is_held() {
        let sites = ["a.py:1 f".to_owned(), "b.py:2 g".to_owned()];
        let changes = [
            change(1, 100, 1, Some(0)),
            change(2, 600, 2, Some(1)),
            change(3, -300, 9, None),
            change(4, -100, 1, None),
            change(5, 50, 3, None),
        ];
        let history = site_history(&changes, Bytes(1000), &sites);
        let of = |name: Option<&str>| {
            let levels = history
                .sites
                .iter()
                .find(|levels| levels.site.as_deref() == name);
            levels.map(|levels| levels.bytes.iter().map(|bytes| bytes.0).collect::<Vec<_>>())
        };
        assert_eq!(history.time_ns, [1, 2, 3, 4, 5].map(Nanos));
        assert_eq!(of(Some("b.py:2 g")), Some(vec![0, 600, 600, 600, 600]));
        assert_eq!(of(Some("a.py:1 f")), Some(vec![100, 100, 100, 0, 0]));
        assert_eq!(of(Some(NO_SITE)), Some(vec![0, 0, 0, 0, 50]));
        assert_eq!(of(None), Some(vec![1000, 1000, 700, 700, 700]));
        assert_eq!(of(Some(OTHER_SITES)), None);
        assert_eq!(history.sites[0].site.as_deref(), Some("b.py:2 g"));
        assert_eq!(site_history(&[], Bytes(5), &sites), SiteHistory::default());
    }

    #[test]
    fn many_sites_and_changes_keep_the_sum_and_the_peak() {
        let sites: Vec<String> = (0..40).map(|site| format!("site {site}")).collect();
        let mut changes = Vec::new();
        for round in 0..10_000_u64 {
            let site = (round * 7 % 40) as u32;
            changes.push(change(
                round as i64,
                64 + round as i64 % 900,
                round,
                Some(site),
            ));
            if round % 3 != 0 {
                changes.push(change(round as i64, -1, round / 2, None));
            }
        }
        changes.push(change(20_000, 1 << 40, u64::MAX, Some(39)));
        changes.push(change(20_001, -1, u64::MAX, None));
        let history = site_history(&changes, Bytes(1 << 20), &sites);
        assert!(history.time_ns.len() <= MOMENTS_MAX + 2);
        assert_eq!(history.sites.len(), SITES_MAX + 2);
        let sum = |at: usize| {
            history
                .sites
                .iter()
                .map(|site| site.bytes[at].0)
                .sum::<u64>()
        };
        // The same sums without sites, at the moments that were kept.
        let (mut live, mut level) = (FxHashMap::default(), 1_i64 << 20);
        let mut held: FxHashMap<i64, Vec<i64>> = FxHashMap::default();
        for change in &changes {
            level += if change.bytes >= 0 {
                live.insert(change.address, change.bytes);
                change.bytes
            } else {
                live.remove(&change.address)
                    .map_or(change.bytes, |bytes: i64| -bytes)
            };
            held.entry(change.time_ns.0).or_default().push(level);
        }
        for (at, time) in history.time_ns.iter().enumerate() {
            assert!(held[&time.0].contains(&(sum(at) as i64)), "{time:?}");
        }
        let highest = (0..history.time_ns.len()).map(sum).max().unwrap();
        assert!(highest > 1 << 40, "the peak is kept");
        assert!(history.sites[0].site.as_deref() == Some("site 39"));
    }
}
