//! Where a request's time went: parts that add up to its measured latency, exactly, for every request.
//!
//! What only the client saw is split by what the client can know; what the server says of single requests (llama.cpp's timings, steps
//! of a trace) splits further. Histograms of a server hold for a window and never for one request, so they split means only.

use llmprof_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::{
    record::RequestRecord,
    server::{families::ServerWindow, steps::Step},
    statistics::Distribution,
    summary::Summary,
};

/// A gap this many times the typical one, with nobody else's prefill in it, is a stall.
const STALL: f64 = 5.0;

/// How far before the first token other requests' work was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SplitBy {
    /// Nothing: queueing, prefill and network are one part.
    Nothing,
    /// The server's own timings of the request.
    Timings,
    /// Steps of the server's trace.
    Steps,
}

/// The parts of one request, nanoseconds from when it was due to its last token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    /// The request.
    pub index: u64,
    /// Due → sent, without the connection: lag of the client, waiting for a place.
    pub client_ns: i64,
    /// Making the connection.
    pub connect_ns: i64,
    /// Sent → first token, as far as nothing splits it.
    pub unsplit_ns: i64,
    /// Waiting for a place in a batch while the engine ran others; with timings, network is in it.
    pub queue_ns: i64,
    /// Prefill.
    pub prefill_ns: i64,
    /// Sent → first token while the engine did nothing: network, tokenizer, API server.
    pub network_ns: i64,
    /// First → last token at the request's own typical pace.
    pub decode_ns: i64,
    /// Gaps longer than typical in which another request's first token came.
    pub others_prefill_ns: i64,
    /// Gaps longer than [`STALL`] times typical without such: preemption, or something else.
    pub stall_ns: i64,
    /// What `unsplit_ns` became.
    pub split_by: SplitBy,
}

impl Parts {
    /// All parts together: the latency.
    pub fn sum_ns(&self) -> i64 {
        self.client_ns
            + self.connect_ns
            + self.unsplit_ns
            + self.queue_ns
            + self.prefill_ns
            + self.network_ns
            + self.decode_ns
            + self.others_prefill_ns
            + self.stall_ns
    }
}

/// The parts of every completed request that streamed. `steps` are on the wall's clock, like `started_unix_ns`.
pub fn split(requests: &[RequestRecord], started_unix_ns: i64, steps: &[Step]) -> Vec<Parts> {
    let mut firsts: Vec<(i64, u64)> = requests
        .iter()
        .filter(|r| !r.is_whole)
        .filter_map(|r| Some((r.arrivals.first()?.at_ns.0, r.index)))
        .collect();
    firsts.sort_unstable();
    let steps: Vec<(i64, i64, bool)> = steps
        .iter()
        .map(|step| {
            (
                step.start_unix_ns - started_unix_ns,
                step.end_unix_ns - started_unix_ns,
                step.prefill.sequences > 0,
            )
        })
        .collect();
    requests
        .iter()
        .filter(|r| r.is_complete() && !r.is_whole)
        .filter_map(|r| of(r, &firsts, &steps))
        .collect()
}

fn of(request: &RequestRecord, firsts: &[(i64, u64)], steps: &[(i64, i64, bool)]) -> Option<Parts> {
    let sent = request.sent_ns?;
    let first = request.arrivals.first()?.at_ns;
    let connect = request.connect_ns.unwrap_or(Nanos(0));
    let mut parts = Parts {
        index: request.index,
        client_ns: (sent - request.scheduled_ns - connect).0,
        connect_ns: connect.0,
        unsplit_ns: (first - sent).0,
        queue_ns: 0,
        prefill_ns: 0,
        network_ns: 0,
        decode_ns: 0,
        others_prefill_ns: 0,
        stall_ns: 0,
        split_by: SplitBy::Nothing,
    };
    by_steps(&mut parts, sent.0, first.0, steps);
    by_timings(&mut parts, request);
    decode(&mut parts, request, firsts);
    Some(parts)
}

