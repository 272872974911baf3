//! The bottleneck class of a phase.
//!
//! The rules, the first that applies. W is the phase, B its busy time.
//!
//! 1. **throttled**: the device ran below its clock for at least [`THROTTLED_MIN_SHARE`] of the time.
//! 2. **communication-bound**: exchange between devices that nothing hides takes at least [`COMMUNICATION_BOUND_MIN_SHARE`] of W.
//! 3. **input-bound**: the device waits for at least [`HOST_BOUND_MIN_SHARE`] of W, and for more than half of that the program waits for its
//!    DataLoader.
//!    **host-bound**: the device waits for at least [`HOST_BOUND_MIN_SHARE`] of W, and launch calls show that the host was late; of the wall time
//!    without capture where that is known, since capture slows the host down and not the device. Idle time with work queued that
//!    the device did not start does not count, nor that between queued kernels, nor that of which the trace shows no cause: where
//!    only all together reach it, there is no class. Nor does idle time in which another device of the trace works, which it may
//!    wait for. What the host alone did has no class. Where launch calls do not show that the host was late, causes on the host may:
//!    their replayed gains count.
//! 4. **copy-bound**: copies and memsets that no kernel hides take at least [`COPY_BOUND_MIN_SHARE`] of B.
//! 5. Compute time is the phase's arithmetic at its peaks, memory time its minimum DRAM traffic at the bandwidth of the level
//!    that holds them. Where the larger is less than [`LIMIT_NEAR_MIN_SHARE`] of B, no limit is near: **latency-bound** where kernels that are
//!    too small for the device (grid or occupancy) take at least [`LATENCY_BOUND_MIN_SHARE`] of B, no class otherwise. A small grid alone is no
//!    fault: a few blocks can stream weights at the memory's speed. Where memory time is an upper bound, since fewer experts were
//!    read than expected, it gives no class.
//! 6. **balanced**: the two are within [`BALANCED_MAX_RATIO`] of each other.
//! 7. **memory-bound**, or **L2-bound** where the bytes stay on the chip: memory time is larger.
//! 8. **compute-bound**: compute time is larger.

use llmprof_theory::roofline::{MemoryLevel, PhaseRoofline};
use llmprof_units::Basis;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::evidence::{Evidence, Measure};
use crate::thresholds::{
    BALANCED_MAX_RATIO, COMMUNICATION_BOUND_MIN_SHARE, COPY_BOUND_MIN_SHARE, HOST_BOUND_MIN_SHARE,
    LATENCY_BOUND_MIN_SHARE, LIMIT_NEAR_MIN_SHARE, THROTTLED_MIN_SHARE,
};
use crate::waterfall::{DATA_LOADING, NOT_STARTED, QUEUED_GAP, UNKNOWN, Waterfall};

/// What limits a phase.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum PhaseClass {
    /// The device waits for the host; on a CPU run, for the engine's own work.
    HostBound,
    /// The device waits for data that the program loads.
    InputBound,
    /// Main memory's bandwidth.
    MemoryBound,
    /// Arithmetic.
    ComputeBound,
    /// The bandwidth of on-chip memory.
    L2Bound,
    /// Kernels that are too small to fill the device.
    LatencyBound,
    /// Exchange between devices.
    CommunicationBound,
    /// Copies, over a link or inside of a device's memory.
    CopyBound,
    /// Heat or power.
    Throttled,
    /// Arithmetic and memory alike.
    Balanced,
}

impl std::fmt::Display for PhaseClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::HostBound => "host-bound",
            Self::InputBound => "input-bound",
            Self::MemoryBound => "memory-bound",
            Self::ComputeBound => "compute-bound",
            Self::L2Bound => "L2-bound",
            Self::LatencyBound => "latency-bound",
            Self::CommunicationBound => "communication-bound",
            Self::CopyBound => "copy-bound",
            Self::Throttled => "throttled",
            Self::Balanced => "balanced",
        })
    }
}

