use llmprof_units::{Basis, BytesPerSecond, FlopsPerSecond, Nanos};

/// Operators by arithmetic intensity and rate, under the limits of a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Roofline {
    /// What is shown, where it is not the operators of a model under minimum DRAM traffic.
    pub titles: Option<RooflineTitles>,
    /// The limits; those of one basis are shown together.
    pub roofs: Vec<RooflineCeiling>,
    pub points: Vec<PlottedOperator>,
    /// Whether the device's own figures lack the peak of a pipe that points used: then a page opens with the datasheet's.
    pub own_lacks_peak: bool,
}

/// What a roofline of other things says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct RooflineTitles {
    pub title: String,
    /// The axis of intensity.
    pub intensity: String,
    /// What shapes tell apart, elsewhere phases.
    pub shapes: &'static str,
    /// What colours tell apart, elsewhere kinds of operators.
    pub colors: &'static str,
    /// Whether rates are parts of the peak and intensities parts of the ridge point.
    pub is_normalized: bool,
}

/// A limit: no more than the peak, and no more than the intensity allows the memory to feed.
#[derive(Clone, Debug, PartialEq)]
pub struct RooflineCeiling {
    /// Which unit and memory it is: `bf16 tensor, HBM`.
    pub label: String,
    /// The flat part.
    pub peak_flops_per_s: FlopsPerSecond,
    /// The sloped part.
    pub bandwidth: BytesPerSecond,
    /// Where both figures come from.
    pub basis: Basis,
    /// Whether they are those of this very device, measured or at its clock, and not of a datasheet; the page switches between both.
    pub is_own: bool,
}

/// Operators of one name in one phase.
#[derive(Clone, Debug, PartialEq)]
pub struct PlottedOperator {
    pub label: String,
    /// Its kind: `linear`, `attention`…
    pub kind: String,
    pub phase: String,
    /// FLOPs per byte of minimum DRAM traffic.
    pub intensity: f64,
    /// The rate it ran at.
    pub flops_per_s: FlopsPerSecond,
    /// The time it took over all calls.
    pub time_ns: Nanos,
    pub calls: u64,
    /// The place of the page that says more of it.
    pub anchor: Option<String>,
}

impl RooflineCeiling {
    /// The limit at an intensity.
    pub fn at(&self, intensity: f64) -> FlopsPerSecond {
        FlopsPerSecond((self.bandwidth.0 * intensity).min(self.peak_flops_per_s.0))
    }

    /// The intensity from which the peak, not the memory, is the limit.
    pub fn ridge(&self) -> f64 {
        self.peak_flops_per_s.0 / self.bandwidth.0
    }

    /// What calculates, and the memory that feeds it where the label names one.
    pub(crate) fn unit_and_memory(&self) -> (&str, Option<&str>) {
        match self.label.rsplit_once(", ") {
            Some((unit, memory)) => (unit, Some(memory)),
            None => (&self.label, None),
        }
    }

    /// Whether it can be drawn on logarithmic axes.
    pub(crate) fn is_drawable(&self) -> bool {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        positive(self.peak_flops_per_s.0) && positive(self.bandwidth.0)
    }
}

impl PlottedOperator {
    /// Whether it has a place on logarithmic axes; an operator without arithmetic has none.
    pub(crate) fn is_drawable(&self) -> bool {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        positive(self.intensity) && positive(self.flops_per_s.0)
    }
}
