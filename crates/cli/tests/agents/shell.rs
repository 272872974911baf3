//! The same answers in a shell.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use llmprof_config::{emit, source::SourceText, yaml::load_config};
use llmprof_stub::{Behaviour, Stub};
use serde_json::{Value, json};

use super::{client::Client, common, fixture};

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn explain_answers_as_the_server_does() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, config) = (
        fixture("faults/sync_each_layer.json.gz"),
        fixture("faults/config.json"),
    );
    let words = ["import", &trace, "--config", &config, "-o", "run"];
    let imported = [&words[..], &["--format", "agent"]].concat();
    let imported = parsed(&common::works(folder.path(), &imported));
    let summary = parsed(&common::works(folder.path(), &["explain", "run"]));
    assert_eq!(imported, summary);
    let mut client = Client::start(folder.path());
    let mut answered = client.call("summary", &json!({"run": "run"})).answer;
    // Hints are commands here and calls there.
    let commands = summary["next"].as_array().unwrap().clone();
    assert_eq!(answered["next"].as_array().unwrap().len(), commands.len());
    answered["next"] = summary["next"].clone();
    assert_eq!(answered, summary);
    for next in commands {
        let command = next["command"].as_str().unwrap();
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        let answer = parsed(&common::works(folder.path(), &words));
        assert!(
            answer["schema"]
                .as_str()
                .unwrap()
                .starts_with("llmprof.agent.")
        );
    }
    let wrong = common::llmprof(folder.path(), &["explain", "run", "finding=99"]);
    assert_eq!(wrong.status.code(), Some(2));
    let wrong: Value = serde_json::from_slice(&wrong.stdout).unwrap();
    assert_eq!(wrong["next"][0]["command"], "llmprof explain run");
    let unread = common::refused(folder.path(), &["explain", "run", "what"]);
    assert!(unread.contains("finding=1"), "{unread}");
}

#[test]
fn comparisons_print_for_agents() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (
        fixture("faults/control.json.gz"),
        fixture("faults/sync_each_layer.json.gz"),
    );
    let printed = common::works(folder.path(), &["compare", &a, &b, "--format", "agent"]);
    let answer = parsed(&printed);
    assert_eq!(answer["schema"], "llmprof.agent.compare/1");
    assert!(!answer["reasons"].as_array().unwrap().is_empty());
    let why = answer["abstained"].to_string();
    for word in ["no verdict for", "decode_phase", "prefill_step"] {
        assert!(why.contains(word), "{answer}");
    }
}

#[test]
fn a_run_on_this_cpu_prints_for_agents() {
    let folder = tempfile::tempdir().unwrap();
    let config = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "tie_word_embeddings": false, "eos_token_id": 2}"#;
    fs::write(folder.path().join("tiny.json"), config).unwrap();
    let words = "run model=local model.config=tiny.json model.dtype=f32 workload.prompt_tokens=8 infer.max_new_tokens=4 \
                 hardware.spec=xeon_8480 hydra.run.dir=run --format agent";
    let words: Vec<&str> = words.split_whitespace().collect();
    let answer = parsed(&common::works(folder.path(), &words));
    assert_eq!(answer["schema"], "llmprof.agent.summary/1");
    let result = answer["result"].to_string();
    assert!(
        result.contains("TTFT") && result.contains("TPOT"),
        "{answer}"
    );
}