/// What is known about a phase beside its waterfall. Absent is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct PhaseSignals {
    /// Part of the time in which the device ran below its clock.
    pub(crate) throttled_share: Option<f64>,
    /// Part of the wall time without capture in which the device did nothing.
    pub(crate) plain_idle_share: Option<f64>,
    /// Part of W in which devices exchanged data and did nothing else.
    pub(crate) exposed_communication_share: Option<f64>,
    /// Part of B in which only copies and memsets ran.
    pub(crate) exposed_copy_share: Option<f64>,
    /// Part of B in kernels with fewer blocks than the device has multiprocessors.
    pub(crate) small_kernel_share: Option<f64>,
    /// Where nothing but the host was recorded, by a tool that does not know every operator: whether it calls a device.
    pub(crate) lone_host_uses_device: Option<bool>,
    /// Whether the trace ends before the program does what it shows.
    pub(crate) is_cut: bool,
    /// Whether the clocks of host and device disagree, so that nothing says what the device waited for.
    pub(crate) clocks_disagree: bool,
    /// Part of W in which the device did nothing and another one of the trace worked.
    pub(crate) busy_elsewhere_share: Option<f64>,
    /// The most experts that can have been read, where that is fewer than expected.
    pub(crate) experts_at_most: Option<f64>,
}

/// The rule that gave a class, or why none did.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub enum ClassReason {
    /// A share of the time reaches the one that decides.
    Share {
        /// Measure that decides.
        what: Measure,
        /// Its value, a share of the time.
        share: f64,
        /// Value from which on it decides.
        least_share: f64,
    },
    /// Causes on the host, which launch nothing, take this part of the phase.
    HostCauses {
        /// What removing them saves, a share of the phase.
        share: f64,
        /// Value from which on it decides.
        least_share: f64,
    },
    /// Kernels too small for the device take most of the busy time, and no limit that is known is near.
    SmallKernels {
        /// Its value, a share of the time.
        share: f64,
        /// Value from which on it decides.
        least_share: f64,
        /// What the limits explain of the busy time; absent where they are not known.
        limits: Option<Limits>,
    },
    /// Both limits are within this factor of each other.
    Balanced {
        /// Ratio within which both limits are.
        factor: f64,
    },
    /// The limit of the class explains this part of the busy time.
    AtLimit {
        /// Its value, a share of the time.
        share: f64,
    },
    /// Neither limit explains enough of the busy time.
    NoLimitNear {
        /// What the limits explain of the busy time.
        limits: Limits,
        /// What a limit would have to explain.
        least_share: f64,
        /// Whether the bytes of a step stay on the chip, whose bandwidth the device file does not state.
        is_cache_unknown: bool,
    },
    /// Memory is the larger limit by an upper bound of the experts that were read.
    ExpertsUnknown {
        /// At most.
        memory_share: f64,
    },
    /// The device idles for longer than would make the phase host-bound, but launch calls do not show that the host was late for as long.
    IdleUnexplained {
        /// Idle time ÷ wall time.
        idle_share: f64,
        /// In which the program waited for its DataLoader; of W too.
        #[serde(default)]
        loading_share: f64,
        /// In which launch calls show that the host was late; of W too.
        #[serde(default)]
        host_share: f64,
    },
    /// Only the host was recorded.
    HostAlone {
        /// Whether it calls a device, whose work is missing.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        uses_device: bool,
    },
    /// The file is cut, or launches have no kernels.
    Cut,
    /// The device idles for longer than would make the phase host-bound, but for too much of it work was queued.
    QueuedIdle {
        /// Idle time ÷ wall time.
        idle_share: f64,
        /// Of W too.
        queued_share: f64,
    },
    /// The device idles for longer than would make the phase host-bound, but for too much of it another device works.
    OtherDevices {
        /// Idle time ÷ wall time.
        idle_share: f64,
        /// Of W too.
        elsewhere_share: f64,
    },
    /// The device idles for longer than would make the phase host-bound, but the clocks of host and device disagree.
    ClocksDisagree {
        /// Idle time ÷ wall time.
        idle_share: f64,
    },
    /// Without a counted model and a device there is no limit to compare with.
    NoLimits,
    /// The phase took no time.
    NoTime,
    /// No phases were found, so the time includes the program's start and end.
    NoPhases,
}

