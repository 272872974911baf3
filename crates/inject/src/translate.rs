//! Translates CUPTI's activity records to wire records.

use std::collections::HashSet;

use llmprof_wire::{Call, Copy, Kernel, Memset, Overhead, Sync};

use crate::budget::Stream;
use crate::cupti::layout::{self, Activity, kind};
use crate::cupti::{Calls, domain};
use crate::driver;
use crate::names::Names;

/// What a record was and whether it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Written,
    /// A call that starts work on a device; it was written.
    Launch {
        of_graph: bool,
    },
    /// A kernel; it was written. `name` is the number of its name.
    Kernel {
        times: (i64, i64),
        name: u32,
        stream: Stream,
        of_graph: bool,
    },
    /// Skipped on purpose, since no report needs it.
    Left,
    /// A device activity without times: CUPTI was flushed before the device was done, or had no memory for them.
    Untimed {
        of_graph: bool,
    },
}

/// Remembers which devices and names were written already.
#[derive(Default)]
pub(crate) struct Translator {
    names: Names,
    devices: HashSet<u32>,
}

/// Copies between devices have a structure of their own, with the same fields.
macro_rules! copy_of {
    ($copy:ident) => {
        Copy {
            start: $copy.start as i64,
            end: $copy.end as i64,
            graph_node: $copy.graph_node,
            bytes: $copy.bytes,
            device: $copy.device,
            context: $copy.context,
            stream: $copy.stream,
            correlation: $copy.correlation,
            graph: $copy.graph,
            kind: $copy.copy_kind,
            source: $copy.source_kind,
            target: $copy.target_kind,
        }
    };
}

impl Translator {
    /// Writes one record to `out`.
    ///
    /// # Safety
    /// `record` points to a whole record of a supported version of CUPTI.
    pub(crate) unsafe fn write_record(
        &mut self,
        record: *const Activity,
        calls: &Calls,
        out: &mut Vec<u8>,
    ) -> Outcome {
        // SAFETY: every record begins with its kind; each is read as the structure of its kind, of which it is whole.
        // Reads are unaligned since records of 12 bytes more would be packed to 4.
        unsafe {
            match (*record).kind {
                kind::KERNEL => {
                    self.write_kernel(&record.cast::<layout::Kernel>().read_unaligned(), out)
                }
                kind::MEMCPY => {
                    let copy = record.cast::<layout::Memcpy>().read_unaligned();
                    self.write_copy(&copy_of!(copy), out)
                }
                kind::MEMCPY_PEER => {
                    let copy = record.cast::<layout::MemcpyPeer>().read_unaligned();
                    self.write_copy(&copy_of!(copy), out)
                }
                kind::MEMSET => {
                    self.write_memset(&record.cast::<layout::Memset>().read_unaligned(), out)
                }
                kind::SYNCHRONIZATION => write_sync(
                    &record.cast::<layout::Synchronization>().read_unaligned(),
                    out,
                ),
                kind::RUNTIME => {
                    let call = record.cast::<layout::Api>().read_unaligned();
                    self.write_call(&call, domain::RUNTIME, calls, out)
                }
                kind::DRIVER => {
                    let call = record.cast::<layout::Api>().read_unaligned();
                    self.write_call(&call, domain::DRIVER, calls, out)
                }
                kind::OVERHEAD => {
                    write_overhead(&record.cast::<layout::Overhead>().read_unaligned(), out)
                }
                _ => Outcome::Left,
            }
        }
    }

    fn write_device(&mut self, number: u32, out: &mut Vec<u8>) {
        if self.devices.insert(number) {
            driver::describe_device(number, out);
        }
    }

