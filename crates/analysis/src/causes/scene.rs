//! One phase of a trace as causes see it.

use crate::thresholds::OPERATOR_GAP_MAX_RATIO;
use std::ops::Range;
use std::sync::OnceLock;

use llmprof_record::kernel_name::{Category, classify};
use llmprof_record::run::RunPhase;
use llmprof_record::trace::{CopyKind, HostKind, StrId, Trace};
use llmprof_theory::device::Device;
use llmprof_units::stats::upper_median;
use rustc_hash::FxHashMap;

use super::cause::CausePlace;
use super::model_work::{Forward, Gemm, ModelShapes};
use super::subject::ProgramFacts;
use crate::replay::{CallEffect, DeviceRow, DeviceWork, Edit, Graph, HostWindow, is_op_or_call};
use crate::timeline::launches::is_api;

pub(crate) struct Scene<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) graph: &'a Graph,
    pub(crate) phase: RunPhase,
    pub(crate) windows: &'a [HostWindow],
    /// Steps of the windows, at least 1.
    pub(crate) steps: u64,
    /// Steps of the whole phase, which may have more windows.
    pub(crate) all_steps: u64,
    pub(crate) device: Option<&'a Device>,
    pub(crate) subject: &'a ProgramFacts,
    /// Segments in which graphs are captured, in order: only `graph_captures` looks at them.
    pub(crate) captures: Vec<Range<usize>>,
    /// Outermost operators and API calls of the program's thread in the phase, in order of time.
    pub(crate) tops: Vec<usize>,
    /// Whether operators were recorded; without them code between calls is also the framework's.
    pub(crate) has_operators: bool,
    pub(crate) forwards: Vec<Forward>,
    pub(crate) gemms: Vec<Gemm>,
    /// Shapes that all phases of the trace show together.
    pub(crate) shapes: ModelShapes,
    /// Lengths of the pauses of all phases together.
    pub(crate) pauses: Vec<i64>,
    /// Median gap between outermost operators, ns.
    pub(crate) usual_gap: i64,
    /// Device work of the program in the phase.
    own_work: Vec<u32>,
    /// Whether the thread loses its CPU; several searches ask.
    pub(super) is_contended: OnceLock<bool>,
    names: &'a NameTable<'a>,
}

/// The strings of a trace, each read once, and the categories of the kernels of its graph.
pub(super) struct NameTable<'a> {
    texts: Vec<&'a str>,
    categories: FxHashMap<StrId, Category>,
}

impl<'a> NameTable<'a> {
    pub(super) fn of_graph(trace: &'a Trace, graph: &Graph) -> Self {
        Self {
            texts: trace.strings.iter().collect(),
            categories: classify_kernels(trace, graph),
        }
    }

    fn text_of(&self, name: StrId) -> &'a str {
        self.texts.get(name.0 as usize).copied().unwrap_or_default()
    }
}

fn classify_kernels(trace: &Trace, graph: &Graph) -> FxHashMap<StrId, Category> {
    let mut categories = FxHashMap::default();
    for work in graph.work() {
        if let DeviceRow::Kernel(row) = work.row {
            let name = trace.kernels.name[row as usize];
            let read = || classify(trace.text(name)).category;
            categories.entry(name).or_insert_with(read);
        }
    }
    categories
}

impl<'a> Scene<'a> {
    /// A scene before [`open_scene`](super::open_scene) adds operators, GEMMs and passes.
    pub(super) fn without_operators(
        trace: &'a Trace,
        graph: &'a Graph,
        phase: RunPhase,
        windows: &'a [HostWindow],
        device: Option<&'a Device>,
        subject: &'a ProgramFacts,
        names: &'a NameTable<'a>,
    ) -> Self {
        let own_work = own_work(graph, windows);
        Self {
            trace,
            graph,
            phase,
            windows,
            steps: 1,
            all_steps: 1,
            device,
            subject,
            captures: Vec::new(),
            tops: Vec::new(),
            has_operators: trace.hosts.kind.contains(&HostKind::OPERATOR),
            forwards: Vec::new(),
            gemms: Vec::new(),
            shapes: ModelShapes::default(),
            pauses: Vec::new(),
            usual_gap: 0,
            own_work,
            is_contended: OnceLock::new(),
            names,
        }
    }

    pub(super) fn outermost_rows(&self) -> Vec<usize> {
        let mut tops = Vec::new();
        for segment in self.segments() {
            if let Some(top) = self.top_of(segment)
                && tops.last() != Some(&top)
            {
                tops.push(top);
            }
        }
        tops
    }

    pub(crate) fn is_operator(&self, row: usize) -> bool {
        self.trace.hosts.kind[row] == HostKind::OPERATOR
    }

