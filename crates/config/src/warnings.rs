//! Remarks that do not stop a composition.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Warnings in the order they came, each text once however often its reason occurs, as Python prints them. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Warnings(Arc<Mutex<SeenWarnings>>);

#[derive(Debug, Default)]
struct SeenWarnings {
    known: BTreeSet<String>,
    new: Vec<String>,
}

impl Warnings {
    pub(crate) fn add_once(&self, text: String) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.known.insert(text.clone()) {
            kept.new.push(text);
        }
    }

    /// Those that came since the last time.
    pub fn take_all(&self) -> Vec<String> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut kept.new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_once() {
        let warnings = Warnings::default();
        let shared = warnings.clone();
        warnings.add_once("b".to_owned());
        shared.add_once("a".to_owned());
        shared.add_once("b".to_owned());
        assert_eq!(warnings.take_all(), ["b", "a"]);
        warnings.add_once("a".to_owned());
        assert!(shared.take_all().is_empty());
    }
}
