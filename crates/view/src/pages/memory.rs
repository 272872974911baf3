//! Memory over time by the place that allocated it.

use llmprof_record::memory::{MemoryChange, SiteHistory, site_history};
use llmprof_record::trace::{HostKind, MemoryPlace, ThreadId, Trace};
use llmprof_units::{Bytes, Nanos};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use crate::opened_run::OpenedRun;

/// Devices and places of one page.
const CHARTS_MAX: usize = 16;

const NO_MEMORY: &str = "No allocations were recorded. torch.profiler records them with profile_memory=True; \
                         torch.cuda.memory._dump_snapshot writes a file that llmprof import reads.";

pub(super) fn memory_json(run: &OpenedRun) -> Value {
    let mut charts = snapshot_charts(run);
    for recorded in &run.timeline.traces {
        let trace = &run.record.traces[recorded.index].trace;
        charts.extend(trace_charts(trace, recorded.shift - run.timeline.origin));
    }
    if charts.is_empty() {
        return json!({"why": NO_MEMORY});
    }
    let left_off = charts.len().saturating_sub(CHARTS_MAX);
    charts.truncate(CHARTS_MAX);
    json!({"charts": charts, "left_off": left_off})
}

fn chart_json(title: &str, source: &str, history: &SiteHistory, is_on_timeline: bool) -> Value {
    let sites = history
        .sites
        .iter()
        .map(|levels| json!({"site": levels.site, "bytes": levels.bytes}));
    json!({
        "title": title, "source": source, "time_ns": history.time_ns, "sites": sites.collect::<Vec<_>>(),
        "is_on_timeline": is_on_timeline,
    })
}

/// Of a snapshot of the allocator, whose events have stacks. Times count from its first event.
fn snapshot_charts(run: &OpenedRun) -> Vec<Value> {
    let devices = run.record.memory.iter().flat_map(|memory| &memory.devices);
    let charts = devices.filter_map(|device| {
        let history = &device.history.as_ref()?.by_site;
        let first = history.time_ns.first()?.0;
        let moved = SiteHistory {
            time_ns: history
                .time_ns
                .iter()
                .map(|time| Nanos(time.0 - first))
                .collect(),
            sites: history.sites.clone(),
        };
        let source =
            "Requested bytes by the line that allocated them, from the allocator's snapshot.";
        Some(chart_json(
            &format!("GPU {}", device.device),
            source,
            &moved,
            false,
        ))
    });
    charts.collect()
}

/// Of a trace with memory events: the operator that was running on the thread is the site.
fn trace_charts(trace: &Trace, shift: i64) -> Vec<Value> {
    let memory = &trace.memory;
    let sites = OperatorSites::from_trace(trace);
    let mut by_place: Vec<((MemoryPlace, u32), Vec<usize>)> = Vec::new();
    for row in 0..memory.len() {
        let place = (memory.place[row], memory.device[row]);
        match by_place.iter_mut().find(|(known, _)| *known == place) {
            Some((_, rows)) => rows.push(row),
            None => by_place.push((place, vec![row])),
        }
    }
    let charts = by_place.into_iter().map(|((place, device), rows)| {
        let changes: Vec<MemoryChange> = rows
            .iter()
            .map(|&row| MemoryChange {
                time_ns: Nanos(memory.time[row].saturating_add(shift)),
                bytes: memory.bytes[row],
                address: memory.address[row],
                site: sites.at(memory.thread[row], memory.time[row]),
            })
            .collect();
        // What is allocated after the first event, less that event, was there before it.
        let first = rows[0];
        let before = i64::try_from(memory.allocated[first]).unwrap_or(0) - memory.bytes[first];
        let before = Bytes(u64::try_from(before).unwrap_or(0));
        let title = match place {
            MemoryPlace::HOST => "Host".to_owned(),
            _ => format!("GPU {device}"),
        };
        let source = "Allocated bytes by the operator that was running on the thread.";
        chart_json(
            &title,
            source,
            &site_history(&changes, before, &sites.names),
            true,
        )
    });
    charts.collect()
}

/// Operators of each thread, to find the innermost one at a moment.
struct OperatorSites {
    names: Vec<String>,
    /// By thread: start, end, and name of each operator, by start.
    threads: FxHashMap<ThreadId, Vec<(i64, i64, u32)>>,
}

impl OperatorSites {
    fn from_trace(trace: &Trace) -> Self {
        let hosts = &trace.hosts;
        let mut sites = Self {
            names: Vec::new(),
            threads: FxHashMap::default(),
        };
        if trace.memory.is_empty() {
            return sites;
        }
        let mut numbers = FxHashMap::default();
        for row in 0..hosts.len() {
            if hosts.kind[row] != HostKind::OPERATOR {
                continue;
            }
            let name = *numbers.entry(hosts.name[row]).or_insert_with(|| {
                sites.names.push(trace.text(hosts.name[row]).to_owned());
                sites.names.len() as u32 - 1
            });
            let end = hosts.start[row].saturating_add(hosts.duration[row]);
            let thread = sites.threads.entry(hosts.thread[row]).or_default();
            thread.push((hosts.start[row], end, name));
        }
        for operators in sites.threads.values_mut() {
            operators.sort_unstable_by_key(|&(start, end, _)| (start, std::cmp::Reverse(end)));
        }
        sites
    }

    /// The innermost operator that runs at a moment.
    fn at(&self, thread: ThreadId, time: i64) -> Option<u32> {
        /// Siblings of an operator between its start and the moment.
        const LOOKED_AT_MAX: usize = 4096;
        let operators = self.threads.get(&thread)?;
        let begun = operators.partition_point(|&(start, _, _)| start <= time);
        let mut before = operators[..begun].iter().rev().take(LOOKED_AT_MAX);
        before
            .find(|(_, end, _)| *end >= time)
            .map(|&(_, _, name)| name)
    }
}
