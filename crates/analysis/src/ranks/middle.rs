//! Medians of whole numbers: times since 1970 in ns do not fit a double.

/// The lower median; 0 of nothing.
pub(super) fn median(values: &mut [i64]) -> i64 {
    if values.is_empty() {
        return 0;
    }
    let middle = (values.len() - 1) / 2;
    *values.select_nth_unstable(middle).1
}

/// The median, between the middle two of an even number; 0 of nothing.
pub(super) fn middle(values: &mut [i64]) -> i64 {
    let lower = median(values);
    if values.is_empty() || values.len() % 2 == 1 {
        return lower;
    }
    let above = values[values.len() / 2..].iter().min();
    lower.midpoint(above.copied().unwrap_or(lower))
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
        assert_eq!(middle(&mut []), 0);
        assert_eq!(middle(&mut [7624, 534]), 4079);
        assert_eq!(middle(&mut [5, 1, 9]), 5);
        assert_eq!(deviation(&mut [7, 1, 3, 100, 4]), (4, 3));
    }
}
