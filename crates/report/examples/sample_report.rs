//! Writes a report and its plots from made-up data, to look at: `cargo run -p llmprof-report --example sample_report -- [DIR]`.

#[path = "sample/mod.rs"]
mod sample;

use std::{fs, path::PathBuf};

use llmprof_report::{plots, render::html};

fn main() -> std::io::Result<()> {
    let directory = std::env::args_os()
        .nth(1)
        .map_or_else(|| PathBuf::from("sample-report"), PathBuf::from);
    let folder = directory.join("plots");
    fs::create_dir_all(&folder)?;
    let document = sample::report(100_000);
    fs::write(directory.join("report.html"), html::report(&document))?;
    for (name, svg) in plots(&document) {
        fs::write(folder.join(format!("{name}.svg")), svg.file())?;
    }
    Ok(())
}
