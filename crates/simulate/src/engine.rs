//! The scheduler of an engine, step after step.
//!
//! The rules are those of vLLM's V1 scheduler with its first-come-first-served policy: running sequences first, in the order they
//! were admitted; then waiting ones while tokens of the step, sequences and blocks last. Where a running sequence finds no block,
//! the one admitted last gives back its blocks, waits at the front of the queue, and computes its tokens again.
//!
//! Sequences that decode are not touched one by one: all of them advance by a token a step, so that what they need of a step (new
//! blocks, context, who ends) follows from when they began. That makes a step cheap whatever its batch.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use llmprof_theory::{Part, Sequences, Step};
use llmprof_units::Nanos;

use crate::{
    gaps::Gaps,
    kv::BlockPool,
    longest::LongestSteps,
    request::{RequestLoad, Tokenizer, mix_bits},
    settings::{Settings, SettingsError},
    step::{Contexts, StepTimer},
};

/// A request with a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinishedRequest {
    /// Its place in the load.
    pub index: usize,
    pub at: Nanos,
    pub first_token: Nanos,
    pub last_token: Nanos,
    pub prompt: u64,
    pub output: u64,
    /// The longest time between two of its tokens.
    pub longest_gap: Option<Nanos>,
    pub preemptions: u32,
}

/// What became of a load.
#[derive(Clone, Debug, Default)]
pub struct LoadOutcome {
    /// By the time of the last token.
    pub finished: Vec<FinishedRequest>,
    /// Places of requests that the engine refuses: they can never have enough blocks, or do not fit a step.
    pub refused: Vec<usize>,
    pub gaps: Gaps,
    pub steps: u64,
    /// Sum of all step times.
    pub busy: Nanos,
    /// Tokens that went through the model.
    pub computed_tokens: u64,
    /// Prompt tokens that the prefix cache had.
    pub cached_tokens: u64,
    /// Tokens that a preemption threw away.
    pub discarded_tokens: u64,
    pub preemptions: u64,
    /// Integrals over step time of used blocks, running and waiting sequences, in block·ns and sequence·ns.
    pub block_time: f64,
    pub running_time: f64,
    pub waiting_time: f64,
    pub most_blocks: u64,
    pub most_running: u64,
    pub most_waiting: u64,
}

#[derive(Clone, Debug, Default)]
struct SequenceState {
    /// Tokens generated before it last began to decode.
    generated: u64,
    /// Tokens in the KV cache: of a sequence in prefill now, of one that decodes when it began to.
    computed: u64,
    /// The decode step at which it began to decode.
    since: u64,
    is_decoding: bool,
    /// Distinguishes entries of the queues from those before a preemption.
    turn: u32,
    /// Leading blocks that others can find.
    named: Vec<u64>,
    /// Prefix-cache keys of generated tokens, by which the request finds its blocks again after a preemption.
    own: Vec<u64>,
    first_token: Option<Nanos>,
    last_token: Nanos,
    longest_gap: Option<Nanos>,
    preemptions: u32,
}

struct EngineRun<'a, T: ?Sized> {
    settings: Settings,
    load: &'a RequestLoad,
    time: &'a T,
    now: Nanos,
    /// When the step before began, during which the next one is put together.
    planned: Nanos,
    /// When each request was sent, and when it is in the engine's hands.
    came: Vec<Nanos>,
    reaches: Vec<Nanos>,
    tokenizer: Tokenizer,
    states: Vec<SequenceState>,
    /// Requests that were sent, and those of them that reached the engine.
    sent: usize,
    next: usize,
    waiting: VecDeque<usize>,
    /// By admission; entries of another turn than their request's are over.
    running: Vec<(usize, u32)>,
    running_count: u64,
    /// The one whose prompt is not done: always the last admitted.
    partial: Option<usize>,
    pool: BlockPool,
    /// Blocks of running sequences when their answers are whole.
    reserved: u64,
    /// Steps that prompts have been held back for.
    waited: u64,
    decoding: u64,
    contexts: Contexts,
    /// Decode steps since the start of the load.
    tick: u64,
    /// Decoding sequences by the decode step, modulo the block size, at which they need a block.
    block_phase: Vec<u64>,
    /// Decode step at which each decoding sequence ends, with its request and turn.
    ends: BinaryHeap<Reverse<(u64, usize, u32)>>,
    longest: LongestSteps,
    outcome: LoadOutcome,
}

