//! Devices that throttled for heat or power while a phase ran.

use llmprof_units::{Basis, Nanos};

use crate::evidence::{Evidence, Measure};
use crate::findings::conclusion::Conclusion;
use crate::findings::finding::Finding;
use crate::telemetry::{GpuPhase, HostTelemetry, PhaseTelemetry};
use crate::thresholds::THROTTLED_NOTICED_MIN_SHARE;

/// A finding for every GPU that throttled in a phase. What a higher clock would give is not known, so there is no gain.
pub(crate) fn throttling_findings(telemetry: Option<&HostTelemetry>) -> Vec<Finding> {
    let phases = telemetry.iter().flat_map(|telemetry| &telemetry.phases);
    phases
        .flat_map(|phase| {
            phase
                .gpus
                .iter()
                .filter_map(move |gpu| throttling_finding(phase, gpu))
        })
        .collect()
}

fn throttling_finding(phase: &PhaseTelemetry, gpu: &GpuPhase) -> Option<Finding> {
    let share = gpu
        .throttled_share
        .filter(|share| *share >= THROTTLED_NOTICED_MIN_SHARE)?;
    let held = Nanos((phase.time_ns.0 as f64 * share).round() as i64);
    let mut evidence = vec![
        Evidence::share(Measure::ThrottledShare, share, Basis::Measured),
        Evidence::time(Measure::ThrottledTime, held, Basis::Derived),
    ];
    if let Some(power) = gpu.power_w {
        let power = Evidence::new(Measure::MeanPower, power, "W", Basis::Measured);
        evidence.push(power);
    }
    let conclusion = Conclusion::Throttled {
        gpu: gpu.index,
        share,
        reasons: gpu.throttle_reasons.clone(),
        clock_mhz: gpu.sm_clock_mhz,
    };
    Some(Finding {
        phase: Some(phase.phase),
        ..Finding::of_run(conclusion).with_evidence(evidence)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use llmprof_record::run::RunPhase;

    #[test]
    fn a_device_that_throttled_is_named() {
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
            throttling_findings(Some(&telemetry))
        };
        let findings = of(Some(0.5));
        let expected = Conclusion::Throttled {
            gpu: 1,
            share: 0.5,
            reasons: vec!["software_power_cap".to_owned()],
            clock_mhz: Some(1515.0),
        };
        assert_eq!(findings[0].conclusion, Some(expected));
        assert!(
            of(Some(0.01)).is_empty()
                && of(None).is_empty()
                && throttling_findings(None).is_empty()
        );
    }
}
