//! Prefill and decode on different engines: prompts are computed by one kind of worker, answers by another.
//!
//! A request goes to the prefill worker with the fewest prompts, waits for a step of it, and has its first token when that ends. Its KV cache then is at the
//! decode worker with the fewest sequences, which takes it into its next step. What the transfer takes is part of [`Workers::transfer`]; KV blocks are not
//! counted: workers are given as many sequences as they hold.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use llmprof_theory::{Part, Sequences, Step};
use llmprof_units::Nanos;

use crate::{
    engine::{FinishedRequest, LoadOutcome},
    request::{RequestLoad, Tokenizer},
    step::{Contexts, StepTimer},
};

/// How many engines of each kind there are, and what one of them takes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workers {
    pub prefill: usize,
    pub decode: usize,
    /// Prompts of a prefill step at most.
    pub prefill_sequences: usize,
    /// Sequences of a decode worker at most.
    pub decode_sequences: usize,
    /// From the end of a prefill until the decode worker has its KV cache.
    pub transfer: Nanos,
}

/// What happens next, by time and then by order of coming into being.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RequestEvent {
    Arrives(usize),
    Prefilled(usize),
    Transferred(usize),
    Decoded(usize),
}

#[derive(Default)]
struct PrefillWorker {
    waiting: VecDeque<usize>,
    running: Vec<usize>,
}

#[derive(Default)]
struct DecodeWorker {
    waiting: VecDeque<usize>,
    /// Sequences by the step at which they end.
    ends: BinaryHeap<Reverse<(u64, usize)>>,
    contexts: Contexts,
    steps: u64,
    is_running: bool,
}

impl DecodeWorker {
    fn sequence_count(&self) -> usize {
        self.waiting.len() + self.ends.len()
    }
}

struct Simulation<'a> {
    load: &'a RequestLoad,
    workers: Workers,
    prefill_time: &'a dyn StepTimer,
    decode_time: &'a dyn StepTimer,
    now: Nanos,
    events: BinaryHeap<Reverse<(Nanos, u64, RequestEvent)>>,
    made: u64,
    sent: usize,
    came: Vec<Nanos>,
    tokenizer: Tokenizer,
    first_token: Vec<Nanos>,
    prefill: Vec<PrefillWorker>,
    decode: Vec<DecodeWorker>,
    outcome: LoadOutcome,
}

/// Runs a load to its end.
pub fn simulate_split(
    load: &RequestLoad,
    workers: Workers,
    prefill_time: &dyn StepTimer,
    decode_time: &dyn StepTimer,
) -> LoadOutcome {
    let count = load.requests.len();
    let least = |count: usize| count.max(1);
    let workers = Workers {
        prefill: least(workers.prefill),
        decode: least(workers.decode),
        prefill_sequences: least(workers.prefill_sequences),
        decode_sequences: least(workers.decode_sequences),
        ..workers
    };
    let mut simulation = Simulation {
        load,
        workers,
        prefill_time,
        decode_time,
        now: Nanos(0),
        events: BinaryHeap::new(),
        made: 0,
        sent: 0,
        came: load.requests.iter().map(|request| request.at).collect(),
        tokenizer: Tokenizer::new(load.front_end),
        first_token: vec![Nanos(0); count],
        prefill: (0..workers.prefill)
            .map(|_| PrefillWorker::default())
            .collect(),
        decode: (0..workers.decode)
            .map(|_| DecodeWorker::default())
            .collect(),
        outcome: LoadOutcome::default(),
    };
    simulation.run_events();
    simulation.outcome
}

