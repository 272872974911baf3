//! gzip as it is read from memory (RFC 1952): deflate by flate2, checksums by crc32fast.
//!
//! flate2's own reader computes the checksum with zlib-rs, which takes as long as inflating: its vector instructions are not
//! inlined (zlib-rs 0.6).

use std::io::{self, Read};

use crc32fast::Hasher;
use flate2::{Decompress, FlushDecompress, Status};

/// Bits of a header's flags.
const HAS_CHECKSUM: u8 = 0x02;
const HAS_EXTRA: u8 = 0x04;
const HAS_NAME: u8 = 0x08;
const HAS_COMMENT: u8 = 0x10;
const RESERVED: u8 = 0xe0;

/// Members one after the other, as `cat a.gz b.gz` has them.
pub(super) struct Gunzip<'a> {
    packed: &'a [u8],
    inflate: Decompress,
    checksum: Hasher,
    /// Bytes of the member so far, modulo 2³².
    length: u32,
    in_member: bool,
}

fn broken(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn cut_off() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file breaks off")
}

impl<'a> Gunzip<'a> {
    pub(super) fn new(packed: &'a [u8]) -> Self {
        Self {
            packed,
            inflate: Decompress::new(false),
            checksum: Hasher::new(),
            length: 0,
            in_member: false,
        }
    }

    fn take(&mut self, length: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self.packed.split_at_checked(length).ok_or_else(cut_off)?;
        self.packed = rest;
        Ok(taken)
    }

    /// Steps over a text that ends with a zero.
    fn skip_text(&mut self) -> io::Result<()> {
        let end = memchr::memchr(0, self.packed).ok_or_else(cut_off)?;
        self.take(end + 1).map(drop)
    }

    fn skip_header(&mut self) -> io::Result<()> {
        let whole = self.packed;
        let &[0x1f, 0x8b, 8, flags, _, _, _, _, _, _] = self.take(10)? else {
            return Err(broken("not a gzip header"));
        };
        if flags & RESERVED != 0 {
            return Err(broken("unknown flags in a gzip header"));
        }
        if flags & HAS_EXTRA != 0 {
            let length = self.take(2)?;
            self.take(usize::from(u16::from_le_bytes([length[0], length[1]])))?;
        }
        for text in [HAS_NAME, HAS_COMMENT] {
            if flags & text != 0 {
                self.skip_text()?;
            }
        }
        if flags & HAS_CHECKSUM != 0 {
            let header = &whole[..whole.len() - self.packed.len()];
            let checksum = crc32fast::hash(header).to_le_bytes();
            if self.take(2)? != &checksum[..2] {
                return Err(broken("a gzip header does not match its checksum"));
            }
        }
        Ok(())
    }

    /// Compares a member with its checksum and length.
    fn check_trailer(&mut self) -> io::Result<()> {
        let checksum = std::mem::take(&mut self.checksum).finalize();
        let length = std::mem::take(&mut self.length);
        let trailer = self.take(8)?;
        if trailer[..4] != checksum.to_le_bytes() || trailer[4..] != length.to_le_bytes() {
            return Err(broken("gzip content does not match its checksum"));
        }
        self.in_member = false;
        Ok(())
    }
}

impl Read for Gunzip<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.in_member {
                if self.packed.is_empty() || buffer.is_empty() {
                    return Ok(0);
                }
                self.skip_header()?;
                self.inflate.reset(false);
                self.in_member = true;
            }
            let (read, written) = (self.inflate.total_in(), self.inflate.total_out());
            let status = self
                .inflate
                .decompress(self.packed, buffer, FlushDecompress::None)?;
            let count = (self.inflate.total_out() - written) as usize;
            let packed = (self.inflate.total_in() - read) as usize;
            self.packed = &self.packed[packed..];
            self.checksum.update(&buffer[..count]);
            self.length = self.length.wrapping_add(count as u32);
            match status {
                Status::StreamEnd => self.check_trailer()?,
                _ if count > 0 => {}
                _ if packed == 0 => return Err(cut_off()),
                _ => continue,
            }
            if count > 0 {
                return Ok(count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, GzBuilder, bufread::MultiGzDecoder};

    use super::*;

    fn member(content: &[u8]) -> Vec<u8> {
        let header = GzBuilder::new()
            .filename("trace.json")
            .comment("of one run")
            .extra(vec![7; 300]);
        let mut packer = header.write(Vec::new(), Compression::default());
        packer.write_all(content).unwrap();
        packer.finish().unwrap()
    }

    fn content() -> Vec<u8> {
        (0..200_000_u32)
            .map(|n| (n.wrapping_mul(n) % 251 + n / 1000) as u8)
            .collect()
    }

    /// All that a reader gives in parts of one size, and how it ends.
    fn unpacked(reader: &mut impl Read, part: usize) -> (Vec<u8>, Option<io::ErrorKind>) {
        let mut all = Vec::new();
        let mut buffer = vec![0; part];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return (all, None),
                Ok(count) => all.extend(&buffer[..count]),
                Err(error) => return (all, Some(error.kind())),
            }
        }
    }

    #[test]
    fn members_follow_each_other() {
        let (first, second) = (content(), b"the end".to_vec());
        let packed = [member(&first), member(b""), member(&second)].concat();
        let expected = [first, second].concat();
        for part in [1, 100, 4096, 1 << 20] {
            let (output, error) = unpacked(&mut Gunzip::new(&packed), part);
            assert_eq!((output == expected, error), (true, None), "{part}");
        }
    }

    #[test]
    fn damage_is_an_error_after_what_could_be_read() {
        let packed = [member(&content()), member(b"the end")].concat();
        for end in (1..packed.len()).step_by(97) {
            let (output, error) = unpacked(&mut Gunzip::new(&packed[..end]), 4096);
            let (expected, _) = unpacked(&mut MultiGzDecoder::new(&packed[..end]), 4096);
            let whole = end == member(&content()).len();
            assert_eq!(error.is_none(), whole, "{end}");
            assert!(
                output.len() >= expected.len() && output.starts_with(&expected),
                "{end}"
            );
        }
        let first = member(&content()).len();
        for (place, what) in [
            (first - 8, "checksum"),
            (first - 4, "length"),
            (first + 2, "method"),
        ] {
            let mut other = packed.clone();
            other[place] ^= 1;
            let (_, error) = unpacked(&mut Gunzip::new(&other), 4096);
            assert_eq!(error, Some(io::ErrorKind::InvalidData), "{what}");
        }
    }

    #[test]
    fn headers_may_have_checksums() {
        let mut packed = member(b"content");
        packed[3] |= HAS_CHECKSUM;
        let end = packed.len() - member(b"content").len() + 10 + 2 + 300 + 11 + 11;
        let checksum = crc32fast::hash(&packed[..end]).to_le_bytes();
        packed.splice(end..end, checksum[..2].iter().copied());
        assert_eq!(
            unpacked(&mut Gunzip::new(&packed), 64),
            (b"content".to_vec(), None)
        );
        packed[end] ^= 1;
        let (output, error) = unpacked(&mut Gunzip::new(&packed), 64);
        assert_eq!((output.len(), error), (0, Some(io::ErrorKind::InvalidData)));
    }
}
