//! What a page shows of one event: its facts, what launched it, what it launched, and all others of its name.

use llmprof_analysis::attribution::operators::{OperatorRow, describe_inputs};
use llmprof_record::kernel_name::{canonical, classify};
use llmprof_record::run::RunRecord;
use llmprof_record::trace::{InputsId, Trace};
use serde_json::{Map, Value, json};

use crate::lanes::{LaneKind, idle_parts, table};
use crate::percentiles::add_percentiles;
use crate::timeline::{TimelineTrace, ViewTimeline};
use crate::track::EventRef;

/// Launched events that are listed.
const LAUNCHED_MAX: usize = 200;
/// Instances of a name that are listed, the longest first.
const LONGEST_MAX: usize = 20;
const HISTOGRAM_BINS: usize = 40;

/// One event, in the order in which a page lists its facts.
struct DetailFacts<'a> {
    timeline: &'a ViewTimeline,
    number: usize,
    on: &'a TimelineTrace,
    trace: &'a Trace,
    /// Of the trace that explains the time, the first.
    operators: &'a [OperatorRow],
    rows: Vec<(&'static str, Value)>,
}

impl ViewTimeline {
    /// Facts of an event of trace `number`; `None` where there is none.
    pub(crate) fn event_json(
        &self,
        record: &RunRecord,
        operators: &[OperatorRow],
        number: usize,
        event: EventRef,
    ) -> Option<Value> {
        if matches!(event.table(), table::REQUESTS | table::ENGINE_STEPS) {
            return self.load_event_json(record, event);
        }
        let on = self.traces.get(number)?;
        let trace = &record.traces.get(on.index)?.trace;
        let mut facts = DetailFacts {
            timeline: self,
            number,
            on,
            trace,
            operators,
            rows: Vec::new(),
        };
        let row = event.row();
        let links = match event.table() {
            table::HOSTS if row < trace.hosts.len() => facts.host(row),
            table::KERNELS if row < trace.kernels.len() => facts.kernel(row),
            table::COPIES if row < trace.copies.len() => facts.copy(row),
            table::MEMSETS if row < trace.memsets.len() => facts.memset(row),
            table::RANGES if row < trace.ranges.len() => facts.range(row),
            table::SYNCS if row < trace.syncs.len() => facts.sync(row),
            table::IDLE_GAPS if row < on.origins.gaps().len() => facts.idle_gap(row),
            table::PHASES if number == 0 && row < self.phases.len() => facts.phase(row),
            table::STACKS if row < trace.host_samples.len() => facts.sample(row),
            _ => return None,
        };
        Some(self.placed_json(number, event, &facts.rows, &links))
    }

    /// Facts of an event with the place where the timeline shows it.
    pub(crate) fn placed_json(
        &self,
        number: usize,
        event: EventRef,
        facts: &[(&'static str, Value)],
        links: &[Value],
    ) -> Value {
        let rows: Vec<Value> = facts
            .iter()
            .map(|(key, value)| json!([key, value]))
            .collect();
        let start = facts.iter().find(|(key, _)| *key == "start_ns");
        let start = start.and_then(|(_, value)| value.as_i64()).unwrap_or(0) + self.origin;
        let place = self.locate(number, event, start);
        let name = place.and_then(|(lane, track)| {
            let track = &self.lanes[lane].tracks[track];
            let rows = track.begun_before(start)..track.len();
            let mut slices = rows.map(|row| track.slice(row));
            slices.find(|slice| slice.event == event)
        });
        json!({
            "event": event.0, "trace": number, "lane": place.map(|place| place.0), "track": place.map(|place| place.1),
            "name": name.map(|slice| slice.name), "facts": rows, "links": links,
        })
    }

    /// Durations of all slices of a name in lanes of the same kind.
    pub fn instances_json(&self, name: u32) -> Option<Value> {
        if name as usize >= self.names.len() {
            return None;
        }
        let mut instances: Vec<_> = self
            .slices(|lane| lane.kind != LaneKind::Counter)
            .filter(|(_, slice)| slice.name == name)
            .collect();
        instances.sort_by_key(|(_, slice)| (std::cmp::Reverse(slice.duration()), slice.start));
        let count = instances.len();
        let total: i64 = instances.iter().map(|(_, slice)| slice.duration()).sum();
        let durations: Vec<i64> = instances
            .iter()
            .map(|(_, slice)| slice.duration())
            .collect();
        let longest: Vec<Value> = instances
            .iter()
            .take(LONGEST_MAX)
            .map(|(lane, slice)| {
                json!({"lane": lane, "event": slice.event.0, "trace": self.lanes[*lane].trace,
                       "start_ns": slice.start - self.origin, "duration_ns": slice.duration()})
            })
            .collect();
        let mut object = json!({
            "name": self.names.text(name), "label": self.names.label(name), "category": self.names.category(name),
            "count": count, "total_ns": total, "histogram": histogram(durations.iter().copied()), "longest": longest,
        });
        add_percentiles(&mut object, durations);
        Some(object)
    }
}

/// Counts of durations in bins of equal ratio between the shortest and the longest.
fn histogram(durations: impl Iterator<Item = i64> + Clone) -> Value {
    let low = durations.clone().min().unwrap_or(0).max(1) as f64;
    let high = durations.clone().max().unwrap_or(0).max(1) as f64;
    let ratio = (high / low).max(1.0 + 1e-9).ln();
    let mut bins = vec![0_u64; HISTOGRAM_BINS];
    for duration in durations {
        let place = (duration.max(1) as f64 / low).ln() / ratio * HISTOGRAM_BINS as f64;
        bins[(place as usize).min(HISTOGRAM_BINS - 1)] += 1;
    }
    json!({"low_ns": low, "high_ns": high, "counts": bins})
}

impl DetailFacts<'_> {
    fn put(&mut self, key: &'static str, value: impl Into<Value>) {
        self.rows.push((key, value.into()));
    }

    fn put_some(&mut self, key: &'static str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.put(key, value);
        }
    }

