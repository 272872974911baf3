#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "scratch")]
use std::time::Instant;
fn main() {
    let path = std::env::args().nth(1).unwrap();
    let began = Instant::now();
    let (_, profile) =
        llmprof_record::import::import(std::path::Path::new(&path), &Default::default()).unwrap();
    let seconds = began.elapsed().as_secs_f64();
    let llmprof_record::import::Profile::Trace(trace) = profile else {
        return;
    };
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let f: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    println!(
        "{seconds:.3} s, rows {}, cpu {}+{} ticks, {}",
        trace.rows(),
        f[11],
        f[12],
        status
            .lines()
            .filter(|l| l.starts_with("VmHWM") || l.starts_with("RssAnon"))
            .collect::<Vec<_>>()
            .join(" ")
    );
}
