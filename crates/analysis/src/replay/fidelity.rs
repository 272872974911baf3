//! How well the rules of the replay explain a recording.

use super::edit::Edit;
use super::graph::Graph;
use super::run::ReplayModel;

impl Graph {
    /// For each window: recorded time, and the time of a replay with one launch latency and one gap, ns.
    pub fn fidelity(&self) -> Vec<(i64, i64)> {
        let constants = ReplayModel {
            event_cost_ns: 0.0,
            with_constants: true,
        };
        let [replayed] = self.replay([constants], &Edit::default());
        self.recorded_lengths().into_iter().zip(replayed).collect()
    }
}
