//! Edits of a model's design that keep its number of parameters.

use llmprof_report::compose::advise::AdvisedChange;
use llmprof_theory::Model;
use serde_json::{Map, Value};

use super::{AdvisedRequest, change::RequestChange};
use crate::failure::Failure;

/// How far the number of parameters may move.
const EQUAL: f64 = 0.01;
/// Widths are chosen in multiples of this, so that no tile is partly empty.
const TILE: u64 = 128;

/// A design that is edited, key by key.
#[derive(Clone)]
struct DesignDraft<'a> {
    whole: &'a Map<String, Value>,
    /// `text_config`, where the decoder's keys stand in it.
    inside: Option<&'static str>,
    /// What is edited, in order.
    edits: Vec<(&'static str, u64)>,
}

impl DesignDraft<'_> {
    fn decoder(&self) -> &Map<String, Value> {
        let inside = self.inside.and_then(|key| self.whole.get(key)?.as_object());
        inside.unwrap_or(self.whole)
    }

    fn number(&self, key: &str) -> Option<u64> {
        let edited = self.edits.iter().rev().find(|(name, _)| *name == key);
        edited
            .map(|(_, value)| *value)
            .or_else(|| self.decoder().get(key)?.as_u64())
    }

    fn set(mut self, key: &'static str, value: u64) -> Self {
        self.edits.retain(|(name, _)| *name != key);
        self.edits.push((key, value));
        self
    }

    /// The first of some keys that the design has: families differ in names.
    fn key(&self, names: &[&'static str]) -> Option<&'static str> {
        let has = |name: &&&'static str| self.number(name).is_some();
        names.iter().find(has).copied()
    }

    fn model(&self) -> Option<Model> {
        let mut design = self.whole.clone();
        let place = match self.inside {
            Some(key) => design.get_mut(key)?.as_object_mut()?,
            None => &mut design,
        };
        for (key, value) in &self.edits {
            place.insert((*key).to_owned(), (*value).into());
        }
        Model::from_config(&Value::Object(design), None).ok()
    }

    fn parameters(&self) -> Option<u64> {
        self.model().map(|model| model.parameter_count())
    }

    /// Chooses the feed-forward width such that the parameters are `wanted` again; `None` where no width does it.
    fn balanced(self, wanted: u64) -> Option<Self> {
        let key = self.key(&FEED_WIDTHS)?;
        if is_equal(self.parameters()?, wanted) {
            return Some(self);
        }
        let width = self.number(key)?;
        // Parameters are linear in the width: two points tell the rest.
        let at = |width: u64| self.clone().set(key, width).parameters();
        let (low, high) = (at(width)? as f64, at(width + TILE)? as f64);
        let each = (high - low) / TILE as f64;
        let needed = width as f64 + (wanted as f64 - low) / each;
        if !(needed.is_finite() && needed >= TILE as f64) {
            return None;
        }
        let rounded = (needed / TILE as f64).round().max(1.0) as u64 * TILE;
        let draft = self.clone().set(key, rounded);
        is_equal(draft.parameters()?, wanted).then_some(draft)
    }

    /// As overrides. A key that the config does not have is added.
    fn overrides(&self, plan_design: &Map<String, Value>) -> Vec<String> {
        let shown = match self.inside {
            Some(key) => plan_design.get(key).and_then(Value::as_object),
            None => Some(plan_design),
        };
        let inside = self.inside.map_or(String::new(), |key| format!("{key}."));
        let line = |(key, value): &(&'static str, u64)| {
            let is_there = shown.is_some_and(|keys| keys.contains_key(*key));
            let sign = if is_there { "" } else { "+" };
            format!("{sign}model.{inside}{key}={value}")
        };
        self.edits.iter().map(line).collect()
    }
}

const FEED_WIDTHS: [&str; 4] = [
    "moe_intermediate_size",
    "intermediate_size",
    "ffn_dim",
    "n_inner",
];
const EXPERTS: [&str; 3] = ["num_local_experts", "num_experts", "n_routed_experts"];

fn is_equal(parameters: u64, wanted: u64) -> bool {
    (parameters as f64 / wanted.max(1) as f64 - 1.0).abs() <= EQUAL
}

/// Fewer key and value heads, other head sizes, widths in whole tiles, more and smaller experts.
pub(super) fn edits(request: &AdvisedRequest) -> Result<Vec<RequestChange>, Failure> {
    let design = &request.subject.design;
    let is_inside = design.get("text_config").is_some_and(Value::is_object);
    let draft = DesignDraft {
        whole: design,
        inside: is_inside.then_some("text_config"),
        edits: Vec::new(),
    };
    let wanted = request.subject.counted()?.parameter_count();
    let mut drafts = kv_heads(&draft);
    drafts.extend(head_sizes(&draft));
    drafts.extend(widths(&draft));
    drafts.extend(experts(&draft));
    let shown = &request.plan.model.design;
    let balanced = drafts.into_iter().filter_map(|(code, draft)| {
        let draft = draft.balanced(wanted)?;
        Some(RequestChange::new(code, draft.overrides(shown)))
    });
    Ok(balanced.collect())
}

fn kv_heads<'a>(draft: &DesignDraft<'a>) -> Vec<(AdvisedChange, DesignDraft<'a>)> {
    let Some(heads) = draft.number("num_attention_heads") else {
        return Vec::new();
    };
    let own = draft.number("num_key_value_heads").unwrap_or(heads);
    [2, 4, 8]
        .into_iter()
        .filter(|by| own.is_multiple_of(*by) && heads.is_multiple_of(own / by))
        .map(|by| {
            (
                AdvisedChange::KvHeads,
                draft.clone().set("num_key_value_heads", own / by),
            )
        })
        .collect()
}

