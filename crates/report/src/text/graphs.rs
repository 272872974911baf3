//! CUDA and HIP graphs.

use llmprof_units::{Count, Percent};

use crate::analyzed::{GraphAnalysis, GraphSource};

/// How much ran in graphs, and what leads it back.
pub fn basis(graphs: &GraphAnalysis) -> String {
    let ran = format!(
        "{} ran {} (kernels and copies, {} device time).",
        Count(graphs.launches, "graph launch"),
        Count(graphs.events, "graph node"),
        graphs.device_ns
    );
    let covered = Percent(graphs.covered());
    let source = match graphs.source {
        Some(GraphSource::CaptureTrace) => format!(
            "{covered} of that time is attributed to the ops seen at capture: {} recorded, matched to launches by number of nodes, kernel names \
             where the calls name them, batch size and order.",
            Count(graphs.captures, "stream capture")
        ),
        Some(GraphSource::NodeIds) => {
            format!(
                "{covered} of that time is attributed by graph node ids to the ranges that were open at capture."
            )
        }
        Some(GraphSource::ModelSequence) => format!(
            "{covered} of that time is attributed by aligning the kernel sequence with the operators of the model: no capture and no node \
             ids are recorded. Shapes are those of the workload."
        ),
        None => "Nothing says which ops these kernels were captured from.".to_owned(),
    };
    format!("{ran} {source}")
}

/// One fact beside those of the trace, where kernels of graphs were led back.
pub(crate) fn covered(graphs: &GraphAnalysis) -> Option<String> {
    graphs.source?;
    Some(format!(
        "Kernels of graphs took {}; {} of that is attributed to what was captured.",
        graphs.device_ns,
        Percent(graphs.covered())
    ))
}
