//! What-if: a grid of predictions over models, designs, devices and workloads.

mod advise;
mod axes;
mod print;
mod ranks;

use std::collections::HashMap;

use llmprof_theory::{
    Workload,
    device::Device,
    predict::{EfficiencyProfile, Need, PredictError, Prediction, Predictor, Target},
};
use llmprof_units::Nanos;

use self::axes::Axes;
use crate::{
    app,
    args::{PredictArgs, PredictFormat},
    failure::Failure,
    output::Output,
};

/// One row of the grid.
struct Row<'a> {
    /// What this row changes, one text per axis.
    labels: Vec<&'a str>,
    model: &'a str,
    /// What read its config: a family, or the keys that most configs share.
    family: &'static str,
    device: &'a Device,
    workload: Workload,
    outcome: Result<Prediction, PredictError>,
    ttft: Option<Need>,
    tpot: Option<Need>,
}

pub(crate) fn predict(args: &PredictArgs, output: &mut Output) -> Result<(), Failure> {
    if advise::is_asked(args) {
        return advise::advise(args, output);
    }
    let host = app::host()?;
    let profile = profile(&args.efficiency)?;
    let target = Target {
        ttft_ns: args.ttft.map(nanos),
        tpot_ns: args.tpot.map(nanos),
    };
    let axes = Axes::read(&app::llmprof(&host.cwd), &args.overrides, &host)?;
    let mut predictors: HashMap<(usize, usize), Predictor<'_>> = HashMap::new();
    let mut rows = axes.points().map(|point| {
        let (model, device) = (&axes.models[point.model], &axes.devices[point.device]);
        let predictor = predictors
            .entry((point.model, point.device))
            .or_insert_with(|| Predictor::new(&model.model, device, &profile));
        let outcome = ranks::predict(predictor, &model.model, &profile, &point.workload);
        let need = |choose: fn(&Prediction, &Target) -> Option<Need>| {
            outcome
                .as_ref()
                .ok()
                .and_then(|prediction| choose(prediction, &target))
        };
        Row {
            labels: axes.labels(&point),
            model: &model.name,
            family: model.model.family,
            device,
            workload: point.workload,
            ttft: need(Prediction::ttft_need),
            tpot: need(Prediction::tpot_need),
            outcome,
        }
    });
    match args.format {
        PredictFormat::Table => {
            let rows: Vec<_> = rows.collect();
            print::table(&axes.names(), &rows, &profile, output)
        }
        PredictFormat::Csv => {
            let mut csv = print::Csv::new(axes.names());
            rows.try_for_each(|row| csv.row(&row, output))?;
            csv.finish(output)
        }
        PredictFormat::Json => {
            let rows: Vec<_> = rows.collect();
            print::json(&axes.names(), &rows, &profile, output)
        }
    }
}

pub(super) fn profile(name: &str) -> Result<EfficiencyProfile, Failure> {
    let failed = |error: llmprof_theory::predict::ProfileError| Failure::new(error.to_string());
    if std::path::Path::new(name).extension().is_none() {
        return EfficiencyProfile::embedded(name).map_err(failed);
    }
    let text = std::fs::read_to_string(name)
        .map_err(|error| Failure::new(format!("cannot read {name}: {error}")))?;
    EfficiencyProfile::read(&text, name).map_err(failed)
}

pub(super) fn nanos(duration: std::time::Duration) -> Nanos {
    Nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
}
