//! What a trace shows of a phase beyond its waterfall.

use llmprof_record::kernel_name::Category;
use llmprof_theory::device::{Counts, Device, Interconnect};
use llmprof_units::{Basis, Bytes, BytesPerSecond, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::evidence::{Evidence, Measure};
use crate::stats::ValueDistribution;
use crate::thresholds::{LARGE_COPY_MIN_BYTES, LINK_SPEED_MIN_SHARE};
use crate::waterfall::idle_parts::NamedTime;

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A traced phase on one device, or on the host's thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts of a trace, each a key of its own in analysis.json"
)]
pub struct TracedPhase {
    /// The device; absent where the work is the host's own.
    pub device: Option<u32>,
    /// Whether no phases were found: then this is all of the trace, the program's start and end included.
    #[serde(default)]
    pub is_whole_trace: bool,
    /// Whether ranges of modules tell operators apart; otherwise kernels do.
    pub by_module: bool,
    /// Whether the recorder knows the operator of every call, as llmprof's own engine does.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_identity: bool,
    /// Whether the clocks of host and device disagree, so that idle time has no causes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub clocks_disagree: bool,
    /// Steps whose batch an engine's label states; the workload says nothing about these.
    #[serde(skip_serializing_if = "is_zero")]
    pub labelled_steps: u64,
    /// How much of it was recorded; absent where all of it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<RecordedPart>,
    /// How long the same took while nothing was recorded; absent where all of the time was, or nothing shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub between_slices: Option<BetweenSlices>,
    /// The intervals that were found, in order of time.
    pub instances: Vec<PhaseInstance>,
    /// How long single steps of decode took, where ranges show them.
    pub step_ns: Vec<Nanos>,
    /// Their distribution, ns.
    pub steps: Option<ValueDistribution>,
    /// Kernels, or operators of the host.
    pub kernels: u64,
    /// Launches whose kernels the trace does not hold: time without a kernel need not be idle then.
    #[serde(skip_serializing_if = "is_zero")]
    pub missing_kernels: u64,
    /// Kernels that were launched as nodes of CUDA graphs.
    pub graph_kernels: u64,
    /// Kernels beside GEMMs and attention; absent where the device or its kernels are not known.
    pub glue: Option<Glue>,
    /// Time of events whose module is known; absent without ranges of modules.
    pub in_modules_ns: Option<Nanos>,
    /// The operators that the host was longest in while the device waited for it.
    pub host_operators: Vec<NamedTime>,
    /// Ranges of the program that are open while nothing runs, for a good part of the time; the innermost counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub idle_ranges: Vec<NamedTime>,
    /// Waits before attention kernels that are far above the usual.
    pub new_lengths: Option<NewLengths>,
    /// The first interval, where it is left out because it took longer for the same work.
    pub first_use: Option<FirstInstance>,
    /// Part of the busy time in kernels with fewer blocks than the device has multiprocessors.
    pub small_kernel_share: Option<f64>,
    /// Part of the wall time in which devices exchanged data and computed nothing.
    pub exposed_communication_share: Option<f64>,
    /// Part of the busy time in which only copies and memsets ran, up to their ends: work that starts beside a copy does not wait for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exposed_copy_share: Option<f64>,
    /// The kernels with most time in the phase.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub longest_kernels: Vec<PhaseKernel>,
    /// The time of all kernels by category, the longest first; summed, clipped to the phase.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<CategoryTime>,
    /// Of a step of training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub training: Option<TrainingParts>,
    /// Copies and memsets by direction, the longest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<CopyTime>,
}

/// The GPU time of training steps by what launched it, summed, each event in one part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct TrainingParts {
    /// Kernels that operators launched before a backward pass of the same step.
    pub forward_ns: Nanos,
    /// Time of the backward pass.
    pub backward_ns: Nanos,
    /// Time of the optimizer.
    pub optimizer_ns: Nanos,
    /// Time of communication.
    pub communication_ns: Nanos,
    /// Kernels whose launch was not recorded.
    pub unattributed_ns: Nanos,
    /// What no launch shows to be one of these: copies of the input, evaluation, checkpoints.
    #[serde(default)]
    pub other_ns: Nanos,
}

/// The kernels of one category in one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct CategoryTime {
    /// Category of kernels.
    pub category: Category,
    /// Summed time.
    pub time_ns: Nanos,
}

/// One kernel in one phase.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct PhaseKernel {
    /// Name of the kernel.
    pub name: String,
    /// Category of the kernel.
    pub category: Category,
    /// Launches that reach into the phase.
    pub calls: u64,
    /// Summed, clipped to the phase.
    pub time_ns: Nanos,
}

