//! Load for serving endpoints: requests are sent and servers scraped; `analysis::serving` concludes.
//!
//! The only crate with an async runtime. A [`plan`] is drawn before anything is sent; [`client`] sends it and leaves a
//! [`record::RequestRecord`] for each request; everything else reads those. Latencies count from the time a request was *due*,
//! tokens are what the server or a tokenizer counts, and the client says of itself whether it kept up.

pub mod answer;
pub mod body;
pub mod client;
pub mod clock;
pub mod dataset;
pub mod description;
pub mod endpoint;
pub mod offline;
pub mod plan;
pub mod prompt;
pub mod results;
pub mod server;
pub mod sse;

pub use llmprof_record::serving as record;
pub use llmprof_traffic::{arrivals, lengths, random, replay, slo, statistics, sweep, text_file};
