//! The file. When it cannot be written, records are dropped and counted, and it is tried again later.

use std::io::ErrorKind;

use llmprof_wire::{Header, Loss};

use crate::descriptor::{self, Own};
use crate::sys;

/// Bytes that are gathered before they are written.
const CHUNK: usize = 256 << 10;

/// What is written and what was not.
pub(crate) struct Output {
    file: Own,
    /// Whole records that are not in the file yet; where a write broke off, the rest of one.
    pending: Vec<u8>,
    /// Why the file takes nothing more, while it does not.
    stuck: Option<String>,
    /// Records dropped since the last [`Loss`] record.
    unsaid: u64,
    /// Records dropped in all, for whatever reason.
    pub(crate) dropped: u64,
    /// Why, the last time.
    pub(crate) why: String,
    /// Whether the program took the descriptor of the file: nothing can be written any more.
    pub(crate) is_taken: bool,
}

impl Output {
    pub(crate) fn new(file: Own, header: &Header) -> Self {
        Self {
            file,
            pending: header.bytes().to_vec(),
            stuck: None,
            unsaid: 0,
            dropped: 0,
            why: String::new(),
            is_taken: false,
        }
    }

    /// Adds what `put` writes, which is `records` records, or drops them; false where it dropped them.
    pub(crate) fn add(&mut self, records: u64, put: impl FnOnce(&mut Vec<u8>)) -> bool {
        if let Some(why) = self.stuck.clone() {
            self.lose(records, why);
            return false;
        }
        put(&mut self.pending);
        if self.pending.len() >= CHUNK {
            self.write();
        }
        true
    }

    /// Records were dropped before they came here.
    pub(crate) fn lose(&mut self, records: u64, why: impl Into<String>) {
        if records > 0 {
            self.unsaid += records;
            self.dropped += records;
            self.why = why.into();
        }
    }

    /// Writes what there is, and what was dropped.
    pub(crate) fn flush(&mut self) {
        self.write();
        if self.stuck.is_none() && self.unsaid > 0 {
            let loss = Loss {
                time: sys::now(),
                count: std::mem::take(&mut self.unsaid),
                text: self.why.as_bytes(),
            };
            loss.put(&mut self.pending);
            self.write();
        }
    }

    fn write(&mut self) {
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
        let mut output = Output::new(Own::new(full).unwrap(), &HEADER);
        output.add(1, |out| Checkpoint { time: 1 }.put(out));
        output.flush();
        output.add(5, |_| panic!("there is no room"));
        assert_eq!(output.dropped, 5);
        assert!(output.why.contains("No space"), "{}", output.why);
    }

    #[test]
    fn losses_are_written_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.wire");
        let file = Own::new(File::create(&path).unwrap()).unwrap();
        let mut output = Output::new(file, &HEADER);
        output.lose(3, "no buffer");
        output.flush();
        output.flush();
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
}
