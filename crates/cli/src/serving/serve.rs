//! A server that bench starts, waits for, and ends with all that it started.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use llmprof_capture::{
    host_stacks::HostSampler,
    process::{Child, Interrupt, Launch},
    profiler::{Channel, Cupti, Watched, find_library, quarter_of_free},
};
use llmprof_load::{client::EndpointCalls, endpoint::Endpoint};
use llmprof_record::{
    command_line,
    import::wire,
    issue::{Issue, IssueCode},
};
use llmprof_units::Share;
use llmprof_wire::Options;

use crate::args_bench::ServeArgs;
use crate::failure::Failure;
use crate::recording;

/// How many of the server's last lines are shown where it fails.
const LAST_LINES: usize = 15;
/// Where its logs are in the run.
const FOLDER: &str = "server";

pub(super) struct ServerProcess {
    child: Child,
    name: String,
    channel: Option<Channel>,
    sampler: Option<HostSampler>,
    recorded: Option<PathBuf>,
    pub(super) issues: Vec<Issue>,
}

pub(super) fn words(command: &str) -> Result<Vec<String>, Failure> {
    let words = command_line::split_words(command)
        .map_err(|why| Failure::new(format!("--serve `{command}`: {why}")))?;
    if words.is_empty() {
        return Err(Failure::new("--serve has no command"));
    }
    Ok(words)
}

/// The address of a server by its command line: its `--port` on the loopback.
pub(super) fn url_of(args: &ServeArgs, words: &[String]) -> String {
    if let Some(url) = &args.serve_url {
        return url.clone();
    }
    let mut port = "8000";
    for (index, word) in words.iter().enumerate() {
        if word == "--port" {
            port = words.get(index + 1).map_or(port, String::as_str);
        } else if let Some(value) = word.strip_prefix("--port=") {
            port = value;
        }
    }
    format!("http://127.0.0.1:{port}")
}

/// The model that a server's command line names: `vllm serve MODEL`, `--model MODEL`, `--model-path MODEL`.
pub(super) fn model_of(words: &[String]) -> Option<String> {
    const OPTIONS: [&str; 3] = ["--served-model-name", "--model", "--model-path"];
    let value = |name: &str| {
        let with_equals = format!("{name}=");
        words.iter().enumerate().find_map(|(index, word)| {
            let next = || words.get(index + 1).filter(|_| word == name);
            word.strip_prefix(&with_equals)
                .or_else(|| next().map(String::as_str))
        })
    };
    let named = OPTIONS.iter().find_map(|name| value(name));
    let served = || value("serve").filter(|word| !word.starts_with('-'));
    named.or_else(served).map(str::to_owned)
}

/// A command line that was read: leading `NAME=value` words are its environment.
pub(super) fn launch(words: &[String]) -> Result<Launch, Failure> {
    let is_variable = |word: &&String| {
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
    };
    let variables = words.iter().take_while(is_variable).count();
    let [program, rest @ ..] = &words[variables..] else {
        return Err(Failure::new("--serve has no command"));
    };
    let mut launch = Launch::new(program.clone()).args(rest.iter().cloned());
    for (name, value) in words[..variables]
        .iter()
        .filter_map(|word| word.split_once('='))
    {
        launch = launch.env(name, value);
    }
    Ok(launch)
}

impl ServerProcess {
    /// Starts it, recorded where that is possible and wanted.
    pub(super) fn start(mut launch: Launch, args: &ServeArgs, run: &Path) -> Result<Self, Failure> {
        let name = launch.program.clone();
        let mut issues = Vec::new();
        let (mut channel, mut sampler, mut recorded) = (None, None, None);
        if !args.no_record {
            match find_library() {
                Ok(library) => {
                    let opened = Channel::open().map_err(failure)?;
                    let directory = std::path::absolute(run.join("cupti")).map_err(failure)?;
                    std::fs::create_dir(&directory).map_err(failure)?;
                    let cupti = Cupti {
                        library,
                        directory: directory.clone(),
                        control: Some(opened.path()),
                        options: Options {
                            begin: true,
                            overhead_ppm: args.overhead.map_or(0, Share::ppm),
                            detach: true,
                            most_bytes: quarter_of_free(&directory).map_or(0, |most| most.0),
                            ..Options::default()
                        },
                        range: None,
                    };
                    launch = cupti.apply_to(launch);
                    sampler = Some(HostSampler::start(&directory, args.overhead).map_err(failure)?);
                    (channel, recorded) = (Some(opened), Some(directory));
                }
                Err(missing) => {
                    let issue = Issue::warning(IssueCode::BenchNotRecorded)
                        .with("why", missing.to_string());
                    issues.push(issue.with_hint(missing.hint()));
                }
            }
        }
        let logs = run.join(FOLDER);
        let child = launch
            .spawn_with_descendants(&logs, "server")
            .map_err(failure)?;
        Ok(Self {
            child,
            name,
            channel,
            sampler,
            recorded,
            issues,
        })
    }

