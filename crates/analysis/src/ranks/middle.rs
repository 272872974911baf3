//! Medians of whole numbers: times since 1970 in ns do not fit a double.

/// The lower median; 0 of nothing.
pub(super) fn median(values: &mut [i64]) -> i64 {
    if values.is_empty() {
        return 0;
    }
    let middle = (values.len() - 1) / 2;
    *values.select_nth_unstable(middle).1
}

/// The median of some values, and their median distance from it.
pub(super) fn deviation(values: &mut [i64]) -> (i64, i64) {
    let middle = median(values);
    let distance = |value: &i64| value.saturating_sub(middle).saturating_abs();
    let mut distances: Vec<i64> = values.iter().map(distance).collect();
    (middle, median(&mut distances))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_by_hand() {
        assert_eq!(median(&mut []), 0);
        assert_eq!(deviation(&mut [7, 1, 3, 100, 4]), (4, 3));
    }
}
