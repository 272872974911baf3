//! The Perfetto trace, read back by a decoder that knows the format and not the writer.

use std::collections::{BTreeMap, BTreeSet};

use crate::{sample, site};

/// Fields of a message: number, and its value or bytes.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => {
                let (value, rest) = bytes.split_at(8);
                bytes = rest;
                Field::Number(u64::from_le_bytes(value.try_into().unwrap()))
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(value)
            }
            wire => panic!("wire type {wire}"),
        };
        fields.push((key >> 3, field));
    }
    fields
}

fn number(fields: &[(u64, Field<'_>)], wanted: u64) -> Option<u64> {
    fields.iter().find_map(|(field, value)| match value {
        Field::Number(value) if *field == wanted => Some(*value),
        _ => None,
    })
}

fn bytes<'a>(fields: &[(u64, Field<'a>)], wanted: u64) -> Option<&'a [u8]> {
    fields.iter().find_map(|(field, value)| match value {
        Field::Bytes(value) if *field == wanted => Some(*value),
        _ => None,
    })
}

#[test]
fn slices_nest_and_flows_join_calls_with_kernels() {
    let site = site();
    let run = &site.runs[0];
    let mut trace = Vec::new();
    run.timeline.write_pftrace(&run.record, &mut trace).unwrap();
    let mut tracks: BTreeMap<u64, String> = BTreeMap::new();
    let mut ranks: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut ordered = BTreeSet::new();
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    let mut open: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    let mut slices: Vec<(String, String, u64, u64)> = Vec::new();
    let mut flows: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    let mut counters = 0;
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    for (field, packet) in fields(&trace) {
        let Field::Bytes(packet) = packet else {
            panic!("packets are messages")
        };
        assert_eq!(field, 1);
        let packet = fields(packet);
        assert_eq!(number(&packet, 10), Some(1), "a sequence");
        if let Some(descriptor) = bytes(&packet, 60) {
            let descriptor = fields(descriptor);
            let name = String::from_utf8(bytes(&descriptor, 2).unwrap().to_vec()).unwrap();
            let track = number(&descriptor, 1).unwrap();
            if number(&descriptor, 11) == Some(3) {
                ordered.insert(track);
            }
            if let Some(parent) = number(&descriptor, 5) {
                assert!(ordered.contains(&parent), "{name} has its place by rank");
                let rank = number(&descriptor, 12).unwrap();
                ranks.entry(parent).or_default().push(rank);
            }
            tracks.insert(track, name);
            continue;
        }
        if let Some(interned) = bytes(&packet, 12) {
            let name = fields(bytes(&fields(interned), 2).unwrap());
            let text = String::from_utf8(bytes(&name, 2).unwrap().to_vec()).unwrap();
            names.insert(number(&name, 1).unwrap(), text);
        }
        let time = number(&packet, 8).unwrap();
        let event = fields(bytes(&packet, 11).unwrap());
        let track = number(&event, 11).unwrap();
        assert!(tracks.contains_key(&track), "described before it is used");
        assert!(
            *last.get(&track).unwrap_or(&0) <= time,
            "in the order of time"
        );
        last.insert(track, time);
        match number(&event, 9).unwrap() {
            1 => {
                let name = number(&event, 10).unwrap();
                open.entry(track).or_default().push((name, time));
                if let Some(flow) = number(&event, 47) {
                    flows.entry(flow).or_default().insert(names[&name].clone());
                }
            }
            2 => {
                let (name, start) = open.get_mut(&track).unwrap().pop().unwrap();
                slices.push((tracks[&track].clone(), names[&name].clone(), start, time));
            }
            4 => counters += 1,
            kind => panic!("event type {kind}"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "all that begins ends");
    assert_eq!(tracks[&1], "llmprof");
    assert!(ranks[&1].len() > 1 && ranks.values().all(|ranks| ranks.is_sorted()));
    let stream: Vec<_> = slices
        .iter()
        .filter(|slice| slice.0 == "stream 7")
        .collect();
    assert_eq!(stream.len(), 400);
    let busy: u64 = stream.iter().map(|slice| slice.3 - slice.2).sum();
    assert_eq!(
        busy as i64,
        sample::STEPS * (sample::GEMM_NS + sample::ELEMENTWISE_NS)
    );
    assert_eq!(
        slices.iter().filter(|slice| slice.0 == "GPU idle").count(),
        399
    );
    assert!(slices.iter().any(|slice| slice.1 == sample::HOSTILE));
    assert_eq!(counters, sample::STEPS);
    assert_eq!(flows.len(), 400);
    assert!(
        flows
            .values()
            .all(|ends| ends.len() == 2 && ends.contains("cudaLaunchKernel"))
    );
}
