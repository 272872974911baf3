//! Links from inside the project to storage outside of it.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Component, Path, PathBuf},
};

use crate::{AssetError, Change, Changes, Result, changes::make_folder};

/// Adds the changes that make `link` point at `target`; none if it already does.
///
/// The target must exist. Only a link is ever replaced, and only where the folder it stands in is inside of `project`.
pub(crate) fn plan_link(
    project: &Path,
    link: &Path,
    target: &Path,
    hint: &str,
    changes: &mut Changes,
) -> Result<()> {
    check_inside(project, link)?;
    if fs::metadata(target).is_err() {
        return Err(AssetError::MissingTarget {
            link: link.to_owned(),
            target: target.to_owned(),
            hint: hint.to_owned(),
        });
    }
    let verb = match link.symlink_metadata() {
        Err(_) => "link".to_owned(),
        Ok(metadata) if metadata.is_symlink() => {
            let before = fs::read_link(link).map_err(AssetError::io("read", link))?;
            if before == target {
                return Ok(());
            }
            format!("replace link (was {})", before.display())
        }
        Ok(metadata) => {
            return Err(AssetError::InTheWay {
                path: link.to_owned(),
                what: if metadata.is_dir() {
                    "a folder"
                } else {
                    "a file"
                },
            });
        }
    };
    let what = format!("{verb} {} -> {}", link.display(), target.display());
    let (link, target) = (link.to_owned(), target.to_owned());
    changes.push(Change::new(what, move || place_link(&link, &target)));
    Ok(())
}

/// Puts the link in place in one step, so that there is always the old one or the new one.
fn place_link(link: &Path, target: &Path) -> Result<()> {
    let folder = link.parent().unwrap_or(link);
    make_folder(folder)?;
    let name = link.file_name().unwrap_or_default().to_string_lossy();
    let temporary = folder.join(format!(".{name}.llmprof-link"));
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(AssetError::io("remove", &temporary)(error));
        }
        _ => {}
    }
    symlink(target, &temporary).map_err(AssetError::io("create", &temporary))?;
    fs::rename(&temporary, link).map_err(AssetError::io("create", link))
}

/// Refuses a path that leads out of the project, by its text or through a link on its way.
pub(crate) fn check_inside(project: &Path, path: &Path) -> Result<()> {
    let outside = || AssetError::Outside {
        path: path.to_owned(),
        project: project.to_owned(),
    };
    let relative = path.strip_prefix(project).map_err(|_| outside())?;
    let plain = relative
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if !plain || relative.as_os_str().is_empty() {
        return Err(outside());
    }
    let project = project
        .canonicalize()
        .map_err(AssetError::io("find", project))?;
    let mut folder: PathBuf = path.parent().unwrap_or(path).to_owned();
    while folder.symlink_metadata().is_err() {
        if !folder.pop() {
            return Err(outside());
        }
    }
    let folder = folder
        .canonicalize()
        .map_err(AssetError::io("find", &folder))?;
    if folder.starts_with(&project) {
        Ok(())
    } else {
        Err(outside())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_inside_the_project_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let project = root.join("project");
        for name in ["project/models", "outside", "a", "b"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        let link = project.join("models/m");
        let make = |link: &Path, target: &str| {
            let mut changes = Changes::default();
            plan_link(
                &project,
                link,
                &root.join(target),
                "look elsewhere",
                &mut changes,
            )?;
            let count = changes.lines().count();
            changes.apply(|_| {}).map(|()| count)
        };
        assert_eq!(make(&link, "a").unwrap(), 1);
        assert_eq!(make(&link, "a").unwrap(), 0);
        assert_eq!(make(&link, "b").unwrap(), 1);
        assert_eq!(fs::read_link(&link).unwrap(), root.join("b"));

        let missing = make(&link, "nowhere").unwrap_err();
        assert!(matches!(missing, AssetError::MissingTarget { .. }));
        assert_eq!(fs::read_link(&link).unwrap(), root.join("b"), "kept");

        fs::create_dir(project.join("models/real")).unwrap();
        let taken = make(&project.join("models/real"), "a").unwrap_err();
        assert!(matches!(taken, AssetError::InTheWay { .. }), "{taken}");

        symlink(root.join("outside"), project.join("elsewhere")).unwrap();
        for path in [
            project.join("elsewhere/x"),
            project.join("../outside/x"),
            root.join("outside/x"),
            project.clone(),
        ] {
            let error = make(&path, "a").unwrap_err();
            assert!(matches!(error, AssetError::Outside { .. }), "{error}");
        }
        // What a killed call left does not stop the next.
        symlink("/nowhere", project.join("models/.m.llmprof-link")).unwrap();
        assert_eq!(make(&link, "a").unwrap(), 1);
        assert!(!project.join("models/.m.llmprof-link").exists());
    }
}
