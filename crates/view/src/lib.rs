//! Runs in the browser: a timeline of any size, tables, and questions about them.
//!
//! [`Track`] holds slices with a tree over them, [`lanes`] lays a trace out as lanes of tracks, [`tile`] cuts a lane into pieces that a
//! page draws, [`ViewTimeline`] answers what a page asks, [`Site`] maps paths to answers, [`serve`] speaks HTTP on loopback. The page is
//! plain ES modules (`web/`) inside the binary.

pub mod agent;
mod archive;
mod area;
mod assets;
mod compare_page;
mod counter;
mod details;
pub mod lanes;
mod load_facts;
mod load_lanes;
mod names;
mod opened_run;
mod pages;
#[cfg(feature = "parquet")]
mod parquet_export;
mod percentiles;
mod pftrace;
pub mod query;
mod run_page;
mod server;
mod site;
mod sqlite_export;
pub mod tile;
mod timeline;
pub mod track;

pub use archive::{ArchiveError, ArchiveFacts};
pub use opened_run::OpenedRun;
#[cfg(feature = "parquet")]
pub use parquet_export::{ParquetExportError, ParquetFolder};
pub use server::{ViewServer, answer_next, serve};
pub use site::{Site, SiteReply};
pub use timeline::ViewTimeline;
pub use track::Track;

/// Why a run cannot be viewed.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    #[error(
        "the timeline has {events} events; at most {} can be shown",
        track::EventRef::ROWS_MAX
    )]
    TooManyEvents { events: usize },
    #[error("cannot listen on 127.0.0.1:{port}: {source}")]
    Listen { port: u16, source: std::io::Error },
    #[error("cannot read random bytes from the system: {0}")]
    Random(std::io::Error),
}
