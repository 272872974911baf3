//! The weights of a model's directory: which there are, and which a run had.

use std::{
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
};

use llmprof_assets::{externals::source_revision, project};
use llmprof_record::{
    plan::{LoadFormat, ModelPlan, Plan, RuntimeType},
    run::RecordedWeights,
};
use llmprof_units::{
    Bytes,
    bounded_file::{INDEX_MAX_BYTES, read_bounded},
    hex_text,
};
use sha2::{Digest as _, Sha256};

/// Files that list the tensors of weights in several files.
const INDICES: [&str; 2] = [
    "model.safetensors.index.json",
    "pytorch_model.bin.index.json",
];
/// The longest header of a safetensors file, as the format has it.
const HEADER_MAX_BYTES: u64 = 100_000_000;

/// What a directory has of weights.
#[derive(Debug, PartialEq)]
pub(crate) enum WeightFiles {
    Absent,
    Safetensors,
    /// Tensors as `torch.save` writes them.
    Pt,
    /// A file of weights in a format that no runtime here reads.
    Unsupported(PathBuf),
}

impl WeightFiles {
    /// Looks into a directory. One that cannot be listed has no weights; whoever reads its config says why.
    pub(crate) fn find(directory: &Path) -> Self {
        let files = listed(directory);
        let has = |ends: &[&str]| files.iter().find(|file| has_extension(file, ends)).cloned();
        // An index without its files is a download that was cut short: whoever loads it names what is missing.
        let is_indexed = |index: &str| files.iter().any(|file| file.ends_with(index));
        let [safetensors, pickled] = INDICES;
        if has(&["safetensors"]).is_some() || is_indexed(safetensors) {
            return Self::Safetensors;
        }
        if files.iter().any(|file| is_pickled(file)) || is_indexed(pickled) {
            return Self::Pt;
        }
        has(&["gguf", "ggml", "onnx", "h5", "msgpack", "pth", "nemo"])
            .map_or(Self::Absent, Self::Unsupported)
    }

    fn load_format(&self) -> Option<LoadFormat> {
        match self {
            Self::Absent => Some(LoadFormat::Dummy),
            Self::Safetensors => Some(LoadFormat::Safetensors),
            Self::Pt => Some(LoadFormat::Pt),
            Self::Unsupported(_) => None,
        }
    }
}

/// Whether the runtime of a plan loads the model's weights, or starts something that does.
pub(crate) fn are_loaded(plan: &Plan) -> bool {
    match plan.runtime.kind {
        RuntimeType::None | RuntimeType::Command | RuntimeType::Openai => false,
        RuntimeType::Native
        | RuntimeType::Pytorch
        | RuntimeType::Worker
        | RuntimeType::Vllm
        | RuntimeType::Sglang
        | RuntimeType::Tensorrtllm => true,
    }
}

/// Decides where weights come from where the request leaves it open: files where there are any, else random numbers. Stays open
/// where there are files that cannot be read.
pub(crate) fn decide(plan: &mut Plan) {
    if plan.model.load_format.is_some() || !are_loaded(plan) {
        return;
    }
    plan.model.load_format = match &plan.model.path {
        Some(path) => WeightFiles::find(path).load_format(),
        None => Some(LoadFormat::Dummy),
    };
}

/// The weights that a run of this plan has; `None` where it loads none.
pub(crate) fn describe(plan: &Plan, cwd: &Path) -> Option<RecordedWeights> {
    if !are_loaded(plan) {
        return None;
    }
    let ModelPlan {
        path, load_format, ..
    } = &plan.model;
    let (Some(path), Some(format)) = (path, load_format) else {
        return Some(RecordedWeights::default());
    };
    if *format == LoadFormat::Dummy {
        return Some(RecordedWeights::default());
    }
    let directory = cwd.join(path);
    let is_weights = |file: &PathBuf| match format {
        LoadFormat::Safetensors => has_extension(file, &["safetensors"]),
        _ => is_pickled(file),
    };
    let files: Vec<PathBuf> = listed(&directory).into_iter().filter(is_weights).collect();
    let sizes = files
        .iter()
        .map(|file| fs::metadata(file).map(|metadata| metadata.len()));
    Some(RecordedWeights {
        path: Some(path.clone()),
        revision: revision(cwd, &directory),
        index_sha256: index(&directory, &files).map(|bytes| sha256(&bytes)),
        bytes: sizes.sum::<Result<u64, _>>().ok().map(Bytes),
    })
}

