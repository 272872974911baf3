//! Times of serving engines' kernels between the sizes that a table has.
//!
//! A table has the ratio of measured time to (roofline time + a fixed time) at sizes of two axes that grow with the work: sequences or experts at once, and the
//! rows or keys of each. Between two sizes of a table, time is linear in the first and in the operations and bytes along the second: it rises or falls between two cells
//! as they do, and a device with higher peaks takes less time between them as it does at them.

use super::axis::Axis;

/// Sizes of a kernel along both axes.
pub(super) type Sizes = [f64; 2];

/// The time of a kernel by the times of the four cells around it; `work`: operations and bytes at some sizes. Beyond an axis it is that of the nearest end.
pub(super) fn time_between(
    [first, second]: [&Axis; 2],
    [one, other]: Sizes,
    work: impl Fn(Sizes) -> f64,
    cell: impl Fn(usize, usize) -> f64,
) -> f64 {
    let [row, column] = [first.find_place(one), second.find_place(other)];
    let [low, high] = [row.index, row.next].map(|row| first.value_at(row));
    let [short, long] =
        [column.index, column.next].map(|column| work([low, second.value_at(column)]));
    let share = |at: f64, low: f64, high: f64| {
        if high > low {
            ((at - low) / (high - low)).clamp(0.0, 1.0)
        } else {
            0.0
        }
    };
    let (across, down) = (
        share(one, low, high),
        share(work([low, other]), short, long),
    );
    let mix = |share: f64, low: f64, high: f64| low + (high - low) * share;
    let in_row = |row: usize| mix(down, cell(row, column.index), cell(row, column.next));
    mix(across, in_row(row.index), in_row(row.next))
}

/// Times at the sizes of a table of another device. Nothing was measured on this one: no kernel takes longer than a larger one, which it could be padded to.
#[derive(Clone, Debug)]
pub(super) struct Growth {
    seconds: Vec<f64>,
    columns: usize,
}

impl Growth {
    pub(super) fn new([first, second]: [&Axis; 2], cell: impl Fn(usize, usize) -> f64) -> Self {
        let columns = second.len();
        let places = 0..first.len() * columns;
        let mut seconds: Vec<f64> = places.map(|at| cell(at / columns, at % columns)).collect();
        for place in (0..seconds.len()).rev() {
            let wider = seconds.get(place + columns);
            let longer = seconds.get(place + 1);
            let longer = longer.filter(|_| (place + 1) % columns > 0);
            let larger = [wider, longer].into_iter().flatten();
            seconds[place] = larger.fold(seconds[place], |least, time| least.min(*time));
        }
        Self { seconds, columns }
    }

    pub(super) fn cell_seconds(&self, row: usize, column: usize) -> f64 {
        self.seconds[row * self.columns + column]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By rows: the second falls along its columns, and the last column falls from row to row.
    const CELLS: [[f64; 3]; 2] = [[1.0, 2.0, 9.0], [4.0, 3.0, 8.0]];

    fn test_axes() -> [Axis; 2] {
        [Axis::new(&[1.0, 8.0]), Axis::new(&[1.0, 4.0, 64.0])]
    }

    fn work_of([one, other]: Sizes) -> f64 {
        one * (other + 10.0)
    }

    #[test]
    fn cells_are_exact_and_times_between_two_of_them_go_from_one_to_the_other() {
        let [first, second] = &test_axes();
        let time = |sizes| {
            time_between([first, second], sizes, work_of, |row, column| {
                CELLS[row][column]
            })
        };
        for (row, cells) in CELLS.iter().enumerate() {
            for (column, cell) in cells.iter().enumerate() {
                let read = time([first.value_at(row), second.value_at(column)]);
                assert!((read - cell).abs() < 1e-12, "{read} {cell}");
            }
        }
        let is_between = |times: &[f64]| {
            let rises = times.windows(2).all(|pair| pair[0] <= pair[1]);
            rises || times.windows(2).all(|pair| pair[0] >= pair[1])
        };
        for one in [1.0, 2.5, 8.0] {
            for ends in [[1.0, 4.0], [4.0, 64.0]] {
                let steps =
                    (0..=20).map(|step| ends[0] + f64::from(step) / 20.0 * (ends[1] - ends[0]));
                let times: Vec<f64> = steps.map(|other| time([one, other])).collect();
                assert!(is_between(&times), "{times:?}");
            }
        }
        assert_eq!(time([100.0, 1000.0]), time([8.0, 64.0]));
    }

    #[test]
    fn another_device_takes_no_longer_for_less() {
        let [first, second] = &test_axes();
        let growth = Growth::new([first, second], |row, column| CELLS[row][column]);
        let cells = [0, 1].map(|row| [0, 1, 2].map(|column| growth.cell_seconds(row, column)));
        assert_eq!(cells, [[1.0, 2.0, 8.0], [3.0, 3.0, 8.0]]);
    }
}
