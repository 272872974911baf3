//! FLOPs and minimum DRAM traffic of one step whose sequences differ.

use crate::{
    cost::Cost,
    model::Model,
    operator::Operator,
    step::{Batch, Bound, Step},
    workload::Workload,
};

impl Model {
    /// Sends the decoder's distinct operators of a step to `sink`, as [`lower_pass`](Self::lower_pass) does for a pass.
    ///
    /// Weights are read once a step. Latent attention has two operators a layer in a mixed step with an absorbed decode:
    /// one over expanded keys (prefill), one over the latent (decode). Where the step does not tell all that attention
    /// needs, its operators are the least that the facts allow, with the basis `Derived`.
    pub fn lower_step<'m>(
        &'m self,
        workload: &Workload,
        step: &Step,
        sink: &mut dyn FnMut(&Operator<'m>),
    ) {
        self.lower_step_bound(workload, step, Bound::Lower, sink);
    }

    fn lower_step_bound<'m>(
        &'m self,
        workload: &Workload,
        step: &Step,
        bound: Bound,
        sink: &mut dyn FnMut(&Operator<'m>),
    ) {
        let pass = step.as_pass(workload.logits);
        if pass.queries > 0 {
            self.lower_batch(workload, &pass, Some(Batch { step, bound }), sink);
        }
    }

    /// The total of a step; the least that its facts allow where they leave a choice.
    pub fn cost_step(&self, workload: &Workload, step: &Step) -> Cost {
        let mut cost = Cost::default();
        self.lower_step(workload, step, &mut |operator| cost.add_operator(operator));
        cost
    }

    /// The least and the most that a step can cost, equal where its facts leave no choice. No upper bound exists where
    /// cached tokens are not known.
    pub fn cost_step_bounds(&self, workload: &Workload, step: &Step) -> (Cost, Option<Cost>) {
        let lower = self.cost_step(workload, step);
        let upper = step.cached_tokens().map(|_| {
            let mut cost = Cost::default();
            self.lower_step_bound(workload, step, Bound::Upper, &mut |operator| {
                cost.add_operator(operator);
            });
            cost
        });
        (lower, upper)
    }
}
