//! Reading records, as far as they go.

use crate::header::{HEADER_BYTES, Header, HeaderError};
use crate::record::{Field, PREFIX, RECORD_MAX_BYTES, Record};

/// How the records of a file end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Whole,
    /// Inside a record, as a file does whose writer was killed or had no more space.
    Cut {
        /// Where the record begins that is not whole.
        at: usize,
    },
    /// At bytes that are not a record.
    Damaged {
        at: usize,
    },
}

/// The records of a file, in order. It ends at the first that is not whole.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    end: Option<End>,
}

impl<'a> Reader<'a> {
    /// Reads the header; the records follow.
    pub fn new(bytes: &'a [u8]) -> Result<(Header, Self), HeaderError> {
        let header = Header::read(bytes)?;
        Ok((header, Self::records(bytes, HEADER_BYTES)))
    }

    /// The records of `bytes` from `at` on.
    pub fn records(bytes: &'a [u8], at: usize) -> Self {
        Self {
            bytes,
            at,
            end: None,
        }
    }

    /// Where the next record begins.
    pub fn position(&self) -> usize {
        self.at
    }

    /// How the records ended; [`End::Whole`] while there may be more.
    pub fn end(&self) -> End {
        self.end.unwrap_or(End::Whole)
    }

    fn stop(&mut self, end: End) -> Option<Record<'a>> {
        self.end = Some(end);
        None
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        if self.end.is_some() {
            return None;
        }
        let at = self.at;
        let rest = self.bytes.get(at..).unwrap_or_default();
        if rest.is_empty() {
            return self.stop(End::Whole);
        }
        let mut prefix = rest;
        let fields = (
            u32::take(&mut prefix),
            u16::take(&mut prefix),
            u16::take(&mut prefix),
        );
        let (Some(length), Some(kind), Some(zero)) = fields else {
            return self.stop(End::Cut { at });
        };
        let length = length as usize;
        if !(PREFIX..=RECORD_MAX_BYTES).contains(&length) || zero != 0 {
            return self.stop(End::Damaged { at });
        }
        let Some(payload) = rest.get(PREFIX..length) else {
            return self.stop(End::Cut { at });
        };
        match Record::read(kind, payload) {
            Some(record) => {
                self.at += length;
                Some(record)
            }
            None => self.stop(End::Damaged { at }),
        }
    }
}
