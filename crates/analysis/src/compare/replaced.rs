//! Which kernels of one side do the work of which kernels of the other.
//!
//! Kernels that only one side has are linked where they belong together, and each set of linked kernels is one change:
//!
//! 1. Launched from the same module path or framework operator, and of the same category.
//! 2. At the same position of the launch order: both orders are aligned by their longest common subsequence, and what lies
//!    between two equal launches replaced each other. Kernels of one category are linked first. In short gaps the rest is linked too: a
//!    fused kernel stands for those it replaced, of any category.
//! 3. What is left, by category.
//!
//! A kernel that both sides have is one change by itself.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::facts::{PhaseFacts, WorkRow};
use crate::row_order::sort_descending_f64;

/// Longest gap between equal launches, in launches, that one fused kernel may stand for.
const FUSED_GAP_MAX_LAUNCHES: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// Other kernels do the work.
    Replaced,
    /// The same kernel took another time, or ran more or less often.
    Changed,
    /// Only the second side has it.
    Added,
    /// Only the first side has it.
    Removed,
}

/// Kernels that belong together on both sides, ns per step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct WorkChange {
    /// What happened to the kernels.
    pub kind: ChangeKind,
    /// Of the longest kernel; `attention` where most of a side's time is attention's, whichever kernels the other side has for it.
    pub category: String,
    /// The module or operator that launched the longest kernel, where both sides name the same one.
    pub place: Option<String>,
    /// The kernels on side A, empty where they were added.
    pub a: Vec<NamedWork>,
    /// The kernels on side B, empty where they were removed.
    pub b: Vec<NamedWork>,
    /// Time of side A in a step.
    pub a_ns: f64,
    /// Time of side B in a step.
    pub b_ns: f64,
    /// Time of side B less that of side A, per step.
    pub delta_ns: f64,
}

impl WorkChange {
    pub(super) fn scale(&mut self, a: f64, b: f64) {
        self.a_ns *= a;
        self.b_ns *= b;
        self.delta_ns = self.b_ns - self.a_ns;
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct NamedWork {
    /// Canonical name of the kernel.
    pub name: String,
    /// Mean number of calls in a step.
    pub calls: f64,
    /// Mean time in a step.
    pub time_ns: f64,
}

/// All changes between two phases, the largest first. Their deltas sum to the difference of all work.
pub(super) fn find_changes(a: &PhaseFacts, b: &PhaseFacts) -> Vec<WorkChange> {
    let mut sides = Sides::new(&a.work, &b.work);
    sides.link_places();
    sides.link_order(&a.sequence, &b.sequence);
    sides.link_categories();
    let mut changes = sides.into_changes();
    sort_descending_f64(&mut changes, |change| change.delta_ns.abs());
    changes
}

/// The kernels of both sides; those with one name are common.
struct Sides<'w> {
    a: &'w [WorkRow],
    b: &'w [WorkRow],
    /// Index in `b` of each of `a`.
    common: Vec<Option<usize>>,
    b_common: Vec<bool>,
    /// A forest over all rows, those of `b` after those of `a`.
    parent: Vec<usize>,
}

impl<'w> Sides<'w> {
    fn new(a: &'w [WorkRow], b: &'w [WorkRow]) -> Self {
        let names: BTreeMap<&str, usize> = b
            .iter()
            .enumerate()
            .map(|(index, row)| (row.name.as_str(), index))
            .collect();
        let common: Vec<Option<usize>> = a
            .iter()
            .map(|row| names.get(row.name.as_str()).copied())
            .collect();
        let mut b_common = vec![false; b.len()];
        for index in common.iter().flatten() {
            b_common[*index] = true;
        }
        Self {
            parent: (0..a.len() + b.len()).collect(),
            a,
            b,
            common,
            b_common,
        }
    }

    fn root_of(&mut self, mut at: usize) -> usize {
        while self.parent[at] != at {
            self.parent[at] = self.parent[self.parent[at]];
            at = self.parent[at];
        }
        at
    }

    fn link_rows(&mut self, a: usize, b: usize) {
        let (first, second) = (self.root_of(a), self.root_of(self.a.len() + b));
        self.parent[second] = first;
    }

    fn only_a(&self) -> Vec<usize> {
        (0..self.a.len())
            .filter(|&index| self.common[index].is_none())
            .collect()
    }

    fn only_b(&self) -> Vec<usize> {
        (0..self.b.len())
            .filter(|&index| !self.b_common[index])
            .collect()
    }

    /// Kernels that only one side has and that are not linked to the other side.
    fn unlinked_rows(&mut self) -> (Vec<usize>, Vec<usize>) {
        let roots: Vec<usize> = (0..self.parent.len()).map(|at| self.root_of(at)).collect();
        let mut members = vec![0_u32; roots.len()];
        for &root in &roots {
            members[root] += 1;
        }
        let offset = self.a.len();
        let (mut a, mut b) = (self.only_a(), self.only_b());
        a.retain(|&index| members[roots[index]] == 1);
        b.retain(|&index| members[roots[offset + index]] == 1);
        (a, b)
    }

