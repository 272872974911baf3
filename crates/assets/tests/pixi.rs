//! The pixi manifest of a new project against the schema that pixi publishes, as PyPI's
//! `validate-pyproject-schema-store` ships it.
//!
//! `LLMPROF_PYTHON` names the Python (default: the repository's `.venv`, which `scripts/test-all` prepares).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    env,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

/// Reads a list of manifests, writes what is wrong with each.
const CHECK: &str = r#"
import json, sys
from importlib.resources import files
from jsonschema import Draft7Validator
schema = json.loads((files("validate_pyproject_schema_store.resources") / "pixi.schema.json").read_text())
Draft7Validator.check_schema(schema)
check = Draft7Validator(schema)
print(json.dumps([[f"{e.json_path}: {e.message}" for e in check.iter_errors(m)] for m in json.load(sys.stdin)]))
"#;

/// What pixi's schema finds wrong with each manifest.
fn faults(manifests: &[Value]) -> Vec<Vec<String>> {
    let python = env::var_os("LLMPROF_PYTHON").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/bin/python"),
        Into::into,
    );
    let mut child = Command::new(python)
        .args(["-c", CHECK])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let asked = serde_json::to_vec(manifests).unwrap();
    child.stdin.take().unwrap().write_all(&asked).unwrap();
    let answer = child.wait_with_output().unwrap();
    assert!(answer.status.success());
    serde_json::from_slice(&answer.stdout).unwrap()
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

#[test]
#[ignore = "live: needs jsonschema"]
fn the_manifest_follows_the_schema() {
    let pixi = &manifest()["tool"]["pixi"];
    assert_eq!(faults(std::slice::from_ref(pixi)), [Vec::<String>::new()]);
}

#[test]
fn the_manifest_has_all_tasks() {
    let manifest = manifest();
    let pixi = &manifest["tool"]["pixi"];
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
#[ignore = "live: needs jsonschema"]
fn the_check_finds_what_pixi_would_refuse() {
    let good = manifest()["tool"]["pixi"].clone();
    let cases = [
        ("/workspace/channels", json!("conda-forge")),
        ("/workspace/channel", json!("conda-forge")),
        ("/tasks/bootstrap", json!("")),
        ("/tasks/stage1-run", json!({"command": "x"})),
        ("/feature/ampere/system-requirements", json!({"gpu": "1"})),
        ("/feature/ampere/activation", json!({"env": {"A": 1}})),
        ("/environments/hopper", json!("gpu")),
        ("/dependencies/git", json!(["x"])),
    ];
    let bad: Vec<Value> = cases
        .iter()
        .map(|(place, value)| {
            let mut bad = good.clone();
            let (table, key) = place.rsplit_once('/').unwrap();
            bad.pointer_mut(table).unwrap()[key] = value.clone();
            bad
        })
        .collect();
    let faults_by_case = faults(&bad);
    for ((place, _), faults) in cases.iter().zip(faults_by_case) {
        assert!(!faults.is_empty(), "{place}");
    }
}
