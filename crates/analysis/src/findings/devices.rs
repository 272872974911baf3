//! Findings of several devices. They run at once, and a run takes as long as its slowest device.

use llmprof_record::run::RunPhase;
use llmprof_units::{Bytes, Nanos};

use crate::findings::conclusion::Conclusion;
use crate::findings::finding::{Finding, GainOf};
use crate::phase_facts::CopyTime;

/// Joins findings that say the same of several devices: a change of the program changes all of them. The gain of the run is
/// that of its slowest device before and after.
///
/// `devices` are the devices with the seconds that each took in all.
pub(super) fn join_devices(
    findings: Vec<(Option<u32>, Finding)>,
    devices: &[(u32, f64)],
) -> Vec<Finding> {
    if devices.len() < 2 {
        return findings.into_iter().map(|(_, finding)| finding).collect();
    }
    let mut groups: Vec<(FindingKey, Vec<(u32, Finding)>)> = Vec::new();
    let mut joined = Vec::new();
    for (device, finding) in findings {
        let of_run = |finding: &Finding| {
            let gain = finding.gain.as_ref();
            gain.is_some_and(|gain| gain.of == GainOf::Run)
        };
        let Some(device) = device.filter(|_| of_run(&finding)) else {
            joined.push(finding);
            continue;
        };
        let key = FindingKey {
            code: finding.code.clone(),
            phase: finding.phase,
            name: base_name(&finding, device),
            // One device waits while another computes: their exposed communication is not one time.
            device: match finding.conclusion {
                Some(Conclusion::Communication { device, .. }) => device,
                _ => None,
            },
        };
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push((device, finding)),
            None => groups.push((key, vec![(device, finding)])),
        }
    }
    let slowest = devices.iter().map(|(_, time)| *time).fold(0.0, f64::max);
    for (key, group) in groups {
        let after = |device: u32, time: f64| {
            let changed = group.iter().find(|(known, _)| *known == device);
            let factor = changed.and_then(|(_, finding)| Some(finding.gain.as_ref()?.factor));
            time / factor.unwrap_or(1.0)
        };
        let left = devices.iter().map(|&(device, time)| after(device, time));
        let left = left.fold(0.0, f64::max);
        let count = group.len();
        let copies = copies_of(group.iter().map(|(_, finding)| finding));
        let times = |device: &u32| devices.iter().find(|(known, _)| known == device);
        let Some((device, mut finding)) = group.into_iter().max_by(|(a, _), (b, _)| {
            let time = |device: &u32| times(device).map_or(0.0, |(_, time)| *time);
            time(a).total_cmp(&time(b))
        }) else {
            continue;
        };
        if let Some(gain) = finding.gain.as_mut().filter(|_| left > 0.0) {
            gain.factor = slowest / left;
        }
        let of_devices = match count {
            1 => format!("device {device}"),
            2 if devices.len() == 2 => "both devices".to_owned(),
            _ if devices.len() == count => format!("all {count} devices"),
            _ => format!("{count} of {} devices", devices.len()),
        };
        if let (
            Some(Conclusion::Copies {
                longest, others, ..
            }),
            2..,
        ) = (&mut finding.conclusion, count)
        {
            let sum = |one: &CopyTime| copies.iter().find(|sum| sum.direction == one.direction);
            for one in longest.iter_mut().chain(others) {
                *one = sum(one).cloned().unwrap_or_else(|| one.clone());
            }
        }
        finding.label = Some(format!("{} ({of_devices})", key.name));
        joined.push(finding);
    }
    joined
}

/// The copies of several findings, summed by direction.
fn copies_of<'f>(findings: impl Iterator<Item = &'f Finding>) -> Vec<CopyTime> {
    let mut sums: Vec<CopyTime> = Vec::new();
    for finding in findings {
        let Some(Conclusion::Copies {
            longest, others, ..
        }) = &finding.conclusion
        else {
            continue;
        };
        for one in longest.iter().chain(others) {
            match sums.iter_mut().find(|sum| sum.direction == one.direction) {
                Some(sum) => {
                    sum.copies += one.copies;
                    sum.time_ns = Nanos(sum.time_ns.0.saturating_add(one.time_ns.0));
                    sum.bytes = Bytes(sum.bytes.0.saturating_add(one.bytes.0));
                    sum.pageable_ns = Nanos(sum.pageable_ns.0.saturating_add(one.pageable_ns.0));
                }
                None => sums.push(one.clone()),
            }
        }
    }
    sums
}

