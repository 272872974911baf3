//! Equality with OmegaConf 2.3 on the inputs of `omegaconf/recipe.py`, and laws that hold for any input.

use std::sync::OnceLock;

use llmprof_config::context::Context;
use llmprof_config::emit::to_yaml;
use llmprof_config::error::Error;
use llmprof_config::key::Key;
use llmprof_config::node::{Dict, Node, Value};
use llmprof_config::source::SourceText;
use llmprof_config::update::{Update, update_key};
use llmprof_config::{keypath, merge, python, resolve, yaml};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

fn expectations() -> &'static Json {
    static FILE: OnceLock<Json> = OnceLock::new();
    FILE.get_or_init(|| {
        serde_json::from_str(include_str!("omegaconf/expectations.json")).expect("valid JSON")
    })
}

fn rows(section: &str) -> &'static [Json] {
    expectations()[section].as_array().expect("a section")
}

fn text(value: &Json) -> &str {
    value.as_str().expect("text")
}

fn load(text: &str) -> Result<Node, Error> {
    yaml::load_config(&SourceText::new("test.yaml", text))
}

fn create(text: &str) -> Node {
    yaml::create_config(&SourceText::new("test.yaml", text))
        .expect("the recipe leaves out what fails here")
}

fn context() -> Context {
    let variables = expectations()["environment"].as_object().expect("a map");
    Context::new().with_environment(
        variables
            .iter()
            .map(|(name, value)| (name.clone(), text(value).to_owned())),
    )
}

fn encode_key(key: &Key) -> Json {
    match key {
        Key::Str(text) => json!(text),
        Key::Int(value) => json!({ "i": value.to_string() }),
        Key::Float(value) => json!({ "f": python::float_repr(*value) }),
        Key::Bool(value) => json!(value),
        Key::Bytes(bytes) => json!({ "b": bytes }),
    }
}

/// The encoding of the recipe, which keeps types apart.
fn encode(node: &Node) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Bool(value) => json!(value),
        Value::Int(value) => json!({ "i": value.to_string() }),
        Value::Float(value) => json!({ "f": python::float_repr(*value) }),
        Value::Str(text) => json!(text),
        Value::Bytes(bytes) => json!({ "b": bytes }),
        Value::List(list) => Json::Array(list.iter().map(encode).collect()),
        Value::Dict(dict) => {
            let pairs: Vec<Json> = dict
                .iter()
                .map(|(key, child)| json!([encode_key(key), encode(child)]))
                .collect();
            json!({ "d": pairs })
        }
    }
}

/// Kinds whose Python class is not one of OmegaConf's, or depends on how deep Python recursed.
fn same_class(expected: &str, error: &Error) -> bool {
    let ours = error.kind().python_name();
    let is_yaml = |name: &str| {
        matches!(
            name,
            "ScannerError"
                | "ParserError"
                | "ComposerError"
                | "ConstructorError"
                | "ReaderError"
                | "YAMLError"
                | "KeyError"
                | "IndexError"
                | "ValueError"
                | "OSError"
        )
    };
    ours == expected
        || (is_yaml(ours) && is_yaml(expected))
        || expected == "RecursionError"
        || (ours == "ConfigTypeError" && matches!(expected, "TypeError" | "ValueError"))
        || (ours == "RecursionError" && expected == "InterpolationResolutionError")
        // `cfg["key"]` and `cfg.key` raise different classes for the same refusal.
        || (ours == "ConfigAttributeError" && expected == "ConfigKeyError")
}

/// Collects differences, so that one run shows them all.
#[derive(Default)]
struct Report {
    compared: usize,
    accepted: usize,
    differences: Vec<String>,
}

impl Report {
    fn compare(&mut self, input: &str, expected: &Json, actual: Result<Json, Error>) {
        self.compared += 1;
        let same = match (&expected["err"], &actual) {
            (Json::Null, Ok(actual)) => &expected["ok"] == actual,
            (Json::String(class), Err(error)) => same_class(class, error),
            _ => false,
        };
        self.accepted += usize::from(expected["err"].is_null());
        if !same {
            let actual = match actual {
                Ok(value) => value.to_string(),
                Err(error) => format!("{} ({error})", error.kind().python_name()),
            };
            self.differences.push(format!(
                "{input}\n  expected {expected}\n  actual   {actual}"
            ));
        }
    }

    fn finish(self, at_least_accepted: usize) {
        assert!(
            self.accepted >= at_least_accepted,
            "only {} accepted",
            self.accepted
        );
        assert!(
            self.differences.is_empty(),
            "{} of {} differ:\n{}",
            self.differences.len(),
            self.compared,
            self.differences[..self.differences.len().min(12)].join("\n")
        );
    }
}

