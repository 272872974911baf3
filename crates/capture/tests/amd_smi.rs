//! Telemetry of AMD GPUs without one: a stand-in for the vendor's library, compiled here.

use std::{process::Command, time::Duration};

use llmprof_capture::telemetry::{Gpus, Sampler, Settings};
use llmprof_units::{Basis, Bytes};

#[test]
fn the_stand_ins_numbers_are_sampled() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let library = folder.path().join("libamd_smi.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/amd_smi/stand_in.c");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-w", "-o"])
        .args([library.as_os_str(), source.as_ref()])
        .status()
        .expect("a C compiler builds the stand-in");
    assert!(built.success());
    let sampler = Sampler::start_with(Settings {
        period: Duration::from_millis(10),
        gpus: Gpus::All,
        nvml_library: Some("/nonexistent/libnvidia-ml.so.1".into()),
        amd_library: Some(library),
    })
    .expect("sampling starts");
    std::thread::sleep(Duration::from_millis(400));
    let samples = sampler.stop().expect("sampling stops");
    let [first, second] = &samples.gpus[..] else {
        panic!("two GPUs, not {}", samples.gpus.len());
    };
    assert_eq!(
        (first.index, first.name.as_str()),
        (0, "AMD Instinct MI300X")
    );
    assert_eq!(first.memory_total_bytes, Some(Bytes(192 << 30)));
    let row = first.rows.last().expect("a sample");
    assert_eq!(
        (row.gpu_percent, row.memory_percent),
        (Some(75.0), Some(20.0))
    );
    assert_eq!(row.sm_clock_hz.map(|hz| hz.0), Some(2.1e9));
    assert_eq!(row.memory_clock_hz.map(|hz| hz.0), Some(1.3e9));
    assert_eq!(
        (row.temperature_c, row.memory_temperature_c),
        (Some(61.0), Some(55.0))
    );
    assert_eq!(row.memory_used_bytes, Some(Bytes(3 << 30)));
    // 500 W: by the counter over the whole time.
    let (start, end) = (first.rows[0].time_ns, row.time_ns);
    let energy = first.energy_between(start, end).expect("energy");
    let watts = energy.joules.0 / (end - start).seconds();
    assert_eq!(energy.basis, Basis::Measured);
    assert!((watts - 500.0).abs() < 25.0, "{watts} W");
    // What a GPU does not tell is absent.
    let silent = second.rows.last().expect("a sample");
    assert_eq!((silent.gpu_percent, silent.temperature_c), (None, None));
    let codes: Vec<&str> = samples
        .issues
        .iter()
        .map(|issue| issue.code.as_str())
        .collect();
    assert!(codes.contains(&"telemetry.amd_not_run"), "{codes:?}");
    assert!(!codes.contains(&"telemetry.no_gpu"), "{codes:?}");
}
