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
    calibrate::{ClassRatio, FittedCurves, fit_curves, ratios_by_class},
};
use llmprof_record::store::write_output;
use llmprof_report::compose::hardware::{MeasuredKernels, kernels_page};
use llmprof_theory::{
    device::{Catalog, Engine, schema::DeviceFile},
    kernels::KernelClass,
};
use llmprof_units::DType;

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
    let fitted = fit_curves(
        &measured.samples,
        measured_source(&measured),
        limits(&device),
        &fallback,
    );
    let file = match file {
        Some(path) => CalibrationFile::at_path(path),
        None => CalibrationFile::of_gpu(&device.name).ok_or_else(|| {
            Failure::new("no cache directory to write to").hint("-o FILE names a file".to_owned())
        })?,
    };
    file.write_file(&device)?;
    write_curves(file.path(), &fitted.curves)?;
    let page = kernels_page(
        &MeasuredKernels {
            kernels: measured.samples.len(),
            seconds: measured.seconds,
            skipped: measured.skipped,
            host_ns: measured.launches.host_ns,
            graph_kernel_ns: measured.launches.graph_kernel_ns,
            graph_launch_ns: measured.launches.graph_launch_ns,
            copies: &measured.copies,
            failed: &measured.failed,
            borrowed: &fitted.borrowed,
            shipped_ratios: shipped_ratios(&measured, &device, &fitted),
        },
        &device,
    );
    output.document(&page)?;
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
    let text = serde_json::to_string(curves)
        .map_err(|error| Failure::new(format!("cannot write JSON: {error}")))?;
    Ok(write_output(&path, (text + "\n").as_bytes())?)
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
    let measured = worker.measure_kernels(&request, &mut interrupt, &mut |progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
    });
    bar.finish_and_clear();
    let measured = measured.map_err(failed)?;
    worker.finish(&mut interrupt).map_err(failed)?;
    Ok(measured)
}

/// Measured kernel times ÷ those of the shipped curves, where the device has any.
fn shipped_ratios(
    measured: &Measured,
    device: &DeviceFile,
    fitted: &FittedCurves,
) -> Option<BTreeMap<KernelClass, ClassRatio>> {
    let shipped = KernelCurves::embedded(&device.name)?;
    let clock =
        |curves: &KernelCurves| KernelClock::new(curves, shipped.peak_flops, shipped.bytes_per_s);
    Some(ratios_by_class(
        &measured.samples,
        &clock(&fitted.curves),
        &clock(&shipped),
    ))
}
