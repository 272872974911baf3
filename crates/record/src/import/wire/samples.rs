//! Samples of host threads, which llmprof takes from outside and writes into files of their own.

use std::collections::{HashMap, HashSet};

use llmprof_units::Nanos;
use llmprof_wire::{HostSample, Reader, Record, StackFrame};

use crate::trace::{
    self, Collecting, CpuState, FrameId, HostKind, HostSamples, HostWait, StrId, ThreadId,
    TraceBuilder,
};

/// Reads one file into `builder`; false where it is not one of samples.
pub(super) fn read(bytes: &[u8], builder: &mut TraceBuilder) -> bool {
    let Ok((header, mut records)) = Reader::new(bytes) else {
        return false;
    };
    if !matches!(records.next(), Some(Record::Sampler(_))) {
        return false;
    }
    builder
        .clock_origin_ns
        .get_or_insert(Nanos(header.unix_offset));
    let mut samples = Samples {
        builder,
        process: i64::from(header.process),
        texts: HashMap::new(),
        frames: HashMap::new(),
    };
    // A recorder that was killed leaves half a record at the end: nothing of the others is lost.
    for record in records {
        match record {
            Record::Text(text) => {
                let id = samples.builder.intern(&String::from_utf8_lossy(text.text));
                samples.texts.insert(text.id, id);
            }
            Record::StackFrame(frame) => samples.add_frame(frame),
            Record::HostSample(sample) => samples.add_sample(sample),
            _ => {}
        }
    }
    true
}

struct Samples<'a> {
    builder: &'a mut TraceBuilder,
    process: i64,
    texts: HashMap<u32, StrId>,
    frames: HashMap<u32, FrameId>,
}

impl Samples<'_> {
    fn text(&self, id: u32) -> StrId {
        self.texts.get(&id).copied().unwrap_or_default()
    }

    fn frame(&self, id: u32) -> FrameId {
        self.frames.get(&id).copied().unwrap_or_default()
    }

    fn thread(&mut self, id: u32) -> ThreadId {
        match id {
            0 => ThreadId::NONE,
            id => self.builder.thread(self.process, i64::from(id)),
        }
    }

    fn add_frame(&mut self, frame: StackFrame) {
        let row = trace::StackFrame {
            parent: self.frame(frame.parent),
            function: self.text(frame.function),
            file: self.text(frame.file),
            line: frame.line,
        };
        let id = self.builder.frame(row);
        self.frames.insert(frame.id, id);
    }

    fn add_sample(&mut self, sample: HostSample) {
        self.builder.events_read += 1;
        let row = trace::HostSample {
            time: sample.time,
            period: i64::try_from(sample.period).unwrap_or(i64::MAX),
            thread: self.thread(sample.thread),
            cpu: CpuState(sample.cpu),
            wait: HostWait(sample.wait),
            call: self.text(sample.call),
            gil_holder: self.thread(sample.gil_holder),
            collecting: Collecting(sample.collecting),
            stack: self.frame(sample.stack),
        };
        self.builder.host_samples.push(row);
    }
}

/// Leaves out threads that have no part in what the device waits for: those that never called CUDA, while they wait for anything but
/// the GIL. Pools and servers have dozens of them.
pub(super) fn leave_out_idle_threads(builder: &mut TraceBuilder) {
    let hosts = &builder.hosts;
    let is_call = |kind: HostKind| matches!(kind, HostKind::RUNTIME | HostKind::DRIVER);
    let calling: HashSet<ThreadId> = (0..hosts.len())
        .filter(|&row| is_call(hosts.kind[row]))
        .map(|row| hosts.thread[row])
        .collect();
    if calling.is_empty() {
        return;
    }
    let mut kept = HostSamples::default();
    for sample in builder.host_samples.rows() {
        let takes_part = calling.contains(&sample.thread)
            || sample.cpu == CpuState::ON
            || sample.wait == HostWait::GIL
            || sample.gil_holder == sample.thread;
        if takes_part {
            kept.push(sample);
        }
    }
    builder.host_samples = kept;
}

#[cfg(test)]
mod tests {
    use llmprof_wire::{Header, Sampler, Text};

