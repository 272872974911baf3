//! The shuffle of Python's `random` module, so that a seed chooses the samples it always chose.
//!
//! The ancestor of llmprof shuffled with `random.Random(seed)`: the Mersenne Twister MT19937 of Matsumoto and Nishimura,
//! seeded by array, numbers below a limit by rejection, and the Fisher–Yates shuffle from the end.

const STATE_WORDS: usize = 624;
const STATE_MIDDLE: usize = 397;

/// Python's `random.Random(seed)`: the Mersenne Twister, so that shuffles match those of Python.
#[derive(Clone)]
pub(super) struct PythonRandom {
    state: [u32; STATE_WORDS],
    /// Words of the state that were handed out.
    used: usize,
}

impl std::fmt::Debug for PythonRandom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PythonRandom").finish_non_exhaustive()
    }
}

impl PythonRandom {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Self::from_word(19_650_218);
        // Python's key is the seed in words of 32 bits, the least first, without leading zeros.
        let words = [seed as u32, (seed >> 32) as u32];
        let key = if words[1] == 0 {
            &words[..1]
        } else {
            &words[..]
        };
        random.stir_key(key);
        random
    }

    fn from_word(word: u32) -> Self {
        let mut state = [0; STATE_WORDS];
        state[0] = word;
        for i in 1..STATE_WORDS {
            let before = state[i - 1];
            state[i] = 1_812_433_253u32
                .wrapping_mul(before ^ (before >> 30))
                .wrapping_add(i as u32);
        }
        Self {
            state,
            used: STATE_WORDS,
        }
    }

    /// Works a key into the state.
    fn stir_key(&mut self, key: &[u32]) {
        let state = &mut self.state;
        let mut i = 1;
        let mix = |state: &[u32; STATE_WORDS], i: usize, factor: u32| {
            let before = state[i - 1];
            state[i] ^ (before ^ (before >> 30)).wrapping_mul(factor)
        };
        let advance = |state: &mut [u32; STATE_WORDS], i: usize| {
            if i + 1 < STATE_WORDS {
                return i + 1;
            }
            state[0] = state[STATE_WORDS - 1];
            1
        };
        for step in 0..STATE_WORDS.max(key.len()) {
            let place = step % key.len();
            state[i] = mix(state, i, 1_664_525)
                .wrapping_add(key[place])
                .wrapping_add(place as u32);
            i = advance(state, i);
        }
        for _ in 1..STATE_WORDS {
            state[i] = mix(state, i, 1_566_083_941).wrapping_sub(i as u32);
            i = advance(state, i);
        }
        state[0] = 1 << 31;
    }

    /// The next 32 random bits.
    fn next_word(&mut self) -> u32 {
        if self.used == STATE_WORDS {
            for i in 0..STATE_WORDS {
                let joined = (self.state[i] & 0x8000_0000)
                    | (self.state[(i + 1) % STATE_WORDS] & 0x7fff_ffff);
                let twist = if joined & 1 == 0 { 0 } else { 0x9908_b0df };
                self.state[i] =
                    self.state[(i + STATE_MIDDLE) % STATE_WORDS] ^ (joined >> 1) ^ twist;
            }
            self.used = 0;
        }
        let mut word = self.state[self.used];
        self.used += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    /// A number below `limit`, which is at least 1.
    fn below_limit(&mut self, limit: u32) -> u32 {
        let bits = u32::BITS - limit.leading_zeros();
        loop {
            let drawn = self.next_word() >> (u32::BITS - bits);
            if drawn < limit {
                return drawn;
            }
        }
    }

    /// `random.shuffle(items)`. Lists of 2³² items and more, which Python draws for otherwise, do not occur.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below_limit(last as u32 + 1) as usize;
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn shuffled_indices(seed: u64, count: usize, times: usize) -> Vec<usize> {
        let mut random = PythonRandom::new(seed);
        let mut items: Vec<usize> = (0..count).collect();
        for _ in 0..times {
            items = (0..count).collect();
            random.shuffle(&mut items);
        }
        items
    }

    /// What CPython 3.11 prints for
    /// `r = random.Random(seed); x = list(range(10)); r.shuffle(x); print(x)`.
    #[test]
    fn shuffles_as_cpython_does() {
        assert_eq!(shuffled_indices(0, 10, 1), [7, 8, 1, 5, 3, 4, 2, 0, 9, 6]);
        assert_eq!(shuffled_indices(42, 10, 1), [7, 3, 2, 8, 5, 6, 9, 4, 0, 1]);
        assert_eq!(
            shuffled_indices(1_099_511_627_779, 10, 1),
            [8, 5, 6, 7, 9, 2, 4, 1, 0, 3]
        );
    }

    /// The same against the Python at hand, over more than one round of the generator's state.
    #[test]
    fn shuffles_as_the_python_at_hand_does() {
        let program = "import random\n\
            for seed, count, times in [(0, 1, 1), (1, 2, 3), (7, 1000, 3), (2**32 - 1, 33, 2), (2**32, 64, 2), (2**64 - 1, 65, 2)]:\n\
            \x20   r = random.Random(seed)\n\
            \x20   for _ in range(times):\n\
            \x20       x = list(range(count)); r.shuffle(x)\n\
            \x20   print(seed, count, times, *x)\n";
        let Ok(output) = Command::new("python3").args(["-c", program]).output() else {
            return;
        };
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().count(), 6, "{text}");
        for line in text.lines() {
            let mut numbers = line.split(' ').map(|word| word.parse::<u64>().unwrap());
            let mut next = || numbers.next().unwrap();
            let (seed, count, times) = (next(), next() as usize, next() as usize);
            let expected: Vec<usize> = numbers.map(|number| number as usize).collect();
            assert_eq!(
                shuffled_indices(seed, count, times),
                expected,
                "seed {seed}"
            );
        }
    }
}
