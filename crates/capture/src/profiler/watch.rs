//! Running a command to its end while its processes are recorded.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use llmprof_units::{Bytes, Nanos};
use llmprof_wire::control::Order;
use rustix::event::PollFlags;
use rustix::fd::AsFd;
use rustix::process::{Pid, PidfdFlags, Signal, getpgrp, kill_process, pidfd_open};
use rustix::termios::tcgetpgrp;

use super::Channel;
use crate::host_stacks::HostSampler;
use crate::process::{Descendants, Interrupt, Launch, ProcessError};

/// How long a command may take to end by itself after Ctrl-C before it gets the signal from us: a terminal sends it to
/// the command too.
const FLUSH_MAX_WAIT: Duration = Duration::from_secs(2);
/// How long processes that outlive the command may take to write what they have.
const LAST_FLUSH: Duration = Duration::from_secs(3);

/// How often the size of what was recorded is looked at.
const SIZE_EVERY: Duration = Duration::from_millis(250);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Begin so long after the start of the command.
    pub after: Option<Duration>,
    /// End so long after the beginning.
    pub length: Option<Duration>,
    /// End when the files of this folder have so many bytes.
    pub most: Option<(PathBuf, Bytes)>,
}

impl Schedule {
    /// Whether processes record from their first moment.
    pub fn begins_at_once(&self) -> bool {
        self.after.is_none()
    }
}

/// Where what the command prints goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandOutput {
    Stdout,
    /// To our standard error, since our output is data.
    Stderr,
}

/// How a watched command ended.
#[derive(Clone, Copy, Debug)]
pub struct WatchedEnd {
    /// What the system says of it.
    pub status: ExitStatus,
    /// Whether the user asked to stop.
    pub was_interrupted: bool,
    /// Wall time from start to end.
    pub duration: Nanos,
    /// Whether recording ended since its files had all the bytes that they may have.
    pub was_full: bool,
}

/// Starts the command with our own input, output and terminal, and waits until it ends. Ctrl-C goes to the command,
/// from the terminal or from us; a second one ends it. SIGTERM and SIGHUP end it too, and so does our own death, with all
/// that it started.
pub fn run_watched(
    launch: &Launch,
    channel: &mut Channel,
    schedule: &Schedule,
    output: CommandOutput,
    sampler: Option<&HostSampler>,
    interrupt: &mut Interrupt,
) -> Result<WatchedEnd, ProcessError> {
    let system = |action| move |source: std::io::Error| ProcessError::System { action, source };
    let started = Instant::now();
    let mut command = launch.command();
    if output == CommandOutput::Stderr {
        command.stdout(std::io::stderr());
    }
    let descendants = Descendants::bind_command(&mut command);
    // The command stays in our process group: the terminal's Ctrl-C reaches it, and it may read from the terminal.
    let mut child = command
        .spawn()
        .map_err(|source| launch.not_started(source))?;
    let pid = Pid::from_child(&child);
    let pidfd = pidfd_open(pid, PidfdFlags::empty())
        .map_err(|errno| system("watch the command")(errno.into()))?;
    let mut begin = schedule.after.map(|after| started + after);
    let mut end = schedule
        .length
        .map(|length| begin.unwrap_or(started) + length);
    let mut size_check = schedule.most.is_some().then(|| started + SIZE_EVERY);
    let mut was_full = false;
    let set_sampling = |is_on| {
        sampler.inspect(|sampler| sampler.set_recording(is_on));
    };
    set_sampling(schedule.begins_at_once());
    // A Ctrl-C of the terminal until here may not have reached the command.
    let asked_before = interrupt.stop_count();
    let mut ending = StopStage::default();
    loop {
        let is_asked = interrupt.stop_count() > ending.asked;
        let asked_at = is_asked.then(Instant::now);
        let deadlines = [begin, end, ending.next, size_check, asked_at];
        let deadline = deadlines.into_iter().flatten().min();
        let mut watched = vec![(pidfd.as_fd(), PollFlags::IN)];
        watched.extend(
            channel
                .descriptors()
                .into_iter()
                .map(|descriptor| (descriptor, PollFlags::IN)),
        );
        let ready = interrupt
            .wait_for_any(&watched, deadline)
            .map_err(system("wait for the command"))?;
        channel.serve_connections();
        for process in channel.take_new() {
            sampler.inspect(|sampler| sampler.add_process(process));
        }
        if ready.first() == Some(&true) {
            break;
        }
        let now = Instant::now();
        if begin.is_some_and(|begin| now >= begin) {
            begin = None;
            channel.send_order(Order::Start);
            set_sampling(true);
        }
        if end.is_some_and(|end| now >= end) {
            end = None;
            channel.send_order(Order::Stop);
            channel.request_flush();
            set_sampling(false);
        }
        // Once is enough: nothing is recorded from then on.
        if !was_full && is_full(channel, schedule, &mut size_check, now) {
            was_full = true;
            (begin, end, size_check) = (None, None, None);
            channel.send_order(Order::Stop);
            channel.request_flush();
            set_sampling(false);
        }
        let asked = interrupt.stop_count();
        if asked > 0 && ending.asked == 0 {
            channel.request_flush();
        }
        let wish = Wish {
            asked,
            is_termination: interrupt.is_termination(),
            has_reached_command: asked > asked_before && terminal_signals_command(),
        };
        if let Some(signal) = ending.next_signal(wish, now) {
            // One that is gone already is what was wanted.
            let _ = kill_process(pid, signal);
        }
    }
    let status = child.wait().map_err(system("collect the command"))?;
    let duration = Nanos(started.elapsed().as_nanos() as i64);
    flush_the_rest(channel, interrupt).map_err(system("wait for the last records"))?;
    let was_interrupted = interrupt.stop_count() > 0;
    if was_interrupted {
        descendants.end_all();
    }
    Ok(WatchedEnd {
        status,
        was_interrupted,
        duration,
        was_full: was_full || channel.processes().any(|process| process.is_full),
    })
}