#[test]
fn scalars_have_the_same_type_and_value() {
    let mut report = Report::default();
    for row in rows("scalars") {
        let scalar = text(&row[0]);
        let same = json!({ "ok": scalar });
        let expected = row.get(1).unwrap_or(&same);
        let actual = load(&format!("k: {scalar}")).map(|node| encode(node.get("k").expect("k")));
        report.compare(scalar, expected, actual);
    }
    report.finish(1500);
}

#[test]
fn documents_load_the_same() {
    let mut report = Report::default();
    for row in rows("documents") {
        let document = text(&row[0]);
        report.compare(
            &format!("{document:?}"),
            &row[1],
            load(document).map(|node| encode(&node)),
        );
    }
    report.finish(200);
}

#[test]
fn strings_are_written_the_same() {
    let mut report = Report::default();
    for row in rows("strings") {
        let string = text(&row[0]);
        let mut node = Node::empty_dict();
        node.insert("k", Node::new(string));
        node.insert(string, Node::new(vec![Node::new(vec![Node::new(string)])]));
        report.compare(
            &format!("{string:?}"),
            &json!({ "ok": row[1] }),
            Ok(json!(to_yaml(&node))),
        );
    }
    report.finish(500);
}

#[test]
fn configs_are_written_the_same() {
    let mut report = Report::default();
    for row in rows("dumps") {
        let actual = load(text(&row[0])).map(|node| json!(to_yaml(&node)));
        report.compare(text(&row[0]), &json!({ "ok": row[1] }), actual);
    }
    report.finish(50);
}

#[test]
fn interpolations_resolve_the_same() {
    let context = context();
    let mut report = Report::default();
    for row in rows("resolutions") {
        let source = text(&row[0]);
        let config = create(source);
        let copy = resolve::to_container(&config, &context).map(|node| json!(to_yaml(&node)));
        report.compare(source, &row[1], copy);
        let mut in_place = config;
        let result =
            resolve::resolve_all(&mut in_place, &context).map(|()| json!(to_yaml(&in_place)));
        let expected = if row[2].is_null() { &row[1] } else { &row[2] };
        report.compare(&format!("in place: {source}"), expected, result);
    }
    report.finish(150);
}

#[test]
fn merges_give_the_same() {
    let context = context();
    let mut report = Report::default();
    for row in rows("merges") {
        let (first, second) = (text(&row[0]), text(&row[1]));
        let mut target = create(first);
        let result = merge::merge_into(&mut target, &create(second), &context);
        let input = format!("{first}\n+++\n{second}");
        report.compare(&input, &row[2], result.map(|()| json!(to_yaml(&target))));
    }
    report.finish(100);
}

#[test]
fn updates_give_the_same() {
    let context = context();
    let mut report = Report::default();
    for row in rows("updates") {
        let (source, key, value) = (text(&row[0]), text(&row[1]), text(&row[2]));
        let flag = |i: usize| row[3][i].as_bool().expect("a flag");
        let mut config = create(source);
        config.set_struct(flag(0).then_some(true));
        let value_node = yaml::parse_document(&SourceText::new("value", value))
            .expect("YAML")
            .expect("a value");
        let options = Update {
            merge: flag(1),
            force_add: flag(2),
        };
        let result = update_key(&mut config, key, value_node, options, &context);
        let input = format!("{source}\n{key} = {value} {options:?} struct {}", flag(0));
        report.compare(&input, &row[4], result.map(|()| json!(to_yaml(&config))));
    }
    report.finish(100);
}

#[test]
fn selections_find_the_same() {
    let context = context();
    let mut report = Report::default();
    for row in rows("selections") {
        let (source, key) = (text(&row[0]), text(&row[1]));
        let selected = resolve::select_key(&create(source), key, &context);
        let actual = selected.map(|node| node.map_or(Json::Null, |node| encode(&node)));
        report.compare(&format!("{source}\n{key}"), &row[2], actual);
    }
    report.finish(100);
}

#[test]
fn key_paths_split_the_same() {
    for row in rows("splits") {
        assert_eq!(
            json!(keypath::split_path(text(&row[0]))),
            row[1],
            "{}",
            row[0]
        );
    }
}

// Laws

