//! Over how many devices a model is spread.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Over how many devices a model is spread, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parallel {
    /// Ranks that share every layer.
    pub tensor: u64,
    /// Pipeline stages: each holds a consecutive range of the layers.
    pub pipeline: u64,
    /// Ranks that share the experts: within the tensor-parallel ranks, or across data-parallel ones.
    pub expert: u64,
    /// Groups of ranks that have sequences of their own.
    pub data: u64,
}

impl Default for Parallel {
    fn default() -> Self {
        Self {
            tensor: 1,
            pipeline: 1,
            expert: 1,
            data: 1,
        }
    }
}

/// Maximum ranks of each kind: far above any deployment, and low enough that products of three stay within 64 bits.
const RANKS_MAX: u64 = 1 << 12;

impl Parallel {
    pub fn rank_count(&self) -> u64 {
        self.tensor * self.pipeline * self.data
    }

    pub fn is_single(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the experts of one rank serve sequences of other data-parallel ranks.
    pub fn shares_experts_across_data(&self) -> bool {
        self.data > 1 && self.expert > self.tensor
    }

    /// The first invalid value, independent of the model: its key, the value, and what the value must be.
    pub fn find_mistake(&self) -> Option<(&'static str, u64, String)> {
        let named = [
            ("tensor", self.tensor),
            ("pipeline", self.pipeline),
            ("expert", self.expert),
            ("data", self.data),
        ];
        for (key, value) in named {
            if !(1..=RANKS_MAX).contains(&value) {
                return Some((key, value, format!("between 1 and {RANKS_MAX}")));
            }
        }
        let group = self.tensor * self.data;
        let fits = self.tensor.is_multiple_of(self.expert)
            || (self.expert.is_multiple_of(self.tensor) && group.is_multiple_of(self.expert));
        (!fits).then(|| {
            let expected = format!(
                "a divisor of tensor ({}), or tensor times a divisor of data ({})",
                self.tensor, self.data
            );
            ("expert", self.expert, expected)
        })
    }
}