/// Runs a load to its end.
pub fn simulate_load<T: StepTimer + ?Sized>(
    load: &RequestLoad,
    settings: &Settings,
    time: &T,
) -> Result<LoadOutcome, SettingsError> {
    settings.check_values()?;
    let mut engine = EngineRun::new(load, *settings, time);
    engine.run_load();
    Ok(engine.outcome)
}

impl<'a, T: StepTimer + ?Sized> EngineRun<'a, T> {
    fn new(load: &'a RequestLoad, settings: Settings, time: &'a T) -> Self {
        let count = load.requests.len();
        let mut tokenizer = Tokenizer::new(load.front_end);
        // In a closed loop, as they are sent.
        let reaches = if load.concurrency.is_some() {
            vec![Nanos(0); count]
        } else {
            let requests = load.requests.iter();
            requests
                .map(|request| tokenizer.finish_time(request.at, request.prompt))
                .collect()
        };
        Self {
            settings,
            load,
            time,
            now: Nanos(0),
            planned: Nanos(0),
            came: load.requests.iter().map(|request| request.at).collect(),
            reaches,
            tokenizer,
            states: vec![SequenceState::default(); count],
            sent: if load.concurrency.is_some() { 0 } else { count },
            next: 0,
            waiting: VecDeque::new(),
            running: Vec::new(),
            running_count: 0,
            partial: None,
            pool: BlockPool::new(settings.kv_blocks),
            reserved: 0,
            waited: 0,
            decoding: 0,
            contexts: Contexts::default(),
            tick: 0,
            block_phase: vec![0; settings.block_size as usize],
            ends: BinaryHeap::new(),
            longest: LongestSteps::default(),
            outcome: LoadOutcome::default(),
        }
    }

    fn run_load(&mut self) {
        for _ in 0..self.load.concurrency.unwrap_or(0) {
            self.send_next();
        }
        loop {
            self.queue_arrivals();
            if self.running_count == 0 && self.waiting.is_empty() {
                // Idle until the next request.
                if self.next == self.sent {
                    return;
                }
                self.now = self.now.max(self.reaches[self.next]);
                self.planned = self.now;
                continue;
            }
            self.run_step();
        }
    }

    /// The next request of a closed loop.
    fn send_next(&mut self) {
        if let Some(request) = self.load.requests.get(self.sent) {
            self.came[self.sent] = self.now;
            self.reaches[self.sent] = self.tokenizer.finish_time(self.now, request.prompt);
            self.sent += 1;
        }
    }

    /// Queues what came in time for the next step.
    fn queue_arrivals(&mut self) {
        let until = if self.settings.async_scheduling {
            self.planned
        } else {
            self.now
        };
        while self.next < self.sent && self.reaches[self.next] <= until {
            // In a closed loop, one that is refused makes place for another.
            if !self.queue_next() && self.load.concurrency.is_some() {
                self.send_next();
            }
        }
    }

    fn queue_next(&mut self) -> bool {
        let request = &self.load.requests[self.next];
        let is_served = self.settings.can_serve(request.prompt, request.output);
        if is_served {
            // It came while a step ran, which was accounted without it.
            let since = self.reaches[self.next];
            self.outcome.waiting_time += (self.now - since).0 as f64;
            let waited = self.now > since;
            self.waiting.push_back(self.next);
            if waited {
                let waiting = self.waiting.len() as u64;
                self.outcome.most_waiting = self.outcome.most_waiting.max(waiting);
            }
        } else {
            self.outcome.refused.push(self.next);
        }
        self.next += 1;
        is_served
    }

    /// Schedules a step, lets its time pass, and hands out its tokens.
    fn run_step(&mut self) {
        self.planned = self.now;
        let mut prompts = Vec::new();
        let mut completed = Vec::new();
        let was_preempted = self.take_decode_blocks();
        let mut budget = self.settings.max_num_batched_tokens - self.decoding;
        let decode = self.contexts.part_after(self.tick);
        let was_preempted =
            self.continue_prefill(&mut budget, &mut prompts, &mut completed) || was_preempted;
        if !was_preempted && !self.holds_back(budget) {
            self.admit_waiting(&mut budget, &mut prompts, &mut completed);
        }
        let step = Step {
            prefill: Part::Groups(prompts),
            decode,
            logits: None,
        };
        let time = self.time.step_time(&step).max(Nanos(1));
        self.account_step(step.new_tokens(), time);
        self.now += time;
        self.advance_decodes(time);
        for request in completed {
            self.emit_after_prefill(request);
        }
    }

