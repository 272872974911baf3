//! `plan --from RUN…`: benches of one server, by which predicted step times are shifted.

use std::path::Path;

use llmprof_load::results::{self, ForeignResult};
use llmprof_record::{run::RunRecord, serving::ServedLoad};
use llmprof_simulate::{
    PrefixContent, RequestLoad, SimulatedRequest,
    shift::{Bench, Medians},
};
use llmprof_traffic::{
    arrivals::Arrivals,
    slo::{Metric, RequestLatencies},
};
use llmprof_units::{Nanos, stats::median};

use crate::failure::Failure;

/// A bench is simulated some dozen times.
const REQUESTS_MAX: usize = 10_000;
/// A load of which more failed is not repeated: failures take none of the server's time, or all of it.
const FAILED_SHARE_MAX: f64 = 0.05;

/// The benches of a run directory of `llmprof bench`, or of a file of another load generator.
pub(super) fn read(path: &Path) -> Result<Vec<Bench>, Failure> {
    let name = path.display().to_string();
    let failed = |why: String| Failure::new(format!("{name}: {why}"));
    let benches = if path.is_dir() {
        let record = RunRecord::load(path)?;
        let served = record.and_then(|record| record.load).ok_or_else(|| {
            failed("no served load in it".to_owned()).hint(
                "`llmprof bench` writes one, `vllm bench serve --save-result` a file".to_owned(),
            )
        })?;
        vec![own_bench(name.clone(), &served).map_err(&failed)?]
    } else {
        let results = results::load(path).map_err(|error| failed(error.to_string()))?;
        let benches = results
            .iter()
            .map(|result| foreign_bench(name.clone(), result));
        benches.collect::<Result<_, _>>().map_err(&failed)?
    };
    for bench in &benches {
        let requests = bench.load.requests.len();
        if requests == 0 || requests > REQUESTS_MAX {
            return Err(failed(format!(
                "{requests} requests; between 1 and {REQUESTS_MAX} can be repeated"
            )));
        }
    }
    Ok(benches)
}

fn few_failed(failed: u64, all: u64) -> Result<(), String> {
    if failed as f64 > FAILED_SHARE_MAX * all as f64 {
        return Err(format!("{failed} of {all} requests failed"));
    }
    Ok(())
}

fn own_bench(name: String, served: &ServedLoad) -> Result<Bench, String> {
    let all = &served.load.requests;
    let failed = all.iter().filter(|request| !request.is_complete()).count();
    few_failed(failed as u64, all.len() as u64)?;
    if all
        .iter()
        .any(|one| one.session.is_some_and(|(_, turn)| turn > 0))
    {
        return Err("conversations of several turns are not simulated".to_owned());
    }
    let mut requests = Vec::new();
    for request in all.iter().filter(|request| request.is_complete()) {
        let tokens = request.prompt_tokens.zip(request.output_tokens);
        let (prompt, output) = tokens.ok_or("the tokens of its requests are not known")?;
        requests.push((request.scheduled_ns, prompt, output));
    }
    let prompts: u64 = requests.iter().map(|(_, prompt, _)| prompt).sum();
    let mean = prompts as f64 / requests.len().max(1) as f64;
    let shared = (served.asked.shared_prefix_share * mean) as u64;
    let concurrency = match served.asked.arrivals {
        Arrivals::Closed { concurrency } => Some(concurrency),
        _ => None,
    };
    let middle = |metric: Metric| {
        let timed = served.load.timed();
        median(
            &mut timed
                .filter_map(|request| request.latency_ms(metric))
                .collect::<Vec<_>>(),
        )
    };
    Ok(Bench {
        name,
        load: load_of(requests, concurrency, shared),
        measured: Medians {
            ttft_ms: middle(Metric::Ttft).ok_or("no request has a first token")?,
            tpot_ms: middle(Metric::Tpot),
        },
    })
}

fn foreign_bench(name: String, result: &ForeignResult) -> Result<Bench, String> {
    let completed = result
        .completed
        .ok_or("how many requests completed is not stated")?;
    let failed = result.failed.unwrap_or(0);
    few_failed(failed, completed + failed)?;
    let served = result
        .requests
        .iter()
        .filter(|request| request.error.is_none());
    let detailed: Option<Vec<_>> = served
        .map(|request| {
            Some((
                request.start_s,
                request.input_tokens?,
                request.output_tokens?,
            ))
        })
        .collect();
    // Without details all requests are as long as the mean.
    let mean = |total: Option<u64>| total.map(|total| total / completed.max(1));
    let (prompt, output) = mean(result.total_input_tokens)
        .zip(mean(result.total_output_tokens))
        .ok_or("the tokens of its requests are not stated")?;
    let detailed = detailed.filter(|requests| !requests.is_empty());
    let requests = detailed.unwrap_or_else(|| {
        let count =
            usize::try_from(completed).map_or(REQUESTS_MAX, |all| all.min(REQUESTS_MAX + 1));
        vec![(None, prompt, output); count]
    });
    let starts: Option<Vec<f64>> = requests.iter().map(|(start_s, ..)| *start_s).collect();
    let mut concurrency = None;
    let times: Option<Vec<Nanos>> = match (result.request_rate, result.max_concurrency, starts) {
        (None, Some(limit), _) => {
            concurrency = usize::try_from(limit).ok();
            None
        }
        (_, _, Some(starts)) => {
            let first_s = starts.iter().copied().fold(f64::INFINITY, f64::min);
            let times = starts.into_iter();
            Some(
                times
                    .map(|start_s| Nanos::from_seconds(start_s - first_s))
                    .collect(),
            )
        }
        (None, None, None) if is_sent_at_once(result) => None,
        (Some(rate), None, None) => {
            let arrivals = Arrivals::Gamma {
                rate,
                burstiness: result.burstiness.unwrap_or(1.0),
            };
            if let Some(mistake) = arrivals.find_mistake() {
                return Err(mistake);
            }
            arrivals.due_times(requests.len(), 0)
        }
        _ => {
            return Err("when requests were sent is not in it; `vllm bench serve --save-detailed` writes it".to_owned());
        }
    };
    let requests = requests.iter().enumerate();
    let requests = requests.map(|(index, &(_, prompt, output))| {
        let at = times.as_ref().map_or(Nanos(0), |times| times[index]);
        (at, prompt, output)
    });
    let middle =
        |statistics: &results::Statistics| statistics.get("p50").copied().filter(|ms| *ms > 0.0);
    Ok(Bench {
        name,
        load: load_of(requests.collect(), concurrency, 0),
        measured: Medians {
            ttft_ms: middle(&result.ttft_ms).ok_or("no median TTFT in it")?,
            tpot_ms: middle(&result.tpot_ms),
        },
    })
}

