//! What kernel curves of `llmprof hardware measure --gpu` would predict: SAMPLES is what the worker answers to `measure`, CURVES what it writes.

use std::error::Error;

use llmprof_predict::{
    EfficiencyProfile, KernelClock, KernelCurves,
    calibrate::{fit_curves, ratios_by_class},
};
use llmprof_theory::{device::Catalog, kernels::KernelSample};
use serde::Deserialize;
use xtask::{DataSplit, grades_on, summarize};

#[derive(Deserialize)]
struct KernelMeasurements {
    samples: Vec<KernelSample>,
}

/// Prints the ratio to the shipped curves by class of kernel, and the errors on the shipped measurements. Samples are fitted, and written to `out`.
pub(crate) fn refit(path: &str, out: Option<&str>) -> Result<(), Box<dyn Error>> {
    let text = std::fs::read_to_string(path)?;
    let shipped = KernelCurves::embedded("h200").ok_or("no curves")?;
    let mut profile = EfficiencyProfile::embedded("hf_eager")?;
    let device = Catalog::embedded().by_name("h200")?;
    let curves = if let Ok(measured) = serde_json::from_str::<KernelMeasurements>(&text) {
        let limits = [shipped.peak_flops, shipped.bytes_per_s];
        let fitted = fit_curves(&measured.samples, "measured".to_owned(), limits, &shipped);
        println!("borrowed: {:?}", fitted.borrowed);
        let clock = |curves: &KernelCurves| KernelClock::new(curves, limits[0], limits[1]);
        for (class, ratio) in
            ratios_by_class(&measured.samples, &clock(&fitted.curves), &clock(&shipped))
        {
            println!(
                "{}: {} kernels, measured ÷ shipped p10 {:.2}, median {:.2}, p90 {:.2}",
                class.name(),
                ratio.kernels,
                ratio.p10,
                ratio.median,
                ratio.p90
            );
        }
        if let Some(out) = out {
            std::fs::write(out, serde_json::to_string(&fitted.curves)? + "\n")?;
        }
        fitted.curves
    } else {
        KernelCurves::parse_text(&text, path)?
    };
    profile.curves.insert(device.name.clone(), curves);
    let all = grades_on(&device, &profile)?;
    for split in [DataSplit::Calibration, DataSplit::Grading] {
        for by_common_keys in [false, true] {
            let some: Vec<_> = all
                .iter()
                .filter(|grade| grade.split == split && grade.by_common_keys == by_common_keys)
                .collect();
            let Some(summary) = summarize(&some) else {
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
                summary.times,
                summary.median * 100.0,
                summary.p90 * 100.0,
                summary.worst * 100.0,
                summary.bias * 100.0
            );
        }
    }
    Ok(())
}
