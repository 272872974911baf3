//! Prompts as text, and texts that end.

use llmprof_capture::runner::protocol::{FailureKind, Finish, Prompt};
use serde_json::json;

use super::support::{Worker, batch, dummy, tiny_qwen2, tokens};

/// Words of one letter: `a` is 1, `b` is 2.
fn tokenizer() -> String {
    let words = ('a'..='z')
        .zip(1..)
        .map(|(letter, id)| (letter.to_string(), json!(id)));
    let mut vocabulary: serde_json::Map<_, _> = words.collect();
    vocabulary.insert("<unk>".to_owned(), json!(0));
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"}
    })
    .to_string()
}

#[test]
#[ignore = "live: needs torch and transformers"]
fn prompts_are_text_and_texts_end() {
    let mut worker = Worker::start();
    let file = worker.folder.path().join("tokenizer.json");
    std::fs::write(&file, tokenizer()).unwrap();
    let mut load = dummy(&tiny_qwen2());
    load.tokenizer = Some(worker.folder.path().to_path_buf());
    assert!(worker.load(&load).unwrap().tokenizer);
    let numbers = worker.generate(&batch(&[&[3, 1, 2]], 6)).unwrap();
    let mut asked = batch(&[&[]], 6);
    asked.requests[0].prompt = Prompt::Text("c a b z z".to_owned());
    asked.max_prompt_tokens = Some(3);
    let words = worker.generate(&asked).unwrap();
    assert_eq!(words.requests[0].prompt_tokens, 3);
    assert_eq!(tokens(&words), tokens(&numbers));
    assert!(words.requests[0].text.is_some());

    // The third token ends the text where ends are heeded.
    let output = &numbers.requests[0].output_tokens;
    let end = output[2];
    let first = output.iter().position(|token| *token == end).unwrap();
    let mut config = tiny_qwen2();
    config["eos_token_id"] = json!(end);
    load.config = config.as_object().unwrap().clone();
    worker.load(&load).unwrap();
    asked.ignore_eos = false;
    let ended = worker.generate(&asked).unwrap();
    assert_eq!(tokens(&ended)[0], output[..=first]);
    assert_eq!(ended.requests[0].finish, Finish::Stop);

    std::fs::write(&file, "{}").unwrap();
    let failure = worker.load(&load).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Model, "{}", failure.message);
    worker.finish();
}
