//! `quantization_config`: how a published checkpoint stores its matrices.

use serde_json::Value;

use super::keys::Keys;
use crate::{error::ModelError, quant::WeightFormat};

/// The storage that the config states; `None` for a plain checkpoint.
pub(crate) fn read_quantization(keys: &Keys<'_>) -> Result<Option<WeightFormat>, ModelError> {
    let Some(part) = keys.part("quantization_config")? else {
        return Ok(None);
    };
    let Some(method) = part.text(&["quant_method"])? else {
        return Err(part.missing("quant_method"));
    };
    let group = || -> Result<u32, ModelError> {
        // −1 stands for one group per row.
        if part
            .get(&["group_size"])
            .is_some_and(|(_, v)| v.as_i64() == Some(-1))
        {
            return Ok(u32::MAX);
        }
        Ok(part.size(&["group_size", "q_group_size"], Some(128))? as u32)
    };
    let bits = part.size(&["bits", "w_bit"], Some(4));
    let integer = |zeros, index| -> Result<WeightFormat, ModelError> {
        match bits.clone()? {
            4 => Ok(WeightFormat::Int4 {
                group: group()?,
                zeros,
                index,
            }),
            8 => Ok(WeightFormat::Int8 {
                group: match group()? {
                    u32::MAX => 0,
                    size => size,
                },
            }),
            other => Err(part.unsupported("bits", &Value::from(other), "4 and 8")),
        }
    };
    let format = match method {
        "fp8" | "fbgemm_fp8" => match part.integers("weight_block_size")?.as_deref() {
            None => WeightFormat::FP8,
            Some([rows @ 1..=65536, columns @ 1..=65536]) => WeightFormat::Fp8 {
                rows: *rows as u32,
                columns: *columns as u32,
            },
            Some(other) => {
                let stated_sizes = Value::from(other.to_vec());
                return Err(part.invalid("weight_block_size", &stated_sizes, "two sizes"));
            }
        },
        "awq" => integer(part.flag(&["zero_point"], true)?, false)?,
        "gptq" => integer(true, true)?,
        "compressed-tensors" => read_packed_format(&part)?,
        "mxfp4" => WeightFormat::Mxfp4,
        "nvfp4" => WeightFormat::Nvfp4,
        "modelopt" => {
            let algorithm = part.text(&["quant_algo"])?.unwrap_or_default();
            match algorithm {
                "NVFP4" => WeightFormat::Nvfp4,
                "FP8" => WeightFormat::FP8,
                other => {
                    let stated_algorithm = Value::String(other.to_owned());
                    return Err(part.unsupported("quant_algo", &stated_algorithm, "NVFP4 and FP8"));
                }
            }
        }
        other => {
            let stated_method = Value::String(other.to_owned());
            return Err(part.unsupported(
                "quant_method",
                &stated_method,
                "fp8, awq, gptq, compressed-tensors, mxfp4, nvfp4 and modelopt",
            ));
        }
    };
    Ok(Some(format))
}

/// The format of compressed-tensors: that of its first group of modules, tiles of 8-bit floats not told apart.
fn read_packed_format(part: &Keys<'_>) -> Result<WeightFormat, ModelError> {
    let groups = part
        .part("config_groups")?
        .ok_or_else(|| part.missing("config_groups"))?;
    let group = groups
        .part("group_0")?
        .ok_or_else(|| groups.missing("group_0"))?;
    let weights = group
        .part("weights")?
        .ok_or_else(|| group.missing("weights"))?;
    if weights.text(&["type"])? == Some("float") {
        return Ok(WeightFormat::FP8);
    }
    match weights.size(&["num_bits"], Some(4))? {
        4 => Ok(WeightFormat::Int4 {
            group: weights.size(&["group_size"], Some(128))? as u32,
            zeros: !weights.flag(&["symmetric"], true)?,
            index: false,
        }),
        8 => Ok(WeightFormat::Int8 {
            group: weights.count(&["group_size"], 0)? as u32,
        }),
        other => Err(weights.unsupported("num_bits", &Value::from(other), "4 and 8")),
    }
}

/// Whether a quantized checkpoint leaves modules with this word in their path as they were (`ignore`, `modules_to_not_convert`).
pub(crate) fn is_left_plain(keys: &Keys<'_>, word: &str) -> Result<bool, ModelError> {
    let Some(part) = keys.part("quantization_config")? else {
        return Ok(false);
    };
    let listed = part.get(&["ignore", "modules_to_not_convert"]);
    let patterns = listed.and_then(|(_, value)| value.as_array());
    Ok(patterns.is_some_and(|patterns| {
        let mut texts = patterns.iter().filter_map(Value::as_str);
        texts.any(|text| text.contains(word))
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{Model, quant::WeightFormat};

    fn format_of(quantization: &serde_json::Value) -> Option<WeightFormat> {
        let config = json!({
            "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 1, "num_attention_heads": 4,
            "intermediate_size": 512, "vocab_size": 128, "quantization_config": quantization,
        });
        Model::from_config(&config, None).unwrap().quantization
    }

    #[test]
    fn groups_of_8_bit_integers_are_kept() {
        let gptq = |group: i64| json!({ "quant_method": "gptq", "bits": 8, "group_size": group });
        assert_eq!(
            format_of(&gptq(128)),
            Some(WeightFormat::Int8 { group: 128 })
        );
        assert_eq!(format_of(&gptq(-1)), Some(WeightFormat::INT8));
    }

    #[test]
    fn compressed_tensors_state_their_first_group() {
        let packed = |weights: &serde_json::Value| json!({ "quant_method": "compressed-tensors", "config_groups": { "group_0": { "weights": weights } } });
        let four = json!({ "type": "int", "num_bits": 4, "group_size": 32, "symmetric": true });
        let int4 = WeightFormat::Int4 {
            group: 32,
            zeros: false,
            index: false,
        };
        assert_eq!(format_of(&packed(&four)), Some(int4));
        let eight = json!({ "type": "int", "num_bits": 8, "group_size": null, "symmetric": true });
        assert_eq!(format_of(&packed(&eight)), Some(WeightFormat::INT8));
        let float = json!({ "type": "float", "num_bits": 8 });
        assert_eq!(format_of(&packed(&float)), Some(WeightFormat::FP8));
    }
}
