//! Findings of a run that had to share its CPUs.

use crate::findings::conclusion::Conclusion;
use crate::findings::finding::{Confidence, Finding};

/// Times of the host are longer where other programs, a quota or a hypervisor took CPUs: gains of host time are upper bounds then.
/// Times of a device are not affected, but for its waits for the host.
pub(crate) fn qualify_host_times(findings: &mut [Finding], on_device: bool) {
    for finding in findings {
        let is_of_host = !on_device || finding.conclusion.as_ref().is_some_and(waits_for_host);
        if !is_of_host || finding.confidence == Confidence::Abstains {
            continue;
        }
        finding.is_contended = true;
        finding.confidence = Confidence::Low;
        if let Some(gain) = &mut finding.gain {
            gain.is_bound = true;
        }
    }
}

/// Whether a conclusion is about a device that waits for the host.
fn waits_for_host(conclusion: &Conclusion) -> bool {
    matches!(
        conclusion,
        Conclusion::Idle { .. }
            | Conclusion::HostGaps { .. }
            | Conclusion::FirstPass { .. }
            | Conclusion::FirstRange { .. }
            | Conclusion::KvLengths { .. }
    )
}

#[cfg(test)]
mod tests {
    use llmprof_units::Nanos;

    use super::*;
    use crate::findings::conclusion::Derivation;
    use crate::findings::finding::{Gain, GainOf};

    fn host_and_device_findings() -> [Finding; 2] {
        let idle = Conclusion::Idle {
            share: 0.5,
            is_host_bound: true,
            on_device: true,
            first_use_share: None,
            queued_share: None,
            remedy: None,
            host_work: None,
        };
        let extra = Conclusion::Extra {
            share: 0.5,
            by_name: false,
            on_device: true,
            views_share: None,
        };
        [idle, extra].map(|conclusion| {
            let gain = Gain {
                of: GainOf::Run,
                factor: 2.0,
                phase_factor: None,
                saved_ns: None,
                derivation: Derivation::WithoutPart {
                    wall_ns: Nanos(2),
                    part_ns: Nanos(1),
                },
                is_bound: false,
            };
            Finding::of_run(conclusion).with_gain(gain, Confidence::High)
        })
    }

    #[test]
    fn what_a_device_does_is_not_in_doubt() {
        let mut findings = host_and_device_findings();
        qualify_host_times(&mut findings, true);
        assert!(findings[0].is_contended && !findings[1].is_contended);
        assert_eq!(findings[0].confidence, Confidence::Low);
        assert!(findings[0].gain.as_ref().unwrap().is_bound);
        assert_eq!(findings[1].confidence, Confidence::High);
        let mut findings = host_and_device_findings();
        qualify_host_times(&mut findings, false);
        assert!(findings.iter().all(|finding| finding.is_contended));
    }
}