impl Simulation<'_> {
    fn run_events(&mut self) {
        for _ in 0..self.load.concurrency.unwrap_or(self.load.requests.len()) {
            self.send_next();
        }
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            self.now = at;
            match event {
                RequestEvent::Arrives(request) => self.arrive_at_prefill(request),
                RequestEvent::Prefilled(worker) => self.end_prefill(worker),
                RequestEvent::Transferred(request) => self.join_decode(request),
                RequestEvent::Decoded(worker) => self.end_decode(worker),
            }
        }
    }

    fn schedule_event(&mut self, after: Nanos, event: RequestEvent) {
        self.events
            .push(Reverse((self.now + after, self.made, event)));
        self.made += 1;
    }

    /// The next request: of a closed loop now, else when it comes.
    fn send_next(&mut self) {
        let Some(came) = self.came.get_mut(self.sent) else {
            return;
        };
        if self.load.concurrency.is_some() {
            *came = self.now;
        }
        let prompt = self.load.requests[self.sent].prompt;
        let after = self.tokenizer.finish_time(*came, prompt) - self.now;
        self.schedule_event(after, RequestEvent::Arrives(self.sent));
        self.sent += 1;
    }

    fn arrive_at_prefill(&mut self, request: usize) {
        let all = self.prefill.iter().enumerate();
        let fewest = all.min_by_key(|(_, worker)| worker.waiting.len() + worker.running.len());
        let worker = fewest.map_or(0, |(index, _)| index);
        self.prefill[worker].waiting.push_back(request);
        self.start_prefill(worker);
    }

    fn start_prefill(&mut self, index: usize) {
        let worker = &mut self.prefill[index];
        if !worker.running.is_empty() || worker.waiting.is_empty() {
            return;
        }
        let mut prompts = Vec::new();
        for _ in 0..self.workers.prefill_sequences {
            let Some(request) = worker.waiting.pop_front() else {
                break;
            };
            prompts.push(Sequences {
                count: 1,
                new: self.load.requests[request].prompt,
                cached: 0,
            });
            worker.running.push(request);
        }
        let step = Step::all_prefill(Part::Groups(prompts));
        let time = self.time_step(self.prefill_time, &step);
        self.schedule_event(time, RequestEvent::Prefilled(index));
    }

    fn time_step(&mut self, time: &dyn StepTimer, step: &Step) -> Nanos {
        let time = time.step_time(step).max(Nanos(1));
        self.outcome.steps += 1;
        self.outcome.busy += time;
        self.outcome.computed_tokens += step.new_tokens();
        time
    }

    fn end_prefill(&mut self, index: usize) {
        for request in std::mem::take(&mut self.prefill[index].running) {
            self.first_token[request] = self.now;
            if self.load.requests[request].output == 1 {
                self.finish_request(request);
            } else {
                self.schedule_event(self.workers.transfer, RequestEvent::Transferred(request));
            }
        }
        self.start_prefill(index);
    }

    fn join_decode(&mut self, request: usize) {
        let all = self.decode.iter().enumerate();
        let fewest = all.min_by_key(|(_, worker)| worker.sequence_count());
        let worker = fewest.map_or(0, |(index, _)| index);
        self.decode[worker].waiting.push_back(request);
        self.start_decode(worker);
    }

    fn start_decode(&mut self, index: usize) {
        let worker = &mut self.decode[index];
        if worker.is_running {
            return;
        }
        while worker.ends.len() < self.workers.decode_sequences {
            let Some(request) = worker.waiting.pop_front() else {
                break;
            };
            let asked = &self.load.requests[request];
            let end = worker.steps + asked.output - 1;
            worker.ends.push(Reverse((end, request)));
            worker.contexts.add_sequence(asked.prompt, worker.steps);
        }
        if worker.ends.is_empty() {
            return;
        }
        worker.is_running = true;
        let sequences = worker.ends.len() as u64;
        let step = Step::all_decode(worker.contexts.part_after(worker.steps));
        let time = self.time_step(self.decode_time, &step);
        self.outcome.gaps.add_gap(time, sequences);
        self.schedule_event(time, RequestEvent::Decoded(index));
    }

    fn end_decode(&mut self, index: usize) {
        let worker = &mut self.decode[index];
        worker.is_running = false;
        worker.steps += 1;
        let mut ended = Vec::new();
        while let Some(&Reverse((end, request))) = worker.ends.peek() {
            if end > worker.steps {
                break;
            }
            worker.ends.pop();
            let asked = &self.load.requests[request];
            let context = asked.prompt + asked.output - 1;
            worker.contexts.remove_sequence(context, worker.steps);
            ended.push(request);
        }
        for request in ended {
            self.finish_request(request);
        }
        self.start_decode(index);
    }

    fn finish_request(&mut self, request: usize) {
        let asked = &self.load.requests[request];
        self.outcome.finished.push(FinishedRequest {
            index: request,
            at: self.came[request],
            first_token: self.first_token[request],
            last_token: self.now,
            prompt: asked.prompt,
            output: asked.output,
            longest_gap: None,
            preemptions: 0,
        });
        if self.load.concurrency.is_some() {
            self.send_next();
        }
    }
}
