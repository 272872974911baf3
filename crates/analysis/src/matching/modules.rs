//! Which operators of a model a named range stands for.
//!
//! Ranges are named by module path (`model.layers.3.self_attn.q_proj`). A range of an operator is that operator; one of a
//! module that holds operators chooses among its own and those directly below it by what a kernel does. Frameworks put
//! other words in front of a path than checkpoints do (`model.language_model.layers`), so where the whole path is not
//! known its end decides, if only one module has that end.

use llmprof_record::kernel_name::Category;
use llmprof_theory::Kind;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::matching::kernel_table::{KernelPurpose, WorkGroup, can_implement, kernel_purpose};
use crate::matching::script::Script;
use crate::row_order::sort_ascending;

/// An operator: its path's number in the script, and its kind.
pub(crate) type OperatorKey = (u32, Kind);

/// transformers 5 calls `mlp` what checkpoints of Mixtral, and theory with them, call `block_sparse_moe`.
const RENAMED_MODULE: (&str, &str) = ("mlp", "block_sparse_moe");

/// A module of the model.
#[derive(Default)]
struct Module {
    /// Operators with its own path.
    own: Vec<OperatorKey>,
    /// Operators directly below, in the order of execution.
    below: Vec<OperatorKey>,
}

/// The modules of the operators that a script counts.
#[derive(Default)]
pub(crate) struct ModuleTree {
    modules: Vec<Module>,
    /// Operators that the model computes itself, in no module below it.
    of_model: Vec<OperatorKey>,
    by_path: FxHashMap<String, u32>,
    /// Modules by the ends of their paths; `None` if several modules share the end.
    by_end: FxHashMap<String, Option<u32>>,
}

impl ModuleTree {
    /// The modules of the calls `range` of a script.
    pub(crate) fn from_script(script: &Script<'_>, range: std::ops::Range<usize>) -> Self {
        let mut tree = Self::default();
        let mut seen: FxHashSet<OperatorKey> = FxHashSet::default();
        for call in &script.calls[range] {
            let key = (call.path, call.kind);
            if !seen.insert(key) {
                continue;
            }
            let path = script.path_text(call.path);
            let own = tree.add_module(path);
            tree.modules[own as usize].own.push(key);
            if let Some((above, _)) = path.rsplit_once('.') {
                let above = tree.add_module(above);
                tree.modules[above as usize].below.push(key);
            } else {
                tree.of_model.push(key);
            }
        }
        tree
    }

    /// The module of a path, with those above it.
    fn add_module(&mut self, path: &str) -> u32 {
        if let Some(&known) = self.by_path.get(path) {
            return known;
        }
        let number = self.modules.len() as u32;
        self.modules.push(Module::default());
        self.by_path.insert(path.to_owned(), number);
        for end in path_ends(path).skip(1) {
            self.by_end
                .entry(end.to_owned())
                .and_modify(|known| *known = None)
                .or_insert(Some(number));
        }
        if let Some((above, _)) = path.rsplit_once('.') {
            self.add_module(above);
        }
        number
    }

    /// The module that a range's name stands for.
    pub(crate) fn find_module(&self, name: &str) -> Option<u32> {
        self.find_path(name).or_else(|| {
            let (module, family) = RENAMED_MODULE;
            let parts = name.split('.');
            let renamed = parts.map(|part| if part == module { family } else { part });
            self.find_path(&renamed.collect::<Vec<_>>().join("."))
        })
    }

    fn find_path(&self, name: &str) -> Option<u32> {
        path_ends(name).find_map(|end| {
            let exact = self.by_path.get(end).copied();
            exact.or_else(|| self.by_end.get(end).copied().flatten())
        })
    }

    /// The operator that a kernel outside of all modules does the work of: the only one of the model itself that has no range
    /// and whose kernels look like it (the soft-capping of logits).
    pub(crate) fn operator_outside(
        &self,
        category: Category,
        name: &str,
        has_range: impl Fn(u32) -> bool,
    ) -> Option<OperatorKey> {
        let KernelPurpose::Operators(group) = kernel_purpose(category, name) else {
            return None;
        };
        let mut fitting = self.of_model.iter().filter(|key| {
            WorkGroup::of_kind(key.1) == group
                && can_implement(key.1, category)
                && !has_range(key.0)
        });
        let only = fitting.next().copied()?;
        fitting.next().is_none().then_some(only)
    }

    /// The operators that a kernel in the range of `module` may do the work of, the best first. `has_range` says whether a
    /// path has ranges of its own: its kernels are there, so it comes last.
    pub(crate) fn candidate_operators(
        &self,
        module: u32,
        category: Category,
        name: &str,
        has_range: impl Fn(u32) -> bool,
    ) -> Vec<OperatorKey> {
        let Module { own, below } = &self.modules[module as usize];
        let group = match kernel_purpose(category, name) {
            KernelPurpose::Operators(group) => Some(group),
            KernelPurpose::Extra | KernelPurpose::Unknown => None,
        };
        let rank = |key: &OperatorKey| {
            let fits = group == Some(WorkGroup::of_kind(key.1));
            match (own.contains(key), fits) {
                (true, true) => 0,
                (false, true) if !has_range(key.0) => 1,
                (true, false) => 2,
                (false, true) => 3,
                (false, false) => 4,
            }
        };
        let mut ranked: Vec<(u8, OperatorKey)> = own
            .iter()
            .chain(below)
            .filter(|key| can_implement(key.1, category))
            .map(|key| (rank(key), *key))
            // A product below a module has its own range; a product without one is not a part of its neighbours.
            .filter(|&(rank, _)| rank < 4)
            .collect();
        sort_ascending(&mut ranked, |&(rank, _)| i64::from(rank));
        let best = ranked.first().map(|&(rank, _)| rank);
        ranked
            .into_iter()
            .filter(|&(rank, _)| Some(rank) == best)
            .map(|(_, key)| key)
            .collect()
    }
}

/// A path, then the path without its first word, and so on.
fn path_ends(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| {
        path.split_once('.').map(|(_, rest)| rest)
    })
}
