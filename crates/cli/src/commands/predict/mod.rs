//! What-if: a grid of predictions over models, designs, devices and workloads.

mod advise;
mod axes;
mod from_run;
mod ranks;
mod threads;
mod traced;

use std::collections::HashMap;

use llmprof_predict::{Need, PredictError, Prediction, PredictionTarget, Predictor};
use llmprof_report::compose::predict::{
    About, PredictedRow, csv_line, document, grid as printed_grid,
};
use llmprof_theory::{COMMON_KEYS, Model, parallel::Parallel};

use self::{
    axes::{AxisPoint, SweepAxes},
    from_run::StartingRun,
    ranks::ParallelModels,
    traced::{TRACED, Traces},
};
use crate::{
    app,
    args::{PredictArgs, PredictFormat},
    efficiency,
    failure::Failure,
    output::Output,
};

/// All that rows are made from.
struct RowInputs<'a> {
    axes: &'a SweepAxes,
    traces: &'a Traces,
    spreads: &'a ParallelModels,
    start: Option<&'a StartingRun>,
    target: PredictionTarget,
}

/// What one thread keeps between rows, by model, device, software and ranks: predictors remember the steps that they costed.
type Predictors<'a> = HashMap<([usize; 3], Parallel), Predictor<'a>>;

/// Rows that are kept before the first one is printed, about 1 kB each.
const ROWS_MAX: usize = 100_000;

const NO_POINTS: &str = "the sweep has no points";

fn no_points() -> Failure {
    Failure::new(NO_POINTS)
}

/// Predictors that a thread keeps: what they remember is a few megabytes each.
const PREDICTORS_MAX: usize = 32;

pub(crate) fn predict(args: &PredictArgs, output: &mut Output) -> Result<(), Failure> {
    if advise::is_asked(args) {
        return advise::advise(args, output);
    }
    with_grid(args, |grid, about| print_grid(grid, about, args, output))
}

/// The grid of a request as `--format json` prints it.
pub(crate) fn prediction(args: &PredictArgs) -> Result<serde_json::Value, Failure> {
    let mut value = serde_json::Value::Null;
    with_grid(args, |grid, about| {
        let rows = rows(grid)?;
        any_predicted(&rows).map_err(Failure::new)?;
        let names = grid.axes.names();
        let printed = printed_grid(&names, &rows, &grid.about(about)).ok_or_else(no_points)?;
        value = serde_json::to_value(printed)
            .map_err(|error| Failure::new(format!("cannot write JSON: {error}")))?;
        Ok(())
    })?;
    Ok(value)
}

/// Reads a request and hands over its grid, with notes about it.
fn with_grid(
    args: &PredictArgs,
    mut done: impl FnMut(&RowInputs<'_>, Vec<String>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let host = app::host()?;
    let start = args.from.as_deref();
    let start = start
        .map(|run| StartingRun::read(run, &args.overrides))
        .transpose()?;
    let overrides = match &start {
        Some(start) => start.overrides(&args.overrides),
        None => args.overrides.clone(),
    };
    let axes = SweepAxes::read(
        &app::llmprof(&host.cwd),
        &overrides,
        &host,
        args.efficiency.as_deref(),
        start.as_ref(),
    )?;
    // A run corrects what is counted; kernels that are traced stand as they are.
    let traces = match &start {
        Some(_) => Traces::default(),
        None => Traces::trace_axes(&axes)?,
    };
    let spreads = ParallelModels::for_axes(&axes);
    let first = axes.point(0);
    let start = start
        .map(|start| {
            let is_one_device = first.workload.parallel.is_single();
            let (device, profile) = (&axes.devices[first.device], &axes.profiles[first.profile]);
            start.correct(is_one_device, device, profile)
        })
        .transpose()?;
    let grid = RowInputs {
        axes: &axes,
        traces: &traces,
        spreads: &spreads,
        start: start.as_ref(),
        target: PredictionTarget {
            ttft_ns: args.ttft.map(efficiency::nanos),
            tpot_ns: args.tpot.map(efficiency::nanos),
        },
    };
    let mut about = traces.notes();
    about.extend(start.as_ref().map(StartingRun::note));
    done(&grid, about)
}

fn print_grid(
    grid: &RowInputs<'_>,
    about: Vec<String>,
    args: &PredictArgs,
    output: &mut Output,
) -> Result<(), Failure> {
    let axes = grid.axes;
    match args.chosen_format() {
        PredictFormat::Table => {
            let rows = rows(grid)?;
            any_predicted(&rows).map_err(Failure::new)?;
            output.document(&document(&axes.names(), &rows, grid.about(about)))
        }
        PredictFormat::Csv => {
            for note in &about {
                Failure::new(note.clone()).warn();
            }
            let names = axes.names();
            let mut predicted = Err(NO_POINTS.to_owned());
            threads::in_order(
                grid.axes.len(),
                |block, predictors: &mut Predictors<'_>| {
                    let mut text = String::new();
                    let rows = block.clone().map(|index| grid.row(index, predictors));
                    let rows: Vec<PredictedRow<'_>> = rows.collect();
                    for (index, row) in block.clone().zip(&rows) {
                        csv_line(&names, row, index == 0, &mut text);
                    }
                    (text, any_predicted(&rows))
                },
                |(text, some)| {
                    if predicted.is_err() {
                        predicted = some;
                    }
                    output.text(&text)
                },
            )?;
            predicted.map_err(Failure::new)
        }
        PredictFormat::Json => {
            let rows = rows(grid)?;
            let printed = printed_grid(&axes.names(), &rows, &grid.about(about));
            output.json(&printed.ok_or_else(no_points)?)?;
            any_predicted(&rows).map_err(Failure::new)
        }
    }
}

