//! One phase of a trace as causes see it.

use std::ops::Range;

use llmprof_record::kernel_name::{Category, classify};
use llmprof_record::run::RunPhase;
use llmprof_record::trace::{HostKind, StrId, Trace};
use llmprof_theory::device::Device;
use llmprof_units::stats::upper_median;
use rustc_hash::FxHashMap;
use std::cell::RefCell;

use super::cause::Place;
use super::model_work::{Forward, Gemm, Shapes};
use super::subject::Subject;
use crate::replay::{Api, Edit, Graph, Window, Work, WorkRow};
use crate::timeline::launches::is_api;

/// Gaps up to this many times the usual one count as the Python code around an operator that is removed.
const GAP_OF_OPERATOR: i64 = 3;

pub(crate) struct Scene<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) graph: &'a Graph,
    pub(crate) phase: RunPhase,
    pub(crate) windows: &'a [Window],
    /// At least 1.
    pub(crate) steps: u64,
    pub(crate) device: Option<&'a Device>,
    pub(crate) subject: &'a Subject,
    /// Segments in which graphs are captured, in order: only `graph_captures` looks at them.
    pub(crate) captures: Vec<Range<usize>>,
    /// Outermost operators and API calls of the program's thread in the phase, in order of time.
    pub(crate) tops: Vec<usize>,
    pub(crate) forwards: Vec<Forward>,
    pub(crate) gemms: Vec<Gemm>,
    /// Of all phases together.
    pub(crate) shapes: Shapes,
    /// Lengths of the pauses of all phases together.
    pub(crate) pauses: Vec<i64>,
    /// Median gap between them.
    pub(crate) usual_gap: i64,
    categories: RefCell<FxHashMap<StrId, Category>>,
}

impl<'a> Scene<'a> {
    /// A scene without what [`open_scene`](super::open_scene) finds in it.
    pub(super) fn bare(
        trace: &'a Trace,
        graph: &'a Graph,
        phase: RunPhase,
        windows: &'a [Window],
        device: Option<&'a Device>,
        subject: &'a Subject,
    ) -> Self {
        Self {
            trace,
            graph,
            phase,
            windows,
            steps: 1,
            device,
            subject,
            captures: Vec::new(),
            tops: Vec::new(),
            forwards: Vec::new(),
            gemms: Vec::new(),
            shapes: Shapes::default(),
            pauses: Vec::new(),
            usual_gap: 0,
            categories: RefCell::default(),
        }
    }

    pub(super) fn outermost(&self) -> Vec<usize> {
        let mut tops = Vec::new();
        for segment in self.segments() {
            let Some(mut row) = self.graph.row_of_segment(segment) else {
                continue;
            };
            let mut top = None;
            loop {
                if self.is_op_or_call(row) {
                    top = Some(row);
                }
                match self.graph.parent_row(row) {
                    Some(parent) => row = parent,
                    None => break,
                }
            }
            if let Some(top) = top
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
        let kind = self.trace.hosts.kind[row];
        kind == HostKind::OPERATOR || is_api(kind)
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
        let mut row = self.graph.row_of_segment(segment);
        while let Some(inner) = row {
            if self.is_op_or_call(inner) {
                return false;
            }
            row = self.graph.parent_row(inner);
        }
        true
    }

    pub(super) fn median_gap(&self) -> i64 {
        let code = self.segments().filter(|&segment| self.is_code(segment));
        let mut gaps: Vec<i64> = code.map(|s| self.graph.segment_duration(s)).collect();
        upper_median(&mut gaps).unwrap_or(0)
    }

    pub(crate) fn name(&self, row: usize) -> &'a str {
        self.trace.text(self.trace.hosts.name[row])
    }

    pub(crate) fn api(&self, row: usize) -> Option<Api> {
        is_api(self.trace.hosts.kind[row]).then(|| Api::of(self.name(row)))
    }

    /// The outermost operator or call around a segment.
    pub(crate) fn top_of(&self, segment: usize) -> Option<usize> {
        let mut row = self.graph.row_of_segment(segment);
        let mut top = None;
        while let Some(inner) = row {
            if self.is_op_or_call(inner) {
                top = Some(inner);
            }
            row = self.graph.parent_row(inner);
        }
        top
    }

    /// The outermost operator that holds a row.
    pub(crate) fn top_around(&self, row: usize) -> Option<usize> {
        let after = self.tops.partition_point(|&top| top <= row);
        let top = *self.tops.get(after.checked_sub(1)?)?;
        self.rows_in(top).contains(&row).then_some(top)
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
    pub(crate) fn own_work(&self) -> impl Iterator<Item = (usize, &Work)> + '_ {
        let work = self.graph.work().iter().enumerate();
        work.filter(|(_, work)| self.graph.is_own_work(work) && self.is_in_phase(work))
    }

    pub(crate) fn is_in_phase(&self, work: &Work) -> bool {
        let launched = self.graph.segment_start(work.segment as usize);
        let mut windows = self.windows.iter();
        windows.any(|window| window.start <= launched && launched < window.end)
    }

    pub(crate) fn category(&self, work: &Work) -> Category {
        let name = match work.row {
            WorkRow::Kernel(row) => self.trace.kernels.name[row as usize],
            WorkRow::Copy(_) => return Category::Copy,
            WorkRow::Memset(_) => return Category::Memset,
        };
        let mut known = self.categories.borrow_mut();
        *known
            .entry(name)
            .or_insert_with(|| classify(self.trace.text(name)).category)
    }

    pub(crate) fn work_name(&self, work: &Work) -> &'a str {
        self.trace.text(match work.row {
            WorkRow::Kernel(row) => self.trace.kernels.name[row as usize],
            WorkRow::Copy(row) => self.trace.copies.name[row as usize],
            WorkRow::Memset(row) => self.trace.memsets.name[row as usize],
        })
    }

    /// Removes a row with its device work, and the code that called it.
    pub(crate) fn remove(&self, edit: &mut Edit, row: usize) {
        let segments = self.graph.segments_of_row(row);
        for segment in segments.clone() {
            edit.limit_segment(segment, 0);
        }
        for work in self.graph.launched_by(segments.clone()) {
            edit.drop_work(work);
        }
        let next = segments.end;
        if next < self.graph.segment_count() && self.is_code(next) {
            let gap = self.graph.segment_duration(next);
            if gap <= GAP_OF_OPERATOR * self.usual_gap {
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
                let dtype = self.trace.text(argument.dtype());
                let tensors = argument.tensors();
                tensors.map(move |tensor| (tensor.dims, dtype))
            })
            .collect()
    }

    /// Where a row stands in the program.
    pub(crate) fn place(&self, row: usize) -> Place {
        let mut place = Place::default();
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

/// `[4, 16, 1, 128]`.
pub(crate) fn shape_text(dims: &[i64]) -> String {
    let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
    format!("[{}]", dims.join(", "))
}
