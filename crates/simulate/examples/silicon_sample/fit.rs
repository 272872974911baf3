//! `silicon_sample fit`: the numbers of `fixtures/silicon/fitted.json` from the rows of calibration models.
//!
//! Each number is the value of a grid with the least error, all others held, in turns until none changes (of values that are as good within a hundredth the first): those of TTFT, then those of TPOT, then those of TTFT once more. The error is the median of |ln(predicted ÷ measured)| over
//! the rows of a design on a device with an engine, and the mean of these medians: of TPOT for what steps and sequences cost, of TTFT for the rest. What a step costs is fitted to
//! differences from the median of such rows: a constant time shows in short steps, and errors of kernels in all of them.

#![expect(clippy::print_stderr, reason = "a long fit tells how far it is")]

use std::{
    collections::{BTreeMap, HashMap},
    error::Error,
    thread,
};

use llmprof_theory::{Model, device::Catalog, predict::EfficiencyProfile};

use crate::{
    coverage::{self, Groups},
    fitted::{Fitted, LayerTimes, Numbers},
    rows::{Row, Source, Times},
    served::simulated,
    split::{Split, design},
};

const REQUEST_MS: [f64; 7] = [0.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0];
const TOKEN_US: [f64; 4] = [0.0, 2.5, 5.0, 10.0];
const LEAST: [f64; 4] = [1.0, 0.95, 0.9, 0.8];
const FACTOR: [f64; 6] = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5];
const SEQUENCE_US: [f64; 5] = [0.0, 20.0, 40.0, 60.0, 80.0];
const DENSE_US: [f64; 6] = [0.0, 250.0, 500.0, 750.0, 1000.0, 1500.0];
const EXPERTS_US: [f64; 8] = [0.0, 500.0, 1000.0, 1500.0, 2000.0, 2500.0, 3000.0, 4000.0];
const STEP_US: [f64; 5] = [0.0, 130.0, 260.0, 520.0, 1040.0];
/// More turns than the numbers need.
const TURNS: usize = 10;

#[derive(Clone, Copy, PartialEq)]
enum Metric {
    Ttft,
    Tpot,
    /// How far TPOT lies from what is usual for its group.
    TpotWithin,
}

/// A row, and bits of the numbers that its simulation depends on.
type Key = (usize, [u64; 7]);

pub(crate) struct Fit<'a> {
    /// Rows of calibration models.
    rows: Vec<&'a Row>,
    models: &'a BTreeMap<&'static str, Model>,
    profiles: &'a BTreeMap<&'static str, EfficiencyProfile>,
    known: HashMap<Key, Times>,
}

/// Of sweeps every third row is enough.
const SWEEP_STRIDE: usize = 3;

/// The rows that numbers are fitted to: of other devices than the H200 where a source has any of the engine.
pub(crate) fn fitted_to<'r>(split: &Split, rows: &'r [Row]) -> Vec<&'r Row> {
    let all = split.calibrating(rows);
    let is_elsewhere = |row: &Row| {
        let is_like = |other: &&&Row| (other.source, other.backend) == (row.source, row.backend);
        all.iter()
            .filter(is_like)
            .any(|other| other.device != "h200")
    };
    let chosen = |row: &&&Row| row.device != "h200" || !is_elsewhere(row);
    let of = |source: Source| all.iter().filter(move |row| row.source == source);
    let dashboards = of(Source::Dashboard).filter(chosen);
    let sweeps = of(Source::Sweep).filter(chosen).step_by(SWEEP_STRIDE);
    dashboards.chain(sweeps).copied().collect()
}

/// All numbers, with the spreads that calibration rows have by them.
pub(crate) fn all(
    rows: &[Row],
    models: &BTreeMap<&'static str, Model>,
    profiles: &BTreeMap<&'static str, EfficiencyProfile>,
) -> Result<Fitted, Box<dyn Error>> {
    let split = Split::read()?;
    let mut found = Fit::new(fitted_to(&split, rows), models, profiles).run()?;
    let calibrating = split.calibrating(rows);
    let every: Vec<usize> = (0..calibrating.len()).collect();
    let ratios = Fit::new(calibrating, models, profiles).ratios(&every, &found)?;
    for (name, groups) in ["TTFT", "TPOT"].iter().zip(&ratios) {
        for ((design, device, source, engine), ratios) in groups {
            eprintln!(
                "{name}, {design}, {device}, {source:?}, {engine}: {} rows, measured ÷ predicted {:.2} in the median",
                ratios.len(),
                coverage::median(ratios)
            );
        }
    }
    found.spreads = [coverage::spread(&ratios[0]), coverage::spread(&ratios[1])];
    Ok(found)
}

