//! Kernels of CUDA and HIP graphs, attributed to what was captured: module, operator, shapes.
//!
//! A launched graph says nothing of where its kernels come from. Three things do, in this order: a trace of the capture (given
//! next to the timeline, or in it), node ids with the ranges that were open at the capture (llmprof's own recording), and the model:
//! its operators in order, laid along the kernels in order.

mod captures;
mod sequence;

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::kernel_name::{Category, canonical};
use llmprof_record::run::{RunRecord, is_graph_capture};
use llmprof_record::trace::{StrId, Trace};
use llmprof_theory::device::Device;
use llmprof_units::Nanos;
use rustc_hash::{FxHashMap, FxHashSet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use self::captures::{Capture, find_captures, operator_of, size_at};
use self::sequence::StepKernel;
pub(crate) use self::sequence::{ModelOperators, StepRows, is_of_experts};
use crate::attribution::module_path;
use crate::attribution::operator_cost::{OperatorCost, OperatorCosts};
use crate::attribution::operators::{OperatorTimes, OperatorWork, describe_inputs, work_of_calls};
use crate::phases::engine::labelled_steps;
use crate::row_order::sort_ascending;
use crate::timeline::device_events::{DeviceEvent, DeviceEvents, EventTable};
use crate::timeline::intervals::add_saturating;
use crate::timeline::launches::Launches;
use crate::timeline::nesting::Nesting;

/// What says where kernels of graphs come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GraphSource {
    /// A trace of the capture.
    CaptureTrace,
    /// Node ids, with the ranges that were open when the nodes were captured.
    NodeIds,
    /// The order of the model's operators.
    ModelSequence,
}

/// The CUDA Graphs that a trace launched, attributed to operators.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct GraphAnalysis {
    /// Number of graph launches in the trace.
    pub launches: u64,
    /// Device events that came out of graphs.
    pub events: u64,
    /// The sum of their times.
    pub device_ns: Nanos,
    /// What attributes most of their time; absent where nothing does.
    pub source: Option<GraphSource>,
    /// The sources that attribute them, in the order in which they are asked: each covers events that those before it do not.
    #[serde(default)]
    pub attributed_by: Vec<AttributedBy>,
    /// Number of graph captures in the traces of the run.
    pub captures: u64,
    /// Time of the events that are attributed.
    pub covered_ns: Nanos,
    /// Operators inside graphs, the longest device time first.
    pub operators: Vec<GraphOperatorRow>,
}

/// How much one source attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct AttributedBy {
    /// How kernels were led back to operators.
    pub source: GraphSource,
    /// Device events that it attributes.
    pub events: u64,
    /// Device time of these events.
    pub covered_ns: Nanos,
}

/// Calls of one operator with one list of inputs in one module, inside graphs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct GraphOperatorRow {
    /// How its kernels were led back to it.
    pub source: GraphSource,
    /// The modules around it, outermost first, joined by `/`.
    pub module: Option<String>,
    /// The operator; absent where only ranges are known.
    pub operator: Option<String>,
    /// As in the table of operators: `bf16[128,896]`.
    pub inputs: Vec<String>,
    /// Calls of the operator, summed over all launches of its graphs.
    pub calls: u64,
    /// Device events of all launches.
    pub events: u64,
    /// Device time of these events.
    pub device_ns: Nanos,
    /// Work of the calls, where their cost is known.
    pub work: Option<OperatorWork>,
}

impl GraphAnalysis {
    /// Computes what follows from the rows, and sorts the operators.
    fn sum_up(&mut self) {
        self.covered_ns = self.attributed_by.iter().map(|one| one.covered_ns).sum();
        let most = self.attributed_by.iter().max_by_key(|one| one.covered_ns);
        self.source = most.map(|one| one.source);
        self.operators.sort_by(|a, b| {
            let time = b.device_ns.cmp(&a.device_ns);
            time.then_with(|| {
                (&a.module, &a.operator, &a.inputs).cmp(&(&b.module, &b.operator, &b.inputs))
            })
        });
    }

    /// The part of graph time that is attributed.
    pub fn covered(&self) -> f64 {
        self.covered_ns.0 as f64 / self.device_ns.0.max(1) as f64
    }
}

/// One launch of a graph, with the indices of its events in order of time.
struct GraphLaunch {
    events: Vec<usize>,
    size: Option<u64>,
}

