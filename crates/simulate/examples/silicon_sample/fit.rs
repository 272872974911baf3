//! `silicon_sample fit`: the numbers of `fixtures/silicon/fitted.json` from rows of all designs, and of all but each.
//!
//! Each number is the value of a grid with the least error, in turns until none changes. The error is the median of |ln(predicted ÷ measured)| over
//! the rows of a design on a device with an engine, and the mean of these medians: of TPOT for what sequences cost, of TTFT for the rest.

#![expect(clippy::print_stderr, reason = "a long fit tells how far it is")]

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
};

use llmprof_theory::{Model, predict::EfficiencyProfile};

use crate::{
    calibration::fitted_to,
    coverage::{self, Groups},
    fitted::{Fitted, Numbers, Way},
    rows::{Row, Source, design},
    trials::{Trials, group},
};

const REQUEST_MS: [f64; 13] = [
    0.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0, 80.0, 120.0, 160.0, 200.0, 240.0,
];
const TOKEN_US: [f64; 8] = [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.5, 16.0];
const KERNEL_US: [f64; 7] = [0.0, 20.0, 40.0, 50.0, 60.0, 80.0, 120.0];
const SEQUENCE_US: [f64; 5] = [0.0, 20.0, 40.0, 60.0, 80.0];
/// More turns than the numbers need.
const TURNS: usize = 20;

/// All numbers, and the spreads of rows by those that their designs had no part in.
pub(crate) fn all(
    rows: &[Row],
    models: &BTreeMap<&'static str, Model>,
    profiles: &BTreeMap<&'static str, EfficiencyProfile>,
) -> Result<Fitted, Box<dyn Error>> {
    let mut trials = Trials::new(models, profiles);
    let rows: Vec<&Row> = rows.iter().filter(|row| trials.can_simulate(row)).collect();
    let fold = |trials: &mut Trials<'_>, without: Option<&str>| {
        eprintln!("without {}", without.unwrap_or("none"));
        Fit::new(fitted_to(&rows, without), trials).run()
    };
    let all = fold(&mut trials, None)?;
    let designs: BTreeSet<&'static str> = models.keys().map(|model| design(model)).collect();
    let mut without = BTreeMap::new();
    let mut ratios = [Groups::default(), Groups::default()];
    for one in designs {
        let numbers = fold(&mut trials, Some(one))?;
        let own = rows.iter().filter(|row| design(row.model) == one);
        let own: Vec<&Row> = own.copied().collect();
        for (groups, found) in ratios.iter_mut().zip(trials.ratios(&own, &numbers)?) {
            groups.extend(found);
        }
        without.insert(one.to_owned(), numbers);
    }
    Ok(Fitted {
        all,
        without,
        spreads: ratios.map(|groups| coverage::of_other_designs(&groups, None)),
    })
}

pub(crate) struct Fit<'a, 't, 'd> {
    rows: Vec<&'a Row>,
    trials: &'t mut Trials<'d>,
}

impl<'a, 't, 'd> Fit<'a, 't, 'd> {
    pub(crate) fn new(rows: Vec<&'a Row>, trials: &'t mut Trials<'d>) -> Self {
        Self { rows, trials }
    }

    /// From nothing, turns until they lead to where they have been; of all that was found the best.
    pub(crate) fn run(&mut self) -> Result<Numbers, Box<dyn Error>> {
        let mut now = Numbers::NONE;
        for (source, engine) in self.sources() {
            way(&mut now, source, engine);
        }
        let mut found: Vec<(f64, Numbers)> = Vec::new();
        while found.iter().all(|(_, before)| *before != now) && found.len() < TURNS {
            let error = self.ttft_error(&now)?;
            eprintln!("{error:.4} {}", serde_json::to_string(&now)?);
            found.push((error, now.clone()));
            now = self.turn(&now)?;
        }
        least(found).ok_or_else(|| "no turn".into())
    }

