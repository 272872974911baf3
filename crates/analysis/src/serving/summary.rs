//! Latencies, rates and concurrency of a load.

use std::collections::BTreeMap;

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::serving::{LoadRecord, RequestRecord, TokenBasis};
use llmprof_traffic::{
    figures::{Concurrency, LoadFigures, LoadSummary, SteadyState},
    slo::{Slo, all_met},
    statistics::Distribution,
};
use llmprof_units::{Basis, Nanos};

use super::{SelfCheck, stopped::server_stopped_ns};

/// Minimum number of requests due in the window of a steady state.
const STEADY_REQUESTS_MIN: usize = 10;

fn to_ms(nanos: Nanos) -> f64 {
    nanos.0 as f64 / 1e6
}

fn distribution_of<'a>(
    requests: impl Iterator<Item = &'a RequestRecord>,
    value: impl Fn(&RequestRecord) -> Option<f64>,
) -> Option<Distribution> {
    let values: Vec<f64> = requests.filter_map(value).collect();
    Distribution::with_intervals(&values)
}

fn ttft_ms(request: &RequestRecord) -> Option<f64> {
    request.ttft_ns().map(to_ms)
}

fn tpot_ms(request: &RequestRecord) -> Option<f64> {
    request.tpot_ns().map(|ns| ns / 1e6)
}

fn e2e_ms(request: &RequestRecord) -> Option<f64> {
    request.e2e_ns().map(to_ms)
}

/// Summarizes a load; goodput counts requests that meet every one of `slos`.
pub fn summarize_load(load: &LoadRecord, slos: &[Slo]) -> LoadSummary {
    let completed: Vec<&RequestRecord> = load.requests.iter().filter(|r| r.is_complete()).collect();
    let all = || completed.iter().copied();
    let timed = || load.timed();
    let server_stopped = server_stopped_ns(load);
    let start = load.requests.iter().map(|r| r.scheduled_ns).min();
    let end = load.requests.iter().map(|r| r.end_ns).max();
    let duration_s = match (start, end) {
        (Some(start), Some(end)) => (end - start).0 as f64 / 1e9,
        _ => 0.0,
    };
    let per_second = |count: f64| {
        if duration_s > 0.0 {
            count / duration_s
        } else {
            0.0
        }
    };
    let outputs = sum_known(all(), |r| {
        r.output_tokens.filter(|_| r.usage_mistake.is_none())
    });
    let inputs = sum_known(all(), |r| {
        r.prompt_tokens.filter(|_| r.usage_mistake.is_none())
    });
    let good = all()
        .filter(|r| slos.iter().all(|slo| slo.is_met_by(*r)))
        .count();
    let (mut failures, mut token_basis) = (BTreeMap::new(), BTreeMap::new());
    for failure in load.requests.iter().filter_map(|r| r.failure.as_ref()) {
        *failures.entry(failure.kind.name().to_owned()).or_default() += 1;
    }
    for request in all() {
        let name = match request.token_basis {
            _ if request.usage_mistake.is_some() => "usage_refused",
            TokenBasis::ContinuousUsage => "continuous_usage",
            TokenBasis::Usage => "usage",
            TokenBasis::Tokenizer => "tokenizer",
            TokenBasis::Unknown => "unknown",
        };
        *token_basis.entry(name.to_owned()).or_default() += 1;
    }
    // Tokens of one request depend on each other, so they have no intervals.
    let gaps: Vec<f64> = timed()
        .filter_map(RequestRecord::inter_token_ns)
        .flatten()
        .map(|ns| ns / 1e6)
        .collect();
    let arrivals: Vec<f64> = timed()
        .flat_map(RequestRecord::gaps_ns)
        .map(|ns| ns as f64 / 1e6)
        .collect();
    let figures = LoadFigures {
        basis: Basis::Measured,
        ttft_ms: distribution_of(timed(), ttft_ms),
        tpot_ms: distribution_of(timed(), tpot_ms),
        itl_ms: Distribution::of_values(&gaps),
        e2e_ms: distribution_of(timed(), e2e_ms),
        request_throughput: per_second(completed.len() as f64),
        output_throughput: outputs.map(|tokens| per_second(tokens as f64)),
        total_token_throughput: outputs
            .zip(inputs)
            .map(|(output, input)| per_second(output as f64 + input as f64)),
        goodput: (!slos.is_empty()).then(|| per_second(good as f64)),
        completed: completed.len() as u64,
        failed: (load.requests.len() - completed.len()) as u64,
        total_input_tokens: inputs,
        total_output_tokens: outputs,
        duration_s,
    };
    LoadSummary {
        figures,
        arrival_gap_ms: Distribution::of_values(&arrivals),
        schedule_lag_ms: SelfCheck::from_load(load).schedule_lag_ms,
        failures,
        abandoned: load.abandoned,
        timed: timed().count() as u64,
        server_stopped_s: server_stopped.map(Nanos::seconds),
        token_basis,
        concurrency: measure_concurrency(&load.requests),
        // A server that was paused by its profiler was in no steady state.
        steady_state: find_steady_state(&load.requests, server_stopped)
            .filter(|_| !load.requests.iter().any(|r| r.was_profiled)),
    }
}

