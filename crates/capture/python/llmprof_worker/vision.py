"""When an image tower ran inside prefill."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch

from .ranges import Ranges

# What models call their image tower.
NAMES = {"visual", "vision_tower", "vision_model", "vision_encoder", "vision"}


def tower_of(module: torch.nn.Module) -> torch.nn.Module | None:
    """The outermost module with such a name."""
    return next((one for name, one in module.named_modules() if name.split(".")[-1] in NAMES), None)


@contextlib.contextmanager
def watched(module: torch.nn.Module, ranges: Ranges, now: Callable[[], int]) -> Iterator[list[tuple[int, int]]]:
    """Start and end of every call of the tower. `now` waits for the device, so both lie on a phase boundary."""
    spans: list[tuple[int, int]] = []
    started: list[int] = []
    tower = tower_of(module)

    def before(*_: object) -> None:
        started.append(now())
        ranges.push("vision")

    def after(*_: object) -> None:
        ranges.pop()
        spans.append((started.pop(), now()))

    hooks = []
    if tower is not None:
        hooks = [tower.register_forward_pre_hook(before), tower.register_forward_hook(after, always_call=True)]
    try:
        yield spans
    finally:
        for hook in hooks:
            hook.remove()