fn any_node() -> impl Strategy<Value = Node> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("NaN is not equal to itself", |x| !x.is_nan())
            .prop_map(Value::from),
        "[ -~]{0,20}".prop_map(Value::from),
        "[a-zé0-9 .:'\"\\\\#\n-]{0,90}".prop_map(Value::from),
        prop::collection::vec(any::<u8>(), 1..80).prop_map(Value::Bytes),
    ];
    let leaf = scalar
        .prop_filter(
            "an interpolation may be malformed",
            |value| !matches!(value, Value::Str(text) if text.contains("${")),
        )
        .prop_map(Node::new);
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Node::new),
            prop::collection::vec(("[ -~é]{0,12}", inner), 0..5).prop_map(|pairs| {
                let pairs = pairs.into_iter().map(|(key, node)| (Key::Str(key), node));
                Node::new(pairs.collect::<Dict>())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_back(node in any_node()) {
        let mut root = Node::empty_dict();
        root.insert("root", node);
        let written = to_yaml(&root);
        let back = load(&written).expect("our own text");
        prop_assert_eq!(back, root, "{}", written);
    }

    #[test]
    fn merging_with_itself_changes_nothing(node in any_node()) {
        let mut root = Node::empty_dict();
        root.insert("root", node);
        let mut merged = root.clone();
        merge::merge_into(&mut merged, &root, &Context::new()).expect("equal kinds merge");
        prop_assert_eq!(merged, root);
    }

    #[test]
    fn broken_yaml_is_an_error_with_a_place(cut in 0_usize..400, insert in "[\\[\\]{}:?&*!|>'\"#,\n\t -]{0,4}") {
        let whole = "a: &x {p: [1, 2], q: 'z'}\nb:\n  - <<: *x\n    r: |\n      text\n  - \"esc\\u00e9\"\nc: >-\n  folded\n  text\nd: !!int '3'\ne: ${a.p[0]}\n";
        let mut at = cut % whole.len();
        while !whole.is_char_boundary(at) {
            at -= 1;
        }
        for text in [format!("{}{insert}{}", &whole[..at], &whole[at..]), format!("{}{insert}", &whole[..at])] {
            if let Err(error) = load(&text) {
                let origin = error.origin().expect("every mistake in a file has a place");
                prop_assert!(origin.span().end <= text.len());
            }
        }
    }

    #[test]
    fn any_text_is_handled(text in "\\PC{0,60}") {
        let _ = load(&text);
        let _ = resolve::evaluate_text(&Node::empty_dict(), &text, &Context::new());
    }
}

// Bounds

#[test]
fn deep_nesting_is_refused() {
    for text in [
        "[".repeat(100_000),
        "- ".repeat(50_000),
        "{a: ".repeat(100_000),
        "? ".repeat(50_000),
    ] {
        assert!(load(&text).is_err());
    }
}

#[test]
fn aliases_cannot_blow_up() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        let item = format!("*a{}", i - 1);
        text.push_str(&format!(
            "a{i}: &a{i} [{}]\n",
            [item.as_str(); 10].join(", ")
        ));
    }
    let error = load(&text).expect_err("ten to the twelfth values");
    assert_eq!(error.kind().python_name(), "RecursionError");
}

#[test]
fn doubling_interpolations_cannot_blow_up() {
    let mut text = String::from("k0: x\n");
    for i in 1..40 {
        let reference = format!("${{k{}}}", i - 1);
        text.push_str(&format!("k{i}: '{reference}{reference}'\n"));
    }
    assert!(resolve::select_key(&create(&text), "k39", &Context::new()).is_err());
}

#[test]
fn cycles_are_shown_as_a_chain() {
    let config = create("a: ${b.c}\nb: {c: 'x${d}'}\nd: ${a}\n");
    let error = resolve::select_key(&config, "a", &Context::new()).expect_err("a cycle");
    assert_eq!(
        error.to_string().split(" (at").next(),
        Some("interpolations form a cycle: a -> b.c -> d -> a")
    );
}

#[test]
fn mistakes_point_at_their_text_and_suggest() {
    let error = load("a: 1\nbatch: {size: 2, size: 3}\n").expect_err("a duplicate");
    let origin = error.origin().expect("a place");
    assert_eq!(origin.line_column(), (2, 18));
    assert_eq!(&origin.source().text()[origin.span()], "size");

    let config = create("batch_size: 1\nx: ${batchsize}\n");
    let error = resolve::select_key(&config, "x", &Context::new()).expect_err("no such key");
    assert_eq!(error.hint(), Some("did you mean `batch_size`?"));
    assert_eq!(error.key(), Some("x"));
    assert_eq!(error.origin().expect("a place").line_column(), (2, 4));
}
