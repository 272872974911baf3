//! Files mapped into memory: the one place of this crate that needs `unsafe`.

use std::fs::File;
use std::io;

use memmap2::Mmap;

/// Maps a file for reading.
#[expect(
    unsafe_code,
    reason = "a mapping of a file cannot be proven unchanging"
)]
pub(crate) fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: The mapping is private and read-only. What is left is another process that changes or cuts the file
    // while we read: every reader here treats the bytes as untrusted input, so a change gives an error or a wrong
    // value and not undefined behaviour of ours; a cut raises SIGBUS, as in every program that maps files.
    unsafe { Mmap::map(file) }
}
