//! What the load generator can do against a stub in a process of its own, as ratios to the budgets.
//!
//! `cargo run --release -p xtask -- bench load`. Both processes share the machine, so figures are lower bounds; the load
//! average is printed beside them.
#![expect(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdout, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use llmprof_analysis::serving::{SelfCheck, summarize_load};
use llmprof_load::{
    arrivals::Arrivals,
    body::{Dialect, RequestTemplate},
    client::{ReadyLoad, drive_load},
    endpoint::Endpoint,
    lengths::Lengths,
    plan::{LoadPlan, LoadSource},
    prompt::PromptSource,
    record::LoadRecord,
};
use llmprof_stub::{Behaviour, ServedRequest, Stub};
use llmprof_traffic::figures::LoadSummary;

/// Other load generators, run against the same stub where they are installed: program, and arguments after its name. `URL` is the
/// stub's address and `TOKENIZER` what the variable of that name says, a folder where there is no network. The words are those of
/// GuideLLM 0.3; 0.8 has another command line.
const PEERS: [(&str, &str); 2] = [
    (
        "aiperf",
        "profile -m stub --url URL --endpoint-type completions --concurrency 32 --request-count 2000 \
         --synthetic-input-tokens-mean 8 --synthetic-input-tokens-stddev 0 --output-tokens-mean 1 --output-tokens-stddev 0 \
         --tokenizer TOKENIZER",
    ),
    (
        "guidellm",
        "benchmark --target URL --rate-type concurrent --rate 32 --max-requests 2000 \
         --data prompt_tokens=8,output_tokens=1 --processor TOKENIZER",
    ),
];

/// One worker leaves half of a core to the stub's.
const EVENT_WORKERS: usize = 2;

pub(super) fn run_bench(arguments: &[&str]) {
    if let ["stub", step_ms] = arguments {
        let step = Duration::from_millis(step_ms.parse().unwrap());
        let stub = Stub::start(Behaviour {
            step,
            ..Behaviour::default()
        })
        .unwrap();
        println!("{}", stub.url());
        // Asked for what it served, it says how many requests and the seconds from the first to the last.
        for _ in std::io::stdin().lines() {
            let served = stub.served();
            let at = |one: Option<&ServedRequest>| one.map_or(0, |one| one.arrived_unix_ns.0);
            let span = at(served.last()) - at(served.first());
            println!("{} {}", served.len(), span as f64 / 1e9);
        }
        stub.wait();
        return;
    }
    println!(
        "load average: {}",
        std::fs::read_to_string("/proc/loadavg").unwrap().trim()
    );
    let parts: [(&str, fn()); 4] = [
        ("requests", requests_per_second),
        ("events", events_per_second),
        ("lag", schedule_lag),
        ("memory", print_memory),
    ];
    for (name, part) in parts {
        // A name as argument runs that part alone.
        if arguments.first().is_none_or(|asked| *asked == name) {
            part();
        }
    }
    println!(
        "load average: {}",
        std::fs::read_to_string("/proc/loadavg").unwrap().trim()
    );
}

/// A stub in another process, killed when this one is done with it.
struct Other(Child, String, BufReader<ChildStdout>);

