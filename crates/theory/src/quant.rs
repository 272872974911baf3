//! How weights are stored: plain elements, or quantized elements with their scales.

use std::{borrow::Cow, fmt, str::FromStr};

use llmprof_units::DType;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The storage of a weight matrix.
///
/// Biases, norms and embeddings keep the model's own dtype in every format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightFormat {
    /// Elements of one dtype and nothing else.
    Plain(DType),
    /// 8-bit floats with one f32 scale per tile of `rows × columns`; per tensor when both are 0.
    Fp8 {
        /// Output rows that share a scale.
        rows: u32,
        /// Input columns that share a scale.
        columns: u32,
    },
    /// 8-bit integers with a 16-bit scale per group of inputs, or one f32 scale per output row.
    Int8 {
        /// Input columns that share a scale; 0 is all of a row.
        group: u32,
    },
    /// 4-bit integers with a 16-bit scale per group of inputs, as AWQ and GPTQ store them.
    Int4 {
        /// Input columns that share a scale.
        group: u32,
        /// A 4-bit zero point per group beside the scale.
        zeros: bool,
        /// A 4-byte group index per input column (GPTQ's `g_idx`).
        index: bool,
    },
    /// 4-bit floats with an 8-bit power of two per 32 inputs (OCP microscaling).
    Mxfp4,
    /// 4-bit floats with an fp8 scale per 16 inputs, and one f32 scale per tensor.
    Nvfp4,
}

impl WeightFormat {
    /// Inputs that kernels of the native engine read at a time; groups that share a scale are whole multiples of it.
    pub const NATIVE_BLOCK: u32 = 32;
    /// One scale per output row.
    pub const INT8: Self = Self::Int8 { group: 0 };
    /// AWQ as it is usually published: groups of 128 with zero points.
    pub const AWQ: Self = Self::Int4 {
        group: 128,
        zeros: true,
        index: false,
    };
    /// GPTQ as it is usually published: groups of 128 with zero points and a group index.
    pub(crate) const GPTQ: Self = Self::Int4 {
        group: 128,
        zeros: true,
        index: true,
    };
    pub(crate) const FP8: Self = Self::Fp8 {
        rows: 0,
        columns: 0,
    };

    /// Whether the native engine quantizes weights to it: symmetric integers, with a scale for each row or for whole blocks of
    /// inputs.
    pub fn is_native(self) -> bool {
        match self {
            Self::Int8 { group } => group.is_multiple_of(Self::NATIVE_BLOCK),
            Self::Int4 {
                group,
                zeros: false,
                index: false,
            } => group > 0 && group.is_multiple_of(Self::NATIVE_BLOCK),
            _ => false,
        }
    }

    /// The dtype of the stored elements.
    pub fn element_dtype(self) -> DType {
        match self {
            Self::Plain(dtype) => dtype,
            Self::Fp8 { .. } => DType::F8E4m3,
            Self::Int8 { .. } => DType::I8,
            Self::Int4 { .. } => DType::I4,
            Self::Mxfp4 | Self::Nvfp4 => DType::F4E2m1,
        }
    }

    /// The dtype that matrix units multiply by default when activations are `activations`.
    ///
    /// fp8, int8 and nvfp4 checkpoints are made for units of that dtype; 4-bit integers, mxfp4, and 8-bit integers with scales along
    /// their inputs (which a sum of integers cannot cross) are expanded to the activations' dtype first.
    pub fn default_compute(self, activations: DType) -> DType {
        match self {
            Self::Fp8 { .. } => DType::F8E4m3,
            Self::Int8 { group: 0 } => DType::I8,
            Self::Nvfp4 => DType::F4E2m1,
            Self::Plain(_) | Self::Int8 { .. } | Self::Int4 { .. } | Self::Mxfp4 => activations,
        }
    }

    /// Bytes of a matrix of `rows` outputs by `columns` inputs, scales included; saturates.
    pub fn stored_bytes(self, rows: u64, columns: u64) -> u64 {
        let elements = rows.saturating_mul(columns);
        let stored = self.element_dtype().bytes_for(elements).unwrap_or(u64::MAX);
        let extra = match self {
            Self::Plain(_) => 0,
            Self::Fp8 {
                rows: 0,
                columns: 0,
            } => 4,
            Self::Fp8 {
                rows: tile_rows,
                columns: tile_columns,
            } => 4u64
                .saturating_mul(rows.div_ceil(u64::from(tile_rows.max(1))))
                .saturating_mul(columns.div_ceil(u64::from(tile_columns.max(1)))),
            Self::Int8 { group: 0 } => rows.saturating_mul(4),
            Self::Int8 { group } => {
                let groups = rows.saturating_mul(columns.div_ceil(u64::from(group)));
                groups.saturating_mul(2)
            }
            Self::Int4 {
                group,
                zeros,
                index,
            } => {
                let groups = rows.saturating_mul(columns.div_ceil(u64::from(group.max(1))));
                let zeros = if zeros { groups.div_ceil(2) } else { 0 };
                let index = if index { columns.saturating_mul(4) } else { 0 };
                groups
                    .saturating_mul(2)
                    .saturating_add(zeros)
                    .saturating_add(index)
            }
            Self::Mxfp4 => rows.saturating_mul(columns.div_ceil(32)),
            Self::Nvfp4 => rows.saturating_mul(columns.div_ceil(16)).saturating_add(4),
        };
        stored.saturating_add(extra)
    }
}

