//! Samples all GPUs for a while: `nvml_watch SECONDS HZ [PID] > nvml.csv`. What follows from the samples goes to stderr.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example talks to its user"
)]

use std::{env, error::Error, thread, time::Duration};

use llmprof_capture::telemetry::{Gpus, Sampler, Settings, nvml};
use llmprof_record::samples::GpuEnergy;
use llmprof_units::Joules;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = env::args().skip(1);
    let seconds: f64 = words.next().ok_or("SECONDS are missing")?.parse()?;
    let hz: f64 = words.next().ok_or("HZ is missing")?.parse()?;
    let sampler = Sampler::start_with(Settings {
        period: Duration::from_secs_f64(1.0 / hz),
        gpus: Gpus::All,
        nvml_library: None,
        amd_library: None,
    })?;
    if let Some(pid) = words.next() {
        sampler.watch(pid.parse()?);
    }
    thread::sleep(Duration::from_secs_f64(seconds));
    let samples = sampler.stop()?;
    for issue in &samples.issues {
        eprintln!("{issue}");
    }
    if let Ok(facts) = nvml::gpu_facts(None) {
        eprintln!("{}", serde_json::to_string_pretty(&facts)?);
    }
    for gpu in &samples.gpus {
        let (Some(first), Some(last)) = (gpu.rows.first(), gpu.rows.last()) else {
            continue;
        };
        let (start, end) = (first.time_ns, last.time_ns);
        let power = gpu.mean_between(start, end, |row| Some(row.power_w?.0));
        let instant = gpu.mean_between(start, end, |row| Some(row.power_instant_w?.0));
        let mut without_counter = gpu.clone();
        for row in &mut without_counter.rows {
            row.energy_j = None;
        }
        let joules =
            |energy: Option<GpuEnergy>| energy.map_or(Joules(f64::NAN), |energy| energy.joules);
        eprintln!(
            "GPU {}: {} samples in {:.3} s; counter {}, integrated power {}; mean power {power:?} W, instant {instant:?} W; throttled {:?}; \
             processor time of sampling {}",
            gpu.index,
            gpu.rows.len(),
            (end - start).seconds(),
            joules(gpu.energy_between(start, end)),
            joules(without_counter.energy_between(start, end)),
            gpu.throttled_between(start, end),
            samples.cost_ns,
        );
    }
    print!("{}", samples.nvml_csv().unwrap_or_default());
    Ok(())
}
