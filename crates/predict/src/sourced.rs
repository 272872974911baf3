//! A number of a data file with what it is and where it is from.

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sourced<T> {
    #[expect(dead_code, reason = "for readers of the file")]
    what: String,
    pub(crate) value: T,
    #[expect(dead_code, reason = "for readers of the file")]
    source: String,
}
