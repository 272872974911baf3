//! Ids of what an answer rests on: `finding=3`, `kernel=2`, `phase=decode`, `step=4`, `request=7`, `window=1000..2000`. `llmprof view RUN#ID`
//! opens the same place.

use std::fmt;

use llmprof_analysis::{Analysis, PhaseAnalysis};

use super::recorded_text::is_plain;
use crate::opened_run::OpenedRun;

/// A place in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlaceId {
    /// A finding by its number in the report.
    Finding(usize),
    /// A kernel by its number in the order of total time.
    Kernel(usize),
    /// A phase by its name, or by its number from 1 where no phase has that name.
    Phase(String),
    /// An interval of a phase by its number in the order of time, as in the table `step` of `llmprof query`.
    Step(usize),
    /// A request of a served load by its index.
    Request(u64),
    /// A time, ns since the first event of the timeline.
    Window(i64, i64),
}

impl PlaceId {
    /// The id of a phase: a name that a program chose is not repeated unless it is plain.
    pub(super) fn of_phase(number: usize, phase: &PhaseAnalysis) -> Self {
        let name = phase.name();
        if is_plain(name) && name.parse::<usize>().is_err() {
            Self::Phase(name.to_owned())
        } else {
            Self::Phase(number.to_string())
        }
    }
}

/// The phase that an id names, with its number.
pub(super) fn find_phase<'a>(
    analysis: &'a Analysis,
    name: &str,
) -> Option<(usize, &'a PhaseAnalysis)> {
    let by_name = |(_, phase): &(usize, &PhaseAnalysis)| phase.name() == name;
    let number = name.parse::<usize>().ok();
    let mut phases = (1..).zip(&analysis.phases);
    let mut numbered = phases.clone();
    phases
        .find(by_name)
        .or_else(|| numbered.find(|(place, _)| Some(*place) == number))
}

impl fmt::Display for PlaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finding(number) => write!(f, "finding={number}"),
            Self::Kernel(number) => write!(f, "kernel={number}"),
            Self::Phase(name) => write!(f, "phase={name}"),
            Self::Step(number) => write!(f, "step={number}"),
            Self::Request(number) => write!(f, "request={number}"),
            Self::Window(from, to) => write!(f, "window={from}..{to}"),
        }
    }
}

impl std::str::FromStr for PlaceId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let start: String = text.chars().take(60).collect();
            format!(
                "`{start}` is not an id such as finding=1, kernel=1, phase=decode, step=0, request=0 or window=0..1000000 (ns)"
            )
        };
        // Findings are printed as `1.`.
        let (kind, value) = match text.split_once('=') {
            Some(parts) => parts,
            None if text.parse::<usize>().is_ok() => ("finding", text),
            None => return Err(wrong()),
        };
        let number = || value.parse().map_err(|_| wrong());
        match kind {
            "finding" => Ok(Self::Finding(number()?)),
            "kernel" => Ok(Self::Kernel(number()?)),
            "phase" if !value.is_empty() => Ok(Self::Phase(value.to_owned())),
            "step" => Ok(Self::Step(number()?)),
            "request" => Ok(Self::Request(value.parse().map_err(|_| wrong())?)),
            "window" => {
                let (from, to) = value.split_once("..").ok_or_else(wrong)?;
                let (from, to) = (from.parse().ok(), to.parse().ok());
                let (from, to): (i64, i64) = from.zip(to).ok_or_else(wrong)?;
                if from < 0 || to <= from {
                    return Err(wrong());
                }
                Ok(Self::Window(from, to))
            }
            _ => Err(wrong()),
        }
    }
}

impl OpenedRun {
    /// The part of the address behind `#` that shows a place of run number `run`; `None` where the run has no such place or no page shows it.
    pub fn page_of(&self, place: &PlaceId, run: usize) -> Option<String> {
        let of_window = |from: i64, to: i64| {
            let (margin, length) = ((to - from) / 50, to - from);
            format!(
                "timeline?run={run}&t={},{}",
                from - margin,
                length + 2 * margin
            )
        };
        match place {
            PlaceId::Finding(number) => {
                let exists = (1..=self.findings().len()).contains(number);
                exists.then(|| format!("run?run={run}&finding={number}"))
            }
            PlaceId::Kernel(number) => {
                let name = self.kernel_name(*number)?;
                Some(format!(
                    "timeline?run={run}&q={}",
                    percent_encoded(&llmprof_report::kernel_label(name))
                ))
            }
            PlaceId::Phase(name) => {
                let (_, phase) = find_phase(self.analysis.as_ref()?, name)?;
                let phases = &self.timeline.phases;
                let (_, start, end) = phases.iter().find(|(known, ..)| known == phase.name())?;
                let origin = self.timeline.origin;
                Some(of_window(start - origin, end - origin))
            }
            PlaceId::Step(number) => {
                let (_, start, end) = self.timeline.phases.get(*number)?;
                let origin = self.timeline.origin;
                Some(of_window(start - origin, end - origin))
            }
            PlaceId::Window(from, to) => {
                (*from < self.timeline.span).then(|| of_window(*from, *to))
            }
            PlaceId::Request(_) => None,
        }
    }

    /// The kernel with this number in the order of total time, from 1.
    pub(super) fn kernel_name(&self, number: usize) -> Option<&str> {
        let timeline = self.analysis.as_ref()?.timeline.as_ref()?;
        let row = timeline.kernels.get(number.checked_sub(1)?)?;
        Some(&row.name)
    }
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded += &format!("%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written() {
        for id in [
            PlaceId::Finding(3),
            PlaceId::Kernel(1),
            PlaceId::Phase("decode = x".to_owned()),
            PlaceId::Step(0),
            PlaceId::Request(7),
            PlaceId::Window(0, 5),
        ] {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
    }

    #[test]
    fn other_texts_are_refused_with_examples() {
        for text in [
            "",
            "finding",
            "finding=",
            "finding=-1",
            "kernel=1.5",
            "phase=",
            "window=5..5",
            "window=-1..5",
            "window=1",
            "step=99999999999999999999",
            "FINDING=1",
        ] {
            let error = text.parse::<PlaceId>().unwrap_err();
            assert!(error.contains("finding=1"), "{text}: {error}");
        }
    }

    #[test]
    fn labels_stand_in_addresses() {
        assert_eq!(percent_encoded("a<b, é&"), "a%3Cb%2C%20%C3%A9%26");
    }
}