/// Issues that put the numbers of a load in doubt. `steal_share` is that of [`SelfCheck::issue_if_late`].
pub fn load_issues(
    load: &LoadRecord,
    summary: &LoadSummary,
    steal_share: Option<f64>,
    slos: &[Slo],
) -> Vec<Issue> {
    let mut issues = Vec::new();
    let meets_objectives = !slos.is_empty() && all_met(slos, &summary.figures);
    issues.extend(SelfCheck::from_load(load).issue_if_late(steal_share, meets_objectives));
    if let Some(at) = server_stopped_ns(load) {
        let after = |r: &&RequestRecord| !r.is_complete() && r.end_ns >= at;
        let lost = load.requests.iter().filter(after).count() as u64;
        let issue = Issue::error(IssueCode::BenchServerStopped)
            .with("at_ns", at.0)
            .with("requests", load.requests.len());
        issues.push(issue.counting(lost));
    }
    for (kind, count) in &summary.failures {
        let failures = load.requests.iter().filter_map(|r| r.failure.as_ref());
        let first = failures
            .filter(|failure| failure.kind.name() == kind)
            .map(|failure| failure.message.as_str())
            .next()
            .unwrap_or_default();
        let issue = Issue::error(IssueCode::BenchFailed)
            .with("kind", kind.as_str())
            .with("requests", load.requests.len())
            .with("first", first);
        issues.push(issue.counting(*count));
    }
    let unknown = summary.token_basis.get("unknown").copied().unwrap_or(0);
    if unknown > 0 {
        issues.push(Issue::warning(IssueCode::BenchTokensUnknown).counting(unknown));
    }
    let mistaken = load
        .requests
        .iter()
        .filter_map(|r| r.usage_mistake.as_ref());
    if let Some(first) = mistaken.clone().next() {
        let issue = Issue::warning(IssueCode::BenchUsageWrong).with("first", first.as_str());
        issues.push(issue.counting(mistaken.count() as u64));
    }
    // A server whose usage is not believed says nothing about arrivals either.
    let believed = load.requests.iter().filter(|r| {
        r.is_complete() && r.token_basis == TokenBasis::ContinuousUsage && r.usage_mistake.is_none()
    });
    let (together, tokens) = believed.fold((0, 0), |(together, tokens), r| {
        (
            together + r.tokens_in_company(),
            r.output_tokens.unwrap_or(0).saturating_add(tokens),
        )
    });
    if tokens > 0 && together * 10 > tokens {
        let share = together as f64 / tokens as f64;
        issues.push(Issue::info(IssueCode::BenchTokensTogether).with("share", share));
    }
    issues
}

/// The sum over requests that have the value; `None` if none has. Saturates: servers may report any number.
fn sum_known<'a>(
    requests: impl Iterator<Item = &'a RequestRecord>,
    value: impl Fn(&RequestRecord) -> Option<u64>,
) -> Option<u64> {
    requests.filter_map(value).reduce(u64::saturating_add)
}

/// Times at which the number of requests in flight changes, and by how much. At one time, ends come before starts.
fn changes_in_flight(requests: &[RequestRecord]) -> Vec<(i64, i64)> {
    let mut changes: Vec<(i64, i64)> = requests
        .iter()
        .flat_map(|r| {
            [
                (r.scheduled_ns.0, 1),
                (r.end_ns.0.max(r.scheduled_ns.0), -1),
            ]
        })
        .collect();
    changes.sort_unstable();
    changes
}

fn measure_concurrency(requests: &[RequestRecord]) -> Concurrency {
    let changes = changes_in_flight(requests);
    let (mut running, mut max, mut area) = (0_i64, 0, 0.0);
    let mut before = changes.first().map_or(0, |change| change.0);
    let start = before;
    for (at, change) in changes {
        area += running as f64 * (at - before) as f64;
        running += change;
        max = max.max(running);
        before = at;
    }
    let span = (before - start) as f64;
    Concurrency {
        max: max as u64,
        mean: if span > 0.0 { area / span } else { 0.0 },
    }
}

/// Requests in flight over time, at every change: for plots.
pub fn in_flight(requests: &[RequestRecord]) -> Vec<(Nanos, u64)> {
    let mut running = 0_i64;
    changes_in_flight(requests)
        .into_iter()
        .map(|(at, change)| {
            running += change;
            (Nanos(at), running.max(0) as u64)
        })
        .collect()
}

