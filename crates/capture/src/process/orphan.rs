//! No child outlives us, whatever ends us: `kill -9`, the OOM killer, a crash.
//!
//! Two means, since neither covers all. The kernel signals the child itself when the thread that started it ends
//! (`PR_SET_PDEATHSIG`); what the child started is reached by a guard, a shell that reads from a pipe of ours and kills when
//! that breaks without a word. The guard has a group of its own: what is sent to ours does not end it.

use std::{
    io::{self, Write},
    os::{
        fd::{BorrowedFd, RawFd},
        unix::process::CommandExt as _,
    },
    process::{Child, ChildStdin, Command, Stdio},
};

use rustix::process::{
    Pid, Signal, getpid, getppid, set_child_subreaper, set_parent_process_death_signal,
};

/// Reads lines until one says `done`. Where none does, kills the group in `$0`.
const OF_GROUP: &str = r#"trap '' HUP INT TERM
while read -r line; do
    [ "$line" = done ] && exit
done
kill -s KILL -- "-$0""#;

/// The same for a process and all below it, also what left its group; the process says its id itself. It was stopped when we
/// died, and whatever loses its parent becomes its child: stopping one after the other, until there is none that runs, misses
/// nothing. Of `/proc/PID`, `status` is read and not `stat`, where a name may hold anything, line breaks included.
const OF_TREE: &str = r#"trap '' HUP INT TERM
root=
while read -r line; do
    [ "$line" = done ] && exit
    root=$line
done
[ "$root" ] || exit
tree=" $root "
more=yes
while [ "$more" ]; do
    more=
    for folder in /proc/[0-9]*; do
        state= parent=
        while read -r key value _; do
            case $key in
                State:) state=$value ;;
                PPid:) parent=$value; break ;;
            esac
        done < "$folder/status"
        process=${folder#/proc/}
        case $state in Z | X) continue ;; esac
        case $tree in
            *" $process "*) ;;
            *" $parent "*) kill -s STOP "$process"; tree="$tree$process "; more=yes ;;
        esac
    done
done
kill -s KILL $tree
kill -s KILL -- "-$root""#;

/// Has the kernel kill the command with the thread that starts it. That thread must wait for the command.
pub(super) fn end_with_us(command: &mut Command) {
    before_exec(command, || {
        set_parent_process_death_signal(Some(Signal::KILL))
    });
}

/// Has the kernel stop the command with the thread that starts it, and leaves the rest to the guard. What the command's
/// descendants leave behind becomes its child.
pub(super) fn stop_with_us(command: &mut Command, guard: &Guard) {
    let pipe = guard.pipe.as_ref().map(std::os::fd::AsRawFd::as_raw_fd);
    before_exec(command, move || {
        set_parent_process_death_signal(Some(Signal::STOP))?;
        // Where the kernel refuses, orphans below it are not found.
        let _ = set_child_subreaper(Some(getpid()));
        match pipe {
            Some(pipe) => say_id(pipe, getpid()),
            None => Ok(()),
        }
    });
}

#[expect(
    unsafe_code,
    reason = "only the child can ask to end with its parent, and tell who it is"
)]
fn before_exec(
    command: &mut Command,
    ask: impl Fn() -> rustix::io::Result<()> + Send + Sync + 'static,
) {
    let us = getpid();
    let ask = move || {
        ask()?;
        // We may have died between the fork and this.
        if getppid() == Some(us) {
            Ok(())
        } else {
            Err(io::Error::from(rustix::io::Errno::SRCH))
        }
    };
    // SAFETY: Between fork and exec only system calls are made, which take no lock and allocate nothing.
    unsafe { command.pre_exec(ask) };
}

/// Writes a line with a number, without memory of the heap: a fork may have left that locked.
#[expect(unsafe_code, reason = "a descriptor goes through a fork by its number")]
fn say_id(pipe: RawFd, process: Pid) -> rustix::io::Result<()> {
    let mut line = [b'\n'; 12];
    let mut start = line.len() - 1;
    let mut rest = process.as_raw_nonzero().get();
    while rest > 0 {
        start -= 1;
        line[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    // SAFETY: The descriptor is the guard's pipe, which is open as long as the command starts.
    let pipe = unsafe { BorrowedFd::borrow_raw(pipe) };
    rustix::io::write(pipe, &line[start..]).map(|_| ())
}

/// Kills when we die before [`Guard::dismiss`].
#[derive(Debug)]
pub(super) struct Guard {
    shell: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// Of a process group. Nothing where there is no shell: the child itself still ends with us.
    pub(super) fn for_group(group: u32) -> Option<Self> {
        Self::start_guard(OF_GROUP, &group.to_string())
    }

    /// Of a process that is still to start, and all below it.
    pub(super) fn of_tree() -> Option<Self> {
        Self::start_guard(OF_TREE, "sh")
    }

    fn start_guard(script: &str, name: &str) -> Option<Self> {
        let mut shell = Command::new("/bin/sh")
            .args(["-c", script, name])
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

    pub(super) fn id(&self) -> u32 {
        self.shell.id()
    }

    /// Ends the guard: what it guards is gone.
    pub(super) fn dismiss(&mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            // A guard that somebody ended needs no word.
            let _ = pipe.write_all(b"done\n");
            drop(pipe);
            let _ = self.shell.wait();
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.dismiss();
    }
}
