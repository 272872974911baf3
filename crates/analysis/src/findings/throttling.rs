//! Devices that were held back for heat or power while a phase ran.

use llmprof_units::{Basis, Nanos, Percent, significant};

use crate::evidence::Evidence;
use crate::findings::finding::{Confidence, Finding};
use crate::telemetry::{GpuPhase, HostTelemetry, PhaseTelemetry};

/// Part of a phase from which on it is worth saying.
const WORTH_SAYING: f64 = 0.05;

/// A finding for every GPU that was held back in a phase. What a higher clock would give is not known, so there is no gain.
pub(crate) fn findings(telemetry: Option<&HostTelemetry>) -> Vec<Finding> {
    let phases = telemetry.iter().flat_map(|telemetry| &telemetry.phases);
    phases
        .flat_map(|phase| phase.gpus.iter().filter_map(move |gpu| finding(phase, gpu)))
        .collect()
}

fn finding(phase: &PhaseTelemetry, gpu: &GpuPhase) -> Option<Finding> {
    let share = gpu.throttled_share.filter(|share| *share >= WORTH_SAYING)?;
    let why = match gpu.throttle_reasons.as_slice() {
        [] => String::new(),
        reasons => format!(" ({})", reasons.join(", ").replace('_', " ")),
    };
    let clock = gpu
        .sm_clock_mhz
        .map(|clock| format!(", at {} MHz on average", significant(clock)))
        .unwrap_or_default();
    let held = Nanos((phase.time_ns.0 as f64 * share).round() as i64);
    let mut evidence = vec![
        Evidence::share("part of the time held back", share, Basis::Measured),
        Evidence::time("time held back", held, Basis::Derived),
    ];
    if let Some(power) = gpu.power_w {
        evidence.push(Evidence {
            what: "mean power".to_owned(),
            value: power,
            unit: "W".to_owned(),
            basis: Basis::Measured,
        });
    }
    Some(Finding {
        code: "throttled".to_owned(),
        phase: Some(phase.phase),
        title: format!(
            "{}: GPU {} ran below its clock for {} of the time{why}{clock}; more power or cooling would raise it",
            phase.phase,
            gpu.index,
            Percent(share)
        ),
        evidence,
        gain: None,
        confidence: Confidence::High,
        abstains: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use llmprof_record::run::RunPhase;

    #[test]
    fn a_device_that_was_held_back_is_named() {
        let phase = |share| PhaseTelemetry {
            phase: RunPhase::Prefill,
            time_ns: Nanos(2_000_000_000),
            tokens: 1,
            cpu_percent: None,
            worker_cores: None,
            frequency_hz: None,
            energy: None,
            gpus: vec![GpuPhase {
                index: 1,
                throttled_share: share,
                throttle_reasons: vec!["software_power_cap".to_owned()],
                sm_clock_mhz: Some(1515.0),
                ..GpuPhase::default()
            }],
        };
        let of = |share| {
            let telemetry = HostTelemetry {
                phases: vec![phase(share)],
                ..HostTelemetry::default()
            };
            findings(Some(&telemetry))
        };
        let found = of(Some(0.5));
        assert_eq!(
            found[0].title,
            "prefill: GPU 1 ran below its clock for 50.0 % of the time (software power cap), at 1515 MHz on average; more power or \
             cooling would raise it"
        );
        assert!(of(Some(0.01)).is_empty() && of(None).is_empty() && findings(None).is_empty());
    }
}
