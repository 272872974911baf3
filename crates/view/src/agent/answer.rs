//! What every answer has: the id of its schema, what could not be said, what to ask next; and that it is small.

use std::collections::BTreeMap;

use llmprof_units::{is_order, schema::schema_of};
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::{Map, Value};

use super::recorded_text::shown_path;

/// An answer is at most this long.
pub const ANSWER_BYTES_MAX: usize = 8192;
/// Version of all answers: it changes when a key changes its name or meaning.
const ANSWER_VERSION: u32 = 1;
/// Longer arguments are not repeated in answers.
const ARGUMENT_CHARS_MAX: usize = 300;

/// What an answer says beside its envelope.
pub trait AnswerBody: Serialize + JsonSchema {
    /// The tool that gives it.
    const NAME: &'static str;
    /// Lists that lose their last elements where the answer is too long, the first ones first.
    const CUT: &'static [&'static str];
}

/// An answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Answer<T> {
    /// Name and version of this layout: `llmprof.agent.summary/1`.
    pub schema: String,
    /// The run, as it was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    #[serde(flatten)]
    pub body: T,
    /// Questions that the data do not answer, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub abstained: Vec<String>,
    /// How many elements of which list are not in this answer.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub left_off: BTreeMap<String, u64>,
    /// What to ask next, the most useful first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<Next>,
}

/// A call that leads on: `tool` with `arguments`, or `command` in a shell.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Next {
    /// Tool to call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<&'static str>,
    /// Arguments of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Map<String, Value>>,
    /// Command for a shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What it answers.
    pub why: String,
}

/// An error that says what to call instead.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ErrorAnswer {
    /// What is wrong, in a sentence.
    pub error: String,
}

impl AnswerBody for ErrorAnswer {
    const NAME: &'static str = "error";
    const CUT: &'static [&'static str] = &[];
}

/// How the reader calls: by tools or by commands.
#[derive(Clone, Debug)]
pub enum Caller {
    Tools,
    Shell,
}

/// Who asks about which run: what `next` is made of.
#[derive(Clone, Debug)]
pub struct Asked {
    pub caller: Caller,
    /// The run as the caller names it.
    pub run: String,
}

impl Asked {
    pub(super) fn next(
        &self,
        tool: &'static str,
        arguments: &[(&str, Value)],
        why: impl Into<String>,
    ) -> Next {
        let mut all = Map::new();
        if !self.run.is_empty() {
            all.insert("run".to_owned(), Value::from(self.run.as_str()));
        }
        all.extend(arguments.iter().map(|(k, v)| ((*k).to_owned(), v.clone())));
        Next::new(&self.caller, tool, all, why)
    }

    /// The place for `llmprof view`.
    pub(super) fn view(&self, id: &super::PlaceId) -> String {
        format!("{}#{id}", self.run)
    }
}

impl Next {
    pub fn new(
        caller: &Caller,
        tool: &'static str,
        arguments: Map<String, Value>,
        why: impl Into<String>,
    ) -> Self {
        let why = why.into();
        match caller {
            Caller::Tools => Self {
                tool: Some(tool),
                arguments: Some(arguments),
                command: None,
                why,
            },
            Caller::Shell => Self {
                tool: None,
                arguments: None,
                command: Some(shell_command(tool, &arguments)),
                why,
            },
        }
    }
}

/// A word of a shell's command line.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+%@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        llmprof_record::command_line::join_words(&[word.to_owned()])
    }
}

/// The command that answers as the tool does.
fn shell_command(tool: &str, arguments: &Map<String, Value>) -> String {
    let mut words = vec!["llmprof".to_owned()];
    let text = |key: &str| arguments.get(key).and_then(Value::as_str);
    match tool {
        "runs" => words.extend(["runs".to_owned(), "list".to_owned()]),
        "compare" => {
            words.push("compare".to_owned());
            words.extend(["a", "b"].iter().filter_map(|key| text(key)).map(quoted));
            words.push("--format agent".to_owned());
        }
        "predict" => {
            words.push("predict".to_owned());
            let overrides = arguments.get("overrides").and_then(Value::as_array);
            let overrides = overrides.into_iter().flatten().filter_map(Value::as_str);
            words.extend(overrides.map(quoted));
        }
        _ => {
            words.push("explain".to_owned());
            words.extend(text("run").map(quoted));
            match tool {
                "summary" => {}
                "explain" => words.extend(text("id").map(quoted)),
                _ => words.push(tool.to_owned()),
            }
            for (key, value) in arguments {
                if !["run", "id"].contains(&key.as_str()) {
                    let value = value.as_str().map_or_else(|| value.to_string(), quoted);
                    words.push(format!("--{} {value}", key.replace('_', "-")));
                }
            }
        }
    }
    words.join(" ")
}

impl<T: AnswerBody> Answer<T> {
    pub fn new(run: Option<&str>, body: T) -> Self {
        Self {
            schema: schema_id(T::NAME),
            run: run.map(|run| shortened(&shown_path(run))),
            body,
            abstained: Vec::new(),
            left_off: BTreeMap::new(),
            next: Vec::new(),
        }
    }

    /// The answer within [`ANSWER_BYTES_MAX`], one element of its lists on a line.
    pub fn text(&self) -> String {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        loop {
            let text = in_lines(&value);
            if text.len() <= ANSWER_BYTES_MAX {
                return text;
            }
            let lists = T::CUT.iter().chain(&["abstained", "next"]);
            let cut = lists.copied().find(|list| drop_last(&mut value, list));
            // Sentences and names have limits of their own; a body that is still too long says so instead of breaking off.
            if cut.is_none() {
                let error = "the answer is too long; ask for less";
                return format!(
                    "{{\"schema\": \"{}\", \"error\": \"{error}\"}}",
                    schema_id("error")
                );
            }
        }
    }
}

