//! Scales from values to pixels, and ticks at numbers that people read.

use super::{ChartWidth, svg::SvgElement, text_width};
use crate::view::Unit;

/// A mapping from values to pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChartAxis {
    logarithmic: bool,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl ChartAxis {
    /// Equal steps of value are equal steps of pixels. A domain with no extent is widened.
    pub(super) fn linear(low: f64, high: f64, from: f64, to: f64) -> Self {
        let (low, high) = match (low.is_finite(), high.is_finite()) {
            (true, true) if high > low => (low, high),
            (true, _) => (low, low + low.abs().max(1.0)),
            _ => (0.0, 1.0),
        };
        Self {
            logarithmic: false,
            low,
            high,
            from,
            to,
        }
    }

    /// Equal ratios of value are equal steps of pixels. The domain is widened to whole decades' readable parts.
    pub(super) fn logarithmic(low: f64, high: f64, from: f64, to: f64) -> Self {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        let (low, high) = if positive(low) && positive(high) && high >= low {
            (low, high.max(low * 10.0))
        } else {
            (1.0, 10.0)
        };
        Self {
            logarithmic: true,
            low,
            high,
            from,
            to,
        }
    }

    /// The pixel of a value.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share * (self.to - self.from)
    }

    /// A tick below a horizontal axis, in the middle of its place but never across the edges of the chart.
    pub(super) fn label(&self, tick: f64, y: f64, unit: Unit, width: ChartWidth) -> SvgElement {
        let text = unit.tick(tick);
        let half = text_width(&text) / 2.0;
        let most = (width.pixels() - half).max(half);
        SvgElement::text(self.at(tick).clamp(half, most), y, &text).class("tick middle")
    }

    /// The ends of the domain.
    pub(super) fn domain(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// About `count` round values inside the domain.
    pub(super) fn ticks(&self, count: usize, unit: Unit) -> Vec<f64> {
        if self.logarithmic {
            self.log_ticks()
        } else {
            self.linear_ticks(count, unit)
        }
    }

    fn linear_ticks(&self, count: usize, unit: Unit) -> Vec<f64> {
        let rough = (self.high - self.low) / count.max(1) as f64;
        let step = if unit.is_binary() {
            rough.log2().ceil().exp2()
        } else {
            round_step(rough)
        };
        if !step.is_finite() || step <= 0.0 {
            return Vec::new();
        }
        let first = (self.low / step).ceil();
        // Beyond 2^53 steps neighbouring ticks are the same float.
        let last = ((self.high / step) * (1.0 + 1e-12)).floor();
        let number = (last - first).clamp(0.0, 1000.0) as usize;
        (0..=number)
            .map(|index| (first + index as f64) * step)
            .filter(|&tick| tick <= self.high * (1.0 + 1e-12))
            .collect()
    }

    fn log_ticks(&self) -> Vec<f64> {
        let (first, last) = (
            self.low.log10().floor() as i32,
            self.high.log10().ceil() as i32,
        );
        let decades = last - first;
        let parts: &[f64] = if decades <= 3 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let stride = (decades / 8).max(1) as usize;
        let inside =
            |tick: &f64| (self.low * (1.0 - 1e-9)..=self.high * (1.0 + 1e-9)).contains(tick);
        (first..=last)
            .step_by(stride)
            .flat_map(|decade| parts.iter().map(move |part| part * 10f64.powi(decade)))
            .filter(inside)
            .collect()
    }
}

/// The first of 1, 2, 5 times a power of ten that is not below `rough`.
fn round_step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|factor| factor * power >= rough * (1.0 - 1e-9))
        .unwrap_or(10.0);
    factor * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_ticks_are_round() {
        let axis = ChartAxis::linear(0.0, 97.0, 0.0, 970.0);
        assert_eq!(axis.ticks(5, Unit::Count), [0.0, 20.0, 40.0, 60.0, 80.0]);
        assert_eq!(axis.at(48.5), 485.0);
        let bytes = ChartAxis::linear(0.0, 5e9, 0.0, 1.0);
        assert_eq!(
            bytes.ticks(4, Unit::Bytes),
            [0.0, 2f64.powi(31), 2f64.powi(32)]
        );
    }

    #[test]
    fn logarithmic_ticks_follow_decades() {
        let wide = ChartAxis::logarithmic(0.5, 2e6, 0.0, 100.0);
        assert_eq!(
            wide.ticks(0, Unit::Count),
            [1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6]
        );
        let narrow = ChartAxis::logarithmic(1.0, 60.0, 100.0, 0.0);
        assert_eq!(
            narrow.ticks(0, Unit::Count),
            [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]
        );
        assert_eq!(narrow.at(60.0), 0.0);
    }

    #[test]
    fn hopeless_domains_still_give_an_axis() {
        for (low, high) in [
            (f64::NAN, 1.0),
            (0.0, 0.0),
            (5.0, -5.0),
            (f64::MIN, f64::MAX),
            (1e300, 1.0),
        ] {
            for axis in [
                ChartAxis::linear(low, high, 0.0, 9.0),
                ChartAxis::logarithmic(low, high, 0.0, 9.0),
            ] {
                assert!(axis.ticks(5, Unit::Count).len() < 1002);
                assert!(axis.ticks(5, Unit::Bytes).len() < 1002);
            }
        }
    }
}
