//! A served load: what was asked of a server, what became of each request, and what the server said meanwhile. Facts only;
//! `analysis::serving` concludes.

mod asked;
mod dcgm;
mod load;
mod request;
mod server;
mod step;

pub use self::asked::{AskedLoad, AskedSource};
pub use self::dcgm::{DCGM_FIELDS, DcgmGpus, FieldSpread};
pub use self::load::{ClientFacts, ExporterFacts, LoadRecord, ServedLoad, ServerFacts};
pub use self::request::{
    Arrival, FailureKind, RequestFailure, RequestRecord, ServerTimings, TokenBasis,
};
pub use self::server::{Bound, Gauges, ServerFamily, ServerWindow, WindowHistogram};
pub use self::step::{EnginePart, EngineStep};
