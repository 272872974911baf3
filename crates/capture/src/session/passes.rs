//! The passes of a run, whichever worker makes them: load, warm up, measure with no profiler attached, capture.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use llmprof_record::{
    issue::{Issue, IssueCode},
    plan::{LoadFormat, Plan},
    run::{MeasuredPass, PassKind, PhaseSpan, Request, RunPhase, RunRecord},
    store::{Pass, RunStatus},
};
use llmprof_units::Nanos;

use super::{
    Halt, Outcome, Session, StageObserver, images, model_design, predictions, spans::phase_spans,
};
use crate::{
    process::Launch,
    profiler::nsight::progress::follow_logs,
    runner::{
        Client, Limits, WorkerError,
        protocol::{Generate, Generated, Load, LoadOptions, Loaded, Progress},
    },
};

/// How long a profiler may take to write its report after its program has said goodbye.
const REPORT_MAX: Duration = Duration::from_mins(10);

/// How a worker is started.
pub(super) struct Start<'a> {
    pub(super) launch: &'a Launch,
    /// Where its logs go, in the run directory.
    pub(super) folder: &'a str,
    pub(super) request: &'a Load,
    /// Whether what it reports of loading belongs to the run: a second worker only repeats the first.
    pub(super) is_measured: bool,
    pub(super) patience: Patience,
}

/// How long the steps of a worker may take.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    Usual,
    /// After its goodbye a profiler writes its report.
    Report,
    /// As long as they take: a profiler that replays kernels needs hours for what takes seconds.
    Unlimited,
}

/// A worker with a model, and the record that its passes complete.
pub(super) struct Passes<'p, 's> {
    pub(super) client: Client,
    pub(super) session: &'p mut Session<'s>,
    pub(super) record: &'p mut RunRecord,
}

impl<'p, 's> Passes<'p, 's> {
    /// Starts a worker and has it load the model.
    pub(super) fn start(
        session: &'p mut Session<'s>,
        start: &Start<'_>,
        record: &'p mut RunRecord,
    ) -> Result<(Self, Loaded), WorkerError> {
        let stage = session.observer.stage_begins("load", 0);
        let logs = session.store.path().join(start.folder);
        let limits = match start.patience {
            Patience::Usual => worker_limits(session.plan),
            Patience::Report => Limits {
                exit: Some(REPORT_MAX),
                ..worker_limits(session.plan)
            },
            Patience::Unlimited => Limits::without_limits(),
        };
        let mut client = Client::start(start.launch, &logs, "worker", limits, session.interrupt)?;
        let loaded = client.load_model(start.request, session.interrupt, &mut |progress| {
            stage.step_done(progress.done);
        })?;
        stage.stage_ends(Outcome::Loaded {
            parameters: loaded.parameters,
            weights: loaded.weight_bytes,
        });
        if start.is_measured {
            record.fixed_cache = start.request.options.has_fixed_cache();
            for issue in &loaded.issues {
                record.add_issue(issue.clone());
            }
            record.passes.push(MeasuredPass {
                kind: PassKind::WarmUp,
                phases: vec![PhaseSpan {
                    phase: RunPhase::Load,
                    start_ns: loaded.start_ns,
                    end_ns: loaded.end_ns,
                    passes: Vec::new(),
                }],
                ..MeasuredPass::default()
            });
        }
        let passes = Self {
            client,
            session,
            record,
        };
        Ok((passes, loaded))
    }

    pub(super) fn pid(&self) -> u32 {
        self.client.hello().pid
    }

    /// Runs passes whose times do not count.
    pub(super) fn warm_up(&mut self, count: u64) -> Result<(), Halt> {
        for number in 0..count {
            let name = format!("warm-up {}", number + 1);
            let answers = self.run_batches(&name, PassKind::WarmUp, |_, batch| batch.clone())?;
            self.keep_pass(PassKind::WarmUp, &answers)?;
        }
        Ok(())
    }

    /// Runs passes with no profiler attached.
    pub(super) fn run_plain(&mut self, count: u64) -> Result<(), Halt> {
        let mut time = Nanos(0);
        for number in 0..count {
            let name = format!("plain {}", number + 1);
            let answers = self.run_batches(&name, PassKind::Plain, |_, batch| batch.clone())?;
            time += total_duration(&answers);
            self.keep_pass(PassKind::Plain, &answers)?;
            if number == 0 && self.session.plan.output.predictions {
                predictions::keep_predictions(self.session, &answers)?;
            }
            self.note_duration("plain", time)?;
        }
        Ok(())
    }

