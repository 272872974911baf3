//! How fast requests were answered.
//!
//! - TTFT = first token − request start.
//! - TPOT = (last token − first token) ÷ (output tokens − 1).
//! - ITL = the list of gaps between tokens that follow each other.
//! - Tokens per second = output tokens of all requests ÷ time in which some request was between its start and its last token.
//! - Decode tokens per second = output tokens after the first of all requests ÷ time in decode.
//!
//! Each pass gives one value per quantity (the mean over its requests); [`RepeatSummary`] is over passes, so its interval says
//! how far another run may lie. Rates are those of all passes together. Warm-up passes are in no statistics.

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::{RepeatSummary, ValueDistribution};
use crate::thresholds::FIRST_PASS_DEVIATIONS_MAX;
use crate::timeline::intervals::union_length;
use llmprof_record::run::{MeasuredPass, PassKind, Request, RunPhase, RunRecord};

/// Latencies and rates of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Latency {
    /// The kind of passes that the figures are from; absent where none was measured.
    pub measured_in: Option<PassKind>,
    /// Number of measured passes that the figures are from.
    pub repeats: u64,
    /// Warm-up passes that were left out.
    pub warm_up_passes: u64,
    /// Time to the first token, over passes.
    pub ttft_ns: Option<RepeatSummary>,
    /// Time per output token after the first, over passes.
    pub tpot_ns: Option<RepeatSummary>,
    /// From request start to last token, over passes.
    pub end_to_end_ns: Option<RepeatSummary>,
    /// Time in prefill, over passes.
    pub prefill_ns: Option<RepeatSummary>,
    /// Time in decode, over passes.
    pub decode_ns: Option<RepeatSummary>,
    /// Generated tokens per second, of all passes.
    pub tokens_per_s: Option<RepeatSummary>,
    /// Generated tokens after the first per second of decode, of all passes.
    pub decode_tokens_per_s: Option<RepeatSummary>,
    /// Times to the first token of all requests.
    pub ttft_spread_ns: Option<ValueDistribution>,
    /// All gaps between tokens of all requests.
    pub itl_ns: Option<ValueDistribution>,
    /// What the first pass took beyond the others.
    pub first_use: Option<FirstUse>,
    /// One row per request of the measured passes.
    pub requests: Vec<RequestRow>,
}

/// Latencies of one request in one pass.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct RequestRow {
    /// Number of the pass in the run, from 0, warm-up included.
    pub pass: u64,
    /// Name that the workload gave the request.
    pub id: String,
    /// Sequences that ran together with it, itself included.
    pub batch: u64,
    /// Number of tokens in the prompt.
    pub prompt_tokens: u64,
    /// Number of tokens that were generated.
    pub output_tokens: u64,
    /// Time to the first token; absent where none came.
    pub ttft_ns: Option<Nanos>,
    /// Time per output token after the first; absent for fewer than two.
    pub tpot_ns: Option<f64>,
    /// From request start to last token.
    pub end_to_end_ns: Option<Nanos>,
    /// Gaps between its tokens, ns.
    pub itl_ns: Option<ValueDistribution>,
}

/// The first pass compared with the later ones: what is paid once for compiling, allocating and filling caches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct FirstUse {
    /// What the first pass was: a warm-up, or the first measured one.
    pub pass: PassKind,
    /// Its mean time from request start to last token.
    pub first_ns: f64,
    /// The mean of the measured passes after it.
    pub later_ns: f64,
    /// `first_ns` less `later_ns`, in ns.
    #[serde(default)]
    pub extra_e2e_ns: f64,
    /// The same by its former name, which waterfalls have for overhead ops. Written until the next version.
    pub extra_ns: f64,
    /// The difference in its mean time to the first token.
    pub extra_ttft_ns: f64,
    /// Whether the first took longer than any later one, and than their mean by more than three of their deviations: not
    /// by chance.
    pub outside_later_range: bool,
    /// How much longer its median step took than the median step of the later passes, its first step left out: what is
    /// paid once for each length of the cache, not once for all. Absent where it could be chance, or the cache has one
    /// length.
    #[serde(default)]
    pub extra_step_ns: Option<f64>,
}

