//! Operators that compute on the CPU, and calls that take far longer on the host than usual.

use crate::thresholds::{CPU_OPERATOR_MIN_NS, SLOW_CALL_MIN_NS, SLOW_CALL_MIN_RATIO};
use llmprof_record::kernel_name::Category;
use llmprof_record::trace::{CopyKind, StrId};
use llmprof_units::{Nanos, stats::upper_median};
use rustc_hash::{FxHashMap, FxHashSet};

use super::cause::CauseKind;
use super::contention::is_contended;
use super::copies::host_operators_after;
use super::pinned_memory::is_pinning;
use super::{CauseCandidate, Scene};
use crate::matching::operator_category::operator_category;
use crate::replay::{CallEffect, CallWait, DeviceRow, Edit};

#[derive(Default)]
struct HostOperatorGroup {
    edit: Edit,
    /// The same edit with the copies of results to the device left in place.
    partial: Option<Edit>,
    count: u64,
    time: i64,
    row: usize,
    names: FxHashSet<StrId>,
}

impl HostOperatorGroup {
    fn remove(&mut self, scene: &Scene<'_>, row: usize) {
        scene.remove(&mut self.edit, row);
        if let Some(partial) = &mut self.partial {
            scene.remove(partial, row);
        }
    }
}

pub(super) fn find_host_operators(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let mut candidates = operators_on_cpu(scene);
    if !is_contended(scene) {
        candidates.extend(slow_calls(scene));
    }
    candidates
}

/// What the host computes after a copy belongs to that copy.
fn after_copies(scene: &Scene<'_>) -> FxHashSet<usize> {
    let copies = scene.tops.iter().filter(|&&top| {
        let work = &scene.graph.work()[scene.work_of(top)];
        work.iter()
            .any(|work| matches!(work.row, DeviceRow::Copy(_)))
    });
    copies
        .flat_map(|&top| host_operators_after(scene, top))
        .collect()
}

fn operators_on_cpu(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let copied = after_copies(scene);
    let mut group = HostOperatorGroup::default();
    let mut longest = 0;
    // Views and new tensors since the last operator that computes: between two of them they exist for their sake.
    let mut between = None;
    for &top in &scene.tops {
        let time = scene.trace.hosts.duration[top];
        let is_of_host = scene.api(top).is_none()
            && scene.work_of(top).is_empty()
            && !has_launch(scene, top)
            && !copied.contains(&top);
        if !is_of_host {
            // A result that the device computes itself need not be sent there.
            if between.take().is_some() && sends_to_device(scene, top) {
                let computed = || group.edit.clone();
                group.partial.get_or_insert_with(computed);
                scene.remove(&mut group.edit, top);
            }
            continue;
        }
        if time < CPU_OPERATOR_MIN_NS && !is_arithmetic(scene.name(top)) || is_view(scene, top) {
            if let Some(between) = &mut between {
                Vec::push(between, top);
            }
            continue;
        }
        for helper in between.replace(Vec::new()).unwrap_or_default() {
            group.remove(scene, helper);
        }
        group.remove(scene, top);
        group.count += 1;
        group.time += time;
        group.names.insert(scene.trace.hosts.name[top]);
        if time > longest {
            longest = time;
            group.row = top;
        }
    }
    let candidate = (group.count > 0).then(|| make_candidate(scene, group, true));
    candidate.into_iter().collect()
}

/// Whether all that an operator launches are copies to the device.
fn sends_to_device(scene: &Scene<'_>, top: usize) -> bool {
    let mut work = scene.graph.work()[scene.work_of(top)].iter().peekable();
    work.peek().is_some()
        && work.all(|work| match work.row {
            DeviceRow::Copy(row) => {
                scene.trace.copies.kind[row as usize] == CopyKind::HOST_TO_DEVICE
            }
            _ => false,
        })
}

/// Whether an operator computes for any arguments, which without device work it does on the CPU. Casts, dropout and the like may
/// return their input.
fn is_arithmetic(name: &str) -> bool {
    let computes = matches!(
        operator_category(name),
        Category::Elementwise
            | Category::Reduce
            | Category::Scan
            | Category::Cat
            | Category::Sort
            | Category::Softmax
            | Category::Gemm
    );
    computes && !name.contains("dropout") || name == "aten::is_nonzero"
}

/// Whether work of a device was launched inside, although the trace does not hold it.
fn has_launch(scene: &Scene<'_>, top: usize) -> bool {
    let mut calls = scene.rows_in(top).filter_map(|row| scene.api(row));
    calls.any(|api| matches!(api, CallEffect::Launch | CallEffect::Transfer))
}

/// Whether an operator and all that it calls touch no data: what takes long there is the code around them, such as a debugging aid.
fn is_view(scene: &Scene<'_>, top: usize) -> bool {
    let mut rows = scene.rows_in(top).filter(|&row| scene.is_operator(row));
    rows.all(|row| operator_category(scene.name(row)) == Category::View)
}

