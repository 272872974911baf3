//! `import` of what `trtexec` wrote: layers by time, and layer types against the roofline.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use llmprof_record::{
    import::{
        Source,
        trtexec::{self, Iteration, Layer, LayerTime, Trtexec},
    },
    issue::{Issue, IssueCode},
    store::{RunDir, RunStatus},
};
use llmprof_report::{Document, Table, text::trtexec as text};
use llmprof_theory::device::{Device, Engine};
use llmprof_units::{Bytes, DType, Flops, Nanos, Percent, stats::median};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    args::ImportArgs,
    args_agents::ResultFormat,
    clock,
    failure::Failure,
    output::{Output, csv_field, warn_of},
    outputs::{self, Wanted},
    profiles::files::default_directory,
    subject,
};

/// Layers of one type together.
#[derive(Debug, Default, Serialize, JsonSchema)]
struct LayerType {
    /// Type of layer.
    kind: String,
    /// Layers of the type.
    layers: u64,
    /// Time of these layers in an iteration.
    average_ms: f64,
    /// Floating-point operations; a multiply-add is two.
    flops: Flops,
    /// Bytes that these layers read and write.
    bytes: Bytes,
    /// Layers whose operations or bytes are not known.
    uncounted: u64,
    /// Roofline time ÷ measured time, where everything is counted and a device is named.
    of_roofline: Option<f64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Imported {
    /// Layers of the engine, in order.
    layers: Vec<LayerTime>,
    /// Layers by type, the longest first.
    types: Vec<LayerType>,
    /// Iterations of the profile.
    iterations: Option<u64>,
    /// Time of all layers in an iteration.
    total_ms: f64,
    /// Median latency of an inference.
    latency_p50_ms: Option<f64>,
    /// What was dropped or should not be trusted.
    issues: Vec<Issue>,
    /// The run directory.
    run: String,
}

/// Reads the files where all of them are trtexec's; `None` leaves them to the other importers.
pub(crate) fn import(
    files: &[PathBuf],
    args: &ImportArgs,
    output: &mut Output,
) -> Option<Result<(), Failure>> {
    let read = |path: &PathBuf| trtexec::read(&small_text(path)?);
    // Reading all of a file to find that it is another's takes far more than importing it.
    if !files.iter().all(|file| may_be_trtexec(file)) {
        return None;
    }
    let found: Vec<Trtexec> = files.iter().map(read).collect::<Option<_>>()?;
    (!found.is_empty()).then(|| keep(found, files, args, output))
}

/// Whether a file begins as one of trtexec's may.
fn may_be_trtexec(path: &Path) -> bool {
    use std::io::Read as _;
    let mut head = Vec::new();
    let is_read = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
        && std::fs::File::open(path)
            .and_then(|file| file.take(Source::HEAD_BYTES as u64).read_to_end(&mut head))
            .is_ok();
    is_read && trtexec::sniff(&head)
}

/// The text of a regular file that is no longer than any of trtexec's.
fn small_text(path: &Path) -> Option<String> {
    /// A layer has hundreds of bytes, and an engine thousands of layers.
    const MOST_BYTES: u64 = 256 << 20;
    let metadata = std::fs::metadata(path).ok()?;
    let is_small = metadata.is_file() && metadata.len() <= MOST_BYTES;
    is_small.then(|| std::fs::read_to_string(path).ok())?
}

fn keep(
    found: Vec<Trtexec>,
    files: &[PathBuf],
    args: &ImportArgs,
    output: &mut Output,
) -> Result<(), Failure> {
    let device = args.device.as_deref().map(subject::device).transpose()?;
    let (mut times, mut layers, mut iterations, mut count) =
        (Vec::new(), Vec::new(), Vec::new(), None);
    for one in found {
        match one {
            Trtexec::Profile { layers, iterations } => {
                times = layers;
                count = iterations;
            }
            Trtexec::Layers(found) => layers = found,
            Trtexec::Times(found) => iterations = found,
        }
    }
    let format = ResultFormat::chosen(args.format, args.json);
    if format == ResultFormat::Agent {
        let why = "results of trtexec have layers and no findings for --format agent";
        return Err(Failure::new(why).hint("--format json has every layer".to_owned()));
    }
    if args.show.view {
        return Err(
            Failure::new("results of trtexec have no timeline for --view")
                .hint("report.html has every layer".to_owned()),
        );
    }
    let dir = match &args.output {
        Some(dir) => dir.clone(),
        None => default_directory(files, None),
    };
    let store = RunDir::create(&dir, clock::now(), crate::VERSION)
        .map_err(|error| Failure::directory(&error, "-o DIR"))?;
    let imported = analyze(times, &layers, &iterations, count, device.as_ref(), &dir);
    let written = write(&imported, device.as_ref(), store);
    written?;
    if format == ResultFormat::Json {
        return output.json(&imported);
    }
    output.summary(&summary(&imported))?;
    warn_of(&imported.issues);
    output.line(&format!("report: {}", dir.join("report.html").display()))
}

fn analyze(
    mut times: Vec<LayerTime>,
    layers: &[Layer],
    iterations: &[Iteration],
    count: Option<u64>,
    device: Option<&Device>,
    dir: &Path,
) -> Imported {
    times.sort_by(|a, b| b.average_ms.total_cmp(&a.average_ms));
    let by_name: BTreeMap<&str, &Layer> = layers
        .iter()
        .map(|layer| (layer.name.as_str(), layer))
        .collect();
    let mut types: BTreeMap<String, LayerType> = BTreeMap::new();
    let mut roofline: BTreeMap<String, f64> = BTreeMap::new();
    let mut strangers = 0;
    for time in &times {
        let layer = by_name.get(time.name.as_str());
        strangers += u64::from(layer.is_none() && !layers.is_empty());
        let kind = layer.map_or("", |layer| layer.kind.as_str());
        let kind = if kind.is_empty() { "unknown" } else { kind };
        let of = types.entry(kind.to_owned()).or_default();
        kind.clone_into(&mut of.kind);
        of.layers += 1;
        of.average_ms += time.average_ms;
        match layer.and_then(|layer| Some((layer, layer.tensor_bytes?))) {
            Some((layer, tensors)) => {
                let (flops, bytes) = (
                    layer.flops.unwrap_or_default(),
                    tensors + layer.weight_bytes,
                );
                of.flops += flops;
                of.bytes += bytes;
                // Without weights in it a product's operations are not known; its bytes bound it still.
                if let Some(device) = device {
                    *roofline.entry(kind.to_owned()).or_default() +=
                        seconds(flops, bytes, device) * 1e3;
                }
            }
            None => of.uncounted += 1,
        }
    }
    for of in types.values_mut() {
        of.of_roofline = roofline
            .get(&of.kind)
            .filter(|_| of.uncounted == 0 && of.average_ms > 0.0)
            .map(|ms| ms / of.average_ms);
    }
    let mut issues = Vec::new();
    if strangers > 0 {
        issues.push(Issue::warning(IssueCode::TrtexecOtherLayers).counting(strangers));
    }
    let beyond = types
        .values()
        .find(|of| of.of_roofline.is_some_and(|share| share > 1.0));
    if let Some(of) = beyond {
        let issue = Issue::warning(IssueCode::TrtexecAboveRoofline);
        issues.push(issue.with("kind", of.kind.as_str()));
    }
    let mut types: Vec<LayerType> = types.into_values().collect();
    types.sort_by(|a, b| b.average_ms.total_cmp(&a.average_ms));
    let mut latencies: Vec<f64> = iterations.iter().map(|one| one.latency_ms).collect();
    Imported {
        total_ms: times.iter().map(|time| time.average_ms).sum(),
        iterations: count.or_else(|| (!iterations.is_empty()).then_some(iterations.len() as u64)),
        latency_p50_ms: median(&mut latencies),
        layers: times,
        types,
        issues,
        run: dir.display().to_string(),
    }
}

/// Roofline time with fp16 peaks, which is what TensorRT engines compute in.
fn seconds(flops: Flops, bytes: Bytes, device: &Device) -> f64 {
    let compute = device
        .peak(DType::F16, Engine::Tensor)
        .ok()
        .map(|peak| peak.dense_flops_per_s)
        .map_or(0.0, |rate| flops / rate);
    compute.max(bytes / device.bandwidth())
}

fn summary(imported: &Imported) -> Vec<String> {
    let ms = |ms: f64| Nanos((ms * 1e6) as i64);
    let first = imported.types.first().filter(|_| imported.total_ms > 0.0);
    text::summary(
        imported.latency_p50_ms.map(ms),
        imported.layers.len() as u64,
        ms(imported.total_ms),
        first.map(|first| text::Longest {
            kind: &first.kind,
            share: first.average_ms / imported.total_ms,
            of_roofline: first.of_roofline,
        }),
    )
}

fn write(imported: &Imported, device: Option<&Device>, mut store: RunDir) -> Result<(), Failure> {
    let ms = |ms: f64| Nanos((ms * 1e6) as i64).to_string();
    let mut types = Table::new(
        &[
            "Layer type",
            "Layers",
            "Time",
            "Share",
            "FLOPs",
            "Bytes",
            "% of roofline",
        ],
        1,
    );
    for of in &imported.types {
        types.row([
            of.kind.clone(),
            of.layers.to_string(),
            ms(of.average_ms),
            Percent(of.average_ms / imported.total_ms.max(f64::MIN_POSITIVE)).to_string(),
            of.flops.to_string(),
            of.bytes.to_string(),
            of.of_roofline
                .map_or("–".to_owned(), |share| Percent(share).to_string()),
        ]);
    }
    let mut layers = Table::new(&["Layer", "Mean", "Median", "Share"], 1);
    let mut csv = String::from("layer,average_ms,median_ms,percent\n");
    for layer in &imported.layers {
        layers.row([
            layer.name.clone(),
            ms(layer.average_ms),
            layer.median_ms.map_or("–".to_owned(), ms),
            Percent(layer.percent / 100.0).to_string(),
        ]);
        let median = layer.median_ms.map_or(String::new(), |ms| ms.to_string());
        csv += &format!(
            "{},{},{median},{}\n",
            csv_field(&layer.name),
            layer.average_ms,
            layer.percent
        );
    }
    let device = device.map_or(text::NO_DEVICE.to_owned(), |device| device.name.clone());
    let mut document = Document {
        title: text::TITLE.to_owned(),
        subtitle: device.clone(),
        summary: summary(imported),
        issues: imported.issues.clone(),
        ..Document::default()
    };
    let section = document.section("layer_types", "Layer types");
    section.paragraph(text::roofline(&device));
    section.table(types);
    let section = document.section("layers", "Layers");
    section.paragraph(text::LAYERS);
    section.table(layers);
    let written = (|| -> Result<(), Failure> {
        store.describe("import", "tensorrt", &[])?;
        for issue in &imported.issues {
            store.add_issue(issue.clone())?;
        }
        let text = serde_json::to_string_pretty(imported)
            .map_err(|error| Failure::new(error.to_string()))?;
        store.write("layers.json", text + "\n")?;
        store.write("layers.csv", &csv)?;
        for (name, contents) in outputs::rendered(&document, Wanted::ALL) {
            store.write(&name, contents)?;
        }
        Ok(())
    })();
    let status = if written.is_ok() {
        RunStatus::Complete
    } else {
        RunStatus::Failed
    };
    let error = written.as_ref().err().map(ToString::to_string);
    store.finish(status, error, clock::now())?;
    written
}