    /// Every number once.
    pub(crate) fn turn(&mut self, start: &Numbers) -> Result<Numbers, Box<dyn Error>> {
        let mut now = start.clone();
        for (source, engine) in self.sources() {
            if source == Source::Sweep {
                let own = self.of(|row| (row.source, row.backend) == (source, engine));
                let mut found = Vec::new();
                for sequence_us in SEQUENCE_US {
                    let mut with = now.clone();
                    way(&mut with, source, engine).sequence_us = sequence_us;
                    let [_, tpot] = self.trials.ratios(&own, &with)?;
                    found.push((error(&tpot), with));
                }
                now = least(found).unwrap_or(now);
            }
        }
        let mut found = Vec::new();
        for kernel_us in KERNEL_US {
            let with = self.ways(&Numbers {
                kernel_us,
                ..now.clone()
            })?;
            found.push((self.ttft_error(&with)?, with));
        }
        Ok(least(found).unwrap_or(now))
    }

    /// The way to the engines that is best for the host's times as they are. What comes to every request alike changes the engines' own times little, so that all of
    /// these are compared by one simulation.
    fn ways(&mut self, now: &Numbers) -> Result<Numbers, Box<dyn Error>> {
        let mut with = now.clone();
        for (source, engine) in self.sources() {
            let own = self.of(|row| (row.source, row.backend) == (source, engine));
            let mut found = Vec::new();
            for token_us in TOKEN_US {
                let mut tried = now.clone();
                let own_way = way(&mut tried, source, engine);
                (own_way.request_ms, own_way.token_us) = (0.0, token_us);
                self.trials.fill(&own, &tried)?;
                let mut engine_ms = Vec::new();
                for row in &own {
                    engine_ms.push((*row, self.trials.seen(row, &tried)?.ttft));
                }
                for request_ms in REQUEST_MS {
                    let mut ratios = Groups::default();
                    for (row, ms) in &engine_ms {
                        let ratios = ratios.entry(group(row)).or_default();
                        ratios.push(row.measured.ttft / (ms + request_ms));
                    }
                    found.push((error(&ratios), [request_ms, token_us]));
                }
            }
            if let Some([request_ms, token_us]) = least(found) {
                let way = way(&mut with, source, engine);
                (way.request_ms, way.token_us) = (request_ms, token_us);
            }
        }
        Ok(with)
    }

    /// Of dashboards, whose scripts are known.
    pub(crate) fn ttft_error(&mut self, numbers: &Numbers) -> Result<f64, Box<dyn Error>> {
        let dashboards = self.of(|row| row.source == Source::Dashboard);
        let [ttft, _] = self.trials.ratios(&dashboards, numbers)?;
        Ok(error(&ttft))
    }

    fn of(&self, is: impl Fn(&Row) -> bool) -> Vec<&'a Row> {
        let own = self.rows.iter().filter(|row| is(row));
        own.copied().collect()
    }

    /// Sources and engines that have rows.
    fn sources(&self) -> Vec<(Source, &'static str)> {
        let all = self.rows.iter().map(|row| (row.source, row.backend));
        let all: BTreeSet<_> = all.collect();
        all.into_iter().collect()
    }
}

/// The mean of the groups' medians.
fn error(groups: &Groups) -> f64 {
    let medians = groups.values().map(|ratios| {
        let errors: Vec<f64> = ratios.iter().map(|ratio| ratio.ln().abs()).collect();
        coverage::median(&errors)
    });
    medians.sum::<f64>() / groups.len().max(1) as f64
}

/// What has the least error; of equals the first.
fn least<T>(found: Vec<(f64, T)>) -> Option<T> {
    let least = found.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
    least.map(|(_, found)| found)
}

fn way<'n>(numbers: &'n mut Numbers, source: Source, engine: &str) -> &'n mut Way {
    let engines = numbers.clients.entry(source).or_default();
    engines.entry(engine.to_owned()).or_insert(Way::NONE)
}
