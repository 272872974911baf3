//! Calibrating the peaks of the CPU at hand.

pub const STARTED: &str =
    "calibrating CPU peaks, once; it takes some seconds: keep the machine quiet";
pub const AGAIN: &str = "`llmprof hardware measure` calibrates again";
pub const AGAIN_QUIETLY: &str =
    "`llmprof hardware measure` calibrates again; keep the machine quiet";
pub const OUTDONE: &str = "this run was faster than the calibrated CPU peaks";

pub fn failed(why: &str) -> String {
    format!("cannot calibrate this CPU: {why}")
}

/// What became of a calibration beside other programs, which took `share` as much CPU time as it did.
pub fn disturbed(share: f64, is_kept: bool) -> String {
    let outcome = if is_kept {
        "the peaks are too low"
    } else {
        "the peaks of the calibration before are kept"
    };
    format!(
        "CPU peaks were calibrated {}: {outcome}",
        while_others_ran(share)
    )
}

/// What a reader of the device should know: that other programs ran meanwhile, that a run was faster since.
pub fn notes(disturbance: Option<f64>, is_outdone: bool) -> Vec<String> {
    let disturbed = disturbance.map(|share| {
        format!(
            "Calibrated {}: the peaks are too low.",
            while_others_ran(share)
        )
    });
    let outdone =
        is_outdone.then(|| "A run was faster than these peaks: they are too low.".to_owned());
    disturbed.into_iter().chain(outdone).collect()
}

fn while_others_ran(share: f64) -> String {
    format!(
        "while other programs took {:.0} % as much CPU time as the calibration",
        share * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disturbed_calibration_is_doubted() {
        assert_eq!(
            disturbed(0.48, true),
            "CPU peaks were calibrated while other programs took 48 % as much CPU time as the calibration: the peaks are too low"
        );
        assert!(disturbed(0.48, false).ends_with("before are kept"));
        assert_eq!(notes(Some(0.48), true).len(), 2);
        assert_eq!(notes(None, false), Vec::<String>::new());
    }
}
