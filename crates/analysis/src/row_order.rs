//! Puts rows in order. The standard library's sort is compiled for every type of row and every closure; here keys of two types
//! are sorted, and the rows are moved into place.

use std::cmp::Reverse;

/// Sorts by a number, the smallest first; equal rows keep their order.
pub(crate) fn sort_ascending<T>(rows: &mut [T], number: impl Fn(&T) -> i64) {
    sort_descending(rows, |row| !number(row));
}

/// Sorts by a number, the largest first; equal rows keep their order.
pub(crate) fn sort_descending<T>(rows: &mut [T], number: impl Fn(&T) -> i64) {
    let keys = rows.iter().map(|row| Reverse(number(row))).collect();
    move_rows(rows, number_places(keys));
}

/// Sorts in descending [`f64::total_cmp`] order; equal rows keep their order.
pub(crate) fn sort_descending_f64<T>(rows: &mut [T], number: impl Fn(&T) -> f64) {
    sort_descending(rows, |row| {
        let bits = number(row).to_bits().cast_signed();
        // The bits of a negative number count down.
        bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
    });
}

/// Sorts by a number, the largest first, then by name.
pub(crate) fn sort_descending_named<T>(
    rows: &mut [T],
    key: impl for<'r> Fn(&'r T) -> (i64, &'r str),
) {
    let keys = rows.iter().map(|row| {
        let (number, name) = key(row);
        (Reverse(number), name)
    });
    let places = named_places(keys.collect());
    move_rows(rows, places);
}

fn number_places(keys: Vec<Reverse<i64>>) -> Vec<usize> {
    places_by_key(keys)
}

fn named_places(keys: Vec<(Reverse<i64>, &str)>) -> Vec<usize> {
    places_by_key(keys)
}

/// The place of each key's row in the sorted order.
fn places_by_key<K: Ord>(keys: Vec<K>) -> Vec<usize> {
    let mut order: Vec<(K, usize)> = keys.into_iter().zip(0..).collect();
    order.sort_unstable();
    let mut places = vec![0; order.len()];
    for (place, (_, row)) in order.into_iter().enumerate() {
        places[row] = place;
    }
    places
}

fn move_rows<T>(rows: &mut [T], mut places: Vec<usize>) {
    for row in 0..places.len() {
        while places[row] != row {
            let place = places[row];
            rows.swap(row, place);
            places.swap(row, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn orders_are_those_of_the_standard_library(
            rows in prop::collection::vec((-3i64..3, "[ab]{0,2}", prop::num::f64::ANY), 0..40)
        ) {
            let rows: Vec<(usize, (i64, String, f64))> = rows.into_iter().enumerate().collect();
            let numbers = |rows: &[(usize, (i64, String, f64))]| {
                rows.iter().map(|(number, _)| *number).collect::<Vec<_>>()
            };
            let (mut ours, mut theirs) = (rows.clone(), rows.clone());
            sort_descending(&mut ours, |(_, row)| row.0);
            theirs.sort_by_key(|(_, row)| Reverse(row.0));
            prop_assert_eq!(numbers(&ours), numbers(&theirs));
            sort_ascending(&mut ours, |(_, row)| row.0);
            theirs.sort_by_key(|(_, row)| row.0);
            prop_assert_eq!(numbers(&ours), numbers(&theirs));
            let (mut ours, mut theirs) = (rows.clone(), rows.clone());
            sort_descending_named(&mut ours, |(_, row)| (row.0, &row.1));
            theirs.sort_by(|(_, a), (_, b)| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
            prop_assert_eq!(numbers(&ours), numbers(&theirs));
            let (mut ours, mut theirs) = (rows.clone(), rows);
            sort_descending_f64(&mut ours, |(_, row)| row.2);
            theirs.sort_by(|(_, a), (_, b)| b.2.total_cmp(&a.2));
            prop_assert_eq!(numbers(&ours), numbers(&theirs));
        }
    }
}