    fn write_kernel(&mut self, kernel: &layout::Kernel, out: &mut Vec<u8>) -> Outcome {
        if !is_timed(kernel.start, kernel.end) {
            return Outcome::Untimed {
                of_graph: kernel.graph_node != 0,
            };
        }
        self.write_device(kernel.device, out);
        // SAFETY: CUPTI keeps the names of kernels until it detaches, and it is asked to only after all of its
        // records were read.
        let name = unsafe { self.names.number_of(kernel.name, out) };
        let size = |size: [i32; 3]| size.map(|length| u32::try_from(length).unwrap_or(0));
        let bytes = |bytes: i32| u32::try_from(bytes).unwrap_or(0);
        let record = Kernel {
            start: kernel.start as i64,
            end: kernel.end as i64,
            graph_node: kernel.graph_node,
            name,
            device: kernel.device,
            context: kernel.context,
            stream: kernel.stream,
            correlation: kernel.correlation,
            graph: kernel.graph,
            grid: size(kernel.grid),
            block: size(kernel.block),
            static_shared: bytes(kernel.static_shared),
            dynamic_shared: bytes(kernel.dynamic_shared),
            registers: kernel.registers_per_thread,
        };
        record.put(out);
        Outcome::Kernel {
            times: (record.start, record.end),
            name,
            stream: (record.device, record.context, record.stream),
            of_graph: kernel.graph_node != 0,
        }
    }

    fn write_copy(&mut self, copy: &Copy, out: &mut Vec<u8>) -> Outcome {
        if !is_timed(copy.start as u64, copy.end as u64) {
            return Outcome::Untimed {
                of_graph: copy.graph_node != 0,
            };
        }
        self.write_device(copy.device, out);
        copy.put(out);
        Outcome::Written
    }

    fn write_memset(&mut self, memset: &layout::Memset, out: &mut Vec<u8>) -> Outcome {
        if !is_timed(memset.start, memset.end) {
            return Outcome::Untimed {
                of_graph: memset.graph_node != 0,
            };
        }
        self.write_device(memset.device, out);
        let record = Memset {
            start: memset.start as i64,
            end: memset.end as i64,
            graph_node: memset.graph_node,
            bytes: memset.bytes,
            device: memset.device,
            context: memset.context,
            stream: memset.stream,
            correlation: memset.correlation,
            graph: memset.graph,
            target: memset.memory_kind.try_into().unwrap_or(0),
        };
        record.put(out);
        Outcome::Written
    }

    fn write_call(
        &mut self,
        call: &layout::Api,
        domain: u32,
        calls: &Calls,
        out: &mut Vec<u8>,
    ) -> Outcome {
        if !calls.is_recorded(domain, call.callback) {
            return Outcome::Left;
        }
        if !is_timed(call.start, call.end) {
            return Outcome::Untimed { of_graph: false };
        }
        let name = calls.call_name(domain, call.callback);
        let launches = name.windows(6).any(|part| part == b"Launch");
        let record = Call {
            start: call.start as i64,
            end: call.end as i64,
            name: self.names.number_text(name, out),
            thread: call.thread,
            correlation: call.correlation,
            status: call.status,
            domain: domain as u8,
        };
        record.put(out);
        if launches {
            let of_graph = name.windows(11).any(|part| part == b"GraphLaunch");
            Outcome::Launch { of_graph }
        } else {
            Outcome::Written
        }
    }
}

fn write_sync(sync: &layout::Synchronization, out: &mut Vec<u8>) -> Outcome {
    if !is_timed(sync.start, sync.end) {
        return Outcome::Untimed { of_graph: false };
    }
    let record = Sync {
        start: sync.start as i64,
        end: sync.end as i64,
        context: sync.context,
        stream: sync.stream,
        correlation: sync.correlation,
        kind: sync.wait_kind,
    };
    record.put(out);
    Outcome::Written
}

fn write_overhead(overhead: &layout::Overhead, out: &mut Vec<u8>) -> Outcome {
    if !is_timed(overhead.start, overhead.end) {
        return Outcome::Untimed { of_graph: false };
    }
    let record = Overhead {
        start: overhead.start as i64,
        end: overhead.end as i64,
        kind: overhead.cause,
        thread: match overhead.object_kind {
            layout::Overhead::THREAD => overhead.thread,
            _ => 0,
        },
    };
    record.put(out);
    Outcome::Written
}

fn is_timed(start: u64, end: u64) -> bool {
    start != 0 && end >= start
}
