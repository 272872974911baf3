//! Findings of a run that had to share its CPUs.

use crate::findings::finding::{Confidence, Finding};

/// Times of the host are longer where other programs, a quota or a hypervisor took CPUs: what could be saved of them is no more than
/// an upper bound, and of how much nothing says. A device works as long; what it waits for the host does not.
pub(crate) fn qualify(findings: &mut [Finding], on_device: bool) {
    for finding in findings {
        let is_of_host = !on_device || matches!(finding.code.as_str(), "idle" | "first_use");
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

#[cfg(test)]
mod tests {
    use llmprof_units::Nanos;

    use super::*;
    use crate::findings::conclusion::{Conclusion, Derivation};
    use crate::findings::finding::{Gain, GainOf};

    fn found() -> [Finding; 2] {
        let idle = Conclusion::Idle {
            share: 0.5,
            is_host_bound: true,
            on_device: true,
            first_use_share: None,
            queued_share: None,
            remedy: None,
        };
        let extra = Conclusion::Extra {
            share: 0.5,
            by_name: false,
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
        let mut findings = found();
        qualify(&mut findings, true);
        assert!(findings[0].is_contended && !findings[1].is_contended);
        assert_eq!(findings[0].confidence, Confidence::Low);
        assert!(findings[0].gain.as_ref().unwrap().is_bound);
        assert_eq!(findings[1].confidence, Confidence::High);
        let mut findings = found();
        qualify(&mut findings, false);
        assert!(findings.iter().all(|finding| finding.is_contended));
    }
}
