"""The harness from the source tree. Where llmprof-harness is installed, pytest loads the plugin by itself."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path

import pytest

# Before torch is imported: on a busy machine its threads wait for each other far longer than these small models compute.
os.environ.setdefault("OMP_NUM_THREADS", "1")

DATA = Path(__file__).parent / "data"
ROOT = Path(__file__).parent.parent.parent

pytest_plugins = ["pytester"]
if not any(entry.name == "llmprof" for entry in importlib.metadata.entry_points(group="pytest11")):
    pytest_plugins.append("llmprof_harness.pytest_plugin")


@pytest.fixture
def data() -> Path:
    return DATA


@pytest.fixture(scope="session")
def binary() -> Path:
    """The binary that was built: of LLMPROF_BINARY, or of cargo's target folder."""
    from llmprof_harness import find_binary

    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    for built in (target / "debug/llmprof", target / "release/llmprof"):
        if "LLMPROF_BINARY" not in os.environ and built.is_file():
            os.environ["LLMPROF_BINARY"] = str(built)
    return find_binary()