impl fmt::Display for WeightFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(dtype) => dtype.fmt(f),
            Self::Fp8 {
                rows: 0,
                columns: 0,
            } => f.pad("fp8"),
            Self::Fp8 { rows, columns } => write!(f, "fp8_{rows}x{columns}"),
            Self::Int8 { group: 0 } => f.pad("int8"),
            Self::Int8 { group } => write!(f, "int8_g{group}"),
            Self::Int4 {
                group,
                zeros,
                index,
            } => write!(
                f,
                "{}_g{group}",
                match (zeros, index) {
                    (_, true) => "gptq",
                    (true, false) => "awq",
                    (false, false) => "int4",
                }
            ),
            Self::Mxfp4 => f.pad("mxfp4"),
            Self::Nvfp4 => f.pad("nvfp4"),
        }
    }
}

/// A weight format that is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown weight format `{0}` (known: any dtype such as bf16 or f32; fp8, fp8_128x128, int8, int8_g128, int4_g128, awq, awq_g64, gptq, gptq_g64, mxfp4, nvfp4)"
)]
pub struct ParseWeightFormatError(pub String);

impl FromStr for WeightFormat {
    type Err = ParseWeightFormatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseWeightFormatError(text.to_owned());
        let lower = text.trim().to_ascii_lowercase();
        let size = |digits: &str| match digits.parse::<u32>() {
            Ok(size) if size > 0 => Ok(size),
            _ => Err(error()),
        };
        match lower.as_str() {
            "fp8" | "fp8_e4m3" => return Ok(Self::FP8),
            "int8" => return Ok(Self::INT8),
            "int4" => {
                return Ok(Self::Int4 {
                    group: 128,
                    zeros: false,
                    index: false,
                });
            }
            "awq" => return Ok(Self::AWQ),
            "gptq" => return Ok(Self::GPTQ),
            "mxfp4" => return Ok(Self::Mxfp4),
            "nvfp4" => return Ok(Self::Nvfp4),
            _ => {}
        }
        if let Some((rows, columns)) = lower
            .strip_prefix("fp8_")
            .and_then(|tile| tile.split_once('x'))
        {
            return Ok(Self::Fp8 {
                rows: size(rows)?,
                columns: size(columns)?,
            });
        }
        if let Some(group) = lower.strip_prefix("int8_g") {
            return Ok(Self::Int8 {
                group: size(group)?,
            });
        }
        for (prefix, zeros, index) in [
            ("awq_g", true, false),
            ("gptq_g", true, true),
            ("int4_g", false, false),
        ] {
            if let Some(group) = lower.strip_prefix(prefix) {
                return Ok(Self::Int4 {
                    group: size(group)?,
                    zeros,
                    index,
                });
            }
        }
        lower.parse().map(Self::Plain).map_err(|_| error())
    }
}

impl Serialize for WeightFormat {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for WeightFormat {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "WeightFormat".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

impl<'de> Deserialize<'de> for WeightFormat {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A 4096 × 14336 projection in each format, worked by hand from the formats' definitions.
    #[test]
    fn bytes_of_a_large_projection() {
        let (rows, columns) = (4096, 14336);
        let elements = rows * columns;
        let deepseek_v3 = WeightFormat::Fp8 {
            rows: 128,
            columns: 128,
        };
        for (format, expected) in [
            (WeightFormat::Plain(DType::Bf16), elements * 2),
            (WeightFormat::FP8, elements + 4),
            (deepseek_v3, elements + 32 * 112 * 4),
            (WeightFormat::INT8, elements + 4096 * 4),
            (WeightFormat::Int8 { group: 128 }, elements + 4096 * 112 * 2),
            (
                WeightFormat::AWQ,
                elements / 2 + 4096 * 112 * 2 + 4096 * 112 / 2,
            ),
            (
                WeightFormat::GPTQ,
                elements / 2 + 4096 * 112 * 2 + 4096 * 112 / 2 + 14336 * 4,
            ),
            (WeightFormat::Mxfp4, elements / 2 + elements / 32),
            (WeightFormat::Nvfp4, elements / 2 + elements / 16 + 4),
        ] {
            assert_eq!(format.stored_bytes(rows, columns), expected, "{format}");
        }
    }

    #[test]
    fn names_parse_back() {
        for text in [
            "bf16",
            "fp8",
            "fp8_128x128",
            "int8",
            "int8_g128",
            "int4_g64",
            "awq_g128",
            "gptq_g32",
            "mxfp4",
            "nvfp4",
        ] {
            assert_eq!(text.parse::<WeightFormat>().unwrap().to_string(), text);
        }
        for text in ["int3", "int8_g0", "awq_g0", "fp8_x", "awq_g"] {
            assert!(text.parse::<WeightFormat>().is_err(), "{text}");
        }
    }
}
