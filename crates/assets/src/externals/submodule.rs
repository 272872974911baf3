use std::path::Path;

use super::{External, ExternalState, FOLDER, clone, git::Git};
use crate::{Change, Changes, Result};

/// The settings of a submodule in `.gitmodules`, and whether they are so.
fn submodule_settings(external: &External, name: &str) -> Vec<(String, String)> {
    let key = |key: &str| format!("submodule.{name}.{key}");
    let mut settings = vec![
        (key("path"), name.to_owned()),
        (key("url"), external.url.clone().unwrap_or_default()),
        (key("ignore"), external.ignore.clone()),
        (key("update"), external.update.clone()),
    ];
    if let Some(branch) = &external.branch {
        settings.push((key("branch"), branch.clone()));
    }
    if external.depth.is_some() {
        settings.push((key("shallow"), "true".to_owned()));
    }
    settings
}

/// Adds what makes a folder a submodule at this commit: the clone, its settings, its place in the index.
///
/// `git submodule add` does the same in one step that cannot be taken up again where it was ended; these can.
pub(super) fn plan_submodule(
    project: &Path,
    external: &External,
    wanted: &str,
    state: &ExternalState,
    changes: &mut Changes,
) -> Result<()> {
    let git = Git::at(project);
    let prefix = git.run_git(&["rev-parse", "--show-prefix"])?;
    let name = format!("{prefix}{FOLDER}/{}", external.path);
    let top = git.run_git(&["rev-parse", "--show-toplevel"])?;
    if state.found.as_deref() != Some(wanted) {
        clone::change_clone(project, external, wanted, state, changes);
    }
    let at_top = Git::at(Path::new(&top));
    for (key, value) in submodule_settings(external, &name) {
        let current = at_top.ask_git(&["config", "-f", ".gitmodules", "--get", &key]);
        if current.as_ref() == Some(&value) {
            continue;
        }
        let what = format!("set {key} = {value} in .gitmodules");
        let top = top.clone();
        changes.push(Change::new(what, move || {
            Git::at(Path::new(&top)).run_git(&["config", "-f", ".gitmodules", &key, &value])?;
            Ok(())
        }));
    }
    let staged = at_top
        .ask_git(&["ls-files", "--stage", "--", &name])
        .unwrap_or_default();
    let registered = at_top.ask_git(&["config", "--get", &format!("submodule.{name}.url")]);
    let absorbed = external.folder(project).join(".git").is_file();
    let is_staged = staged.starts_with(&format!("160000 {wanted} "));
    let same_settings = at_top
        .ask_git(&["diff", "--quiet", "--", ".gitmodules"])
        .is_some()
        && at_top
            .ask_git(&["ls-files", "--error-unmatch", "--", ".gitmodules"])
            .is_some();
    if is_staged
        && absorbed
        && registered.is_some()
        && same_settings
        && changes_nothing(changes, &name)
    {
        return Ok(());
    }
    let url = external.url.clone().unwrap_or_default();
    let what = format!("stage {name} at {wanted} and .gitmodules; the commit is yours");
    changes.push(Change::new(what, move || {
        let git = Git::at(Path::new(&top)).for_url(&url);
        git.run_git(&["add", "--", ".gitmodules"])?;
        git.run_git(&["-c", "advice.addEmbeddedRepo=false", "add", "--", &name])?;
        git.run_git(&["submodule", "--quiet", "init", "--", &name])?;
        git.run_git(&["submodule", "--quiet", "absorbgitdirs", "--", &name])?;
        Ok(())
    }));
    Ok(())
}

/// Whether no change of this submodule is planned before.
fn changes_nothing(changes: &Changes, name: &str) -> bool {
    let folder = name.rsplit('/').next().unwrap_or(name);
    !changes
        .lines()
        .any(|line| line.contains(name) || line.contains(&format!("/{folder}/")))
}
