//! The tables of `--info`, in Hydra's layout.

use std::fmt::Write as _;

use super::builtin::HYDRA_VERSION;
use super::defaults_list::ResultDefault;
use super::element::GroupChoice;
use super::error::Error;
use super::source::SourceInfo;
use super::tree::Tree;
use super::{App, CfgKind, Host, RunMode};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InfoTopic {
    /// Everything below, with the release and the plugins.
    All,
    /// Search path, defaults tree, defaults list and the config.
    Config,
    Defaults,
    DefaultsTree,
    Plugins,
    SearchPath,
}

impl InfoTopic {
    /// The name on the command line.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "all" => Self::All,
            "config" => Self::Config,
            "defaults" => Self::Defaults,
            "defaults-tree" => Self::DefaultsTree,
            "plugins" => Self::Plugins,
            "searchpath" => Self::SearchPath,
            _ => return None,
        })
    }
}

impl App {
    /// The text that `--info` prints.
    pub fn render_info(
        &self,
        info: InfoTopic,
        overrides: &[String],
        host: &Host,
    ) -> Result<String, Error> {
        let mut out = String::new();
        match info {
            InfoTopic::All => {
                write_heading(&mut out, &format!("Hydra {HYDRA_VERSION}"), '=');
                write_plugins(&mut out);
                self.config_info(&mut out, overrides, host)?;
            }
            InfoTopic::Config => self.config_info(&mut out, overrides, host)?,
            InfoTopic::Plugins => write_plugins(&mut out),
            InfoTopic::SearchPath => {
                let composed = self.compose(overrides, RunMode::Run, host)?;
                search_path(&mut out, &composed.sources);
            }
            InfoTopic::DefaultsTree => {
                let defaults = self.compose_defaults(overrides, RunMode::Run, host)?;
                defaults_tree(&mut out, &defaults.tree);
            }
            InfoTopic::Defaults => {
                let defaults = self.compose_defaults(overrides, RunMode::Run, host)?;
                defaults_list(&mut out, &defaults.list);
            }
        }
        Ok(out)
    }

    fn config_info(
        &self,
        out: &mut String,
        overrides: &[String],
        host: &Host,
    ) -> Result<(), Error> {
        let composed = self.compose(overrides, RunMode::Run, host)?;
        search_path(out, &composed.sources);
        defaults_tree(out, &composed.defaults.tree);
        defaults_list(out, &composed.defaults.list);
        write_heading(out, "Config", '*');
        write_line(out, &composed.print_cfg(CfgKind::Job, None, false)?);
        Ok(())
    }
}

fn write_plugins(out: &mut String) {
    const PLUGINS: &[(&str, &[&str])] = &[
        (
            "ConfigSource:",
            &[
                "FileConfigSource",
                "ImportlibResourcesConfigSource",
                "StructuredConfigSource",
            ],
        ),
        (
            "CompletionPlugin:",
            &["BashCompletion", "FishCompletion", "ZshCompletion"],
        ),
        ("Launcher:", &["BasicLauncher"]),
        ("Sweeper:", &["BasicSweeper"]),
    ];
    write_heading(out, "Installed Hydra Plugins", '*');
    for (kind, names) in PLUGINS {
        write_line(out, &format!("\t{kind}"));
        write_line(out, &format!("\t{}", "-".repeat(kind.len())));
        for name in *names {
            write_line(out, &format!("\t\t{name}"));
        }
    }
}

fn search_path(out: &mut String, sources: &[SourceInfo]) {
    let rows: Vec<[String; 2]> = sources
        .iter()
        .map(|source| {
            let path = format!("{}://{}", source.scheme, source.path);
            [source.provider.clone(), path]
        })
        .collect();
    write_line(out, "");
    write_heading(out, "Config search path", '*');
    write_table(out, ["Provider", "Search path"], &rows, "");
}

fn defaults_list(out: &mut String, list: &[ResultDefault]) {
    let rows: Vec<[String; 4]> = list
        .iter()
        .map(|item| {
            [
                item.config_path.clone(),
                item.package.clone(),
                if item.is_self { "True" } else { "False" }.to_owned(),
                item.parent.clone().unwrap_or_default(),
            ]
        })
        .collect();
    write_line(out, "");
    write_heading(out, "Defaults List", '*');
    // Hydra's header of this table ends in a space, which also makes its rules longer.
    write_table(
        out,
        ["Config path", "Package", "_self_", "Parent"],
        &rows,
        " ",
    );
}

fn defaults_tree(out: &mut String, tree: &Tree) {
    write_line(out, "");
    write_heading(out, "Defaults Tree", '*');
    write_branch(out, tree, 0);
}

fn write_branch(out: &mut String, tree: &Tree, indent: usize) {
    let element = &tree.element;
    let name = match element.choice() {
        None => element.config_path(),
        Some(choice) => {
            let name = match choice {
                GroupChoice::Name(name) => name,
                GroupChoice::Null | GroupChoice::Options(_) => "null",
            };
            format!("{}: {name}", element.override_key())
        }
    };
    let pad = "  ".repeat(indent);
    let children = tree.children.as_deref().unwrap_or_default();
    let colon = if children.is_empty() { "" } else { ":" };
    write_line(out, &format!("{pad}{name}{colon}"));
    for child in children {
        write_branch(out, child, indent + 1);
    }
}

fn write_table<const N: usize>(
    out: &mut String,
    header: [&str; N],
    rows: &[[String; N]],
    header_end: &str,
) {
    let mut widths = header.map(|cell| cell.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let format = |cells: [&str; N]| {
        let mut text = "|".to_owned();
        for (cell, width) in cells.iter().zip(widths) {
            write!(text, " {cell:width$} |").expect("writing to a string");
        }
        text
    };
    let header = format(header) + header_end;
    let rule = "-".repeat(header.chars().count());
    write_line(out, &header);
    write_line(out, &rule);
    for row in rows {
        write_line(out, &format(row.each_ref().map(String::as_str)));
    }
    write_line(out, &rule);
}

fn write_heading(out: &mut String, text: &str, filler: char) {
    write_line(out, text);
    write_line(out, &filler.to_string().repeat(text.chars().count()));
}

fn write_line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}
