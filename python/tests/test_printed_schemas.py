"""What commands print as JSON fits its schema, and has no key that the schema does not name. `crates/cli/tests/schema.rs` checks files and the other commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
VALIDATOR = ROOT / "crates/cli/tests/common/validate.py"
TRACE = ROOT / "fixtures/faults/sync_each_layer.json.gz"
TINY = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}


def llmprof(binary: Path, folder: Path, *words: str, codes: tuple[int, ...] = (0,)) -> str:
    environment = {**os.environ, "HF_SNAPSHOTS_ROOT": str(folder.parent / "hub"), "NO_COLOR": "1"}
    done = subprocess.run([binary, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in codes, f"{words}: {done.stderr}"
    return done.stdout


def check(binary: Path, documents: dict[str, Any]) -> None:
    lines = []
    for name, document in documents.items():
        schema = json.loads(llmprof(binary, ROOT, "schema", name))
        lines.append(json.dumps({"name": name, "schema": schema, "document": document}))
    done = subprocess.run([sys.executable, VALIDATOR], input="\n".join(lines), capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.strip() == "", done.stdout + done.stderr


@pytest.fixture
def project(binary: Path, tmp_path: Path) -> Path:
    """A project with a model that is linked, one that is missing, a dataset with a variant, and an external."""
    snapshot = tmp_path / "hub/models--org--tiny/snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps(TINY))
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/rows.jsonl").write_text('{"text": "a b"}\n{"text": "c"}\n')
    llmprof(binary, tmp_path, "init", "project", "--yes")
    path = tmp_path / "project"
    (path / "models/bootstrap.yaml").write_text(
        "models:\n  - {repo_id: org/tiny, repo_link_name: tiny, required_files: [config.json]}\n  - {repo_id: org/none, repo_link_name: none}\n"
    )
    (path / "third_party/externals.yaml").write_text("externals:\n  - {path: up, kind: submodule, url: ../up}\n")
    subprocess.run(["git", "init", "--quiet"], cwd=path, check=True)
    llmprof(binary, path, "dataset", "add", "texts", "--source", "../texts", "--yes")
    llmprof(binary, path, "dataset", "variant", "texts", "--samples", "1", "--yes")
    return path


def test_projects(binary: Path, project: Path) -> None:
    def printed(*words: str) -> Any:
        return json.loads(llmprof(binary, project, *words, "--json", codes=(0, 1)))

    sound = printed("dataset", "verify")
    documents = {
        "datasets": printed("dataset", "list"),
        "dataset": printed("dataset", "show", "texts"),
        "externals": printed("externals", "status"),
        "bootstrap": printed("bootstrap", "--check"),
    }
    (project.parent / "texts/rows.jsonl").unlink()
    documents["dataset_verify"] = printed("dataset", "verify")
    assert sound == [] and all(documents.values()), documents
    check(binary, documents)


def test_runs(binary: Path, tmp_path: Path) -> None:
    llmprof(binary, tmp_path, "import", str(TRACE), "-o", "runs/one")
    bench = ROOT / "fixtures/vllm/bench_serve.json"
    llmprof(binary, tmp_path, "compare", "runs/one", "runs/one", "--save-baseline", "main", "-o", "compared")
    documents = {
        "runs_show": json.loads(llmprof(binary, tmp_path, "runs", "show", "runs/one", "--json")),
        "bench_import": json.loads(llmprof(binary, tmp_path, "bench", "--import", str(bench), "--json")),
        "baseline": json.loads((tmp_path / "baselines/main.json").read_text()),
    }
    assert all(documents.values())
    check(binary, documents)
