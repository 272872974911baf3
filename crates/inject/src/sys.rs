//! System calls that the standard library does not offer.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use crate::descriptor::OwnDescriptor;

/// The time on `CLOCK_MONOTONIC`, ns.
#[inline]
pub(crate) fn now_ns() -> i64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Offset from [`now_ns`] to Unix time, ns.
pub(crate) fn unix_offset() -> i64 {
    clock_ns(libc::CLOCK_REALTIME) - now_ns()
}

/// CPU time of the calling thread, ns.
pub(crate) fn thread_time() -> i64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of the process without the calling thread, ns.
pub(crate) fn time_of_others() -> i64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID) - thread_time()
}

#[inline]
fn clock_ns(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for the call, which fails for unknown clocks only.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Id of the calling thread in the operating system.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::gettid() as u32 }
}

/// Whether the thread of that number has ended.
pub(crate) fn is_gone(thread: u32) -> bool {
    let process = i64::from(std::process::id());
    // SAFETY: takes numbers; no signal is sent, only whether one could be is asked.
    let status = unsafe { libc::syscall(libc::SYS_tgkill, process, i64::from(thread), 0_i64) };
    // A sandbox may answer otherwise.
    status != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

/// The process that started this one.
pub(crate) fn parent_id() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::getppid() as u32 }
}

/// A library of the process, open for as long as the process lives.
#[derive(Clone, Copy)]
pub(crate) struct Library(*mut c_void);

// SAFETY: a handle of the loader may be used from any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// Loads a library by path, or by name on the loader's path.
    pub(crate) fn open(name: &str) -> Option<Self> {
        Self::open_with(name, libc::RTLD_NOW | libc::RTLD_LOCAL)
    }

    /// The library, if it is loaded already.
    pub(crate) fn find_loaded(name: &str) -> Option<Self> {
        Self::open_with(name, libc::RTLD_NOW | libc::RTLD_NOLOAD)
    }

    fn open_with(name: &str, flags: c_int) -> Option<Self> {
        let name = CString::new(name).ok()?;
        // SAFETY: `name` is a C string.
        let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
        (!handle.is_null()).then_some(Self(handle))
    }

    /// The address of a function of the library.
    pub(crate) fn symbol(self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle came from `dlopen` and is never closed.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }
}

/// The paths of all libraries that are loaded.
pub(crate) fn loaded_paths() -> Vec<String> {
    unsafe extern "C" fn visit(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        data: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader hands valid pointers to the visitor, and `data` is the vector below.
        let (name, paths) = unsafe { ((*info).dlpi_name, &mut *data.cast::<Vec<String>>()) };
        if !name.is_null() {
            // SAFETY: the name is a C string.
            let path = unsafe { CStr::from_ptr(name) }.to_string_lossy();
            if !path.is_empty() {
                paths.push(path.into_owned());
            }
        }
        0
    }
    let mut paths: Vec<String> = Vec::new();
    // SAFETY: `visit` gets the vector, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut paths).cast()) };
    paths
}

/// Keeps the library that `address` lies in loaded until the process ends: other code holds pointers into it.
pub(crate) fn pin_library_of(address: *const c_void) {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: `info` is valid for the call; the name it gives is a C string of the loader.
    unsafe {
        if libc::dladdr(address, &raw mut info) != 0 && !info.dli_fname.is_null() {
            libc::dlopen(
                info.dli_fname.cast::<c_char>(),
                libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE,
            );
        }
    }
}

/// A pipe that one thread waits on and others write to. Not an eventfd: all eventfds share one inode, so ours could not be
/// told from the program's.
pub(crate) struct Bell {
    read: OwnDescriptor,
    write: OwnDescriptor,
}

impl Bell {
    pub(crate) fn new() -> Option<Self> {
        let mut ends: [RawFd; 2] = [-1; 2];
        // SAFETY: both numbers are written; the descriptors are new and ours.
        let [read, write] = unsafe {
            if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) != 0 {
                return None;
            }
            ends.map(|end| OwnedFd::from_raw_fd(end))
        };
        Some(Self {
            read: OwnDescriptor::new(read)?,
            write: OwnDescriptor::new(write)?,
        })
    }

    /// What a forked child must close.
    pub(crate) fn owned_descriptors(&self) -> [&OwnDescriptor; 2] {
        [&self.read, &self.write]
    }

    /// Whether the program closed or reused one of its descriptors.
    pub(crate) fn is_taken(&self) -> bool {
        self.owned_descriptors()
            .iter()
            .any(|own| own.raw_fd().is_none())
    }

    /// Wakes the waiting thread. Never blocks: if the pipe is full, the thread will wake anyway.
    pub(crate) fn ring(&self) {
        let _ = self.write.write(&[1]);
    }

    fn drain_pipe(&self) {
        let mut rung = [0; 256];
        while self
            .read
            .read(&mut rung)
            .is_ok_and(|count| count == rung.len())
        {}
    }

    /// Sleeps until the bell rings, `other` is readable or closed, or `timeout_ms` passed; returns whether `other` is ready.
    pub(crate) fn wait(&self, other: Option<RawFd>, timeout_ms: i64) -> bool {
        let mut polled = [
            // A negative descriptor is passed over.
            libc::pollfd {
                fd: self.read.raw_fd().unwrap_or(-1),
                events: libc::POLLIN,
                revents: 0,
            },
            libc::pollfd {
                fd: other.unwrap_or(-1),
                events: libc::POLLIN,
                revents: 0,
            },
        ];
        let timeout = timeout_ms.clamp(0, 60_000) as c_int;
        // SAFETY: both entries are valid.
        unsafe { libc::poll(polled.as_mut_ptr(), 2, timeout) };
        if polled[0].revents != 0 {
            self.drain_pipe();
        }
        polled[1].revents != 0
    }
}

/// Runs `start` with all signals blocked, so that a thread it starts receives none: signals belong to the target, and
/// exceeding a file size limit must be an error here instead of ending the process (`SIGXFSZ`).
pub(crate) fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: the sets are valid for the calls, which only change the mask of this thread.
    unsafe {
        let (mut all, mut before) = (
            std::mem::zeroed::<libc::sigset_t>(),
            std::mem::zeroed::<libc::sigset_t>(),
        );
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let result = start();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        result
    }
}
