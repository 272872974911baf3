//! The table of kernels as `nsys stats --report cuda_gpu_kern_sum --format csv` writes it.

use llmprof_units::Nanos;

use super::TimeRow;

const HEADER: &str =
    "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n";

/// Rows in their order; times are whole nanoseconds, means and deviations have one digit after the point.
pub fn kernel_summary_csv(rows: &[TimeRow]) -> String {
    let total: Nanos = rows.iter().map(|row| row.total_ns).sum();
    let mut text = HEADER.to_owned();
    for row in rows {
        let times = &row.times;
        let optional =
            |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.1}"));
        text += &format!(
            "{:.1},{},{},{:.1},{},{:.0},{:.0},{},{}\n",
            100.0 * row.total_ns.0 as f64 / total.0.max(1) as f64,
            row.total_ns.0,
            times.count,
            times.mean,
            optional(times.median),
            times.min,
            times.max,
            optional(times.deviation),
            quote_cell(&row.name)
        );
    }
    text
}

/// Quoted where a comma, a quote or a line end would end the cell.
fn quote_cell(name: &str) -> String {
    if name.contains([',', '"', '\n']) {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::Spread;

    #[test]
    fn rows_are_those_of_nsys() {
        let row = |name: &str, times: &mut [i64]| TimeRow {
            name: name.to_owned(),
            total_ns: Nanos(times.iter().sum()),
            times: Spread::from_values(times).unwrap(),
            style: None,
            grid: None,
            block: None,
        };
        let rows = [row("f<a, \"b\">", &mut [10, 20, 60]), row("g", &mut [10])];
        let text = kernel_summary_csv(&rows);
        assert_eq!(
            text.strip_prefix(HEADER).unwrap(),
            "90.0,90,3,30.0,20.0,10,60,26.5,\"f<a, \"\"b\"\">\"\n10.0,10,1,10.0,10.0,10,10,0.0,g\n"
        );
    }
}
