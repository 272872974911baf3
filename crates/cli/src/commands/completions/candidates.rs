//! What the word at the end of a line may become: commands, flags, their values, overrides, devices.

use clap::{Arg, ArgAction, Command, CommandFactory};

use super::overrides::{self, devices};
use crate::args::{Args, with_long_names};

/// Everything that the last of `words` may become, sorted; nothing where only the shell knows, as with files.
pub(super) fn candidates(words: &[String]) -> Vec<String> {
    let Some((current, before)) = words.split_last() else {
        return Vec::new();
    };
    let mut command = Args::command();
    command.build();
    let mut line = CompletedLine {
        command,
        waiting: None,
        given: Vec::new(),
    };
    let before = with_long_names(before.iter().map(Into::into));
    for word in before {
        // What follows belongs to the command that is recorded.
        if word == "--" {
            return Vec::new();
        }
        line.take(&word.to_string_lossy());
    }
    let mut candidates = line.complete(current);
    candidates.retain(|candidate| candidate.starts_with(current.as_str()));
    candidates.sort();
    candidates.dedup();
    candidates
}

/// A line up to the word that is being typed.
struct CompletedLine {
    command: Command,
    /// The option whose value comes next.
    waiting: Option<Arg>,
    /// Words of the command that are no options.
    given: Vec<String>,
}

impl CompletedLine {
    fn take(&mut self, word: &str) {
        if self.waiting.take().is_some() {
            return;
        }
        if word.starts_with('-') && word.len() > 1 {
            let option = self.option(word).filter(|_| !word.contains('='));
            self.waiting = option.filter(|option| takes_value(option)).cloned();
        } else if let Some(inner) = self.command.find_subcommand(word).cloned() {
            self.command = inner;
            self.given.clear();
        } else {
            self.given.push(word.to_owned());
        }
    }

    fn option(&self, word: &str) -> Option<&Arg> {
        let name = word.split('=').next().unwrap_or(word);
        self.command.get_arguments().find(|arg| {
            let short = arg.get_short().map(|short| format!("-{short}"));
            let long = arg.get_long().map(|long| format!("--{long}"));
            [short, long].iter().flatten().any(|known| known == name)
        })
    }

    fn complete(&self, current: &str) -> Vec<String> {
        if let Some(option) = &self.waiting {
            return self.values(option, current);
        }
        if let Some((name, value)) = current.split_once('=')
            && let Some(option) = self.option(current).filter(|_| current.starts_with('-'))
        {
            let values = self.values(option, value);
            return values
                .iter()
                .map(|value| format!("{name}={value}"))
                .collect();
        }
        if current.starts_with('-') {
            let shown = self
                .command
                .get_arguments()
                .filter(|arg| !arg.is_hide_set());
            let names = shown.filter_map(|arg| arg.get_long());
            return names.map(|name| format!("--{name}")).collect();
        }
        let commands = self.command.get_subcommands();
        let mut candidates: Vec<String> = commands
            .filter(|command| !command.is_hide_set())
            .map(|command| command.get_name().to_owned())
            .collect();
        let mut positionals = self.command.get_positionals();
        let next = self.command.get_positionals().nth(self.given.len());
        let repeated = positionals.find(|arg| matches!(arg.get_action(), ArgAction::Append));
        if let Some(arg) = next.or(repeated) {
            candidates.extend(self.values(arg, current));
        }
        candidates
    }

    /// The values of an argument, as far as they are known here.
    fn values(&self, arg: &Arg, current: &str) -> Vec<String> {
        let listed: Vec<String> = arg
            .get_possible_values()
            .iter()
            .filter(|value| !value.is_hide_set())
            .map(|value| value.get_name().to_owned())
            .collect();
        if !listed.is_empty() {
            return listed;
        }
        let is_device = match arg.get_id().as_str() {
            "device" => true,
            "name" => self.command.get_name() == "show",
            _ => false,
        };
        if is_device {
            return devices();
        }
        let names = arg.get_value_names().unwrap_or_default();
        // A file comes first where there is one, and files are the shell's.
        let is_file = names.iter().any(|name| name.contains("FILE")) && self.given.is_empty();
        if names.iter().any(|name| name.contains("OVERRIDE")) && !is_file {
            return overrides::candidates(current, &self.given);
        }
        Vec::new()
    }
}

fn takes_value(arg: &Arg) -> bool {
    let least = arg.get_num_args().map_or(0, |count| count.min_values());
    least > 0 && matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete_line(line: &str) -> Vec<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        candidates(&words)
    }

    #[test]
    fn commands_flags_and_their_values() {
        let commands = complete_line("");
        assert!(commands.contains(&"run".to_owned()), "{commands:?}");
        assert!(!commands.contains(&"worker".to_owned()), "{commands:?}");
        assert_eq!(complete_line("wor"), [""; 0]);
        assert_eq!(
            complete_line("run --c"),
            [
                "--cfg",
                "--config",
                "--config-dir",
                "--config-name",
                "--config-path"
            ]
        );
        assert_eq!(complete_line("run --cfg j"), ["job"]);
        assert_eq!(complete_line("run --cfg=j"), ["--cfg=job"]);
        assert_eq!(complete_line("runs s"), ["show"]);
        assert_eq!(complete_line("export RUN --to sq"), ["sqlite"]);
    }

    #[test]
    fn devices_are_known_wherever_one_is_named() {
        assert_eq!(complete_line("analyze RUN --device xeon_84"), ["xeon_8480"]);
        assert_eq!(complete_line("hardware show xeon_84"), ["xeon_8480"]);
        assert_eq!(
            complete_line("model hardware.spec=xeon_84"),
            ["hardware.spec=xeon_8480"]
        );
        assert!(complete_line("model hardware.spec=").contains(&"hardware.spec=auto".to_owned()));
    }

    #[test]
    fn overrides_complete_to_keys_and_options() {
        assert_eq!(complete_line("run runtime.batch"), ["runtime.batch_size="]);
        assert_eq!(complete_line("run -m model=gpt2"), ["model=gpt2"]);
        assert!(complete_line("run model=").len() > 15);
        assert!(
            complete_line("run runtime.py").is_empty(),
            "the native runtime has no interpreter"
        );
        assert_eq!(
            complete_line("run runtime=pytorch runtime.py"),
            ["runtime.python="]
        );
        assert_eq!(
            complete_line("run infer.do_sample=t"),
            ["infer.do_sample=true"]
        );
        assert_eq!(
            complete_line("predict hardware.spec=h200,h10").len(),
            complete_line("predict hardware.spec=h10").len()
        );
        assert_eq!(complete_line("record -- runtime.batch"), [""; 0]);
        assert_eq!(complete_line("import workload.prom"), [""; 0]);
        assert_eq!(
            complete_line("import trace.json workload.prom"),
            ["workload.prompt_tokens="]
        );
    }
}
