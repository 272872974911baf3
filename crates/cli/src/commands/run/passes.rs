//! The passes of a run, whichever worker makes them: load, warm up, measure with nothing attached, capture.

use std::{path::PathBuf, time::Duration};

use llmprof_analysis::run::{
    HostInterval, MeasuredPass, MeasuredRun, PassKind, PassShape, PhaseSpan, RequestFacts, RunPhase,
};
use llmprof_capture::{
    process::{Interrupt, Launch},
    runner::{
        Client, Limits, Problem, Step, WorkerError,
        protocol::{Generate, Generated, Load, Loaded, Progress},
    },
};
use llmprof_record::{
    issue::{Issue, Severity},
    store::{Pass, RunDir, RunStatus},
};
use llmprof_units::{Count, Nanos};

use super::{feed::Feed, halt::Halt};
use crate::progress::{Show, Stage};

/// A worker with a model, and what it has measured so far.
pub(super) struct Passes<'a> {
    client: Client,
    feed: &'a Feed,
    interrupt: &'a mut Interrupt,
    show: Show,
    run: MeasuredRun,
    answers: Vec<(PassKind, Vec<Generated>)>,
}

impl<'a> Passes<'a> {
    /// Starts a worker, whose logs go to `logs`, and has it load the model.
    pub(super) fn start(
        launch: &Launch,
        logs: &std::path::Path,
        limits: Limits,
        load: &Load,
        feed: &'a Feed,
        interrupt: &'a mut Interrupt,
        show: Show,
    ) -> Result<(Self, Loaded), WorkerError> {
        let stage = Stage::start(show, "load", 0);
        let mut client = Client::start(launch, logs, "worker", limits, interrupt)?;
        let loaded = client.load(load, interrupt, &mut |progress| stage.at(progress.done))?;
        stage.finish(&format!(
            "{} parameters, {} of weights",
            loaded.parameters, loaded.weight_bytes
        ));
        let mut run = MeasuredRun {
            fixed_cache: load.options.has_fixed_cache(),
            issues: loaded.issues.clone(),
            ..MeasuredRun::default()
        };
        run.passes.push(MeasuredPass {
            kind: PassKind::WarmUp,
            phases: vec![PhaseSpan {
                phase: RunPhase::Load,
                start_ns: loaded.start_ns.0,
                end_ns: loaded.end_ns.0,
                passes: Vec::new(),
            }],
            ..MeasuredPass::default()
        });
        let passes = Self {
            client,
            feed,
            interrupt,
            show,
            run,
            answers: Vec::new(),
        };
        Ok((passes, loaded))
    }

    /// The worker's process.
    pub(super) fn pid(&self) -> u32 {
        self.client.hello().pid
    }

    /// Runs passes whose times do not count.
    pub(super) fn warm_up(&mut self, count: u64) -> Result<(), Halt> {
        for number in 0..count {
            let stage = self.stage(format!("warm-up {}", number + 1));
            let answers = self.all(PassKind::WarmUp, &stage, |_, batch| batch.clone())?;
            stage.finish(&rate(&answers));
            self.keep(PassKind::WarmUp, &answers);
        }
        Ok(())
    }

    /// Runs passes with nothing attached.
    pub(super) fn plain(&mut self, count: u64, store: &mut RunDir) -> Result<(), Halt> {
        let mut time = Nanos(0);
        for number in 0..count {
            let stage = self.stage(format!("plain {}", number + 1));
            let answers = self.all(PassKind::Plain, &stage, |_, batch| batch.clone())?;
            stage.finish(&rate(&answers));
            time += duration(&answers);
            self.keep(PassKind::Plain, &answers);
        }
        note(store, "plain", time)
    }

    /// Runs one pass that `ask` adds its instruments to; it is given the number of the batch.
    pub(super) fn captured(
        &mut self,
        name: &str,
        store: &mut RunDir,
        ask: impl Fn(usize, &Generate) -> Generate,
    ) -> Result<Vec<Generated>, Halt> {
        let stage = self.stage(name.to_owned());
        let answers = self.all(PassKind::Captured, &stage, ask)?;
        stage.finish(&rate(&answers));
        note(store, name, duration(&answers))?;
        self.keep(PassKind::Captured, &answers);
        Ok(answers)
    }

    /// Runs one batch whose times do not count and whose records are dropped, so that a profiler's own first use is over.
    pub(super) fn rehearse(&mut self, name: &str, batch: &Generate) -> Result<(), Halt> {
        let stage = Stage::start(self.show, name, steps(batch));
        let mut progress = |progress: Progress| stage.at(progress.done);
        let answer = self.client.warm_up(batch, self.interrupt, &mut progress)?;
        stage.finish(&rate(&[answer]));
        Ok(())
    }

