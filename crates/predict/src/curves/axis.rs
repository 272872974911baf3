//! Places between the measured values of a table.

use std::sync::LazyLock;

/// An axis of a table, in logarithms.
#[derive(Clone, Debug)]
pub(super) struct Axis(Vec<f64>);

/// Two neighbours on an axis, and the share of the second.
#[derive(Clone, Copy)]
pub(super) struct AxisPlace {
    pub(super) index: usize,
    pub(super) next: usize,
    share: f64,
}

impl Axis {
    pub(super) fn new(values: &[f64]) -> Self {
        Self(values.iter().map(|value| value.log2()).collect())
    }

    /// The axis of what a table has one size of.
    pub(super) fn single_point() -> &'static Self {
        static ONE: LazyLock<Axis> = LazyLock::new(|| Axis::new(&[1.0]));
        &ONE
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn value_at(&self, index: usize) -> f64 {
        self.0[index].exp2()
    }

    /// The nearest value that lies on the axis.
    pub(super) fn clamp(&self, value: f64) -> f64 {
        value.clamp(self.value_at(0), self.value_at(self.len() - 1))
    }

    /// The nearest end outside the axis.
    pub(super) fn find_place(&self, value: f64) -> AxisPlace {
        let at = value.max(1e-300).log2();
        let last = self.0.len() - 1;
        let next = self.0.partition_point(|known| *known <= at);
        if next == 0 {
            return AxisPlace {
                index: 0,
                next: 0,
                share: 0.0,
            };
        }
        if next > last {
            return AxisPlace {
                index: last,
                next: last,
                share: 0.0,
            };
        }
        let (low, high) = (self.0[next - 1], self.0[next]);
        AxisPlace {
            index: next - 1,
            next,
            share: (at - low) / (high - low),
        }
    }
}

impl AxisPlace {
    /// The one or two places on the axis that a value lies at or between.
    pub(super) fn ends(self) -> impl Iterator<Item = usize> + Clone {
        let next = (self.share > 0.0).then_some(self.next);
        [Some(self.index), next].into_iter().flatten()
    }

    pub(super) fn interpolate_by(self, at: impl Fn(usize) -> f64) -> f64 {
        if self.share == 0.0 {
            return at(self.index);
        }
        at(self.index) * (1.0 - self.share) + at(self.next) * self.share
    }
}
