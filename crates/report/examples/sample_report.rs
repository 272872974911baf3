//! Writes a report and its plots from made-up data, to look at: `cargo run -p llmprof-report --example sample_report -- [DIR]`.

#[path = "sample/mod.rs"]
mod sample;

use std::{fs, path::PathBuf};

use llmprof_report::{
    chart::{self, Width},
    render::html,
    view::Part,
};

fn main() -> std::io::Result<()> {
    let directory = std::env::args_os()
        .nth(1)
        .map_or_else(|| PathBuf::from("sample-report"), PathBuf::from);
    let plots = directory.join("plots");
    fs::create_dir_all(&plots)?;
    let view = sample::report(100_000);
    fs::write(directory.join("report.html"), html::report(&view))?;
    let parts = view.sections.iter().flat_map(|section| &section.parts);
    for (index, part) in parts.enumerate() {
        let (name, svg) = match part {
            Part::Waterfall(view) => ("waterfall", chart::waterfall(view, Width::Wide)),
            Part::Roofline(view) => ("roofline", chart::roofline(view, Width::Wide)),
            Part::Timeline(view) => ("timeline", chart::timeline(view)),
            Part::Histogram(view) => ("histogram", chart::histogram(view, Width::Wide)),
            Part::Series(view) => ("series", chart::series(view, Width::Wide)),
            Part::Document(_) | Part::Operators(_) => continue,
        };
        fs::write(plots.join(format!("{index}-{name}.svg")), svg.file())?;
    }
    Ok(())
}