/// Means over the requests of one pass.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PassMeans {
    pub(crate) ttft: Option<f64>,
    pub(crate) tpot: Option<f64>,
    pub(crate) itl: Option<f64>,
    pub(crate) end_to_end: Option<f64>,
    prefill: Option<f64>,
    decode: Option<f64>,
    /// Tokens, and the seconds they took.
    pub(crate) tokens: Option<(f64, f64)>,
    /// Tokens after the first, and the seconds of decode.
    decode_tokens: Option<(f64, f64)>,
}

impl Latency {
    /// The latencies of a run, and the issues that put them in doubt.
    pub(crate) fn from_run(run: &RunRecord) -> (Self, Vec<Issue>) {
        let mut issues = Vec::new();
        let has = |kind| run.passes.iter().any(|pass| pass.kind == kind);
        let measured_in = [PassKind::Plain, PassKind::Captured]
            .into_iter()
            .find(|kind| has(*kind));
        if measured_in == Some(PassKind::Captured) {
            issues.push(Issue::warning(IssueCode::LatencyCaptured));
        }
        let mut latency = Self {
            measured_in,
            warm_up_passes: run
                .passes_of(PassKind::WarmUp)
                .filter(|&(number, _)| run.requests_of(number).next().is_some())
                .count() as u64,
            ..Self::default()
        };
        let mut means = Vec::new();
        let mut gaps = Vec::new();
        for (number, pass) in run.passes.iter().enumerate() {
            if Some(pass.kind) != measured_in {
                continue;
            }
            latency.repeats += 1;
            means.push(PassMeans::from_pass(run, number));
            for request in run.requests_of(number) {
                let row = RequestRow::from_request(number as u64, request, &mut issues);
                if row.ttft_ns.is_some() {
                    gaps.extend(gaps_of(request));
                }
                latency.requests.push(row);
            }
        }
        let over = |value: fn(&PassMeans) -> Option<f64>| {
            RepeatSummary::from_values(&means.iter().filter_map(value).collect::<Vec<_>>())
        };
        latency.ttft_ns = over(|pass| pass.ttft);
        latency.tpot_ns = over(|pass| pass.tpot);
        latency.end_to_end_ns = over(|pass| pass.end_to_end);
        latency.prefill_ns = over(|pass| pass.prefill);
        latency.decode_ns = over(|pass| pass.decode);
        let rate = |value: fn(&PassMeans) -> Option<(f64, f64)>| {
            RepeatSummary::of_rates(&means.iter().filter_map(value).collect::<Vec<_>>())
        };
        latency.tokens_per_s = rate(|pass| pass.tokens);
        latency.decode_tokens_per_s = rate(|pass| pass.decode_tokens);
        let ttfts: Vec<f64> = latency
            .requests
            .iter()
            .filter_map(|row| Some(row.ttft_ns?.0 as f64))
            .collect();
        latency.ttft_spread_ns = ValueDistribution::from_values(&ttfts);
        latency.itl_ns = ValueDistribution::from_values(&gaps);
        latency.first_use = FirstUse::from_run(run, measured_in);
        if latency.warm_up_passes == 0 && latency.repeats > 0 {
            issues.push(Issue::warning(IssueCode::LatencyNoWarmUp));
        }
        (latency, issues)
    }
}

