//! GPUs of a server elsewhere, as its DCGM exporter reports them.

use llmprof_record::serving::{DCGM_FIELDS, DcgmGpus};
use llmprof_units::{Percent, format_significant};

use crate::{Document, Table};

/// Headers of [`DCGM_FIELDS`], after that of the GPU.
const HEADERS: [&str; 7] = [
    "GPU",
    "SM active, mean",
    "SM occupancy, mean",
    "SM clock, mean MHz",
    "Memory clock, mean MHz",
    "Power, mean W (max)",
    "Last XID error",
];

/// Adds a table where a page of the exporter was scraped. Fields that the exporter is not configured for stay empty.
pub(super) fn add(document: &mut Document, url: &str, gpus: &DcgmGpus) {
    if gpus.0.is_empty() {
        return;
    }
    let section = document.section("dcgm", "GPUs by the DCGM exporter");
    section.paragraph(format!("Means over the scrapes of {url} during the load."));
    let mut table = Table::new(&HEADERS, 1);
    for (gpu, fields) in &gpus.0 {
        let mut row = vec![gpu.clone()];
        for (place, field) in DCGM_FIELDS.iter().enumerate() {
            let Some(readings) = fields.get(*field) else {
                row.push(String::new());
                continue;
            };
            let mean = readings.mean().unwrap_or(0.0);
            row.push(match place {
                0 | 1 => Percent(mean).to_string(),
                4 => format!(
                    "{} ({})",
                    format_significant(mean),
                    format_significant(readings.max)
                ),
                // The exporter keeps the number of the last error; 0 is none.
                5 if readings.last == 0.0 => "none".to_owned(),
                5 => format!("XID {}", readings.last),
                _ => format_significant(mean),
            });
        }
        table.row(row);
    }
    section.table(table);
}
