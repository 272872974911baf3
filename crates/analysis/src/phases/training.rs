//! Whether a trace is of training: a backward pass or an optimizer.

use llmprof_record::trace::Trace;

use crate::labels::is_annotation;

/// PyTorch's own names: its engine runs and sums up gradients, and its optimizers mark their steps.
const BACKWARD: &str = "autograd::engine::evaluate_function: ";
const GRADIENTS: &str = "torch::autograd::AccumulateGrad";
const OPTIMIZER: &str = "Optimizer.step#";

pub(crate) fn is_training(trace: &Trace) -> bool {
    let hosts = &trace.hosts;
    let mut known = rustc_hash::FxHashMap::default();
    let mut is_backward = |name| {
        *known.entry(name).or_insert_with(|| {
            let name = trace.text(name);
            name.starts_with(BACKWARD) || name == GRADIENTS
        })
    };
    (0..hosts.len()).any(|row| is_backward(hosts.name[row])) || {
        let ranges = &trace.ranges;
        (0..ranges.len()).any(|row| {
            is_annotation(ranges.kind[row]) && trace.text(ranges.name[row]).starts_with(OPTIMIZER)
        })
    }
}
