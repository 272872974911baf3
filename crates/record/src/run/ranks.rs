//! Timelines of several ranks, and captures of graphs, in one record.

use super::rank_name::rank_of_file;
use super::{RecordedTrace, RunRecord, SecondProfile};
use crate::trace::{HostKind, StrId, Trace};

/// Where importers put the rank.
const RANK: &str = "distributed_rank";

/// The rank that recorded a trace, where it is known.
pub fn rank_of(trace: &Trace) -> Option<u32> {
    trace.metadata.get(RANK)?.parse().ok()
}

/// Whether a trace shows the capture of graphs and no launch of any: what engines record when they start (vLLM's
/// `capture_traces`, SGLang's `graph_capture_profile`).
pub fn is_graph_capture(trace: &Trace) -> bool {
    // Distinct texts are few; most traces have no such name at all.
    let mut texts = (0..trace.strings.len()).map(|id| trace.text(StrId(id as u32)));
    if !texts.any(|text| text.contains(CAPTURED)) {
        return false;
    }
    let hosts = &trace.hosts;
    let has = |part: &str| {
        let mut rows = hosts.kind.iter().zip(hosts.name.iter());
        rows.any(|(&kind, &name)| {
            matches!(kind, HostKind::RUNTIME | HostKind::DRIVER) && trace.text(name).contains(part)
        })
    };
    has(CAPTURED) && !has("GraphLaunch")
}

/// The call that ends a capture, by the CUDA and the HIP API.
const CAPTURED: &str = "StreamEndCapture";

impl RunRecord {
    /// The timelines of ranks, the lowest rank first; none where there is one alone.
    pub fn ranks(&self) -> Vec<(u32, &Trace)> {
        let timelines = self
            .traces
            .iter()
            .filter(|recorded| !is_graph_capture(&recorded.trace));
        let mut ranks: Vec<(u32, &Trace)> = timelines
            .filter_map(|recorded| Some((rank_of(&recorded.trace)?, &recorded.trace)))
            .collect();
        ranks.sort_by_key(|(rank, _)| *rank);
        ranks.dedup_by_key(|(rank, _)| *rank);
        if ranks.len() < 2 {
            ranks.clear();
        }
        ranks
    }

    /// Adds a timeline of the same program that was read from `file`: the only one, that of another rank, or captures of graphs.
    pub(super) fn add_trace(&mut self, file: &str, mut trace: Trace) -> Result<(), SecondProfile> {
        if rank_of(&trace).is_none()
            && let Some(rank) = rank_of_file(file)
        {
            trace.metadata.insert(RANK.to_owned(), rank.to_string());
        }
        let place = |trace: &Trace| (is_graph_capture(trace), rank_of(trace));
        let (is_capture, rank) = place(&trace);
        let timelines = self.traces.iter().map(|recorded| place(&recorded.trace));
        let mut others = timelines
            .filter(|(is_capture, _)| !is_capture)
            .map(|(_, rank)| rank);
        if !is_capture && others.any(|other| other.is_none() || rank.is_none() || other == rank) {
            return Err(SecondProfile::Timeline);
        }
        self.traces.push(RecordedTrace { pass: None, trace });
        self.traces.sort_by_key(|recorded| place(&recorded.trace));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::Profile;
    use crate::trace::{Host, TraceBuilder};

    fn trace(rank: Option<u32>, calls: &[&str]) -> Trace {
        let mut builder = TraceBuilder::default();
        let thread = builder.thread(1, 1);
        for (number, call) in calls.iter().enumerate() {
            let name = builder.intern(call);
            builder.hosts.push(Host {
                start: number as i64,
                name,
                thread,
                kind: HostKind::RUNTIME,
                ..Host::default()
            });
        }
        if let Some(rank) = rank {
            builder.metadata.insert(RANK.to_owned(), rank.to_string());
        }
        builder.finish()
    }

    fn add(record: &mut RunRecord, file: &str, trace: Trace) -> Result<(), SecondProfile> {
        record.add_profile(file, Profile::Trace(Box::new(trace)))
    }

    #[test]
    fn ranks_are_sorted_and_captures_come_last() {
        let mut record = RunRecord::default();
        let capture = trace(Some(0), &["cudaStreamBeginCapture", "cudaStreamEndCapture"]);
        add(&mut record, "capture.json", capture).expect("captures stand beside");
        add(&mut record, "b.json", trace(Some(1), &["cudaGraphLaunch"])).expect("the first");
        assert!(record.ranks().is_empty(), "one is no group");
        add(&mut record, "rank0.json", trace(None, &[])).expect("another rank");
        let ranks: Vec<u32> = record.ranks().iter().map(|(rank, _)| *rank).collect();
        assert_eq!(ranks, [0, 1]);
        assert!(is_graph_capture(&record.traces[2].trace));
        let again = add(&mut record, "c.json", trace(Some(1), &[]));
        assert_eq!(again, Err(SecondProfile::Timeline));
        let nameless = add(&mut record, "c.json", trace(None, &[]));
        assert_eq!(nameless, Err(SecondProfile::Timeline));
    }
}