/// Arithmetic and memory at their limits ÷ busy time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Limits {
    /// Arithmetic at its peak ÷ busy time.
    pub compute_share: f64,
    /// Minimum DRAM traffic at the bandwidth ÷ busy time.
    pub memory_share: f64,
}

/// The class of a phase with its reasons, or why it has none.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Classification {
    /// Absent where the data do not say.
    pub class: Option<PhaseClass>,
    /// The rule that decided, or why none did.
    pub why: ClassReason,
    /// The numbers that were looked at.
    pub evidence: Vec<Evidence>,
}

impl Classification {
    /// Whether there may well be a bottleneck that the data do not show; else both limits are known, and none is near.
    pub fn is_unknown(&self) -> bool {
        self.class.is_none() && !matches!(self.why, ClassReason::NoLimitNear { .. })
    }

    /// Makes a phase host-bound whose idle time launch calls do not explain, where causes on the host save `share` of it.
    pub(crate) fn explain_idle(&mut self, share: f64) {
        let least_share = HOST_BOUND_MIN_SHARE;
        if matches!(self.why, ClassReason::IdleUnexplained { .. }) && share >= least_share {
            self.class = Some(PhaseClass::HostBound);
            self.why = ClassReason::HostCauses { share, least_share };
        }
    }

    pub(crate) fn unknown(why: ClassReason) -> Self {
        abstain(why, Vec::new())
    }
}

fn given(class: PhaseClass, why: ClassReason, evidence: Vec<Evidence>) -> Classification {
    Classification {
        class: Some(class),
        why,
        evidence,
    }
}

fn abstain(why: ClassReason, evidence: Vec<Evidence>) -> Classification {
    Classification {
        class: None,
        why,
        evidence,
    }
}

/// Rules 5 to 8: which limit explains the busy time. `small` is the share of kernels that are too small, where it decides.
fn by_roofline(
    waterfall: &Waterfall,
    roofline: &PhaseRoofline,
    is_upper_bound: bool,
    small: Option<f64>,
    mut evidence: Vec<Evidence>,
) -> Classification {
    let busy = waterfall.busy_ns.seconds();
    let compute = roofline
        .tensor_ns
        .seconds()
        .max(roofline.vector_ns.seconds())
        / busy;
    let memory = roofline.memory_ns.seconds() / busy;
    let share = |what, value| Evidence::share(what, value, Basis::Derived);
    evidence.push(share(Measure::ComputeShare, compute));
    evidence.push(share(Measure::MemoryShare, memory));
    let on_chip = roofline.memory_level == MemoryLevel::OnChip;
    if compute.max(memory) < LIMIT_NEAR_MIN_SHARE {
        let limits = Limits {
            compute_share: compute,
            memory_share: memory,
        };
        if let Some(share) = small {
            let why = small_kernels(share, Some(limits));
            return given(PhaseClass::LatencyBound, why, evidence);
        }
        let why = ClassReason::NoLimitNear {
            limits,
            least_share: LIMIT_NEAR_MIN_SHARE,
            is_cache_unknown: on_chip && roofline.memory_ns.0 == 0,
        };
        return abstain(why, evidence);
    }
    if is_upper_bound && compute < LIMIT_NEAR_MIN_SHARE {
        let why = ClassReason::ExpertsUnknown {
            memory_share: memory,
        };
        return abstain(why, evidence);
    }
    let (larger, smaller) = (compute.max(memory), compute.min(memory));
    if larger <= smaller * BALANCED_MAX_RATIO {
        let why = ClassReason::Balanced {
            factor: BALANCED_MAX_RATIO,
        };
        return given(PhaseClass::Balanced, why, evidence);
    }
    let class = match (memory > compute, on_chip) {
        (true, true) => PhaseClass::L2Bound,
        (true, false) => PhaseClass::MemoryBound,
        (false, _) => PhaseClass::ComputeBound,
    };
    given(class, ClassReason::AtLimit { share: larger }, evidence)
}

