//! Files of operator calls that llmprof's own engine writes, one per batch.
//!
//! Little-endian: the line `LPOPS2`, the length of a JSON [`EngineHeader`] and the header, the number of calls, and a record of
//! 40 bytes for each: operator, experts touched, groups, m, n, k (`u32` each), start and end (`u64` each, ns of the
//! monotonic clock).

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{ImportError, Importer, Limits, Profile, Source};
use crate::issue::{Issue, IssueCode};
use crate::trace::{
    Host, HostKind, OperatorCall, Range, RangeKind, RawInputs, Trace, TraceBuilder,
};

/// The name of the format in the worker protocol.
pub const FORMAT: &str = "llmprof_engine";

const MAGIC: &[u8; 7] = b"LPOPS2\n";
const RECORD_BYTES: usize = 6 * 4 + 2 * 8;

pub(crate) const IMPORTER: Importer = Importer {
    name: FORMAT,
    sniff: |head| head.starts_with(MAGIC),
    read: |source| {
        let trace = read_sources(std::slice::from_ref(source))?;
        Ok(Profile::Trace(Box::new(trace)))
    },
};

/// What a file says before its calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineHeader {
    /// Calls name their operator by its index here.
    pub operators: Vec<OperatorInfo>,
    /// Phases, and what the engine did between operators (`sampling`).
    pub ranges: Vec<NamedRange>,
    /// Calls that found no room in the recorder.
    pub dropped: u64,
}

/// What an operator of the loaded model is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorInfo {
    /// As theory prints it: `model.layers.3.self_attn.q_proj`.
    pub path: String,
    pub kind: String,
    pub dtype: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedRange {
    pub name: String,
    pub start_ns: u64,
    pub end_ns: u64,
}

/// One call as it stands in the file: operator, experts touched, groups, m, n, k; start and end.
pub type RawCall = ([u32; 6], [u64; 2]);

/// Writes a header and the calls of one batch.
pub fn write(
    output: &mut impl Write,
    header: &EngineHeader,
    calls: impl ExactSizeIterator<Item = RawCall>,
) -> io::Result<()> {
    let header = serde_json::to_vec(header)?;
    let mut output = BufWriter::new(output);
    output.write_all(MAGIC)?;
    output.write_all(&(header.len() as u64).to_le_bytes())?;
    output.write_all(&header)?;
    output.write_all(&(calls.len() as u64).to_le_bytes())?;
    for (words, times) in calls {
        for word in words {
            output.write_all(&word.to_le_bytes())?;
        }
        for time in times {
            output.write_all(&time.to_le_bytes())?;
        }
    }
    output.flush()
}

/// Reads the batches of one pass into one trace.
pub fn read_files(paths: &[PathBuf], limits: &Limits) -> Result<Trace, ImportError> {
    let sources: Result<Vec<Source>, ImportError> = paths
        .iter()
        .map(|path| Source::open(path, limits))
        .collect();
    read_sources(&sources?)
}

fn read_sources(sources: &[Source]) -> Result<Trace, ImportError> {
    let mut builder = TraceBuilder::default();
    let metadata = &mut builder.metadata;
    metadata.insert("tool".to_owned(), "llmprof's engine".to_owned());
    for source in sources {
        builder.issues.extend_from_slice(source.issues());
        read_batch(source, &mut builder)?;
    }
    builder.events_read = (builder.hosts.len() + builder.ranges.len()) as u64;
    Ok(builder.finish())
}

