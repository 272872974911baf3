//! What a load says, and its files.

use llmprof_analysis::serving::{
    Evidence, Finding, MeanParts, NoFindings, SelfCheck, Summary, findings,
    parts::{self, Parts},
};
use llmprof_load::{arrivals::Arrivals, slo::Slo};
use llmprof_record::{
    issue::Issue,
    serving::{EngineStep, Gauges, RequestRecord, ServerFamily, ServerWindow},
    store::RunDir,
};
use llmprof_report::vllm_bench;
use llmprof_units::Nanos;
use serde::Serialize;

use super::{session::Measured, telemetry::GpuOutcome};
use crate::failure::Failure;

/// Everything that is said of a load: `bench.json`, and what `--json` prints.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    pub(super) endpoint: String,
    pub(super) model: String,
    pub(super) load: String,
    pub(super) arrivals: Arrivals,
    #[serde(flatten)]
    pub(super) summary: Summary,
    pub(super) slos: Vec<SloOutcome>,
    pub(super) self_check: SelfCheck,
    /// Where the mean request's time went, of the requests that latencies are of.
    pub(super) parts: Option<MeanParts>,
    /// The same of requests that the server's profiler recorded and slowed, split by its steps.
    pub(super) profiled_parts: Option<MeanParts>,
    pub(super) server: Option<ServerOutcome>,
    pub(super) steps: Option<StepsOutcome>,
    /// GPUs of this machine.
    pub(super) gpus: Vec<GpuOutcome>,
    pub(super) findings: Vec<Finding>,
    /// Why there are none.
    pub(super) no_findings: Option<NoFindings>,
    pub(super) issues: Vec<Issue>,
}

/// An objective, and what was measured.
#[derive(Debug, Serialize)]
pub(super) struct SloOutcome {
    pub(super) slo: String,
    pub(super) value_ms: Option<f64>,
    pub(super) is_met: bool,
}

/// What the server says.
#[derive(Debug, Serialize)]
pub(super) struct ServerOutcome {
    pub(super) family: &'static str,
    /// Whose options findings may name.
    #[serde(skip)]
    pub(super) server: ServerFamily,
    #[serde(flatten)]
    pub(super) window: ServerWindow,
    pub(super) kv_usage_max: Option<f64>,
    pub(super) running_max: Option<f64>,
    pub(super) waiting_max: Option<f64>,
}

/// Engine steps of the server's trace.
#[derive(Debug, Serialize)]
pub(super) struct StepsOutcome {
    pub(super) count: usize,
    pub(super) with_prefill: usize,
    pub(super) mean_decode_batch: f64,
    /// Time in steps ÷ from the first to the last.
    pub(super) busy_share: f64,
    /// By what their sequences do.
    pub(super) kinds: Vec<StepKindOutcome>,
}

/// Engine steps of one kind.
#[derive(Debug, Serialize)]
pub(super) struct StepKindOutcome {
    /// `prefill`, `decode` or `mixed`.
    pub(super) kind: &'static str,
    pub(super) count: usize,
    pub(super) mean_ms: f64,
    pub(super) mean_sequences: f64,
    pub(super) mean_new_tokens: f64,
    /// GPU busy ÷ time of the steps; absent where no GPU was recorded.
    pub(super) gpu_busy_share: Option<f64>,
    /// Roofline time of a step's batch, mean; absent where the model or the device is not known.
    pub(super) roofline_ms: Option<f64>,
    /// Roofline time ÷ time of the steps.
    pub(super) roofline_share: Option<f64>,
}

