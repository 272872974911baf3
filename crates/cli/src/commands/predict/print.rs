//! The rows of a grid as a table, CSV or JSON.

use llmprof_report::{Document, Table, text::predict as text};
use llmprof_theory::predict::{EfficiencyProfile, Need, fixture_comparison};
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
    profile: &EfficiencyProfile,
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
    let mut table = Table::new(&headers, words);
    for row in rows {
        let mut cells = vec![row.model.to_owned(), row.device.name.clone()];
        cells.extend(shown.iter().map(|&index| row.labels[index].to_owned()));
        match &row.outcome {
            Ok(prediction) => {
                cells.extend([
                    prediction.ttft_ns.to_string(),
                    prediction
                        .tpot_ns
                        .map_or_else(dash, |time| time.to_string()),
                    significant(prediction.tokens_per_s),
                    prediction.prefill.device_ns.to_string(),
                    prediction.decode_step.device_ns.to_string(),
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
                            .map(|need| need.map_or_else(dash, |need| self::need(&need))),
                    );
                }
            }
            Err(error) => cells.push(error.to_string()),
        }
        table.row(cells);
    }
    let mut document = Document::new(text::TITLE);
    document.table(table);
    document.list(text::notes(profile));
    output.document(&document)
}

fn need(need: &Need) -> String {
    let verdict = if need.met { "met" } else { "missed" };
    format!("{}, {} ({verdict})", need.flops_per_s, need.bytes_per_s)
}

/// A row as machines read it; the same columns in CSV and JSON.
fn record(axes: &[&str], row: &Row<'_>) -> Map<String, Value> {
    let mut record = Map::new();
    record.insert("model".to_owned(), json!(row.model));
    record.insert("device".to_owned(), json!(row.device.name));
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

pub(super) fn csv(axes: &[&str], rows: &[Row<'_>], output: &mut Output) -> Result<(), Failure> {
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        let record = record(axes, row);
        if index == 0 {
            let names: Vec<String> = record.keys().map(|name| csv_field(name)).collect();
            text += &(names.join(",") + "\n");
        }
        let cells: Vec<String> = record
            .values()
            .map(|value| match value {
                Value::Null => String::new(),
                Value::String(text) => csv_field(text),
                other => other.to_string(),
            })
            .collect();
        text += &(cells.join(",") + "\n");
    }
    output.text(&text)
}

pub(super) fn json(
    axes: &[&str],
    rows: &[Row<'_>],
    profile: &EfficiencyProfile,
    output: &mut Output,
) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Grid<'a> {
        basis: &'static str,
        from: &'static str,
        efficiencies: &'a str,
        known_error: &'a str,
        comparisons: Vec<llmprof_theory::predict::Comparison>,
        points: Vec<Map<String, Value>>,
    }
    output.json(&Grid {
        basis: "predicted",
        from: text::BASIS,
        efficiencies: &profile.name,
        known_error: &profile.known_error,
        comparisons: fixture_comparison(profile),
        points: rows.iter().map(|row| record(axes, row)).collect(),
    })
}

fn dash() -> String {
    "–".to_owned()
}
