//! Small programs for tests of causes: operators, calls and kernels on one thread and one stream, drawn one after another.

use llmprof_record::run::RunPhase;
use llmprof_record::trace::{
    AutogradSequence, Copy, CopyKind, Host, HostKind, HostSample, HostWait, Kernel, MemoryKind,
    Range, RangeKind, RawInputs, ThreadId, TraceBuilder,
};
use llmprof_theory::device::Catalog;

use super::{Cause, Diagnosis, PhaseInput, ProgramFacts, ProgramPurpose, diagnose};
use crate::replay::{HostWindow, PhaseWindows};

/// From the begin of a launch call to that of its kernel.
const LATENCY_NS: i64 = 6_000;
const GAP_NS: i64 = 1_000;
const CALL_NS: i64 = 5_000;
const STREAM: u32 = 7;

pub(crate) type Tensors<'a> = &'a [(&'a [i64], &'a str)];

pub(crate) struct Sketch {
    builder: TraceBuilder,
    hosts: Vec<Host>,
    thread: ThreadId,
    clock: i64,
    stream_end: i64,
    correlation: u32,
    phase: RunPhase,
    /// Blocks of kernels from here on.
    pub(crate) grid: [u32; 3],
    /// Device of kernels from here on.
    pub(crate) device: u32,
    /// Where the prompt ends that `with_prompt` draws.
    prompt_end: Option<i64>,
    /// Plain values of operators from here on, as JSON.
    pub(crate) values: Option<&'static str>,
    /// When the other thread's stream is free.
    other_end: i64,
    /// Whether launch calls return when their kernels have ended.
    pub(crate) is_blocking: bool,
    pub(crate) purpose: ProgramPurpose,
    /// Whether operators were recorded; `llmprof record` keeps calls of the CUDA API alone.
    pub(crate) has_operators: bool,
    pub(crate) steps: u64,
    autograd_nodes: u64,
    /// Where windows of the phase end; none where it is one.
    window_ends: Vec<i64>,
    /// What another process keeps the next kernel waiting for.
    interruption: i64,
}

impl Default for Sketch {
    fn default() -> Self {
        let mut builder = TraceBuilder::default();
        let thread = builder.thread(1, 1);
        Self {
            builder,
            hosts: Vec::new(),
            thread,
            clock: 0,
            stream_end: 0,
            correlation: 0,
            phase: RunPhase::Decode,
            grid: [264, 1, 1],
            device: 0,
            prompt_end: None,
            values: None,
            other_end: 0,
            is_blocking: false,
            purpose: ProgramPurpose::GeneratesText,
            has_operators: true,
            steps: 1,
            autograd_nodes: 0,
            window_ends: Vec::new(),
            interruption: 0,
        }
    }
}

impl Sketch {
    pub(crate) fn of_phase(phase: RunPhase) -> Self {
        Self {
            phase,
            ..Self::default()
        }
    }

    fn push_host(
        &mut self,
        kind: HostKind,
        name: &str,
        start: i64,
        duration: i64,
        correlation: u32,
    ) -> usize {
        let host = Host {
            start,
            duration,
            name: self.builder.intern(name),
            thread: self.thread,
            kind,
            correlation,
            ..Host::default()
        };
        self.hosts.push(host);
        self.hosts.len() - 1
    }

    pub(crate) fn end_window(&mut self) {
        self.window_ends.push(self.clock);
    }

    /// A range of the program around what `draw` draws.
    pub(crate) fn range(&mut self, name: &str, draw: impl FnOnce(&mut Self)) {
        let start = self.clock;
        draw(self);
        let range = Range {
            start,
            duration: self.clock - start,
            name: self.builder.intern(name),
            thread: self.thread,
            kind: RangeKind::ANNOTATION,
            ..Range::default()
        };
        self.builder.ranges.push(range);
    }

    /// Time in which nothing is recorded.
    pub(crate) fn pause(&mut self, us: i64) {
        self.clock += 1_000 * us;
    }

