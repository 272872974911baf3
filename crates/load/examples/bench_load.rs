//! What the load generator can do against a stub in a process of its own, as ratios to the budgets.
//!
//! `cargo run --release -p llmprof-load --example bench_load`. Both processes share the machine, so figures are lower bounds; the load
//! average is printed beside them.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]
#![expect(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use llmprof_load::{
    arrivals::Arrivals,
    body::{Dialect, Template},
    client::{Load, LoadRecord, drive},
    endpoint::Endpoint,
    lengths::Lengths,
    plan::{Plan, Source},
    prompt::PromptSource,
    stub::{Behaviour, Stub},
    summary::Summary,
};

/// Requests per second of other load generators, seen on two cores of this kind.
const PEERS: [(&str, f64); 2] = [("AIPerf 0.13", 483.0), ("GuideLLM", 192.0)];

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|arg| arg == "stub") {
        let step = Duration::from_millis(args[2].parse().unwrap());
        let stub = Stub::start(Behaviour {
            step,
            ..Behaviour::default()
        })
        .unwrap();
        println!("{}", stub.url());
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
        ("memory", memory),
    ];
    for (name, part) in parts {
        // A name as argument runs that part alone.
        if args.get(1).is_none_or(|asked| asked == name) {
            part();
        }
    }
    println!(
        "load average: {}",
        std::fs::read_to_string("/proc/loadavg").unwrap().trim()
    );
}

/// A stub in another process, killed when this one is done with it.
struct Other(Child, String);

impl Other {
    fn start(step_ms: u64) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["stub", &step_ms.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut url).unwrap();
        Self(child, url.trim().to_owned())
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn load(url: &str, arrivals: &Arrivals, count: usize, output: u64, stream: bool) -> Load {
    let source = Source::Synthetic {
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
    Load {
        template: Template {
            api: endpoint.api,
            model: "stub".to_owned(),
            stream,
            dialect: Dialect::all(true)[0],
            extra: serde_json::Map::new(),
        },
        endpoint,
        plan: Arc::new(Plan::draw(
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

fn run(load: &Load) -> (LoadRecord, Summary) {
    let record = drive(load, |_, _| true).unwrap();
    let summary = Summary::of(&record, &[]);
    assert_eq!(summary.failed, 0, "{:?}", summary.failures);
    (record, summary)
}

fn requests_per_second() {
    let stub = Other::start(0);
    let closed = Arrivals::Closed { concurrency: 32 };
    let best = (0..3)
        .map(|_| {
            run(&load(&stub.1, &closed, 60_000, 1, false))
                .1
                .request_throughput
        })
        .fold(0.0, f64::max);
    println!(
        "requests/s, keep-alive, not streaming: {best:.0} ({:.2} × 20,000)",
        best / 20_000.0
    );
    for (name, rate) in PEERS {
        println!("  {:.0} × {name}", best / rate);
    }
}

fn events_per_second() {
    let stub = Other::start(0);
    let closed = Arrivals::Closed { concurrency: 16 };
    let (mut by_wall, mut by_cpu) = (0.0_f64, 0.0_f64);
    for _ in 0..3 {
        let (record, summary) = run(&load(&stub.1, &closed, 150, 2000, true));
        let events: usize = record.requests.iter().map(|r| r.arrivals.len()).sum();
        let cpu_s = record.self_check.worker_cpu_share * summary.duration_s;
        by_wall = by_wall.max(events as f64 / summary.duration_s);
        by_cpu = by_cpu.max(events as f64 / cpu_s);
    }
    println!(
        "SSE events/s: {by_wall:.0} ({:.2} × 500,000); per second of the client's CPU: {by_cpu:.0}",
        by_wall / 500_000.0
    );
}

fn schedule_lag() {
    let stub = Other::start(0);
    let constant = Arrivals::Constant { rate: 1000.0 };
    let best = (0..3)
        .map(|_| {
            let (record, _) = run(&load(&stub.1, &constant, 5000, 8, true));
            record.self_check.schedule_lag_ms.unwrap().p99
        })
        .fold(f64::INFINITY, f64::min);
    println!("schedule lag p99 at 1,000 requests/s: {best:.3} ms (budget 1 ms)");
}

fn memory() {
    let stub = Other::start(60_000);
    let streams = 10_000;
    let constant = Arrivals::Constant { rate: 2000.0 };
    let mut most = (0, 0.0);
    let mut settled = 0;
    let record = drive(
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
