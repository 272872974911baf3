//! Where a request's time went: parts that add up to its measured latency, exactly, for every request.
//!
//! The client's own timestamps split every request; what the server reports of single requests (llama.cpp's timings, steps of a trace)
//! splits further. Histograms of a server hold for a window and never for one request, so they split means only.

use llmprof_units::{Nanos, stats::upper_median};
use serde::{Deserialize, Serialize};

use crate::thresholds::STALL_MIN_RATIO;
use llmprof_record::serving::{EnginePart, EngineStep, RequestRecord};

mod mean;

pub use mean::{mean_parts, mean_profiled_parts};

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

/// The parts of one request, from when it was due to its last token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestParts {
    /// Index of the request in the load.
    pub index: u64,
    /// Due → sent, without the connection: lag of the client, waiting for a place.
    pub client_ns: Nanos,
    /// Time to open the connection.
    pub connect_ns: Nanos,
    /// Sent → first token, as far as nothing splits it.
    pub unsplit_ns: Nanos,
    /// Waiting for the end of the engine step that ran when the request was sent: no scheduler could have taken it up earlier.
    #[serde(default)]
    pub running_step_ns: Nanos,
    /// Waiting for a place in a batch while the engine ran further steps of others; with timings that have no queueing, network
    /// is in it.
    pub queue_ns: Nanos,
    /// Prefill, from the first chunk of the prompt to the last.
    pub prefill_ns: Nanos,
    /// Sent → first token while the engine did nothing: network, tokenizer, API server.
    pub network_ns: Nanos,
    /// First → last token at the request's own typical pace.
    pub decode_ns: Nanos,
    /// Gaps longer than typical in which another request's first token came.
    pub others_prefill_ns: Nanos,
    /// Gaps longer than [`STALL_MIN_RATIO`] times typical without such: preemption, or something else.
    pub stall_ns: Nanos,
    /// What `unsplit_ns` was split by.
    pub split_by: SplitBy,
}

impl RequestParts {
    /// All parts together: the latency.
    pub fn sum_ns(&self) -> Nanos {
        self.client_ns
            + self.connect_ns
            + self.unsplit_ns
            + self.running_step_ns
            + self.queue_ns
            + self.prefill_ns
            + self.network_ns
            + self.decode_ns
            + self.others_prefill_ns
            + self.stall_ns
    }
}

/// The parts of every completed request that streamed. `started_unix_ns`, since 1970, is the zero of the requests' clock.
pub fn split_requests(
    requests: &[RequestRecord],
    started_unix_ns: Nanos,
    steps: &[EngineStep],
) -> Vec<RequestParts> {
    let mut firsts: Vec<(Nanos, u64)> = requests
        .iter()
        .filter(|r| !r.is_whole)
        .filter_map(|r| Some((r.arrivals.first()?.at_ns, r.index)))
        .collect();
    firsts.sort_unstable();
    let steps: Vec<ClockedStep> = steps
        .iter()
        .map(|step| ClockedStep {
            start: step.start_unix_ns - started_unix_ns,
            end: step.end_unix_ns - started_unix_ns,
            prefill: step.prefill,
        })
        .collect();
    requests
        .iter()
        .filter(|r| r.is_complete() && !r.is_whole)
        .filter_map(|r| split_request(r, &firsts, &steps))
        .collect()
}

/// A step on the clock of the requests.
struct ClockedStep {
    start: Nanos,
    end: Nanos,
    prefill: EnginePart,
}

fn split_request(
    request: &RequestRecord,
    firsts: &[(Nanos, u64)],
    steps: &[ClockedStep],
) -> Option<RequestParts> {
    let sent = request.sent_ns?;
    let first = request.arrivals.first()?.at_ns;
    let connect = request.connect_ns.unwrap_or(Nanos(0));
    let mut parts = RequestParts {
        index: request.index,
        client_ns: sent - request.scheduled_ns - connect,
        connect_ns: connect,
        unsplit_ns: first - sent,
        running_step_ns: Nanos(0),
        queue_ns: Nanos(0),
        prefill_ns: Nanos(0),
        network_ns: Nanos(0),
        decode_ns: Nanos(0),
        others_prefill_ns: Nanos(0),
        stall_ns: Nanos(0),
        split_by: SplitBy::Nothing,
    };
    split_by_steps(&mut parts, request, sent, first, steps);
    split_by_timings(&mut parts, request);
    split_decode(&mut parts, request, firsts);
    Some(parts)
}

