use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a set of values is spread. In the unit of the values: ns unless a row says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Spread {
    /// How many values there are.
    pub count: u64,
    /// Mean of the values.
    pub mean: f64,
    /// Their median: the middle value, or the mean of the two in the middle. Absent where a report lacks it.
    pub median: Option<f64>,
    /// The smallest of the values.
    pub min: f64,
    /// The largest of the values.
    pub max: f64,
    /// Their standard deviation with n − 1 in the denominator; 0 for one value. Absent where a report lacks it.
    pub deviation: Option<f64>,
}

impl Spread {
    /// The spread of some values, which come back sorted; `None` for none.
    pub fn from_values(values: &mut [i64]) -> Option<Self> {
        values.sort_unstable();
        let (&min, &max) = (values.first()?, values.last()?);
        let count = values.len();
        let sum: i128 = values.iter().map(|value| i128::from(*value)).sum();
        let mean = sum as f64 / count as f64;
        let middle = count / 2;
        let median = if count % 2 == 1 {
            values[middle] as f64
        } else {
            (i128::from(values[middle - 1]) + i128::from(values[middle])) as f64 / 2.0
        };
        let squares: f64 = values
            .iter()
            .map(|value| (*value as f64 - mean).powi(2))
            .sum();
        let deviation = if count > 1 {
            (squares / (count - 1) as f64).sqrt()
        } else {
            0.0
        };
        Some(Self {
            count: count as u64,
            mean,
            median: Some(median),
            min: min as f64,
            max: max as f64,
            deviation: Some(deviation),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn worked_by_hand() {
        // Mean 5, squares 9 + 1 + 1 + 1 + 0 + 0 + 4 + 16 = 32 over n − 1 = 7.
        let spread = Spread::from_values(&mut [9, 2, 4, 4, 4, 5, 5, 7]).expect("values");
        assert_eq!(
            (spread.count, spread.mean, spread.median),
            (8, 5.0, Some(4.5))
        );
        assert_eq!((spread.min, spread.max), (2.0, 9.0));
        assert_eq!(spread.deviation, Some((32.0_f64 / 7.0).sqrt()));
    }

    #[test]
    fn one_value_and_none() {
        let one = Spread::from_values(&mut [7]).expect("a value");
        assert_eq!((one.median, one.deviation), (Some(7.0), Some(0.0)));
        assert_eq!(Spread::from_values(&mut []), None);
    }

    #[test]
    fn extremes_do_not_overflow() {
        let spread = Spread::from_values(&mut [i64::MAX, i64::MAX]).expect("values");
        assert_eq!(spread.median, Some(i64::MAX as f64));
    }
}
