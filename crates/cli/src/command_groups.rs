//! `llmprof --help`: the commands in groups by what people want.

use clap::{Command, CommandFactory};

use llmprof_report::render::terminal_width::wrap;

use crate::{
    args::{Args, HELP_WIDTH_MAX},
    terminal_width::width_of,
};

/// Every command of the help, in the order it is printed.
const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Measure",
        &["run", "record", "import", "bench", "kernels", "doctor"],
    ),
    (
        "Read",
        &[
            "report", "view", "compare", "explain", "query", "runs", "export", "analyze", "mcp",
        ],
    ),
    (
        "Predict",
        &["model", "predict", "simulate", "plan", "hardware"],
    ),
    (
        "Project",
        &[
            "init",
            "bootstrap",
            "dataset",
            "externals",
            "config",
            "schema",
            "skill",
            "completions",
            "man",
        ],
    ),
];

/// Room for the longest name and two spaces on each side.
const NAME_WIDTH: usize = 15;

/// The width that clap gives help texts where there is no terminal.
const PIPE_WIDTH: usize = 100;

/// The command line, whose help lists its commands in groups.
pub(crate) fn command_line() -> Command {
    let width = width_of(&std::io::stdout()).map_or(PIPE_WIDTH, |width| width.min(HELP_WIDTH_MAX));
    with_groups(Args::command(), width)
}

fn with_groups(command: Command, width: usize) -> Command {
    let header = *command.get_styles().get_header();
    let literal = *command.get_styles().get_literal();
    let mut listed = String::new();
    for (title, names) in GROUPS {
        listed += &format!("{header}{title}:{header:#}\n");
        for name in names {
            let about = command
                .find_subcommand(name)
                .and_then(Command::get_about)
                .map(ToString::to_string)
                .unwrap_or_default();
            // Wrapped as text that begins after the name.
            let line = format!("{}{about}", " ".repeat(NAME_WIDTH));
            let line = wrap(&line, width);
            listed += &format!(
                "  {literal}{name:<width$}{literal:#}",
                width = NAME_WIDTH - 2
            );
            listed += &line[NAME_WIDTH..];
            listed.push('\n');
        }
        listed.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{listed}{header}Options:{header:#}\n{{options}}{{after-help}}"
    );
    command.help_template(template)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        let command = Args::command();
        let mut commands: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        grouped.sort_unstable();
        commands.sort_unstable();
        assert_eq!(grouped, commands);
    }

    #[test]
    fn the_help_has_the_groups_and_fits() {
        let help = with_groups(Args::command(), 60).render_help().to_string();
        let start = |title: &str| help.find(&format!("\n{title}:\n")).unwrap();
        assert!(start("Measure") < start("Read") && start("Read") < start("Predict"));
        assert!(start("Project") < start("Options") && help.contains("\nExamples:\n"));
        assert!(help.contains("\n  run          Profile a model"));
        let groups = &help[start("Measure")..start("Options")];
        for line in groups.lines() {
            assert!(line.chars().count() <= 60, "{line}");
        }
    }
}