    /// Whether it still runs; reports of recorded processes are read.
    pub(super) fn is_alive(&mut self) -> bool {
        if let Some(channel) = &mut self.channel {
            channel.serve_connections();
            for process in channel.take_new() {
                self.sampler
                    .iter()
                    .for_each(|sampler| sampler.add_process(process));
            }
        }
        !self.child.has_ended()
    }

    /// Whether it has ended, or does so within a time.
    pub(super) fn ends_within(&mut self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        while self.is_alive() {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        true
    }

    pub(super) fn wait_until_healthy(
        &mut self,
        endpoint: &Arc<Endpoint>,
        args: &ServeArgs,
        interrupt: &mut Interrupt,
    ) -> Result<(), Failure> {
        let calls = EndpointCalls::new(Arc::clone(endpoint)).map_err(failure)?;
        let started = Instant::now();
        loop {
            // Before asking: another server on its port would answer for a dead one.
            if !self.is_alive() {
                return Err(self.died("ended before it was healthy"));
            }
            let Err(why) = calls.get(&args.health, Duration::from_secs(5)) else {
                return Ok(());
            };
            if interrupt.stop_count() > 0 {
                return Err(Failure::new("interrupted while waiting for the server"));
            }
            if started.elapsed() > args.ready_timeout {
                let what = format!("was not healthy within {:?} ({why})", args.ready_timeout);
                return Err(self
                    .died(&what)
                    .hint("--ready-timeout, --health PATH or --serve-url may differ".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// What its logs end with.
    pub(super) fn died(&self, what: &str) -> Failure {
        let mut message = format!("the server `{}` {what}", self.name);
        let lines = self.child.last_lines_of_both(LAST_LINES);
        if lines.is_empty() {
            message += "; it printed nothing";
        } else {
            message += &format!("; its last lines:\n{}", lines.join("\n"));
        }
        Failure::new(message)
    }

    /// Ends it and everything it started; the folder of what was recorded, where a process used CUDA.
    pub(super) fn stop(mut self, interrupt: &mut Interrupt) -> (Vec<Issue>, Option<PathBuf>) {
        if let Some(channel) = &mut self.channel {
            channel.send_order(llmprof_wire::control::Order::Stop);
            channel.request_flush();
            let deadline = Instant::now() + Duration::from_secs(3);
            while Instant::now() < deadline
                && channel
                    .processes()
                    .any(|p| p.cupti.is_some() && p.is_capturing)
            {
                channel.serve_connections();
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        if let Err(error) = self.child.wait(interrupt, Some(Duration::ZERO)) {
            self.issues
                .push(Issue::error(IssueCode::BenchServerLeft).with("why", error.to_string()));
        }
        self.issues
            .extend(self.sampler.into_iter().flat_map(HostSampler::stop));
        // Whatever becomes of the load.
        let recorded = self.recorded.iter();
        self.issues
            .extend(recorded.flat_map(|folder| recording::scrub(folder)));
        let (Some(channel), Some(folder)) = (&self.channel, self.recorded) else {
            return (self.issues, None);
        };
        let processes: Vec<Watched> = channel.processes().cloned().collect();
        self.issues.extend(recording::dropped_issues(&processes));
        if processes.iter().any(|process| process.is_full) {
            self.issues.push(Issue::error(IssueCode::RecordMaxSize));
        }
        let has_files = wire::wire_files(&folder).is_ok_and(|files| !files.is_empty());
        if has_files && processes.iter().any(|process| process.cupti.is_some()) {
            return (self.issues, Some(folder));
        }
        let nothing = recording::nothing_recorded(&processes);
        self.issues
            .push(if nothing.code == IssueCode::RecordNoCuda {
                // A server without a GPU is loaded all the same.
                Issue::info(IssueCode::RecordNoCuda)
            } else {
                nothing
            });
        (self.issues, None)
    }
}

fn failure(error: impl std::fmt::Display) -> Failure {
    Failure::new(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<String> {
        words(text).unwrap()
    }

    #[test]
    fn variables_come_before_the_program() {
        assert!(words("a 'b").is_err());
        assert!(words("  ").is_err());
        let launch = launch(&split("A=1 B_2=x=y python -m a=b")).unwrap();
        assert_eq!(launch.program, "python");
        assert_eq!(launch.args, ["-m", "a=b"]);
        assert_eq!(launch.env["B_2"].as_deref(), Some("x=y"));
    }

    #[test]
    fn the_port_is_the_commands() {
        let args = ServeArgs {
            serve: None,
            serve_url: None,
            ready_timeout: Duration::ZERO,
            health: String::new(),
            overhead: None,
            no_record: false,
        };
        assert_eq!(
            url_of(&args, &split("vllm serve m --port 9000")),
            "http://127.0.0.1:9000"
        );
        assert_eq!(
            url_of(&args, &split("vllm serve m --port=9001")),
            "http://127.0.0.1:9001"
        );
        assert_eq!(
            url_of(&args, &split("vllm serve m")),
            "http://127.0.0.1:8000"
        );
    }
}
