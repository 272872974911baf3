//! The bytes of a pickle, read forward.

use super::PickleError;

/// A position in the bytes.
pub(super) struct Bytes<'a> {
    all: &'a [u8],
    position: usize,
}

impl<'a> Bytes<'a> {
    pub(super) fn new(all: &'a [u8]) -> Self {
        Self { all, position: 0 }
    }

    pub(super) fn position(&self) -> usize {
        self.position
    }

    fn left(&self) -> usize {
        self.all.len() - self.position
    }

    fn truncated(&self, what: &'static str) -> PickleError {
        PickleError::Truncated {
            offset: self.all.len(),
            what,
        }
    }

    pub(super) fn take(
        &mut self,
        length: u64,
        what: &'static str,
    ) -> Result<&'a [u8], PickleError> {
        let length = usize::try_from(length)
            .ok()
            .filter(|&length| length <= self.left())
            .ok_or_else(|| self.truncated(what))?;
        let taken = &self.all[self.position..self.position + length];
        self.position += length;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], PickleError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64, what)?);
        Ok(array)
    }

    pub(super) fn u8(&mut self, what: &'static str) -> Result<u8, PickleError> {
        Ok(self.array::<1>(what)?[0])
    }

    pub(super) fn u16(&mut self, what: &'static str) -> Result<u16, PickleError> {
        self.array(what).map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, PickleError> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(super) fn i32(&mut self, what: &'static str) -> Result<i32, PickleError> {
        self.array(what).map(i32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, PickleError> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// The one number that stands with its high byte first.
    pub(super) fn f64(&mut self, what: &'static str) -> Result<f64, PickleError> {
        self.array(what).map(f64::from_be_bytes)
    }

    /// Whether that many bytes follow.
    pub(super) fn has(&self, length: u64) -> bool {
        length <= self.left() as u64
    }

    /// Up to the next line feed, which is taken but not returned.
    pub(super) fn line(&mut self, what: &'static str) -> Result<&'a [u8], PickleError> {
        let rest = &self.all[self.position..];
        let end = memchr::memchr(b'\n', rest).ok_or_else(|| self.truncated(what))?;
        self.position += end + 1;
        Ok(&rest[..end])
    }
}
