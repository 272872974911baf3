//! What idle time was for.

use std::collections::BTreeMap;

use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::row_order::sort_descending_named;
use crate::timeline::idle::IdleCauses;
use crate::timeline::intervals::add_saturating;

/// Something with a name that the host did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostInterval {
    pub(crate) name: String,
    pub(crate) start_ns: Nanos,
    pub(crate) end_ns: Nanos,
}

/// A part of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct NamedTime {
    /// The code of a cause or reason, or the name that a recorder gave.
    pub name: String,
    /// Time of the part in ns.
    pub time_ns: Nanos,
    /// In how many pieces; of causes of a device's idle time, in how many intervals of the phase.
    pub count: u64,
}

/// Idle time in which the host recorded nothing.
pub const UNRECORDED: &str = "unrecorded";
/// Idle time in which the host was inside a call that waits for the device.
pub const HOST_SYNC: &str = "host_sync";
/// Idle time whose cause the trace does not show.
pub const UNKNOWN: &str = "unknown";
/// Idle time in which the host worked before it launched what came next.
pub const HOST_BUSY: &str = "host_busy";
/// Idle time between a launch call and the start on the device, as far as launching takes it.
pub const LAUNCH_LATENCY: &str = "launch_latency";
/// Idle time inside a launch call that took longer than launching does.
pub const LAUNCH_CALL: &str = "launch_call";
/// Idle time with work queued that the device did not start, longer than launching takes.
pub const NOT_STARTED: &str = "queued_not_started";

/// Idle time in which the program waited for its DataLoader.
pub const DATA_LOADING: &str = "data_loading";

/// Idle time between kernels of which the later one was launched before the earlier one had ended.
pub const QUEUED_GAP: &str = "inter_kernel_gap";

/// Splits gaps by what the host did in them: each moment belongs to the first interval that covers it.
pub(crate) struct IdleSplit<'a> {
    host: &'a [HostInterval],
    next: usize,
    parts: BTreeMap<&'a str, (i64, u64)>,
}

impl<'a> IdleSplit<'a> {
    pub(crate) fn new(host: &'a [HostInterval]) -> Self {
        Self {
            host,
            next: 0,
            parts: BTreeMap::new(),
        }
    }

    pub(crate) fn add_gap(&mut self, start: Nanos, end: Nanos) {
        let mut at = start;
        while self
            .host
            .get(self.next)
            .is_some_and(|host| host.end_ns <= start)
        {
            self.next += 1;
        }
        for host in &self.host[self.next..] {
            if host.start_ns >= end || at >= end {
                break;
            }
            let (from, to) = (host.start_ns.max(at), host.end_ns.min(end));
            if from < to {
                self.add_time(UNRECORDED, at, from);
                self.add_time(&host.name, from, to);
                at = to;
            }
        }
        self.add_time(UNRECORDED, at, end);
    }

    fn add_time(&mut self, name: &'a str, from: Nanos, to: Nanos) {
        if from < to {
            let part = self.parts.entry(name).or_default();
            add_saturating(&mut part.0, to.0.saturating_sub(from.0));
            part.1 += 1;
        }
    }

    pub(crate) fn into_parts(self) -> Vec<NamedTime> {
        let mut parts: Vec<NamedTime> = self
            .parts
            .into_iter()
            .map(|(name, (time, count))| NamedTime {
                name: name.to_owned(),
                time_ns: Nanos(time),
                count,
            })
            .collect();
        sort_longest_first(&mut parts);
        parts
    }
}

pub(crate) fn sort_longest_first(parts: &mut [NamedTime]) {
    sort_descending_named(parts, |part| (part.time_ns.0, &part.name));
}

pub(crate) fn merge_parts(parts: &mut Vec<NamedTime>, more: &[NamedTime]) {
    for part in more {
        match parts.iter_mut().find(|known| known.name == part.name) {
            Some(known) => {
                add_saturating(&mut known.time_ns.0, part.time_ns.0);
                known.count += part.count;
            }
            None => parts.push(part.clone()),
        }
    }
    sort_longest_first(parts);
}

/// The causes of a device's idle time as parts that sum to `idle`; what they leave is unrecorded.
pub(crate) fn from_causes(causes: &IdleCauses, idle: Nanos) -> Vec<NamedTime> {
    let mut rest = idle;
    let mut parts = Vec::new();
    for (name, time) in [
        (HOST_SYNC, causes.host_sync_ns),
        (HOST_BUSY, causes.host_busy_ns),
        (LAUNCH_LATENCY, causes.launch_latency_ns),
        (LAUNCH_CALL, causes.launch_call_ns),
        (QUEUED_GAP, causes.queued_gap_ns),
        (NOT_STARTED, causes.not_started_ns),
        (DATA_LOADING, causes.data_loading_ns),
        (UNKNOWN, causes.unknown_ns),
        (UNRECORDED, Nanos(i64::MAX)),
    ] {
        let time = time.clamp(Nanos(0), rest.max(Nanos(0)));
        rest -= time;
        if time > Nanos(0) {
            parts.push(NamedTime {
                name: name.to_owned(),
                time_ns: time,
                count: 1,
            });
        }
    }
    sort_longest_first(&mut parts);
    parts
}
