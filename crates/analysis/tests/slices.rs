//! What slices say of the whole, against a capture of the whole on the same machine.

use std::path::Path;

use llmprof_analysis::scaled;
use llmprof_record::import::{self, Limits, Profile};

/// A process of the same program, recorded whole minutes later: 160 decode steps of 1006 kernels, 2070.189 µs of kernels
/// a step.
const STEPS: f64 = 160.0;
const KERNELS_A_STEP: f64 = 1006.0;
const KERNEL_TIME_A_STEP_NS: f64 = 2_070_189.0;

#[test]
fn the_interval_of_slices_holds_what_a_whole_capture_gives() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/h200/cupti/slices.wire.gz");
    let (_, profile) = import::import(&path, &Limits::default()).unwrap();
    let Profile::Trace(trace) = profile else {
        panic!("a timeline");
    };
    let scaled = scaled(&trace).unwrap();
    assert_eq!(scaled.step.as_deref(), Some("decode_step"));
    assert_eq!((scaled.units, scaled.sampled), (160, 25));
    assert_eq!(scaled.kernels.value, STEPS * KERNELS_A_STEP);
    let whole = STEPS * KERNEL_TIME_A_STEP_NS;
    let found = scaled.kernel_time_ns;
    assert!(
        found.low <= whole && whole <= found.high,
        "{found:?} and {whole}"
    );
    // And it says something: the interval is narrower than one part in a hundred.
    assert!(found.high - found.low < 0.01 * found.value, "{found:?}");
    assert_eq!(scaled.by_kernel.len(), 20);
    let share = scaled.recorded_ns as f64 / scaled.whole_ns as f64;
    assert!((0.1..0.6).contains(&share), "{share}");
}
