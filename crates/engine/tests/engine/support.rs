//! The tiny models under `tests/data`.

use std::path::{Path, PathBuf};

use llmprof_engine::{EngineOptions, NativeEngine, WeightSource};
use llmprof_theory::Model;

pub(crate) fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// The model that a directory's `config.json` describes.
pub(crate) fn model(directory: &Path) -> Model {
    let text = std::fs::read_to_string(directory.join("config.json")).unwrap();
    Model::from_config(&serde_json::from_str(&text).unwrap(), None).unwrap()
}

/// The engine of a directory, on two threads.
pub(crate) fn engine(directory: &Path) -> NativeEngine {
    let options = EngineOptions {
        threads: Some(2),
        ..EngineOptions::default()
    };
    NativeEngine::load(
        &model(directory),
        &WeightSource::Directory(directory.to_owned()),
        options,
    )
    .unwrap()
}

pub(crate) fn directories(root: &Path) -> Vec<PathBuf> {
    let mut directories: Vec<_> = std::fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("config.json").is_file())
        .collect();
    directories.sort();
    directories
}
