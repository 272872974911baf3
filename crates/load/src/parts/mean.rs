//! The mean request in parts, each with who says so.

use llmprof_traffic::served::{LatencyPart, MeanPart, MeanParts, NotSplit, PartSource};
use llmprof_units::Nanos;

use super::{Parts, SplitBy};
use crate::{server::families::ServerWindow, statistics::Distribution, summary::Summary};

/// The mean request. Where requests could not be split, the server's window splits the mean: its queueing and prefill are means over the
/// requests that ended in the window, and what they leave is network and API server.
pub fn mean(
    parts: &[Parts],
    window: Option<&ServerWindow>,
    summary: &Summary,
) -> Option<MeanParts> {
    if parts.is_empty() {
        return None;
    }
    let mut found = Means {
        requests: parts,
        parts: Vec::new(),
    };
    found.add(LatencyPart::Client, PartSource::ClientTimestamps, |p| {
        p.client_ns
    });
    found.add(LatencyPart::Connection, PartSource::ClientTimestamps, |p| {
        p.connect_ns
    });
    let source = match (found.split(SplitBy::Timings), found.split(SplitBy::Steps)) {
        (0, _) => PartSource::TraceSteps,
        (_, 0) => PartSource::ServerTimings,
        _ => PartSource::ServerTimingsAndTraceSteps,
    };
    found.add(LatencyPart::Queueing, source, |p| p.queue_ns);
    found.add(LatencyPart::Prefill, source, |p| p.prefill_ns);
    found.add(LatencyPart::Network, source, |p| p.network_ns);
    let not_split = found.add_unsplit(window, summary);
    found.add(LatencyPart::Decode, PartSource::ClientTimestamps, |p| {
        p.decode_ns
    });
    found.add(
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
    found.add(LatencyPart::Stalls, source, |p| p.stall_ns);
    Some(MeanParts {
        requests: parts.len() as u64,
        e2e_ms: found.mean_ms(Parts::sum_ns),
        parts: found.parts,
        not_split: not_split.into_iter().collect(),
    })
}

struct Means<'a> {
    requests: &'a [Parts],
    parts: Vec<MeanPart>,
}

impl Means<'_> {
    fn mean_ms(&self, value: fn(&Parts) -> Nanos) -> f64 {
        let sum: f64 = self.requests.iter().map(|p| value(p).millis()).sum();
        sum / self.requests.len() as f64
    }

    fn p99_ms(&self, value: fn(&Parts) -> Nanos) -> Option<f64> {
        let values: Vec<f64> = self.requests.iter().map(|p| value(p).millis()).collect();
        Distribution::of(&values).map(|d| d.p99)
    }

    /// Requests split by `kind`.
    fn split(&self, kind: SplitBy) -> usize {
        self.requests.iter().filter(|p| p.split_by == kind).count()
    }

    fn add(&mut self, part: LatencyPart, source: PartSource, value: fn(&Parts) -> Nanos) {
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

    /// What single requests leave in one part, by the server's means where they are of these requests. Returns what stays in one part.
    fn add_unsplit(
        &mut self,
        window: Option<&ServerWindow>,
        summary: &Summary,
    ) -> Option<NotSplit> {
        let unsplit = self.mean_ms(|p| p.unsplit_ns);
        if unsplit <= 0.0 {
            return None;
        }
        let known = window.and_then(|window| queue_and_prefill(window, summary));
        let none_is_split = self.split(SplitBy::Nothing) == self.requests.len();
        Some(match known {
            Some((queue, prefill)) if none_is_split && queue + prefill <= unsplit => {
                let histograms = PartSource::ServerHistograms;
                self.push(LatencyPart::Queueing, queue, None, histograms);
                self.push(LatencyPart::Prefill, prefill, None, histograms);
                self.push(
                    LatencyPart::Network,
                    unsplit - queue - prefill,
                    None,
                    PartSource::Remainder,
                );
                NotSplit::HistogramsOnly
            }
            other => {
                self.add(
                    LatencyPart::UntilFirstToken,
                    PartSource::ClientTimestamps,
                    |p| p.unsplit_ns,
                );
                match other {
                    Some((queue_ms, prefill_ms)) => NotSplit::OtherRequests {
                        queue_ms,
                        prefill_ms,
                        until_first_token_ms: unsplit,
                    },
                    None => NotSplit::NothingKnown,
                }
            }
        })
    }
}

/// Means of queueing and prefill, unless the window holds other requests: their means would split these wrongly.
fn queue_and_prefill(window: &ServerWindow, summary: &Summary) -> Option<(f64, f64)> {
    let queue = window.queue_ms.as_ref()?;
    let prefill = window.prefill_ms.as_ref()?;
    let is_same = (queue.count - summary.completed as f64).abs() <= 0.02 * queue.count;
    is_same.then_some((queue.mean?, prefill.mean?))
}
