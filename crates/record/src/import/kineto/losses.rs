//! What could not be read, counted while reading and reported at the end.

use crate::issue::{Issue, IssueCode, Severity};

/// How often something went wrong, and where first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    count: u64,
    first: u64,
}

impl Tally {
    /// Counts one at a byte of the content.
    pub(super) fn add(&mut self, at: u64) {
        self.first = if self.count == 0 {
            at
        } else {
            self.first.min(at)
        };
        self.count += 1;
    }

    fn merge(&mut self, other: Self) {
        if other.count > 0 {
            self.first = if self.count == 0 {
                other.first
            } else {
                self.first.min(other.first)
            };
            self.count += other.count;
        }
    }
}

macro_rules! losses {
    ($( $(#[$doc:meta])* $field:ident: $severity:ident $code:path; )*) => {
        /// Every way in which events of a file can be less than they should be.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub(super) struct Losses { $( $(#[$doc])* pub(super) $field: Tally, )* }

        impl Losses {
            pub(super) fn merge(&mut self, other: &Self) {
                $( self.$field.merge(other.$field); )*
            }

            /// One issue for each way that occurred.
            pub(super) fn issues(&self) -> Vec<Issue> {
                let mut issues = Vec::new();
                $( if self.$field.count > 0 {
                    let issue = Issue::coded(Severity::$severity, $code).with("byte", self.$field.first);
                    issues.push(issue.counting(self.$field.count));
                } )*
                issues
            }
        }
    };
}

losses! {
    /// The content ends where it should not.
    truncated: Error IssueCode::KinetoTruncated;
    /// Text that is no event and no JSON.
    malformed: Error IssueCode::KinetoMalformed;
    /// Strings with quotes that were not escaped.
    repaired: Info IssueCode::KinetoRepaired;
    /// Bytes that are no text.
    not_utf8: Warning IssueCode::KinetoNotUtf8;
    no_time: Error IssueCode::KinetoNoTime;
    no_duration: Warning IssueCode::KinetoNoDuration;
    negative_duration: Warning IssueCode::KinetoNegativeDuration;
    no_name: Warning IssueCode::KinetoNoName;
    /// Numbers out of range, and what should be a number or an object and is not.
    bad_field: Warning IssueCode::KinetoBadField;
    /// Begin without end or the reverse.
    unpaired: Warning IssueCode::KinetoUnpaired;
    /// Phases that are not read.
    unread_phase: Info IssueCode::KinetoUnreadPhase;
}