fn read_batch(source: &Source, builder: &mut TraceBuilder) -> Result<(), ImportError> {
    let unusable = |what: String| source.unusable("operator calls of llmprof's engine", what);
    let mut rest = source
        .bytes()
        .strip_prefix(MAGIC)
        .ok_or_else(|| unusable("its first line is another".to_owned()))?;
    let length = read_word(&mut rest).and_then(|length| usize::try_from(length).ok());
    let header = length
        .and_then(|length| rest.split_off(..length))
        .ok_or_else(|| unusable("it ends inside its header".to_owned()))?;
    let header: EngineHeader = serde_json::from_slice(header)
        .map_err(|error| unusable(format!("its header is not readable: {error}")))?;
    let stated =
        read_word(&mut rest).ok_or_else(|| unusable("it ends after its header".to_owned()))?;
    if header.dropped > 0 {
        let issue = Issue::warning(IssueCode::EngineDropped);
        builder.issues.push(issue.counting(header.dropped));
    }
    let thread = builder.thread(1, 1);
    builder.name_process(Ok(1), "llmprof engine");
    builder.name_thread(Ok(1), Ok(1), "operators");
    for range in &header.ranges {
        let name = builder.intern(&range.name);
        builder.ranges.push(Range {
            start: to_nanos(range.start_ns),
            duration: length_of(range.start_ns, range.end_ns),
            name,
            thread,
            kind: RangeKind::ANNOTATION,
            ..Range::default()
        });
    }
    let operators: Vec<_> = header
        .operators
        .iter()
        .map(|operator| {
            (
                builder.intern(&operator.path),
                builder.intern(&operator.kind),
                builder.intern(&operator.dtype),
            )
        })
        .collect();
    let (records, _) = rest.as_chunks::<RECORD_BYTES>();
    let mut unknown = 0_u64;
    let mut read = 0_u64;
    for record in records
        .iter()
        .take(usize::try_from(stated).unwrap_or(usize::MAX))
    {
        read += 1;
        let (words, times) = parse_fields(record);
        let [operator, experts, groups, m, n, k] = words;
        let Some(&(name, kind, dtype)) = operators.get(operator as usize) else {
            unknown += 1;
            continue;
        };
        let dims = format!("[[{groups},{m},{n},{k}]]");
        let dtypes = format!("[\"{}\"]", header.operators[operator as usize].dtype);
        let inputs = builder.inputs(RawInputs {
            dims: dims.as_bytes(),
            dtypes: dtypes.as_bytes(),
            ..RawInputs::default()
        });
        let external = builder.operator_calls.len() as u64 + 1;
        builder.hosts.push(Host {
            start: to_nanos(times[0]),
            duration: length_of(times[0], times[1]),
            name,
            thread,
            kind: HostKind::OPERATOR,
            external,
            inputs,
            ..Host::default()
        });
        builder.operator_calls.push(OperatorCall {
            external,
            kind,
            dtype,
            groups: groups.into(),
            m: m.into(),
            n: n.into(),
            k: k.into(),
            experts,
        });
    }
    let mut report = |code: IssueCode, count: u64| {
        if count > 0 {
            builder.issues.push(Issue::error(code).counting(count));
        }
    };
    report(IssueCode::EngineTruncated, stated - read);
    report(IssueCode::EngineUnknownOperator, unknown);
    Ok(())
}

/// The next eight bytes as a number.
fn read_word(rest: &mut &[u8]) -> Option<u64> {
    let (first, tail) = rest.split_first_chunk::<8>()?;
    *rest = tail;
    Some(u64::from_le_bytes(*first))
}

fn parse_fields(record: &[u8; RECORD_BYTES]) -> RawCall {
    let mut words = [0; 6];
    for (word, bytes) in words.iter_mut().zip(record.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let mut times = [0; 2];
    for (time, bytes) in times.iter_mut().zip(record[24..].as_chunks::<8>().0) {
        *time = u64::from_le_bytes(*bytes);
    }
    (words, times)
}

fn to_nanos(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

fn length_of(start: u64, end: u64) -> i64 {
    to_nanos(end.saturating_sub(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Vec<u8> {
        let header = EngineHeader {
            operators: vec![OperatorInfo {
                path: "model.embed_tokens".to_owned(),
                kind: "embedding".to_owned(),
                dtype: "f32".to_owned(),
            }],
            ranges: vec![NamedRange {
                name: "prefill".to_owned(),
                start_ns: 5,
                end_ns: 30,
            }],
            dropped: 0,
        };
        let calls = [10, 20].map(|start| ([0, 3, 1, 5, 64, 2], [start, start + 3]));
        let mut bytes = Vec::new();
        write(&mut bytes, &header, calls.into_iter()).unwrap();
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Trace, ImportError> {
        let path = std::path::Path::new("calls");
        let source = Source::from_bytes(path, bytes.to_vec(), &Limits::default())?;
        read_sources(std::slice::from_ref(&source))
    }

    #[test]
    fn calls_become_rows() {
        let trace = read(&file()).unwrap();
        assert!(trace.issues.is_empty());
        let hosts: Vec<Host> = trace.hosts.rows().collect();
        assert_eq!(hosts.len(), 2);
        assert_eq!((hosts[1].start, hosts[1].duration), (20, 3));
        assert_eq!(trace.text(hosts[0].name), "model.embed_tokens");
        let call = trace.operator_calls.row(1);
        assert_eq!((call.external, hosts[1].external), (2, 2));
        assert_eq!(trace.text(call.kind), "embedding");
        assert_eq!((call.groups, call.m, call.n, call.k), (1, 5, 64, 2));
        assert_eq!(call.experts, 3);
        assert_eq!(trace.text(trace.ranges.row(0).name), "prefill");
    }

    #[test]
    fn every_cut_is_an_error_or_an_issue() {
        let file = file();
        for length in 0..file.len() {
            if let Ok(trace) = read(&file[..length]) {
                assert!(!trace.issues.is_empty(), "{length}");
            }
        }
    }
}
