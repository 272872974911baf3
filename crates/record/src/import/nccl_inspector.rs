//! NCCL Inspector's and RCCL Inspector's JSON: one object per operation, one after the other.

use serde::Deserialize;

use super::{ImportError, Importer, Profile, Source};
use crate::communication::{CallKey, CallSums, Communication, Communicator, Groups};
use crate::issue::{Issue, IssueCode};

/// The entry of this format.
pub(crate) const IMPORTER: Importer = Importer {
    name: "nccl_inspector",
    sniff,
    read: |source| {
        read(source).map(|communication| Profile::Communication(Box::new(communication)))
    },
};

const FORMAT: &str = "output of NCCL Inspector";

fn sniff(head: &[u8]) -> bool {
    let head = head.trim_ascii_start();
    let has = |text: &[u8]| memchr::memmem::find(head, text).is_some();
    head.starts_with(b"{")
        && (has(b"\"coll_perf\"")
            || has(b"\"p2p_perf\"")
            || has(b"inspector_output_format_version"))
}

#[derive(Deserialize)]
struct InspectorEntry {
    header: Option<InspectorHeader>,
    metadata: Option<InspectorMetadata>,
    // Older versions have the header's fields at the top.
    #[serde(flatten)]
    top: InspectorHeader,
    coll_perf: Option<Perf>,
    p2p_perf: Option<Perf>,
    dump_stats: Option<DumpStats>,
}

#[derive(Clone, Default, Deserialize)]
struct InspectorHeader {
    #[serde(default)]
    id: String,
    rank: Option<u64>,
    n_ranks: Option<u64>,
    nnodes: Option<u64>,
}

#[derive(Deserialize)]
struct InspectorMetadata {
    inspector_output_format_version: Option<String>,
}

#[derive(Deserialize)]
struct Perf {
    #[serde(alias = "coll", alias = "p2p", default)]
    name: String,
    #[serde(alias = "coll_msg_size_bytes", alias = "p2p_msg_size_bytes")]
    bytes: Option<u64>,
    #[serde(alias = "coll_exec_time_us", alias = "p2p_exec_time_us")]
    time_us: Option<f64>,
    #[serde(alias = "coll_busbw_gbs", alias = "p2p_busbw_gbs")]
    busbw_gbs: Option<f64>,
    #[serde(alias = "coll_algo")]
    algo: Option<String>,
    #[serde(alias = "coll_proto")]
    proto: Option<String>,
}

#[derive(Deserialize)]
struct DumpStats {
    #[serde(default)]
    dropped_total: u64,
}

fn read(source: &Source) -> Result<Communication, ImportError> {
    let mut communication = Communication::default();
    let mut calls = CallSums::default();
    let mut groups = Groups::default();
    let mut dropped = 0;
    let mut broken = None;
    let mut entries =
        serde_json::Deserializer::from_slice(source.bytes()).into_iter::<InspectorEntry>();
    loop {
        let at = entries.byte_offset();
        match entries.next() {
            None => break,
            Some(Ok(entry)) => {
                let header = entry.header.unwrap_or(entry.top);
                if let Some(version) = entry
                    .metadata
                    .and_then(|metadata| metadata.inspector_output_format_version)
                {
                    communication
                        .versions
                        .insert("nccl_inspector".to_owned(), version);
                }
                dropped = entry
                    .dump_stats
                    .map_or(dropped, |stats| stats.dropped_total.max(dropped));
                if !header.id.is_empty() {
                    groups.add(Communicator {
                        id: header.id.clone(),
                        ranks: header.n_ranks.unwrap_or(0),
                        nodes: header.nnodes,
                        seen: header.rank.into_iter().collect(),
                        ..Communicator::default()
                    });
                }
                for perf in entry.coll_perf.into_iter().chain(entry.p2p_perf) {
                    let key = CallKey {
                        collective: perf.name,
                        ranks: header.n_ranks.unwrap_or(0),
                        bytes: perf.bytes,
                        algorithm: perf.algo,
                        protocol: perf.proto,
                    };
                    calls.add(
                        key,
                        perf.time_us.map(|time| time * 1e3),
                        perf.busbw_gbs.map(|rate| rate * 1e9),
                    );
                }
            }
            Some(Err(_)) => {
                broken = Some(at);
                break;
            }
        }
    }
    communication.communicators = groups.all();
    communication.collectives = calls.rows();
    if communication.collectives.is_empty() {
        return Err(source.unusable(FORMAT, "it has no operation"));
    }
    if let Some(at) = broken {
        communication
            .issues
            .push(Issue::warning(IssueCode::NcclInspectorTruncated).with("byte", at));
    }
    if dropped > 0 {
        communication
            .issues
            .push(Issue::warning(IssueCode::NcclInspectorDropped).counting(dropped));
    }
    communication.issues.extend(source.issues().iter().cloned());
    Ok(communication)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::import::Limits;

    #[test]
    fn operations_of_two_layouts() {
        let text = r#"{"header":{"id":"0x7f","rank":2,"n_ranks":8,"nnodes":1},"metadata":{"inspector_output_format_version":"v4.0"},
"coll_perf":{"coll":"AllReduce","coll_sn":1407,"coll_msg_size_bytes":1048576,"coll_exec_time_us":50,"coll_algobw_gbs":20.9,"coll_busbw_gbs":36.7}}
{"id":"0x7f","rank":3,"n_ranks":8,"coll_perf":{"coll":"AllReduce","coll_sn":1408,"coll_msg_size_bytes":1048576,"coll_exec_time_us":60,"coll_busbw_gbs":30.0}}
{"header":{"id":"0x7f","rank":2,"n_ranks":8,"nnodes":1},"dump_stats":{"dropped_total":4}}
{"header":{"id":"0x7f","ra"#;
        let source =
            Source::from_bytes(Path::new("x"), text.as_bytes().to_vec(), &Limits::default())
                .expect("bytes");
        assert!(sniff(source.head()));
        let communication = read(&source).expect("operations");
        let [row] = communication.collectives.as_slice() else {
            panic!("{:?}", communication.collectives);
        };
        assert_eq!(
            (row.calls, row.ranks, row.median_ns.map(|time| time.0)),
            (2, 8, Some(55_000))
        );
        assert_eq!(communication.communicators[0].seen, [2, 3]);
        let codes: Vec<&str> = communication
            .issues
            .iter()
            .map(|issue| issue.code.as_str())
            .collect();
        assert_eq!(
            codes,
            ["nccl_inspector.truncated", "nccl_inspector.dropped"]
        );
    }
}
