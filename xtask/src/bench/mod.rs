//! How fast parts of the program are: figures of docs/speed.md and of other pages.

mod analyze;
mod engine;
mod grid;
mod load;
mod process_figures;
mod ranks;
mod replay;
mod simulate;
mod steps;

use std::error::Error;

pub(crate) fn run_task(words: &[&str]) -> Result<(), Box<dyn Error>> {
    match words {
        ["analyze", arguments @ ..] => analyze::run_bench(arguments),
        ["engine", arguments @ ..] => engine::run_bench(arguments),
        ["grid"] => grid::run_bench(),
        ["load", arguments @ ..] => {
            load::run_bench(arguments);
            Ok(())
        }
        ["ranks", arguments @ ..] => ranks::run_bench(arguments),
        ["replay", arguments @ ..] => replay::run_bench(arguments),
        ["simulate", arguments @ ..] => simulate::run_bench(arguments),
        ["steps"] => steps::run_bench(),
        _ => Err(
            "bench takes one of: analyze, engine, grid, load, ranks, replay, simulate, steps"
                .into(),
        ),
    }
}
