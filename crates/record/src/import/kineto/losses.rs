//! What could not be read, counted while reading and told at the end.

use crate::issue::{Issue, Severity};

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
    ($( $(#[$doc:meta])* $field:ident: $severity:ident $code:literal $message:literal $hint:expr; )*) => {
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
                    let message = format!("{}; the first at byte {}", $message, self.$field.first);
                    let issue = Issue::new(Severity::$severity, $code, message).counting(self.$field.count);
                    let hint: Option<&str> = $hint;
                    issues.push(match hint { Some(hint) => issue.with_hint(hint), None => issue });
                } )*
                issues
            }
        }
    };
}

losses! {
    /// The content ends where it should not.
    truncated: Error "kineto.truncated" "the file ends inside an event or before the list of events is closed"
        Some("copy the file again, or wait until the profiler has finished writing it");
    /// Text that is no event and no JSON.
    malformed: Error "kineto.malformed" "events that are not JSON were skipped" None;
    /// Strings with quotes that were not escaped.
    repaired: Info "kineto.repaired" "strings with unescaped quotes were read up to the quote that fits" None;
    /// Bytes that are no text.
    not_utf8: Warning "kineto.not_utf8" "names that are not UTF-8 have replacement characters" None;
    no_time: Error "kineto.no_time" "events without a readable time (`ts`) were skipped" None;
    no_duration: Warning "kineto.no_duration" "slices without a readable duration (`dur`) count as 0 ns" None;
    /// Below zero.
    negative_duration: Warning "kineto.negative_duration" "slices with a negative duration count as 0 ns" None;
    no_name: Warning "kineto.no_name" "events without a name" None;
    /// Numbers out of range, and what should be a number or an object and is not.
    bad_field: Warning "kineto.bad_field" "fields that are not the number or object they should be were left out" None;
    /// Begin without end or the reverse.
    unpaired: Warning "kineto.unpaired" "begin and end events without their counterpart were skipped" None;
    /// Phases that are not read.
    unread_phase: Info "kineto.unread_phase" "events of kinds that have no place in a trace (counters, async, objects) were skipped" None;
}
