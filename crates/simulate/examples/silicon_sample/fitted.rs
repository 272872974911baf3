//! Numbers that no script and no table states: `fixtures/silicon/fitted.json`, as `silicon_sample fit` prints it. What belongs to engines (host time of layers and
//! of captured steps, spreads) stands in their profiles too; a test compares them.

use std::{collections::BTreeMap, error::Error};

use llmprof_theory::predict::{EfficiencyProfile, GraphTimes, Spread};
use serde::{Deserialize, Serialize};

use crate::{
    rows::{Row, Source},
    served::Client,
};

const FITTED: &str = include_str!("../../../../fixtures/silicon/fitted.json");

pub(crate) const ENGINES: [&str; 3] = ["vllm", "sglang", "trtllm"];

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fitted {
    /// [`Client::token_us`] of all.
    pub(crate) token_us: f64,
    /// [`Client::least`] of sweeps. That of dashboards is in their scripts (`--random-range-ratio 0.8`).
    pub(crate) sweep_least: f64,
    /// By source and engine.
    pub(crate) clients: BTreeMap<Source, BTreeMap<String, Numbers>>,
    /// Of engines that launch prefill layer by layer.
    pub(crate) layer_launch: LayerTimes,
    /// What a captured step costs beside its kernels.
    pub(crate) step_us: f64,
    /// Of TTFT and of TPOT.
    pub(crate) spreads: [Spread; 2],
}

/// Those of [`Client`] that differ.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Numbers {
    pub(crate) request_ms: f64,
    pub(crate) sequence_us: f64,
    pub(crate) factor: f64,
}

impl Numbers {
    pub(crate) const NONE: Self = Self {
        request_ms: 0.0,
        sequence_us: 0.0,
        factor: 1.0,
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LayerTimes {
    pub(crate) dense_us: f64,
    pub(crate) experts_us: f64,
}

impl Fitted {
    pub(crate) const NONE: Self = Self {
        token_us: 0.0,
        sweep_least: 1.0,
        clients: BTreeMap::new(),
        layer_launch: LayerTimes {
            dense_us: 0.0,
            experts_us: 0.0,
        },
        step_us: 0.0,
        spreads: [Spread {
            low: 1.0,
            high: 1.0,
        }; 2],
    };

    pub(crate) fn read() -> Result<Self, Box<dyn Error>> {
        Ok(serde_json::from_str(FITTED)?)
    }

    pub(crate) fn client(&self, source: Source, engine: &str) -> Result<Client, Box<dyn Error>> {
        let engines = self.clients.get(&source);
        let numbers = engines.and_then(|engines| engines.get(engine));
        let numbers = numbers.ok_or_else(|| format!("no numbers of {engine}"))?;
        Ok(Client {
            request_ms: numbers.request_ms,
            token_us: self.token_us,
            sequence_us: numbers.sequence_us,
            factor: numbers.factor,
            least: match source {
                Source::Dashboard => 0.8,
                Source::Sweep => self.sweep_least,
            },
        })
    }

    pub(crate) fn client_of(&self, row: &Row) -> Result<Client, Box<dyn Error>> {
        self.client(row.source, row.backend)
    }

    /// A profile with these numbers in it.
    pub(crate) fn put_into(&self, profile: &EfficiencyProfile) -> EfficiencyProfile {
        let mut profile = profile.clone();
        if let Some(launch) = &mut profile.layer_launch {
            launch.dense_us = self.layer_launch.dense_us;
            launch.experts_us = self.layer_launch.experts_us;
        }
        profile.graph = Some(GraphTimes {
            step_us: self.step_us,
            gap_us: 0.0,
        });
        profile
    }
}

pub(crate) fn profiles() -> Result<BTreeMap<&'static str, EfficiencyProfile>, Box<dyn Error>> {
    ENGINES
        .into_iter()
        .map(|name| Ok((name, EfficiencyProfile::embedded(name)?)))
        .collect()
}
