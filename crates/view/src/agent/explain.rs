//! One finding, kernel, phase, step or request with all that is known of it.

use std::collections::BTreeMap;

use llmprof_analysis::causes::PhaseGain;
use llmprof_analysis::serving::parts;
use llmprof_report::{
    compose::{concluded_findings, phases},
    text::waterfall::idle_cause,
};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::{Answer, AnswerBody, ms, percent};
use super::findings::{FindingAnswer, NOT_RECORDED, cause_of};
use super::kernels::KernelAnswer;
use super::place::find_phase;
use super::recorded_text::{RecordedNames, RecordedText};
use super::summary::PhaseAnswer;
use super::{Next, PlaceId, RunAnswers};

const EVIDENCE_MAX: usize = 12;
const STEPS_MAX: usize = 3;
const LAUNCHES_MAX: usize = 4;
const OPERATORS_MAX: usize = 6;
const PARTS_MAX: usize = 12;

/// A finding with its evidence.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FindingExplained {
    /// `RUN#finding=1` for `llmprof view`.
    pub view: String,
    #[serde(flatten)]
    pub finding: FindingAnswer,
    /// The numbers behind it.
    pub evidence: Vec<String>,
    /// Codes of findings that are partly about the same time: gains do not add up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub same_time_as: Vec<String>,
    /// The phases it is about.
    pub phases: Vec<PhaseAnswer>,
    /// Intervals of those phases in which it can be looked at.
    pub steps: Vec<StepAnswer>,
    /// How exactly the unchanged timeline replays.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replay: Vec<String>,
}

impl AnswerBody for FindingExplained {
    const NAME: &'static str = "explain_finding";
    const CUT: &'static [&'static str] = &["replay", "evidence", "phases", "steps"];
}

/// An interval of a phase.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StepAnswer {
    /// For `explain` and `llmprof view RUN#step=4`.
    pub id: String,
    /// Name of the phase.
    pub phase: RecordedText,
    /// When the step began.
    pub start_ms: f64,
    /// Duration of the step.
    pub duration_ms: f64,
}

/// A kernel with its launches.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct KernelExplained {
    /// The place for `llmprof view`.
    pub view: String,
    #[serde(flatten)]
    pub kernel: KernelAnswer,
    /// Demangled name.
    pub full_name: RecordedText,
    /// Launch configurations, the longest total first.
    pub launches: Vec<LaunchAnswer>,
    /// Operators and modules that launch it.
    pub launched_by: Vec<LauncherAnswer>,
    /// Its longest launches as places for `window` and `llmprof view RUN#window=…`.
    pub longest: Vec<String>,
}

impl AnswerBody for KernelExplained {
    const NAME: &'static str = "explain_kernel";
    const CUT: &'static [&'static str] = &["launched_by", "launches", "longest"];
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LaunchAnswer {
    /// Blocks of the grid.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Registers of a thread.
    pub registers: u32,
    /// Shared memory of a block.
    pub shared_bytes: u64,
    /// Number of calls.
    pub calls: u64,
    /// Time of all calls.
    pub total_ms: f64,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LauncherAnswer {
    /// Operator that launches it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<RecordedText>,
    /// Module that launches it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<RecordedText>,
    /// Number of calls.
    pub calls: u64,
    /// Time of all calls.
    pub total_ms: f64,
}

/// Where the time of a phase went.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PhaseExplained {
    /// The place for `llmprof view`.
    pub view: String,
    #[serde(flatten)]
    pub phase: PhaseAnswer,
    /// What limits it, with the reason.
    pub why: String,
    /// Parts of the wall time of the captured pass, ms: they add up to it, `overlap` counted negative.
    pub parts_ms: BTreeMap<&'static str, f64>,
    /// Idle time by cause.
    pub idle_ms: BTreeMap<String, f64>,
    /// Kernels with most time in it.
    pub kernels: Vec<PhaseKernelAnswer>,
    /// Its longest interval and its first ones.
    pub steps: Vec<StepAnswer>,
}