/// From where to where data is copied.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum CopyDirection {
    HostToDevice,
    DeviceToHost,
    OnDevice,
    /// From one device to another.
    Peer,
    Memset,
    /// Inside of the host, of CUDA arrays, or not known.
    Other,
}

impl CopyDirection {
    /// As JSON has it.
    pub fn code(self) -> &'static str {
        match self {
            Self::HostToDevice => "host_to_device",
            Self::DeviceToHost => "device_to_host",
            Self::OnDevice => "on_device",
            Self::Peer => "peer",
            Self::Memset => "memset",
            Self::Other => "other",
        }
    }
}

/// Copies in one direction that begin in a phase.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct CopyTime {
    /// Where data go.
    pub direction: CopyDirection,
    /// Number of copies.
    pub copies: u64,
    /// Summed, also where they overlap.
    pub time_ns: Nanos,
    /// Bytes that were copied.
    pub bytes: Bytes,
    /// The part of the time in copies from or to host memory that is not pinned.
    pub pageable_ns: Nanos,
    /// What limits them, where the device file has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LinkLimit>,
}

impl CopyTime {
    pub(crate) fn of(direction: CopyDirection) -> Self {
        Self {
            direction,
            copies: 0,
            time_ns: Nanos(0),
            bytes: Bytes(0),
            pageable_ns: Nanos(0),
            limit: None,
        }
    }

    /// Bytes per second of copying; absent where sizes are not recorded.
    pub fn rate(&self) -> Option<BytesPerSecond> {
        let is_known = self.bytes.0 > 0 && self.time_ns.0 > 0;
        is_known.then(|| BytesPerSecond(self.bytes.0 as f64 / self.time_ns.seconds()))
    }

    /// Whether one larger copy would take less time: the copies are small, and slower than their link.
    pub fn gains_by_joining(&self) -> bool {
        let at_link_speed = self
            .rate()
            .zip(self.limit.as_ref())
            .is_some_and(|(rate, limit)| rate.0 >= LINK_SPEED_MIN_SHARE * limit.bytes_per_s.0);
        let is_large = self.bytes.0 / self.copies.max(1) >= LARGE_COPY_MIN_BYTES;
        self.copies > 1 && !at_link_speed && !is_large
    }

    /// Whether data stays in the memory of one device.
    pub fn is_on_device(&self) -> bool {
        matches!(
            self.direction,
            CopyDirection::OnDevice | CopyDirection::Memset
        )
    }
}

/// What copies go over, and how many bytes a second they can be there.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct LinkLimit {
    /// Name of the link in the device file, or `device memory`.
    pub name: String,
    /// Bandwidth in one direction.
    pub bytes_per_s: BytesPerSecond,
}

impl LinkLimit {
    /// What limits the rate of copied bytes in a direction, where the device file has it.
    pub(crate) fn of_direction(device: &Device, direction: CopyDirection) -> Option<Self> {
        let link = |is_it: &dyn Fn(&str) -> bool| {
            let mut links = device.interconnects.iter();
            let link = links.find(|link| is_it(&link.name))?;
            Some(Self {
                name: link.name.clone(),
                bytes_per_s: each_way(link),
            })
        };
        let memory = |passes: f64| Self {
            name: "device memory".to_owned(),
            bytes_per_s: BytesPerSecond(device.memory_bandwidth().0 / passes),
        };
        match direction {
            // A chip that is wired to its CPU by NVLink-C2C copies over that.
            CopyDirection::HostToDevice | CopyDirection::DeviceToHost => {
                link(&|name| name.contains("C2C"))
                    .or_else(|| link(&|name| name.starts_with("PCIe")))
            }
            // Every byte is read and written.
            CopyDirection::OnDevice => Some(memory(2.0)),
            CopyDirection::Memset => Some(memory(1.0)),
            // No trace says which link two devices have: cards of one kind come with and without a fabric.
            CopyDirection::Peer | CopyDirection::Other => None,
        }
    }
}

fn each_way(link: &Interconnect) -> BytesPerSecond {
    match link.counts {
        Counts::OneDirection => link.bandwidth.value,
        Counts::BothDirections => BytesPerSecond(link.bandwidth.value.0 / 2.0),
    }
}

/// Kernels beside GEMMs, convolutions and attention: norms, RoPE, activations, additions, copies, index work. They are
/// small and many unless a compiler fuses them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct Glue {
    /// How many.
    pub kernels: u64,
    /// Their time.
    pub time_ns: Nanos,
    /// How many of them a compiler has fused already.
    pub fused: u64,
}

/// One interval of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct PhaseInstance {
    /// When it begins on the clock of the trace.
    pub start_ns: Nanos,
    /// How long it lasts.
    pub wall_ns: Nanos,
    /// The sum of the times of its events, clipped to it.
    pub sum_ns: Nanos,
    /// Whether it is left out of the phase: the first use.
    pub left_out: bool,
}

