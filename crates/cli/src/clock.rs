//! The time of day, as manifests have it.

/// Now, in UTC to the millisecond.
pub(crate) fn now() -> String {
    let now = jiff::Timestamp::now();
    now.round(jiff::Unit::Millisecond)
        .unwrap_or(now)
        .to_string()
}

/// Now in local time, to the microsecond, as the last part of a run directory: the pattern of `hydra.run.dir`.
pub(crate) fn directory_name() -> String {
    jiff::Zoned::now()
        .strftime("%Y-%m-%d_%H-%M-%S-%6f")
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_named_to_the_microsecond() {
        let names: Vec<String> = (0..3).map(|_| directory_name()).collect();
        for name in names {
            let (_, micros) = name.rsplit_once('-').unwrap();
            assert_eq!((name.len(), micros.len()), (26, 6), "{name}");
        }
    }
}