    fn times(&mut self, start: i64, duration: i64) {
        self.put(
            "start_ns",
            start.saturating_add(self.on.shift) - self.timeline.origin,
        );
        self.put("duration_ns", duration);
    }

    /// Another event as a page finds it.
    fn link(&self, role: &str, event: EventRef) -> Option<Value> {
        let trace = self.trace;
        let row = event.row();
        let (name, start, duration) = match event.table() {
            table::HOSTS => (
                trace.hosts.name[row],
                trace.hosts.start[row],
                trace.hosts.duration[row],
            ),
            table::KERNELS => (
                trace.kernels.name[row],
                trace.kernels.start[row],
                trace.kernels.duration[row],
            ),
            table::COPIES => (
                trace.copies.name[row],
                trace.copies.start[row],
                trace.copies.duration[row],
            ),
            table::MEMSETS => (
                trace.memsets.name[row],
                trace.memsets.start[row],
                trace.memsets.duration[row],
            ),
            _ => return None,
        };
        let start = start.saturating_add(self.on.shift);
        let (lane, track) = self.timeline.locate(self.number, event, start)?;
        Some(json!({
            "role": role, "event": event.0, "trace": self.number, "lane": lane, "track": track,
            "name": trace.text(name), "start_ns": start - self.timeline.origin, "duration_ns": duration.max(0),
        }))
    }

    /// What a device event was launched by.
    fn origin(&mut self, origin: llmprof_analysis::EventOrigin) -> Vec<Value> {
        let (modules, ranges) = (
            self.on.origins.modules(self.trace, origin),
            self.on.origins.ranges(self.trace, origin),
        );
        self.put_some("module", modules);
        self.put_some("ranges", ranges);
        if let Some(operator) = origin.operator {
            let name = self.trace.hosts.name[operator as usize];
            self.put("operator", self.trace.text(name));
            let inputs = self.inputs(self.trace.hosts.inputs[operator as usize]);
            self.put_some("inputs", inputs);
            let least = self.operator_roofline(operator as usize);
            self.put_some("operator_roofline_time_ns", least);
        }
        let host = |row: u32| EventRef::new(table::HOSTS, row as usize);
        let call = origin.call.and_then(|row| {
            let called = self.trace.hosts.start[row as usize];
            let started = self.rows.iter().find(|(key, _)| *key == "start_ns");
            let started = started.and_then(|(_, value)| value.as_i64())?;
            let called = called.saturating_add(self.on.shift) - self.timeline.origin;
            self.put("launch_to_start_ns", started - called);
            self.link("launched by", host(row))
        });
        let operator = origin
            .operator
            .and_then(|row| self.link("operator", host(row)));
        call.into_iter().chain(operator).collect()
    }

    /// Shapes and dtypes of an operator's inputs.
    fn inputs(&self, id: InputsId) -> Option<String> {
        if id == InputsId::NONE {
            return None;
        }
        let arguments = describe_inputs(self.trace, id);
        (!arguments.is_empty()).then(|| arguments.join(", "))
    }

    /// The least time of a call of an operator with its inputs, where they and the device are known.
    fn operator_roofline(&self, row: usize) -> Option<f64> {
        let inputs = self.trace.hosts.inputs[row];
        if self.number != 0 || inputs == InputsId::NONE {
            return None;
        }
        let name = self.trace.text(self.trace.hosts.name[row]);
        let operator = self
            .operators
            .iter()
            .find(|operator| operator.name == name)?;
        let inputs = describe_inputs(self.trace, inputs);
        let shape = operator
            .shapes
            .iter()
            .find(|shape| shape.inputs == inputs)?;
        let work = shape.work.filter(|work| work.calls > 0)?;
        Some(work.roofline_ns? / work.calls as f64)
    }

