//! GPUs as NVIDIA's DCGM exporter reports them over the time of a load.

use std::collections::BTreeMap;

use super::text::Page;

/// Fields that reports show: busy SMs, clocks, power, the last XID error.
pub const FIELDS: [&str; 6] = [
    "DCGM_FI_PROF_SM_ACTIVE",
    "DCGM_FI_PROF_SM_OCCUPANCY",
    "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_DEV_MEM_CLOCK",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_XID_ERRORS",
];

/// One field of one GPU over all scrapes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FieldSpread {
    sum: f64,
    count: u32,
    pub max: f64,
}

impl FieldSpread {
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}

/// Fields by GPU, as the exporter numbers it, with the name that it states.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DcgmGpus(pub BTreeMap<String, BTreeMap<&'static str, FieldSpread>>);

impl DcgmGpus {
    /// Adds a page of the exporter.
    pub fn add_page(&mut self, page: &Page) {
        for sample in &page.samples {
            let field = FIELDS.into_iter().find(|field| *field == sample.name);
            let (Some(field), true) = (field, sample.value.is_finite()) else {
                continue;
            };
            let gpu = sample.labels.get("gpu").cloned().unwrap_or_default();
            let found = self.0.entry(gpu).or_default().entry(field).or_default();
            found.sum += sample.value;
            found.count += 1;
            found.max = found.max.max(sample.value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_averaged_over_scrapes() {
        let mut gpus = DcgmGpus::default();
        for (power, xid) in [(100.0, 0), (300.0, 79)] {
            gpus.add_page(&Page::read(&format!(
                "DCGM_FI_DEV_POWER_USAGE{{gpu=\"0\"}} {power}\nDCGM_FI_DEV_XID_ERRORS{{gpu=\"0\"}} {xid}\nDCGM_FI_DEV_GPU_TEMP{{gpu=\"0\"}} 40\n"
            )));
        }
        let gpu = &gpus.0["0"];
        assert_eq!(gpu["DCGM_FI_DEV_POWER_USAGE"].mean(), Some(200.0));
        assert_eq!(gpu["DCGM_FI_DEV_XID_ERRORS"].max, 79.0);
        assert_eq!(gpu.len(), 2, "other fields stay in the page that was kept");
    }
}
