//! Imported profiles as parts of one record.

use super::rank_name::rank_of_file;
use super::{RunRecord, Summary};
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
            Self::Timeline => {
                "import each timeline into a run of its own; timelines of several ranks each need another rank, recorded \
                 (`distributedInfo`) or in the file name (rank0.json, rank1.json)"
            }
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
            Profile::Counters(_) if self.counters.is_some() => Err(SecondProfile::Counters),
            Profile::Memory(_) if self.memory.is_some() => Err(SecondProfile::Memory),
            Profile::Telemetry(_) if self.samples.is_some() => Err(SecondProfile::Telemetry),
            Profile::Trace(trace) => self.add_trace(file, *trace),
            Profile::Counters(counters) => {
                self.counters = Some(*counters);
                Ok(())
            }
            Profile::Memory(memory) => {
                self.memory = Some(*memory);
                Ok(())
            }
            Profile::Communication(mut communication) => {
                // Dumps of the flight recorder do not say their rank; the names of their files do.
                let rank = rank_of_file(file);
                for pending in &mut communication.pending {
                    pending.rank = pending.rank.or(rank);
                }
                for progress in &mut communication.progress {
                    progress.rank = progress.rank.or(rank);
                }
                self.communication
                    .get_or_insert_default()
                    .absorb(*communication);
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
