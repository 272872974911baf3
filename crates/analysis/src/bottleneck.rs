//! What holds a phase back.
//!
//! The rules, the first that applies. W is the phase, B its busy time.
//!
//! 1. **throttled**: the device ran below its clock for at least [`THROTTLED`] of the time.
//! 2. **communication-bound**: exchange between devices that nothing hides takes at least [`COMMUNICATION`] of W.
//! 3. **host-bound**: the device waits for at least [`HOST`] of W; of the wall time without capture where that is known, since
//!    watching slows the host down and not the device.
//! 4. Compute time is the phase's arithmetic at its peaks, memory time its minimum DRAM traffic at the bandwidth of the level
//!    that holds them. Where the larger is less than [`NEAR`] of B, no limit is near: **latency-bound** where kernels that are
//!    too small for the device (grid or occupancy) take at least [`LATENCY`] of B, no class otherwise. A small grid alone is no
//!    fault: a few blocks can stream weights at the memory's speed.
//! 5. **balanced**: the two are within [`BALANCED`] of each other.
//! 6. **memory-bound**, or **L2-bound** where the bytes stay on the chip: memory time is larger.
//! 7. **compute-bound**: compute time is larger.

use llmprof_theory::roofline::{MemoryLevel, PhaseRoofline};
use llmprof_units::{Basis, Percent};
use serde::{Deserialize, Serialize};

use crate::evidence::Evidence;
use crate::waterfall::Waterfall;

/// Part of the time below its clock from which on a device is throttled.
pub const THROTTLED: f64 = 0.2;
/// Part of W from which on a phase is communication-bound.
pub(crate) const COMMUNICATION: f64 = 0.5;
/// Part of W from which on a phase is host-bound.
pub(crate) const HOST: f64 = 0.5;
/// Part of B from which on a phase is latency-bound.
pub(crate) const LATENCY: f64 = 0.5;
/// Part of B that a limit must explain.
pub(crate) const NEAR: f64 = 0.4;
/// Ratio of compute and memory time up to which a phase is balanced.
pub(crate) const BALANCED: f64 = 1.25;

/// What holds a phase back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseClass {
    /// The device waits for the host; on a CPU run, for the engine's own work.
    HostBound,
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
    /// Heat or power.
    Throttled,
    /// Arithmetic and memory alike.
    Balanced,
}

impl std::fmt::Display for PhaseClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::HostBound => "host-bound",
            Self::MemoryBound => "memory-bound",
            Self::ComputeBound => "compute-bound",
            Self::L2Bound => "L2-bound",
            Self::LatencyBound => "latency-bound",
            Self::CommunicationBound => "communication-bound",
            Self::Throttled => "throttled",
            Self::Balanced => "balanced",
        })
    }
}

/// What is known about a phase beside its waterfall. Absent is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(clippy::struct_field_names, reason = "each is a share of another time")]
pub(crate) struct PhaseSignals {
    /// Part of the time in which the device ran below its clock.
    pub(crate) throttled_share: Option<f64>,
    /// Part of the wall time without capture in which the device did nothing.
    pub(crate) plain_idle_share: Option<f64>,
    /// Part of W in which devices exchanged data and did nothing else.
    pub(crate) exposed_communication_share: Option<f64>,
    /// Part of B in kernels with fewer blocks than the device has multiprocessors.
    pub(crate) small_kernel_share: Option<f64>,
}

/// The class of a phase with its reasons, or why it has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Classification {
    /// The class; absent where the data do not say.
    pub class: Option<PhaseClass>,
    /// The rule that gave the class, or why none did.
    pub why: String,
    /// The numbers that were looked at.
    pub evidence: Vec<Evidence>,
}

impl Classification {
    /// None, and why.
    pub(crate) fn unknown(why: &str) -> Self {
        Self {
            class: None,
            why: why.to_owned(),
            evidence: Vec::new(),
        }
    }
}

fn given(class: PhaseClass, why: String, evidence: Vec<Evidence>) -> Classification {
    Classification {
        class: Some(class),
        why,
        evidence,
    }
}

fn abstain(why: String, evidence: Vec<Evidence>) -> Classification {
    Classification {
        class: None,
        why,
        evidence,
    }
}

