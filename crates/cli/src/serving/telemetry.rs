//! CPUs and GPUs of this machine beside a load.

use std::{net::ToSocketAddrs as _, time::Duration};

use llmprof_capture::telemetry::{Gpus, Sampler, Settings};
use llmprof_record::{
    issue::{Issue, IssueCode},
    samples::Samples,
};

use super::request::BenchRequest;

/// NVML averages utilization over at least 1/6 s (`nvmlUtilization_t`): ten samples a second miss none of these windows.
const PERIOD: Duration = Duration::from_millis(100);

/// A sampler while a load runs.
pub(super) struct Telemetry {
    sampler: Sampler,
    /// Whether GPUs were asked for by name: that there is none is news only then.
    is_asked_for: bool,
}

impl Telemetry {
    /// Nothing is sampled where the server is on another machine and no GPU of this one is named.
    pub(super) fn start(request: &BenchRequest, issues: &mut Vec<Issue>) -> Option<Self> {
        let gpus = request.telemetry.as_ref()?.gpus.as_deref();
        let is_here = request.serve.serve.is_some() || is_loopback(&request.load.endpoint.host);
        if gpus.is_none() && !is_here {
            return None;
        }
        let settings = Settings {
            period: PERIOD,
            gpus: Gpus::requested(gpus),
            nvml_library: None,
            amd_library: None,
        };
        match Sampler::start_with(settings) {
            Ok(sampler) => Some(Self {
                sampler,
                is_asked_for: gpus.is_some(),
            }),
            Err(error) => {
                let issue = Issue::warning(IssueCode::BenchNoTelemetry);
                issues.push(issue.with("why", error.to_string()));
                None
            }
        }
    }

    pub(super) fn stop(self, issues: &mut Vec<Issue>) -> Option<Samples> {
        match self.sampler.stop() {
            Ok(mut samples) => {
                let reported = std::mem::take(&mut samples.issues);
                let is_news =
                    |issue: &Issue| self.is_asked_for || issue.code != IssueCode::TelemetryNoGpu;
                issues.extend(reported.into_iter().filter(is_news));
                Some(samples)
            }
            Err(error) => {
                let issue = Issue::warning(IssueCode::BenchNoTelemetry);
                issues.push(issue.with("why", error.to_string()));
                None
            }
        }
    }
}

/// Whether a server is on this machine by its address.
fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let addresses = (host, 0).to_socket_addrs();
    addresses.is_ok_and(|mut addresses| addresses.all(|address| address.ip().is_loopback()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_this_machine_are_known_by_their_address() {
        assert!(is_loopback("127.0.0.1") && is_loopback("[::1]"));
        assert!(!is_loopback("192.0.2.7"));
    }
}
