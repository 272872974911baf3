//! The rows of a grid of predictions as a table, CSV or JSON.

pub mod sentences;

use llmprof_predict::{
    Calibration, EfficiencyProfile, KnownError, Need, PredictError, Prediction, PredictionInterval,
};
use llmprof_theory::{Workload, device::Device, roofline::Resource};
use llmprof_units::{Bytes, BytesPerSecond, FlopsPerSecond, Nanos, format_significant};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use self::sentences as text;
use crate::{Document, Table, csv_field};

/// One row of the grid.
pub struct PredictedRow<'a> {
    /// What this row changes, one text per axis.
    pub labels: Vec<&'a str>,
    pub model: &'a str,
    /// What read its config: a family, the keys that most configs share, or a trace.
    pub family: &'static str,
    pub device: &'a Device,
    pub profile: &'a EfficiencyProfile,
    /// Longest sequence that the model's config allows.
    pub max_positions: Option<u64>,
    pub workload: Workload,
    pub outcome: Result<Prediction, PredictError>,
    pub ttft: Option<Need>,
    pub tpot: Option<Need>,
}

/// What is said of a grid as a whole.
pub struct About {
    /// Models that were traced, and the run that predictions start from.
    pub notes: Vec<String>,
    pub is_from_run: bool,
}

pub fn document(axes: &[&str], rows: &[PredictedRow<'_>], about: About) -> Document {
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
                    seen(
                        prediction.ttft_ns,
                        prediction.ttft_interval,
                        prediction.prefill.binds,
                    ),
                    prediction.tpot_ns.map_or_else(dash, |time| {
                        let phase = prediction.decode.unwrap_or(prediction.decode_step);
                        seen(time, prediction.tpot_interval, phase.binds)
                    }),
                    format_significant(prediction.tokens_per_s),
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
    let mut notes = about.notes;
    notes.extend(beyond_context(rows));
    for profile in profiles(rows) {
        notes.extend(text::notes(
            profile,
            &devices_of(rows, profile),
            about.is_from_run,
        ));
        if has_host_range(rows, profile) {
            notes.extend(text::host_range(profile));
        }
    }
    if rows
        .iter()
        .any(|row| row.workload.parallel.rank_count() > 1)
    {
        notes.push(text::NO_RANGES_OVER_RANKS.to_owned());
    }
    document.list(notes);
    document
}

/// The longest sequence of each model that exceeds its context length.
fn beyond_context(rows: &[PredictedRow<'_>]) -> Vec<String> {
    let mut longest: Vec<(&str, u64, u64)> = Vec::new();
    for row in rows {
        let Some(most) = row.max_positions else {
            continue;
        };
        let load = &row.workload;
        let tokens = load
            .cached
            .saturating_add(load.prompt)
            .saturating_add(load.new_tokens);
        if tokens <= most {
            continue;
        }
        match longest.iter_mut().find(|(model, ..)| *model == row.model) {
            Some((_, known, _)) => *known = tokens.max(*known),
            None => longest.push((row.model, tokens, most)),
        }
    }
    let lines = longest.into_iter();
    lines
        .map(|(model, tokens, most)| text::beyond_context(model, tokens, most))
        .collect()
}

/// The devices of a profile's predictions, each with what its times rest on.
fn devices_of<'a>(
    rows: &'a [PredictedRow<'_>],
    profile: &EfficiencyProfile,
) -> Vec<(&'a str, Calibration)> {
    let rows = rows.iter().filter(|row| row.profile.name == profile.name);
    let device = |row: &'a PredictedRow<'_>| {
        let prediction = row.outcome.as_ref().ok()?;
        Some((row.device.name.as_str(), prediction.calibration))
    };
    rows.filter_map(device).collect()
}

/// The range of a time where it is so wide that no point value means anything.
fn wide_range(range: Option<PredictionInterval>) -> Option<String> {
    let range = range?;
    let ends = [range.low_ns, range.high_ns];
    (!text::has_point(ends.map(Nanos::seconds))).then(|| format!("{} to {}", ends[0], ends[1]))
}

