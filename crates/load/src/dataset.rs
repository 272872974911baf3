//! Prompts of a file: one JSON object a line, or ShareGPT's array of conversations.

use std::path::Path;

use serde::Deserialize;

use crate::text_file::{self, TextFileError};

/// One conversation: what the user says in each turn, and how long the answer to it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    pub turns: Vec<Turn>,
}

/// One turn of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    pub prompt: String,
    /// Tokens of the answer, where the file says so.
    pub output_tokens: Option<u64>,
}

/// Why a dataset cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PromptFileError {
    /// It cannot be read, or a line is not of the format.
    #[error(transparent)]
    File(#[from] TextFileError),
    /// There is no prompt in it.
    #[error(
        "the dataset has no prompts; supported: JSONL with `prompt` (and `output_tokens`) or `turns`, ShareGPT JSON with `conversations`"
    )]
    Empty,
}

#[derive(Deserialize)]
struct DatasetLine {
    prompt: Option<String>,
    #[serde(alias = "output_len", alias = "max_tokens")]
    output_tokens: Option<u64>,
    turns: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct ShareGpt {
    #[serde(alias = "conversation", default)]
    conversations: Vec<ShareGptTurn>,
}

#[derive(Deserialize)]
struct ShareGptTurn {
    from: String,
    value: String,
}

/// Reads a dataset, by its content.
pub fn load(path: &Path) -> Result<Vec<Conversation>, PromptFileError> {
    parse_conversations(&text_file::read_text(path)?)
}

/// Parses a dataset in any supported format; conversations without turns are left out.
pub fn parse_conversations(text: &str) -> Result<Vec<Conversation>, PromptFileError> {
    let conversations = if text.trim_start().starts_with('[') {
        share_gpt(text)?
    } else {
        read_lines(text)?
    };
    let conversations: Vec<Conversation> = conversations
        .into_iter()
        .filter(|conversation| !conversation.turns.is_empty())
        .collect();
    if conversations.is_empty() {
        return Err(PromptFileError::Empty);
    }
    Ok(conversations)
}

fn share_gpt(text: &str) -> Result<Vec<Conversation>, TextFileError> {
    let all: Vec<ShareGpt> = serde_json::from_str(text).map_err(|error| TextFileError::Line {
        line: error.line(),
        what: error.to_string(),
    })?;
    let turns = |conversation: ShareGpt| {
        let turns = conversation
            .conversations
            .into_iter()
            .filter(|turn| matches!(turn.from.as_str(), "human" | "user"))
            .map(|turn| Turn {
                prompt: turn.value,
                output_tokens: None,
            });
        Conversation {
            turns: turns.collect(),
        }
    };
    Ok(all.into_iter().map(turns).collect())
}

fn read_lines(text: &str) -> Result<Vec<Conversation>, TextFileError> {
    let mut conversations = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |what: String| TextFileError::Line {
            line: index + 1,
            what,
        };
        let line: DatasetLine =
            serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        let turns = match (line.prompt, line.turns) {
            (Some(prompt), None) => vec![Turn {
                prompt,
                output_tokens: line.output_tokens,
            }],
            (None, Some(turns)) => turns
                .into_iter()
                .map(|prompt| Turn {
                    prompt,
                    output_tokens: line.output_tokens,
                })
                .collect(),
            _ => return Err(wrong("it needs either `prompt` or `turns`".to_owned())),
        };
        conversations.push(Conversation { turns });
    }
    Ok(conversations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_conversations() {
        let conversations = parse_conversations(
            "{\"prompt\":\"a b\",\"output_tokens\":7}\n\n{\"turns\":[\"hello\",\"and then?\"]}\n",
        )
        .unwrap();
        assert_eq!(conversations[0].turns[0].output_tokens, Some(7));
        assert_eq!(conversations[1].turns.len(), 2);
        let conversations = parse_conversations(r#"[{"conversations":[{"from":"human","value":"q"},{"from":"gpt","value":"a"},{"from":"human","value":"r"}]},{"conversations":[]}]"#).unwrap();
        assert_eq!(conversations.len(), 1);
        assert_eq!(conversations[0].turns[1].prompt, "r");
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert!(
            parse_conversations("[]")
                .unwrap_err()
                .to_string()
                .contains("no prompts")
        );
        let error = parse_conversations("{\"prompt\":\"a\"}\n{\"question\":\"b\"}")
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("line 2"), "{error}");
    }
}
