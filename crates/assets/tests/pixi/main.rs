//! The pixi manifest of a new project against pixi's schema, as far as the project uses it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};

const SCHEMA: &str = include_str!("schema.json");

/// Everything that is wrong with a value, each with its place.
fn faults(value: &Value, schema: &Value, root: &Value, place: &str) -> Vec<String> {
    let mut found = Vec::new();
    let rules = schema.as_object().unwrap();
    for (rule, expected) in rules {
        match rule.as_str() {
            // The last two are looked at for each key below.
            "$comment" | "$defs" | "properties" | "additionalProperties" => {}
            "$ref" => {
                let path = expected.as_str().unwrap().strip_prefix('#').unwrap();
                found.extend(faults(value, root.pointer(path).unwrap(), root, place));
            }
            "type" => {
                let fits = match expected.as_str().unwrap() {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    other => panic!("{other}"),
                };
                if !fits {
                    found.push(format!("{place}: not of type {expected}: {value}"));
                }
            }
            "minLength" => {
                if value.as_str().is_some_and(str::is_empty) {
                    found.push(format!("{place}: empty"));
                }
            }
            "enum" => {
                if !expected.as_array().unwrap().contains(value) {
                    found.push(format!("{place}: {value} is none of {expected}"));
                }
            }
            "required" => {
                for key in expected.as_array().unwrap() {
                    if value.get(key.as_str().unwrap()).is_none() {
                        found.push(format!("{place}: there is no {key}"));
                    }
                }
            }
            "items" => {
                for (number, item) in value.as_array().into_iter().flatten().enumerate() {
                    found.extend(faults(item, expected, root, &format!("{place}[{number}]")));
                }
            }
            "anyOf" => {
                let ways: Vec<Vec<String>> = expected
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|way| faults(value, way, root, place))
                    .collect();
                if ways.iter().all(|way| !way.is_empty()) {
                    found.extend(ways.into_iter().flatten());
                }
            }
            "propertyNames" => {
                for key in value.as_object().into_iter().flatten().map(|(key, _)| key) {
                    let allowed = expected["charset"]
                        .as_str()
                        .is_none_or(|set| key.chars().all(|c| set.contains(c)));
                    let forbidden = expected["without"]
                        .as_str()
                        .is_some_and(|set| key.chars().any(|c| set.contains(c)));
                    if !allowed || forbidden {
                        found.push(format!("{place}: `{key}` cannot be a name"));
                    }
                }
            }
            other => panic!("the test does not know the rule {other}"),
        }
    }
    for (key, child) in value.as_object().into_iter().flatten() {
        let place = format!("{place}.{key}");
        match (
            rules.get("properties").and_then(|known| known.get(key)),
            rules.get("additionalProperties"),
        ) {
            (Some(known), _) => found.extend(faults(child, known, root, &place)),
            (None, Some(Value::Bool(false))) => found.push(format!("{place}: unknown key")),
            (None, Some(other)) if other.is_object() => {
                found.extend(faults(child, other, root, &place));
            }
            _ => {}
        }
    }
    found
}

fn manifest() -> Value {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("new");
    llmprof_assets::project::init(&project, false)
        .unwrap()
        .apply(|_| {})
        .unwrap();
    let text = std::fs::read_to_string(project.join("pyproject.toml")).unwrap();
    let manifest: toml::Value = toml::from_str(&text).unwrap();
    serde_json::to_value(manifest).unwrap()
}

fn check(pixi: &Value) -> Vec<String> {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    faults(pixi, &schema, &schema, "tool.pixi")
}

#[test]
fn the_manifest_follows_the_schema() {
    let manifest = manifest();
    let pixi = &manifest["tool"]["pixi"];
    assert_eq!(check(pixi), Vec::<String>::new());
    let tasks: Vec<&String> = [
        &pixi["tasks"],
        &pixi["feature"]["rtx5090"]["tasks"],
        &pixi["feature"]["docs"]["tasks"],
    ]
    .into_iter()
    .flat_map(|tasks| tasks.as_object().unwrap().keys())
    .collect();
    for task in [
        "stage1-run",
        "stage1-run-no-static",
        "stage2-profile",
        "direct-infer-dev20",
        "externals:init",
        "externals:update",
        "externals:snapshot",
        "setup-rtx5090",
        "verify-rtx5090",
        "docs-serve",
        "docs-build",
    ] {
        assert!(tasks.iter().any(|name| *name == task), "{task}");
    }
    // Environments name features that exist, and tasks depend on tasks that exist.
    let features = pixi["feature"].as_object().unwrap();
    for (name, environment) in pixi["environments"].as_object().unwrap() {
        let named = environment
            .as_array()
            .or_else(|| environment["features"].as_array())
            .unwrap();
        for feature in named {
            assert!(
                features.contains_key(feature.as_str().unwrap()),
                "{name}: {feature}"
            );
        }
    }
    for needed in pixi["feature"]["rtx5090"]["tasks"]["setup-rtx5090"]["depends-on"]
        .as_array()
        .unwrap()
    {
        assert!(
            tasks
                .iter()
                .any(|name| Some(name.as_str()) == needed.as_str()),
            "{needed}"
        );
    }
}

#[test]
fn the_check_finds_what_pixi_would_refuse() {
    let good = manifest()["tool"]["pixi"].clone();
    let cases: [(&str, Value); 8] = [
        ("/workspace/channels", json!("conda-forge")),
        ("/workspace/platforms", json!(["linux"])),
        ("/tasks/bootstrap", json!("")),
        ("/tasks/stage1-run", json!({"command": "x"})),
        ("/feature/ampere/system-requirements", json!({"gpu": "1"})),
        ("/feature/ampere/activation", json!({"env": {"A": 1}})),
        ("/environments/hopper", json!("gpu")),
        ("/dependencies/git", json!(["x"])),
    ];
    for (place, value) in cases {
        let mut bad = good.clone();
        *bad.pointer_mut(place).unwrap() = value;
        assert!(!check(&bad).is_empty(), "{place}");
    }
    for (table, key) in [
        ("environments", "Hopper"),
        ("tasks", "with space"),
        ("workspace", "channel"),
    ] {
        let mut bad = good.clone();
        bad[table][key] = json!("x");
        assert!(!check(&bad).is_empty(), "{table}.{key}");
    }
}