/// `12.3 ms (11.5 ms to 13.1 ms)`: with the 90 % range where it is known; the range alone where it is wide.
fn with_range(time: Nanos, range: Option<PredictionInterval>) -> String {
    wide_range(range).unwrap_or_else(|| match range {
        Some(range) => format!("{time} ({} to {})", range.low_ns, range.high_ns),
        None => time.to_string(),
    })
}

/// A time that users see: where the GPU decides, its time beside it has the range, unless it is wide.
fn seen(time: Nanos, range: Option<PredictionInterval>, binds: Resource) -> String {
    if binds == Resource::Host {
        return with_range(time, range);
    }
    wide_range(range).unwrap_or_else(|| time.to_string())
}

/// Whether a row of a profile has a time with the host's range.
fn has_host_range(rows: &[PredictedRow<'_>], profile: &EfficiencyProfile) -> bool {
    let rows = rows.iter().filter(|row| row.profile.name == profile.name);
    let mut predictions = rows.filter_map(|row| row.outcome.as_ref().ok());
    predictions.any(|prediction| {
        let by_host = |binds| binds == Resource::Host;
        let decode = prediction.decode.unwrap_or(prediction.decode_step);
        (by_host(prediction.prefill.binds) && prediction.ttft_interval.is_some())
            || (by_host(decode.binds) && prediction.tpot_interval.is_some())
    })
}

/// A row as machines read it; the same columns in CSV and JSON. Figures of a point that cannot be predicted are null.
#[derive(Serialize, JsonSchema)]
struct PredictedPoint<'a> {
    /// Name of the model.
    model: &'a str,
    /// What read its config: a family, the keys that most configs share, or a trace.
    family: &'a str,
    /// Name of the device.
    device: &'a str,
    /// Profile of efficiencies that was used.
    efficiencies: &'a str,
    /// Swept config keys other than `model` and `device`, each with its value.
    #[serde(flatten)]
    axes: Map<String, Value>,
    /// Sequences that run together.
    batch_size: u64,
    /// Prompt tokens of a sequence.
    prompt_tokens: u64,
    /// Output tokens of a sequence.
    new_tokens: u64,
    /// Time to first token.
    ttft_ns: Option<Nanos>,
    /// Time per output token after the first.
    tpot_ns: Option<Nanos>,
    /// Lower end of the 90 % range of `ttft_ns`; null where the error is not known.
    ttft_low_ns: Option<Nanos>,
    /// Upper end of it.
    ttft_high_ns: Option<Nanos>,
    /// Lower end of the 90 % range of `tpot_ns`.
    tpot_low_ns: Option<Nanos>,
    /// Upper end of it.
    tpot_high_ns: Option<Nanos>,
    /// Lower end of the 90 % range of `prefill_gpu_ns`.
    prefill_gpu_low_ns: Option<Nanos>,
    /// Upper end of it.
    prefill_gpu_high_ns: Option<Nanos>,
    /// Lower end of the 90 % range of `decode_step_gpu_ns`.
    decode_step_gpu_low_ns: Option<Nanos>,
    /// Upper end of it.
    decode_step_gpu_high_ns: Option<Nanos>,
    /// What the curves of the prediction were measured with.
    calibration: Option<Calibration>,
    /// From the start of prefill to the last token.
    total_ns: Option<Nanos>,
    /// Output tokens of the batch per second.
    tokens_per_s: Option<f64>,
    /// GPU time of prefill.
    prefill_gpu_ns: Option<Nanos>,
    /// GPU time of a decode step in the middle of the output.
    decode_step_gpu_ns: Option<Nanos>,
    /// Roofline time of prefill.
    prefill_roofline_ns: Option<Nanos>,
    /// What limits prefill.
    prefill_bound_by: Option<Resource>,
    /// Roofline time of a decode step.
    decode_step_roofline_ns: Option<Nanos>,
    /// What limits a decode step.
    decode_bound_by: Option<Resource>,
    /// Weights of one device.
    weights_bytes: Option<Bytes>,
    /// KV cache of one device at the end of the output.
    kv_bytes: Option<Bytes>,
    /// Whether both fit into the memory of the device; null where its size is not known.
    fits: Option<bool>,
    /// Operations ÷ `--ttft`: the rate that any software must sustain.
    ttft_needs_flops_per_s: Option<FlopsPerSecond>,
    /// Minimum DRAM traffic ÷ `--ttft`.
    ttft_needs_bytes_per_s: Option<BytesPerSecond>,
    /// Whether `--ttft` is met; null without one.
    ttft_met: Option<bool>,
    /// Operations ÷ `--tpot`: the rate that any software must sustain.
    tpot_needs_flops_per_s: Option<FlopsPerSecond>,
    /// Minimum DRAM traffic ÷ `--tpot`.
    tpot_needs_bytes_per_s: Option<BytesPerSecond>,
    /// Whether `--tpot` is met; null without one.
    tpot_met: Option<bool>,
    /// Why the point cannot be predicted.
    error: Option<String>,
}

