//! NCCL's and RCCL's debug log (`NCCL_DEBUG=INFO`): version, network, communicators, channels, transports, and with the
//! subsystems COLL and TUNING calls and the algorithms chosen for them. Names of machines and addresses are not kept.

use std::collections::HashMap;

use llmprof_units::Nanos;

use super::{ImportError, Importer, Profile, Source};
use crate::communication::{CallKey, CallSums, Communication, Communicator, Groups, message_bytes};
use crate::issue::{Issue, IssueCode};

/// The entry of this format.
pub(crate) const IMPORTER: Importer = Importer {
    name: "nccl_log",
    sniff,
    read: |source| {
        read(source).map(|communication| Profile::Communication(Box::new(communication)))
    },
};

const FORMAT: &str = "a debug log of NCCL";

/// What stands before the message of a line.
const MARKS: [&str; 2] = [" NCCL INFO ", " NCCL WARN "];

fn sniff(head: &[u8]) -> bool {
    let starts_as_text = head
        .iter()
        .take(64)
        .all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r'));
    let has = |text: &str| memchr::memmem::find(head, text.as_bytes()).is_some();
    starts_as_text && !head.starts_with(b"{") && MARKS.iter().any(|mark| has(mark))
}

/// Names of dtypes by NCCL's numbers (`ncclDataType_t`).
const DTYPES: [&str; 12] = [
    "int8",
    "uint8",
    "int32",
    "int32",
    "int64",
    "int64",
    "half",
    "float",
    "double",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
];
/// Algorithms and protocols by the numbers of older versions.
const ALGORITHMS: [&str; 7] = [
    "TREE",
    "RING",
    "COLLNET_DIRECT",
    "COLLNET_CHAIN",
    "NVLS",
    "NVLS_TREE",
    "PAT",
];
const PROTOCOLS: [&str; 3] = ["LL", "LL128", "SIMPLE"];
/// Different warnings that are kept.
const WARNINGS_MAX: usize = 20;

fn read(source: &Source) -> Result<Communication, ImportError> {
    let text = String::from_utf8_lossy(source.bytes());
    let mut log = NcclLog::default();
    for line in text.lines() {
        for mark in MARKS {
            if let Some((before, message)) = line.split_once(mark) {
                log.read(before, message.trim(), mark == MARKS[1]);
            }
        }
    }
    let mut communication = log.finish();
    if communication.is_empty() {
        return Err(source.unusable(
            FORMAT,
            "no line says anything of versions, communicators or collectives",
        ));
    }
    communication.issues.extend(source.issues().iter().cloned());
    Ok(communication)
}

#[derive(Default)]
struct NcclLog {
    communication: Communication,
    calls: CallSums,
    /// Algorithms that were chosen, by collective and bytes.
    tuned: CallSums,
    is_tuned: bool,
    /// Communicators by process and address, which later lines name.
    by_address: HashMap<(String, String), usize>,
    /// The communicator that each thread last set up.
    last: HashMap<String, usize>,
    all: Vec<Communicator>,
    warnings: HashMap<String, u64>,
}

impl NcclLog {
    fn read(&mut self, before: &str, message: &str, is_warning: bool) {
        if is_warning {
            let more = self.warnings.len() < WARNINGS_MAX;
            if more || self.warnings.contains_key(message) {
                *self.warnings.entry(message.to_owned()).or_default() += 1;
            }
            return;
        }
        // `host:process:thread [device]`: the process and the thread tell lines apart.
        let mut parts = before
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .rsplit(':');
        let (thread, process) = (
            parts.next().unwrap_or_default().to_owned(),
            parts.next().unwrap_or_default().to_owned(),
        );
        for (start, name) in [
            ("NCCL version ", "nccl"),
            ("RCCL version ", "rccl"),
            ("cudaDriverVersion ", "cuda_driver"),
            ("HIP version ", "hip"),
            ("Using network ", "network"),
        ] {
            if let Some(version) = message.strip_prefix(start) {
                let word = version.split_whitespace().next().unwrap_or_default();
                self.communication
                    .versions
                    .insert(name.to_owned(), word.to_owned());
            }
        }
        if let Some((_, rest)) = message.split_once(" via ")
            && message.starts_with("Channel ")
        {
            let way: Vec<&str> = rest.split('/').take(2).collect();
            *self
                .communication
                .transports
                .entry(way.join("/"))
                .or_default() += 1;
        }
        self.communicator(&process, &thread, message);
        self.call(&process, message);
    }

