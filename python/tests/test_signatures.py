"""Names and signatures that scripts written for the sketch of this package rely on."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import llmprof_harness

REQUIRED = inspect.Parameter.empty

# As the sketch defines them: names in their order, with defaults.
SKETCH: dict[str, list[tuple[str, Any]]] = {
    "nvtx_range": [("name", REQUIRED)],
    "run_torch_profiler": [
        ("step_fn", REQUIRED),
        ("steps", REQUIRED),
        ("warmup", 5),
        ("repeat", 1),
        ("out_dir", "prof_out"),
        ("record_shapes", True),
        ("with_stack", True),
        ("profile_memory", True),
    ],
    "prof_to_csv": [("prof", REQUIRED), ("csv_path", REQUIRED)],
    "NVMLSampler": [("device_index", 0), ("interval_s", 0.5), ("out_csv", "nvml.csv")],
    "advise_nsys_cmd": [("script", REQUIRED), ("out", "nsys_llm"), ("extra_args", None)],
    "advise_ncu_cmd": [("script", REQUIRED), ("out", "ncu_llm"), ("extra_args", None)],
    "enable_cublas_logging": [("log_path", "cublas.log")],
    "parse_cublas_log_for_gemm_flops": [("log_path", REQUIRED)],
}


@pytest.mark.parametrize("name", SKETCH)
def test_calls_of_the_sketch_work_by_position_and_by_name(name: str) -> None:
    parameters = list(inspect.signature(getattr(llmprof_harness, name)).parameters.values())
    own = [(one.name, one.default) for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    assert own == SKETCH[name]
    # What is added is by name only, and optional.
    added = [one for one in parameters if one.kind is not one.POSITIONAL_OR_KEYWORD]
    assert all(one.kind is one.KEYWORD_ONLY and one.default is not REQUIRED for one in added)


def test_the_oldest_python_is_the_one_that_types_are_checked_for() -> None:
    root = Path(__file__).parent.parent.parent
    project = (root / "pyproject.toml").read_text()

    def stated(pattern: str, text: str) -> str:
        found = re.search(pattern, text)
        assert found, pattern
        return found.group(1)

    oldest = stated(r'requires-python = ">=([0-9.]+)"', project)
    assert stated(r'python_version = "([0-9.]+)"', project) == oldest
    assert stated(r"Python ([0-9.]+) or newer", (root / "python/README.md").read_text()) == oldest
    assert stated(r"any Python from ([0-9.]+) on", (root / "docs/python.md").read_text()) == oldest