impl<'a> PredictedPoint<'a> {
    fn new(axes: &[&str], row: &'a PredictedRow<'_>) -> Self {
        let prediction = row.outcome.as_ref().ok();
        let low = |range: Option<PredictionInterval>| range.map(|range| range.low_ns);
        let high = |range: Option<PredictionInterval>| range.map(|range| range.high_ns);
        let [ttft, tpot, prefill, step] = [
            prediction.and_then(|prediction| prediction.ttft_interval),
            prediction.and_then(|prediction| prediction.tpot_interval),
            prediction.and_then(|prediction| prediction.prefill_gpu_interval),
            prediction.and_then(|prediction| prediction.decode_step_gpu_interval),
        ];
        let labels = axes.iter().zip(&row.labels);
        let labels = labels.filter(|(axis, _)| !["model", "device"].contains(axis));
        Self {
            model: row.model,
            family: row.family,
            device: &row.device.name,
            efficiencies: &row.profile.name,
            axes: labels
                .map(|(axis, label)| ((*axis).to_owned(), Value::from(*label)))
                .collect(),
            batch_size: row.workload.batch,
            prompt_tokens: row.workload.prompt,
            new_tokens: row.workload.new_tokens,
            ttft_ns: prediction.map(|prediction| prediction.ttft_ns),
            tpot_ns: prediction.and_then(|prediction| prediction.tpot_ns),
            ttft_low_ns: low(ttft),
            ttft_high_ns: high(ttft),
            tpot_low_ns: low(tpot),
            tpot_high_ns: high(tpot),
            prefill_gpu_low_ns: low(prefill),
            prefill_gpu_high_ns: high(prefill),
            decode_step_gpu_low_ns: low(step),
            decode_step_gpu_high_ns: high(step),
            calibration: prediction.map(|prediction| prediction.calibration),
            total_ns: prediction.map(|prediction| prediction.total_ns),
            tokens_per_s: prediction.map(|prediction| prediction.tokens_per_s),
            prefill_gpu_ns: prediction.map(|prediction| prediction.prefill.device_ns),
            decode_step_gpu_ns: prediction.map(|prediction| prediction.decode_step.device_ns),
            prefill_roofline_ns: prediction.map(|prediction| prediction.prefill.roofline_ns),
            prefill_bound_by: prediction.map(|prediction| prediction.prefill.binds),
            decode_step_roofline_ns: prediction
                .map(|prediction| prediction.decode_step.roofline_ns),
            decode_bound_by: prediction.map(|prediction| prediction.decode_step.binds),
            weights_bytes: prediction.map(|prediction| prediction.memory.weights_bytes),
            kv_bytes: prediction.map(|prediction| prediction.memory.kv_bytes),
            fits: prediction.and_then(|prediction| prediction.memory.fits),
            ttft_needs_flops_per_s: row.ttft.map(|need| need.flops_per_s),
            ttft_needs_bytes_per_s: row.ttft.map(|need| need.bytes_per_s),
            ttft_met: row.ttft.map(|need| need.met),
            tpot_needs_flops_per_s: row.tpot.map(|need| need.flops_per_s),
            tpot_needs_bytes_per_s: row.tpot.map(|need| need.bytes_per_s),
            tpot_met: row.tpot.map(|need| need.met),
            error: row.outcome.as_ref().err().map(ToString::to_string),
        }
    }
}

