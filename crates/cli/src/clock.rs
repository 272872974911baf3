//! The time of day, as manifests have it. The wall clock is read once: setting it during a run moves no time against another.

use llmprof_record::clock::unix_now;
use llmprof_units::Nanos;

/// Now, in UTC to the millisecond.
pub(crate) fn now() -> String {
    let now = timestamp(unix_now());
    now.round(jiff::Unit::Millisecond)
        .unwrap_or(now)
        .to_string()
}

/// A time since 1970, in UTC.
pub(crate) fn at_unix_ns(time: Nanos) -> String {
    timestamp(time).to_string()
}

pub(crate) fn local() -> jiff::Zoned {
    timestamp(unix_now()).to_zoned(jiff::tz::TimeZone::system())
}

fn timestamp(time: Nanos) -> jiff::Timestamp {
    jiff::Timestamp::from_nanosecond(i128::from(time.0))
        .expect("64 bits of nanoseconds end in the year 2262")
}

/// Now in local time, to the microsecond, as the last part of a run directory: the pattern of `hydra.run.dir`.
pub(crate) fn directory_name() -> String {
    local().strftime("%Y-%m-%d_%H-%M-%S-%6f").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_nanosecond_has_a_date() {
        assert_eq!(at_unix_ns(Nanos(0)), "1970-01-01T00:00:00Z");
        for (time, year) in [(i64::MIN, "1677"), (i64::MAX, "2262")] {
            let date = at_unix_ns(Nanos(time));
            assert!(date.starts_with(year), "{date}");
        }
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
