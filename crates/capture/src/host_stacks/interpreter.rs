//! The interpreter of a Python process, read from outside: stacks by py-spy, and beside them what py-spy does not tell, whose
//! addresses are found once.

use std::{fs::File, io, ops::Range, os::unix::fs::FileExt as _};

use llmprof_record::trace::Collecting;
use py_spy::{Config, PythonSpy, config::LockingStrategy, python_process_info::PythonProcessInfo};

use super::python::{Frame, Moment, PythonThread, Refusal};

/// Older interpreters do not say which thread of the system runs which stack.
const MINOR_VERSION_MIN: u64 = 11;

/// Bytes of the GIL: interval, holder, flag and counter, then two conditions and two mutexes of glibc (`struct _gil_runtime_state`).
const GIL_BYTES: u64 = 4 * 8 + 2 * (48 + 40);
/// Where the GIL lies in `_PyRuntime` of CPython 3.11; later versions have a pointer to it, which py-spy finds.
const GIL_IN_RUNTIME_3_11: u64 = 360;

/// Bytes of the interpreter's state in which the collector's state is looked for; it lies at 672, 136 and 7424 in 3.11, 3.12 and 3.13.
const INTERPRETER_BYTES: usize = 32 << 10;
/// Bytes of the three generations, each a list head, a threshold and a count.
const GENERATIONS_BYTES: usize = 3 * 24;
/// From the generations to the flag: they, a pointer to the first, the permanent one, and statistics of three.
const COLLECTING_AFTER_GENERATIONS: u64 = 72 + 8 + 24 + 3 * 24;

/// The version of `_Py_DebugOffsets` whose words [`offsets`] names: 3.14, without the patch release.
const OFFSETS_VERSION: u64 = 0x030e;

/// Words of `_Py_DebugOffsets` of CPython 3.14 (`pycore_debug_offsets.h`).
mod offsets {
    /// `interpreter_state.size`, after a cookie, the version, a flag and three words of the runtime.
    pub(super) const INTERPRETER_BYTES: u64 = 6;
    /// The word that holds the offset of `interpreter_state.gc`.
    pub(super) const GC: u64 = 11;
    /// `gc.size`, after the tables of threads, frames, code and twelve kinds of objects.
    pub(super) const GC_BYTES: u64 = 81;
    /// The word that holds the offset of `gc.collecting`.
    pub(super) const COLLECTING: u64 = 82;
}

pub(super) struct Interpreter {
    spy: PythonSpy,
    memory: File,
    gil: Option<Range<u64>>,
    /// Address of `gc.collecting`; `None` where it is not known.
    collecting: Option<u64>,
}

impl Interpreter {
    pub(super) fn attach_to(process: u32) -> Result<Self, Refusal> {
        let config = Config {
            blocking: LockingStrategy::NonBlocking,
            collect_thread_names: false,
            ..Config::default()
        };
        let pid = py_spy::Pid::try_from(process)
            .map_err(|error| Refusal::Unsupported(error.to_string()))?;
        let mut spy = PythonSpy::new(pid, &config).map_err(|error| to_refusal(&error))?;
        let version = &spy.version;
        if (version.major, version.minor) < (3, MINOR_VERSION_MIN) {
            return Err(Refusal::Unsupported(format!("it is Python {version}")));
        }
        let memory = File::open(format!("/proc/{process}/mem"))
            .map_err(|error| Refusal::NotPermitted(error.to_string()))?;
        let runtime = find_runtime(&spy);
        if runtime.is_some_and(|runtime| is_free_threaded(&memory, runtime)) {
            let why = format!("it is a free-threaded Python {}", spy.version);
            return Err(Refusal::Unsupported(why));
        }
        // One that cannot be read once will not be read later.
        spy.get_stack_traces().map_err(|error| to_refusal(&error))?;
        let gil = find_gil(&spy, runtime, &memory);
        let interpreter = spy.addresses.interpreter_address as u64;
        let collecting = find_collecting(&memory, interpreter)
            .or_else(|| find_collecting_by_table(&memory, runtime?, interpreter));
        Ok(Self {
            spy,
            memory,
            gil,
            collecting,
        })
    }

    /// What all threads do now.
    pub(super) fn read_threads(&mut self) -> Result<Moment, String> {
        let traces = self
            .spy
            .get_stack_traces()
            .map_err(|error| error.root_cause().to_string())?;
        let threads = traces.into_iter().filter_map(|trace| {
            let frames = trace.frames.into_iter().map(|frame| Frame {
                function: frame.name,
                file: frame.filename,
                line: u32::try_from(frame.line).unwrap_or(0),
            });
            Some(PythonThread {
                thread: u32::try_from(trace.os_thread_id?).ok()?,
                owns_gil: trace.owns_gil,
                frames: frames.collect(),
            })
        });
        Ok(Moment {
            threads: threads.collect(),
            collecting: self.read_collecting(),
        })
    }

    fn read_collecting(&self) -> Collecting {
        let mut flag = [0; 4];
        let read = self
            .collecting
            .map(|address| self.memory.read_exact_at(&mut flag, address));
        match (read, i32::from_le_bytes(flag)) {
            (Some(Ok(())), 0) => Collecting::NO,
            (Some(Ok(())), 1) => Collecting::YES,
            _ => Collecting::UNKNOWN,
        }
    }

    /// Whether a futex belongs to the GIL.
    pub(super) fn is_gil(&self, address: u64) -> bool {
        self.gil.as_ref().is_some_and(|gil| gil.contains(&address))
    }
}

