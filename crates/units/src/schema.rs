//! JSON Schemas of files and outputs, made from the types that are written.

use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// Keyword of a JSON Schema that says the unit of a number.
pub const UNIT_KEYWORD: &str = "x-unit";

/// Units by the end of a key; the first that fits holds.
const UNITS_BY_KEY: [(&str, &str); 22] = [
    ("flops_per_s", "FLOP/s"),
    ("bytes_per_s", "B/s"),
    ("tokens_per_s", "tokens/s"),
    ("_per_s", "1/s"),
    ("_gb_s", "GB/s"),
    ("_gb", "GB"),
    ("_mhz", "MHz"),
    ("_ns", "ns"),
    ("_us", "µs"),
    ("_ms", "ms"),
    ("_s", "s"),
    ("_bytes", "B"),
    ("_flops", "FLOP"),
    ("_tflops", "TFLOP/s"),
    ("_tokens", "tokens"),
    ("_pct", "%"),
    ("_ppm", "10⁻⁶"),
    ("_share", "1"),
    ("_w", "W"),
    ("_j", "J"),
    ("_hz", "Hz"),
    ("_c", "°C"),
];

/// The schema of what is written of a `T`. `id` has its name and version, such as `llmprof.analysis/3`.
pub fn schema_of<T: JsonSchema + ?Sized>(id: &str) -> Schema {
    // Keys that are left out where they are empty are not required.
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let generator = settings.with_transform(complete_schema).into_generator();
    let mut schema = generator.into_root_schema_for::<T>();
    schema.insert("$id".to_owned(), id.into());
    schema
}

/// Adds units by the names of keys; turns doc comments into plain Markdown on one line; drops what concerns only Rust.
fn complete_schema(schema: &mut Schema) {
    for rust_only in ["default", "format"] {
        schema.remove(rust_only);
    }
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text
            .replace("[`", "`")
            .replace("`]", "`")
            .replace('\n', " ");
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (key, property) in properties {
            let unit = UNITS_BY_KEY.iter().find(|(end, _)| key.ends_with(end));
            let property = property.as_object_mut();
            if let (Some((_, unit)), Some(property)) = (unit, property)
                && !property.contains_key(UNIT_KEYWORD)
            {
                property.insert(UNIT_KEYWORD.to_owned(), (*unit).into());
            }
        }
    }
    transform_subschemas(&mut complete_schema, schema);
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde_json::json;

    use super::*;
    use crate::{Bytes, Nanos};

    #[derive(Serialize, JsonSchema)]
    struct Row {
        /// Time of the [`Row`],
        /// waiting included.
        time: Nanos,
        #[serde(skip_serializing_if = "Option::is_none")]
        kv: Option<Bytes>,
        wait_ms: Vec<f64>,
    }

    #[test]
    fn a_schema_has_units_and_plain_sentences() {
        let schema = serde_json::to_value(schema_of::<Row>("llmprof.row/1")).unwrap();
        assert_eq!(schema["$id"], "llmprof.row/1");
        assert_eq!(schema["required"], json!(["time", "wait_ms"]));
        assert_eq!(
            schema["properties"],
            json!({
                "time": {"type": "integer", "description": "Time of the `Row`, waiting included.", "x-unit": "ns"},
                "kv": {"type": ["integer", "null"], "minimum": 0, "x-unit": "B"},
                "wait_ms": {"type": "array", "items": {"type": "number"}, "x-unit": "ms"},
            })
        );
    }
}
