use super::Unit;

/// How often values of a quantity fell between two limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    pub title: String,
    /// The unit of the values.
    pub unit: Unit,
    /// Bins from low to high.
    pub bins: Vec<Bin>,
    /// Values to point out: percentiles, a target.
    pub marks: Vec<ValueMark>,
}

/// Values from `low` up to, but not including, `high`; the last bin holds its upper limit too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    pub low: f64,
    pub high: f64,
    pub count: u64,
}

/// A value to point out.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueMark {
    /// Its name: `p50`.
    pub label: String,
    pub value: f64,
}

impl Histogram {
    /// Counts `values` in bins of one width; values that are not finite are left out.
    ///
    /// The width follows Freedman and Diaconis, 2·IQR·n^(−1/3), with at least Sturges' ⌈log2 n⌉ + 1 and at most 80 bins.
    pub fn from_values(
        title: impl Into<String>,
        unit: Unit,
        values: &[f64],
        marks: Vec<ValueMark>,
    ) -> Self {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        Self {
            title: title.into(),
            unit,
            bins: bins(&sorted),
            marks,
        }
    }

    /// How many values it counts.
    pub fn total(&self) -> u64 {
        self.bins.iter().map(|bin| bin.count).sum()
    }
}

fn bins(sorted: &[f64]) -> Vec<Bin> {
    let (Some(&low), Some(&high)) = (sorted.first(), sorted.last()) else {
        return Vec::new();
    };
    let n = sorted.len() as f64;
    let span = high - low;
    if span <= 0.0 || !span.is_finite() {
        let count = sorted.len() as u64;
        return vec![Bin { low, high, count }];
    }
    let quartile = |q: f64| sorted[((n - 1.0) * q).round() as usize];
    let width = 2.0 * (quartile(0.75) - quartile(0.25)) / n.cbrt();
    let least = n.log2().ceil() + 1.0;
    let count = if width > 0.0 {
        (span / width).ceil().max(least)
    } else {
        least
    };
    let count = count.min(80.0) as usize;
    let limit = |index: usize| {
        if index == count {
            high
        } else {
            low + span * index as f64 / count as f64
        }
    };
    let below = |index: usize| {
        if index == count {
            sorted.len()
        } else {
            sorted.partition_point(|&value| value < limit(index))
        }
    };
    (0..count)
        .map(|index| Bin {
            low: limit(index),
            high: limit(index + 1),
            count: (below(index + 1) - below(index)) as u64,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(values: &[f64]) -> Vec<u64> {
        let histogram = Histogram::from_values("t", Unit::Count, values, vec![]);
        histogram.bins.iter().map(|bin| bin.count).collect()
    }

    #[test]
    fn width_by_hand() {
        // 0…7: quartiles at rounded positions 2 and 5, IQR 3, width 2·3/2 = 3, so three bins: fewer than log2 8 + 1.
        assert_eq!(counts(&[0., 1., 2., 3., 4., 5., 6., 7.]), [2, 2, 2, 2]);
        // 100 values, most between 0 and 9 and one at 99: IQR 5, width 10 ÷ 4.64, so 46 bins.
        let mut values: Vec<f64> = (0..99).map(|i| f64::from(i % 10)).collect();
        values.push(99.0);
        assert_eq!(counts(&values).len(), 46);
    }

    #[test]
    fn every_finite_value_is_in_one_bin() {
        assert_eq!(counts(&[]), [] as [u64; 0]);
        assert_eq!(counts(&[5.0, 5.0, f64::NAN, f64::INFINITY]), [2]);
        let values: Vec<f64> = (0..1000)
            .map(|i| ((i * 7919) % 1009) as f64 * 1e5)
            .collect();
        assert_eq!(counts(&values).iter().sum::<u64>(), 1000);
        assert_eq!(
            counts(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 9.0])
                .iter()
                .sum::<u64>(),
            7
        );
        assert_eq!(counts(&[f64::MIN, f64::MAX]), [2]);
    }
}