    /// Blocks for the tokens that decoding sequences add; preempts from the end until they suffice.
    fn take_decode_blocks(&mut self) -> bool {
        let size = self.settings.block_size;
        let phase = (self.tick % size) as usize;
        let mut was_preempted = false;
        while self.block_phase[phase] > self.pool.free_blocks() {
            self.preempt_last();
            was_preempted = true;
        }
        self.pool.take_blocks(self.block_phase[phase]);
        was_preempted
    }

    /// The next chunk of the prompt that is not done; `true` where it was preempted for want of blocks.
    fn continue_prefill(
        &mut self,
        budget: &mut u64,
        prompts: &mut Vec<Sequences>,
        completed: &mut Vec<usize>,
    ) -> bool {
        let Some(request) = self.partial else {
            return false;
        };
        let new = (self.tokens_to_compute(request) - self.states[request].computed).min(*budget);
        if new == 0 {
            return false;
        }
        let cached = self.states[request].computed;
        let needed = self.settings.blocks_for(cached + new) - self.settings.blocks_for(cached);
        if needed > self.pool.free_blocks() {
            self.preempt_last();
            return true;
        }
        self.pool.take_blocks(needed);
        self.partial = None;
        self.compute_prompt(request, new, budget, prompts, completed);
        false
    }

    /// Whether prompts wait for more to come, so that they run together.
    fn holds_back(&mut self, budget: u64) -> bool {
        let has_room = self.running_count < self.settings.max_num_seqs;
        if self.settings.wait_steps == 0
            || self.decoding == 0
            || self.waiting.is_empty()
            || !has_room
        {
            return false;
        }
        let mut prompts = 0;
        for &request in &self.waiting {
            let tokens = self.tokens_to_compute(request);
            if prompts + tokens > budget {
                break;
            }
            prompts += tokens;
        }
        let are_enough = self.decoding + prompts >= self.settings.wait_tokens;
        if are_enough || self.waited >= self.settings.wait_steps {
            self.waited = 0;
            return false;
        }
        self.waited += 1;
        true
    }

    /// Blocks of a request when its answer is whole. The last token is sampled, not computed.
    fn all_blocks(&self, request: usize) -> u64 {
        let asked = &self.load.requests[request];
        self.settings.blocks_for(asked.prompt + asked.output - 1) + self.settings.sequence_blocks
    }

    /// Takes waiting requests in order, while there is room.
    fn admit_waiting(
        &mut self,
        budget: &mut u64,
        prompts: &mut Vec<Sequences>,
        completed: &mut Vec<usize>,
    ) {
        while *budget > 0
            && self.running_count < self.settings.max_num_seqs
            && self.partial.is_none()
        {
            let Some(&request) = self.waiting.front() else {
                return;
            };
            let tokens = self.tokens_to_compute(request);
            let keys = self.prefix_keys(request, tokens);
            let (hits, unused_hits) = self.pool.count_hits(&keys);
            let cached = hits as u64 * self.settings.block_size;
            let mut new = tokens - cached;
            if new > *budget && !self.settings.chunked_prefill {
                return;
            }
            let whole = self.settings.blocks_for(tokens) - hits as u64;
            new = new.min(*budget);
            let needed = self.settings.blocks_for(cached + new) - hits as u64;
            let required = if self.settings.reserve_full_prompt {
                whole
            } else {
                needed
            };
            let held = self.settings.sequence_blocks;
            if required + unused_hits + held > self.pool.free_blocks() {
                return;
            }
            let reserved = self.reserved + self.all_blocks(request);
            if self.settings.reserve_answer && reserved > self.settings.kv_blocks {
                return;
            }
            self.reserved = reserved;
            self.waiting.pop_front();
            self.pool.use_cached(&keys[..hits]);
            self.pool.take_blocks(needed + held);
            self.outcome.cached_tokens += cached;
            let state = &mut self.states[request];
            state.computed = cached;
            state.named.clear();
            state.named.extend_from_slice(&keys[..hits]);
            self.running.push((request, state.turn));
            self.running_count += 1;
            self.compute_prompt(request, new, budget, prompts, completed);
        }
    }

