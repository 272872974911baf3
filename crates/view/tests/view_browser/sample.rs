//! A small program with known times: operators that launch kernels on two streams, idle gaps, memory, hostile names.

use llmprof_record::run::{RecordedTrace, RunRecord};
use llmprof_record::trace::{
    Copy, Host, HostKind, Kernel, MemoryEvent, MemoryPlace, Range, RangeKind, Trace, TraceBuilder,
};

/// A name that would run a script in a page that builds markup of it.
pub(crate) const HOSTILE: &str =
    "<img src=x onerror=\"window.hacked=1\"></script><script>window.hacked=1</script>";
pub(crate) const STEPS: i64 = 200;
pub(crate) const STEP_NS: i64 = 1_000_000;
/// Each step: a GEMM of 300 µs, a gap of 100 µs, an elementwise kernel of 200 µs, a gap of 400 µs.
pub(crate) const GEMM_NS: i64 = 300_000;
pub(crate) const ELEMENTWISE_NS: i64 = 200_000;

pub(crate) fn trace() -> Trace {
    events().finish()
}

pub(crate) fn events() -> TraceBuilder {
    let mut builder = TraceBuilder::default();
    let thread = builder.thread(7, 8);
    let [gemm, elementwise, launch, operator, step, hostile] = [
        "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
        "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>>()",
        "cudaLaunchKernel",
        "aten::mm",
        "decode",
        HOSTILE,
    ]
    .map(|text| builder.intern(text));
    let mut correlation = 0;
    for number in 0..STEPS {
        let begin = number * STEP_NS;
        builder.ranges.push(Range {
            start: begin,
            duration: STEP_NS - 10_000,
            name: step,
            thread,
            kind: RangeKind::ANNOTATION,
            ..Range::default()
        });
        for (name, offset, duration) in [
            (gemm, 10_000, GEMM_NS),
            (elementwise, 410_000, ELEMENTWISE_NS),
        ] {
            correlation += 1;
            let start = begin + offset;
            builder.hosts.push(Host {
                start: start - 9_000,
                duration: 8_000,
                name: operator,
                thread,
                kind: HostKind::OPERATOR,
                external: u64::from(correlation),
                ..Host::default()
            });
            builder.hosts.push(Host {
                start: start - 6_000,
                duration: 4_000,
                name: launch,
                thread,
                kind: HostKind::RUNTIME,
                correlation,
                external: u64::from(correlation),
                ..Host::default()
            });
            builder.kernels.push(Kernel {
                start,
                duration,
                name: if number == 3 && name == gemm {
                    hostile
                } else {
                    name
                },
                stream: 7,
                correlation,
                external: u64::from(correlation),
                grid: [128, 1, 1],
                block: [256, 1, 1],
                ..Kernel::default()
            });
        }
        builder.memory.push(MemoryEvent {
            time: begin,
            bytes: 1 << 20,
            allocated: (number as u64 % 10 + 1) << 20,
            thread,
            place: MemoryPlace::DEVICE,
            ..MemoryEvent::default()
        });
    }
    builder.copies.push(Copy {
        start: 50_000,
        duration: 20_000,
        name: hostile,
        stream: 13,
        bytes: 4096,
        ..Copy::default()
    });
    builder
}

pub(crate) fn record() -> RunRecord {
    RunRecord {
        name: HOSTILE.to_owned(),
        traces: vec![RecordedTrace {
            pass: None,
            trace: trace(),
        }],
        ..RunRecord::default()
    }
}
