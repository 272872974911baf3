//! The worker's tokens are those of llmprof's own engine, which shares no code with it.

use std::path::PathBuf;

use llmprof_capture::{
    native::NativeBackend,
    runner::{Backend, protocol::Load},
};
use llmprof_record::plan::LoadFormat;
use serde_json::{Value, json};

use super::support::{Worker, batch, dummy, phases, root, tokens};

/// A stored model of the engine's tests.
fn stored(directory: PathBuf) -> Load {
    let config = std::fs::read_to_string(directory.join("config.json")).unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    Load {
        path: Some(directory),
        load_format: LoadFormat::Safetensors,
        ..dummy(&config)
    }
}

#[test]
#[ignore = "live: needs torch and transformers"]
fn tokens_are_those_of_the_native_engine() {
    let mut worker = Worker::start();
    let prompts: [&[u32]; 2] = [
        &[5, 17, 40, 2, 33, 9, 12, 60, 1],
        &[44, 8, 8, 21, 3, 59, 30, 7, 26],
    ];
    for family in ["qwen2", "llama", "gemma2", "mixtral", "gpt2"] {
        let mut load = stored(root().join("crates/engine/tests/data").join(family));
        let mut native = NativeBackend::default();
        let ours = native.load_model(load.clone(), &mut |_| ()).unwrap();
        // The one implementation that caps the scores of Gemma 2.
        load.options.attn_implementation = Some("eager".to_owned());
        let theirs = worker.load(&load).unwrap();
        assert_eq!(
            (theirs.parameters, theirs.vocab_size, theirs.dtype),
            (ours.parameters, ours.vocab_size, ours.dtype),
            "{family}"
        );
        for (do_sample, ngram) in [(false, 0), (false, 2), (true, 0)] {
            let mut asked = batch(&prompts, 12);
            asked.sampling.do_sample = do_sample;
            asked.sampling.no_repeat_ngram_size = ngram;
            asked.sampling.temperature = 0.8;
            let expected = native
                .generate_batch(asked.clone(), false, &mut |_| ())
                .unwrap();
            let got = worker.generate(&asked).unwrap();
            assert_eq!(
                tokens(&got),
                tokens(&expected),
                "{family}, do_sample={do_sample}, no_repeat_ngram_size={ngram}"
            );
            assert_eq!(phases(&got), ["prefill", "decode"]);
        }
    }
    worker.finish();
}

/// The code that multiplies the experts is chosen by name, and changes no token.
#[test]
#[ignore = "live: needs torch and transformers"]
fn tokens_do_not_depend_on_the_code_of_the_experts() {
    let mut worker = Worker::start();
    let mut load = stored(root().join("crates/engine/tests/data/mixtral"));
    let asked = batch(&[&[5, 17, 40, 2, 33], &[44, 8, 8, 21, 3]], 8);
    let mut generated = Vec::new();
    for name in ["eager", "batched_mm", "grouped_mm"] {
        load.options.experts_implementation = Some(name.to_owned());
        let loaded = worker.load(&load).unwrap();
        assert_eq!(loaded.facts["experts_implementation"], name);
        generated.push(tokens(&worker.generate(&asked).unwrap()));
    }
    assert_eq!(generated[1], generated[0]);
    assert_eq!(generated[2], generated[0]);
    load.options.experts_implementation = Some("nope".to_owned());
    assert!(worker.load(&load).is_err());
    worker.finish();
}

