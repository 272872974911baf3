//! Which rows numbers are fitted to: of all designs, or of all but the one that is graded.

use std::collections::{BTreeMap, BTreeSet};

use super::rows::{RowSource, ServedRow, design_of};

/// A row that decodes so many times as fast as another one of the same settings has more than one token a step, which no column says.
const SPECULATES: f64 = 1.2;

/// Of sweeps, which are many and alike, every third row is enough.
const STRIDE: usize = 3;

/// Launch scripts that set what is not simulated: SGLang looks for requests every tenth or thirtieth step (`--scheduler-recv-interval`), and TensorRT-LLM 1.2
/// captures prefill as CUDA graphs and holds prompts back (`enable_piecewise_cuda_graph`, `batch_wait_timeout_iters`), both for DeepSeek on B200s.
fn runs_otherwise(row: &ServedRow) -> bool {
    let is_b200 = row.device == "b200" && row.source == RowSource::Dashboard;
    is_b200 && (row.backend == "sglang" || row.version.starts_with("1.2"))
}

/// Rows that run what is simulated, each measurement once.
fn comparable_rows<'r>(rows: &[&'r ServedRow]) -> Vec<&'r ServedRow> {
    let mut seen = BTreeSet::new();
    let once: Vec<&ServedRow> = rows
        .iter()
        .filter(|row| !runs_otherwise(row))
        .filter(|row| {
            let times = [row.measured.ttft, row.measured.tpot].map(f64::to_bits);
            seen.insert((row.stated_settings(), times))
        })
        .copied()
        .collect();
    let mut slowest: BTreeMap<String, f64> = BTreeMap::new();
    for row in &once {
        let most = slowest.entry(row.stated_settings()).or_default();
        *most = most.max(row.measured.tpot);
    }
    let speculates =
        |row: &ServedRow| slowest[&row.stated_settings()] > SPECULATES * row.measured.tpot;
    once.into_iter().filter(|row| !speculates(row)).collect()
}

/// The rows that numbers are fitted to.
pub(crate) fn fitted_to<'r>(rows: &[&'r ServedRow], without: Option<&str>) -> Vec<&'r ServedRow> {
    let others: Vec<&ServedRow> = rows
        .iter()
        .filter(|row| Some(design_of(row.model)) != without)
        .copied()
        .collect();
    let (sweeps, mut dashboards): (Vec<&ServedRow>, Vec<&ServedRow>) = comparable_rows(&others)
        .into_iter()
        .partition(|row| row.source == RowSource::Sweep);
    dashboards.extend(sweeps.into_iter().step_by(STRIDE));
    dashboards
}
