//! No child outlives us, whatever ends us: `kill -9`, the OOM killer, a crash.
//!
//! Two means, since neither covers all. The kernel kills the child itself when the thread that started it ends
//! (`PR_SET_PDEATHSIG`); what the child started is reached by a guard, a shell that reads from a pipe of ours and, when
//! that breaks without a word, kills the child's process group and the processes that it was told of beyond that. The
//! guard has a group of its own: what is sent to ours does not end it.

use std::{
    io::{self, Write},
    os::unix::process::CommandExt as _,
    process::{Child, ChildStdin, Command, Stdio},
};

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Reads lines, `PID:START…` of processes beyond the group, until one says `done`. Where none does, kills the group in `$0` and
/// those of the last line that still have their start time (field 22 of `/proc/PID/stat`; what precedes the third is a name
/// that may hold anything).
const GUARD: &str = r#"trap '' HUP INT TERM
others=
while read -r line; do
    [ "$line" = done ] && exit
    others=$line
done
kill -s KILL -- "-$0"
for other in $others; do
    stat=
    read -r stat < "/proc/${other%%:*}/stat" || continue
    set -- ${stat##*) }
    [ $# -ge 20 ] && shift 19 && [ "$1" = "${other##*:}" ] && kill -s KILL "${other%%:*}"
done"#;

/// A process by id and start time (clock ticks since boot): an id alone may be another's by the time it is used.
pub type Known = (i32, u64);

/// Has the kernel kill the command with the thread that starts it. That thread must wait for the command.
#[expect(unsafe_code, reason = "only the child can ask to end with its parent")]
pub(super) fn end_with_us(command: &mut Command) {
    let us = getpid();
    let ask = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // We may have died between the fork and this.
        if getppid() == Some(us) {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(
                rustix::io::Errno::SRCH.raw_os_error(),
            ))
        }
    };
    // SAFETY: Between fork and exec only two system calls are made, which take no lock and allocate nothing.
    unsafe { command.pre_exec(ask) };
}

/// Kills a process group when we die before [`Guard::dismiss`].
#[derive(Debug)]
pub(super) struct Guard {
    shell: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// Nothing where there is no shell: the child itself still ends with us.
    pub(super) fn of(group: u32) -> Option<Self> {
        let mut shell = Command::new("/bin/sh")
            .args(["-c", GUARD])
            .arg(group.to_string())
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .ok()?;
        let pipe = shell.stdin.take();
        Some(Self { shell, pipe })
    }

    /// Processes to kill beside the group, in place of any before.
    pub(super) fn watch(&mut self, others: &[Known]) {
        if let Some(pipe) = &mut self.pipe {
            let words = others.iter().map(|(pid, start)| format!("{pid}:{start}"));
            let line = words.collect::<Vec<_>>().join(" ") + "\n";
            // A guard that somebody ended cannot be told anything.
            let _ = pipe.write_all(line.as_bytes());
        }
    }

    /// Ends the guard: its group is gone.
    pub(super) fn dismiss(&mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            // A guard that somebody ended needs no word.
            let _ = pipe.write_all(b"done\n");
            drop(pipe);
            let _ = self.shell.wait();
        }
    }
}
