//! CUDA and HIP graphs.

use llmprof_units::{Count, Nanos, Percent};

use crate::analyzed::{AttributedBy, GraphAnalysis, GraphSource};

/// How much ran in graphs, and what it is attributed by.
pub fn basis(graphs: &GraphAnalysis) -> String {
    let ran = format!(
        "{} ran {} (kernels and copies, {} device time).",
        Count(graphs.launches, "graph launch"),
        Count(graphs.events, "graph node"),
        graphs.device_ns
    );
    if graphs.attributed_by.is_empty() {
        return format!("{ran} Nothing says which ops these kernels were captured from.");
    }
    let sources = graphs.attributed_by.iter();
    let sources: Vec<String> = sources
        .map(|attributed| source(graphs, attributed))
        .collect();
    let rest = Percent(1.0 - graphs.covered());
    let rest = if graphs.covered_ns < graphs.device_ns {
        format!(" {rest} of that time is attributed to nothing.")
    } else {
        String::new()
    };
    format!("{ran} {}{rest}", sources.join(" "))
}

/// What one source attributes kernels to, and how much time it covers.
fn source(graphs: &GraphAnalysis, attributed: &AttributedBy) -> String {
    let share = attributed.covered_ns.0 as f64 / graphs.device_ns.0.max(1) as f64;
    let (time, share) = (attributed.covered_ns, Percent(share));
    match attributed.source {
        GraphSource::CaptureTrace => format!(
            "Capture trace: {time} ({share}) is attributed to the ops that were recorded while graphs were captured ({}; a launch replays the capture \
             with as many nodes, the same kernels where they are named, the same batch size, in the order of capture).",
            Count(graphs.captures, "stream capture")
        ),
        GraphSource::NodeIds => format!(
            "Node ids: {time} ({share}) is attributed to the ranges that were open when its graph node was captured."
        ),
        GraphSource::ModelSequence => format!(
            "Model: {time} ({share}) is attributed by aligning the kernel sequence with the operators of the model, since neither a capture nor node \
             ids are recorded for it. In these steps each layer has all GEMMs, experts and attention of the model."
        ),
    }
}

/// One fact beside those of the trace, where kernels of graphs are attributed.
pub(crate) fn covered(graphs: &GraphAnalysis, device_time: Nanos) -> Option<String> {
    let source = match graphs.source? {
        GraphSource::CaptureTrace => "the capture trace",
        GraphSource::NodeIds => "graph node ids",
        GraphSource::ModelSequence => "the model's operators in order",
    };
    let others = if graphs.attributed_by.len() > 1 {
        ", most of it"
    } else {
        ""
    };
    Some(format!(
        "Kernels of graphs took {} ({} of GPU time); {} of that is attributed to ops or modules{others} by {source}.",
        graphs.device_ns,
        Percent(graphs.device_ns.0 as f64 / device_time.0.max(1) as f64),
        Percent(graphs.covered())
    ))
}