    /// Links all of `a` and `b` that share a key.
    fn link_keys(&mut self, a: &[(String, usize)], b: &[(String, usize)]) {
        let mut keys: BTreeMap<&str, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
        for (key, index) in a {
            keys.entry(key).or_default().0.push(*index);
        }
        for (key, index) in b {
            keys.entry(key).or_default().1.push(*index);
        }
        for (left, right) in keys.values() {
            if let (Some(&first), Some(&other)) = (left.first(), right.first()) {
                for &row in right {
                    self.link_rows(first, row);
                }
                for &row in left {
                    self.link_rows(row, other);
                }
            }
        }
    }

    fn link_places(&mut self) {
        let keys = |rows: &[WorkRow], among: Vec<usize>| -> Vec<(String, usize)> {
            let keyed = |index: usize| {
                let row = &rows[index];
                let places = row.places.iter();
                places.map(move |place| (format!("{} {place}", row.category), index))
            };
            among.into_iter().flat_map(keyed).collect()
        };
        let left = keys(self.a, self.only_a());
        let right = keys(self.b, self.only_b());
        self.link_keys(&left, &right);
    }

    fn link_order(&mut self, a: &[u32], b: &[u32]) {
        let (left_alone, right_alone) = self.unlinked_rows();
        for (from_a, from_b) in gaps_between_equal(a, b, &self.common) {
            let alone = |rows: &[u32], among: &[usize]| -> Vec<usize> {
                let mut rows: Vec<usize> = rows
                    .iter()
                    .map(|&row| row as usize)
                    .filter(|row| among.contains(row))
                    .collect();
                rows.sort_unstable();
                rows.dedup();
                rows
            };
            let (left, right) = (alone(from_a, &left_alone), alone(from_b, &right_alone));
            let mut linked_a = vec![false; left.len()];
            let mut linked_b = vec![false; right.len()];
            for (i, &x) in left.iter().enumerate() {
                for (j, &y) in right.iter().enumerate() {
                    if self.a[x].category == self.b[y].category {
                        self.link_rows(x, y);
                        (linked_a[i], linked_b[j]) = (true, true);
                    }
                }
            }
            if from_a.len().max(from_b.len()) > FUSED_GAP_MAX_LAUNCHES
                || left.is_empty()
                || right.is_empty()
            {
                continue;
            }
            // One side's rest joins what is there of the other.
            for (i, &x) in left.iter().enumerate() {
                if !linked_a[i] {
                    self.link_rows(x, right[0]);
                }
            }
            for (j, &y) in right.iter().enumerate() {
                if !linked_b[j] {
                    self.link_rows(left[0], y);
                }
            }
        }
    }

    fn link_categories(&mut self) {
        let (left, right) = self.unlinked_rows();
        let keys = |rows: &[WorkRow], among: &[usize]| -> Vec<(String, usize)> {
            let keyed = |&index: &usize| (rows[index].category.clone(), index);
            among.iter().map(keyed).collect()
        };
        let (left, right) = (keys(self.a, &left), keys(self.b, &right));
        self.link_keys(&left, &right);
    }

