//! No child outlives us, whatever ends us: `kill -9`, the OOM killer, a crash.
//!
//! Two means, since neither covers all. The kernel kills the child itself when the thread that started it ends
//! (`PR_SET_PDEATHSIG`); what the child started is reached by a guard, a shell that reads from a pipe of ours and, when
//! that breaks without a word, kills the child's process group. The guard has a group of its own: what is sent to ours
//! does not end it.

use std::{
    io::{self, Write},
    os::unix::process::CommandExt as _,
    process::{Child, ChildStdin, Command, Stdio},
};

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Reads a line; where there is none, kills the group in `$0`.
const GUARD: &str = "trap '' HUP INT TERM; read -r done || kill -s KILL -- \"-$0\"";

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
