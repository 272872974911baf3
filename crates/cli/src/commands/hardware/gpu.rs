//! `hardware measure --gpu`: a device file, and kernel curves beside it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use llmprof_capture::{
    calibration::CalibrationFile,
    process::Interrupt,
    pytorch::{KernelWorker, measured_device, measured_source},
    runner::protocol::{Measure, Measured},
};
use llmprof_predict::{
    KernelClock, KernelCurves,
    calibrate::{ClassRatio, Fitted, fit, ratios},
};
use llmprof_report::{Document, Table};
use llmprof_theory::{
    device::{Catalog, Engine, schema::DeviceFile},
    kernels::KernelClass,
};
use llmprof_units::{DType, significant};

use crate::{args::KernelArgs, clock, efficiency::curves_file, failure::Failure, output::Output};

pub(super) fn measure(
    file: Option<PathBuf>,
    args: &KernelArgs,
    output: &mut Output,
) -> Result<(), Failure> {
    let measured = measured(args)?;
    let fallback = KernelCurves::embedded("h200")
        .ok_or_else(|| Failure::new("the embedded curves cannot be read"))?;
    let known = Catalog::embedded_file(&measured.name);
    let device = measured_device(&measured, known, &clock::now());
    let fitted = fit(
        &measured.samples,
        measured_source(&measured),
        limits(&device),
        &fallback,
    );
    let file = match file {
        Some(path) => CalibrationFile::at(path),
        None => CalibrationFile::of_gpu(&device.name).ok_or_else(|| {
            Failure::new("no cache directory to write to").hint("-o FILE names a file".to_owned())
        })?,
    };
    file.write(&device)?;
    write_curves(file.path(), &fitted.curves)?;
    output.document(&page(&measured, &device, &fitted))?;
    let path = file.path().display();
    output.line(&format!(
        "\nkept in {path}; `llmprof predict hardware.spec={path}` uses it"
    ))
}

/// Peak rate of bf16 and bandwidth, in operations and bytes per second.
fn limits(file: &DeviceFile) -> [f64; 2] {
    let peak = |engine: Engine| {
        let mut peaks = file.peaks.iter();
        peaks.find(|peak| peak.dtype == DType::Bf16 && peak.engine == engine)
    };
    let tflops = peak(Engine::Tensor)
        .or_else(|| peak(Engine::Vector))
        .map_or(1.0, |peak| peak.tflops);
    [tflops * 1e12, file.memory.bandwidth_gb_s.value * 1e9]
}

fn write_curves(device_file: &Path, curves: &KernelCurves) -> Result<(), Failure> {
    let path = curves_file(device_file);
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(format!("cannot write {}: {error}", path.display()))
    };
    let text = serde_json::to_string(curves).map_err(|error| failed(&error))?;
    std::fs::write(&path, text + "\n").map_err(|error| failed(&error))
}

fn measured(args: &KernelArgs) -> Result<Measured, Failure> {
    let failed = |error: llmprof_capture::runner::WorkerError| {
        Failure::new(format!("cannot measure kernels: {error}")).hint(
            "--python PATH names an interpreter with torch and transformers, --device a device that its torch finds"
                .to_owned(),
        )
    };
    let mut interrupt = Interrupt::install().map_err(|error| Failure::new(error.to_string()))?;
    let mut worker = KernelWorker::start(&args.python, &mut interrupt).map_err(failed)?;
    let request = Measure {
        device: args.device.clone(),
        seconds: args.time.as_secs_f64(),
        full: !args.quick,
    };
    let bar = indicatif::ProgressBar::new(1);
    let found = worker.measure(&request, &mut interrupt, &mut |progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
    });
    bar.finish_and_clear();
    let found = found.map_err(failed)?;
    worker.finish(&mut interrupt).map_err(failed)?;
    Ok(found)
}

fn page(measured: &Measured, device: &DeviceFile, fitted: &Fitted) -> Document {
    let mut document = Document::new(format!(
        "{} ({}), kernels measured",
        device.title, device.name
    ));
    let mut figures = Table::new(&["Figure", "Value"], 1);
    let mut row = |name: &str, value: String| {
        figures.row([name.to_owned(), value]);
    };
    row("kernels", measured.samples.len().to_string());
    row("time", format!("{:.0} s", measured.seconds));
    row("left out", measured.skipped.to_string());
    row(
        "host time of a launch",
        format!("{:.2} µs", measured.launches.host_ns / 1e3),
    );
    if let Some(gap) = measured.launches.graph_kernel_ns {
        row(
            "tiny kernel in a CUDA graph",
            format!("{:.2} µs", gap / 1e3),
        );
    }
    if let Some(launch) = measured.launches.graph_launch_ns {
        row("launch of a CUDA graph", format!("{:.2} µs", launch / 1e3));
    }
    for (place, rate) in &measured.copies {
        row(&format!("copy, {place}"), format!("{:.1} GB/s", rate / 1e9));
    }
    document.table(figures);
    if let Some(shipped) = KernelCurves::embedded(&device.name) {
        let clock = |curves: &KernelCurves| {
            KernelClock::new(curves, shipped.peak_flops, shipped.bytes_per_s)
        };
        let found = ratios(&measured.samples, &clock(&fitted.curves), &clock(&shipped));
        document.section("shipped", "Measured here ÷ shipped curves");
        document.table(ratio_table(&found));
    }
    let mut notes: Vec<String> = measured
        .failed
        .iter()
        .map(|(reason, count)| format!("{count} kernels failed: {reason}"))
        .collect();
    if !fitted.borrowed.is_empty() {
        notes.push(format!(
            "not measured here, taken from the H200: {}",
            fitted.borrowed.join(", ")
        ));
    }
    if !notes.is_empty() {
        document.section("notes", "Notes");
        document.list(notes);
    }
    document
}

fn ratio_table(found: &BTreeMap<KernelClass, ClassRatio>) -> Table {
    let mut table = Table::new(&["Class", "Kernels", "p10", "Median", "p90"], 1);
    for (class, ratio) in found {
        table.row([
            class.name().to_owned(),
            ratio.kernels.to_string(),
            significant(ratio.p10),
            significant(ratio.median),
            significant(ratio.p90),
        ]);
    }
    table
}
