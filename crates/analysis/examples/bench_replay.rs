//! Speed of a replay: `cargo run --release -p llmprof-analysis --example bench_replay -- TRACE`. Prints events per second and the
//! ratio to the budget of 5 million.
#![expect(clippy::print_stdout, reason = "the figure is the result")]

use std::path::Path;
use std::time::Instant;

use llmprof_analysis::replay::{Edit, Graph, Model};
use llmprof_record::import::{Limits, Profile, import};

const BUDGET_EVENTS_PER_S: f64 = 5e6;
const REPEATS: u32 = 20;

fn main() {
    let Some(file) = std::env::args().nth(1) else {
        println!("usage: bench_replay TRACE");
        return;
    };
    let Ok((_, Profile::Trace(trace))) = import(Path::new(&file), &Limits::default()) else {
        println!("{file}: not a trace");
        return;
    };
    let Some(graph) = Graph::of(&trace, Vec::new()) else {
        println!("{file}: no launches");
        return;
    };
    let nothing = Edit::default();
    let begin = Instant::now();
    for _ in 0..REPEATS {
        std::hint::black_box(graph.replay(Model::default(), &nothing));
    }
    let events = trace.rows() as f64 * f64::from(REPEATS);
    let rate = events / begin.elapsed().as_secs_f64();
    println!(
        "{:.1} M events/s, {:.1}× the budget",
        rate / 1e6,
        rate / BUDGET_EVENTS_PER_S
    );
}