fn find_steady_state(
    requests: &[RequestRecord],
    server_stopped: Option<Nanos>,
) -> Option<SteadyState> {
    let done = || requests.iter().filter(|r| r.is_complete());
    let start = done().map(|r| r.end_ns).min()?;
    let last_due = requests.iter().map(|r| r.scheduled_ns).max()?;
    let end = server_stopped.map_or(last_due, |stopped| stopped.min(last_due));
    let due: Vec<&RequestRecord> = done()
        .filter(|r| r.scheduled_ns >= start && r.scheduled_ns <= end)
        .collect();
    if due.len() < STEADY_REQUESTS_MIN || end <= start {
        return None;
    }
    let span = (end - start).seconds();
    let served: f64 = done().map(|r| share_inside(r, start, end)).sum();
    let knows =
        done().all(|r| r.token_basis == TokenBasis::ContinuousUsage && r.usage_mistake.is_none());
    let tokens: u64 = done()
        .flat_map(|r| {
            let before = std::iter::once(0).chain(r.arrivals.iter().filter_map(|a| a.tokens));
            r.arrivals.iter().zip(before)
        })
        // The token that ends the first request was generated before the window.
        .filter(|(arrival, _)| arrival.at_ns > start && arrival.at_ns <= end)
        .map(|(arrival, before)| u64::from(arrival.tokens.unwrap_or(before).saturating_sub(before)))
        .sum();
    let all = || due.iter().copied();
    Some(SteadyState {
        start_s: start.seconds(),
        end_s: end.seconds(),
        requests: due.len() as u64,
        request_throughput: served / span,
        output_throughput: knows.then_some(tokens as f64 / span),
        ttft_ms: distribution_of(all(), ttft_ms),
        tpot_ms: distribution_of(all(), tpot_ms),
        e2e_ms: distribution_of(all(), e2e_ms),
    })
}