    /// Puts `new` tokens of a sequence in prefill into the step.
    fn compute_prompt(
        &mut self,
        request: usize,
        new: u64,
        budget: &mut u64,
        prompts: &mut Vec<Sequences>,
        completed: &mut Vec<usize>,
    ) {
        let tokens = self.tokens_to_compute(request);
        let state = &mut self.states[request];
        prompts.push(Sequences {
            count: 1,
            new,
            cached: state.computed,
        });
        *budget -= new;
        state.computed += new;
        if state.computed == tokens {
            completed.push(request);
        } else {
            self.partial = Some(request);
        }
        self.name_blocks(request);
    }

    /// Lets others find the whole blocks of known content that are computed.
    fn name_blocks(&mut self, request: usize) {
        let asked = &self.load.requests[request];
        if !self.settings.prefix_caching || asked.content == crate::PrefixContent::Unique {
            return;
        }
        let keys = asked
            .content
            .prefix_keys(asked.prompt, self.settings.block_size);
        let whole = (self.states[request].computed / self.settings.block_size) as usize;
        let state = &mut self.states[request];
        while state.named.len() < whole.min(keys.len()) {
            let key = keys[state.named.len()];
            if !self.pool.name_block(key) {
                // Somebody computed the same meanwhile: this copy stays unnamed, and so does what follows.
                return;
            }
            state.named.push(key);
        }
    }

    /// Tokens that a request has so far: its prompt, and after a preemption what it had generated.
    fn tokens_to_compute(&self, request: usize) -> u64 {
        self.load.requests[request].prompt + self.states[request].generated
    }

    /// Keys of the blocks that the prefix cache may have. At least one token is always computed.
    fn prefix_keys(&self, request: usize, tokens: u64) -> Vec<u64> {
        if !self.settings.prefix_caching {
            return Vec::new();
        }
        let asked = &self.load.requests[request];
        let mut keys = asked
            .content
            .prefix_keys(asked.prompt, self.settings.block_size);
        let generated_keys = &self.states[request].own;
        if generated_keys.len() > keys.len() {
            keys.extend_from_slice(&generated_keys[keys.len()..]);
        }
        keys.truncate(((tokens - 1) / self.settings.block_size) as usize);
        keys
    }

    /// The one admitted last gives its blocks back and waits at the front.
    fn preempt_last(&mut self) {
        let request = loop {
            let (request, turn) = self.running.pop().expect("a sequence that fits alone runs");
            if self.states[request].turn == turn {
                break request;
            }
        };
        let generated = self.generated_tokens(request);
        let computed = self.cached_tokens(request);
        if self.states[request].is_decoding {
            // The step that just ended gave it a token.
            self.states[request].last_token = self.now;
        }
        self.leave_running(request);
        if self.partial == Some(request) {
            self.partial = None;
        }
        let size = self.settings.block_size;
        let state = &mut self.states[request];
        // Its whole blocks keep their content until others take them.
        if self.settings.prefix_caching {
            let whole = (computed / size) as usize;
            for block in state.named.len()..whole {
                let key = mix_bits(mix_bits(request as u64) ^ (block as u64) << 1 ^ 1);
                if !self.pool.name_block(key) {
                    break;
                }
                state.named.push(key);
            }
            state.own.clone_from(&state.named);
        }
        let plain = self.settings.blocks_for(computed) - state.named.len() as u64;
        let held = self.settings.sequence_blocks;
        self.pool.give_back(&state.named, plain + held);
        state.named.clear();
        state.generated = generated;
        state.computed = 0;
        state.preemptions += 1;
        self.outcome.preemptions += 1;
        self.outcome.discarded_tokens += computed;
        self.waiting.push_front(request);
    }

    /// Takes a request out of what runs; its entries in the queues are over.
    fn leave_running(&mut self, request: usize) {
        self.reserved -= self.all_blocks(request);
        let context = self.cached_tokens(request);
        let tick = self.tick;
        let size = self.settings.block_size;
        let longest = self.longest.longest_since(self.states[request].since);
        let state = &mut self.states[request];
        if state.is_decoding {
            let phase = block_phase(state.computed, state.since, size);
            self.block_phase[phase] -= 1;
            self.decoding -= 1;
            self.contexts.remove_sequence(context, tick);
            if tick > state.since {
                state.longest_gap = state.longest_gap.max(longest);
            }
            state.is_decoding = false;
        }
        state.turn += 1;
        self.running_count -= 1;
        // Entries that are over pile up at the end only until the next preemption; drop them while they are cheap to see.
        while let Some(&(last, turn)) = self.running.last() {
            if self.states[last].turn == turn {
                break;
            }
            self.running.pop();
        }
        if self.running.len() as u64 > 2 * self.running_count + 64 {
            let states = &self.states;
            self.running
                .retain(|(request, turn)| states[*request].turn == *turn);
        }
    }

