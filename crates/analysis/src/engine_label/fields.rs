//! Reading a name from left to right.

/// What is left of a name.
pub(super) struct LabelScanner<'n>(&'n str);

impl<'n> LabelScanner<'n> {
    /// What follows `prefix`.
    pub(super) fn after_prefix(name: &'n str, prefix: &str) -> Option<Self> {
        name.strip_prefix(prefix).map(Self)
    }

    /// Takes `word` if it is next.
    pub(super) fn skip_word(&mut self, word: &str) -> bool {
        self.expect_word(word).is_some()
    }

    /// Takes `word`, which must be next.
    pub(super) fn expect_word(&mut self, word: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(word)?;
        Some(())
    }

    /// A decimal number of ASCII digits, no sign, within 64 bits.
    pub(super) fn read_number(&mut self) -> Option<u64> {
        let end = self
            .0
            .bytes()
            .position(|byte| !byte.is_ascii_digit())
            .unwrap_or(self.0.len());
        let (digits, rest) = self.0.split_at(end);
        self.0 = rest;
        digits.parse().ok()
    }

    /// Numbers between commas, at least one.
    pub(super) fn read_numbers(&mut self) -> Option<Vec<u64>> {
        let mut numbers = vec![self.read_number()?];
        while self.skip_word(",") {
            numbers.push(self.read_number()?);
        }
        Some(numbers)
    }

    /// Letters, digits and underscores up to anything else.
    pub(super) fn read_word(&mut self) -> &'n str {
        let end = self
            .0
            .bytes()
            .position(|byte| !(byte.is_ascii_alphanumeric() || byte == b'_'))
            .unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        word
    }

    /// Whether nothing is left.
    pub(super) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }
}