/// The part of a request's time from due to end that lies in a window.
fn share_inside(request: &RequestRecord, start: Nanos, end: Nanos) -> f64 {
    let (from, to) = (request.scheduled_ns, request.end_ns);
    if to <= from {
        return f64::from(u8::from(to > start && to <= end));
    }
    let inside = (to.min(end) - from.max(start)).max(Nanos(0));
    inside.0 as f64 / (to - from).0 as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use llmprof_record::serving::{Arrival, FailureKind, RequestFailure};

    /// Request `index` is due at `index` × 100 ms, has its first token 50 ms later and 4 more every 10 ms.
    fn load(count: u64) -> LoadRecord {
        let requests = (0..count).map(|index| {
            let due = Nanos(index as i64 * 100_000_000);
            let mut record = RequestRecord::due(index, due, 5);
            record.arrivals = (0..5)
                .map(|token| Arrival {
                    at_ns: due + Nanos(50_000_000 + token * 10_000_000),
                    tokens: Some(token as u32 + 1),
                })
                .collect();
            record.end_ns = due + Nanos(90_000_000);
            record.prompt_tokens = Some(7);
            record.output_tokens = Some(5);
            record.token_basis = TokenBasis::ContinuousUsage;
            record
        });
        LoadRecord {
            requests: requests.collect(),
            ..LoadRecord::default()
        }
    }

    #[test]
    fn numbers_by_hand() {
        let summary = summarize_load(&load(20), &[]);
        assert_eq!(summary.figures.ttft_ms.unwrap().p99, 50.0);
        assert_eq!(summary.figures.tpot_ms.unwrap().mean, 10.0);
        assert_eq!(summary.figures.itl_ms.unwrap().count, 80);
        assert_eq!(summary.figures.e2e_ms.unwrap().p50, 90.0);
        // 19 × 100 ms + 90 ms.
        assert!((summary.figures.duration_s - 1.99).abs() < 1e-9);
        assert!((summary.figures.request_throughput - 20.0 / 1.99).abs() < 1e-9);
        assert_eq!(summary.figures.total_output_tokens, Some(100));
        assert_eq!(summary.figures.total_input_tokens, Some(140));
        assert_eq!(summary.concurrency.max, 1);
        assert!((summary.concurrency.mean - 20.0 * 0.09 / 1.99).abs() < 1e-9);
        // From 90 ms to 1900 ms: requests 1 to 19 are due in it, 1 to 18 run in it.
        let steady = summary.steady_state.unwrap();
        assert_eq!(steady.requests, 19);
        assert!((steady.request_throughput - 18.0 / 1.81).abs() < 1e-9);
        // Tokens: all of 1 to 18, none of 0 and 19.
        assert!((steady.output_throughput.unwrap() - 90.0 / 1.81).abs() < 1e-9);
    }

    /// `waves` waves of 8 requests in a closed loop, each of 100 ms, with 5 tokens a request. Requests of a wave end 1 µs apart.
    fn waves(waves: u64) -> LoadRecord {
        let mut load = load(8 * waves);
        for request in &mut load.requests {
            let (wave, place) = (request.index / 8, request.index % 8);
            let edge = |wave: u64| {
                let is_start = wave == 0;
                Nanos(wave as i64 * 100_000_000 + i64::from(!is_start) * place as i64 * 1000)
            };
            let shift = edge(wave) - request.scheduled_ns;
            request.scheduled_ns = edge(wave);
            request.end_ns = edge(wave + 1);
            for arrival in &mut request.arrivals {
                arrival.at_ns += shift;
            }
            request.arrivals[4].at_ns = request.end_ns;
        }
        load
    }

    /// A wave too many was counted: 8 of 80 requests/s.
    #[test]
    fn a_closed_loop_in_waves_has_its_true_rate_and_tokens_agree() {
        for count in [4, 8, 30] {
            let steady = summarize_load(&waves(count), &[]).steady_state.unwrap();
            let rate = steady.request_throughput;
            assert!((rate / 80.0 - 1.0).abs() < 1e-3, "{count} waves: {rate}");
            // The last tokens of 7 requests of the first wave come after the window began.
            let tokens = steady.output_throughput.unwrap();
            let excess = 7.0 / (steady.end_s - steady.start_s);
            assert!(
                ((tokens - excess) / (5.0 * rate) - 1.0).abs() < 1e-3,
                "{count} waves: {tokens} tokens/s, {rate} requests/s"
            );
        }
    }

    #[test]
    fn steady_state_ends_where_the_server_stopped_answering() {
        let mut load = load(60);
        for request in load.requests.iter_mut().skip(30) {
            request.arrivals.clear();
            request.end_ns = request.scheduled_ns + Nanos(1_000_000);
            request.failure = Some(RequestFailure::new(FailureKind::Connect, "refused"));
        }
        let summary = summarize_load(&load, &[]);
        assert_eq!(summary.server_stopped_s, Some(2.99));
        assert_eq!(summary.steady_state.as_ref().unwrap().end_s, 2.99);
        let issue = &load_issues(&load, &summary, None, &[])[0];
        assert_eq!(issue.code, IssueCode::BenchServerStopped);
        assert_eq!(
            (issue.count, issue.values["at_ns"].clone()),
            (30, 2_990_000_000_i64.into())
        );
    }

    #[test]
    fn failures_are_counted_by_name_and_are_in_no_latency() {
        let mut load = load(4);
        load.requests[2].failure = Some(RequestFailure::new(FailureKind::TooManyRequests, "no"));
        load.requests[2].arrivals[0].at_ns = Nanos(i64::MAX / 2);
        let summary = summarize_load(&load, &[]);
        assert_eq!((summary.figures.completed, summary.figures.failed), (3, 1));
        assert_eq!(summary.failures["too_many_requests"], 1);
        assert_eq!(summary.figures.ttft_ms.unwrap().max, 50.0);
        let issues = load_issues(&load, &summary, None, &[]);
        assert_eq!(issues[0].code, IssueCode::BenchFailed);
    }

    #[test]
    fn requests_under_the_servers_profiler_are_in_no_latency() {
        let mut load = load(20);
        // The one that is due at 500 ms ends at 590 ms.
        assert_eq!(load.mark_profiled(Nanos(595_000_000)), 14);
        for request in load.requests.iter_mut().filter(|r| r.was_profiled) {
            request.arrivals[0].at_ns += Nanos(1_000_000_000);
        }
        let summary = summarize_load(&load, &[]);
        assert_eq!(summary.figures.ttft_ms.unwrap().count, 6);
        assert_eq!(summary.figures.ttft_ms.unwrap().max, 50.0);
        assert_eq!(summary.figures.completed, 20);
        assert_eq!(summary.steady_state, None);
        // Where all were profiled, theirs is all there is.
        load.mark_profiled(Nanos(0));
        assert_eq!(
            summarize_load(&load, &[]).figures.ttft_ms.unwrap().count,
            20
        );
    }

    #[test]
    fn a_wrong_usage_counts_no_tokens() {
        let mut load = load(3);
        load.requests[0].usage_mistake = Some("usage fell".to_owned());
        load.requests[1].output_tokens = None;
        load.requests[1].token_basis = TokenBasis::Unknown;
        let summary = summarize_load(&load, &[]);
        assert_eq!(summary.figures.total_output_tokens, Some(5));
        assert_eq!(summary.figures.tpot_ms.unwrap().count, 1);
        let codes: Vec<IssueCode> = load_issues(&load, &summary, None, &[])
            .into_iter()
            .map(|i| i.code)
            .collect();
        assert_eq!(
            codes,
            [IssueCode::BenchTokensUnknown, IssueCode::BenchUsageWrong]
        );
    }
}
