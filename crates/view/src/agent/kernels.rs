//! Kernels by total time.

use llmprof_analysis::attribution::kernels::KernelRow;
use llmprof_report::kernel_label;
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::{Answer, AnswerBody, ms, us};
use super::recorded_text::RecordedText;
use super::{PlaceId, RunAnswers};

/// Kernels of one answer before it is cut.
const KERNELS_MAX: usize = 25;

/// Kernels by total time, the longest first.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct KernelsAnswer {
    /// Kernels that match.
    pub count: usize,
    /// Kernel time of the trace in all.
    pub all_kernels_ms: f64,
    /// Kernels, the longest first.
    pub kernels: Vec<KernelAnswer>,
}

impl AnswerBody for KernelsAnswer {
    const NAME: &'static str = "kernels";
    const CUT: &'static [&'static str] = &["kernels"];
}

/// All launches of one kernel.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct KernelAnswer {
    /// For `explain`.
    pub id: String,
    /// Shortened.
    pub name: RecordedText,
    /// What it computes, as far as its name tells.
    pub category: &'static str,
    /// Library of the kernel.
    pub library: &'static str,
    /// Number of calls.
    pub calls: u64,
    /// Time of all calls.
    pub total_ms: f64,
    /// Of all kernel time.
    pub share_pct: f64,
    /// Median time of a call.
    pub median_us: f64,
    /// Longest call.
    pub max_us: f64,
}

impl KernelAnswer {
    pub(super) fn new(number: usize, row: &KernelRow) -> Self {
        Self {
            id: PlaceId::Kernel(number).to_string(),
            name: RecordedText::new(&kernel_label(&row.name)),
            category: row.category.name(),
            library: row.library.name(),
            calls: row.calls,
            total_ms: ms(row.total_ns.0 as f64),
            share_pct: (row.share_pct * 10.0).round() / 10.0,
            median_us: us(row.median_ns),
            max_us: us(row.max_ns.0 as f64),
        }
    }
}

impl RunAnswers<'_> {
    /// Kernels whose name or category has `filter` in it, beyond the first `from − 1`.
    pub(super) fn kernels(
        &self,
        from: usize,
        filter: Option<&str>,
    ) -> Result<Answer<KernelsAnswer>, String> {
        let rows = self.kernel_rows()?;
        let wanted = filter.map(str::to_lowercase);
        let is_wanted = |row: &KernelRow| {
            wanted.as_ref().is_none_or(|wanted| {
                row.name.to_lowercase().contains(wanted) || row.category.name().contains(wanted)
            })
        };
        let matching: Vec<(usize, &KernelRow)> =
            (1..).zip(rows).filter(|(_, row)| is_wanted(row)).collect();
        let count = matching.len();
        if from > 1 && from > count {
            return Err(format!(
                "{count} kernels match; there is none from number {from}"
            ));
        }
        let shown = matching.into_iter().skip(from.saturating_sub(1));
        let kernels: Vec<KernelAnswer> = shown
            .take(KERNELS_MAX)
            .map(|(number, row)| KernelAnswer::new(number, row))
            .collect();
        let mut next = Vec::new();
        if let Some(first) = kernels.first() {
            let why = "launch configurations, operators that launch it, its longest launches";
            next.push(
                self.asked
                    .next("explain", &[("id", first.id.as_str().into())], why),
            );
        }
        let after = from.max(1) + kernels.len();
        if after <= count {
            let mut arguments = vec![("from", after.into())];
            arguments.extend(filter.map(|filter| ("filter", filter.into())));
            next.push(self.asked.next("kernels", &arguments, "more kernels"));
        }
        let total: f64 = rows.iter().map(|row| row.total_ns.0 as f64).sum();
        let mut answer = self.answer(KernelsAnswer {
            count,
            all_kernels_ms: ms(total),
            kernels,
        });
        if count == 0 {
            answer.abstained.push(match filter {
                Some(_) => "no kernel has this text in its name or category".to_owned(),
                None => "the timeline has no kernels".to_owned(),
            });
            if filter.is_some() {
                next.push(self.asked.next("kernels", &[], "all kernels"));
            }
        }
        answer.next = next;
        Ok(answer)
    }

    pub(super) fn kernel_rows(&self) -> Result<&[KernelRow], String> {
        let timeline = self.analysis()?.timeline.as_ref();
        let timeline = timeline.ok_or("the run has no timeline, so kernels are not known")?;
        Ok(&timeline.kernels)
    }
}
