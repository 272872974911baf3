//! How many launches ncu has profiled, by the lines that it prints while it goes on.
//!
//! For each launch ncu prints `==PROF== Profiling "kernel" - 17 (1/1): 0%....50%....100% - 25 passes`, a few characters at a time, and
//! whatever the program prints may stand in between.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

const STARTED: &[u8] = b"==PROF== Profiling \"";
const ALL_PASSES: &[u8] = b"100%";
/// `- 25 passes`, `- 1 pass`.
const ENDED: &[u8] = b" pass";
/// Time between two looks at the logs.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Launches in what ncu printed so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfiledLaunches {
    /// Launches that ncu has begun to profile.
    pub started: u64,
    /// Launches with all passes made.
    pub finished: u64,
    state: ParseState,
    /// The end of what was read, which may be the beginning of a word.
    rest: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ParseState {
    #[default]
    Between,
    /// Inside the passes of a launch.
    Inside,
    /// All passes are made; their number is to follow.
    Made,
}

impl ProfiledLaunches {
    /// Goes on with what was printed next, which may begin and end anywhere.
    pub fn take_output(&mut self, printed: &[u8]) {
        self.rest.extend_from_slice(printed);
        let mut at = 0;
        while let Some((next, state)) = self.next_word(&self.rest[at..]) {
            at += next;
            // The number of passes ends a launch, or the next one where the program printed over it.
            self.finished += u64::from(self.state == ParseState::Made);
            self.started += u64::from(state == ParseState::Inside);
            self.state = state;
        }
        // A word that is cut is shorter than the longest.
        let kept = self.rest.len().saturating_sub(STARTED.len() - 1);
        self.rest.drain(..at.max(kept));
    }

    /// The end of the next word that matters, and what follows it.
    fn next_word(&self, text: &[u8]) -> Option<(usize, ParseState)> {
        let next = match self.state {
            ParseState::Between => None,
            ParseState::Inside => Some((ALL_PASSES, ParseState::Made)),
            ParseState::Made => Some((ENDED, ParseState::Between)),
        };
        let end =
            |(word, state): (&[u8], ParseState)| Some((find_word(text, word)? + word.len(), state));
        let started = end((STARTED, ParseState::Inside));
        let ends = next.and_then(end).into_iter().chain(started);
        ends.min_by_key(|(end, _)| *end)
    }
}

fn find_word(text: &[u8], word: &[u8]) -> Option<usize> {
    text.windows(word.len()).position(|part| part == word)
}

#[derive(Debug)]
struct ProgressLog {
    path: PathBuf,
    read: u64,
    launches: ProfiledLaunches,
}

impl ProgressLog {
    fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            read: 0,
            launches: ProfiledLaunches::default(),
        }
    }

    /// Reads on. A log that is not there yet has nothing.
    fn follow_log(&mut self) -> u64 {
        let opened = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.read))?;
            Ok(file)
        });
        let mut printed = [0; 1 << 14];
        if let Ok(mut file) = opened {
            while let Ok(more @ 1..) = file.read(&mut printed) {
                self.read += more as u64;
                self.launches.take_output(&printed[..more]);
            }
        }
        self.launches.finished
    }
}

