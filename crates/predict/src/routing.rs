//! Experts that tokens reach, as kernels see them.

use llmprof_theory::block::Moe;

/// Number of tokens for which uniform routing reaches `touched` experts.
pub(crate) fn equal_tokens(moe: &Moe, touched: f64) -> f64 {
    let (experts, chosen) = (moe.experts.count as f64, moe.experts.top_k as f64);
    if chosen >= experts {
        return 1.0;
    }
    let missed = (1.0 - touched / experts).clamp(1e-12, 1.0 - chosen / experts);
    missed.ln() / (1.0 - chosen / experts).ln()
}
