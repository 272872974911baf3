//! One measured load: warm-up, scraping, the server's profiler, the load itself.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock, mpsc},
    time::{Duration, Instant},
};

use llmprof_analysis::serving::summarize_load;
use llmprof_capture::session::StageObserver as _;
use llmprof_load::{
    client::{CallError, EndpointCalls, LoadProgress, ProbeError, ReadyLoad, Recent, drive_load},
    clock::LoadClock,
    description::LoadDescription,
    endpoint::Endpoint,
    server::{
        families::{METRICS_PATHS, identify_server, read_window},
        profile::{ProfileRequest, Profiler},
        scrape::{self, Scraper, Scrapes},
        text::MetricsPage,
        window::Window,
    },
};
use llmprof_record::{
    issue::{Issue, IssueCode},
    samples::Samples,
    serving::{EngineStep, ExporterFacts, LoadRecord, ServedLoad, ServerFacts, ServerFamily},
};
use llmprof_report::compose::serving::sentences;
use llmprof_traffic::figures::LoadSummary;
use llmprof_units::Nanos;

use super::{
    request::{AskedProfile, BenchRequest},
    telemetry::Telemetry,
};
use crate::{
    engine_trace,
    failure::Failure,
    outputs,
    progress::{Show, Stage},
    subject::RunSubject,
};

/// How long a server has to write its trace once somebody asked to stop: it must at least hear that profiling is over.
const TRACE_GRACE: Duration = Duration::from_secs(2);

/// What a load left, client and server.
pub(super) struct MeasuredLoad {
    pub(super) served: ServedLoad,
    pub(super) summary: LoadSummary,
    /// Pages as they were sent, and what they say of the time of the load: files of the run.
    pub(super) pages: Vec<(String, String)>,
    pub(super) traces: Vec<PathBuf>,
    /// CPUs and GPUs of this machine during the load.
    pub(super) samples: Option<Samples>,
    pub(super) issues: Vec<Issue>,
    pub(super) was_interrupted: bool,
}

impl MeasuredLoad {
    /// Takes over the steps of a recording, those during the load, unless the server's own trace has given some.
    pub(super) fn join(&mut self, steps: &[EngineStep]) {
        if !self.served.steps.is_empty() {
            return;
        }
        let load = &self.served.load;
        let started = load.started_unix_ns;
        let end = load.requests.iter().map(|r| r.end_ns).max();
        let end = started + end.unwrap_or(Nanos(0));
        let during = |step: &&EngineStep| step.end_unix_ns > started && step.start_unix_ns < end;
        self.served.steps = steps.iter().filter(during).copied().collect();
    }
}

/// What happens beside the requests: called a few times a second, false ends the load.
pub(super) type Beside<'a> = dyn FnMut() -> bool + 'a;

/// Asks the server what it serves, and tells the request; once.
pub(super) fn ask(request: &mut BenchRequest) -> Result<(), Failure> {
    if request.is_probed {
        return Ok(());
    }
    let probed = request.load.probe_server(request.probe_timeout);
    probed.map_err(|error| {
        let hint = match &error {
            ProbeError::Call { .. } => {
                "is the server up? `llmprof bench --serve 'CMD…'` starts one"
            }
            ProbeError::Garbled { .. } => "check the port: another program may listen there",
            ProbeError::Refused {
                source: CallError::Status { status: 500.., .. },
                ..
            } => "the server's log says why; one that still loads its model answers later",
            ProbeError::Refused { .. } => {
                "try --chat, --extra-body, --vocabulary for a small one, or --api-key-env"
            }
            ProbeError::NoModel { .. } => "--model NAME",
        };
        Failure::new(error.to_string()).hint(hint.to_owned())
    })?;
    request.is_probed = true;
    Ok(())
}

