//! What communication libraries say of themselves: NCCL's debug log, NCCL Inspector, torch's flight recorder.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use llmprof_units::{Bytes, BytesPerSecond, DType, Nanos, stats::median};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::issue::Issue;

/// What was read, of all ranks whose files were given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
pub struct Communication {
    /// Versions and choices by name: `nccl`, `cuda_driver`, `network`.
    pub versions: BTreeMap<String, String>,
    /// The groups of ranks that the library set up.
    pub communicators: Vec<Communicator>,
    /// Connections between ranks by how data goes: `P2P/CUMEM`, `NET/IB`.
    pub transports: BTreeMap<String, u64>,
    /// Calls by collective and size.
    pub collectives: Vec<CollectiveCalls>,
    /// Collectives that had not ended when the flight recorder wrote.
    pub pending: Vec<PendingCollective>,
    /// How far each rank had come in each group.
    pub progress: Vec<GroupProgress>,
    /// What was dropped or should not be trusted.
    pub issues: Vec<Issue>,
}

/// A group of ranks as the library set it up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
pub struct Communicator {
    /// The id that the library gives the communicator.
    pub id: String,
    /// Number of ranks in the communicator; 0 if unknown.
    pub ranks: u64,
    /// Number of machines that its ranks run on; absent if the log does not say.
    pub nodes: Option<u64>,
    /// Ranks whose files were read, sorted.
    pub seen: Vec<u64>,
    /// Channels for collectives; absent if the log does not say.
    pub channels: Option<u64>,
    /// Channels for NVLink SHARP (NVLS); absent if the log does not say.
    pub nvls_channels: Option<u64>,
    /// Channels for point-to-point transfers; absent if the log does not say.
    pub p2p_channels: Option<u64>,
    /// The longest of the ranks.
    pub init_ns: Option<Nanos>,
}

/// Calls of one collective with one message size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
pub struct CollectiveCalls {
    /// As the library writes it: `AllReduce`.
    pub collective: String,
    /// Number of ranks in its group.
    pub ranks: u64,
    /// The message of one rank.
    pub bytes: Option<Bytes>,
    /// The algorithm that the library chose, such as `RING`; absent if it was not logged.
    pub algorithm: Option<String>,
    /// The protocol that the library chose, such as `LL128`; absent if it was not logged.
    pub protocol: Option<String>,
    /// Number of calls with this collective and size.
    pub calls: u64,
    /// The median of the times that the library measured.
    pub median_ns: Option<Nanos>,
    /// The median of the bus bandwidths that the library computed.
    pub bus_bytes_per_s: Option<BytesPerSecond>,
}

/// A collective that some rank had begun or asked for, and not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
pub struct PendingCollective {
    /// The rank that has not ended it; absent if the dump does not say.
    pub rank: Option<u32>,
    /// Name of the process group.
    pub group: String,
    /// Number of the collective in its group.
    pub sequence: i64,
    /// The kind of collective as the tool wrote it: `all_reduce`.
    pub collective: String,
    /// How far it has come: `scheduled` or `started`.
    pub state: String,
    /// The innermost line of the program: `train.py:120 step`.
    pub source: Option<String>,
}

/// The last collective that a rank had asked for, begun and ended in a group; −1 for none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
pub struct GroupProgress {
    /// The rank; absent if the dump does not say.
    pub rank: Option<u32>,
    /// Name of the process group.
    pub group: String,
    /// Number of the last collective that was enqueued; −1 for none.
    pub enqueued: i64,
    /// Number of the last collective that started; −1 for none.
    pub started: i64,
    /// Number of the last collective that ended; −1 for none.
    pub completed: i64,
}

impl Communication {
    pub(crate) fn is_empty(&self) -> bool {
        self.versions.is_empty()
            && self.communicators.is_empty()
            && self.collectives.is_empty()
            && self.pending.is_empty()
            && self.progress.is_empty()
    }

