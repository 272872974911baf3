//! The rows of a grid as a table, CSV or JSON.

use llmprof_predict::{Calibration, EfficiencyProfile, Interval, KnownError};
use llmprof_report::{Document, Table, text::predict as text};
use llmprof_units::{Nanos, significant};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Row;
use crate::{
    failure::Failure,
    output::{Output, csv_field},
};

pub(super) fn table(
    axes: &[&str],
    rows: &[Row<'_>],
    about: Vec<String>,
    output: &mut Output,
) -> Result<(), Failure> {
    let needs = rows
        .iter()
        .any(|row| row.ttft.is_some() || row.tpot.is_some());
    let mut headers = vec!["MODEL", "DEVICE"];
    let shown: Vec<usize> = (0..axes.len())
        .filter(|&index| !["model", "hardware.spec"].contains(&axes[index]))
        .collect();
    headers.extend(shown.iter().map(|&index| axes[index]));
    let words = headers.len();
    headers.extend([
        "TTFT",
        "TPOT",
        "TOKENS/S",
        "PREFILL GPU",
        "DECODE STEP GPU",
        "PREFILL BOUND BY",
        "DECODE BOUND BY",
        "MEMORY",
        "FITS",
    ]);
    if needs {
        headers.extend(["TTFT NEEDS", "TPOT NEEDS"]);
    }
    let mut table = Table::new(&headers, words).with_words(&[
        "PREFILL BOUND BY",
        "DECODE BOUND BY",
        "FITS",
        "TTFT NEEDS",
        "TPOT NEEDS",
    ]);
    for row in rows {
        let mut cells = vec![row.model.to_owned(), row.device.name.clone()];
        cells.extend(shown.iter().map(|&index| row.labels[index].to_owned()));
        match &row.outcome {
            Ok(prediction) => {
                cells.extend([
                    seen(prediction.ttft_ns, prediction.ttft_interval),
                    prediction
                        .tpot_ns
                        .map_or_else(dash, |time| seen(time, prediction.tpot_interval)),
                    significant(prediction.tokens_per_s),
                    with_range(prediction.prefill_gpu_ns, prediction.prefill_gpu_interval),
                    with_range(
                        prediction.decode_step_gpu_ns,
                        prediction.decode_step_gpu_interval,
                    ),
                    prediction.prefill.binds.to_string(),
                    prediction.decode_step.binds.to_string(),
                    prediction.memory.needed_bytes.to_string(),
                    match prediction.memory.fits {
                        Some(true) => "yes".to_owned(),
                        Some(false) => "no".to_owned(),
                        None => dash(),
                    },
                ]);
                if needs {
                    cells.extend(
                        [row.ttft, row.tpot]
                            .map(|need| need.map_or_else(dash, |need| text::need(&need))),
                    );
                }
            }
            Err(error) => cells.push(error.to_string()),
        }
        table.row(cells);
    }
    let mut document = Document::new(text::TITLE);
    document.table(table);
    let mut notes = about;
    for profile in profiles(rows) {
        notes.extend(text::notes(profile, quantized(rows, profile)));
    }
    if rows.iter().any(|row| row.workload.parallel.ranks() > 1) {
        notes.push(text::NO_RANGES_OVER_RANKS.to_owned());
    }
    document.list(notes);
    output.document(&document)
}

/// Whether a row of the profile has weights or a KV cache in formats that its software was not measured with.
fn quantized(rows: &[Row<'_>], profile: &EfficiencyProfile) -> bool {
    rows.iter()
        .filter(|row| row.profile.name == profile.name)
        .filter_map(|row| row.outcome.as_ref().ok())
        .any(|prediction| prediction.calibration == Calibration::FormatsNotMeasured)
}

/// The range of a time where it is so wide that no point value means anything.
fn wide_range(range: Option<Interval>) -> Option<String> {
    let range = range?;
    let ends = [range.low_ns, range.high_ns];
    (!text::has_point(ends.map(Nanos::seconds))).then(|| format!("{} to {}", ends[0], ends[1]))
}

/// `12.3 ms (11.5 ms to 13.1 ms)`: with the 90 % range where it is known; the range alone where it is wide.
fn with_range(time: Nanos, range: Option<Interval>) -> String {
    wide_range(range).unwrap_or_else(|| match range {
        Some(range) => format!("{time} ({} to {})", range.low_ns, range.high_ns),
        None => time.to_string(),
    })
}

/// A time that users see: that of the GPU beside it has the range, unless it is wide.
fn seen(time: Nanos, range: Option<Interval>) -> String {
    wide_range(range).unwrap_or_else(|| time.to_string())
}

/// A row as machines read it; the same columns in CSV and JSON.
fn record(axes: &[&str], row: &Row<'_>) -> Map<String, Value> {
    let mut record = Map::new();
    record.insert("model".to_owned(), json!(row.model));
    record.insert("family".to_owned(), json!(row.family));
    record.insert("device".to_owned(), json!(row.device.name));
    record.insert("efficiencies".to_owned(), json!(row.profile.name));
    for (axis, label) in axes.iter().zip(&row.labels) {
        if !["model", "device"].contains(axis) {
            record.insert((*axis).to_owned(), json!(label));
        }
    }
    record.insert("batch_size".to_owned(), json!(row.workload.batch));
    record.insert("prompt_tokens".to_owned(), json!(row.workload.prompt));
    record.insert("new_tokens".to_owned(), json!(row.workload.new_tokens));
    let prediction = row.outcome.as_ref().ok();
    let mut put = |name: &str, value: Option<Value>| {
        record.insert(name.to_owned(), value.unwrap_or(Value::Null));
    };
    let value = |time: Nanos| json!(time);
    put("ttft_ns", prediction.map(|p| value(p.ttft_ns)));
    put("tpot_ns", prediction.and_then(|p| p.tpot_ns).map(value));
    for (name, interval) in [
        ("ttft", prediction.and_then(|p| p.ttft_interval)),
        ("tpot", prediction.and_then(|p| p.tpot_interval)),
        (
            "prefill_gpu",
            prediction.and_then(|p| p.prefill_gpu_interval),
        ),
        (
            "decode_step_gpu",
            prediction.and_then(|p| p.decode_step_gpu_interval),
        ),
    ] {
        put(
            &format!("{name}_low_ns"),
            interval.map(|interval| value(interval.low_ns)),
        );
        put(
            &format!("{name}_high_ns"),
            interval.map(|interval| value(interval.high_ns)),
        );
    }
    put("calibration", prediction.map(|p| json!(p.calibration)));
    put("total_ns", prediction.map(|p| value(p.total_ns)));
    put("tokens_per_s", prediction.map(|p| json!(p.tokens_per_s)));
    put(
        "prefill_gpu_ns",
        prediction.map(|p| value(p.prefill.device_ns)),
    );
    put(
        "decode_step_gpu_ns",
        prediction.map(|p| value(p.decode_step.device_ns)),
    );
    put(
        "prefill_roofline_ns",
        prediction.map(|p| value(p.prefill.roofline_ns)),
    );
    put(
        "prefill_bound_by",
        prediction.map(|p| json!(p.prefill.binds)),
    );
    put(
        "decode_step_roofline_ns",
        prediction.map(|p| value(p.decode_step.roofline_ns)),
    );
    put(
        "decode_bound_by",
        prediction.map(|p| json!(p.decode_step.binds)),
    );
    put(
        "weights_bytes",
        prediction.map(|p| json!(p.memory.weights_bytes)),
    );
    put("kv_bytes", prediction.map(|p| json!(p.memory.kv_bytes)));
    put(
        "fits",
        prediction
            .and_then(|p| p.memory.fits)
            .map(|fits| json!(fits)),
    );
    for (name, need) in [("ttft", row.ttft), ("tpot", row.tpot)] {
        put(
            &format!("{name}_needs_flops_per_s"),
            need.map(|need| json!(need.flops_per_s)),
        );
        put(
            &format!("{name}_needs_bytes_per_s"),
            need.map(|need| json!(need.bytes_per_s)),
        );
        put(&format!("{name}_met"), need.map(|need| json!(need.met)));
    }
    put(
        "error",
        row.outcome
            .as_ref()
            .err()
            .map(|error| json!(error.to_string())),
    );
    record
}

/// The profiles of rows, each once.
fn profiles<'a>(rows: &[Row<'a>]) -> Vec<&'a EfficiencyProfile> {
    let mut found: Vec<&EfficiencyProfile> = Vec::new();
    for row in rows {
        if !found.iter().any(|known| known.name == row.profile.name) {
            found.push(row.profile);
        }
    }
    found
}

