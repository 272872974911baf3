//! The processes below one, wherever they went: groups and sessions of their own hide nothing.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, set_child_subreaper, waitid,
};

/// How long processes may take to end after SIGTERM, and after each SIGKILL.
const SIGNAL_GRACE: Duration = Duration::from_millis(500);

/// An id alone may be another process's by the time it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProcessId {
    pid: i32,
    start_ticks: u64,
}

/// What a command started and left to us when it ended. While one is held, processes whose parents end become our children.
#[derive(Debug)]
pub(super) struct Leftovers {
    /// What was below us before: ours, not the command's.
    ours: Vec<ProcessId>,
}

impl Leftovers {
    /// Must be called before the command starts.
    pub(super) fn begin_watch() -> Self {
        // Where the kernel refuses, what leaves the command's group and outlives its parent is not found.
        let _ = set_child_subreaper(Some(getpid()));
        Self {
            ours: list_descendants(getpid()),
        }
    }

    /// One more process is ours.
    pub(super) fn exclude_process(&mut self, process: u32) {
        self.ours
            .extend(read_stat(process as i32).map(|(_, process)| process));
    }

    /// Once the command has ended: ends what is left of it.
    pub(super) fn end_leftovers(&self) {
        let left = || -> Vec<ProcessId> {
            let below = list_descendants(getpid()).into_iter();
            below
                .filter(|process| !self.ours.contains(process))
                .collect()
        };
        // A process that is told to end may start another one.
        for signal in [Signal::TERM, Signal::KILL, Signal::KILL] {
            let processes = left();
            for process in &processes {
                if let Some(process) = Pid::from_raw(process.pid) {
                    // One that is gone already is what was wanted.
                    let _ = kill_process(process, signal);
                }
            }
            let deadline = Instant::now() + SIGNAL_GRACE;
            while !left().is_empty() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(10));
            }
            processes.iter().for_each(reap_child);
            if left().is_empty() {
                return;
            }
        }
    }
}

/// Takes notice of the end of a process that became our child.
fn reap_child(process: &ProcessId) {
    if let Some(process) = Pid::from_raw(process.pid) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        // It may be another's child.
        let _ = waitid(WaitId::Pid(process), options);
    }
}

/// Everything below a process that has not ended.
fn list_descendants(root: Pid) -> Vec<ProcessId> {
    let mut children: BTreeMap<i32, Vec<ProcessId>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let process = entry.file_name().to_string_lossy().parse::<i32>();
        if let Ok(process) = process
            && let Some((parent, process)) = read_stat(process)
        {
            children.entry(parent).or_default().push(process);
        }
    }
    let mut descendants = Vec::new();
    let mut unread = vec![root.as_raw_nonzero().get()];
    while let Some(parent) = unread.pop() {
        for &process in children.get(&parent).into_iter().flatten() {
            descendants.push(process);
            unread.push(process.pid);
        }
    }
    descendants
}

/// The parent of a process, and which process it is; `None` of one that ended.
fn read_stat(pid: i32) -> Option<(i32, ProcessId)> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    // The name may hold anything, also spaces and parentheses.
    let rest = text.get(text.rfind(')')? + 2..)?;
    let fields: Vec<&str> = rest.split(' ').collect();
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    let start_ticks = fields.get(19)?.parse().ok()?;
    Some((fields.get(1)?.parse().ok()?, ProcessId { pid, start_ticks }))
}
