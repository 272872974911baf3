//! Fitted factors of kernels that no curve has, from `data/kernel_factors.yaml`.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::sourced::Sourced;

const FILE: &str = include_str!("../data/kernel_factors.yaml");

/// What each is stands in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KernelFactors {
    vector_share: Sourced<f64>,
    tile_depth: Sourced<f64>,
    flash_2: Sourced<f64>,
    unaligned_even_share: Sourced<f64>,
    unaligned_odd_share: Sourced<f64>,
    few_products_us: Sourced<f64>,
    narrow_fixed: Sourced<f64>,
    link_latency_us: Sourced<f64>,
    link_share: Sourced<f64>,
}

impl KernelFactors {
    pub(crate) fn shipped_factors() -> &'static Self {
        static FACTORS: LazyLock<KernelFactors> = LazyLock::new(|| {
            serde_saphyr::from_str(FILE).expect("the shipped file is whole, as tests read it")
        });
        &FACTORS
    }

    pub(crate) fn vector_share(&self) -> f64 {
        self.vector_share.value
    }

    /// Share of its rate that an FP32 GEMM of this depth reaches.
    pub(crate) fn filled_share(&self, k: f64) -> f64 {
        k / (k + self.tile_depth.value)
    }

    pub(crate) fn flash_2(&self) -> f64 {
        self.flash_2.value
    }

    /// Share of the tensor peak that batched GEMMs reach whose rows are not aligned: numbers are read one by one where a row is odd,
    /// and in pairs or fours where it is not.
    pub(crate) fn unaligned_share(&self, n: f64, k: f64) -> f64 {
        if n % 2.0 == 0.0 && k % 2.0 == 0.0 {
            self.unaligned_even_share.value
        } else {
            self.unaligned_odd_share.value
        }
    }

    pub(crate) fn few_products_s(&self) -> f64 {
        self.few_products_us.value * 1e-6
    }

    pub(crate) fn narrow_fixed(&self) -> f64 {
        self.narrow_fixed.value
    }

    pub(crate) fn link_latency_s(&self) -> f64 {
        self.link_latency_us.value * 1e-6
    }

    pub(crate) fn link_share(&self) -> f64 {
        self.link_share.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GEMMs of depth 64 reach 61 % of the rate of deep ones.
    #[test]
    fn shallow_gemms_reach_a_part_of_the_rate() {
        assert!((KernelFactors::shipped_factors().filled_share(64.0) - 0.615).abs() < 0.001);
    }
}