    /// Runs one batch with its instruments as a pass of its own. `keep` makes it one of the run's passes.
    pub(super) fn captured_batch(
        &mut self,
        name: &str,
        store: &mut RunDir,
        batch: &Generate,
        keep: bool,
    ) -> Result<Generated, Halt> {
        let stage = Stage::start(self.show, name, steps(batch));
        let mut progress = |progress: Progress| stage.at(progress.done);
        let answer = self.client.generate(batch, self.interrupt, &mut progress)?;
        let answers = [answer];
        stage.finish(&rate(&answers));
        note(store, name, duration(&answers))?;
        if keep {
            self.keep(PassKind::Captured, &answers);
        }
        let [answer] = answers;
        Ok(answer)
    }

    /// What the worker answered in each pass that was kept, in their order.
    pub(super) fn answers(&self) -> &[(PassKind, Vec<Generated>)] {
        &self.answers
    }

    /// The pass that was made last.
    pub(super) fn last(&mut self) -> Option<&mut MeasuredPass> {
        self.run.passes.last_mut()
    }

    /// Lets the worker end and gives what was measured.
    pub(super) fn finish(self) -> Result<MeasuredRun, Halt> {
        self.client.finish(self.interrupt)?;
        Ok(self.run)
    }

    /// Gives what was measured before something stopped the run, with an issue that says so; the worker is ended. Where no
    /// plain pass came to its end there is nothing to tell.
    pub(super) fn broken_off(mut self, halt: Halt) -> Result<(MeasuredRun, Halt), Halt> {
        let passes = &self.run.passes;
        let plain = passes.iter().filter(|pass| pass.kind == PassKind::Plain);
        let plain = plain.count();
        if plain == 0 {
            return Err(halt);
        }
        let how = match &halt {
            Halt::Interrupted => "was interrupted".to_owned(),
            Halt::Failed(why) => format!("failed ({})", why.lines().next().unwrap_or_default()),
        };
        let passes = Count(plain as u64, "plain pass");
        self.run.issues.push(Issue::new(
            Severity::Error,
            "run.broken_off",
            format!("the run {how}: this is what {passes} measured before"),
        ));
        Ok((self.run, halt))
    }

    fn stage(&self, name: String) -> Stage {
        let batches = self.feed.batches().iter();
        Stage::start(self.show, name, batches.map(steps).sum())
    }

    fn all(
        &mut self,
        kind: PassKind,
        stage: &Stage,
        ask: impl Fn(usize, &Generate) -> Generate,
    ) -> Result<Vec<Generated>, Halt> {
        let mut answers = Vec::new();
        let mut done = 0;
        for (number, batch) in self.feed.batches().iter().enumerate() {
            let batch = ask(number, batch);
            let mut progress = |progress: Progress| stage.at(done + progress.done);
            let answer = if kind == PassKind::WarmUp {
                self.client.warm_up(&batch, self.interrupt, &mut progress)?
            } else {
                self.client
                    .generate(&batch, self.interrupt, &mut progress)?
            };
            done += steps(&batch);
            answers.push(answer);
        }
        Ok(answers)
    }

    /// Adds a pass to the run. What was lost is told once, however often the pass is repeated.
    fn keep(&mut self, kind: PassKind, answers: &[Generated]) {
        for issue in answers.iter().flat_map(|answer| &answer.issues) {
            if !self.run.issues.contains(issue) {
                self.run.issues.push(issue.clone());
            }
        }
        self.run.passes.push(measured(kind, answers));
        self.answers.push((kind, answers.to_vec()));
    }
}

/// Steps that a batch takes.
fn steps(batch: &Generate) -> u64 {
    batch
        .requests
        .first()
        .map_or(0, |request| request.max_new_tokens)
}

/// The longest prompt and the most new tokens of any request that was measured.
pub(super) fn longest(run: &MeasuredRun) -> (u64, u64) {
    let requests = run.passes.iter().flat_map(|pass| &pass.requests);
    requests.fold((0, 0), |(prompt, new), request| {
        (
            prompt.max(request.prompt_tokens),
            new.max(request.output_tokens),
        )
    })
}