/// Sends requests that nothing is measured of, and waits for every answer.
pub(super) fn warm_up(
    load: &LoadDescription,
    show: Show,
    beside: &mut Beside<'_>,
) -> Result<(), Failure> {
    let count = load.warmup_count;
    if count == 0 {
        return Ok(());
    }
    let stage = Stage::start(show, "warm-up", count as u64);
    let record = drive_load(&load.warm_up(), |_, progress| {
        stage.step_done(progress.ended as u64);
        beside()
    })
    .map_err(Failure::new)?;
    let failed = record.requests.iter().filter_map(|r| r.failure.as_ref());
    if let Some(failure) = failed.clone().next()
        && failed.count() == record.requests.len()
    {
        return Err(Failure::new(format!(
            "every request of the warm-up failed: {}",
            failure.message
        )));
    }
    stage.finish(&format!("{count} requests, drained"));
    Ok(())
}

/// Runs one load with everything beside it; `name` is what progress calls it.
pub(super) fn measure(
    request: &BenchRequest,
    load: &ReadyLoad,
    name: &str,
    show: Show,
    beside: &mut Beside<'_>,
) -> Result<MeasuredLoad, Failure> {
    let mut issues = Vec::new();
    let mut extra = Vec::new();
    let scraping = &request.scraping;
    let scraper = if scraping.leaves_out_server {
        None
    } else {
        start_scraper(&request.load.endpoint, &METRICS_PATHS, scraping.interval).unwrap_or_else(
            |why| {
                issues.push(Issue::warning(IssueCode::BenchNoMetrics).with("why", why));
                None
            },
        )
    };
    for url in &scraping.pages {
        let (endpoint, path) = page_of(url)?;
        match start_scraper(&endpoint, &[path.as_str()], scraping.interval) {
            Ok(Some(page_scraper)) => extra.push((url.clone(), page_scraper)),
            Ok(None) => {}
            Err(why) => {
                let issue = Issue::warning(IssueCode::BenchPageUnread).with("url", url.as_str());
                issues.push(issue.with("why", why));
            }
        }
    }
    let mut profiling = request
        .profile
        .as_ref()
        .map(|asked| Profiling::new(&request.load.endpoint, asked, scraper.as_ref()))
        .transpose()?;
    let telemetry = Telemetry::start(request, &mut issues);
    let stage = Stage::start(show, name, load.plan.requests.len() as u64);
    let mut was_interrupted = false;
    let mut record = drive_load(load, |clock: &LoadClock, progress: LoadProgress| {
        if let Some(recent) = &progress.recent {
            stage.show(format!(", {}", live(recent)));
        }
        stage.step_done(progress.ended as u64);
        if let Some(profiling) = &mut profiling {
            profiling.step(clock, progress, scraper.as_ref());
        }
        was_interrupted = !beside();
        !was_interrupted
    })
    .map_err(Failure::new)?;
    // A load that was interrupted meets no objective.
    let slos = if was_interrupted {
        &[][..]
    } else {
        &request.load.slos
    };
    let figures = summarize_load(&record, slos).figures;
    stage.finish(&sentences::ended(
        record.requests.len() as u64,
        &figures,
        slos,
    ));
    let samples = telemetry.and_then(|telemetry| telemetry.stop(&mut issues));
    let subject = request.subject.as_ref();
    let profile = profiling.map_or_else(ServerProfile::default, |profiling| {
        profiling.finish(subject, &mut issues, &mut *beside, record.duration_ns)
    });
    was_interrupted |= !beside();
    profile.mark(&mut record, &mut issues);
    let summary = summarize_load(&record, &request.load.slos);
    // The server's figures are of the requests that latencies are of.
    let leaves_out = summary.timed < summary.figures.completed;
    let until_profile = profile.page_before.as_ref().filter(|_| leaves_out);
    let mut pages = Vec::new();
    let server = scraper.and_then(Scraper::finish).map(|scrapes| {
        let last = until_profile.unwrap_or(&scrapes.last.page);
        let window = Window::between(&scrapes.first.page, last);
        issues.extend(server_issues(&scrapes, &window));
        let facts = ServerFacts {
            family: scrapes.family,
            window: read_window(scrapes.family, &window),
            gauges: scrapes.gauges,
        };
        pages.push(("server/metrics.txt".to_owned(), scrapes.raw));
        let window = outputs::text(&window)?;
        pages.push(("server/metrics_window.json".to_owned(), window));
        Ok::<_, Failure>(facts)
    });
    let mut exporters = Vec::new();
    for (url, scraper) in extra {
        if let Some(scrapes) = scraper.finish() {
            let file = format!("server/metrics_{}.txt", exporters.len() + 1);
            pages.push((file, scrapes.raw));
            exporters.push(ExporterFacts {
                url,
                gpus: scrapes.dcgm,
            });
        }
    }
    let tokenizer = request.tokenizer.as_ref();
    if let Some(why) = tokenizer.and_then(|tokenizer| tokenizer.failure()) {
        issues.push(Issue::error(IssueCode::BenchTokenizerFailed).with("why", why));
    }
    Ok(MeasuredLoad {
        served: ServedLoad {
            asked: request.load.asked(&load.plan),
            load: record,
            server: server.transpose()?,
            exporters,
            steps: profile.steps,
            sweep: None,
        },
        summary,
        pages,
        traces: profile.traces,
        samples,
        issues,
        was_interrupted,
    })
}