    pub(crate) fn call(&mut self, name: &str, us: i64) {
        self.push_host(HostKind::RUNTIME, name, self.clock, 1_000 * us, 0);
        self.clock += 1_000 * us;
        self.pause(2);
    }

    /// Another process has the device for so long when the next kernel is ready.
    pub(crate) fn interrupt(&mut self, us: i64) {
        self.interruption = 1_000 * us;
    }

    /// A kernel of the program on another stream, beside what comes next.
    pub(crate) fn beside(&mut self, us: i64) {
        let (clock, correlation) = (self.clock, self.correlation + 1);
        self.correlation = correlation;
        self.push_host(
            HostKind::RUNTIME,
            "cudaLaunchKernel",
            clock,
            CALL_NS,
            correlation,
        );
        let kernel = Kernel {
            start: clock + LATENCY_NS,
            duration: 1_000 * us,
            name: self.builder.intern("beside"),
            stream: STREAM + 1,
            correlation,
            grid: self.grid,
            ..Kernel::default()
        };
        self.builder.kernels.push(kernel);
        self.clock += CALL_NS;
    }

    fn launch(&mut self, call: &str, kernels: &[(&str, i64)]) {
        self.correlation += 1;
        let row = self.push_host(
            HostKind::RUNTIME,
            call,
            self.clock,
            CALL_NS,
            self.correlation,
        );
        for &(name, us) in kernels {
            let ready = (self.clock + LATENCY_NS).max(self.stream_end + GAP_NS);
            let start = ready + std::mem::take(&mut self.interruption);
            let kernel = Kernel {
                start,
                duration: 1_000 * us,
                name: self.builder.intern(name),
                device: self.device,
                stream: STREAM,
                correlation: self.correlation,
                grid: self.grid,
                block: [128, 1, 1],
                ..Kernel::default()
            };
            self.builder.kernels.push(kernel);
            self.stream_end = start + 1_000 * us;
        }
        if self.is_blocking {
            self.hosts[row].duration = CALL_NS.max(self.stream_end - self.clock);
        }
        self.clock += self.hosts[row].duration;
    }

    /// An operator with the shapes and dtypes of its tensors and the kernels that it launches, µs.
    pub(crate) fn operator(&mut self, name: &str, tensors: Tensors<'_>, kernels: &[(&str, i64)]) {
        let start = self.clock;
        let row = self.push_host(HostKind::OPERATOR, name, start, 0, 0);
        let dims: Vec<String> = tensors
            .iter()
            .map(|(dims, _)| format!("{dims:?}"))
            .collect();
        let dtypes: Vec<String> = tensors
            .iter()
            .map(|(_, dtype)| format!("{dtype:?}"))
            .collect();
        if !tensors.is_empty() {
            self.hosts[row].inputs = self.builder.inputs(RawInputs {
                dims: format!("[{}]", dims.join(", ")).as_bytes(),
                dtypes: format!("[{}]", dtypes.join(", ")).as_bytes(),
                values: self.values.unwrap_or_default().as_bytes(),
                ..RawInputs::default()
            });
        }
        self.pause(3);
        for kernel in kernels {
            self.launch("cudaLaunchKernel", &[*kernel]);
            self.pause(1);
        }
        self.pause(1);
        self.hosts[row].duration = self.clock - start;
        self.pause(2);
    }

    /// An operator that computes on the host.
    pub(crate) fn host_operator(&mut self, name: &str, us: i64) {
        self.push_host(HostKind::OPERATOR, name, self.clock, 1_000 * us, 0);
        self.pause(us + 2);
    }

    /// An operator on the host with gradients enabled. One with a node is followed by a higher number.
    pub(crate) fn operator_of_autograd(&mut self, name: &str, us: i64, makes_node: bool) {
        let row = self.push_host(HostKind::OPERATOR, name, self.clock, 1_000 * us, 0);
        self.hosts[row].external = row as u64 + 1;
        self.builder.autograd_sequences.push(AutogradSequence {
            external: row as u64 + 1,
            sequence: self.autograd_nodes,
        });
        self.autograd_nodes += u64::from(makes_node);
        self.pause(us + 2);
    }

