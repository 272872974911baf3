//! Layers of a TensorRT engine as a page and as CSV.

mod sentences;

use llmprof_analysis::trtexec::EngineLayers;
use llmprof_theory::device::Device;
use llmprof_units::{Nanos, Percent};

use self::sentences as text;
use crate::{Document, Table, csv_field};

/// The result in a few lines.
pub fn summary(imported: &EngineLayers) -> Vec<String> {
    let ms = |ms: f64| Nanos((ms * 1e6) as i64);
    let first = imported.types.first().filter(|_| imported.total_ms > 0.0);
    text::summary(
        imported.latency_p50_ms.map(ms),
        imported.layers.len() as u64,
        ms(imported.total_ms),
        first.map(|first| text::LongestLayers {
            kind: &first.kind,
            share: first.average_ms / imported.total_ms,
            of_roofline: first.of_roofline,
        }),
    )
}

pub fn document(imported: &EngineLayers, device: Option<&Device>) -> Document {
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
    for layer in &imported.layers {
        layers.row([
            layer.name.clone(),
            ms(layer.average_ms),
            layer.median_ms.map_or("–".to_owned(), ms),
            Percent(layer.percent / 100.0).to_string(),
        ]);
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
    document
}

/// `layers.csv`.
pub fn csv(imported: &EngineLayers) -> String {
    let mut csv = String::from("layer,average_ms,median_ms,percent\n");
    for layer in &imported.layers {
        let median = layer.median_ms.map_or(String::new(), |ms| ms.to_string());
        csv += &format!(
            "{},{},{median},{}\n",
            csv_field(&layer.name),
            layer.average_ms,
            layer.percent
        );
    }
    csv
}