    fn into_changes(mut self) -> Vec<WorkChange> {
        let mut changes = Vec::new();
        for index in 0..self.a.len() {
            if let Some(other) = self.common[index] {
                changes.push(join_rows(&[&self.a[index]], &[&self.b[other]]));
            }
        }
        let mut sets: BTreeMap<usize, (Vec<&WorkRow>, Vec<&WorkRow>)> = BTreeMap::new();
        for index in self.only_a() {
            let root = self.root_of(index);
            sets.entry(root).or_default().0.push(&self.a[index]);
        }
        for index in self.only_b() {
            let root = self.root_of(self.a.len() + index);
            sets.entry(root).or_default().1.push(&self.b[index]);
        }
        changes.extend(sets.values().map(|(a, b)| join_rows(a, b)));
        changes
    }
}

const ATTENTION: &str = "attention";

/// Whether at least half of the time is that of attention, by category, module or operator.
fn is_mostly_attention(rows: &[WorkRow]) -> bool {
    let is_attention = |row: &&WorkRow| {
        let place = row.places.first().map(|place| place.to_lowercase());
        let place = place.unwrap_or_default();
        row.category == ATTENTION
            || place.ends_with("scaled_dot_product_attention")
            || (row.category == "softmax" && place.contains("attn"))
    };
    let sum = |time: f64, row: &WorkRow| time + row.time_ns;
    let attention = rows.iter().filter(is_attention).fold(0.0, sum);
    attention > 0.0 && attention >= 0.5 * rows.iter().fold(0.0, sum)
}

fn join_rows(a: &[&WorkRow], b: &[&WorkRow]) -> WorkChange {
    let sum = |rows: &[&WorkRow]| rows.iter().map(|row| row.time_ns).sum::<f64>();
    let longest = |rows: &[&WorkRow]| {
        let mut rows = rows.to_vec();
        rows.sort_by(|x, y| {
            y.time_ns
                .total_cmp(&x.time_ns)
                .then_with(|| x.name.cmp(&y.name))
        });
        rows.into_iter().cloned().collect::<Vec<WorkRow>>()
    };
    let (left, right) = (longest(a), longest(b));
    let kind = match (left.first(), right.first()) {
        (Some(x), Some(y)) if left.len() == 1 && right.len() == 1 && x.name == y.name => {
            ChangeKind::Changed
        }
        (Some(_), Some(_)) => ChangeKind::Replaced,
        (None, _) => ChangeKind::Added,
        (_, None) => ChangeKind::Removed,
    };
    let place = match (left.first(), right.first()) {
        (Some(x), Some(y)) => x.places.iter().find(|place| y.places.contains(place)),
        (one, other) => one.or(other).and_then(|row| row.places.first()),
    };
    let named = |rows: &[WorkRow]| {
        rows.iter()
            .map(|row| NamedWork {
                name: row.name.clone(),
                calls: row.calls,
                time_ns: row.time_ns,
            })
            .collect()
    };
    let is_attention =
        kind == ChangeKind::Replaced && (is_mostly_attention(&left) || is_mostly_attention(&right));
    let category = left.iter().chain(&right);
    let category = category.max_by(|x, y| x.time_ns.total_cmp(&y.time_ns));
    let category = if is_attention {
        ATTENTION.to_owned()
    } else {
        category.map(|row| row.category.clone()).unwrap_or_default()
    };
    let (a_ns, b_ns) = (sum(a), sum(b));
    WorkChange {
        kind,
        category,
        place: place.cloned(),
        a: named(&left),
        b: named(&right),
        a_ns,
        b_ns,
        delta_ns: b_ns - a_ns,
    }
}

/// The launches between equal launches of two orders, from their longest common subsequence.
fn gaps_between_equal<'s>(
    a: &'s [u32],
    b: &'s [u32],
    common: &[Option<usize>],
) -> Vec<(&'s [u32], &'s [u32])> {
    let equal = |x: u32, y: u32| common.get(x as usize).copied().flatten() == Some(y as usize);
    let (rows, columns) = (a.len(), b.len());
    // Length of the longest common subsequence of what follows; at most 2001 × 2001 numbers.
    let mut length = vec![0_u16; (rows + 1) * (columns + 1)];
    let at = |i: usize, j: usize| i * (columns + 1) + j;
    for i in (0..rows).rev() {
        for j in (0..columns).rev() {
            length[at(i, j)] = if equal(a[i], b[j]) {
                length[at(i + 1, j + 1)] + 1
            } else {
                length[at(i + 1, j)].max(length[at(i, j + 1)])
            };
        }
    }
    let mut gaps = Vec::new();
    let (mut i, mut j, mut from_i, mut from_j) = (0, 0, 0, 0);
    while i < rows || j < columns {
        let matched = i < rows && j < columns && equal(a[i], b[j]);
        if matched {
            if i > from_i && j > from_j {
                gaps.push((&a[from_i..i], &b[from_j..j]));
            }
            (i, j) = (i + 1, j + 1);
            (from_i, from_j) = (i, j);
        } else if j >= columns || (i < rows && length[at(i + 1, j)] >= length[at(i, j + 1)]) {
            i += 1;
        } else {
            j += 1;
        }
    }
    if i > from_i && j > from_j {
        gaps.push((&a[from_i..i], &b[from_j..j]));
    }
    gaps
}

#[cfg(test)]
mod tests {
    use llmprof_record::run::RunPhase;

    use super::*;

    fn row(name: &str, category: &str, time_ns: f64, place: &str) -> WorkRow {
        WorkRow {
            name: name.to_owned(),
            category: category.to_owned(),
            calls: 1.0,
            time_ns,
            places: (!place.is_empty())
                .then(|| place.to_owned())
                .into_iter()
                .collect(),
        }
    }

    fn phase(work: Vec<WorkRow>, sequence: &[u32]) -> PhaseFacts {
        PhaseFacts {
            name: "decode".to_owned(),
            phase: RunPhase::Decode,
            on_device: true,
            steps: 1,
            has_steps: true,
            wall_ns: 0.0,
            plain_wall_ns: None,
            busy_ns: 0.0,
            idle_ns: 0.0,
            overlap_ns: 0.0,
            parts: Vec::new(),
            idle_causes: Vec::new(),
            overhead_ratio: None,
            work,
            operators: Vec::new(),
            sequence: sequence.to_vec(),
            step_ns: Vec::new(),
            pass_shape: None,
        }
    }

