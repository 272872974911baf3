//! Findings of several devices. They run at once, and a run takes as long as its slowest device.

use llmprof_record::run::RunPhase;

use crate::findings::finding::{Finding, GainOf};

/// Joins findings that say the same of several devices: a change of the program changes all of them. The gain of the run is
/// that of its slowest device before and after.
///
/// `devices` are the devices with the seconds that each took in all.
pub(super) fn across(found: Vec<(Option<u32>, Finding)>, devices: &[(u32, f64)]) -> Vec<Finding> {
    if devices.len() < 2 {
        return found.into_iter().map(|(_, finding)| finding).collect();
    }
    let mut groups: Vec<(Key, Vec<(u32, Finding)>)> = Vec::new();
    let mut joined = Vec::new();
    for (device, finding) in found {
        let of_run = |finding: &Finding| {
            let gain = finding.gain.as_ref();
            gain.is_some_and(|gain| gain.of == GainOf::Run)
        };
        let Some(device) = device.filter(|_| of_run(&finding)) else {
            joined.push(finding);
            continue;
        };
        let key = Key {
            code: finding.code.clone(),
            phase: finding.phase,
            name: base_name(&finding, device),
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
        finding.label = Some(format!("{} ({of_devices})", key.name));
        joined.push(finding);
    }
    joined
}

#[derive(PartialEq)]
struct Key {
    code: String,
    phase: Option<RunPhase>,
    name: String,
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
    use crate::findings::conclusion::{Conclusion, Derivation};
    use crate::findings::finding::{Confidence, Gain};
    use llmprof_units::Nanos;

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
        let joined = across(
            vec![finding(0, 2.0), finding(1, 1.25)],
            &[(0, 1.0), (1, 1.0)],
        );
        assert_eq!(joined.len(), 1);
        // Device 1 is left with 0.8 s of the 1 s that both took.
        assert_eq!(joined[0].gain.as_ref().unwrap().factor, 1.25);
        assert_eq!(joined[0].phase_name(), Some("decode (both devices)"));
        let of_three = [(0, 1.0), (1, 1.0), (2, 1.0)];
        let joined = across(vec![finding(0, 2.0), finding(1, 1.25)], &of_three);
        assert_eq!(joined[0].phase_name(), Some("decode (2 of 3 devices)"));
    }

    #[test]
    fn one_device_does_not_make_the_run_faster_than_the_others() {
        let joined = across(vec![finding(0, 100.0)], &[(0, 1.0), (1, 0.9)]);
        let factor = joined[0].gain.as_ref().unwrap().factor;
        assert!((factor - 1.0 / 0.9).abs() < 1e-12, "{factor}");
        assert_eq!(joined[0].phase_name(), Some("decode (device 0)"));
        let joined = across(vec![finding(1, 100.0)], &[(0, 1.0), (1, 0.9)]);
        assert_eq!(joined[0].gain.as_ref().unwrap().factor, 1.0);
    }
}