impl RequestRow {
    fn from_request(pass: u64, request: &Request, issues: &mut Vec<Issue>) -> Self {
        let mut row = Self {
            pass,
            id: request.id.clone(),
            batch: request.batch,
            prompt_tokens: request.prompt_tokens,
            output_tokens: request.output_tokens,
            ttft_ns: None,
            tpot_ns: None,
            end_to_end_ns: None,
            itl_ns: None,
        };
        let Some((first, last)) = first_and_last(request) else {
            let issue = if request.token_ns.is_empty() {
                Issue::warning(IssueCode::LatencyNoTokens)
            } else {
                Issue::warning(IssueCode::LatencyUnorderedTokens)
            };
            issues.push(
                issue
                    .with("request", request.id.as_str())
                    .with("pass", pass),
            );
            return row;
        };
        row.ttft_ns = Some(time_since_start(request, first));
        row.end_to_end_ns = Some(time_since_start(request, last));
        row.tpot_ns = request_tpot(request);
        row.itl_ns = ValueDistribution::from_values(&gaps_of(request).collect::<Vec<_>>());
        row
    }
}

impl PassMeans {
    pub(crate) fn from_pass(run: &RunRecord, number: usize) -> Self {
        let pass = &run.passes[number];
        let ordered: Vec<(&Request, Nanos, Nanos)> = run
            .requests_of(number)
            .filter_map(|request| {
                let (first, last) = first_and_last(request)?;
                Some((request, first, last))
            })
            .collect();
        let mean =
            |values: Vec<f64>| RepeatSummary::from_values(&values).map(|summary| summary.mean);
        let since = |request: &Request, time: Nanos| time_since_start(request, time).0 as f64;
        let phase = |phase: RunPhase| {
            let time = phase_wall(pass, phase);
            (time.0 > 0).then_some(time.0 as f64)
        };
        let tokens: u64 = ordered
            .iter()
            .map(|(request, ..)| request.output_tokens)
            .fold(0, u64::saturating_add);
        let later_tokens: u64 = ordered
            .iter()
            .map(|(request, ..)| request.output_tokens.saturating_sub(1))
            .fold(0, u64::saturating_add);
        // Time between two batches of a pass does not count.
        let mut spans: Vec<(i64, i64)> = ordered
            .iter()
            .map(|&(request, _, last)| (request.start_ns.0, last.0))
            .collect();
        spans.sort_unstable();
        let span = Some(union_length(spans) as f64).filter(|span| *span > 0.0);
        let decode = phase(RunPhase::Decode);
        Self {
            ttft: mean(
                ordered
                    .iter()
                    .map(|&(r, first, _)| since(r, first))
                    .collect(),
            ),
            tpot: mean(
                ordered
                    .iter()
                    .filter_map(|&(r, ..)| request_tpot(r))
                    .collect(),
            ),
            itl: mean(ordered.iter().flat_map(|&(r, ..)| gaps_of(r)).collect()),
            end_to_end: mean(ordered.iter().map(|&(r, _, last)| since(r, last)).collect()),
            prefill: phase(RunPhase::Prefill),
            decode,
            tokens: span.map(|span| (tokens as f64, span / 1e9)),
            decode_tokens: decode
                .filter(|_| later_tokens > 0)
                .map(|decode| (later_tokens as f64, decode / 1e9)),
        }
    }
}

impl FirstUse {
    fn from_run(run: &RunRecord, measured_in: Option<PassKind>) -> Option<Self> {
        // Loading is a pass without requests.
        let served = |&number: &usize| run.requests_of(number).next().is_some();
        let first = (0..run.passes.len()).find(served)?;
        let first_means = PassMeans::from_pass(run, first);
        let measured: Vec<usize> = (first + 1..run.passes.len())
            .filter(|&number| Some(run.passes[number].kind) == measured_in)
            .collect();
        let later: Vec<PassMeans> = measured
            .iter()
            .map(|&number| PassMeans::from_pass(run, number))
            .collect();
        let over = |value: fn(&PassMeans) -> Option<f64>| {
            RepeatSummary::from_values(&later.iter().filter_map(value).collect::<Vec<_>>())
        };
        let (whole, ttft) = (over(|pass| pass.end_to_end)?, over(|pass| pass.ttft)?);
        let first_ns = first_means.end_to_end?;
        let (extra_e2e_ns, extra_ttft_ns) = (first_ns - whole.mean, first_means.ttft? - ttft.mean);
        Some(Self {
            pass: run.passes[first].kind,
            first_ns,
            later_ns: whole.mean,
            extra_e2e_ns,
            extra_ns: extra_e2e_ns,
            extra_ttft_ns,
            outside_later_range: first_ns > whole.max
                && first_ns - whole.mean
                    > FIRST_PASS_DEVIATIONS_MAX * whole.deviation.unwrap_or(0.0),
            // A median that the sum of the steps contradicts is chance.
            extra_step_ns: extra_step(run, first, &measured)
                .filter(|extra| !run.fixed_cache && extra_e2e_ns - extra_ttft_ns >= *extra),
        })
    }
}

