//! What is read less often than samples are taken.

use std::time::{Duration, Instant};

/// How often what changes slowly is read at most. It stands in the samples between.
pub(super) const SLOW_PERIOD: Duration = Duration::from_secs(1);

/// A value that stands until it is too old.
#[derive(Debug)]
pub(super) struct CachedReading<T> {
    latest: Option<(Instant, T)>,
}

impl<T> Default for CachedReading<T> {
    fn default() -> Self {
        Self { latest: None }
    }
}

impl<T: Copy> CachedReading<T> {
    /// The value, read again where it is `most` old or older.
    pub(super) fn renew_after(&mut self, most: Duration, read: impl FnOnce() -> T) -> T {
        match self.latest {
            Some((since, value)) if since.elapsed() < most => value,
            _ => {
                let value = read();
                self.latest = Some((Instant::now(), value));
                value
            }
        }
    }

    /// The value as it was read last.
    pub(super) fn latest(&self) -> Option<T> {
        self.latest.map(|(_, value)| value)
    }

    /// Has the next question read it again.
    pub(super) fn forget(&mut self) {
        self.latest = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stands_until_it_is_old() {
        let mut kept = CachedReading::default();
        let hour = Duration::from_hours(1);
        assert_eq!(kept.latest(), None);
        assert_eq!(kept.renew_after(hour, || 1), 1);
        assert_eq!(kept.renew_after(hour, || 2), 1);
        assert_eq!(kept.renew_after(Duration::ZERO, || 3), 3);
        kept.forget();
        assert_eq!(kept.renew_after(hour, || 4), 4);
        assert_eq!(kept.latest(), Some(4));
    }
}
