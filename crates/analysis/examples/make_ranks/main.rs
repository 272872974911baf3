//! Writes the ranks of a made job with planted faults, to measure and try `llmprof import` on many ranks:
//!
//!     cargo run --release -p llmprof-analysis --example make_ranks -- DIR RANKS STEPS OPERATORS
//!
//! 11 steps with 4 operators around each kernel make about 5 MB a rank. What is planted is printed.

#![expect(clippy::print_stdout, reason = "it prints what it planted")]

mod job;

use std::path::{Path, PathBuf};

use job::{MadeJob, Template};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [dir, ranks, steps, operators] = &words[..] else {
        return Err("DIR RANKS STEPS OPERATORS".into());
    };
    let dir = PathBuf::from(dir);
    std::fs::create_dir_all(&dir)?;
    let ranks: u64 = ranks.parse()?;
    if ranks < 32 || !ranks.is_multiple_of(8) {
        return Err("RANKS is a multiple of 8, from 32 on".into());
    }
    let job = MadeJob {
        ranks,
        steps: steps.parse()?,
        slow_kernels: vec![(ranks / 3, 30.0)],
        slow_hosts: vec![(ranks / 2 + 1, 900.0)],
        slow_once: vec![(ranks - 3, 2, 3_000.0)],
        drifts: vec![(ranks / 4, 30.0), (ranks / 4 + 1, -20.0)],
        slow_pairs: vec![(ranks / 8 * 2, 2.5)],
        operators: operators.parse()?,
    };
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/public/ranks_dlrm");
    let template = Template::read(&fixtures.join("rank0.json.gz"));
    let timeline = job.run(&template);
    for rank in 0..ranks {
        std::fs::write(dir.join(format!("rank{rank}.json")), timeline.profile(rank))?;
    }
    println!("{job:#?}");
    Ok(())
}