/// Median step of the first pass less that of the later ones, without the first step of each request. Nothing where one
/// later step in ten took as long.
fn extra_step(run: &RunRecord, first: usize, later: &[usize]) -> Option<f64> {
    let steps = |pass: usize| -> Vec<f64> {
        run.requests_of(pass)
            .flat_map(|request| gaps_of(request).skip(1))
            .collect()
    };
    let once = ValueDistribution::from_values(&steps(first))?;
    let often: Vec<f64> = later.iter().flat_map(|&pass| steps(pass)).collect();
    let often = ValueDistribution::from_values(&often)?;
    (once.p50 > often.p90).then_some(once.p50 - often.p50)
}

/// First and last token of a request whose times make sense.
fn first_and_last(request: &Request) -> Option<(Nanos, Nanos)> {
    let (first, last) = (*request.token_ns.first()?, *request.token_ns.last()?);
    (first >= request.start_ns && request.token_ns.is_sorted()).then_some((first, last))
}

/// Times between tokens that follow each other.
pub(crate) fn gaps_of(request: &Request) -> impl Iterator<Item = f64> {
    request
        .token_ns
        .windows(2)
        .map(|pair| pair[1].0.saturating_sub(pair[0].0) as f64)
}

fn request_tpot(request: &Request) -> Option<f64> {
    let (first, last) = first_and_last(request)?;
    let gaps = request
        .output_tokens
        .checked_sub(1)
        .filter(|gaps| *gaps > 0)?;
    // Tokens that came at one moment have no rate.
    (request.token_ns.len() > 1).then(|| last.0.saturating_sub(first.0) as f64 / gaps as f64)
}

/// From the start of a request.
fn time_since_start(request: &Request, time: Nanos) -> Nanos {
    Nanos(time.0.saturating_sub(request.start_ns.0))
}

/// Time of a phase in a pass.
pub(crate) fn phase_wall(pass: &MeasuredPass, phase: RunPhase) -> Nanos {
    let spans = pass.phases.iter().filter(|span| span.phase == phase);
    let times = spans.map(|span| span.duration().0);
    Nanos(times.fold(0, i64::saturating_add))
}

pub(crate) fn load_time(record: &RunRecord) -> Option<Nanos> {
    let mut walls = record
        .passes
        .iter()
        .map(|pass| phase_wall(pass, RunPhase::Load));
    walls.find(|time| time.0 > 0)
}

