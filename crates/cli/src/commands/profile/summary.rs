//! An analysis of profiles in about ten lines.

use llmprof_analysis::{Analysis, trace::summary_lines};
use llmprof_record::{issue::Issue, run::RunRecord};

use super::{counters, files, memory};
use crate::outputs::has_times;

pub(super) fn lines(sources: &[String], record: &RunRecord, analysis: &Analysis) -> Vec<String> {
    let mut lines = sources.to_vec();
    // What was dropped stands above every number.
    lines.extend(analysis.issues.iter().map(Issue::in_a_line));
    if has_times(record) {
        lines.extend(llmprof_report::run::conclusion(analysis));
        let timeline = analysis.timeline.as_deref();
        lines.extend(timeline.map(summary_lines).unwrap_or_default());
    }
    if let Some(found) = &analysis.counters {
        lines.extend(counters::lines(found));
    }
    for table in &analysis.summaries {
        lines.extend(files::table_lines(table));
    }
    if let Some(history) = &record.memory {
        lines.extend(memory::lines(history));
    }
    lines
}
