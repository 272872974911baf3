//! Widths of charts and of the texts in them.

/// How much room a chart is drawn for. A page has both drawings and shows the one that fits its window, since letters of a wide one
/// that is scaled down to a narrow window cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChartWidth {
    /// A window of a desktop, a page of paper, a file.
    Wide,
    /// A telephone, or a window beside others.
    Narrow,
}

impl ChartWidth {
    /// The width in CSS pixels, which a page scales a little.
    pub(crate) fn pixels(self) -> f64 {
        self.pick(960.0, 400.0)
    }

    /// What a drawing of this width has.
    pub(crate) fn pick<T>(self, wide: T, narrow: T) -> T {
        match self {
            Self::Wide => wide,
            Self::Narrow => narrow,
        }
    }

    /// How many letters of a tick fit between a place and the right edge.
    pub(crate) fn letters(self, from: f64) -> usize {
        ((self.pixels() - from) / text_width("0")).max(1.0) as usize
    }
}

/// `text` with at most `width` characters, the end replaced by an ellipsis.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// About how wide `text` is in pixels at the font size of charts. Nothing is measured here, so layouts leave room.
pub(crate) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * 6.6
}

/// The distinct texts in order of appearance.
pub(crate) fn distinct<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for text in texts {
        if !seen.contains(&text) {
            seen.push(text);
        }
    }
    seen
}

/// Places items of the given widths one after the other in lines between two edges: the left end and the line of each.
pub(crate) fn wrapped(widths: &[f64], left: f64, right: f64) -> Vec<(f64, usize)> {
    let (mut x, mut line) = (left, 0);
    widths
        .iter()
        .map(|width| {
            if x > left && x + width > right {
                (x, line) = (left, line + 1);
            }
            let place = (x, line);
            x += width;
            place
        })
        .collect()
}
