//! A worker that is recorded while it runs chosen batches, and not before.

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_wire::{Options, control::Order};

use super::{Channel, Cupti, Watched};
use crate::process::Launch;

/// How long a process may take to follow an order: it reads them in a thread of its own.
const ATTACH_MAX_WAIT: Duration = Duration::from_secs(5);
/// How often it is looked whether it has.
const POLL_PAUSE: Duration = Duration::from_millis(1);

/// Recording by our library that waits for its start.
pub struct Recording {
    channel: Channel,
    cupti: Cupti,
}

impl Recording {
    /// Prepares to record into `directory`, which must exist, from when [`start`](Self::start) says so.
    pub fn prepare(library: PathBuf, directory: &Path, options: Options) -> io::Result<Self> {
        let channel = Channel::open()?;
        let cupti = Cupti {
            library,
            directory: std::path::absolute(directory)?,
            control: Some(channel.path()),
            options: Options {
                begin: false,
                ..options
            },
            range: None,
        };
        Ok(Self { channel, cupti })
    }

    /// The same command, recorded once [`start`](Self::start) says so.
    #[must_use]
    pub fn apply_to(&self, launch: Launch) -> Launch {
        self.cupti.apply_to(launch)
    }

    /// Records from now on. Says why where no process does.
    pub fn start(&mut self) -> Result<(), String> {
        // Within a budget a process chooses the moments itself, and does not report each of them.
        let in_slices = self.cupti.options.overhead_ppm > 0;
        let records =
            |process: &Watched| process.is_capturing || (in_slices && process.cupti.is_some());
        self.channel.serve_connections();
        self.channel.send_order(Order::Start);
        self.wait_until(|channel| {
            channel
                .processes()
                .any(|process| records(process) || process.refused.is_some())
        });
        let refused = self
            .channel
            .processes()
            .find_map(|process| process.refused.clone());
        if self.channel.processes().any(records) {
            Ok(())
        } else if let Some(why) = refused {
            Err(why)
        } else if self.channel.processes().next().is_none() {
            Err("the worker did not load llmprof's library".to_owned())
        } else {
            Err("the worker did not begin to record".to_owned())
        }
    }

    pub fn processes(&self) -> impl Iterator<Item = u32> {
        let watched = self.channel.processes().map(|watched| watched.process);
        watched.filter(|process| *process != 0)
    }

    /// Records no more, and has everything written.
    pub fn stop(&mut self) {
        self.channel.send_order(Order::Stop);
        self.channel.request_flush();
        self.wait_until(Channel::is_flushed);
    }

    /// What was dropped, once the worker has ended.
    pub fn take_issues(&mut self) -> Vec<Issue> {
        self.channel.serve_connections();
        let dropped = self.channel.processes().filter_map(|process| {
            let (count, why) = process.dropped.as_ref()?;
            let issue = Issue::error(IssueCode::CuptiDropped).with("why", why.as_str());
            Some(issue.counting(*count))
        });
        let is_full = self.channel.processes().any(|process| process.is_full);
        dropped
            .chain(is_full.then(|| Issue::error(IssueCode::RecordMaxSize)))
            .collect()
    }

    fn wait_until(&mut self, done: impl Fn(&Channel) -> bool) {
        let deadline = Instant::now() + ATTACH_MAX_WAIT;
        while !done(&self.channel) && Instant::now() < deadline {
            std::thread::sleep(POLL_PAUSE);
            self.channel.serve_connections();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader, Write},
        os::unix::net::UnixStream,
    };

    use super::*;

    #[test]
    fn a_worker_is_ordered_to_record_and_answers() {
        let folder = tempfile::tempdir().unwrap();
        let library = PathBuf::from("/nowhere/library.so");
        let options = Options {
            overhead_ppm: 20_000,
            ..Options::default()
        };
        let mut recording = Recording::prepare(library, folder.path(), options).unwrap();
        let launch = recording.apply_to(Launch::new("worker")).to_string();
        assert!(
            launch.contains("begin=off") && launch.contains("overhead_ppm=20000"),
            "{launch}"
        );
        let socket = recording.channel.path();
        let worker = std::thread::spawn(move || {
            let mut stream = UnixStream::connect(socket).unwrap();
            stream
                .write_all(b"hello 1 42 42.wire\nattached 130001\n")
                .unwrap();
            let orders = BufReader::new(stream.try_clone().unwrap());
            for order in orders.lines() {
                match order.unwrap().as_str() {
                    "start" => stream.write_all(b"capture on\n").unwrap(),
                    "stop" => stream.write_all(b"dropped 7 disk full\n").unwrap(),
                    flush => {
                        let number = flush.trim_start_matches("flush ");
                        stream
                            .write_all(format!("flushed {number}\n").as_bytes())
                            .unwrap();
                        return;
                    }
                }
            }
        });
        recording.start().unwrap();
        recording.stop();
        worker.join().unwrap();
        let issues = recording.take_issues();
        assert_eq!((issues[0].count, issues.len()), (7, 1));
    }

    #[test]
    fn a_worker_with_a_budget_need_not_say_that_it_records() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            overhead_ppm: 20_000,
            ..Options::default()
        };
        let mut recording = Recording::prepare("/x.so".into(), folder.path(), options).unwrap();
        let mut stream = UnixStream::connect(recording.channel.path()).unwrap();
        stream
            .write_all(b"hello 1 42 42.wire\nattached 130001\n")
            .unwrap();
        assert_eq!(recording.start(), Ok(()));
    }

    #[test]
    fn a_worker_without_the_library_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::default();
        let mut recording = Recording::prepare("/x.so".into(), folder.path(), options).unwrap();
        let socket = recording.channel.path();
        let mut stream = UnixStream::connect(socket).unwrap();
        stream
            .write_all(b"hello 1 42 42.wire\nrefused another subscriber\n")
            .unwrap();
        assert_eq!(recording.start(), Err("another subscriber".to_owned()));
    }
}
