"""Torch's own profiler around a batch, and the trace that it leaves."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, supported_activities

from .failure import Failure
from .issues import Issues
from .requests import Profile

# How the trace is read to count what is in it.
CHUNK = 1 << 22
EVENT = b'"ph": "X"'
KERNEL = b'"cat": "kernel"'


class Recording:
    """Records while it is entered; nothing where no profile was asked for."""

    def __init__(self, asked: Profile | None, device: torch.device, issues: Issues) -> None:
        self.on = asked is not None
        self._issues = issues
        self._profiler: profile | None = None
        self._sees_device = False
        if asked is None:
            return
        activities = [ProfilerActivity.CPU] if "cpu" in asked.activities else []
        if "cuda" in asked.activities and device.type == "cuda":
            self._sees_device = ProfilerActivity.CUDA in supported_activities()
            activities += [ProfilerActivity.CUDA] if self._sees_device else []
        self._profiler = profile(
            activities=activities,
            record_shapes=asked.shapes,
            profile_memory=asked.memory,
            with_stack=asked.stacks,
            with_flops=asked.flops,
        )

    def __enter__(self) -> Recording:
        if self._profiler is not None:
            self._profiler.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._profiler is not None:
            self._profiler.stop()

    def write(self, path: str) -> dict[str, Any]:
        """Writes the trace; the answer is what the protocol says of an events file."""
        assert self._profiler is not None
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._profiler.export_chrome_trace(path)
        # Torch only logs it where it could not write to the end.
        if not Path(path).is_file():
            raise Failure("internal", f"torch's profiler did not write its trace {path}",
                          f"is there room where {Path(path).parent} is, and for files of that size?")
        events, kernels = count(path, EVENT), count(path, KERNEL) if self._sees_device else 1
        if kernels == 0:
            self._issues.add("warning", "torch_profiler.no_kernels", "torch's profiler recorded no kernel",
                             "another tool that uses CUPTI may be attached; run one at a time")
        return {"path": path, "format": "kineto_json", "events": events}


def count(path: str, what: bytes) -> int:
    """How often `what` is in a file, which may be larger than memory."""
    found, rest = 0, b""
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            text = rest + chunk
            found += text.count(what)
            rest = text[-(len(what) - 1) :]
    return found
