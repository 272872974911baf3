//! Who runs a model, and the words of a command line.

use std::fmt;

use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, Visitor},
};

/// The kind of program that runs the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuntimeType {
    None,
    Native,
    /// A Python worker on torch and transformers.
    Pytorch,
    /// A worker of the user's own.
    Worker,
    /// A command line that is only watched.
    Command,
    /// An OpenAI-compatible endpoint that is up.
    Openai,
    /// A vLLM server that llmprof starts.
    Vllm,
    /// An SGLang server that llmprof starts.
    Sglang,
    /// A TensorRT-LLM server that llmprof starts.
    Tensorrtllm,
}

/// A word of a command line. A config may hold it as a number or a truth value: `[sleep, 300]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Word(
    /// As the command sees it.
    pub String,
);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Scalar;

        impl Visitor<'_> for Scalar {
            type Value = Word;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Word, E> {
                Ok(Word(text.to_owned()))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Word, E> {
                Ok(Word(number.to_string()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Word, E> {
                Ok(Word(number.to_string()))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Word, E> {
                Ok(Word(number.to_string()))
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Word, E> {
                Ok(Word(value.to_string()))
            }
        }

        deserializer.deserialize_any(Scalar)
    }
}