fn small_kernels(share: f64, limits: Option<Limits>) -> ClassReason {
    ClassReason::SmallKernels {
        share,
        least_share: LATENCY_BOUND_MIN_SHARE,
        limits,
    }
}

pub(crate) fn classify(
    waterfall: &Waterfall,
    roofline: Option<&PhaseRoofline>,
    signals: &PhaseSignals,
) -> Classification {
    if waterfall.wall_ns.0 <= 0 {
        return Classification::unknown(ClassReason::NoTime);
    }
    let captured = waterfall.share(waterfall.idle_ns);
    let mut evidence = vec![Evidence::share(
        Measure::IdleShare,
        captured,
        Basis::Measured,
    )];
    if let Some(plain) = signals.plain_idle_share {
        let plain = Evidence::share(Measure::PlainIdleShare, plain, Basis::Derived);
        evidence.push(plain);
    }
    if signals.is_cut {
        return abstain(ClassReason::Cut, evidence);
    }
    let idle = signals.plain_idle_share.unwrap_or(captured);
    let queued = idle * waterfall.idle_part(&[NOT_STARTED]);
    let unexplained = idle * waterfall.idle_part(&[UNKNOWN, QUEUED_GAP]);
    let loading = idle * waterfall.idle_part(&[DATA_LOADING]);
    let rules: [(Option<f64>, f64, PhaseClass, Measure); 5] = [
        (
            signals.throttled_share,
            THROTTLED_MIN_SHARE,
            PhaseClass::Throttled,
            Measure::ThrottledShare,
        ),
        (
            signals.exposed_communication_share,
            COMMUNICATION_BOUND_MIN_SHARE,
            PhaseClass::CommunicationBound,
            Measure::ExposedCommunicationShare,
        ),
        (
            Some(loading).filter(|loading| *loading > 0.0 && idle >= HOST_BOUND_MIN_SHARE),
            idle / 2.0,
            PhaseClass::InputBound,
            Measure::DataLoadingShare,
        ),
        (
            Some(idle - queued - unexplained - loading),
            HOST_BOUND_MIN_SHARE,
            PhaseClass::HostBound,
            Measure::IdleShare,
        ),
        (
            signals.exposed_copy_share,
            COPY_BOUND_MIN_SHARE,
            PhaseClass::CopyBound,
            Measure::ExposedCopyShare,
        ),
    ];
    for (share, least_share, class, what) in rules {
        let Some(share) = share else { continue };
        if class == PhaseClass::HostBound && signals.lone_host_uses_device.is_some() {
            continue;
        }
        if class != PhaseClass::HostBound {
            evidence.push(Evidence::share(what, share, Basis::Measured));
        }
        if class == PhaseClass::HostBound && signals.clocks_disagree && idle >= least_share {
            return abstain(ClassReason::ClocksDisagree { idle_share: idle }, evidence);
        }
        let elsewhere = signals.busy_elsewhere_share.unwrap_or(0.0);
        let is_alone = class != PhaseClass::HostBound || share - elsewhere >= least_share;
        if share >= least_share && !is_alone {
            let why = ClassReason::OtherDevices {
                idle_share: idle,
                elsewhere_share: elsewhere,
            };
            return abstain(why, evidence);
        }
        if share >= least_share {
            let is_host = class == PhaseClass::HostBound;
            let why = ClassReason::Share {
                what,
                share: if is_host { idle } else { share },
                least_share,
            };
            return given(class, why, evidence);
        }
        if class == PhaseClass::HostBound && idle >= least_share {
            let why = if queued > unexplained + loading {
                ClassReason::QueuedIdle {
                    idle_share: idle,
                    queued_share: queued,
                }
            } else {
                ClassReason::IdleUnexplained {
                    idle_share: idle,
                    loading_share: loading,
                    host_share: share.max(0.0),
                }
            };
            return abstain(why, evidence);
        }
    }
    if let Some(share) = signals.small_kernel_share {
        let small = Evidence::share(Measure::SmallKernelShare, share, Basis::Measured);
        evidence.push(small);
    }
    let small = signals
        .small_kernel_share
        .filter(|share| *share >= LATENCY_BOUND_MIN_SHARE);
    // Kernels of a few blocks may stream weights at the memory's speed: without limits they give no class.
    let Some(roofline) = roofline else {
        let why = match signals.lone_host_uses_device {
            Some(uses_device) => ClassReason::HostAlone { uses_device },
            None => ClassReason::NoLimits,
        };
        return abstain(why, evidence);
    };
    let is_upper_bound = signals.experts_at_most.is_some();
    by_roofline(waterfall, roofline, is_upper_bound, small, evidence)
}

