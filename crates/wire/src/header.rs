//! The first bytes of a file.

use std::fmt;

/// What a file begins with.
pub const MAGIC: [u8; 8] = *b"LLMPWIRE";

/// The version of the format. A reader takes its own version only; within one version, records of unknown kinds are
/// skipped and longer ones read as far as they are known.
pub const VERSION: u32 = 1;

/// How many bytes the header has.
pub const HEADER_BYTES: usize = 48;

/// Which process wrote the file, and on which clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub process: u32,
    /// The process that started it.
    pub parent: u32,
    /// When the file was begun, ns of `CLOCK_MONOTONIC`, which is the clock of all times in it.
    pub time: i64,
    /// What to add to such a time for the Unix time, ns.
    pub unix_offset: i64,
}

/// Why the bytes of a file are not a header of this format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// They do not begin with [`MAGIC`].
    Foreign,
    Short,
    /// They are of another version.
    Version(u32),
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => f.write_str("it does not begin with `LLMPWIRE`"),
            Self::Short => f.write_str("it ends inside its header"),
            Self::Version(version) => write!(
                f,
                "it has version {version} of the format, and this program reads version {VERSION}"
            ),
        }
    }
}

impl std::error::Error for HeaderError {}

impl Header {
    pub fn bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(HEADER_BYTES as u32).to_le_bytes());
        bytes[16..20].copy_from_slice(&self.process.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.parent.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.time.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.unix_offset.to_le_bytes());
        bytes
    }

    /// Reads the header that `bytes` begin with.
    pub fn read(bytes: &[u8]) -> Result<Self, HeaderError> {
        let known = bytes.len().min(MAGIC.len());
        if bytes[..known] != MAGIC[..known] || known == 0 {
            return Err(HeaderError::Foreign);
        }
        let header = bytes
            .first_chunk::<HEADER_BYTES>()
            .ok_or(HeaderError::Short)?;
        let small = |at: usize| {
            let [a, b, c, d] = [header[at], header[at + 1], header[at + 2], header[at + 3]];
            u32::from_le_bytes([a, b, c, d])
        };
        let large = |at: usize| (i64::from(small(at + 4)) << 32) | i64::from(small(at));
        match small(8) {
            VERSION => Ok(Self {
                process: small(16),
                parent: small(20),
                time: large(24),
                unix_offset: large(32),
            }),
            version => Err(HeaderError::Version(version)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header {
        process: 7,
        parent: 3,
        time: 1_234_567_890_123,
        unix_offset: -5,
    };

    #[test]
    fn a_header_reads_back() {
        assert_eq!(Header::read(&HEADER.bytes()), Ok(HEADER));
    }

    #[test]
    fn other_files_short_files_and_other_versions_are_distinguished() {
        let mut bytes = HEADER.bytes();
        for length in 1..HEADER_BYTES {
            assert_eq!(Header::read(&bytes[..length]), Err(HeaderError::Short));
        }
        assert_eq!(Header::read(b""), Err(HeaderError::Foreign));
        assert_eq!(Header::read(b"LLMPROFT"), Err(HeaderError::Foreign));
        bytes[8] = 9;
        assert_eq!(Header::read(&bytes), Err(HeaderError::Version(9)));
    }
}
