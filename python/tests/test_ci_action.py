"""The composite action of docs/ci/gate, run as GitHub would run its step."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
BEFORE = ROOT / "fixtures/h200/torch_shapes.json.gz"
AFTER = ROOT / "fixtures/h200/torch_full.json.gz"


def run_step(binary: Path, folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    action = yaml.safe_load((ROOT / "docs/ci/gate/action.yml").read_text())
    unknown = set(inputs) - set(action["inputs"])
    assert not unknown
    values = {name: inputs.get(name, facts.get("default", "")) for name, facts in action["inputs"].items()}
    missing = [name for name, facts in action["inputs"].items() if facts["required"] and not values[name]]
    assert not missing
    values["llmprof"] = str(binary)
    [step] = action["runs"]["steps"]
    environment = {**os.environ, "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    for name, expression in step["env"].items():
        key = expression.removeprefix("${{ inputs.").removesuffix(" }}")
        environment[name] = values[key]
    # As GitHub starts `shell: bash`.
    command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("gates", "code", "level"), [("decode_step<+900%\n\n", 0, "notice"), ("decode_step<-99%\ndecode_step<+900%", 1, "error"), ("tpot<+3%", 1, "error")]
)
def test_gates_are_annotations_summary_and_exit_code(binary: Path, tmp_path: Path, gates: str, code: int, level: str) -> None:
    done = run_step(binary, tmp_path, before=str(BEFORE), after=str(AFTER), gates=gates)
    assert done.returncode == code, done.stdout + done.stderr
    assert f"::{level} title=llmprof compare::" in done.stdout
    assert gates.split("<")[0][:6] in (tmp_path / "summary.md").read_text()
    assert (tmp_path / "llmprof-compare/compare.json").is_file()
    assert "<testsuite " in (tmp_path / "llmprof-compare/gates.xml").read_text()
