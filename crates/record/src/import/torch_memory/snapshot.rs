//! The dictionaries of a snapshot, read into types.

use llmprof_units::{Bytes, Nanos};
use rustc_hash::FxHashMap;

use super::{
    frames::Sites,
    pickle::{Heap, Value},
};
use crate::{
    issue::{Issue, IssueCode, Severity},
    memory::{
        AllocatorAction, AllocatorEvent, DeviceMemory, MemoryHistory, MemoryState, replay_events,
    },
};

/// Reads the root of a snapshot; `None` where it is none.
pub(super) fn read(heap: &Heap<'_>, root: Value) -> Option<MemoryHistory> {
    let mut losses = SnapshotLosses::default();
    let mut states: FxHashMap<i64, MemoryState> = FxHashMap::default();
    for &segment in heap.items(heap.get(root, "segments")?)? {
        if heap.is_spent() {
            break;
        }
        match read_segment(heap, segment) {
            Some((device, state)) => add_state(states.entry(device).or_default(), &state),
            None => losses.segments += 1,
        }
    }
    let mut sites = Sites::default();
    let traces = heap
        .get(root, "device_traces")
        .and_then(|traces| heap.items(traces));
    let mut events: FxHashMap<i64, Vec<AllocatorEvent>> = FxHashMap::default();
    for (device, &trace) in traces.unwrap_or_default().iter().enumerate() {
        let list = events.entry(device as i64).or_default();
        for &entry in heap.items(trace).unwrap_or_default() {
            if heap.is_spent() {
                break;
            }
            match read_event(heap, entry, &mut sites, &mut losses) {
                Some(event) => list.push(event),
                None => losses.events += 1,
            }
        }
        events.retain(|_, list| !list.is_empty());
    }
    // Where times are missing, only the order is known.
    if losses.times > 0 {
        for event in events
            .values_mut()
            .flat_map(|list| list.iter_mut().enumerate())
        {
            event.1.time_ns = Nanos(event.0 as i64);
        }
    }
    let sites = sites.into_names();
    let mut numbers: Vec<i64> = states.keys().chain(events.keys()).copied().collect();
    numbers.sort_unstable();
    numbers.dedup();
    let devices = numbers
        .into_iter()
        .map(|device| {
            let now = states.get(&device).copied().unwrap_or_default();
            let events = events.get(&device).map(Vec::as_slice).unwrap_or_default();
            let history = replay_events(events, &now, &sites).map(|(history, below_zero)| {
                losses.below_zero += below_zero;
                history
            });
            DeviceMemory {
                device,
                now,
                history,
            }
        })
        .collect();
    Some(MemoryHistory {
        devices,
        issues: losses.issues(),
    })
}

/// Entries of a snapshot that were dropped, counted by reason.
#[derive(Debug, Default)]
struct SnapshotLosses {
    segments: u64,
    events: u64,
    actions: u64,
    times: u64,
    below_zero: u64,
}

impl SnapshotLosses {
    fn issues(&self) -> Vec<Issue> {
        let entries = [
            (
                self.segments,
                Severity::Error,
                IssueCode::TorchMemorySegments,
            ),
            (self.events, Severity::Error, IssueCode::TorchMemoryEvents),
            (
                self.actions,
                Severity::Warning,
                IssueCode::TorchMemoryActions,
            ),
            (self.times, Severity::Warning, IssueCode::TorchMemoryNoTimes),
            (
                self.below_zero,
                Severity::Error,
                IssueCode::TorchMemoryBelowZero,
            ),
        ];
        entries
            .into_iter()
            .filter(|(count, ..)| *count > 0)
            .map(|(count, severity, code)| Issue::coded(severity, code).counting(count))
            .collect()
    }
}

fn integer_entry(heap: &Heap<'_>, dict: Value, name: &str) -> Option<i64> {
    match heap.get(dict, name)? {
        Value::Int(number) => Some(number),
        _ => None,
    }
}

