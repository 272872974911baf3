//! The records: what each kind holds, and how it is written.
//!
//! A record is its whole length (u32), its kind (u16), two bytes of zero, its fields in the order in which they stand
//! here, little-endian and without gaps, and for some kinds a text up to its end.
//!
//! Times and durations are in ns, times on the clock of the [`Header`](crate::Header); sizes are in bytes.

/// Texts are cut to this many bytes when they are written.
pub const TEXT_MAX_BYTES: usize = 60_000;

/// No record is longer; a greater length is damage.
pub(crate) const RECORD_MAX_BYTES: usize = 1 << 20;

/// Length, kind and two bytes of zero.
pub(crate) const PREFIX: usize = 8;

/// A number as it lies in a record.
pub(crate) trait Field: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn take(bytes: &mut &[u8]) -> Option<Self>;
}

macro_rules! fields {
    ($($type:ty),*) => { $(
        impl Field for $type {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn take(bytes: &mut &[u8]) -> Option<Self> {
                let (first, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                Some(Self::from_le_bytes(*first))
            }
        }
    )* };
}

fields!(u8, u16, u32, u64, i64);

impl Field for [u32; 3] {
    fn put(&self, out: &mut Vec<u8>) {
        for value in self {
            value.put(out);
        }
    }
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Some([
            Field::take(bytes)?,
            Field::take(bytes)?,
            Field::take(bytes)?,
        ])
    }
}

