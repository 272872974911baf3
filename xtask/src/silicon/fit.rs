//! `xtask silicon fit`: the numbers of `fixtures/silicon/fitted.json` from rows of all designs, and of all but each.
//!
//! Each number is the value of a grid with the least error, in turns until none changes. The error is the mean of |ln(predicted ÷ measured)|, cut at ln 2, over the rows of a design on
//! a device with an engine, and the mean of these means: of TPOT for what sequences cost, of TTFT for the rest.

#![expect(clippy::print_stderr, reason = "a long fit tells how far it is")]

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
};

use llmprof_predict::EfficiencyProfile;
use llmprof_theory::Model;

use super::{
    calibration::fitted_to,
    coverage::{self, Groups},
    fitted::{FittedNumbers, ServingNumbers, Way},
    rows::{RowSource, ServedRow, design_of},
    trials::{Trials, group_of},
};

const REQUEST_MS: [f64; 13] = [
    0.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0, 80.0, 120.0, 160.0, 200.0, 240.0,
];
const TOKEN_US: [f64; 8] = [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.5, 16.0];
const KERNEL_US: [f64; 8] = [0.0, 20.0, 30.0, 40.0, 50.0, 60.0, 80.0, 100.0];
const SEQUENCE_US: [f64; 5] = [0.0, 20.0, 40.0, 60.0, 80.0];
/// Rows that are further off count as if they were off by this.
const RATIO_MAX: f64 = 2.0;
/// More turns than the numbers need.
const TURNS: usize = 20;

/// All numbers, and the spreads of rows by those that their designs had no part in.
pub(crate) fn fit_all(
    rows: &[ServedRow],
    models: &BTreeMap<&'static str, Model>,
    profiles: &BTreeMap<&'static str, EfficiencyProfile>,
) -> Result<FittedNumbers, Box<dyn Error>> {
    let mut trials = Trials::new(models, profiles);
    let rows: Vec<&ServedRow> = rows.iter().filter(|row| trials.can_simulate(row)).collect();
    let fold = |trials: &mut Trials<'_>, without: Option<&str>| {
        eprintln!("without {}", without.unwrap_or("none"));
        NumberFit::new(fitted_to(&rows, without), trials).run()
    };
    let all = fold(&mut trials, None)?;
    let designs: BTreeSet<&'static str> = models.keys().map(|model| design_of(model)).collect();
    let mut without = BTreeMap::new();
    let mut ratios = [Groups::default(), Groups::default()];
    for one in designs {
        let numbers = fold(&mut trials, Some(one))?;
        let design_rows = rows.iter().filter(|row| design_of(row.model) == one);
        let design_rows: Vec<&ServedRow> = design_rows.copied().collect();
        for (groups, held_out) in ratios
            .iter_mut()
            .zip(trials.group_ratios(&design_rows, &numbers)?)
        {
            groups.extend(held_out);
        }
        without.insert(one.to_owned(), numbers);
    }
    Ok(FittedNumbers {
        all,
        without,
        spreads: ratios.map(|groups| coverage::of_other_designs(&groups, None)),
    })
}

pub(crate) struct NumberFit<'a, 't, 'd> {
    rows: Vec<&'a ServedRow>,
    trials: &'t mut Trials<'d>,
}

impl<'a, 't, 'd> NumberFit<'a, 't, 'd> {
    pub(crate) fn new(rows: Vec<&'a ServedRow>, trials: &'t mut Trials<'d>) -> Self {
        Self { rows, trials }
    }

    /// Takes turns, starting without numbers, until one repeats earlier numbers; the best of all turns.
    pub(crate) fn run(&mut self) -> Result<ServingNumbers, Box<dyn Error>> {
        let mut now = ServingNumbers::NONE;
        for (source, engine) in self.source_engines() {
            way_of(&mut now, source, engine);
        }
        let mut tried: Vec<(f64, ServingNumbers)> = Vec::new();
        while tried.iter().all(|(_, before)| *before != now) && tried.len() < TURNS {
            let error = self.ttft_error(&now)?;
            eprintln!("{error:.4} {}", serde_json::to_string(&now)?);
            tried.push((error, now.clone()));
            now = self.turn_once(&now)?;
        }
        let least = least_error(tried).ok_or("no turn")?;
        Ok(least.1)
    }