/// Why no row has a prediction, where none has.
fn any_predicted(rows: &[PredictedRow<'_>]) -> Result<(), String> {
    let mut why = NO_POINTS.to_owned();
    for row in rows {
        match &row.outcome {
            Ok(_) => return Ok(()),
            Err(error) => why = error.to_string(),
        }
    }
    Err(why)
}

fn rows<'a>(grid: &RowInputs<'a>) -> Result<Vec<PredictedRow<'a>>, Failure> {
    let points = grid.axes.len();
    if points > ROWS_MAX {
        let message = format!("{points} points are more than a table holds ({ROWS_MAX})");
        return Err(
            Failure::new(message).hint("--format csv prints points as they come".to_owned())
        );
    }
    let mut rows = Vec::with_capacity(grid.axes.len());
    threads::in_order(
        grid.axes.len(),
        |block, predictors: &mut Predictors<'a>| {
            let some = block.clone().map(|index| grid.row(index, predictors));
            some.collect::<Vec<_>>()
        },
        |some| {
            rows.extend(some);
            Ok(())
        },
    )?;
    Ok(rows)
}

impl<'a> RowInputs<'a> {
    fn about(&self, notes: Vec<String>) -> About {
        About {
            notes,
            is_from_run: self.start.is_some(),
        }
    }

    fn row(&self, index: usize, predictors: &mut Predictors<'a>) -> PredictedRow<'a> {
        let axes = self.axes;
        let point = axes.point(index);
        let (model, device) = (&axes.models[point.model], &axes.devices[point.device]);
        let profile = &axes.profiles[point.profile];
        let traced = self.traces.predict(&point, axes);
        let family = match (&traced, &model.model) {
            (Some(_), _) => TRACED,
            (None, Some(model)) => model.family,
            (None, None) => COMMON_KEYS,
        };
        let outcome = traced.unwrap_or_else(|| self.counted(&point, predictors));
        let need = |choose: fn(&Prediction, &PredictionTarget) -> Option<Need>| {
            outcome
                .as_ref()
                .ok()
                .and_then(|prediction| choose(prediction, &self.target))
        };
        PredictedRow {
            labels: axes.labels(&point),
            model: &model.name,
            family,
            device,
            profile,
            max_positions: model.model.as_ref().and_then(Model::max_positions),
            workload: point.workload,
            ttft: need(Prediction::ttft_need),
            tpot: need(Prediction::tpot_need),
            outcome,
        }
    }

    /// The prediction of a model that is counted, on one device or several.
    fn counted(
        &self,
        point: &AxisPoint,
        predictors: &mut Predictors<'a>,
    ) -> Result<Prediction, PredictError> {
        let axes = self.axes;
        let (device, profile) = (&axes.devices[point.device], &axes.profiles[point.profile]);
        let Some(model) = &axes.models[point.model].model else {
            return Err(PredictError::NeedsKernels);
        };
        let parallel = point.workload.parallel;
        let spread = self
            .spreads
            .get(axes, (point.model, point.device, parallel))
            .transpose()?;
        let key = ([point.model, point.device, point.profile], parallel);
        if predictors.len() >= PREDICTORS_MAX && !predictors.contains_key(&key) {
            predictors.clear();
        }
        let predictor = predictors.entry(key).or_insert_with(|| {
            let plain = match spread {
                Some(spread) => spread.rank_predictor(device, profile),
                None => Predictor::new(model, device, profile),
            };
            // A run on one device does not correct a spread model.
            match self.start.filter(|_| spread.is_none()) {
                Some(start) => start.apply_corrections(plain),
                None => plain,
            }
        });
        match spread {
            Some(spread) => Ok(spread.predict(predictor, &point.workload)?.prediction),
            None => predictor.predict(&point.workload),
        }
    }
}
