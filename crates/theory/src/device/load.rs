use std::collections::{BTreeMap, BTreeSet};

use llmprof_units::{Basis, Bytes, BytesPerSecond, FlopsPerSecond, Hertz, Nanos, Watts};

use super::{
    Cache, Device, DeviceDram, DeviceError, Figure, Interconnect, Peak, Recount, Units,
    schema::{DeviceFile, FigureEntry, PeakEntry},
};

/// Reads the text of one device file; `file` is how errors name it.
pub(super) fn read_device(text: &str, file: &str) -> Result<Device, DeviceError> {
    DeviceFile::parse_text(text, file)?.to_device(file)
}

impl DeviceFile {
    /// Reads the text of a file; `file` is how errors name it.
    pub fn parse_text(text: &str, file: &str) -> Result<Self, DeviceError> {
        serde_saphyr::from_str(text).map_err(|error| DeviceError::Syntax {
            file: file.to_owned(),
            problem: error.to_string(),
        })
    }

    /// Checks every figure; `file` is how errors name it.
    pub fn to_device(&self, file: &str) -> Result<Device, DeviceError> {
        Loader {
            file,
            basis: self.basis,
            sources: &self.sources,
        }
        .build_device(self)
    }
}

struct Loader<'a> {
    file: &'a str,
    basis: Basis,
    sources: &'a BTreeMap<String, String>,
}

