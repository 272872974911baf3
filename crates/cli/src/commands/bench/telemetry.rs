//! CPUs and GPUs of this machine beside a load.

use std::{net::ToSocketAddrs as _, time::Duration};

use llmprof_capture::telemetry::{Gpus, Sampler, Settings};
use llmprof_record::{
    issue::Issue,
    samples::{GpuSample, GpuSeries, Samples},
};
use llmprof_units::{Bytes, Joules, Nanos, Watts};
use serde::Serialize;

use super::request::Request;
use crate::args_bench::BenchArgs;

/// Ten samples a second: NVML's own utilization covers 1/6 s and more.
const PERIOD: Duration = Duration::from_millis(100);

/// A sampler while a load runs.
pub(super) struct Telemetry {
    sampler: Sampler,
    /// Whether GPUs were asked for by name: that there is none is news only then.
    is_asked_for: bool,
}

impl Telemetry {
    /// Nothing is sampled where the server is on another machine and no GPU of this one is named.
    pub(super) fn start(
        request: &Request,
        args: &BenchArgs,
        issues: &mut Vec<Issue>,
    ) -> Option<Self> {
        let is_here = args.serve.serve.is_some() || is_loopback(&request.endpoint.host);
        if args.no_telemetry || (args.gpus.is_none() && !is_here) {
            return None;
        }
        let settings = Settings {
            period: PERIOD,
            gpus: Gpus::requested(args.gpus.as_deref()),
            nvml_library: None,
            amd_library: None,
        };
        match Sampler::start_with(settings) {
            Ok(sampler) => Some(Self {
                sampler,
                is_asked_for: args.gpus.is_some(),
            }),
            Err(error) => {
                let issue = Issue::warning("bench.no_telemetry");
                issues.push(issue.with("why", error.to_string()));
                None
            }
        }
    }

    pub(super) fn stop(self, issues: &mut Vec<Issue>) -> Option<Samples> {
        match self.sampler.stop() {
            Ok(mut samples) => {
                let found = std::mem::take(&mut samples.issues);
                let is_news = |issue: &Issue| self.is_asked_for || issue.code != "telemetry.no_gpu";
                issues.extend(found.into_iter().filter(is_news));
                Some(samples)
            }
            Err(error) => {
                let issue = Issue::warning("bench.no_telemetry");
                issues.push(issue.with("why", error.to_string()));
                None
            }
        }
    }
}

/// Whether a server is on this machine by its address.
fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let found = (host, 0).to_socket_addrs();
    found.is_ok_and(|mut found| found.all(|address| address.ip().is_loopback()))
}

/// A GPU during a load.
#[derive(Debug, Serialize)]
pub(super) struct GpuOutcome {
    pub(super) index: u32,
    pub(super) name: String,
    /// Mean share of the time in which a kernel ran, by NVML.
    pub(super) utilization: Option<f64>,
    pub(super) mean_power_w: Option<Watts>,
    pub(super) memory_used_max_bytes: Option<Bytes>,
    pub(super) memory_total_bytes: Option<Bytes>,
    /// From the first sample of the load to the last.
    pub(super) energy_j: Option<Joules>,
}

impl GpuOutcome {
    pub(super) fn of(gpu: &GpuSeries) -> Self {
        let mean = |value: fn(&GpuSample) -> Option<f64>| {
            let values: Vec<f64> = gpu.rows.iter().filter_map(value).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let energy = || gpu.rows.iter().filter_map(|row| row.energy_j);
        Self {
            index: gpu.index,
            name: gpu.name.clone(),
            utilization: mean(|row| Some(row.gpu_percent? / 100.0)),
            mean_power_w: mean(|row| Some(power(row)?.0)).map(Watts),
            memory_used_max_bytes: gpu
                .rows
                .iter()
                .filter_map(|row| row.memory_used_bytes)
                .max(),
            memory_total_bytes: gpu.memory_total_bytes,
            energy_j: energy()
                .next()
                .zip(energy().next_back())
                .map(|(first, last)| Joules(last.0 - first.0)),
        }
    }
}

/// The power of the moment where it is reported.
pub(super) fn power(row: &GpuSample) -> Option<Watts> {
    row.power_instant_w.or(row.power_w)
}

/// A curve of a GPU on the clock of the load.
pub(super) fn curve(
    samples: &Samples,
    gpu: &GpuSeries,
    started_unix_ns: Nanos,
    value: impl Fn(&GpuSample) -> Option<f64>,
) -> Vec<(Nanos, f64)> {
    let zero = started_unix_ns - samples.unix_offset_ns;
    let rows = gpu.rows.iter();
    rows.filter_map(|row| Some((row.time_ns - zero, value(row)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn servers_of_this_machine_are_known_by_their_address() {
        assert!(is_loopback("127.0.0.1") && is_loopback("[::1]"));
        assert!(!is_loopback("192.0.2.7"));
    }
}