    /// An operator that calls another, which launches kernels.
    pub(crate) fn nested(
        &mut self,
        outer: &str,
        inner: &str,
        tensors: Tensors<'_>,
        kernels: &[(&str, i64)],
    ) {
        let start = self.clock;
        let row = self.push_host(HostKind::OPERATOR, outer, start, 0, 0);
        self.pause(1);
        self.operator(inner, tensors, kernels);
        self.hosts[row].duration = self.clock - start;
        self.pause(2);
    }

    /// An operator that a dispatch mode handles for `us` before it calls the operator itself.
    pub(crate) fn handled_by_python(&mut self, us: i64) {
        let start = self.clock;
        let outer = self.push_host(HostKind::OPERATOR, "aten::add", start, 0, 0);
        self.pause(1);
        let handler = self.push_host(HostKind::OPERATOR, "PythonDispatchMode", self.clock, 0, 0);
        self.pause(us);
        self.operator("aten::add", &[], &[("add", 3)]);
        self.hosts[handler].duration = self.clock - self.hosts[handler].start;
        self.pause(1);
        self.hosts[outer].duration = self.clock - start;
        self.pause(2);
    }

    /// `aten::scaled_dot_product_attention` that computes a softmax of `scores` as an operator of its own, µs.
    pub(crate) fn attention_in_parts(&mut self, tensors: Tensors<'_>, scores: &[i64], us: i64) {
        let row = self.hosts.len();
        self.operator("aten::scaled_dot_product_attention", tensors, &[]);
        self.clock = self.hosts[row].start;
        self.pause(1);
        let inner: Tensors<'_> = &[(scores, "c10::BFloat16")];
        self.operator("aten::_softmax", inner, &[("softmax", us)]);
        self.hosts[row].duration = self.clock - self.hosts[row].start;
        self.pause(2);
    }

    /// A kernel of another thread on its own stream that keeps the device busy from now on.
    pub(crate) fn disturb(&mut self, us: i64) {
        let thread = self.builder.thread(1, 2);
        self.correlation += 1;
        let row = self.push_host(
            HostKind::RUNTIME,
            "cudaLaunchKernel",
            self.clock,
            CALL_NS,
            self.correlation,
        );
        self.hosts[row].thread = thread;
        let start = self
            .stream_end
            .max(self.clock + LATENCY_NS)
            .max(self.other_end);
        self.other_end = start + 1_000 * us;
        let name = self.builder.intern("other_gemm");
        self.builder.kernels.push(Kernel {
            start,
            duration: 1_000 * us,
            name,
            stream: STREAM + 1,
            correlation: self.correlation,
            ..Kernel::default()
        });
        self.stream_end = self.other_end;
    }

    /// `aten::mm` of `[m, k]` and `[k, n]` in bf16.
    pub(crate) fn matrix_product(&mut self, m: i64, k: i64, n: i64, us: i64) {
        let tensors: Tensors<'_> = &[(&[m, k], "c10::BFloat16"), (&[k, n], "c10::BFloat16")];
        self.operator("aten::mm", tensors, &[("nvjet_gemm_kernel", us)]);
    }

    /// An RNN that fills a block of so many numbers, copies two weights into it and multiplies by them.
    pub(crate) fn recurrent_layer(&mut self, block: i64, us: i64) {
        let start = self.clock;
        let row = self.push_host(HostKind::OPERATOR, "aten::_cudnn_rnn", start, 0, 0);
        self.pause(1);
        let half: Tensors<'_> = &[(&[block / 2, 1], "c10::Half")];
        self.operator("aten::zero_", &[(&[block], "c10::Half")], &[("fill", us)]);
        for _ in 0..2 {
            self.operator("aten::view_as", half, &[]);
            self.operator("aten::copy_", half, &[("copy_kernel", us)]);
        }
        self.launch("cudaLaunchKernel", &[("rnn_cell", us)]);
        self.hosts[row].duration = self.clock - start;
        self.pause(2);
    }

