use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The number format of an element.
///
/// Block formats (`mxfp4`, `nvfp4`) and group-quantized integers are an element type plus scales; the scales belong
/// to the weight format that uses them, the element type is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DType {
    F64,
    F32,
    /// Single-precision storage, 19-bit multiplication on tensor cores.
    Tf32,
    F16,
    /// Brain float: eight exponent bits, seven mantissa bits.
    Bf16,
    /// 8-bit float, four exponent bits.
    F8E4m3,
    /// 8-bit float, five exponent bits.
    F8E5m2,
    /// 4-bit float, two exponent bits (elements of mxfp4 and nvfp4).
    F4E2m1,
    I64,
    I32,
    I16,
    I8,
    /// 4-bit integer (elements of AWQ and GPTQ weights).
    I4,
    U8,
    /// One byte holding true or false.
    Bool,
    C64,
}

/// Every dtype with its canonical name, its width in bits, and the other names that tools give it.
const TABLE: &[(DType, &str, u32, &[&str])] = &[
    (DType::F64, "f64", 64, &["float64", "double", "fp64"]),
    (DType::F32, "f32", 32, &["float32", "float", "fp32"]),
    (DType::Tf32, "tf32", 32, &[]),
    (
        DType::F16,
        "f16",
        16,
        &["float16", "half", "fp16", "c10::half"],
    ),
    (DType::Bf16, "bf16", 16, &["bfloat16", "c10::bfloat16"]),
    (
        DType::F8E4m3,
        "fp8",
        8,
        &[
            "f8_e4m3",
            "fp8_e4m3",
            "float8_e4m3fn",
            "e4m3",
            "c10::float8_e4m3fn",
        ],
    ),
    (
        DType::F8E5m2,
        "fp8_e5m2",
        8,
        &["f8_e5m2", "float8_e5m2", "e5m2", "c10::float8_e5m2"],
    ),
    (
        DType::F4E2m1,
        "fp4",
        4,
        &["f4_e2m1", "fp4_e2m1", "float4_e2m1fn_x2", "e2m1"],
    ),
    (DType::I64, "int64", 64, &["i64", "long", "long int"]),
    (DType::I32, "int32", 32, &["i32", "int"]),
    (DType::I16, "int16", 16, &["i16", "short"]),
    (DType::I8, "int8", 8, &["i8", "signed char"]),
    (DType::I4, "int4", 4, &["i4"]),
    (DType::U8, "uint8", 8, &["u8", "unsigned char", "byte"]),
    (DType::Bool, "bool", 8, &[]),
    (DType::C64, "complex64", 64, &["c64", "c10::complex<float>"]),
];

impl DType {
    fn table_row(self) -> &'static (Self, &'static str, u32, &'static [&'static str]) {
        TABLE
            .iter()
            .find(|row| row.0 == self)
            .expect("the table lists every dtype; a test checks it")
    }

    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }

    /// The name used in config keys, JSON and tables.
    pub fn name(self) -> &'static str {
        self.table_row().1
    }

    /// Width of one element in bits.
    pub fn bits(self) -> u32 {
        self.table_row().2
    }

    /// Bytes of `count` elements, rounded up to whole bytes; `None` on overflow.
    pub fn bytes_for(self, count: u64) -> Option<u64> {
        let bits = u128::from(count) * u128::from(self.bits());
        u64::try_from(bits.div_ceil(8)).ok()
    }

    /// True for the floating-point formats.
    pub fn is_float(self) -> bool {
        matches!(
            self,
            Self::F64
                | Self::F32
                | Self::Tf32
                | Self::F16
                | Self::Bf16
                | Self::F8E4m3
                | Self::F8E5m2
                | Self::F4E2m1
        )
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no dtype has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseDTypeError(
    /// The name as it was given.
    pub String,
);

impl fmt::Display for ParseDTypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known_names: Vec<_> = DType::all().map(DType::name).collect();
        write!(
            f,
            "unknown dtype `{}` (known: {})",
            self.0,
            known_names.join(", ")
        )
    }
}

impl std::error::Error for ParseDTypeError {}

impl FromStr for DType {
    type Err = ParseDTypeError;

    /// Accepts our names and those of torch, Hugging Face configs, Kineto and safetensors, in any case.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let lower = text.trim().to_ascii_lowercase();
        let bare = lower.strip_prefix("torch.").unwrap_or(&lower);
        TABLE
            .iter()
            .find(|(_, name, _, aliases)| *name == bare || aliases.contains(&bare))
            .map(|row| row.0)
            .ok_or_else(|| ParseDTypeError(text.to_owned()))
    }
}

impl Serialize for DType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl JsonSchema for DType {
    fn schema_name() -> Cow<'static, str> {
        "DType".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = TABLE.iter().map(|row| row.1).collect();
        json_schema!({"type": "string", "enum": names, "description": "Number format of an element."})
    }
}

impl<'de> Deserialize<'de> for DType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_aliases_are_unique_and_parse_back() {
        let mut seen = std::collections::BTreeSet::new();
        for (dtype, name, bits, aliases) in TABLE {
            assert_eq!(dtype.bits(), *bits);
            for spelling in std::iter::once(name).chain(*aliases) {
                assert!(seen.insert(*spelling), "{spelling} is listed twice");
                assert_eq!(spelling.to_uppercase().parse::<DType>().unwrap(), *dtype);
            }
        }
    }

    #[test]
    fn foreign_spellings() {
        for (text, dtype) in [
            ("torch.bfloat16", DType::Bf16),
            ("c10::BFloat16", DType::Bf16),
            ("long int", DType::I64),
            ("F8_E4M3", DType::F8E4m3),
            ("BF16", DType::Bf16),
        ] {
            assert_eq!(text.parse::<DType>().unwrap(), dtype);
        }
        let error = "bf17".parse::<DType>().unwrap_err().to_string();
        assert!(error.contains("bf17") && error.contains("bf16"), "{error}");
    }

    #[test]
    fn sub_byte_elements_round_up() {
        assert_eq!(DType::I4.bytes_for(3), Some(2));
        assert_eq!(DType::Bf16.bytes_for(3), Some(6));
        assert_eq!(DType::F64.bytes_for(u64::MAX), None);
    }
}