/// Mean wall time of a phase in the plain passes of a run.
pub(crate) fn plain_wall(run: &RunRecord, phase: RunPhase) -> Option<Nanos> {
    let walls: Vec<f64> = run
        .passes_of(PassKind::Plain)
        .map(|(_, pass)| phase_wall(pass, phase).0 as f64)
        .filter(|wall| *wall > 0.0)
        .collect();
    RepeatSummary::from_values(&walls).map(|summary| Nanos(summary.mean.round() as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use llmprof_record::run::PhaseSpan;

    fn request(id: &str, start_ns: i64, token_ns: &[i64]) -> Request {
        Request {
            id: id.to_owned(),
            start_ns: Nanos(start_ns),
            token_ns: token_ns.iter().copied().map(Nanos).collect(),
            prompt_tokens: 8,
            output_tokens: token_ns.len() as u64,
            batch: 1,
            ..Request::default()
        }
    }

    fn pass(kind: PassKind, start: i64, scale: i64) -> (MeasuredPass, Vec<Request>) {
        let at = |time: i64| start + time * scale;
        let span = |phase, from, to| PhaseSpan {
            phase,
            start_ns: Nanos(at(from)),
            end_ns: Nanos(at(to)),
            passes: Vec::new(),
        };
        let pass = MeasuredPass {
            kind,
            phases: vec![
                span(RunPhase::Prefill, 0, 100),
                span(RunPhase::Decode, 100, 160),
            ],
            ..MeasuredPass::default()
        };
        let times = [at(100), at(110), at(130), at(160)];
        (pass, vec![request("a", start, &times)])
    }

    fn run(passes: Vec<(MeasuredPass, Vec<Request>)>) -> RunRecord {
        let mut run = RunRecord::default();
        for (number, (pass, requests)) in passes.into_iter().enumerate() {
            run.passes.push(pass);
            let requests = requests.into_iter();
            run.requests.extend(requests.map(|request| Request {
                pass: number,
                ..request
            }));
        }
        run
    }

    /// Two batches of one request each, 4 tokens in 160 ns, and 10 µs in which nothing of them ran.
    #[test]
    fn time_between_batches_is_in_no_rate() {
        let mut plain = pass(PassKind::Plain, 0, 1);
        let later = pass(PassKind::Plain, 10_160, 1);
        plain.0.phases.extend(later.0.phases);
        plain.1.extend(later.1);
        let run = run(vec![plain]);
        let rate = Latency::from_run(&run).0.tokens_per_s.unwrap().mean;
        assert!((rate - 8.0 / 320e-9).abs() < 1.0, "{rate}");
    }

    /// One request: start 0, tokens at 100, 110, 130, 160. TTFT 100, TPOT 60 ÷ 3 = 20, gaps 10, 20, 30; 4 tokens in
    /// 160 ns; 3 tokens in 60 ns of decode. Two passes, the second twice as slow; the warm-up ten times.
    #[test]
    fn two_repeats_by_hand() {
        let run = run(vec![
            pass(PassKind::WarmUp, 0, 10),
            pass(PassKind::Plain, 10_000, 1),
            pass(PassKind::Plain, 20_000, 2),
        ]);
        let (latency, issues) = Latency::from_run(&run);
        assert_eq!(issues, []);
        assert_eq!((latency.repeats, latency.warm_up_passes), (2, 1));
        let mean = |summary: Option<RepeatSummary>| summary.unwrap().mean;
        assert_eq!(mean(latency.ttft_ns), 150.0);
        assert_eq!(mean(latency.tpot_ns), 30.0);
        assert_eq!(mean(latency.prefill_ns), 150.0);
        assert_eq!(mean(latency.decode_ns), 90.0);
        // 8 tokens in 480 ns, and 6 in 180 ns of decode: one every 30 ns, as TPOT has it.
        assert!((mean(latency.tokens_per_s) - 8e9 / 480.0).abs() < 1.0);
        assert!((mean(latency.decode_tokens_per_s) - 1e9 / 30.0).abs() < 1.0);
        let itl = latency.itl_ns.unwrap();
        // 10, 20, 20, 30, 40, 60: the median lies between 20 and 30.
        assert_eq!((itl.count, itl.p50, itl.max), (6, 25.0, 60.0));
        let first = latency.first_use.unwrap();
        assert_eq!(
            (first.pass, first.first_ns, first.later_ns),
            (PassKind::WarmUp, 1600.0, 240.0)
        );
        assert_eq!((first.extra_e2e_ns, first.extra_ttft_ns), (1360.0, 850.0));
        assert_eq!(first.extra_ns, first.extra_e2e_ns);
        assert!(first.outside_later_range);
        // Steps after the first one: 200 and 300 in the warm-up; 20, 30, 40 and 60 in the others.
        assert_eq!(first.extra_step_ns, Some(250.0 - 35.0));
        let fixed = RunRecord {
            fixed_cache: true,
            ..run
        };
        let fixed = Latency::from_run(&fixed).0.first_use.unwrap();
        assert_eq!(fixed.extra_step_ns, None, "no length is new");
        assert_eq!(latency.requests.len(), 2);
        assert_eq!(latency.requests[1].pass, 2);
    }

    #[test]
    fn a_first_pass_that_is_longer_by_chance_is_no_first_use() {
        let outside = |first: i64| {
            let mut passes = vec![pass(PassKind::WarmUp, 0, first)];
            passes.extend([19, 20, 21].map(|pace| pass(PassKind::Plain, 100_000, pace)));
            let run = run(passes);
            Latency::from_run(&run)
                .0
                .first_use
                .unwrap()
                .outside_later_range
        };
        assert!(!outside(20) && !outside(22) && !outside(23));
        assert!(outside(24));
    }

    /// The median of the first pass's later steps is 31 ns against 25, but its steps together take no longer.
    #[test]
    fn a_median_step_that_the_sum_contradicts_is_chance() {
        let first = |gap: i64| {
            let (pass, _) = pass(PassKind::WarmUp, 0, 1);
            let times = [1000, 1000 + gap, 1031 + gap, 1062 + gap];
            (pass, vec![request("a", 0, &times)])
        };
        let extra = |gap: i64| {
            let run = run(vec![first(gap), pass(PassKind::Plain, 10_000, 1)]);
            Latency::from_run(&run).0.first_use.unwrap().extra_step_ns
        };
        // 10 + 20 + 30 in the plain pass.
        assert_eq!(extra(3), None);
        assert_eq!(extra(4), Some(6.0));
    }

    #[test]
    fn loading_is_no_first_use() {
        let load = MeasuredPass {
            kind: PassKind::WarmUp,
            ..MeasuredPass::default()
        };
        let run = run(vec![
            (load, Vec::new()),
            pass(PassKind::WarmUp, 0, 3),
            pass(PassKind::Plain, 10_000, 1),
        ]);
        let first = Latency::from_run(&run).0.first_use.unwrap();
        assert_eq!((first.first_ns, first.later_ns), (480.0, 160.0));
    }

    #[test]
    fn a_batch_counts_the_tokens_of_all_its_requests() {
        let mut pass = pass(PassKind::Plain, 0, 1);
        pass.1.push(request("b", 0, &[100, 110, 130, 160]));
        let run = run(vec![pass]);
        let (latency, issues) = Latency::from_run(&run);
        assert!((latency.tokens_per_s.unwrap().mean - 50e6).abs() < 1.0);
        assert!((latency.decode_tokens_per_s.unwrap().mean - 100e6).abs() < 1.0);
        assert_eq!(issues[0].code, IssueCode::LatencyNoWarmUp);
    }

    #[test]
    fn broken_requests_are_named_and_left_out() {
        let mut pass = pass(PassKind::Plain, 0, 1);
        pass.1.push(request("none", 0, &[]));
        pass.1.push(request("early", 500, &[100, 600]));
        pass.1.push(request("extreme", i64::MIN, &[i64::MAX]));
        let run = run(vec![pass.clone(), pass]);
        let (latency, issues) = Latency::from_run(&run);
        let named = |code, request: &str| {
            let is_named =
                |issue: &&Issue| issue.code == code && issue.values["request"] == request;
            issues.iter().filter(is_named).count()
        };
        let none = named(IssueCode::LatencyNoTokens, "none");
        let early = named(IssueCode::LatencyUnorderedTokens, "early");
        assert_eq!((none, early), (2, 2));
        assert_eq!(latency.itl_ns.unwrap().count, 6);
        assert_eq!(latency.requests.len(), 8);
    }

    #[test]
    fn an_empty_run_has_no_latency() {
        let (latency, issues) = Latency::from_run(&RunRecord::default());
        assert_eq!((latency, issues), (Latency::default(), Vec::new()));
    }
}
