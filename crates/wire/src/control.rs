//! The lines of the control channel: a Unix stream socket on which the profiler listens and every watched process
//! connects. One message a line, words apart by single spaces, a text last.

use std::fmt;

/// What a watched process says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// The first line: who it is and which file it writes.
    Hello {
        /// The version of the wire format.
        version: u32,
        process: u32,
        /// The name of the file within the directory.
        file: String,
    },
    /// CUPTI is in use, in the version that `cuptiGetVersion` returned.
    Attached { cupti: u32 },
    /// CUPTI cannot be used in this process, and it records nothing.
    Refused { why: String },
    /// Recording went on or off.
    Capture { on: bool },
    /// Everything recorded before [`Order::Flush`] is in the file.
    Flushed {
        /// The number of that order.
        number: u32,
    },
    /// Records were dropped, and the file may not say so.
    Dropped {
        /// Number of dropped records since the process started.
        count: u64,
        /// Reason of the latest drop, for people.
        why: String,
    },
    /// The file has all the bytes that it may have: recording is over.
    Full,
    /// The process ends in order.
    Ended,
}

/// What the profiler tells a watched process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Start,
    Stop,
    /// Write what there is, then answer with this number.
    Flush(u32),
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hello {
                version,
                process,
                file,
            } => write!(f, "hello {version} {process} {file}"),
            Self::Attached { cupti } => write!(f, "attached {cupti}"),
            Self::Refused { why } => write!(f, "refused {}", one_line(why)),
            Self::Capture { on } => f.write_str(if *on { "capture on" } else { "capture off" }),
            Self::Flushed { number } => write!(f, "flushed {number}"),
            Self::Dropped { count, why } => write!(f, "dropped {count} {}", one_line(why)),
            Self::Full => f.write_str("full"),
            Self::Ended => f.write_str("ended"),
        }
    }
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

impl Report {
    /// Reads a line; `None` for one that it does not know, which a newer library may send.
    pub fn read(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        Some(match word {
            "hello" => {
                let (version, rest) = rest.split_once(' ')?;
                let (process, file) = rest.split_once(' ')?;
                Self::Hello {
                    version: version.parse().ok()?,
                    process: process.parse().ok()?,
                    file: file.to_owned(),
                }
            }
            "attached" => Self::Attached {
                cupti: rest.parse().ok()?,
            },
            "refused" => Self::Refused {
                why: rest.to_owned(),
            },
            "capture" => Self::Capture { on: rest == "on" },
            "flushed" => Self::Flushed {
                number: rest.parse().ok()?,
            },
            "dropped" => {
                let (count, why) = rest.split_once(' ')?;
                Self::Dropped {
                    count: count.parse().ok()?,
                    why: why.to_owned(),
                }
            }
            "full" => Self::Full,
            "ended" => Self::Ended,
            _ => return None,
        })
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => f.write_str("start"),
            Self::Stop => f.write_str("stop"),
            Self::Flush(number) => write!(f, "flush {number}"),
        }
    }
}

impl Order {
    /// Reads a line; `None` for one that it does not know.
    pub fn read(line: &str) -> Option<Self> {
        Some(match line.split_once(' ').unwrap_or((line, "")) {
            ("start", _) => Self::Start,
            ("stop", _) => Self::Stop,
            ("flush", number) => Self::Flush(number.parse().ok()?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_back() {
        let reports = [
            Report::Hello {
                version: 1,
                process: 12,
                file: "a b.wire".to_owned(),
            },
            Report::Attached { cupti: 130_001 },
            Report::Refused {
                why: "another tool has subscribed".to_owned(),
            },
            Report::Capture { on: true },
            Report::Capture { on: false },
            Report::Flushed { number: 3 },
            Report::Dropped {
                count: 17,
                why: "no space left on device".to_owned(),
            },
            Report::Full,
            Report::Ended,
        ];
        for report in reports {
            assert_eq!(Report::read(&report.to_string()), Some(report));
        }
        for order in [Order::Start, Order::Stop, Order::Flush(7)] {
            assert_eq!(Order::read(&order.to_string()), Some(order));
        }
    }

    #[test]
    fn a_text_stays_on_its_line_and_nonsense_is_nothing() {
        let why = "a\nstop".to_owned();
        assert_eq!(Report::Refused { why }.to_string(), "refused a stop");
        for line in [
            "",
            "hello",
            "hello x 1 f",
            "dropped many x",
            "flushed",
            "dance",
        ] {
            assert_eq!(Report::read(line), None, "{line:?}");
        }
        assert_eq!(Order::read("flush soon"), None);
    }
}
