//! Simulations of rows with numbers that are tried: each once, by as many threads as there are.

use std::{
    collections::{BTreeMap, HashMap},
    error::Error,
    thread,
};

use llmprof_predict::EfficiencyProfile;
use llmprof_theory::{Model, device::Catalog};

use super::{
    coverage::{Groups, RowGroup},
    fitted::ServingNumbers,
    rows::{ServedRow, ServedTimes, design_of},
    served::{GradedServer, can_serve, predict_served},
};

/// A row's line, and bits of the numbers that its simulation depends on.
type Key = (&'static str, [u64; 4]);

pub(crate) struct Trials<'a> {
    models: &'a BTreeMap<&'static str, Model>,
    profiles: &'a BTreeMap<&'static str, EfficiencyProfile>,
    known: HashMap<Key, ServedTimes>,
}

impl<'a> Trials<'a> {
    pub(crate) fn new(
        models: &'a BTreeMap<&'static str, Model>,
        profiles: &'a BTreeMap<&'static str, EfficiencyProfile>,
    ) -> Self {
        Self {
            models,
            profiles,
            known: HashMap::new(),
        }
    }

    /// Whether the row's model has a design here, and its ranks are modelled.
    pub(crate) fn can_simulate(&self, row: &ServedRow) -> bool {
        let device = Catalog::embedded().by_name(row.device);
        let row_setup = device.ok().zip(self.models.get(row.model));
        row_setup.is_some_and(|(device, model)| {
            can_serve(row, model, &device, &self.profiles[row.backend])
        })
    }

    fn trial_key(row: &ServedRow, numbers: &ServingNumbers) -> Result<Key, Box<dyn Error>> {
        let client = numbers.client_of(row)?;
        let numbers = [
            client.request_ms,
            client.token_us,
            client.sequence_us,
            numbers.kernel_us,
        ];
        Ok((row.line, numbers.map(f64::to_bits)))
    }

    fn simulate_row(
        &self,
        row: &ServedRow,
        numbers: &ServingNumbers,
    ) -> Result<ServedTimes, Box<dyn Error>> {
        let server = GradedServer {
            model: self.models.get(row.model).ok_or("no design")?,
            device: &Catalog::embedded().by_name(row.device)?,
            profile: &numbers.put_into(&self.profiles[row.backend]),
            client: numbers.client_of(row)?,
        };
        predict_served(row, &server)
    }

    /// Simulates what was not simulated with these numbers before.
    pub(crate) fn simulate_missing(
        &mut self,
        rows: &[&ServedRow],
        numbers: &ServingNumbers,
    ) -> Result<(), Box<dyn Error>> {
        let mut missing = Vec::new();
        for row in rows {
            let key = Self::trial_key(row, numbers)?;
            if !self.known.contains_key(&key) {
                missing.push((key, *row));
            }
        }
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let of = |(key, row): &(Key, &ServedRow)| -> Result<(Key, ServedTimes), String> {
            let times = self.simulate_row(row, numbers);
            times
                .map(|times| (*key, times))
                .map_err(|error| format!("{}: {error}", row.line))
        };
        let of = &of;
        let results: Vec<Result<(Key, ServedTimes), String>> = thread::scope(|scope| {
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
        for one in results {
            let (key, times) = one?;
            self.known.insert(key, times);
        }
        Ok(())
    }

    /// What clients of a row see.
    pub(crate) fn client_times(
        &mut self,
        row: &ServedRow,
        numbers: &ServingNumbers,
    ) -> Result<ServedTimes, Box<dyn Error>> {
        self.simulate_missing(&[row], numbers)?;
        Ok(self.known[&Self::trial_key(row, numbers)?])
    }

    /// Measured ÷ predicted of TTFT and TPOT.
    pub(crate) fn group_ratios(
        &mut self,
        rows: &[&ServedRow],
        numbers: &ServingNumbers,
    ) -> Result<[Groups; 2], Box<dyn Error>> {
        self.simulate_missing(rows, numbers)?;
        let mut ratios = [Groups::default(), Groups::default()];
        for row in rows {
            let seen = self.known[&Self::trial_key(row, numbers)?];
            let both = [row.measured.ttft / seen.ttft, row.measured.tpot / seen.tpot];
            for (groups, ratio) in ratios.iter_mut().zip(both) {
                groups.entry(group_of(row)).or_default().push(ratio);
            }
        }
        Ok(ratios)
    }
}

/// Rows that are judged together.
pub(crate) fn group_of(row: &ServedRow) -> RowGroup {
    (design_of(row.model), row.device, row.source, row.backend)
}