/// Attributes the graphs of the first timeline; `None` if it launched none.
pub(crate) fn analyze_graphs(
    record: &RunRecord,
    device: Option<&Device>,
    model: Option<&ModelOperators>,
) -> Option<(GraphAnalysis, Option<Issue>)> {
    let trace = record.trace().filter(|trace| !is_graph_capture(trace))?;
    let events = DeviceEvents::from_trace(trace);
    let launches = graph_launches(trace, &events);
    if launches.is_empty() {
        return None;
    }
    let in_graphs = || {
        launches
            .iter()
            .flat_map(|launch| &launch.events)
            .map(|&index| &events.all()[index])
    };
    let device_ns = Nanos(
        in_graphs()
            .map(DeviceEvent::duration)
            .fold(0, i64::saturating_add),
    );
    let mut analysis = GraphAnalysis {
        launches: launches.len() as u64,
        events: in_graphs().count() as u64,
        device_ns,
        source: None,
        attributed_by: Vec::new(),
        captures: 0,
        covered_ns: Nanos(0),
        operators: Vec::new(),
    };
    let beside = record.traces.iter().map(|recorded| &recorded.trace);
    let mut sources: Vec<&Trace> = beside.filter(|trace| is_graph_capture(trace)).collect();
    sources.push(trace);
    // Events that are attributed already.
    let mut led = vec![false; events.all().len()];
    for source in sources {
        let nesting = Nesting::from_trace(source);
        let captures = find_captures(source, &nesting);
        analysis.captures += captures.len() as u64;
        let mut origins = from_captures(trace, &events, &launches, source, &captures);
        origins.retain(|&(index, _, _)| !std::mem::replace(&mut led[index], true));
        let mut rows = GraphRows::default();
        rows.add_captured(&events, source, &nesting, &origins);
        rows.move_into(
            &mut analysis,
            GraphSource::CaptureTrace,
            |row, cost, times| {
                row.work = cost.map(|cost| work_of_calls(&cost, times, device));
            },
        );
    }
    let mut rows = GraphRows::default();
    rows.add_nodes(trace, &events, &launches, &mut led);
    rows.move_into(&mut analysis, GraphSource::NodeIds, |_, _, _| {});
    if let Some(model) = model {
        // The operators of a model are laid along a whole step, or along none of it.
        let untouched = |launch: &&GraphLaunch| !launch.events.iter().any(|&index| led[index]);
        let untouched: Vec<&GraphLaunch> = launches.iter().filter(untouched).collect();
        let mut rows = GraphRows::default();
        for step in graph_steps(trace, &events, &untouched) {
            rows.add_sequence(trace, &events, &step, model);
        }
        rows.move_into(&mut analysis, GraphSource::ModelSequence, |_, _, _| {});
    }
    analysis.sum_up();
    let issue = analysis
        .source
        .is_none()
        .then(|| Issue::info(IssueCode::GraphsNoOrigin));
    Some((analysis, issue))
}

/// The launches of graphs, in order of their first events.
fn graph_launches(trace: &Trace, events: &DeviceEvents) -> Vec<GraphLaunch> {
    let calls = Launches::from_trace(trace);
    let mut by_launch: FxHashMap<(u32, u32), Vec<usize>> = FxHashMap::default();
    let mut sizes: FxHashMap<(u32, u32), Option<u64>> = FxHashMap::default();
    for (index, event) in events.all().iter().enumerate() {
        let call = calls.call(event);
        let is_graph = |row: u32| {
            trace
                .text(trace.hosts.name[row as usize])
                .contains("GraphLaunch")
        };
        if !event.in_graph && !call.is_some_and(is_graph) {
            continue;
        }
        let key = (event.device, event.correlation);
        by_launch.entry(key).or_default().push(index);
        sizes.entry(key).or_insert_with(|| {
            let row = call? as usize;
            size_at(trace, trace.hosts.thread[row], trace.hosts.start[row])
        });
    }
    let mut launches: Vec<GraphLaunch> = by_launch
        .into_iter()
        .map(|(key, mut list)| {
            sort_ascending(&mut list, |&index| events.all()[index].start);
            GraphLaunch {
                events: list,
                size: sizes[&key],
            }
        })
        .collect();
    sort_ascending(&mut launches, |launch| events.all()[launch.events[0]].start);
    launches
}

/// The kernels of one pass through the model, in order of time.
struct GraphStep {
    number: usize,
    events: Vec<usize>,
    /// Which of them are those of graphs.
    in_graph: Vec<bool>,
}