#[cfg(test)]
mod tests {
    use llmprof_theory::roofline::Resource;
    use llmprof_units::{Bytes, Flops, Nanos};

    use super::*;
    use crate::waterfall::NamedTime;

    fn phase(idle: i64) -> Waterfall {
        Waterfall {
            wall_ns: Nanos(1000),
            idle_ns: Nanos(idle),
            busy_ns: Nanos(1000 - idle),
            ..Waterfall::default()
        }
    }

    fn roofline(compute: i64, memory: i64, memory_level: MemoryLevel) -> PhaseRoofline {
        PhaseRoofline {
            roofline_ns: Nanos(compute.max(memory)),
            whole_ns: Nanos(compute.max(memory)),
            tensor_ns: Nanos(compute),
            vector_ns: Nanos(0),
            memory_ns: Nanos(memory),
            binds: Resource::Memory,
            memory_level,
            flops: Flops(1),
            min_dram_bytes: Bytes(1),
            intensity: None,
            ridge: None,
            vector_peaks_missing: Vec::new(),
        }
    }

    #[test]
    fn causes_on_the_host_explain_idle_time() {
        let class = |why: ClassReason, share: f64| {
            let mut found = Classification::unknown(why);
            found.explain_idle(share);
            found.class
        };
        let unexplained = || ClassReason::IdleUnexplained {
            idle_share: 0.8,
            loading_share: 0.0,
            host_share: 0.1,
        };
        assert_eq!(class(unexplained(), 0.6), Some(PhaseClass::HostBound));
        assert_eq!(class(unexplained(), 0.3), None);
        assert_eq!(class(ClassReason::Cut, 0.6), None);
    }

    #[test]
    fn each_class_has_its_rule() {
        use MemoryLevel::{Main, OnChip};
        let class = |idle, compute, memory, level| {
            classify(
                &phase(idle),
                Some(&roofline(compute, memory, level)),
                &PhaseSignals::default(),
            )
            .class
        };
        assert_eq!(class(840, 1, 2, Main), Some(PhaseClass::HostBound));
        assert_eq!(class(100, 100, 700, Main), Some(PhaseClass::MemoryBound));
        assert_eq!(class(100, 100, 700, OnChip), Some(PhaseClass::L2Bound));
        assert_eq!(class(100, 700, 100, Main), Some(PhaseClass::ComputeBound));
        assert_eq!(class(0, 700, 600, Main), Some(PhaseClass::Balanced));
        assert_eq!(class(100, 100, 200, Main), None);
    }

    #[test]
    fn idle_time_with_work_queued_does_not_make_a_phase_host_bound() {
        let queued = |queued: i64| {
            let mut phase = phase(600);
            phase.idle = vec![NamedTime {
                name: NOT_STARTED.to_owned(),
                time_ns: Nanos(queued),
                count: 1,
            }];
            classify(&phase, None, &PhaseSignals::default())
        };
        assert_eq!(queued(50).class, Some(PhaseClass::HostBound));
        let found = queued(300);
        assert_eq!(found.class, None);
        let ClassReason::QueuedIdle {
            idle_share,
            queued_share,
        } = found.why
        else {
            panic!("{:?}", found.why);
        };
        assert!((idle_share - 0.6).abs() < 1e-9 && (queued_share - 0.3).abs() < 1e-9);
    }