    fn communicator(&mut self, process: &str, thread: &str, message: &str) {
        if let Some((_, rest)) = message.split_once(" comm ")
            && message.contains("commId ")
        {
            let address = rest
                .split_whitespace()
                .next()
                .unwrap_or_default()
                .to_owned();
            let id = text_after(message, "commId ")
                .unwrap_or_default()
                .to_owned();
            let key = (process.to_owned(), address);
            let place = *self.by_address.entry(key).or_insert_with(|| {
                self.all.push(Communicator {
                    id,
                    ranks: number_after(message, "nranks ").unwrap_or(0),
                    seen: number_after(message, " rank ").into_iter().collect(),
                    ..Communicator::default()
                });
                self.all.len() - 1
            });
            self.last.insert(thread.to_owned(), place);
            return;
        }
        let named = text_after(message, "comm ").and_then(|address| {
            self.by_address
                .get(&(process.to_owned(), address.to_owned()))
        });
        let Some(&place) = named.or_else(|| self.last.get(thread)) else {
            return;
        };
        let communicator = &mut self.all[place];
        if let Some(nodes) = number_after(message, "nNodes ") {
            communicator.nodes = Some(nodes);
        }
        if message.contains(" coll channels") {
            let before = |what: &str| {
                message
                    .split(", ")
                    .find_map(|part| part.strip_suffix(what)?.trim().parse().ok())
            };
            communicator.channels = before("coll channels");
            communicator.nvls_channels = before("nvls channels");
            communicator.p2p_channels = before("p2p channels");
        }
        if message.starts_with("Init timings")
            && let Some(seconds) =
                text_after(message, "total ").and_then(|total| total.parse::<f64>().ok())
        {
            communicator.init_ns = Some(Nanos::from_seconds(seconds));
        }
    }

    /// `AllReduce: opCount 0 … count 1048576 datatype 7 … [nranks=8]`, `AllReduce: 8388608 Bytes -> Algo RING proto SIMPLE …`.
    fn call(&mut self, process: &str, message: &str) {
        let Some((collective, rest)) = message.split_once(": ") else {
            return;
        };
        if collective.is_empty() || !collective.chars().all(char::is_alphabetic) {
            return;
        }
        if let Some((bytes, chosen)) = rest.split_once(" Bytes -> Algo ") {
            self.is_tuned = true;
            let named = |text: Option<&str>, names: &[&str]| {
                let text = text?;
                let old = text
                    .parse::<usize>()
                    .ok()
                    .and_then(|number| names.get(number).copied());
                Some(old.unwrap_or(text).to_owned())
            };
            let key = CallKey {
                collective: collective.to_owned(),
                ranks: 0,
                bytes: bytes.trim().parse().ok(),
                algorithm: named(chosen.split_whitespace().next(), &ALGORITHMS),
                protocol: named(text_after(chosen, "proto "), &PROTOCOLS),
            };
            return self.tuned.add(key, None, None);
        }
        if !rest.starts_with("opCount ") {
            return;
        }
        let dtype = number_after(rest, "datatype ")
            .and_then(|code| DTYPES.get(usize::try_from(code).ok()?));
        let key = (
            process.to_owned(),
            text_after(rest, "comm ").unwrap_or_default().to_owned(),
        );
        let ranks =
            text_after(rest, "[nranks=").and_then(|text| text.trim_end_matches(']').parse().ok());
        let known = self
            .by_address
            .get(&key)
            .map(|&place| self.all[place].ranks);
        let key = CallKey {
            collective: collective.to_owned(),
            ranks: ranks.or(known).unwrap_or(0),
            bytes: dtype.and_then(|dtype| message_bytes(number_after(rest, "count "), dtype)),
            algorithm: None,
            protocol: None,
        };
        self.calls.add(key, None, None);
    }