impl Other {
    fn start(step_ms: u64) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["bench", "load", "stub", &step_ms.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut url).unwrap();
        Self(child, url.trim().to_owned(), out)
    }

    /// Requests per second that it served, by its own clock.
    fn served_rate(&mut self) -> f64 {
        self.0.stdin.as_mut().unwrap().write_all(b"?\n").unwrap();
        let mut line = String::new();
        self.2.read_line(&mut line).unwrap();
        let (count, span) = line.trim().split_once(' ').unwrap();
        let (count, span): (f64, f64) = (count.parse().unwrap(), span.parse().unwrap());
        if span > 0.0 {
            (count - 1.0) / span
        } else {
            0.0
        }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn load(url: &str, arrivals: &Arrivals, count: usize, output: u64, stream: bool) -> ReadyLoad {
    let source = LoadSource::Synthetic {
        prompt: Lengths::Fixed { tokens: 8 },
        output: Lengths::Fixed { tokens: output },
        turns: 1,
    };
    let prompts = PromptSource {
        as_tokens: true,
        vocabulary: 32_000,
        shared_prefix: 0,
        seed: 1,
    };
    let endpoint = Arc::new(Endpoint::parse(url).unwrap());
    ReadyLoad {
        template: RequestTemplate {
            api: endpoint.api,
            model: "stub".to_owned(),
            stream,
            dialect: Dialect::all(true)[0],
            extra: serde_json::Map::new(),
        },
        endpoint,
        plan: Arc::new(LoadPlan::draw(
            &source,
            arrivals,
            prompts,
            count,
            Duration::ZERO,
        )),
        timeout: Duration::from_mins(5),
        max_concurrency: None,
        workers: 1,
        count_tokens: None,
    }
}

fn run(load: &ReadyLoad) -> (LoadRecord, LoadSummary) {
    let record = drive_load(load, |_, _| true).unwrap();
    let summary = summarize_load(&record, &[]);
    assert_eq!(summary.figures.failed, 0, "{:?}", summary.failures);
    (record, summary)
}

fn requests_per_second() {
    let stub = Other::start(0);
    let closed = Arrivals::Closed { concurrency: 32 };
    let best = (0..3)
        .map(|_| {
            run(&load(&stub.1, &closed, 60_000, 1, false))
                .1
                .figures
                .request_throughput
        })
        .fold(0.0, f64::max);
    println!(
        "requests/s, keep-alive, not streaming: {best:.0} ({:.2} × 20,000)",
        best / 20_000.0
    );
    for (program, arguments) in PEERS {
        match run_peer(program, arguments) {
            Ok(rate) => println!("  {:.0} × {program} ({rate:.0} requests/s)", best / rate),
            Err(why) => println!("  {program}: {why}"),
        }
    }
}

/// Requests per second that another load generator sends to a stub of its own, as the stub counts them.
fn run_peer(program: &str, arguments: &str) -> Result<f64, String> {
    let mut stub = Other::start(0);
    let tokenizer = std::env::var("TOKENIZER").unwrap_or_else(|_| "gpt2".to_owned());
    let words = arguments.split_ascii_whitespace().map(|word| match word {
        "URL" => stub.1.as_str(),
        "TOKENIZER" => tokenizer.as_str(),
        word => word,
    });
    let folder = std::env::temp_dir().join(format!("bench_load_{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let done = Command::new(program)
        .args(words)
        .current_dir(&folder)
        .stdin(Stdio::null())
        .output();
    let _ = std::fs::remove_dir_all(&folder);
    let done = done.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "not installed".to_owned(),
        _ => error.to_string(),
    })?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        let last = said.lines().rfind(|line| !line.trim().is_empty());
        return Err(format!("{}: {}", done.status, last.unwrap_or_default()));
    }
    let rate = stub.served_rate();
    if rate > 0.0 {
        Ok(rate)
    } else {
        Err("sent nothing".to_owned())
    }
}

fn events_per_second() {
    let stub = Other::start(0);
    let closed = Arrivals::Closed { concurrency: 16 };
    let (mut by_wall, mut by_cpu) = (0.0_f64, 0.0_f64);
    for _ in 0..3 {
        let load = ReadyLoad {
            workers: EVENT_WORKERS,
            ..load(&stub.1, &closed, 300, 2000, true)
        };
        let (record, summary) = run(&load);
        let events: usize = record.requests.iter().map(|r| r.arrivals.len()).sum();
        // The busiest worker had its part of them.
        let cpu_s =
            record.client.worker_cpu_share * summary.figures.duration_s * EVENT_WORKERS as f64;
        by_wall = by_wall.max(events as f64 / summary.figures.duration_s);
        by_cpu = by_cpu.max(events as f64 / cpu_s);
    }
    println!(
        "SSE events/s, {EVENT_WORKERS} workers: {by_wall:.0} ({:.2} × 500,000); per second of the client's CPU: {by_cpu:.0}",
        by_wall / 500_000.0
    );
}

fn schedule_lag() {
    let stub = Other::start(0);
    let constant = Arrivals::Constant { rate: 1000.0 };
    let best = (0..3)
        .map(|_| {
            let (record, _) = run(&load(&stub.1, &constant, 5000, 8, true));
            SelfCheck::from_load(&record).schedule_lag_ms.unwrap().p99
        })
        .fold(f64::INFINITY, f64::min);
    println!("schedule lag p99 at 1,000 requests/s: {best:.3} ms (budget 1 ms)");
}

fn print_memory() {
    let stub = Other::start(60_000);
    let streams = 10_000;
    let constant = Arrivals::Constant { rate: 2000.0 };
    let mut most = (0, 0.0);
    let mut settled = 0;
    let record = drive_load(
        &load(&stub.1, &constant, streams, 2, true),
        |_, progress| {
            most = (progress.in_flight, resident_mb());
            settled += usize::from(progress.in_flight == streams);
            // A second for the last of them to be answered.
            settled < 10
        },
    )
    .unwrap();
    let open = record
        .requests
        .iter()
        .filter(|r| r.headers_ns.is_some())
        .count();
    println!(
        "resident memory with {open} open streams: {:.0} MB ({:.2} × 500 MB)",
        most.1,
        most.1 / 500.0
    );
}

fn resident_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<f64>()
        .unwrap()
        / 1024.0
}
