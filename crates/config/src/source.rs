//! Where a config value was written: the text it came from and its place there.

use std::ops::Range;
use std::sync::Arc;

/// A text that config values come from: a YAML file, an override, an embedded file.
#[derive(Debug, PartialEq, Eq)]
pub struct SourceText {
    name: String,
    text: String,
}

impl SourceText {
    /// Keeps a text under the name that errors show, usually a path.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Arc<Self> {
        Arc::new(Self {
            name: name.into(),
            text: text.into(),
        })
    }

    /// The name shown in errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn text(&self) -> &str {
        &self.text
    }
}

/// A byte range inside a [`SourceText`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSpan {
    source: Arc<SourceText>,
    start: u32,
    end: u32,
}

impl SourceSpan {
    /// Points at `span` of `source`; the span is clipped to the text.
    pub fn new(source: Arc<SourceText>, span: Range<usize>) -> Self {
        let len = source.text.len();
        let end = span.end.min(len);
        let start = span.start.min(end);
        Self {
            source,
            start: u32::try_from(start).unwrap_or(u32::MAX),
            end: u32::try_from(end).unwrap_or(u32::MAX),
        }
    }

    /// The text this points into.
    pub fn source(&self) -> &Arc<SourceText> {
        &self.source
    }

    pub fn span(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// One-based line and column (in characters) of the start.
    pub fn line_column(&self) -> (usize, usize) {
        let mut at = (self.start as usize).min(self.source.text.len());
        while !self.source.text.is_char_boundary(at) {
            at -= 1;
        }
        let before = &self.source.text[..at];
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        (
            before.matches('\n').count() + 1,
            before[line_start..].chars().count() + 1,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_lines_and_characters_from_one() {
        let source = SourceText::new("a.yaml", "é: 1\nbb: 2\n");
        assert_eq!(SourceSpan::new(source.clone(), 0..1).line_column(), (1, 1));
        assert_eq!(SourceSpan::new(source.clone(), 4..5).line_column(), (1, 4));
        assert_eq!(SourceSpan::new(source.clone(), 6..8).line_column(), (2, 1));
        assert_eq!(SourceSpan::new(source, 900..901).line_column(), (3, 1));
    }
}