/// The step that made the first token is the last one with a prefill that ended before the token arrived.
fn by_steps(parts: &mut Parts, sent: i64, first: i64, steps: &[(i64, i64, bool)]) {
    // The request must lie inside of the recording, or steps that served it are missing.
    let (Some(begin), Some(end)) = (steps.first(), steps.last()) else {
        return;
    };
    if sent < begin.0 || first > end.1 {
        return;
    }
    let made = steps
        .iter()
        .rev()
        .find(|(start, end, has_prefill)| *has_prefill && *end <= first && *start >= sent);
    let Some(&(start, end, _)) = made else {
        return;
    };
    // Before it: the engine ran other steps (queueing, earlier chunks), or none.
    let mut busy = 0;
    let mut reached = sent;
    for &(from, to, _) in steps
        .iter()
        .filter(|(from, to, _)| *to > sent && *from < start)
    {
        let (from, to) = (from.max(reached), to.min(start));
        if to > from {
            busy += to - from;
            reached = to;
        }
    }
    parts.queue_ns = busy;
    parts.prefill_ns = end - start;
    parts.network_ns = parts.unsplit_ns - busy - (end - start);
    parts.unsplit_ns = 0;
    parts.split_by = SplitBy::Steps;
}

fn by_timings(parts: &mut Parts, request: &RequestRecord) {
    let prefill = request.timings.and_then(|timings| timings.prefill_ms);
    let Some(prefill) = prefill.filter(|_| parts.split_by == SplitBy::Nothing) else {
        return;
    };
    let prefill = (prefill * 1e6) as i64;
    // A server that claims more than passed is not believed.
    if prefill <= 0 || prefill > parts.unsplit_ns {
        return;
    }
    parts.prefill_ns = prefill;
    parts.queue_ns = parts.unsplit_ns - prefill;
    parts.unsplit_ns = 0;
    parts.split_by = SplitBy::Timings;
}

fn decode(parts: &mut Parts, request: &RequestRecord, firsts: &[(i64, u64)]) {
    let disturbed = |from: i64, to: i64| {
        let begin = firsts.partition_point(|(at, _)| *at <= from);
        firsts[begin..]
            .iter()
            .take_while(|(at, _)| *at <= to)
            .any(|(_, index)| *index != request.index)
    };
    let gaps: Vec<(i64, bool)> = request
        .arrivals
        .windows(2)
        .map(|pair| {
            let (from, to) = (pair[0].at_ns.0, pair[1].at_ns.0);
            (to - from, disturbed(from, to))
        })
        .collect();
    let mut quiet: Vec<i64> = gaps
        .iter()
        .filter(|(_, d)| !d)
        .map(|(gap, _)| *gap)
        .collect();
    quiet.sort_unstable();
    let typical = quiet.get(quiet.len() / 2).copied();
    for (gap, is_disturbed) in gaps {
        let excess = typical.map_or(0, |typical| (gap - typical).max(0));
        if is_disturbed {
            parts.others_prefill_ns += excess;
            parts.decode_ns += gap - excess;
        } else if typical.is_some_and(|typical| gap as f64 > STALL * typical as f64) {
            parts.stall_ns += excess;
            parts.decode_ns += gap - excess;
        } else {
            parts.decode_ns += gap;
        }
    }
}