impl Loader<'_> {
    fn build_device(&self, raw: &DeviceFile) -> Result<Device, DeviceError> {
        self.check_name(&raw.name)?;
        if raw.basis == Basis::Measured && raw.measured_at.is_none() {
            return Err(self.invalid("measured_at", "a measured file says when it was measured"));
        }
        let units = raw
            .units
            .as_ref()
            .map(|entry| {
                let figure = self.cited(
                    "units",
                    entry.value,
                    &entry.source,
                    entry.at.as_deref(),
                    entry.basis,
                )?;
                Ok(Units {
                    name: entry.name.clone(),
                    count: figure,
                })
            })
            .transpose()?;
        let mut clocks_hz = BTreeMap::new();
        for (name, entry) in &raw.clocks_mhz {
            let figure = self.figure(&format!("clocks_mhz.{name}"), entry)?;
            clocks_hz.insert(name.clone(), figure.map(|mhz| Hertz(mhz * 1e6)));
        }
        Ok(Device {
            name: raw.name.clone(),
            title: raw.title.clone(),
            driver_names: raw.driver_names.clone(),
            vendor: raw.vendor.clone(),
            kind: raw.kind,
            architecture: raw.architecture.clone(),
            basis: raw.basis,
            measured_at: raw.measured_at.clone(),
            calibration: raw.calibration.clone(),
            peaks: self.peaks(raw, units.as_ref())?,
            units,
            clocks_hz,
            memory: self.memory(raw)?,
            caches: self.caches(raw)?,
            interconnects: self.interconnects(raw)?,
            power_w: self
                .optional("power_w", raw.power_w.as_ref())?
                .map(|figure| figure.map(Watts)),
            launch_latency_ns: self
                .optional("launch_latency_us", raw.launch_latency_us.as_ref())?
                .map(|figure| figure.map(|us| Nanos::from_seconds(us * 1e-6))),
            notes: raw.notes.clone(),
        })
    }

    fn peaks(&self, raw: &DeviceFile, units: Option<&Units>) -> Result<Vec<Peak>, DeviceError> {
        let mut seen = BTreeSet::new();
        let mut peaks = Vec::with_capacity(raw.peaks.len());
        for (index, entry) in raw.peaks.iter().enumerate() {
            let key = format!("peaks[{index}] ({} {})", entry.engine, entry.dtype);
            if !seen.insert((entry.dtype, entry.engine, entry.accumulate)) {
                return Err(self.invalid(&key, "is listed twice"));
            }
            let figure = self.cited(
                &key,
                entry.tflops,
                &entry.source,
                entry.at.as_deref(),
                entry.basis,
            )?;
            if let Some(sparse) = entry.sparse_tflops
                && (sparse.is_nan() || sparse < entry.tflops)
            {
                return Err(self.invalid(&key, "sparse_tflops is below the dense rate"));
            }
            peaks.push(Peak {
                dtype: entry.dtype,
                engine: entry.engine,
                accumulate: entry.accumulate,
                dense_flops_per_s: FlopsPerSecond(figure.value * 1e12),
                sparse_flops_per_s: entry.sparse_tflops.map(|tera| FlopsPerSecond(tera * 1e12)),
                recount: self.recount(&key, entry, raw, units)?,
                basis: figure.basis,
                source: figure.source,
            });
        }
        Ok(peaks)
    }

    fn recount(
        &self,
        key: &str,
        entry: &PeakEntry,
        raw: &DeviceFile,
        units: Option<&Units>,
    ) -> Result<Recount, DeviceError> {
        match (
            entry.operations_per_clock,
            &entry.clock,
            &entry.not_recounted,
        ) {
            (Some(operations), Some(clock), None) => {
                let units = units.ok_or_else(|| {
                    self.invalid(key, "operations_per_clock needs the `units` of the device")
                })?;
                let clock_mhz = raw.clocks_mhz.get(clock).ok_or_else(|| {
                    self.invalid(key, &format!("`{clock}` is not in clocks_mhz"))
                })?;
                self.positive(key, operations)?;
                Ok(Recount::Factors {
                    units: units.count.value,
                    operations_per_clock: operations,
                    clock: clock.clone(),
                    clock_mhz: clock_mhz.value,
                })
            }
            (None, None, Some(reason)) => Ok(Recount::Unknown(reason.clone())),
            // A rate that was measured needs no derivation.
            (None, None, None) if entry.basis.unwrap_or(self.basis) == Basis::Measured => {
                Ok(Recount::Unknown("measured".to_owned()))
            }
            _ => Err(self.invalid(
                key,
                "give operations_per_clock and clock, or say in not_recounted why they are not known",
            )),
        }
    }

    fn memory(&self, raw: &DeviceFile) -> Result<DeviceDram, DeviceError> {
        Ok(DeviceDram {
            technology: raw.memory.technology.clone(),
            capacity_bytes: self
                .optional("memory.capacity_gb", raw.memory.capacity_gb.as_ref())?
                .map(|figure| figure.map(|gb| Bytes((gb * 1e9) as u64))),
            bandwidth_bytes_per_s: self
                .figure("memory.bandwidth_gb_s", &raw.memory.bandwidth_gb_s)?
                .map(|gb| BytesPerSecond(gb * 1e9)),
        })
    }

    fn caches(&self, raw: &DeviceFile) -> Result<Vec<Cache>, DeviceError> {
        raw.caches
            .iter()
            .map(|entry| {
                let key = format!("caches.{}", entry.level);
                if entry.kib.is_none() && entry.bandwidth_gb_s.is_none() {
                    return Err(self.invalid(&key, "has neither kib nor bandwidth_gb_s"));
                }
                for value in [entry.kib, entry.bandwidth_gb_s].into_iter().flatten() {
                    self.positive(&key, value)?;
                }
                Ok(Cache {
                    level: entry.level.clone(),
                    scope: entry.scope,
                    capacity_bytes: entry.kib.map(|kib| Bytes((kib * 1024.0) as u64)),
                    bandwidth_bytes_per_s: entry.bandwidth_gb_s.map(|gb| BytesPerSecond(gb * 1e9)),
                    basis: entry.basis.unwrap_or(self.basis),
                    source: self.citation(&key, &entry.source, entry.at.as_deref())?,
                })
            })
            .collect()
    }

    fn interconnects(&self, raw: &DeviceFile) -> Result<Vec<Interconnect>, DeviceError> {
        raw.interconnects
            .iter()
            .map(|entry| {
                let key = format!("interconnects ({})", entry.name);
                let figure = self.cited(
                    &key,
                    entry.gb_s,
                    &entry.source,
                    entry.at.as_deref(),
                    entry.basis,
                )?;
                Ok(Interconnect {
                    name: entry.name.clone(),
                    bandwidth: figure.map(|gb| BytesPerSecond(gb * 1e9)),
                    counts: entry.counts,
                })
            })
            .collect()
    }

    fn optional(
        &self,
        key: &str,
        entry: Option<&FigureEntry>,
    ) -> Result<Option<Figure<f64>>, DeviceError> {
        entry.map(|entry| self.figure(key, entry)).transpose()
    }

    fn figure(&self, key: &str, entry: &FigureEntry) -> Result<Figure<f64>, DeviceError> {
        self.cited(
            key,
            entry.value,
            &entry.source,
            entry.at.as_deref(),
            entry.basis,
        )
    }

    fn cited(
        &self,
        key: &str,
        value: f64,
        source: &str,
        at: Option<&str>,
        basis: Option<Basis>,
    ) -> Result<Figure<f64>, DeviceError> {
        self.positive(key, value)?;
        Ok(Figure {
            value,
            basis: basis.unwrap_or(self.basis),
            source: self.citation(key, source, at)?,
        })
    }

    fn citation(&self, key: &str, source: &str, at: Option<&str>) -> Result<String, DeviceError> {
        let title = self
            .sources
            .get(source)
            .ok_or_else(|| self.invalid(key, &format!("source `{source}` is not in `sources`")))?;
        Ok(match at {
            Some(place) => format!("{title}, {place}"),
            None => title.clone(),
        })
    }

    /// Largest value a key may have; nothing built comes near, and products of three of them stay finite.
    const FIGURE_MAX: f64 = 1e12;

    fn positive(&self, key: &str, value: f64) -> Result<(), DeviceError> {
        if value > 0.0 && value <= Self::FIGURE_MAX {
            Ok(())
        } else {
            Err(self.invalid(
                key,
                &format!("{value} is not a positive figure of sensible size"),
            ))
        }
    }

    fn check_name(&self, name: &str) -> Result<(), DeviceError> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if !name.is_empty() && name.chars().all(plain) {
            Ok(())
        } else {
            Err(self.invalid(
                "name",
                &format!("`{name}`: use lower-case letters, digits and `_`"),
            ))
        }
    }

    fn invalid(&self, key: &str, problem: &str) -> DeviceError {
        DeviceError::Invalid {
            file: self.file.to_owned(),
            key: key.to_owned(),
            problem: problem.to_owned(),
        }
    }
}