    fn kernel(&mut self, row: usize) -> Vec<Value> {
        let kernel = self.trace.kernels.row(row);
        let name = self.trace.text(kernel.name).to_owned();
        let class = classify(&name);
        self.put("name", name.as_str());
        let canonical = canonical(&name);
        if canonical != name {
            self.put("canonical name", canonical);
        }
        self.put("category", class.category.name());
        self.put("library", class.library.name());
        self.times(kernel.start, kernel.duration);
        self.put(
            "stream",
            format!(
                "device {}, context {}, stream {}",
                kernel.device, kernel.context, kernel.stream
            ),
        );
        self.put("grid", format!("{:?}", kernel.grid));
        self.put("block", format!("{:?}", kernel.block));
        self.put("registers", kernel.registers);
        self.put(
            "shared_memory_bytes",
            kernel.static_shared.saturating_add(kernel.dynamic_shared),
        );
        // Kineto writes whole percent.
        if kernel.occupancy == 0.0 {
            self.put("occupancy", "< 1 %");
        } else if kernel.occupancy.is_finite() {
            self.put("occupancy_percent", f64::from(kernel.occupancy));
        }
        if kernel.graph != 0 {
            self.put(
                "graph",
                format!("{}, node {}", kernel.graph, kernel.graph_node),
            );
        }
        self.put("correlation", kernel.correlation);
        self.origin(self.on.origins.of_kernel(row))
    }

    fn copy(&mut self, row: usize) -> Vec<Value> {
        let copy = self.trace.copies.row(row);
        self.put("name", self.trace.text(copy.name));
        self.put(
            "direction",
            format!(
                "{} ({} → {})",
                copy.kind.name(),
                copy.source.name(),
                copy.target.name()
            ),
        );
        self.times(copy.start, copy.duration);
        self.put("bytes", copy.bytes);
        if copy.duration > 0 {
            self.put(
                "bandwidth_bytes_per_s",
                copy.bytes as f64 / copy.duration as f64 * 1e9,
            );
        }
        self.put(
            "stream",
            format!(
                "device {}, context {}, stream {}",
                copy.device, copy.context, copy.stream
            ),
        );
        self.put("correlation", copy.correlation);
        self.origin(self.on.origins.of_copy(row))
    }

    fn memset(&mut self, row: usize) -> Vec<Value> {
        let memset = self.trace.memsets.row(row);
        self.put("name", self.trace.text(memset.name));
        self.times(memset.start, memset.duration);
        self.put("bytes", memset.bytes);
        self.put("correlation", memset.correlation);
        self.origin(self.on.origins.of_memset(row))
    }

    fn host(&mut self, row: usize) -> Vec<Value> {
        let host = self.trace.hosts.row(row);
        self.put("name", self.trace.text(host.name));
        self.put("kind", host.kind.name());
        self.times(host.start, host.duration);
        let inputs = self.inputs(host.inputs);
        self.put_some("inputs", inputs);
        if host.correlation != 0 {
            self.put("correlation", host.correlation);
        }
        let launched = &self.on.launched;
        let first = launched.partition_point(|(call, _)| (*call as usize) < row);
        let events = launched[first..]
            .iter()
            .take_while(|(call, _)| *call as usize == row);
        let count = events.clone().count();
        if count > 0 {
            self.put("device events launched", count);
        }
        events
            .take(LAUNCHED_MAX)
            .filter_map(|(_, event)| self.link("launched", *event))
            .collect()
    }

    fn range(&mut self, row: usize) -> Vec<Value> {
        let range = self.trace.ranges.row(row);
        self.put("name", self.trace.text(range.name));
        self.put("kind", range.kind.name());
        let domain = self.trace.text(range.domain);
        self.put_some("domain", (!domain.is_empty()).then_some(domain));
        self.times(range.start, range.duration);
        Vec::new()
    }

    fn sync(&mut self, row: usize) -> Vec<Value> {
        let sync = self.trace.syncs.row(row);
        self.put("name", self.trace.text(sync.name));
        self.put("kind", sync.kind.name());
        self.times(sync.start, sync.duration);
        self.put("correlation", sync.correlation);
        Vec::new()
    }

    fn idle_gap(&mut self, row: usize) -> Vec<Value> {
        let gap = self.on.origins.gaps()[row];
        self.put("name", "GPU idle");
        self.put("device", gap.device);
        self.times(gap.start_ns, gap.end_ns - gap.start_ns);
        let causes: Map<String, Value> = idle_parts(&gap)
            .iter()
            .filter(|(_, time)| *time > 0)
            .map(|(label, time)| ((*label).to_owned(), json!(time)))
            .collect();
        self.put("causes_ns", causes);
        Vec::new()
    }

    fn phase(&mut self, row: usize) -> Vec<Value> {
        let (name, start, end) = self.timeline.phases[row].clone();
        self.put("name", name);
        self.times(start, end - start);
        Vec::new()
    }

    fn sample(&mut self, row: usize) -> Vec<Value> {
        let sample = self.trace.host_samples.row(row);
        let frames: Vec<String> = self
            .trace
            .stack_frames
            .stack(sample.stack)
            .map(|frame| {
                let (function, file) =
                    (self.trace.text(frame.function), self.trace.text(frame.file));
                match file {
                    "" => function.to_owned(),
                    file => format!("{function} ({file}:{})", frame.line),
                }
            })
            .collect();
        self.put("name", frames.first().cloned().unwrap_or_default());
        self.put("state", sample.cpu.name());
        self.put("wait", sample.wait.name());
        self.times(sample.time.saturating_sub(sample.period), sample.period);
        self.put("stack", frames);
        Vec::new()
    }
}