fn size_entry(heap: &Heap<'_>, dict: Value, name: &str) -> Option<u64> {
    integer_entry(heap, dict, name).and_then(|number| u64::try_from(number).ok())
}

fn read_segment(heap: &Heap<'_>, segment: Value) -> Option<(i64, MemoryState)> {
    let blocks = heap.items(heap.get(segment, "blocks")?)?;
    let mut state = MemoryState {
        segments: 1,
        reserved_bytes: Bytes(size_entry(heap, segment, "total_size")?),
        allocated_bytes: Bytes(size_entry(heap, segment, "allocated_size")?),
        active_bytes: Bytes(size_entry(heap, segment, "active_size")?),
        // Torch before 2.1 does not tell requests from blocks.
        requested_bytes: Bytes(
            size_entry(heap, segment, "requested_size")
                .or_else(|| size_entry(heap, segment, "allocated_size"))?,
        ),
        ..MemoryState::default()
    };
    for &block in blocks {
        let bytes = Bytes(size_entry(heap, block, "size")?);
        if heap.text(heap.get(block, "state")?)? != "inactive" {
            continue;
        }
        state.largest_free_bytes = state.largest_free_bytes.max(bytes);
        // A segment that is one free block could be returned; beside other blocks it cannot.
        if blocks.len() > 1 {
            state.inactive_split_bytes.0 = state.inactive_split_bytes.0.saturating_add(bytes.0);
        }
    }
    Some((integer_entry(heap, segment, "device")?, state))
}

fn add_state(sum: &mut MemoryState, one: &MemoryState) {
    let bytes = |sum: &mut Bytes, one: Bytes| sum.0 = sum.0.saturating_add(one.0);
    sum.segments += one.segments;
    bytes(&mut sum.reserved_bytes, one.reserved_bytes);
    bytes(&mut sum.allocated_bytes, one.allocated_bytes);
    bytes(&mut sum.active_bytes, one.active_bytes);
    bytes(&mut sum.requested_bytes, one.requested_bytes);
    bytes(&mut sum.inactive_split_bytes, one.inactive_split_bytes);
    sum.largest_free_bytes = sum.largest_free_bytes.max(one.largest_free_bytes);
}

fn read_event(
    heap: &Heap<'_>,
    entry: Value,
    sites: &mut Sites,
    losses: &mut SnapshotLosses,
) -> Option<AllocatorEvent> {
    let action = match heap.text(heap.get(entry, "action")?)? {
        "alloc" => AllocatorAction::Allocate,
        // A block counts as free when the program gives it up (`free_requested`), as in torch's `allocated_bytes`;
        // streams may still use it until `free_completed`.
        "free_requested" | "free" => AllocatorAction::Free,
        "segment_alloc" | "segment_map" => AllocatorAction::Reserve,
        "segment_free" | "segment_unmap" => AllocatorAction::Release,
        "oom" => AllocatorAction::OutOfMemory(size_entry(heap, entry, "device_free").map(Bytes)),
        "free_completed" | "snapshot" => AllocatorAction::Other,
        _ => {
            losses.actions += 1;
            AllocatorAction::Other
        }
    };
    let time = integer_entry(heap, entry, "time_us").and_then(|time| time.checked_mul(1000));
    losses.times += u64::from(time.is_none());
    let needs_address = matches!(action, AllocatorAction::Allocate | AllocatorAction::Free);
    let address = integer_entry(heap, entry, "addr").map(i64::cast_unsigned);
    if needs_address && address.is_none() {
        return None;
    }
    let site = match action {
        AllocatorAction::Allocate => heap
            .get(entry, "frames")
            .and_then(|stack| sites.of(heap, stack)),
        _ => None,
    };
    Some(AllocatorEvent {
        action,
        address: address.unwrap_or_default(),
        bytes: if action == AllocatorAction::Other {
            Bytes(0)
        } else {
            Bytes(size_entry(heap, entry, "size")?)
        },
        time_ns: Nanos(time.unwrap_or_default()),
        site,
    })
}