/// The step that made the first token is the last one with a prefill that ended before the token arrived; earlier chunks of the
/// same prompt are prefill too.
fn split_by_steps(
    parts: &mut RequestParts,
    request: &RequestRecord,
    sent: Nanos,
    first: Nanos,
    steps: &[ClockedStep],
) {
    // The request must lie inside of the recording, or steps that served it are missing.
    let (Some(begin), Some(end)) = (steps.first(), steps.last()) else {
        return;
    };
    if sent < begin.start || first > end.end {
        return;
    }
    let made = steps
        .iter()
        .rposition(|step| step.prefill.sequences > 0 && step.end <= first && step.start >= sent);
    let Some(made) = made else {
        return;
    };
    let chunk = first_chunk(request.prompt_tokens, sent, made, steps);
    let prefill_start = steps[chunk].start;
    // Before it: the engine ended the step it was in, ran further steps of others (queueing), or ran none.
    let (mut running_step, mut queue) = (Nanos(0), Nanos(0));
    let mut reached = sent;
    for step in steps
        .iter()
        .filter(|step| step.end > sent && step.start < prefill_start)
    {
        let (from, to) = (step.start.max(reached), step.end.min(prefill_start));
        if to > from {
            if step.start < sent {
                running_step += to - from;
            } else {
                queue += to - from;
            }
            reached = to;
        }
    }
    let prefill = steps[made].end - prefill_start;
    parts.running_step_ns = running_step;
    parts.queue_ns = queue;
    parts.prefill_ns = prefill;
    parts.network_ns = parts.unsplit_ns - running_step - queue - prefill;
    parts.unsplit_ns = Nanos(0);
    parts.split_by = SplitBy::Steps;
}

/// The step of the first chunk of a prompt whose last chunk is in step `made`.
///
/// A prompt that is half done is in every step until it is done, so its chunks are in steps that follow each other. A step with one
/// sequence in prefill and a known context says how many tokens of that sequence came before it: the step before it is a chunk
/// of the same prompt where it reached exactly that far, and otherwise they were cached. Where a step has several such
/// sequences, or states no context, all its tokens may be the prompt's: the fewest steps that can hold it are taken.
fn first_chunk(
    prompt_tokens: Option<u64>,
    sent: Nanos,
    made: usize,
    steps: &[ClockedStep],
) -> usize {
    let alone = |part: &EnginePart| part.context.filter(|_| part.sequences == 1);
    let last = &steps[made].prefill;
    let reached = alone(last).or(prompt_tokens).unwrap_or(0);
    let mut left = reached.saturating_sub(last.tokens);
    let mut chunk = made;
    while left > 0
        && let Some(before) = chunk.checked_sub(1)
    {
        let step = &steps[before];
        if step.prefill.sequences == 0 || step.start < sent {
            break;
        }
        if alone(&step.prefill).is_some_and(|context| context != left) {
            break;
        }
        left = left.saturating_sub(step.prefill.tokens);
        chunk = before;
    }
    chunk
}

fn split_by_timings(parts: &mut RequestParts, request: &RequestRecord) {
    let prefill = request.timings.and_then(|timings| timings.prefill_ms);
    let Some(prefill) = prefill.filter(|_| parts.split_by == SplitBy::Nothing) else {
        return;
    };
    let prefill = Nanos((prefill * 1e6) as i64);
    // A server that claims more than passed is not believed.
    if prefill <= Nanos(0) || prefill > parts.unsplit_ns {
        return;
    }
    let rest = parts.unsplit_ns - prefill;
    let queue = request.timings.and_then(|timings| timings.queue_ms);
    let queue = queue.map_or(rest, |queue| Nanos((queue * 1e6) as i64));
    parts.prefill_ns = prefill;
    parts.queue_ns = queue.clamp(Nanos(0), rest);
    parts.network_ns = rest - parts.queue_ns;
    parts.unsplit_ns = Nanos(0);
    parts.split_by = SplitBy::Timings;
}

