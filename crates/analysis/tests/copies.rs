//! Programs that copy more than they compute, and what lies between their phases.

#![expect(clippy::unwrap_used, reason = "tests")]

use crate::record;

use llmprof_analysis::bottleneck::PhaseClass;
use llmprof_analysis::findings::Conclusion;
use llmprof_analysis::phase_facts::CopyDirection;
use llmprof_analysis::{Analysis, analyze};
use llmprof_record::trace::{
    Copy, CopyKind, Host, HostKind, Kernel, MemoryKind, Range, RangeKind, ThreadId, TraceBuilder,
};
use llmprof_theory::device::Catalog;
use llmprof_units::{Bytes, Nanos};

use self::record::record;

const MS: i64 = 1_000_000;

/// A CUDA program that waits for each call: data in, a kernel, results out.
#[derive(Default)]
struct Program {
    builder: TraceBuilder,
    thread: ThreadId,
    now: i64,
    correlation: u32,
}

impl Program {
    fn call(&mut self, name: &str, duration: i64) -> u32 {
        self.correlation += 1;
        let name = self.builder.intern(name);
        self.builder.hosts.push(Host {
            start: self.now,
            duration,
            name,
            thread: self.thread,
            kind: HostKind::RUNTIME,
            correlation: self.correlation,
            ..Host::default()
        });
        self.correlation
    }

    fn copy(&mut self, kind: CopyKind, source: MemoryKind, bytes: u64, duration: i64) {
        let correlation = self.call("cudaMemcpy", duration + 10_000);
        let name = self.builder.intern("Memcpy");
        self.builder.copies.push(Copy {
            start: self.now + 5_000,
            duration,
            name,
            kind,
            source,
            target: MemoryKind::DEVICE,
            correlation,
            bytes,
            ..Copy::default()
        });
        self.now += duration + 10_000;
    }

    fn kernel(&mut self, name: &str, duration: i64) {
        let correlation = self.call("cudaLaunchKernel", 4_000);
        let name = self.builder.intern(name);
        self.builder.kernels.push(Kernel {
            start: self.now + 5_000,
            duration,
            name,
            correlation,
            ..Kernel::default()
        });
        self.now += duration + 5_000;
    }

    /// A batch of 128 MiB in, at 20 GiB/s, and 16 MiB out.
    fn batch(&mut self, source: MemoryKind) {
        let start = self.now;
        let (to, from) = (CopyKind::HOST_TO_DEVICE, CopyKind::DEVICE_TO_HOST);
        self.copy(to, source, 128 << 20, 128 * MS / 20);
        self.kernel("saxpy", MS);
        self.kernel("dot", MS / 4);
        self.copy(from, MemoryKind::DEVICE, 16 << 20, MS);
        let name = self.builder.intern("batch");
        self.builder.ranges.push(Range {
            start,
            duration: self.now - start,
            name,
            thread: self.thread,
            kind: RangeKind::NVTX,
            ..Range::default()
        });
    }
}

/// Four batches; the host reads a file for 30 ms after the second.
fn analyzed(source: MemoryKind) -> Analysis {
    let mut program = Program::default();
    program.thread = program.builder.thread(1, 1);
    program.batch(source);
    program.batch(source);
    let read = program.builder.intern("read_file");
    program.builder.hosts.push(Host {
        start: program.now,
        duration: 30 * MS,
        name: read,
        thread: program.thread,
        kind: HostKind::OPERATOR,
        ..Host::default()
    });
    program.now += 30 * MS;
    program.batch(source);
    program.batch(source);
    let device = Catalog::embedded().by_name("h200").unwrap();
    analyze(&record(&program.builder.finish(), None), Some(&device)).unwrap()
}

#[test]
fn a_program_that_mostly_copies_is_copy_bound() {
    let analysis = analyzed(MemoryKind::PAGEABLE);
    let [batch] = analysis.phases.as_slice() else {
        panic!("{:?}", analysis.phases);
    };
    assert_eq!(batch.class.class, Some(PhaseClass::CopyBound));
    let traced = batch.traced.as_ref().unwrap();
    let [inwards, outwards] = traced.copies.as_slice() else {
        panic!("{:?}", traced.copies);
    };
    assert_eq!(inwards.direction, CopyDirection::HostToDevice);
    assert_eq!((inwards.copies, inwards.bytes), (4, Bytes(512 << 20)));
    // 20 MiB a ms, of 64 GB/s.
    let (rate, limit) = (inwards.rate().unwrap(), inwards.limit.as_ref().unwrap());
    assert!((rate.0 / (f64::from(20 << 20) * 1e3) - 1.0).abs() < 1e-6);
    assert_eq!(
        (limit.name.as_str(), limit.bytes_per_s.0),
        ("PCIe 5.0 x16", 64e9)
    );
    assert_eq!(inwards.pageable_ns, inwards.time_ns);
    assert_eq!(outwards.direction, CopyDirection::DeviceToHost);
    assert_eq!(outwards.pageable_ns, Nanos(0));
    let finding = analysis.findings.iter().find(|one| one.code == "copies");
    let finding = finding.unwrap();
    let Some(Conclusion::Copies {
        is_copy_bound,
        is_on_device,
        longest,
        ..
    }) = &finding.conclusion
    else {
        panic!("{finding:?}");
    };
    assert!(*is_copy_bound && !is_on_device);
    assert_eq!(longest.as_ref(), Some(inwards));
    let names: Vec<&str> = traced
        .longest_kernels
        .iter()
        .map(|kernel| kernel.name.as_str())
        .collect();
    assert_eq!(names, ["saxpy", "dot"]);
    assert_eq!(traced.longest_kernels[0].time_ns, Nanos(4 * MS));
}

#[test]
fn the_longest_gap_between_phases_is_named() {
    let analysis = analyzed(MemoryKind::PINNED);
    let outside = analysis.timeline.unwrap().outside.unwrap();
    let gap = outside.longest;
    assert_eq!(gap.span_ns, Nanos(30 * MS));
    assert!(outside.total_ns.0 < 31 * MS, "{:?}", outside.total_ns);
    assert_eq!(gap.after_phase.as_deref(), Some("batch"));
    assert_eq!(gap.before_phase.as_deref(), Some("batch"));
    assert_eq!(gap.after_event.as_deref(), Some("Memcpy"));
    assert_eq!(gap.busy_ns, Nanos(0));
    assert_eq!(gap.host_operator.as_deref(), Some("read_file"));
    assert!(gap.idle.host_busy_ns.0 > 29 * MS, "{:?}", gap.idle);
}
