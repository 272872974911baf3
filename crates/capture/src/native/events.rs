//! The file of operator events that the native worker writes.
//!
//! Little-endian: the line `LPOPS1`, the length of a JSON table of operators and the table, the number of events, and a
//! record of 40 bytes for each: operator, touched experts, groups, m, n, k (`u32` each), start and end (`u64` each, ns of
//! the monotonic clock).

use std::io::{self, BufWriter, Read, Write};

use llmprof_engine::{Event, OperatorInfo};
use llmprof_theory::{Kind, Shape};
use llmprof_units::DType;
use serde::{Deserialize, Serialize};

/// The name of the format in the worker protocol.
pub const FORMAT: &str = "llmprof_operators";

const MAGIC: &[u8; 7] = b"LPOPS1\n";
const RECORD_BYTES: usize = 6 * 4 + 2 * 8;

/// What an operator of the loaded model is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operator {
    /// Its path as theory prints it.
    pub path: String,
    /// What it does.
    pub kind: Kind,
    /// The format that it multiplies.
    pub dtype: DType,
}

/// One call of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Index in the table of operators.
    pub operator: u32,
    /// For experts: how many distinct ones were reached; 0 for others.
    pub touched: u32,
    /// Size of the call.
    pub shape: Shape,
    /// When it began, ns of the monotonic clock.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
}

/// Writes a table of operators and their calls.
pub fn write(
    output: &mut impl Write,
    operators: &[OperatorInfo],
    events: &[Event],
) -> io::Result<()> {
    let table: Vec<Operator> = operators
        .iter()
        .map(|operator| Operator {
            path: operator.path.to_string(),
            kind: operator.kind,
            dtype: operator.dtype,
        })
        .collect();
    let table = serde_json::to_vec(&table)?;
    let mut output = BufWriter::new(output);
    output.write_all(MAGIC)?;
    output.write_all(&(table.len() as u64).to_le_bytes())?;
    output.write_all(&table)?;
    output.write_all(&(events.len() as u64).to_le_bytes())?;
    for event in events {
        for field in [
            event.operator,
            event.touched,
            event.groups,
            event.m,
            event.n,
            event.k,
        ] {
            output.write_all(&field.to_le_bytes())?;
        }
        output.write_all(&event.start_ns.to_le_bytes())?;
        output.write_all(&event.end_ns.to_le_bytes())?;
    }
    output.flush()
}

/// Reads what [`write`] wrote. A file that was cut is an error: the worker said that it was complete.
pub fn read(bytes: &[u8]) -> io::Result<(Vec<Operator>, Vec<Call>)> {
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut rest = bytes;
    let mut take = |count: usize| -> io::Result<&[u8]> {
        let (head, tail) = rest
            .split_at_checked(count)
            .ok_or_else(|| bad("the file of operator events is cut"))?;
        rest = tail;
        Ok(head)
    };
    if take(MAGIC.len())? != MAGIC {
        return Err(bad("this is not a file of operator events"));
    }
    let length = u64::from_le_bytes(array(take(8)?));
    let length = usize::try_from(length).map_err(|_| bad("the table of operators is too long"))?;
    let operators: Vec<Operator> = serde_json::from_slice(take(length)?)?;
    let count = u64::from_le_bytes(array(take(8)?));
    let mut calls = Vec::new();
    for _ in 0..count {
        let mut record = take(RECORD_BYTES)?;
        let mut word = || -> io::Result<u32> {
            let mut bytes = [0; 4];
            record.read_exact(&mut bytes)?;
            Ok(u32::from_le_bytes(bytes))
        };
        let (operator, touched) = (word()?, word()?);
        let (groups, m, n, k) = (word()?, word()?, word()?, word()?);
        if operator as usize >= operators.len() {
            return Err(bad("an event names an operator that is not in the table"));
        }
        calls.push(Call {
            operator,
            touched,
            shape: Shape {
                groups: groups.into(),
                m: m.into(),
                n: n.into(),
                k: k.into(),
            },
            start_ns: u64::from_le_bytes(array(&record[..8])),
            end_ns: u64::from_le_bytes(array(&record[8..])),
        });
    }
    Ok((operators, calls))
}

/// The first eight bytes.
fn array(bytes: &[u8]) -> [u8; 8] {
    let mut array = [0; 8];
    array.copy_from_slice(&bytes[..8]);
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Vec<u8> {
        let operators = r#"[{"path":"model.embed_tokens","kind":"embedding","dtype":"f32"}]"#;
        let mut bytes = MAGIC.to_vec();
        bytes.extend((operators.len() as u64).to_le_bytes());
        bytes.extend(operators.as_bytes());
        bytes.extend(2u64.to_le_bytes());
        for start in [10u64, 20] {
            for field in [0u32, 0, 1, 5, 64, 0] {
                bytes.extend(field.to_le_bytes());
            }
            bytes.extend(start.to_le_bytes());
            bytes.extend((start + 3).to_le_bytes());
        }
        bytes
    }

    #[test]
    fn records_are_read_as_documented() {
        let (operators, calls) = read(&file()).unwrap();
        assert_eq!(operators[0].kind, Kind::Embedding);
        assert_eq!(calls.len(), 2);
        assert_eq!(
            (calls[1].start_ns, calls[1].end_ns, calls[1].shape.n),
            (20, 23, 64)
        );
    }

    #[test]
    fn every_cut_is_an_error_and_no_panic() {
        let file = file();
        for length in 0..file.len() {
            assert!(read(&file[..length]).is_err(), "{length}");
        }
    }
}
