//! Counters from a report of Nsight Compute (`.ncu-rep`), without the tool.
//!
//! The file is `NVR\0`, the length of a header and the header, then blocks: the length of a block header, the header,
//! and a payload of entries, each with its length (32 bits, little endian) before it. Headers and entries are protocol
//! buffers whose descriptions the tool installs in `extras/FileFormat`. Code, paths and the environment that a report
//! carries are passed over.

mod launch;
mod units;

use self::launch::LaunchReader;
use super::protobuf::{Field, all_bytes, first_field};
use super::{ImportError, Importer, Profile, Source};
use crate::counters::{Counters, CountersBuilder};
use crate::issue::{Issue, IssueCode};

pub(crate) const IMPORTER: Importer = Importer {
    name: "ncu_report",
    sniff,
    read: read_source,
};

const MAGIC: &[u8] = b"NVR\0";

fn sniff(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

fn read_source(source: &Source) -> Result<Profile, ImportError> {
    let name = source.path().file_name().unwrap_or_default();
    let mut counters = read(source.bytes(), &name.to_string_lossy());
    counters
        .issues
        .splice(0..0, source.issues().iter().cloned());
    if counters.launches.is_empty() {
        return Err(source.unusable(
            "an Nsight Compute report",
            "no profiled launch is in it; ncu profiled nothing, or the file was cut",
        ));
    }
    Ok(Profile::Counters(Box::new(counters)))
}

/// Reads a report as far as it goes. `place` names the file in issues. A report that was cut exactly between two blocks looks like a
/// shorter one: the format counts neither blocks nor launches.
pub fn read(bytes: &[u8], place: &str) -> Counters {
    let mut builder = CountersBuilder::default();
    let mut rest = bytes.strip_prefix(MAGIC).unwrap_or_default();
    let mut is_cut = take_entry(&mut rest).is_none();
    let mut others = 0;
    let mut devices = Vec::new();
    let mut reader = LaunchReader::default();
    while !is_cut && !rest.is_empty() {
        let block = read_block(
            &mut rest,
            &mut reader,
            &mut builder,
            &mut devices,
            &mut others,
        );
        is_cut = block.is_none();
    }
    // A launch has hundreds of metrics for each attribute of a device, and each takes more than so many bytes.
    let most = bytes.len() / 16;
    let is_described = launch::describe(&mut builder, &devices, most);
    let issues = &mut builder.counters.issues;
    if !is_described {
        issues.push(
            Issue::warning(IssueCode::NcuTooManyAttributes)
                .with("file", place)
                .with("limit", most),
        );
    }
    if is_cut {
        issues.push(
            Issue::warning(IssueCode::NcuCutReport)
                .with("file", place)
                .with("byte", bytes.len() - rest.len()),
        );
    }
    if others > 0 {
        issues.push(
            Issue::warning(IssueCode::NcuNotKernels)
                .with("file", place)
                .counting(others),
        );
    }
    builder.counters
}

/// What has its length, 32 bits, before it.
fn take_entry<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (entry, after) = after.split_at_checked(length)?;
    *rest = after;
    Some(entry)
}

/// Reads one block; `None` where the file ends inside it. Launches that are whole are kept.
fn read_block<'a>(
    rest: &mut &'a [u8],
    reader: &mut LaunchReader,
    builder: &mut CountersBuilder,
    devices: &mut Vec<&'a [u8]>,
    others: &mut u64,
) -> Option<()> {
    let header = take_entry(rest)?;
    let session = first_field(header, 3)
        .and_then(Field::bytes)
        .unwrap_or_default();
    devices.extend(all_bytes(session, 6));
    let whole = |number| {
        first_field(header, number)
            .and_then(Field::whole)
            .unwrap_or(0)
    };
    let process = first_field(header, 6)
        .and_then(Field::bytes)
        .and_then(|process| first_field(process, 1))
        .and_then(Field::whole)
        .unwrap_or(0);
    let strings = first_field(header, 4)
        .and_then(Field::bytes)
        .unwrap_or_default();
    reader.learn(strings);
    reader.process = process;
    let payload_bytes = usize::try_from(whole(5)).ok()?;
    let is_whole = rest.len() >= payload_bytes;
    let (mut payload, after) = rest.split_at(payload_bytes.min(rest.len()));
    *rest = after;
    for _ in 0..whole(1) {
        take_entry(&mut payload)?;
    }
    for _ in 0..whole(2) {
        let entry = take_entry(&mut payload)?;
        reader.read(entry, builder)?;
    }
    // Ranges, command lists and graphs as a whole have no kernel of their own.
    for number in 7..=9 {
        *others = others.saturating_add(whole(number));
    }
    is_whole.then_some(())
}
