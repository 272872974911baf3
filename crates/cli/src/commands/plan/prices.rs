//! The file of prices that a plan is given.

use std::{collections::BTreeMap, path::Path};

use llmprof_simulate::plan::read_prices;
use llmprof_units::bounded_file::{CONFIG_MAX_BYTES, read_named_text};

use crate::failure::Failure;

/// Prices of all devices of a plan: one without a price could not be compared with the others.
pub(super) fn read(file: &Path, devices: &[String]) -> Result<BTreeMap<String, f64>, Failure> {
    let text = read_named_text(file, CONFIG_MAX_BYTES)
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", file.display())))?;
    let prices =
        read_prices(&text).map_err(|what| Failure::new(format!("{}: {what}", file.display())))?;
    match devices.iter().find(|name| !prices.contains_key(*name)) {
        Some(name) => Err(
            Failure::new(format!("{} has no price of {name}", file.display()))
                .hint(format!("a line `{name}: PRICE`, or --devices without it")),
        ),
        None => Ok(prices),
    }
}
