//! The server's side: its metrics, scraped on the clock of the load, and its profile endpoints.

pub mod dcgm;
pub mod families;
pub mod profile;
pub mod scrape;
pub mod text;
pub mod window;
