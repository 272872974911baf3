//! Whether a thread runs or waits, and in which system call, from `/proc`.

use std::{fs, io};

use llmprof_record::trace::{CpuState, HostWait};

use super::system_calls::call_name;

/// One thread at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ThreadState {
    pub(super) cpu: CpuState,
    pub(super) wait: HostWait,
    /// The system call that it waits in; empty on a CPU or where that is hidden from us.
    pub(super) call: String,
    /// The address of the futex that it waits for.
    pub(super) futex: Option<u64>,
}

impl ThreadState {
    /// Reads it; `None` of a thread that is gone.
    pub(super) fn read_state(process: u32, thread: u32) -> Option<Self> {
        let folder = format!("/proc/{process}/task/{thread}");
        match fs::read_to_string(format!("{folder}/syscall")) {
            Ok(text) => Some(Self::parse_call(&text)),
            // Whoever may not trace the process may still see whether it runs.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Self::parse_stat(&fs::read_to_string(format!("{folder}/stat")).ok()?)
            }
            Err(_) => None,
        }
    }

    /// `running`; or the number of a call, its arguments, the stack and the instruction pointer; or −1 outside of calls.
    fn parse_call(text: &str) -> Self {
        let mut words = text.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        if first == "running" {
            return Self {
                cpu: CpuState::ON,
                ..Self::default()
            };
        }
        let off = Self {
            cpu: CpuState::OFF,
            wait: HostWait::UNKNOWN,
            ..Self::default()
        };
        let Ok(number @ 0..) = first.parse::<i64>() else {
            return off;
        };
        let call = call_name(number);
        let argument = words.next().and_then(|word| word.strip_prefix("0x"));
        let argument = argument.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let (wait, futex) = match call.as_str() {
            "futex" | "futex_waitv" => (HostWait::LOCK, argument),
            "nanosleep" | "clock_nanosleep" => (HostWait::SLEEP, None),
            _ => (HostWait::CALL, None),
        };
        Self {
            wait,
            call,
            futex,
            ..off
        }
    }

    fn parse_stat(text: &str) -> Option<Self> {
        // The name may hold anything, also spaces and parentheses.
        let state = text.get(text.rfind(')')? + 2..)?.chars().next()?;
        Some(match state {
            'R' => Self {
                cpu: CpuState::ON,
                ..Self::default()
            },
            'Z' | 'X' => return None,
            _ => Self {
                cpu: CpuState::OFF,
                wait: HostWait::UNKNOWN,
                ..Self::default()
            },
        })
    }
}

/// Whether a process has ended, though its parent may not have noticed.
pub(super) fn is_ended(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"));
    stat.map_or(true, |text| ThreadState::parse_stat(&text).is_none())
}

/// The threads of a process; empty when it is gone.
pub(super) fn list_threads(process: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{process}/task"));
    let entries = entries.into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name());
    names
        .filter_map(|name| name.to_string_lossy().parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_apart() {
        let on = ThreadState::parse_call("running\n");
        assert_eq!((on.cpu, on.wait), (CpuState::ON, HostWait::NONE));
        // A page fault, for one.
        let outside = ThreadState::parse_call("-1 0x7ffc 0x7f16\n");
        assert_eq!(
            (outside.cpu, outside.wait, outside.call.as_str()),
            (CpuState::OFF, HostWait::UNKNOWN, "")
        );
        #[cfg(target_arch = "x86_64")]
        for (line, wait, call, futex) in [
            (
                "202 0x7f163d34e6f0 0x89 0x0 0x7fff 0x0 0xffffffff 0x7fff 0x7f16",
                HostWait::LOCK,
                "futex",
                Some(0x7f16_3d34_e6f0),
            ),
            (
                "230 0x1 0x1 0x7f 0x0",
                HostWait::SLEEP,
                "clock_nanosleep",
                None,
            ),
            ("0 0x3 0x7f 0x10", HostWait::CALL, "read", None),
            ("999 0x3", HostWait::CALL, "syscall 999", None),
        ] {
            let state = ThreadState::parse_call(line);
            assert_eq!(
                (state.wait, state.call.as_str(), state.futex),
                (wait, call, futex)
            );
            assert_eq!(state.cpu, CpuState::OFF);
        }
    }

    #[test]
    fn without_the_right_to_trace_only_the_state_is_known() {
        let on = ThreadState::parse_stat("7 (a) S b) R 1 7").unwrap();
        assert_eq!(on.cpu, CpuState::ON);
        let off = ThreadState::parse_stat("7 (python) D 1 7").unwrap();
        assert_eq!((off.cpu, off.wait), (CpuState::OFF, HostWait::UNKNOWN));
        assert_eq!(ThreadState::parse_stat("7 (python) Z 1 7"), None);
        assert_eq!(ThreadState::parse_stat(""), None);
    }
}
