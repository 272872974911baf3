//! Overrides and interpolations against what hydra-core 1.3.8 and OmegaConf 2.3.1 make of them.
//!
//! `tests/grammar/expect.py` writes the expectations; `GRAMMAR_EXPECTATIONS` names another folder of them, for a longer
//! run with another seed.

use std::fs;
use std::path::PathBuf;

use llmprof_config::grammar::interpolation;
use llmprof_config::grammar::overrides::{KeepOrder, parse_override};
use llmprof_config::grammar::{
    Element, Expression, Glob, Interpolation, InterpolationTarget, Number, Override, Quote, Sweep,
    TemplatePiece,
};
use llmprof_config::int::Int;
use llmprof_config::python::float_repr;
use serde_json::{Value, json};

const GROUP_OPTIONS: [&str; 6] = ["a", "ab", "b", "b1", "c-d", "[x]"];

/// What the recipe writes for a refused text.
fn refused() -> Value {
    json!(0)
}

fn expectations(name: &str) -> Vec<Vec<Value>> {
    let folder = std::env::var_os("GRAMMAR_EXPECTATIONS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/grammar"),
        PathBuf::from,
    );
    let text =
        fs::read_to_string(folder.join(name)).expect("the expectations are in the repository");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("each line is an array"))
        .collect()
}

/// Fails with the first differences; `of` maps a line to (text, expected, ours).
fn compare(name: &str, of: impl Fn(&[Value]) -> (String, Value, Value)) {
    let lines = expectations(name);
    assert!(lines.len() >= 2000, "{name} has only {} texts", lines.len());
    let differences: Vec<_> = lines
        .iter()
        .map(|line| of(line))
        .filter(|(_, expected, ours)| expected != ours)
        .map(|(text, expected, ours)| format!("{text:?}\n  expected {expected}\n  got      {ours}"))
        .collect();
    assert!(
        differences.is_empty(),
        "{} of {} differ:\n{}",
        differences.len(),
        lines.len(),
        differences[..differences.len().min(30)].join("\n")
    );
}

#[test]
fn overrides_as_hydra_reads_them() {
    compare("overrides.jsonl", |line| {
        let text = line[0].as_str().expect("a text").to_owned();
        let ours = parse_override(&text, &mut KeepOrder).map_or_else(
            |error| {
                let span = error.span();
                assert!(
                    text.get(span.start..span.end).is_some(),
                    "{text:?}: {error:?}"
                );
                refused()
            },
            |parsed| show_override(&parsed),
        );
        (text, line[1].clone(), ours)
    });
}

fn show_override(parsed: &Override) -> Value {
    let mut shown = vec![
        json!(parsed.key_element()),
        json!(parsed.key_or_group),
        json!(parsed.package),
    ];
    let Some(element) = &parsed.element else {
        return Value::Array(shown);
    };
    shown.push(show_element(element));
    shown.push(if parsed.is_sweep() {
        let options = |_: &str| GROUP_OPTIONS.map(str::to_owned).to_vec();
        match parsed.sweep_texts(options, &mut KeepOrder) {
            Ok(texts) if texts.len() > 200 => json!("many"),
            Ok(texts) => json!(texts),
            // The recipe stops listing early; we refuse what never ends.
            Err(error) if error.to_string().contains("never ends") => json!("many"),
            Err(_) => refused(),
        }
    } else {
        match parsed.value_text(false) {
            Ok(text) if Some(text.as_str()) == parsed.value_source() => json!(1),
            Ok(text) => json!(text),
            Err(_) => refused(),
        }
    });
    Value::Array(shown)
}

fn show_element(element: &Element) -> Value {
    match element {
        Element::Null => Value::Null,
        Element::Bool(value) => json!(value),
        Element::Int(value) => show_int(value),
        Element::Float(value) => show_float(*value),
        Element::Str(text) => json!(text),
        Element::Quoted(quoted) => match quoted.quote {
            Quote::Single => json!({ "q": quoted.text }),
            Quote::Double => json!({ "Q": quoted.text }),
        },
        Element::List(items) => show_elements(items),
        Element::Dict(pairs) => {
            let pairs: Vec<_> = pairs
                .iter()
                .map(|(key, value)| json!([show_element(key), show_element(value)]))
                .collect();
            json!({ "d": pairs })
        }
        Element::Sweep(sweep) => show_sweep(sweep),
    }
}