    pub(crate) fn launch_graph(&mut self, kernels: &[(&str, i64)]) {
        self.launch("cudaGraphLaunch", kernels);
        self.pause(2);
    }

    /// A copy inside of `aten::copy_` that the host waits for.
    pub(crate) fn copy(&mut self, kind: CopyKind, bytes: u64, us: i64) {
        self.copy_in("aten::copy_", kind, bytes, us);
    }

    pub(crate) fn copy_in(&mut self, operator: &str, kind: CopyKind, bytes: u64, us: i64) {
        let start = self.clock;
        let row = self.push_host(HostKind::OPERATOR, operator, start, 0, 0);
        self.pause(2);
        self.correlation += 1;
        let call = self.clock;
        let begin = (call + LATENCY_NS).max(self.stream_end + GAP_NS);
        self.stream_end = begin + 1_000 * us;
        self.clock = self.stream_end + 2_000;
        self.push_host(
            HostKind::RUNTIME,
            "cudaMemcpyAsync",
            call,
            self.clock - call,
            self.correlation,
        );
        let name = self.builder.intern("Memcpy");
        self.builder.copies.push(Copy {
            start: begin,
            duration: 1_000 * us,
            name,
            kind,
            bytes,
            source: MemoryKind::PAGEABLE,
            target: MemoryKind::DEVICE,
            stream: STREAM,
            correlation: self.correlation,
            ..Copy::default()
        });
        self.pause(2);
        self.hosts[row].duration = self.clock - start;
        self.pause(2);
    }

    /// A small copy inside of `aten::to` that is followed by a synchronizing call.
    pub(crate) fn synchronizing_copy(&mut self, kind: CopyKind, bytes: u64) {
        let start = self.clock;
        let row = self.push_host(HostKind::OPERATOR, "aten::to", start, 0, 0);
        self.pause(5);
        let begin = (self.clock + LATENCY_NS).max(self.stream_end + GAP_NS);
        self.push_copy(kind, bytes, begin, 2_000, STREAM, MemoryKind::PAGEABLE);
        self.stream_end = begin + 2_000;
        let call = self.clock;
        self.clock = call.max(self.stream_end);
        self.push_host(
            HostKind::RUNTIME,
            "cudaStreamSynchronize",
            call,
            self.clock + 4_000 - call,
            0,
        );
        self.pause(6);
        self.hosts[row].duration = self.clock - start;
        self.pause(2);
    }

    /// The call of an asynchronous copy, and the copy.
    fn push_copy(
        &mut self,
        kind: CopyKind,
        bytes: u64,
        start: i64,
        duration: i64,
        stream: u32,
        source: MemoryKind,
    ) {
        self.correlation += 1;
        self.push_host(
            HostKind::RUNTIME,
            "cudaMemcpyAsync",
            self.clock,
            CALL_NS,
            self.correlation,
        );
        self.clock += CALL_NS;
        let name = self.builder.intern("Memcpy");
        self.builder.copies.push(Copy {
            start,
            duration,
            name,
            kind,
            bytes,
            source,
            target: MemoryKind::DEVICE,
            stream,
            correlation: self.correlation,
            ..Copy::default()
        });
    }

    /// A copy from pinned memory on a stream of its own that begins when all kernels have ended, and that later kernels wait for.
    pub(crate) fn prefetch(&mut self, bytes: u64, us: i64) {
        self.call("cudaStreamWaitEvent", 1);
        let begin = (self.clock + LATENCY_NS).max(self.stream_end + GAP_NS);
        let source = MemoryKind::PINNED;
        self.push_copy(
            CopyKind::HOST_TO_DEVICE,
            bytes,
            begin,
            1_000 * us,
            STREAM + 1,
            source,
        );
        self.stream_end = begin + 1_000 * us;
        self.call("cudaStreamWaitEvent", 1);
    }

