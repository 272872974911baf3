//! Links of models and datasets: the Hugging Face cache, archives, and what is refused.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use std::{
    fs,
    fs::File,
    io::Write,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use common::{made, surroundings, write};
use llmprof_assets::bootstrap::{BootstrapPart, plan};
use tempfile::TempDir;
use zip::{ZipWriter, write::SimpleFileOptions};

const COMMIT: &str = "2c968b433af61a059311cbf8997765023806a24d";

/// A repository of the hub's cache as its own tools lay it out: files are links to blobs.
fn cached(hub: &Path, repository: &str, files: &[&str]) {
    let folder = hub.join(repository);
    fs::create_dir_all(folder.join("blobs")).unwrap();
    fs::create_dir_all(folder.join("refs")).unwrap();
    fs::write(folder.join("refs/main"), COMMIT).unwrap();
    let snapshot = folder.join("snapshots").join(COMMIT);
    fs::create_dir_all(&snapshot).unwrap();
    for (number, name) in files.iter().enumerate() {
        fs::write(folder.join(format!("blobs/{number}")), name).unwrap();
        symlink(format!("../../blobs/{number}"), snapshot.join(name)).unwrap();
    }
}

/// The hub's cache with this model, and where a project goes.
fn with_cached(repository: &str) -> (TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let hub = root.join("hub");
    cached(&hub, repository, &["config.json", "model.safetensors"]);
    (folder, hub, root.join("project"))
}

#[test]
fn models_of_the_cache_are_linked_by_every_way_to_name_them() {
    let (_folder, hub, project) = with_cached("models--deepseek-ai--DeepSeek-OCR");
    let snapshot = hub
        .join("models--deepseek-ai--DeepSeek-OCR/snapshots")
        .join(COMMIT);
    let ways = [
        // As the schema has always been: one model, by the path of its snapshot, or by its commit alone.
        format!("env:\n  model_root_env: HF_SNAPSHOTS_ROOT\n  default_model_root: /nowhere\nmodel:\n  source_subdir: models--deepseek-ai--DeepSeek-OCR/snapshots/{COMMIT}\n  repo_link_name: ocr\n  required_files: [config.json, model.safetensors]\n"),
        format!("model:\n  source_subdir: {COMMIT}\n  repo_link_name: ocr\n"),
        "models:\n  - source_subdir: models--deepseek-ai--DeepSeek-OCR\n    repo_link_name: ocr\n".to_owned(),
        "models:\n  - repo_id: deepseek-ai/DeepSeek-OCR\n    revision: main\n    repo_link_name: ocr\n".to_owned(),
    ];
    let environment = surroundings(&[("HF_SNAPSHOTS_ROOT", &hub)]);
    for way in &ways {
        write(&project, &[("models/bootstrap.yaml", way)]);
        let planned = plan(&project, BootstrapPart::Models, &[], &environment).unwrap();
        assert_eq!(planned.assets.len(), 1, "{way}: {:?}", planned.problems);
        assert_eq!(planned.assets[0].target, snapshot, "{way}");
        assert_eq!(planned.assets[0].revision.as_deref(), Some(COMMIT), "{way}");
        assert_eq!(made(planned.changes().unwrap()), 1);
        assert_eq!(fs::read_link(project.join("models/ocr")).unwrap(), snapshot);
        let again = plan(&project, BootstrapPart::Models, &[], &environment).unwrap();
        assert!(again.changes.is_empty(), "{way}");
        fs::remove_file(project.join("models/ocr")).unwrap();
    }
    // Other variables, in their order; then the cache where its own tools have it.
    write(&project, &[("models/bootstrap.yaml", &ways[3])]);
    for variables in [
        [("MODELS_ROOT", hub.clone())],
        [("HF_HUB_CACHE", hub.clone())],
        [("HF_HOME", hub.parent().unwrap().to_owned())],
    ] {
        let [(name, value)] = &variables;
        let planned = plan(
            &project,
            BootstrapPart::All,
            &[],
            &surroundings(&[(name, value)]),
        )
        .unwrap();
        assert_eq!(planned.assets.len(), 1, "{name}: {:?}", planned.problems);
    }
}

