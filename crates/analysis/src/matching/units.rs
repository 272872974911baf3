//! Which operator of theory each piece of traced work belongs to.
//!
//! With ranges of modules it is the operator of the range, call by call. In an interval without them (compiled code has none) it
//! is a [`WorkGroup`]: all operators of the interval whose kernels look alike. Without a model names alone decide, and there is no
//! roofline.

use llmprof_record::kernel_name::Category;
use llmprof_record::trace::Trace;
use llmprof_theory::Kind;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::matching::expected::Expected;
use crate::matching::kernel_table::{KernelPurpose, WorkGroup, kernel_purpose};
use crate::matching::lanes::{Item, WorkLane};
use crate::matching::module_ranges::{ModuleRanges, ModuleRun};
use crate::matching::modules::{ModuleTree, OperatorKey};
use crate::matching::script::Script;
use crate::matching::unmatched::UnmatchedReason;
use crate::row_order::sort_ascending;
use crate::timeline::device_events::Class;
use crate::waterfall::{EventClass, Roofline};

/// The part that a piece of work belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatchVerdict {
    /// It does the work of a unit.
    Unit(u32),
    /// It moves or fills memory.
    Copy,
    /// It exchanges data between devices.
    Communication,
    /// It belongs to no operator.
    Unmatched(UnmatchedReason),
}

impl MatchVerdict {
    /// The part of the waterfall that it counts to.
    pub(crate) fn event_class(self) -> EventClass {
        match self {
            Self::Unit(unit) => EventClass::Matched(unit),
            Self::Copy => EventClass::Copy,
            Self::Communication => EventClass::Communication,
            Self::Unmatched(
                UnmatchedReason::RanAgain
                | UnmatchedReason::NotNeeded
                | UnmatchedReason::RarelyNeeded
                | UnmatchedReason::TouchesNoData,
            ) => EventClass::Extra,
            Self::Unmatched(reason) => EventClass::Unattributed(reason),
        }
    }
}

/// The smallest set of calls that work can be separated by: one call of an operator, or a group of an interval.
pub(crate) struct MatchUnit {
    /// Calls in the script; several for a group.
    pub(crate) calls: Vec<u32>,
    /// The group, where it is one.
    pub(crate) group: Option<WorkGroup>,
    pub(crate) roofline: Option<Roofline>,
}

/// All work with its part.
pub(crate) struct Matching {
    pub(crate) units: Vec<MatchUnit>,
    /// Indexed by lane, then item.
    pub(crate) verdicts: Vec<Vec<MatchVerdict>>,
    /// The windows in which ranges of modules decided.
    pub(crate) with_modules: FxHashSet<usize>,
    /// Whether an item lies in a module, by lane and item; empty without ranges of modules.
    pub(crate) in_module: Vec<Vec<bool>>,
    /// What ran and what was expected, for calls of a known operator that are not matched, by item of the only lane.
    pub(crate) mismatches: FxHashMap<usize, Mismatch>,
}

/// A call that is not what theory counts at its place.
pub(crate) struct Mismatch {
    /// That place in the script, where theory counts a call of its path.
    pub(crate) place: Option<usize>,
    pub(crate) found: String,
    pub(crate) expected: Option<String>,
}

/// What theory counts for a trace.
pub(crate) struct CountedCalls<'m> {
    pub(crate) script: Script<'m>,
    /// The calls of each window of the trace's phases.
    pub(crate) windows: FxHashMap<usize, std::ops::Range<usize>>,
    /// The modules of the decoder's calls and of the towers'.
    pub(crate) trees: Vec<ModuleTree>,
    /// The tree of each window.
    pub(crate) tree_of: FxHashMap<usize, usize>,
}

impl CountedCalls<'_> {
    pub(crate) fn has_calls(&self) -> bool {
        !self.script.calls.is_empty()
    }
}

impl Matching {
    /// Decides by the calls that theory counts.
    pub(crate) fn by_model(
        trace: &Trace,
        lanes: &[WorkLane],
        counted: &CountedCalls<'_>,
        ranges: &ModuleRanges,
    ) -> Self {
        ByModule::new(trace, counted, ranges, lanes).decide_all(lanes)
    }

    /// Decides by kernel names alone. Units are the groups, without calls and rooflines.
    pub(crate) fn by_name(trace: &Trace, lanes: &[WorkLane]) -> Self {
        let rarely = UnmatchedReason::RarelyNeeded;
        let decide = |item: &Item| {
            decide_by_purpose(trace, item, rarely, |group| {
                MatchVerdict::Unit(group as u32)
            })
        };
        Self {
            verdicts: decide_items(lanes, decide),
            units: units_by_name().collect(),
            with_modules: FxHashSet::default(),
            in_module: Vec::new(),
            mismatches: FxHashMap::default(),
        }
    }
}

/// The groups as units without calls and rooflines.
fn units_by_name() -> impl Iterator<Item = MatchUnit> {
    WorkGroup::ALL.iter().map(|&group| MatchUnit {
        calls: Vec::new(),
        group: Some(group),
        roofline: None,
    })
}

