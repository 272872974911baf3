//! The mean request in parts, each with who says so.

use llmprof_units::Nanos;
use serde::{Deserialize, Serialize};

use super::{Parts, SplitBy};
use crate::{server::families::ServerWindow, statistics::Distribution, summary::Summary};

const CLIENT: &str = "client timestamps";

/// The mean request in parts, milliseconds; they add up to its mean latency.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeanParts {
    /// Requests they are of.
    pub requests: u64,
    pub e2e_ms: f64,
    pub parts: Vec<MeanPart>,
    /// What could not be split, and why.
    pub not_split: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeanPart {
    pub name: String,
    /// Milliseconds of the mean request.
    pub mean_ms: f64,
    /// 99th percentile over requests, where each has the part.
    pub p99_ms: Option<f64>,
    /// Who says so.
    pub source: String,
}

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
    found.add("client", CLIENT, |p| p.client_ns);
    found.add("connection", CLIENT, |p| p.connect_ns);
    let source = match (found.split(SplitBy::Timings), found.split(SplitBy::Steps)) {
        (0, _) => "steps of the trace",
        (_, 0) => "the server's timings",
        _ => "the server's timings, steps of the trace",
    };
    found.add("queueing", source, |p| p.queue_ns);
    found.add("prefill", source, |p| p.prefill_ns);
    found.add("network and API server", source, |p| p.network_ns);
    let not_split = found.add_unsplit(window, summary);
    found.add("decode", CLIENT, |p| p.decode_ns);
    found.add(
        "waiting for other requests' prefill",
        "client timestamps: gaps with another request's first token",
        |p| p.others_prefill_ns,
    );
    let preempted = window.and_then(|w| w.preemptions).unwrap_or(0.0) > 0.0;
    let (name, source) = if preempted {
        (
            "preemption and stalls",
            "gaps beyond 5 times typical; the server preempted",
        )
    } else {
        ("stalls", "gaps beyond 5 times typical")
    };
    found.add(name, source, |p| p.stall_ns);
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

    fn add(&mut self, name: &str, source: &str, value: fn(&Parts) -> Nanos) {
        self.push(name, self.mean_ms(value), self.p99_ms(value), source);
    }

    fn push(&mut self, name: &str, mean_ms: f64, p99_ms: Option<f64>, source: &str) {
        if mean_ms != 0.0 {
            self.parts.push(MeanPart {
                name: name.to_owned(),
                mean_ms,
                p99_ms,
                source: source.to_owned(),
            });
        }
    }

    /// What single requests leave in one part, by the server's means where they are of these requests. Returns what stays in one part.
    fn add_unsplit(&mut self, window: Option<&ServerWindow>, summary: &Summary) -> Option<String> {
        let unsplit = self.mean_ms(|p| p.unsplit_ns);
        if unsplit <= 0.0 {
            return None;
        }
        let known = window.and_then(|window| queue_and_prefill(window, summary));
        let none_is_split = self.split(SplitBy::Nothing) == self.requests.len();
        Some(match known {
            Some((queue, prefill)) if none_is_split && queue + prefill <= unsplit => {
                let histograms = "the server's histograms (means of the window)";
                self.push("queueing", queue, None, histograms);
                self.push("prefill", prefill, None, histograms);
                self.push(
                    "network and API server",
                    unsplit - queue - prefill,
                    None,
                    "what they leave",
                );
                "queueing and prefill of single requests: the server has histograms only".to_owned()
            }
            other => {
                self.add("queueing, prefill and network", CLIENT, |p| p.unsplit_ns);
                match other {
                    Some((queue, prefill)) => format!(
                        "queueing and prefill: the server's means ({queue:.1} + {prefill:.1} ms) are not those of these requests ({unsplit:.1} ms)"
                    ),
                    None => "queueing, prefill and network: the server says nothing about these requests alone".to_owned(),
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
