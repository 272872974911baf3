use std::{path::PathBuf, sync::Arc, thread::JoinHandle, time::Duration};

use llmprof_record::samples::Samples;
use llmprof_units::Nanos;

use super::{
    amd_smi,
    nvml::{self, GpuSamples, Gpus},
    pace::{self, Shared},
    sources::{Roots, Sources},
};
use crate::clock;

/// A thread of telemetry could not be started or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("telemetry needs a period above zero")]
    NoPeriod,
    /// The system refused a thread.
    #[error("cannot start the thread of telemetry: {0}")]
    Thread(std::io::Error),
    /// It panicked, which is a mistake of ours.
    #[error("the thread of telemetry panicked")]
    Panicked,
}

/// What is sampled, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Time from one sample to the next.
    pub period: Duration,
    pub gpus: Gpus,
    /// The library that knows them, in place of the system's.
    pub nvml_library: Option<PathBuf>,
    /// AMD's library, where it is not the system's.
    pub amd_library: Option<PathBuf>,
}

/// Reads the machine's counters at a fixed rate until it is stopped. The first sample is taken at the start and the
/// last one at the end, so that everything in between is covered.
///
/// GPUs are read by a thread of their own, since a driver may take milliseconds to answer and seconds to wake up.
#[derive(Debug)]
pub struct Sampler {
    shared: Arc<Shared>,
    host: Option<JoinHandle<Samples>>,
    gpus: Option<JoinHandle<GpuSamples>>,
}

impl Sampler {
    /// Starts sampling the host every `period`.
    pub fn start(period: Duration) -> Result<Self, TelemetryError> {
        Self::start_with(Settings {
            period,
            gpus: Gpus::None,
            nvml_library: None,
            amd_library: None,
        })
    }

    /// Starts sampling the host and GPUs.
    pub fn start_with(settings: Settings) -> Result<Self, TelemetryError> {
        let period = settings.period;
        if period.is_zero() {
            return Err(TelemetryError::NoPeriod);
        }
        let mut sampler = Self {
            shared: Arc::new(Shared::default()),
            host: None,
            gpus: None,
        };
        let shared = Arc::clone(&sampler.shared);
        sampler.host = Some(spawn_thread("telemetry", move || {
            sample_host(&shared, period)
        })?);
        if settings.gpus != Gpus::None {
            let shared = Arc::clone(&sampler.shared);
            sampler.gpus = Some(spawn_thread("telemetry-gpu", move || {
                let (gpus, amd) = (&settings.gpus, settings.amd_library.as_ref());
                let nvml = nvml::sample_gpus(&shared, period, gpus, settings.nvml_library.as_ref());
                // NVML answers at once where there is none of its GPUs.
                let other = nvml
                    .is_without_gpus()
                    .then(|| amd_smi::sample_gpus(&shared, period, gpus, amd));
                other.flatten().unwrap_or(nvml)
            })?);
        }
        Ok(sampler)
    }

    /// Watches this process and its descendants from now on, in place of any before.
    pub fn watch(&self, worker: u32) {
        self.shared.watch(worker);
    }

    /// Takes a last sample and returns all.
    pub fn stop(mut self) -> Result<Samples, TelemetryError> {
        self.shared.request_stop();
        let mut samples = join_thread(self.host.take())?.ok_or(TelemetryError::Panicked)?;
        if let Some(gpus) = join_thread(self.gpus.take())? {
            gpus.join_into(&mut samples);
        }
        Ok(samples)
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.shared.request_stop();
    }
}

fn spawn_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, TelemetryError> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(TelemetryError::Thread)
}

fn join_thread<T>(thread: Option<JoinHandle<T>>) -> Result<Option<T>, TelemetryError> {
    thread
        .map(JoinHandle::join)
        .transpose()
        .map_err(|_| TelemetryError::Panicked)
}

fn sample_host(shared: &Shared, period: Duration) -> Samples {
    let mut sources = Sources::open_sources(&Roots::default());
    let mut samples = Samples {
        period_ns: Nanos(i64::try_from(period.as_nanos()).unwrap_or(i64::MAX)),
        issues: sources.take_issues(),
        unix_offset_ns: clock::unix_offset(),
        ..Samples::default()
    };
    let missed = pace::keep_pace(shared, period, |worker| {
        samples.rows.push(sources.read_sample(worker));
    });
    samples.cost_ns = clock::thread_cpu_time();
    samples
        .issues
        .extend(pace::missed_samples("telemetry", missed));
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_sampled_from_start_to_stop() {
        let before = clock::now();
        let sampler = Sampler::start(Duration::from_millis(5)).unwrap();
        sampler.watch(std::process::id());
        // Work until two deadlines must have passed, however slow the machine is.
        let mut sum = 0u64;
        while clock::now().0 - before.0 < 20_000_000 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
        }
        let between = clock::now();
        let samples = sampler.stop().unwrap();
        let rows = &samples.rows;
        assert!(rows.len() >= 2, "{rows:?}");
        assert!(
            rows.windows(2)
                .all(|pair| pair[0].time_ns < pair[1].time_ns)
        );
        assert!(before <= rows[0].time_ns);
        let last = rows.last().unwrap();
        assert!(between <= last.time_ns && last.time_ns <= clock::now());
        assert!(last.worker_rss_bytes.is_some() && last.available_bytes.is_some());
        assert!(samples.cost_ns.0 > 0);
    }

    #[test]
    fn a_long_period_stops_at_once_and_none_is_refused() {
        let sampler = Sampler::start(Duration::from_secs(1 << 40)).unwrap();
        assert_eq!(sampler.stop().unwrap().rows.len(), 2);
        assert!(matches!(
            Sampler::start(Duration::ZERO),
            Err(TelemetryError::NoPeriod)
        ));
    }
}
