//! Work and traffic of one launch, from its counters.

use llmprof_units::{Bytes, BytesPerSecond, FlopsPerSecond, Nanos};

use super::{Counters, ProfiledLaunch};

/// The achieved point of a launch under one roof.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RooflinePoint {
    pub rate: FlopsPerSecond,
    pub traffic: BytesPerSecond,
}

impl RooflinePoint {
    /// Operations per byte of DRAM traffic; `None` where there was no traffic.
    pub fn intensity(&self) -> Option<f64> {
        (self.traffic.0 > 0.0).then(|| self.rate.0 / self.traffic.0)
    }
}

impl Counters {
    /// Time of a launch as the profiler measured it, which is longer than on a timeline: caches were cold.
    pub fn duration(&self, launch: &ProfiledLaunch) -> Option<Nanos> {
        let section = "GPU Speed Of Light Throughput";
        let nanos = self
            .number(launch, "gpu__time_duration.sum")
            .or_else(|| self.number_in(launch, section, "Duration", "ns"))?;
        Some(Nanos(nanos.round() as _))
    }

    /// Bytes that a launch read from and wrote to DRAM, by whichever counters the chip has: those of Blackwell have `op` in
    /// their names.
    pub fn dram_bytes(&self, launch: &ProfiledLaunch) -> Option<Bytes> {
        let of = |kind: &str| {
            let older = self.number(launch, &format!("dram__bytes_{kind}.sum"));
            older.or_else(|| self.number(launch, &format!("dram__bytes_op_{kind}.sum")))
        };
        let apart = of("read").zip(of("write"));
        let both = apart.map(|(read, written)| read + written);
        let both = both.or_else(|| self.number(launch, "dram__bytes.sum"))?;
        Some(Bytes(both.round() as _))
    }

    /// Dense operations on the tensor pipes, over all formats.
    pub fn tensor_operations(&self, launch: &ProfiledLaunch) -> Option<f64> {
        let counts = self.tensor_counts(launch, "sum");
        (!counts.is_empty()).then(|| counts.iter().map(|(_, count)| count).sum())
    }

    /// Where a launch stands under the roof of the tensor pipes: operations ÷ time over DRAM bytes ÷ time.
    pub fn tensor_point(&self, launch: &ProfiledLaunch) -> Option<RooflinePoint> {
        let seconds = self.duration(launch)?.seconds();
        if seconds <= 0.0 {
            return None;
        }
        Some(RooflinePoint {
            rate: FlopsPerSecond(self.tensor_operations(launch)? / seconds),
            traffic: BytesPerSecond(self.dram_bytes(launch)?.0 as f64 / seconds),
        })
    }

    /// Where a launch stands under the roof of the FP32 pipes, by the rows of the roofline chart:
    /// (2·FFMA + FADD + FMUL per cycle) · SM frequency over the DRAM bandwidth.
    pub fn fp32_point(&self, launch: &ProfiledLaunch) -> Option<RooflinePoint> {
        let value = |name: &str| {
            self.find(launch, |metric| {
                metric.label == "Single Precision Achieved Value" && metric.name == name
            })
        };
        // The row already counts two operations per FFMA.
        let operations_per_cycle = value("Predicated-On FFMA Operations Per Cycle")?
            + value("Predicated-On FADD Thread Instructions Executed Per Cycle")?
            + value("Predicated-On FMUL Thread Instructions Executed Per Cycle")?;
        Some(RooflinePoint {
            rate: FlopsPerSecond(operations_per_cycle * value("SM Frequency")?),
            traffic: BytesPerSecond(value("DRAM Bandwidth")?),
        })
    }
}