/// Segments of operators and calls that are far longer than others of the same name.
fn slow_calls(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let mut by_name: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
    for segment in scene.segments() {
        let Some(row) = scene.graph.row_of_segment(segment) else {
            continue;
        };
        let is_other = match scene.api(row) {
            Some(CallEffect::Memory | CallEffect::Transfer) => true,
            Some(api) => api.waits_by_itself() || is_pinning(scene, row),
            None => scene.is_code(segment),
        };
        let computes_on_cpu = scene
            .top_of(segment)
            .is_some_and(|top| scene.api(top).is_none() && scene.work_of(top).is_empty());
        if !is_other && !computes_on_cpu && scene.graph.wait_of(segment) == CallWait::No {
            by_name.entry(scene.name(row)).or_default().push(segment);
        }
    }
    let mut candidates = Vec::new();
    let mut names: Vec<_> = by_name.into_iter().collect();
    names.sort_by_key(|(name, _)| *name);
    for (_, segments) in names {
        let mut times: Vec<i64> = segments
            .iter()
            .map(|&segment| scene.graph.segment_duration(segment))
            .collect();
        let usual = upper_median(&mut times).unwrap_or(0);
        let least = SLOW_CALL_MIN_NS.max(SLOW_CALL_MIN_RATIO * usual);
        let mut group = HostOperatorGroup::default();
        for segment in segments {
            let time = scene.graph.segment_duration(segment);
            if time < least && !(time >= SLOW_CALL_MIN_NS && usual >= SLOW_CALL_MIN_NS) {
                continue;
            }
            let most = if usual >= SLOW_CALL_MIN_NS { 0 } else { usual };
            group.edit.limit_segment(segment, most);
            group.count += 1;
            group.time += time;
            group.row = scene.graph.row_of_segment(segment).unwrap_or_default();
        }
        if group.count > 0 {
            candidates.push(make_candidate(scene, group, false));
        }
    }
    candidates
}

fn make_candidate(scene: &Scene<'_>, group: HostOperatorGroup, on_cpu: bool) -> CauseCandidate {
    let mut place = scene.place(group.row);
    place.operator = Some(scene.name(group.row).to_owned());
    CauseCandidate {
        kind: CauseKind::HostOperators {
            time_ns: Nanos(scene.a_step(group.time)),
            on_cpu,
            others: (group.names.len() as u64).saturating_sub(1),
        },
        place,
        count: group.count,
        edit: group.edit,
        partial: group.partial.map(|partial| vec![partial]),
    }
}

#[cfg(test)]
mod tests {
    use llmprof_record::trace::CopyKind;

    use crate::causes::sketch::Sketch;
    use crate::thresholds::GAIN_LOW_RATIO;

    fn sketch_host_operator(us: i64) -> Sketch {
        sketch_operator("aten::triu", us)
    }

    fn sketch_operator(name: &str, us: i64) -> Sketch {
        let mut sketch = Sketch::default();
        for _ in 0..4 {
            sketch.host_operator(name, us);
            for _ in 0..4 {
                sketch.matrix_product(16, 2048, 2048, 20);
            }
            sketch.synchronize();
        }
        sketch
    }

    #[test]
    fn an_operator_that_computes_on_the_cpu_is_a_cause() {
        let (saved, now) = sketch_host_operator(400)
            .diagnose()
            .gain_of("host_operators")
            .unwrap();
        assert!((1.5..1.7).contains(&saved), "{saved} of {now} ms");
        // No more than the operators take.
        let diagnosed = sketch_host_operator(400).diagnose();
        let gain = &diagnosed.cause("host_operators").unwrap().gains[0];
        assert!(gain.high_ns.0 < 1_700_000, "{gain:?}");
    }

    /// What the host computes is sent by a copy of 2 ms: where the device computes it there is nothing to send.
    #[test]
    fn the_copy_of_a_result_goes_with_it() {
        let mut sketch = Sketch::default();
        for _ in 0..4 {
            sketch.host_operator("aten::div", 1_000);
            sketch.host_operator("aten::permute", 4);
            sketch.copy(CopyKind::HOST_TO_DEVICE, 64 << 20, 2_000);
            sketch.matrix_product(512, 2048, 2048, 500);
            sketch.synchronize();
        }
        let diagnosed = sketch.diagnose();
        let gain = &diagnosed.cause("host_operators").unwrap().gains[0];
        let saved = gain.saved_ns.0 as f64 / 1e6;
        assert!((11.5..12.2).contains(&saved), "{gain:?}");
        let low = gain.low_ns.0 as f64 / 1e6 / GAIN_LOW_RATIO;
        assert!((3.8..4.2).contains(&low), "{gain:?}");
    }

    /// Anomaly detection writes a traceback for every operator, also for those that touch no data.
    #[test]
    fn a_slow_view_does_not_compute() {
        let diagnosed = sketch_operator("aten::transpose", 400).diagnose();
        assert_eq!(diagnosed.gain_of("host_operators"), None);
    }

    #[test]
    fn a_view_is_none() {
        assert_eq!(
            sketch_host_operator(5).diagnose().gain_of("host_operators"),
            None
        );
    }
}