fn split_decode(parts: &mut RequestParts, request: &RequestRecord, firsts: &[(Nanos, u64)]) {
    let disturbed = |from: Nanos, to: Nanos| {
        let begin = firsts.partition_point(|(at, _)| *at <= from);
        firsts[begin..]
            .iter()
            .take_while(|(at, _)| *at <= to)
            .any(|(_, index)| *index != request.index)
    };
    let gaps: Vec<(Nanos, bool)> = request
        .arrivals
        .windows(2)
        .map(|pair| {
            let (from, to) = (pair[0].at_ns, pair[1].at_ns);
            (to - from, disturbed(from, to))
        })
        .collect();
    let mut quiet: Vec<Nanos> = gaps
        .iter()
        .filter(|(_, d)| !d)
        .map(|(gap, _)| *gap)
        .collect();
    let typical = upper_median(&mut quiet);
    for (gap, is_disturbed) in gaps {
        let excess = typical.map_or(Nanos(0), |typical| (gap - typical).max(Nanos(0)));
        if is_disturbed {
            parts.others_prefill_ns += excess;
            parts.decode_ns += gap - excess;
        } else if typical.is_some_and(|typical| gap.0 as f64 > STALL_MIN_RATIO * typical.0 as f64) {
            parts.stall_ns += excess;
            parts.decode_ns += gap - excess;
        } else {
            parts.decode_ns += gap;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use llmprof_record::serving::Arrival;

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
        let parts = split_requests(&[a, b], Nanos(0), &[]);
        assert_eq!(parts[0].client_ns, Nanos(5));
        assert_eq!(parts[0].unsplit_ns, Nanos(95));
        assert_eq!(parts[0].others_prefill_ns, Nanos(50));
        assert_eq!(parts[0].decode_ns, Nanos(40));
        assert_eq!(parts[0].sum_ns(), Nanos(190));
    }

    #[test]
    fn a_long_gap_of_its_own_is_a_stall() {
        let parts = split_requests(&[request(0, 0, 0, &[10, 20, 30, 130, 140])], Nanos(0), &[]);
        assert_eq!(
            (parts[0].stall_ns, parts[0].decode_ns),
            (Nanos(90), Nanos(40))
        );
    }

    #[test]
    fn steps_split_what_is_before_the_first_token() {
        let batch = |sequences| EnginePart {
            sequences,
            tokens: sequences,
            context: None,
        };
        let step = |start: i64, end: i64, prefill| EngineStep {
            start_unix_ns: Nanos(1000 + start),
            end_unix_ns: Nanos(1000 + end),
            prefill: batch(prefill),
            decode: batch(1),
            busy_ns: None,
            is_eager: None,
            roofline_ns: None,
        };
        let steps = [
            step(-10, 0, 0),
            step(10, 30, 0),
            step(30, 50, 1),
            step(60, 70, 0),
        ];
        let parts = split_requests(&[request(0, 0, 5, &[55, 65])], Nanos(1000), &steps);
        assert_eq!(parts[0].split_by, SplitBy::Steps);
        assert_eq!(
            (parts[0].queue_ns, parts[0].prefill_ns, parts[0].network_ns),
            (Nanos(20), Nanos(20), Nanos(10))
        );
        // Sent before the recording began.
        let parts = split_requests(&[request(0, -60, -50, &[55, 65])], Nanos(1000), &steps);
        assert_eq!(parts[0].split_by, SplitBy::Nothing);
    }

    /// `(start, end, prefill sequences, their new tokens, what they attend to)`.
    fn chunks(steps: &[(i64, i64, u64, u64, Option<u64>)]) -> Vec<EngineStep> {
        steps
            .iter()
            .map(|&(start, end, sequences, tokens, context)| EngineStep {
                start_unix_ns: Nanos(start),
                end_unix_ns: Nanos(end),
                prefill: EnginePart {
                    sequences,
                    tokens,
                    context,
                },
                decode: EnginePart::default(),
                busy_ns: None,
                is_eager: None,
                roofline_ns: None,
            })
            .collect()
    }

    #[test]
    fn earlier_chunks_of_a_prompt_are_its_prefill() {
        let split_prompt = |prompt: Option<u64>, steps: &[(i64, i64, u64, u64, Option<u64>)]| {
            let mut record = request(0, 0, 5, &[95, 105]);
            record.prompt_tokens = prompt;
            let parts = super::split_requests(&[record], Nanos(0), &chunks(steps))[0];
            assert_eq!(parts.sum_ns(), Nanos(105));
            assert_eq!(parts.split_by, SplitBy::Steps);
            // It is sent at 5, in a step that ends at 10.
            assert_eq!(parts.running_step_ns, Nanos(5));
            (parts.queue_ns.0, parts.prefill_ns.0, parts.network_ns.0)
        };
        let around = |chunks: [(i64, i64, u64, u64, Option<u64>); 3]| {
            let mut steps = vec![(0, 10, 0, 0, None)];
            steps.extend(chunks);
            steps.push((90, 110, 0, 0, None));
            steps
        };
        // Three chunks of 100, 100 and 50 tokens; the engine pauses for 2 between the first two.
        let alone = around([
            (10, 38, 1, 100, Some(100)),
            (40, 60, 1, 100, Some(200)),
            (60, 90, 1, 50, Some(250)),
        ]);
        assert_eq!(split_prompt(Some(250), &alone), (0, 80, 5));
        // The context says that the first step was another prompt's: 100 tokens came from the prefix cache.
        let cached = around([
            (10, 38, 1, 90, Some(90)),
            (40, 60, 1, 100, Some(200)),
            (60, 90, 1, 50, Some(250)),
        ]);
        assert_eq!(split_prompt(Some(250), &cached), (28, 50, 7));
        // Without contexts, or with several prompts in a step, tokens decide.
        let counted = around([
            (10, 38, 1, 100, None),
            (40, 60, 2, 100, Some(400)),
            (60, 90, 1, 50, None),
        ]);
        assert_eq!(split_prompt(Some(150), &counted), (28, 50, 7));
        assert_eq!(split_prompt(Some(151), &counted), (0, 80, 5));
        // Nothing is known of the prompt: one chunk.
        assert_eq!(split_prompt(None, &counted), (48, 30, 7));
        // A step without prefill ends a prompt's chunks.
        let apart = around([
            (10, 38, 1, 100, None),
            (40, 60, 0, 0, None),
            (60, 90, 1, 50, None),
        ]);
        assert_eq!(split_prompt(Some(150), &apart), (48, 30, 7));
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
                record.prompt_tokens = (*prefill > 100).then_some(3);
                if *prefill > 200 {
                    record.timings = Some(llmprof_record::serving::ServerTimings { prefill_ms: Some(f64::from(*prefill) * 1e-6), ..Default::default() });
                }
                record
            }).collect();
            let part = |n| EnginePart { sequences: n, tokens: n, context: None };
            let mut steps: Vec<EngineStep> = steps.iter().map(|&(start, length, prefill)| EngineStep {
                start_unix_ns: Nanos(start), end_unix_ns: Nanos(start + length), prefill: part(prefill), decode: part(1), busy_ns: None, is_eager: None, roofline_ns: None,
            }).collect();
            steps.sort_by_key(|step| step.start_unix_ns);
            let parts = split_requests(&records, Nanos(0), &steps);
            prop_assert_eq!(parts.len(), records.len());
            for (parts, record) in parts.iter().zip(&records) {
                prop_assert_eq!(parts.sum_ns(), record.e2e_ns().unwrap());
                for part in [parts.client_ns, parts.unsplit_ns, parts.running_step_ns, parts.queue_ns, parts.prefill_ns, parts.network_ns, parts.decode_ns, parts.others_prefill_ns, parts.stall_ns] {
                    prop_assert!(part >= Nanos(0), "{parts:?}");
                }
            }
        }
    }
}