/// Twice as many heads of half the size, and the other way round; keys and values keep their width.
fn head_sizes<'a>(draft: &DesignDraft<'a>) -> Vec<(AdvisedChange, DesignDraft<'a>)> {
    let (Some(heads), Some(hidden)) = (
        draft.number("num_attention_heads"),
        draft.number("hidden_size"),
    ) else {
        return Vec::new();
    };
    let kv = draft.number("num_key_value_heads").unwrap_or(heads);
    let size = draft.number("head_dim").unwrap_or(hidden / heads.max(1));
    let mut variants = Vec::new();
    for (heads, kv, size, divides) in [
        (
            heads / 2,
            kv / 2,
            size * 2,
            heads.is_multiple_of(2) && kv.is_multiple_of(2),
        ),
        (heads * 2, kv * 2, size / 2, size.is_multiple_of(2)),
    ] {
        if divides && (32..=256).contains(&size) {
            let mut edited = draft.clone().set("num_attention_heads", heads);
            edited = edited.set("num_key_value_heads", kv);
            if draft.number("head_dim").is_some() {
                edited = edited.set("head_dim", size);
            }
            variants.push((AdvisedChange::HeadSize, edited));
        }
    }
    variants
}

/// Widths that are no multiple of a tile, rounded to the nearest one.
fn widths<'a>(draft: &DesignDraft<'a>) -> Vec<(AdvisedChange, DesignDraft<'a>)> {
    let Some(key) = draft.key(&FEED_WIDTHS) else {
        return Vec::new();
    };
    let Some(width) = draft
        .number(key)
        .filter(|width| !width.is_multiple_of(TILE))
    else {
        return Vec::new();
    };
    let rounded = ((width as f64 / TILE as f64).round() as u64).max(1) * TILE;
    vec![(AdvisedChange::Widths, draft.clone().set(key, rounded))]
}

/// Twice as many experts of half the width, and half as many of twice the width; a token uses as many as before.
fn experts<'a>(draft: &DesignDraft<'a>) -> Vec<(AdvisedChange, DesignDraft<'a>)> {
    let (Some(key), Some(width)) = (draft.key(&EXPERTS), draft.key(&FEED_WIDTHS)) else {
        return Vec::new();
    };
    let (Some(count), Some(each)) = (draft.number(key), draft.number(width)) else {
        return Vec::new();
    };
    let mut variants = vec![draft.clone().set(key, count * 2).set(width, each / 2)];
    if count.is_multiple_of(2) {
        variants.push(draft.clone().set(key, count / 2).set(width, each * 2));
    }
    variants
        .into_iter()
        .map(|draft| (AdvisedChange::Experts, draft))
        .collect()
}
