//! How much of a device's limits a phase used.

use llmprof_theory::Cost;
use llmprof_theory::device::Engine;
use llmprof_theory::roofline::{MemoryLevel, Roof};
use llmprof_units::{Bytes, BytesPerSecond, DType, Flops, FlopsPerSecond, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Matrix work of one format.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct DtypeWork {
    /// Number format of the operands.
    pub dtype: DType,
    /// Operations that the model needs.
    pub flops: Flops,
    /// Peak rate of the device for the format; absent if its file states none.
    pub peak_flops_per_s: Option<FlopsPerSecond>,
}

/// Shares of the device's peak FLOP rate and memory bandwidth that a phase reached.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Utilization {
    /// The time that the figures are of.
    pub wall_ns: Nanos,
    /// Σ over dtypes of (model FLOPs ÷ peak) ÷ wall time; model FLOPs are the GEMMs that the model needs. Absent where the device states no peak for a format, or the phase took no time.
    pub mfu: Option<f64>,
    /// The same for all other arithmetic at the peaks of vector units, where they are stated.
    pub vector_utilization: Option<f64>,
    /// (Weight bytes + KV bytes read and written) ÷ (wall time × peak bandwidth of main memory).
    pub mbu: Option<f64>,
    /// The same against the bandwidth of the caches, where the bytes of a step stay in them and it is known.
    pub mbu_on_chip: Option<f64>,
    /// Where the bytes of a step can stay. With `on_chip`, `mbu` says nothing about a limit.
    pub memory_level: MemoryLevel,
    /// GEMM work by the format of the operands.
    pub work: Vec<DtypeWork>,
    /// Bytes of weights that the phase reads.
    pub weight_bytes: Bytes,
    /// Keys and values read and written.
    pub kv_bytes: Bytes,
    /// Whether the keys and values that are read are missing in it, since nothing says how long the sequences are.
    #[serde(default)]
    pub without_kv_cache: bool,
    /// Peak bandwidth of main memory.
    pub bandwidth_bytes_per_s: BytesPerSecond,
}

impl Utilization {
    /// The utilization of a phase that costs `cost`, took `wall`, and keeps the bytes of a step in `level`.
    pub(crate) fn from_cost(roof: &Roof<'_>, cost: &Cost, wall: Nanos, level: MemoryLevel) -> Self {
        let device = roof.device();
        let peak = |dtype, engine| {
            let peak = device.dense_peak(dtype, engine).ok()?;
            Some(peak.dense_flops_per_s)
        };
        let work: Vec<DtypeWork> = cost
            .tensor
            .iter()
            .map(|(dtype, flops)| DtypeWork {
                dtype,
                flops: Flops(flops),
                peak_flops_per_s: peak(dtype, Engine::Tensor),
            })
            .collect();
        let over_wall = |seconds: f64| (wall.0 > 0).then(|| seconds / wall.seconds());
        let tensor: Option<f64> = work
            .iter()
            .map(|work| Some(work.flops / work.peak_flops_per_s?))
            .sum();
        let vector: Option<f64> = cost
            .vector
            .iter()
            .map(|(dtype, flops)| Some(Flops(flops) / peak(dtype, Engine::Vector)?))
            .sum();
        let weight_bytes = Bytes(cost.traffic.weights);
        let kv_bytes = Bytes(cost.traffic.kv_read.saturating_add(cost.traffic.kv_write));
        let bytes = Bytes(weight_bytes.0.saturating_add(kv_bytes.0));
        let bandwidth = device.memory_bandwidth();
        Self {
            wall_ns: wall,
            mfu: tensor.and_then(over_wall),
            vector_utilization: vector.and_then(over_wall),
            mbu: over_wall(bytes / bandwidth),
            mbu_on_chip: (level == MemoryLevel::OnChip)
                .then(|| on_chip_bandwidth(roof))
                .flatten()
                .and_then(|bandwidth| over_wall(bytes / bandwidth)),
            memory_level: level,
            work,
            weight_bytes,
            kv_bytes,
            without_kv_cache: false,
            bandwidth_bytes_per_s: bandwidth,
        }
    }
}

