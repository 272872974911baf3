//! Pages of a run beside the timeline: what each shows, as data. A page without data says why.

mod flame;
mod memory;
mod ranks;
mod requests;
mod steps;

use serde_json::Value;

use crate::opened_run::OpenedRun;

/// Names of the pages, as the archive writes them and [`page_json`] takes them.
pub(crate) const PAGES: [&str; 5] = ["flame", "memory", "ranks", "requests", "steps"];

/// The data of a page; `None` where there is no such page.
pub(crate) fn page_json(run: &OpenedRun, page: &str) -> Option<Value> {
    Some(match page {
        "flame" => flame::flame_json(run),
        "memory" => memory::memory_json(run),
        "ranks" => ranks::ranks_json(run),
        "requests" => requests::requests_json(run),
        "steps" => steps::steps_json(run),
        _ => return None,
    })
}
