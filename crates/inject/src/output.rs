//! The file. When it cannot be written, records are dropped and counted, and it is tried again later. When it has all the
//! bytes that it may have, recording is over.

use std::io::ErrorKind;

use llmprof_wire::{Header, Loss, Reader};

use crate::descriptor::{self, OwnDescriptor};
use crate::sys;

/// Bytes that are gathered before they are written.
const CHUNK_BYTES: usize = 256 << 10;
/// Bytes beyond the limit for what is said when it is reached.
const LAST_WORDS: u64 = 64 << 10;

/// What is written and what was not.
pub(crate) struct Output {
    file: OwnDescriptor,
    /// Whole records that are not in the file yet; where a write broke off, the rest of one.
    pending: Vec<u8>,
    /// Why the file takes nothing more, while it does not.
    stuck: Option<String>,
    /// Records dropped since the last [`Loss`] record.
    unsaid: u64,
    /// Records dropped in all, for any reason.
    pub(crate) dropped: u64,
    /// Reason of the last drop.
    pub(crate) why: String,
    /// Whether the program took the descriptor of the file: nothing can be written any more.
    pub(crate) is_taken: bool,
    /// Bytes that are in the file.
    written: u64,
    /// Limit of the file's size, bytes.
    most: u64,
    /// Whether a record was left out because the file reached its limit.
    pub(crate) is_full: bool,
}

impl Output {
    /// `most` is the limit in bytes; 0: no limit.
    pub(crate) fn new(file: OwnDescriptor, header: &Header, most: u64) -> Self {
        Self {
            file,
            pending: header.bytes().to_vec(),
            stuck: None,
            unsaid: 0,
            dropped: 0,
            why: String::new(),
            is_taken: false,
            written: 0,
            most: if most == 0 { u64::MAX } else { most },
            is_full: false,
        }
    }

    /// Adds records; returns false if they were dropped. Records beyond the size limit are not counted as dropped, since
    /// recording is over by then.
    pub(crate) fn add_records(&mut self, records: u64, bytes: &[u8]) -> bool {
        let used = self.written + self.pending.len() as u64;
        let room = self.most.saturating_sub(used);
        if self.is_full || bytes.len() as u64 > room {
            let fitting = if self.is_full {
                &[]
            } else {
                fitting_records(bytes, room)
            };
            self.is_full = true;
            return self.add_with(records, |out| out.extend_from_slice(fitting));
        }
        self.add_with(records, |out| out.extend_from_slice(bytes))
    }

    /// The same for records that name others or end the file; they have a little more room.
    pub(crate) fn add_notes(&mut self, records: u64, bytes: &[u8]) -> bool {
        let used = self.written + (self.pending.len() + bytes.len()) as u64;
        if used > self.most.saturating_add(LAST_WORDS) {
            self.is_full = true;
            return true;
        }
        self.add_with(records, |out| out.extend_from_slice(bytes))
    }

    /// Adds the `records` records that `put` writes; returns false if they were dropped. For a few bytes: the size limit does
    /// not apply.
    pub(crate) fn add_with(&mut self, records: u64, put: impl FnOnce(&mut Vec<u8>)) -> bool {
        if let Some(why) = self.stuck.clone() {
            self.count_dropped(records, why);
            return false;
        }
        put(&mut self.pending);
        if self.pending.len() >= CHUNK_BYTES {
            self.write_chunk();
        }
        true
    }

    /// Counts records that were dropped before they came here.
    pub(crate) fn count_dropped(&mut self, records: u64, why: impl Into<String>) {
        if records > 0 {
            self.unsaid += records;
            self.dropped += records;
            self.why = why.into();
        }
    }

    /// Writes all pending records and the number of dropped ones.
    pub(crate) fn write_all(&mut self) {
        self.write_chunk();
        if self.stuck.is_none() && self.unsaid > 0 {
            let loss = Loss {
                time: sys::now_ns(),
                count: std::mem::take(&mut self.unsaid),
                text: self.why.as_bytes(),
            };
            loss.put(&mut self.pending);
            self.write_chunk();
        }
    }

    fn write_chunk(&mut self) {
        if self.is_taken {
            self.pending.clear();
        }
        while !self.pending.is_empty() {
            match self.file.write(&self.pending) {
                Ok(0) => {
                    self.stuck = Some("the file takes no more bytes".to_owned());
                    return;
                }
                Ok(count) => {
                    self.pending.drain(..count);
                    self.written += count as u64;
                    self.stuck = None;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.is_taken |= descriptor::is_taken(&error);
                    self.stuck = Some(error.to_string());
                    return;
                }
            }
        }
    }
}

/// The records at the start of `bytes` that fit into `room` bytes.
fn fitting_records(bytes: &[u8], room: u64) -> &[u8] {
    let mut records = Reader::records(bytes, 0);
    let mut end = 0;
    while records.next().is_some() && records.position() as u64 <= room {
        end = records.position();
    }
    &bytes[..end]
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use llmprof_wire::{Checkpoint, Reader, Record};

    const HEADER: Header = Header {
        process: 1,
        parent: 0,
        time: 0,
        unix_offset: 0,
    };

    #[test]
    fn a_full_disk_drops_records_and_counts_them() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut output = Output::new(OwnDescriptor::new(full).unwrap(), &HEADER, 0);
        output.add_with(1, |out| Checkpoint { time: 1 }.put(out));
        output.write_all();
        output.add_with(5, |_| panic!("there is no room"));
        assert_eq!(output.dropped, 5);
        assert!(output.why.contains("No space"), "{}", output.why);
    }

    #[test]
    fn losses_are_written_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.wire");
        let file = OwnDescriptor::new(File::create(&path).unwrap()).unwrap();
        let mut output = Output::new(file, &HEADER, 0);
        output.count_dropped(3, "no buffer");
        output.write_all();
        output.write_all();
        let bytes = std::fs::read(&path).unwrap();
        let (_, records) = Reader::new(&bytes).unwrap();
        let losses: Vec<_> = records
            .filter_map(|record| match record {
                Record::Loss(loss) => Some((loss.count, loss.text.to_vec())),
                _ => None,
            })
            .collect();
        assert_eq!(losses, [(3, b"no buffer".to_vec())]);
    }

    #[test]
    fn a_file_ends_at_its_limit_after_a_whole_record() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.wire");
        let file = OwnDescriptor::new(File::create(&path).unwrap()).unwrap();
        let mut output = Output::new(file, &HEADER, 100);
        let mut records = Vec::new();
        for time in 0..50_000 {
            Checkpoint { time }.put(&mut records);
        }
        assert!(output.add_records(50_000, &records));
        assert!(output.is_full && output.dropped == 0);
        // Nothing of what comes now is written, but what is said last.
        assert!(output.add_records(50_000, &records));
        assert!(output.add_notes(1, &records[..16]));
        assert!(output.add_notes(50_000, &records));
        output.write_all();
        let bytes = std::fs::read(&path).unwrap();
        // A header of 48 bytes, three records of 16, and the note.
        assert_eq!(bytes.len(), 48 + 3 * 16 + 16);
        let (_, read) = Reader::new(&bytes).unwrap();
        assert_eq!(read.count(), 4);
    }
}