    use super::*;
    use crate::trace::Host;

    /// Three threads at one moment: 1 calls CUDA and sleeps, 2 holds the GIL off CPU, 3 waits in a pool.
    fn file() -> Vec<u8> {
        let header = Header {
            process: 7,
            parent: 1,
            time: 5,
            unix_offset: 1000,
        };
        let mut bytes = header.bytes().to_vec();
        Sampler { time: 5 }.put(&mut bytes);
        for (id, text) in [(1, "step"), (2, "/home/user/serve.py"), (3, "futex")] {
            let text = text.as_bytes();
            Text { id, text }.put(&mut bytes);
        }
        let frame = StackFrame {
            id: 1,
            parent: 0,
            function: 1,
            file: 2,
            line: 12,
        };
        frame.put(&mut bytes);
        for thread in 1..=3 {
            let sample = HostSample {
                time: 10,
                period: 4,
                thread,
                gil_holder: 2,
                stack: 1,
                call: 3,
                cpu: 2,
                wait: 3,
                collecting: 1,
            };
            sample.put(&mut bytes);
        }
        bytes
    }

    #[test]
    fn threads_without_a_part_are_left_out() {
        let mut builder = TraceBuilder::default();
        assert!(read(&file(), &mut builder));
        let mut all = TraceBuilder::default();
        assert!(read(&file(), &mut all));
        leave_out_idle_threads(&mut all);
        assert_eq!(all.host_samples.len(), 3, "nobody called CUDA");
        let thread = builder.thread(7, 1);
        builder.hosts.push(Host {
            thread,
            kind: HostKind::RUNTIME,
            ..Host::default()
        });
        leave_out_idle_threads(&mut builder);
        let trace = builder.finish();
        let threads: Vec<i64> = trace
            .host_samples
            .thread
            .iter()
            .map(|id| trace.threads.row(id.0 as usize).thread)
            .collect();
        assert_eq!(threads, [1, 2]);
        let sample = trace.host_samples.row(0);
        let frame = trace.stack_frames.stack(sample.stack).next();
        let frame = frame.expect("a stack");
        assert_eq!(
            (
                trace.text(frame.function),
                trace.text(frame.file),
                frame.line
            ),
            ("step", "~/serve.py", 12)
        );
        assert_eq!(trace.text(sample.call), "futex");
        assert_eq!(trace.clock_origin_ns, Some(Nanos(1000)));
    }

    #[test]
    fn samples_join_a_trace_on_its_clock() {
        let mut builder = TraceBuilder::default();
        let (thread, name) = (builder.thread(7, 1), builder.intern("aten::mm"));
        let kept = builder.thread(9, 9);
        builder.name_thread(Ok(7), Ok(1), "main");
        builder.clock_origin_ns = Some(Nanos(900));
        let inputs = builder.inputs(crate::trace::RawInputs::default());
        for thread in [thread, kept] {
            builder.hosts.push(Host {
                name,
                thread,
                inputs,
                kind: HostKind::RUNTIME,
                ..Host::default()
            });
        }
        let alone = builder.finish();
        assert_eq!(TraceBuilder::reopen(alone.clone()).finish(), alone);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("host-7-5.wire");
        std::fs::write(&path, file()).expect("it is written");
        let limits = crate::import::Limits::default();
        let joined = super::super::add_host_samples(alone.clone(), &[path], &limits);
        let joined = joined.expect("it is read");
        assert_eq!(joined.hosts.len(), 2);
        // 10 ns after a clock's zero at 1000 is 110 ns after one at 900.
        assert!(joined.host_samples.time.iter().all(|&time| time == 110));
        let sampled = joined.host_samples.row(0).thread;
        assert_eq!(joined.hosts.thread[0], sampled);
        assert_eq!(
            joined.text(joined.threads.row(sampled.0 as usize).name),
            "main"
        );
    }

    #[test]
    fn a_file_that_breaks_off_keeps_what_it_has() {
        let bytes = file();
        for length in 0..bytes.len() {
            let mut builder = TraceBuilder::default();
            read(&bytes[..length], &mut builder);
            assert!(builder.host_samples.len() < 3);
        }
    }
}
