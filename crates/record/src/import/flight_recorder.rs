//! Dumps of torch's flight recorder (`torch._C._distributed_c10d._dump_nccl_trace`, `TORCH_FR_DUMP_TEMP_FILE`): a pickle of plain
//! data. The rank is not in it; the name of the file has it.

use std::collections::HashMap;

use super::torch_memory::pickle::{self, Heap, Value};
use super::{ImportError, Importer, Profile, Source};
use crate::communication::{
    CallKey, CallSums, Communication, GroupProgress, PendingCollective, message_bytes,
};

/// The entry of this format.
pub(crate) const IMPORTER: Importer = Importer {
    name: "flight_recorder",
    sniff,
    read: |source| {
        read(source).map(|communication| Profile::Communication(Box::new(communication)))
    },
};

const FORMAT: &str = "a dump of torch's flight recorder";

/// A dictionary with the recorder's keys, in any protocol.
fn sniff(head: &[u8]) -> bool {
    let is_pickle = match head {
        [0x80, protocol, ..] => *protocol <= 5,
        [b'(', b'd', ..] | [b'}', ..] => true,
        _ => false,
    };
    let has = |text: &[u8]| memchr::memmem::find(head, text).is_some();
    is_pickle && has(b"pg_config") && has(b"version")
}

fn read(source: &Source) -> Result<Communication, ImportError> {
    let pickle = pickle::load(source.bytes(), &pickle::Limits::default())
        .map_err(|error| source.unusable(FORMAT, error.to_string()))?;
    let (heap, root) = (&pickle.heap, pickle.root);
    let mut communication = Communication::default();
    let text = |dict: Value, name: &str| {
        heap.get(dict, name)
            .and_then(|value| heap.text(value))
            .unwrap_or_default()
    };
    for (key, name) in [
        ("version", "flight_recorder"),
        ("nccl_version", "nccl"),
        ("comm_lib_version", "nccl"),
    ] {
        let version = text(root, key);
        if !version.is_empty() {
            communication
                .versions
                .insert(name.to_owned(), version.to_owned());
        }
    }
    let groups = group_sizes(heap, root);
    let status = heap
        .get(root, "pg_status")
        .and_then(|status| heap.pairs(status));
    for &(key, value) in status.unwrap_or_default() {
        let last = |name: &str| integer_entry(heap, value, name).unwrap_or(-1);
        communication.progress.push(GroupProgress {
            rank: None,
            group: heap.text(key).unwrap_or_default().to_owned(),
            enqueued: last("last_enqueued_collective"),
            started: last("last_started_collective"),
            completed: last("last_completed_collective"),
        });
    }
    let mut calls = CallSums::default();
    let entries = heap
        .get(root, "entries")
        .and_then(|entries| heap.items(entries));
    for &entry in entries.unwrap_or_default() {
        if heap.is_spent() {
            break;
        }
        let name = text(entry, "profiling_name");
        let collective = name
            .split_once(':')
            .map_or(name, |(_, collective)| collective)
            .to_owned();
        let group = group_of(heap, entry);
        let key = CallKey {
            collective: collective.clone(),
            ranks: groups.get(&group).copied().unwrap_or(0),
            bytes: input_bytes(heap, entry),
            algorithm: None,
            protocol: None,
        };
        calls.add(key, milliseconds_entry(heap, entry), None);
        let state = text(entry, "state");
        let is_over = matches!(heap.get(entry, "retired"), Some(Value::Bool(true)));
        if !is_over && state != "completed" {
            communication.pending.push(PendingCollective {
                rank: None,
                group,
                sequence: integer_entry(heap, entry, "collective_seq_id")
                    .or_else(|| integer_entry(heap, entry, "seq_id"))
                    .unwrap_or(-1),
                collective,
                state: state.to_owned(),
                source: source_line(heap, entry),
            });
        }
    }
    if heap.is_spent() {
        return Err(source.unusable(
            FORMAT,
            "it names the same values so often that reading it takes too long",
        ));
    }
    communication.collectives = calls.rows();
    communication.issues.extend(source.issues().iter().cloned());
    if communication.versions.is_empty() && communication.is_empty() {
        return Err(source.unusable(FORMAT, "it has no version and no entry"));
    }
    Ok(communication)
}

fn integer_entry(heap: &Heap<'_>, dict: Value, name: &str) -> Option<i64> {
    match heap.get(dict, name)? {
        Value::Int(number) => Some(number),
        _ => None,
    }
}

fn milliseconds_entry(heap: &Heap<'_>, entry: Value) -> Option<f64> {
    match heap.get(entry, "duration_ms")? {
        Value::Float(time) => Some(time * 1e6),
        Value::Int(time) => Some(time as f64 * 1e6),
        _ => None,
    }
}

/// The name of the group of an entry: the first of a pair with its description.
fn group_of(heap: &Heap<'_>, entry: Value) -> String {
    let pair = heap
        .get(entry, "process_group")
        .and_then(|pair| heap.items(pair));
    let name = pair.and_then(|pair| heap.text(*pair.first()?));
    let number = || integer_entry(heap, entry, "pg_id").map(|number| number.to_string());
    name.map(str::to_owned).or_else(number).unwrap_or_default()
}

/// Groups with how many ranks they have: `ranks` is a text such as `[0, 1]`.
fn group_sizes(heap: &Heap<'_>, root: Value) -> HashMap<String, u64> {
    let groups = heap
        .get(root, "pg_config")
        .and_then(|groups| heap.pairs(groups));
    let size = |&(key, value): &(Value, Value)| {
        let ranks = heap.text(heap.get(value, "ranks")?)?;
        let inside = ranks.trim_matches(['[', ']']).trim();
        let count = if inside.is_empty() {
            0
        } else {
            inside.split(',').count()
        };
        Some((heap.text(key)?.to_owned(), count as u64))
    };
    groups.unwrap_or_default().iter().filter_map(size).collect()
}

/// Bytes of all inputs of an entry.
fn input_bytes(heap: &Heap<'_>, entry: Value) -> Option<u64> {
    let sizes = heap.items(heap.get(entry, "input_sizes")?)?;
    let dtypes = heap
        .get(entry, "input_dtypes")
        .and_then(|dtypes| heap.items(dtypes))
        .unwrap_or_default();
    let mut all = 0_u64;
    for (number, &dims) in sizes.iter().enumerate() {
        if !heap.spend(1) {
            return None;
        }
        let mut elements = 1_u64;
        for &dim in heap.items(dims)? {
            let Value::Int(dim) = dim else { return None };
            elements = elements.checked_mul(u64::try_from(dim).ok()?)?;
        }
        let dtype = dtypes
            .get(number)
            .or(dtypes.first())
            .and_then(|dtype| heap.text(*dtype))?;
        all = all.checked_add(message_bytes(Some(elements), dtype)?)?;
    }
    (!sizes.is_empty()).then_some(all)
}

/// The innermost frame that is not of torch, by the last part of its path: directories name users.
fn source_line(heap: &Heap<'_>, entry: Value) -> Option<String> {
    let frames = heap.items(heap.get(entry, "frames")?)?;
    let mut frames = frames.iter().take_while(|_| heap.spend(1));
    frames.find_map(|&frame| {
        let file = heap.text(heap.get(frame, "filename")?)?;
        if file.contains("/torch/") || file.starts_with('<') {
            return None;
        }
        let name = heap.text(heap.get(frame, "name")?)?;
        let file = file.rsplit('/').next().unwrap_or(file);
        Some(format!(
            "{file}:{} {name}",
            integer_entry(heap, frame, "line").unwrap_or(0)
        ))
    })
}