#[derive(PartialEq)]
struct FindingKey {
    code: String,
    phase: Option<RunPhase>,
    name: String,
    device: Option<u32>,
}

/// The name of the phase without its device.
fn base_name(finding: &Finding, device: u32) -> String {
    let name = finding.phase_name().unwrap_or_default();
    let suffix = format!(" (device {device})");
    name.strip_suffix(&suffix).unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::conclusion::Derivation;
    use crate::findings::finding::{Confidence, Gain};
    use crate::phase_facts::CopyDirection;

    fn finding(device: u32, factor: f64) -> (Option<u32>, Finding) {
        let gain = Gain {
            of: GainOf::Run,
            factor,
            phase_factor: Some(factor),
            saved_ns: None,
            derivation: Derivation::WithoutPart {
                wall_ns: Nanos(1),
                part_ns: Nanos(0),
            },
            is_bound: true,
        };
        let mut finding = Finding::of_run(Conclusion::Copies {
            share: 0.5,
            is_on_device: false,
            is_copy_bound: false,
            longest: None,
            others: Vec::new(),
        });
        finding.phase = Some(RunPhase::Decode);
        finding.label = Some(format!("decode (device {device})"));
        (Some(device), finding.with_gain(gain, Confidence::Low))
    }

    #[test]
    fn a_change_of_all_devices_is_one_finding() {
        let joined = join_devices(
            vec![finding(0, 2.0), finding(1, 1.25)],
            &[(0, 1.0), (1, 1.0)],
        );
        assert_eq!(joined.len(), 1);
        // Device 1 is left with 0.8 s of the 1 s that both took.
        assert_eq!(joined[0].gain.as_ref().unwrap().factor, 1.25);
        assert_eq!(joined[0].phase_name(), Some("decode (both devices)"));
        let of_three = [(0, 1.0), (1, 1.0), (2, 1.0)];
        let joined = join_devices(vec![finding(0, 2.0), finding(1, 1.25)], &of_three);
        assert_eq!(joined[0].phase_name(), Some("decode (2 of 3 devices)"));
    }

    #[test]
    fn copies_of_all_devices_are_counted() {
        let of_device = |device| {
            let (device, mut finding) = finding(device, 2.0);
            if let Some(Conclusion::Copies { longest, .. }) = &mut finding.conclusion {
                *longest = Some(CopyTime {
                    direction: CopyDirection::Other,
                    copies: 600,
                    time_ns: Nanos(76),
                    bytes: Bytes(5),
                    pageable_ns: Nanos(0),
                    limit: None,
                });
            }
            (device, finding)
        };
        let joined = join_devices(vec![of_device(0), of_device(1)], &[(0, 1.0), (1, 1.0)]);
        let Some(Conclusion::Copies {
            longest: Some(copies),
            ..
        }) = &joined[0].conclusion
        else {
            panic!("{joined:?}");
        };
        assert_eq!(
            (copies.copies, copies.time_ns, copies.bytes),
            (1200, Nanos(152), Bytes(10))
        );
    }

    #[test]
    fn one_device_does_not_make_the_run_faster_than_the_others() {
        let joined = join_devices(vec![finding(0, 100.0)], &[(0, 1.0), (1, 0.9)]);
        let factor = joined[0].gain.as_ref().unwrap().factor;
        assert!((factor - 1.0 / 0.9).abs() < 1e-12, "{factor}");
        assert_eq!(joined[0].phase_name(), Some("decode (device 0)"));
        let joined = join_devices(vec![finding(1, 100.0)], &[(0, 1.0), (1, 0.9)]);
        assert_eq!(joined[0].gain.as_ref().unwrap().factor, 1.0);
    }
}
