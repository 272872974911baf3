//! Numbers that no script and no table states: `fixtures/silicon/fitted.json`, as `xtask silicon fit` prints it. What belongs to engines (host time of
//! kernels) stands in their profiles too; a test compares them.
//!
//! A design is graded with numbers that were fitted to all other designs; profiles have those fitted to all of them.

use std::{collections::BTreeMap, error::Error};

use llmprof_predict::{EfficiencyProfile, RatioSpread};
use serde::{Deserialize, Serialize};

use super::{
    rows::{RowSource, ServedRow, design_of},
    served::ClientCosts,
};

const FITTED: &str = include_str!("../../../fixtures/silicon/fitted.json");

pub(crate) const ENGINES: [&str; 3] = ["vllm", "sglang", "trtllm"];

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FittedNumbers {
    /// Numbers that were fitted to the rows of all designs.
    pub(crate) all: ServingNumbers,
    /// To all designs but one, by the one left out.
    pub(crate) without: BTreeMap<String, ServingNumbers>,
    /// Measured ÷ predicted of TTFT and of TPOT, each row with the numbers that its design had no part in.
    pub(crate) spreads: [RatioSpread; 2],
}

impl FittedNumbers {
    pub(crate) fn read_fitted() -> Result<Self, Box<dyn Error>> {
        Ok(serde_json::from_str(FITTED)?)
    }

    /// What a model is graded with.
    pub(crate) fn grading_numbers(
        &self,
        model: &'static str,
    ) -> Result<&ServingNumbers, Box<dyn Error>> {
        let without = self.without.get(design_of(model));
        without.ok_or_else(|| format!("no numbers without {model}").into())
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServingNumbers {
    /// What clients see beside the engine's own time, by source of the rows and engine.
    pub(crate) clients: BTreeMap<RowSource, BTreeMap<String, Way>>,
    /// Host time for each kernel of a prefill that is not captured, of all engines.
    pub(crate) kernel_us: f64,
}

/// The way to an engine and back: those of [`ClientCosts`] that differ.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Way {
    pub(crate) request_ms: f64,
    pub(crate) token_us: f64,
    pub(crate) sequence_us: f64,
}

impl Way {
    pub(crate) const NONE: Self = Self {
        request_ms: 0.0,
        token_us: 0.0,
        sequence_us: 0.0,
    };
}

impl ServingNumbers {
    pub(crate) const NONE: Self = Self {
        clients: BTreeMap::new(),
        kernel_us: 0.0,
    };

    pub(crate) fn client_numbers(
        &self,
        source: RowSource,
        engine: &str,
    ) -> Result<ClientCosts, Box<dyn Error>> {
        let engines = self.clients.get(&source);
        let way = engines.and_then(|engines| engines.get(engine));
        let way = way.ok_or_else(|| format!("no numbers of {engine}"))?;
        Ok(ClientCosts {
            request_ms: way.request_ms,
            token_us: way.token_us,
            sequence_us: way.sequence_us,
            // As the scripts of dashboards say (`--random-range-ratio 0.8`).
            least: match source {
                RowSource::Dashboard => 0.8,
                RowSource::Sweep => 1.0,
            },
        })
    }

    pub(crate) fn client_of(&self, row: &ServedRow) -> Result<ClientCosts, Box<dyn Error>> {
        self.client_numbers(row.source, row.backend)
    }

    /// A profile with these numbers in it.
    pub(crate) fn put_into(&self, profile: &EfficiencyProfile) -> EfficiencyProfile {
        let mut profile = profile.clone();
        if let Some(each) = &mut profile.host_us_per_kernel {
            each.value = self.kernel_us;
        }
        profile
    }
}

pub(crate) fn read_profiles() -> Result<BTreeMap<&'static str, EfficiencyProfile>, Box<dyn Error>> {
    ENGINES
        .into_iter()
        .map(|name| Ok((name, EfficiencyProfile::embedded(name)?)))
        .collect()
}
