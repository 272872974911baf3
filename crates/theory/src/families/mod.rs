//! Families: from a Hugging Face `config.json` to a [`Model`].
//!
//! A family is one function from the config's keys to blocks, registered below under the `model_type` values it reads.
//! Defaults are those of the family's config class in transformers, so that a config may leave out what the class knows.

mod base;
mod common;
mod deepseek;
mod deepseek_ocr;
mod deepseek_ocr2;
mod gemma;
mod gpt;
mod gpt_oss;
mod keys;
mod llama;
mod mixtral;
mod moe;
mod phi;
mod quantization;
mod qwen;
mod qwen3_next;
mod qwen_vl;
mod rope;
mod t5;
mod vision;
mod whisper;

pub use common::COMMON_KEYS;
pub use common::GELU_NEW;
use keys::Keys;
use serde_json::Value;

use crate::{error::ModelError, model::Model};

/// A way to read a config.
struct Family {
    /// Its name, for `--as` and for [`Model::family`].
    name: &'static str,
    /// Other `model_type` values that it reads.
    aliases: &'static [&'static str],
    build: fn(&Keys<'_>) -> Result<Model, ModelError>,
}

const fn plain_family(
    name: &'static str,
    build: fn(&Keys<'_>) -> Result<Model, ModelError>,
) -> Family {
    Family {
        name,
        aliases: &[],
        build,
    }
}

const FAMILIES: &[Family] = &[
    plain_family("llama", llama::build_llama),
    plain_family("mistral", llama::build_mistral),
    plain_family("qwen2", qwen::build_qwen2),
    plain_family("qwen3", qwen::build_qwen3),
    plain_family("phi3", phi::build_phi3),
    plain_family("gemma2", gemma::build_gemma2),
    plain_family("gemma3_text", gemma::gemma3_text),
    plain_family("gpt2", gpt::build_gpt2),
    plain_family("gpt_neox", gpt::gpt_neox),
    plain_family("opt", gpt::build_opt),
    plain_family("mixtral", mixtral::build_mixtral),
    plain_family("qwen2_moe", qwen::qwen2_moe),
    plain_family("qwen3_moe", qwen::qwen3_moe),
    plain_family("qwen3_next", qwen3_next::qwen3_next),
    plain_family("qwen3_5_text", qwen3_next::qwen3_5_text),
    plain_family("qwen3_5_moe_text", qwen3_next::qwen3_5_moe_text),
    plain_family("gpt_oss", gpt_oss::gpt_oss),
    plain_family("deepseek_v2", deepseek::deepseek_v2),
    plain_family("deepseek_v3", deepseek::deepseek_v3),
    Family {
        name: "deepseek_ocr",
        aliases: &["deepseek_vl_v2"],
        build: deepseek_ocr::deepseek_ocr,
    },
    plain_family("deepseek_ocr2", deepseek_ocr2::deepseek_ocr2),
    plain_family("qwen2_5_vl", qwen_vl::qwen2_5_vl),
    plain_family("qwen3_5", qwen3_next::qwen3_5),
    plain_family("qwen3_5_moe", qwen3_next::qwen3_5_moe),
    plain_family("t5", t5::build_t5),
    plain_family("whisper", whisper::build_whisper),
    Family {
        name: "clip",
        aliases: &["clip_vision_model"],
        build: vision::build_clip,
    },
    Family {
        name: "siglip",
        aliases: &["siglip_vision_model"],
        build: vision::build_siglip,
    },
    Family {
        name: "sam",
        aliases: &["sam_vision_model"],
        build: vision::build_sam,
    },
];

/// The names of all families.
pub fn family_names() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|family| family.name)
}

impl Model {
    /// Reads a Hugging Face config, by `as_family` where it is given, else by the config's own `model_type`.
    pub fn from_config(config: &Value, as_family: Option<&str>) -> Result<Self, ModelError> {
        let known_families = || family_names().collect::<Vec<_>>().join(", ");
        let stated = config
            .as_object()
            .ok_or(ModelError::NotAnObject)?
            .get("model_type")
            .and_then(Value::as_str);
        let name = as_family
            .or(stated)
            .ok_or_else(|| ModelError::NoModelType {
                known: known_families(),
            })?;
        let family = FAMILIES
            .iter()
            .find(|family| family.name == name || family.aliases.contains(&name))
            .ok_or_else(|| ModelError::UnknownFamily {
                found: name.to_owned(),
                known: known_families(),
            })?;
        (family.build)(&Keys::new(family.name, config)?)
    }
}