    fn generated_tokens(&self, request: usize) -> u64 {
        let state = &self.states[request];
        state.generated
            + if state.is_decoding {
                self.tick - state.since
            } else {
                0
            }
    }

    /// Tokens of a running request in the KV cache.
    fn cached_tokens(&self, request: usize) -> u64 {
        let state = &self.states[request];
        state.computed
            + if state.is_decoding {
                self.tick - state.since
            } else {
                0
            }
    }

    /// Every decoding sequence has one token more; some have all of theirs.
    fn advance_decodes(&mut self, time: Nanos) {
        if self.decoding == 0 {
            return;
        }
        self.longest.push_step(self.tick, time);
        self.tick += 1;
        self.outcome.gaps.add_gap(time, self.decoding);
        while let Some(&Reverse((end, request, turn))) = self.ends.peek() {
            if end > self.tick {
                break;
            }
            self.ends.pop();
            if self.states[request].turn == turn {
                self.finish_request(request);
            }
        }
    }

    /// The token that the last chunk of a prompt gives.
    fn emit_after_prefill(&mut self, request: usize) {
        let (now, tick, size) = (self.now, self.tick, self.settings.block_size);
        let output = self.load.requests[request].output;
        let state = &mut self.states[request];
        if state.first_token.is_none() {
            state.first_token = Some(now);
        } else {
            // After a preemption: its wait is a gap between two tokens like any other.
            let gap = now - state.last_token;
            state.longest_gap = state.longest_gap.max(Some(gap));
            self.outcome.gaps.add_gap(gap, 1);
        }
        state.last_token = now;
        state.generated += 1;
        if state.generated == output {
            self.finish_request(request);
            return;
        }
        state.is_decoding = true;
        state.since = tick;
        self.ends.push(Reverse((
            tick + output - state.generated,
            request,
            state.turn,
        )));
        self.block_phase[block_phase(state.computed, tick, size)] += 1;
        self.decoding += 1;
        self.contexts.add_sequence(state.computed, tick);
    }

    fn finish_request(&mut self, request: usize) {
        let context = self.cached_tokens(request);
        self.leave_running(request);
        let asked = &self.load.requests[request];
        let state = &mut self.states[request];
        let plain = self.settings.blocks_for(context) - state.named.len() as u64;
        let held = self.settings.sequence_blocks;
        self.pool.give_back(&state.named, plain + held);
        self.outcome.finished.push(FinishedRequest {
            index: request,
            at: self.came[request],
            first_token: state.first_token.unwrap_or(self.now),
            last_token: self.now,
            prompt: asked.prompt,
            output: asked.output,
            longest_gap: state.longest_gap,
            preemptions: state.preemptions,
        });
        state.named = Vec::new();
        state.own = Vec::new();
        if self.load.concurrency.is_some() {
            self.send_next();
        }
    }

    fn account_step(&mut self, tokens: u64, time: Nanos) {
        let outcome = &mut self.outcome;
        let span = time.0 as f64;
        outcome.steps += 1;
        outcome.busy += time;
        outcome.computed_tokens += tokens;
        outcome.block_time += self.pool.used_blocks() as f64 * span;
        outcome.running_time += self.running_count as f64 * span;
        outcome.waiting_time += self.waiting.len() as f64 * span;
        outcome.most_blocks = outcome.most_blocks.max(self.pool.used_blocks());
        outcome.most_running = outcome.most_running.max(self.running_count);
        outcome.most_waiting = outcome.most_waiting.max(self.waiting.len() as u64);
    }
}

/// The decode step, modulo the block size, at which a sequence needs a block that began to decode at step `since` with `computed`
/// tokens: when its tokens fill its blocks.
fn block_phase(computed: u64, since: u64, size: u64) -> usize {
    ((since % size + size - computed % size) % size) as usize
}
