//! Kernels by way of the PyTorch worker: how long they take on a device, and which a model launches.

use std::collections::BTreeMap;

use llmprof_theory::{
    device::{
        Counts, DeviceKind, Engine,
        schema::{
            CacheEntry, DeviceFile, FigureEntry, InterconnectEntry, MemoryEntry, PeakEntry,
            UnitsEntry,
        },
    },
    kernels::{Kernel, TracedModel},
};
use llmprof_units::{Basis, DType};

use super::Package;
use crate::{
    process::Interrupt,
    runner::{
        Client, Limits, Problem, WorkerError, WorkerStep,
        protocol::{Measure, Measured, Progress, Trace},
    },
    scratch::Scratch,
};

/// The key under which figures cite this program.
const SOURCE: &str = "llmprof";

/// A worker that is asked for kernels, not for a run.
#[derive(Debug)]
pub struct KernelWorker {
    client: Client,
    _package: Package,
    _logs: Scratch,
}

impl KernelWorker {
    /// Starts it with an interpreter that has torch and transformers.
    pub fn start(python: &str, interrupt: &mut Interrupt) -> Result<Self, WorkerError> {
        let refused = |source: std::io::Error| WorkerError {
            step: WorkerStep::Connect,
            problem: Problem::Socket {
                action: "unpack the worker",
                source,
            },
            output: Vec::new(),
        };
        let package = Package::unpack().map_err(|error| refused(error.0))?;
        let logs = Scratch::new().map_err(refused)?;
        let client = Client::start(
            &package.launch_worker(python),
            logs.path(),
            "kernels",
            Limits::default(),
            interrupt,
        )?;
        Ok(Self {
            client,
            _package: package,
            _logs: logs,
        })
    }

    pub fn measure_kernels(
        &mut self,
        request: &Measure,
        interrupt: &mut Interrupt,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Measured, WorkerError> {
        self.client.measure_kernels(request, interrupt, progress)
    }

    pub fn trace_model(
        &mut self,
        request: &Trace,
        interrupt: &mut Interrupt,
    ) -> Result<TracedModel, WorkerError> {
        self.client.trace_model(request, interrupt)
    }

    pub fn finish(self, interrupt: &mut Interrupt) -> Result<(), WorkerError> {
        self.client.finish(interrupt).map(|_| ())
    }
}

/// What figures and curves of a measurement cite.
pub fn measured_source(measured: &Measured) -> String {
    format!(
        "llmprof hardware measure --gpu: {} kernels on {} with torch {} in {:.0} s",
        measured.samples.len(),
        measured.name,
        measured.torch,
        measured.seconds
    )
}

/// The device file of what was measured. `known` is what is already known of the device; without it the best rates that
/// were seen stand for its peaks. `time` is now (RFC 3339).
pub fn measured_device(measured: &Measured, known: Option<DeviceFile>, time: &str) -> DeviceFile {
    let mut file = known.unwrap_or_else(|| described_device(measured));
    file.sources
        .insert(SOURCE.to_owned(), measured_source(measured));
    file.measured_at = Some(time.to_owned());
    if let Some(gap) = measured.launches.graph_kernel_ns {
        file.launch_latency_us = Some(FigureEntry {
            value: gap / 1e3,
            ..cited_figure("tiny kernels of a CUDA graph, one after the other")
        });
    }
    for (key, name) in [
        ("to_device", "host to device"),
        ("from_device", "device to host"),
    ] {
        if let Some(rate) = measured.copies.get(key) {
            file.interconnects.retain(|link| link.name != name);
            file.interconnects.push(InterconnectEntry {
                name: name.to_owned(),
                gb_s: rate / 1e9,
                counts: Counts::OneDirection,
                source: SOURCE.to_owned(),
                at: Some("copies from pinned memory".to_owned()),
                basis: Some(Basis::Measured),
            });
        }
    }
    file.notes.push(format!(
        "Host time of a launch: {:.2} µs.",
        measured.launches.host_ns / 1e3
    ));
    file
}

fn cited_figure(at: &str) -> FigureEntry {
    FigureEntry {
        value: 0.0,
        source: SOURCE.to_owned(),
        at: Some(at.to_owned()),
        basis: Some(Basis::Measured),
    }
}

/// A device that no file describes, by the best rates that were seen.
fn described_device(measured: &Measured) -> DeviceFile {
    let best = |size: f64| {
        let samples = measured.samples.iter();
        samples
            .filter(|sample| matches!(sample.kernel, Kernel::Gemm { size: own, .. } if own == size))
            .map(|sample| sample.kernel.matrix_flops() / sample.ns * 1e-3)
            .fold(0.0, f64::max)
    };
    let peak = |dtype: DType, engine: Engine, tflops: f64| PeakEntry {
        dtype,
        engine,
        accumulate: None,
        tflops,
        sparse_tflops: None,
        operations_per_clock: None,
        clock: None,
        not_recounted: Some("measured".to_owned()),
        source: SOURCE.to_owned(),
        at: Some("the fastest GEMM".to_owned()),
        basis: None,
    };
    let bandwidth = measured.copies.get("device").copied().unwrap_or(1e9);
    let peaks = [
        peak(DType::Bf16, Engine::Tensor, best(2.0)),
        peak(DType::F32, Engine::Vector, best(4.0)),
    ];
    DeviceFile {
        name: slug_of(&measured.name),
        title: measured.name.clone(),
        driver_names: vec![measured.name.clone()],
        vendor: "unknown".to_owned(),
        kind: if measured.name == "cpu" {
            DeviceKind::Cpu
        } else {
            DeviceKind::Gpu
        },
        architecture: None,
        basis: Basis::Measured,
        measured_at: None,
        calibration: None,
        sources: BTreeMap::new(),
        units: measured.units.map(|units| UnitsEntry {
            name: "SM".to_owned(),
            value: units as f64,
            source: SOURCE.to_owned(),
            at: None,
            basis: None,
        }),
        clocks_mhz: BTreeMap::new(),
        peaks: peaks.into_iter().filter(|peak| peak.tflops > 0.0).collect(),
        memory: MemoryEntry {
            technology: None,
            capacity_gb: measured.memory_bytes.map(|bytes| FigureEntry {
                value: bytes.0 as f64 / 1e9,
                ..cited_figure("as torch reports it")
            }),
            bandwidth_gb_s: FigureEntry {
                value: bandwidth / 1e9,
                ..cited_figure("a copy within the device, bytes read and written")
            },
        },
        caches: measured
            .l2_bytes
            .map(|bytes| CacheEntry {
                level: "l2".to_owned(),
                scope: llmprof_theory::device::CacheScope::Device,
                kib: Some(bytes.0 as f64 / 1024.0),
                bandwidth_gb_s: None,
                source: SOURCE.to_owned(),
                at: None,
                basis: None,
            })
            .into_iter()
            .collect(),
        interconnects: Vec::new(),
        power_w: None,
        launch_latency_us: None,
        notes: Vec::new(),
    }
}

/// A name of lower-case letters, digits and underscores.
fn slug_of(name: &str) -> String {
    let mut slug = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('_') {
            slug.push('_');
        }
    }
    slug.trim_end_matches('_').to_owned()
}
