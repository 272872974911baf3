//! What was asked of which model.

use llmprof_record::run::RunRecord;
use llmprof_theory::roofline::Roof;
use llmprof_theory::{Model, Workload};

use crate::analysis::AnalysisError;
use crate::roofline::Theory;

/// A model that theory counts, and what was asked of it.
pub(super) struct AskedModel<'a> {
    pub(super) model: &'a Model,
    pub(super) workload: Workload,
}

impl<'a> AskedModel<'a> {
    /// `None` if theory does not count the model, or no workload is known.
    pub(super) fn of_record(record: &'a RunRecord) -> Result<Option<Self>, AnalysisError> {
        let model = record.model.as_ref().and_then(|model| model.model.as_ref());
        let Some((model, workload)) = model.zip(record.workload) else {
            return Ok(None);
        };
        model.cost_by_phase(&workload)?;
        Ok(Some(Self { model, workload }))
    }

    /// Theory of the model, for the workload that the trace shows.
    pub(super) fn theory<'t>(
        &self,
        workload: &'t Workload,
        roof: Option<&'t Roof<'t>>,
    ) -> Theory<'t>
    where
        'a: 't,
    {
        Theory {
            model: self.model,
            workload,
            roof,
            experts: &[],
        }
    }

    /// Rows and width of the table of tokens.
    pub(super) fn token_table(&self) -> Option<(u64, u64)> {
        let embedding = &self.model.decoder.as_ref()?.embedding;
        Some((embedding.vocabulary, embedding.width))
    }
}
