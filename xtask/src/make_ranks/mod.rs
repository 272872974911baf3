//! Writes the ranks of a made job with planted faults, to measure and try `llmprof import` on many ranks:
//!
//!     cargo run --release -p xtask -- make-ranks DIR RANKS STEPS OPERATORS
//!
//! 15 steps with 4 operators around each kernel make about 5 MB a rank. What is planted is printed.

mod job;

use std::path::{Path, PathBuf};

pub(crate) use job::MadeJob;
use job::RankTemplate;

/// Kernels and collectives of a published job.
pub(crate) fn read_template() -> RankTemplate {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    RankTemplate::read(&root.join("../fixtures/public/ranks_dlrm/rank0.json.gz"))
}

/// Drift that collectives of so many steps show, millionths: eight standard errors of the difference of two medians, each of a third of
/// the collectives, whose ends are seen to half a microsecond (docs/ranks.md). Clocks that drift by less than 5 are none to look at.
fn least_drift_seen_ppm(steps: u64) -> f64 {
    (12.0 * (15.0 / steps as f64).powf(1.5)).max(5.0)
}

pub(crate) fn run_task(words: &[&str]) -> Result<(), Box<dyn std::error::Error>> {
    let [dir, ranks, steps, operators] = words else {
        return Err("make-ranks takes DIR RANKS STEPS OPERATORS".into());
    };
    let dir = PathBuf::from(dir);
    std::fs::create_dir_all(&dir)?;
    let ranks: u64 = ranks.parse()?;
    if ranks < 32 || !ranks.is_multiple_of(8) {
        return Err("RANKS is a multiple of 8, from 32 on".into());
    }
    let steps: u64 = steps.parse()?;
    if steps < 3 {
        return Err("STEPS is at least 3".into());
    }
    let drift = least_drift_seen_ppm(steps) * 2.0;
    let job = MadeJob {
        ranks,
        steps,
        slow_kernels: vec![(ranks / 3, 30.0)],
        slow_hosts: vec![(ranks / 2 + 1, 900.0)],
        slow_once: vec![(ranks - 3, 2, 3_000.0)],
        drifts: vec![(ranks / 4, drift), (ranks / 4 + 1, -drift)],
        slow_pairs: vec![(ranks / 8 * 2, 2.5)],
        operators: operators.parse()?,
    };
    let template = read_template();
    let timeline = job.run(&template);
    for rank in 0..ranks {
        std::fs::write(dir.join(format!("rank{rank}.json")), timeline.profile(rank))?;
    }
    println!("{job:#?}");
    Ok(())
}
