//! Totals over operators: by phase, by kind, by layer.

use std::{borrow::Cow, collections::BTreeMap};

use llmprof_units::{Basis, DType, Flops};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::{
    error::WorkloadError,
    model::Model,
    operator::{Kind, Operator, Path, Traffic},
    workload::{Pass, Workload},
};

/// Number of dtypes: the size of a table indexed by one.
const DTYPES: usize = DType::C64 as usize + 1;

/// Counts above this are refused: sums of them could leave 64 bits.
const EXACT_COUNT_MAX: u64 = 1 << 62;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlopTable([u64; DTYPES]);

impl FlopTable {
    pub fn get(&self, dtype: DType) -> u64 {
        self.0[dtype as usize]
    }

    pub fn add_flops(&mut self, dtype: DType, flops: u64) {
        let slot = &mut self.0[dtype as usize];
        *slot = slot.saturating_add(flops);
    }

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

impl JsonSchema for FlopTable {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "FlopTable".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, Flops>::json_schema(generator)
    }
}

/// The sum of some operators' work and traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cost {
    pub tensor: FlopTable,
    pub vector: FlopTable,
    pub traffic: Traffic,
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
    pub fn add_operator(&mut self, operator: &Operator<'_>) {
        let layers = u64::from(operator.layers);
        let (tensor, vector) = (operator.tensor, operator.vector);
        self.tensor
            .add_flops(tensor.dtype, tensor.flops.saturating_mul(layers));
        self.vector
            .add_flops(vector.dtype, vector.flops.saturating_mul(layers));
        self.traffic.add_times(&operator.traffic, layers);
        self.calls = self.calls.saturating_add(operator.call_count());
        if operator.basis != Basis::Counted {
            self.basis = operator.basis;
        }
    }

    pub fn total_flops(&self) -> u64 {
        self.tensor.total().saturating_add(self.vector.total())
    }

    /// Operations per byte of minimum DRAM traffic; `None` where nothing moves.
    pub fn arithmetic_intensity(&self) -> Option<f64> {
        let bytes = self.traffic.min_dram_bytes();
        (bytes > 0).then(|| self.total_flops() as f64 / bytes as f64)
    }

    /// Refuses totals that may have saturated.
    fn check_exact(&self) -> Result<(), WorkloadError> {
        let what = if self.total_flops() >= EXACT_COUNT_MAX {
            "floating-point operations"
        } else if self.traffic.total_bytes() >= EXACT_COUNT_MAX {
            "bytes"
        } else if self.calls >= EXACT_COUNT_MAX {
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
    /// The encoder; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoder: Option<Cost>,
    /// All passes over the prompt.
    pub prefill: Cost,
    /// The decode step that makes the second token: the shortest context of all of them.
    pub decode_step: Cost,
    pub decode: Cost,
}

/// A phase of a workload, counted as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Span {
    /// The image towers over all images.
    Vision,
    /// The encoder over all sequences.
    Encoder,
    /// All passes over the prompt.
    Prefill,
    /// The decode step that makes the second token.
    DecodeStep,
    Decode,
}

impl Span {
    /// All spans, in the order of a workload.
    pub const ALL: [Self; 5] = [
        Self::Vision,
        Self::Encoder,
        Self::Prefill,
        Self::DecodeStep,
        Self::Decode,
    ];

    /// The name used in JSON and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vision => "vision",
            Self::Encoder => "encoder",
            Self::Prefill => "prefill",
            Self::DecodeStep => "decode_step",
            Self::Decode => "decode",
        }
    }
}

impl Model {
    /// Sends the distinct operators of a span to `sink`, identical layers once with their count.
    pub(crate) fn lower_span<'m>(
        &'m self,
        workload: &Workload,
        span: Span,
        sink: &mut dyn FnMut(&Operator<'m>),
    ) {
        match span {
            Span::Vision => self.lower_vision(workload, sink),
            Span::Encoder => self.lower_encoder(workload, sink),
            Span::Prefill => {
                for pass in self.prefill_passes(workload) {
                    self.lower_pass(workload, &pass, sink);
                }
            }
            Span::DecodeStep => self.lower_pass(workload, &self.decode_step(workload), sink),
            Span::Decode => {
                if let Some(pass) = self.decode_pass(workload) {
                    self.lower_pass(workload, &pass, sink);
                }
            }
        }
    }

    /// The total of one pass.
    pub fn cost_of(&self, workload: &Workload, pass: &Pass) -> Cost {
        let mut cost = Cost::default();
        self.lower_pass(workload, pass, &mut |operator| cost.add_operator(operator));
        cost
    }

    /// The total of a span.
    pub fn cost_span(&self, workload: &Workload, span: Span) -> Cost {
        let mut cost = Cost::default();
        self.lower_span(workload, span, &mut |operator| cost.add_operator(operator));
        cost
    }

    /// The cost of a workload by phase, checked to be exact.
    pub fn cost_by_phase(&self, workload: &Workload) -> Result<Costs, WorkloadError> {
        self.validate_workload(workload)?;
        let [vision, encoder, prefill, decode_step, decode] =
            Span::ALL.map(|span| self.cost_span(workload, span));
        for cost in [vision, encoder, prefill, decode_step, decode] {
            cost.check_exact()?;
        }
        Ok(Costs {
            vision: (vision.calls > 0).then_some(vision),
            encoder: (encoder.calls > 0).then_some(encoder),
            prefill,
            decode_step,
            decode,
        })
    }

    /// The total of a span by operator kind, in the order of [`Kind::ALL`], kinds without calls left out.
    pub fn cost_by_kind(&self, workload: &Workload, span: Span) -> Vec<(Kind, Cost)> {
        let mut kinds = [Cost::default(); Kind::ALL.len()];
        self.lower_span(workload, span, &mut |operator| {
            kinds[operator.kind as usize].add_operator(operator);
        });
        Kind::ALL
            .into_iter()
            .zip(kinds)
            .filter(|(_, cost)| cost.calls > 0)
            .collect()
    }

    /// The total of a span by layer, in the order of the layers; a path without a layer gathers what lies outside.
    pub fn cost_by_layer(&self, workload: &Workload, span: Span) -> Vec<(Path<'_>, Cost)> {
        let mut prefixes: Vec<&str> = Vec::new();
        let mut layers = BTreeMap::<(usize, Option<u32>), Cost>::new();
        self.lower_span(workload, span, &mut |operator| {
            let prefix = operator.path.prefix;
            let rank = prefixes
                .iter()
                .position(|known| *known == prefix)
                .unwrap_or_else(|| {
                    prefixes.push(prefix);
                    prefixes.len() - 1
                });
            let one = Operator {
                layers: 1,
                ..*operator
            };
            if operator.numbers.is_empty() {
                layers.entry((rank, None)).or_default().add_operator(&one);
            }
            for number in operator.numbers {
                layers
                    .entry((rank, Some(*number)))
                    .or_default()
                    .add_operator(&one);
            }
        });
        let path = |(rank, layer): (usize, Option<u32>)| Path {
            prefix: prefixes[rank],
            layer,
            name: "",
        };
        layers
            .into_iter()
            .map(|(key, cost)| (path(key), cost))
            .collect()
    }
}
