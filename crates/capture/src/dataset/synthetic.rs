use llmprof_record::plan::{Plan, SamplingPlan};

use super::{DatasetError, DatasetSample, Prompts, SampleError};
use crate::runner::protocol::Prompt;

/// Most prompts of a synthetic dataset: choosing among them lists their numbers.
const MAX_SAMPLES: usize = 1 << 24;

/// How long prompts are, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    pub min: usize,
    pub max: usize,
}

impl Lengths {
    pub fn fixed_length(tokens: usize) -> Self {
        Self {
            min: tokens,
            max: tokens,
        }
    }
}

/// Token ids that prompts may have.
pub struct Vocabulary {
    pub size: u64,
    /// Those that stand for the features of an image or a sound, which no text has.
    pub reserved: Vec<u64>,
}

/// Prompts of random token ids. Prompt `i` depends on the seed, `i`, the lengths and the vocabulary alone: it is the same on
/// every machine, and in a dataset of any size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synthetic {
    pub samples: usize,
    /// How long they are; lengths in between are equally likely.
    pub lengths: Lengths,
    /// Token ids are below this.
    pub vocab_size: u32,
    /// Ids that no prompt has: those that stand for something other than text. The next one that is free stands for them.
    pub reserved: Vec<u32>,
    /// Another seed gives other prompts.
    pub seed: u64,
}

impl Synthetic {
    /// The prompts that a plan asks for.
    pub fn from_plan(plan: &Plan, vocabulary: &Vocabulary) -> Result<Self, DatasetError> {
        let size = |tokens: u64| usize::try_from(tokens).unwrap_or(usize::MAX);
        let SamplingPlan {
            num_samples_per_epoch,
            seed,
            ..
        } = plan.dataset.sampling;
        let longest = plan.workload.prompt_tokens;
        let reserved = vocabulary.reserved.iter();
        let prompts = Self {
            samples: size(num_samples_per_epoch.unwrap_or(plan.workload.batch_size)),
            lengths: Lengths {
                min: size(plan.dataset.min_prompt_tokens.unwrap_or(longest)),
                max: size(longest),
            },
            vocab_size: u32::try_from(vocabulary.size).unwrap_or(u32::MAX),
            reserved: reserved.filter_map(|id| u32::try_from(*id).ok()).collect(),
            seed: seed.unwrap_or(0),
        };
        prompts.check_sizes()?;
        Ok(prompts)
    }

    /// Refuses sizes that make no prompt.
    pub fn check_sizes(&self) -> Result<(), DatasetError> {
        if self.samples == 0 {
            return Err(DatasetError::Empty {
                what: "it was asked for 0 synthetic prompts".to_owned(),
            });
        }
        let wrong = [
            (self.samples > MAX_SAMPLES, "at most 16,777,216 samples"),
            (self.lengths.min == 0, "at least one token"),
            (
                self.lengths.max < self.lengths.min,
                "a longest length that is not below the shortest",
            ),
            (self.vocab_size == 0, "a vocabulary"),
        ];
        match wrong.iter().find(|(wrong, _)| *wrong) {
            Some((_, need)) => Err(DatasetError::BadSize(need)),
            None => Ok(()),
        }
    }

    /// The token ids of prompt `index`.
    pub fn prompt_tokens(&self, index: usize) -> Vec<u32> {
        // The index is mixed before it meets the seed, so that seeds 1 and 2 share no prompts.
        let mut random = SplitMix64(self.seed ^ SplitMix64(index as u64).next());
        let span = (self.lengths.max - self.lengths.min) as u64 + 1;
        let length = self.lengths.min + scale_below(random.next(), span) as usize;
        (0..length)
            .map(|_| {
                self.skip_reserved(scale_below(random.next(), u64::from(self.vocab_size)) as u32)
            })
            .collect()
    }

    /// The id, or the next one that is not reserved.
    fn skip_reserved(&self, id: u32) -> u32 {
        let mut ids = (id..self.vocab_size).chain(0..id);
        ids.find(|id| !self.reserved.contains(id)).unwrap_or(id)
    }
}

impl Prompts for Synthetic {
    fn len(&self) -> usize {
        self.samples
    }

