//! One simulation: a load on replicas of an engine, with the searches and checks that are asked for.

use llmprof_traffic::slo::Slo;

use crate::{
    request::RequestLoad,
    search::{self, Replicas, SettingsCandidate},
    settings::{Settings, SettingsError},
    simulated_load::SimulatedLoad,
    stability::{Overload, Unsettled, find_overload, find_unsettled},
    step::StepTimer,
};

/// Settings that a search tries.
const TRIED_TOKENS: [u64; 6] = [512, 1024, 2048, 4096, 8192, 16_384];
const TRIED_SEQUENCES: [u64; 6] = [16, 32, 64, 128, 256, 512];

/// A load on an engine, with the searches to make.
pub struct Scenario<'a> {
    pub load: &'a RequestLoad,
    /// Whether the load is a sample of something longer; a trace is simulated as a whole.
    pub is_sample: bool,
    /// Requests that arrive per second.
    pub asked_per_s: Option<f64>,
    pub settings: Settings,
    pub time: &'a dyn StepTimer,
    pub replicas: u64,
    pub slos: &'a [Slo],
    /// Whether the best settings are looked for.
    pub searches_settings: bool,
    /// Most replicas among which the fewest are looked for that meet the objectives.
    pub replicas_max: Option<u64>,
}

/// The simulated load, and what the searches gave.
pub struct ScenarioAnswer {
    pub settings: Settings,
    pub summary: SimulatedLoad,
    pub unsettled: Vec<Unsettled>,
    pub overload: Option<Overload>,
    pub candidates: Option<Vec<SettingsCandidate>>,
    pub replicas: Option<Replicas>,
}

impl Scenario<'_> {
    pub fn simulate(&self) -> Result<ScenarioAnswer, SettingsError> {
        let mut settings = self.settings;
        settings.check_values()?;
        let candidates = self.searches_settings.then(|| self.search_settings());
        let candidates = candidates.transpose()?;
        let best = candidates.as_ref().and_then(|all| all.first());
        if let Some(best) = best {
            settings = best.settings;
        }
        let on_replicas = |load: &RequestLoad, replicas: u64| {
            search::on_replicas(load, &settings, self.time, replicas, self.slos)
        };
        let replicas = self
            .replicas_max
            .map(|most| search::search_replicas(self.load, &settings, self.time, most, self.slos));
        let replicas = replicas.transpose()?;
        let summary = match (&replicas, best) {
            (Some(fewest), _) => fewest.summary.clone(),
            (None, Some(best)) => best.summary.clone(),
            (None, None) => on_replicas(self.load, self.replicas)?,
        };
        let unsettled = if self.is_sample {
            let half = RequestLoad {
                requests: self.load.requests[..self.load.requests.len() / 2].to_vec(),
                ..self.load.clone()
            };
            find_unsettled(&on_replicas(&half, summary.replicas)?, &summary)
        } else {
            Vec::new()
        };
        Ok(ScenarioAnswer {
            overload: find_overload(self.asked_per_s, &summary, &unsettled),
            settings,
            summary,
            unsettled,
            candidates,
            replicas,
        })
    }

    fn search_settings(&self) -> Result<Vec<SettingsCandidate>, SettingsError> {
        let with = |tried: &[u64], own: u64| {
            let mut all = tried.to_vec();
            all.push(own);
            all.sort_unstable();
            all.dedup();
            all
        };
        let base = &self.settings;
        search::search_settings(
            self.load,
            base,
            &with(&TRIED_TOKENS, base.max_num_batched_tokens),
            &with(&TRIED_SEQUENCES, base.max_num_seqs),
            self.time,
            self.replicas,
            self.slos,
        )
    }
}