    /// Runs one pass that `ask` adds its instruments to; it is given the number of the batch. The answer has the index of
    /// the pass.
    pub(super) fn run_captured(
        &mut self,
        name: &str,
        ask: impl Fn(usize, &Generate) -> Generate,
    ) -> Result<(usize, Vec<Generated>), Halt> {
        let answers = self.run_batches(name, PassKind::Captured, ask)?;
        self.note_duration(name, total_duration(&answers))?;
        let pass = self.keep_pass(PassKind::Captured, &answers)?;
        Ok((pass, answers))
    }

    /// Runs one batch whose times do not count and whose records are dropped, so that a profiler's own first use is over.
    pub(super) fn run_rehearsal(&mut self, name: &str, batch: &Generate) -> Result<(), Halt> {
        let stage = self.session.observer.stage_begins(name, count_steps(batch));
        let mut progress = |progress: Progress| stage.step_done(progress.done);
        let answer = self
            .client
            .warm_up(batch, self.session.interrupt, &mut progress)?;
        end_stage(stage, &[answer]);
        Ok(())
    }

    /// Runs one batch with its instruments as a pass of its own. The answer has the index of the pass where it is kept.
    pub(super) fn captured_batch(
        &mut self,
        name: &str,
        batch: &Generate,
        is_kept: bool,
    ) -> Result<(Option<usize>, Generated), Halt> {
        let stage = format!("profiled, {name}");
        let stage = self
            .session
            .observer
            .stage_begins(&stage, count_steps(batch));
        let mut progress = |progress: Progress| stage.step_done(progress.done);
        let answer = self
            .client
            .generate_batch(batch, self.session.interrupt, &mut progress)?;
        let answers = [answer];
        end_stage(stage, &answers);
        self.note_duration(name, total_duration(&answers))?;
        let pass = is_kept
            .then(|| self.keep_pass(PassKind::Captured, &answers))
            .transpose()?;
        let [answer] = answers;
        Ok((pass, answer))
    }

    /// Runs one batch under a tool that replays `planned` launches of it (0 where their number is not known), which shows in its
    /// logs: its tokens say nothing of how long it takes. No pass is kept.
    pub(super) fn replayed_batch(
        &mut self,
        name: &str,
        batch: &Generate,
        planned: u64,
    ) -> Result<(), Halt> {
        let stage = self.session.observer.stage_begins(name, planned);
        let launches = AtomicU64::new(0);
        let at = |done: u64| {
            launches.store(done, Ordering::Relaxed);
            stage.step_done(if planned > 0 { done.min(planned) } else { done });
        };
        let (client, interrupt) = (&mut self.client, &mut *self.session.interrupt);
        let (stdout, stderr) = client.log_paths();
        let logs = [stdout.to_owned(), stderr.to_owned()];
        let answer = follow_logs(&[&logs[0], &logs[1]], &at, || {
            client.generate_batch(batch, interrupt, &mut |_| ())
        })?;
        let time = answer.end_ns - answer.start_ns;
        let launches = launches.into_inner();
        stage.stage_ends(Outcome::Profiled { launches });
        self.note_duration(name, time)
    }

    /// Lets the worker end; where something stopped it before, the record says how far it came.
    pub(super) fn end_worker(self, made: Result<(), Halt>) -> Result<(), Halt> {
        let Err(halt) = made else {
            self.client.finish(self.session.interrupt)?;
            return Ok(());
        };
        let plain = self.record.passes_of(PassKind::Plain).count();
        if plain > 0 {
            let issue = Issue::error(IssueCode::RunBrokenOff);
            let issue = match &halt {
                Halt::Interrupted => issue,
                Halt::Failed { .. } => issue.with("why", halt.first_line()),
            };
            self.record.issues.push(issue.with("passes", plain));
        }
        Err(halt)
    }

    /// Lets the worker end; the answer is the exit code of what was started, absent where a signal ended it.
    pub(super) fn exit_code(self) -> Result<Option<i32>, Halt> {
        let ended = self.client.finish(self.session.interrupt)?;
        Ok(ended.status.code())
    }

    fn run_batches(
        &mut self,
        name: &str,
        kind: PassKind,
        ask: impl Fn(usize, &Generate) -> Generate,
    ) -> Result<Vec<Generated>, Halt> {
        let batches = self.session.feed.batches();
        let total = batches.iter().map(count_steps).sum();
        let stage = self.session.observer.stage_begins(name, total);
        let mut answers = Vec::new();
        let mut done = 0;
        for (number, batch) in batches.iter().enumerate() {
            let batch = ask(number, batch);
            let mut progress = |progress: Progress| stage.step_done(done + progress.done);
            let interrupt = &mut *self.session.interrupt;
            let answer = if kind == PassKind::WarmUp {
                self.client.warm_up(&batch, interrupt, &mut progress)?
            } else {
                self.client
                    .generate_batch(&batch, interrupt, &mut progress)?
            };
            done += count_steps(&batch);
            answers.push(answer);
        }
        end_stage(stage, &answers);
        Ok(answers)
    }

