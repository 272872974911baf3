//! Facts of a served load: each request is a value.

use llmprof_record::serving::{LoadRecord, RequestRecord, ServedLoad};
use llmprof_units::Nanos;

use super::collect::thin_gaps;
use super::facts::RunFacts;
use crate::analysis::Analysis;
use crate::serving::{GpuUse, ServingAnalysis};

impl RunFacts {
    /// Collects the facts of a served load from the requests that its latencies are of.
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
            client_was_late: !serving.self_check.kept_up,
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
        let gaps = thin_gaps(gaps.map(|gap| gap as f64).collect());
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

/// The sum over all sampled GPUs; `None` if one of them lacks the value.
fn sum_over_gpus(gpus: &[GpuUse], value: impl Fn(&GpuUse) -> Option<f64>) -> Option<f64> {
    if gpus.is_empty() {
        return None;
    }
    gpus.iter().map(value).sum()
}

#[cfg(test)]
mod tests {
    use llmprof_record::run::RunRecord;
    use llmprof_record::serving::{Arrival, AskedLoad, AskedSource};
    use llmprof_traffic::arrivals::Arrivals;

    use super::*;

    /// Three requests with first tokens after 10, 20 and 30 ms and a second 5 ms later; the last ran under the server's profiler.
    fn record() -> RunRecord {
        let requests = (0..3).map(|index| {
            let mut request = RequestRecord::due(index, Nanos(0), 2);
            let first = (index as i64 + 1) * 10_000_000;
            request.arrivals = [first, first + 5_000_000]
                .map(|at| Arrival {
                    at_ns: Nanos(at),
                    tokens: None,
                })
                .into();
            request.output_tokens = Some(2);
            request.end_ns = Nanos(first + 5_000_000);
            request.was_profiled = index == 2;
            request
        });
        RunRecord {
            name: "tiny".to_owned(),
            load: Some(ServedLoad {
                asked: AskedLoad {
                    endpoint: "http://127.0.0.1:1".to_owned(),
                    arrivals: Arrivals::Closed { concurrency: 3 },
                    source: AskedSource::Dataset { conversations: 3 },
                    requests: 3,
                    shared_prefix_share: 0.0,
                    slos: vec!["ttft:p50<1s".parse().unwrap()],
                },
                load: LoadRecord {
                    requests: requests.collect(),
                    ..LoadRecord::default()
                },
                server: None,
                exporters: Vec::new(),
                steps: Vec::new(),
                sweep: None,
            }),
            ..RunRecord::default()
        }
    }

    #[test]
    fn requests_that_latencies_are_of_are_the_values() {
        let record = record();
        let analysis = crate::analyze(&record, None).unwrap();
        let serving = analysis.serving.as_ref().unwrap();
        assert_eq!((serving.summary.timed, serving.slos[0].is_met), (2, true));
        let facts = RunFacts::from_analysis("a", "runs/a", &record, &analysis);
        assert_eq!(facts.measured_in, "load");
        assert_eq!(facts.passes["ttft"], [10e6, 20e6]);
        assert_eq!(facts.passes["tpot"], [5e6, 5e6]);
        assert_eq!(facts.requests["itl"], [5e6, 5e6]);
        assert_eq!(facts.traits["model"], "tiny");
        assert!(facts.traits["load"].starts_with("3 requests, 3 in flight"));
        assert!(!facts.passes.contains_key("energy_per_token"));
    }
}
