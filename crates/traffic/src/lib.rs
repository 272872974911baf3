//! What a load is made of, whether it is sent (`load`) or simulated (`simulate`): when requests come, how long they are, traces of
//! real load, objectives, and the statistics they are judged by. No sockets, no runtime; one seed means one load in both.

pub mod arrivals;
pub mod figures;
pub mod lengths;
pub mod random;
pub mod replay;
pub mod slo;
pub mod statistics;
pub mod sweep;
pub mod text_file;
