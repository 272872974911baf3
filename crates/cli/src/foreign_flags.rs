//! Flags of `vllm bench serve` and SGLang's `bench_serving` that `bench` has under another name, or does not need.

use clap::{
    Error,
    error::{ContextKind, ContextValue, ErrorKind},
};
use llmprof_config::near_names::nearest_name;

/// Their flag, and what to write instead.
const BENCH_FLAGS: [(&[&str], &str); 14] = [
    (
        &["base-url", "host", "port"],
        "the endpoint comes first: llmprof bench HOST:PORT",
    ),
    (
        &["backend", "endpoint", "endpoint-type"],
        "the endpoint comes first, with its path: llmprof bench HOST:PORT/v1; --chat uses /v1/chat/completions",
    ),
    (
        &["dataset-name"],
        "prompts are random, of --prompt-tokens each; --dataset FILE or --trace FILE reads others",
    ),
    (&["dataset-path"], "--dataset FILE, or --trace FILE"),
    (
        &["ignore-eos", "disable-ignore-eos"],
        "ignore_eos is the default; --stop-at-eos lets the model end answers early",
    ),
    (&["num-warmups", "warmup-requests"], "--warmup N"),
    (
        &["goodput"],
        "--slo 'ttft:p99<500ms': the objectives, which goodput is counted by",
    ),
    (
        &[
            "save-result",
            "save-detailed",
            "append-result",
            "result-dir",
            "result-filename",
            "output-file",
        ],
        "every result is kept in a run directory; -o DIR names it",
    ),
    (
        &["percentile-metrics", "metric-percentiles"],
        "every percentile that the number of requests allows is printed",
    ),
    (&["random-prefix-len"], "--shared-prefix N"),
    (
        &["random-range-ratio"],
        "--prompt-tokens uniform:LOW:HIGH, --output-tokens uniform:LOW:HIGH",
    ),
    (&["qps"], "--rate R"),
    (&["served-model-name"], "--model NAME"),
    (
        &["temperature", "top-p", "top-k", "min-p"],
        "--extra-body '{\"temperature\": 0}' sends any field with every request",
    ),
];

/// What to write instead of a flag that `bench` does not have.
fn bench_hint(flag: &str) -> Option<&'static str> {
    let name = flag
        .trim_start_matches('-')
        .split('=')
        .next()?
        .replace('_', "-");
    let (_, hint) = BENCH_FLAGS
        .iter()
        .find(|(names, _)| names.contains(&name.as_str()))?;
    Some(hint)
}

/// The hint for an unknown flag of a command. Where there is one, and where clap suggests a flag that is not near, clap's own
/// suggestion is taken out of the error.
pub(crate) fn hint_for(error: &mut Error, command: Option<&str>) -> Option<&'static str> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let hint = bench_hint(flag).filter(|_| command == Some("bench"));
    let is_near = match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(near)) => {
            let name = |flag: &str| flag.trim_start_matches('-').to_owned();
            nearest_name(&name(flag), [name(near).as_str()].into_iter()).is_some()
        }
        _ => true,
    };
    if hint.is_some() || !is_near {
        error.remove(ContextKind::SuggestedArg);
        // Its usage is that of the flag it suggests.
        error.remove(ContextKind::Usage);
    }
    // "to pass '--flag' as a value, use '-- --flag'": no command takes a flag of others as a value.
    error.remove(ContextKind::Suggested);
    hint
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Args;

    #[test]
    fn foreign_flags_are_not_ours_and_their_hints_name_flags_that_exist() {
        let command = Args::command();
        let bench = command.find_subcommand("bench").unwrap();
        let mut ours: Vec<String> = Vec::new();
        for argument in bench.get_arguments() {
            ours.extend(argument.get_long().map(str::to_owned));
            ours.extend(
                argument
                    .get_all_aliases()
                    .unwrap_or_default()
                    .into_iter()
                    .map(str::to_owned),
            );
        }
        for (names, hint) in BENCH_FLAGS {
            for name in names {
                assert!(!ours.iter().any(|own| own == name), "{name}");
            }
            let flags = hint.split(|c: char| !(c.is_ascii_lowercase() || c == '-'));
            for flag in flags.filter_map(|word| word.strip_prefix("--")) {
                assert!(ours.iter().any(|own| own == flag), "{flag}");
            }
        }
        assert_eq!(bench_hint("--base_url=http://x"), bench_hint("--host"));
        assert_eq!(bench_hint("--requests"), None);
    }
}