fn live(recent: &Recent) -> String {
    sentences::live(
        recent.ttft_p50_ms,
        recent.requests_per_s,
        recent.output_tokens_per_s,
    )
}

fn start_scraper(
    endpoint: &Arc<Endpoint>,
    paths: &[&str],
    interval: Duration,
) -> Result<Option<Scraper>, String> {
    let path = scrape::find_metrics_page(endpoint, paths)?;
    Scraper::start(Arc::clone(endpoint), path, interval)
        .map(Some)
        .map_err(|error| error.to_string())
}

/// A page's address as server and path.
fn page_of(url: &str) -> Result<(Arc<Endpoint>, String), Failure> {
    let mut endpoint = Endpoint::parse(url).map_err(Failure::new)?;
    let path = std::mem::take(&mut endpoint.base);
    let path = if path.is_empty() {
        "/metrics".to_owned()
    } else {
        path
    };
    Ok((Arc::new(endpoint), path))
}

fn server_issues(scrapes: &Scrapes, window: &Window) -> Vec<Issue> {
    let mut issues = Vec::new();
    if scrapes.failed > 0 {
        issues.push(Issue::warning(IssueCode::BenchScrapesFailed).counting(scrapes.failed));
    }
    if !window.resets.is_empty() {
        let resets = window.resets.len() as u64;
        issues.push(Issue::error(IssueCode::BenchServerRestarted).counting(resets));
    }
    issues
}

/// The server's profiler during a load: started when it is time, stopped when it was long enough.
struct Profiling {
    /// On a thread of its own: a server answers `/stop_profile` after minutes.
    work: Option<std::thread::JoinHandle<Result<Nanos, String>>>,
    /// Set before the call that starts it: the time, and the server's metrics then.
    begun: Arc<OnceLock<(Nanos, Option<MetricsPage>)>>,
    /// Says that the load has ended, and the profile with it.
    load_ended: mpsc::Sender<()>,
    is_over: Option<mpsc::Receiver<()>>,
    profiler: Arc<Profiler>,
    family: ServerFamily,
    request: ProfileRequest,
    folder: Option<PathBuf>,
    before: Vec<PathBuf>,
    error: Option<String>,
}

/// What a profile of the server left.
#[derive(Default)]
struct ServerProfile {
    /// From the call that starts it to the answer of the one that ends it, on the clock of the load.
    window: Option<(Nanos, Nanos)>,
    /// The server's metrics at its start.
    page_before: Option<MetricsPage>,
    /// Traces of engines; all traces where none has a step.
    traces: Vec<PathBuf>,
    steps: Vec<EngineStep>,
}

impl Profiling {
    fn new(
        endpoint: &Arc<Endpoint>,
        asked: &AskedProfile,
        scraper: Option<&Scraper>,
    ) -> Result<Self, Failure> {
        if asked.request.when_running.is_some() && scraper.is_none() {
            return Err(Failure::new(
                "--profile-when-running needs the server's metrics",
            ));
        }
        let family = family_of(endpoint);
        let request = asked.request.clone();
        let profiler = Profiler::new(Arc::clone(endpoint), family, request.clone())
            .map_err(|error| Failure::new(error.to_string()))?;
        let (load_ended, is_over) = mpsc::channel();
        Ok(Self {
            work: None,
            load_ended,
            is_over: Some(is_over),
            profiler: Arc::new(profiler),
            family,
            request,
            before: asked.folder.as_deref().map(traces).unwrap_or_default(),
            folder: asked.folder.clone(),
            begun: Arc::default(),
            error: None,
        })
    }

