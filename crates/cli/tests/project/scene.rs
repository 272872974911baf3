//! A host with a Hugging Face cache, a folder of data and a repository to refer to, and a project on it.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use super::git::git;

const TINY: &str = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "tie_word_embeddings": false, "eos_token_id": 2}"#;
const TOKENIZER: &str = r#"{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
    "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
    "model": {"type": "WordLevel", "vocab": {"<unk>": 0, "a": 1, "b": 2, "c": 3}, "unk_token": "<unk>"}}"#;
/// A hub with one repository, as `hf download` leaves its files in a local folder: `commit` and `names` beside it say what it has.
const HF: &str = r#"#!/bin/sh
set -e
[ "$1 $2 $3 $5 $7" = "download org/code --revision --include --local-dir" ] || { echo "usage: $*" >&2; exit 2; }
case "$4" in main) commit=$(cat "$(dirname "$0")/commit");; *) commit=$4;; esac
for name in $(cat "$(dirname "$0")/names"); do
    case "$name" in $6) ;; *) continue;; esac
    mkdir -p "$8/.cache/huggingface/download"
    echo "$name of $commit" > "$8/$name"
    printf '%s\netag\n1700000000\n' "$commit" > "$8/.cache/huggingface/download/$name.metadata"
done
"#;
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

pub(crate) struct Scene {
    _folder: tempfile::TempDir,
    pub(crate) root: PathBuf,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let cache = root.join("hub/models--org--tiny");
        write(
            &cache,
            &[
                ("blobs/1", TINY),
                ("blobs/2", TOKENIZER),
                ("refs/main", COMMIT),
            ],
        );
        let snapshot = cache.join("snapshots").join(COMMIT);
        fs::create_dir_all(&snapshot).unwrap();
        symlink("../../blobs/1", snapshot.join("config.json")).unwrap();
        symlink("../../blobs/2", snapshot.join("tokenizer.json")).unwrap();
        write(
            &root,
            &[
                ("data/texts/1.txt", "a b c a b c"),
                ("data/texts/2.md", "b c"),
                (
                    "data/texts/more.jsonl",
                    "{\"text\": \"c c c\"}\n{\"text\": \"a\"}\n",
                ),
                ("upstream/src/model.py", "x = 1\n"),
                ("bin/hf", HF),
                ("bin/commit", &"a".repeat(40)),
                ("bin/names", "modeling.py LICENSE"),
            ],
        );
        let hf = fs::Permissions::from_mode(0o755);
        fs::set_permissions(root.join("bin/hf"), hf).unwrap();
        let upstream = root.join("upstream");
        git(&upstream, &["init", "--quiet", "-b", "main"]);
        git(&upstream, &["add", "."]);
        git(&upstream, &["commit", "--quiet", "-m", "one"]);
        Self {
            _folder: folder,
            root,
        }
    }

    /// A project with a model, an external, and a dataset with a variant, none of them linked yet but the last.
    pub(crate) fn project(&self) -> PathBuf {
        let project = self.root.join("project");
        self.works(&["init", "project", "--yes"]);
        write(
            &project,
            &[
                (
                    "models/bootstrap.yaml",
                    "models:\n  - repo_id: org/tiny\n    repo_link_name: tiny-hub\n    required_files: [config.json, tokenizer.json]\n",
                ),
                (
                    "third_party/externals.yaml",
                    &format!(
                        "externals:\n  - path: github/up\n    kind: submodule\n    url: {}\n",
                        self.root.join("upstream").display()
                    ),
                ),
            ],
        );
        // The device is named, so that no test waits for this processor to be measured.
        let config = project.join("conf/config.yaml");
        let text = fs::read_to_string(&config).unwrap();
        fs::write(&config, text + "\nhardware:\n  spec: xeon_8480\n").unwrap();
        git(&project, &["init", "--quiet", "-b", "main"]);
        git(&project, &["add", "-A"]);
        git(&project, &["commit", "--quiet", "-m", "project"]);
        let source = self.root.join("data/texts");
        self.in_project(&[
            "dataset",
            "add",
            "texts",
            "--source",
            &source.to_string_lossy(),
            "--yes",
        ]);
        self.in_project(&["dataset", "variant", "texts", "--samples", "2", "--yes"]);
        project
    }

    pub(crate) fn env(&self) -> Vec<(String, String)> {
        let bin = Path::new(env!("CARGO_BIN_EXE_llmprof")).parent().unwrap();
        let path = format!(
            "{}:{}:{}",
            bin.display(),
            self.root.join("bin").display(),
            std::env::var("PATH").unwrap()
        );
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        [
            ("PATH", path),
            ("NO_COLOR", "1".to_owned()),
            ("HF_SNAPSHOTS_ROOT", text(self.root.join("hub"))),
            ("DATASETS_ROOT", text(self.root.join("data"))),
            ("XDG_CACHE_HOME", text(self.root.join("cache"))),
            ("GIT_AUTHOR_NAME", "Test".to_owned()),
            ("GIT_AUTHOR_EMAIL", "test@example.org".to_owned()),
            ("GIT_COMMITTER_NAME", "Test".to_owned()),
            ("GIT_COMMITTER_EMAIL", "test@example.org".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// The binary in the project.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.command_in(&self.root.join("project"), args)
    }

    pub(crate) fn command_in(&self, folder: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_llmprof"));
        command.current_dir(folder).envs(self.env()).args(args);
        command
    }

    pub(crate) fn in_project(&self, args: &[&str]) -> String {
        told(&self.command(args).output().unwrap(), &format!("{args:?}"))
    }

    pub(crate) fn works(&self, args: &[&str]) -> String {
        told(
            &self.command_in(&self.root, args).output().unwrap(),
            &format!("{args:?}"),
        )
    }
}

/// What a command printed that must have succeeded.
pub(crate) fn told(output: &Output, what: &str) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{what}: {said}{errors}");
    said
}

pub(crate) fn write(root: &Path, files: &[(&str, &str)]) {
    for (name, content) in files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

/// A line as a shell runs it.
pub(crate) fn shell(folder: &Path, env: &[(String, String)], line: &str) -> String {
    let env = env.iter().map(|(name, value)| (name, value));
    let output = Command::new("sh")
        .args(["-ec", line])
        .current_dir(folder)
        .envs(env)
        .output()
        .unwrap();
    told(&output, line)
}
