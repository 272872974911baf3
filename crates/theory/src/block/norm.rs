use crate::weight::{Dims, Visitor, WeightSpec};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// `x ÷ rms(x) × weight`.
    Rms,
    /// `x ÷ rms(x) × (1 + weight)`, as Gemma stores it.
    RmsUnitOffset,
    /// `(x − mean) ÷ deviation × weight + bias`.
    Layer,
}

impl NormKind {
    /// Operations per element: for RMS the square, its sum, the two products; layer norm adds the mean, its
    /// subtraction and the bias. Per-row work (one root, one division) is left out.
    pub(crate) fn flops_per_element(self) -> u64 {
        match self {
            Self::Rms => 4,
            Self::RmsUnitOffset => 5,
            Self::Layer => 7,
        }
    }
}

/// A normalization over the last dimension.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// Module path inside its layer.
    pub name: &'static str,
    /// Elements that are normalized together.
    pub width: u64,
    pub kind: NormKind,
    pub epsilon: f64,
    /// Whether there is a learned bias (layer norm only).
    pub bias: bool,
}

impl Norm {
    pub(crate) fn rms_norm(name: &'static str, width: u64, epsilon: f64) -> Self {
        Self {
            name,
            width,
            kind: NormKind::Rms,
            epsilon,
            bias: false,
        }
    }

    /// A layer norm with bias.
    pub fn layer_norm(name: &'static str, width: u64, epsilon: f64) -> Self {
        Self {
            name,
            width,
            kind: NormKind::Layer,
            epsilon,
            bias: true,
        }
    }

    pub fn parameter_count(&self) -> u64 {
        self.width.saturating_mul(1 + u64::from(self.bias))
    }

    pub(crate) fn visit_weights(&self, visitor: &mut Visitor<'_>) {
        visitor.visit(WeightSpec::new(
            self.name,
            "weight",
            Dims::from([self.width]),
        ));
        if self.bias {
            visitor.visit(WeightSpec::new(self.name, "bias", Dims::from([self.width])));
        }
    }
}