/// Appends the groups of the windows that `wanted` selects to `units`.
fn group_units(
    counted: &CountedCalls<'_>,
    wanted: impl Fn(usize) -> bool,
    units: &mut Vec<MatchUnit>,
) -> FxHashMap<(usize, WorkGroup), u32> {
    let mut by_window: FxHashMap<(usize, WorkGroup), u32> = FxHashMap::default();
    let mut windows: Vec<_> = counted.windows.iter().collect();
    sort_ascending(&mut windows, |(window, _)| **window as i64);
    for (&window, calls) in windows {
        if !wanted(window) {
            continue;
        }
        for index in calls.clone() {
            let call = &counted.script.calls[index];
            let group = WorkGroup::of_kind(call.kind);
            let unit = *by_window.entry((window, group)).or_insert_with(|| {
                units.push(MatchUnit {
                    calls: Vec::new(),
                    group: Some(group),
                    roofline: Some(Roofline::default()),
                });
                (units.len() - 1) as u32
            });
            let unit = &mut units[unit as usize];
            unit.calls.push(index as u32);
            unit.roofline = unit.roofline.zip(call.roofline).map(|(mut sum, roofline)| {
                sum.add(&roofline);
                sum
            });
        }
    }
    by_window
}

fn decide_items(
    lanes: &[WorkLane],
    decide: impl Fn(&Item) -> MatchVerdict,
) -> Vec<Vec<MatchVerdict>> {
    lanes
        .iter()
        .map(|lane| lane.items.iter().map(&decide).collect())
        .collect()
}

/// The verdict that the class of an item decides without its name.
fn decide_by_class(item: &Item) -> Option<MatchVerdict> {
    match item.class {
        Class::Copy | Class::Memset => Some(MatchVerdict::Copy),
        Class::Communication => Some(MatchVerdict::Communication),
        Class::Compute if item.whole_graph => {
            Some(MatchVerdict::Unmatched(UnmatchedReason::WholeGraph))
        }
        Class::Compute => None,
    }
}

fn decide_by_purpose(
    trace: &Trace,
    item: &Item,
    extra: UnmatchedReason,
    of_group: impl Fn(WorkGroup) -> MatchVerdict,
) -> MatchVerdict {
    decide_by_class(item).unwrap_or_else(|| {
        match kernel_purpose(item.category, trace.text(item.name)) {
            KernelPurpose::Operators(group) => of_group(group),
            KernelPurpose::Extra if item.category == Category::View => {
                MatchVerdict::Unmatched(UnmatchedReason::TouchesNoData)
            }
            KernelPurpose::Extra => MatchVerdict::Unmatched(extra),
            KernelPurpose::Unknown => MatchVerdict::Unmatched(UnmatchedReason::UnknownPurpose),
        }
    })
}

/// Decides by ranges of modules, and by groups in windows without any.
struct ByModule<'a, 'm> {
    trace: &'a Trace,
    counted: &'a CountedCalls<'m>,
    ranges: &'a ModuleRanges,
    /// The calls of each operator in each window, in order.
    calls: FxHashMap<(usize, OperatorKey), Vec<u32>>,
    /// How many kernels of a group a run of a module has had: two additions of a layer are two operators.
    shared: FxHashMap<((u32, i64), Kind), usize>,
    units: Vec<MatchUnit>,
    unit_of: FxHashMap<u32, u32>,
    with_modules: FxHashSet<usize>,
    groups: FxHashMap<(usize, WorkGroup), u32>,
    /// The first of the units for windows in which theory counts nothing: the groups, without calls and rooflines.
    named: u32,
}

impl<'a, 'm> ByModule<'a, 'm> {
    fn new(
        trace: &'a Trace,
        counted: &'a CountedCalls<'m>,
        ranges: &'a ModuleRanges,
        lanes: &[WorkLane],
    ) -> Self {
        let around = lanes.iter().zip(&ranges.around);
        let with_modules: FxHashSet<usize> = around
            .flat_map(|(lane, around)| lane.items.iter().zip(around))
            .filter_map(|(item, run)| item.window().filter(|_| run.is_some()))
            .collect();
        let mut units = Vec::new();
        let groups = group_units(
            counted,
            |window| !with_modules.contains(&window),
            &mut units,
        );
        let named = units.len() as u32;
        units.extend(units_by_name());
        let mut calls: FxHashMap<(usize, OperatorKey), Vec<u32>> = FxHashMap::default();
        for (&window, range) in &counted.windows {
            for index in range.clone() {
                let call: &Expected = &counted.script.calls[index];
                calls
                    .entry((window, (call.path, call.kind)))
                    .or_default()
                    .push(index as u32);
            }
        }
        Self {
            trace,
            counted,
            ranges,
            calls,
            shared: FxHashMap::default(),
            units,
            unit_of: FxHashMap::default(),
            with_modules,
            groups,
            named,
        }
    }

