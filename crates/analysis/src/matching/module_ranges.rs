//! The module around every piece of work, and how often that module has run.

use llmprof_record::trace::{StrId, ThreadId, Trace};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::labels::is_annotation;
use crate::matching::lanes::WorkLane;
use crate::matching::modules::ModuleTree;
use crate::phases::Phases;

/// A range of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModuleRun {
    /// The tree of its phase, and the module in it.
    pub(crate) tree: usize,
    pub(crate) module: u32,
    /// The window that it began in.
    pub(crate) window: usize,
    /// How many ranges of the module the window had before.
    pub(crate) instance: u32,
    /// What tells this run of the module from others: the row of its range, or the moment that its graph was launched.
    pub(crate) run: (u32, i64),
}

/// The ranges of modules of a trace.
#[derive(Default)]
pub(crate) struct ModuleRanges {
    /// Indexed by lane, then item.
    pub(crate) around: Vec<Vec<Option<ModuleRun>>>,
    /// Modules that have ranges, by tree.
    seen: FxHashSet<(usize, u32)>,
}

/// Maximum number of ranges that are open at once; deeper ones are ignored.
const OPEN_RANGES_MAX: usize = 64;

impl ModuleRanges {
    /// Finds the innermost module around every item. `tree_of` gives the tree of a window's phase.
    pub(crate) fn from_trace(
        trace: &Trace,
        phases: &Phases,
        lanes: &[WorkLane],
        trees: &[ModuleTree],
        tree_of: impl Fn(usize) -> Option<usize>,
    ) -> Self {
        let mut placed = Self {
            around: lanes
                .iter()
                .map(|lane| vec![None; lane.items.len()])
                .collect(),
            seen: FxHashSet::default(),
        };
        let runs = module_runs(trace, phases, trees, &tree_of);
        placed
            .seen
            .extend(runs.iter().map(|(_, run)| (run.tree, run.module)));
        if !runs.is_empty() {
            placed.place_by_launch(trace, lanes, &runs);
        }
        if !trace.graph_nodes.is_empty() {
            placed.place_by_node(trace, lanes, trees, tree_of);
        }
        placed
    }

    /// The innermost range that was open when the host launched an item.
    fn place_by_launch(
        &mut self,
        trace: &Trace,
        lanes: &[WorkLane],
        runs: &[(ThreadId, ModuleRun)],
    ) {
        let mut asked: Vec<(ThreadId, i64, usize, usize)> = Vec::new();
        for (lane, items) in lanes.iter().enumerate() {
            for (index, item) in items.items.iter().enumerate() {
                if let Some((thread, at)) = item.place {
                    asked.push((thread, at, lane, index));
                }
            }
        }
        asked.sort_unstable();
        let ranges = &trace.ranges;
        let start = |run: &ModuleRun| ranges.start[run.run.0 as usize];
        let end = |run: &ModuleRun| start(run).saturating_add(ranges.duration[run.run.0 as usize]);
        let mut open: Vec<ModuleRun> = Vec::new();
        let mut on = None;
        let mut next = 0;
        // Ranges and questions are both in order of thread and time: one walk over both.
        for (thread, at, lane, index) in asked {
            if on != Some(thread) {
                open.clear();
                on = Some(thread);
            }
            while let Some(&(range_thread, run)) = runs.get(next) {
                if (range_thread, start(&run)) > (thread, at) {
                    break;
                }
                if range_thread == thread {
                    open.retain(|open| end(open) > start(&run));
                    if open.len() < OPEN_RANGES_MAX {
                        open.push(run);
                    }
                }
                next += 1;
            }
            open.retain(|open| end(open) > at);
            self.around[lane][index] = open.last().copied();
        }
    }

    /// The innermost range that was open when the node of a graph was captured. Each launch of a graph is one run of its
    /// modules.
    fn place_by_node(
        &mut self,
        trace: &Trace,
        lanes: &[WorkLane],
        trees: &[ModuleTree],
        tree_of: impl Fn(usize) -> Option<usize>,
    ) {
        let nodes = &trace.graph_nodes;
        let captured: FxHashMap<u64, StrId> = (0..nodes.len())
            .map(|row| (nodes.node[row], nodes.ranges[row]))
            .collect();
        let mut known: FxHashMap<(usize, StrId), Option<u32>> = FxHashMap::default();
        let mut launches: FxHashMap<(usize, u32), (i64, u32)> = FxHashMap::default();
        for (lane, items) in lanes.iter().enumerate() {
            let mut order: Vec<(i64, usize)> = items
                .items
                .iter()
                .enumerate()
                .filter(|(_, item)| item.node.is_some())
                .map(|(index, item)| (item.launch_time().unwrap_or(item.start), index))
                .collect();
            order.sort_unstable();
            for (launched, index) in order {
                let item = &items.items[index];
                let ranges = item
                    .node
                    .and_then(|node| captured.get(&node.get()).copied());
                let (Some(ranges), Some(window)) = (ranges, item.window()) else {
                    continue;
                };
                let Some(tree) = tree_of(window) else {
                    continue;
                };
                let module = *known.entry((tree, ranges)).or_insert_with(|| {
                    let mut inwards = trace.text(ranges).rsplit('/');
                    inwards.find_map(|name| trees[tree].find_module(name))
                });
                let Some(module) = module else { continue };
                let (last, count) = launches.entry((window, module)).or_insert((launched, 0));
                if *last != launched {
                    (*last, *count) = (launched, *count + 1);
                }
                self.seen.insert((tree, module));
                self.around[lane][index] = Some(ModuleRun {
                    tree,
                    module,
                    window,
                    instance: *count,
                    run: (module, launched),
                });
            }
        }
    }

    /// Whether the trace has ranges of a module.
    pub(crate) fn has_ranges(&self, tree: usize, module: u32) -> bool {
        self.seen.contains(&(tree, module))
    }
}

/// Every range of a module, in order of thread and start.
fn module_runs(
    trace: &Trace,
    phases: &Phases,
    trees: &[ModuleTree],
    tree_of: &impl Fn(usize) -> Option<usize>,
) -> Vec<(ThreadId, ModuleRun)> {
    let ranges = &trace.ranges;
    let mut known: FxHashMap<(usize, StrId), Option<u32>> = FxHashMap::default();
    let mut counts: FxHashMap<(usize, u32), u32> = FxHashMap::default();
    let mut runs = Vec::new();
    for row in 0..ranges.len() {
        if !is_annotation(ranges.kind[row]) {
            continue;
        }
        let Some(window) = phases.at_launch(ranges.start[row]) else {
            continue;
        };
        let Some(tree) = tree_of(window) else {
            continue;
        };
        let name = ranges.name[row];
        let module = *known
            .entry((tree, name))
            .or_insert_with(|| trees[tree].find_module(trace.text(name)));
        let Some(module) = module else { continue };
        let count = counts.entry((window, module)).or_default();
        runs.push((
            ranges.thread[row],
            ModuleRun {
                tree,
                module,
                window,
                instance: *count,
                run: (row as u32, i64::MIN),
            },
        ));
        *count += 1;
    }
    runs
}
