//! Writes `report.md` and `report.html` of profiles without the rest of a run, to look at:
//! `cargo run -p llmprof-report --example import_report -- DIR PROFILE…`. `LLMPROF_MODEL=config.json` names the model.

use std::{error::Error, fs, path::PathBuf};

use llmprof_analysis::run::{TracedPass, analyze_trace};
use llmprof_record::import::{Limits, Profile, import};
use llmprof_report::{
    Report, plots,
    render::{html, markdown, terminal},
};
use llmprof_theory::{Model, Workload, device::Catalog};

#[expect(clippy::print_stdout, reason = "this is what a terminal would show")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let directory = arguments.next().ok_or("name a directory")?;
    let model = match std::env::var_os("LLMPROF_MODEL") {
        Some(file) => {
            let config = serde_json::from_str(&fs::read_to_string(file)?)?;
            Some(Model::from_config(&config, None)?)
        }
        None => None,
    };
    let workload = Workload {
        batch: 1,
        prompt: 128,
        new_tokens: 8,
        ..Workload::default()
    };
    let device = Catalog::embedded().find("h200")?;
    let (mut traces, mut counters, mut sums, mut memory) = (vec![], None, vec![], None);
    for file in arguments {
        match import(&file, &Limits::default())?.1 {
            Profile::Trace(trace) => traces.push(trace),
            Profile::Counters(found) => counters = Some(found),
            Profile::Summary(table) => sums.push(table),
            Profile::Memory(found) => memory = Some(found),
        }
    }
    let trace = traces.first().map(|trace| &**trace);
    let pass = TracedPass {
        name: "qwen",
        subject: model.as_ref().map(|model| (model, &workload)),
        device: Some(&device),
        measured: None,
    };
    let analysis = trace.map(|trace| analyze_trace(trace, &pass)).transpose()?;
    let report = Report {
        analysis: analysis.as_ref(),
        issues: analysis.as_ref().map_or(&[], |analysis| &analysis.issues),
        device: Some(&device),
        trace,
        counters: counters.as_deref(),
        sums: sums.iter().map(|table| ("file", &**table)).collect(),
        memory: memory.as_deref(),
        ..Report::default()
    };
    let document = report.document();
    fs::create_dir_all(directory.join("plots"))?;
    fs::write(directory.join("report.md"), markdown::document(&document))?;
    fs::write(directory.join("report.html"), html::report(&document))?;
    for (name, svg) in plots(&document) {
        fs::write(directory.join(format!("plots/{name}.svg")), svg.file())?;
    }
    for line in terminal::digest(&document) {
        println!("{line}");
    }
    Ok(())
}