#[test]
fn view_opens_the_place_of_an_id() {
    let folder = tempfile::tempdir().unwrap();
    let trace = fixture("faults/sync_each_layer.json.gz");
    common::works(folder.path(), &["import", &trace, "-o", "run"]);
    for (id, page) in [
        ("finding=1", "#run?run=0&finding=1"),
        ("step=0", "#timeline?run=0&t="),
        ("kernel=1", "#timeline?run=0&q="),
        ("window=0..1000", "#timeline?run=0&t=-20,1040"),
    ] {
        let place = format!("run#{id}");
        let mut child = Command::new(env!("CARGO_BIN_EXE_llmprof"))
            .args(["view", &place, "--no-open"])
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut url).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(url.contains(page), "{id}: {url}");
    }
    for (id, why) in [
        ("finding=99", "no finding=99 to show"),
        ("nothing", "is not an id"),
    ] {
        let place = format!("run#{id}");
        let said = common::refused(folder.path(), &["view", &place, "--no-open"]);
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn a_run_is_one_flat_row_for_trackers() {
    let folder = tempfile::tempdir().unwrap();
    let trace = fixture("faults/sync_each_layer.json.gz");
    common::works(folder.path(), &["import", &trace, "-o", "run"]);
    let words = ["export", "run", "--to", "flat-json"];
    let printed = parsed(&common::works(
        folder.path(),
        &[&words[..], &["-o", "-"]].concat(),
    ));
    let row = printed.as_object().unwrap();
    assert!(
        row.values()
            .all(|value| value.is_number() || value.is_string())
    );
    let analysis = common::json(&folder.path().join("run/analysis.json"));
    let cause = |code: &str| {
        let findings = analysis["findings"].as_array().unwrap().iter();
        let mut own = findings.filter(|finding| finding["code"] == code);
        own.next().unwrap()["conclusion"]["gains"][0].clone()
    };
    let gain = cause("synchronization");
    let phase = gain["phase"].as_str().unwrap();
    let key = format!("finding.synchronization.{phase}.saved_ms");
    let saved = gain["saved_ns"].as_f64().unwrap() / 1e6;
    assert!(
        (row[&key].as_f64().unwrap() - saved).abs() < 1e-9,
        "{printed}"
    );
    assert!(row["phase.decode.wall_ms"].as_f64().unwrap() > 0.0);
    common::works(folder.path(), &words);
    assert_eq!(common::json(&folder.path().join("run/flat.json")), printed);
}

#[test]
fn skill_and_project_tell_agents_what_to_call() {
    let folder = tempfile::tempdir().unwrap();
    let skill = common::works(folder.path(), &["skill"]);
    // Tools that load skills read this part as YAML.
    let front = skill.split("---\n").nth(1).unwrap();
    let front = load_config(&SourceText::new("SKILL.md", front.to_owned())).unwrap();
    let read = emit::to_yaml(&front);
    assert!(read.starts_with("name: llmprof\ndescription: "), "{read}");
    common::works(folder.path(), &["init", "my-profiles", "--yes"]);
    let agents = fs::read_to_string(folder.path().join("my-profiles/AGENTS.md")).unwrap();
    assert!(
        agents.starts_with("# my-profiles: for coding agents"),
        "{agents}"
    );
    let ids = common::works(folder.path(), &["schema"]);
    let answers: Vec<&str> = ids
        .lines()
        .filter(|id| id.starts_with("llmprof.agent."))
        .collect();
    assert_eq!(answers.len(), 12, "{ids}");
    for id in answers {
        let schema = parsed(&common::works(folder.path(), &["schema", id]));
        assert_eq!(schema["properties"]["schema"]["type"], "string", "{id}");
    }
    let refused = common::refused(folder.path(), &["schema", "explain"]);
    assert!(refused.contains("several names"), "{refused}");
}

#[test]
fn a_load_prints_for_agents_and_its_requests_are_explained() {
    let stub = Stub::start(Behaviour {
        prefill: Duration::from_millis(5),
        step: Duration::from_millis(1),
        ..Behaviour::default()
    })
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let url = stub.url();
    let words = ["bench", &url, "--requests", "8", "--output-tokens", "4"];
    let more = ["--rate", "50", "-o", "run", "--format", "agent"];
    let answer = parsed(&common::works(folder.path(), &[&words[..], &more].concat()));
    assert_eq!(answer["schema"], "llmprof.agent.summary/1");
    assert!(answer["result"].to_string().contains("TTFT"), "{answer}");
    // It led nowhere: a load has neither phases nor kernels.
    let next = answer["next"][0]["command"].as_str().unwrap();
    assert!(next.starts_with("llmprof explain run request="), "{answer}");
    let words: Vec<&str> = next.split_whitespace().skip(1).collect();
    let slowest = parsed(&common::works(folder.path(), &words));
    let slower = slowest["slower_than_pct"].as_f64().unwrap();
    assert_eq!(slower, 87.5, "{slowest}");
    let words = ["explain", "run", "request=3"];
    let request = parsed(&common::works(folder.path(), &words));
    assert_eq!(request["schema"], "llmprof.agent.explain_request/1");
    let parts = request["parts_ms"].as_object().unwrap();
    let sum: f64 = parts.values().filter_map(Value::as_f64).sum();
    let latency = request["e2e_ms"].as_f64().unwrap();
    assert!(
        (sum - latency).abs() < 0.01,
        "{sum} of {latency}: {request}"
    );
    let none = common::llmprof(folder.path(), &["explain", "run", "request=8"]);
    assert_eq!(none.status.code(), Some(2));
}
