//! Config to YAML text, byte for byte as `OmegaConf.to_yaml` writes it.

mod analysis;
mod writer;

use analysis::{TextAnalysis, analyze_text};
use writer::YamlWriter;

use crate::key::Key;
use crate::node::{Node, Value};
use crate::python;
use crate::yaml::{Implicit, dumper_type, encode_base64, is_bool};

/// Past this many characters, tag included, a key is written in the `? key` form.
const SIMPLE_KEY_LENGTH: usize = 128;

/// Writes a config as YAML. Interpolations and `???` are written as they stand.
pub fn to_yaml(node: &Node) -> String {
    let mut emitter = Emitter {
        writer: YamlWriter::new(),
    };
    emitter.emit_node(node, EmitContext::Root, None);
    emitter.writer.write_indent(0);
    let mut out = emitter.writer.finish();
    // A bare scalar could go on, so the document says where it ends.
    if !matches!(node.value, Value::Dict(_) | Value::List(_)) {
        let scalar = value_scalar(node);
        if choose_style(&scalar, analyze_text(&scalar.text), EmitContext::Root)
            == ScalarStyle::Plain
        {
            out.push_str("...\n");
        }
    }
    out
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EmitContext {
    Root,
    Item,
    Value,
    Key,
}

/// A scalar ready to be written.
struct ScalarText {
    text: String,
    tag: Tag,
    /// Single quotes are wanted, so that it does not read back as another type.
    quote: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tag {
    /// The text itself reads back with the right type.
    Implicit(Implicit),
    Binary,
}

impl Tag {
    fn shorthand(self) -> &'static str {
        match self {
            Self::Implicit(Implicit::Null) => "!!null",
            Self::Implicit(Implicit::Bool) => "!!bool",
            Self::Implicit(Implicit::Int) => "!!int",
            Self::Implicit(Implicit::Float) => "!!float",
            Self::Implicit(_) => "!!str",
            Self::Binary => "!!binary",
        }
    }
}

struct Emitter {
    writer: YamlWriter,
}

impl Emitter {
    fn emit_node(&mut self, node: &Node, place: EmitContext, indent: Option<usize>) {
        match &node.value {
            Value::Dict(dict) if dict.is_empty() => self.writer.write_indicator("{}", true, false),
            Value::List(list) if list.is_empty() => self.writer.write_indicator("[]", true, false),
            Value::Dict(dict) => {
                let indent = indent.map_or(0, |indent| indent + 2);
                for (key, child) in dict {
                    self.emit_entry(key, child, indent);
                }
            }
            Value::List(list) => {
                let indentless = place == EmitContext::Value && !self.writer.indention;
                let indent = match indent {
                    None => 0,
                    Some(indent) if indentless => indent,
                    Some(indent) => indent + 2,
                };
                for child in list {
                    self.writer.write_indent(indent);
                    self.writer.write_indicator("-", true, true);
                    self.emit_node(child, EmitContext::Item, Some(indent));
                }
            }
            _ => self.emit_scalar(&value_scalar(node), place, indent),
        }
    }

    fn emit_entry(&mut self, key: &Key, child: &Node, indent: usize) {
        self.writer.write_indent(indent);
        let scalar = key_scalar(key);
        let analysis = analyze_text(&scalar.text);
        let length = scalar.text.chars().count() + scalar.tag.shorthand().len();
        if length < SIMPLE_KEY_LENGTH && !scalar.text.is_empty() && !analysis.multiline {
            self.emit_scalar(&scalar, EmitContext::Key, Some(indent));
            self.writer.write_indicator(":", false, false);
        } else {
            self.writer.write_indicator("?", true, true);
            self.emit_scalar(&scalar, EmitContext::Value, Some(indent));
            self.writer.write_indent(indent);
            self.writer.write_indicator(":", true, true);
        }
        self.emit_node(child, EmitContext::Value, Some(indent));
    }

    fn emit_scalar(&mut self, scalar: &ScalarText, place: EmitContext, indent: Option<usize>) {
        let indent = indent.map_or(2, |indent| indent + 2);
        let analysis = analyze_text(&scalar.text);
        let style = choose_style(scalar, analysis, place);
        let split = place != EmitContext::Key;
        if scalar.tag == Tag::Binary {
            self.writer.write_indicator("!!binary", true, false);
        }
        match style {
            ScalarStyle::Plain => self.writer.write_plain(&scalar.text, indent, split),
            ScalarStyle::Single => self.writer.single_quoted(&scalar.text, indent, split),
            ScalarStyle::Double => self.writer.double_quoted(&scalar.text, indent, split),
            ScalarStyle::Literal => self.writer.write_literal(&scalar.text, indent),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScalarStyle {
    Plain,
    Single,
    Double,
    Literal,
}

fn choose_style(scalar: &ScalarText, analysis: TextAnalysis, place: EmitContext) -> ScalarStyle {
    if let Tag::Implicit(wanted) = scalar.tag {
        let reads_back = dumper_type(&scalar.text) == wanted;
        let fits_key = place != EmitContext::Key || !(scalar.text.is_empty() || analysis.multiline);
        if !scalar.quote && reads_back && fits_key && analysis.plain {
            return ScalarStyle::Plain;
        }
    } else if place != EmitContext::Key && analysis.block {
        return ScalarStyle::Literal;
    }
    let quotable = scalar.tag != Tag::Binary
        && analysis.single_quoted
        && !(place == EmitContext::Key && analysis.multiline);
    if quotable {
        ScalarStyle::Single
    } else {
        ScalarStyle::Double
    }
}

fn string_scalar(text: &str) -> ScalarText {
    // As YAML 1.1 has it; the parser takes the short ones for texts.
    let is_bool = is_bool(text) || matches!(text, "y" | "Y" | "n" | "N");
    ScalarText {
        text: text.to_owned(),
        tag: Tag::Implicit(Implicit::Str),
        quote: is_bool || python::parse_int(text).is_some() || python::parse_float(text).is_some(),
    }
}

fn bytes_scalar(bytes: &[u8]) -> ScalarText {
    ScalarText {
        text: encode_base64(bytes),
        tag: Tag::Binary,
        quote: false,
    }
}

fn plain_scalar(text: impl Into<String>, kind: Implicit) -> ScalarText {
    ScalarText {
        text: text.into(),
        tag: Tag::Implicit(kind),
        quote: false,
    }
}

fn bool_scalar(value: bool) -> ScalarText {
    plain_scalar(if value { "true" } else { "false" }, Implicit::Bool)
}

/// `1e+16` gets a dot, since YAML 1.1 would not read a float without one.
fn float_scalar(value: f64) -> ScalarText {
    let text = if value.is_nan() {
        ".nan".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { ".inf" } else { "-.inf" }.to_owned()
    } else {
        let text = python::float_repr(value);
        if text.contains('.') {
            text
        } else {
            text.replacen('e', ".0e", 1)
        }
    };
    plain_scalar(text, Implicit::Float)
}

fn key_scalar(key: &Key) -> ScalarText {
    match key {
        Key::Str(text) => string_scalar(text),
        Key::Int(value) => plain_scalar(value.to_string(), Implicit::Int),
        Key::Float(value) => float_scalar(*value),
        Key::Bool(value) => bool_scalar(*value),
        Key::Bytes(bytes) => bytes_scalar(bytes),
    }
}

fn value_scalar(node: &Node) -> ScalarText {
    match &node.value {
        Value::Null => plain_scalar("null", Implicit::Null),
        Value::Bool(value) => bool_scalar(*value),
        Value::Int(value) => plain_scalar(value.to_string(), Implicit::Int),
        Value::Float(value) => float_scalar(*value),
        Value::Str(text) => string_scalar(text),
        Value::Bytes(bytes) => bytes_scalar(bytes),
        Value::List(_) | Value::Dict(_) => unreachable!("collections are not scalars"),
    }
}