/// Whether one process has written all that it may, which it says, or all of them together have, which is looked at now and
/// then.
fn is_full(
    channel: &Channel,
    schedule: &Schedule,
    check: &mut Option<Instant>,
    now: Instant,
) -> bool {
    if channel.processes().any(|process| process.is_full) {
        return true;
    }
    match &schedule.most {
        Some((folder, most)) if check.is_some_and(|check| now >= check) => {
            *check = Some(now + SIZE_EVERY);
            folder_size(folder) >= *most
        }
        _ => false,
    }
}

/// Bytes of the files of a folder.
fn folder_size(folder: &Path) -> Bytes {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| Some(Bytes(entry.metadata().ok()?.len())));
    sizes.sum()
}

/// Whether a Ctrl-C reaches the command without us: the terminal sends it to the whole group in its foreground.
fn terminal_signals_command() -> bool {
    let Ok(terminal) = File::open("/dev/tty") else {
        return false;
    };
    tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp())
}

/// What the user asked for so far.
#[derive(Clone, Copy)]
struct Wish {
    /// Number of signals that came.
    asked: u32,
    /// Whether one of them was SIGTERM or SIGHUP.
    is_termination: bool,
    /// Whether the terminal sent a Ctrl-C to the command too.
    has_reached_command: bool,
}

/// How far the user's wish to stop has gone.
#[derive(Default)]
struct StopStage {
    asked: u32,
    next: Option<Instant>,
    sent: u32,
}

impl StopStage {
    /// What the command is to be sent now.
    fn next_signal(&mut self, wish: Wish, now: Instant) -> Option<Signal> {
        let asked = wish.asked;
        if asked == 0 {
            return None;
        }
        // A command that has the first Ctrl-C already takes the time it needs: a server that gets another one would take it
        // for impatience. Of SIGTERM it knows nothing.
        if self.asked == 0 && wish.is_termination {
            self.next = Some(now);
        } else if self.asked == 0 && !wish.has_reached_command {
            self.next = Some(now + FLUSH_MAX_WAIT);
        }
        let again = asked > self.asked && self.asked > 0;
        self.asked = asked;
        if !again && self.next.is_none_or(|next| now < next) {
            return None;
        }
        let signal = match (self.sent, again) {
            (0, false) => Signal::INT,
            (0 | 1, _) => Signal::TERM,
            _ => Signal::KILL,
        };
        self.sent += 1;
        self.next = (self.sent < 4).then(|| now + 2 * FLUSH_MAX_WAIT);
        Some(signal)
    }
}

/// Processes that the command left behind write what they have; they are not ended.
fn flush_the_rest(channel: &mut Channel, interrupt: &Interrupt) -> std::io::Result<()> {
    channel.send_order(Order::Stop);
    channel.request_flush();
    channel.serve_connections();
    let deadline = Instant::now() + LAST_FLUSH;
    while !channel.is_flushed() && Instant::now() < deadline {
        let watched: Vec<_> = channel
            .descriptors()
            .into_iter()
            .map(|descriptor| (descriptor, PollFlags::IN))
            .collect();
        interrupt.wait_for_any(&watched, Some(deadline))?;
        drop(watched);
        channel.serve_connections();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is sent when the user asks at these seconds and never again.
    fn signals_sent(has_reached_command: bool, asked_at: &[u64], until: u64) -> Vec<(u64, Signal)> {
        signals(has_reached_command, false, asked_at, until)
    }

    fn signals(
        has_reached_command: bool,
        is_termination: bool,
        asked_at: &[u64],
        until: u64,
    ) -> Vec<(u64, Signal)> {
        let start = Instant::now();
        let mut ending = StopStage::default();
        (0..=until)
            .filter_map(|second| {
                let wish = Wish {
                    asked: asked_at.iter().filter(|at| **at <= second).count() as u32,
                    is_termination,
                    has_reached_command,
                };
                let now = start + Duration::from_secs(second);
                Some((second, ending.next_signal(wish, now)?))
            })
            .collect()
    }

    #[test]
    fn a_command_that_the_terminal_signalled_is_left_to_end() {
        assert_eq!(signals_sent(true, &[1], 3600), []);
        let insisted = signals_sent(true, &[1, 60], 70);
        assert_eq!(insisted[..2], [(60, Signal::TERM), (64, Signal::TERM)]);
        assert_eq!(insisted[2], (68, Signal::KILL));
        assert_eq!(signals_sent(true, &[1, 2, 3, 4], 4)[2], (4, Signal::KILL));
    }

    /// The terminal's foreground says nothing of a SIGTERM that somebody sent to us alone.
    #[test]
    fn a_termination_is_passed_on_at_once() {
        for has_reached_command in [true, false] {
            let expected = [(1, Signal::INT), (5, Signal::TERM), (9, Signal::KILL)];
            assert_eq!(signals(has_reached_command, true, &[1], 10), expected);
        }
    }

    #[test]
    fn a_command_that_nobody_signalled_is_signalled_and_then_ended() {
        let expected = [
            (3, Signal::INT),
            (7, Signal::TERM),
            (11, Signal::KILL),
            (15, Signal::KILL),
        ];
        assert_eq!(signals_sent(false, &[1], 60), expected);
    }
}
