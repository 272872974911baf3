//! What a GPU is asked, and how often.
//!
//! Each question takes a driver some tenths of a millisecond of processor time, which the program that is watched could use.
//! So energy, power and clocks of the moment and what holds them back are asked at every sample, utilization and memory every
//! [`FAST_PERIOD`], all else every second; what a GPU does not offer is asked once.

use std::time::Duration;

use nvml_wrapper::{
    Device, enums::device::SampleValue, error::NvmlError, structs::device::FieldId,
};

/// How often utilization, which drivers state over 1/6 s or more, and memory are read at most. No two readings of counters of
/// traffic are closer either: an H200 renews them every 100 ms, and two within that time look like no traffic.
pub(super) const FAST_PERIOD: Duration = Duration::from_millis(200);

/// The questions that a GPU has refused for good.
#[derive(Debug, Default)]
pub(super) struct Refused(Vec<&'static str>);

impl Refused {
    /// Asks, unless it was refused before.
    pub(super) fn ask_unless_refused<T>(
        &mut self,
        question: &'static str,
        ask: impl FnOnce() -> Result<T, NvmlError>,
    ) -> Option<T> {
        if self.0.contains(&question) {
            return None;
        }
        let answer = ask();
        if matches!(answer, Err(NvmlError::NotSupported)) {
            self.0.push(question);
        }
        answer.ok()
    }
}

/// A value that has no function of its own.
pub(super) fn field_value(device: &Device<'_>, id: u32) -> Result<f64, NvmlError> {
    let values = device.field_values_for(&[FieldId(id)])?;
    let value = values
        .into_iter()
        .next()
        .ok_or(NvmlError::NotFound)??
        .value?;
    Ok(match value {
        SampleValue::F64(value) => value,
        SampleValue::U32(value) => f64::from(value),
        SampleValue::U64(value) => value as f64,
        SampleValue::I64(value) => value as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_is_not_asked_again() {
        let mut refused = Refused::default();
        let mut asked = 0;
        for answer in [
            NvmlError::Unknown,
            NvmlError::NotSupported,
            NvmlError::Unknown,
        ] {
            let value: Option<u32> = refused.ask_unless_refused("power", || {
                asked += 1;
                Err(answer)
            });
            assert_eq!(value, None);
        }
        assert_eq!(asked, 2);
        assert_eq!(refused.ask_unless_refused("clock", || Ok(7)), Some(7));
    }
}
