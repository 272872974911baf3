//! The spreads of a profile: percentiles of measured ÷ predicted over models that nothing was fitted to.

use std::io::Read;

use flate2::read::GzDecoder;
use llmprof_predict::{
    EfficiencyProfile, Implementation, PhaseSpreads, RatioSpread, predict_traced,
};
use llmprof_theory::{Phase, Workload, device::Catalog, kernels::TracedModel};
use llmprof_units::stats::percentile;
use serde::Deserialize;

use crate::{DataSplit, Grade, blind_grades, captured_grades, grades, pairs};

const TRACED: &[u8] = include_bytes!("../../fixtures/h200/kernels/blind_traced.json.gz");

/// One measured ÷ predicted time.
#[derive(Clone, Debug)]
pub struct Ratio {
    pub model: String,
    pub phase: Phase,
    pub ratio: f64,
}

/// Ratios by the key of a profile's spreads.
pub type ByKey = Vec<(&'static str, Vec<Ratio>)>;

/// A time that a model's traced kernels took.
#[derive(Deserialize)]
struct TracedRow {
    model: String,
    batch: u64,
    prompt: u64,
    prefill_ns: f64,
    decode_step_ns: f64,
    traced: TracedModel,
}

/// Ratios by the key of the profile's spreads that they make.
pub fn ratios(profile: &EfficiencyProfile) -> Result<ByKey, Box<dyn std::error::Error>> {
    let of_grades = |some: &[Grade], is_in: &dyn Fn(&Grade) -> bool| -> Vec<Ratio> {
        let kept = some.iter().filter(|grade| is_in(grade));
        kept.map(|grade| Ratio {
            model: grade.model.clone(),
            phase: grade.phase,
            ratio: 1.0 / (1.0 + grade.error()),
        })
        .collect()
    };
    let held_out = |grade: &Grade| grade.split == DataSplit::Grading && !grade.by_common_keys;
    match profile.implementation {
        Some(Implementation::HfEager) => {
            // Nothing was fitted to blind models of any list.
            let (measured, blind) = (grades(profile)?, blind_grades(profile)?);
            let mut family = of_grades(&measured, &held_out);
            family.extend(of_grades(&blind, &|grade| !grade.by_common_keys));
            let mut common = of_grades(&measured, &|grade| {
                grade.split == DataSplit::Grading && grade.by_common_keys
            });
            common.extend(of_grades(&blind, &|grade| grade.by_common_keys));
            let from_run = pairs(profile)?.into_iter();
            let from_run = from_run.filter(|pair| !pair.calibration && !pair.by_common_keys);
            let from_run = from_run.map(|pair| Ratio {
                model: pair.model,
                phase: if pair.decode {
                    Phase::Decode
                } else {
                    Phase::Prefill
                },
                ratio: 1.0 / (1.0 + pair.error),
            });
            Ok(vec![
                ("family", family),
                ("common_keys", common),
                ("traced", traced(profile)?),
                ("from_run", from_run.collect()),
            ])
        }
        Some(Implementation::HfGraph | Implementation::TorchCompile) => {
            let captured = captured_grades(profile)?;
            let all = [captured.gpu, captured.tpot].concat();
            Ok(vec![("family", of_grades(&all, &held_out))])
        }
        _ => Ok(Vec::new()),
    }
}

fn traced(profile: &EfficiencyProfile) -> Result<Vec<Ratio>, Box<dyn std::error::Error>> {
    let mut text = String::new();
    GzDecoder::new(TRACED).read_to_string(&mut text)?;
    let rows: Vec<TracedRow> = serde_json::from_str(&text)?;
    let device = Catalog::embedded().by_name("h200")?;
    let mut all_ratios = Vec::new();
    for row in rows {
        let workload = Workload {
            batch: row.batch,
            prompt: row.prompt,
            new_tokens: 2,
            ..Workload::default()
        };
        let predicted = predict_traced(&row.traced, &device, profile, &workload)?;
        for (phase, measured, predicted) in [
            (Phase::Prefill, row.prefill_ns, predicted.prefill_gpu_ns),
            (
                Phase::Decode,
                row.decode_step_ns,
                predicted.decode_step_gpu_ns,
            ),
        ] {
            all_ratios.push(Ratio {
                model: row.model.clone(),
                phase,
                ratio: measured / predicted.0 as f64,
            });
        }
    }
    Ok(all_ratios)
}

/// 5th and 95th percentile by phase, to three digits; `None` where a phase has no times.
pub fn spreads(ratios: &[&Ratio]) -> Option<PhaseSpreads> {
    let of = |phase: Phase| {
        let mut values: Vec<f64> = ratios
            .iter()
            .filter(|one| one.phase == phase)
            .map(|one| one.ratio)
            .collect();
        values.sort_by(f64::total_cmp);
        let round = |share: f64| (percentile(&values, share) * 1e3).round() / 1e3;
        (!values.is_empty()).then(|| RatioSpread {
            low: round(0.05),
            high: round(0.95),
        })
    };
    Some(PhaseSpreads {
        prefill: of(Phase::Prefill)?,
        decode: of(Phase::Decode)?,
    })
}