    /// A prompt pass of `sequences × tokens` before the phase: embedding, a square GEMM and the logits of the last tokens.
    pub(crate) fn with_prompt(sequences: i64, tokens: i64, hidden: i64, vocabulary: i64) -> Self {
        let mut sketch = Self::default();
        sketch.look_up(sequences, tokens, vocabulary, hidden);
        sketch.matrix_product(sequences * tokens, hidden, hidden, 100);
        sketch.matrix_product(sequences, hidden, vocabulary, 60);
        sketch.synchronize();
        sketch.prompt_end = Some(sketch.clock);
        sketch
    }

    pub(crate) fn look_up(&mut self, sequences: i64, tokens: i64, vocabulary: i64, hidden: i64) {
        let tensors: Tensors<'_> = &[
            (&[vocabulary, hidden], "c10::BFloat16"),
            (&[sequences, tokens], "long int"),
        ];
        self.operator("aten::embedding", tensors, &[("gather_kernel", 3)]);
    }

    /// New tokens written into a cache of fixed size.
    pub(crate) fn write_cache(&mut self, dims: &[i64]) {
        self.operator(
            "aten::index_put_",
            &[(dims, "c10::BFloat16")],
            &[("index_kernel", 4)],
        );
    }

    /// Samples of the whole sketch, 1 kHz, in which the thread waits for the GIL that another holds.
    pub(crate) fn sample_gil_waits(&mut self) {
        let holder = self.builder.thread(1, 3);
        let mut time = 0;
        while time < self.clock {
            self.builder.host_samples.push(HostSample {
                time,
                period: 1_000_000,
                thread: self.thread,
                wait: HostWait::GIL,
                gil_holder: holder,
                ..HostSample::default()
            });
            time += 1_000_000;
        }
    }

    pub(crate) fn synchronize(&mut self) {
        let end = self.stream_end.max(self.clock) + 2_000;
        self.push_host(
            HostKind::RUNTIME,
            "cudaDeviceSynchronize",
            self.clock,
            end - self.clock,
            0,
        );
        self.clock = end;
        self.pause(2);
    }

    /// The causes of the sketch on an H200.
    pub(crate) fn diagnose(mut self) -> Diagnosed {
        for host in self.hosts {
            if self.has_operators || host.kind != HostKind::OPERATOR {
                self.builder.hosts.push(host);
            }
        }
        let input = |phase, steps, bounds: &[i64]| {
            let windows = bounds.windows(2).map(|bounds| HostWindow {
                start: bounds[0],
                end: bounds[1],
            });
            PhaseInput {
                phase,
                label: None,
                windows: PhaseWindows {
                    windows: windows.collect(),
                    steps,
                },
                plain_ns: None,
            }
        };
        let mut bounds = vec![self.prompt_end.unwrap_or(0)];
        bounds.append(&mut self.window_ends);
        if bounds.len() == 1 {
            bounds.push(self.clock);
        }
        let mut inputs = vec![input(self.phase, self.steps, &bounds)];
        let prompt = self.prompt_end;
        inputs.extend(prompt.map(|end| input(RunPhase::Prefill, 1, &[0, end])));
        let device = Catalog::embedded().by_name("h200").unwrap();
        let subject = ProgramFacts {
            purpose: self.purpose,
            are_steps_inferred: false,
            weights: None,
        };
        let trace = self.builder.finish();
        let diagnosis = diagnose(&trace, &inputs, Some(&device), &subject).unwrap();
        Diagnosed(diagnosis)
    }
}

pub(crate) struct Diagnosed(pub(crate) Diagnosis);

impl Diagnosed {
    pub(crate) fn cause(&self, code: &str) -> Option<&Cause> {
        self.0.causes.iter().find(|cause| cause.kind.code() == code)
    }

    /// What a cause saves and what the phase takes now, ms.
    pub(crate) fn gain_of(&self, code: &str) -> Option<(f64, f64)> {
        let gain = self.cause(code)?.gains.first()?;
        Some((gain.saved_ns.0 as f64 / 1e6, gain.now_ns.0 as f64 / 1e6))
    }
}