/// The steps in which graphs were launched: all that was launched in the range of a step that an engine labelled, since pieces of a
/// graph and what runs between them are one pass; each launch by itself where there is no label.
fn graph_steps(trace: &Trace, events: &DeviceEvents, launches: &[&GraphLaunch]) -> Vec<GraphStep> {
    let labelled = labelled_steps(trace);
    let calls = Launches::from_trace(trace);
    let step_of = |index: usize| {
        let call = calls.call(&events.all()[index])? as usize;
        let launched = trace.hosts.start[call];
        let after = labelled.partition_point(|step| step.start <= launched);
        let step = after.checked_sub(1)?;
        (launched < labelled[step].end).then_some(step)
    };
    let mut steps: Vec<GraphStep> = Vec::new();
    let mut of_labels: BTreeMap<usize, FxHashSet<usize>> = BTreeMap::new();
    for launch in launches {
        match launch.events.first().and_then(|&index| step_of(index)) {
            Some(step) => of_labels.entry(step).or_default().extend(&launch.events),
            None => steps.push(GraphStep {
                number: 0,
                in_graph: vec![true; launch.events.len()],
                events: launch.events.clone(),
            }),
        }
    }
    let mut all: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    for index in (0..events.all().len()).filter(|_| !of_labels.is_empty()) {
        if let Some(step) = step_of(index) {
            all.entry(step).or_default().push(index);
        }
    }
    for (step, in_graphs) in of_labels {
        let mut events_of = all.remove(&step).unwrap_or_default();
        sort_ascending(&mut events_of, |&index| events.all()[index].start);
        steps.push(GraphStep {
            number: 0,
            in_graph: events_of
                .iter()
                .map(|index| in_graphs.contains(index))
                .collect(),
            events: events_of,
        });
    }
    for (number, step) in steps.iter_mut().enumerate() {
        step.number = number;
    }
    steps
}

/// Rows of the GEMMs of steps, where all labels state the same.
pub(crate) fn labelled_rows(trace: &Trace) -> Option<StepRows> {
    let mut rows = labelled_steps(trace).into_iter().map(|step| {
        let step = step.label.step?.step?;
        Some(StepRows {
            tokens: step.new_tokens(),
            sequences: step.sequences(),
        })
    });
    let first = rows.next()??;
    rows.all(|other| other == Some(first)).then_some(first)
}

/// For each event that is attributed: its index, the launch it belongs to, the call of the capture.
type Origins = Vec<(usize, usize, u32)>;

/// Which capture each launch replays: one with as many nodes and, where names are known, the same kernels; of these those of the
/// same number of tokens; of these the next in the order of capture, since engines replay pieces in that order.
fn from_captures(
    trace: &Trace,
    events: &DeviceEvents,
    launches: &[GraphLaunch],
    source: &Trace,
    captures: &[Capture],
) -> Origins {
    let mut origins = Vec::new();
    let mut last: Option<usize> = None;
    for (number, launch) in launches.iter().enumerate() {
        let fits = |capture: &Capture| {
            let kernels = launch.events.iter().zip(&capture.kernels);
            launch.events.len() == capture.calls.len()
                && kernels.clone().all(|(&index, kernel)| {
                    kernel.is_none_or(|kernel| {
                        same_kernel(source.text(kernel), trace.text(events.all()[index].name))
                    })
                })
        };
        let mut fitting: Vec<usize> = (0..captures.len())
            .filter(|&index| fits(&captures[index]))
            .collect();
        let same_size =
            |index: &usize| launch.size.is_some() && captures[*index].size == launch.size;
        if fitting.iter().any(same_size) {
            fitting.retain(same_size);
        }
        let next = fitting
            .iter()
            .find(|&&index| last.is_none_or(|last| index > last));
        let Some(&chosen) = next.or(fitting.first()) else {
            continue;
        };
        last = Some(chosen);
        let calls = captures[chosen].calls.iter();
        origins.extend(
            launch
                .events
                .iter()
                .zip(calls)
                .map(|(&index, &call)| (index, number, call)),
        );
    }
    origins
}