    fn finish(mut self) -> Communication {
        let mut groups = Groups::default();
        for communicator in self.all {
            groups.add(communicator);
        }
        self.communication.communicators = groups.all();
        self.communication.collectives = self.calls.rows();
        if self.is_tuned {
            self.communication.collectives.extend(self.tuned.rows());
        }
        let mut warnings: Vec<(String, u64)> = self.warnings.into_iter().collect();
        warnings.sort();
        for (text, count) in warnings {
            self.communication.issues.push(
                Issue::warning(IssueCode::NcclWarned)
                    .with("text", text)
                    .counting(count),
            );
        }
        self.communication
    }
}

/// The word behind a mark.
fn text_after<'t>(text: &'t str, mark: &str) -> Option<&'t str> {
    text.split_once(mark)?.1.split_whitespace().next()
}

fn number_after(text: &str, mark: &str) -> Option<u64> {
    text_after(text, mark)?.trim_end_matches(',').parse().ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::import::Limits;

    fn parsed(text: &str) -> Communication {
        let source = Source::from_bytes(
            Path::new("log"),
            text.as_bytes().to_vec(),
            &Limits::default(),
        )
        .expect("bytes");
        assert!(sniff(source.head()));
        read(&source).expect("a log")
    }

    #[test]
    fn transports_and_chosen_algorithms() {
        let communication = parsed(
            "a:1:1 [0] NCCL INFO NCCL version 2.27.3+cuda12.9\n\
             a:1:1 [0] NCCL INFO ncclCommInitRank comm 0xa rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b commId 0x77 - Init START\n\
             a:2:2 [1] NCCL INFO ncclCommInitRank comm 0xb rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 2b commId 0x77 - Init START\n\
             a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n\
             a:2:2 [1] NCCL INFO Channel 01/0 : 1[1] -> 0[0] [send] via NET/IB/0/GDRDMA\n\
             a:1:1 [0] NCCL INFO AllReduce: 8388608 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15}\n\
             a:1:1 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo 0 proto 0 time 12.5\n\
             a:1:1 [0] NCCL INFO AllGather: opCount 5 sendbuff 0x1 recvbuff 0x2 count 1024 datatype 9 op 0 root 0 comm 0xa [nranks=2] stream 0x3\n\
             a:2:2 [1] NCCL WARN Connection refused\n\
             a:2:2 [1] NCCL WARN Connection refused\n",
        );
        assert_eq!(communication.versions["nccl"], "2.27.3+cuda12.9");
        let [group] = communication.communicators.as_slice() else {
            panic!("one group: {:?}", communication.communicators);
        };
        assert_eq!(
            (group.id.as_str(), group.ranks, group.seen.as_slice()),
            ("0x77", 2, &[0, 1][..])
        );
        let ways: Vec<(&str, u64)> = communication
            .transports
            .iter()
            .map(|(way, count)| (way.as_str(), *count))
            .collect();
        assert_eq!(ways, [("NET/IB", 1), ("P2P/CUMEM", 1)]);
        let row = |collective: &str, bytes: u64| {
            let rows = communication.collectives.iter();
            rows.filter(|row| row.collective == collective)
                .find(|row| row.bytes.is_some_and(|size| size.0 == bytes))
                .cloned()
                .expect("a row")
        };
        assert_eq!(
            row("AllReduce", 8_388_608).algorithm.as_deref(),
            Some("RING")
        );
        assert_eq!(row("AllReduce", 4096).protocol.as_deref(), Some("LL"));
        assert_eq!(
            (row("AllGather", 2048).ranks, row("AllGather", 2048).calls),
            (2, 1)
        );
        assert_eq!(
            communication
                .issues
                .iter()
                .map(|issue| issue.count)
                .sum::<u64>(),
            2
        );
    }
}