fn measured(kind: PassKind, answers: &[Generated]) -> MeasuredPass {
    let mut pass = MeasuredPass {
        kind,
        ..MeasuredPass::default()
    };
    for answer in answers {
        pass.phases.extend(spans(answer));
        pass.host
            .extend(answer.host.iter().map(|span| HostInterval {
                name: span.name.clone(),
                start_ns: span.start_ns.0,
                end_ns: span.end_ns.0,
            }));
        pass.requests
            .extend(answer.requests.iter().map(|request| RequestFacts {
                id: request.id.clone(),
                start_ns: request.start_ns.0,
                token_ns: request.token_ns.iter().map(|time| time.0).collect(),
                prompt_tokens: request.prompt_tokens,
                output_tokens: request.output_tokens.len() as u64,
                batch: answer.requests.len() as u64,
            }));
    }
    pass
}

/// The phases of a batch, each with what the decoder did in it. A phase that the batch has several stretches of cannot
/// be told apart and is what the workload says.
fn spans(answer: &Generated) -> Vec<PhaseSpan> {
    let batch = answer.requests.len() as u64;
    let prompt = answer.requests.iter().map(|one| one.prompt_tokens).max();
    let tokens = answer.requests.iter().map(|one| one.output_tokens.len());
    let steps = (tokens.max().unwrap_or(0) as u64).saturating_sub(1);
    let once = |name: &str| {
        answer
            .phases
            .iter()
            .filter(|span| span.phase == name)
            .count()
            == 1
    };
    answer
        .phases
        .iter()
        .filter_map(|span| {
            let (phase, shape) = match span.phase.as_str() {
                "prefill" => (RunPhase::Prefill, prompt.map(|prompt| (prompt, 0, 1))),
                "decode" => (RunPhase::Decode, prompt.map(|prompt| (1, prompt, steps))),
                "vision" => (RunPhase::Vision, None),
                "mixed" => (RunPhase::Mixed, None),
                _ => return None,
            };
            let shape = shape.filter(|_| once(&span.phase));
            let passes = shape.map(|(queries, past, steps)| PassShape {
                batch,
                queries,
                past,
                steps,
                logits: 1,
            });
            Some(PhaseSpan {
                phase,
                start_ns: span.start_ns.0,
                end_ns: span.end_ns.0,
                passes: passes.into_iter().collect(),
            })
        })
        .collect()
}

fn duration(answers: &[Generated]) -> Nanos {
    answers
        .iter()
        .map(|answer| answer.end_ns - answer.start_ns)
        .fold(Nanos(0), |sum, time| sum + time)
}

fn rate(answers: &[Generated]) -> String {
    let requests = answers.iter().flat_map(|answer| &answer.requests);
    let tokens: usize = requests.map(|request| request.output_tokens.len()).sum();
    let time = duration(answers);
    let text = format!("{} in {time}", Count(tokens as u64, "token"));
    if time.0 > 0 {
        format!("{text}, {:.1}/s", tokens as f64 / time.seconds())
    } else {
        text
    }
}

fn note(store: &mut RunDir, name: &str, duration: Nanos) -> Result<(), Halt> {
    store.set_pass(Pass {
        name: name.to_owned(),
        status: RunStatus::Complete,
        duration_ns: Some(duration),
        exit_code: None,
    })?;
    Ok(())
}

/// How long each step of a worker may take.
pub(super) fn limits(plan: &llmprof_record::plan::Plan) -> Limits {
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
pub(super) fn load(
    plan: &llmprof_record::plan::Plan,
    subject: &crate::subject::Subject,
    cwd: &std::path::Path,
) -> Load {
    let absolute = |path: &Option<PathBuf>| path.as_ref().map(|path| cwd.join(path));
    Load {
        config: subject.design.clone(),
        path: absolute(&plan.model.path),
        tokenizer: absolute(&plan.model.tokenizer),
        load_format: plan.model.load_format,
        dtype: plan.workload.dtype,
        device: plan.device.to_string(),
        max_batch: plan.workload.batch_size,
        max_positions: plan
            .workload
            .prompt_tokens
            .saturating_add(plan.workload.new_tokens),
        threads: plan.runtime.threads,
        seed: plan.dataset.sampling.seed.unwrap_or(0),
        options: llmprof_capture::runner::protocol::LoadOptions::default(),
    }
}

impl From<WorkerError> for Halt {
    fn from(error: WorkerError) -> Self {
        let slow = matches!(error.problem, Problem::TimedOut { .. })
            && matches!(error.step, Step::Load | Step::WarmUp | Step::Generate);
        let advice = slow.then_some("runtime.timeout_s=SECONDS gives a step more time");
        Self::of_worker(&error, advice)
    }
}
