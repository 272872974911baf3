//! The mean request in parts, each with its source.

use std::collections::BTreeSet;

use llmprof_record::serving::{LoadRecord, ServerWindow, WindowHistogram};
use llmprof_traffic::statistics::Distribution;
use llmprof_units::Nanos;

use super::super::mean_parts::{LatencyPart, MeanPart, MeanParts, NotSplit, PartSource};
use super::{RequestParts, SplitBy};

/// The mean of the requests that latencies are of. Where they could not be split, the server's window splits the mean: its
/// queueing and prefill are means over the requests that ended in the window; the rest of its TTFT is waiting for the running engine
/// step, and what its TTFT leaves is network and API server.
pub fn mean_parts(
    each: &[RequestParts],
    load: &LoadRecord,
    window: Option<&ServerWindow>,
) -> Option<MeanParts> {
    let timed: BTreeSet<u64> = load.timed().map(|request| request.index).collect();
    let is_timed = |parts: &&RequestParts| timed.contains(&parts.index);
    let parts: Vec<RequestParts> = each.iter().filter(is_timed).copied().collect();
    mean_of(&parts, window)
}

/// The mean of requests that ran under the server's profiler and that its steps split. Absent where [`mean_parts`] has them already.
pub fn mean_profiled_parts(each: &[RequestParts], load: &LoadRecord) -> Option<MeanParts> {
    let timed: BTreeSet<u64> = load.timed().map(|request| request.index).collect();
    let is_split = |parts: &&RequestParts| parts.split_by == SplitBy::Steps;
    let split = each.iter().filter(is_split);
    let parts: Vec<RequestParts> = split
        .filter(|parts| !timed.contains(&parts.index))
        .copied()
        .collect();
    mean_of(&parts, None)
}

fn mean_of(parts: &[RequestParts], window: Option<&ServerWindow>) -> Option<MeanParts> {
    if parts.is_empty() {
        return None;
    }
    let mut means = Means {
        requests: parts,
        parts: Vec::new(),
    };
    means.add_part(LatencyPart::Client, PartSource::ClientTimestamps, |p| {
        p.client_ns
    });
    means.add_part(LatencyPart::Connection, PartSource::ClientTimestamps, |p| {
        p.connect_ns
    });
    let source = match (
        means.count_split(SplitBy::Timings),
        means.count_split(SplitBy::Steps),
    ) {
        (0, _) => PartSource::TraceSteps,
        (_, 0) => PartSource::ServerTimings,
        _ => PartSource::ServerTimingsAndTraceSteps,
    };
    means.add_part(LatencyPart::RunningStep, source, |p| p.running_step_ns);
    means.add_part(LatencyPart::Queueing, source, |p| p.queue_ns);
    means.add_part(LatencyPart::Prefill, source, |p| p.prefill_ns);
    means.add_part(LatencyPart::Network, source, |p| p.network_ns);
    let not_split = means.add_unsplit(window);
    means.add_part(LatencyPart::Decode, PartSource::ClientTimestamps, |p| {
        p.decode_ns
    });
    means.add_part(
        LatencyPart::OthersPrefill,
        PartSource::OthersFirstTokens,
        |p| p.others_prefill_ns,
    );
    let preempted = window.and_then(|w| w.preemptions).unwrap_or(0.0) > 0.0;
    let source = if preempted {
        PartSource::LongGapsAndPreemptions
    } else {
        PartSource::LongGaps
    };
    means.add_part(LatencyPart::Stalls, source, |p| p.stall_ns);
    Some(MeanParts {
        requests: parts.len() as u64,
        e2e_ms: means.mean_ms(RequestParts::sum_ns),
        parts: means.parts,
        not_split: not_split.into_iter().collect(),
    })
}

struct Means<'a> {
    requests: &'a [RequestParts],
    parts: Vec<MeanPart>,
}

impl Means<'_> {
    fn mean_ms(&self, value: fn(&RequestParts) -> Nanos) -> f64 {
        let sum: f64 = self.requests.iter().map(|p| value(p).millis()).sum();
        sum / self.requests.len() as f64
    }

    fn p99_ms(&self, value: fn(&RequestParts) -> Nanos) -> Option<f64> {
        let values: Vec<f64> = self.requests.iter().map(|p| value(p).millis()).collect();
        Distribution::of_values(&values).map(|d| d.p99)
    }

    fn count_split(&self, kind: SplitBy) -> usize {
        self.requests.iter().filter(|p| p.split_by == kind).count()
    }

    fn add_part(
        &mut self,
        part: LatencyPart,
        source: PartSource,
        value: fn(&RequestParts) -> Nanos,
    ) {
        self.push(part, self.mean_ms(value), self.p99_ms(value), source);
    }

    fn push(&mut self, part: LatencyPart, mean_ms: f64, p99_ms: Option<f64>, source: PartSource) {
        if mean_ms != 0.0 {
            self.parts.push(MeanPart {
                part,
                mean_ms,
                p99_ms,
                source,
            });
        }
    }

    /// Splits the time that single requests leave in one part by the server's means, if they are means of these requests. Returns why
    /// some of it stays in one part.
    fn add_unsplit(&mut self, window: Option<&ServerWindow>) -> Option<NotSplit> {
        let unsplit = self.mean_ms(|p| p.unsplit_ns);
        if unsplit <= 0.0 {
            return None;
        }
        let known = window.and_then(|window| ServerMeans::from_window(window, self.requests.len()));
        let none_is_split = self.count_split(SplitBy::Nothing) == self.requests.len();
        Some(match known {
            Some(known) if none_is_split && known.queue_ms + known.prefill_ms <= unsplit => {
                let histograms = PartSource::ServerHistograms;
                let rest = unsplit - known.queue_ms - known.prefill_ms;
                let running_step = known.running_step_ms().clamp(0.0, rest);
                self.push(
                    LatencyPart::RunningStep,
                    running_step,
                    None,
                    PartSource::ServerTtftRemainder,
                );
                self.push(LatencyPart::Queueing, known.queue_ms, None, histograms);
                self.push(LatencyPart::Prefill, known.prefill_ms, None, histograms);
                self.push(
                    LatencyPart::Network,
                    rest - running_step,
                    None,
                    PartSource::Remainder,
                );
                NotSplit::HistogramsOnly
            }
            other => {
                self.add_part(
                    LatencyPart::UntilFirstToken,
                    PartSource::ClientTimestamps,
                    |p| p.unsplit_ns,
                );
                match other {
                    Some(known) => NotSplit::OtherRequests {
                        queue_ms: known.queue_ms,
                        prefill_ms: known.prefill_ms,
                        until_first_token_ms: unsplit,
                    },
                    None => NotSplit::NothingKnown,
                }
            }
        })
    }
}