/// The commit of the directory itself; that of a repository around it says nothing of weights, which are not in it.
fn revision(cwd: &Path, directory: &Path) -> Option<String> {
    let source = source_revision(&project::find_project(cwd), directory);
    let is_of_directory = source.from != Some("git") || directory.join(".git").exists();
    source.revision.filter(|_| is_of_directory)
}

/// What lists the tensors: the index of several files, or the header of the only one.
fn index(directory: &Path, files: &[PathBuf]) -> Option<Vec<u8>> {
    for name in INDICES {
        if let Ok(bytes) = read_bounded(&directory.join(name), INDEX_MAX_BYTES) {
            return Some(bytes);
        }
    }
    match files {
        [file] if has_extension(file, &["safetensors"]) => safetensors_header(file),
        _ => None,
    }
}

fn safetensors_header(file: &Path) -> Option<Vec<u8>> {
    if !file.is_file() {
        return None;
    }
    let mut file = File::open(file).ok()?;
    let mut length = [0; 8];
    file.read_exact(&mut length).ok()?;
    let length = u64::from_le_bytes(length);
    let mut header = Vec::new();
    (length <= HEADER_MAX_BYTES)
        .then(|| file.take(length).read_to_end(&mut header))?
        .ok()?;
    (header.len() as u64 == length).then_some(header)
}

fn sha256(bytes: &[u8]) -> String {
    hex_text(&Sha256::digest(bytes))
}

/// The files of a directory, by name.
fn listed(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
}

fn has_extension(file: &Path, any: &[&str]) -> bool {
    file.extension()
        .is_some_and(|end| any.iter().any(|one| end.eq_ignore_ascii_case(one)))
}

/// `pytorch_model.bin`, `pytorch_model-00001-of-00002.bin`; not `training_args.bin` or `optimizer.bin`.
fn is_pickled(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("pytorch_model") && name.ends_with(".bin")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        folder
    }

    #[test]
    fn weights_are_told_by_their_files() {
        let load_format = |names: &[&str]| {
            let files: Vec<(&str, &[u8])> = names.iter().map(|name| (*name, &b""[..])).collect();
            WeightFiles::find(directory(&files).path()).load_format()
        };
        assert_eq!(load_format(&["config.json"]), Some(LoadFormat::Dummy));
        assert_eq!(
            load_format(&["pytorch_model.bin", "model.safetensors"]),
            Some(LoadFormat::Safetensors)
        );
        assert_eq!(
            load_format(&["pytorch_model-00001-of-00002.bin", "config.json"]),
            Some(LoadFormat::Pt)
        );
        assert_eq!(load_format(&["training_args.bin"]), Some(LoadFormat::Dummy));
        assert_eq!(load_format(&["model-q4.gguf"]), None);
        let indexed = load_format(&["model.safetensors.index.json"]);
        assert_eq!(indexed, Some(LoadFormat::Safetensors));
        assert_eq!(
            WeightFiles::find(Path::new("/nowhere")),
            WeightFiles::Absent
        );
    }

    #[test]
    fn the_header_of_a_single_file_stands_for_the_index() {
        let one: &[u8] = b"\x02\0\0\0\0\0\0\0{}tensors";
        let folder = directory(&[("model.safetensors", one)]);
        let files = listed(folder.path());
        assert_eq!(index(folder.path(), &files).unwrap(), b"{}");
        let cut = directory(&[("model.safetensors", &one[..9])]);
        assert_eq!(index(cut.path(), &listed(cut.path())), None);
        let several = directory(&[
            ("a.safetensors", one),
            ("model.safetensors.index.json", b"i"),
        ]);
        assert_eq!(
            index(several.path(), &listed(several.path())).unwrap(),
            b"i"
        );
    }
}