    fn step(&mut self, clock: &LoadClock, progress: LoadProgress, scraper: Option<&Scraper>) {
        if self.work.is_some() {
            return;
        }
        let since = Duration::from_nanos(clock.now().0.max(0) as u64);
        let is_time = match (self.request.when_running, self.request.after) {
            (Some(least), _) => scraper
                .and_then(|s| s.latest().running)
                .is_some_and(|n| n >= least),
            (None, Some(after)) => since >= after,
            (None, None) => 2 * progress.ended >= progress.planned,
        };
        if !is_time {
            return;
        }
        let Some(is_over) = self.is_over.take() else {
            return;
        };
        let (begun, place) = (Arc::clone(&self.begun), scraper.map(|s| s.place().clone()));
        let (profiler, length) = (Arc::clone(&self.profiler), self.request.length);
        let clock = *clock;
        let counts = self.family == ServerFamily::Sglang && self.request.steps.is_some();
        let work = std::thread::Builder::new()
            .name("profile".to_owned())
            .spawn(move || {
                let page = place.and_then(|place| place.read());
                let _ = begun.set((clock.now(), page));
                profiler.start().map_err(|error| error.to_string())?;
                // A server without load has nothing to show.
                let _ = is_over.recv_timeout(length);
                // A server that counts steps has stopped by itself.
                match profiler.stop() {
                    Err(error) if !counts => Err(error.to_string()),
                    _ => Ok(clock.now()),
                }
            });
        match work {
            Ok(work) => self.work = Some(work),
            Err(error) => self.error = Some(error.to_string()),
        }
    }

    /// Waits for the trace, as long as nobody asks to stop: a server may take minutes to write it.
    fn finish(
        self,
        subject: Option<&RunSubject>,
        issues: &mut Vec<Issue>,
        beside: &mut Beside<'_>,
        load_end: Nanos,
    ) -> ServerProfile {
        let not_profiled =
            |reason: &str| Issue::error(IssueCode::BenchNotProfiled).with("reason", reason);
        let Some(work) = self.work else {
            issues.push(match (self.error, self.request.when_running) {
                (Some(why), _) => not_profiled("failed").with("why", why),
                (None, Some(least)) => not_profiled("never_full").with("least", least),
                (None, None) => not_profiled("load_ended"),
            });
            return ServerProfile::default();
        };
        // A thread that failed has nobody to tell.
        let _ = self.load_ended.send(());
        let begun = |end: Nanos| {
            let begun = self.begun.get();
            let (from, page) = begun.map_or((end, None), |(from, page)| (*from, page.clone()));
            ServerProfile {
                window: Some((from, end)),
                page_before: page,
                ..ServerProfile::default()
            }
        };
        let mut stopped: Option<Instant> = None;
        while !work.is_finished() {
            if !beside() && stopped.get_or_insert_with(Instant::now).elapsed() > TRACE_GRACE {
                issues.push(not_profiled("interrupted"));
                return begun(load_end);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let ended = match work
            .join()
            .unwrap_or_else(|_| Err("its thread panicked".to_owned()))
        {
            Ok(ended) => ended,
            Err(why) => {
                let issue = not_profiled("failed").with("server", self.family.name());
                issues.push(issue.with("why", why));
                return ServerProfile::default();
            }
        };
        let mut profile = begun(ended);
        let Some(folder) = &self.folder else {
            return profile;
        };
        profile.traces = new_traces(folder, &self.before);
        if profile.traces.is_empty() {
            let folder = folder.display().to_string();
            issues.push(not_profiled("no_trace").with("folder", folder));
        }
        profile.read_steps(subject, issues);
        profile
    }
}

impl ServerProfile {
    /// Engines of a server run the same steps (tensor parallel): those of the first trace that has some are joined. vLLM's API
    /// server leaves a trace of its own without any.
    fn read_steps(&mut self, subject: Option<&RunSubject>, issues: &mut Vec<Issue>) {
        let mut engines = Vec::new();
        for path in &self.traces {
            match engine_trace::load(path, subject) {
                Ok(steps) if steps.is_empty() => {}
                Ok(steps) => {
                    if self.steps.is_empty() {
                        self.steps = steps;
                    }
                    engines.push(path.clone());
                }
                Err(error) => {
                    issues
                        .push(Issue::warning(IssueCode::BenchSteps).with("why", error.to_string()));
                }
            }
        }
        if !engines.is_empty() {
            self.traces = engines;
        }
        self.steps.sort_by_key(|step| step.start_unix_ns);
    }

    /// Requests that ended after its start were slowed: they are marked.
    fn mark(&self, record: &mut LoadRecord, issues: &mut Vec<Issue>) {
        let Some((from, to)) = self.window else {
            return;
        };
        let count = record.mark_profiled(from);
        if count > 0 {
            let issue = Issue::warning(IssueCode::BenchProfiled)
                .with("from_ns", from.0)
                .with("for_ns", (to - from).0)
                .with("all", count == record.requests.len() as u64);
            issues.push(issue.counting(count));
        }
    }
}

/// Which server it is, by its metrics.
fn family_of(endpoint: &Arc<Endpoint>) -> ServerFamily {
    let Ok(calls) = EndpointCalls::new(Arc::clone(endpoint)) else {
        return ServerFamily::Unknown;
    };
    METRICS_PATHS
        .iter()
        .find_map(|path| calls.get(path, Duration::from_secs(5)).ok())
        .map_or(ServerFamily::Unknown, |bytes| {
            let text = String::from_utf8_lossy(&bytes);
            identify_server(&MetricsPage::read(&text))
        })
}

/// Files of a folder that look like Kineto traces.
pub(super) fn traces(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut traces: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.contains("trace.json")
        })
        .collect();
    traces.sort();
    traces
}