    /// Adds what another file says.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.versions.extend(other.versions);
        let mut groups = Groups::default();
        for communicator in self.communicators.drain(..).chain(other.communicators) {
            groups.add(communicator);
        }
        self.communicators = groups.all();
        for (name, count) in other.transports {
            *self.transports.entry(name).or_default() += count;
        }
        // Ranks that say the same are one row.
        let text = |row: &CollectiveCalls| format!("{row:?}");
        let mut known: HashSet<String> = self.collectives.iter().map(text).collect();
        let new = other.collectives.into_iter();
        self.collectives
            .extend(new.filter(|row| known.insert(text(row))));
        self.pending.extend(other.pending);
        self.progress.extend(other.progress);
        self.issues.extend(other.issues);
    }
}

/// Communicators while they are read: ranks of one group say the same of it.
#[derive(Default)]
pub(crate) struct Groups {
    places: HashMap<String, usize>,
    all: Vec<Communicator>,
    /// The ranks of each that were seen.
    seen: Vec<BTreeSet<u64>>,
}

impl Groups {
    pub(crate) fn add(&mut self, mut communicator: Communicator) {
        let seen = std::mem::take(&mut communicator.seen);
        let place = *self
            .places
            .entry(communicator.id.clone())
            .or_insert(self.all.len());
        if place == self.all.len() {
            self.all.push(communicator);
            self.seen.push(seen.into_iter().collect());
            return;
        }
        self.seen[place].extend(seen);
        let known = &mut self.all[place];
        known.ranks = known.ranks.max(communicator.ranks);
        known.nodes = known.nodes.max(communicator.nodes);
        known.channels = known.channels.max(communicator.channels);
        known.nvls_channels = known.nvls_channels.max(communicator.nvls_channels);
        known.p2p_channels = known.p2p_channels.max(communicator.p2p_channels);
        known.init_ns = known.init_ns.max(communicator.init_ns);
    }

    /// In the order in which they were first seen.
    pub(crate) fn all(self) -> Vec<Communicator> {
        let with_ranks = |(mut group, seen): (Communicator, BTreeSet<u64>)| {
            group.seen = seen.into_iter().collect();
            group
        };
        self.all
            .into_iter()
            .zip(self.seen)
            .map(with_ranks)
            .collect()
    }
}

/// Collects calls, with what was measured of each.
#[derive(Default)]
pub(crate) struct CallSums(BTreeMap<CallKey, CallSum>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallKey {
    pub(crate) collective: String,
    pub(crate) ranks: u64,
    pub(crate) bytes: Option<u64>,
    pub(crate) algorithm: Option<String>,
    pub(crate) protocol: Option<String>,
}

#[derive(Default)]
struct CallSum {
    calls: u64,
    times: Vec<f64>,
    rates: Vec<f64>,
}

impl CallSums {
    pub(crate) fn add(&mut self, key: CallKey, time_ns: Option<f64>, bus_bytes_per_s: Option<f64>) {
        let sum = self.0.entry(key).or_default();
        sum.calls += 1;
        let is_number = |value: &f64| value.is_finite() && *value > 0.0;
        sum.times.extend(time_ns.filter(is_number));
        sum.rates.extend(bus_bytes_per_s.filter(is_number));
    }

    pub(crate) fn rows(self) -> Vec<CollectiveCalls> {
        let row = |(key, mut sum): (CallKey, CallSum)| CollectiveCalls {
            collective: key.collective,
            ranks: key.ranks,
            bytes: key.bytes.map(Bytes),
            algorithm: key.algorithm,
            protocol: key.protocol,
            calls: sum.calls,
            median_ns: median(&mut sum.times).map(|time| Nanos(time.round() as i64)),
            bus_bytes_per_s: median(&mut sum.rates).map(BytesPerSecond),
        };
        self.0.into_iter().map(row).collect()
    }
}

/// Bytes of so many elements of a dtype by any of its names.
pub(crate) fn message_bytes(elements: Option<u64>, dtype: &str) -> Option<u64> {
    dtype.parse::<DType>().ok()?.bytes_for(elements?)
}