/// Tools print one kernel with and without its parameters, mangled or not: the spelling before them decides.
fn same_kernel(captured: &str, ran: &str) -> bool {
    captured == ran || canonical(captured) == canonical(ran)
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct CallKey {
    module: Option<String>,
    operator: Option<String>,
    inputs: Vec<String>,
}

#[derive(Default)]
struct CallSum {
    cost: Option<OperatorCost>,
    calls: FxHashSet<(usize, u32)>,
    events: u64,
    device: i64,
}

/// Sums by module, operator and inputs.
#[derive(Default)]
struct GraphRows(FxHashMap<CallKey, CallSum>);

impl GraphRows {
    fn add(&mut self, key: CallKey, cost: Option<OperatorCost>, call: (usize, u32), time: i64) {
        let sum = self.0.entry(key).or_default();
        sum.cost = sum.cost.or(cost);
        sum.calls.insert(call);
        sum.events += 1;
        add_saturating(&mut sum.device, time);
    }

    fn add_captured(
        &mut self,
        events: &DeviceEvents,
        source: &Trace,
        nesting: &Nesting,
        origins: &Origins,
    ) {
        let costs = OperatorCosts::from_trace(source);
        let mut keys: FxHashMap<u32, (CallKey, u32, Option<OperatorCost>)> = FxHashMap::default();
        for &(index, launch, call) in origins {
            let (key, operator, cost) = keys.entry(call).or_insert_with(|| {
                let hosts = &source.hosts;
                let operator = operator_of(source, nesting, call);
                let row = operator.map(|row| row as usize);
                let key = CallKey {
                    module: module_path(source, nesting, call),
                    operator: row.map(|row| source.text(hosts.name[row]).to_owned()),
                    inputs: row
                        .map(|row| describe_inputs(source, hosts.inputs[row]))
                        .unwrap_or_default(),
                };
                let cost =
                    row.and_then(|row| costs.cost_of_call(hosts.name[row], hosts.inputs[row]));
                (key, operator.unwrap_or(call), cost)
            });
            self.add(
                key.clone(),
                *cost,
                (launch, *operator),
                events.all()[index].duration(),
            );
        }
    }

    fn add_nodes(
        &mut self,
        trace: &Trace,
        events: &DeviceEvents,
        launches: &[GraphLaunch],
        led: &mut [bool],
    ) {
        let nodes = &trace.graph_nodes;
        let ranges: FxHashMap<u64, StrId> = nodes
            .node
            .iter()
            .copied()
            .zip(nodes.ranges.iter().copied())
            .collect();
        for (number, launch) in launches.iter().enumerate() {
            for &index in &launch.events {
                if led[index] {
                    continue;
                }
                let event = &events.all()[index];
                let row = event.row as usize;
                let node = match event.table {
                    EventTable::Kernels => trace.kernels.graph_node[row],
                    EventTable::Copies => trace.copies.graph_node[row],
                    EventTable::Memsets => trace.memsets.graph_node[row],
                };
                let Some(&path) = ranges.get(&node).filter(|path| **path != StrId::EMPTY) else {
                    continue;
                };
                led[index] = true;
                let key = CallKey {
                    module: Some(trace.text(path).to_owned()),
                    ..CallKey::default()
                };
                self.add(key, None, (number, path.0), event.duration());
            }
        }
    }

    /// Kernels of graphs in one step, where the whole step is that of the model.
    fn add_sequence(
        &mut self,
        trace: &Trace,
        events: &DeviceEvents,
        step: &GraphStep,
        model: &ModelOperators,
    ) {
        let all = step.events.iter().map(|&index| &events.all()[index]);
        let kernels: Vec<StepKernel> = all
            .clone()
            .map(|event| {
                let name = trace.text(event.name);
                let category = match events.class_of(event.name).category {
                    // The sum after a split product is not a separate operator.
                    Category::Gemm if name.to_ascii_lowercase().contains("reduce") => {
                        Category::Reduce
                    }
                    category => category,
                };
                StepKernel {
                    category,
                    of_experts: category != Category::Reduce && is_of_experts(name),
                    time: event.duration(),
                }
            })
            .collect();
        let Some(aligned) = sequence::align_kernels(&kernels, model) else {
            return;
        };
        for (place, (event, operators)) in all.zip(aligned).enumerate() {
            let in_graph = step.in_graph[place];
            let Some(operators) = operators.filter(|_| in_graph) else {
                continue;
            };
            let key = CallKey {
                module: Some(operators.module),
                operator: Some(operators.operator),
                inputs: operators.shape.into_iter().collect(),
            };
            self.add(key, None, (step.number, place as u32), event.duration());
        }
    }

    /// Moves the rows into the analysis as those of `source`.
    fn move_into(
        self,
        analysis: &mut GraphAnalysis,
        source: GraphSource,
        judge: impl Fn(&mut GraphOperatorRow, Option<OperatorCost>, &OperatorTimes),
    ) {
        if self.0.is_empty() {
            return;
        }
        let mut one = AttributedBy {
            source,
            events: 0,
            covered_ns: Nanos(0),
        };
        for (key, sum) in self.0 {
            one.events += sum.events;
            add_saturating(&mut one.covered_ns.0, sum.device);
            let times = OperatorTimes {
                calls: sum.calls.len() as u64,
                device_total_ns: Nanos(sum.device),
                ..OperatorTimes::default()
            };
            let mut row = GraphOperatorRow {
                source,
                module: key.module,
                operator: key.operator,
                inputs: key.inputs,
                calls: times.calls,
                events: sum.events,
                device_ns: Nanos(sum.device),
                work: None,
            };
            judge(&mut row, sum.cost, &times);
            analysis.operators.push(row);
        }
        match analysis
            .attributed_by
            .iter_mut()
            .find(|known| known.source == source)
        {
            Some(known) => {
                known.events += one.events;
                add_saturating(&mut known.covered_ns.0, one.covered_ns.0);
            }
            None => analysis.attributed_by.push(one),
        }
    }
}
