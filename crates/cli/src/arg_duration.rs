//! Times on the command line: `300us`, `20ms`, `1.5s`.

use std::time::Duration;

/// More seconds than anybody waits, and few enough to add to any clock.
const DURATION_MAX_S: f64 = 1e9;

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let split = text
        .find(|c: char| c.is_ascii_alphabetic() || c == 'µ')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "h" => 3600.0,
        "min" | "m" => 60.0,
        "s" => 1.0,
        "ms" => 1e-3,
        "us" | "µs" => 1e-6,
        "ns" => 1e-9,
        _ => return Err("a time needs a unit: 300us, 20ms, 1.5s, 5min".to_owned()),
    };
    let seconds = number
        .trim()
        .parse::<f64>()
        .map_err(|error| error.to_string())?
        * scale;
    if seconds > DURATION_MAX_S {
        Err(format!("a time must be at most {DURATION_MAX_S} s"))
    } else if seconds > 0.0 {
        Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
    } else {
        Err("a time must be above zero".to_owned())
    }
}
