//! Scrapes pages of metrics while a load runs, each with its time on the load's clock.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use llmprof_record::serving::{DcgmGpus, Gauges, ServerFamily};
use llmprof_units::Nanos;

use super::{
    dcgm::add_page,
    families::{identify_server, read_gauges},
    text::MetricsPage,
};
use crate::{client::EndpointCalls, endpoint::Endpoint};

/// Longest that a page may take.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(5);

/// Most characters of an answer that says why there is no page.
const MESSAGE_MAX_CHARS: usize = 200;

#[derive(Clone, Debug)]
pub struct Scraped {
    /// When it was asked for, since 1970.
    pub unix_ns: Nanos,
    pub page: MetricsPage,
}

/// What scraping left: the first and the last whole page, and gauges in between.
#[derive(Clone, Debug)]
pub struct Scrapes {
    /// Server that the metrics belong to, by their prefix.
    pub family: ServerFamily,
    pub first: Scraped,
    pub last: Scraped,
    /// Gauges by time since 1970.
    pub gauges: Vec<(Nanos, Gauges)>,
    /// GPUs over all pages, where they are those of a DCGM exporter.
    pub dcgm: DcgmGpus,
    /// Number of scrapes without a page.
    pub failed: u64,
    /// The last page as it was sent.
    pub raw: String,
}

/// A page at one of the places where servers have it, or why there is none.
pub fn find_metrics_page(endpoint: &Arc<Endpoint>, paths: &[&str]) -> Result<String, String> {
    let calls = EndpointCalls::new(Arc::clone(endpoint)).map_err(|error| error.to_string())?;
    let mut why = String::new();
    for path in paths {
        match calls.get(path, SCRAPE_TIMEOUT) {
            Ok(bytes) => {
                let page = MetricsPage::read(&String::from_utf8_lossy(&bytes));
                if !page.samples.is_empty() {
                    return Ok((*path).to_owned());
                }
                why = format!("{path} has no metrics");
            }
            Err(error) => why = first_line(&error.to_string()),
        }
    }
    Err(why)
}

/// The first line, no longer than fits a terminal: servers answer with whole pages.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(MESSAGE_MAX_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None if line.len() < text.trim_end().len() => format!("{line} …"),
        None => line.to_owned(),
    }
}

/// Endpoint and path of a page of metrics.
#[derive(Clone, Debug)]
pub struct ScrapePlace {
    endpoint: Arc<Endpoint>,
    path: String,
}

impl ScrapePlace {
    /// The page as it is now; `None` where it cannot be read.
    pub fn read(&self) -> Option<MetricsPage> {
        let calls = EndpointCalls::new(Arc::clone(&self.endpoint)).ok()?;
        let bytes = calls.get(&self.path, SCRAPE_TIMEOUT).ok()?;
        Some(MetricsPage::read(&String::from_utf8_lossy(&bytes)))
    }
}

/// A scraper on a thread of its own.
pub struct Scraper {
    place: ScrapePlace,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Option<Scrapes>>,
    latest: Arc<std::sync::Mutex<Gauges>>,
}

impl Scraper {
    pub fn start(
        endpoint: Arc<Endpoint>,
        path: String,
        interval: Duration,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let latest = Arc::new(std::sync::Mutex::new(Gauges::default()));
        let place = ScrapePlace {
            endpoint: Arc::clone(&endpoint),
            path: path.clone(),
        };
        let (stopped, shown) = (Arc::clone(&stop), Arc::clone(&latest));
        let (ready, wait) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("scrape".to_owned())
            .spawn(move || run_scraper(endpoint, &path, interval, &stopped, &shown, &ready))?;
        // The first page must be older than the first request.
        let _ = wait.recv_timeout(SCRAPE_TIMEOUT);
        Ok(Self {
            place,
            stop,
            thread,
            latest,
        })
    }

    pub fn place(&self) -> &ScrapePlace {
        &self.place
    }

    /// The gauges of the latest page.
    pub fn latest(&self) -> Gauges {
        *self.latest.lock().expect("nothing panics with the lock")
    }

    /// Takes a last page and ends.
    pub fn finish(self) -> Option<Scrapes> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().ok().flatten()
    }
}

fn run_scraper(
    endpoint: Arc<Endpoint>,
    path: &str,
    interval: Duration,
    stop: &AtomicBool,
    latest: &std::sync::Mutex<Gauges>,
    ready: &std::sync::mpsc::Sender<()>,
) -> Option<Scrapes> {
    let calls = EndpointCalls::new(endpoint).ok()?;
    let mut collected: Option<Scrapes> = None;
    let mut failed = 0;
    let mut is_last = false;
    loop {
        let due = Instant::now() + interval;
        let unix_ns = llmprof_record::clock::unix_now();
        match calls.get(path, SCRAPE_TIMEOUT) {
            Ok(bytes) => {
                let raw = String::from_utf8_lossy(&bytes).into_owned();
                let page = MetricsPage::read(&raw);
                let family = identify_server(&page);
                let gauges = read_gauges(family, &page);
                *latest.lock().expect("nothing panics with the lock") = gauges;
                let scraped = Scraped { unix_ns, page };
                let scrapes = collected.get_or_insert_with(|| Scrapes {
                    family,
                    first: scraped.clone(),
                    last: scraped.clone(),
                    gauges: Vec::new(),
                    dcgm: DcgmGpus::default(),
                    failed: 0,
                    raw: String::new(),
                });
                scrapes.gauges.push((unix_ns, gauges));
                add_page(&mut scrapes.dcgm, &scraped.page);
                scrapes.last = scraped;
                scrapes.raw = raw;
            }
            Err(_) => failed += 1,
        }
        let _ = ready.send(());
        if is_last {
            break;
        }
        while !stop.load(Ordering::Relaxed) {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::park_timeout(left);
        }
        is_last = stop.load(Ordering::Relaxed);
    }
    if let Some(scrapes) = &mut collected {
        scrapes.failed = failed;
    }
    collected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_errors_are_one_short_line() {
        let page = "/metrics: HTTP 404: <!DOCTYPE html>\n<html>\n<body>Not found</body>\n</html>\n";
        assert_eq!(first_line(page), "/metrics: HTTP 404: <!DOCTYPE html> …");
        assert_eq!(first_line("no route\n"), "no route");
        let long = first_line(&"é".repeat(500));
        assert_eq!(long.chars().count(), MESSAGE_MAX_CHARS + 1);
    }
}
