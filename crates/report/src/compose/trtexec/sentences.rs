//! Layers of a TensorRT engine, as `trtexec` timed them.

use llmprof_units::{Count, Nanos, Percent};

pub(super) const TITLE: &str = "Layers of a TensorRT engine";
pub(super) const NO_DEVICE: &str = "no device named";
pub(super) const LAYERS: &str = "By time. Names list what was fused.";

/// The layer type that takes most time.
#[derive(Clone, Copy, Debug)]
pub(super) struct LongestLayers<'a> {
    pub(super) kind: &'a str,
    pub(super) share: f64,
    /// Roofline time ÷ measured time.
    pub(super) of_roofline: Option<f64>,
}

/// Latency, then the layers of an iteration, then the type that takes most of it.
pub(super) fn summary(
    latency_p50: Option<Nanos>,
    layers: u64,
    iteration: Nanos,
    longest: Option<LongestLayers<'_>>,
) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(latency_p50.map(|latency| format!("Latency {latency} (median).")));
    if layers > 0 {
        lines.push(format!(
            "{}, {iteration} per iteration.",
            Count(layers, "layer")
        ));
    }
    lines.extend(longest.map(|longest| {
        let of = longest.of_roofline.map_or(String::new(), |share| {
            format!(", at {} of roofline", Percent(share))
        });
        format!(
            "Layers of type {} take {} of the time{of}.",
            longest.kind,
            Percent(longest.share)
        )
    }));
    lines
}

pub(super) fn roofline(device: &str) -> String {
    format!("Roofline: FP16 peaks of {device}; types with a layer of unknown size have none.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_comes_first() {
        let longest = LongestLayers {
            kind: "gemm",
            share: 0.7,
            of_roofline: Some(0.45),
        };
        assert_eq!(
            summary(Some(Nanos(2_000_000)), 1, Nanos(1_500_000), Some(longest)),
            [
                "Latency 2 ms (median).",
                "1 layer, 1.5 ms per iteration.",
                "Layers of type gemm take 70.0 % of the time, at 45.0 % of roofline."
            ]
        );
        assert_eq!(summary(None, 0, Nanos(0), None), Vec::<String>::new());
    }
}
