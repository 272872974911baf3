//! Which weights a run has: those that are there, random ones where there are none or they were asked for, and what is said of it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use std::{fs, path::Path};

use common::{json, llmprof, refused, works};
use serde_json::{Map, Value, json as value};
use sha2::{Digest as _, Sha256};

const HIDDEN: usize = 8;
const VOCABULARY: usize = 16;
/// The token that these weights predict, whatever the prompt is.
const ANSWER: usize = 7;

/// A Llama of one layer whose layer adds nothing and whose head points at one token.
fn write_model(folder: &Path) -> String {
    fs::create_dir_all(folder).unwrap();
    let config = value!({
        "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": 16, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": VOCABULARY, "tie_word_embeddings": false,
        "max_position_embeddings": 64, "torch_dtype": "float32",
    });
    fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let layer = |name: &str| format!("model.layers.0.{name}.weight");
    let mut tensors: Vec<(String, Vec<usize>, Vec<f32>)> = Vec::new();
    let mut add = |name: String, shape: &[usize], value: f32| {
        let count = shape.iter().product();
        tensors.push((name, shape.to_vec(), vec![value; count]));
    };
    add(
        "model.embed_tokens.weight".to_owned(),
        &[VOCABULARY, HIDDEN],
        1.0,
    );
    for name in [
        "self_attn.q_proj",
        "self_attn.k_proj",
        "self_attn.v_proj",
        "self_attn.o_proj",
    ] {
        add(layer(name), &[HIDDEN, HIDDEN], 0.0);
    }
    for name in ["mlp.gate_proj", "mlp.up_proj"] {
        add(layer(name), &[16, HIDDEN], 0.0);
    }
    add(layer("mlp.down_proj"), &[HIDDEN, 16], 0.0);
    for name in ["input_layernorm", "post_attention_layernorm"] {
        add(layer(name), &[HIDDEN], 1.0);
    }
    add("model.norm.weight".to_owned(), &[HIDDEN], 1.0);
    add("lm_head.weight".to_owned(), &[VOCABULARY, HIDDEN], 0.0);
    let head = &mut tensors.last_mut().unwrap().2;
    head[ANSWER * HIDDEN..(ANSWER + 1) * HIDDEN].fill(1.0);

    let (mut header, mut data) = (Map::new(), Vec::new());
    for (name, shape, values) in tensors {
        let start = data.len();
        data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let tensor = value!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
        header.insert(name, tensor);
    }
    let header = Value::Object(header).to_string().into_bytes();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(&header);
    file.extend(data);
    fs::write(folder.join("model.safetensors"), file).unwrap();
    llmprof_units::hex_text(&Sha256::digest(&header))
}

const RUN: [&str; 6] = [
    "run",
    "model=local",
    "model.path=model",
    "hardware.spec=xeon_8480",
    "workload.prompt_tokens=4",
    "infer.max_new_tokens=3",
];

/// Token ids of the only sample.
fn predicted(run: &Path) -> Vec<u64> {
    let prediction = json(&run.join("predictions/synthetic-0.json"));
    let tokens = prediction["tokens"].as_array().unwrap().iter();
    tokens.map(|token| token.as_u64().unwrap()).collect()
}

#[test]
fn weights_that_are_there_are_loaded_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let hash = write_model(&root.join("model"));
    let said = works(root, &[&RUN[..], &["hydra.run.dir=stored"]].concat());
    assert!(
        said.lines().next().unwrap().ends_with("weights of model"),
        "{said}"
    );
    assert_eq!(predicted(&root.join("stored")), [ANSWER as u64; 3]);
    let weights = &json(&root.join("stored/record.json"))["weights"];
    assert_eq!(weights["path"], "model");
    assert_eq!(weights["index_sha256"], hash.as_str());
    let report = fs::read_to_string(root.join("stored/report.md")).unwrap();
    assert!(
        report.contains(&format!("index sha256 {}", &hash[..12])),
        "{report}"
    );

    let random = [
        &RUN[..],
        &["model.load_format=dummy", "hydra.run.dir=random"],
    ]
    .concat();
    let said = works(root, &random);
    assert!(
        said.lines().next().unwrap().ends_with("random weights"),
        "{said}"
    );
    assert_eq!(
        json(&root.join("random/record.json"))["weights"],
        value!({})
    );

    // Without files there is nothing to load, and that is said.
    fs::remove_file(root.join("model/model.safetensors")).unwrap();
    let said = works(root, &[&RUN[..], &["hydra.run.dir=none"]].concat());
    assert!(
        said.lines().next().unwrap().ends_with("random weights"),
        "{said}"
    );
    let inputs = fs::read_to_string(root.join("none/inputs.yaml")).unwrap();
    assert!(inputs.contains("    prompt_sha256: "), "{inputs}");

    // Files that this runtime cannot read are not passed over.
    fs::write(root.join("model/pytorch_model.bin"), "").unwrap();
    let said = refused(root, &RUN);
    assert!(said.contains("runtime=pytorch reads them"), "{said}");
    fs::rename(
        root.join("model/pytorch_model.bin"),
        root.join("model/model.gguf"),
    )
    .unwrap();
    let said = refused(root, &RUN);
    assert!(said.contains("model.gguf"), "{said}");
}

#[test]
fn servers_get_the_weights_that_are_there() {
    let folder = tempfile::tempdir().unwrap();
    write_model(&folder.path().join("model"));
    for (runtime, is_dummy) in [
        ("runtime=vllm", "--load-format dummy"),
        ("runtime=sglang", "--load-format dummy"),
    ] {
        let words = [
            "run",
            runtime,
            "model=local",
            "model.path=model",
            "--dry-run",
        ];
        let printed = works(folder.path(), &words);
        assert!(
            printed.contains(" model") && !printed.contains(is_dummy),
            "{printed}"
        );
        let printed = works(
            folder.path(),
            &[&words[..], &["model.load_format=dummy"]].concat(),
        );
        assert!(printed.contains(is_dummy), "{printed}");
    }
}

/// What would be started, or that nothing would be.
#[test]
fn a_dry_run_shows_what_every_runtime_starts() {
    let folder = tempfile::tempdir().unwrap();
    for (words, shown) in [
        (&["runtime=native"][..], "llmprof worker"),
        (&["runtime=pytorch"], "pytorch/worker"),
        (&["runtime=command", "runtime.argv=[sleep,1]"], "sleep 1"),
        (
            &["runtime=worker", "runtime.worker=[python3,mine.py]"],
            "python3 mine.py",
        ),
    ] {
        let printed = works(folder.path(), &[&["run", "--dry-run"][..], words].concat());
        assert!(printed.contains(shown), "{words:?}: {printed}");
    }
    for words in [
        &["runtime=none"][..],
        &["runtime=openai", "runtime.serving.url=http://127.0.0.1:9"],
    ] {
        let output = llmprof(folder.path(), &[&["run", "--dry-run"][..], words].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && said.contains("nothing would be started"),
            "{said}"
        );
        assert!(output.stdout.is_empty());
    }
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        0,
        "nothing is written"
    );
}
