//! Weight bytes of the roofline against the files that the weights are read from: their headers say how long each tensor is.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

use super::{python, run, stderr};

const HIDDEN: u64 = 64;
const STEPS: u64 = 3;
/// bf16.
const BYTES: u64 = 2;

const EMBEDDING: &str = "model.embed_tokens.weight";
const HEAD: &str = "lm_head.weight";

/// Saves a model as transformers does: `tied` in one file, with a table that is both embedding and head; `untied` in several.
const SAVE: &str = "
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM
for name, tied, shard in [('tied', True, '1GB'), ('untied', False, '100KB')]:
    config = Qwen2Config(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=300, tie_word_embeddings=tied, use_sliding_window=False, max_position_embeddings=128)
    Qwen2ForCausalLM(config).to(torch.bfloat16).save_pretrained(name, max_shard_size=shard)
";

/// The bytes of each tensor, by the headers of a directory's files: their length in 8 bytes, then JSON.
fn stored(directory: &Path) -> (usize, BTreeMap<String, u64>) {
    let files = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|end| end == "safetensors"));
    let mut tensors = BTreeMap::new();
    let mut count = 0;
    for file in files {
        count += 1;
        let bytes = fs::read(file).unwrap();
        let (length, rest) = bytes.split_first_chunk::<8>().unwrap();
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap();
        let header: BTreeMap<String, Value> = serde_json::from_slice(&rest[..length]).unwrap();
        for (name, reported) in header {
            let Some(offsets) = reported.get("data_offsets") else {
                assert_eq!(name, "__metadata__");
                continue;
            };
            let bytes = offsets[1].as_u64().unwrap() - offsets[0].as_u64().unwrap();
            assert_eq!(
                tensors.insert(name, bytes),
                None,
                "each tensor is stored once"
            );
        }
    }
    (count, tensors)
}

/// A step reads every stored tensor whole, but of the embedding's table one row; a table that is the head as well is read whole
/// as the head, and its row besides.
#[test]
#[ignore = "live: needs torch and transformers"]
fn a_step_reads_the_bytes_that_are_stored() {
    let python = python();
    let folder = tempfile::tempdir().unwrap();
    let saved = Command::new(&python)
        .current_dir(folder.path())
        .args(["-c", SAVE])
        .stderr(Stdio::null())
        .status();
    assert!(saved.unwrap().success());
    for (name, files, is_tied) in [("tied", 1..=1, true), ("untied", 2..=9, false)] {
        let (count, tensors) = stored(&folder.path().join(name));
        assert!(files.contains(&count), "{name}: {count} files");
        assert_eq!(tensors.contains_key(HEAD), !is_tied);
        let all: u64 = tensors.values().sum();
        let table = tensors[EMBEDDING];
        let row = HIDDEN * BYTES;
        let (head, step) = if is_tied {
            (table, all + row)
        } else {
            (tensors[HEAD], all - table + row)
        };

        let output = run(
            folder.path(),
            &[
                &format!("runtime.python={python}"),
                "model.config=null",
                "model.dtype=null",
                &format!("model.path={name}"),
                "model.load_format=safetensors",
                "runtime.warmup=0",
                "runtime.repeats=1",
                "runtime.threads=1",
                "workload.prompt_tokens=8",
                &format!("infer.max_new_tokens={}", STEPS + 1),
                &format!("hydra.run.dir=out_{name}"),
            ],
        );
        assert!(output.status.success(), "{}", stderr(&output));
        let json = |file: &str| -> Value {
            let path = folder.path().join(format!("out_{name}")).join(file);
            serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
        };
        let counted = json("static_compute.json");
        assert_eq!(counted["totals"]["parameter_bytes"], all, "{name}");
        let decode_step = &counted["phases"]["decode_step"];
        assert_eq!(decode_step["weight_bytes"], step, "{name}");
        // Kind by kind, so that nothing makes up for another.
        let of_kind = |kind: &str| {
            let mut kinds = decode_step["kinds"].as_array().unwrap().iter();
            let row = kinds.find(|one| one["kind"] == kind);
            row.unwrap_or_else(|| panic!("no {kind}: {decode_step}"))["weight_bytes"].as_u64()
        };
        let sum = |part: &str| -> u64 {
            let named = tensors.iter().filter(|(name, _)| name.contains(part));
            named.map(|(_, bytes)| bytes).sum()
        };
        assert_eq!(of_kind("embedding"), Some(row), "{name}");
        assert_eq!(of_kind("norm"), Some(sum("norm.weight")), "{name}");
        assert_eq!(of_kind("linear"), Some(sum("_proj.") + head), "{name}");

        // The same bytes are those of the measured phase and of its MBU.
        let analysis = json("analysis.json");
        let mut phases = analysis["phases"].as_array().unwrap().iter();
        let decode = phases.find(|phase| phase["phase"] == "decode").unwrap();
        let read = &decode["plain_utilization"]["weight_bytes"];
        assert_eq!(*read, STEPS * step, "{name}");
    }
}
