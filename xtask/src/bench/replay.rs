//! Speed of a replay: `cargo run --release -p xtask -- bench replay TRACE`. Prints events per second and the
//! ratio to the budget of 5 million.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use llmprof_analysis::replay::{Edit, Graph, ReplayModel};
use llmprof_record::import::{Limits, Profile, import};

const BUDGET_EVENTS_PER_S: f64 = 5e6;
const REPEATS: u32 = 20;

pub(super) fn run_bench(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    let [file] = arguments else {
        return Err("bench replay takes a trace".into());
    };
    let (_, Profile::Trace(trace)) = import(Path::new(file), &Limits::default())? else {
        return Err(format!("{file} is not a trace").into());
    };
    let graph = Graph::of_trace(&trace, Vec::new()).ok_or("the trace has no launches")?;
    let nothing = Edit::default();
    let begin = Instant::now();
    for _ in 0..REPEATS {
        std::hint::black_box(graph.replay([ReplayModel::default()], &nothing));
    }
    let events = trace.rows() as f64 * f64::from(REPEATS);
    let rate = events / begin.elapsed().as_secs_f64();
    println!(
        "{:.1} M events/s, {:.1}× the budget",
        rate / 1e6,
        rate / BUDGET_EVENTS_PER_S
    );
    Ok(())
}
