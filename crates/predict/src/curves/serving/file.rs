//! The files of ratios, as `tests/recipes/serving_curves.py` writes them.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServingCurves {
    /// Package, version of the engine, and the peaks that ratios refer to: for readers of the file.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests alone read it"))]
    pub(super) source: String,
    pub(super) gemm: BTreeMap<String, GemmTable>,
    pub(super) experts: BTreeMap<String, ExpertsTable>,
    pub(super) decode_attention: AttentionTables,
    pub(super) prefill_attention: AttentionTables,
    /// By kernel and phase: `conv_prefill`, `conv_decode`, `rule_prefill`, `rule_decode`.
    pub(super) gated_delta: BTreeMap<String, DeltaTable>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GemmTable {
    pub(super) fixed_us: f64,
    pub(super) m: Vec<f64>,
    pub(super) n: Vec<f64>,
    pub(super) k: Vec<f64>,
    pub(super) ratio: Vec<f64>,
}

/// Of both GEMMs of a mixture of experts with all that the engine runs between and after them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExpertsTable {
    pub(super) fixed_us: f64,
    /// Of each expert that is reached.
    pub(super) rows: Vec<f64>,
    /// Elements of one expert's matrix: an axis of the grid.
    pub(super) elements: Vec<f64>,
    /// Distinct experts that a step reaches: an axis of the grid.
    pub(super) reached: Vec<f64>,
    pub(super) ratio: Vec<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AttentionTables {
    pub(super) fixed_us: f64,
    /// Heads of all sequences: KV heads in decode.
    pub(super) work: Vec<f64>,
    pub(super) keys: Vec<f64>,
    pub(super) cache: BTreeMap<String, CacheTable>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CacheTable {
    pub(super) dims: Vec<f64>,
    pub(super) ratio: Vec<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeltaTable {
    pub(super) fixed_us: f64,
    /// Heads of all sequences: value heads of the delta rule, channels of the convolution by 128.
    pub(super) work: Vec<f64>,
    /// New tokens of a sequence.
    pub(super) tokens: Vec<f64>,
    pub(super) ratio: Vec<f64>,
}