/// `vllm bench serve` and SGLang's benchmark send everything at once unless told otherwise.
fn is_sent_at_once(result: &ForeignResult) -> bool {
    result.tool != "aiperf"
}

/// Requests with their times, prompt and output tokens.
fn load_of(
    mut requests: Vec<(Nanos, u64, u64)>,
    concurrency: Option<usize>,
    shared: u64,
) -> RequestLoad {
    requests.sort_by_key(|(at, ..)| *at);
    let content = match shared {
        0 => PrefixContent::Unique,
        tokens => PrefixContent::Shared(tokens),
    };
    let requests = requests
        .into_iter()
        .map(|(at, prompt, output)| SimulatedRequest {
            at,
            prompt: prompt.max(1),
            output: output.max(1),
            content: content.clone(),
        });
    RequestLoad {
        requests: requests.collect(),
        concurrency,
        ..RequestLoad::default()
    }
}

#[cfg(test)]
mod tests {
    use llmprof_record::serving::{Arrival, AskedLoad, AskedSource, LoadRecord, RequestRecord};
    use llmprof_traffic::lengths::Lengths;

    use super::*;

    /// Two requests of 3 tokens: first tokens after 20 and 40 ms, then one each 5 ms.
    fn served(arrivals: Arrivals) -> ServedLoad {
        let ms = |time: i64| Nanos(time * 1_000_000);
        let requests = [(0, 20), (100, 40)].into_iter().enumerate();
        let requests = requests.map(|(index, (at, ttft))| RequestRecord {
            arrivals: [0, 5, 10]
                .map(|gap| Arrival {
                    at_ns: ms(at + ttft + gap),
                    tokens: None,
                })
                .to_vec(),
            end_ns: ms(at + ttft + 10),
            prompt_tokens: Some(100),
            output_tokens: Some(3),
            ..RequestRecord::due(index as u64, ms(at), 3)
        });
        ServedLoad {
            asked: AskedLoad {
                endpoint: String::new(),
                arrivals,
                source: AskedSource::Synthetic {
                    prompt: Lengths::Fixed { tokens: 100 },
                    output: Lengths::Fixed { tokens: 3 },
                    turns: 1,
                },
                requests: 2,
                shared_prefix_share: 0.25,
                slos: Vec::new(),
            },
            load: LoadRecord {
                requests: requests.collect(),
                ..LoadRecord::default()
            },
            server: None,
            exporters: Vec::new(),
            steps: Vec::new(),
            sweep: None,
        }
    }

    #[test]
    fn own_benches_are_repeated_as_they_were_sent() {
        let bench = own_bench("run".to_owned(), &served(Arrivals::Poisson { rate: 10.0 })).unwrap();
        let sent: Vec<_> = bench.load.requests.iter().map(|one| one.at.0).collect();
        assert_eq!(sent, [0, 100_000_000]);
        assert_eq!(bench.load.requests[0].content, PrefixContent::Shared(25));
        assert_eq!(
            (bench.measured.ttft_ms, bench.measured.tpot_ms),
            (30.0, Some(5.0))
        );
        assert_eq!(bench.load.concurrency, None);
        let closed = served(Arrivals::Closed { concurrency: 2 });
        let closed = own_bench("run".to_owned(), &closed).unwrap();
        assert_eq!(closed.load.concurrency, Some(2));
    }

    #[test]
    fn own_benches_of_unknown_requests_are_refused() {
        let mut load = served(Arrivals::Poisson { rate: 10.0 });
        load.load.requests[0].session = Some((0, 1));
        assert!(own_bench("run".to_owned(), &load).is_err());
        load.load.requests[0].session = None;
        load.load.requests[0].prompt_tokens = None;
        assert!(own_bench("run".to_owned(), &load).is_err());
    }

    /// A file that `vllm bench serve --save-result --save-detailed` wrote: 80 requests of 64 and 16 tokens at 4 a second.
    #[test]
    fn a_result_of_vllm_is_repeated_at_its_times() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../fixtures/vllm/bench_serve.json"
        );
        let benches = read(Path::new(path)).unwrap();
        let [bench] = &benches[..] else {
            panic!("{} benches", benches.len());
        };
        let requests = &bench.load.requests;
        assert_eq!((requests.len(), bench.load.concurrency), (80, None));
        assert!(
            requests
                .iter()
                .all(|one| (one.prompt, one.output) == (64, 16))
        );
        assert_eq!(requests[0].at, Nanos(0));
        let last_s = requests[79].at.seconds();
        assert!((15.0..25.0).contains(&last_s), "{last_s}");
        assert!(bench.measured.tpot_ms.is_some());
    }
}
