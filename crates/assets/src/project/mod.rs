//! A new project: folders, config, manifests and the files that keep large things out of its history.

use std::{fs, path::Path};

use crate::{AssetError, Changes, Result, externals};

/// Says that a folder is a project. It is made first, so that `init` can take up its work.
pub const MARKER: &str = ".llmprof";
const MARKER_TEXT: &str = "# Marks a project of llmprof.\nlayout: 1\n";

/// The config that llmprof ships; a project starts with a copy.
const CONFIG: &str = include_str!("../../../../conf/config.yaml");
/// What the copy runs instead of the shipped model: something small.
const SHIPPED_MODEL: &str = "- model: qwen2_5_0_5b";
const FIRST_MODEL: &str = "- model: tiny";

/// Every file of a project, with `@NAME@` where its name goes.
const FILES: &[(&str, &str)] = &[
    (".gitignore", include_str!("../../templates/gitignore")),
    ("README.md", include_str!("../../templates/README.md")),
    ("AGENTS.md", include_str!("../../templates/AGENTS.md")),
    (
        "pyproject.toml",
        include_str!("../../templates/pyproject.toml"),
    ),
    ("mkdocs.yml", include_str!("../../templates/mkdocs.yml")),
    (
        "docs/index.md",
        include_str!("../../templates/docs/index.md"),
    ),
    (
        ".pre-commit-config.yaml",
        include_str!("../../templates/pre-commit-config.yaml"),
    ),
    (
        "conf/model/tiny.yaml",
        include_str!("../../templates/conf/model/tiny.yaml"),
    ),
    (
        "conf/preset/example.yaml",
        include_str!("../../templates/conf/preset/example.yaml"),
    ),
    (
        "models/.gitignore",
        include_str!("../../templates/models/gitignore"),
    ),
    (
        "models/README.md",
        include_str!("../../templates/models/README.md"),
    ),
    (
        "models/bootstrap.yaml",
        include_str!("../../templates/models/bootstrap.yaml"),
    ),
    (
        "datasets/.gitignore",
        include_str!("../../templates/datasets/gitignore"),
    ),
    (
        "datasets/README.md",
        include_str!("../../templates/datasets/README.md"),
    ),
    (
        "third_party/externals.yaml",
        include_str!("../../templates/third_party/externals.yaml"),
    ),
    (
        "third_party/README.md",
        include_str!("../../templates/third_party/README.md"),
    ),
];

/// Programs of a project: each is one command of llmprof.
const SCRIPTS: &[(&str, &str)] = &[
    ("bootstrap.sh", include_str!("../../templates/bootstrap.sh")),
    (
        "models/bootstrap.sh",
        include_str!("../../templates/models/bootstrap.sh"),
    ),
];

const FOLDERS: [&str; 3] = ["runs", "conf/dataset", "third_party"];

/// Works out what makes a folder a project. Files that are there are kept. A folder with other things in it is refused unless
/// `anyway`.
pub fn init(folder: &Path, anyway: bool) -> Result<Changes> {
    let name = folder
        .file_name()
        .map(|name| package_name(&name.to_string_lossy()))
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "llm-profiles".to_owned());
    match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(AssetError::io("read", folder)(error)),
        Ok(entries) => {
            let is_project = folder.join(MARKER).is_file();
            // What a call left that was killed before the marker had its name.
            let is_ours =
                |name: &std::ffi::OsStr| name.as_encoded_bytes().ends_with(b".llmprof-tmp");
            let mut others = entries
                .flatten()
                .filter(|entry| !is_ours(&entry.file_name()));
            if !is_project && !anyway && others.next().is_some() {
                return Err(AssetError::refused(
                    format!("{} is not empty", folder.display()),
                    "another folder; or --force, which keeps every file that is there",
                ));
            }
        }
    }
    let mut changes = Changes::default();
    changes.folder(folder);
    changes.new_file(&folder.join(MARKER), MARKER_TEXT);
    for name in FOLDERS {
        changes.folder(&folder.join(name));
    }
    let config = CONFIG.replace(SHIPPED_MODEL, FIRST_MODEL);
    changes.new_file(&folder.join("conf/config.yaml"), config);
    for (path, text) in FILES {
        changes.new_file(&folder.join(path), text.replace("@NAME@", &name));
    }
    for (path, text) in SCRIPTS {
        changes.new_script(&folder.join(path), text);
    }
    let manifest = externals::ExternalManifest {
        externals: Vec::new(),
    };
    let ignore = folder.join("third_party/.gitignore");
    if !ignore.exists() {
        changes.new_file(&ignore, manifest.ignored(&ignore));
    }
    Ok(changes)
}

/// Refuses a folder that cannot be created or written to, before a plan for it is shown. Nothing stays behind.
pub fn check_writable(folder: &Path) -> Result<()> {
    let existing = folder.ancestors().find(|folder| folder.is_dir());
    let failed = AssetError::io("write to", folder);
    tempfile::tempfile_in(existing.unwrap_or(folder))
        .map_or_else(|error| Err(failed(error)), |_| Ok(()))
}

/// A name as Python packages have it.
fn package_name(name: &str) -> String {
    let letters = name.chars().map(|c| match c {
        c if c.is_ascii_alphanumeric() => c.to_ascii_lowercase(),
        _ => '-',
    });
    let name: String = letters.collect();
    name.trim_matches('-').to_owned()
}

/// The project around a folder: the folder itself or the nearest one above that has the marker or the layout of one.
pub fn find_project(folder: &Path) -> std::path::PathBuf {
    let is_project = |folder: &&Path| {
        folder.join(MARKER).is_file()
            || folder.join("models/bootstrap.yaml").is_file()
            || folder.join("third_party/externals.yaml").is_file()
    };
    let project = folder.ancestors().find(is_project).unwrap_or(folder);
    project.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_made_once_and_never_over_other_files() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("My Project");
        init(&project, false).unwrap().apply(|_| {}).unwrap();
        let manifest = fs::read_to_string(project.join("pyproject.toml")).unwrap();
        assert!(manifest.contains("name = \"my-project\""));
        let config = fs::read_to_string(project.join("conf/config.yaml")).unwrap();
        assert!(config.contains(FIRST_MODEL) && !config.contains(SHIPPED_MODEL));
        assert!(init(&project, false).unwrap().is_empty(), "a second time");
        fs::write(project.join("README.md"), "mine").unwrap();
        let again = init(&project, false).unwrap();
        assert!(again.is_empty() && again.notes().len() == 1);

        // What a call left that was killed while it wrote its first file, and one after it.
        let begun = folder.path().join("begun");
        fs::create_dir(&begun).unwrap();
        fs::write(begun.join("..llmprof.llmprof-tmp"), "half").unwrap();
        init(&begun, false).unwrap().apply(|_| {}).unwrap();
        assert!(begun.join(MARKER).is_file());
        assert!(!begun.join("..llmprof.llmprof-tmp").exists());
        let half = folder.path().join("half");
        fs::create_dir(&half).unwrap();
        fs::write(half.join(MARKER), MARKER_TEXT).unwrap();
        init(&half, false).unwrap().apply(|_| {}).unwrap();
        assert!(half.join("README.md").is_file());

        let other = folder.path().join("other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("README.md"), "theirs").unwrap();
        let error = init(&other, false).err().unwrap();
        assert!(error.to_string().contains("not empty"), "{error}");
        init(&other, true).unwrap().apply(|_| {}).unwrap();
        assert_eq!(
            fs::read_to_string(other.join("README.md")).unwrap(),
            "theirs"
        );
    }
}