impl<'a> Fit<'a> {
    pub(crate) fn new(
        rows: Vec<&'a Row>,
        models: &'a BTreeMap<&'static str, Model>,
        profiles: &'a BTreeMap<&'static str, EfficiencyProfile>,
    ) -> Self {
        Self {
            rows,
            models,
            profiles,
            known: HashMap::new(),
        }
    }

    fn key(&self, index: usize, fitted: &Fitted) -> Result<Key, Box<dyn Error>> {
        let row = self.rows[index];
        let client = fitted.client_of(row)?;
        let is_eager = self.profiles[row.backend].layer_launch.is_some();
        let launch = LayerTimes {
            dense_us: f64::from(u8::from(is_eager)) * fitted.layer_launch.dense_us,
            experts_us: f64::from(u8::from(is_eager)) * fitted.layer_launch.experts_us,
        };
        let numbers = [
            client.request_ms,
            client.token_us,
            client.sequence_us,
            client.least,
            launch.dense_us,
            launch.experts_us,
            fitted.step_us,
        ];
        Ok((index, numbers.map(f64::to_bits)))
    }

    /// Simulates what was not simulated with these numbers before.
    fn fill(&mut self, over: &[usize], fitted: &Fitted) -> Result<(), Box<dyn Error>> {
        let mut missing = Vec::new();
        for &index in over {
            let key = self.key(index, fitted)?;
            if !self.known.contains_key(&key) {
                missing.push(key);
            }
        }
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let catalog = Catalog::embedded();
        let this = &*self;
        let of = |key: &Key| -> Result<(Key, Times), String> {
            let row = this.rows[key.0];
            let found = || -> Result<Times, Box<dyn Error>> {
                let device = catalog.by_name(row.device)?;
                let profile = fitted.put_into(&this.profiles[row.backend]);
                let model = this.models.get(row.model).ok_or("no design")?;
                simulated(row, model, &device, &profile, &fitted.client_of(row)?)
            };
            found()
                .map(|times| (*key, times))
                .map_err(|error| format!("{}: {error}", row.line))
        };
        let of = &of;
        let found: Vec<Result<(Key, Times), String>> = thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|worker| {
                    let part = missing.iter().skip(worker).step_by(threads);
                    scope.spawn(move || part.map(of).collect::<Vec<_>>())
                })
                .collect();
            workers
                .into_iter()
                .flat_map(|worker| worker.join().unwrap_or_default())
                .collect()
        });
        for one in found {
            let (key, times) = one?;
            self.known.insert(key, times);
        }
        Ok(())
    }

    /// Measured ÷ predicted of TTFT and TPOT, by design, device, source and engine.
    pub(crate) fn ratios(
        &mut self,
        over: &[usize],
        fitted: &Fitted,
    ) -> Result<[Groups; 2], Box<dyn Error>> {
        self.fill(over, fitted)?;
        let mut ratios = [Groups::default(), Groups::default()];
        for &index in over {
            let row = self.rows[index];
            let found = self.known[&self.key(index, fitted)?];
            let seen = fitted.client_of(row)?.seen(found, row.prompt);
            let group = (design(row.model), row.device, row.source, row.backend);
            let [ttft, tpot] = &mut ratios;
            let ttfts = ttft.entry(group).or_default();
            ttfts.push(row.measured.ttft / seen.ttft);
            let tpots = tpot.entry(group).or_default();
            tpots.push(row.measured.tpot / seen.tpot);
        }
        Ok(ratios)
    }

    fn error(
        &mut self,
        over: &[usize],
        fitted: &Fitted,
        metric: Metric,
    ) -> Result<f64, Box<dyn Error>> {
        let [ttft, tpot] = self.ratios(over, fitted)?;
        let groups = match metric {
            Metric::Ttft => ttft,
            Metric::Tpot | Metric::TpotWithin => tpot,
        };
        let medians = groups.values().map(|ratios| {
            let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
            let from = match metric {
                Metric::Ttft | Metric::Tpot => 0.0,
                Metric::TpotWithin => coverage::median(&logs),
            };
            let errors: Vec<f64> = logs.iter().map(|log| (log - from).abs()).collect();
            coverage::median(&errors)
        });
        Ok(medians.sum::<f64>() / groups.len().max(1) as f64)
    }

    fn of(&self, is: impl Fn(&Row) -> bool) -> Vec<usize> {
        (0..self.rows.len())
            .filter(|&index| is(self.rows[index]))
            .collect()
    }

    /// With the best factor of every source and engine of some rows, which takes no simulation: a number that makes TTFT longer and a factor that makes it
    /// shorter again would hold each other where they are.
    fn with_factors(&mut self, over: &[usize], start: Fitted) -> Result<Fitted, Box<dyn Error>> {
        let mut now = start;
        for (source, engine) in self.sources() {
            let is_of = |row: &Row| (row.source, row.backend) == (source, engine);
            let own: Vec<usize> = over
                .iter()
                .copied()
                .filter(|&index| is_of(self.rows[index]))
                .collect();
            let variants = vary(&now, &FACTOR, |now, factor| {
                numbers(now, source, engine).factor = factor;
            });
            let mut least = f64::INFINITY;
            for variant in variants.into_iter().filter(|_| !own.is_empty()) {
                let error = self.error(&own, &variant, Metric::Ttft)?;
                if error < least {
                    (least, now) = (error, variant);
                }
            }
        }
        Ok(now)
    }

    /// The best value of a number's grid: the first whose error is within a hundredth of the least.
    fn best(
        &mut self,
        block: &Block,
        now: &Fitted,
    ) -> Result<Option<(f64, Fitted)>, Box<dyn Error>> {
        let mut all = Vec::new();
        for variant in vary(now, block.values, &block.set) {
            let variant = match block.metric {
                Metric::Ttft => self.with_factors(&block.over, variant)?,
                Metric::Tpot | Metric::TpotWithin => variant,
            };
            all.push((self.error(&block.over, &variant, block.metric)?, variant));
        }
        let least = all
            .iter()
            .map(|(error, _)| *error)
            .fold(f64::INFINITY, f64::min);
        let errors: Vec<String> = all.iter().map(|(error, _)| format!("{error:.4}")).collect();
        eprintln!(
            "{} in {:?}, over {} rows: {}",
            block.name,
            block.values,
            block.over.len(),
            errors.join(" ")
        );
        let is_near = |one: &(f64, Fitted)| one.0 <= 1.01 * least;
        let first = all.into_iter().find(is_near);
        Ok(first.filter(|_| !block.over.is_empty()))
    }

    /// One turn: every number of TTFT, or of TPOT, once.
    fn turn(&mut self, start: &Fitted, of_ttft: bool) -> Result<Fitted, Box<dyn Error>> {
        let mut now = start.clone();
        let blocks = self.blocks();
        for block in blocks
            .iter()
            .filter(|block| (block.metric == Metric::Ttft) == of_ttft)
        {
            if let Some((_, best)) = self.best(block, &now)? {
                now = best;
            }
        }
        Ok(now)
    }

    /// How far every number is from the best of its grid.
    pub(crate) fn regrets(&mut self, fitted: &Fitted) -> Result<Vec<Regret>, Box<dyn Error>> {
        let mut all = Vec::new();
        for block in self.blocks() {
            let own = self.error(&block.over, fitted, block.metric)?;
            let best = self.best(&block, fitted)?;
            if let Some((error, _)) = best {
                all.push((block.name, own, error));
            }
        }
        Ok(all)
    }

    /// Numbers in the order in which they are fitted.
    fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut add = |name: String, over: &[usize], metric, values: &'static [f64], set: Set| {
            blocks.push(Block {
                name,
                over: over.to_vec(),
                metric,
                values,
                set,
            });
        };
        for (source, engine) in self.sources() {
            let over = self.of(|row| (row.source, row.backend) == (source, engine));
            let name = |what: &str| format!("{what}, {source:?}, {engine}");
            if source == Source::Sweep {
                let set = move |now: &mut Fitted, value| {
                    numbers(now, source, engine).sequence_us = value;
                };
                let (values, set) = (&SEQUENCE_US, Box::new(set));
                add(name("sequence_us"), &over, Metric::Tpot, values, set);
            }
            let set = move |now: &mut Fitted, value| {
                numbers(now, source, engine).request_ms = value;
            };
            let set = Box::new(set);
            add(name("request_ms"), &over, Metric::Ttft, &REQUEST_MS, set);
        }
        let dashboards = self.of(|row| row.source == Source::Dashboard);
        let sweeps = self.of(|row| row.source == Source::Sweep);
        let eager = self.of(|row| {
            row.source == Source::Dashboard && self.profiles[row.backend].layer_launch.is_some()
        });
        let shared: [Shared<'_>; 5] = [
            (
                "step_us",
                &dashboards,
                Metric::TpotWithin,
                &STEP_US,
                |now, value| {
                    now.step_us = value;
                },
            ),
            ("dense_us", &eager, Metric::Ttft, &DENSE_US, |now, value| {
                now.layer_launch.dense_us = value;
            }),
            (
                "experts_us",
                &eager,
                Metric::Ttft,
                &EXPERTS_US,
                |now, value| {
                    now.layer_launch.experts_us = value;
                },
            ),
            (
                "token_us",
                &dashboards,
                Metric::Ttft,
                &TOKEN_US,
                |now, value| {
                    now.token_us = value;
                },
            ),
            (
                "sweep_least",
                &sweeps,
                Metric::Ttft,
                &LEAST,
                |now, value| {
                    now.sweep_least = value;
                },
            ),
        ];
        for (name, over, metric, values, set) in shared {
            add(name.to_owned(), over, metric, values, Box::new(set));
        }
        blocks
    }

    /// Sources and engines that have rows.
    fn sources(&self) -> Vec<(Source, &'static str)> {
        let mut all: Vec<_> = self
            .rows
            .iter()
            .map(|row| (row.source, row.backend))
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// From nothing, turns until no number changes.
    pub(crate) fn run(&mut self) -> Result<Fitted, Box<dyn Error>> {
        let mut now = Fitted::NONE;
        for (source, engine) in self.sources() {
            numbers(&mut now, source, engine);
        }
        for of_ttft in [true, false, true] {
            now = self.settle(now, of_ttft)?;
        }
        Ok(now)
    }

    fn settle(&mut self, start: Fitted, of_ttft: bool) -> Result<Fitted, Box<dyn Error>> {
        let mut now = start;
        for _ in 0..TURNS {
            let next = self.turn(&now, of_ttft)?;
            eprintln!("{}", serde_json::to_string(&next)?);
            if next == now {
                return Ok(now);
            }
            now = next;
        }
        Err("the numbers do not settle".into())
    }
}

/// Puts a value into the numbers.
type Set = Box<dyn Fn(&mut Fitted, f64)>;

/// The name of a number, the error with it, and that with the best value of its grid.
pub(crate) type Regret = (String, f64, f64);

/// A number: the rows that it depends on, what it is judged by, and what it may be.
struct Block {
    name: String,
    over: Vec<usize>,
    metric: Metric,
    values: &'static [f64],
    set: Set,
}

/// A number of several engines.
type Shared<'s> = (
    &'s str,
    &'s [usize],
    Metric,
    &'static [f64],
    fn(&mut Fitted, f64),
);

fn vary(now: &Fitted, values: &[f64], set: impl Fn(&mut Fitted, f64)) -> Vec<Fitted> {
    let with = |value: &f64| {
        let mut fitted = now.clone();
        set(&mut fitted, *value);
        fitted
    };
    values.iter().map(with).collect()
}

fn numbers<'f>(fitted: &'f mut Fitted, source: Source, engine: &str) -> &'f mut Numbers {
    let engines = fitted.clients.entry(source).or_default();
    engines.entry(engine.to_owned()).or_insert(Numbers::NONE)
}