fn show_elements(elements: &[Element]) -> Value {
    elements.iter().map(show_element).collect()
}

fn show_sweep(sweep: &Sweep) -> Value {
    match sweep {
        Sweep::Choice(choice) => json!({
            "c": [show_elements(&choice.list), choice.simple_form, choice.shuffle, choice.tags]
        }),
        Sweep::Range(range) => json!({
            "r": [
                show_number(range.start),
                show_number(range.stop),
                show_number(range.step),
                range.shuffle,
                range.tags,
            ]
        }),
        Sweep::Interval(interval) => json!({
            "n": [show_number(interval.start), show_number(interval.end), interval.tags]
        }),
        Sweep::Glob(Glob { include, exclude }) => json!({
            "g": [show_elements(include), show_elements(exclude)]
        }),
    }
}

fn show_number(number: Number) -> Value {
    match number {
        Number::Int(value) => show_int(&Int::from(value)),
        Number::Float(value) => show_float(value),
    }
}

fn show_int(value: &Int) -> Value {
    match value.as_i64() {
        Some(small) if small != i64::MIN => json!(small),
        _ => json!({ "i": value.to_string() }),
    }
}

fn show_float(value: f64) -> Value {
    json!({ "f": float_repr(value) })
}

#[test]
fn interpolations_as_omegaconf_reads_them() {
    compare("interpolations.jsonl", |line| {
        let text = line[1].as_str().expect("a text").to_owned();
        let shown = if line[0] == json!("v") {
            interpolation::parse_template(&text).map(|template| show_text(&text, &template.pieces))
        } else {
            interpolation::parse_element(&text).map(|element| show_expression(&text, &element))
        };
        let ours = shown.map_or_else(
            |error| {
                let span = error.span();
                assert!(
                    text.get(span.start..span.end).is_some(),
                    "{text:?}: {error:?}"
                );
                refused()
            },
            |shown| json!([shown]),
        );
        (text, line[2].clone(), ours)
    });
}

/// A text whose interpolations resolve to a marker that shows what was asked for; alone, a marker keeps its type.
fn show_text(source: &str, pieces: &[TemplatePiece]) -> Value {
    match pieces {
        [TemplatePiece::Interpolation(inner)] => json!({ "m": marker(source, inner) }),
        _ => json!(joined(source, pieces)),
    }
}

fn joined(source: &str, pieces: &[TemplatePiece]) -> String {
    pieces
        .iter()
        .map(|piece| match piece {
            TemplatePiece::Literal(text) => text.clone(),
            TemplatePiece::Interpolation(inner) => marker(source, inner),
        })
        .collect()
}

fn marker(source: &str, interpolation: &Interpolation) -> String {
    let text = interpolation.span.slice_of(source);
    assert!(
        text.starts_with("${") && text.ends_with('}'),
        "{text:?} of {source:?}"
    );
    match &interpolation.target {
        InterpolationTarget::Node(key) => format!("<{}>", joined(source, key)),
        InterpolationTarget::Resolver { name, args } => {
            let values: Vec<_> = args
                .iter()
                .map(|arg| show_expression(source, &arg.value))
                .collect();
            let texts: Vec<_> = args.iter().map(|arg| arg.span.slice_of(source)).collect();
            format!("<{}:{}>", joined(source, name), json!([values, texts]))
        }
    }
}

fn show_expression(source: &str, expression: &Expression) -> Value {
    match expression {
        Expression::Null => Value::Null,
        Expression::Bool(value) => json!(value),
        Expression::Int(value) => show_int(value),
        Expression::Float(value) => show_float(*value),
        Expression::Str(text) => json!(text),
        Expression::Interpolation(inner) => json!({ "m": marker(source, inner) }),
        Expression::Text(pieces) | Expression::Quoted(pieces) => json!(joined(source, pieces)),
        Expression::List(items) => items
            .iter()
            .map(|item| show_expression(source, item))
            .collect(),
        Expression::Dict(pairs) => {
            let pairs: Vec<_> = pairs
                .iter()
                .map(|(key, value)| {
                    json!([show_expression(source, key), show_expression(source, value)])
                })
                .collect();
            json!({ "d": pairs })
        }
    }
}