/// Does `work` while another thread reads what ncu appends to its logs, and tells `at` how many launches are profiled. ncu
/// prints to standard output or standard error, by its options: either log may have the lines.
pub fn follow_logs<T>(logs: &[&Path], at: &(dyn Fn(u64) + Sync), work: impl FnOnce() -> T) -> T {
    let (ended, until) = mpsc::channel::<()>();
    let mut logs: Vec<ProgressLog> = logs.iter().map(|path| ProgressLog::new(path)).collect();
    // The channel ends with the closure, also where `work` panics.
    thread::scope(move |scope| {
        scope.spawn(move || {
            let mut told = 0;
            loop {
                let is_over = until.recv_timeout(POLL_INTERVAL) != Err(RecvTimeoutError::Timeout);
                let finished: u64 = logs.iter_mut().map(ProgressLog::follow_log).sum();
                if finished != told {
                    told = finished;
                    at(finished);
                }
                if is_over {
                    return;
                }
            }
        });
        let done = work();
        drop(ended);
        done
    })
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        sync::atomic::{AtomicU64, Ordering},
    };

    use super::*;

    /// As ncu 2025.3 and older ones print it, with a program that prints before and in between.
    const PRINTED: &str = "==PROF== Connected to process 718 (/usr/bin/python3.12)\nloaded 100% - 3 passes\n\
        ==PROF== Profiling \"indexSelectSmallIndex\" - 0 (1/1): 0%....50%....100% - 25 passes\n\
        ==PROF== Profiling \"reduce_kernel\" - 1: 0%....50%....100%step 1\n - 1 pass\n\
        ==PROF== Profiling \"nvjet_sm90_tst_8x64_64x16_4x1...\": 0%...\rstep 2: 30%\n.50%....100% - 40 passes\n\
        ==PROF== Profiling \"Kernel2\" - 3 (1/1): 0%....50%..";

    fn launch_counts(launches: &ProfiledLaunches) -> (u64, u64) {
        (launches.started, launches.finished)
    }

    #[test]
    fn launches_are_counted_wherever_the_text_is_cut() {
        for size in [1, 2, 3, 7, 19, 20, 21, 64, PRINTED.len()] {
            let mut launches = ProfiledLaunches::default();
            for chunk in PRINTED.as_bytes().chunks(size) {
                launches.take_output(chunk);
                assert!(launches.rest.len() < STARTED.len(), "{size}");
            }
            assert_eq!(launch_counts(&launches), (4, 3), "chunks of {size}");
            launches.take_output(b"..100%");
            assert_eq!(launch_counts(&launches), (4, 3), "its passes are not told");
            launches.take_output(b" - 25 pa");
            launches.take_output(b"sses\n==PROF== Disconnected from process 718\n");
            assert_eq!(launch_counts(&launches), (4, 4), "chunks of {size}");
        }
    }

    /// A launch that fails is never at 100 %, and one whose passes are not told ends where the next begins.
    #[test]
    fn launches_that_fail_are_not_counted() {
        let mut launches = ProfiledLaunches::default();
        launches.take_output(b"==PROF== Profiling \"a\" - 0: 0%....\n==ERROR== LaunchFailed\n");
        launches.take_output(b"==PROF== Profiling \"b\" - 1: 0%....50%....100%\n");
        launches.take_output(b"==PROF== Profiling \"c\" - 2: 0%");
        assert_eq!(launch_counts(&launches), (3, 1));
        // Application replay has passes of the whole program.
        let mut launches = ProfiledLaunches::default();
        launches.take_output(b"==PROF== Profiling \"a\" - 0: Application replay pass 1\n");
        assert_eq!(launch_counts(&launches), (1, 0));
    }

    #[test]
    fn logs_are_followed_while_they_grow() {
        let folder = tempfile::tempdir().unwrap();
        let (out, err) = (folder.path().join("out.log"), folder.path().join("err.log"));
        let seen = AtomicU64::new(0);
        let wait_for = |count: u64| {
            for _ in 0..200 {
                if seen.load(Ordering::SeqCst) == count {
                    return;
                }
                thread::sleep(Duration::from_millis(50));
            }
            panic!(
                "{} of {count} launches were told",
                seen.load(Ordering::SeqCst)
            );
        };
        let at = |count: u64| seen.store(count, Ordering::SeqCst);
        let done = follow_logs(&[&out, &err], &at, || {
            let mut log = File::create(&err).unwrap();
            log.write_all(b"==PROF== Profiling \"a\" - 0: 0%....100% - 2 pass")
                .unwrap();
            wait_for(1);
            log.write_all(b"es\n==PROF== Profiling \"b\" - 1: 0%")
                .unwrap();
            log.write_all(b"....100% - 2 passes\n").unwrap();
            7
        });
        assert_eq!(done, 7);
        // What came last is read before it returns.
        assert_eq!(seen.load(Ordering::SeqCst), 2);
    }
}
