/// A conclusion as a reader sees it: what, what it would bring, what to change, and the numbers behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FindingItem {
    /// The anchor of a page: `finding-1`.
    pub key: String,
    pub title: String,
    /// `Upper bound: 2.65× faster run.`
    pub gain: Option<String>,
    pub knob: Option<String>,
    pub evidence: Vec<String>,
    /// Where a page shows it.
    pub links: Vec<Link>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub label: String,
    pub target: ReportTarget,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportTarget {
    /// A section, a chart or a row, by its key.
    Anchor(String),
    /// The first occurrence of a phase on the timeline.
    Phase(String),
    /// The first event of a name on the timeline.
    Event(String),
}

impl FindingItem {
    /// The finding in one line: title, gain and knob.
    pub fn line(&self) -> String {
        let mut line = self.title.trim_end_matches('.').to_owned();
        line.push('.');
        for part in [&self.gain, &self.knob].into_iter().flatten() {
            line.push(' ');
            line += part;
        }
        line
    }
}
