//! Predicted beside measured GPU times of the models in `fixtures/h200/kernels/times.json`.
//!
//!     cargo run -p llmprof-theory --example grade [cells]

#![expect(clippy::print_stdout, reason = "it prints what it finds")]

use llmprof_theory::predict::{EfficiencyProfile, Grade, grades, summarize};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let profile = EfficiencyProfile::embedded("hf_eager")?;
    let all = grades(&profile)?;
    if std::env::args().nth(1).as_deref() == Some("cells") {
        for grade in &all {
            println!(
                "{:18} {:11} {:8} batch {:2} prompt {:4}: measured {:>10.1} us, predicted {:>10.1} us, {:+6.1} %, kernels {} of {}",
                grade.model,
                grade.split.name(),
                grade.phase.name(),
                grade.batch,
                grade.prompt,
                grade.measured_ns.micros(),
                grade.predicted_ns.micros(),
                grade.error() * 100.0,
                grade.predicted_kernels,
                grade.measured_kernels
            );
        }
    }
    let print = |title: &str, rows: Vec<&Grade>| {
        if let Some(summary) = summarize(&rows) {
            println!(
                "{title:32} {:4} times: median {:5.1} %, p90 {:5.1} %, worst {:+6.1} %, bias {:+5.1} %, in interval {:5.1} %, half-width {:4.1} %, 5-95 % of measured/predicted {:.3} to {:.3}",
                summary.times,
                summary.median * 100.0,
                summary.p90 * 100.0,
                summary.worst * 100.0,
                summary.bias * 100.0,
                summary.coverage * 100.0,
                summary.half_width * 100.0,
                summary.low,
                summary.high
            );
        }
    };
    for split in ["calibration", "grading"] {
        let of = |phase: &str| {
            all.iter()
                .filter(|grade| grade.split.name() == split && !grade.by_common_keys)
                .filter(|grade| phase.is_empty() || grade.phase.name() == phase)
                .collect::<Vec<_>>()
        };
        print(split, of(""));
        for phase in ["prefill", "decode"] {
            print(&format!("{split} {phase}"), of(phase));
        }
    }
    print(
        "by common keys",
        all.iter().filter(|grade| grade.by_common_keys).collect(),
    );
    let mut families: Vec<_> = all.iter().map(|grade| grade.family.clone()).collect();
    families.sort();
    families.dedup();
    for family in families {
        for phase in ["prefill", "decode"] {
            let rows = all
                .iter()
                .filter(|grade| grade.family == family && grade.phase.name() == phase)
                .collect();
            print(&format!("{family} {phase}"), rows);
        }
    }
    for batch in [1, 2, 4, 8, 16, 32] {
        print(
            &format!("batch {batch}"),
            all.iter()
                .filter(|grade| grade.batch == batch && grade.split.name() == "grading")
                .collect(),
        );
    }
    Ok(())
}