impl AnswerBody for PhaseExplained {
    const NAME: &'static str = "explain_phase";
    const CUT: &'static [&'static str] = &["kernels", "steps"];
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PhaseKernelAnswer {
    /// Name of the kernel.
    pub name: RecordedText,
    /// Category of the kernel.
    pub category: &'static str,
    /// Number of calls.
    pub calls: u64,
    /// Time of all calls.
    pub total_ms: f64,
}

/// A request of a served load.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RequestExplained {
    /// Number of the request.
    pub request: u64,
    /// When it was due, since the start of the load.
    pub due_ms: f64,
    /// Time to first token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<f64>,
    /// Time per output token after the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpot_ms: Option<f64>,
    /// Time to the last token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub e2e_ms: Option<f64>,
    /// Prompt tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u64>,
    /// Output tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Parts of its latency, which add up to it.
    pub parts_ms: BTreeMap<&'static str, f64>,
    /// Share of completed requests with a shorter latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slower_than_pct: Option<f64>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<RecordedText>,
}

impl AnswerBody for RequestExplained {
    const NAME: &'static str = "explain_request";
    const CUT: &'static [&'static str] = &[];
}

impl RunAnswers<'_> {
    pub(super) fn explain_finding(
        &self,
        number: usize,
    ) -> Result<Answer<FindingExplained>, String> {
        let analysis = self.analysis()?;
        let document = self.digest();
        let count = document.findings.len();
        let finding = number.checked_sub(1);
        let finding = finding.and_then(|place| concluded_findings(analysis).nth(place));
        let item = document.findings.get(number.wrapping_sub(1));
        let (Some(finding), Some(item)) = (finding, item) else {
            return Err(match count {
                0 => {
                    "the run has no finding: no cause or limit is supported by the data".to_owned()
                }
                _ => format!("findings are numbered from 1 to {count}"),
            });
        };
        let mut names = RecordedNames::in_value(finding);
        names.extend(super::summary::names_of(analysis));
        let answered = self.numbered(&document, number).into_iter().next();
        let answered = answered.ok_or("the finding cannot be worded")?;
        let cause = cause_of(finding);
        // A cause is about the phases that it has gains in, any other finding about its own.
        let gains = cause.map_or(&[][..], |cause| &cause.gains);
        let mut about: Vec<&str> = gains.iter().map(PhaseGain::phase_name).collect();
        about.extend(finding.phase_name());
        let phases = (1..).zip(&analysis.phases);
        let phases: Vec<PhaseAnswer> = phases
            .filter(|(_, phase)| about.contains(&phase.name()))
            .map(PhaseAnswer::new)
            .collect();
        let replay = analysis.replays.iter().filter(|replay| {
            about.contains(&replay.label.as_deref().unwrap_or(replay.phase.name()))
        });
        let replay = replay.map(|replay| {
            format!(
                "{}: recorded {} ms, replay off by {:+.1} %",
                names.mark(replay.label.as_deref().unwrap_or(replay.phase.name())),
                ms(replay.recorded_ns.0 as f64),
                // Adding zero takes the sign from a rounded -0.0.
                (1000.0 * replay.error).round() / 10.0 + 0.0
            )
        });
        let steps = self.steps_of(&about);
        let evidence = item.evidence.iter().take(EVIDENCE_MAX);
        let body = FindingExplained {
            view: self.asked.view(&PlaceId::Finding(number)),
            evidence: evidence.map(|line| names.mark(line)).collect(),
            same_time_as: cause.map_or_else(Vec::new, |cause| cause.same_time_as.clone()),
            phases,
            replay: replay.collect(),
            finding: answered,
            steps,
        };
        let mut next = Vec::new();
        if let Some(step) = body.steps.first() {
            let why = "what ran and what was idle in one interval of this phase";
            next.push(
                self.asked
                    .next("explain", &[("id", step.id.as_str().into())], why),
            );
        }
        if number < count {
            let id = PlaceId::Finding(number + 1).to_string();
            let why = "the next finding";
            next.push(
                self.asked
                    .next("explain", &[("id", id.as_str().into())], why),
            );
        }
        let mut answer = self.answer(body);
        if let Some(why) = answer.body.finding.no_place {
            let how = if why == NOT_RECORDED {
                "; torch.profiler with with_stack=True, or `llmprof record`, which samples host stacks, would show it"
            } else {
                ""
            };
            answer.abstained.push(format!("place: {why}{how}"));
        }
        if let Some(why) = &answer.body.finding.no_gain {
            answer.abstained.push(format!("gain: {why}"));
        }
        answer.next = next;
        Ok(answer)
    }

    /// The longest interval of the named phases, then their first ones.
    fn steps_of(&self, names: &[&str]) -> Vec<StepAnswer> {
        let timeline = &self.run.timeline;
        let own = timeline.phases.iter().enumerate();
        let own: Vec<(usize, &(String, i64, i64))> = own
            .filter(|(_, (name, ..))| names.contains(&name.as_str()))
            .collect();
        let longest = own.iter().max_by_key(|(_, (_, start, end))| end - start);
        let mut chosen: Vec<usize> = longest.map(|(number, _)| *number).into_iter().collect();
        for (number, _) in &own {
            if chosen.len() < STEPS_MAX && !chosen.contains(number) {
                chosen.push(*number);
            }
        }
        let answers = chosen.into_iter().map(|number| {
            let (name, start, end) = &timeline.phases[number];
            StepAnswer {
                id: PlaceId::Step(number).to_string(),
                phase: RecordedText::new(name),
                start_ms: ms((start - timeline.origin) as f64),
                duration_ms: ms((end - start) as f64),
            }
        });
        answers.collect()
    }

    pub(super) fn explain_kernel(&self, number: usize) -> Result<Answer<KernelExplained>, String> {
        let rows = self.kernel_rows()?;
        let row = number.checked_sub(1).and_then(|place| rows.get(place));
        let row = row.ok_or_else(|| match rows.len() {
            0 => "the timeline has no kernels".to_owned(),
            count => format!("kernels are numbered from 1 to {count}"),
        })?;
        let (launched_by, longest) = self.launchers_of(&row.name);
        let launches = row.launches.iter().take(LAUNCHES_MAX);
        let launches = launches.map(|launch| LaunchAnswer {
            grid: launch.grid,
            block: launch.block,
            registers: launch.registers,
            shared_bytes: launch.shared_bytes.0,
            calls: launch.calls,
            total_ms: ms(launch.total_ns.0 as f64),
        });
        let body = KernelExplained {
            view: self.asked.view(&PlaceId::Kernel(number)),
            kernel: KernelAnswer::new(number, row),
            full_name: RecordedText::new(&row.name),
            launches: launches.collect(),
            launched_by,
            longest: longest.iter().map(ToString::to_string).collect(),
        };
        let mut next = Vec::new();
        if let Some(first) = longest.first() {
            let id = first.to_string();
            let why = "what ran during its longest launch";
            next.push(
                self.asked
                    .next("explain", &[("id", id.as_str().into())], why),
            );
        }
        next.push(self.asked.next("findings", &[], "causes with their gains"));
        let mut answer = self.answer(body);
        if answer
            .body
            .launched_by
            .iter()
            .all(|by| by.operator.is_none())
        {
            let why = "launched_by: the trace links none of its launches to an operator";
            answer.abstained.push(why.to_owned());
        }
        answer.next = next;
        Ok(answer)
    }

    /// What launches a kernel, and its longest launches.
    fn launchers_of(&self, name: &str) -> (Vec<LauncherAnswer>, Vec<PlaceId>) {
        let timeline = &self.run.timeline;
        let mut sums: FxHashMap<(Option<String>, Option<String>), (u64, i64)> =
            FxHashMap::default();
        let mut longest: Vec<(i64, i64)> = Vec::new();
        for shown in &timeline.traces {
            let trace = &self.run.record.traces[shown.index].trace;
            for row in 0..trace.kernels.len() {
                if trace.text(trace.kernels.name[row]) != name {
                    continue;
                }
                let kernel = trace.kernels.row(row);
                let origin = shown.origins.of_kernel(row);
                let operator = origin.operator.map(|operator| {
                    let operator = trace.hosts.row(operator as usize);
                    trace.text(operator.name).to_owned()
                });
                let module = shown.origins.modules(trace, origin);
                let sum = sums.entry((operator, module)).or_default();
                sum.0 += 1;
                sum.1 = sum.1.saturating_add(kernel.duration);
                let start = kernel.start + shown.shift - timeline.origin;
                longest.push((kernel.duration, start));
                if longest.len() > 2 * STEPS_MAX {
                    longest.sort_unstable_by_key(|launch| std::cmp::Reverse(launch.0));
                    longest.truncate(STEPS_MAX);
                }
            }
        }
        longest.sort_unstable_by_key(|launch| (std::cmp::Reverse(launch.0), launch.1));
        let longest = longest.into_iter().take(STEPS_MAX);
        let longest =
            longest.map(|(duration, start)| PlaceId::Window(start.max(0), start + duration.max(1)));
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by(|a, b| b.1.1.cmp(&a.1.1).then_with(|| a.0.cmp(&b.0)));
        let launchers = sums.into_iter().take(OPERATORS_MAX);
        let launchers = launchers.map(|((operator, module), (calls, total))| LauncherAnswer {
            operator: operator.as_deref().map(RecordedText::new),
            module: module.as_deref().map(RecordedText::new),
            calls,
            total_ms: ms(total as f64),
        });
        (launchers.collect(), longest.collect())
    }

    pub(super) fn explain_phase(&self, name: &str) -> Result<Answer<PhaseExplained>, String> {
        let analysis = self.analysis()?;
        let (number, phase) = find_phase(analysis, name).ok_or_else(|| {
            let names = (1..).zip(&analysis.phases).take(PARTS_MAX);
            let names: Vec<String> = names
                .map(|(number, phase)| PlaceId::of_phase(number, phase).to_string())
                .collect();
            match names.as_slice() {
                [] => "the run shows no phases".to_owned(),
                names => format!("phases are: {}", names.join(", ")),
            }
        })?;
        let waterfall = &phase.waterfall;
        let parts = [
            ("roofline", waterfall.roofline_ns),
            ("kernel_inefficiency", waterfall.inefficiency_ns),
            (
                "matched_operators",
                waterfall
                    .roofline_ns
                    .is_none()
                    .then_some(waterfall.matched_ns),
            ),
            ("overhead_ops", Some(waterfall.extra_ns)),
            ("copies", Some(waterfall.copies_ns)),
            ("communication", Some(waterfall.communication_ns)),
            ("unattributed", Some(waterfall.unattributed_ns)),
            ("idle", Some(waterfall.idle_ns)),
            (
                "overlap",
                Some(llmprof_units::Nanos(-waterfall.overlap_ns.0)),
            ),
        ];
        let parts = parts.into_iter().filter_map(|(name, time)| {
            let time = time.filter(|time| time.0 != 0)?;
            Some((name, ms(time.0 as f64)))
        });
        let idle = waterfall.idle.iter().filter(|part| part.time_ns.0 > 0);
        let idle = idle.take(PARTS_MAX).map(|part| {
            let words = idle_cause(&part.name);
            let words = words.strip_prefix("idle: ").unwrap_or(&words).to_owned();
            (words, ms(part.time_ns.0 as f64))
        });
        let kernels = phase
            .traced
            .iter()
            .flat_map(|traced| &traced.longest_kernels);
        let kernels = kernels.take(PARTS_MAX).map(|kernel| PhaseKernelAnswer {
            name: RecordedText::new(&llmprof_report::kernel_label(&kernel.name)),
            category: kernel.category.name(),
            calls: kernel.calls,
            total_ms: ms(kernel.time_ns.0 as f64),
        });
        let names = RecordedNames::from_texts([phase.name()]);
        let body = PhaseExplained {
            view: self.asked.view(&PlaceId::of_phase(number, phase)),
            phase: PhaseAnswer::new((number, phase)),
            why: names.mark(&phases::sentences::why(phase)),
            parts_ms: parts.collect(),
            idle_ms: idle.collect(),
            kernels: kernels.collect(),
            steps: self.steps_of(&[phase.name()]),
        };
        let mut next = Vec::new();
        if let Some(step) = body.steps.first() {
            let why = "its longest interval";
            next.push(
                self.asked
                    .next("explain", &[("id", step.id.as_str().into())], why),
            );
        }
        next.push(self.asked.next("findings", &[], "causes with their gains"));
        let mut answer = self.answer(body);
        if waterfall.roofline_ns.is_none() {
            let why = "roofline: model and device are not both known; `llmprof import FILE model=NAME --device NAME` names them";
            answer.abstained.push(why.to_owned());
        }
        answer.next = next;
        Ok(answer)
    }

    /// The completed request of a load that took longest.
    pub(super) fn slowest_request(&self) -> Option<u64> {
        let load = self.run.record.load.as_ref()?;
        let completed = load.load.requests.iter().filter(|one| one.is_complete());
        let slowest = completed.max_by_key(|one| one.e2e_ns())?;
        Some(slowest.index)
    }

    /// The question about the slowest request.
    pub(super) fn next_request(&self, slowest: u64) -> Next {
        let id = PlaceId::Request(slowest).to_string();
        let why = "parts of the latency of the slowest request";
        self.asked
            .next("explain", &[("id", id.as_str().into())], why)
    }

    pub(super) fn explain_request(&self, index: u64) -> Result<Answer<RequestExplained>, String> {
        let load = self.run.record.load.as_ref();
        let load = load.ok_or("the run is not a served load, so it has no requests")?;
        let (requests, started) = (&load.load.requests, load.load.started_unix_ns);
        let request = requests.iter().find(|request| request.index == index);
        let request = request.ok_or_else(|| {
            let last = requests.iter().map(|request| request.index).max();
            match last {
                Some(last) => format!("requests are numbered from 0 to {last}"),
                None => "the load has no requests".to_owned(),
            }
        })?;
        let each = parts::split_requests(requests, started, &load.steps);
        let own = each.iter().find(|parts| parts.index == index);
        let parts = own.map_or_else(BTreeMap::new, |own| {
            let parts = [
                ("client", own.client_ns),
                ("connect", own.connect_ns),
                ("queue_prefill_network", own.unsplit_ns),
                ("running_step", own.running_step_ns),
                ("queue", own.queue_ns),
                ("prefill", own.prefill_ns),
                ("network", own.network_ns),
                ("decode", own.decode_ns),
                ("others_prefill", own.others_prefill_ns),
                ("stall", own.stall_ns),
            ];
            let parts = parts.into_iter().filter(|(_, time)| time.0 != 0);
            parts
                .map(|(name, time)| (name, ms(time.0 as f64)))
                .collect()
        });
        let done = request.is_complete();
        let latency = request.e2e_ns().filter(|_| done);
        let slower_than = latency.map(|own| {
            let others = requests.iter().filter(|other| other.is_complete());
            let others: Vec<i64> = others
                .filter_map(llmprof_record::serving::RequestRecord::e2e_ns)
                .map(|time| time.0)
                .collect();
            let shorter = others.iter().filter(|time| **time < own.0).count();
            percent(shorter as f64, others.len() as f64)
        });
        let slowest = self.slowest_request();
        let body = RequestExplained {
            request: index,
            due_ms: ms(request.scheduled_ns.0 as f64),
            ttft_ms: request.ttft_ns().filter(|_| done).map(|ns| ms(ns.0 as f64)),
            tpot_ms: request.tpot_ns().filter(|_| done).map(ms),
            e2e_ms: latency.map(|ns| ms(ns.0 as f64)),
            prompt_tokens: request.prompt_tokens,
            output_tokens: request.output_tokens,
            parts_ms: parts,
            slower_than_pct: slower_than,
            failure: request
                .failure
                .as_ref()
                .map(|failure| RecordedText::new(&failure.message)),
        };
        let mut answer = self.answer(body);
        if answer.body.parts_ms.is_empty() {
            let why = "parts_ms: only completed requests that streamed have them";
            answer.abstained.push(why.to_owned());
        }
        let slowest = slowest.filter(|slowest| *slowest != index);
        answer
            .next
            .extend(slowest.map(|slowest| self.next_request(slowest)));
        answer
            .next
            .push(self.asked.next("summary", &[], "the load as a whole"));
        Ok(answer)
    }
}
