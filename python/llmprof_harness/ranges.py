"""Named ranges that every profiler sees: NVTX for `llmprof record` and Nsight, annotations for torch.profiler."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any

from ._torch import torch_or_none

_nvtx: Any = None
_nvtx_looked_for = False


class nvtx_range:  # noqa: N801 - the name that scripts import
    """A range around a block or a function: `with nvtx_range("prefill"): …` or `@nvtx_range("prefill")`.

    Without a GPU, or without a build of torch that has NVTX, only torch.profiler sees it; without torch nobody does.
    """

    __slots__ = ("_annotation", "_pushed", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._annotation: Any = None
        self._pushed = False

    def __enter__(self) -> nvtx_range:
        torch: Any = torch_or_none()
        if torch is not None and _is_torch_profiled(torch):
            self._annotation = torch.profiler.record_function(self.name)
            self._annotation.__enter__()
        nvtx = _find_nvtx()
        if nvtx is not None:
            nvtx.range_push(self.name)
            self._pushed = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pushed:
            self._pushed = False
            _nvtx.range_pop()
        if self._annotation is not None:
            annotation, self._annotation = self._annotation, None
            annotation.__exit__(kind, error, trace)

    def __call__(self, function: Any) -> Any:
        """The function inside a range, a new one for each call: calls may nest or run on several threads."""
        from functools import wraps

        name = self.name

        @wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with nvtx_range(name):
                return function(*args, **kwargs)

        return inside


def _is_torch_profiled(torch: Any) -> bool:
    """Whether torch.profiler may be recording: `record_function` costs 9 µs also where nothing does, this a tenth of one.

    True where it cannot be known: a torch without these names, or a daemon that starts profiles from outside.
    """
    if "KINETO_USE_DAEMON" in os.environ:
        return True
    return bool(getattr(torch.autograd.profiler, "_is_profiler_enabled", True)) or bool(
        # The legacy profilers, on this thread.
        getattr(torch.autograd, "_profiler_enabled", lambda: True)()
    )


def _find_nvtx() -> Any:
    """torch's NVTX, if it can be called: a build without CUDA has functions that raise."""
    global _nvtx, _nvtx_looked_for
    if not _nvtx_looked_for:
        _nvtx_looked_for = True
        torch: Any = torch_or_none()
        if torch is not None:
            try:
                from torch.cuda import nvtx

                nvtx.range_push("llmprof_harness")
                nvtx.range_pop()
                _nvtx = nvtx
            except (ImportError, AttributeError, RuntimeError):
                _nvtx = None
    return _nvtx
