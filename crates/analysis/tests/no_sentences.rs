//! An analysis holds codes and values; the report has the sentences.

use crate::record;

use std::path::Path;

use llmprof_analysis::analyze;
use llmprof_record::import::{Limits, Profile, import};
use llmprof_record::trace::Trace;
use llmprof_theory::device::Catalog;
use llmprof_theory::{Model, Workload};
use serde_json::{Value, json};

use self::record::record;

/// A text with more words than this is a sentence.
const MOST_WORDS: usize = 4;

/// Keys whose values others worded or named: errors of a system, names of devices and phases, expressions of shapes.
const OF_OTHERS: [&str; 5] = ["error", "title", "label", "found", "expected"];

fn fixture(name: &str) -> Trace {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    match import(&folder.join(name), &Limits::default()).expect("a trace") {
        (_, Profile::Trace(trace)) => *trace,
        (format, _) => panic!("{format} is no timeline"),
    }
}

fn model() -> Model {
    let config = json!({
        "model_type": "qwen2", "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1e6, "hidden_size": 896,
        "intermediate_size": 4864, "max_position_embeddings": 32768, "num_attention_heads": 14, "num_hidden_layers": 24,
        "num_key_value_heads": 2, "vocab_size": 151_936, "tie_word_embeddings": true, "torch_dtype": "bfloat16"
    });
    Model::from_config(&config, None).expect("a model")
}

/// Sentences of a document, each with the path of its key.
fn collect_sentences(
    value: &Value,
    key: &str,
    is_name: &dyn Fn(&str) -> bool,
    texts: &mut Vec<String>,
) {
    match value {
        Value::String(text) => {
            let words = text.split_whitespace().filter(|word| {
                let letters = word.chars().filter(|c| c.is_alphabetic());
                letters.count() > 1
            });
            if words.count() > MOST_WORDS && !is_name(text) {
                texts.push(format!("{key}: {text}"));
            }
        }
        Value::Array(values) => {
            for value in values {
                collect_sentences(value, key, is_name, texts);
            }
        }
        Value::Object(values) => {
            for (name, value) in values {
                if !OF_OTHERS.contains(&name.as_str()) {
                    collect_sentences(value, &format!("{key}/{name}"), is_name, texts);
                }
            }
        }
        _ => {}
    }
}

fn assert_none(name: &str, subject: Option<(&Model, &Workload)>, device: Option<&str>) {
    let trace = fixture(name);
    let device = device.map(|device| Catalog::embedded().by_name(device).expect("a device"));
    let analysis = analyze(&record(&trace, subject), device.as_ref()).expect("an analysis");
    let json = serde_json::to_value(&analysis).expect("numbers are finite");
    let mut texts = Vec::new();
    // Kernels have their names, and shorter ones that are made of them.
    let is_name = |text: &str| {
        let is_template = text.contains('<') || text.contains('(') || text.contains("::");
        is_template || trace.strings.find(text).is_some()
    };
    collect_sentences(&json, "", &is_name, &mut texts);
    assert!(texts.is_empty(), "{name}: {texts:#?}");
    assert!(!analysis.findings.is_empty() && !analysis.assumptions.is_empty());
}

#[test]
fn an_analysis_has_no_sentences() {
    let model = model();
    let workload = Workload {
        batch: 1,
        prompt: 128,
        new_tokens: 5,
        ..Workload::default()
    };
    let subject = Some((&model, &workload));
    assert_none("h200/nsys/qwen05.sqlite.gz", subject, Some("h200"));
    assert_none("h200/nsys/qwen05.sqlite.gz", None, None);
    assert_none("cpu/torch_modules.json.gz", None, Some("xeon_8480"));
    assert_none("h200/cupti/triton.wire.gz", None, None);
}
