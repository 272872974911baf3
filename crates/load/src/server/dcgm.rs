//! GPUs as NVIDIA's DCGM exporter reports them over the time of a load.

use llmprof_record::serving::{DCGM_FIELDS, DcgmGpus};

use super::text::MetricsPage;

/// Adds a page of the exporter.
pub fn add_page(gpus: &mut DcgmGpus, page: &MetricsPage) {
    for sample in &page.samples {
        let field = DCGM_FIELDS.into_iter().find(|field| *field == sample.name);
        if let (Some(field), true) = (field, sample.value.is_finite()) {
            let gpu = sample.labels.get("gpu").cloned().unwrap_or_default();
            gpus.add_value(gpu, field, sample.value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_averaged_over_scrapes() {
        let mut gpus = DcgmGpus::default();
        for (power, xid) in [(100.0, 0), (200.0, 79), (300.0, 13)] {
            add_page(
                &mut gpus,
                &MetricsPage::read(&format!(
                    "DCGM_FI_DEV_POWER_USAGE{{gpu=\"0\"}} {power}\nDCGM_FI_DEV_XID_ERRORS{{gpu=\"0\"}} {xid}\nDCGM_FI_DEV_GPU_TEMP{{gpu=\"0\"}} 40\n"
                )),
            );
        }
        let gpu = &gpus.0["0"];
        assert_eq!(gpu["DCGM_FI_DEV_POWER_USAGE"].mean(), Some(200.0));
        assert_eq!(gpu["DCGM_FI_DEV_XID_ERRORS"].last, 13.0);
        assert_eq!(gpu.len(), 2, "other fields stay in the page that was kept");
    }
}
