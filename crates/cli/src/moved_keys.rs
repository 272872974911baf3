//! Keys that older projects have in another place: they work, with a note that names the new one.
//!
//! A project whose primary config is its own may lack what llmprof needs; that comes from the shipped tree.

use std::path::PathBuf;

use llmprof_config::{
    hydra::{App, CommandOutcome, Composed, Error, Host, HydraCommand, RunMode},
    node::{Node, Value},
};

use crate::{app, failure::Failure};

/// What becomes of a value that moves.
#[derive(Clone, Copy, Debug)]
enum Move {
    /// It is the same in its new place.
    Same,
    /// Seconds between samples become samples per second.
    Rate,
    /// A number becomes `cuda:N`.
    CudaDevice,
    /// Options of nsys, without those that it does not have.
    NsysOptions,
    /// This value is what llmprof does anyway; any other is refused by its old name.
    Always(&'static str),
}

/// Old key, new key, and what becomes of the value. `docs/project.md` has the same table; a test compares them.
const MOVED: &[(&str, &str, Move)] = &[
    ("runtime.num_new_tokens", "infer.max_new_tokens", Move::Same),
    (
        "runtime.torch_profiler.enabled",
        "pipeline.torch_profiler.enable",
        Move::Same,
    ),
    (
        "runtime.torch_profiler.warmup",
        "pipeline.torch_profiler.warmup",
        Move::Same,
    ),
    (
        "runtime.torch_profiler.steps",
        "pipeline.torch_profiler.active_steps",
        Move::Same,
    ),
    ("runtime.nvtx_ranges", "", Move::Always("true")),
    ("runtime.impl", "", Move::Always("vanilla")),
    (
        "profiling.nvml.enable",
        "pipeline.telemetry.enable",
        Move::Same,
    ),
    (
        "profiling.nvml.interval_s",
        "pipeline.telemetry.hz",
        Move::Rate,
    ),
    ("profiling.nsys.enable", "pipeline.nsys.enable", Move::Same),
    (
        "profiling.nsys.args",
        "pipeline.nsys.args",
        Move::NsysOptions,
    ),
    ("profiling.ncu.enable", "pipeline.ncu.enable", Move::Same),
    ("profiling.ncu.metrics", "pipeline.ncu.metrics", Move::Same),
    ("profiling.outputs.write_ops_csv", "", Move::Always("true")),
    ("hardware.device_index", "device", Move::CudaDevice),
];

/// Stages of older projects that are dropped where they are off, so that a version without them can run the rest.
const STAGES: [&str; 2] = ["pipeline.nsys", "pipeline.ncu"];

/// Performs a Hydra command. Where an override names a key that moved, it is performed with the new name; where it names a key or a group that
/// llmprof has and the project's own primary config lacks, it is added.
pub(crate) fn perform(
    mut command: HydraCommand,
    app: &App,
    host: &Host,
) -> Result<CommandOutcome, Error> {
    let error = match command.perform(app, host) {
        Ok(outcome) => return Ok(outcome),
        Err(error) => error,
    };
    // What is printed stays what hydra-core prints.
    if let Some(added) = with_shipped_keys(&command, app, host) {
        command = added;
        if let Ok(outcome) = command.perform(app, host) {
            return Ok(outcome);
        }
    }
    let mut notes = Vec::new();
    let renamed: Vec<String> = command
        .overrides
        .iter()
        .map(|line| match renamed(line) {
            Some((line, note)) => {
                notes.push(note);
                line
            }
            None => line.clone(),
        })
        .collect();
    if notes.is_empty() {
        return Err(error);
    }
    command.overrides = renamed;
    // The first error is the one about what was typed.
    let outcome = command.perform(app, host).map_err(|_| error)?;
    tell(&notes);
    Ok(outcome)
}

/// The same command with a `+` before groups and `++` before keys of the shipped config; `None` for one that only prints, or names none.
fn with_shipped_keys(command: &HydraCommand, app: &App, host: &Host) -> Option<HydraCommand> {
    if command.cfg.is_some() || command.info.is_some() {
        return None;
    }
    let shipped = shipped_config(&[], host).ok()?;
    let own = app.compose(&[], RunMode::Run, host).ok()?.config;
    let choices = at(&own, "hydra.runtime.choices");
    let plus = |line: &String| {
        let (key, _) = line.split_once('=')?;
        if key.starts_with(['+', '~']) || key.starts_with("hydra.") {
            return None;
        }
        let is_dict = shipped.get(key).and_then(Node::as_dict).is_some();
        let is_chosen = choices.is_some_and(|choices| choices.get(key).is_some());
        let is_group = is_dict && !is_chosen;
        let is_key = !is_dict && at(&own, key).is_none() && at(&shipped, key).is_some();
        let prefix = if is_group { "+" } else { "++" };
        (is_group || is_key).then(|| format!("{prefix}{line}"))
    };
    let mut added = command.clone();
    let mut is_other = false;
    for line in &mut added.overrides {
        if let Some(longer) = plus(line) {
            *line = longer;
            is_other = true;
        }
    }
    is_other.then_some(added)
}

/// The options as they are, without the two of older guides that nsys refuses; and whether there were any.
fn known_nsys_options(options: &Node) -> (Node, bool) {
    let words: Vec<String> = match (options.as_str(), options.as_list()) {
        (Some(text), _) => text.split_whitespace().map(str::to_owned).collect(),
        (_, Some(list)) => list
            .iter()
            .filter_map(|word| word.as_str().map(str::to_owned))
            .collect(),
        _ => return (options.clone(), false),
    };
    let has_name = words
        .iter()
        .any(|word| word.starts_with("--nvtx-capture") || word == "-p");
    let is_refused = |word: &str| {
        word == "--capture-range-end=nvtx" || (word == "--capture-range=nvtx" && !has_name)
    };
    let kept: Vec<&String> = words.iter().filter(|word| !is_refused(word)).collect();
    if kept.len() == words.len() {
        return (options.clone(), false);
    }
    let kept = kept.into_iter().map(|word| Node::new(word.as_str()));
    (Node::new(Value::List(kept.collect())), true)
}

/// An override of a moved key, by its new name.
fn renamed(line: &str) -> Option<(String, String)> {
    let (key, value) = line.split_once('=')?;
    let old = key.trim_start_matches('+');
    let (_, new, how) = MOVED.iter().find(|(from, ..)| *from == old)?;
    let value = match how {
        Move::Same => value.to_owned(),
        Move::Rate => (1.0 / value.parse::<f64>().ok().filter(|s| *s > 0.0)?).to_string(),
        Move::CudaDevice => format!("cuda:{}", value.parse::<u32>().ok()?),
        Move::NsysOptions | Move::Always(_) => return None,
    };
    let plus = &key[..key.len() - old.len()];
    Some((format!("{plus}{new}={value}"), note(old, new)))
}

/// The config of a job with moved keys in their places and, where the project's primary config is its own, with what it lacks.
pub(crate) fn whole(composed: &Composed) -> Result<Composed, Failure> {
    let mut whole = composed.clone();
    if !composed
        .sources
        .iter()
        .any(|source| source.provider == "main")
    {
        return Ok(whole);
    }
    let mut notes = Vec::new();
    for (old, new, how) in MOVED {
        relocate(&mut whole.config, old, new, *how, &mut notes)?;
    }
    for stage in STAGES {
        let is_off = at(&whole.config, stage).is_some_and(|stage| {
            !matches!(stage.get("enable").and_then(Node::as_bool), Some(true))
        });
        if is_off {
            take(&mut whole.config, stage);
        }
    }
    tell(&notes);
    fill(&mut whole.config)?;
    Ok(whole)
}

fn relocate(
    config: &mut Node,
    old: &str,
    new: &str,
    how: Move,
    notes: &mut Vec<String>,
) -> Result<(), Failure> {
    let Some(node) = at(config, old) else {
        return Ok(());
    };
    let refused = |what: String| Failure::new(format!("`{old}`: {what}"));
    if matches!(how, Move::CudaDevice)
        && let Some(device) = at(config, new).and_then(Node::as_str).map(str::to_owned)
        && device != "cuda"
    {
        // The device that a project names by itself counts; `0` is what every sketch has.
        let index = node.as_i64();
        if index == Some(0) || index.is_some_and(|index| device == format!("cuda:{index}")) {
            take(config, old);
            return Ok(());
        }
        return Err(refused(format!("the project's `device` is {device}")));
    }
    // The new name on the command line counts, whatever the project's files have by the old one.
    if !new.is_empty() && is_typed(config, new) {
        take(config, old);
        return Ok(());
    }
    let value = match how {
        Move::Same => node.clone(),
        Move::NsysOptions => {
            let (options, dropped) = known_nsys_options(node);
            notes.extend(dropped.then(|| {
                format!("`{old}`: nsys has no `--capture-range-end=nvtx`, and `--capture-range=nvtx` needs the name of a range: the batch is recorded; `pipeline.nsys.gating_nvtx=true pipeline.nsys.nvtx_capture=decode` records one range")
            }));
            options
        }
        Move::Rate => match node.value {
            Value::Float(seconds) if seconds > 0.0 => Node::new(Value::Float(1.0 / seconds)),
            _ => match node.as_i64() {
                Some(seconds) if seconds > 0 => Node::new(Value::Float(1.0 / seconds as f64)),
                _ => return Err(refused("must be a positive number of seconds".to_owned())),
            },
        },
        Move::CudaDevice => match node.as_i64() {
            Some(index) if index >= 0 => Node::new(format!("cuda:{index}").as_str()),
            _ => return Err(refused("must be the number of a GPU".to_owned())),
        },
        Move::Always(only) => {
            if node
                .value
                .repr()
                .trim_matches('\'')
                .eq_ignore_ascii_case(only)
            {
                take(config, old);
                return Ok(());
            }
            return Err(refused(format!("llmprof has no other than {only}")));
        }
    };
    let other = at(config, new).filter(|other| other.value != value.value && !other.is_null());
    notes.push(match other {
        Some(other) => format!(
            "{}; the project has both: {} counts, not {}",
            note(old, new),
            value.value.repr(),
            other.value.repr()
        ),
        None => note(old, new),
    });
    take(config, old);
    put(config, new, value);
    Ok(())
}

/// Whether the command line gives this key.
fn is_typed(config: &Node, key: &str) -> bool {
    let typed = at(config, "hydra.overrides.task").and_then(Node::as_list);
    typed.into_iter().flatten().any(|line| {
        let line = line.as_str().unwrap_or_default();
        line.trim_start_matches('+')
            .split_once('=')
            .is_some_and(|(typed, _)| typed == key)
    })
}

fn note(old: &str, new: &str) -> String {
    format!("`{old}` is `{new}` now")
}

fn tell(notes: &[String]) {
    for note in notes {
        crate::output::note(&format!("note: {note}"));
    }
}

/// Adds what the shipped config has and this one lacks. A design is one model's and never filled in.
fn fill(config: &mut Node) -> Result<(), Failure> {
    let host = app::host()?;
    let runtime = at(config, "runtime.type").and_then(Node::as_str);
    let overrides: Vec<String> = runtime
        .map(|name| format!("runtime={name}"))
        .into_iter()
        .collect();
    let mut defaults = shipped_config(&overrides, &host).or_else(|_| shipped_config(&[], &host))?;
    if config.get("model").is_some() {
        let base = shipped_config(&["model=local".to_owned()], &host)?;
        if let Some(model) = base.get("model") {
            defaults.insert("model", model.clone());
        }
    }
    add_missing(config, &defaults);
    Ok(())
}

/// The config of the shipped tree alone, whatever lies in the working directory.
fn shipped_config(overrides: &[String], host: &Host) -> Result<Node, Error> {
    let mut host = host.clone();
    host.cwd = PathBuf::from("/");
    let mut config = app::shipped()
        .compose(overrides, RunMode::Run, &host)?
        .config;
    take(&mut config, "hydra");
    Ok(config)
}

fn add_missing(config: &mut Node, defaults: &Node) {
    let (Some(mine), Some(theirs)) = (config.as_dict_mut(), defaults.as_dict()) else {
        return;
    };
    for (key, value) in theirs {
        match mine.get_mut(key) {
            Some(existing) => add_missing(existing, value),
            None => {
                mine.insert(key.clone(), value.clone());
            }
        }
    }
}

fn at<'a>(config: &'a Node, key: &str) -> Option<&'a Node> {
    key.split('.').try_fold(config, |node, part| node.get(part))
}