impl Outcome {
    pub(super) fn of(
        measured: &Measured,
        each: &[Parts],
        request: &super::request::Request,
        slos: &[Slo],
        shared_prefix: f64,
    ) -> Self {
        let self_check = SelfCheck::of(&measured.load);
        let said = measured.said.as_ref().map(|(_, window)| window);
        let mean = parts::mean(each, &measured.load, said);
        let gauges = measured
            .server
            .as_ref()
            .map_or(&[][..], |server| &server.scrapes.gauges);
        let (findings, no_findings) = match findings(Evidence {
            self_check: &self_check,
            mean: mean.as_ref(),
            window: said,
            gauges,
            steps: &measured.steps,
            shared_prefix,
        }) {
            Ok(found) => (found, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        let most = |value: fn(&Gauges) -> Option<f64>| {
            gauges
                .iter()
                .filter_map(|(_, gauges)| value(gauges))
                .reduce(f64::max)
        };
        Self {
            endpoint: request.target(),
            model: request.template().model.clone(),
            load: request.describe(),
            arrivals: request.arrivals.clone(),
            summary: measured.summary.clone(),
            slos: slos
                .iter()
                .map(|slo| SloOutcome {
                    slo: slo.to_string(),
                    value_ms: slo.value(&measured.summary),
                    is_met: slo.is_met(&measured.summary),
                })
                .collect(),
            self_check,
            parts: mean,
            profiled_parts: parts::mean_profiled(each, &measured.load),
            server: measured
                .said
                .as_ref()
                .map(|(family, window)| ServerOutcome {
                    family: family.name(),
                    server: *family,
                    window: window.clone(),
                    kv_usage_max: most(|g| g.kv_usage),
                    running_max: most(|g| g.running),
                    waiting_max: most(|g| g.waiting),
                }),
            steps: steps(&measured.steps),
            gpus: measured
                .samples
                .as_ref()
                .map_or_else(Vec::new, |samples| GpuOutcome::all(samples, &measured.load)),
            findings,
            no_findings,
            issues: measured.issues.clone(),
        }
    }

    /// Writes what programs read; pages for people are made by `page`.
    pub(super) fn write(
        &self,
        measured: &Measured,
        each: &[Parts],
        store: &RunDir,
    ) -> Result<(), Failure> {
        store.write("bench.json", text(self)?)?;
        store.write("requests.csv", csv(&measured.load.requests, each))?;
        let date = crate::clock::now();
        let vllm = vllm_bench(
            &measured.load,
            &measured.summary,
            &self.arrivals,
            &self.model,
            &date,
        );
        store.write("vllm_bench.json", text(&vllm)?)?;
        if let Some(server) = &measured.server {
            store.write("server/metrics.txt", &server.scrapes.raw)?;
            store.write("server/metrics_window.json", text(&server.window)?)?;
        }
        for (index, (_, scrapes)) in measured.others.iter().enumerate() {
            store.write(&format!("server/metrics_{}.txt", index + 1), &scrapes.raw)?;
        }
        if let Some(samples) = &measured.samples {
            store.write("telemetry.csv", samples.host_csv())?;
            if let Some(text) = samples.nvml_csv() {
                store.write("nvml.csv", text)?;
            }
        }
        if !measured.steps.is_empty() {
            store.write(
                "server/steps.csv",
                steps_csv(&measured.steps, measured.load.started_unix_ns),
            )?;
        }
        Ok(())
    }
}

fn text<T: Serialize>(value: &T) -> Result<String, Failure> {
    serde_json::to_string_pretty(value)
        .map(|text| text + "\n")
        .map_err(|error| Failure::new(format!("cannot write JSON: {error}")))
}

fn steps(steps: &[EngineStep]) -> Option<StepsOutcome> {
    let (first, last) = (steps.first()?, steps.last()?);
    let busy: Nanos = steps
        .iter()
        .map(|step| step.end_unix_ns - step.start_unix_ns)
        .sum();
    let span = (last.end_unix_ns - first.start_unix_ns).max(Nanos(1));
    let decoding: Vec<u64> = steps
        .iter()
        .map(|step| step.decode.sequences)
        .filter(|n| *n > 0)
        .collect();
    Some(StepsOutcome {
        count: steps.len(),
        with_prefill: steps
            .iter()
            .filter(|step| step.prefill.sequences > 0)
            .count(),
        mean_decode_batch: decoding.iter().sum::<u64>() as f64 / decoding.len().max(1) as f64,
        busy_share: busy.0 as f64 / span.0 as f64,
        kinds: ["prefill", "decode", "mixed"]
            .into_iter()
            .filter_map(|kind| of_kind(kind, steps))
            .collect(),
    })
}

fn of_kind(kind: &'static str, steps: &[EngineStep]) -> Option<StepKindOutcome> {
    let own: Vec<&EngineStep> = steps
        .iter()
        .filter(|step| {
            kind == match (step.prefill.sequences, step.decode.sequences) {
                (_, 0) => "prefill",
                (0, _) => "decode",
                _ => "mixed",
            }
        })
        .collect();
    if own.is_empty() {
        return None;
    }
    let mean = |value: &dyn Fn(&EngineStep) -> f64| {
        own.iter().map(|step| value(step)).sum::<f64>() / own.len() as f64
    };
    let mean_ms = mean(&|step| (step.end_unix_ns - step.start_unix_ns).millis());
    let mean_of = |value: fn(&EngineStep) -> Option<Nanos>| {
        let all: Option<Vec<Nanos>> = own.iter().map(|step| value(step)).collect();
        all.map(|all| all.into_iter().sum::<Nanos>().millis() / own.len() as f64)
    };
    let busy_ms = mean_of(|step| step.busy_ns);
    let roofline_ms = mean_of(|step| step.roofline_ns);
    // A range of the host may end before the GPU is done with what it launched.
    let taken_ms = mean(&|step| taken(step).millis());
    Some(StepKindOutcome {
        kind,
        count: own.len(),
        mean_ms,
        mean_sequences: mean(&|step| (step.prefill.sequences + step.decode.sequences) as f64),
        mean_new_tokens: mean(&|step| (step.prefill.tokens + step.decode.tokens) as f64),
        gpu_busy_share: busy_ms
            .filter(|_| taken_ms > 0.0)
            .map(|busy| busy / taken_ms),
        roofline_ms,
        roofline_share: roofline_ms
            .filter(|_| taken_ms > 0.0)
            .map(|roofline| roofline / taken_ms),
    })
}

/// The time of a step: its range, or the work of the GPU where that is longer.
fn taken(step: &EngineStep) -> Nanos {
    let range = step.end_unix_ns - step.start_unix_ns;
    range.max(step.busy_ns.unwrap_or(Nanos(0)))
}

/// One line a request; times in milliseconds from the start of the load, parts of its latency after them.
fn csv(requests: &[RequestRecord], each: &[Parts]) -> String {
    let mut text = String::from(
        "request,session,turn,scheduled_ms,sent_ms,first_token_ms,last_token_ms,end_ms,prompt_tokens,output_tokens,token_basis,\
         ttft_ms,tpot_ms,e2e_ms,client_ms,connect_ms,queue_prefill_network_ms,running_step_ms,queue_ms,prefill_ms,network_ms,decode_ms,\
         others_prefill_ms,stall_ms,split_by,profiled,failure,message\n",
    );
    let ms = |ns: Option<f64>| ns.map_or(String::new(), |ns| format!("{:.6}", ns / 1e6));
    let whole = |ns: Option<Nanos>| ms(ns.map(|ns| ns.0 as f64));
    let count = |count: Option<u64>| count.map_or(String::new(), |count| count.to_string());
    let mut parts = each.iter().peekable();
    for request in requests {
        let own = parts.next_if(|parts| parts.index == request.index);
        let part = |value: fn(&Parts) -> Nanos| whole(own.map(value));
        let done = request.is_complete();
        let basis = serde_json::to_value(request.token_basis).unwrap_or_default();
        let split = own.map(|own| serde_json::to_value(own.split_by).unwrap_or_default());
        let cells = [
            request.index.to_string(),
            count(request.session.map(|(session, _)| session)),
            count(request.session.map(|(_, turn)| u64::from(turn))),
            whole(Some(request.scheduled_ns)),
            whole(request.sent_ns),
            whole(request.arrivals.first().map(|arrival| arrival.at_ns)),
            whole(request.arrivals.last().map(|arrival| arrival.at_ns)),
            whole(Some(request.end_ns)),
            count(request.prompt_tokens),
            count(request.output_tokens),
            basis.as_str().unwrap_or_default().to_owned(),
            whole(request.ttft_ns().filter(|_| done)),
            ms(request.tpot_ns().filter(|_| done)),
            whole(request.e2e_ns()),
            part(|p| p.client_ns),
            part(|p| p.connect_ns),
            part(|p| p.unsplit_ns),
            part(|p| p.running_step_ns),
            part(|p| p.queue_ns),
            part(|p| p.prefill_ns),
            part(|p| p.network_ns),
            part(|p| p.decode_ns),
            part(|p| p.others_prefill_ns),
            part(|p| p.stall_ns),
            split
                .as_ref()
                .and_then(|s| s.as_str())
                .unwrap_or_default()
                .to_owned(),
            u8::from(request.was_profiled).to_string(),
            request
                .failure
                .as_ref()
                .map_or("", |failure| failure.kind.name())
                .to_owned(),
            request
                .failure
                .as_ref()
                .map_or("", |failure| failure.message.as_str())
                .to_owned(),
        ];
        let cells: Vec<String> = cells
            .iter()
            .map(|cell| crate::output::csv_field(cell))
            .collect();
        text += &cells.join(",");
        text.push('\n');
    }
    text
}

fn steps_csv(steps: &[EngineStep], started_unix_ns: Nanos) -> String {
    let mut text = String::from(
        "start_ms,duration_ms,prefill_sequences,prefill_tokens,decode_sequences,decode_context_tokens,gpu_busy_ms,roofline_ms\n",
    );
    let ms = |time: Option<Nanos>| time.map_or(String::new(), |ns| format!("{:.6}", ns.millis()));
    for step in steps {
        text += &format!(
            "{:.6},{:.6},{},{},{},{},{},{}\n",
            (step.start_unix_ns - started_unix_ns).millis(),
            (step.end_unix_ns - step.start_unix_ns).millis(),
            step.prefill.sequences,
            step.prefill.tokens,
            step.decode.sequences,
            step.decode
                .context
                .map_or(String::new(), |tokens| tokens.to_string()),
            ms(step.busy_ns),
            ms(step.roofline_ns),
        );
    }
    text
}
