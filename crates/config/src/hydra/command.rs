//! A Hydra application's own command line: its flags, and what each of them does.

use std::path::PathBuf;

use super::error::Error;
use super::{App, CfgKind, Execution, Host, InfoTopic};

/// A command line such as `-m --config-name base db=mysql,sqlite`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HydraCommand {
    pub config_path: Option<PathBuf>,
    pub config_name: Option<String>,
    pub config_dir: Option<PathBuf>,
    pub cfg: Option<CfgKind>,
    pub package: Option<String>,
    pub resolve: bool,
    pub info: Option<InfoTopic>,
    pub run: bool,
    pub multirun: bool,
    /// Everything that is not a flag.
    pub overrides: Vec<String>,
}

/// What came of a command line.
#[derive(Debug, Clone)]
pub enum CommandOutcome {
    /// Text for standard output (`--cfg`, `--info`).
    Text(String),
    Execution(Execution),
}

impl HydraCommand {
    /// Reads the arguments after the program's name.
    pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Self, Error> {
        let mut command = Self::default();
        let mut args = args.into_iter().peekable();
        while let Some(arg) = args.next() {
            let (flag, attached) = match arg.split_once('=') {
                Some((flag, value)) if arg.starts_with("--") => (flag, Some(value.to_owned())),
                _ => (arg.as_str(), None),
            };
            let mut value = |flag: &str| {
                attached
                    .clone()
                    .or_else(|| args.next())
                    .ok_or_else(|| usage_error(format!("{flag} needs a value")))
            };
            match flag {
                "--config-path" | "-cp" => command.config_path = Some(value(flag)?.into()),
                "--config-name" | "-cn" => command.config_name = Some(value(flag)?),
                "--config-dir" | "-cd" => command.config_dir = Some(value(flag)?.into()),
                "--package" | "-p" => command.package = Some(value(flag)?),
                "--cfg" | "-c" => {
                    let kind = value(flag)?;
                    let kind = CfgKind::parse(&kind).ok_or_else(|| {
                        usage_error(format!("{flag} {kind}: choose job, hydra or all"))
                    })?;
                    command.cfg = Some(kind);
                }
                "--info" | "-i" => {
                    let next = args.next_if(|next| attached.is_none() && !next.starts_with('-'));
                    let info = attached.or(next).unwrap_or_else(|| "all".to_owned());
                    let info = InfoTopic::parse(&info).ok_or_else(|| {
                        usage_error(format!(
                            "{flag} {info}: choose all, config, defaults, defaults-tree, plugins or searchpath"
                        ))
                    })?;
                    command.info = Some(info);
                }
                "--resolve" => command.resolve = true,
                "--run" | "-r" => command.run = true,
                "--multirun" | "-m" => command.multirun = true,
                flag if flag.starts_with('-') => {
                    return Err(usage_error(format!("unknown flag {flag}")));
                }
                _ => command.overrides.push(arg),
            }
        }
        command.check_flags()?;
        Ok(command)
    }

    fn check_flags(&self) -> Result<(), Error> {
        if self.resolve && self.cfg.is_none() {
            return Err(usage_error("--resolve is only for --cfg".to_owned()));
        }
        let chosen = [
            self.run,
            self.multirun,
            self.cfg.is_some(),
            self.info.is_some(),
        ];
        if chosen.into_iter().filter(|given| *given).count() > 1 {
            return Err(usage_error(
                "only one of --run, --multirun, --cfg and --info can be given".to_owned(),
            ));
        }
        Ok(())
    }

    /// Does for `app` what the flags say; nothing is written or run.
    pub fn perform(&self, app: &App, host: &Host) -> Result<CommandOutcome, Error> {
        let mut app = app.clone();
        if let Some(path) = &self.config_path {
            app.config_dir = Some(path.clone());
        }
        if let Some(name) = &self.config_name {
            app.config_name = Some(name.clone());
        }
        app.extra_config_dirs.extend(self.config_dir.clone());
        if let Some(kind) = self.cfg {
            let composed = app.compose(&self.overrides, super::RunMode::Run, host)?;
            return composed
                .print_cfg(kind, self.package.as_deref(), self.resolve)
                .map(CommandOutcome::Text);
        }
        if let Some(info) = self.info {
            return app
                .render_info(info, &self.overrides, host)
                .map(CommandOutcome::Text);
        }
        app.compose_execution(&self.overrides, self.multirun, host)
            .map(CommandOutcome::Execution)
    }
}

fn usage_error(reason: String) -> Error {
    Error::Usage { reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<HydraCommand, Error> {
        HydraCommand::parse(line.split(' ').map(str::to_owned))
    }

    #[test]
    fn flags_in_both_forms() {
        let command =
            parse("-cp conf --config-name=base --cfg job a=1 --resolve +b=--x").expect("valid");
        assert_eq!(command.config_path, Some("conf".into()));
        assert_eq!(command.config_name.as_deref(), Some("base"));
        assert_eq!(command.cfg, Some(CfgKind::Job));
        assert_eq!(command.overrides, ["a=1", "+b=--x"]);
    }

    #[test]
    fn info_has_an_optional_value() {
        assert_eq!(parse("--info").expect("valid").info, Some(InfoTopic::All));
        assert_eq!(
            parse("-i defaults").expect("valid").info,
            Some(InfoTopic::Defaults)
        );
        assert!(parse("--info a=1").is_err());
    }

    #[test]
    fn commands_exclude_each_other() {
        assert!(parse("-m --cfg job").is_err());
        assert!(parse("--resolve").is_err());
        assert!(parse("--cfg").is_err());
    }
}
