//! The process that tokenizes.

use std::{
    io::{self, BufRead, Write},
    path::Path,
};

use llmprof_units::bounded_file::{TOKENIZER_MAX_BYTES, read_bounded};
use rustix::{
    process::{Resource, Rlimit, setrlimit},
    time::{ClockId, clock_gettime},
};
use serde::Serialize;
use tokenizers::Tokenizer;

use super::{DecodedText, MEMORY_MAX_GIB, Question, TEXT_MAX_CPU_S};

/// Answers questions on standard input until it is closed.
pub fn serve_tokenizer(file: &Path) -> io::Result<()> {
    limit_resource(Resource::Core, 0)?;
    limit_resource(Resource::As, MEMORY_MAX_GIB << 30)?;
    limit_cpu_time()?;
    let mut output = io::stdout().lock();
    let loaded = load_tokenizer(file);
    let tokenizer = match loaded {
        Ok(tokenizer) => tokenizer,
        Err(why) => return send_answer(&mut output, &Err::<(), _>(why)),
    };
    send_answer(&mut output, &Ok(()))?;
    for line in io::stdin().lock().lines() {
        limit_cpu_time()?;
        match serde_json::from_str(&line?)? {
            Question::Encode {
                text,
                special_tokens,
            } => {
                let encoding = tokenizer.encode_fast(text, special_tokens);
                let ids = encoding.map(|encoding| encoding.get_ids().to_vec());
                send_answer(&mut output, &ids.map_err(|error| error.to_string()))?;
            }
            Question::Decode { ids } => send_answer(&mut output, &decode_ids(&tokenizer, &ids))?,
        }
    }
    Ok(())
}

fn load_tokenizer(file: &Path) -> Result<Tokenizer, String> {
    let bytes = read_bounded(file, TOKENIZER_MAX_BYTES).map_err(|error| error.to_string())?;
    Tokenizer::from_bytes(bytes).map_err(|error| format!("not a tokenizer: {error}"))
}

fn decode_ids(tokenizer: &Tokenizer, ids: &[u32]) -> Result<DecodedText, String> {
    let text = |skip_special| tokenizer.decode(ids, skip_special);
    match (text(true), text(false)) {
        (Ok(text), Ok(raw_text)) => Ok(DecodedText { text, raw_text }),
        (Err(error), _) | (_, Err(error)) => Err(error.to_string()),
    }
}

fn send_answer<T: Serialize>(
    output: &mut impl Write,
    answer: &Result<T, String>,
) -> io::Result<()> {
    serde_json::to_writer(&mut *output, answer)?;
    output.write_all(b"\n")?;
    output.flush()
}

fn limit_resource(resource: Resource, most: u64) -> io::Result<()> {
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    Ok(setrlimit(resource, limit)?)
}

/// The kernel ends the process when the time of this text is over. Only the soft limit moves: the hard one could not be raised again.
fn limit_cpu_time() -> io::Result<()> {
    let used = clock_gettime(ClockId::ProcessCPUTime).tv_sec;
    let used = u64::try_from(used).unwrap_or(0);
    let limit = Rlimit {
        current: Some(used + TEXT_MAX_CPU_S),
        maximum: None,
    };
    Ok(setrlimit(Resource::Cpu, limit)?)
}