#[test]
fn what_is_missing_is_an_error_and_no_link() {
    let (_folder, hub, project) = with_cached("models--org--name");
    let environment = surroundings(&[("HF_SNAPSHOTS_ROOT", &hub)]);
    let entry = |keys: &str| format!("models:\n  - {{repo_link_name: m, {keys}}}\n");
    let problem = |text: &str| {
        write(&project, &[("models/bootstrap.yaml", text)]);
        let planned = plan(&project, BootstrapPart::Models, &[], &environment).unwrap();
        let error = planned.changes().err().unwrap_or_else(|| panic!("{text}"));
        assert!(project.join("models/m").symlink_metadata().is_err());
        error.to_string()
    };
    let text = problem(&entry(
        "repo_id: org/name, required_files: [config.json, tokenizer.json]",
    ));
    assert!(
        text.contains("tokenizer.json") && !text.contains("config.json"),
        "{text}"
    );
    fs::remove_file(hub.join("models--org--name/blobs/1")).unwrap();
    let text = problem(&entry(
        "repo_id: org/name, required_files: [model.safetensors]",
    ));
    assert!(text.contains("download did not finish"), "{text}");
    let text = problem(&entry("source_subdir: absent"));
    assert!(text.contains("does not exist"), "{text}");
    for (wrong, says) in [
        (entry("repo_id: org/other"), "not in the cache"),
        (entry("repo_id: org/name, revision: v2"), "no revision"),
        (entry("repo_id: org/name, source_subdir: x"), "one of"),
        (
            "models:\n  - {repo_link_name: ../m, source_subdir: x}\n".to_owned(),
            "not the name of a link",
        ),
        (
            "models:\n  - {source_subdir: x}\n".to_owned(),
            "repo_link_name",
        ),
        ("env: {model_root_env: [a]}\n".to_owned(), "model_root_env"),
        ("modles: []\n".to_owned(), "modles"),
        ("models: [\n".to_owned(), "bootstrap.yaml:"),
    ] {
        let text = problem(&wrong);
        assert!(text.contains(says), "{wrong}: {text}");
    }
    // Every mistake is reported at once.
    write(
        &project,
        &[(
            "models/bootstrap.yaml",
            "models:\n  - {repo_link_name: a, source_subdir: absent_a}\n  - {repo_link_name: b, source_subdir: absent_b}\n",
        )],
    );
    let text = plan(&project, BootstrapPart::Models, &[], &environment)
        .unwrap()
        .changes()
        .err()
        .unwrap()
        .to_string();
    assert!(
        text.contains("absent_a") && text.contains("absent_b"),
        "{text}"
    );
    let nothing = tempfile::tempdir().unwrap();
    assert!(plan(nothing.path(), BootstrapPart::All, &[], &environment).is_err());
}

#[test]
fn datasets_are_linked_and_archives_extracted_where_needed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (data, project) = (root.join("data"), root.join("project"));
    let source = data.join("OpenDataLab___OmniDocBench");
    write(
        &source,
        &[("OmniDocBench.json", "[]"), ("pdfs/a.pdf", "there already")],
    );
    for name in ["images.zip", "pdfs.zip"] {
        let mut zip = ZipWriter::new(File::create(source.join(name)).unwrap());
        zip.start_file("a.png", SimpleFileOptions::default())
            .unwrap();
        zip.write_all(b"png").unwrap();
        zip.finish().unwrap();
    }
    let declared = "env:\n  data_root_env: DATASETS_ROOT\n  default_data_root: /workspace/datasets\ndataset:\n  source_subdir: OpenDataLab___OmniDocBench\n  repo_link_name: source-data\n  zips: [images.zip, pdfs.zip]\n  unzip_targets: {images.zip: images, pdfs.zip: pdfs}\n";
    write(
        &project,
        &[("datasets/omnidocbench/bootstrap.yaml", declared)],
    );
    let environment = surroundings(&[("DATASETS_ROOT", &data)]);
    let planned = plan(&project, BootstrapPart::All, &[], &environment).unwrap();
    assert_eq!(
        made(planned.changes().unwrap()),
        2,
        "a link and one archive"
    );
    assert_eq!(
        fs::read(project.join("datasets/omnidocbench/source-data/images/a.png")).unwrap(),
        b"png"
    );
    assert!(
        !source.join("pdfs/a.png").exists(),
        "a folder with files is left"
    );
    assert!(
        plan(&project, BootstrapPart::Datasets, &[], &environment)
            .unwrap()
            .changes
            .is_empty()
    );
    assert!(
        plan(&project, BootstrapPart::Models, &[], &environment).is_err(),
        "there is no models/bootstrap.yaml"
    );

    let without = surroundings(&[]);
    let error = plan(&project, BootstrapPart::Datasets, &[], &without)
        .unwrap()
        .changes()
        .err()
        .unwrap();
    assert!(error.hint().unwrap().contains("$DATASETS_ROOT"), "{error}");
    fs::remove_dir_all(source.join("images")).unwrap();
    fs::remove_file(source.join("images.zip")).unwrap();
    let error = plan(&project, BootstrapPart::Datasets, &[], &environment)
        .unwrap()
        .changes()
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("images.zip"), "{error}");
    write(
        &project,
        &[(
            "datasets/omnidocbench/bootstrap.yaml",
            &declared.replace("unzip_targets: {images.zip", "unzip_targets: {other.zip"),
        )],
    );
    let error = plan(&project, BootstrapPart::Datasets, &[], &environment)
        .unwrap()
        .changes()
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("other.zip"), "{error}");
}

/// One link that cannot be made keeps no other from being made, and names choose among all.
#[test]
fn what_is_missing_blocks_nothing_else() {
    let (_folder, hub, project) = with_cached("models--org--name");
    let environment = surroundings(&[("HF_SNAPSHOTS_ROOT", &hub)]);
    let declared = "models:\n  - {repo_link_name: absent, source_subdir: absent}\n  - {repo_link_name: bad, repo_id: org/name, required_files: [x]}\n  - {repo_link_name: good, repo_id: org/name}\n";
    write(&project, &[("models/bootstrap.yaml", declared)]);
    let planned = plan(&project, BootstrapPart::All, &[], &environment).unwrap();
    assert_eq!(planned.problems.len(), 2);
    assert_eq!(made(planned.changes), 1);
    assert!(project.join("models/good").exists());
    assert!(project.join("models/bad").symlink_metadata().is_err());
    let chosen = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        plan(&project, BootstrapPart::All, &names, &environment)
    };
    assert_eq!(chosen(&["good"]).unwrap().problems.len(), 0);
    assert_eq!(chosen(&["bad", "good"]).unwrap().problems.len(), 1);
    let error = chosen(&["other"]).err().unwrap();
    assert!(error.to_string().contains("`other`"), "{error}");
}
