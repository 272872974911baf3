//! The time of day, as manifests have it.

use std::time::SystemTime;

use llmprof_units::Nanos;

/// Now, in UTC to the millisecond.
pub(crate) fn now() -> String {
    match timestamp(SystemTime::now()) {
        Ok(now) => now
            .round(jiff::Unit::Millisecond)
            .unwrap_or(now)
            .to_string(),
        Err(seconds) => format!("@{seconds}"),
    }
}

/// A time since 1970, in UTC.
pub(crate) fn at_unix_ns(time: Nanos) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(time.0)).map_or_else(
        |_| format!("@{}", time.0 / 1_000_000_000),
        |at| at.to_string(),
    )
}

/// Now in local time. A clock past the year 9999 is taken to stand at its end.
pub(crate) fn local() -> jiff::Zoned {
    let now = timestamp(SystemTime::now()).unwrap_or(jiff::Timestamp::MAX);
    now.to_zoned(jiff::tz::TimeZone::system())
}

/// A time of day, or its seconds since 1970 where it has a year of five digits.
fn timestamp(time: SystemTime) -> Result<jiff::Timestamp, u64> {
    jiff::Timestamp::try_from(time).map_err(|_| {
        let since = time.duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0, |since| since.as_secs())
    })
}

/// Now in local time, to the microsecond, as the last part of a run directory: the pattern of `hydra.run.dir`.
pub(crate) fn directory_name() -> String {
    local().strftime("%Y-%m-%d_%H-%M-%S-%6f").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_year_of_five_digits_is_no_panic() {
        let late = SystemTime::UNIX_EPOCH + std::time::Duration::from_mins(5_000_000_000);
        assert_eq!(timestamp(late), Err(300_000_000_000));
        assert_eq!(local().year() / 1000, 2);
    }

    #[test]
    fn directories_are_named_to_the_microsecond() {
        let names: Vec<String> = (0..3).map(|_| directory_name()).collect();
        for name in names {
            let (_, micros) = name.rsplit_once('-').unwrap();
            assert_eq!((name.len(), micros.len()), (26, 6), "{name}");
        }
    }
}
