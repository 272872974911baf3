from __future__ import annotations

import csv
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from llmprof_harness import load

PYTHON = Path(__file__).parent.parent


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(PYTHON)}
    return subprocess.run(
        [sys.executable, *command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


def test_the_script_with_steps_leaves_a_run(binary: Path, tmp_path: Path) -> None:
    tiny = "--layers 2 --hidden 64 --device cpu --dtype float32 --batch 2 --prompt-tokens 16 --new-tokens 5 --requests 1"
    done = run(str(PYTHON / "examples/qwen2_steps.py"), *tiny.split(), "--profile", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "run/report.html\n"
    found = load(tmp_path / "run")
    assert found.steps.column("phase") == ["prefill"] + ["decode"] * 4
    assert found.steps.column("cached_tokens") == [0, 32, 34, 36, 38]
    assert found.metrics["model"]["family"] == "qwen2"


def test_the_server_is_loaded_and_ended(binary: Path, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = f"{sys.executable} {PYTHON / 'examples/openai_server.py'} --layers 2 --hidden 64 --device cpu --port {port}"
    done = subprocess.run(
        [
            *(binary, "bench", "--serve", server, "--no-record", "--requests", "4", "--concurrency", "2"),
            *("--prompt-tokens", "12", "--output-tokens", "5", "--warmup", "1", "--json", "-o", "run"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(PYTHON)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["completed"], found["failed"], found["total_output_tokens"]) == (4, 0, 20)
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        pass


@pytest.mark.slow
def test_the_seeds_own_example_runs(data: Path, tmp_path: Path) -> None:
    script = str(data / "seed_example.py")
    command = [script]
    if not torch.cuda.is_available():
        # It waits for a GPU, and its float16 GEMMs of 69 GFLOP take minutes on a CPU without such instructions.
        spared = (
            "import runpy, torch; torch.cuda.synchronize = lambda: None; drawn = torch.randn; "
            "torch.randn = lambda *shape, **rest: drawn(*(size // 16 for size in shape), **rest)"
        )
        command = ["-c", f"{spared}; runpy.run_path({script!r}, run_name='__main__')"]
    done = run(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with (tmp_path / "ops.csv").open(newline="") as file:
        matmuls = [row for row in csv.DictReader(file) if row["key"] == "aten::mm"]
    assert [row["calls"] for row in matmuls] == ["20"]
    assert len(list((tmp_path / "prof_out").glob("*.json"))) == 1
    assert (tmp_path / "nvml.csv").read_text().startswith("ts,gpu_util_pct,")
    assert "nsys profile" in done.stdout and "ncu " in done.stdout