    pub(crate) fn turn_once(
        &mut self,
        start: &ServingNumbers,
    ) -> Result<ServingNumbers, Box<dyn Error>> {
        let mut now = start.clone();
        for (source, engine) in self.source_engines() {
            if source == RowSource::Sweep {
                let engine_rows =
                    self.select_rows(|row| (row.source, row.backend) == (source, engine));
                let mut tried = Vec::new();
                for sequence_us in SEQUENCE_US {
                    let mut with = now.clone();
                    way_of(&mut with, source, engine).sequence_us = sequence_us;
                    let [_, tpot] = self.trials.group_ratios(&engine_rows, &with)?;
                    tried.push((mean_log_error(&tpot), with));
                }
                if let Some((_, best)) = least_error(tried) {
                    now = best;
                }
            }
        }
        let mut tried = Vec::new();
        for kernel_us in KERNEL_US {
            tried.push(self.fit_ways(&ServingNumbers {
                kernel_us,
                ..now.clone()
            })?);
        }
        Ok(least_error(tried).map_or(now, |(_, best)| best))
    }

    /// The ways to all engines with the host's time as it is, and the error of dashboards by that.
    fn fit_ways(&mut self, now: &ServingNumbers) -> Result<(f64, ServingNumbers), Box<dyn Error>> {
        let (mut with, mut dashboards) = (now.clone(), Groups::default());
        for (source, engine) in self.source_engines() {
            let mut tried = Vec::new();
            for token_us in TOKEN_US {
                tried.push(self.fit_request(now, (source, engine), token_us)?);
            }
            if let Some((_, (best, ratios))) = least_error(tried) {
                let sequence_us = way_of(&mut with, source, engine).sequence_us;
                *way_of(&mut with, source, engine) = Way {
                    sequence_us,
                    ..best
                };
                if source == RowSource::Dashboard {
                    dashboards.extend(ratios);
                }
            }
        }
        Ok((mean_log_error(&dashboards), with))
    }

    /// What a request takes beside its tokens. It comes to every request alike and changes an engine's own times little: all of the grid are compared by one simulation.
    fn fit_request(
        &mut self,
        now: &ServingNumbers,
        (source, engine): (RowSource, &str),
        token_us: f64,
    ) -> Result<(f64, (Way, Groups)), Box<dyn Error>> {
        let mut without = now.clone();
        let tried = way_of(&mut without, source, engine);
        (tried.request_ms, tried.token_us) = (0.0, token_us);
        let tried = *tried;
        let engine_rows = self.select_rows(|row| (row.source, row.backend) == (source, engine));
        self.trials.simulate_missing(&engine_rows, &without)?;
        let mut engine_ms = Vec::new();
        for row in engine_rows {
            engine_ms.push((row, self.trials.client_times(row, &without)?.ttft));
        }
        let of = |request_ms: f64| {
            let mut ratios = Groups::default();
            for (row, ms) in &engine_ms {
                let ratios = ratios.entry(group_of(row)).or_default();
                ratios.push(row.measured.ttft / (ms + request_ms));
            }
            let way = Way {
                request_ms,
                ..tried
            };
            (mean_log_error(&ratios), (way, ratios))
        };
        least_error(REQUEST_MS.map(of).into()).ok_or_else(|| "no request".into())
    }

    /// Of dashboards, whose scripts are known.
    pub(crate) fn ttft_error(&mut self, numbers: &ServingNumbers) -> Result<f64, Box<dyn Error>> {
        let dashboards = self.select_rows(|row| row.source == RowSource::Dashboard);
        let [ttft, _] = self.trials.group_ratios(&dashboards, numbers)?;
        Ok(mean_log_error(&ttft))
    }

    fn select_rows(&self, is: impl Fn(&ServedRow) -> bool) -> Vec<&'a ServedRow> {
        let engine_rows = self.rows.iter().filter(|row| is(row));
        engine_rows.copied().collect()
    }

    /// Sources and engines that have rows.
    fn source_engines(&self) -> Vec<(RowSource, &'static str)> {
        let all = self.rows.iter().map(|row| (row.source, row.backend));
        let all: BTreeSet<_> = all.collect();
        all.into_iter().collect()
    }
}

/// The mean of the groups' means of |ln(measured ÷ predicted)|, each cut at a factor of [`RATIO_MAX`]: rows that ran something else do not decide.
fn mean_log_error(groups: &Groups) -> f64 {
    let means = groups.values().map(|ratios| {
        let errors = ratios
            .iter()
            .map(|ratio| ratio.ln().abs().min(RATIO_MAX.ln()));
        errors.sum::<f64>() / ratios.len().max(1) as f64
    });
    means.sum::<f64>() / groups.len().max(1) as f64
}

/// The trial with the least error; the first of equal ones.
fn least_error<T>(trials: Vec<(f64, T)>) -> Option<(f64, T)> {
    trials.into_iter().min_by(|a, b| a.0.total_cmp(&b.0))
}

fn way_of<'n>(numbers: &'n mut ServingNumbers, source: RowSource, engine: &str) -> &'n mut Way {
    let engines = numbers.clients.entry(source).or_default();
    engines.entry(engine.to_owned()).or_insert(Way::NONE)
}