fn to_refusal(error: &anyhow::Error) -> Refusal {
    let denied = |cause: &(dyn std::error::Error + 'static)| {
        let error = cause.downcast_ref::<io::Error>();
        error.is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    };
    if error.chain().any(denied) {
        return Refusal::NotPermitted(error.root_cause().to_string());
    }
    Refusal::NotYet(error.root_cause().to_string())
}

fn find_runtime(spy: &PythonSpy) -> Option<u64> {
    let symbols = PythonProcessInfo::new(&spy.process).ok()?;
    symbols.get_symbol("_PyRuntime").copied()
}

/// Whether the interpreter was built without a GIL, as `_Py_DebugOffsets` at the start of `_PyRuntime` says from 3.13 on: a cookie, the
/// version, this flag.
fn is_free_threaded(memory: &File, runtime: u64) -> bool {
    let cookie = read_word(memory, runtime).map(u64::to_le_bytes);
    let flag = read_word(memory, runtime + 16);
    cookie == Some(*b"xdebugpy") && flag.is_some_and(|flag| flag != 0)
}

/// Where the GIL lies, if what lies there looks like one.
fn find_gil(spy: &PythonSpy, runtime: Option<u64>, memory: &File) -> Option<Range<u64>> {
    let start = if spy.version.minor == MINOR_VERSION_MIN {
        runtime? + GIL_IN_RUNTIME_3_11
    } else {
        spy.addresses.threadstate_address as u64
    };
    let interval = read_word(memory, start)?;
    let is_locked = read_word(memory, start + 16)? as u32 as i32;
    // The switch interval in µs, 5000 unless the program set another: a pointer or a zero is none.
    let is_plausible = (1..1 << 40).contains(&interval) && (-1..=1).contains(&is_locked);
    is_plausible.then_some(start..start + GIL_BYTES)
}

/// The address of `gc.collecting` of CPython 3.11 to 3.13 in any patch release. The state of the collector has a pointer to itself
/// (`generation0`, after `generations`), by which it is found; there is none in other versions, whose collector is incremental.
fn find_collecting(memory: &File, interpreter: u64) -> Option<u64> {
    let mut state = vec![0; INTERPRETER_BYTES];
    let read = memory.read_at(&mut state, interpreter).ok()?;
    let word = |at: usize| -> Option<u64> {
        let bytes = state.get(at..at + 8).filter(|_| at + 8 <= read)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    let mut places = (0..read).step_by(8);
    let at = places.find(|&at| word(at + GENERATIONS_BYTES) == Some(interpreter + at as u64))?;
    let address = interpreter + at as u64 + COLLECTING_AFTER_GENERATIONS;
    let flag = read_word(memory, address)? as u32;
    (flag <= 1).then_some(address)
}

/// The address of `gc.collecting` of CPython 3.14, by the table of offsets at the start of `_PyRuntime` (`_Py_DebugOffsets`).
fn find_collecting_by_table(memory: &File, runtime: u64, interpreter: u64) -> Option<u64> {
    let word = |place: u64| read_word(memory, runtime + 8 * place);
    let is_table = word(0)?.to_le_bytes() == *b"xdebugpy" && word(1)? >> 16 == OFFSETS_VERSION;
    let (interpreter_bytes, gc) = (word(offsets::INTERPRETER_BYTES)?, word(offsets::GC)?);
    let (gc_bytes, collecting) = (word(offsets::GC_BYTES)?, word(offsets::COLLECTING)?);
    let is_inside = collecting < gc_bytes && gc.checked_add(gc_bytes)? <= interpreter_bytes;
    let address = interpreter.checked_add(gc)?.checked_add(collecting)?;
    let flag = read_word(memory, address)? as u32;
    (is_table && is_inside && flag <= 1).then_some(address)
}

fn read_word(memory: &File, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    memory.read_exact_at(&mut bytes, address).ok()?;
    Some(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory as 3.14 lays it out: the table at 64, an interpreter at 4096 whose collector is at 1000, and the flag 168 bytes into that.
    #[test]
    fn the_collector_of_3_14_is_found_by_the_table() {
        let (runtime, interpreter) = (64, 4096);
        let memory = |version: u64, flag: u8| {
            let mut bytes = vec![0; 16 << 10];
            bytes[64..72].copy_from_slice(b"xdebugpy");
            let mut set = |place: u64, value: u64| {
                let start = (runtime + 8 * place) as usize;
                bytes[start..start + 8].copy_from_slice(&value.to_le_bytes());
            };
            set(1, version);
            set(offsets::INTERPRETER_BYTES, 8 << 10);
            set(offsets::GC, 1000);
            set(offsets::GC_BYTES, 240);
            set(offsets::COLLECTING, 168);
            bytes[4096 + 1000 + 168] = flag;
            let file = tempfile::tempfile().unwrap();
            file.write_all_at(&bytes, 0).unwrap();
            file
        };
        let find =
            |version, flag| find_collecting_by_table(&memory(version, flag), runtime, interpreter);
        assert_eq!(find(0x030e_02f0, 1), Some(4096 + 1000 + 168));
        assert_eq!(find(0x030e_02f0, 7), None, "no flag");
        assert_eq!(find(0x030f_00a1, 1), None, "another table");
    }

    #[test]
    fn only_a_lack_of_rights_is_called_one() {
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let denied = anyhow::Error::from(denied).context("cannot read memory");
        assert!(matches!(to_refusal(&denied), Refusal::NotPermitted(_)));
        let starting = anyhow::anyhow!("no interpreter found");
        assert!(matches!(to_refusal(&starting), Refusal::NotYet(_)));
    }
}