/// Drops the last element of a list that has more than one, or of a list that is not needed.
fn drop_last(value: &mut Value, list: &str) -> bool {
    let Some(items) = value.get_mut(list).and_then(Value::as_array_mut) else {
        return false;
    };
    if items.len() < 2 {
        return false;
    }
    items.pop();
    let Some(answer) = value.as_object_mut() else {
        return false;
    };
    let left_off = answer
        .entry("left_off")
        .or_insert_with(|| Value::Object(Map::new()));
    let count = left_off.get(list).and_then(Value::as_u64).unwrap_or(0);
    left_off[list] = Value::from(count + 1);
    true
}

/// JSON with a line for each key, and for each element of a list of objects or sentences.
fn in_lines(value: &Value) -> String {
    let Some(keys) = value.as_object() else {
        return value.to_string();
    };
    let lines = keys.iter().map(|(key, value)| {
        let name = Value::from(key.as_str());
        match value {
            Value::Array(items) if items.iter().any(|item| !item.is_number()) => {
                let items: Vec<String> = items.iter().map(|item| format!("\n  {item}")).collect();
                format!("{name}: [{}]", items.join(","))
            }
            other => format!("{name}: {other}"),
        }
    });
    let text = format!("{{{}}}", lines.collect::<Vec<_>>().join(",\n "));
    // Characters that change how text is shown stand in strings only, where JSON has escapes for them.
    let mut clean = String::with_capacity(text.len());
    for character in text.chars() {
        if is_order(character) {
            clean += &format!("\\u{:04x}", u32::from(character));
        } else {
            clean.push(character);
        }
    }
    clean
}

/// An argument as answers repeat it.
pub(super) fn shortened(text: &str) -> String {
    if text.chars().count() <= ARGUMENT_CHARS_MAX {
        return text.to_owned();
    }
    let start: String = text.chars().take(ARGUMENT_CHARS_MAX).collect();
    format!("{start}…")
}

pub fn schema_id(name: &str) -> String {
    format!("llmprof.agent.{name}/{ANSWER_VERSION}")
}

/// The JSON Schema of an answer.
pub fn answer_schema<T: AnswerBody>() -> (String, Schema) {
    let id = schema_id(T::NAME);
    let schema = schema_of::<Answer<T>>(&id);
    (id, schema)
}

/// An error with the calls that lead on.
pub fn error_answer(error: &str, next: Vec<Next>) -> Answer<ErrorAnswer> {
    let error = super::recorded_text::RecordedNames::default().mark(error);
    let mut answer = Answer::new(None, ErrorAnswer { error });
    answer.next = next;
    answer
}

/// Milliseconds with a thousandth.
pub(super) fn ms(ns: f64) -> f64 {
    (ns / 1e3).round() / 1e3
}

/// Microseconds with a hundredth.
pub(super) fn us(ns: f64) -> f64 {
    (ns / 10.0).round() / 100.0
}

/// A share as percent with a tenth; 0 of nothing.
pub(super) fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        (part / whole * 1000.0).round() / 10.0
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, JsonSchema)]
    struct Long {
        rows: Vec<String>,
    }

    impl AnswerBody for Long {
        const NAME: &'static str = "long";
        const CUT: &'static [&'static str] = &["rows"];
    }

    #[test]
    fn a_long_answer_loses_rows_and_says_how_many() {
        let rows = (0..200).map(|row| format!("{row} {}", "x".repeat(90)));
        let answer = Answer::new(
            Some("runs/a"),
            Long {
                rows: rows.collect(),
            },
        );
        let text = answer.text();
        assert!(text.len() <= ANSWER_BYTES_MAX && text.len() > ANSWER_BYTES_MAX - 300);
        let value: Value = serde_json::from_str(&text).unwrap();
        let kept = value["rows"].as_array().unwrap().len() as u64;
        assert_eq!(value["left_off"]["rows"], 200 - kept);
        assert_eq!(value["schema"], "llmprof.agent.long/1");
    }

    #[test]
    fn what_cannot_be_cut_is_an_error() {
        let answer = Answer::new(
            None,
            Long {
                rows: vec!["x".repeat(9000)],
            },
        );
        let value: Value = serde_json::from_str(&answer.text()).unwrap();
        assert!(value["error"].as_str().unwrap().contains("too long"));
    }

    /// A terminal must not be given them, and what is printed must stay JSON.
    #[test]
    fn directions_of_text_are_escaped_as_json_has_it() {
        let rows = vec!["a\u{202e}b\u{9b}".to_owned()];
        let text = Answer::new(Some("r\u{202e}"), Long { rows }).text();
        assert!(!text.chars().any(is_order), "{text}");
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["rows"][0], "a\u{202e}b\u{9b}");
    }

    #[test]
    fn shells_get_commands() {
        let asked = Asked {
            caller: Caller::Shell,
            run: "runs/my run".to_owned(),
        };
        let command = |tool, arguments: &[(&str, Value)]| {
            asked.next(tool, arguments, "").command.unwrap_or_default()
        };
        assert_eq!(command("summary", &[]), "llmprof explain 'runs/my run'");
        assert_eq!(
            command("explain", &[("id", "finding=1".into())]),
            "llmprof explain 'runs/my run' finding=1"
        );
        assert_eq!(
            command("kernels", &[("from", 9.into())]),
            "llmprof explain 'runs/my run' kernels --from 9"
        );
    }
}
