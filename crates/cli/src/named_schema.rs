//! A JSON Schema with the id that names it.

use llmprof_units::schema::schema_of;
use schemars::{JsonSchema, Schema};

/// The id of a schema and the schema.
pub(crate) type NamedSchema = (String, Schema);

/// The schema of a file, or of what a command prints; `title` names it.
pub(crate) fn contract<T: JsonSchema>(name: &str, version: u32, title: &str) -> NamedSchema {
    titled(name, version, title, schema_of::<T>)
}

pub(crate) fn titled(
    name: &str,
    version: u32,
    title: &str,
    schema: impl Fn(&str) -> Schema,
) -> NamedSchema {
    let id = format!("llmprof.{name}/{version}");
    let mut schema = schema(&id);
    schema.insert("title".to_owned(), title.into());
    (id, schema)
}
