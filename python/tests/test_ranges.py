from __future__ import annotations

import subprocess
import sys

import pytest

from llmprof_harness import nvtx_range, ranges


class Recorder:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def range_push(self, name: str) -> None:
        self.calls.append(name)

    def range_pop(self) -> None:
        self.calls.append("pop")


@pytest.fixture
def nvtx(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr(ranges, "_nvtx", recorder)
    monkeypatch.setattr(ranges, "_nvtx_looked_for", True)
    return recorder


def test_ranges_are_pushed_and_popped_also_where_the_block_fails(nvtx: Recorder) -> None:
    with nvtx_range("e2e"):
        with pytest.raises(KeyError), nvtx_range("prefill"):
            raise KeyError
    assert nvtx.calls == ["e2e", "prefill", "pop", "pop"]


def test_a_function_runs_inside_a_range_of_its_own(nvtx: Recorder) -> None:
    @nvtx_range("fib")
    def fib(n: int) -> int:
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    assert (fib(2), fib.__name__) == (1, "fib")
    assert nvtx.calls == ["fib", "fib", "pop", "fib", "pop", "pop"]


def test_a_build_of_torch_without_nvtx_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    def fail(name: str) -> None:
        raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")

    monkeypatch.setattr(torch.cuda.nvtx, "range_push", fail)
    monkeypatch.setattr(ranges, "_nvtx", None)
    monkeypatch.setattr(ranges, "_nvtx_looked_for", False)
    with nvtx_range("prefill"):
        pass
    assert ranges._nvtx is None


def test_the_module_needs_no_torch() -> None:
    code = """
import sys
sys.modules["torch"] = None
from llmprof_harness import *
with nvtx_range("a"), step(batch=2, new_tokens=1, cached=7):
    pass
print(advise_nsys_cmd("x.py"), allocator_stats())
try:
    run_torch_profiler(print, steps=1)
except RuntimeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": "python"})
    assert done.returncode == 0, done.stderr
    assert "run_torch_profiler needs PyTorch" in done.stdout
