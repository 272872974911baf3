"""Names for time ranges: phases, steps and modules.

On a CUDA device they are NVTX ranges, which cost about a microsecond each and are seen by whatever tool is attached.
While torch's profiler records they are its annotations, with the same names.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.profiler import record_function


class Ranges:
    """Opens and closes ranges. Where nobody could see them it does nothing."""

    def __init__(self, device: torch.device, recording: bool) -> None:
        self._nvtx = device.type == "cuda"
        self._recording = recording
        self._open: list[record_function] = []

    def push(self, name: str) -> None:
        if self._nvtx:
            torch.cuda.nvtx.range_push(name)
        if self._recording:
            annotation = record_function(name)
            annotation.__enter__()
            self._open.append(annotation)

    def pop(self) -> None:
        if self._recording:
            self._open.pop().__exit__(None, None, None)
        if self._nvtx:
            torch.cuda.nvtx.range_pop()

    @contextlib.contextmanager
    def range(self, name: str) -> Iterator[None]:
        self.push(name)
        try:
            yield
        finally:
            self.pop()

    @contextlib.contextmanager
    def modules(self, module: torch.nn.Module, wanted: bool) -> Iterator[None]:
        """A range for every call of a module inside `module`, named as `named_modules` names it."""
        hooks: list[Any] = []
        if wanted and (self._nvtx or self._recording):
            for name, one in module.named_modules():
                if name:
                    hooks.append(one.register_forward_pre_hook(self._opener(name)))
                    # Also after an error, so that ranges stay nested.
                    hooks.append(one.register_forward_hook(self._close, always_call=True))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _opener(self, name: str) -> Callable[..., None]:
        return lambda *_: self.push(name)

    def _close(self, *_: Any) -> None:
        self.pop()