    fn read_sample(&self, index: usize) -> Result<DatasetSample, SampleError> {
        Ok(DatasetSample {
            image: None,
            id: format!("synthetic-{index}"),
            prompt: Prompt::Tokens(self.prompt_tokens(index)),
            file: None,
        })
    }
}

/// Steele, Lea and Flood's generator (2014): a counter and a mixer.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// A number below `limit`: the random number as a fraction of 2⁶⁴. No value is likelier than another by more than
/// `limit` ÷ 2⁶⁴.
fn scale_below(random: u64, limit: u64) -> u64 {
    ((u128::from(random) * u128::from(limit)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const PROMPTS: Synthetic = Synthetic {
        samples: 4,
        lengths: Lengths { min: 3, max: 6 },
        vocab_size: 1000,
        reserved: Vec::new(),
        seed: 0,
    };

    /// Runs are compared over months: these prompts must never change.
    #[test]
    fn prompts_are_the_same_for_ever() {
        // The generator's published sequence for seed 1234567.
        let mut random = SplitMix64(1_234_567);
        let published: [u64; 3] = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!([random.next(), random.next(), random.next()], published);
        // Worked out apart, in Python's unlimited integers.
        assert_eq!(PROMPTS.prompt_tokens(0), [701, 387, 656, 787, 146]);
        assert_eq!(PROMPTS.prompt_tokens(3), [593, 633, 793, 796, 616]);
    }

    #[test]
    fn lengths_and_ids_stay_within_their_limits() {
        let lengths: HashSet<usize> = (0..200)
            .map(|index| PROMPTS.prompt_tokens(index).len())
            .collect();
        assert_eq!(lengths, HashSet::from([3, 4, 5, 6]));
        let tokens: HashSet<u32> = (0..2000)
            .flat_map(|index| PROMPTS.prompt_tokens(index))
            .collect();
        assert!(tokens.iter().all(|&token| token < 1000));
        assert!(tokens.len() > 990, "{}", tokens.len());
        let tiny = Synthetic {
            vocab_size: 1,
            lengths: Lengths::fixed_length(2),
            ..PROMPTS
        };
        assert_eq!(tiny.prompt_tokens(7), [0, 0]);
    }

    /// An id that stands for an image's features makes a model look for an image.
    #[test]
    fn reserved_ids_are_in_no_prompt() {
        let prompts = Synthetic {
            reserved: vec![701, 702, 146],
            ..PROMPTS
        };
        assert_eq!(prompts.prompt_tokens(0), [703, 387, 656, 787, 147]);
        let last = Synthetic {
            vocab_size: 2,
            reserved: vec![1],
            ..PROMPTS
        };
        assert!((0..20).all(|index| last.prompt_tokens(index).iter().all(|&token| token == 0)));
    }

    #[test]
    fn seeds_and_numbers_give_different_prompts() {
        let prompts: HashSet<Vec<u32>> = (0..50)
            .flat_map(|seed| {
                let lengths = Lengths::fixed_length(8);
                let prompts = Synthetic {
                    lengths,
                    seed,
                    ..PROMPTS
                };
                (0..50).map(move |index| prompts.prompt_tokens(index))
            })
            .collect();
        assert_eq!(prompts.len(), 2500);
    }

    #[test]
    fn sizes_that_make_no_sense_are_refused() {
        assert!(PROMPTS.check_sizes().is_ok());
        let empty = Synthetic {
            samples: 0,
            ..PROMPTS
        };
        assert!(matches!(
            empty.check_sizes(),
            Err(DatasetError::Empty { .. })
        ));
        for wrong in [
            Synthetic {
                samples: MAX_SAMPLES + 1,
                ..PROMPTS
            },
            Synthetic {
                lengths: Lengths::fixed_length(0),
                ..PROMPTS
            },
            Synthetic {
                lengths: Lengths { min: 2, max: 1 },
                ..PROMPTS
            },
            Synthetic {
                vocab_size: 0,
                ..PROMPTS
            },
        ] {
            assert!(
                matches!(wrong.check_sizes(), Err(DatasetError::BadSize(_))),
                "{wrong:?}"
            );
        }
    }
}
