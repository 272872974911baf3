//! Rotation settings as transformers 4 (`rope_theta`, `rope_scaling`) and 5 (`rope_parameters`) write them.

use serde_json::Value;

use super::keys::Keys;
use crate::{
    block::{Rope, RopePairing, RopeScaling},
    error::ModelError,
};

/// What a family says about rotation where its config is silent.
pub(crate) struct RopeDefaults<'a> {
    pub(crate) theta: f64,
    /// Share of a head that rotates.
    pub(crate) partial: f64,
    /// The kind of layer, for configs that keep settings by kind (Gemma 3).
    pub(crate) layer_type: Option<&'a str>,
}

impl Default for RopeDefaults<'_> {
    fn default() -> Self {
        Self {
            theta: 10_000.0,
            partial: 1.0,
            layer_type: None,
        }
    }
}

/// Reads the rotation of heads of `head_dim`.
pub(crate) fn read_rope(
    keys: &Keys<'_>,
    head_dim: u64,
    defaults: &RopeDefaults<'_>,
) -> Result<Rope, ModelError> {
    let parameters = match keys.part("rope_parameters")? {
        Some(parameters) => match defaults.layer_type {
            Some(layer_type) if parameters.has(layer_type) => parameters.part(layer_type)?,
            _ => Some(parameters),
        },
        None => None,
    };
    let scaling = match parameters {
        Some(parameters) => Some(parameters),
        None => keys.part("rope_scaling")?,
    };
    let theta = match &scaling {
        Some(part) if part.has("rope_theta") => part.positive(&["rope_theta"], defaults.theta)?,
        _ => keys.positive(&["rope_theta", "rotary_emb_base"], defaults.theta)?,
    };
    let partial_names = ["partial_rotary_factor", "rotary_pct"];
    let (partial_part, partial) = match &scaling {
        Some(part) if part.has(partial_names[0]) => {
            (part, part.positive(&partial_names, defaults.partial)?)
        }
        _ => (keys, keys.positive(&partial_names, defaults.partial)?),
    };
    let dims = (head_dim as f64 * partial) as u64;
    if partial > 1.0 || !dims.is_multiple_of(2) || dims == 0 {
        // Where the whole head rotates, its size is what does not fit.
        if partial_part.get(&partial_names).is_none() {
            let other = format!("a rotation in pairs, of {dims} elements of each head");
            return Err(keys.contradiction("head_dim", head_dim, other));
        }
        return Err(partial_part.contradiction(
            partial_names[0],
            partial,
            format!("a head of {head_dim} elements: {dims} of them cannot rotate in pairs"),
        ));
    }
    let scaling = match &scaling {
        Some(part) => read_scaling(keys, part)?,
        None => RopeScaling::None,
    };
    if let RopeScaling::LongRope {
        short_factor,
        long_factor,
        ..
    } = &scaling
    {
        for (name, factors) in [("short_factor", short_factor), ("long_factor", long_factor)] {
            if factors.len() as u64 != dims / 2 {
                return Err(keys.contradiction(
                    &format!("rope_scaling.{name}"),
                    format!("{} factors", factors.len()),
                    format!("{} rotating pairs", dims / 2),
                ));
            }
        }
    }
    Ok(Rope {
        dims,
        theta,
        scaling,
        pairing: RopePairing::Halves,
    })
}

fn read_scaling(keys: &Keys<'_>, part: &Keys<'_>) -> Result<RopeScaling, ModelError> {
    let max_position = keys
        .positions(&["max_position_embeddings"])?
        .unwrap_or(2048);
    let original = || -> Result<u64, ModelError> {
        let names = ["original_max_position_embeddings"];
        Ok(match part.positions(&names)? {
            Some(original) => original,
            None => keys.positions(&names)?.unwrap_or(max_position),
        })
    };
    let factor = || match part.optional_float(&["factor"])? {
        Some(_) => part.positive(&["factor"], 1.0),
        None => Err(part.missing("factor")),
    };
    let name = part.text(&["rope_type", "type"])?.unwrap_or("default");
    Ok(match name {
        "default" | "mrope" => match part.integers("mrope_section")? {
            Some(sections) => RopeScaling::Multimodal { sections },
            None => RopeScaling::None,
        },
        "linear" => RopeScaling::Linear { factor: factor()? },
        "dynamic" => RopeScaling::Dynamic { factor: factor()? },
        "llama3" => RopeScaling::Llama3 {
            factor: factor()?,
            low_freq_factor: part.positive(&["low_freq_factor"], 1.0)?,
            high_freq_factor: part.positive(&["high_freq_factor"], 4.0)?,
            original_max_position: original()?,
        },
        // Phi-3's first configs called its method `su`, later ones `yarn`, though it has a factor per dimension.
        "longrope" | "su" => long_rope(part, original()?, max_position)?,
        "yarn" if part.has("short_factor") => long_rope(part, original()?, max_position)?,
        "yarn" => RopeScaling::Yarn {
            factor: factor()?,
            beta_fast: part.positive(&["beta_fast"], 32.0)?,
            beta_slow: part.positive(&["beta_slow"], 1.0)?,
            original_max_position: original()?,
            attention_factor: part.optional_float(&["attention_factor"])?,
            mscale: part.optional_float(&["mscale"])?,
            mscale_all_dim: part.optional_float(&["mscale_all_dim"])?,
            truncate: part.flag(&["truncate"], true)?,
        },
        other => {
            let stated_type = Value::String(other.to_owned());
            return Err(part.unsupported(
                "rope_type",
                &stated_type,
                "default, linear, dynamic, llama3, yarn, longrope and mrope",
            ));
        }
    })
}

fn long_rope(
    part: &Keys<'_>,
    original_max_position: u64,
    max_position: u64,
) -> Result<RopeScaling, ModelError> {
    Ok(RopeScaling::LongRope {
        short_factor: part.floats("short_factor")?,
        long_factor: part.floats("long_factor")?,
        original_max_position,
        attention_factor: part.optional_float(&["attention_factor"])?,
        max_position,
    })
}
