//! Why a GPU's clocks are below their highest.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One reason, as NVML knows them (`nvmlClocksEventReasons`, `nvmlClocksThrottleReasons` before).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThrottleReason {
    GpuIdle,
    /// A user or program set application clocks.
    ApplicationClocks,
    /// The power limit: software lowers the clocks.
    SoftwarePowerCap,
    /// The hardware lowers the clocks by half or more, for heat, power or an external signal.
    HardwareSlowdown,
    /// Another GPU of its synchronized group is slower.
    SyncBoost,
    /// Too hot, for the chip or its memory: software lowers the clocks.
    SoftwareThermal,
    /// Too hot: the hardware lowers the clocks by half or more.
    HardwareThermal,
    /// The power supply asks the hardware to slow down.
    HardwarePowerBrake,
    /// The clocks of a display.
    DisplayClocks,
}

impl ThrottleReason {
    /// All of them, by their bits in NVML's mask.
    const BITS: [(u64, Self); 9] = [
        (0x001, Self::GpuIdle),
        (0x002, Self::ApplicationClocks),
        (0x004, Self::SoftwarePowerCap),
        (0x008, Self::HardwareSlowdown),
        (0x010, Self::SyncBoost),
        (0x020, Self::SoftwareThermal),
        (0x040, Self::HardwareThermal),
        (0x080, Self::HardwarePowerBrake),
        (0x100, Self::DisplayClocks),
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::GpuIdle => "gpu_idle",
            Self::ApplicationClocks => "application_clocks",
            Self::SoftwarePowerCap => "software_power_cap",
            Self::HardwareSlowdown => "hardware_slowdown",
            Self::SyncBoost => "sync_boost",
            Self::SoftwareThermal => "software_thermal",
            Self::HardwareThermal => "hardware_thermal",
            Self::HardwarePowerBrake => "hardware_power_brake",
            Self::DisplayClocks => "display_clocks",
        }
    }

    /// Whether it holds back a GPU that has work, for heat or power. Idle GPUs lower their clocks by themselves, and the
    /// clocks that somebody set are no surprise.
    pub(crate) fn is_throttling(self) -> bool {
        matches!(
            self,
            Self::SoftwarePowerCap
                | Self::HardwareSlowdown
                | Self::SoftwareThermal
                | Self::HardwareThermal
                | Self::HardwarePowerBrake
        )
    }
}

impl fmt::Display for ThrottleReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// All reasons at one moment: NVML's mask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(transparent)]
pub struct ThrottleReasons(pub u64);

impl ThrottleReasons {
    /// The reasons that have a name.
    pub fn iter(self) -> impl Iterator<Item = ThrottleReason> {
        ThrottleReason::BITS
            .into_iter()
            .filter(move |(bit, _)| self.0 & bit != 0)
            .map(|(_, reason)| reason)
    }

    /// Reads what [`Display`](fmt::Display) writes; `None` where a name is not known.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let names = text
            .split('|')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        names
            .map(|name| {
                let mut known = ThrottleReason::BITS.into_iter();
                known.find_map(|(bit, reason)| (reason.name() == name).then_some(bit))
            })
            .try_fold(0, |all, bit| Some(all | bit?))
            .map(Self)
    }

    /// Whether any of them holds back a GPU that has work.
    pub(crate) fn is_throttling(self) -> bool {
        self.iter().any(ThrottleReason::is_throttling)
    }
}

impl fmt::Display for ThrottleReasons {
    /// Names joined by `|`; nothing where clocks are as high as they go.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(ThrottleReason::name).collect();
        f.pad(&names.join("|"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_chosen_clocks_are_no_throttling() {
        assert!(!ThrottleReasons(0x1 | 0x2 | 0x10 | 0x100).is_throttling());
        assert!(ThrottleReasons(0x1 | 0x4).is_throttling());
        assert_eq!(
            ThrottleReasons(0x44).to_string(),
            "software_power_cap|hardware_thermal"
        );
        assert_eq!(ThrottleReasons(0).to_string(), "");
        let parsed = ThrottleReasons::parse("software_power_cap|hardware_thermal");
        assert_eq!(parsed, Some(ThrottleReasons(0x44)));
        assert_eq!(ThrottleReasons::parse("sunshine"), None);
        // A bit that no version of NVML has named yet.
        assert_eq!(ThrottleReasons(1 << 40).to_string(), "");
        let json = serde_json::to_string(&ThrottleReason::SoftwarePowerCap).unwrap();
        assert_eq!(json, format!("\"{}\"", ThrottleReason::SoftwarePowerCap));
    }
}