/// A trace is whole when it stops growing: some servers answer before they have written it.
fn new_traces(folder: &Path, before: &[PathBuf]) -> Vec<PathBuf> {
    let deadline = Instant::now() + Duration::from_secs(30);
    let sizes = || -> Vec<(PathBuf, u64)> {
        traces(folder)
            .into_iter()
            .filter(|path| !before.contains(path))
            .map(|path| {
                let size = std::fs::metadata(&path).map_or(0, |meta| meta.len());
                (path, size)
            })
            .collect()
    };
    let mut seen = sizes();
    loop {
        std::thread::sleep(Duration::from_millis(300));
        let now = sizes();
        if (now == seen && !now.is_empty()) || Instant::now() >= deadline {
            return now.into_iter().map(|(path, _)| path).collect();
        }
        seen = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// vLLM leaves a trace of its API server beside those of its engines.
    #[test]
    fn traces_of_engines_are_kept_and_steps_are_counted_once() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/vllm");
        let folder = tempfile::tempdir().unwrap();
        let put = |from: &str, to: &str| {
            let to = folder.path().join(to);
            std::fs::copy(fixtures.join(from), &to).unwrap();
            to
        };
        let api = put("async_llm.pt.trace.json.gz", "a.pt.trace.json.gz");
        let first = put("rank0.pt.trace.json.gz", "rank0.pt.trace.json.gz");
        let second = put("rank0.pt.trace.json.gz", "rank1.pt.trace.json.gz");
        put("metrics.txt", "profiler_out.txt");
        assert_eq!(
            traces(folder.path()),
            [api.clone(), first.clone(), second.clone()]
        );
        let (mut profile, mut issues) = (ServerProfile::default(), Vec::new());
        profile.traces = traces(folder.path());
        profile.read_steps(None, &mut issues);
        assert_eq!(profile.traces, [first, second]);
        assert_eq!((profile.steps.len(), issues.len()), (25, 0));
        // Without any engine, what there is is shown.
        profile = ServerProfile {
            traces: vec![api.clone()],
            ..ServerProfile::default()
        };
        profile.read_steps(None, &mut issues);
        assert_eq!((profile.traces, profile.steps.len()), (vec![api], 0));
    }
}