    #[test]
    fn a_phase_that_waits_for_its_loader_in_most_of_its_idle_time_is_input_bound() {
        let loading = |idle: i64, loading: i64| {
            let mut phase = phase(idle);
            phase.idle = vec![
                NamedTime {
                    name: DATA_LOADING.to_owned(),
                    time_ns: Nanos(loading),
                    count: 1,
                },
                NamedTime {
                    name: UNKNOWN.to_owned(),
                    time_ns: Nanos(idle - loading),
                    count: 1,
                },
            ];
            classify(&phase, None, &PhaseSignals::default())
        };
        assert_eq!(loading(530, 490).class, Some(PhaseClass::InputBound));
        assert_eq!(loading(390, 290).class, None);
        let mixed = loading(600, 200);
        assert_eq!(mixed.class, None);
        let ClassReason::IdleUnexplained { loading_share, .. } = mixed.why else {
            panic!("{:?}", mixed.why);
        };
        assert!((loading_share - 0.2).abs() < 1e-9);
    }

    /// The class of a phase without idle time whose bytes take `memory` of 1,000 ns.
    fn near(memory: i64, signals: PhaseSignals) -> Option<PhaseClass> {
        classify(
            &phase(0),
            Some(&roofline(0, memory, MemoryLevel::Main)),
            &signals,
        )
        .class
    }

    #[test]
    fn signals_come_first() {
        let class = |signals| near(900, signals);
        assert_eq!(
            class(PhaseSignals {
                throttled_share: Some(0.3),
                ..PhaseSignals::default()
            }),
            Some(PhaseClass::Throttled)
        );
        assert_eq!(
            class(PhaseSignals {
                exposed_communication_share: Some(0.6),
                ..PhaseSignals::default()
            }),
            Some(PhaseClass::CommunicationBound)
        );
        // What only capture makes idle does not count, and what capture hides does.
        let captured = |idle, plain| {
            let signals = PhaseSignals {
                plain_idle_share: Some(plain),
                ..PhaseSignals::default()
            };
            classify(
                &phase(idle),
                Some(&roofline(0, 300, MemoryLevel::Main)),
                &signals,
            )
            .class
        };
        assert_eq!(captured(600, 0.1), Some(PhaseClass::MemoryBound));
        assert_eq!(captured(600, 0.6), Some(PhaseClass::HostBound));
        // Copies come after idle time, and before what kernels do.
        let copies = |idle: i64, share| {
            let signals = PhaseSignals {
                exposed_copy_share: Some(share),
                ..PhaseSignals::default()
            };
            classify(&phase(idle), None, &signals).class
        };
        assert_eq!(copies(400, 0.8), Some(PhaseClass::CopyBound));
        assert_eq!(copies(600, 0.8), Some(PhaseClass::HostBound));
        assert_eq!(copies(400, 0.4), None);
        // Small kernels that stream at the memory's speed are not limited by their size.
        let small = PhaseSignals {
            small_kernel_share: Some(0.7),
            throttled_share: Some(0.0),
            ..PhaseSignals::default()
        };
        assert_eq!(near(200, small), Some(PhaseClass::LatencyBound));
        assert_eq!(near(900, small), Some(PhaseClass::MemoryBound));
        assert_eq!(classify(&phase(0), None, &small).why, ClassReason::NoLimits);
        // Bytes of experts that need not have been read give no class.
        let experts = PhaseSignals {
            experts_at_most: Some(60.0),
            ..PhaseSignals::default()
        };
        assert_eq!(near(900, experts), None);
        // Nor does idle time while another device works.
        let elsewhere = |share| PhaseSignals {
            busy_elsewhere_share: Some(share),
            ..PhaseSignals::default()
        };
        let idle = |share| classify(&phase(600), None, &elsewhere(share)).class;
        assert_eq!(idle(0.05), Some(PhaseClass::HostBound));
        assert_eq!(idle(0.5), None);
    }

    #[test]
    fn it_abstains_without_a_device_or_time() {
        let signals = PhaseSignals::default();
        let found = classify(&phase(100), None, &signals);
        assert_eq!(found.class, None);
        assert_eq!(found.why, ClassReason::NoLimits);
        assert_eq!(
            classify(&phase(600), None, &signals).class,
            Some(PhaseClass::HostBound)
        );
        assert_eq!(classify(&Waterfall::default(), None, &signals).class, None);
    }
}
