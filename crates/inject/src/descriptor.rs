//! File descriptors of this library in the target process.
//!
//! A program may close all descriptors it does not know and then open files that get our numbers. So ours have high numbers,
//! are closed on exec, and are identified by the file behind them: it is compared before each use. If it differs, the number
//! belongs to the program and is never touched again.

use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Our descriptors are numbered from here, if the limit of the process allows it: the kernel hands out the lowest free ones.
const DESCRIPTOR_MIN: RawFd = 512;

/// The file behind a descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// Async-signal-safe: may be called after a fork.
    fn of_descriptor(descriptor: RawFd) -> Option<Self> {
        let mut status = std::mem::MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: the status is valid for the call and all zeros are a valid one.
        let status = unsafe {
            let failed = libc::fstat(descriptor, status.as_mut_ptr());
            (failed == 0).then(|| status.assume_init())?
        };
        Some(Self {
            device: status.st_dev,
            inode: status.st_ino,
        })
    }
}

/// A descriptor of ours, until the program closes or reuses it.
pub(crate) struct OwnDescriptor {
    descriptor: RawFd,
    identity: Identity,
}

impl OwnDescriptor {
    /// Moves a descriptor to a high number. Its file must have an identity: all eventfds, for example, share one inode.
    pub(crate) fn new(given: impl Into<OwnedFd>) -> Option<Self> {
        let given: OwnedFd = given.into();
        // SAFETY: takes numbers; the new descriptor is ours.
        let high = unsafe { libc::fcntl(given.as_raw_fd(), libc::F_DUPFD_CLOEXEC, DESCRIPTOR_MIN) };
        let descriptor = if high >= 0 {
            drop(given);
            high
        } else {
            given.into_raw_fd()
        };
        let identity = Identity::of_descriptor(descriptor)?;
        Some(Self {
            descriptor,
            identity,
        })
    }

    /// Another descriptor of the same file.
    pub(crate) fn try_clone(&self) -> Option<Self> {
        let descriptor = self.raw_fd()?;
        // SAFETY: takes numbers; the new descriptor is ours.
        let high = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, DESCRIPTOR_MIN) };
        (high >= 0).then_some(Self {
            descriptor: high,
            identity: self.identity,
        })
    }

    /// The number; `None` if the program has closed or reused it.
    pub(crate) fn raw_fd(&self) -> Option<RawFd> {
        (Identity::of_descriptor(self.descriptor) == Some(self.identity)).then_some(self.descriptor)
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let descriptor = self.raw_fd().ok_or_else(taken_error)?;
        // SAFETY: the bytes are valid for the call.
        let count = unsafe { libc::write(descriptor, bytes.as_ptr().cast(), bytes.len()) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    pub(crate) fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        let descriptor = self.raw_fd().ok_or_else(taken_error)?;
        // SAFETY: the bytes are valid for the call.
        let count = unsafe { libc::read(descriptor, bytes.as_mut_ptr().cast(), bytes.len()) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }
}

impl Drop for OwnDescriptor {
    fn drop(&mut self) {
        if let Some(descriptor) = self.raw_fd() {
            // SAFETY: it is ours, and nobody uses it any more.
            unsafe { libc::close(descriptor) };
        }
    }
}

fn taken_error() -> io::Error {
    io::Error::other("the program closed llmprof's descriptor")
}

/// Whether an error says that the descriptor is the program's now.
pub(crate) fn is_taken(error: &io::Error) -> bool {
    error.raw_os_error().is_none() && error.kind() == io::ErrorKind::Other
}

/// A descriptor that a child after a fork closes without locks.
pub(crate) struct Remembered {
    descriptor: AtomicI32,
    device: AtomicU64,
    inode: AtomicU64,
}

impl Remembered {
    pub(crate) const fn none() -> Self {
        Self {
            descriptor: AtomicI32::new(-1),
            device: AtomicU64::new(0),
            inode: AtomicU64::new(0),
        }
    }

    pub(crate) fn set(&self, own: Option<&OwnDescriptor>) {
        if let Some(own) = own {
            self.device.store(own.identity.device, Ordering::Relaxed);
            self.inode.store(own.identity.inode, Ordering::Relaxed);
        }
        let descriptor = own.map_or(-1, |own| own.descriptor);
        self.descriptor.store(descriptor, Ordering::Release);
    }

    /// Closes it unless it belongs to the program now. Takes no lock and frees nothing.
    pub(crate) fn close(&self) {
        let descriptor = self.descriptor.swap(-1, Ordering::AcqRel);
        let identity = Identity {
            device: self.device.load(Ordering::Relaxed),
            inode: self.inode.load(Ordering::Relaxed),
        };
        if descriptor >= 0 && Identity::of_descriptor(descriptor) == Some(identity) {
            // SAFETY: it is of our file, which nobody in the child uses.
            unsafe { libc::close(descriptor) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_number_that_the_program_took_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| File::create_new(folder.path().join(name)).unwrap();
        let own = OwnDescriptor::new(file("ours")).unwrap();
        assert!(own.descriptor >= DESCRIPTOR_MIN);
        let remembered = Remembered::none();
        remembered.set(Some(&own));
        own.write(b"ours").unwrap();
        let theirs = file("theirs");
        // SAFETY: takes numbers; what `own` holds is replaced, as a program would.
        assert!(unsafe { libc::dup2(theirs.as_raw_fd(), own.descriptor) } >= 0);
        let error = own.write(b"not theirs").unwrap_err();
        assert!(is_taken(&error) && own.raw_fd().is_none());
        remembered.close();
        let number = own.descriptor;
        drop(own);
        // SAFETY: takes numbers.
        assert!(unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0);
        assert_eq!(theirs.metadata().unwrap().len(), 0);
        // SAFETY: it is the copy that was made above.
        unsafe { libc::close(number) };
    }
}
