//! What kernel curves of `llmprof hardware measure --gpu` would predict: `cargo run -p llmprof-predict --example refit DEVICE.yaml|SAMPLES.json [CURVES.json]`.
//!
//! SAMPLES is what the worker answers to `measure`; CURVES is written. Prints the ratio to the shipped curves by class of kernel, and the errors on the shipped measurements.

#![expect(clippy::print_stdout, reason = "a report prints")]

use std::error::Error;

use llmprof_predict::{
    EfficiencyProfile, KernelClock, KernelCurves, Split,
    calibrate::{fit, ratios},
    grades_on, summarize,
};
use llmprof_theory::{
    device::{Catalog, schema::DeviceFile},
    kernels::KernelSample,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Measured {
    samples: Vec<KernelSample>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("no file given")?;
    let text = std::fs::read_to_string(&path)?;
    let shipped = KernelCurves::embedded("h200").ok_or("no curves")?;
    let mut profile = EfficiencyProfile::embedded("hf_eager")?;
    let mut device = Catalog::embedded().by_name("h200")?;
    if path.ends_with("json") {
        let measured: Measured = serde_json::from_str(&text)?;
        let limits = [shipped.peak_flops, shipped.bytes_per_s];
        let fitted = fit(&measured.samples, "measured".to_owned(), limits, &shipped);
        println!("borrowed: {:?}", fitted.borrowed);
        let clock = |curves: &KernelCurves| KernelClock::new(curves, limits[0], limits[1]);
        for (class, ratio) in ratios(&measured.samples, &clock(&fitted.curves), &clock(&shipped)) {
            println!(
                "{}: {} kernels, measured ÷ shipped p10 {:.2}, median {:.2}, p90 {:.2}",
                class.name(),
                ratio.kernels,
                ratio.p10,
                ratio.median,
                ratio.p90
            );
        }
        if let Some(out) = std::env::args().nth(2) {
            std::fs::write(out, serde_json::to_string(&fitted.curves)? + "\n")?;
        }
        profile.curves.insert(device.name.clone(), fitted.curves);
    } else {
        device = DeviceFile::read(&text, &path)?.device(&path)?;
    }
    let all = grades_on(&device, &profile)?;
    for split in [Split::Calibration, Split::Grading] {
        for by_common_keys in [false, true] {
            let some: Vec<_> = all
                .iter()
                .filter(|grade| grade.split == split && grade.by_common_keys == by_common_keys)
                .collect();
            let Some(found) = summarize(&some) else {
                continue;
            };
            println!(
                "{}{}: {} times, median {:.1} %, p90 {:.1} %, worst {:+.1} %, bias {:+.1} %",
                split.name(),
                if by_common_keys {
                    ", by common keys"
                } else {
                    ""
                },
                found.times,
                found.median * 100.0,
                found.p90 * 100.0,
                found.worst * 100.0,
                found.bias * 100.0
            );
        }
    }
    Ok(())
}