/// Writes the prefix, lets `fill` write the rest, and sets the length.
fn framed(out: &mut Vec<u8>, kind: u16, fill: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    out.extend_from_slice(&[0; 4]);
    kind.put(out);
    0_u16.put(out);
    fill(out);
    let length = (out.len() - begin) as u32;
    out[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
}

macro_rules! records {
    (
        numbers { $( $(#[$doc:meta])* $name:ident = $kind:literal {
            $( $(#[$field_doc:meta])* $field:ident: $type:ty, )*
        } )* }
        texts { $( $(#[$tdoc:meta])* $tname:ident = $tkind:literal {
            $( $(#[$tfield_doc:meta])* $tfield:ident: $ttype:ty, )*
        } )* }
    ) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub struct $name { $( $(#[$field_doc])* pub $field: $type, )* }

            impl $name {
                /// The number of this kind of record.
                pub const KIND: u16 = $kind;

                /// Writes it to the end of `out`.
                pub fn put(&self, out: &mut Vec<u8>) {
                    framed(out, $kind, |out| { let _ = &out; $( self.$field.put(out); )* });
                }
            }
        )*
        $(
            $(#[$tdoc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub struct $tname<'a> {
                $( $(#[$tfield_doc])* pub $tfield: $ttype, )*
                /// The text; bytes that should be UTF-8, and need not be.
                pub text: &'a [u8],
            }

            impl $tname<'_> {
                /// The number of this kind of record.
                pub const KIND: u16 = $tkind;

                /// Writes it to the end of `out`, its text cut to [`TEXT_MAX_BYTES`].
                pub fn put(&self, out: &mut Vec<u8>) {
                    framed(out, $tkind, |out| {
                        $( self.$tfield.put(out); )*
                        out.extend_from_slice(&self.text[..self.text.len().min(TEXT_MAX_BYTES)]);
                    });
                }
            }
        )*

        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Record<'a> {
            $( $(#[$doc])* $name($name), )*
            $( $(#[$tdoc])* $tname($tname<'a>), )*
            /// A kind that this version does not know.
            Unknown(u16),
        }

        impl<'a> Record<'a> {
            /// Reads what lies between the prefix and the end; `None` where that is too short for its kind.
            pub(crate) fn read(kind: u16, payload: &'a [u8]) -> Option<Self> {
                #[allow(unused_mut, reason = "a kind without fields takes nothing")]
                let mut bytes = payload;
                Some(match kind {
                    $( $kind => Self::$name($name { $( $field: Field::take(&mut bytes)?, )* }), )*
                    $( $tkind => Self::$tname($tname {
                        $( $tfield: Field::take(&mut bytes)?, )*
                        text: bytes,
                    }), )*
                    kind => Self::Unknown(kind),
                })
            }

            /// Writes it to the end of `out`. A record of an unknown kind has no content to write.
            pub fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $( Self::$name(record) => record.put(out), )*
                    $( Self::$tname(record) => record.put(out), )*
                    Self::Unknown(kind) => framed(out, *kind, |_| ()),
                }
            }
        }
    };
}

records! {
    numbers {
        Kernel = 5 {
            start: i64,
            end: i64,
            /// The node of a graph that it came from; 0 outside of graphs.
            graph_node: u64,
            /// Its mangled name, by the number of a [`Text`].
            name: u32,
            device: u32,
            context: u32,
            stream: u32,
            /// The id that the call carries which launched it.
            correlation: u32,
            /// The graph; 0 outside of graphs.
            graph: u32,
            grid: [u32; 3],
            block: [u32; 3],
            /// Shared memory fixed at compile time, bytes.
            static_shared: u32,
            /// Shared memory asked for at launch, bytes.
            dynamic_shared: u32,
            registers: u16,
        }
        /// A copy by a device.
        Copy = 6 {
            start: i64,
            end: i64,
            /// The node of a graph that it came from; 0 outside of graphs.
            graph_node: u64,
            bytes: u64,
            device: u32,
            context: u32,
            stream: u32,
            /// The id that the call carries which asked for it.
            correlation: u32,
            /// The graph; 0 outside of graphs.
            graph: u32,
            /// `CUpti_ActivityMemcpyKind`: from where to where.
            kind: u8,
            /// `CUpti_ActivityMemoryKind` of the memory that was read.
            source: u8,
            /// `CUpti_ActivityMemoryKind` of the memory that was written.
            target: u8,
        }
        /// A memory fill by a device.
        Memset = 7 {
            start: i64,
            end: i64,
            /// The node of a graph that it came from; 0 outside of graphs.
            graph_node: u64,
            bytes: u64,
            device: u32,
            context: u32,
            stream: u32,
            /// The id that the call carries which asked for it.
            correlation: u32,
            /// The graph; 0 outside of graphs.
            graph: u32,
            /// `CUpti_ActivityMemoryKind` of the memory that was filled.
            target: u8,
        }
        Sync = 8 {
            start: i64,
            end: i64,
            context: u32,
            /// The stream; `u32::MAX` where the whole context is meant.
            stream: u32,
            /// The id that the call carries which waited.
            correlation: u32,
            /// `CUpti_ActivitySynchronizationType`: on an event, a stream or the context.
            kind: u32,
        }
        /// A call of the CUDA API.
        Call = 9 {
            start: i64,
            end: i64,
            /// Its name, by the number of a [`Text`].
            name: u32,
            /// The thread, as the system numbers it.
            thread: u32,
            /// The id that device events carry which it caused.
            correlation: u32,
            status: u32,
            /// 1: of the driver; 2: of the runtime.
            domain: u8,
        }
        /// Time that CUPTI or the driver spent on being watched.
        Overhead = 10 {
            start: i64,
            end: i64,
            /// `CUpti_ActivityOverheadKind`: compiler, buffer flush, instrumentation or resources.
            kind: u32,
            /// The thread; 0 where it is not of one.
            thread: u32,
        }
        /// The innermost range of a domain on a thread ends.
        Pop = 13 {
            time: i64,
            thread: u32,
            /// The number of a [`Domain`]; 0 is the default one.
            domain: u32,
        }
        /// A range that was started by [`RangeStart`] ends.
        RangeEnd = 15 {
            time: i64,
            range: u64,
            thread: u32,
        }
        /// Recording goes on or off.
        Capture = 20 {
            time: i64,
            /// 1: from now on device activities are recorded; 0: no more.
            on: u8,
            /// 0: because someone says so; 1: because a budget for the overhead does; 2: because it does, and with a
            /// range that it takes for a step.
            slice: u8,
        }
        /// Everything that had ended by then is in the file.
        Checkpoint = 23 {
            time: i64,
        }
        /// What the injected library itself cost the process.
        Cost = 25 {
            /// Records from CUPTI that were read.
            records: u64,
            /// Processor time of the library's thread, ns.
            thread_time: u64,
            /// Times that recording was put on or off.
            switches: u64,
            /// Time that this took, ns.
            switch_time: u64,
            /// What one launch costs while recording is on, as measured, ns; 0: not measured.
            launch_cost: u64,
            /// How many pairs of steps with and without recording that figure is from.
            launch_cost_samples: u64,
        }
        /// CUPTI was taken out of the process while nothing is recorded, or put back for the next slice.
        Attachment = 26 {
            time: i64,
            /// How long that took, ns.
            took: u64,
            /// 1: it is back; 0: it has left.
            on: u8,
        }
        /// The first record of a file that llmprof itself writes: samples of the host threads of a process, taken from outside.
        Sampler = 28 {
            time: i64,
        }
        /// A frame of a sampled stack, before its first use.
        StackFrame = 29 {
            /// Number of the frame, from 1; 0 means that there is none.
            id: u32,
            /// The number of the frame that called it; 0 for the outermost.
            parent: u32,
            /// The function, by the number of a [`Text`].
            function: u32,
            /// The source file, by the number of a [`Text`].
            file: u32,
            /// The line; 0 where unknown.
            line: u32,
        }
        /// What a thread did at a moment. Samples of one moment have the same time.
        HostSample = 30 {
            time: i64,
            /// Time since the sample before it, ns.
            period: u64,
            /// The thread, as the system numbers it.
            thread: u32,
            /// The thread that held the GIL; 0 where none did or it is unknown.
            gil_holder: u32,
            /// The number of the innermost [`StackFrame`]; 0 where none was read.
            stack: u32,
            /// The system call that it waits in, by the number of a [`Text`]; 0 on a CPU or where unknown.
            call: u32,
            /// 0 unknown, 1 on a CPU, 2 off.
            cpu: u8,
            /// 0 not waiting, 1 unknown, 2 the GIL, 3 another lock, 4 sleep, 5 another call.
            wait: u8,
            /// Whether the interpreter collects garbage: 0 unknown, 1 no, 2 yes.
            collecting: u8,
        }
        /// The process ended in order and this is the last record.
        Ended = 24 {
            time: i64,
            /// Records of CUPTI that were lost in all.
            dropped: u64,
        }
    }
    texts {
        /// A text by its number, before its first use.
        Text = 1 {
            /// The number; unique within the file.
            id: u32,
        }
        /// CUPTI is in use from now on. The text is the name of the process.
        Attached = 3 {
            time: i64,
            cupti: u32,
            /// What `cuDriverGetVersion` says; 0 where it was not asked.
            driver: u32,
            /// 1: calls other than those that launch or wait are recorded too.
            all_calls: u8,
        }
        /// A device, before its first use. The text is its name.
        Device = 4 {
            /// Its number in this process.
            id: u32,
            pci_domain: u32,
            pci_bus: u32,
            pci_device: u32,
            major: u32,
            minor: u32,
            sm_count: u32,
            warp_size: u32,
            /// Threads a block may have.
            threads_per_block: u32,
            /// Threads a multiprocessor may hold.
            threads_per_sm: u32,
            /// Blocks a multiprocessor may hold.
            blocks_per_sm: u32,
            registers_per_sm: u32,
            /// Registers a block may have.
            registers_per_block: u32,
            /// Shared memory of a multiprocessor, bytes.
            shared_per_sm: u32,
            /// Shared memory a block may have, bytes.
            shared_per_block: u32,
            /// Shared memory a block may ask for, bytes.
            shared_per_block_optin: u32,
            l2_bytes: u32,
            /// Clock of the multiprocessors, kHz.
            clock_khz: u32,
            /// Clock of the memory, kHz.
            memory_clock_khz: u32,
            /// Width of the memory bus, bits.
            memory_bus_bits: u32,
            memory_bytes: u64,
        }
        /// A range begins on a thread. The text is its message.
        Push = 12 {
            time: i64,
            thread: u32,
            /// The number of a [`Domain`]; 0 is the default one.
            domain: u32,
        }
        /// A range begins that may end anywhere. The text is its message.
        RangeStart = 14 {
            time: i64,
            /// Its number, unique within the file.
            range: u64,
            thread: u32,
            /// The number of a [`Domain`].
            domain: u32,
        }
        /// A moment with a name. The text is its message.
        Mark = 16 {
            time: i64,
            thread: u32,
            /// The number of a [`Domain`].
            domain: u32,
        }
        /// The name of a domain of ranges, before its first use.
        Domain = 17 {
            /// Its number; 0 is the default one, which has no name.
            id: u32,
        }
        /// What a thread is called.
        ThreadName = 18 {
            thread: u32,
        }
        /// A node of a graph comes to be. The text is the ranges open on the thread that recorded it, outermost first,
        /// joined by the byte 0x1f; a node that is the copy of another has none.
        GraphNode = 19 {
            time: i64,
            /// The node, as kernels name it.
            node: u64,
            /// The node that it is a copy of; 0 where it is none.
            original: u64,
            graph: u32,
            thread: u32,
        }
        /// Records were dropped. The text says why.
        Loss = 21 {
            /// When that was noticed, ns.
            time: i64,
            count: u64,
        }
        /// CUPTI cannot be used in this process, which runs on untouched. The text says why.
        Refused = 22 {
            time: i64,
            /// What CUPTI returned; 0 where it was not found or is of an unknown version.
            status: u32,
        }
        /// CUPTI was to detach while nothing is recorded, and does not. The text says why.
        Kept = 27 {
            time: i64,
        }
    }
}
