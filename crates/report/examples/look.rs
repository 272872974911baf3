//! look OUT NAME FILE… [--config C]
use llmprof_record::import::{Limits, Profile, import};
use llmprof_record::run::{RecordedTrace, RunRecord};
use llmprof_report::{
    Report, compose,
    render::{markdown::document as markdown, terminal},
};
fn main() {
    let list = std::env::args().nth(1).unwrap();
    let out = std::env::args().nth(2).unwrap();
    for line in std::fs::read_to_string(list).unwrap().lines() {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap();
        let mut record = RunRecord {
            name: name.to_owned(),
            ..RunRecord::default()
        };
        let mut err = String::new();
        for file in words {
            match import(std::path::Path::new(file), &Limits::default()) {
                Ok((_, Profile::Trace(trace))) => record.traces.push(RecordedTrace {
                    pass: None,
                    trace: *trace,
                }),
                Ok(_) => err += "not a trace\n",
                Err(e) => err += &format!("{e}\n"),
            }
        }
        let t = std::time::Instant::now();
        let analysis = match llmprof_analysis::analyze(&record, None) {
            Ok(a) => a,
            Err(e) => {
                println!("{e}");
                continue;
            }
        };
        let took = t.elapsed();
        let judged = llmprof_analysis::judged_device(&record, None);
        let report = Report {
            record: &record,
            analysis: &analysis,
            issues: &analysis.issues,
            device: judged.device.as_ref(),
            notes: None,
        };
        let document = report.document();
        let digest = report.digest();
        let json = serde_json::to_string(&analysis).unwrap();
        std::fs::write(
            format!("{out}/{name}.txt"),
            format!(
                "{err}{}\n[{took:?} json {}]\n",
                terminal::digest(&digest).join("\n"),
                json.len()
            ),
        )
        .unwrap();
        std::fs::write(format!("{out}/{name}.md"), markdown(&document)).unwrap();
        std::fs::write(
            format!("{out}/{name}.stake.md"),
            markdown(&compose::stakeholder(&analysis)),
        )
        .unwrap();
        std::fs::write(format!("{out}/{name}.json"), json).unwrap();
    }
}