/// The profiles of rows, each once.
fn profiles<'a>(rows: &[PredictedRow<'a>]) -> Vec<&'a EfficiencyProfile> {
    let mut profiles: Vec<&EfficiencyProfile> = Vec::new();
    for row in rows {
        if !profiles.iter().any(|known| known.name == row.profile.name) {
            profiles.push(row.profile);
        }
    }
    profiles
}

/// A row as a line of CSV, after the names of the columns where it is the first.
pub fn csv_line(axes: &[&str], row: &PredictedRow<'_>, is_first: bool, text: &mut String) {
    let point = serde_json::to_value(PredictedPoint::new(axes, row)).unwrap_or_default();
    let Value::Object(columns) = point else {
        return;
    };
    if is_first {
        let names: Vec<String> = columns.keys().map(|name| csv_field(name)).collect();
        *text += &(names.join(",") + "\n");
    }
    for (index, value) in columns.values().enumerate() {
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

/// Predicted times of a request, or of every point of a sweep.
#[derive(Serialize, JsonSchema)]
pub struct PredictedGrid<'a> {
    /// Always `predicted`.
    basis: &'static str,
    /// What the times of each device rest on.
    from: String,
    /// Profile of efficiencies of the first point.
    efficiencies: &'a str,
    /// What is known of the error of that profile.
    known_error: &'a str,
    /// Errors on held-out models, where the profile has any on this device; absent of predictions from a run.
    held_out: Option<&'static KnownError>,
    /// Models that were traced, and the run that predictions start from.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: Vec<String>,
    /// One for each point of the sweep.
    points: Vec<PredictedPoint<'a>>,
}

/// The grid for machines; `None` of no rows.
pub fn grid<'a>(
    axes: &[&str],
    rows: &'a [PredictedRow<'_>],
    about: &About,
) -> Option<PredictedGrid<'a>> {
    let profile = rows.first()?.profile;
    let devices = devices_of(rows, profile);
    Some(PredictedGrid {
        basis: "predicted",
        from: text::basis(profile, &devices),
        efficiencies: &profile.name,
        known_error: &profile.known_error,
        held_out: text::held_out(profile, &devices, about.is_from_run),
        notes: [&about.notes[..], &beyond_context(rows)[..]].concat(),
        points: rows
            .iter()
            .map(|row| PredictedPoint::new(axes, row))
            .collect(),
    })
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
            Some(PredictionInterval { low_ns, high_ns })
        };
        let time = Nanos(10_000_000);
        let text = |range| with_range(time, range);
        assert_eq!(text(range(5, 20)), "10 ms (5 ms to 20 ms)");
        assert_eq!(text(range(4, 20)), "4 ms to 20 ms");
        assert_eq!(text(None), "10 ms");
        let seen = |range, binds| seen(time, range, binds);
        assert_eq!(seen(range(5, 20), Resource::Memory), "10 ms");
        assert_eq!(seen(range(4, 20), Resource::Memory), "4 ms to 20 ms");
        // No column beside it has the host's range.
        assert_eq!(seen(range(5, 20), Resource::Host), "10 ms (5 ms to 20 ms)");
    }
}