/// A row as a line of CSV, after the names of the columns where it is the first.
pub(super) fn csv(axes: &[&str], row: &Row<'_>, is_first: bool, text: &mut String) {
    let record = record(axes, row);
    if is_first {
        let names: Vec<String> = record.keys().map(|name| csv_field(name)).collect();
        *text += &(names.join(",") + "\n");
    }
    for (index, value) in record.values().enumerate() {
        if index > 0 {
            text.push(',');
        }
        match value {
            Value::Null => {}
            Value::String(word) => *text += &csv_field(word),
            other => *text += &other.to_string(),
        }
    }
    text.push('\n');
}

pub(super) fn json(axes: &[&str], rows: &[Row<'_>], about: &[String]) -> Result<Value, Failure> {
    #[derive(Serialize)]
    struct Grid<'a> {
        basis: &'static str,
        from: &'static str,
        efficiencies: &'a str,
        known_error: &'a str,
        /// Errors on held-out models, where the profile has any.
        held_out: Option<&'static KnownError>,
        /// Models that were traced, and the run that predictions start from.
        #[serde(skip_serializing_if = "<[String]>::is_empty")]
        notes: &'a [String],
        points: Vec<Map<String, Value>>,
    }
    let Some(profile) = rows.first().map(|row| row.profile) else {
        return Err(Failure::new(super::NO_POINTS));
    };
    let grid = Grid {
        basis: "predicted",
        from: text::basis(profile),
        efficiencies: &profile.name,
        known_error: &profile.known_error,
        held_out: KnownError::of(&profile.name),
        notes: about,
        points: rows.iter().map(|row| record(axes, row)).collect(),
    };
    serde_json::to_value(grid).map_err(|error| Failure::new(format!("cannot write JSON: {error}")))
}

fn dash() -> String {
    "–".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_range_has_no_point_value() {
        let range = |low, high| {
            let [low_ns, high_ns] = [low, high].map(|ms: i64| Nanos(ms * 1_000_000));
            Some(Interval { low_ns, high_ns })
        };
        let time = Nanos(10_000_000);
        let text = |range| with_range(time, range);
        assert_eq!(text(range(5, 20)), "10 ms (5 ms to 20 ms)");
        assert_eq!(text(range(4, 20)), "4 ms to 20 ms");
        assert_eq!(text(None), "10 ms");
        assert_eq!(seen(time, range(5, 20)), "10 ms");
        assert_eq!(seen(time, range(4, 20)), "4 ms to 20 ms");
    }
}