    /// gemm, pow, mean, mul, attention → gemm, rms_norm, attention2: the fused norm stands for three, attention is replaced by place.
    #[test]
    fn a_fused_kernel_stands_for_those_it_replaced() {
        let a = phase(
            vec![
                row("gemm", "gemm", 10.0, "mlp"),
                row("pow", "elementwise", 2.0, "aten::pow"),
                row("mean", "reduce", 3.0, "aten::mean"),
                row("mul", "elementwise", 2.0, "aten::mul"),
                row("flash", "attention", 20.0, "attn"),
            ],
            &[0, 1, 2, 3, 0, 4, 0],
        );
        let b = phase(
            vec![
                row("gemm", "gemm", 11.0, "mlp"),
                row("rms_norm", "norm", 4.0, ""),
                row("flash2", "attention", 15.0, "attn"),
            ],
            &[0, 1, 0, 2, 0],
        );
        let changes = find_changes(&a, &b);
        let total: f64 = changes.iter().map(|change| change.delta_ns).sum();
        assert_eq!(total, 30.0 - 37.0);
        let norm = changes
            .iter()
            .find(|change| change.b[0].name == "rms_norm")
            .unwrap();
        assert_eq!(
            (norm.kind, norm.a.len(), norm.delta_ns),
            (ChangeKind::Replaced, 3, -3.0)
        );
        let attention = changes
            .iter()
            .find(|change| change.category == "attention")
            .unwrap();
        assert_eq!(attention.place.as_deref(), Some("attn"));
        assert_eq!(
            (attention.delta_ns, attention.a[0].name.as_str()),
            (-5.0, "flash")
        );
        let gemm = changes
            .iter()
            .find(|change| change.category == "gemm")
            .unwrap();
        assert_eq!((gemm.kind, gemm.delta_ns), (ChangeKind::Changed, 1.0));
    }

    /// Scores and softmax as tensors take longer than the fused kernel: the change is still attention's.
    #[test]
    fn attention_that_was_replaced_is_called_attention() {
        let fused = phase(
            vec![
                row("gemm", "gemm", 10.0, "mlp"),
                row("flash", "attention", 5.0, ""),
            ],
            &[0, 1, 0],
        );
        let unfused = phase(
            vec![
                row("gemm", "gemm", 10.0, "mlp"),
                row("softmax", "softmax", 30.0, "aten::softmax"),
                row("copy", "copy", 20.0, "aten::copy_"),
            ],
            &[0, 2, 1, 0],
        );
        for (a, b) in [(&fused, &unfused), (&unfused, &fused)] {
            let changes = find_changes(a, b);
            assert_eq!(changes[0].kind, ChangeKind::Replaced);
            assert_eq!(changes[0].category, "attention");
        }
        // Elementwise kernels of the same module are not.
        let with = |name: &str| {
            let norm = row(name, "elementwise", 3.0, "model.layers.*.self_attn");
            phase(vec![norm, row("gemm", "gemm", 1.0, "")], &[0, 1])
        };
        let changes = find_changes(&with("x"), &with("y"));
        let mut replaced = changes
            .iter()
            .filter(|one| one.kind == ChangeKind::Replaced);
        assert!(replaced.all(|one| one.category == "elementwise"));
    }

    #[test]
    fn what_one_side_lacks_is_added_or_removed() {
        let a = phase(vec![row("x", "gemm", 1.0, "")], &[0]);
        let b = phase(
            vec![row("y", "norm", 2.0, ""), row("x", "gemm", 1.0, "")],
            &[0, 1],
        );
        let changes = find_changes(&a, &b);
        assert_eq!(
            (changes[0].kind, changes[0].delta_ns),
            (ChangeKind::Added, 2.0)
        );
        let back = find_changes(&b, &a);
        assert_eq!(
            (back[0].kind, back[0].delta_ns),
            (ChangeKind::Removed, -2.0)
        );
    }

    /// Everything has another name: kernels are linked by category, not into one heap.
    #[test]
    fn another_library_is_linked_by_category() {
        let names = |prefix: &str| {
            vec![
                row(&format!("{prefix}_gemm"), "gemm", 5.0, ""),
                row(&format!("{prefix}_attention"), "attention", 2.0, ""),
            ]
        };
        let order: Vec<u32> = [0, 1].repeat(20);
        let changes = find_changes(&phase(names("a"), &order), &phase(names("b"), &order));
        assert_eq!(changes.len(), 2);
        assert!(
            changes
                .iter()
                .all(|change| change.kind == ChangeKind::Replaced)
        );
    }
}
