//! The loop of generation: prefill, then a token at a time.

use llmprof_theory::Logits;

use crate::{
    cache::KvCache,
    engine::NativeEngine,
    error::EngineError,
    recorder::{Recorder, now_ns},
    sampler::TokenSampler,
};

/// What is to be generated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GenerationOptions<'a> {
    pub max_new_tokens: usize,
    /// Prompt tokens that one step of prefill takes; absent is all of them.
    pub chunk: Option<usize>,
    /// Tokens that end a sequence. Its batch runs on until all sequences have ended.
    pub stop: &'a [u32],
}

/// One generated token of every sequence.
#[derive(Clone, Copy, Debug)]
pub struct TokenStep<'a> {
    /// 0 for the tokens that prefill gave.
    pub index: usize,
    /// When the step began, on the clock of [`now_ns`].
    pub start_ns: u64,
    /// When its logits were there and tokens began to be chosen.
    pub sampling_ns: u64,
    /// When its tokens were known.
    pub end_ns: u64,
    /// The token of each sequence; one that has ended repeats its last.
    pub tokens: &'a [u32],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedTokens {
    /// The new tokens of each sequence, up to and including one that ended it.
    pub tokens: Vec<Vec<u32>>,
}

/// Generates after `prompts` with an empty `cache` of their number. `on_step` hears of each token as it comes.
pub fn generate_tokens(
    engine: &NativeEngine,
    cache: &mut KvCache,
    prompts: &[Vec<u32>],
    generation: &GenerationOptions<'_>,
    sampler: &mut TokenSampler,
    recorder: &mut Recorder,
    mut on_step: impl FnMut(TokenStep<'_>),
) -> Result<GeneratedTokens, EngineError> {
    let mut history: Vec<Vec<u32>> = prompts.to_vec();
    let mut tokens: Vec<Vec<u32>> = vec![Vec::new(); prompts.len()];
    let mut current = vec![0u32; prompts.len()];
    let mut ended = vec![false; prompts.len()];
    for index in 0..generation.max_new_tokens {
        let start_ns = now_ns();
        let logits = if index == 0 {
            prefill_prompts(engine, cache, prompts, generation.chunk, recorder)?
        } else {
            engine.decode_step(cache, &current, recorder)?
        };
        let sampling_ns = now_ns();
        for (sequence, logits) in logits
            .chunks_exact_mut(engine.vocabulary_size())
            .enumerate()
        {
            if ended[sequence] {
                continue;
            }
            let token = sampler.sample_token(logits, &history[sequence]);
            current[sequence] = token;
            history[sequence].push(token);
            tokens[sequence].push(token);
            ended[sequence] = generation.stop.contains(&token);
        }
        on_step(TokenStep {
            index,
            start_ns,
            sampling_ns,
            end_ns: now_ns(),
            tokens: &current,
        });
        if ended.iter().all(|ended| *ended) {
            break;
        }
    }
    Ok(GeneratedTokens { tokens })
}

/// All prompts, in chunks of at most `chunk` tokens; the logits of the last position of each.
fn prefill_prompts<'c>(
    engine: &NativeEngine,
    cache: &'c mut KvCache,
    prompts: &[Vec<u32>],
    chunk: Option<usize>,
    recorder: &mut Recorder,
) -> Result<&'c mut [f32], EngineError> {
    let longest = prompts.iter().map(Vec::len).max().unwrap_or(0);
    let chunk = chunk.unwrap_or(longest).clamp(1, longest.max(1));
    // Chunks are cut from the front; the last one, which gives the logits, must have a token of every sequence.
    let shortest = prompts.iter().map(Vec::len).min().unwrap_or(0);
    cache.expect_prompt(longest);
    let mut done = 0;
    while longest - done > chunk && shortest > done + chunk {
        let parts: Vec<&[u32]> = prompts
            .iter()
            .map(|prompt| &prompt[done..done + chunk])
            .collect();
        engine.prefill(cache, &parts, None, recorder)?;
        done += chunk;
    }
    let parts: Vec<&[u32]> = prompts.iter().map(|prompt| &prompt[done..]).collect();
    engine.prefill(cache, &parts, Some(Logits::Last), recorder)
}
