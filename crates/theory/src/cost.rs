//! Totals over operators: by phase, by kind, by layer.

use llmprof_units::{Basis, DType};
use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::{
    error::WorkloadError,
    model::Model,
    operator::{Kind, Operator, Traffic},
    workload::{Pass, Workload},
};

/// Number of dtypes: the size of a table indexed by one.
const DTYPES: usize = DType::C64 as usize + 1;

/// Counts above this are refused: sums of them could leave 64 bits.
const LIMIT: u64 = 1 << 62;

/// Floating-point operations by dtype.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlopTable([u64; DTYPES]);

impl FlopTable {
    /// Operations in one dtype.
    pub fn get(&self, dtype: DType) -> u64 {
        self.0[dtype as usize]
    }

    /// Adds operations, saturating.
    pub fn add(&mut self, dtype: DType, flops: u64) {
        let slot = &mut self.0[dtype as usize];
        *slot = slot.saturating_add(flops);
    }

    /// Operations in all dtypes.
    pub fn total(&self) -> u64 {
        self.0
            .iter()
            .fold(0, |sum, flops| sum.saturating_add(*flops))
    }

    /// The dtypes with work, and how much.
    pub fn iter(&self) -> impl Iterator<Item = (DType, u64)> {
        DType::all()
            .map(|dtype| (dtype, self.get(dtype)))
            .filter(|(_, flops)| *flops > 0)
    }
}

impl Serialize for FlopTable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (dtype, flops) in self.iter() {
            map.serialize_entry(dtype.name(), &flops)?;
        }
        map.end()
    }
}

/// The sum of some operators' work and traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Matrix work.
    pub tensor: FlopTable,
    /// Other arithmetic.
    pub vector: FlopTable,
    /// Bytes moved.
    pub traffic: Traffic,
    /// Calls of operators.
    pub calls: u64,
    /// `Counted` unless a part is not.
    pub basis: Basis,
}

impl Default for Cost {
    fn default() -> Self {
        Self {
            tensor: FlopTable::default(),
            vector: FlopTable::default(),
            traffic: Traffic::default(),
            calls: 0,
            basis: Basis::Counted,
        }
    }
}

impl Cost {
    /// Adds an operator with all its layers.
    pub fn add(&mut self, operator: &Operator<'_>) {
        let layers = u64::from(operator.layers);
        let (tensor, vector) = (operator.tensor, operator.vector);
        self.tensor
            .add(tensor.dtype, tensor.flops.saturating_mul(layers));
        self.vector
            .add(vector.dtype, vector.flops.saturating_mul(layers));
        self.traffic.add_times(&operator.traffic, layers);
        self.calls = self.calls.saturating_add(operator.calls());
        if operator.basis != Basis::Counted {
            self.basis = operator.basis;
        }
    }

    /// All floating-point operations.
    pub fn flops(&self) -> u64 {
        self.tensor.total().saturating_add(self.vector.total())
    }

    /// Operations per compulsory byte; `None` where nothing moves.
    pub fn intensity(&self) -> Option<f64> {
        let bytes = self.traffic.compulsory();
        (bytes > 0).then(|| self.flops() as f64 / bytes as f64)
    }

    /// Refuses totals that may have saturated.
    fn check(&self) -> Result<(), WorkloadError> {
        let what = if self.flops() >= LIMIT {
            "floating-point operations"
        } else if self.traffic.total() >= LIMIT {
            "bytes"
        } else if self.calls >= LIMIT {
            "calls"
        } else {
            return Ok(());
        };
        Err(WorkloadError::TooLarge { what })
    }
}

/// The cost of a workload on a model, by phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Costs {
    /// Image towers; absent without images.
    pub vision: Option<Cost>,
    /// All passes over the prompt.
    pub prefill: Cost,
    /// The first decode step.
    pub decode_step: Cost,
    /// All decode steps.
    pub decode: Cost,
}

impl Model {
    /// The total of one pass.
    pub fn cost_of(&self, workload: &Workload, pass: &Pass) -> Cost {
        let mut cost = Cost::default();
        self.lower(workload, pass, &mut |operator| cost.add(operator));
        cost
    }

    /// The total of the image towers.
    pub fn cost_of_vision(&self, workload: &Workload) -> Cost {
        let mut cost = Cost::default();
        self.lower_vision(workload, &mut |operator| cost.add(operator));
        cost
    }

    /// The cost of a workload by phase.
    pub fn costs(&self, workload: &Workload) -> Result<Costs, WorkloadError> {
        self.validate(workload)?;
        let mut prefill = Cost::default();
        for pass in self.prefill_passes(workload) {
            self.lower(workload, &pass, &mut |operator| prefill.add(operator));
        }
        let decode = self
            .decode_pass(workload)
            .map(|pass| self.cost_of(workload, &pass));
        let vision = self.vision.as_ref().filter(|_| workload.images.count > 0);
        let costs = Costs {
            vision: vision.map(|_| self.cost_of_vision(workload)),
            prefill,
            decode_step: self.cost_of(workload, &self.decode_step(workload)),
            decode: decode.unwrap_or_default(),
        };
        let phases = [costs.prefill, costs.decode_step, costs.decode];
        for cost in costs.vision.iter().chain(&phases) {
            cost.check()?;
        }
        Ok(costs)
    }

    /// The total of one pass by operator kind, in the order of [`Kind::ALL`], kinds without calls left out.
    pub fn cost_by_kind(&self, workload: &Workload, pass: &Pass) -> Vec<(Kind, Cost)> {
        let mut kinds = [Cost::default(); Kind::ALL.len()];
        self.lower(workload, pass, &mut |operator| {
            kinds[operator.kind as usize].add(operator);
        });
        Kind::ALL
            .into_iter()
            .zip(kinds)
            .filter(|(_, cost)| cost.calls > 0)
            .collect()
    }

    /// The total of one pass by layer; `None` gathers what lies outside the layers.
    pub fn cost_by_layer(&self, workload: &Workload, pass: &Pass) -> Vec<(Option<u32>, Cost)> {
        let mut layers = std::collections::BTreeMap::<Option<u32>, Cost>::new();
        self.lower_in_order(workload, pass, &mut |operator| {
            layers.entry(operator.path.layer).or_default().add(operator);
        });
        layers.into_iter().collect()
    }
}
