//! The search path of an application, from its options and from `hydra.searchpath`.

use std::path::{Component, Path, PathBuf};

use super::builtin;
use super::error::Error;
use super::source::ConfigSource;
use super::{App, Host};

/// The name under which a tree inside the binary is on the search path (`pkg://llmprof.conf`).
const EMBEDDED: &str = "llmprof.conf";

/// Hydra's own tree, the application's, then the appended directories, and the store last.
pub(crate) fn default_sources(app: &App, host: &Host) -> Result<Vec<ConfigSource>, Error> {
    let mut sources = vec![ConfigSource::files(
        "hydra",
        "pkg",
        "hydra.conf",
        builtin::CONF,
    )];
    if let Some(directory) = &app.config_dir {
        let written = directory.to_string_lossy();
        if written.ends_with(".yaml") || written.ends_with(".yml") {
            return Err(Error::ConfigPathIsFile {
                path: written.into_owned(),
            });
        }
        let source = match written.strip_prefix("pkg://") {
            Some(package) => self::package_source(app, "main", package),
            None if directory.is_absolute() => ConfigSource::directory("main", &written, &host.cwd),
            None => {
                ConfigSource::directory("main", &absolute_path(directory, &host.cwd), &host.cwd)
            }
        };
        if !source.is_available() {
            return Err(Error::MissingPrimaryDirectory {
                path: source.info().path.clone(),
            });
        }
        sources.push(source);
    }
    if !app.embedded.is_empty() {
        sources.push(package_source(app, "llmprof", EMBEDDED));
    }
    for directory in &app.extra_config_dirs {
        let path = absolute_path(directory, &host.cwd);
        if !Path::new(&path).is_dir() {
            return Err(Error::MissingDirectory { path });
        }
        sources.push(ConfigSource::directory("command-line", &path, &host.cwd));
    }
    sources.push(store_source());
    Ok(sources)
}

/// The search path with the entries of `hydra.searchpath` before the store.
pub(crate) fn extend_sources(
    app: &App,
    host: &Host,
    mut sources: Vec<ConfigSource>,
    provider: &str,
    entries: &[String],
) -> Result<Vec<ConfigSource>, Error> {
    sources.pop();
    for entry in entries {
        sources.push(match entry.split_once("://") {
            None | Some(("file", _)) => {
                let path = entry.strip_prefix("file://").unwrap_or(entry);
                ConfigSource::directory(provider, path, &host.cwd)
            }
            Some(("pkg", name)) => package_source(app, provider, name),
            Some(("structured", "")) => {
                ConfigSource::files(provider, "structured", "", builtin::STORE)
            }
            Some(("structured", module)) => {
                return Err(Error::InvalidSearchPath {
                    reason: format!("there is no Python here to import '{module}'"),
                });
            }
            Some((scheme, _)) => {
                return Err(Error::InvalidSearchPath {
                    reason: format!("'{entry}': unknown scheme '{scheme}', use file or pkg"),
                });
            }
        });
    }
    sources.push(store_source());
    Ok(sources)
}

fn store_source() -> ConfigSource {
    ConfigSource::files("schema", "structured", "", builtin::STORE)
}

/// A package in Hydra's dotted or slashed form; only our own and Hydra's exist.
fn package_source(app: &App, provider: &str, name: &str) -> ConfigSource {
    let name = name.replace('/', ".");
    let name = name.trim_end_matches('.');
    match name {
        "hydra.conf" => ConfigSource::files(provider, "pkg", name, builtin::CONF),
        EMBEDDED if !app.embedded.is_empty() => {
            ConfigSource::files(provider, "pkg", name, app.embedded)
        }
        _ => ConfigSource::unavailable(provider, "pkg", name),
    }
}

/// Python's `os.path.abspath`: absolute, with `.` and `..` taken out by text alone.
pub(crate) fn absolute_path(path: &Path, cwd: &Path) -> String {
    let mut out = PathBuf::new();
    for component in cwd.join(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths_by_text() {
        let cwd = Path::new("/a/b");
        assert_eq!(absolute_path(Path::new("../c/./d/"), cwd), "/a/c/d");
        assert_eq!(absolute_path(Path::new("/x/../../y"), cwd), "/y");
        assert_eq!(absolute_path(Path::new(""), cwd), "/a/b");
    }

    #[test]
    fn a_tree_in_the_binary_needs_no_directory() {
        let app = App {
            job_name: "llmprof".to_owned(),
            config_name: Some("config".to_owned()),
            embedded: &[
                ("config.yaml", "defaults: [model: tiny]"),
                ("model/tiny.yaml", "name: ${hydra:job.name}"),
            ],
            ..App::default()
        };
        let host = Host {
            cwd: PathBuf::from("/nowhere"),
            env: std::collections::BTreeMap::new(),
            now: jiff::civil::date(2026, 3, 5).at(14, 7, 9, 0),
            seed: 0,
            warnings: crate::warnings::Warnings::default(),
        };
        let composed = app
            .compose(&[], crate::hydra::RunMode::Run, &host)
            .expect("composes");
        let text = composed.print_cfg(crate::hydra::CfgKind::Job, None, true);
        assert_eq!(text.as_deref(), Ok("model:\n  name: llmprof\n"));
        let providers: Vec<_> = composed
            .sources
            .iter()
            .map(|s| s.provider.as_str())
            .collect();
        assert_eq!(providers, ["hydra", "llmprof", "schema"]);

        let error = app
            .compose(
                &["model=tini".to_owned()],
                crate::hydra::RunMode::Run,
                &host,
            )
            .expect_err("no such option");
        assert_eq!(error.hint().as_deref(), Some("did you mean 'tiny'?"));
    }
}