    fn decide_all(mut self, lanes: &[WorkLane]) -> Matching {
        let mut verdicts = Vec::with_capacity(lanes.len());
        let mut in_module = Vec::with_capacity(lanes.len());
        for (lane, around) in lanes.iter().zip(&self.ranges.around) {
            in_module.push(around.iter().map(Option::is_some).collect());
            let mut last = None;
            let decided = lane.items.iter().zip(around).map(|(item, run)| {
                last = run.or(last);
                self.decide(item, *run, last)
            });
            verdicts.push(decided.collect());
        }
        Matching {
            units: self.units,
            verdicts,
            in_module: if self.with_modules.is_empty() {
                Vec::new()
            } else {
                in_module
            },
            with_modules: self.with_modules,
            mismatches: FxHashMap::default(),
        }
    }

    /// `last` is the module of the item, or else of the last item before it that lies in one.
    fn decide(
        &mut self,
        item: &Item,
        run: Option<ModuleRun>,
        last: Option<ModuleRun>,
    ) -> MatchVerdict {
        if let Some(verdict) = decide_by_class(item) {
            return verdict;
        }
        if item
            .window()
            .is_some_and(|window| self.is_uncounted(window))
        {
            let rarely = UnmatchedReason::RarelyNeeded;
            return decide_by_purpose(self.trace, item, rarely, |group| {
                MatchVerdict::Unit(self.named + group as u32)
            });
        }
        match (run, item.window()) {
            (Some(run), _) => self.decide_inside(item, run),
            (None, Some(window)) if self.with_modules.contains(&window) => {
                self.decide_outside(item, window, last)
            }
            (None, _) => self.decide_by_group(item),
        }
    }

    /// Whether theory counts nothing in a window: names alone say what its kernels do.
    fn is_uncounted(&self, window: usize) -> bool {
        let calls = self.counted.windows.get(&window);
        calls.is_some_and(std::ops::Range::is_empty)
    }

    /// In a window without ranges of modules.
    fn decide_by_group(&self, item: &Item) -> MatchVerdict {
        decide_by_purpose(self.trace, item, UnmatchedReason::NotNeeded, |group| {
            let unit = item
                .window()
                .and_then(|window| self.groups.get(&(window, group)));
            unit.copied().map_or(
                MatchVerdict::Unmatched(UnmatchedReason::NotNeeded),
                MatchVerdict::Unit,
            )
        })
    }

    /// Outside of all modules, in a window that has them: `last` tells in which forward pass of the window.
    fn decide_outside(
        &mut self,
        item: &Item,
        window: usize,
        last: Option<ModuleRun>,
    ) -> MatchVerdict {
        let name = self.trace.text(item.name);
        let operator = self.counted.tree_of.get(&window).and_then(|&tree| {
            self.counted.trees[tree]
                .operator_outside(item.category, name, |path| self.has_range(tree, path))
        });
        let calls = operator.and_then(|operator| self.calls.get(&(window, operator)));
        let instance = last.filter(|last| last.window == window);
        let instance = instance.map_or(0, |last| last.instance as usize);
        if let Some(&call) = calls.and_then(|calls| calls.get(instance)) {
            return self.unit_of_call(call);
        }
        MatchVerdict::Unmatched(match kernel_purpose(item.category, name) {
            KernelPurpose::Extra => UnmatchedReason::NotNeeded,
            _ => UnmatchedReason::OutsideModules,
        })
    }

    fn decide_inside(&mut self, item: &Item, run: ModuleRun) -> MatchVerdict {
        let name = self.trace.text(item.name);
        let tree = &self.counted.trees[run.tree];
        let candidates = tree.candidate_operators(run.module, item.category, name, |path| {
            self.has_range(run.tree, path)
        });
        let Some(&first) = candidates.first() else {
            return MatchVerdict::Unmatched(UnmatchedReason::NotNeeded);
        };
        let chosen = if candidates.len() == 1 {
            first
        } else {
            // Operators of one module that look alike run in order.
            let count = self.shared.entry((run.run, first.1)).or_default();
            *count += 1;
            candidates[(*count - 1).min(candidates.len() - 1)]
        };
        let calls = self.calls.get(&(run.window, chosen));
        match calls.and_then(|calls| calls.get(run.instance as usize)) {
            Some(&call) => self.unit_of_call(call),
            None => MatchVerdict::Unmatched(UnmatchedReason::RanAgain),
        }
    }

    /// Whether the module of an operator has ranges.
    fn has_range(&self, tree: usize, path: u32) -> bool {
        let module = self.counted.trees[tree].find_module(self.counted.script.path_text(path));
        module.is_some_and(|module| self.ranges.has_ranges(tree, module))
    }

    fn unit_of_call(&mut self, call: u32) -> MatchVerdict {
        let units = &mut self.units;
        let roofline = self.counted.script.calls[call as usize].roofline;
        let unit = *self.unit_of.entry(call).or_insert_with(|| {
            units.push(MatchUnit {
                calls: vec![call],
                group: None,
                roofline: roofline.map(Roofline::from),
            });
            (units.len() - 1) as u32
        });
        MatchVerdict::Unit(unit)
    }
}