    /// Adds a pass to the record, and saves it. What was dropped is stated once, however often the pass is repeated.
    fn keep_pass(&mut self, kind: PassKind, answers: &[Generated]) -> Result<usize, Halt> {
        for issue in answers.iter().flat_map(|answer| &answer.issues) {
            self.record.add_issue(issue.clone());
        }
        if kind != PassKind::WarmUp {
            images::record_images(self.record, answers);
        }
        let index = self.record.passes.len();
        self.record.passes.push(MeasuredPass {
            kind,
            phases: answers.iter().flat_map(phase_spans).collect(),
            allocator: answers
                .iter()
                .filter_map(|answer| Some(answer.memory.as_ref()?.facts.clone()))
                .collect(),
            processor_counters: None,
        });
        let requests = answers.iter().flat_map(|answer| requests_of(answer, index));
        self.record.requests.extend(requests);
        self.record.save_facts(self.session.store.path())?;
        Ok(index)
    }

    fn note_duration(&mut self, name: &str, duration: Nanos) -> Result<(), Halt> {
        self.session.store.set_pass(Pass {
            name: name.to_owned(),
            status: RunStatus::Complete,
            duration_ns: Some(duration),
            exit_code: None,
        })?;
        Ok(())
    }
}

/// Steps that a batch takes.
fn count_steps(batch: &Generate) -> u64 {
    let first = batch.requests.first();
    first.map_or(0, |request| request.max_new_tokens)
}

/// The longest prompt and the most new tokens of any request that was measured.
pub(super) fn longest_request(record: &RunRecord) -> (u64, u64) {
    let requests = record.requests.iter();
    requests.fold((0, 0), |(prompt, new), request| {
        (
            prompt.max(request.prompt_tokens),
            new.max(request.output_tokens),
        )
    })
}

/// Refuses texts for a model that has no tokenizer.
pub(super) fn tokenizer_is_there(session: &Session<'_>, loaded: &Loaded) -> Result<(), Halt> {
    if !session.feed.is_text() || loaded.tokenizer {
        return Ok(());
    }
    Err(Halt::Failed {
        message: "prompts are text, but the model has no tokenizer".to_owned(),
        hint: Some(
            "model.tokenizer=DIR, or token ids: dataset=synthetic, infer.prompt=null".to_owned(),
        ),
    })
}

fn requests_of(answer: &Generated, pass: usize) -> impl Iterator<Item = Request> {
    let batch = answer.requests.len() as u64;
    answer.requests.iter().map(move |request| Request {
        id: request.id.clone(),
        pass,
        start_ns: request.start_ns,
        device_token_ns: answer
            .device_token_ns
            .iter()
            .take(request.token_ns.len())
            .copied()
            .collect(),
        token_ns: request.token_ns.clone(),
        prompt_tokens: request.prompt_tokens,
        output_tokens: request.output_tokens.len() as u64,
        batch,
    })
}

fn total_duration(answers: &[Generated]) -> Nanos {
    let times = answers.iter().map(|answer| answer.end_ns - answer.start_ns);
    times.fold(Nanos(0), |sum, time| sum + time)
}

fn end_stage(stage: Box<dyn StageObserver>, answers: &[Generated]) {
    let requests = answers.iter().flat_map(|answer| &answer.requests);
    let tokens: usize = requests.map(|request| request.output_tokens.len()).sum();
    stage.stage_ends(Outcome::Generated {
        tokens: tokens as u64,
        time: total_duration(answers),
    });
}

/// How long each step of a worker may take.
fn worker_limits(plan: &Plan) -> Limits {
    let default = Limits::default();
    let Some(seconds) = plan.runtime.timeout_s else {
        return default;
    };
    let limit = Some(Duration::from_secs_f64(seconds));
    Limits {
        load: limit,
        warm_up: limit,
        generate: limit,
        ..default
    }
}

/// What every worker is asked to load.
pub(super) fn load_request(session: &Session<'_>, record: &RunRecord) -> Load {
    let plan = session.plan;
    let absolute = |path: &Option<PathBuf>| path.as_ref().map(|path| session.cwd.join(path));
    let workload = &plan.workload;
    Load {
        config: model_design(record),
        path: absolute(&plan.model.path),
        // The model's own directory may have none, where prompts are token ids.
        tokenizer: absolute(&plan.model.tokenizer)
            .filter(|_| plan.model.tokenizer != plan.model.path),
        load_format: plan.model.load_format.unwrap_or(LoadFormat::Dummy),
        dtype: workload.dtype,
        weights: workload.weights,
        device: plan.device.to_string(),
        max_batch: workload.batch_size,
        max_positions: workload.prompt_tokens.saturating_add(workload.new_tokens),
        threads: plan.runtime.threads,
        seed: plan.dataset.sampling.seed.unwrap_or(0),
        options: LoadOptions::default(),
    }
}