/// Means of the server's histograms over requests of the load.
#[expect(clippy::struct_field_names, reason = "each has its unit in its name")]
struct ServerMeans {
    ttft_ms: Option<f64>,
    queue_ms: f64,
    prefill_ms: f64,
}

impl ServerMeans {
    /// `None` if the window holds other requests: their means would split these wrongly.
    fn from_window(window: &ServerWindow, requests: usize) -> Option<Self> {
        let queue = window.queue_ms.as_ref()?;
        let prefill = window.prefill_ms.as_ref()?;
        let is_same = |h: &&WindowHistogram| (h.count - requests as f64).abs() <= 0.02 * h.count;
        Some(Self {
            ttft_ms: window.ttft_ms.as_ref().filter(is_same).and_then(|h| h.mean),
            queue_ms: Some(queue).filter(is_same)?.mean?,
            prefill_ms: prefill.mean?,
        })
    }

    /// A request that arrives during a step is queued when the step ends (vLLM's engine core reads its input between steps): the
    /// server's TTFT has that wait, its queueing has not.
    fn running_step_ms(&self) -> f64 {
        self.ttft_ms
            .map_or(0.0, |ttft| ttft - self.queue_ms - self.prefill_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use llmprof_record::serving::{Arrival, RequestRecord};

    /// Requests with a first token after 100 ms and a second 10 ms later; those from `profiled` on ran under the profiler and took
    /// ten times as long.
    fn load(count: u64, profiled: u64) -> LoadRecord {
        let requests = (0..count).map(|index| {
            let mut record = RequestRecord::due(index, Nanos(0), 2);
            record.was_profiled = index >= profiled;
            let scale = if record.was_profiled { 10 } else { 1 };
            record.sent_ns = Some(Nanos(0));
            record.arrivals = [100, 110]
                .map(|ms| Arrival {
                    at_ns: Nanos(ms * scale * 1_000_000),
                    tokens: None,
                })
                .into();
            record.end_ns = record.arrivals[1].at_ns;
            record
        });
        LoadRecord {
            requests: requests.collect(),
            ..LoadRecord::default()
        }
    }

    fn histogram(count: f64, mean: f64) -> WindowHistogram {
        WindowHistogram {
            count,
            mean: Some(mean),
            ..WindowHistogram::default()
        }
    }

    /// The table of latencies had 25 requests, that of parts 40.
    #[test]
    fn parts_are_of_the_requests_that_latencies_are_of() {
        let load = load(40, 25);
        let each = super::super::split_requests(&load.requests, Nanos(0), &[]);
        assert_eq!(each.len(), 40);
        let mean = mean_parts(&each, &load, None).unwrap();
        let summary = crate::serving::summarize_load(&load, &[]);
        assert_eq!((mean.requests, summary.timed), (25, 25));
        assert!((mean.e2e_ms - summary.figures.e2e_ms.unwrap().mean).abs() < 1e-9);
        assert_eq!(mean.e2e_ms, 110.0);
        assert_eq!(
            mean_profiled_parts(&each, &load),
            None,
            "no step splits them"
        );
    }

    #[test]
    fn what_the_servers_ttft_has_beside_queueing_and_prefill_is_the_running_step() {
        let load = load(40, 40);
        let each = super::super::split_requests(&load.requests, Nanos(0), &[]);
        let window = |ttft_ms| ServerWindow {
            ttft_ms,
            queue_ms: Some(histogram(40.0, 1.0)),
            prefill_ms: Some(histogram(40.0, 20.0)),
            ..ServerWindow::default()
        };
        let parts = |window: &ServerWindow| {
            let mean = mean_parts(&each, &load, Some(window)).unwrap();
            let parts = [
                LatencyPart::RunningStep,
                LatencyPart::Queueing,
                LatencyPart::Prefill,
                LatencyPart::Network,
            ];
            parts.map(|part| mean.ms(part))
        };
        assert_eq!(
            parts(&window(Some(histogram(40.0, 96.0)))),
            [75.0, 1.0, 20.0, 4.0]
        );
        // A server that claims more than the client saw, one without TTFT, one with TTFT of other requests.
        assert_eq!(
            parts(&window(Some(histogram(40.0, 500.0)))),
            [79.0, 1.0, 20.0, 0.0]
        );
        assert_eq!(parts(&window(None)), [0.0, 1.0, 20.0, 79.0]);
        assert_eq!(
            parts(&window(Some(histogram(99.0, 96.0)))),
            [0.0, 1.0, 20.0, 79.0]
        );
    }
}