/// Removes a key, and the mappings around it that are empty then.
fn take(config: &mut Node, key: &str) {
    let (first, rest) = key
        .split_once('.')
        .map_or((key, None), |(first, rest)| (first, Some(rest)));
    match (rest, config.get_mut(first)) {
        (Some(rest), Some(child)) => {
            take(child, rest);
            let is_empty = matches!(&child.value, Value::Dict(dict) if dict.is_empty());
            if is_empty {
                config.remove(first);
            }
        }
        (None, Some(_)) => {
            config.remove(first);
        }
        (_, None) => {}
    }
}

fn put(config: &mut Node, key: &str, value: Node) {
    match key.split_once('.') {
        None => config.insert(key, value),
        Some((first, rest)) => {
            if config.get(first).is_none() {
                config.insert(first, Node::empty_dict());
            }
            if let Some(child) = config.get_mut(first) {
                put(child, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_of_moved_keys_have_their_new_names() {
        let new = |line: &str| renamed(line).map(|(line, _)| line);
        assert_eq!(
            new("runtime.num_new_tokens=64").unwrap(),
            "infer.max_new_tokens=64"
        );
        assert_eq!(
            new("+profiling.nvml.interval_s=0.5").unwrap(),
            "+pipeline.telemetry.hz=2"
        );
        assert_eq!(new("hardware.device_index=1").unwrap(), "device=cuda:1");
        for other in [
            "runtime.batch_size=2",
            "model=x",
            "runtime.impl=vllm",
            "profiling.nvml.interval_s=0",
        ] {
            assert_eq!(new(other), None, "{other}");
        }
    }

    fn config(keys: &[(&str, Value)]) -> Node {
        let mut config = Node::empty_dict();
        for (key, value) in keys {
            put(&mut config, key, Node::new(value.clone()));
        }
        config
    }

    fn moved(keys: &[(&str, Value)], old: &str) -> (Node, Vec<String>) {
        let mut config = config(keys);
        let mut notes = Vec::new();
        let (_, new, how) = MOVED.iter().find(|(from, ..)| *from == old).unwrap();
        relocate(&mut config, old, new, *how, &mut notes).unwrap();
        assert!(at(&config, old).is_none(), "{old} is gone");
        (config, notes)
    }

    #[test]
    fn a_device_index_is_a_device() {
        for device in [None, Some("cuda")] {
            let mut keys = vec![("hardware.device_index", Value::from(1))];
            keys.extend(device.map(|name| ("device", Value::from(name))));
            let (config, _) = moved(&keys, "hardware.device_index");
            assert_eq!(at(&config, "device").and_then(Node::as_str), Some("cuda:1"));
        }
        // Every sketch has 0; the project's own device counts.
        let keys = [
            ("hardware.device_index", Value::from(0)),
            ("device", Value::from("cpu")),
        ];
        let (config, notes) = moved(&keys, "hardware.device_index");
        assert_eq!(at(&config, "device").and_then(Node::as_str), Some("cpu"));
        assert!(notes.is_empty());
    }

    #[test]
    fn options_that_nsys_refuses_are_dropped() {
        let args = "--trace=cuda,nvtx,osrt --capture-range=nvtx --capture-range-end=nvtx";
        let old = "profiling.nsys.args";
        let (config, notes) = moved(&[(old, Value::from(args))], old);
        let kept = at(&config, "pipeline.nsys.args").and_then(Node::as_list);
        let kept: Vec<&str> = kept.unwrap().iter().filter_map(Node::as_str).collect();
        assert_eq!(kept, ["--trace=cuda,nvtx,osrt"]);
        assert!(notes[0].contains("--capture-range-end=nvtx"), "{notes:?}");
        // With the name of a range the first one is an option.
        let named = "--capture-range=nvtx --nvtx-capture=decode";
        let (config, notes) = moved(&[(old, Value::from(named))], old);
        let kept = at(&config, "pipeline.nsys.args").and_then(Node::as_str);
        assert_eq!((kept, notes.len()), (Some(named), 1));
    }

    #[test]
    fn of_two_keys_the_typed_one_counts_else_the_old_one() {
        let old = "runtime.num_new_tokens";
        let keys = [
            (old, Value::from(64)),
            ("infer.max_new_tokens", Value::from(8192)),
        ];
        let tokens = |config: &Node| at(config, "infer.max_new_tokens").and_then(Node::as_i64);
        let (config, notes) = moved(&keys, old);
        assert_eq!(tokens(&config), Some(64));
        assert!(notes[0].ends_with("64 counts, not 8192"), "{notes:?}");
        for line in ["infer.max_new_tokens=8192", "++infer.max_new_tokens=8192"] {
            let typed = Value::List(vec![Node::new(line)]);
            let typed = [&keys[..], &[("hydra.overrides.task", typed)]].concat();
            let (config, notes) = moved(&typed, old);
            assert_eq!(tokens(&config), Some(8192), "{line}");
            assert!(notes.is_empty(), "{notes:?}");
        }
    }

    #[test]
    fn the_documentation_has_every_moved_key() {
        let text = include_str!("../../../docs/project.md");
        for (old, new, _) in MOVED {
            let row = text
                .lines()
                .find(|line| line.starts_with(&format!("| `{old}` |")));
            let row = row.unwrap_or_else(|| panic!("{old}"));
            assert!(new.is_empty() || row.contains(&format!("`{new}`")), "{row}");
        }
        let rows = text.lines().filter(|line| {
            line.starts_with("| `runtime.")
                || line.starts_with("| `profiling.")
                || line.starts_with("| `hardware.")
        });
        assert_eq!(rows.count(), MOVED.len());
    }
}