/// Padding on the left changes no token, and a cache of fixed size changes none either.
#[test]
#[ignore = "live: needs torch and transformers"]
fn tokens_do_not_depend_on_the_batch_or_the_cache() {
    let mut worker = Worker::start();
    let load = stored(root().join("crates/engine/tests/data/qwen3"));
    worker.load(&load).unwrap();
    let (long, short): (&[u32], &[u32]) = (&[5, 17, 40, 2, 33, 9, 12], &[44, 8, 21]);
    let alone: Vec<_> = [long, short]
        .map(|prompt| tokens(&worker.generate(&batch(&[prompt], 8)).unwrap()).remove(0))
        .into();
    let together = worker.generate(&batch(&[long, short], 8)).unwrap();
    assert_eq!(tokens(&together), alone);
    let lengths: Vec<_> = together
        .requests
        .iter()
        .map(|one| one.prompt_tokens)
        .collect();
    assert_eq!(lengths, [7, 3]);
    // Requests of one batch may want different numbers of tokens.
    let mut uneven = batch(&[long, short], 8);
    uneven.requests[1].max_new_tokens = 3;
    let uneven = tokens(&worker.generate(&uneven).unwrap());
    assert_eq!((&uneven[0], &uneven[1][..]), (&alone[0], &alone[1][..3]));
    worker.finish();

    let script = r#"
import sys
sys.path.insert(0, sys.argv[1])
from llmprof_worker import loading, inputs
from llmprof_worker.decoders import FixedDecoder
from llmprof_worker.requests import Generate, Load, Request, Sampling
import json, torch
config = json.load(open(sys.argv[2] + "/config.json"))
ready, _ = loading.load(Load(config, "safetensors", "cpu", 1, 20, 0, path=sys.argv[2]))
batch = Generate([Request("0", {"tokens": json.loads(sys.argv[3])}, 8)], Sampling(False, 1.0, 0, 0), True)
given = inputs.inputs_of(ready, batch)
decoder = FixedDecoder(ready.module, ready.device, ready.dtype, 1, 20, ready.request.options)
for repetition in range(2):
    decoder.begin(given)
    with torch.no_grad():
        token = decoder.prefill(given).argmax(-1)
        out = [token.item()]
        for step in range(7):
            if step == 2:
                # What a capture does: steps that must not count.
                restore = decoder._restore_point()
                decoder._ids.copy_(token.unsqueeze(1)); decoder._step(); restore(); decoder._step(); restore()
            token = decoder.decode(token, False).argmax(-1)
            out.append(token.item())
    print(out)
# The whole batch with steps that are queued ahead, as on a CUDA device, where compiling would leave the model as it is.
from llmprof_worker import batch as batches
batches.Loop._runs_ahead = lambda loop: True
torch.compile = lambda forward, **_: forward
ready.request.options.compile = "default"
batch.requests[0].max_new_tokens = 8
answer = batches.run(ready, batch, lambda done, total: None)
print(answer["requests"][0]["output_tokens"])
print(len(answer["requests"][0]["token_ns"]), [phase["phase"] for phase in answer["phases"]])
# Images need positions beside those announced: a longer cache takes the place of the one that is too short.
print(ready.decoder(1, 15) is ready.decoder(1, 12), ready.decoder(1, 30).length)
"#;
    let output = std::process::Command::new(super::support::python())
        .args(["-c", script])
        .arg(root().join("crates/capture/python"))
        .arg(load.path.unwrap())
        .arg(serde_json::to_string(long).unwrap())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let expected = serde_json::to_string(&alone[0]).unwrap().replace(',', ", ");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("{expected}\n{expected}\n{expected}\n8 ['prefill', 'decode']\nTrue 30\n"),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A model with a state in place of keys and values generates the same alone and padded in a batch.
#[test]
#[ignore = "live: needs torch and transformers"]
fn a_state_space_model_generates() {
    let mut worker = Worker::start();
    let config = json!({
        "model_type": "mamba", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 256, "state_size": 8
    });
    worker.load(&dummy(&config)).unwrap();
    let (long, short) = ([9, 8, 7, 6, 5, 4, 3], [11, 12, 13]);
    let together = tokens(&worker.generate(&batch(&[&long, &short], 5)).unwrap());
    let alone: Vec<_> = [&long[..], &short[..]]
        .into_iter()
        .flat_map(|prompt| tokens(&worker.generate(&batch(&[prompt], 5)).unwrap()))
        .collect();
    assert_eq!(together, alone);
    assert!(together.iter().all(|output| output.len() == 5));
    worker.finish();
}
