//! Settings and replicas for an objective.

use llmprof_traffic::slo::{Slo, all_met};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    engine::simulate_load,
    request::RequestLoad,
    settings::{Settings, SettingsError},
    simulated_load::SimulatedLoad,
    step::StepTimer,
};

/// Upper end of the replica search: it doubles from one, and a load that needs more is beyond one deployment.
pub const REPLICAS_MAX: u64 = 4096;

/// Runs a load on replicas that get requests in turn.
pub fn on_replicas<T: StepTimer + ?Sized>(
    load: &RequestLoad,
    settings: &Settings,
    time: &T,
    replicas: u64,
    slos: &[Slo],
) -> Result<SimulatedLoad, SettingsError> {
    let replicas = replicas.max(1) as usize;
    let outcomes = if replicas == 1 {
        vec![simulate_load(load, settings, time)?]
    } else {
        (0..replicas)
            .map(|index| simulate_load(&load.replica_share(index, replicas), settings, time))
            .collect::<Result<Vec<_>, _>>()?
    };
    Ok(SimulatedLoad::of_outcomes(
        &outcomes,
        settings.kv_blocks,
        slos,
    ))
}

/// Settings of an engine, and the load as simulated with them.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SettingsCandidate {
    /// Settings of the engine that were tried.
    pub settings: Settings,
    /// Whether every objective is met with these settings.
    pub is_met: bool,
    /// What the simulation shows with them.
    pub summary: SimulatedLoad,
}

/// Simulates every combination that an engine starts with; the best first: those that meet all objectives before the others, then by
/// goodput, then by the 99th percentile of TTFT and the median TPOT.
pub fn search_settings<T: StepTimer + ?Sized>(
    load: &RequestLoad,
    base: &Settings,
    tokens: &[u64],
    sequences: &[u64],
    time: &T,
    replicas: u64,
    slos: &[Slo],
) -> Result<Vec<SettingsCandidate>, SettingsError> {
    let mut candidates = Vec::new();
    for &max_num_batched_tokens in tokens {
        for &max_num_seqs in sequences {
            let settings = Settings {
                max_num_batched_tokens,
                max_num_seqs,
                ..*base
            };
            if settings.check_values().is_err() {
                continue;
            }
            let summary = on_replicas(load, &settings, time, replicas, slos)?;
            candidates.push(SettingsCandidate {
                settings,
                is_met: all_met(slos, &summary),
                summary,
            });
        }
    }
    let goodput = |c: &SettingsCandidate| {
        c.summary
            .figures
            .goodput
            .unwrap_or(c.summary.figures.request_throughput)
    };
    let best = candidates.iter().map(goodput).fold(1e-12, f64::max);
    // A thousandth of the best goodput is no difference: the end of the last request decides it.
    let rounded = |c: &SettingsCandidate| (goodput(c) / best * 1e3).round();
    let p99 = |c: &SettingsCandidate| c.summary.figures.ttft_ms.map_or(f64::INFINITY, |d| d.p99);
    let p50 = |c: &SettingsCandidate| c.summary.figures.tpot_ms.map_or(f64::INFINITY, |d| d.p50);
    candidates.sort_by(|a, b| {
        let by_objectives = b.is_met.cmp(&a.is_met);
        by_objectives
            .then(rounded(b).total_cmp(&rounded(a)))
            .then(p99(a).total_cmp(&p99(b)))
            .then(p50(a).total_cmp(&p50(b)))
    });
    Ok(candidates)
}

/// Fewest replicas that meet the objectives.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Replicas {
    /// The fewest that meet it; absent where not even `tried` do.
    pub fewest: Option<u64>,
    /// Largest number of replicas tried.
    pub tried: u64,
    /// With the fewest, or with the most tried.
    pub summary: SimulatedLoad,
}

/// The fewest replicas that meet all objectives: doubled until they do, then halved in between.
pub fn search_replicas<T: StepTimer + ?Sized>(
    load: &RequestLoad,
    settings: &Settings,
    time: &T,
    most: u64,
    slos: &[Slo],
) -> Result<Replicas, SettingsError> {
    let most = most
        .clamp(1, REPLICAS_MAX)
        .min(load.requests.len().max(1) as u64);
    let run = |count: u64| on_replicas(load, settings, time, count, slos);
    let (mut too_few, mut count) = (0, 1);
    let mut enough = loop {
        let summary = run(count)?;
        if all_met(slos, &summary) {
            break (count, summary);
        }
        if count == most {
            return Ok(Replicas {
                fewest: None,
                tried: most,
                summary,
            });
        }
        too_few = count;
        count = (count * 2).min(most);
    };
    let tried = enough.0;
    while enough.0 - too_few > 1 {
        let middle = too_few.midpoint(enough.0);
        let summary = run(middle)?;
        if all_met(slos, &summary) {
            enough = (middle, summary);
        } else {
            too_few = middle;
        }
    }
    Ok(Replicas {
        fewest: Some(enough.0),
        tried,
        summary: enough.1,
    })
}
