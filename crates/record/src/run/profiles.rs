//! Imported profiles as parts of one record.

use super::{RecordedTrace, RunRecord, Summary};
use crate::import::Profile;

/// A second profile of a kind of which a record holds one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecondProfile {
    #[error("a second timeline")]
    Timeline,
    #[error("a second set of counters")]
    Counters,
    #[error("a second memory snapshot")]
    Memory,
    #[error("a second set of telemetry")]
    Telemetry,
}

impl SecondProfile {
    pub fn hint(self) -> &'static str {
        match self {
            Self::Timeline => "import each timeline into a run of its own",
            Self::Counters => "import a directory of reports, or each report into a run of its own",
            Self::Memory => "import each snapshot into a run of its own",
            Self::Telemetry => "import each file of samples into a run of its own",
        }
    }
}

impl RunRecord {
    /// Adds a profile of the same program that was read from `file`.
    pub fn add_profile(&mut self, file: &str, profile: Profile) -> Result<(), SecondProfile> {
        match profile {
            Profile::Trace(_) if !self.traces.is_empty() => Err(SecondProfile::Timeline),
            Profile::Counters(_) if self.counters.is_some() => Err(SecondProfile::Counters),
            Profile::Memory(_) if self.memory.is_some() => Err(SecondProfile::Memory),
            Profile::Telemetry(_) if self.samples.is_some() => Err(SecondProfile::Telemetry),
            Profile::Trace(trace) => {
                self.traces.push(RecordedTrace {
                    pass: None,
                    trace: *trace,
                });
                Ok(())
            }
            Profile::Counters(counters) => {
                self.counters = Some(*counters);
                Ok(())
            }
            Profile::Memory(memory) => {
                self.memory = Some(*memory);
                Ok(())
            }
            Profile::Telemetry(samples) => {
                self.samples = Some(*samples);
                Ok(())
            }
            Profile::Summary(table) => {
                self.summaries.push(Summary {
                    file: file.to_owned(),
                    table: *table,
                });
                Ok(())
            }
        }
    }
}