/// The mean request in parts, milliseconds; they add up to its mean latency.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeanParts {
    /// Requests they are of.
    pub requests: u64,
    /// Their mean latency.
    pub e2e_ms: f64,
    /// The parts by name.
    pub parts: Vec<MeanPart>,
    /// What could not be split, and why.
    pub not_split: Vec<String>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeanPart {
    /// Its name.
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
    let count = parts.len() as f64;
    let ms = |value: &dyn Fn(&Parts) -> i64| {
        parts.iter().map(|p| value(p) as f64 / 1e6).sum::<f64>() / count
    };
    let p99 = |value: &dyn Fn(&Parts) -> i64| {
        let values: Vec<f64> = parts.iter().map(|p| value(p) as f64 / 1e6).collect();
        Distribution::of(&values).map(|d| d.p99)
    };
    let mut found = MeanParts {
        requests: parts.len() as u64,
        e2e_ms: ms(&Parts::sum_ns),
        ..MeanParts::default()
    };
    let mut add = |name: &str, mean_ms: f64, p99_ms: Option<f64>, source: &str| {
        if mean_ms != 0.0 {
            found.parts.push(MeanPart {
                name: name.to_owned(),
                mean_ms,
                p99_ms,
                source: source.to_owned(),
            });
        }
    };
    let client = "client timestamps";
    add(
        "client",
        ms(&|p| p.client_ns),
        p99(&|p| p.client_ns),
        client,
    );
    add(
        "connection",
        ms(&|p| p.connect_ns),
        p99(&|p| p.connect_ns),
        client,
    );
    let unsplit = ms(&|p| p.unsplit_ns);
    let by = |kind: SplitBy| parts.iter().filter(|p| p.split_by == kind).count();
    let source = match (by(SplitBy::Timings), by(SplitBy::Steps)) {
        (0, _) => "steps of the trace",
        (_, 0) => "the server's timings",
        _ => "the server's timings, steps of the trace",
    };
    add(
        "queueing",
        ms(&|p| p.queue_ns),
        p99(&|p| p.queue_ns),
        source,
    );
    add(
        "prefill",
        ms(&|p| p.prefill_ns),
        p99(&|p| p.prefill_ns),
        source,
    );
    add(
        "network and API server",
        ms(&|p| p.network_ns),
        p99(&|p| p.network_ns),
        source,
    );
    let mut why = Vec::new();
    if unsplit > 0.0 {
        let known = window.and_then(|w| {
            let queue = w.queue_ms.as_ref()?;
            let prefill = w.prefill_ms.as_ref()?;
            // Means of other requests would split these wrongly.
            let is_same = (queue.count - summary.completed as f64).abs() <= 0.02 * queue.count;
            is_same.then_some((queue.mean?, prefill.mean?))
        });
        match known {
            Some((queue, prefill))
                if by(SplitBy::Nothing) == parts.len() && queue + prefill <= unsplit =>
            {
                let histograms = "the server's histograms (means of the window)";
                add("queueing", queue, None, histograms);
                add("prefill", prefill, None, histograms);
                add(
                    "network and API server",
                    unsplit - queue - prefill,
                    None,
                    "what they leave",
                );
                why.push(
                    "queueing and prefill of single requests: the server has histograms only"
                        .to_owned(),
                );
            }
            other => {
                add(
                    "queueing, prefill and network",
                    unsplit,
                    p99(&|p| p.unsplit_ns),
                    client,
                );
                why.push(match other {
                    Some((queue, prefill)) => format!(
                        "queueing and prefill: the server's means ({queue:.1} + {prefill:.1} ms) are not those of these requests ({unsplit:.1} ms)"
                    ),
                    None => "queueing, prefill and network: the server says nothing about these requests alone".to_owned(),
                });
            }
        }
    }
    add(
        "decode",
        ms(&|p| p.decode_ns),
        p99(&|p| p.decode_ns),
        client,
    );
    let derived = "client timestamps: gaps with another request's first token";
    add(
        "waiting for other requests' prefill",
        ms(&|p| p.others_prefill_ns),
        p99(&|p| p.others_prefill_ns),
        derived,
    );
    let preempted = window.and_then(|w| w.preemptions).unwrap_or(0.0) > 0.0;
    let name = if preempted {
        "preemption and stalls"
    } else {
        "stalls"
    };
    let source = if preempted {
        "gaps beyond 5 times typical; the server preempted"
    } else {
        "gaps beyond 5 times typical"
    };
    add(name, ms(&|p| p.stall_ns), p99(&|p| p.stall_ns), source);
    found.not_split = why;
    Some(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::Arrival;

    fn request(index: u64, due: i64, sent: i64, arrivals: &[i64]) -> RequestRecord {
        let mut record = RequestRecord::due(index, Nanos(due), 16);
        record.sent_ns = Some(Nanos(sent));
        record.arrivals = arrivals
            .iter()
            .map(|&at| Arrival {
                at_ns: Nanos(at),
                tokens: None,
            })
            .collect();
        record.end_ns = Nanos(*arrivals.last().unwrap());
        record
    }

    #[test]
    fn the_prefill_of_another_request_is_seen_in_the_gap() {
        // Steps of 10; the second request's first token comes at 175, in the gap that took 60.
        let a = request(0, 0, 5, &[100, 110, 120, 180, 190]);
        let b = request(1, 115, 116, &[175, 190]);
        let parts = split(&[a, b], 0, &[]);
        assert_eq!(parts[0].client_ns, 5);
        assert_eq!(parts[0].unsplit_ns, 95);
        assert_eq!(parts[0].others_prefill_ns, 50);
        assert_eq!(parts[0].decode_ns, 40);
        assert_eq!(parts[0].sum_ns(), 190);
    }

    #[test]
    fn a_long_gap_of_its_own_is_a_stall() {
        let parts = split(&[request(0, 0, 0, &[10, 20, 30, 130, 140])], 0, &[]);
        assert_eq!((parts[0].stall_ns, parts[0].decode_ns), (90, 40));
    }

    #[test]
    fn steps_split_what_is_before_the_first_token() {
        let batch = |sequences| crate::server::steps::BatchPart {
            sequences,
            tokens: sequences,
            context: None,
        };
        let step = |start: i64, end: i64, prefill| Step {
            start_unix_ns: 1000 + start,
            end_unix_ns: 1000 + end,
            prefill: batch(prefill),
            decode: batch(1),
        };
        let steps = [
            step(-10, 0, 0),
            step(10, 30, 0),
            step(30, 50, 1),
            step(60, 70, 0),
        ];
        let parts = split(&[request(0, 0, 5, &[55, 65])], 1000, &steps);
        assert_eq!(parts[0].split_by, SplitBy::Steps);
        assert_eq!(
            (parts[0].queue_ns, parts[0].prefill_ns, parts[0].network_ns),
            (20, 20, 10)
        );
        // Sent before the recording began.
        let parts = split(&[request(0, -60, -50, &[55, 65])], 1000, &steps);
        assert_eq!(parts[0].split_by, SplitBy::Nothing);
    }

    proptest! {
        #[test]
        fn parts_add_up(
            requests in prop::collection::vec((0i64..1000, 0i64..100, 0i64..50, prop::collection::vec(1i64..300, 1..12), 0u32..400), 1..8),
            steps in prop::collection::vec((0i64..2000, 1i64..200, 0u64..2), 0..10)
        ) {
            let records: Vec<RequestRecord> = requests.iter().enumerate().map(|(index, (due, wait, connect, gaps, prefill))| {
                let sent = due + wait + connect;
                let mut at = sent;
                let arrivals: Vec<i64> = gaps.iter().map(|gap| { at += gap; at }).collect();
                let mut record = request(index as u64, *due, sent, &arrivals);
                record.connect_ns = Some(Nanos(*connect));
                if *prefill > 200 {
                    record.timings = Some(crate::answer::ServerTimings { prefill_ms: Some(f64::from(*prefill) * 1e-6), ..Default::default() });
                }
                record
            }).collect();
            let part = |n| crate::server::steps::BatchPart { sequences: n, tokens: n, context: None };
            let mut steps: Vec<Step> = steps.iter().map(|&(start, length, prefill)| Step {
                start_unix_ns: start, end_unix_ns: start + length, prefill: part(prefill), decode: part(1),
            }).collect();
            steps.sort_by_key(|step| step.start_unix_ns);
            let parts = split(&records, 0, &steps);
            prop_assert_eq!(parts.len(), records.len());
            for (parts, record) in parts.iter().zip(&records) {
                prop_assert_eq!(parts.sum_ns(), record.e2e_ns().unwrap().0);
                for part in [parts.client_ns, parts.unsplit_ns, parts.queue_ns, parts.prefill_ns, parts.network_ns, parts.decode_ns, parts.others_prefill_ns, parts.stall_ns] {
                    prop_assert!(part >= 0, "{parts:?}");
                }
            }
        }
    }
}