/// Waits before attention kernels that are far above the usual: the first use of a length of the KV cache, for which a
/// library plans or compiles a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct NewLengths {
    /// How many.
    pub waits: u64,
    /// Their time beyond the usual.
    pub time_ns: Nanos,
    /// The usual wait before an attention kernel.
    pub usual_ns: Nanos,
}

impl NewLengths {
    /// The mean wait beyond the usual.
    pub fn mean(&self) -> Nanos {
        Nanos(self.time_ns.0 / (self.waits.max(1) as i64))
    }

    pub(crate) fn evidence(&self) -> Vec<Evidence> {
        vec![
            Evidence::new(
                Measure::AttentionWaits,
                self.waits as f64,
                "waits",
                Basis::Measured,
            ),
            Evidence::time(Measure::AttentionWaitTime, self.time_ns, Basis::Measured),
            Evidence::time(Measure::UsualAttentionWait, self.usual_ns, Basis::Measured),
        ]
    }
}

/// A first interval that took longer than the later ones for the same work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct FirstInstance {
    /// How long it took.
    pub wall_ns: Nanos,
    /// The median of the later ones, ns.
    pub later_ns: f64,
    /// What new lengths cost in it.
    pub new_lengths: Option<NewLengths>,
}

/// Steps, or intervals of a phase, that ran between slices beside those that were recorded. Medians, since a few wait for
/// something else: of the first use of a kernel, or of what CUPTI did to the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct BetweenSlices {
    /// Those that no slice touches, nor their neighbours.
    pub plain: u64,
    /// Median time of those that were not recorded.
    pub plain_ns: Nanos,
    /// Those that were recorded whole and are judged.
    pub recorded: u64,
    /// Median time of those that were recorded whole.
    pub recorded_ns: Nanos,
}

impl BetweenSlices {
    /// How many times as long a recorded one takes.
    pub fn ratio(&self) -> f64 {
        self.recorded_ns.0 as f64 / self.plain_ns.0.max(1) as f64
    }
}

/// The part of a phase that was recorded in slices. All figures of the phase are of this part: what lies between slices
/// counts nowhere, least of all as idle time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct RecordedPart {
    /// Steps of decode that were recorded whole, without those that are left out as first use; absent where nothing shows
    /// steps.
    pub steps: Option<u64>,
    /// Steps of decode in all; absent where no range shows them.
    pub of_steps: Option<u64>,
    /// The time of what was recorded and not left out.
    pub time_ns: Nanos,
    /// The time of the phase in all.
    pub of_ns: Nanos,
}

#[cfg(test)]
mod tests {
    use llmprof_theory::device::Catalog;

    use super::*;

    #[test]
    fn each_direction_has_its_limit() {
        let catalog = Catalog::embedded();
        let of = |name: &str, direction| {
            let device = catalog.by_name(name).unwrap();
            LinkLimit::of_direction(&device, direction)
                .map(|limit| (limit.name, limit.bytes_per_s.0))
        };
        let pcie = Some(("PCIe 5.0 x16".to_owned(), 64e9));
        assert_eq!(of("h200", CopyDirection::HostToDevice), pcie);
        assert_eq!(of("h200", CopyDirection::Peer), None);
        let wired = Some(("NVLink-C2C".to_owned(), 450e9));
        assert_eq!(of("gb200", CopyDirection::DeviceToHost), wired);
        // The file has no link to the host.
        assert_eq!(of("mi300x", CopyDirection::HostToDevice), None);
        let (_, inside) = of("h200", CopyDirection::OnDevice).unwrap();
        let (_, fills) = of("h200", CopyDirection::Memset).unwrap();
        assert_eq!(fills, 2.0 * inside);
    }

    #[test]
    fn joining_shortens_small_copies_below_the_speed_of_their_link() {
        let catalog = Catalog::embedded();
        let device = catalog.by_name("h200").unwrap();
        let gains = |copies, bytes: u64, time| {
            let limit = LinkLimit::of_direction(&device, CopyDirection::HostToDevice);
            let copied = CopyTime {
                copies,
                bytes: Bytes(copies * bytes),
                time_ns: Nanos(copies as i64 * time),
                limit,
                ..CopyTime::of(CopyDirection::HostToDevice)
            };
            copied.gains_by_joining()
        };
        // 64 KiB in 3.4 µs are 19 GB/s; 256 KiB in 4.9 µs are 53 of 64 GB/s; 16 MiB in 800 µs are pageable.
        assert!(gains(100, 64 << 10, 3_400));
        assert!(!gains(1, 64 << 10, 3_400));
        assert!(!gains(100, 256 << 10, 4_900));
        assert!(!gains(100, 16 << 20, 800_000));
    }
}