/// The bandwidth of the fastest cache, as rooflines use it; absent unless every cache states one.
fn on_chip_bandwidth(roof: &Roof<'_>) -> Option<BytesPerSecond> {
    use llmprof_theory::device::CacheScope;
    let device = roof.device();
    let units = device.units.as_ref().map_or(1.0, |units| units.count.value);
    let rates: Option<Vec<f64>> = device
        .caches
        .iter()
        .map(|cache| {
            let copies = match cache.scope {
                CacheScope::Unit => units,
                CacheScope::Device => 1.0,
            };
            Some(cache.bandwidth_bytes_per_s?.0 * copies)
        })
        .collect();
    let fastest = rates?.into_iter().fold(0.0, f64::max);
    (fastest > 0.0).then_some(BytesPerSecond(fastest))
}

#[cfg(test)]
mod tests {
    use llmprof_theory::device::Catalog;
    use llmprof_theory::{Span, Workload};

    use super::*;
    use crate::analyze::tests::llama_8b;

    /// Llama-3.1-8B, batch 1, 128 prompt tokens in bf16 on an H200, prefill in 10 ms.
    ///
    /// Products per layer and token: q 4096 × 4096, k and v 4096 × 1024 each, o 4096 × 4096, gate, up and down
    /// 4096 × 14336 each: 218,103,808 multiply-adds; 32 layers: 6,979,321,856. Times 2 × 128: 1,786,706,395,136 FLOP.
    /// Attention, causal: Σ keys = 128 × 129 ÷ 2 = 8,256; 4 × 32 heads × 128 wide × 8,256 × 32 layers = 4,328,521,728.
    /// Logits of the last position: 2 × 4096 × 128,256 = 1,050,673,152. Angles of 128 positions by 64 frequencies:
    /// 16,384. Together 1,792,085,606,400 FLOP; ÷ 989.4 TFLOP/s = 1.811285 ms, ÷ 10 ms = 0.1811285.
    ///
    /// Weights read: GEMMs and norms of 32 layers (6,979,321,856 + 32 × 2 × 4096), final norm 4096, head
    /// 525,336,576, in 2 bytes each, and 128 rows of the embedding (the table is not read whole); KV written
    /// 128 × 2 × 1024 × 2 B × 32 = 16,777,216.
    #[test]
    fn mfu_and_mbu_by_hand() {
        let model = llama_8b();
        let device = Catalog::embedded().by_name("h200").unwrap();
        let roof = Roof::new(&device);
        let workload = Workload {
            prompt: 128,
            new_tokens: 1,
            ..Workload::default()
        };
        let cost = model.cost_span(&workload, Span::Prefill);
        let wall = Nanos(10_000_000);
        let utilization = Utilization::from_cost(&roof, &cost, wall, MemoryLevel::Main);
        assert_eq!(cost.tensor.total(), 1_792_085_606_400);
        let mfu = utilization.mfu.unwrap();
        assert!((mfu - 0.181_128_5).abs() < 1e-6, "{mfu}");
        let weights = 2 * (6_979_321_856 + 32 * 2 * 4096 + 4096 + 525_336_576_u64);
        let embedding_rows = 128 * 4096 * 2;
        assert_eq!(utilization.weight_bytes.0, weights + embedding_rows);
        assert_eq!(utilization.kv_bytes.0, 16_777_216);
        let mbu = (weights + embedding_rows + 16_777_216) as f64 / (0.010 * 4.8e12);
        assert!((utilization.mbu.unwrap() - mbu).abs() < 1e-12);
        assert_eq!(utilization.mbu_on_chip, None);
        assert_eq!(
            Utilization::from_cost(&roof, &cost, Nanos(0), MemoryLevel::Main).mfu,
            None
        );
    }

    #[test]
    fn a_missing_peak_gives_no_mfu() {
        let model = llama_8b();
        let mut device = Catalog::embedded().by_name("h200").unwrap();
        device.peaks.clear();
        let cost = model.cost_span(&Workload::default(), Span::Decode);
        let utilization =
            Utilization::from_cost(&Roof::new(&device), &cost, Nanos(1000), MemoryLevel::Main);
        assert_eq!(utilization.mfu, None);
        assert!(utilization.mbu.is_some());
    }
}
