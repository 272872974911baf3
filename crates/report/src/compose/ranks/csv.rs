//! `ranks.csv` and `rank_steps.csv`: every rank of a job, and its own time in every step.

use std::fmt::Write as _;

use llmprof_analysis::Analysis;

use crate::csv::CsvFile;

pub fn files(analysis: &Analysis) -> Vec<CsvFile> {
    let Some(ranks) = analysis.ranks.as_ref().filter(|ranks| !ranks.are_devices) else {
        return Vec::new();
    };
    let mut text = "rank,compute_ns,exposed_transfer_ns,exposed_waiting_ns,exposed_unmatched_ns,copies_ns,idle_ns,busy_ns,\
                    communication_ns,caused_waiting_ns,last_at,clock_offset_ns,clock_drift_ppm\n"
        .to_owned();
    for row in &ranks.ranks {
        let times = [
            row.compute_ns,
            row.exposed_transfer_ns,
            row.exposed_waiting_ns,
            row.exposed_unmatched_ns,
            row.copies_ns,
            row.idle_ns,
            row.busy_ns,
            row.communication_ns,
            row.caused_waiting_ns,
        ];
        text += &row.rank.to_string();
        for time in times {
            let _ = write!(text, ",{}", time.0);
        }
        let clock = &row.clock;
        let _ = writeln!(
            text,
            ",{},{},{}",
            row.last_at, clock.offset_ns.0, clock.drift_ppm
        );
    }
    let mut files = vec![("ranks.csv".to_owned(), text)];
    files.extend(ranks.job.as_ref().map(|job| {
        let mut text = "rank,step,own_ns\n".to_owned();
        for (rank, times) in job.step_times.ranks.iter().zip(&job.step_times.own_ns) {
            for (index, (step, own)) in job.steps.iter().zip(times).enumerate() {
                let number = step.number.unwrap_or(index as u64);
                if *own >= 0 {
                    let _ = writeln!(text, "{rank},{number},{own}");
                }
            }
        }
        ("rank_steps.csv".to_owned(), text)
    }));
    files
}
