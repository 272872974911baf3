//! The requests of a load, and the client that sent them.

use llmprof_traffic::{figures::LoadSummary, statistics::Distribution, sweep::Sweep};
use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AskedLoad, DcgmGpus, EngineStep, Gauges, RequestRecord, ServerFamily, ServerWindow};

/// What the client measured of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct ClientFacts {
    /// Whether requests were due at times of their own; a closed loop has no schedule.
    pub has_schedule: bool,
    /// CPU of the busiest worker as a share of a core.
    pub worker_cpu_share: f64,
    /// How late event loops woke a task, milliseconds; up to one is the timer's own.
    pub event_loop_delay_ms: Option<Distribution>,
}

/// What was recorded of a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct LoadRecord {
    /// Wall time of the clock's zero, since 1970.
    pub started_unix_ns: Nanos,
    /// From the clock's zero to the last answer.
    pub duration_ns: Nanos,
    /// The requests by number. A run directory has them in a file of their own.
    #[serde(skip)]
    pub requests: Vec<RequestRecord>,
    /// Turns that were not asked, since the one before them failed.
    pub abandoned: u64,
    /// What the client saw of itself.
    pub client: ClientFacts,
}

impl LoadRecord {
    /// The requests that every latency is of: completed ones, without those that the server's profiler may have slowed unless
    /// there are no others.
    pub fn timed(&self) -> impl Iterator<Item = &RequestRecord> {
        let completed = || self.requests.iter().filter(|r| r.is_complete());
        let has_quiet = completed().any(|r| !r.was_profiled);
        completed().filter(move |r| !(has_quiet && r.was_profiled))
    }

    /// Marks requests that a profile from this time on may have slowed; how many there are. A server that paused to write its
    /// trace is behind for long after, so none that ended later is taken for undisturbed.
    pub fn mark_profiled(&mut self, from: Nanos) -> u64 {
        let mut count = 0;
        for request in &mut self.requests {
            if request.end_ns >= from {
                request.was_profiled = true;
                count += 1;
            }
        }
        count
    }
}

/// A load with all that was recorded beside it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct ServedLoad {
    /// The load as it was requested.
    pub asked: AskedLoad,
    #[serde(flatten)]
    pub load: LoadRecord,
    /// Absent where the server has no metrics.
    pub server: Option<ServerFacts>,
    /// Pages of exporters beside the server's own.
    pub exporters: Vec<ExporterFacts>,
    /// Engine steps of the server's trace.
    pub steps: Vec<EngineStep>,
    /// The rates that were tried, where this load is one of them.
    pub sweep: Option<Sweep<LoadSummary>>,
}

/// What a server said during a load.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct ServerFacts {
    /// The program whose metrics the server publishes.
    pub family: ServerFamily,
    /// Until the server's profiler was started, where latencies leave out requests that it slowed.
    pub window: ServerWindow,
    /// Gauges of each scrape, by Unix time.
    pub gauges: Vec<(Nanos, Gauges)>,
}

/// GPUs by a DCGM exporter.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct ExporterFacts {
    /// URL that the exporter was scraped at.
    pub url: String,
    /// The GPUs that the exporter reports.
    pub gpus: DcgmGpus,
}
