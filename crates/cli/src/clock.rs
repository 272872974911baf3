//! The time of day, as manifests have it.

/// Now, in UTC to the millisecond.
pub(crate) fn now() -> String {
    let now = jiff::Timestamp::now();
    now.round(jiff::Unit::Millisecond)
        .unwrap_or(now)
        .to_string()
}
