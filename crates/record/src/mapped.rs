//! Files mapped into memory: the one place of this crate that needs `unsafe`.
//!
//! A file that is cut while it is mapped raises SIGBUS where its missing pages are read. The handler here puts zeros in
//! their place and remembers it, so that reading ends and [`was_cut`] makes an error of it.

use std::fs::{File, Metadata};
use std::io;
use std::ops::Deref;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use memmap2::Mmap;

/// Mappings at a time that are protected; one more is as deadly when it is cut as in every program that maps files.
const SLOTS: usize = 512;

/// An address range, or zeros where the slot is free.
struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
    was_cut: AtomicBool,
}

static MAPPED: [Slot; SLOTS] = [const {
    Slot {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        was_cut: AtomicBool::new(false),
    }
}; SLOTS];
static WAS_CUT: AtomicBool = AtomicBool::new(false);

/// Whether a file became shorter while it was mapped, so that what was read of it is not what it had.
pub fn was_cut() -> bool {
    WAS_CUT.load(Ordering::Acquire)
}

/// Forgets files that were cut. A process that answers many questions calls it between them.
pub fn forget_cuts() {
    WAS_CUT.store(false, Ordering::Release);
}

/// A file mapped for reading.
#[derive(Debug)]
pub(crate) struct Mapped {
    file: File,
    map: Mmap,
    slot: Option<usize>,
}

impl Mapped {
    /// Whether the file became shorter since it was mapped: a missing page was read, or only its last bytes are gone.
    pub(crate) fn was_cut(&self) -> bool {
        let slot = self.slot.map(|slot| &MAPPED[slot]);
        let is_shorter = |metadata: Metadata| metadata.len() < self.map.len() as u64;
        slot.is_some_and(|slot| slot.was_cut.load(Ordering::Acquire))
            || self.file.metadata().is_ok_and(is_shorter)
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            MAPPED[slot].end.store(0, Ordering::Release);
            MAPPED[slot].was_cut.store(false, Ordering::Release);
            MAPPED[slot].start.store(0, Ordering::Release);
        }
    }
}

/// Maps a file for reading.
pub(crate) fn map(file: &File) -> io::Result<Mapped> {
    let map = handler::map(file)?;
    let file = file.try_clone()?;
    handler::install();
    let start = map.as_ptr() as usize;
    let free = |slot: &Slot| {
        let claimed = slot
            .start
            .compare_exchange(0, start, Ordering::AcqRel, Ordering::Relaxed);
        claimed.is_ok()
    };
    let slot = MAPPED.iter().position(free);
    if let Some(slot) = slot {
        let end = start + map.len().next_multiple_of(handler::page_bytes());
        MAPPED[slot].end.store(end, Ordering::Release);
    }
    Ok(Mapped { file, map, slot })
}

#[expect(
    unsafe_code,
    reason = "a mapping of a file cannot be proven unchanging, and a signal handler is unsafe by nature"
)]
mod handler {
    use std::mem::MaybeUninit;
    use std::ptr;
    use std::sync::OnceLock;

    use super::{AtomicBool, AtomicUsize, File, MAPPED, Mmap, Once, Ordering, WAS_CUT, io};

    static INSTALLED: Once = Once::new();
    static IS_READY: AtomicBool = AtomicBool::new(false);
    static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

    pub(super) fn map(file: &File) -> io::Result<Mmap> {
        // SAFETY: The mapping is private and read-only. What is left is another process that changes or cuts the file
        // while we read: every reader here treats the bytes as untrusted input, so a change gives an error or a wrong
        // value and not undefined behaviour of ours; a cut is handled below.
        unsafe { Mmap::map(file) }
    }

    /// Known before the handler is in place.
    static PAGE_BYTES: AtomicUsize = AtomicUsize::new(0);

    pub(super) fn page_bytes() -> usize {
        PAGE_BYTES.load(Ordering::Acquire)
    }

    /// Installs the handler of SIGBUS, once per process.
    pub(super) fn install() {
        INSTALLED.call_once(|| {
            PAGE_BYTES.store(rustix::param::page_size(), Ordering::Release);
            let mut before = MaybeUninit::<libc::sigaction>::zeroed();
            let mut action = MaybeUninit::<libc::sigaction>::zeroed();
            // SAFETY: All fields of a sigaction are integers, for which zeros are valid; the pointers live through the
            // calls. The handler makes only calls that a signal handler may make.
            unsafe {
                let action = action.assume_init_mut();
                let handle: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                    on_bus_error;
                action.sa_sigaction = handle as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                libc::sigemptyset(&raw mut action.sa_mask);
                if libc::sigaction(libc::SIGBUS, action, before.as_mut_ptr()) == 0 {
                    let _ = BEFORE.set(before.assume_init());
                    // The handler reads these without waiting.
                    IS_READY.store(true, Ordering::Release);
                }
            }
        });
    }

    extern "C" fn on_bus_error(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: The kernel passes a valid siginfo to a handler with SA_SIGINFO.
        let address = unsafe { (*info).si_addr() } as usize;
        for slot in &MAPPED {
            let start = slot.start.load(Ordering::Acquire);
            let end = slot.end.load(Ordering::Acquire);
            if start == 0 || !(start..end).contains(&address) {
                continue;
            }
            let page = address & !(page_bytes() - 1);
            // SAFETY: The pages from here to the end belong to a mapping of ours that is alive, since its owner clears
            // the slot before it unmaps, and nobody writes to it: pages of zeros take the place of missing ones.
            let placed = unsafe {
                libc::mmap(
                    page as *mut libc::c_void,
                    end - page,
                    libc::PROT_READ,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                    -1,
                    0,
                )
            };
            if placed != libc::MAP_FAILED {
                slot.was_cut.store(true, Ordering::Release);
                WAS_CUT.store(true, Ordering::Release);
                return;
            }
        }
        // Not a file of ours: whoever handled it before does so when the instruction is tried again.
        if IS_READY.load(Ordering::Acquire)
            && let Some(before) = BEFORE.get()
        {
            // SAFETY: It is the action that was in force before, as the kernel reported it.
            unsafe { libc::sigaction(libc::SIGBUS, before, ptr::null_mut()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_file_that_is_cut_while_mapped_reads_as_zeros() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; 64 << 10]).unwrap();
        let mapped = map(&file).unwrap();
        assert_eq!(mapped[60_000], 7);
        file.set_len(8192).unwrap();
        let sum: u64 = mapped.iter().map(|&byte| u64::from(byte)).sum();
        assert_eq!(sum, 7 * 8192);
        assert!(mapped.was_cut() && was_cut());
        // What is read later is judged by itself.
        forget_cuts();
        let mut whole = tempfile::tempfile().unwrap();
        whole.write_all(&vec![7; 64 << 10]).unwrap();
        let second = map(&whole).unwrap();
        assert_eq!(second.len(), 64 << 10);
        assert!(second.iter().all(|&byte| byte == 7));
        assert!(!second.was_cut() && mapped.was_cut());
    }

    /// Bytes past the end within the last page are zeros, without a signal.
    #[test]
    fn a_cut_within_the_last_page_is_seen() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 100]).unwrap();
        let mapped = map(&file).unwrap();
        assert!(!mapped.was_cut());
        file.set_len(50).unwrap();
        assert_eq!(mapped[60], 0);
        assert!(mapped.was_cut());
    }
}