/// Rules 4 to 7: which limit explains the busy time. `latency` says that kernels are too small for the device, where they are.
fn by_roofline(
    waterfall: &Waterfall,
    roofline: &PhaseRoofline,
    latency: Option<String>,
    mut evidence: Vec<Evidence>,
) -> Classification {
    let busy = waterfall.busy_ns.seconds();
    let compute = roofline
        .tensor_ns
        .seconds()
        .max(roofline.vector_ns.seconds())
        / busy;
    let memory = roofline.memory_ns.seconds() / busy;
    evidence.push(Evidence::share(
        "compute limit ÷ busy time",
        compute,
        Basis::Derived,
    ));
    evidence.push(Evidence::share(
        "memory limit ÷ busy time",
        memory,
        Basis::Derived,
    ));
    let on_chip = roofline.memory_level == MemoryLevel::OnChip;
    if compute.max(memory) < NEAR {
        let limits = format!(
            "no limit is near: arithmetic explains {} and memory {} of the busy time",
            Percent(compute),
            Percent(memory)
        );
        if let Some(small) = latency {
            let why = format!("{limits}; {small}");
            return given(PhaseClass::LatencyBound, why, evidence);
        }
        let unknown = if on_chip && roofline.memory_ns.0 == 0 {
            "; the bytes of a step stay on the chip and the device file states no bandwidth for its caches"
        } else {
            ""
        };
        return abstain(format!("{limits}{unknown}"), evidence);
    }
    let (larger, smaller) = (compute.max(memory), compute.min(memory));
    if larger <= smaller * BALANCED {
        let why = format!("compute and memory limits are within a factor of {BALANCED}");
        return given(PhaseClass::Balanced, why, evidence);
    }
    let (class, what) = match (memory > compute, on_chip) {
        (true, true) => (PhaseClass::L2Bound, "on-chip memory"),
        (true, false) => (PhaseClass::MemoryBound, "memory"),
        (false, _) => (PhaseClass::ComputeBound, "arithmetic"),
    };
    let why = format!(
        "{what} at its limit explains {} of the busy time",
        Percent(larger)
    );
    given(class, why, evidence)
}

/// Classifies a phase.
pub(crate) fn classify(
    waterfall: &Waterfall,
    roofline: Option<&PhaseRoofline>,
    signals: &PhaseSignals,
) -> Classification {
    let captured = waterfall.share(waterfall.idle_ns);
    let mut evidence = vec![Evidence::share(
        "idle share of wall time",
        captured,
        Basis::Measured,
    )];
    if let Some(plain) = signals.plain_idle_share {
        evidence.push(Evidence::share(
            "idle share of wall time without capture",
            plain,
            Basis::Derived,
        ));
    }
    let idle = signals.plain_idle_share.unwrap_or(captured);
    if waterfall.wall_ns.0 <= 0 {
        return abstain("the phase took no time".to_owned(), Vec::new());
    }
    let told: [(Option<f64>, f64, PhaseClass, &str); 3] = [
        (
            signals.throttled_share,
            THROTTLED,
            PhaseClass::Throttled,
            "time below the device's clock",
        ),
        (
            signals.exposed_communication_share,
            COMMUNICATION,
            PhaseClass::CommunicationBound,
            "exposed communication",
        ),
        (Some(idle), HOST, PhaseClass::HostBound, "idle time"),
    ];
    for (share, least, class, what) in told {
        let Some(share) = share else { continue };
        if class != PhaseClass::HostBound {
            evidence.push(Evidence::share(what, share, Basis::Measured));
        }
        if share >= least {
            let why = format!(
                "{what} is {} (from {} on it decides)",
                Percent(share),
                Percent(least)
            );
            return given(class, why, evidence);
        }
    }
    let small = "busy time in kernels with fewer blocks than the device has multiprocessors";
    if let Some(share) = signals.small_kernel_share {
        evidence.push(Evidence::share(small, share, Basis::Measured));
    }
    let latency = signals.small_kernel_share.filter(|share| *share >= LATENCY);
    let latency = latency.map(|share| {
        format!(
            "the {small} is {} (from {} on it decides)",
            Percent(share),
            Percent(LATENCY)
        )
    });
    let Some(roofline) = roofline else {
        if let Some(why) = latency {
            return given(PhaseClass::LatencyBound, why, evidence);
        }
        return abstain(
            "without a counted model and a device there is no limit to compare with; idle time alone does not explain the phase".to_owned(),
            evidence,
        );
    };
    by_roofline(waterfall, roofline, latency, evidence)
}

#[cfg(test)]
mod tests {
    use llmprof_theory::roofline::Resource;
    use llmprof_units::{Bytes, Flops, Nanos};

    use super::*;

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
        // What only watching makes idle does not count, and what watching hides does.
        let watched = |captured, plain| {
            let signals = PhaseSignals {
                plain_idle_share: Some(plain),
                ..PhaseSignals::default()
            };
            classify(
                &phase(captured),
                Some(&roofline(0, 300, MemoryLevel::Main)),
                &signals,
            )
            .class
        };
        assert_eq!(watched(600, 0.1), Some(PhaseClass::MemoryBound));
        assert_eq!(watched(600, 0.6), Some(PhaseClass::HostBound));
        // Small kernels that stream at the memory's speed are not held back by their size.
        let small = PhaseSignals {
            small_kernel_share: Some(0.7),
            throttled_share: Some(0.0),
            ..PhaseSignals::default()
        };
        assert_eq!(near(200, small), Some(PhaseClass::LatencyBound));
        assert_eq!(near(900, small), Some(PhaseClass::MemoryBound));
    }

    #[test]
    fn it_abstains_without_a_device_or_time() {
        let signals = PhaseSignals::default();
        let found = classify(&phase(100), None, &signals);
        assert_eq!(found.class, None);
        assert!(found.why.contains("device"), "{}", found.why);
        assert_eq!(
            classify(&phase(600), None, &signals).class,
            Some(PhaseClass::HostBound)
        );
        assert_eq!(classify(&Waterfall::default(), None, &signals).class, None);
    }
}
