//! Facts of a served load: each request is a value.

use llmprof_record::serving::{LoadRecord, RequestRecord, ServedLoad};
use llmprof_units::Nanos;

use super::collect::thinned;
use super::facts::RunFacts;
use crate::analysis::Analysis;
use crate::serving::{GpuUse, ServingAnalysis};

impl RunFacts {
    /// Of the requests that latencies are of.
    pub(super) fn of_load(
        label: &str,
        path: &str,
        served: &ServedLoad,
        analysis: &Analysis,
        serving: &ServingAnalysis,
    ) -> Self {
        let mut facts = Self {
            label: label.to_owned(),
            path: path.to_owned(),
            measured_in: "load".to_owned(),
            ..Self::default()
        };
        let gpu_names: Vec<&str> = serving.gpus.iter().map(|gpu| gpu.name.as_str()).collect();
        let server = serving.server.as_ref();
        let traits = [
            ("model", Some(analysis.model.clone())),
            ("load", Some(served.asked.to_string())),
            ("server", server.map(|server| server.family.clone())),
            ("gpu", (!gpu_names.is_empty()).then(|| gpu_names.join(", "))),
        ];
        for (key, value) in traits {
            facts
                .traits
                .extend(value.map(|value| (key.to_owned(), value)));
        }
        let load = &served.load;
        let nanos = |time: Option<Nanos>| time.map(|time| time.0 as f64);
        for (key, values) in [
            ("ttft", values_of(load, |request| nanos(request.ttft_ns()))),
            ("tpot", values_of(load, RequestRecord::tpot_ns)),
            ("e2e", values_of(load, |request| nanos(request.e2e_ns()))),
            ("itl", values_of(load, mean_gap)),
        ] {
            if !values.is_empty() {
                facts.passes.insert(key.to_owned(), values);
            }
        }
        facts.requests.clone_from(&facts.passes);
        let gaps = load.timed().flat_map(RequestRecord::gaps_ns);
        let gaps = thinned(gaps.map(|gap| gap as f64).collect());
        if !gaps.is_empty() {
            facts.requests.insert("itl".to_owned(), gaps);
        }
        let figures = &serving.summary.figures;
        let tokens = figures.total_output_tokens.filter(|tokens| *tokens > 0);
        let joules = sum_over_gpus(&serving.gpus, |gpu| Some(gpu.energy_j?.0));
        let memory = |gpu: &GpuUse| Some(gpu.memory_used_max_bytes?.0 as f64);
        let of_load = [
            ("tokens_per_s", figures.output_throughput),
            (
                "energy_per_token",
                joules
                    .zip(tokens)
                    .map(|(joules, tokens)| joules / tokens as f64),
            ),
            ("peak_memory", sum_over_gpus(&serving.gpus, memory)),
        ];
        for (key, value) in of_load {
            if let Some(value) = value {
                facts.passes.insert(key.to_owned(), vec![value]);
            }
        }
        facts
    }
}

fn values_of(load: &LoadRecord, value: impl Fn(&RequestRecord) -> Option<f64>) -> Vec<f64> {
    load.timed().filter_map(value).collect()
}

fn mean_gap(request: &RequestRecord) -> Option<f64> {
    let gaps = request
        .arrivals
        .len()
        .checked_sub(1)
        .filter(|gaps| *gaps > 0)?;
    Some(request.gaps_ns().sum::<i64>() as f64 / gaps as f64)
}

/// Where all sampled GPUs have it.
fn sum_over_gpus(gpus: &[GpuUse], value: impl Fn(&GpuUse) -> Option<f64>) -> Option<f64> {
    if gpus.is_empty() {
        return None;
    }
    gpus.iter().map(value).sum()
}
