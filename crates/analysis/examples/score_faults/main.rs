//! Scores findings on programs with planted faults.
//!
//!     cargo run -p llmprof-analysis --example score_faults -- FOLDER [NAME…] [--table] [--gains] [--recorded]
//!
//! `--recorded` scores each program as `llmprof record` would have recorded it: without operators, after a start and a warm-up; `--table` prints the table of docs/diagnosis.md; `--gains` also prints each gain with its range and the time of its phase.
//!
//! FOLDER holds `truth.json` and one `NAME.json.gz` (torch.profiler) for each of its entries. An entry has times without the
//! profiler, `base_ms` without and `fault_ms` with the fault, under `prefill` and `decode_step`; optionally `cause` (`none` for a
//! program without a fault), `accept` (codes of findings that name it), `config` (a file in FOLDER; else `config.json`),
//! `costs_nothing`, `noisy` (phases whose gain is not scored) and `also_true` (codes of findings that are right but are not the
//! fault: neither alarms nor names). A cause that [`score::accepted`] does not know and that has no
//! `accept` is printed with `?` for a reader to judge.
//!
//! `named`: one of the first three findings has an accepted code. `false alarm`: a finding states a gain of 5 % or more of a phase
//! that is neither the fault nor true of programs without one. `gain`: the stated ms a step are within 25 % of the measured ones or
//! 7 % of the phase, for phases in which the fault costs 15 % or more. `withheld`: the fault is named, and its finding says that the
//! gain is not known or states only an upper bound or a range, which holds.
#![expect(clippy::print_stdout, reason = "the table is the result")]

mod recording;
mod score;

use std::path::Path;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next() else {
        println!("usage: score_faults FOLDER [NAME…] [--table] [--gains]");
        return;
    };
    let mut names: Vec<String> = arguments.collect();
    let is_table = names.iter().any(|name| name == "--table");
    let is_gains = names.iter().any(|name| name == "--gains");
    let is_recorded = names.iter().any(|name| name == "--recorded");
    names.retain(|name| !name.starts_with("--"));
    let folder = Path::new(&folder);
    let scores = if is_recorded {
        score::score_changed(folder, &names, |trace| recording::as_recording(&trace))
    } else {
        score::score_folder(folder, &names)
    };
    match scores {
        Ok(scores) => {
            if is_table {
                println!("{}", score::table(&scores));
            } else {
                for score in &scores {
                    println!("{}", score.row());
                }
            }
            if is_gains {
                for row in scores.iter().flat_map(score::Score::gain_rows) {
                    println!("{row}");
                }
            }
            println!("{}", score::summary(&scores));
        }
        Err(error) => println!("{}: {error}", folder.display()),
    }
}
