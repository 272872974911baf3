//! Synthetic prompts: of a stated length, with stated shares in common, the same for a seed.

use crate::{random::Random, replay::MOONCAKE_BLOCK};

/// Token ids from here on: below lie the special tokens and bytes of most vocabularies.
const FIRST_TOKEN: u64 = 1000;

/// A prompt as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// Token ids: exactly as long as asked for, whatever the tokenizer.
    Tokens(Vec<u32>),
    /// Text: as many words as tokens were asked for, which a tokenizer may split further.
    Text(String),
}

/// How synthetic prompts are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptSource {
    /// Whether prompts are token ids.
    pub as_tokens: bool,
    /// Number of token ids; ids are below it.
    pub vocabulary: u64,
    /// Tokens that all prompts begin with.
    pub shared_prefix: u64,
    /// What they are drawn by.
    pub seed: u64,
}

impl PromptSource {
    /// The prompt of a request.
    pub fn prompt(&self, index: u64, tokens: u64) -> Prompt {
        let shared = self.shared_prefix.min(tokens);
        let mut ids = Vec::with_capacity(tokens as usize);
        self.draw_ids(&mut ids, "prefix", 0, shared);
        self.draw_ids(&mut ids, "prompt", index, tokens - shared);
        self.words_for(&ids)
    }

    /// The prompt of a request of a trace: equal leading blocks have equal content. Tokens beyond the blocks are its own.
    pub fn of_blocks(&self, index: u64, tokens: u64, blocks: &[u64]) -> Prompt {
        let mut ids = Vec::with_capacity(tokens as usize);
        for &block in blocks {
            let left = tokens.saturating_sub(ids.len() as u64);
            self.draw_ids(&mut ids, "block", block, left.min(MOONCAKE_BLOCK));
        }
        let left = tokens.saturating_sub(ids.len() as u64);
        self.draw_ids(&mut ids, "prompt", index, left);
        self.words_for(&ids)
    }

    fn draw_ids(&self, ids: &mut Vec<u32>, purpose: &str, number: u64, count: u64) {
        let seed = self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = Random::new(seed, purpose);
        let span = self.vocabulary.saturating_sub(FIRST_TOKEN);
        let (first, span) = if span > 0 {
            (FIRST_TOKEN, span)
        } else {
            (0, self.vocabulary.max(1))
        };
        ids.extend((0..count).map(|_| (first + random.next_below(span)) as u32));
    }

    fn words_for(&self, ids: &[u32]) -> Prompt {
        if self.as_tokens {
            return Prompt::Tokens(ids.to_vec());
        }
        let words: Vec<&str> = ids
            .iter()
            .map(|&id| WORDS[id as usize % WORDS.len()])
            .collect();
        Prompt::Text(words.join(" "))
    }
}

/// Common words, which byte-pair tokenizers of large vocabularies hold as one token each.
const WORDS: &[&str] = &[
    "the", "of", "and", "to", "in", "is", "that", "for", "it", "as", "was", "with", "be", "by",
    "on", "not", "he", "his", "but", "at", "are", "this", "have", "from", "or", "had", "an",
    "they", "which", "one", "you", "were", "her", "all", "she", "there", "would", "their", "we",
    "him", "been", "has", "when", "who", "will", "more", "no", "if", "out", "so", "said", "what",
    "up", "its", "about", "into", "than", "them", "can", "only", "other", "new", "some", "time",
    "could", "these", "two", "may", "then", "do", "first", "any", "my", "now", "such", "like",
    "our", "over", "man", "me", "even", "most", "made", "after", "also", "did", "many", "before",
    "must", "through", "back", "years", "where", "much", "your", "way", "well", "down", "should",
];

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: PromptSource = PromptSource {
        as_tokens: true,
        vocabulary: 32_000,
        shared_prefix: 10,
        seed: 5,
    };

    fn prompt_ids(prompt: Prompt) -> Vec<u32> {
        match prompt {
            Prompt::Tokens(ids) => ids,
            Prompt::Text(text) => panic!("{text}"),
        }
    }

    #[test]
    fn prompts_share_the_prefix_and_nothing_more() {
        let (a, b) = (
            prompt_ids(SOURCE.prompt(1, 40)),
            prompt_ids(SOURCE.prompt(2, 40)),
        );
        assert_eq!((a.len(), b.len()), (40, 40));
        assert_eq!(a[..10], b[..10]);
        assert_ne!(a[10..], b[10..]);
        assert_eq!(a, prompt_ids(SOURCE.prompt(1, 40)));
        assert!(a.iter().all(|&id| (1000..32_000).contains(&id)));
        assert_eq!(prompt_ids(SOURCE.prompt(1, 4)).len(), 4);
    }

    #[test]
    fn blocks_of_a_trace_are_shared_by_number() {
        let a = prompt_ids(SOURCE.of_blocks(1, 1100, &[3, 4, 5]));
        let b = prompt_ids(SOURCE.of_blocks(2, 1030, &[3, 4]));
        assert_eq!((a.len(), b.len()), (1100, 1030));
        assert_eq!(a[..1024], b[..1024]);
        assert_ne!(a[1024..1030], b[1024..1030]);
    }

    #[test]
    fn text_has_as_many_words() {
        let source = PromptSource {
            as_tokens: false,
            ..SOURCE
        };
        let Prompt::Text(text) = source.prompt(1, 25) else {
            panic!();
        };
        assert_eq!(text.split(' ').count(), 25);
    }
}
