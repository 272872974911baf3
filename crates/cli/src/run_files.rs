//! Reads what listings show of a run.

use llmprof_record::store::StoredRun;
use llmprof_report::compose::listings::{ListedRun, RunFiles};

pub(crate) fn listed_run(run: &StoredRun) -> ListedRun<'_> {
    ListedRun::new(&run.path, run.liveness(), &run.manifest)
}

pub(crate) fn run_files(run: &StoredRun) -> RunFiles {
    let json = |file| run.json(file).ok().flatten().unwrap_or_default();
    RunFiles {
        metrics: json("metrics.json"),
        bench: json("bench.json"),
        analysis: json("analysis.json"),
    }
}