    pub(crate) fn is_op_or_call(&self, row: usize) -> bool {
        is_op_or_call(self.trace.hosts.kind[row])
    }

    /// Segments of the program's thread in the phase, without those in which graphs are captured.
    pub(crate) fn segments(&self) -> impl Iterator<Item = usize> + '_ {
        let windows = self.windows.iter();
        windows
            .flat_map(|window| self.graph.segments_in(*window))
            .filter(|&segment| !self.is_captured(segment))
    }

    pub(crate) fn is_captured(&self, segment: usize) -> bool {
        let next = self.captures.partition_point(|range| range.end <= segment);
        self.captures
            .get(next)
            .is_some_and(|range| range.start <= segment)
    }

    /// Whether no operator and no API call runs in a segment: code of the program itself.
    pub(crate) fn is_code(&self, segment: usize) -> bool {
        self.top_of(segment).is_none()
    }

    pub(super) fn median_gap(&self) -> i64 {
        let code = self.segments().filter(|&segment| self.is_code(segment));
        let mut gaps: Vec<i64> = code.map(|s| self.graph.segment_duration(s)).collect();
        upper_median(&mut gaps).unwrap_or(0)
    }

    pub(crate) fn name(&self, row: usize) -> &'a str {
        self.names.text_of(self.trace.hosts.name[row])
    }

    pub(crate) fn api(&self, row: usize) -> Option<CallEffect> {
        let hosts = &self.trace.hosts;
        is_api(hosts.kind[row]).then(|| self.graph.api_of(self.trace, hosts.name[row]))
    }

    /// The outermost operator or call around a segment.
    pub(crate) fn top_of(&self, segment: usize) -> Option<usize> {
        self.graph.top_of_segment(segment)
    }

    /// The outermost operator that holds a row.
    pub(crate) fn top_around(&self, row: usize) -> Option<usize> {
        let after = self.tops.partition_point(|&top| top <= row);
        let top = *self.tops.get(after.checked_sub(1)?)?;
        self.rows_in(top).contains(&row).then_some(top)
    }

    /// The call that waits for a copy, right after the call of the copy, where no operator holds both.
    pub(crate) fn wait_after_copy(&self, copy: usize) -> Option<usize> {
        let place = self.tops.binary_search(&copy).ok()?;
        let wait = *self.tops.get(place + 1)?;
        (self.copy_before_wait(wait) == Some(copy)).then_some(wait)
    }

    /// The call of the copy that a call waits for, where no operator holds both.
    pub(crate) fn copy_before_wait(&self, wait: usize) -> Option<usize> {
        let place = self.tops.binary_search(&wait).ok()?;
        let copy = self.tops[place.checked_sub(1)?];
        let waits = self.api(wait).is_some_and(CallEffect::waits_by_itself);
        let copies = waits && self.api(copy) == Some(CallEffect::Transfer);
        let crosses_bus = |work: &DeviceWork| match work.row {
            DeviceRow::Copy(row) => matches!(
                self.trace.copies.kind[row as usize],
                CopyKind::HOST_TO_DEVICE | CopyKind::DEVICE_TO_HOST
            ),
            _ => false,
        };
        let work = self.work_of(copy);
        (copies && self.graph.work()[work].iter().any(crosses_bus)).then_some(copy)
    }

    /// The first operator or call that begins after a segment.
    pub(crate) fn top_after(&self, segment: usize) -> Option<usize> {
        let start = self.graph.segment_start(segment);
        let next = self
            .tops
            .partition_point(|&top| self.trace.hosts.start[top] < start);
        self.tops.get(next).copied()
    }

    pub(crate) fn rows_in(&self, row: usize) -> Range<usize> {
        row..self.graph.subtree_end(row)
    }

    /// Device work that a row launches.
    pub(crate) fn work_of(&self, row: usize) -> Range<usize> {
        self.graph.launched_by(self.graph.segments_of_row(row))
    }

    pub(crate) fn device_ns(&self, row: usize) -> i64 {
        let work = &self.graph.work()[self.work_of(row)];
        work.iter().map(|work| work.duration).sum()
    }

    /// Launches of graphs that make up most of the phase's work; 0 where graphs do not.
    pub(crate) fn graph_launches(&self) -> u64 {
        let mut launches: FxHashMap<u32, u64> = FxHashMap::default();
        let mut all = 0;
        for (_, work) in self.own_work() {
            all += 1;
            *launches.entry(work.segment).or_default() += 1;
        }
        let largest = launches.values().copied().max().unwrap_or(0);
        let alike = launches
            .values()
            .filter(|&&nodes| nodes > 1 && 2 * nodes > largest);
        let (count, nodes) = alike.fold((0, 0), |(count, sum), nodes| (count + 1, sum + nodes));
        if 2 * nodes > all { count } else { 0 }
    }

    /// Device work of the program in the phase.
    pub(crate) fn own_work(&self) -> impl Iterator<Item = (usize, &DeviceWork)> + '_ {
        let work = self.graph.work();
        let own = self.own_work.iter();
        own.map(move |&index| (index as usize, &work[index as usize]))
    }

    pub(crate) fn category(&self, work: &DeviceWork) -> Category {
        let name = match work.row {
            DeviceRow::Kernel(row) => self.trace.kernels.name[row as usize],
            DeviceRow::Copy(_) => return Category::Copy,
            DeviceRow::Memset(_) => return Category::Memset,
        };
        self.names.categories[&name]
    }

    /// Name and grid of a kernel, which kernels of the same work have in common.
    pub(crate) fn kernel_key(&self, work: &DeviceWork) -> Option<(StrId, [u32; 3])> {
        let DeviceRow::Kernel(row) = work.row else {
            return None;
        };
        let kernels = &self.trace.kernels;
        Some((kernels.name[row as usize], kernels.grid[row as usize]))
    }

    pub(crate) fn work_name(&self, work: &DeviceWork) -> &'a str {
        self.names.text_of(match work.row {
            DeviceRow::Kernel(row) => self.trace.kernels.name[row as usize],
            DeviceRow::Copy(row) => self.trace.copies.name[row as usize],
            DeviceRow::Memset(row) => self.trace.memsets.name[row as usize],
        })
    }

    /// Removes a row with its device work, and the code that called it. Without operators that code is a part of what is launched next.
    pub(crate) fn remove(&self, edit: &mut Edit, row: usize) {
        let segments = self.graph.segments_of_row(row);
        for segment in segments.clone() {
            edit.limit_segment(segment, 0);
        }
        for work in self.graph.launched_by(segments.clone()) {
            edit.drop_work(work);
        }
        let next = segments.end;
        if self.has_operators && next < self.graph.segment_count() && self.is_code(next) {
            let gap = self.graph.segment_duration(next);
            if gap <= OPERATOR_GAP_MAX_RATIO * self.usual_gap {
                edit.limit_segment(next, 0);
            }
        }
    }

    /// Removes the host side of a row and keeps its device work, as if that were launched by what comes before.
    pub(crate) fn remove_host(&self, edit: &mut Edit, row: usize) {
        for segment in self.graph.segments_of_row(row) {
            edit.limit_segment(segment, 0);
        }
    }

    /// The tensors of an operator's arguments: dimensions and dtype as recorded. Arguments without a tensor have none.
    pub(crate) fn tensors(&self, row: usize) -> Vec<(&'a [i64], &'a str)> {
        let inputs = &self.trace.inputs;
        let arguments = inputs.arguments(self.trace.hosts.inputs[row]);
        arguments
            .flat_map(|argument| {
                let dtype = self.names.text_of(argument.dtype());
                let tensors = argument.tensors();
                tensors.map(move |tensor| (tensor.dims, dtype))
            })
            .collect()
    }

    /// Where a row stands in the program.
    pub(crate) fn place(&self, row: usize) -> CausePlace {
        let mut place = CausePlace::default();
        if self.trace.hosts.kind[row] == HostKind::OPERATOR {
            place.operator = Some(self.name(row).to_owned());
        }
        let mut outer = self.graph.parent_row(row);
        while let Some(row) = outer {
            let name = self.name(row);
            if self.trace.hosts.kind[row] == HostKind::PYTHON {
                match name.strip_prefix("nn.Module: ") {
                    Some(module) if place.module.is_none() => {
                        place.module = Some(module.to_owned());
                    }
                    None if place.line.is_none() && !name.starts_with('<') => {
                        place.line = Some(name.to_owned());
                    }
                    _ => {}
                }
            }
            outer = self.graph.parent_row(row);
        }
        place
    }

    /// A count or time of the phase as one of a step.
    pub(crate) fn a_step(&self, total: i64) -> i64 {
        total / self.steps.max(1) as i64
    }
}

/// Work that the program launched in sorted, disjoint windows.
fn own_work(graph: &Graph, windows: &[HostWindow]) -> Vec<u32> {
    let is_in_phase = |work: &DeviceWork| {
        let launched = graph.segment_start(work.segment as usize);
        let after = windows.partition_point(|window| window.start <= launched);
        after > 0 && launched < windows[after - 1].end
    };
    let work = graph.work().iter().enumerate();
    work.filter(|(_, work)| work.is_own && is_in_phase(work))
        .map(|(index, _)| index as u32)
        .collect()
}

/// Dimensions as text: `[4, 16, 1, 128]`.
pub(crate) fn shape_text(dims: &[i64]) -> String {
    let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
    format!("[{}]", dims.join(", "))
}
