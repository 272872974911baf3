//! What families of transformers do otherwise than most: data.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;

const HABITS: &str = include_str!("../../data/eager_habits.yaml");

/// How a family of transformers rotates queries and keys.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Rotation {
    /// Halves are negated and joined, then two products and a sum.
    #[default]
    Joined,
    /// Each half by itself, joined at the end.
    ByHalf,
    /// As complex numbers in 32 bits.
    Complex,
}

/// How the transformers code of a family launches kernels, as far as it differs between families.
#[derive(Clone, Copy, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a habit by itself")]
pub(super) struct EagerHabits {
    pub(super) rotation: Rotation,
    /// Rotated and passed parts are joined even where nothing passes.
    pub(super) joins_passed: bool,
    /// The norm's weight is applied before the cast back.
    pub(super) wide_norm_weight: bool,
    /// GELU by tanh from eight kernels.
    pub(super) split_gelu: bool,
    /// Scores as tensors: no fused kernel takes sinks.
    pub(super) eager_attention: bool,
    /// Routers multiply in 32 bits.
    pub(super) wide_router: bool,
    /// Queries are scaled before the attention kernel.
    pub(super) scales_queries: bool,
    /// Small kernels of a pass that make positions and masks.
    pub(super) setup_kernels: f64,
}

impl Default for EagerHabits {
    fn default() -> Self {
        Self {
            rotation: Rotation::Joined,
            joins_passed: false,
            wide_norm_weight: false,
            split_gelu: false,
            eager_attention: false,
            wide_router: false,
            scales_queries: false,
            setup_kernels: 2.0,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HabitsFile {
    #[expect(dead_code, reason = "for readers of the file")]
    source: String,
    families: BTreeMap<String, EagerHabits>,
}

impl EagerHabits {
    pub(super) fn of_family(family: &str) -> Self {
        static FILE: LazyLock<HabitsFile> = LazyLock::new(|| {
            serde_saphyr::from_str(HABITS).expect("the shipped file is whole, as tests read it")
        });
        FILE.families.get(family).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_of_a_family() {
        let file: HabitsFile = serde_saphyr::from_str(HABITS).unwrap();
        let families: Vec<&str> = llmprof_theory::family_names().collect();
        for family in file.families.keys() {
            assert!(families.contains(&family.as_str()), "{family}");
        }
    }
}
