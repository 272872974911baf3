//! Damaged copies of a seed: the same ones for the same number.

/// Numbers that look random (xorshift).
pub struct CaseRandom(pub u64);

impl CaseRandom {
    /// For case `number`; neighbours have nothing in common.
    pub fn from_seed(number: u64) -> Self {
        let mixed = (number ^ 0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        Self((mixed ^ (mixed >> 29)) | 1)
    }

    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// Words that parsers stumble over.
const WORDS: [&[u8]; 24] = [
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\n",
    b"\0",
    b"-1",
    b"NaN",
    b"1e308",
    b"-9223372036854775808",
    b"9223372036854775807",
    b"18446744073709551615",
    b"99999999999999999999",
    b"null",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\x1b]52;",
    b"${a}",
    b"../",
    b"\xff\xff\xff\xff\xff\xff\xff\x7f",
];

/// A damaged copy of `seed`; parts of `other` may be in it.
pub fn mutated(seed: &[u8], other: &[u8], random: &mut CaseRandom) -> Vec<u8> {
    let mut content = seed.to_vec();
    for _ in 0..=random.below(10) {
        if content.is_empty() {
            break;
        }
        let at = random.below(content.len());
        let length = random.below(64).min(content.len() - at);
        let word = WORDS[random.below(WORDS.len())];
        match random.below(10) {
            0 => content[at] ^= 1 << random.below(8),
            1 => {
                content.drain(at..at + length);
            }
            2 => {
                let copy = content[at..at + length].to_vec();
                let to = random.below(content.len());
                content.splice(to..to, copy);
            }
            3 => {
                content.splice(at..at, word.iter().copied());
            }
            4 => {
                content.splice(at..at + length, word.iter().copied());
            }
            5 if random.below(4) == 0 => content.truncate(at),
            6 => replace_number(&mut content, at, word),
            7 if !other.is_empty() => {
                let from = random.below(other.len());
                let end = (from + random.below(256)).min(other.len());
                content.splice(at..at + length, other[from..end].iter().copied());
            }
            8 => {
                // A field of a binary record: all ones, or nearly.
                let end = (at + 8).min(content.len());
                content[at..end].fill(if random.below(2) == 0 { 0xff } else { 0x7f });
            }
            _ => content[at] = random.below(256) as u8,
        }
    }
    content
}

/// Puts `word` in the place of the next decimal number.
fn replace_number(content: &mut Vec<u8>, at: usize, word: &[u8]) {
    let start = content[at..].iter().position(u8::is_ascii_digit);
    if let Some(start) = start.map(|offset| at + offset) {
        let digits = content[start..].iter().take_while(|b| b.is_ascii_digit());
        let end = start + digits.count();
        content.splice(start..end, word.iter().copied());
    }
}
